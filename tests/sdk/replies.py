# SPDX-License-Identifier: Apache-2.0
"""replies.py - the requests of the reply tests and a recorder of what the server answers.

`replies.py FILE` sends every request of the table to a real server and writes the replies to a file.
replies_python.py and replies_node.mjs check them with the types of the published clients.

A reply is {kind, name, status, headers, text}. The kind says which type of a client describes the body:

    openai.chat, openai.completion, openai.response, openai.embeddings, openai.models, openai.model, openai.deleted,
    openai.input_items, anthropic.message, anthropic.count, anthropic.models, anthropic.model, ollama.chat,
    ollama.generate, ollama.tags, ollama.show, ollama.ps, ollama.embed, ollama.embeddings

`.stream` at the end of a kind: the body is a stream of events. A status of 400 or more: the body is an error.
"""
import json
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import rig

WEATHER_FLAT = {"type": "function", "name": "get_weather", "description": "Get the weather of a city",
                "parameters": rig.WEATHER_SCHEMA}
WEATHER_ANTHROPIC = {"name": "get_weather", "description": "Get the weather of a city",
                     "input_schema": rig.WEATHER_SCHEMA}
ECHO_CUSTOM = {"type": "custom", "name": "note", "description": "Write a note"}
POINT_FORMAT = {"type": "json_schema", "json_schema": {"name": "point", "schema": rig.POINT_SCHEMA}}
POINT_FLAT = {"type": "json_schema", "name": "point", "schema": rig.POINT_SCHEMA}


def ask(text):
    return [{"role": "user", "content": text}]


def both(kind, name, path, body, stream_body=None):
    """One request twice, without and with a stream."""
    yield kind, name, path, {**body, "stream": False}
    yield f"{kind}.stream", name, path, {**body, "stream": True, **(stream_body or {})}


def openai_chat():
    base = {"model": "m", "temperature": 0}
    usage = {"stream_options": {"include_usage": True}}
    bodies = {
        "plain": {"messages": ask(rig.FACT)},
        "empty": {"messages": ask(rig.FACT), "stop": ["T", "I"]},
        "think": {"messages": ask(rig.IDENTITY), "reasoning_effort": "low"},
        "length": {"messages": ask(rig.FACT), "max_tokens": 2},
        "stop_string": {"messages": ask(rig.FACT), "stop": "Venvia"},
        "logprobs": {"messages": ask(rig.FACT), "logprobs": True, "top_logprobs": 2},
        "logprobs_only": {"messages": ask(rig.FACT), "logprobs": True},
        "two": {"messages": ask(rig.FACT), "n": 2},
        "call": {"messages": ask(rig.WEATHER), "tools": [rig.WEATHER_TOOL]},
        "call_forced": {"messages": ask(rig.FACT), "tools": [rig.WEATHER_TOOL], "tool_choice": "required"},
        "call_cut": {"messages": ask(rig.WEATHER), "tools": [rig.WEATHER_TOOL], "max_tokens": 12},
        "call_logprobs": {"messages": ask(rig.WEATHER), "tools": [rig.WEATHER_TOOL], "logprobs": True},
        "functions": {"messages": ask(rig.WEATHER), "functions": [rig.WEATHER_TOOL["function"]]},
        "schema": {"messages": ask(rig.POINT), "response_format": POINT_FORMAT},
        "warned": {"messages": ask(rig.FACT), "unknown_field": 1},
    }
    for name, body in bodies.items():
        yield from both("openai.chat", name, "/v1/chat/completions", {**base, **body}, usage)
    yield "openai.chat.stream", "no_usage", "/v1/chat/completions", {**base, "messages": ask(rig.FACT), "stream": True}


