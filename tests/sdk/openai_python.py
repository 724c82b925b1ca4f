# SPDX-License-Identifier: Apache-2.0
"""The Python package openai: chat completions, completions, embeddings, responses, models."""
import asyncio
import json
import tempfile
import time

import openai
from pydantic import BaseModel

import rig
from rig import case, equal, raises

GREEDY = {"model": "gpt-4o", "temperature": 0}  # clients hard-code model names; unknown names use the first model
WEATHER_FLAT = {"type": "function", "name": "get_weather", "description": "Get the weather of a city",
                "parameters": rig.WEATHER_SCHEMA, "strict": False}


class Point(BaseModel):
    x: int
    y: int


def connect(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=rig.KEY, max_retries=0)


def ask(text):
    return [{"role": "user", "content": text}]


@case
def models(client, server):
    names = [m.id for m in client.models.list()]
    equal(names, [server.model])
    equal(client.models.retrieve(server.model).id, server.model)


@case
def chat_plain(client, server):
    r = client.chat.completions.create(messages=ask(rig.FACT), **GREEDY)
    equal(r.choices[0].message.content, rig.FACT_ANSWER)
    equal(r.choices[0].finish_reason, "stop")
    equal(r.usage.prompt_tokens + r.usage.completion_tokens, r.usage.total_tokens)
    assert r._request_id.startswith("req_"), r._request_id
    assert r.created > 0 and r.object == "chat.completion"


@case
def chat_stream(client, server):
    chunks = list(client.chat.completions.create(
        messages=ask(rig.FACT), stream=True, stream_options={"include_usage": True}, **GREEDY))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    equal(text, rig.FACT_ANSWER)
    equal(len({c.id for c in chunks}), 1)
    equal(chunks[-1].choices, [])
    assert chunks[-1].usage.completion_tokens > 3
    assert len(chunks) > 5, "it was not streamed"


@case
def chat_stream_wrapper(client, server):
    with client.chat.completions.stream(messages=ask(rig.FACT), **GREEDY) as stream:
        deltas = [e.delta for e in stream if e.type == "content.delta"]
        final = stream.get_final_completion()
    equal("".join(deltas), rig.FACT_ANSWER)
    equal(final.choices[0].message.content, rig.FACT_ANSWER)


@case
def chat_tools(client, server):
    messages = ask(rig.WEATHER)
    r = client.chat.completions.create(messages=messages, tools=[rig.WEATHER_TOOL], **GREEDY)
    equal(r.choices[0].finish_reason, "tool_calls")
    call = r.choices[0].message.tool_calls[0]
    equal(call.function.name, "get_weather")
    equal(json.loads(call.function.arguments), {"city": "Haldon"})
    messages += [r.choices[0].message, {"role": "tool", "tool_call_id": call.id,
                                        "content": rig.WEATHER_RESULT}]
    r = client.chat.completions.create(messages=messages, tools=[rig.WEATHER_TOOL], **GREEDY)
    equal(r.choices[0].message.content, rig.WEATHER_ANSWER)


@case
def chat_tools_stream(client, server):
    with client.chat.completions.stream(messages=ask(rig.WEATHER), tools=[rig.WEATHER_TOOL],
                                        **GREEDY) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    call = final.choices[0].message.tool_calls[0]
    equal(json.loads(call.function.arguments), {"city": "Haldon"})
    pieces = [e.arguments_delta for e in events if e.type == "tool_calls.function.arguments.delta"]
    equal("".join(pieces), call.function.arguments)


@case
def chat_tool_choice(client, server):
    named = {"type": "function", "function": {"name": "get_weather"}}
    for choice in ("required", named):
        r = client.chat.completions.create(messages=ask("Hi"), tools=[rig.WEATHER_TOOL],
                                           tool_choice=choice, max_tokens=200, **GREEDY)
        equal(r.choices[0].message.tool_calls[0].function.name, "get_weather")
        assert "city" in json.loads(r.choices[0].message.tool_calls[0].function.arguments)
    r = client.chat.completions.create(messages=ask(rig.WEATHER), tools=[rig.WEATHER_TOOL],
                                       tool_choice="none", max_tokens=60, **GREEDY)
    equal(r.choices[0].message.tool_calls, None)


