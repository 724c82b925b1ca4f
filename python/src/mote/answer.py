# SPDX-License-Identifier: Apache-2.0
"""What a generation returns: answers, tool calls, and the events of a stream."""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Callable, Literal, Optional

Finish = Literal["stop", "length", "tool_calls", "stop_text", "canceled", "loop"]
EventKind = Literal["prefill", "reasoning", "content", "tool_call", "warning"]


@dataclass(frozen=True)
class ToolCall:
    """A call that the model made. `arguments` is the parsed JSON object."""

    id: str
    name: str
    arguments: dict[str, Any]
    function: Optional[Callable[..., Any]] = field(default=None, repr=False, compare=False)

    def run(self) -> Any:
        """Calls the Python function that was passed as tool and returns its result."""
        if self.function is None:
            raise TypeError(f"the tool {self.name!r} was passed as a schema, not as a function")
        return self.function(**self.arguments)


@dataclass(frozen=True)
class Event:
    """One event of a stream."""

    kind: EventKind
    text: str = ""  # reasoning, content: the next piece; warning: its name and subject
    tool_call: Optional[ToolCall] = None
    done: int = 0  # prefill: computed tokens of the prompt
    total: int = 0  # prefill: all tokens of the prompt


@dataclass(frozen=True)
class Usage:
    """Tokens and seconds of an answer."""

    prompt_tokens: int = 0
    reused_tokens: int = 0  # prompt tokens that needed no prefill
    answer_tokens: int = 0  # thinking and tool calls included
    think_tokens: int = 0
    seconds_prefill: float = 0.0
    seconds_decode: float = 0.0
    drafted_tokens: int = 0  # guessed by speculative decoding
    accepted_tokens: int = 0  # those that were right


@dataclass(frozen=True)
class Answer:
    """An answer. str(answer) is its visible text."""

    content: str
    reasoning: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    finish: Finish = "stop"
    usage: Usage = Usage()
    seed: int = 0  # pass it as `seed` to get the same answer again
    warnings: list[str] = field(default_factory=list)
    message: dict[str, Any] = field(default_factory=dict)  # to append to the messages of the next call

    def __str__(self) -> str:
        return self.content

    def json(self) -> Any:
        """The content, parsed as JSON."""
        return json.loads(self.content)

    def run_tools(self) -> list[dict[str, Any]]:
        """Runs all tool calls. Returns the messages with their results. An exception of a tool becomes its result."""
        return [{"role": "tool", "tool_call_id": call.id, "content": _result(call)} for call in self.tool_calls]


def _result(call: ToolCall) -> str:
    if call.function is None:
        call.run()  # raises
    try:
        result = call.run()
    except Exception as error:  # the model should learn what went wrong
        return json.dumps({"error": f"{type(error).__name__}: {error}"}, ensure_ascii=False)
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
