# SPDX-License-Identifier: Apache-2.0
"""agents.py - conversations in the shape of five coding agents, with real answers of a server.

Each agent builds its requests as the program does, and sends answers back changed as the program changes them: thinking
removed, arguments serialised again, defaults filled in, white space trimmed, ids kept or absent. `play` runs a
conversation and measures every turn. tests/api/agents_test.py runs a short one, scripts/agent_replay long ones.
"""
import json
import random

WORDS = ("the parser reads one line and then the next one until a file ends so that every test sees the same order of "
         "words in a list of names and values that a program writes to its log").split()
FILES = ["src/main.c", "src/parse.c", "src/list.c", "README.md"]


def words(seed, n):
    chance = random.Random(seed)
    return " ".join(chance.choice(WORDS) for _ in range(n))


def lines(seed, n):
    return "\n".join(f"{i + 1}\t{words(seed * 100 + i, 8)}" for i in range(n))


def schema(i):
    """Arguments with few values: an answer of any model is short and complete."""
    return {"type": "object", "properties": {
        "path": {"type": "string", "enum": FILES, "description": words(i, 12)},
        "lines": {"type": "integer", "enum": [10, 20, 40]},
        "exact": {"type": "boolean"}}, "required": ["path", "lines", "exact"], "additionalProperties": False}


def serialised(arguments, **how):
    """Arguments of a call, read and printed again."""
    return json.dumps(json.loads(arguments), separators=(",", ":"), **how)


def is_json(text):
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


class Agent:
    """size: scale of all texts. The base class has the OpenAI chat API."""
    path = "/v1/chat/completions"
    name = ""
    tools_used = True
    day = "2026-11-17"

    def __init__(self, model, size, image=None, seed=1, limit=96):
        self.model, self.size, self.image, self.seed, self.limit = model, size, image, seed, limit
        self.turn = 0
        self.messages = []

    # ---- texts

    def rules(self):
        return "\n".join(f"- {words(self.seed * 1000 + i, 14)}" for i in range(8 * self.size))

    def system(self):
        return (f"You are {self.name}, a coding agent.\n\n# Rules\n{self.rules()}\n\n<env>\n"
                f"  Working directory: /srv/user/project\n  Platform: linux\n  Today's date: {self.day}\n</env>")

    def question(self):
        return f"Task {self.turn}: " + words(self.turn, 12)

    def result(self):
        return lines(self.turn, 3 * self.size)

    def tool_names(self):
        return ["read", "edit", "search"]

    # ---- OpenAI's format

    def tools(self):
        return [{"type": "function", "function": {"name": n, "description": words(i, 20), "parameters": schema(i)}}
                for i, n in enumerate(self.tool_names())]

    def wants_call(self):
        return self.tools_used and self.turn % 4 != 3

    def ask(self):
        self.messages.append({"role": "user", "content": self.question()})

    def body(self):
        return {"model": self.model, "messages": [{"role": "system", "content": self.system()}, *self.messages],
                "temperature": 0, "seed": 1, "max_tokens": self.limit, "stream": False,
                **({"tools": self.tools()} if self.tools_used else {}),
                **({"tool_choice": "required"} if self.wants_call() else {}), **self.thinking()}

    def thinking(self):
        return {"thinking_budget": 16, "reasoning_effort": "low"}

    def returned(self, message):
        """The assistant message as the client sends it back."""
        return message

    def take(self, reply):
        """Adds the answer, and the results of its calls. True: there were calls."""
        message = self.returned(reply["choices"][0]["message"])
        self.messages.append(message)
        for call in message.get("tool_calls") or []:
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": self.result()})
        return bool(message.get("tool_calls"))

    def written(self, reply):
        return reply["usage"]["completion_tokens"]

    def answer(self, reply):
        message = reply["choices"][0]["message"]
        return (message["content"], [c["function"] for c in message.get("tool_calls") or []])


class OpenCode(Agent):
    """Reasoning is not sent back; arguments are serialised again; the text is trimmed."""
    name = "opencode"

    def returned(self, message):
        out = {"role": "assistant", "content": (message.get("content") or "").strip()}
        if message.get("tool_calls"):
            out["tool_calls"] = [
                {**c, "function": {"name": c["function"]["name"],
                                   "arguments": serialised(c["function"]["arguments"], sort_keys=True)}}
                for c in message["tool_calls"] if is_json(c["function"]["arguments"])]  # not a call that was cut
        return out


