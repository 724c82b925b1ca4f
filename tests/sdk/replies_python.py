# SPDX-License-Identifier: Apache-2.0
"""Every kind of reply against the pydantic types of the Python packages openai, anthropic and ollama.

Validation is strict: a wrong type or a missing field fails. The types allow unknown fields such as `mote`. They mark
many fields as optional that the APIs never send as null, so the nulls of every reply are compared with a list.
"""
import json
import os
import re
import sys
import typing

import anthropic.types
import anthropic.types.shared
import ollama
import openai.types
import openai.types.chat
import openai.types.responses
import openai.types.shared
from openai.pagination import SyncPage
from anthropic.pagination import SyncPage as AnthropicPage
from pydantic import BaseModel, TypeAdapter, ValidationError

import rig
from rig import case, equal


class OpenAIError(BaseModel):
    error: openai.types.shared.ErrorObject


class ResponseDeleted(BaseModel):  # the client has no type for it
    id: str
    object: typing.Literal["response"]
    deleted: typing.Literal[True]


class OllamaError(BaseModel):
    error: str


TYPES = {kind: TypeAdapter(of) for kind, of in {
    "openai.chat": openai.types.chat.ChatCompletion,
    "openai.chat.stream": openai.types.chat.ChatCompletionChunk,
    "openai.completion": openai.types.Completion,
    "openai.completion.stream": openai.types.Completion,
    "openai.response": openai.types.responses.Response,
    "openai.input_items": openai.types.responses.ResponseItemList,
    "openai.deleted": ResponseDeleted,
    "openai.embeddings": openai.types.CreateEmbeddingResponse,
    "openai.models": SyncPage[openai.types.Model],
    "openai.model": openai.types.Model,
    "anthropic.message": anthropic.types.Message,
    "anthropic.count": anthropic.types.MessageTokensCount,
    "anthropic.models": AnthropicPage[anthropic.types.ModelInfo],
    "anthropic.model": anthropic.types.ModelInfo,
    "ollama.chat": ollama.ChatResponse,
    "ollama.chat.stream": ollama.ChatResponse,
    "ollama.generate": ollama.GenerateResponse,
    "ollama.generate.stream": ollama.GenerateResponse,
    "ollama.tags": ollama.ListResponse,
    "ollama.ps": ollama.ProcessResponse,
    "ollama.show": ollama.ShowResponse,
    "ollama.embed": ollama.EmbedResponse,
    "ollama.embeddings": ollama.EmbeddingsResponse,
}.items()}
ERRORS = {"openai": TypeAdapter(OpenAIError), "anthropic": TypeAdapter(anthropic.types.shared.ErrorResponse),
          "ollama": TypeAdapter(OllamaError)}


def documents(reply):
    """The JSON documents of a reply: its body, or the data of its events."""
    text = reply["text"]
    if reply["status"] >= 400 or not reply["headers"]["Content-Type"].startswith(
            ("text/event-stream", "application/x-ndjson")):
        return [text]
    if "ndjson" in reply["headers"]["Content-Type"]:
        return text.splitlines()
    return [data for data in re.findall(r"^data: (.*)$", text, re.MULTILINE) if data != "[DONE]"]


def check_all(found, check):
    """Applies check(reply, document) everywhere and reports each complaint once."""
    complaints = {}
    for reply in found:
        for document in documents(reply):
            for complaint in check(reply, document):
                complaints.setdefault(f"{reply['kind']}: {complaint}", f"{reply['name']}: {document[:400]}")
    if complaints:
        raise AssertionError("\n".join(f"{k}\n    {v}" for k, v in complaints.items()))


# Places where a type is narrower than what the API itself sends, with the reason.
NARROW = {
    ("openai.completion.stream", "choices.*.finish_reason"),  # the type of a whole reply; null until the last chunk
    ("openai.completion", "choices.*.logprobs.token_logprobs.0"),  # with echo: the first token has no probability
    ("openai.completion", "choices.*.logprobs.top_logprobs.0"),
    ("openai.embeddings", "data.*.embedding"),  # base64, which the client decodes before it makes this type
    ("openai.response.stream", "response.error.code"),  # Codex knows context_length_exceeded, the type does not
}


