# SPDX-License-Identifier: Apache-2.0
"""openai_chat_test.py - /v1/chat/completions: recorded bytes, stream equals reply, tools, thinking, reuse."""
import http.client
import json
import re
import threading
import time

from golden import same_as_golden
from api_rig import (FACT, FACT_ANSWER, LONG, PATIENCE, POINT, POINT_SCHEMA, SUM, SUM_ANSWER, WEATHER, WEATHER_ANSWER,
                       WEATHER_RESULT, WEATHER_TOOL, case, equal, post, request, run, sse)

CHAT = "/v1/chat/completions"


def body(text=FACT, **more):
    return {"temperature": 0, "presence_penalty": 0, "messages": [{"role": "user", "content": text}], **more}


def chunks(events):
    """Returns the JSON of all events. The last event must be [DONE]. Checks the rules of chunks."""
    equal(events[-1], (None, "[DONE]"))
    parsed = [json.loads(data) for name, data in events[:-1] if equal(name, None) is None]
    first = parsed[0]
    for chunk in parsed:
        for key in ("id", "created", "model", "object", "system_fingerprint"):
            equal(chunk[key], first[key])
        assert isinstance(chunk["choices"], list)
    return parsed


def joined(parsed):
    """Joins chunks to {index: message}, as a client does."""
    choices = {}
    for chunk in parsed:
        for c in chunk["choices"]:
            delta = c["delta"]
            if "role" in delta:
                assert c["index"] not in choices
                choices[c["index"]] = {"content": "", "reasoning": "", "calls": [], "finish": None, "logprobs": []}
            m = choices[c["index"]]
            equal(m["finish"], None)
            m["content"] += delta.get("content", "")
            m["reasoning"] += delta.get("reasoning_content", "")
            equal(delta.get("reasoning_content"), delta.get("reasoning"))
            for call in delta.get("tool_calls", []):
                add_call(m["calls"], call)
            m["logprobs"] += c["logprobs"]["content"] if c["logprobs"] else []
            m["finish"] = c["finish_reason"]
            if m["finish"]:
                equal(delta, {})
    return choices


def add_call(calls, piece):
    if piece["index"] == len(calls):
        equal(piece["type"], "function")
        equal(piece["function"]["arguments"], "")
        calls.append({"id": piece["id"], "name": piece["function"]["name"], "arguments": ""})
    else:
        equal(set(piece), {"index", "function"})
        equal(set(piece["function"]), {"arguments"})
    calls[piece["index"]]["arguments"] += piece["function"]["arguments"]


def plain(choice):
    m = choice["message"]
    return {"content": m["content"] or "", "reasoning": m.get("reasoning_content", ""),
            "calls": [{"name": c["function"]["name"], "arguments": c["function"]["arguments"]}
                      for c in m.get("tool_calls", [])], "finish": choice["finish_reason"],
            "logprobs": choice["logprobs"]["content"] if choice["logprobs"] else []}


def without_ids(message):
    return {**message, "calls": [{k: c[k] for k in ("name", "arguments")} for c in message["calls"]]}


def both(server, **more):
    """Sends a request with and without stream, compares both, returns the reply."""
    whole = post(server, CHAT, {"seed": 5, **body(**more)})
    streamed = chunks(sse(server, CHAT, {"seed": 5, **body(**more), "stream": True}))
    got = joined(streamed)
    for choice in whole["choices"]:
        equal(without_ids(got[choice["index"]]), plain(choice))
    last = [c for c in streamed if c["choices"] and c["choices"][0]["finish_reason"]][-1]
    for key in ("prompt_tokens", "completion_tokens", "total_tokens", "completion_tokens_details"):
        equal(last["usage"][key], whole["usage"][key])
    return whole


@case
def recorded_reply(server):
    _, headers, data = request(server, "POST", CHAT, body())
    same_as_golden("openai_chat_reply", data.decode(), server.model)
    equal(headers["content-type"], "application/json; charset=utf-8")
    equal(headers["mote-model"], server.model)
    assert headers["openai-processing-ms"].isdigit()
    assert headers["x-request-id"] == headers["request-id"]


@case
def recorded_stream(server):
    for name, more in (("plain", {}), ("usage", {"stream_options": {"include_usage": True}}),
                       ("call", {"text": WEATHER, "tools": [WEATHER_TOOL]}),
                       ("think", {"text": SUM, "reasoning_effort": "low", "max_tokens": 40})):
        _, _, data = request(server, "POST", CHAT, {**body(**more), "stream": True})
        same_as_golden("openai_chat_stream_" + name, data.decode(), server.model)


