# SPDX-License-Identifier: Apache-2.0
"""The Python package anthropic: messages, streams, tools, thinking, structured output, errors."""
import json

import anthropic

import rig
from rig import case, equal, raises

# The package has no parameter for the temperature any more; the API has it.
GREEDY = {"model": "claude-sonnet-4-5", "max_tokens": 300, "extra_body": {"temperature": 0}}
TOOL = {"name": "get_weather", "description": "Get the weather of a city",
        "input_schema": rig.WEATHER_SCHEMA}


def connect(server):
    return anthropic.Anthropic(base_url=server.url, api_key=rig.KEY, max_retries=0)


def ask(text):
    return [{"role": "user", "content": text}]


def text_of(message):
    return "".join(b.text for b in message.content if b.type == "text")


@case
def plain(client, server):
    r = client.messages.create(messages=ask(rig.FACT), **GREEDY)
    equal(text_of(r), rig.FACT_ANSWER)
    equal((r.stop_reason, r.role, r.type), ("end_turn", "assistant", "message"))
    assert r.usage.output_tokens > 3
    assert r._request_id.startswith("req_")


@case
def system_and_stop(client, server):
    r = client.messages.create(system=[{"type": "text", "text": "You are an assistant called Paul.",
                                        "cache_control": {"type": "ephemeral"}}],
                               messages=ask("Who are you?"), **GREEDY)
    equal(text_of(r), "My name is Paul.")
    r = client.messages.create(messages=ask("Count to 6."), stop_sequences=["4"], **GREEDY)
    equal((r.stop_reason, r.stop_sequence, text_of(r)), ("stop_sequence", "4", "1, 2, 3, "))
    r = client.messages.create(messages=ask("Count to 6."), **{**GREEDY, "max_tokens": 3})
    equal(r.stop_reason, "max_tokens")


@case
def stream(client, server):
    with client.messages.stream(messages=ask(rig.FACT), **GREEDY) as s:
        pieces = list(s.text_stream)
        final = s.get_final_message()
    equal("".join(pieces), rig.FACT_ANSWER)
    equal(text_of(final), rig.FACT_ANSWER)
    equal(final.stop_reason, "end_turn")
    assert len(pieces) > 3, "it was not streamed"
    kinds = [e.type for e in client.messages.create(messages=ask(rig.FACT), stream=True, **GREEDY)]
    equal((kinds[0], kinds[-1]), ("message_start", "message_stop"))


@case
def tools(client, server):
    messages = ask(rig.WEATHER)
    r = client.messages.create(messages=messages, tools=[TOOL], **GREEDY)
    equal(r.stop_reason, "tool_use")
    use = next(b for b in r.content if b.type == "tool_use")
    equal((use.name, use.input), ("get_weather", {"city": "Haldon"}))
    messages += [{"role": "assistant", "content": r.content},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id,
                                               "content": rig.WEATHER_RESULT}]}]
    r = client.messages.create(messages=messages, tools=[TOOL], **GREEDY)
    equal(text_of(r), rig.WEATHER_ANSWER)


@case
def tools_stream(client, server):
    with client.messages.stream(messages=ask(rig.WEATHER), tools=[TOOL],
                                tool_choice={"type": "any", "disable_parallel_tool_use": True},
                                **GREEDY) as s:
        parts = [e.partial_json for e in s if e.type == "input_json"]
        final = s.get_final_message()
    use = next(b for b in final.content if b.type == "tool_use")
    equal(use.input, {"city": "Haldon"})
    equal(json.loads("".join(parts)), {"city": "Haldon"})


@case
def thinking(client, server):
    how = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "extra_body": {"temperature": 0},
           "model": "claude", "max_tokens": 2000}
    r = client.messages.create(messages=ask(rig.IDENTITY), **how)
    equal(r.content[0].type, "thinking")
    assert rig.IDENTITY_THOUGHT in r.content[0].thinking and r.content[0].signature
    equal(text_of(r), rig.IDENTITY_ANSWER)
    with client.messages.stream(messages=ask(rig.IDENTITY), **how) as s:
        equal([b.type for b in s.get_final_message().content], ["thinking", "text"])
    again = ask(rig.IDENTITY) + [{"role": "assistant", "content": r.content}] + ask("Who are you?")
    equal(client.messages.create(messages=again, **how).stop_reason, "end_turn")


@case
def structured(client, server):
    form = {"format": {"type": "json_schema", "schema": rig.POINT_SCHEMA}}
    r = client.messages.create(messages=ask(rig.POINT), output_config=form, **GREEDY)
    equal(json.loads(text_of(r)), {"x": 91, "y": 26})


@case
def counting_and_models(client, server):
    n = client.messages.count_tokens(model="claude", messages=ask(rig.FACT)).input_tokens
    r = client.messages.create(messages=ask(rig.FACT), **GREEDY)
    equal(n, r.usage.input_tokens + (r.usage.cache_read_input_tokens or 0))
    equal([m.id for m in client.models.list()], [server.model])


def showing(files, question):
    blocks = [{"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                           "data": rig.in_letters(f)}} for f in files]
    return [{"role": "user", "content": blocks + [{"type": "text", "text": question}]}]


@case
def images_of_the_model_card(client, server):
    plain = {**GREEDY, "extra_body": {"temperature": 0, "presence_penalty": 0}}
    rig.run_questions(lambda q: text_of(client.messages.create(messages=showing(q.images, q.text), **plain)), videos=False)


@case
def images(client, server):
    for files, question, answer in rig.shown():
        messages = showing(files, question)
        equal(text_of(client.messages.create(messages=messages, **GREEDY)), answer)
        with client.messages.stream(messages=messages, **GREEDY) as s:
            equal("".join(s.text_stream), answer)


@case
def examples_of_vision_model(client, server):
    rig.run_vision_examples(connect, lambda other, e: text_of(other.messages.create(
        messages=showing([e.image], e.question), **GREEDY)))


@case
def errors(client, server):
    e = raises(anthropic.BadRequestError, client.messages.create, messages=ask("Hi"),
               **{**GREEDY, "extra_body": {"temperature": 9}})
    equal(e.body["error"]["type"], "invalid_request_error")
    assert "temperature" in str(e)
    e = raises(anthropic.BadRequestError, client.messages.create, messages=ask(rig.LONG), **GREEDY)
    assert "prompt is too long" in str(e), str(e)
    e = raises(anthropic.BadRequestError, client.messages.create, messages=ask("Hi"), tools=[TOOL],
               tool_choice={"type": "tool", "name": "no_such_tool"}, **GREEDY)
    wrong = anthropic.Anthropic(base_url=server.url, api_key="wrong", max_retries=0)
    e = raises(anthropic.AuthenticationError, wrong.messages.create, messages=ask("Hi"), **GREEDY)
    equal(e.body["error"]["type"], "authentication_error")
    raises(anthropic.NotFoundError, client.models.retrieve, "no-such-model")


rig.run_with_server(connect)
