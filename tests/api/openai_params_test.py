# SPDX-License-Identifier: Apache-2.0
"""openai_params_test.py - every row of the parameter table, in every body of the OpenAI API.

PARAMS prints the table of the server, so a new row is tested automatically: absent, null, each wrong type, the
limits of its range and values just outside. Valid values give 200, others 400 with the name of the field.
"""
import json
import os
import subprocess

from api_rig import case, equal, post, request, run

TABLE = json.loads(subprocess.run([os.environ["PARAMS"], "json"], check=True, capture_output=True).stdout)

BODIES = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}),
    "completions": ("/v1/completions", {"prompt": "The", "max_tokens": 2}),
    "responses": ("/v1/responses", {"input": "Hi", "max_output_tokens": 2, "store": False}),
    "embeddings": ("/v1/embeddings", {"input": "Hi"}),
}

# Fields that the dialects read themselves: valid values, then invalid ones in addition to wrong types.
GOOD = {
    "model": ["mote-tiny", "gpt-4o"], "stop": ["x", ["x", "y"], ["a"] * 16, "z" * 256],
    "logit_bias": [{"5": -1.5, "6": 100, "7": False}, [[5, 1], [6, False]], {}],
    "preset": ["auto", "coding"], "tools": [[], [{"type": "web_search"}]],
    "tool_choice": ["auto", "none"], "functions": [[]], "function_call": ["none"],
    "response_format": [{"type": "text"}, {"type": "json_object"}],
    "text": [{"format": {"type": "text"}}, {"format": {"type": "json_object"}}],
    "json_schema": [{"type": "integer"}], "regex": ["[ab]+"], "choice": [["yes", "no"]],
    "grammar": ['root ::= [ab]+ "c"'], "guided_grammar": ['root ::= "a" | "b"'],
    "structured_outputs": [{"regex": "a"}, {"grammar": 'root ::= "a"'}], "reasoning_effort": ["low", "none", "max"],
    "guided_json": [{"type": "integer"}], "guided_regex": ["[ab]+"], "guided_choice": [["yes", "no"]],
    "thinking": [{"type": "enabled"}, {"type": "disabled"}, {"type": "enabled", "budget_tokens": 9}],
    "think": [True, False, "low"],
    "reasoning": [{"effort": "low"}], "chat_template_kwargs": [{"enable_thinking": False}],
    "extra_body": [{"enable_thinking": True}], "enable_thinking": [True, False],
    "thinking_budget": [0, 64, -1], "thinking_token_budget": [64], "thinking_budget_tokens": [64],
    "reasoning_budget": [64], "keep_alive": ["5m", 0], "modalities": [["text"]],
    "reasoning_format": ["auto", "none"], "stream_options": [{"include_usage": True}],
    "messages": [[{"role": "user", "content": "x"}]], "prompt": ["x", ["x"], [5, 6], [[5], [6]]],
    "input": ["x"], "suffix": ["y"], "best_of": [1, 8], "logprobs": [0, 20], "include": [[]],
    "previous_response_id": [], "instructions": ["Be brief."], "store": [False],
    "truncation": ["auto", "disabled"], "dimensions": [1, 256], "encoding_format": ["float", "base64"],
    "pooling": ["last", "mean"], "instruction": ["Topic: "], "metadata": [{"a": "b"}], "tokens": [True],
    "seed": [0, -1, 7.0, 2**63 - 1, -(2**63)], "mote": [{}, {"spec": "off"}, {"spec": 8}],
}
BAD = {
    "stop": ["z" * 257, ["a"] * 17, [""], [5]], "logit_bias": [{"x": 1}, {"5": 101}, {"-1": 0}, [[5]], {"9" * 9: 1}],
    "preset": ["best"], "tools": [[{"type": "function", "function": {"name": "a b"}}]],
    "tool_choice": ["perhaps", {"type": "function", "function": {"name": "f"}}],
    "response_format": [{}, {"type": "xml"}, {"type": "json_schema"}],
    "text": [{"format": {"type": "xml"}}], "choice": [[], [1]], "guided_choice": [[], [1]],
    "grammar": ["root ::= x"], "guided_grammar": [""],
    "thinking": [{"type": "x"}, {"type": "enabled", "budget_tokens": 0}], "think": ["deeply"],
    "structured_outputs": [{"grammar": "root ::= x"}, {"grammar": 5}, {"regex": "a", "choice": ["a"]}],
    "reasoning_effort": ["much"], "reasoning": [{"effort": "much"}], "modalities": [["audio"]],
    "reasoning_format": ["xml"], "messages": [[], [{"role": "king", "content": "x"}]],
    "prompt": [[], [[]], ["x"] * 65, [-1], [10**9]], "input": [[]], "best_of": [0, 9], "logprobs": [-1, 21],
    "previous_response_id": ["resp_no"], "truncation": ["some"], "dimensions": [0, 257],
    "encoding_format": ["int8"], "pooling": ["max"], "seed": [2**63, 1.5, 1e300], "mote": [{"spec": 9}],
}
# Fields that require other fields.
REQUIRES = {("chat", "top_logprobs"): {"logprobs": True}, ("completions", "n"): {"best_of": None},
          ("completions", "min_tokens"): {}, ("chat", "tool_choice"): {}}

SAMPLES = {"boolean": True, "number": 1.5, "string": "x", "array": [True], "object": {"a": 1}}


def rows(place):
    return [row for row in TABLE if place in row["in"]]


def types_of(row):
    """Returns the JSON types of a field; None: not checked."""
    kind = row["type"]
    if kind.startswith("ignored") or kind == "refused":
        return None
    kinds = {"integer": {"number"}, "string or strings": {"string", "array"},
             "object or pairs": {"object", "array"}}.get(kind)
    return kinds or set(kind.split(" or "))