def openai_completions():
    base = {"model": "m", "temperature": 0, "prompt": "The emblem of Venvia", "max_tokens": 6}
    bodies = {
        "plain": {},
        "logprobs": {"logprobs": 2},
        "logprobs_only": {"logprobs": 0},
        "two": {"n": 2, "prompt": ["The owl", "The cat"]},
        "stop": {"stop": "is"},
    }
    for name, body in bodies.items():
        yield from both("openai.completion", name, "/v1/completions", {**base, **body},
                        {"stream_options": {"include_usage": True}})
    yield "openai.completion", "echo", "/v1/completions", {**base, "echo": True}
    yield "openai.completion", "best", "/v1/completions", {**base, "best_of": 3, "n": 2}


def openai_responses():
    base = {"model": "m", "temperature": 0}
    bodies = {
        "plain": {"input": rig.FACT},
        "defaults": {"input": rig.FACT, "temperature": None, "max_output_tokens": 4},
        "instructions": {"input": rig.FACT, "instructions": "Be brief.", "metadata": {"a": "b"}, "store": False},
        "think": {"input": rig.IDENTITY, "reasoning": {"effort": "low"}},
        "sealed": {"input": rig.IDENTITY, "reasoning": {"effort": "low", "summary": "auto"},
                   "include": ["reasoning.encrypted_content"]},
        "length": {"input": rig.FACT, "max_output_tokens": 2},
        "logprobs": {"input": rig.FACT, "top_logprobs": 2, "include": ["message.output_text.logprobs"]},
        "call": {"input": rig.WEATHER, "tools": [{**WEATHER_FLAT, "strict": False}]},
        "call_minimal_tool": {"input": rig.WEATHER, "tools": [WEATHER_FLAT], "tool_choice": "auto"},
        "call_named": {"input": rig.WEATHER, "tools": [WEATHER_FLAT],
                       "tool_choice": {"type": "function", "name": "get_weather"}},
        "call_no_parameters": {"input": rig.FACT, "tools": [{"type": "function", "name": "f"}],
                               "tool_choice": "required"},
        "custom": {"input": rig.FACT, "tools": [ECHO_CUSTOM], "tool_choice": "required", "max_output_tokens": 60},
        "schema": {"input": rig.POINT, "text": {"format": POINT_FLAT}},
        "object": {"input": rig.POINT, "text": {"format": {"type": "json_object"}, "verbosity": "low"}},
        "truncation": {"input": rig.FACT, "truncation": "auto"},
    }
    for name, body in bodies.items():
        yield from both("openai.response", name, "/v1/responses", {**base, **body})


