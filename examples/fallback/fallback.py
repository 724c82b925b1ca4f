#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fallback.py PROMPT - a local server first, a remote endpoint as fallback, with the OpenAI SDK.

    REMOTE_URL=... REMOTE_KEY=... REMOTE_MODEL=... fallback.py PROMPT

The remote endpoint gets the request if the local server is full (429), unavailable or draining (503, no
connection), or if the first token takes longer than PATIENCE seconds. Other errors are errors of the
request itself and are raised. After the first token there is no fallback: a failure is raised.

With MIN_CONFIDENCE (0 to 1) the local answer is not streamed. It is used if the geometric mean of the
probabilities of its tokens is at least MIN_CONFIDENCE; otherwise the remote endpoint answers.

More variables: LOCAL_URL, LOCAL_KEY, LOCAL_MODEL.
"""
import math
import os
import sys

import openai

PATIENCE = float(os.environ.get("PATIENCE", "20"))  # seconds without a token
MIN_CONFIDENCE = float(os.environ.get("MIN_CONFIDENCE", "0"))

local = openai.OpenAI(base_url=os.environ.get("LOCAL_URL", "http://127.0.0.1:11435/v1"),
                      api_key=os.environ.get("LOCAL_KEY", "none"),
                      timeout=openai.Timeout(PATIENCE, connect=1.0), max_retries=0)
remote = openai.OpenAI(base_url=os.environ["REMOTE_URL"], api_key=os.environ.get("REMOTE_KEY", "none"),
                       max_retries=2)


class NotConfident(Exception):
    """The local model has answered, but its tokens were unlikely."""


def is_retryable(error):
    """True if another endpoint may succeed."""
    if isinstance(error, (NotConfident, openai.APIConnectionError)):  # the latter includes timeouts
        return True
    return isinstance(error, openai.APIStatusError) and error.status_code in (429, 503, 529)


def pieces_of(stream):
    """Yields (text, log-probabilities of its tokens)."""
    for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            tokens = chunk.choices[0].logprobs
            yield chunk.choices[0].delta.content, [token.logprob for token in (tokens and tokens.content) or []]


def begin(client, model, messages, **options):
    """Waits for the first text, so that a stream without any token counts as a failure."""
    stream = pieces_of(client.chat.completions.create(model=model, messages=messages, stream=True, **options))
    return next(stream, ("", []))[0], stream


def begin_local(messages):
    model = os.environ.get("LOCAL_MODEL", "mote")
    if not MIN_CONFIDENCE:
        return begin(local, model, messages)
    stream = local.chat.completions.create(model=model, messages=messages, stream=True, logprobs=True)
    pieces = list(pieces_of(stream))
    logprobs = [value for _, values in pieces for value in values]
    confidence = math.exp(sum(logprobs) / len(logprobs)) if logprobs else 0.0
    print(f"local: confidence {confidence:.2f}", file=sys.stderr)
    if confidence < MIN_CONFIDENCE:
        raise NotConfident
    return "".join(text for text, _ in pieces), iter(())


def ask(messages):
    """Yields (endpoint, text) for each piece of the answer."""
    try:
        endpoint, (first, rest) = "local", begin_local(messages)
    except (NotConfident, openai.OpenAIError) as error:
        if not is_retryable(error):
            raise
        print(f"local: {type(error).__name__}, using the remote endpoint", file=sys.stderr)
        endpoint, (first, rest) = "remote", begin(remote, os.environ["REMOTE_MODEL"], messages)
    yield endpoint, first
    for text, _ in rest:
        yield endpoint, text


def main():
    endpoint = None
    for endpoint, piece in ask([{"role": "user", "content": " ".join(sys.argv[1:])}]):
        print(piece, end="", flush=True)
    print(f"\n({endpoint})", file=sys.stderr)


if __name__ == "__main__":
    main()
