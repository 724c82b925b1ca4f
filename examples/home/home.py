#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""home.py - a small model as intent router: one sentence per line in, one action per line out.

    home.py < sentences.txt
    home.py --repeat 20 < sentences.txt     # more measurements of the same sentences

Every line of output is the action as JSON, then the milliseconds to the first token and to the whole answer. The last
line has the median and the 95th percentile, and whether the median is below LIMIT_MS.
Environment: OPENAI_BASE_URL, OPENAI_API_KEY, MODEL.
"""
import argparse
import json
import os
import statistics
import sys
import time

import openai

LIMIT_MS = 100
MODEL = os.environ.get("MODEL", "qwen3.5:0.8b")
client = openai.OpenAI(base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:11435/v1"),
                       api_key=os.environ.get("OPENAI_API_KEY", "none"), max_retries=0)

INTENTS = {"light_on": "turn a light on", "light_off": "turn a light off", "temperature": "set the temperature",
           "timer": "start a timer", "music": "play music", "none": "anything else"}
PLACES = ["kitchen", "living room", "bedroom", "bathroom", "none"]
# The intent comes first: a program could start to act on it before the rest arrives.
SCHEMA = {"type": "object", "additionalProperties": False, "required": ["intent", "room", "value"], "properties": {
    "intent": {"enum": list(INTENTS)},
    "room": {"enum": PLACES},
    "value": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 999}, {"type": "null"}]}}}
# The same for all sentences, so the server prefills it once.
SYSTEM = ("You control a home. Reply with the intent of the sentence, its room, and its number (degrees, minutes) or "
          "null.\n" + "\n".join(f"{name}: {meaning}" for name, meaning in INTENTS.items()))


def route(sentence):
    """Returns (action, seconds to the first token, seconds to the whole answer)."""
    began, first, text = time.perf_counter(), None, ""
    stream = client.chat.completions.create(
        model=MODEL, temperature=0, presence_penalty=0, reasoning_effort="none", max_tokens=64, stream=True,
        response_format={"type": "json_schema", "json_schema": {"name": "action", "schema": SCHEMA, "strict": True}},
        messages=[{"role": "system", "content": SYSTEM}, {"role": "user", "content": sentence}])
    for chunk in stream:
        piece = chunk.choices[0].delta.content if chunk.choices else None
        if piece:
            first = first or time.perf_counter() - began
            text += piece
    return json.loads(text), first, time.perf_counter() - began


def perform(action):
    """What the home does. A real one switches something here, or sends a message over MQTT."""
    print(json.dumps(action), end="", flush=True)


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def main():
    parser = argparse.ArgumentParser(description="routes sentences from standard input to actions")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="route all sentences N times")
    args = parser.parse_args()
    sentences = [line.strip() for line in sys.stdin if line.strip()]
    route("hello")  # loads the model and prefills the system text
    times = []
    for sentence in sentences * args.repeat:
        action, first, total = route(sentence)
        perform(action)
        print(f"  first token {first * 1000:.0f} ms, all {total * 1000:.0f} ms  {sentence}", flush=True)
        times.append(first * 1000)
    median = statistics.median(times)
    print(f"{len(times)} sentences: first token, median {median:.0f} ms, 95th percentile {percentile(times, 0.95):.0f} ms; "
          f"limit {LIMIT_MS} ms: {'met' if median < LIMIT_MS else 'exceeded'}")


if __name__ == "__main__":
    main()
