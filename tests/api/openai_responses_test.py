# SPDX-License-Identifier: Apache-2.0
"""openai_responses_test.py - /v1/responses: items, the order of events, stored responses."""
import http.client
import json
import os
import sys
import tempfile

from golden import same_as_golden
from api_rig import (KEY, PATIENCE, Server, main,
                       FACT, FACT_ANSWER, LONG, POINT, POINT_SCHEMA, SUM, SUM_ANSWER, WEATHER, WEATHER_ANSWER,
                       WEATHER_RESULT, WEATHER_SCHEMA, case, equal, post, request, sse)

RESPONSES = "/v1/responses"
OTHER = "another-key-0123456789abcdef"
TOOL = {"type": "function", "name": "get_weather", "description": "Get the weather of a city", "parameters": WEATHER_SCHEMA}


def body(text=FACT, **more):
    return {"input": text, "temperature": 0, "presence_penalty": 0, **more}


def text_of(response):
    return "".join(p["text"] for i in response["output"] if i["type"] == "message" for p in i["content"])


def followed(events):
    """Returns the final response of a stream. Checks the order and content of all events."""
    items, response, kinds = {}, None, []
    for number, (name, data) in enumerate(events):
        e = json.loads(data)
        equal((e["type"], e["sequence_number"]), (name, number))
        kinds.append(name)
        if "response" in e:
            if response is not None:
                equal(e["response"]["id"], response["id"])
            response = e["response"]
        if name == "response.output_item.added":
            equal(e["output_index"], len(items))
            assert all(i["done"] for i in items.values())
            items[e["output_index"]] = {"item": e["item"], "said": "", "part": False, "done": False}
            equal(e["item"]["status"], "in_progress")
        elif "output_index" in e:
            follow_item(items[e["output_index"]], name, e)
    equal(kinds[:2], ["response.created", "response.in_progress"])
    assert kinds[-1] in ("response.completed", "response.incomplete", "response.failed"), kinds[-1]
    equal(response["output"], [items[i]["item"] for i in sorted(items)])
    return response


def follow_item(state, name, e):
    assert not state["done"]
    if "item_id" in e:
        equal(e["item_id"], state["item"]["id"])
    if name == "response.content_part.added":
        equal(e["part"]["text"], "")
        state["part"] = True
    elif name.endswith(".delta"):
        assert state["part"] or "text" not in name
        state["said"] += e["delta"]
    elif name == "response.content_part.done":
        equal(e["part"]["text"], state["said"])
    elif name == "response.output_item.done":
        equal(e["item"]["id"], state["item"]["id"])
        state.update(item=e["item"], done=True)
    elif name.endswith(".done"):
        equal(e.get("text", e.get("arguments", e.get("input"))), state["said"])


def plain(response):
    """Returns the members that a stream and a reply have in common."""
    listed = []
    for item in response["output"]:
        listed.append({k: v for k, v in item.items() if k not in ("id", "call_id", "encrypted_content")})
    usage = {k: v for k, v in response["usage"].items() if k != "input_tokens_details"}
    return listed, response["status"], response["incomplete_details"], usage


def both(server, **more):
    whole = post(server, RESPONSES, {"seed": 2, **body(**more)})
    streamed = followed(sse(server, RESPONSES, {"seed": 2, **body(**more), "stream": True}))
    equal(plain(streamed), plain(whole))
    return whole


@case
def recorded_stream_and_reply(server):
    same_as_golden("openai_responses_reply", request(server, "POST", RESPONSES, body(metadata={"a": "b"}))[2].decode(), server.model)
    for name, more in (("plain", {}), ("call", {"text": WEATHER, "tools": [TOOL]}),
                       ("think", {"text": SUM, "reasoning": {"effort": "low"}, "max_output_tokens": 40,
                                  "include": ["reasoning.encrypted_content"]})):
        data = request(server, "POST", RESPONSES, {**body(**more), "stream": True})[2]
        same_as_golden("openai_responses_stream_" + name, data.decode(), server.model)


