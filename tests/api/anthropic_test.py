# SPDX-License-Identifier: Apache-2.0
"""anthropic_test.py - /v1/messages and count_tokens: recorded bytes, stream equals reply, errors, unusual input."""
import json
import re

from api_rig import (FACT, FACT_ANSWER, LONG, POINT, POINT_SCHEMA, SUM, WEATHER, WEATHER_ANSWER,
                       WEATHER_RESULT, WEATHER_SCHEMA, case, equal, normal, post, request, run, sse)

MESSAGES = "/v1/messages"
TOOL = {"name": "get_weather", "description": "Get the weather of a city",
        "input_schema": WEATHER_SCHEMA}


def body(text=FACT, **more):
    return {"model": "claude-any", "max_tokens": 64, "temperature": 0,
            "messages": [{"role": "user", "content": text}], **more}


def joined(events):
    """Joins a stream to the message a client would build, and checks the order of blocks."""
    message, open_block, kinds = None, None, []
    for name, data in events:
        data = json.loads(data)
        equal(data["type"], name)
        kinds.append(name)
        if name == "message_start":
            message = data["message"]
            equal(message["content"], [])
        elif name == "content_block_start":
            equal(open_block, None)
            open_block = data["index"]
            equal(open_block, len(message["content"]))
            message["content"].append(dict(data["content_block"]))
        elif name == "content_block_delta":
            equal(data["index"], open_block)
            add_delta(message["content"][open_block], data["delta"])
        elif name == "content_block_stop":
            equal(data["index"], open_block)
            block = message["content"][open_block]
            if block["type"] == "tool_use":
                block["input"] = json.loads(block.pop("json"))
            open_block = None
        elif name == "message_delta":
            message.update(data["delta"])
            message["usage"].update(data["usage"])
            message["mote"] = data["mote"]
    equal(kinds[0], "message_start")
    equal(kinds[-2:], ["message_delta", "message_stop"])
    return message


def add_delta(block, delta):
    if delta["type"] == "text_delta":
        block["text"] += delta["text"]
    elif delta["type"] == "thinking_delta":
        equal(block["signature"], "")
        block["thinking"] += delta["thinking"]
    elif delta["type"] == "signature_delta":
        equal(block["signature"], "")
        assert delta["signature"]
        block["signature"] = delta["signature"]
    else:
        equal(delta["type"], "input_json_delta")
        block["json"] = block.get("json", "") + delta["partial_json"]


def plain(message):
    """Returns the members that a stream and a reply have in common."""
    blocks = []
    for block in message["content"]:
        kind = block["type"]
        blocks.append((kind, block.get("text"), block.get("thinking"), block.get("name"),
                       block.get("input")))
    usage = message["usage"]
    total = usage["input_tokens"] + usage["cache_read_input_tokens"]
    return (blocks, message["stop_reason"], message["stop_sequence"], total,
            usage["output_tokens"], usage["output_tokens_details"])


@case
def reply_without_stream(server):
    reply = post(server, MESSAGES, body())
    equal(list(reply), ["id", "type", "role", "model", "content", "stop_reason", "stop_sequence",
                        "usage", "mote"])
    equal(reply["type"], "message")
    equal(reply["role"], "assistant")
    equal(reply["content"], [{"type": "text", "text": FACT_ANSWER}])
    equal(reply["stop_reason"], "end_turn")
    assert reply["id"].startswith("msg_")
    equal(list(reply["usage"]), ["input_tokens", "cache_creation_input_tokens",
                                 "cache_read_input_tokens", "output_tokens",
                                 "output_tokens_details", "service_tier"])
    equal(reply["mote"]["stop"]["cause"], "eos")
    assert {"code": "model_substituted", "at": "claude-any"} in reply["mote"]["warnings"]


STREAM = """\
event: message_start
data: {"type":"message_start","message":{"id":"msg_ID","type":"message","role":"assistant",\
"model":"MODEL","content":[],"stop_reason":null,"stop_sequence":null,\
"usage":{"input_tokens":N,"cache_creation_input_tokens":0,\
"cache_read_input_tokens":0,"output_tokens":1,"service_tier":"standard"}}}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

DELTAS
event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},\
"usage":{"input_tokens":N,"cache_creation_input_tokens":0,\
"cache_read_input_tokens":N,"output_tokens":N,"output_tokens_details":{"thinking_tokens":0}},\
"mote":{}}

event: message_stop
data: {"type":"message_stop"}

"""


