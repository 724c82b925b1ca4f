# SPDX-License-Identifier: Apache-2.0
"""The Python package ollama: chat, generate, streams, tools, formats, models, errors."""
import json

import ollama

import rig
from rig import case, equal, raises

GREEDY = {"options": {"temperature": 0, "num_predict": 300}}


def connect(server):
    return ollama.Client(host=server.url, headers={"Authorization": "Bearer " + rig.KEY})


def ask(text):
    return [{"role": "user", "content": text}]


def get_weather(city: str, unit: str = "celsius") -> str:
    """Get the weather of a city

    Args:
        city: the city
        unit: celsius or fahrenheit
    """
    return rig.WEATHER_RESULT


@case
def chat_plain(client, server):
    r = client.chat(model=server.model, messages=ask(rig.FACT), **GREEDY)
    equal(r.message.content, rig.FACT_ANSWER)
    equal((r.done, r.done_reason), (True, "stop"))
    assert r.eval_count > 3 and r.prompt_eval_count > 3 and r.total_duration > 0


@case
def chat_stream(client, server):
    parts = list(client.chat(model=server.model, messages=ask(rig.FACT), stream=True, **GREEDY))
    equal("".join(p.message.content or "" for p in parts), rig.FACT_ANSWER)
    equal([p.done for p in parts], [False] * (len(parts) - 1) + [True])
    assert len(parts) > 3, "it was not streamed"


@case
def chat_tools(client, server):
    messages = ask(rig.WEATHER)
    for tool in (get_weather, rig.WEATHER_TOOL):
        r = client.chat(model=server.model, messages=messages, tools=[tool], **GREEDY)
        call = r.message.tool_calls[0].function
        equal(call.name, "get_weather")
        equal(call.arguments["city"], "Haldon")
    parts = list(client.chat(model=server.model, messages=messages, tools=[rig.WEATHER_TOOL],
                             stream=True, **GREEDY))
    calls = [c for p in parts for c in p.message.tool_calls or []]
    equal([c.function.arguments for c in calls], [{"city": "Haldon"}])
    messages += [r.message, {"role": "tool", "content": rig.WEATHER_RESULT, "tool_name": "get_weather"}]
    r = client.chat(model=server.model, messages=messages, tools=[rig.WEATHER_TOOL], **GREEDY)
    equal(r.message.content, rig.WEATHER_ANSWER)


@case
def structured(client, server):
    r = client.chat(model=server.model, messages=ask(rig.POINT), format=rig.POINT_SCHEMA, **GREEDY)
    equal(json.loads(r.message.content), {"x": 91, "y": 26})
    r = client.chat(model=server.model, messages=ask(rig.POINT), format="json", **GREEDY)
    equal(json.loads(r.message.content), {"x": 91, "y": 26})


@case
def thinking(client, server):
    r = client.chat(model=server.model, messages=ask(rig.IDENTITY), think=True, **GREEDY)
    assert rig.IDENTITY_THOUGHT in r.message.thinking
    equal(r.message.content, rig.IDENTITY_ANSWER)
    r = client.chat(model=server.model, messages=ask(rig.IDENTITY), think=False, **GREEDY)
    assert not r.message.thinking


@case
def generate(client, server):
    r = client.generate(model=server.model, prompt=rig.FACT, **GREEDY)
    equal(r.response, rig.FACT_ANSWER)
    parts = list(client.generate(model=server.model, prompt=rig.FACT, stream=True, **GREEDY))
    equal("".join(p.response for p in parts), rig.FACT_ANSWER)
    r = client.generate(model=server.model, prompt="Once upon a time", raw=True,
                        options={"temperature": 0, "num_predict": 4})
    equal(r.eval_count, 4)
    equal(client.generate(model=server.model).done_reason, "load")


@case
def models(client, server):
    equal([m.model for m in client.list().models], [server.model])
    shown = client.show(server.model)
    assert "tools" in shown.capabilities and "completion" in shown.capabilities
    assert any(k.endswith(".context_length") for k in shown.modelinfo)
    equal([m.model for m in client.ps().models], [server.model])


@case
def embed(client, server):
    r = client.embed(model=server.model, input=["The owl.", "A red ball."])
    equal([len(e) for e in r.embeddings], [256, 256])
    assert abs(sum(x * x for x in r.embeddings[0]) - 1) < 1e-4


@case
def images_in_chat(client, server):
    assert "vision" in client.show(server.model).capabilities
    for files, question, answer in rig.shown():
        message = {"role": "user", "content": question, "images": files}
        equal(client.chat(model=server.model, messages=[message], think=False, **GREEDY).message.content, answer)
        equal(client.generate(model=server.model, prompt=question, images=files, think=False, **GREEDY).response,
              answer)


@case
def images_of_the_model_card(client, server):
    rig.run_questions(lambda q: client.chat(
        model=server.model, messages=[{"role": "user", "content": q.text, "images": q.images}], think=False,
        options={"temperature": 0, "presence_penalty": 0}).message.content, videos=False)


@case
def examples_of_vision_model(client, server):
    rig.run_vision_examples(connect, lambda other, e: other.chat(
        model="mote-tiny-vision", messages=[{"role": "user", "content": e.question, "images": [e.image]}],
        think=False, **GREEDY).message.content)


@case
def errors(client, server):
    e = raises(ollama.ResponseError, client.chat, model="no-such-model", messages=ask("Hi"))
    equal(e.status_code, 404)
    e = raises(ollama.ResponseError, client.chat, model=server.model, messages=ask(rig.LONG))
    equal(e.status_code, 400)
    assert "prompt is too long" in e.error
    e = raises(ollama.ResponseError, client.chat, model=server.model, messages=ask("Hi"),
               options={"temperature": "hot"})
    equal(e.status_code, 400)
    wrong = ollama.Client(host=server.url, headers={"Authorization": "Bearer wrong"})
    equal(raises(ollama.ResponseError, wrong.list).status_code, 401)
    for e in (raises(ollama.ResponseError, list,
                     client.chat(model="no-such-model", messages=ask("Hi"), stream=True)),):
        equal(e.status_code, 404)


rig.run_with_server(connect)