@case
def stream_equals_reply(server):
    equal(text_of(both(server)), FACT_ANSWER)
    both(server, text=WEATHER, tools=[TOOL])
    reply = both(server, text=WEATHER, tools=[TOOL], reasoning={"effort": "low"}, tool_choice="required")
    equal([i["type"] for i in reply["output"]][::len(reply["output"]) - 1], ["reasoning", "function_call"])
    reply = both(server, text=SUM, reasoning={"effort": "medium"})
    equal(text_of(reply), SUM_ANSWER)
    equal([i["type"] for i in reply["output"]], ["reasoning", "message"])
    reply = both(server, max_output_tokens=2)
    equal((reply["status"], reply["incomplete_details"], reply["output"][-1]["status"]),
          ("incomplete", {"reason": "max_output_tokens"}, "incomplete"))
    reply = both(server, text=POINT, json_schema=POINT_SCHEMA)
    equal(set(json.loads(text_of(reply))), {"x", "y"})
    reply = both(server, include=["message.output_text.logprobs"], top_logprobs=2)
    listed = reply["output"][0]["content"][0]["logprobs"]
    equal(b"".join(bytes(t["bytes"]) for t in listed).decode(), FACT_ANSWER)


@case
def request_values_in_the_response(server):
    sent = body(instructions="Be brief.", metadata={"k": "v"}, max_output_tokens=50, parallel_tool_calls=False,
                top_p=0.5, tools=[TOOL], tool_choice="none", truncation="auto", store=False,
                reasoning={"effort": "none"})
    sent["text"] = {"format": {"type": "text"}}
    got = post(server, RESPONSES, sent)
    for key in ("instructions", "metadata", "max_output_tokens", "parallel_tool_calls", "temperature", "tools",
                "tool_choice", "truncation", "store", "top_p", "text"):
        equal(got[key], sent[key])
    equal((got["object"], got["status"], got["error"], got["background"], got["service_tier"]),
          ("response", "completed", None, False, "default"))
    equal(request(server, "GET", f"{RESPONSES}/{got['id']}")[0], 404)


@case
def conversation_of_items(server):
    items = [{"role": "user", "content": [{"type": "input_text", "text": WEATHER}]}]
    first = post(server, RESPONSES, {**body(tools=[TOOL], store=False), "input": items})
    call = first["output"][-1]
    equal((call["type"], json.loads(call["arguments"])["city"]), ("function_call", "Haldon"))
    items += first["output"] + [{"type": "function_call_output", "call_id": call["call_id"], "output": WEATHER_RESULT}]
    last = post(server, RESPONSES, {**body(tools=[TOOL], store=False), "input": items})
    equal(text_of(last), WEATHER_ANSWER)
    ignored = post(server, RESPONSES, {**body(), "input": items[:1] + [{"type": "web_search_call", "id": "x"}]})
    assert {"code": "item_ignored", "at": "input[1]"} in ignored["mote"]["warnings"]


@case
def previous_response_id(server):
    first = post(server, RESPONSES, body(WEATHER, tools=[TOOL]))
    call = first["output"][-1]
    result = [{"type": "function_call_output", "call_id": call["call_id"], "output": WEATHER_RESULT}]
    second = post(server, RESPONSES, {**body(tools=[TOOL], previous_response_id=first["id"]), "input": result})
    equal(text_of(second), WEATHER_ANSWER)
    equal(second["previous_response_id"], first["id"])
    assert second["usage"]["input_tokens_details"]["cached_tokens"] > first["usage"]["input_tokens"] * 0.8, second["usage"]
    third = post(server, RESPONSES, body(FACT, tools=[TOOL], previous_response_id=second["id"]))
    assert third["usage"]["input_tokens"] > second["usage"]["input_tokens"]
    streamed = followed(sse(server, RESPONSES, body(FACT, tools=[TOOL], previous_response_id=second["id"], stream=True)))
    equal(plain(streamed)[0], plain(third)[0])
    equal(json.loads(request(server, "POST", RESPONSES, body(previous_response_id="resp_no"))[2])["error"]["param"],
          "previous_response_id")