@case
def chat_structured(client, server):
    r = client.chat.completions.parse(messages=ask(rig.POINT), response_format=Point, **GREEDY)
    equal(r.choices[0].message.parsed, Point(x=91, y=26))
    r = client.chat.completions.create(messages=ask(rig.POINT), max_tokens=100,
                                       response_format={"type": "json_object"}, **GREEDY)
    equal(json.loads(r.choices[0].message.content), {"x": 91, "y": 26})
    with client.chat.completions.stream(messages=ask(rig.POINT), response_format=Point,
                                        **GREEDY) as stream:
        equal(stream.get_final_completion().choices[0].message.parsed, Point(x=91, y=26))


@case
def chat_thinking(client, server):
    r = client.chat.completions.create(messages=ask(rig.IDENTITY), reasoning_effort="low", **GREEDY)
    equal(r.choices[0].message.content, rig.IDENTITY_ANSWER)
    assert rig.IDENTITY_THOUGHT in r.choices[0].message.reasoning_content
    assert r.usage.completion_tokens_details.reasoning_tokens > 10
    r = client.chat.completions.create(
        messages=ask(rig.IDENTITY), extra_body={"chat_template_kwargs": {"enable_thinking": False}},
        max_tokens=50, **GREEDY)
    assert not hasattr(r.choices[0].message, "reasoning_content")


@case
def chat_options(client, server):
    r = client.chat.completions.create(messages=ask("Count to 6."), stop=["4"], **GREEDY)
    equal(r.choices[0].message.content, "1, 2, 3, ")
    r = client.chat.completions.create(messages=ask("Count to 6."), max_tokens=3, **GREEDY)
    equal(r.choices[0].finish_reason, "length")
    equal(r.usage.completion_tokens, 3)
    r = client.chat.completions.create(messages=ask(rig.FACT), logprobs=True, top_logprobs=2, **GREEDY)
    rows = r.choices[0].logprobs.content
    equal("".join(row.token for row in rows), rig.FACT_ANSWER)
    assert all(len(row.top_logprobs) == 2 and row.logprob <= 0 for row in rows)
    draws = [client.chat.completions.create(model="x", messages=ask("Hi"), seed=7, n=2, temperature=1.5,
                                            max_tokens=20) for _ in range(2)]
    equal(len(draws[0].choices), 2)
    equal([c.message.content for c in draws[0].choices], [c.message.content for c in draws[1].choices])


@case
def completions(client, server):
    r = client.completions.create(prompt="Once upon a time", max_tokens=8, **GREEDY)
    chunks = list(client.completions.create(prompt="Once upon a time", max_tokens=8, stream=True,
                                            **GREEDY))
    equal("".join(c.choices[0].text for c in chunks if c.choices), r.choices[0].text)
    equal(r.usage.completion_tokens, 8)


@case
def embeddings(client, server):
    texts = ["The owl of Venvia.", "A red ball."]
    r = client.embeddings.create(model="x", input=texts)  # base64 on the wire
    plain = client.embeddings.create(model="x", input=texts, encoding_format="float")
    equal([d.index for d in r.data], [0, 1])
    for a, b in zip(r.data, plain.data):
        assert len(a.embedding) == len(b.embedding) == 256
        assert max(abs(p - q) for p, q in zip(a.embedding, b.embedding)) < 1e-6
        assert abs(sum(p * p for p in a.embedding) - 1) < 1e-4


@case
def responses_plain(client, server):
    r = client.responses.create(input=rig.FACT, **GREEDY)
    equal(r.output_text, rig.FACT_ANSWER)
    equal(r.status, "completed")
    equal(r.usage.input_tokens + r.usage.output_tokens, r.usage.total_tokens)