@case
def stream_bytes(server):
    status, headers, data = request(server, "POST", MESSAGES, body(stream=True))
    equal(status, 200)
    equal(headers["content-type"], "text/event-stream; charset=utf-8")
    equal(headers["cache-control"], "no-cache")
    equal(headers["x-accel-buffering"], "no")
    assert headers["request-id"].startswith("req_")
    text = "\n".join(normal(line, server.model) for line in data.decode().split("\n")
                     if not line.startswith(":"))
    delta = re.compile(r'event: content_block_delta\ndata: \{"type":"content_block_delta",'
                       r'"index":0,"delta":\{"type":"text_delta","text":("(?:[^"\\]|\\.)*")\}\}\n\n')
    equal("".join(json.loads(piece) for piece in delta.findall(text)), FACT_ANSWER)
    text = delta.sub("", text).replace("event: content_block_stop", "DELTAS\nevent: content_block_stop")
    text = re.sub(r'"(input|output|cache_read_input)_tokens":(?!(0,"output_tokens":)?1,"service)[0-9]+',
                  r'"\1_tokens":N', text)
    equal(text.split("\n"), STREAM.split("\n"))


@case
def stream_equals_reply(server):
    thinking = {"type": "enabled", "budget_tokens": 32}
    for request_body in (body(), body(SUM), body(WEATHER, tools=[TOOL]),
                         body(WEATHER, tools=[TOOL], tool_choice={"type": "any"}),
                         body(SUM, thinking=thinking, max_tokens=200),
                         body(POINT, output_config={"format": {"type": "json_schema",
                                                               "schema": POINT_SCHEMA}}),
                         body(stop_sequences=["owl"]), body(max_tokens=3)):
        whole = post(server, MESSAGES, request_body)
        streamed = joined(sse(server, MESSAGES, {**request_body, "stream": True}))
        equal(plain(streamed), plain(whole))


@case
def thinking(server):
    reply = post(server, MESSAGES, body(SUM, max_tokens=300,
                                        thinking={"type": "enabled", "budget_tokens": 64}))
    first, second = reply["content"][:2]
    equal((first["type"], second["type"]), ("thinking", "text"))
    assert first["signature"] and first["thinking"]
    equal(reply["mote"]["thinking"]["source"], "thinking.type")
    assert reply["usage"]["output_tokens_details"]["thinking_tokens"] > 0
    hidden = post(server, MESSAGES, body(SUM, max_tokens=300, thinking={
        "type": "enabled", "budget_tokens": 64, "display": "omitted"}))
    equal(hidden["content"][0]["thinking"], "")
    assert hidden["content"][0]["signature"]
    equal(hidden["content"][1], second)
    events = sse(server, MESSAGES, body(SUM, max_tokens=300, stream=True, thinking={
        "type": "enabled", "budget_tokens": 64, "display": "omitted"}))
    assert not any("thinking_delta" in data for _, data in events)
    equal(sum("signature_delta" in data for _, data in events), 1)
    off = post(server, MESSAGES, body(SUM, thinking={"type": "disabled"}))
    equal([b["type"] for b in off["content"]], ["text"])


@case
def tools_round_trip(server):
    asked = post(server, MESSAGES, body(WEATHER, tools=[TOOL]))
    equal(asked["stop_reason"], "tool_use")
    call = asked["content"][-1]
    equal((call["type"], call["name"], call["input"]), ("tool_use", "get_weather", {"city": "Haldon"}))
    equal(call["caller"], {"type": "direct"})
    assert call["id"].startswith("toolu_")
    history = [{"role": "user", "content": WEATHER}, {"role": "assistant", "content": asked["content"]},
               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"],
                                             "content": [{"type": "text", "text": WEATHER_RESULT}]}]}]
    answered = post(server, MESSAGES, body(tools=[TOOL]) | {"messages": history})
    equal(answered["content"][0]["text"], WEATHER_ANSWER)
    assert answered["usage"]["cache_read_input_tokens"] > 0


@case
def forms_of_tool_results(server):
    """Compares the rendered prompts of the forms a tool result can have."""
    def prompt(*blocks):
        history = [{"role": "user", "content": WEATHER},
                   {"role": "assistant", "content": [
                       {"type": "redacted_thinking", "data": "x"},
                       {"type": "tool_use", "id": "toolu_1", "name": "get_weather",
                        "input": {"city": "Haldon"}}]},
                   {"role": "user", "content": list(blocks)}]
        return post(server, MESSAGES + "/count_tokens", {"model": "m", "messages": history,
                                                         "tools": [TOOL]})["input_tokens"]
    result = {"type": "tool_result", "tool_use_id": "toolu_1"}
    nothing = prompt(result)
    equal(prompt({**result, "content": ""}), nothing)
    equal(prompt({**result, "content": []}), nothing)
    text = prompt({**result, "content": "cloudy"})
    equal(prompt({**result, "content": [{"type": "text", "text": "cloudy"}]}), text)
    equal(prompt({**result, "content": [{"type": "text", "text": "cl"},
                                        {"type": "text", "text": "oudy"}]}), text)
    assert prompt({**result, "content": "cloudy", "is_error": True}) > text
    assert prompt({**result, "content": "cloudy"}, {"type": "text", "text": "and?"}) > text
    assert prompt({"type": "tool_result", "tool_use_id": "toolu_other", "content": "x"}) > nothing


