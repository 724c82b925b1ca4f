# SPDX-License-Identifier: Apache-2.0
"""The Python package langchain-ollama: invoke, stream, tools, structured output, errors."""
import ollama
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings
from pydantic import BaseModel

import rig
from rig import case, equal, raises

KEYED = {"headers": {"Authorization": "Bearer " + rig.KEY}}


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
    equal(chat.invoke(rig.FACT).content, rig.FACT_ANSWER)


@case
def stream(chat, server):
    parts = list(chat.stream(rig.FACT))
    equal("".join(p.content for p in parts), rig.FACT_ANSWER)
    assert len(parts) > 3, "it was not streamed"


@case
def tools(chat, server):
    bound = chat.bind_tools([get_weather])
    r = bound.invoke(rig.WEATHER)
    equal([(c["name"], c["args"]) for c in r.tool_calls], [("get_weather", {"city": "Haldon"})])
    back = ToolMessage(rig.WEATHER_RESULT, tool_call_id=r.tool_calls[0]["id"])
    equal(bound.invoke([HumanMessage(rig.WEATHER), r, back]).content, rig.WEATHER_ANSWER)


@case
def structured(chat, server):
    r = chat.with_structured_output(Point, method="json_schema").invoke(rig.POINT)
    equal(r, Point(x=91, y=26))


@case
def thinking(chat, server):
    other = ChatOllama(model=server.model, base_url=server.url, temperature=0, reasoning=True,
                       client_kwargs=KEYED)
    r = other.invoke(rig.IDENTITY)
    equal(r.content, rig.IDENTITY_ANSWER)
    assert rig.IDENTITY_THOUGHT in r.additional_kwargs["reasoning_content"]


@case
def embeddings(chat, server):
    e = OllamaEmbeddings(model=server.model, base_url=server.url, client_kwargs=KEYED)
    equal([len(v) for v in e.embed_documents(["The owl.", "A red ball."])], [256, 256])


@case
def errors(chat, server):
    other = ChatOllama(model="no-such-model", base_url=server.url, client_kwargs=KEYED)
    raises(ollama.ResponseError, other.invoke, "Hi")
    raises(ollama.ResponseError, chat.invoke, rig.LONG)


rig.run_with_server(lambda s: ChatOllama(model=s.model, base_url=s.url, temperature=0,
                                         num_predict=300, client_kwargs=KEYED))
