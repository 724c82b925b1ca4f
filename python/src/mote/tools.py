# SPDX-License-Identifier: Apache-2.0
"""Tools: Python functions as JSON schemas of OpenAI's format.

The schema of a function comes from its signature, type hints and docstring. The first paragraph of the docstring
describes the tool. Lines such as "city: name of the city" below it describe its parameters.
"""
from __future__ import annotations

import enum
import inspect
import re
import types
import typing
from typing import Any, Callable, Sequence, Union

Tool = Union[Callable[..., Any], "dict[str, Any]"]

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema_of_type(hint: Any) -> dict[str, Any]:
    """The JSON schema of a type hint. Unknown types allow any value."""
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        extra = [a for a in arguments[1:] if isinstance(a, str)]
        return {**schema_of_type(arguments[0]), **({"description": extra[0]} if extra else {})}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of_type(a) for a in arguments]}
    if origin in (list, set, tuple, frozenset) or hint in (list, set, tuple):
        items = [a for a in arguments if a is not Ellipsis]
        return {"type": "array", **({"items": schema_of_type(items[0])} if items else {})}
    if origin is dict or hint is dict:
        return {"type": "object"}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    if hasattr(hint, "model_json_schema"):  # pydantic
        found: dict[str, Any] = hint.model_json_schema()
        return found
    return {}


def _described(docstring: str) -> tuple[str, dict[str, str]]:
    """Description of a function, and of its parameters."""
    first, _, rest = docstring.partition("\n\n")
    rows = re.findall(r"^\s*(\w+)(?: \([^)]*\))?: (.+)$", rest, re.M)
    return " ".join(first.split()), dict(rows)


def schema_of_function(function: Callable[..., Any]) -> dict[str, Any]:
    """A function as tool in OpenAI's format."""
    description, rows = _described(inspect.getdoc(function) or "")
    hints = typing.get_type_hints(function, include_extras=True)
    properties: dict[str, Any] = {}
    required = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{function.__name__}: a tool cannot have the parameter {parameter}")
        properties[name] = schema_of_type(hints.get(name, Any))
        if name in rows:
            properties[name].setdefault("description", rows[name])
        if parameter.default is parameter.empty:
            required.append(name)
    return {"type": "function", "function": {
        "name": function.__name__, "description": description,
        "parameters": {"type": "object", "properties": properties, "required": required}}}


def read_tools(tools: Sequence[Tool]) -> tuple[list[dict[str, Any]], dict[str, Callable[..., Any]]]:
    """Schemas of all tools, and the functions among them by name."""
    schemas: list[dict[str, Any]] = []
    functions: dict[str, Callable[..., Any]] = {}
    for tool in tools:
        if isinstance(tool, dict):
            schemas.append(tool if "function" in tool else {"type": "function", "function": tool})
        elif callable(tool):
            schemas.append(schema_of_function(tool))
            functions[schemas[-1]["function"]["name"]] = tool
        else:
            raise TypeError(f"a tool is a function or a dict, not {type(tool).__name__}")
    return schemas, functions