def event_types(union):
    """The members of a union by the value of their field `type`."""
    members = {}
    for of in typing.get_args(typing.get_args(union)[0]):
        for name in typing.get_args(of.model_fields["type"].annotation):
            members[name] = TypeAdapter(of)
    return members


EVENTS = {"openai.response.stream": event_types(openai.types.responses.ResponseStreamEvent),
          "anthropic.message.stream": event_types(anthropic.types.RawMessageStreamEvent)}


def place_of(location):
    return ".".join("*" if isinstance(x, int) and x > 0 or x == 0 and i < 2 else str(x)
                    for i, x in enumerate(location))


def type_complaints(reply, document):
    kind = reply["kind"]
    if reply["status"] >= 400:
        of = ERRORS[kind.split(".")[0]]
    elif kind in EVENTS:
        name = json.loads(document)["type"]
        if name == "ping":  # the client drops these before it parses events
            return
        of = EVENTS[kind].get(name)
        if of is None:
            yield f"unknown event {name}"
            return
    else:
        of = TYPES[kind]
    try:
        of.validate_json(document, strict=True)
    except ValidationError as e:
        for x in e.errors():
            place = place_of(x["loc"])
            if (kind, place) not in NARROW:
                yield f"{place}: {x['msg']}"


@case
def types(found):
    check_all(found, type_complaints)
    seen = {r["kind"] for r in found if r["status"] < 400}
    equal(sorted((set(TYPES) | set(EVENTS)) - seen), [])
    equal(sorted(seen - set(TYPES) - set(EVENTS)), [])
    equal({r["kind"].split(".")[0] for r in found if r["status"] >= 400}, set(ERRORS))


# Every key that may be null. Each is nullable in the published description of its API, or the API itself sends null.
# A key that is not listed must be left out when it has no value: some clients accept an absent key but reject null.
RESPONSE_NULLS = {"completed_at", "error", "incomplete_details", "instructions", "max_output_tokens",
                  "previous_response_id", "reasoning.effort", "reasoning.summary", "temperature", "top_p"}
NULLS = {
    "openai.chat": {"choices.*.message.content", "choices.*.message.refusal", "choices.*.logprobs",
                    "choices.*.logprobs.refusal"},
    "openai.chat.stream": {"choices.*.logprobs", "choices.*.logprobs.refusal", "choices.*.finish_reason", "usage"},
    "openai.completion": {"choices.*.logprobs", "choices.*.logprobs.token_logprobs.*",
                          "choices.*.logprobs.top_logprobs.*"},
    "openai.completion.stream": {"choices.*.logprobs", "choices.*.finish_reason", "usage"},
    "openai.response": RESPONSE_NULLS,
    "openai.response.stream": {f"response.{key}" for key in RESPONSE_NULLS},
    "anthropic.message": {"stop_sequence"},
    "anthropic.message.stream": {"message.stop_reason", "message.stop_sequence", "delta.stop_sequence"},
}
ERROR_NULLS = {"openai": {"error.param"}}


def nulls_in(value, path=()):
    if value is None:
        yield ".".join(path)
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from nulls_in(item, (*path, key))
    for item in value if isinstance(value, list) else ():
        yield from nulls_in(item, (*path, "*"))


def null_complaints(reply, document):
    kind = reply["kind"]
    allowed = NULLS.get(kind, ()) if reply["status"] < 400 else ERROR_NULLS.get(kind.split(".")[0], ())
    yield from (f"{path} is null" for path in nulls_in(json.loads(document)) if path not in allowed)


@case
def nulls(found):
    check_all(found, null_complaints)


if __name__ == "__main__":
    with open(os.environ["MOTE_REPLIES"], encoding="utf-8") as f:
        sys.exit(rig.main(json.load(f)))
