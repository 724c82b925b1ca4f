# SPDX-License-Identifier: Apache-2.0
"""four_dialects_test.py - the same conversation through four APIs gives the same result.

Prompt tokens (counted, and compared where an API shows them), text, thinking and tool calls must be equal. A
history that moves from one API to another still hits the prefix cache. Tool calls are streamed in pieces where
the API supports it, and a call that is cut is not part of the message. With a response format and tools, the answer
is text in the format or a call.
"""
import json

from api_rig import (FACT, KEY, POINT, POINT_SCHEMA, SUM, WEATHER, WEATHER_RESULT, WEATHER_SCHEMA, WEATHER_TOOL, bits, case,
                       equal, ndjson, post, run, sse)

SEED = 7
NOTE = {"type": "object", "properties": {"text": {"type": "string", "minLength": 24}}, "required": ["text"]}


def data_of(events):
    return [json.loads(data) for _, data in events if data != "[DONE]"]


class OpenAI:
    path = "/v1/chat/completions"

    def body(self, model, system, turns, tools, think, sampling):
        messages = [{"role": "system", "content": system}] if system else []
        for role, content in turns:
            messages += [content] if role == "own" else [{"role": role, "content": content}]
        return {"model": model, "messages": messages, "max_tokens": 200, "seed": SEED,
                "reasoning_effort": "low" if think else "none", **sampling,
                **({"tools": [WEATHER_TOOL]} if tools else {})}

    def read(self, reply):
        message = reply["choices"][0]["message"]
        calls = [(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"]))
                 for c in message.get("tool_calls", [])]
        usage = reply["usage"]
        return (message["content"] or "", message.get("reasoning_content", ""), calls,
                usage["prompt_tokens"], usage["completion_tokens"])

    def history(self, reply, results):
        return [("own", reply["choices"][0]["message"])] + [
            ("own", {"role": "tool", "tool_call_id": i, "content": r}) for i, r in results]

    def one_call(self, limit):
        return {"tools": [{"type": "function", "function": {"name": "note", "parameters": NOTE}}],
                "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": limit}

    def format(self, schema):
        return {"response_format": {"type": "json_schema", "json_schema": {"name": "f", "schema": schema}}}

    def choose(self, tool):
        """A required call: of this tool, or with None of any tool."""
        return {"tool_choice": {"type": "function", "function": {"name": tool}} if tool else "required"}

    def pieces(self, server, body):
        """Returns the pieces of the arguments of a streamed call, and the stop reason."""
        choices = [c for d in data_of(sse(server, self.path, {**body, "stream": True})) for c in d["choices"]]
        calls = [f for c in choices for f in c["delta"].get("tool_calls", [])]
        equal([f["index"] for f in calls], [0] * len(calls))
        equal((calls[0]["function"], calls[0]["type"]), ({"name": "note", "arguments": ""}, "function"))
        assert all(set(f) == {"index", "function"} for f in calls[1:])
        return [f["function"]["arguments"] for f in calls[1:]], choices[-1]["finish_reason"]


class Responses(OpenAI):
    path = "/v1/responses"

    def body(self, model, system, turns, tools, think, sampling):
        items = []
        for role, content in turns:
            items += content if role == "own" else [{"role": role, "content": content}]
        tool = {"type": "function", **WEATHER_TOOL["function"]}
        return {"model": model, "input": items, "max_output_tokens": 200, "seed": SEED, "store": False,
                "reasoning": {"effort": "low" if think else "none"}, **sampling,
                **({"instructions": system} if system else {}), **({"tools": [tool]} if tools else {})}

    def read(self, reply):
        text = thinking = ""
        calls = []
        for item in reply["output"]:
            if item["type"] == "message":
                text += "".join(c["text"] for c in item["content"])
            elif item["type"] == "reasoning":
                thinking += "".join(c["text"] for c in item["content"])
            elif item["type"] == "function_call":
                calls.append((item["call_id"], item["name"], json.loads(item["arguments"])))
        return text, thinking, calls, reply["usage"]["input_tokens"], reply["usage"]["output_tokens"]

    def history(self, reply, results):
        return [("own", reply["output"])] + [
            ("own", [{"type": "function_call_output", "call_id": i, "output": r}]) for i, r in results]

    def one_call(self, limit):
        return {"tools": [{"type": "function", "name": "note", "parameters": NOTE}], "tool_choice": "required",
                "parallel_tool_calls": False, "max_output_tokens": limit}

    def format(self, schema):
        return {"text": {"format": {"type": "json_schema", "name": "f", "schema": schema}}}

    def choose(self, tool):
        return {"tool_choice": {"type": "function", "name": tool} if tool else "required"}

    def pieces(self, server, body):
        events = data_of(sse(server, self.path, {**body, "stream": True}))
        equal([e["sequence_number"] for e in events], list(range(len(events))))
        equal(events[2]["item"]["arguments"], "")
        pieces = [e["delta"] for e in events if e["type"] == "response.function_call_arguments.delta"]
        done, item, last = events[-3:]
        equal((done["type"], done["arguments"]), ("response.function_call_arguments.done", "".join(pieces)))
        equal((item["type"], item["item"]["arguments"]), ("response.output_item.done", "".join(pieces)))
        equal(last["response"]["output"], [item["item"]])
        status = last["response"]["status"]
        equal(item["item"]["status"], status)
        return pieces, "length" if status == "incomplete" else "tool_calls"


class Anthropic:
    path = "/v1/messages"

    def body(self, model, system, turns, tools, think, sampling):
        messages = [content if role == "own" else {"role": role, "content": content}
                    for role, content in turns]
        tool = {"name": "get_weather", "description": WEATHER_TOOL["function"]["description"],
                "input_schema": WEATHER_SCHEMA}
        thinking = {"type": "enabled", "budget_tokens": 1024} if think else {"type": "disabled"}
        return {"model": model, "messages": messages, "max_tokens": 200, "seed": SEED, **sampling,
                "thinking": thinking, **({"system": [{"type": "text", "text": system}]} if system else {}),
                **({"tools": [tool]} if tools else {})}

    def read(self, reply):
        def texts(kind):
            return "".join(b[kind] for b in reply["content"] if b["type"] == kind)
        calls = [(b["id"], b["name"], b["input"]) for b in reply["content"] if b["type"] == "tool_use"]
        usage = reply["usage"]
        return (texts("text"), texts("thinking"), calls,
                usage["input_tokens"] + usage["cache_read_input_tokens"], usage["output_tokens"])

    def history(self, reply, results):
        blocks = [{"type": "tool_result", "tool_use_id": i, "content": r} for i, r in results]
        return [("own", {"role": "assistant", "content": reply["content"]})] + (
            [("own", {"role": "user", "content": blocks})] if blocks else [])

    def one_call(self, limit):
        return {"tools": [{"name": "note", "input_schema": NOTE}], "max_tokens": limit,
                "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}

    def format(self, schema):
        return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}

    def choose(self, tool):
        return {"tool_choice": {"type": "tool", "name": tool} if tool else {"type": "any"}}

    def pieces(self, server, body):
        events = data_of(sse(server, self.path, {**body, "stream": True}))
        names = [e["type"] for e in events if e["type"] != "ping"]
        equal(names[:2] + names[-3:], ["message_start", "content_block_start", "content_block_stop",
                                       "message_delta", "message_stop"])
        equal(set(names[2:-3]), {"content_block_delta"})
        stops = {"max_tokens": "length", "tool_use": "tool_calls"}
        return ([e["delta"]["partial_json"] for e in events if e["type"] == "content_block_delta"],
                stops[events[-2]["delta"]["stop_reason"]])


class Ollama:
    path = "/api/chat"

    def body(self, model, system, turns, tools, think, sampling):
        messages = [{"role": "system", "content": system}] if system else []
        for role, content in turns:
            messages += [content] if role == "own" else [{"role": role, "content": content}]
        return {"model": model, "messages": messages, "stream": False, "think": "low" if think else False,
                "options": {"num_predict": 200, "seed": SEED, **sampling},
                **({"tools": [WEATHER_TOOL]} if tools else {})}

    def read(self, reply):
        message = reply["message"]
        calls = [(c["id"], c["function"]["name"], c["function"]["arguments"])
                 for c in message.get("tool_calls", [])]
        return (message["content"], message.get("thinking", ""), calls, reply["prompt_eval_count"],
                reply["eval_count"])

    def history(self, reply, results):
        return [("own", reply["message"])] + [("own", {"role": "tool", "content": r}) for _, r in results]

    def one_call(self, limit):
        return {**OpenAI().one_call(0), "options": {"num_predict": limit, "seed": SEED, **GREEDY}}

    def format(self, schema):
        return {"format": schema}

    def choose(self, tool):
        return OpenAI().choose(tool)

    def pieces(self, server, body):
        """The Ollama API sends complete calls."""
        lines = [json.loads(line) for line in ndjson(server, self.path, {**body, "stream": True})]
        calls = [c for line in lines for c in line["message"].get("tool_calls", [])]
        return ([json.dumps(c["function"]["arguments"]) for c in calls],
                "tool_calls" if calls else lines[-1]["done_reason"])


ALL = [OpenAI(), Responses(), Anthropic(), Ollama()]
GREEDY = {"temperature": 0}
WARM = {"temperature": 0.8, "top_p": 0.9, "top_k": 40}


def ask(server, d, system="", turns=(), tools=False, think=False, sampling=GREEDY):
    return post(server, d.path, d.body(server.model, system, list(turns), tools, think, sampling))


def without_ids(read):
    text, thinking, calls, prompt, out = read
    return text, thinking, [call[1:] for call in calls], prompt, out


@case
def one_question(server):
    for more in ({}, {"system": "Be kind."}, {"sampling": WARM}, {"think": True},
                 {"tools": True}, {"tools": True, "system": "Be kind.", "sampling": WARM}):
        for question in (FACT, SUM, WEATHER):
            answers = [without_ids(d.read(ask(server, d, turns=[("user", question)], **more))) for d in ALL]
            for other in answers[1:]:
                equal(other, answers[0])


@case
def longer_conversations(server):
    turns = [("user", FACT), ("assistant", "The emblem of Venvia is the owl."), ("user", "Thanks!"),
             ("assistant", "You are welcome."), ("user", SUM)]
    answers = [without_ids(d.read(ask(server, d, "Be kind.", turns))) for d in ALL]
    for other in answers[1:]:
        equal(other, answers[0])


@case
def tool_calls_and_results(server):
    second = []
    for d in ALL:
        first = ask(server, d, turns=[("user", WEATHER)], tools=True)
        calls = d.read(first)[2]
        equal(len(calls), 1)
        bits(calls[0][0])
        turns = [("user", WEATHER)] + d.history(first, [(calls[0][0], WEATHER_RESULT)])
        reply = ask(server, d, turns=turns, tools=True)
        second.append(without_ids(d.read(reply)))
        # tokens already prefilled or generated are reused, except a few at the end
        assert reply["mote"]["cache"]["prefilled"] <= reply["mote"]["cache"]["prompt"] // 2, reply["mote"]
    for other in second[1:]:
        equal(other, second[0])


def limited(server, d, limit):
    return {**d.body(server.model, "", [("user", FACT)], False, False, GREEDY), **d.one_call(limit)}


@case
def streamed_tool_calls(server):
    for d in ALL:
        whole = d.read(post(server, d.path, limited(server, d, 200)))
        pieces, finish = d.pieces(server, limited(server, d, 200))
        equal(finish, "tool_calls")
        equal(json.loads("".join(pieces)), whole[2][0][2])
        equal(len(pieces) > 6, not isinstance(d, Ollama))


@case
def formats_and_tools(server):
    """With a format, a required call comes; without the requirement the model chooses between a call and the format."""
    for think in (False, True):
        for question, choose, named in ((POINT, True, None), (POINT, True, "get_weather"), (WEATHER, False, None),
                                        (POINT, False, None)):
            answers = []
            for d in ALL:
                body = {**d.body(server.model, "", [("user", question)], True, think, GREEDY),
                        **d.format(POINT_SCHEMA), **(d.choose(named) if choose else {})}
                reply = post(server, d.path, body)
                text, _, calls, *_ = d.read(reply)
                if choose or question == WEATHER:
                    equal((text, calls[0][1]), ("", "get_weather"))
                    equal(reply["mote"]["stop"]["cause"], "tool_calls")
                    assert "schema" not in reply["mote"], reply["mote"]  # it is about text, and there is none
                else:
                    equal((json.loads(text), calls), ({"x": 91, "y": 26}, []))
                    equal(reply["mote"]["schema"], {"enforced": True, "valid": True})
                answers.append(without_ids(d.read(reply)))
            for other in answers[1:]:
                equal(other, answers[0])
    for d in ALL:
        pieces, finish = d.pieces(server, {**limited(server, d, 200), **d.format(POINT_SCHEMA)})
        equal((finish, list(json.loads("".join(pieces)))), ("tool_calls", ["text"]))


@case
def cut_tool_call(server):
    """The pieces arrive although the call never ends: they are not held back until its end."""
    whole, _ = ALL[0].pieces(server, limited(server, ALL[0], 200))
    tokens = ALL[0].read(post(server, ALL[0].path, limited(server, ALL[0], 200)))[4]
    for d in ALL:
        reply = post(server, d.path, limited(server, d, tokens - 14))
        equal(d.read(reply)[2], [])
        assert "cut" in [w["code"] for w in reply["mote"]["warnings"]], reply["mote"]
        pieces, finish = d.pieces(server, limited(server, d, tokens - 14))
        equal(finish, "length")
        if not isinstance(d, Ollama):
            equal(pieces, whole[:len(pieces)])
            assert 2 < len(pieces) < len(whole) - 2, pieces


@case
def history_moves_between_apis(server):
    """An answer of one API is sent back through another."""
    for source, target in zip(ALL, ALL[1:] + ALL[:1]):
        first = ask(server, source, turns=[("user", FACT)])
        text = source.read(first)[0]
        turns = [("user", FACT), ("assistant", text), ("user", SUM)]
        own = without_ids(source.read(ask(server, source, turns=turns)))
        equal(without_ids(target.read(ask(server, target, turns=turns))), own)


if __name__ == "__main__":
    assert KEY
    run()