class Cline(Agent):
    """Tools are described in the text; every message of the user has the time; blank lines are removed."""
    name = "cline"
    tools_used = False

    def system(self):
        return super().system().split("<env>")[0] + "Use one tool per message, as XML.\n"

    def question(self):
        return (super().question() + "\n\n" + self.result() + "\n\n<environment_details>\n# Current Time\n"
                f"11/17/2026, {9 + self.turn // 60}:{self.turn % 60:02d}:07 AM\n\n# Current Working Directory "
                "(/srv/user/project) Files\n" + "\n".join(FILES) + "\n</environment_details>")

    def ask(self):
        content = [{"type": "text", "text": self.question()}]
        if self.image and self.turn % 7 == 2:
            content.append({"type": "image_url", "image_url": {"url": self.image}})
        self.messages.append({"role": "user", "content": content})

    def returned(self, message):
        text = "\n".join(line.rstrip() for line in message["content"].splitlines() if line.strip())
        return {"role": "assistant", "content": text}


class ClaudeCode(Agent):
    """Anthropic's API. Thinking is sent back inside a tool loop and removed at the next question; inputs get
    defaults; a header changes with every request."""
    name = "claude-code"
    path = "/v1/messages"

    def tools(self):
        return [{"name": n, "description": words(i, 20), "input_schema": schema(i)}
                for i, n in enumerate(self.tool_names())]

    def ask(self):
        for message in self.messages:
            if message["role"] == "assistant":
                message["content"] = [b for b in message["content"] if b["type"] != "thinking"]
        reminder = f"<system-reminder>\n{words(3, 10)}\n</system-reminder>"
        self.messages.append({"role": "user", "content": [{"type": "text", "text": reminder},
                                                          {"type": "text", "text": self.question()}]})

    def body(self):
        header = f"x-anthropic-billing-header: cc_version=2.1; cch={random.Random(self.turn).getrandbits(20):05x};"
        return {"model": self.model, "max_tokens": self.limit, "temperature": 0, "seed": 1, "stream": False,
                "system": [{"type": "text", "text": header},
                           {"type": "text", "text": self.system(), "cache_control": {"type": "ephemeral"}}],
                "messages": self.messages, "tools": self.tools(),
                **({"tool_choice": {"type": "any"}} if self.wants_call() else {}),
                "thinking": {"type": "enabled", "budget_tokens": 1024}, "thinking_budget": 16}

    def take(self, reply):
        blocks, results = [], []
        for block in reply["content"]:
            if block["type"] == "tool_use":
                block = {**block, "input": {**block["input"], "replace_all": False}}
                results.append({"type": "tool_result", "tool_use_id": block["id"], "content": self.result()})
            elif block["type"] == "text":
                block = {**block, "text": block["text"].rstrip()}
            blocks.append(block)
        self.messages.append({"role": "assistant", "content": blocks or [{"type": "text", "text": "-"}]})
        if results:
            self.messages.append({"role": "user", "content": results})
        return bool(results)

    def written(self, reply):
        return reply["usage"]["output_tokens"]

    def answer(self, reply):
        return [(b.get("text"), b.get("input")) for b in reply["content"] if b["type"] != "thinking"]


class Codex(Agent):
    """The Responses API without storage. Reasoning comes back sealed; the directory is in the first message."""
    name = "codex"
    path = "/v1/responses"

    def system(self):
        return f"You are {self.name}, a coding agent.\n\n{self.rules()}"

    def tools(self):
        return [{"type": "function", "name": n, "description": words(i, 20), "parameters": schema(i), "strict": False}
                for i, n in enumerate(self.tool_names())]

    def ask(self):
        if not self.messages:
            self.messages.append({"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "<environment_context>\n  <cwd>/srv/user/project</cwd>\n"
                 "  <shell>bash</shell>\n</environment_context>"}]})
        self.messages.append({"type": "message", "role": "user",
                              "content": [{"type": "input_text", "text": self.question()}]})

    def body(self):
        return {"model": self.model, "instructions": self.system(), "input": self.messages, "tools": self.tools(),
                "store": False, "stream": False, "include": ["reasoning.encrypted_content"], "temperature": 0,
                "seed": 1, "max_output_tokens": self.limit, "parallel_tool_calls": False,
                **({"tool_choice": "required"} if self.wants_call() else {}),
                "reasoning": {"effort": "low"}, "thinking_budget": 16}

    def take(self, reply):
        called = False
        results = []
        for item in reply["output"]:
            if item["type"] == "function_call" and not is_json(item["arguments"]):
                continue
            if item["type"] == "function_call":
                called = True
                item = {**item, "arguments": serialised(item["arguments"])}
                results.append({"type": "function_call_output", "call_id": item["call_id"], "output": self.result()})
            elif item["type"] == "reasoning" and item.get("encrypted_content"):
                item = {k: v for k, v in item.items() if k != "content"}
            self.messages.append({k: v for k, v in item.items() if k not in ("id", "status")})
        self.messages += results
        return called

    def written(self, reply):
        return reply["usage"]["output_tokens"]

    def answer(self, reply):
        return [(i.get("content"), i.get("arguments")) for i in reply["output"] if i["type"] != "reasoning"]


