# SPDX-License-Identifier: Apache-2.0
"""other_params_test.py - every row of the parameter table, in the bodies of Anthropic, Ollama and native routes.

As openai_params_test.py: each row with null, every wrong type and the limits of its range. Valid values give 200,
others 400 in the error format of the API, with the name of the field.
"""
import json
import os
import subprocess

from api_rig import case, equal, request, run

TABLE = json.loads(subprocess.run([os.environ["PARAMS"], "json"], check=True, capture_output=True).stdout)
MESSAGES = [{"role": "user", "content": "Hi"}]


def bodies(server):
    chat = {"model": server.model, "messages": MESSAGES, "options": {"num_predict": 2}, "stream": False}
    return {
        "messages": ("/v1/messages", {"model": "m", "max_tokens": 2, "messages": MESSAGES}),
        "ollama chat": ("/api/chat", chat),
        "ollama options": ("/api/chat", chat),
        "ollama generate": ("/api/generate", {"model": server.model, "prompt": "Hi", "stream": False,
                                              "options": {"num_predict": 2}}),
        "ollama embed": ("/api/embed", {"model": server.model, "input": "Hi"}),
        "score": ("/v1/score", {"prompt": "Hi", "choices": ["a"]}),
        "rerank": ("/v1/rerank", {"query": "q", "documents": ["d"]}),
    }


# Required fields, and fields that change the meaning of others.
NEEDED = {"model", "max_tokens", "messages", "prompt", "choices", "query", "documents", "name"}
# Types that a row allows but the API rejects, or values that no sample covers.
GOOD = {
    "stop_sequences": [["a"] * 16, []], "stop": ["x", ["x", "y"]], "tools": [[]], "preset": ["coding"],
    "logit_bias": [{"5": -1.5}, [[5, False]]], "system": ["Be brief."], "think": [True, "low", "none"],
    "format": ["json", "", {"type": "integer"}], "keep_alive": ["5m", 0, -1, "-1s"], "suffix": [""],
    "thinking": [{"type": "disabled"}, {"type": "adaptive"}, {"type": "enabled", "budget_tokens": 1}],
    "output_config": [{}, {"effort": "low"}, {"format": {"type": "json_schema", "schema": {}}}],
    "regex": ["[ab]"], "choice": [["yes"]], "guided_regex": ["[ab]"], "guided_choice": [["yes"]], "json_schema": [{"type": "integer"}], "raw": [False, True],
    "grammar": ['root ::= [ab]+ "c"'], "guided_grammar": ['root ::= "a" | "b"'],
    "structured_outputs": [{"regex": "a"}], "chat_template_kwargs": [{"enable_thinking": False}],
    "extra_body": [{}], "context": [[]], "images": [[]], "options": [{}], "seed": [-1, 2 ** 63 - 1],
    "input": ["x", ["x", "y"], []], "dimensions": [1], "normalize": ["sum", "mean", "softmax"],
    "prompt_logprobs": [0, 20], "top_n": [1, 99], "thinking_budget": [0, 8, -1], "truncate": [True, False],
    "num_ctx": [256], "num_predict": [-2, -1, 0, 1], "tool_choice": ["auto", {"type": "auto"}],
    "mote": [{}, {"spec": "auto"}, {"spec": 0}],
}
BAD = {
    "stop_sequences": [["a"] * 17, [""], "z" * 257], "stop": [["a"] * 17], "preset": ["best"],
    "system": [[{"type": "image"}], ["x"]], "think": ["deeply"], "format": ["yaml"], "keep_alive": ["soon"],
    "thinking": [{}, {"type": "enabled"}, {"type": "x"}], "logit_bias": [{"5": 101}],
    "output_config": [{"effort": "much"}, {"format": {"type": "xml"}}], "choice": [[]], "grammar": ["root ="], "guided_grammar": ["a ::= b"],
    "context": [[1, 2], ["x"]], "images": [["aGk="]], "seed": [2 ** 63],
    "dimensions": [0, 10 ** 6], "normalize": ["max"], "top_n": [0, 1.5], "tool_choice": ["maybe"],
    "thinking_budget": [1.5], "num_ctx": [255], "num_predict": [-3], "mote": [{"spec": "much"}],
}
SAMPLES = {"boolean": True, "number": 1.5, "string": "x", "array": [True], "object": {"a": 1}}