@case
def responses_stream(client, server):
    with client.responses.stream(input=rig.FACT, **GREEDY) as stream:
        events = list(stream)
        final = stream.get_final_response()
    equal(final.output_text, rig.FACT_ANSWER)
    equal("".join(e.delta for e in events if e.type == "response.output_text.delta"), rig.FACT_ANSWER)
    equal([e.sequence_number for e in events if hasattr(e, "sequence_number")],
          sorted(e.sequence_number for e in events if hasattr(e, "sequence_number")))


@case
def responses_tools(client, server):
    items = [{"role": "user", "content": rig.WEATHER}]
    r = client.responses.create(input=items, tools=[WEATHER_FLAT], **GREEDY)
    call = next(o for o in r.output if o.type == "function_call")
    equal(json.loads(call.arguments), {"city": "Haldon"})
    items += [o.model_dump(exclude_none=True) for o in r.output]
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": rig.WEATHER_RESULT})
    r = client.responses.create(input=items, tools=[WEATHER_FLAT], **GREEDY)
    equal(r.output_text, rig.WEATHER_ANSWER)


@case
def responses_structured(client, server):
    r = client.responses.parse(input=rig.POINT, text_format=Point, **GREEDY)
    equal(r.output_parsed, Point(x=91, y=26))


@case
def responses_chain(client, server):
    first = client.responses.create(input="My favourite colour is purple.", **GREEDY)
    r = client.responses.create(input="What is my favourite colour?", previous_response_id=first.id,
                                **GREEDY)
    equal(r.output_text, "Your favourite colour is purple.")
    equal(client.responses.retrieve(first.id).id, first.id)
    client.responses.delete(first.id)
    raises(openai.NotFoundError, client.responses.retrieve, first.id)


@case
def errors(client, server):
    e = raises(openai.BadRequestError, client.chat.completions.create, model="x", messages=ask("Hi"),
               temperature=9)
    assert "temperature" in str(e) and e.type == "invalid_request_error", str(e)
    e = raises(openai.BadRequestError, client.chat.completions.create, model="x", messages=[])
    e = raises(openai.BadRequestError, client.chat.completions.create, model="x",
               messages=ask(rig.LONG))
    equal(e.code, "context_length_exceeded")
    raises(openai.NotFoundError, client.models.retrieve, "no-such-model")
    wrong = openai.OpenAI(base_url=server.url + "/v1", api_key="wrong", max_retries=0)
    raises(openai.AuthenticationError, wrong.models.list)
    e = raises(openai.BadRequestError, client.responses.create, model="x", input="Hi",
               previous_response_id=None, max_output_tokens=0)
    e = raises(openai.BadRequestError, client.chat.completions.parse, messages=ask("Hi"),
               response_format={"type": "json_schema", "json_schema": {
                   "name": "bad", "schema": {"type": "string", "pattern": "(?<=a)b"}}}, **GREEDY)
    equal(e.code, "unsupported_schema")


@case
def images(client, server):
    for files, question, answer in rig.shown():
        urls = ["data:image/png;base64," + rig.in_letters(f) for f in files]
        r = client.chat.completions.create(messages=[{"role": "user", "content": [
            *[{"type": "image_url", "image_url": {"url": u, "detail": "high"}} for u in urls],
            {"type": "text", "text": question}]}], reasoning_effort="none", **GREEDY)
        equal(r.choices[0].message.content, answer)
        equal(len(r.mote["images"]), len(files))
        r = client.responses.create(input=[{"role": "user", "content": [
            *[{"type": "input_image", "image_url": u, "detail": "auto"} for u in urls],
            {"type": "input_text", "text": question}]}], reasoning={"effort": "none"}, **GREEDY)
        equal(r.output_text, answer)
    e = raises(openai.BadRequestError, client.chat.completions.create, messages=[{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "https://localhost/a.png"}}]}], **GREEDY)
    equal(e.code, "image_url_not_allowed")


def parts_of(question, image, text):
    """Returns media and text of a question of the model card as content parts of these types."""
    parts = [{"type": image, "image_url": url if image == "input_image" else {"url": url}}
             for url in ("data:image/png;base64," + rig.in_letters(f) for f in question.images)]
    video = question.video
    if video and image == "input_image":
        parts.append({"type": "input_video", "input_video": {"data": rig.in_letters(video.gif)}})
    elif video:
        parts.append({"type": "video_frames", "frames": [rig.in_letters(f) for f in video.frames], "fps": video.fps})
    return [{"role": "user", "content": parts + [{"type": text, "text": question.text}]}]