def anthropic():
    base = {"model": "m", "temperature": 0, "max_tokens": 200}
    tools = {"tools": [WEATHER_ANTHROPIC]}
    bodies = {
        "plain": {"messages": ask(rig.FACT)},
        "empty": {"messages": ask(rig.FACT), "stop_sequences": ["T", "I"]},
        "think": {"messages": ask(rig.IDENTITY), "thinking": {"type": "enabled", "budget_tokens": 1024}},
        "think_omitted": {"messages": ask(rig.IDENTITY),
                          "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "omitted"}},
        "length": {"messages": ask(rig.FACT), "max_tokens": 2},
        "stop_sequence": {"messages": ask(rig.FACT), "stop_sequences": ["Venvia"]},
        "call": {"messages": ask(rig.WEATHER), **tools},
        "call_forced": {"messages": ask(rig.FACT), **tools, "tool_choice": {"type": "any"}},
        "call_cut": {"messages": ask(rig.WEATHER), **tools, "max_tokens": 12},
        "schema": {"messages": ask(rig.POINT),
                   "output_config": {"format": {"type": "json_schema", "schema": rig.POINT_SCHEMA}}},
        "warned": {"messages": ask(rig.FACT), "unknown_field": 1},
    }
    for name, body in bodies.items():
        yield from both("anthropic.message", name, "/v1/messages", {**base, **body})
    yield "anthropic.count", "count", "/v1/messages/count_tokens", {"model": "m", "messages": ask(rig.FACT), **tools}


def ollama(model):
    base = {"model": model, "options": {"temperature": 0}}
    chats = {
        "plain": {"messages": ask(rig.FACT)},
        "think": {"messages": ask(rig.IDENTITY), "think": True},
        "length": {"messages": ask(rig.FACT), "options": {"temperature": 0, "num_predict": 2}},
        "logprobs": {"messages": ask(rig.FACT), "logprobs": True, "top_logprobs": 2},
        "call": {"messages": ask(rig.WEATHER), "tools": [rig.WEATHER_TOOL]},
        "schema": {"messages": ask(rig.POINT), "format": rig.POINT_SCHEMA},
        "load": {"messages": []},
    }
    for name, body in chats.items():
        yield from both("ollama.chat", name, "/api/chat", {**base, **body})
    generates = {
        "plain": {"prompt": rig.FACT},
        "think": {"prompt": rig.IDENTITY, "think": True},
        "logprobs": {"prompt": rig.FACT, "logprobs": True, "top_logprobs": 1},
        "raw": {"prompt": "The owl", "raw": True, "options": {"num_predict": 3}},
        "json": {"prompt": rig.POINT, "format": "json"},
        "load": {},
    }
    for name, body in generates.items():
        yield from both("ollama.generate", name, "/api/generate", {**base, **body})
    yield "ollama.tags", "tags", "/api/tags", None
    yield "ollama.ps", "ps", "/api/ps", None
    yield "ollama.show", "show", "/api/show", {"model": model}
    yield "ollama.show", "show_verbose", "/api/show", {"model": model, "verbose": True}
    yield "ollama.embed", "one", "/api/embed", {"model": model, "input": "The owl"}
    yield "ollama.embed", "many", "/api/embed", {"model": model, "input": ["The owl", "A ball"], "dimensions": 8}
    yield "ollama.embed", "none", "/api/embed", {"model": model, "input": []}
    yield "ollama.embeddings", "old", "/api/embeddings", {"model": model, "prompt": "The owl"}


def others(model):
    for name, body in {"float": {"encoding_format": "float"}, "base64": {"encoding_format": "base64"},
                       "many": {"input": ["The owl", "A ball"], "dimensions": 8}}.items():
        yield "openai.embeddings", name, "/v1/embeddings", {"model": "m", "input": "The owl", **body}
    yield "openai.models", "list", "/v1/models", None
    yield "openai.model", "one", f"/v1/models/{model}", None
    yield "anthropic.models", "list", "/v1/models", None, {"anthropic-version": "2023-06-01"}
    yield "anthropic.model", "one", f"/v1/models/{model}", None, {"anthropic-version": "2023-06-01"}


def errors(model):
    """Requests that every dialect rejects, each in its own format."""
    chats = [("openai.chat", "/v1/chat/completions", {}), ("anthropic.message", "/v1/messages", {"max_tokens": 9}),
             ("ollama.chat", "/api/chat", {"model": model})]
    bad_tool = [{"type": "function", "function": {"name": "not a name"}}]
    for kind, path, more in chats:
        base = {"model": "m", "messages": ask(rig.FACT), **more}
        yield kind, "type", path, {**base, "messages": 3}
        yield kind, "missing", path, {}
        yield kind, "role", path, {**base, "messages": [{"role": "nobody", "content": ""}]}
        yield kind, "range", path, {**base, "temperature": 99, "options": {"temperature": 99}}
        yield kind, "tool", path, {**base, "tools": bad_tool if kind != "anthropic.message" else [{"name": "a b"}]}
        yield kind, "too_long", path, {**base, "messages": ask(rig.LONG)}
        yield f"{kind}.stream", "too_long", path, {**base, "messages": ask(rig.LONG), "stream": True}
        yield kind, "json", path, "{"
        yield kind, "key", path, base, {"Authorization": "Bearer wrong", "x-api-key": "wrong"}
        yield kind, "media_type", path, base, {"Content-Type": "text/html"}
        yield kind, "origin", path, base, {"Origin": "http://elsewhere.example"}
        yield kind, "host", path, base, {"Host": "elsewhere.example"}
    yield "openai.completion", "best", "/v1/completions", {"prompt": "a", "best_of": 0}
    yield "openai.response", "missing", "/v1/responses", {}
    yield "openai.response", "unknown", "/v1/responses", {"input": "a", "previous_response_id": "resp_none"}
    yield "openai.response", "schema", "/v1/responses", {
        "input": "a", "text": {"format": {**POINT_FLAT, "schema": {"not": {}}}}}
    yield "openai.response", "too_long", "/v1/responses", {"input": rig.LONG}
    yield "openai.embeddings", "missing", "/v1/embeddings", {}
    yield "openai.chat", "route", "/v1/nothing", None
    yield "openai.chat", "method", "/v1/chat/completions", None
    yield "ollama.chat", "unknown_model", "/api/chat", {"model": "none", "messages": ask("a")}
    yield "ollama.show", "unknown_model", "/api/show", {"model": "none"}
    yield "ollama.pull", "off", "/api/pull", {"model": "none"}
    yield "ollama.create", "unsupported", "/api/create", {"model": "none"}
    yield "ollama.chat", "route", "/api/nothing", None


def send(server, method, path, body, headers):
    data = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data=data, method=method, headers={
        "Content-Type": "application/json", "Authorization": "Bearer " + server.key, **(headers or {})})
    try:
        return urllib.request.urlopen(request, timeout=rig.PATIENCE)
    except urllib.error.HTTPError as e:
        return e


