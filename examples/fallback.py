#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fallback.py - a local server first, a remote endpoint as fallback, with the OpenAI SDK.

    LOCAL_URL=... LOCAL_KEY=... REMOTE_URL=... REMOTE_KEY=... REMOTE_MODEL=... fallback.py PROMPT

The remote endpoint gets the request if the local server is full (429), unavailable or draining (503, no
connection), or if the first token takes longer than PATIENCE seconds. Other errors are errors of the
request itself and are raised. After the first token there is no fallback: a failure is raised.
"""
import os
import sys

import openai

PATIENCE = float(os.environ.get("PATIENCE", "20"))  # seconds without a token

local = openai.OpenAI(base_url=os.environ["LOCAL_URL"], api_key=os.environ.get("LOCAL_KEY", "none"),
                      timeout=openai.Timeout(PATIENCE, connect=1.0), max_retries=0)
remote = openai.OpenAI(base_url=os.environ["REMOTE_URL"], api_key=os.environ.get("REMOTE_KEY", "none"),
                       max_retries=2)


def is_retryable(error):
    """True if another endpoint may succeed."""
    if isinstance(error, openai.APIConnectionError):  # includes timeouts
        return True
    return isinstance(error, openai.APIStatusError) and error.status_code in (429, 503, 529)


def first_piece(stream):
    """Waits for the first text, so that a stream without any token counts as a failure."""
    for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            return chunk.choices[0].delta.content
    return ""


def begin(client, model, messages):
    stream = client.chat.completions.create(model=model, messages=messages, stream=True)
    return first_piece(stream), stream


def ask(messages):
    """Yields (endpoint, text) for each piece of the answer."""
    try:
        endpoint, (first, rest) = "local", begin(local, os.environ.get("LOCAL_MODEL", "mote"), messages)
    except openai.OpenAIError as error:
        if not is_retryable(error):
            raise
        print(f"local: {type(error).__name__}, using the remote endpoint", file=sys.stderr)
        endpoint, (first, rest) = "remote", begin(remote, os.environ["REMOTE_MODEL"], messages)
    yield endpoint, first
    for chunk in rest:
        if chunk.choices and chunk.choices[0].delta.content:
            yield endpoint, chunk.choices[0].delta.content


def main():
    endpoint = None
    for endpoint, piece in ask([{"role": "user", "content": " ".join(sys.argv[1:])}]):
        print(piece, end="", flush=True)
    print(f"\n({endpoint})", file=sys.stderr)


if __name__ == "__main__":
    main()