@case
def stream_equals_reply(server):
    equal(both(server)["choices"][0]["message"]["content"], FACT_ANSWER)
    both(server, text=WEATHER, tools=[WEATHER_TOOL])
    reply = both(server, text=SUM, reasoning_effort="medium")
    equal(reply["choices"][0]["message"]["content"], SUM_ANSWER)
    assert reply["usage"]["completion_tokens_details"]["reasoning_tokens"] > 10
    both(server, temperature=1.5, n=3, max_tokens=30, logprobs=True, top_logprobs=3)
    both(server, text=POINT, response_format={"type": "json_schema", "json_schema": {"schema": POINT_SCHEMA}})
    both(server, stop=["owl"])
    both(server, max_tokens=3)
    both(server, text=SUM, reasoning_effort="low", reasoning_format="none")


@case
def finish_reasons(server):
    for more, reason, cause in (({}, "stop", "eos"), ({"stop": "emblem"}, "stop", "stop"),
                                ({"max_tokens": 2}, "length", "max_tokens"),
                                ({"ignore_eos": True, "num_ctx": 256}, "length", "context"),
                                ({"text": WEATHER, "tools": [WEATHER_TOOL]}, "tool_calls", "tool_calls"),
                                ({"ignore_eos": True, "t_max_predict_ms": 1}, "length", "deadline")):
        reply = post(server, CHAT, body(**more))
        if cause == "context" and reply["mote"]["stop"]["cause"] == "loop":
            continue  # the loop detector may stop it before the context is full
        equal((reply["choices"][0]["finish_reason"], reply["mote"]["stop"]["cause"]), (reason, cause))
    assert post(server, CHAT, body(stop="emblem"))["choices"][0]["message"]["content"] == "The "
    # A time limit during prefill: speeds count what was computed, and no time of decode.
    reply = post(server, CHAT, body("owl " * 6000, t_max_predict_ms=1))
    times, prompt = reply["timings"], reply["usage"]["prompt_tokens"]
    assert times["prompt_n"] < prompt - times["cache_n"], times
    equal((reply["mote"]["cache"]["prefilled"], times["predicted_n"], times["predicted_ms"]), (times["prompt_n"], 0, 0))


@case
def tool_calls_and_results(server):
    reply = post(server, CHAT, body(WEATHER, tools=[WEATHER_TOOL]))
    message = reply["choices"][0]["message"]
    equal(message["content"], None)
    call = message["tool_calls"][0]
    equal(json.loads(call["function"]["arguments"])["city"], "Haldon")
    talk = [{"role": "user", "content": WEATHER}, message,
            {"role": "tool", "tool_call_id": call["id"], "content": WEATHER_RESULT}]
    reply = post(server, CHAT, body(messages=talk, tools=[WEATHER_TOOL]))
    equal(reply["choices"][0]["message"]["content"], WEATHER_ANSWER)