def limit(server, end):
    model = server.get("/v1/models")["data"][0]
    return {"vocabulary": model["meta"]["n_vocab"], "context": model["context_length"]}.get(end, end)


def ask(server, place, row, value):
    path, base = BODIES[place]
    body = {**base, **REQUIRES.get((place, row["name"]), {}), row["name"]: value}
    return request(server, "POST", path, body)


def good(server, place, row, value):
    status, _, data = ask(server, place, row, value)
    assert status == 200, (place, row["name"], value, status, data[:300])


def bad(server, place, row, value):
    status, headers, data = ask(server, place, row, value)
    assert status in (400, 404), (place, row["name"], value, status, data[:300])
    error = json.loads(data)["error"]
    assert headers["x-should-retry"] == "false", headers
    assert row["name"] in (error["param"] or "") + error["message"], (row["name"], value, error)
    assert error["type"] in ("invalid_request_error", "not_found_error"), error


def check_range(server, place, row):
    least, most = limit(server, row["min"]), limit(server, row["max"])
    whole = row["type"] == "integer"
    step = 1 if whole else 0.001
    good(server, place, row, most)
    bad(server, place, row, most + step)
    bad(server, place, row, least - step)
    if row["above"]:
        bad(server, place, row, least)
        good(server, place, row, least + step)
    elif not (row["name"] == "min_tokens" and least):
        good(server, place, row, least)
    if whole:
        bad(server, place, row, least + 0.5)


def check_row(server, place, row):
    name, types = row["name"], types_of(row)
    good(server, place, row, None) if name not in ("messages", "input") else None
    for kind, sample in SAMPLES.items():
        if types is not None and kind not in types:
            bad(server, place, row, sample)
    if row["type"] == "refused":
        bad(server, place, row, {"a": 1})
        return
    if types is None:
        for sample in SAMPLES.values():
            good(server, place, row, sample)
        return
    if "min" in row and name not in ("min_tokens", "max_output_tokens", "max_tokens", "n_predict"):
        check_range(server, place, row)
    for value in GOOD.get(name, []) if not ("min" in row) else []:
        good(server, place, row, value)
    for value in BAD.get(name, []):
        if not (place == "chat" and name in ("logprobs", "prompt")):
            bad(server, place, row, value)


def make_case(place):
    def check(server):
        for row in rows(place):
            if row["type"] == "boolean" and place == "chat" and row["name"] == "logprobs":
                good(server, place, row, True)
                continue
            check_row(server, place, row)
    check.__name__ = "every_field_of_" + place
    return case(check)


for name in BODIES:
    make_case(name)


@case
def unknown_fields(server):
    for place, (path, base) in BODIES.items():
        reply = post(server, path, {**base, "nobody_knows": 1})
        if place != "embeddings":
            assert {"code": "unknown_field", "at": "/nobody_knows"} in reply["mote"]["warnings"], reply["mote"]
        error = post(server, path, {**base, "nobody_knows": 1}, 400, {"Mote-Strict": "1"})["error"]
        equal((error["code"], error["param"]), ("unknown_field", "nobody_knows"))


@case
def ignored_fields_give_no_warning(server):
    path, base = BODIES["chat"]
    ignored = {row["name"]: "x" for row in rows("chat") if row["type"] == "ignored"}
    assert len(ignored) > 8, ignored
    equal(post(server, path, {**base, **ignored}, 200, {"Mote-Strict": "1"})["mote"]["warnings"], [])


@case
def first_of_two_names_wins(server):
    path, base = BODIES["chat"]
    body = {"messages": [{"role": "user", "content": "Count to ten."}], "ignore_eos": True}
    reply = post(server, path, {**body, "max_tokens": 9, "max_completion_tokens": 3})
    equal(reply["usage"]["completion_tokens"], 3)
    equal(post(server, path, {**body, "n_predict": 5})["usage"]["completion_tokens"], 5)
    equal(post(server, path, {**body, "n_predict": 5, "max_tokens": 4})["usage"]["completion_tokens"], 4)
    reply = post(server, path, {**body, "max_tokens": 9})
    equal(reply["usage"]["completion_tokens"], 9)
    reply = post(server, path, {**base, "max_tokens": 10**9})
    assert {"code": "max_tokens_capped", "at": "max_tokens"} in reply["mote"]["warnings"]


@case
def values_are_used(server):
    """Values of the request are the values used for sampling."""
    path, base = BODIES["chat"]
    wanted = {"temperature": 0.5, "top_p": 0.25, "top_k": 7, "min_p": 0.125, "presence_penalty": -1.5,
              "frequency_penalty": 0.5, "repetition_penalty": 1.25, "seed": 77}
    equal(post(server, path, {**base, **wanted})["mote"]["sampling"], wanted)
    equal(post(server, path, {**base, "seed": 77.0})["mote"]["sampling"]["seed"], 77)
    first = post(server, path, base)["mote"]["sampling"]["seed"]
    assert first != post(server, path, base)["mote"]["sampling"]["seed"]


@case
def min_tokens_is_at_most_max_tokens(server):
    for place, most in (("chat", "max_tokens"), ("completions", "max_tokens"), ("responses", "max_output_tokens")):
        path, base = BODIES[place]
        equal(post(server, path, {**base, most: 4, "min_tokens": 5}, 400)["error"]["param"], "min_tokens")
        reply = post(server, path, {**base, most: 4, "min_tokens": 4})
        usage = reply["usage"]
        equal(usage.get("completion_tokens", usage.get("output_tokens")), 4)


if __name__ == "__main__":
    run()
