#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fallback.py - local first, another endpoint when the local one cannot: the OpenAI SDK twice.

    LOCAL_URL=... LOCAL_KEY=... REMOTE_URL=... REMOTE_KEY=... REMOTE_MODEL=... fallback.py PROMPT

The other endpoint is asked when the local one is full (429), not there or about to stop (503,
no connection), or when its first token takes longer than PATIENCE. Other errors are the
request's own and would be the same elsewhere, so they are not hidden. Once an answer has
begun it is never mixed with another one: then a failure is told.
"""
import os
import sys

import openai

PATIENCE = float(os.environ.get("PATIENCE", "20"))  # seconds without a token

local = openai.OpenAI(base_url=os.environ["LOCAL_URL"], api_key=os.environ.get("LOCAL_KEY", "none"),
                      timeout=openai.Timeout(PATIENCE, connect=1.0), max_retries=0)
remote = openai.OpenAI(base_url=os.environ["REMOTE_URL"], api_key=os.environ.get("REMOTE_KEY", "none"),
                       max_retries=2)


def elsewhere(error):
    """Whether another endpoint could do better."""
    if isinstance(error, openai.APIConnectionError):  # timeouts are of this kind, too
        return True
    return isinstance(error, openai.APIStatusError) and error.status_code in (429, 503, 529)


def first_piece(stream):
    """Waits for the first piece of text, so that a stream that never begins counts as a failure."""
    for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            return chunk.choices[0].delta.content
    return ""


def begin(client, model, messages):
    stream = client.chat.completions.create(model=model, messages=messages, stream=True)
    return first_piece(stream), stream


def ask(messages):
    """Pieces of the answer, and who gives it."""
    try:
        who, (first, rest) = "local", begin(local, os.environ.get("LOCAL_MODEL", "mote"), messages)
    except openai.OpenAIError as error:
        if not elsewhere(error):
            raise
        print(f"local: {type(error).__name__}, asking the other one", file=sys.stderr)
        who, (first, rest) = "remote", begin(remote, os.environ["REMOTE_MODEL"], messages)
    yield who, first
    for chunk in rest:
        if chunk.choices and chunk.choices[0].delta.content:
            yield who, chunk.choices[0].delta.content


def main():
    who = None
    for who, piece in ask([{"role": "user", "content": " ".join(sys.argv[1:])}]):
        print(piece, end="", flush=True)
    print(f"\n({who})", file=sys.stderr)


if __name__ == "__main__":
    main()