@case
def tool_choices(server):
    other = {"type": "function", "function": {"name": "other", "parameters": {
        "type": "object", "properties": {}, "additionalProperties": False}}}
    tools = [WEATHER_TOOL, other]

    def called(**more):
        message = post(server, CHAT, body(tools=tools, max_tokens=200, **more))["choices"][0]["message"]
        return [c["function"]["name"] for c in message.get("tool_calls", [])]
    equal(called(text=WEATHER, tool_choice="none"), [])
    equal(called(tool_choice={"type": "function", "function": {"name": "other"}})[:1], ["other"])
    equal(called(text="Hi"), [])
    assert called(text="Hi", tool_choice="required")
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
        {"type": "function", "function": {"name": "other"}}]}}
    equal(set(called(text=WEATHER, tool_choice=allowed)), {"other"})
    old = post(server, CHAT, body(WEATHER, functions=[WEATHER_TOOL["function"]],
                                  function_call={"name": "get_weather"}))
    equal(old["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "get_weather")
    reply = post(server, CHAT, body(tools=[{"type": "web_search"}], tool_choice="required"))
    assert {"code": "tool_type_ignored", "at": "web_search"} in reply["mote"]["warnings"]
    empty = both(server, tools=[other], tool_choice={"type": "function", "function": {"name": "other"}},
                 parallel_tool_calls=False)
    equal(empty["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], "{}")


@case
def response_formats(server):
    def said(**more):
        return post(server, CHAT, body(POINT, max_tokens=200, **more))["choices"][0]["message"]["content"]
    equal(set(json.loads(said(response_format={"type": "json_schema", "json_schema": {
        "name": "p", "schema": POINT_SCHEMA, "strict": True}}))), {"x", "y"})
    assert isinstance(json.loads(said(response_format={"type": "json_object"})), dict)
    assert said(choice=["alpha", "beta"]) in ("alpha", "beta")
    assert said(regex="[0-9]{3}-[a-c]").count("-") == 1
    equal(set(json.loads(said(structured_outputs={"json": POINT_SCHEMA}))), {"x", "y"})
    grammar = 'root ::= pair "=" pair # two\npair ::= "(" [0-9]{2} ")"'
    for more in ({"grammar": grammar}, {"structured_outputs": {"grammar": grammar}}):
        assert re.fullmatch(r"\([0-9]{2}\)=\([0-9]{2}\)", said(**more)), more
    reply = post(server, CHAT, body(POINT, json_schema=POINT_SCHEMA))
    equal(reply["mote"]["schema"], {"enforced": True, "valid": True})


@case
def thinking_respects_max_tokens(server):
    """The closing tag counts. With a small max_tokens, thinking is skipped so that the answer is not empty."""
    for most in (1, 3, 12, 40, 80):
        reply = post(server, CHAT, body(SUM, think=True, max_tokens=most))
        assert reply["usage"]["completion_tokens"] <= most, (most, reply)
        assert reply["choices"][0]["message"]["content"], (most, reply)


@case
def thinking_settings(server):
    for more, mode, source in (({}, "off", "default"), ({"reasoning_effort": "low"}, "on", "reasoning_effort"),
                               ({"reasoning_effort": "none"}, "off", "reasoning_effort"),
                               ({"chat_template_kwargs": {"enable_thinking": True}}, "on",
                                "chat_template_kwargs.enable_thinking"),
                               ({"reasoning": {"effort": "low"}}, "on", "reasoning.effort"),
                               ({"thinking": {"type": "enabled"}}, "on", "thinking.type"),
                               ({"thinking": {"type": "disabled"}}, "off", "thinking.type"),
                               ({"think": True}, "on", "think"), ({"think": "low"}, "on", "think"),
                               ({"thinking_budget": 8}, "on", "thinking_budget")):
        got = post(server, CHAT, body(SUM, max_tokens=300, **more))["mote"]["thinking"]
        equal((got["mode"], got["source"]), (mode, source))
    reply = post(server, CHAT, body(SUM, model="mote-tiny-BF16:think", max_tokens=300))
    equal(reply["mote"]["thinking"]["mode"], "on")
    reply = post(server, CHAT, body(SUM + " /think", max_tokens=300))
    equal(reply["mote"]["thinking"]["mode"], "on")
    assert any(w["code"] == "soft_switch" for w in reply["mote"]["warnings"])


@case
def warnings(server):
    for more, code, at in (({"reasoning_effort": "low"}, "greedy_thinking", "temperature"),
                           ({"chat_template_kwargs": {"new": 1}}, "unknown_field", "/chat_template_kwargs/new"),
                           ({"reasoning_effort": "low", "enable_thinking": False}, "thinking_conflict", "enable_thinking")):
        got = post(server, CHAT, body(SUM, max_tokens=8, **more))["mote"]["warnings"]
        assert {"code": code, "at": at} in got, got


@case
def repeat_last_n_and_typical_p(server):
    """repeat_last_n 0 disables the penalty, -1 changes the answer. The most likely token is not always the typical
    one."""
    def said(**more):
        reply = post(server, CHAT, body("Tell me a story", max_tokens=60, ignore_eos=True, **more))
        return reply["choices"][0]["message"]["content"]
    plain = said()
    equal(said(repetition_penalty=2, repeat_last_n=0), plain)
    windows = [said(repetition_penalty=2, **more) for more in
               ({}, {"repeat_last_n": 64}, {"repeat_last_n": -1}, {"repeat_last_n": 16})]
    equal(windows[0], windows[1])
    equal(windows[0], windows[2])  # the window is longer than the answer
    assert windows[3] not in (plain, windows[0])
    drawn = {"temperature": 1.5, "seed": 3, "top_k": 0, "top_p": 1}
    equal(said(**drawn, typical_p=1), said(**drawn))
    assert said(**drawn, typical_p=0.1) != said(**drawn)


@case
def timeout_header(server):
    reply = post(server, CHAT, body(ignore_eos=True), headers={"Mote-Timeout-Ms": "1"})
    equal(reply["mote"]["stop"]["cause"], "deadline")


@case
def assistant_message_is_continued(server):
    talk = [{"role": "user", "content": FACT}, {"role": "assistant", "content": "The emblem of"}]
    equal(post(server, CHAT, body(messages=talk))["choices"][0]["message"]["content"], FACT_ANSWER[len("The emblem of"):])
    other = post(server, CHAT, body(messages=talk, continue_final_message=False))
    assert other["usage"]["prompt_tokens"] > post(server, CHAT, body(messages=talk))["usage"]["prompt_tokens"]


@case
def unusual_conversations(server):
    """Unusual conversations that clients send must be accepted."""
    part = {"type": "text", "text": "Hi"}
    for talk in ([{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, {"role": "USER", "content": [part, part]}],
                 [{"role": "user", "content": None}], [{"role": "user"}], [{"role": "system", "content": "only"}],
                 [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
                 [{"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {
                     "name": "f", "arguments": {"a": 1}}}]}, {"role": "tool", "content": [part]}],
                 [{"role": "user", "content": "<|im_end|><think></tool_call>"}],
                 [{"role": "user", "content": "a"}, {"role": "system", "content": "late"}, {"role": "user", "content": "\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace")}],
                 [{"role": "assistant", "content": "a", "refusal": None, "reasoning_content": "hm"}, {"role": "user", "content": ""}]):
        post(server, CHAT, body(messages=talk, max_tokens=2))


@case
def malformed_call_in_history(server):
    """Clients send the history with every request, so a malformed call in it must not fail the conversation."""
    for arguments in ('{"city": "Par', "[1]", "Paris"):
        call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
        messages = [{"role": "user", "content": WEATHER}, {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "call_1", "content": "bad arguments"}]
        reply = post(server, CHAT, body(messages=messages, tools=[WEATHER_TOOL], max_tokens=4))
        equal([w["code"] for w in reply["mote"]["warnings"]], ["arguments_not_json"])
        prompt = post(server, "/apply-template", {"messages": messages})["prompt"]
        assert f"<function=get_weather>\n<parameter=arguments>\n{arguments}\n</parameter>" in prompt, prompt
        items = [{"role": "user", "content": WEATHER},
                 {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": arguments},
                 {"type": "function_call_output", "call_id": "call_1", "output": "bad arguments"}]
        counted = post(server, "/v1/responses/input_tokens", {"input": items})["input_tokens"]
        equal(counted, post(server, CHAT + "/input_tokens", {"messages": messages})["input_tokens"])


@case
def duplicate_members(server):
    """The last duplicate member wins, with a warning."""
    text = json.dumps(body(max_tokens=2))
    reply = json.loads(request(server, "POST", CHAT, (text[:-1] + ', "max_tokens": 3}').encode())[2])
    equal((reply["usage"]["completion_tokens"], reply["mote"]["warnings"]), (3, [{"code": "duplicate_key", "at": "/"}]))
    equal(post(server, CHAT, body(max_tokens=2))["mote"]["warnings"], [])


@case
def structured_outputs_are_counted(server):
    name = "mote_structured_output_requests_total"
    before = server.metric(name)
    post(server, CHAT, body(POINT, json_schema=POINT_SCHEMA))
    sse(server, CHAT, body(choice=["yes"], stream=True))
    post(server, CHAT, body())
    equal(server.metric(name), before + 2)


@case
def older_names_of_response_formats(server):
    """Older field names of response formats must be enforced, not ignored."""
    equal(post(server, CHAT, body(guided_choice=["maybe"]))["choices"][0]["message"]["content"], "maybe")
    equal(post(server, CHAT, body(guided_regex="a{3}"))["choices"][0]["message"]["content"], "aaa")
    json.loads(post(server, CHAT, body(guided_json=POINT_SCHEMA, max_tokens=60))["choices"][0]["message"]["content"])
    equal(post(server, CHAT, body(guided_grammar='root ::= "b"{4}'))["choices"][0]["message"]["content"], "bbbb")
    equal(post(server, CHAT, body(guided_grammar='root ::= "a"', regex="b"), 400)["error"]["param"], "guided_grammar")
    equal(post(server, CHAT, body(guided_regex="a", regex="b"), 400)["error"]["param"], "guided_regex")


@case
def prefix_reuse_in_a_conversation(server):
    talk = [{"role": "system", "content": "You answer questions about towns. " * 20}, {"role": "user", "content": FACT}]
    read = []
    for question in (FACT, SUM, "And the emblem of Orvia?", SUM):
        talk[-1] = {"role": "user", "content": question}
        reply = post(server, CHAT, body(messages=talk, reasoning_effort="low", max_tokens=300))
        read.append(reply["mote"]["cache"])
        equal(reply["usage"]["prompt_tokens_details"]["cached_tokens"], reply["mote"]["cache"]["reused"])
        equal(reply["mote"]["cache"]["reused"] + reply["mote"]["cache"]["prefilled"], reply["usage"]["prompt_tokens"])
        message = reply["choices"][0]["message"]
        # as clients send it back: without thinking
        talk += [{"role": "assistant", "content": message["content"]}, None]
    for cache in read[1:]:
        assert cache["reused"] > 0.6 * cache["prompt"], read
        assert cache["prefilled"] <= 64 + 32, read
    fresh = post(server, CHAT, body(messages=talk[:2], cache_prompt=False))
    equal(fresh["mote"]["cache"]["reused"], 0)


@case
def batched_answers_equal_single_ones(server):
    wanted = {}
    asked = [body(text, seed=i, temperature=0.8, max_tokens=40) for i, text in enumerate((FACT, SUM, POINT, WEATHER) * 4)]
    for i, q in enumerate(asked):
        wanted[i] = plain(post(server, CHAT, q)["choices"][0])
    got = {}

    def work(i):
        got[i] = without_ids(joined(chunks(sse(server, CHAT, {**asked[i], "stream": True})))[0])
    threads = [threading.Thread(target=work, args=(i,)) for i in wanted]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal(got, wanted)


@case
def first_choice_equals_single_answer(server):
    more = {"text": "Tell me a story.", "temperature": 2, "top_k": 0, "top_p": 1, "seed": 11, "max_tokens": 20}
    alone = plain(post(server, CHAT, body(**more))["choices"][0])
    many = post(server, CHAT, body(n=8, **more))["choices"]
    equal([c["index"] for c in many], list(range(8)))
    equal(len({c["message"]["content"] for c in many}), 8)
    equal(plain(many[0]), alone)
    equal(plain(many[2]), plain(post(server, CHAT, body(**{**more, "seed": 13}))["choices"][0]))


@case
def logprobs_match_the_text(server):
    reply = post(server, CHAT, body(logprobs=True, top_logprobs=2))
    listed = reply["choices"][0]["logprobs"]["content"]
    assert b"".join(bytes(t["bytes"]) for t in listed).decode() == FACT_ANSWER, listed
    for t in listed:
        equal(len(t["top_logprobs"]), 2)
        equal(t["top_logprobs"][0]["token"], t["token"])  # greedy
        assert t["top_logprobs"][0]["logprob"] >= t["top_logprobs"][1]["logprob"]
        assert t["logprob"] <= 0
    thought = post(server, CHAT, body(SUM, logprobs=True, reasoning_effort="low", max_tokens=300))["choices"][0]
    text = b"".join(bytes(t["bytes"]) for t in thought["logprobs"]["content"]).decode()
    equal(text.strip(), thought["message"]["content"])


def wait_until_idle(server):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        slots = server.get("/slots")
        if not any(s["is_processing"] for s in slots):
            return True
        time.sleep(0.01)
    return False


@case
def disconnect_frees_the_slot(server):
    for lines in (1, 3, 8):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        connection.request("POST", CHAT, json.dumps(body(stream=True, ignore_eos=True, temperature=1, max_tokens=20000)),
                           {"Content-Type": "application/json", "Authorization": "Bearer " + server.key})
        reply = connection.getresponse()
        for _ in range(lines):
            reply.readline()
        reply.close()
        connection.close()
        assert wait_until_idle(server), server.get("/slots")
    equal(post(server, CHAT, body())["choices"][0]["message"]["content"], FACT_ANSWER)


@case
def prefill_progress(server):
    events = chunks(sse(server, CHAT, body(LONG[:8000], stream=True, return_progress=True, max_tokens=2, cache_prompt=False)))
    progress = [c["prompt_progress"] for c in events if "prompt_progress" in c]
    assert progress and progress[0]["total"] > 500 and progress[0]["processed"] <= progress[0]["total"], progress


@case
def input_tokens(server):
    counted = post(server, CHAT + "/input_tokens", body())["input_tokens"]
    equal(counted, post(server, CHAT, body())["usage"]["prompt_tokens"])


@case
def mote_object_can_be_disabled(server):
    assert "mote" not in post(server, CHAT, body(), headers={"Mote-Ext": "0"})
    equal(len([1 for _, d in sse(server, CHAT, body(stream=True), {"Mote-Ext": "0"}) if '"mote":' in d]), 0)


@case
def unknown_model_name_is_accepted(server):
    for name in ("gpt-4o", "/etc/passwd", "../../x"):
        reply = post(server, CHAT, body(model=name))
        equal(reply["model"], server.model)
        assert {"code": "model_substituted", "at": name} in reply["mote"]["warnings"]
    for name in (server.model, server.model.upper(), "Some/" + server.model, server.model + ":latest", None):
        equal(post(server, CHAT, body(model=name))["mote"]["warnings"], [])


if __name__ == "__main__":
    run()