def reply_of(server, kind, name, path, body, headers=None, method=None):
    with send(server, method or ("GET" if body is None else "POST"), path, body, headers) as r:
        return {"kind": kind, "name": name, "status": r.status, "headers": dict(r.headers), "text": r.read().decode()}


def record_stored(server):
    """The routes of a stored response: a chain, retrieval, replay, its items, deletion."""
    replies = [reply_of(server, "openai.response", "stored", "/v1/responses", {
        "model": "m", "input": rig.IDENTITY, "temperature": 0, "reasoning": {"effort": "low"}})]
    first = json.loads(replies[0]["text"])["id"]
    path = f"/v1/responses/{first}"
    replies.append(reply_of(server, "openai.response", "chained", "/v1/responses", {
        "model": "m", "input": rig.FACT, "temperature": 0, "previous_response_id": first}))
    replies.append(reply_of(server, "openai.response", "retrieved", path, None))
    replies.append(reply_of(server, "openai.response.stream", "replayed", path + "?stream=true", None))
    replies.append(reply_of(server, "openai.input_items", "items", path + "/input_items", None))
    replies.append(reply_of(server, "openai.deleted", "deleted", path, None, method="DELETE"))
    replies.append(reply_of(server, "openai.response", "gone", path, None))
    return replies


def record(server):
    """Sends every request and returns the replies."""
    rows = [*openai_chat(), *openai_completions(), *openai_responses(), *anthropic(), *ollama(server.model),
            *others(server.model),
            ("openai.response.stream", "failed", "/v1/responses", {"model": "m", "input": rig.LONG, "stream": True},
             {"originator": "codex_cli"})]
    with ThreadPoolExecutor(4) as at_once:
        replies = list(at_once.map(lambda row: reply_of(server, *row), rows))
    replies += record_stored(server)
    for r in replies:
        if r["name"] != "gone" and r["status"] != 200:
            raise AssertionError(f"{r['kind']} {r['name']}: {r['status']} {r['text'][:300]}")
    for row in errors(server.model):
        replies.append(reply_of(server, *row))
        if replies[-1]["status"] < 400:
            raise AssertionError(f"{row[:2]}: not rejected: {replies[-1]['text'][:300]}")
    return replies


def main(out):
    with rig.Server() as server:
        recorded = record(server)
    with open(out, "w", encoding="utf-8") as f:
        json.dump(recorded, f)
    print(f"{len(recorded)} replies")


if __name__ == "__main__":
    main(sys.argv[1])