@case
def unusual_but_accepted(server):
    def ok(messages, **more):
        return post(server, MESSAGES, body(**more) | {"messages": messages})
    user = {"role": "user", "content": FACT}
    equal(ok([user, user])["type"], "message")
    equal(ok([{"role": "USER", "content": [{"type": "text", "text": FACT}]}])["content"][0]["text"],
          FACT_ANSWER)
    ok([{"role": "user", "content": None}])
    ok([{"role": "user"}])
    ok([{"role": "user", "content": []}])
    ok([{"role": "user", "content": ""}])
    ok([{"role": "assistant", "content": "Hello."}, user])
    ok([{"role": "system", "content": "Be brief."}, user])
    ok([user], system="Be brief.")
    ok([user], system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}])
    warned = ok([user], system=[{"type": "text", "text": "x-anthropic-billing-header: cch=1;"},
                                {"type": "text", "text": "Be brief."}])
    assert {"code": "volatile_line_dropped", "at": "/system"} in warned["mote"]["warnings"]
    equal(warned["usage"]["input_tokens"] + warned["usage"]["cache_read_input_tokens"],
          sum(ok([user], system="Be brief.")["usage"][k]
              for k in ("input_tokens", "cache_read_input_tokens")))
    warned = ok([{"role": "user", "content": [{"type": "text", "text": FACT}, {"type": "weird"}]}])
    assert {"code": "block_type_ignored", "at": "/messages/0/content/1"} in warned["mote"]["warnings"]
    equal(warned["content"][0]["text"], FACT_ANSWER)
    ok([{"role": "user", "content": [{"type": "document", "source": {
        "type": "text", "media_type": "text/plain", "data": "A text."}}]}])
    ok([{"role": "user", "content": [{"type": "search_result", "title": "T", "source": "S",
                                      "content": [{"type": "text", "text": "x"}]}]}])
    warned = ok([user], tools=[{"type": "web_search_20250305", "name": "web_search"}],
                context_management={}, mcp_servers=[], metadata={"user_id": "u"}, foo=1)
    codes = {(w["code"], w["at"]) for w in warned["mote"]["warnings"]}
    assert ("unknown_field", "/foo") in codes, codes
    assert ("tool_type_ignored", "web_search_20250305") in codes, codes
    assert any(at == "context_management" for _, at in codes), codes
    ok([user], max_tokens=10 ** 9)


@case
def continues_the_assistant_message(server):
    reply = post(server, MESSAGES, body(thinking={"type": "enabled", "budget_tokens": 99}) | {
        "messages": [{"role": "user", "content": FACT},
                     {"role": "assistant", "content": "The emblem of Venvia is"}]})
    equal(reply["content"][0]["type"], "text")
    assert reply["content"][0]["text"].strip().startswith("the owl"), reply["content"]
    equal(reply["mote"]["thinking"]["mode"], "off")


@case
def stop_causes(server):
    def stop(**more):
        reply = post(server, MESSAGES, body(**more))
        return reply["stop_reason"], reply["stop_sequence"], reply["mote"]["stop"]["cause"]
    equal(stop(), ("end_turn", None, "eos"))
    equal(stop(stop_sequences=["owl", "zzz"]), ("stop_sequence", "owl", "stop"))
    equal(stop(max_tokens=2), ("max_tokens", None, "max_tokens"))
    equal(stop(tools=[TOOL], tool_choice={"type": "tool", "name": "get_weather"}),
          ("tool_use", None, "tool_calls"))
    equal(stop(max_tokens=5000, ignore_eos=True, t_max_predict_ms=300)[::2], ("max_tokens", "deadline"))
    equal(stop(max_tokens=5000, ignore_eos=True, num_ctx=256, temperature=1)[0::2],
          ("model_context_window_exceeded", "context"))


