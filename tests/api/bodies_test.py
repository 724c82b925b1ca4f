# SPDX-License-Identifier: Apache-2.0
"""bodies_test.py - mutated bodies for every route that reads one.

Values of a valid body are replaced, removed or duplicated. The reply must be complete JSON with a status of
the API, never a 5xx, and the server must accept the next request. The random numbers are the same in every run.
"""
import copy
import json
import random

from api_rig import FACT, SUM, WEATHER_SCHEMA, WEATHER_TOOL, case, equal, post, request, run

TOOL = {"name": "get_weather", "description": "d", "input_schema": WEATHER_SCHEMA, "strict": True,
        "type": "custom", "cache_control": {"type": "ephemeral"}}
HISTORY = [
    {"role": "user", "content": [{"type": "text", "text": FACT},
                                 {"type": "document", "source": {"type": "text", "data": "x"}}]},
    {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "Yes."},
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Haldon"}}]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": False,
         "content": [{"type": "text", "text": "cloudy"}]},
        {"type": "search_result", "title": "t", "source": "s", "content": [{"type": "text", "text": "x"}]}]},
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": SUM}]
OWN = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": FACT, "images": []},
       {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [
           {"id": "call_1", "function": {"index": 0, "name": "get_weather", "arguments": {"city": "x"}}}]},
       {"role": "tool", "content": "cloudy", "tool_name": "get_weather", "tool_call_id": "call_1"},
       {"role": "user", "content": SUM}]


def bodies(server):
    options = {"num_predict": 1, "temperature": 0.5, "stop": ["x"], "seed": 1, "num_ctx": 2048}
    return [
        ("/v1/messages", {"model": "m", "max_tokens": 1, "system": [{"type": "text", "text": "Be kind."}],
                          "messages": HISTORY, "tools": [TOOL], "tool_choice": {"type": "auto"},
                          "thinking": {"type": "enabled", "budget_tokens": 8}, "stop_sequences": ["x"],
                          "output_config": {"effort": "low"}, "stream": False, "top_k": 5}),
        ("/v1/messages/count_tokens", {"model": "m", "messages": HISTORY, "tools": [TOOL]}),
        ("/api/chat", {"model": server.model, "messages": OWN, "tools": [WEATHER_TOOL], "think": "low",
                       "options": options, "stream": False, "keep_alive": "5m", "logprobs": True,
                       "top_logprobs": 2}),
        ("/api/generate", {"model": server.model, "prompt": FACT, "system": "Be kind.", "options": options,
                           "stream": False, "context": [], "format": {"type": "object"}}),
        ("/api/embed", {"model": server.model, "input": ["a", "b"], "dimensions": 8, "truncate": True}),
        ("/api/show", {"model": server.model, "verbose": False}),
        ("/api/pull", {"model": server.model, "stream": False}),
        ("/tokenize", {"content": FACT, "with_pieces": True}), ("/detokenize", {"tokens": [5, 6, 7]}),
        ("/v1/score", {"messages": [{"role": "user", "content": "x"}], "choices": ["a", "b"],
                       "normalize": "mean"}),
        ("/v1/rerank", {"query": "q", "documents": ["a", {"text": "b"}], "top_n": 1}),
        ("/infill", {"input_prefix": "a", "input_suffix": "b", "n_predict": 1,
                     "input_extra": [{"filename": "f", "text": "t"}]}),
        ("/apply-template", {"messages": [{"role": "user", "content": "x"}], "tools": [WEATHER_TOOL]}),
    ]


ODD = [None, True, False, 0, -1, 1, 0.5, 10 ** 18, 1e300, "", "x", "\u0000", "\ud800", "<|im_end|>", "\u2028",
       [], {}, [[]], [None], {"type": "text"}, {"type": "text", "text": "x"}, {"type": "image"}, "a" * 5000,
       [{}], {"a": {"a": {"a": []}}}, "user", "assistant", "tool"]


def places(node, at=()):
    """Yields the paths of all values."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else []
    for key, value in items:
        yield at + (key,)
        yield from places(value, at + (key,))


def mutate(body, dice):
    body = copy.deepcopy(body)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        where = list(places(body))
        if not where:
            return body
        *path, last = dice.choice(where)
        node = body
        for key in path:
            node = node[key]
        how = dice.random()
        if how < 0.7:
            node[last] = copy.deepcopy(dice.choice(ODD))
        elif how < 0.85:
            del node[last]
        elif isinstance(node, list):
            node.insert(last, copy.deepcopy(node[last]))
        else:
            node[str(last) + "_"] = node[last]
    for name in ("max_tokens", "n_predict"):  # keep answers short
        if isinstance(body.get(name), (int, float)) and body[name] > 3:
            body[name] = 3
    if "options" in body and isinstance(body["options"], dict):
        body["options"]["num_predict"] = 1
    elif "options" in body or "/api" in str(body.get("model")):
        body["options"] = {"num_predict": 1}
    return body


@case
def mutated_values(server):
    dice = random.Random(20)
    counts = {}
    for path, good in bodies(server):
        equal(request(server, "POST", path, good)[0], 200)
        for _ in range(60):
            body = mutate(good, dice)
            if path in ("/v1/messages", "/api/chat", "/api/generate", "/infill"):
                body.setdefault("t_max_predict_ms" if not path.startswith("/api") else "_", 2000)
            text = json.dumps(body).encode()
            status, headers, data = request(server, "POST", path, text)
            assert status in (200, 400, 403, 404), (path, status, text, data)
            if headers["content-type"].startswith("application/json"):
                json.loads(data)
            counts[path, status] = counts.get((path, status), 0) + 1
    print("    ", {f"{path} {status}": n for (path, status), n in sorted(counts.items())})
    post(server, "/v1/messages", bodies(server)[0][1])


@case
def mutated_bytes(server):
    """Bodies with bytes removed, changed or duplicated."""
    dice = random.Random(21)
    for path, good in bodies(server):
        text = json.dumps(good).encode()
        for _ in range(25):
            data = bytearray(text)
            at = dice.randrange(len(data))
            how = dice.randrange(3)
            if how == 0:
                del data[at:]
            elif how == 1:
                data[at] = dice.randrange(256)
            else:
                data[at:at] = data[:at]
            status, _, reply = request(server, "POST", path, bytes(data))
            assert status in (200, 400, 403, 404), (path, status, bytes(data), reply)
    post(server, "/v1/messages", bodies(server)[0][1])


if __name__ == "__main__":
    run("--context", "4096")
