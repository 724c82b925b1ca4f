# SPDX-License-Identifier: Apache-2.0
"""Options of a generation by the names that other libraries use, and their form in the library."""
from __future__ import annotations

import ctypes
import json
import secrets
from typing import TYPE_CHECKING, Any, Mapping, Sequence, TypedDict, Union

from . import _abi
from ._library import lib

if TYPE_CHECKING:
    from .tools import Tool


class Sampling(TypedDict, total=False):
    """How tokens are chosen. Fields that are missing or None: the preset of the model card."""

    max_tokens: int | None  # tokens of the answer, thinking included
    temperature: float | None  # 0: greedy
    top_k: int | None
    top_p: float | None
    min_p: float | None
    typical_p: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    repetition_penalty: float | None
    repeat_last_n: int | None  # window of repetition_penalty
    logit_bias: Mapping[int, float] | None
    seed: int | None  # None: a random one, which the answer reports
    stop: str | Sequence[str] | None


class Options(Sampling, total=False):
    """Options of a chat answer."""

    thinking: bool | int | str | None  # True, False, a budget in tokens, or "low", "medium", "high" ...
    preset: str | None  # "general", "coding", "reasoning" or "vision"
    tools: Sequence[Tool] | None  # Python functions or schemas in OpenAI's format
    tool_choice: str | Mapping[str, Any] | None  # "auto", "none", "required", or the name of a tool
    parallel_tool_calls: bool | None  # False: at most one call
    json_schema: Any  # a schema as dict or JSON text, or a pydantic model
    response_format: Mapping[str, Any] | None  # OpenAI's form of the above
    regex: str | None  # the answer matches this regular expression
    choices: Sequence[str] | None  # the answer is one of these
    grammar: str | None  # the answer matches this GBNF grammar
    loop_guard: bool | None  # False: do not detect repetition loops
    spec: str | int | None  # speculative decoding: "auto", "off" or a draft length; the answer is the same


# Option: field of mote_sampling, its bit in mote_answer_options.set.
_SAMPLING = {
    "temperature": ("temperature", _abi.MOTE_SET_TEMPERATURE),
    "top_k": ("top_k", _abi.MOTE_SET_TOP_K),
    "top_p": ("top_p", _abi.MOTE_SET_TOP_P),
    "min_p": ("min_p", _abi.MOTE_SET_MIN_P),
    "typical_p": ("typical_p", _abi.MOTE_SET_TYPICAL_P),
    "presence_penalty": ("presence", _abi.MOTE_SET_PRESENCE),
    "frequency_penalty": ("frequency", _abi.MOTE_SET_FREQUENCY),
    "repetition_penalty": ("repetition", _abi.MOTE_SET_REPETITION),
    "repeat_last_n": ("repeat_last", _abi.MOTE_SET_REPEAT_LAST),
}
_PRESETS = {"general": _abi.MOTE_TASK_GENERAL, "coding": _abi.MOTE_TASK_CODING,
            "reasoning": _abi.MOTE_TASK_REASONING, "vision": _abi.MOTE_TASK_VISION}
_TOOL_CHOICES = {"auto": _abi.MOTE_TOOLS_AUTO, "none": _abi.MOTE_TOOLS_NONE, "required": _abi.MOTE_TOOLS_REQUIRED}
_FORMATS = ("json_schema", "regex", "choices", "grammar", "response_format")


def check_names(given: Mapping[str, Any], known: type[Any]) -> dict[str, Any]:
    """The options that are set. TypeError: an unknown name."""
    names = known.__annotations__.keys() | Sampling.__annotations__.keys()
    for name in given:
        if name not in names:
            raise TypeError(f"unknown option {name!r}; the options are {', '.join(sorted(names))}")
    return {name: value for name, value in given.items() if value is not None}


def stop_strings(value: Union[str, Sequence[str], None]) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def fill_sampling(sampling: _abi.mote_sampling, given: Mapping[str, Any]) -> int:
    """Fills mote_sampling. Returns the bits of the fields that were given."""
    bits = 0
    for name, (field, bit) in _SAMPLING.items():
        if name in given:
            setattr(sampling, field, given[name])
            bits |= bit
    seed = given.get("seed")
    sampling.seed = secrets.randbits(63) if seed is None else seed % 2**64
    bias = given.get("logit_bias") or {}
    if bias:
        rows = (_abi.mote_bias * len(bias))(*[_abi.mote_bias(int(token), add) for token, add in bias.items()])
        sampling.bias = rows
        sampling.n_bias = len(bias)
    return bits