@case
def item_references(server):
    first = post(server, RESPONSES, body(SUM, reasoning={"effort": "low"}))
    ask = {"role": "user", "content": SUM}
    more = {"role": "user", "content": "Sure?"}

    def tokens(items):
        return post(server, RESPONSES + "/input_tokens", {"input": [ask, *items, more]})["input_tokens"]
    named = [{"type": "item_reference", "id": i["id"]} for i in first["output"]]
    equal(len(named), 2)
    equal(tokens(named), tokens(first["output"]))
    assert tokens(named[:1]) < tokens(named)
    reply = post(server, RESPONSES, {**body(), "input": [ask, {"type": "item_reference", "id": "msg_no"}]})
    assert {"code": "item_ignored", "at": "input[1]"} in reply["mote"]["warnings"]


@case
def stored_responses(server):
    made = post(server, RESPONSES, body())
    path = f"{RESPONSES}/{made['id']}"
    equal(server.get(path), made)
    listed = server.get(path + "/input_items")
    equal(listed["data"][0]["content"], [{"type": "input_text", "text": FACT}])
    equal((listed["first_id"], listed["last_id"]), (listed["data"][0]["id"],) * 2)
    events = sse_get(server, path + "?stream=true")
    replayed = [name for name, _ in events]
    began, ended = (json.loads(events[i][1])["response"] for i in (0, -1))
    equal((began["id"], began["status"], began["output"]), (made["id"], "in_progress", []))
    assert "usage" not in began, began
    equal(ended, made)
    equal(made["text"], {"format": {"type": "text"}})
    brief = post(server, RESPONSES, {**body(), "text": {"verbosity": "low"}})
    equal(brief["text"], {"format": {"type": "text"}, "verbosity": "low"})
    equal(replayed, ["response.created", "response.output_item.added", "response.output_item.done", "response.completed"])
    equal(json.loads(request(server, "POST", path + "/cancel")[2]), made)
    equal(json.loads(request(server, "DELETE", path)[2]), {"id": made["id"], "object": "response", "deleted": True})
    equal(request(server, "GET", path)[0], 404)
    streamed = followed(sse(server, RESPONSES, body(stream=True)))
    equal(server.get(f"{RESPONSES}/{streamed['id']}"), streamed)


def sse_get(server, path):
    from api_rig import split_sse
    return split_sse(request(server, "GET", path)[2])


@case
def cancel_a_running_response(server):
    for method, tail in (("POST", "/cancel"), ("DELETE", "")):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        connection.request("POST", RESPONSES, json.dumps(body(stream=True, ignore_eos=True, temperature=1, max_output_tokens=20000)),
                           {"Content-Type": "application/json", "Authorization": "Bearer " + server.key})
        reply = connection.getresponse()
        reply.readline()
        made = json.loads(reply.readline()[len("data: "):])["response"]
        status, _, data = request(server, method, f"{RESPONSES}/{made['id']}{tail}")
        equal(status, 200)
        equal(json.loads(data)["id"], made["id"])
        if tail:
            equal(json.loads(data)["status"], "cancelled")
        assert b"event: response.failed" in reply.read()
        connection.close()


@case
def encrypted_reasoning(server):
    more = {"reasoning": {"effort": "low"}, "include": ["reasoning.encrypted_content"], "store": False}
    first = post(server, RESPONSES, body(SUM, **more))
    thought = first["output"][0]
    assert thought["encrypted_content"] and not set(thought["encrypted_content"]) & set("+/=")

    def tokens(item):
        items = [{"role": "user", "content": SUM}, item, first["output"][1], {"role": "user", "content": "Sure?"}]
        return post(server, RESPONSES + "/input_tokens", {"input": items})["input_tokens"]
    bare = {"type": "reasoning", "id": "rs_1", "summary": []}
    whole = tokens({**bare, "content": thought["content"]})
    equal(tokens({**bare, "encrypted_content": thought["encrypted_content"]}), whole)
    broken = ("A" if thought["encrypted_content"][0] != "A" else "B") + thought["encrypted_content"][1:]
    assert tokens({**bare, "encrypted_content": broken}) <= whole
    equal(tokens({**bare, "encrypted_content": broken}), tokens({**bare, "encrypted_content": "no!"}))


