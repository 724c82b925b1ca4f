# SPDX-License-Identifier: Apache-2.0
"""settings_test.py - what the flags of `mote serve` decide for requests that do not say."""
from serve_rig import FACT, case, equal, post, run

CHAT = "/v1/chat/completions"
BILLING = "x-anthropic-billing-header: cch=1"


def body(text=FACT, **more):
    return {"temperature": 1, "max_tokens": 40, "messages": [{"role": "user", "content": text}], **more}


def thinking(server, path=CHAT, **more):
    return post(server, path, body(**more))["mote"]["thinking"]


@case
def thinking_is_on_unless_a_request_says_otherwise(server):
    for got in (thinking(server), thinking(server, "/v1/messages", model="m"),
                post(server, "/v1/responses", {"input": FACT, "max_output_tokens": 40})["mote"]["thinking"],
                thinking(server, "/api/chat", model=server.model, stream=False, options={"num_predict": 40})):
        equal((got["mode"], got["source"]), ("on", "server"))
    for more, source in (({"reasoning_effort": "none"}, "reasoning_effort"), ({"model": "m:nothink"}, "model"),
                         ({"enable_thinking": False}, "enable_thinking")):
        got = thinking(server, **more)
        equal((got["mode"], got["source"]), ("off", source))


@case
def the_amount_is_the_flags_too(server):
    equal(thinking(server, max_tokens=400)["budget"], 99)
    equal(thinking(server, max_tokens=400, thinking_budget=50)["budget"], 50)
    assert thinking(server, max_tokens=4000, reasoning_effort="low")["budget"] > 99


@case
def a_switch_at_the_end_is_a_word(server):
    reply = post(server, CHAT, body("Hello /no_think"))
    equal((reply["mote"]["thinking"]["mode"], reply["mote"]["warnings"]), ("on", []))
    assert "Hello /no_think<|im_end|>" in post(server, "/apply-template", body("Hello /no_think"))["prompt"]


@case
def a_billing_header_stays(server):
    sent = body(model="m", system=[{"type": "text", "text": BILLING}, {"type": "text", "text": "Be brief."}])
    codes = [w["code"] for w in post(server, "/v1/messages", sent)["mote"]["warnings"]]
    equal(codes, ["model_substituted"])
    short = {**sent, "system": [sent["system"][1]]}
    assert (post(server, "/v1/messages/count_tokens", sent)["input_tokens"] >
            post(server, "/v1/messages/count_tokens", short)["input_tokens"])


if __name__ == "__main__":
    run("--think", "99", "--no-soft-switch", "--keep-volatile")