def _fill_thinking(options: _abi.mote_answer_options, value: Any) -> None:
    word = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
    think, budget = ctypes.c_int(), ctypes.c_uint32()
    text = word.encode()
    if not lib.mote_think_parse(text, len(text), ctypes.byref(think), ctypes.byref(budget)):
        raise ValueError(f"thinking={value!r}: use True, False, a number of tokens, or one of 'auto', 'minimal', 'low', "
                         "'medium', 'high', 'xhigh', 'max'")
    options.think, options.think_budget = think.value, budget.value


def _json_text(schema: Any) -> str:
    if hasattr(schema, "model_json_schema"):  # pydantic
        schema = schema.model_json_schema()
    return schema if isinstance(schema, str) else json.dumps(schema, ensure_ascii=False)


def _read_format(given: Mapping[str, Any]) -> tuple[int, str]:
    wanted = [name for name in _FORMATS if name in given]
    if len(wanted) > 1:
        raise ValueError(f"{' and '.join(wanted)} exclude each other")
    if not wanted:
        return _abi.MOTE_FORMAT_TEXT, ""
    name, value = wanted[0], given[wanted[0]]
    if name == "json_schema":
        return _abi.MOTE_FORMAT_JSON_SCHEMA, _json_text(value)
    if name == "regex":
        return _abi.MOTE_FORMAT_REGEX, str(value)
    if name == "choices":
        return _abi.MOTE_FORMAT_CHOICES, json.dumps(list(value), ensure_ascii=False)
    if name == "grammar":
        return _abi.MOTE_FORMAT_GRAMMAR, str(value)
    kind = value.get("type")
    if kind == "text":
        return _abi.MOTE_FORMAT_TEXT, ""
    if kind == "json_object":
        return _abi.MOTE_FORMAT_JSON, ""
    if kind == "json_schema":
        return _abi.MOTE_FORMAT_JSON_SCHEMA, _json_text(value["json_schema"]["schema"])
    raise ValueError(f"response_format has the type {kind!r}; use text, json_object or json_schema")


def _fill_tool_choice(options: _abi.mote_answer_options, value: Any) -> None:
    if not isinstance(value, str):  # {"type": "function", "function": {"name": ...}}
        value = value["function"]["name"]
        options.tool_choice, options.tool_name = _abi.MOTE_TOOLS_NAMED, value.encode()
    elif value in _TOOL_CHOICES:
        options.tool_choice = _TOOL_CHOICES[value]
    else:
        options.tool_choice, options.tool_name = _abi.MOTE_TOOLS_NAMED, value.encode()


def _read_spec(spec: Any) -> int:
    words = {"auto": _abi.MOTE_SPEC_AUTO, "off": _abi.MOTE_SPEC_OFF}
    if isinstance(spec, str) and spec in words:
        return words[spec]
    if isinstance(spec, int) and not isinstance(spec, bool) and 1 <= spec <= _abi.MOTE_SPEC_MAX:
        return spec
    raise ValueError(f"spec={spec!r}: use 'auto', 'off' or 1 to {_abi.MOTE_SPEC_MAX}")


def answer_options(given: Mapping[str, Any]) -> _abi.mote_answer_options:
    """Options of mote_chat_answer. The struct keeps the texts that it points to."""
    options = _abi.mote_answer_options()
    options.set = fill_sampling(options.sampling, given)
    options.max_tokens = given.get("max_tokens", 0)
    if "thinking" in given:
        _fill_thinking(options, given["thinking"])
    if "preset" in given:
        if given["preset"] not in _PRESETS:
            raise ValueError(f"preset={given['preset']!r}: use {', '.join(_PRESETS)}")
        options.task = _PRESETS[given["preset"]]
    stop = [text.encode() for text in stop_strings(given.get("stop"))]
    if stop:
        options.stop = (ctypes.c_char_p * len(stop))(*stop)
        options.n_stop = len(stop)
    options.format, text = _read_format(given)
    if text:
        encoded = text.encode()
        options.format_text, options.format_bytes = encoded, len(encoded)
    if "tool_choice" in given:
        _fill_tool_choice(options, given["tool_choice"])
    options.one_call = not given.get("parallel_tool_calls", True)
    options.no_loop_guard = not given.get("loop_guard", True)
    options.spec = _read_spec(given.get("spec", "auto"))
    return options