def types_of(row):
    kinds = {"integer": {"number"}, "string or strings": {"string", "array"},
             "object or pairs": {"object", "array"}}.get(row["type"])
    return kinds or set(row["type"].split(" or "))


def ask(server, place, row, value):
    path, base = bodies(server)[place]
    if place == "ollama options":
        return request(server, "POST", path, {**base, "options": {**base["options"], row["name"]: value}})
    if row["name"] == "prompt_logprobs":
        base = {k: v for k, v in base.items() if k != "choices"} | {"prompt": "Hello you there"}
    return request(server, "POST", path, {**base, row["name"]: value})


def good(server, place, row, value):
    status, _, data = ask(server, place, row, value)
    assert status == 200, (place, row["name"], value, status, data[:300])


def bad(server, place, row, value):
    status, headers, data = ask(server, place, row, value)
    assert status == 400, (place, row["name"], value, status, data[:300])
    error = json.loads(data)["error"]
    message = error if isinstance(error, str) else (error.get("param") or "") + error["message"]
    assert row["name"] in message, (place, row["name"], value, error)
    equal(headers["x-should-retry"], "false")


def ends(server, row):
    model = server.get("/v1/models")["data"][0]
    names = {"vocabulary": model["meta"]["n_vocab"], "context": model["context_length"]}
    return names.get(row["min"], row["min"]), names.get(row["max"], row["max"])


def check_range(server, place, row):
    least, most = ends(server, row)
    whole = row["type"] == "integer"
    step = 1 if whole else 0.001
    good(server, place, row, most)
    bad(server, place, row, most + step)
    bad(server, place, row, least - step)
    (bad if row["above"] else good)(server, place, row, least)
    if whole:
        bad(server, place, row, least + 0.5)


def check_row(server, place, row):
    name = row["name"]
    if name not in NEEDED | {"prompt_logprobs"}:
        good(server, place, row, None)
    if row["type"] == "refused":
        bad(server, place, row, {"a": 1})
        return
    if row["type"].startswith("ignored"):
        for sample in SAMPLES.values():
            good(server, place, row, sample)
        return
    types = types_of(row)
    for kind, sample in SAMPLES.items():
        if kind not in types:
            bad(server, place, row, sample)
    # other tests cover the limits of lengths
    if "min" in row and name not in ("max_tokens", "num_predict", "min_tokens", "num_ctx"):
        check_range(server, place, row)
    for value in GOOD.get(name, []):
        good(server, place, row, value)
    for value in BAD.get(name, []):
        if name != "keep_alive" or place in ("ollama chat", "ollama generate"):
            bad(server, place, row, value)


def make_case(place):
    def check(server):
        rows = [row for row in TABLE if place in row["in"]]
        assert len(rows) > 3, (place, TABLE[0])
        for row in rows:
            check_row(server, place, row)
    check.__name__ = "every_field_of_" + place.replace(" ", "_")
    return case(check)


for each in ("messages", "ollama chat", "ollama options", "ollama generate", "ollama embed", "score", "rerank"):
    make_case(each)


@case
def unknown_fields(server):
    for place, (path, base) in bodies(server).items():
        status, _, data = request(server, "POST", path, {**base, "nobody_knows": 1})
        equal(status, 200)
        reply = json.loads(data)
        if "mote" in reply:
            assert {"code": "unknown_field", "at": "/nobody_knows"} in reply["mote"]["warnings"], place
        status, _, data = request(server, "POST", path, {**base, "nobody_knows": 1}, {"Mote-Strict": "1"})
        equal((status, b"nobody_knows" in data), (400, True))


if __name__ == "__main__":
    run("--context", "4096")