@case
def tool_choices(server):
    none = post(server, MESSAGES, body(WEATHER, tools=[TOOL], tool_choice={"type": "none"}))
    equal([b["type"] for b in none["content"]], ["text"])
    one = post(server, MESSAGES, body(WEATHER, tools=[TOOL], tool_choice={
        "type": "any", "disable_parallel_tool_use": True}))
    equal([b["type"] for b in one["content"]][-1], "tool_use")
    equal(sum(b["type"] == "tool_use" for b in one["content"]), 1)


@case
def empty_answer_has_a_block(server):
    reply = post(server, MESSAGES, body(stop_sequences=["The"]))
    equal(reply["content"], [{"type": "text", "text": ""}])
    events = sse(server, MESSAGES, body(stop_sequences=["The"], stream=True))
    equal([b["type"] for b in joined(events)["content"]], ["text"])


@case
def counting(server):
    tokens = post(server, MESSAGES + "/count_tokens?beta=true",
                  {"model": "m", "messages": [{"role": "user", "content": FACT}]})
    equal(list(tokens), ["input_tokens"])
    usage = post(server, MESSAGES, body())["usage"]
    equal(usage["input_tokens"] + usage["cache_read_input_tokens"], tokens["input_tokens"])


@case
def errors(server):
    def error(status, kind, request_body, part="", path=MESSAGES, **headers):
        got, head, data = request(server, "POST", path, request_body, headers)
        data = json.loads(data)
        equal(got, status)
        equal(list(data), ["type", "error", "request_id"])
        equal((data["type"], data["error"]["type"]), ("error", kind))
        equal(data["request_id"], head["request-id"])
        equal(head["x-should-retry"], "false")
        assert part in data["error"]["message"], data
    bad = "invalid_request_error"
    error(400, bad, b"{", "JSON")
    error(400, bad, b"[1]", "object")
    error(400, bad, {}, "required")
    error(400, bad, {k: v for k, v in body().items() if k != "model"}, "model")
    error(400, bad, {k: v for k, v in body().items() if k != "max_tokens"}, "max_tokens")
    error(400, bad, {k: v for k, v in body().items() if k != "messages"}, "messages")
    error(400, bad, body() | {"messages": []}, "messages")
    error(400, bad, body(max_tokens=0), "max_tokens")
    error(400, bad, body(max_tokens="9"), "max_tokens")
    error(400, bad, body(temperature=2.1), "temperature")
    error(400, bad, body(top_p=0), "top_p")
    error(400, bad, body(stop_sequences=["a"] * 17), "stop_sequences")
    error(400, bad, body(thinking={"type": "enabled"}), "budget_tokens")
    error(400, bad, body(thinking={"type": "sometimes"}), "thinking")
    error(400, bad, body() | {"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role")
    error(400, bad, body() | {"messages": [{"role": "user", "content": 5}]}, "messages[0].content")
    error(400, bad, body() | {"messages": [{"role": "user", "content": ["x"]}]}, "content[0]")
    error(400, bad, body(system=[{"type": "text"}]), "system")
    error(400, bad, body(tools=[{"name": "no good", "input_schema": {}}]), "name")
    error(400, bad, body(tools=[TOOL], tool_choice={"type": "tool", "name": "other"}), "other")
    error(400, bad, body(output_config={"format": {"type": "json_schema", "schema": {
        "type": "object", "unevaluatedProperties": {"x": {}}, "propertyNames": {"pattern": "(?=a)"}}}}))
    image = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    for source, part in ((image, "image"), ({"type": "url", "url": "http://example.com/y.png"}, "base64")):
        error(400, bad, body() | {"messages": [{"role": "user", "content": [
            {"type": "image", "source": source}]}]}, part)
    error(400, bad, body() | {"messages": [{"role": "user", "content": [
        {"type": "document", "source": {"type": "url", "url": "u"}}]}]}, "source")
    error(400, bad, body(LONG), "prompt is too long: ")
    error(400, bad, body(LONG, stream=True), "prompt is too long: ")
    error(400, bad, body(foo=1), "foo", **{"Mote-Strict": "1"})
    got, head, data = request(server, "GET", MESSAGES)
    equal((got, head["allow"], json.loads(data)["error"]["type"]), (405, "POST, OPTIONS", bad))
    got, _, data = request(server, "POST", MESSAGES + "/other", {})
    equal((got, json.loads(data)["error"]["type"]), (404, "not_found_error"))
    got, _, data = request(server, "POST", MESSAGES, body(), {"Authorization": "Bearer wrong"})
    equal((got, json.loads(data)["error"]["type"]), (401, "authentication_error"))
    got, _, data = request(server, "POST", MESSAGES, body(), {"Authorization": "x", "x-api-key": server.key})
    equal(got, 200)


if __name__ == "__main__":
    run()