class Continue(Agent):
    """Ollama's API: no ids, arguments as an object; thinking is not sent back."""
    name = "continue"
    path = "/api/chat"

    def body(self):
        return {"model": self.model, "messages": [{"role": "system", "content": self.system()}, *self.messages],
                "stream": False, "tools": self.tools(), "think": True, "thinking_budget": 16,
                "options": {"temperature": 0, "seed": 1, "num_predict": self.limit},
                **({"tool_choice": "required"} if self.wants_call() else {})}

    def take(self, reply):
        message = reply["message"]
        calls = message.get("tool_calls") or []
        out = {"role": "assistant", "content": message.get("content", "").strip()}
        if calls:
            out["tool_calls"] = [{"function": {"name": c["function"]["name"],
                                               "arguments": dict(sorted(c["function"]["arguments"].items()))}}
                                 for c in calls]
        self.messages.append(out)
        for call in calls:
            self.messages.append({"role": "tool", "tool_name": call["function"]["name"], "content": self.result()})
        return bool(calls)

    def written(self, reply):
        return reply["eval_count"]

    def answer(self, reply):
        message = reply["message"]
        return (message.get("content"), [c["function"] for c in message.get("tool_calls") or []])


AGENTS = [ClaudeCode, Codex, OpenCode, Cline, Continue]


class SubAgent(ClaudeCode):
    """A task of Claude Code with its own system prompt, between two requests of the main conversation."""
    name = "sub-agent"

    def rules(self):
        return "\n".join(f"- {words(self.seed * 777 + i, 14)}" for i in range(4 * self.size))

    def tool_names(self):
        return ["read", "search"]


class Turn:
    """What one request cost. new: tokens of the prompt that are neither in the last prompt nor its answer."""

    def __init__(self, agent, number, kind, prompt, prefilled, new, seconds, reply):
        self.agent, self.number, self.kind = agent, number, kind
        self.prompt, self.prefilled, self.new, self.seconds, self.reply = prompt, prefilled, new, seconds, reply

    def __str__(self):
        return (f"{self.agent} turn {self.number} ({self.kind}): {self.prefilled} of {self.prompt} tokens prefilled, "
                f"{self.new} new")


def play(agent, turns, send, restart_at=None, restart=None, clock_at=None, sub_at=None):
    """Runs a conversation. send(agent, body) returns (reply, prompt tokens, prefilled tokens, seconds); restart() restarts
    the server. Yields a Turn per request; its kind is "first", "turn", "restart", "clock" or "sub"."""
    before = 0
    asks = True
    for i in range(turns):
        agent.turn = i
        kind = "turn" if i else "first"
        if i and i == restart_at:
            restart()
            kind = "restart"
        if i and i == clock_at:
            agent.day = "2026-11-18"
            kind = "clock"
        if i and i == sub_at:
            sub = SubAgent(agent.model, agent.size, seed=5, limit=agent.limit)
            for turn in play(sub, 3, send):
                turn.kind = "sub" if turn.number else "first"
                yield turn
        if asks or i % 4 == 0:
            agent.ask()
        reply, prompt, prefilled, seconds = send(agent, agent.body())
        yield Turn(agent.name, i, kind, prompt, prefilled, prompt - before, seconds, reply)
        before = prompt + agent.written(reply)
        asks = not agent.take(reply)
