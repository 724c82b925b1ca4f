#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""agent.py TASK - a tool-calling loop: the model calls functions of this file until it answers.

A tool is a Python function. The model sees its name, its first doc line and the types of its parameters.
Environment: OPENAI_BASE_URL, OPENAI_API_KEY, MODEL, and NOTES, the directory of `search`.
"""
import inspect
import json
import os
import pathlib
import sys

import openai

MAX_STEPS = 10
MODEL = os.environ.get("MODEL", "qwen3.5:4b")
NOTES = pathlib.Path(os.environ.get("NOTES", "notes"))
client = openai.OpenAI(base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:11435/v1"),
                       api_key=os.environ.get("OPENAI_API_KEY", "none"))


def add(a: float, b: float):
    """Add two numbers"""
    return a + b


def search(query: str):
    """Search the notes"""
    words = query.lower().split()
    found = [f"{path.name}: {line}" for path in sorted(NOTES.glob("*.txt"))
             for line in path.read_text(encoding="utf-8").splitlines()
             if words and all(word in line.lower() for word in words)]
    return "\n".join(found[:10]) or "nothing found"


def send_message(to: str, text: str):
    """Send a message"""
    with open("outbox.txt", "a", encoding="utf-8") as outbox:  # a real tool sends it here
        outbox.write(f"{to}: {text}\n")
    return "sent"


TOOLS = {function.__name__: function for function in (add, search, send_message)}
TYPES = {float: "number", int: "integer", str: "string", bool: "boolean"}


def describe(function):
    """The description of a tool in the form of the API, from the signature of the function."""
    parameters = inspect.signature(function).parameters
    return {"type": "function", "function": {
        "name": function.__name__,
        "description": inspect.getdoc(function).splitlines()[0],
        "parameters": {
            "type": "object",
            "properties": {name: {"type": TYPES[p.annotation]} for name, p in parameters.items()},
            "required": [name for name, p in parameters.items() if p.default is p.empty]}}}


def execute(call):
    """Runs one call. An error is a result too: the model reads it and can correct the call."""
    name, arguments = call.function.name, call.function.arguments
    try:
        result = str(TOOLS[name](**json.loads(arguments)))
    except Exception as error:  # pylint: disable=broad-except
        result = f"error: {error!r}"
    print(f"{name} {arguments} -> {result}", file=sys.stderr)
    return {"role": "tool", "tool_call_id": call.id, "content": result}


def run(task):
    """The loop: ask, execute the calls, append the results, ask again. Returns the answer."""
    messages = [{"role": "user", "content": task}]
    for _ in range(MAX_STEPS):
        # No penalty: arguments of calls repeat words of the task.
        reply = client.chat.completions.create(model=MODEL, messages=messages, temperature=0, presence_penalty=0,
                                               tools=[describe(function) for function in TOOLS.values()])
        message = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return message.content
        messages += [execute(call) for call in message.tool_calls]
    sys.exit(f"no answer after {MAX_STEPS} steps")


if __name__ == "__main__":
    print(run(" ".join(sys.argv[1:])))