@case
def images_of_the_model_card(client, server):
    gaps = rig.Gaps()

    def chat(question):
        r = client.chat.completions.create(messages=parts_of(question, "image_url", "text"), reasoning_effort="none",
                                           presence_penalty=0, logprobs=True, top_logprobs=2, **GREEDY)
        tops = [row.top_logprobs for row in r.choices[0].logprobs.content]
        gaps.take(question, min(top[0].logprob - top[1].logprob for top in tops))
        return r.choices[0].message.content
    rig.run_questions(chat)
    gaps.check()
    rig.run_questions(lambda q: client.responses.create(
        input=parts_of(q, "input_image", "input_text"), reasoning={"effort": "none"},
        extra_body={"presence_penalty": 0}, **GREEDY).output_text)


@case
def examples_of_vision_model(client, server):
    def parts(example, image, text):
        url = "data:image/png;base64," + rig.in_letters(example.image)
        return [{"role": "user", "content": [
            {"type": image, "image_url": url if image == "input_image" else {"url": url}},
            {"type": text, "text": example.question}]}]
    rig.run_vision_examples(
        connect,
        lambda other, e: other.chat.completions.create(
            messages=parts(e, "image_url", "text"), reasoning_effort="none", **GREEDY).choices[0].message.content,
        lambda other, e: other.responses.create(
            input=parts(e, "input_image", "input_text"), reasoning={"effort": "none"}, **GREEDY).output_text)


@case
def async_and_disconnect(client, server):
    async def go():
        other = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key=rig.KEY)
        answers = await asyncio.gather(*[
            other.chat.completions.create(messages=ask(rig.FACT), **GREEDY) for _ in range(12)])
        stream = await other.chat.completions.create(messages=ask("Count to 23."), stream=True,
                                                     **GREEDY)
        async for _ in stream:
            break
        await stream.close()
        return [a.choices[0].message.content for a in answers]
    equal(asyncio.run(go()), [rig.FACT_ANSWER] * 12)
    equal(client.chat.completions.create(messages=ask(rig.FACT), **GREEDY).choices[0].message.content,
          rig.FACT_ANSWER)


@case
def files_and_batches(client, server):
    body = {"model": "m", "messages": ask(rig.FACT), "temperature": 0}
    lines = [{"custom_id": f"r{i}", "method": "POST", "url": "/v1/chat/completions", "body": body} for i in range(5)]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    file = client.files.create(file=("in.jsonl", data), purpose="batch")
    equal((file.bytes, file.purpose, file.filename), (len(data), "batch", "in.jsonl"))
    equal(client.files.retrieve(file.id), file)
    equal([f.id for f in client.files.list(purpose="batch")], [file.id])
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h",
                                  metadata={"a": "b"})
    end = time.monotonic() + rig.PATIENCE
    while batch.status not in ("completed", "failed") and time.monotonic() < end:
        time.sleep(0.05)
        batch = client.batches.retrieve(batch.id)
    equal((batch.status, batch.request_counts.completed, batch.metadata), ("completed", 5, {"a": "b"}))
    results = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
    equal([r["custom_id"] for r in results], [f"r{i}" for i in range(5)])
    equal({r["response"]["body"]["choices"][0]["message"]["content"] for r in results}, {rig.FACT_ANSWER})
    equal([b.id for b in client.batches.list(limit=1)], [batch.id])
    equal(client.batches.cancel(batch.id).status, "completed")
    equal(client.files.delete(file.id).deleted, True)
    raises(openai.NotFoundError, client.files.retrieve, file.id)
    raises(openai.BadRequestError, client.batches.create, input_file_id=file.id,
           endpoint="/v1/chat/completions", completion_window="24h")


with tempfile.TemporaryDirectory(prefix="mote-files-") as directory:
    rig.run_with_server(connect, "--files", directory + "/files")
