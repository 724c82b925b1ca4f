# SPDX-License-Identifier: Apache-2.0
"""spec_rig.py - requests for law L7 in the server: answers with drafts equal answers without, byte for byte.

Requests cover greedy and sampled text, penalties, bias, log-probs, several choices, stop strings, thinking, schemas,
tools, raw completions, streams and images. Used by spec_test.py and scripts/spec_law.
"""
import concurrent.futures
import json
import random
import re

from api_rig import POINT_SCHEMA, WEATHER_TOOL, request, shown
from images_rig import OpenAI

TOWNS = ["Venvia", "Haldon", "Miravel", "Tosk", "Ardenne", "Quill"]
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
LIST_SCHEMA = {"type": "object", "additionalProperties": False, "required": ["points", "name"], "properties": {
    "points": {"type": "array", "items": POINT_SCHEMA, "minItems": 1, "maxItems": 4}, "name": {"type": "string", "maxLength": 12}}}
CODE = """def area(width, height):
    result = width * height
    return result

def volume(width, height, depth):
    result = width * height * depth
    return result
"""


def question(r):
    town, a, b = r.choice(TOWNS), r.randrange(100, 1000), r.randrange(100, 1000)
    return r.choice([
        f"Tell me the emblem of {town}.", f"What is {a} + {b}?", f"What is the weather in {town}?",
        f"Give me the point {a % 100}, {b % 100} as JSON.", "Who are you?",
        f"Repeat this list three times: {town}, {a}, {b}, {town}, {a}, {b}.",
        f"Change result to total:\n```\n{CODE}```", "Count from 1 to 40."])


def sampling(r, seed):
    """Greedy for seed 0; otherwise one of several settings."""
    if seed == 0:
        return {"temperature": 0, "seed": 4, **r.choice([{}, {"presence_penalty": 0}, {"frequency_penalty": 0.4}])}
    return {"seed": seed, **r.choice([{}, {"temperature": 1}, {"temperature": 0.7, "top_k": 5, "repetition_penalty": 1.2},
                                      {"temperature": 1.3, "min_p": 0.02, "top_p": 1}, {"logit_bias": {"300": 3, "13": False}}])}


SHAPES = {
    "text": lambda r, body: body,
    "again": lambda r, body: body,
    "stream": lambda r, body: {**body, "stream": True, "stream_options": {"include_usage": True}},
    "logprobs": lambda r, body: {**body, "logprobs": True, "top_logprobs": r.randrange(0, 6)},
    "choices": lambda r, body: {**body, "n": r.randrange(2, 5), "logprobs": True},
    "stop": lambda r, body: {**body, "stop": [r.choice(["e", " is", "1", "\n"])]},
    "think": lambda r, body: {**body, "reasoning_effort": "low", "thinking_budget": r.randrange(4, 40)},
    "schema": lambda r, body: {**body, "json_schema": r.choice([POINT_SCHEMA, LIST_SCHEMA])},
    "choice": lambda r, body: {**body, "choice": ["yes, of course it is", "no", "perhaps"]},
    "tools": lambda r, body: {**body, "tools": [WEATHER_TOOL], "tool_choice": r.choice(["auto", "required"])},
    "loop": lambda r, body: {**body, "logit_bias": {"300": 30}, "max_tokens": 120},
}


def requests(n, seeds=(0, 1, 2, 3), images=False, seed=1):
    """n prompts, each once for every seed, as (name, path, body)."""
    r, out = random.Random(seed), []
    shapes = list(SHAPES)
    for i in range(n):
        text, shape = question(r), shapes[i % len(shapes)]
        for s in seeds:
            body = {"messages": [{"role": "user", "content": text}], "max_tokens": r.randrange(8, 48), **sampling(r, s)}
            if s == 0 and shape == "loop":
                body["temperature"] = 0
            out.append((f"{i} {shape} seed {s}", CHAT, SHAPES[shape](r, body)))
            if shape == "again":
                raw = {k: v for k, v in body.items() if k != "messages"}
                out.append((f"{i} raw seed {s}", COMPLETIONS, {**raw, "prompt": f"{text} {text} {text}", "echo": True}))
    if images:
        for files, text, _ in shown():
            for s in seeds:
                body = OpenAI().body(text, files, max_tokens=32)
                out.append((f"image seed {s}", CHAT, {**body, **sampling(r, s)}))
    return out


VARYING = [(re.compile(rb"^: [^\n]*\n\n", re.M), b""),  # comments of slow streams
           (re.compile(rb"\b(req|chatcmpl|cmpl|call)(_|-)[0-9a-f]{20,32}\b"), rb"\1"),
           (re.compile(rb'"created":[0-9]+'), b""),
           (re.compile(rb'"timings":\{[^}]*\}'), b""),
           (re.compile(rb'"cached_tokens":[0-9]+'), b""),
           (re.compile(rb'"cache":\{.*?\},"spec":\{[^}]*\}'), b""),
           (re.compile(rb'"ms":\{[^}]*\}'), b"")]


def same_part(data):
    """The reply without ids, times, cache use and counts of drafts."""
    for pattern, by in VARYING:
        data = pattern.sub(by, data)
    return data


def replies_of(server, wanted, streams, spec=None):
    """The replies to all requests, `streams` at a time."""
    def ask(row):
        _, path, body = row
        status, _, data = request(server, "POST", path, body if spec is None else {**body, "mote": {"spec": spec}})
        return status, same_part(data)
    with concurrent.futures.ThreadPoolExecutor(streams) as pool:
        return list(pool.map(ask, wanted))


def compare(wanted, plain, drafted, what):
    """Raises for the first reply that differs."""
    for (name, path, body), a, b in zip(wanted, plain, drafted):
        if a != b:
            raise AssertionError(f"{what}: {name} {path} {json.dumps(body)[:600]}\nplain:  {a}\ndrafts: {b}")


def drafts(server):
    """(drafted, accepted) tokens of the server so far, by source."""
    return {source: tuple(int(server.metric(f'mote_draft_{kind}_total{{source="{source}"}}') or 0)
                          for kind in ("tokens", "accepted")) for source in ("lookup", "head")}