@case
def custom_tools(server):
    tool = {"type": "custom", "name": "run", "description": "Runs a text"}
    reply = both(server, tools=[tool], tool_choice={"type": "custom", "name": "run"}, parallel_tool_calls=False,
                 max_output_tokens=200)
    call = reply["output"][-1]
    equal((call["type"], call["name"]), ("custom_tool_call", "run"))
    assert isinstance(call["input"], str)
    items = [{"role": "user", "content": FACT}, call, {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "done"}]
    post(server, RESPONSES, {**body(tools=[tool]), "input": items})
    # the input is streamed in pieces, also if the answer is cut inside it
    for limit, status in ((200, "completed"), (reply["usage"]["output_tokens"] - 10, "incomplete")):
        events = sse(server, RESPONSES, {**body(tools=[tool], tool_choice="required", parallel_tool_calls=False),
                                         "max_output_tokens": limit, "seed": 2, "stream": True})
        item = followed(events)["output"][-1]
        said = [json.loads(e)["delta"] for name, e in events if name == "response.custom_tool_call_input.delta"]
        equal((item["status"], item["input"]), (status, "".join(said)))
        assert call["input"].startswith(item["input"]) and item["input"], item
        assert len(said) > 1 or status == "incomplete", said


@case
def truncation_auto(server):
    turn = [{"role": "user", "content": LONG[:2000]}, {"role": "assistant", "content": "Yes."}]
    items = [{"role": "system", "content": "Keep me."}] + turn * 12 + [{"role": "user", "content": FACT}]
    post(server, RESPONSES, {**body(), "input": items}, 400)
    reply = post(server, RESPONSES, {**body(truncation="auto"), "input": items})
    assert {"code": "turns_dropped", "at": "input"} in reply["mote"]["warnings"]
    assert reply["usage"]["input_tokens"] < 2048


@case
def unsupported_features(server):
    for field, value in (("background", True), ("conversation", "c"), ("prompt", {"id": "p"})):
        equal(post(server, RESPONSES, body(**{field: value}), 400)["error"]["code"], "unsupported")
    reply = post(server, RESPONSES, body(background=False, context_management=[{"type": "x"}]))
    assert {"code": "ignored_field", "at": "context_management"} in reply["mote"]["warnings"]


@case
def keys_are_isolated(server):
    made = post(server, RESPONSES, body())
    other = {"Authorization": "Bearer " + OTHER}
    equal(request(server, "GET", f"{RESPONSES}/{made['id']}", headers=other)[0], 404)
    equal(request(server, "DELETE", f"{RESPONSES}/{made['id']}", headers=other)[0], 404)
    equal(request(server, "POST", RESPONSES, body(previous_response_id=made["id"]), other)[0], 404)
    equal(request(server, "GET", f"{RESPONSES}/{made['id']}")[0], 200)
    # the prefix cache of the first key is not used either
    text = "A question of some length about nothing in particular. " * 8
    post(server, RESPONSES, body(text, max_output_tokens=2))
    got = json.loads(request(server, "POST", RESPONSES, body(text, max_output_tokens=2), other)[2])
    equal(got["usage"]["input_tokens_details"]["cached_tokens"], 0)
    got = post(server, RESPONSES, body(text, max_output_tokens=2))
    assert got["usage"]["input_tokens_details"]["cached_tokens"] > 32


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write(f"{KEY} infer\n{OTHER} infer\n")
        keys.flush()
        os.chmod(keys.name, 0o600)
        with Server("--kv-tokens", "8192", "--context", "2048", "--api-key-file", keys.name) as started:
            code = main(started)
    sys.exit(code)
