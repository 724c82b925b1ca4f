# SPDX-License-Identifier: Apache-2.0
"""settings_test.py - flags of `mote serve` that set defaults of requests."""
import tempfile

from api_rig import FACT, case, equal, post, run

CHAT = "/v1/chat/completions"
SYSTEM = "You speak as a sailor would."
BILLING = "x-anthropic-billing-header: cch=1"


def body(text=FACT, **more):
    return {"temperature": 1, "seed": 7, "max_tokens": 40, "messages": [{"role": "user", "content": text}], **more}


def thinking(server, path=CHAT, **more):
    return post(server, path, body(**more))["mote"]["thinking"]


@case
def thinking_default(server):
    for got in (thinking(server), thinking(server, "/v1/messages", model="m"),
                post(server, "/v1/responses", {"input": FACT, "max_output_tokens": 40})["mote"]["thinking"],
                thinking(server, "/api/chat", model=server.model, stream=False, options={"num_predict": 40})):
        equal((got["mode"], got["source"]), ("on", "server"))
    for more, source in (({"reasoning_effort": "none"}, "reasoning_effort"), ({"model": "m:nothink"}, "model"),
                         ({"enable_thinking": False}, "enable_thinking")):
        got = thinking(server, **more)
        equal((got["mode"], got["source"]), ("off", source))


@case
def thinking_budget_default(server):
    equal(thinking(server, max_tokens=400)["budget"], 99)
    equal(thinking(server, max_tokens=400, thinking_budget=50)["budget"], 50)
    assert thinking(server, max_tokens=4000, reasoning_effort="low")["budget"] > 99


@case
def soft_switch_can_be_disabled(server):
    reply = post(server, CHAT, body("Hello /no_think"))
    equal(reply["mote"]["thinking"]["mode"], "on")
    assert all(w["code"] != "soft_switch" for w in reply["mote"]["warnings"]), reply["mote"]["warnings"]
    assert "Hello /no_think<|im_end|>" in post(server, "/apply-template", body("Hello /no_think"))["prompt"]


@case
def preset_default(server):
    def preset(**more):
        return post(server, CHAT, body(**more))["mote"]["preset"].split("/")[-1]
    equal(preset(), "coding")
    equal(post(server, "/v1/responses", {"input": FACT, "max_output_tokens": 9})["mote"]["preset"].split("/")[-1], "coding")
    equal(preset(preset="general"), "general")
    equal(preset(preset="auto"), "general")


@case
def system_message_default(server):
    def prompt(*talk, **more):
        messages = [{"role": role, "content": text} for role, text in talk]
        return post(server, "/apply-template", {"messages": messages, **more})["prompt"]
    own = "<|im_start|>system\n" + SYSTEM + "<|im_end|>\n"
    asked = prompt(("user", FACT))
    equal((asked.startswith(own), asked.count("<|im_start|>system")), (True, 1))
    assert prompt(("user", FACT), ("assistant", "The owl."), ("user", "Thanks")).startswith(own)
    for role in ("system", "developer"):
        assert SYSTEM not in prompt((role, "Be kind."), ("user", FACT))
    length = post(server, "/v1/chat/completions/input_tokens", {"messages": [{"role": "user", "content": FACT}]})
    for path, sent in (("/v1/messages/count_tokens", body(model="m")), ("/v1/responses/input_tokens", {"input": FACT})):
        equal(post(server, path, sent)["input_tokens"], length["input_tokens"])
    for more, included in (({}, True), ({"system": "Be kind."}, False)):
        shown = post(server, "/api/generate", {"model": server.model, "prompt": FACT, "_debug_render_only": True, **more})
        equal(SYSTEM in shown["_debug_info"]["rendered_template"], included)
    first = post(server, "/v1/responses", {"input": FACT, "max_output_tokens": 9})
    again = post(server, "/v1/responses", {"input": "Thanks", "max_output_tokens": 9, "previous_response_id": first["id"]})
    assert again["usage"]["input_tokens"] > first["usage"]["input_tokens"]


@case
def billing_header_is_kept(server):
    sent = body(model="m", system=[{"type": "text", "text": BILLING}, {"type": "text", "text": "Be brief."}])
    codes = [w["code"] for w in post(server, "/v1/messages", sent)["mote"]["warnings"]]
    equal(codes, ["model_substituted"])
    short = {**sent, "system": [sent["system"][1]]}
    assert (post(server, "/v1/messages/count_tokens", sent)["input_tokens"] >
            post(server, "/v1/messages/count_tokens", short)["input_tokens"])


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(SYSTEM + "\n")
        file.flush()
        run("--think", "99", "--no-soft-switch", "--keep-billing-header", "--preset", "coding", "--system", "@" + file.name)
