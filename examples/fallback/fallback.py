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
import asyncio
import math
import os
import sys

import openai

PATIENCE = float(os.environ.get("PATIENCE", "20"))  # seconds until the first token
MIN_CONFIDENCE = float(os.environ.get("MIN_CONFIDENCE", "0"))

local = openai.AsyncOpenAI(base_url=os.environ.get("LOCAL_URL", "http://127.0.0.1:11435/v1"),
                           api_key=os.environ.get("LOCAL_KEY", "none"),
                           timeout=openai.Timeout(600, connect=1.0), max_retries=0)
remote = openai.AsyncOpenAI(base_url=os.environ["REMOTE_URL"], api_key=os.environ.get("REMOTE_KEY", "none"),
                            max_retries=2)


class NotConfident(Exception):
    """The local model has answered, but its tokens were unlikely."""


def is_retryable(error):
    """True if another endpoint may succeed."""
    if isinstance(error, (NotConfident, asyncio.TimeoutError, openai.APIConnectionError)):
        return True
    return isinstance(error, openai.APIStatusError) and error.status_code in (429, 503, 529)


async def pieces_of(client, model, messages, **options):
    """Yields (text, log-probabilities of its tokens); the text is empty while the model thinks."""
    async with await client.chat.completions.create(model=model, messages=messages, stream=True, **options) as stream:
        async for chunk in stream:
            delta = chunk.choices[0].delta if chunk.choices else None
            if delta and delta.content:
                tokens = chunk.choices[0].logprobs
                yield delta.content, [token.logprob for token in (tokens and tokens.content) or []]
            elif delta and getattr(delta, "reasoning_content", None):
                yield "", []


async def begin(pieces, patience=None):
    """Waits for the first token. A timeout of the connection does not: a server that queues or prefills a request sends
    comments meanwhile."""
    try:
        return await asyncio.wait_for(pieces.__anext__(), patience)
    except StopAsyncIteration:
        return "", []


async def begin_local(messages):
    model = os.environ.get("LOCAL_MODEL", "mote")
    rest = pieces_of(local, model, messages, **({"logprobs": True} if MIN_CONFIDENCE else {}))
    first = await begin(rest, PATIENCE)
    if not MIN_CONFIDENCE:
        return first[0], rest
    pieces = [first] + [piece async for piece in rest]
    logprobs = [value for _, values in pieces for value in values]
    confidence = math.exp(sum(logprobs) / len(logprobs)) if logprobs else 0.0
    print(f"local: confidence {confidence:.2f}", file=sys.stderr)
    if confidence < MIN_CONFIDENCE:
        raise NotConfident
    return "".join(text for text, _ in pieces), rest


async def ask(messages):
    """Yields (endpoint, text) for each piece of the answer."""
    try:
        endpoint, (first, rest) = "local", await begin_local(messages)
    except (NotConfident, asyncio.TimeoutError, openai.OpenAIError) as error:
        if not is_retryable(error):
            raise
        print(f"local: {type(error).__name__}, using the remote endpoint", file=sys.stderr)
        endpoint, rest = "remote", pieces_of(remote, os.environ["REMOTE_MODEL"], messages)
        first = (await begin(rest))[0]
    yield endpoint, first
    async for text, _ in rest:
        yield endpoint, text


async def main():
    endpoint = None
    async for endpoint, piece in ask([{"role": "user", "content": " ".join(sys.argv[1:])}]):
        print(piece, end="", flush=True)
    print(f"\n({endpoint})", file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main())
