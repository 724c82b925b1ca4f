# SPDX-License-Identifier: Apache-2.0
"""A program that mypy --strict accepts: every public name with its type. It is checked, not run."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import mote


def use(model: mote.Model) -> None:
    answer: mote.Answer = model.chat("Hello", temperature=0.5, stop=["x"], thinking="low")
    stream: mote.Stream = model.chat([{"role": "user", "content": "Hello"}], stream=True, seed=1)
    pieces: list[str] = list(stream)
    events: list[mote.Event] = list(stream.events())
    calls: list[mote.ToolCall] = answer.tool_calls
    results: list[dict[str, Any]] = answer.run_tools()
    one: list[float] = model.embed("a")
    several: list[list[float]] = model.embed(["a", "b"], pooling="mean")
    raw: mote.Answer = model.generate("Once", max_tokens=5)
    ids: list[int] = model.tokenize("a")
    talk: mote.Conversation = model.conversation(system="x", tools=[use])
    said: mote.Stream = talk.send("Hello", images=[Path("x.png"), b""], stream=True)
    usage: mote.Usage = said.answer.usage
    info: mote.ModelInfo = model.info
    options: mote.Options = {"temperature": 1, "json_schema": {"type": "object"}}
    again: mote.Answer = model.chat("Hello", **options)
    print(pieces, events, calls, results, one, several, raw, ids, usage, info, again)


def wrong(model: mote.Model) -> None:
    """Each line is an error that mypy must see: an unused ignore is an error too."""
    model.chat("Hello", temprature=1)  # type: ignore[call-overload]
    model.chat("Hello", temperature="hot")  # type: ignore[call-overload]
    model.embed(17)  # type: ignore[call-overload]
    mote.Model("x", kv="f8")  # type: ignore[arg-type]
    model.chat("Hello", stream=True).content  # type: ignore[attr-defined]
