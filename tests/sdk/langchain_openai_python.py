# SPDX-License-Identifier: Apache-2.0
"""The Python package langchain-openai: invoke, stream, tools, structured output, errors."""
import openai
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

import rig
from rig import case, equal, raises


class Point(BaseModel):
    """A point."""
    x: int
    y: int


@tool
def get_weather(city: str) -> str:
    """Get the weather of a city"""
    return rig.WEATHER_RESULT


@case
def plain(chat, server):
    r = chat.invoke(rig.FACT)
    equal(r.content, rig.FACT_ANSWER)
    assert r.usage_metadata["total_tokens"] > 5
    r = chat.invoke([SystemMessage("You are an assistant called Paul."), HumanMessage("Who are you?")])
    equal(r.content, "My name is Paul.")


@case
def stream(chat, server):
    parts = list(chat.stream(rig.FACT, stream_usage=True))
    equal("".join(p.content for p in parts), rig.FACT_ANSWER)
    assert len(parts) > 3, "it was not streamed"


@case
def batch(chat, server):
    equal([r.content for r in chat.batch([rig.FACT] * 6)], [rig.FACT_ANSWER] * 6)


@case
def tools(chat, server):
    bound = chat.bind_tools([get_weather])
    r = bound.invoke(rig.WEATHER)
    equal([(c["name"], c["args"]) for c in r.tool_calls], [("get_weather", {"city": "Haldon"})])
    total = None
    for part in bound.stream(rig.WEATHER):
        total = part if total is None else total + part
    equal(total.tool_calls[0]["args"], {"city": "Haldon"})
    back = ToolMessage(get_weather.invoke(r.tool_calls[0]["args"]), tool_call_id=r.tool_calls[0]["id"])
    equal(bound.invoke([HumanMessage(rig.WEATHER), r, back]).content, rig.WEATHER_ANSWER)


@case
def structured(chat, server):
    for method in ("json_schema", "function_calling"):
        r = chat.with_structured_output(Point, method=method).invoke(rig.POINT)
        assert isinstance(r, Point), r
    equal(chat.with_structured_output(Point, method="json_schema").invoke(rig.POINT), Point(x=91, y=26))


@case
def responses_api(chat, server):
    # The client removes the temperature for names that begin with gpt-5.
    other = ChatOpenAI(model="gpt-4.1", base_url=server.url + "/v1", api_key=rig.KEY, temperature=0,
                       use_responses_api=True, max_retries=0)
    equal(other.invoke(rig.FACT).text, rig.FACT_ANSWER)
    equal("".join(str(p.text) for p in other.stream(rig.FACT)), rig.FACT_ANSWER)


@case
def embeddings(chat, server):
    e = OpenAIEmbeddings(model="x", base_url=server.url + "/v1", api_key=rig.KEY,
                         check_embedding_ctx_length=False, max_retries=0)
    equal([len(v) for v in e.embed_documents(["The owl.", "A red ball."])], [256, 256])


@case
def errors(chat, server):
    raises(openai.BadRequestError, chat.invoke, rig.FACT, top_p=7)
    raises(openai.BadRequestError, chat.invoke, rig.LONG)


rig.run_with_server(lambda s: ChatOpenAI(model="gpt-4o", base_url=s.url + "/v1", api_key=rig.KEY,
                                         temperature=0, max_retries=0))
