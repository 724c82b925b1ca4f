# SPDX-License-Identifier: Apache-2.0
"""The Python package litellm, through three of its providers: openai, anthropic, ollama_chat."""
import json

import litellm

import rig
from rig import case, equal, raises

litellm.telemetry = False
litellm.suppress_debug_info = True


def ask(text):
    return [{"role": "user", "content": text}]


def ways(server):
    """Returns the settings of each provider for this server."""
    common = {"api_key": rig.KEY, "temperature": 0, "max_tokens": 300, "num_retries": 0}
    return [
        {"model": "openai/" + server.model, "api_base": server.url + "/v1", **common},
        {"model": "anthropic/" + server.model, "api_base": server.url, **common},
        {"model": "ollama_chat/" + server.model, "api_base": server.url, **common},
    ]


@case
def plain(_, server):
    for way in ways(server):
        equal(litellm.completion(messages=ask(rig.FACT), **way).choices[0].message.content,
              rig.FACT_ANSWER)


@case
def stream(_, server):
    for way in ways(server):
        parts = list(litellm.completion(messages=ask(rig.FACT), stream=True, **way))
        equal("".join(p.choices[0].delta.content or "" for p in parts), rig.FACT_ANSWER)
        assert len(parts) > 3, way["model"]


@case
def tools(_, server):
    for way in ways(server)[:2]:
        messages = ask(rig.WEATHER)
        r = litellm.completion(messages=messages, tools=[rig.WEATHER_TOOL], **way)
        call = r.choices[0].message.tool_calls[0]
        equal(json.loads(call.function.arguments), {"city": "Haldon"})
        messages += [r.choices[0].message.model_dump(exclude_none=True),
                     {"role": "tool", "tool_call_id": call.id, "content": rig.WEATHER_RESULT}]
        r = litellm.completion(messages=messages, tools=[rig.WEATHER_TOOL], **way)
        equal(r.choices[0].message.content, rig.WEATHER_ANSWER)


@case
def structured(_, server):
    form = {"type": "json_schema", "json_schema": {"name": "point", "schema": rig.POINT_SCHEMA,
                                                   "strict": True}}
    for way in (ways(server)[0], ways(server)[2]):
        r = litellm.completion(messages=ask(rig.POINT), response_format=form, **way)
        equal(json.loads(r.choices[0].message.content), {"x": 91, "y": 26})


@case
def embedding(_, server):
    r = litellm.embedding(model="openai/" + server.model, input=["The owl."], api_key=rig.KEY,
                          api_base=server.url + "/v1")
    equal(len(r.data[0]["embedding"]), 256)


@case
def errors(_, server):
    way = ways(server)[0]
    raises(litellm.ContextWindowExceededError, litellm.completion, messages=ask(rig.LONG), **way)
    raises(litellm.AuthenticationError, litellm.completion, messages=ask("Hi"),
           **{**way, "api_key": "wrong"})
    raises(litellm.BadRequestError, litellm.completion, messages=ask("Hi"),
           **{**way, "temperature": 9})


rig.run_with_server(lambda s: None)
