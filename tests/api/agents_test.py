# SPDX-License-Identifier: Apache-2.0
"""agents_test.py - conversations of five coding agents: each turn prefills its new tokens and at most 64 more.

Answers come back without thinking, with arguments serialised again, with other white space (tests/support/agents.py). In
the middle the server restarts. A last request without the prefix cache must give the same answer (law L8).
scripts/agent_replay runs longer conversations, also with other servers.
"""
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from agents import AGENTS, ClaudeCode, OpenCode, play, words  # noqa: E402
from api_rig import Server, case, equal, main, post, request  # noqa: E402

MODEL = "mote-tiny-Q4_K_M.gguf"
SANDBOX = []
TURNS = 9
SLACK = 64
VOLATILE = 96  # tokens between the state before the first volatile line and the date


class Rig:
    """A server that can be restarted with its disk cache."""

    def __init__(self, directory):
        self.directory = directory
        self.server = None
        self.start()

    def start(self):
        self.server = Server("--cache-disk", "256MB", *SANDBOX, model=MODEL, env={"MOTE_CACHE": self.directory})

    def restart(self):
        self.server.stop()
        self.start()

    def send(self, agent, body):
        began = time.monotonic()
        reply = post(self.server, agent.path, body)
        cache = reply["mote"]["cache"]
        return reply, cache["prompt"], cache["prefilled"], time.monotonic() - began


def check(turn):
    cache = turn.reply["mote"]["cache"]
    if turn.kind in ("turn", "sub", "restart"):
        assert turn.prefilled <= turn.new + SLACK, f"{turn}: {cache}"
        equal(cache.get("answers", {}).get("unknown", 0), 0)
        equal(cache["from"] == "disk", turn.kind == "restart")
    elif turn.kind == "clock":
        # everything before the first volatile line is reused; the date is a few lines after it
        equal(cache["miss"]["kind"], "timestamp")
        assert cache["miss"]["token"] - cache["reused"] <= VOLATILE < cache["reused"], f"{turn}: {cache}"


def run(kind, **more):
    with tempfile.TemporaryDirectory() as directory:
        rig = Rig(directory)
        try:
            model = rig.server.model
            agent = kind(model, 1)
            found = {"by_id": 0, "by_text": 0}
            for turn in play(agent, TURNS, rig.send, restart=rig.restart, **more):
                check(turn)
                for key in found:
                    found[key] += turn.reply["mote"]["cache"].get("answers", {}).get(key, 0)
            body = agent.body()
            warm = rig.send(agent, body)[0]
            cold = rig.send(agent, {**body, **({"options": {**body["options"], "cache_prompt": False}} if "options" in
                                              body else {"cache_prompt": False})})[0]
            equal(cold["mote"]["cache"]["reused"], 0)
            equal(agent.answer(cold), agent.answer(warm))
            return found
        finally:
            rig.server.stop()


def add_case(kind):
    def body():
        found = run(kind, restart_at=5, sub_at=3 if kind is ClaudeCode else None)
        assert found["by_id" if kind.tools_used and kind.path != "/api/chat" else "by_text"] > TURNS, found
    body.__name__ = kind.name.replace("-", "_")
    case(body)


for agent_kind in AGENTS:
    add_case(agent_kind)


class OpenCodeWithRules(OpenCode):
    """A file of the project follows the date: the end of the system text is far from the difference."""

    def system(self):
        return super().system() + "\n\nInstructions from: /srv/user/project/AGENTS.md\n" + self.rules()


@case
def clock_line():
    run(OpenCodeWithRules, clock_at=4)


@case
def other_sessions_reuse_all_before_the_directory():
    """The tools and rules of a program are prefilled once, also for another directory."""
    with tempfile.TemporaryDirectory() as directory:
        rig = Rig(directory)
        try:
            first = OpenCode(rig.server.model, 2)
            first.ask()
            _, _, prefilled, _ = rig.send(first, first.body())
            second = OpenCode(rig.server.model, 2)
            second.system = lambda: OpenCode.system(first).replace("/srv/user/project", "/srv/other/place")
            second.ask()
            reply, prompt, again, _ = rig.send(second, second.body())
            assert again * 3 < prefilled, (again, prefilled, reply["mote"]["cache"])
            metric = rig.server.metric
            equal(metric('mote_prefix_cache_requests_total{tier="none"}'), 1)
            equal(metric('mote_prefix_cache_requests_total{tier="ram"}'), 1)
            equal(metric('mote_prefix_cache_misses_total{reason="new"}'), 1)
            assert metric("mote_prefix_cache_bytes") > 0
        finally:
            rig.server.stop()


class Conversation:
    """A chat of `turns` questions. before[t]: tokens of the prompt and the answer before question t."""

    def __init__(self, server, turns, size):
        self.server, self.size = server, size
        self.messages = []
        self.before = [0]
        for turn in range(turns):
            self.messages.append({"role": "user", "content": self.question(turn)})
            reply = self.send(self.messages)
            self.before.append(reply["mote"]["cache"]["prompt"] + reply["usage"]["completion_tokens"])
            self.messages.append({"role": "assistant", "content": reply["choices"][0]["message"]["content"]})

    def question(self, seed):
        return f"Question {seed}: " + words(seed, self.size)

    def send(self, messages, **more):
        reply = post(self.server, "/v1/chat/completions", {
            "model": self.server.model, "messages": messages, "temperature": 0, "seed": 1, "max_tokens": 24,
            "enable_thinking": False, **more})
        return reply

    def edit(self, turn, compare=True):
        """Asks something else instead of question `turn`. Returns the tokens prefilled, and those that are new."""
        messages = [*self.messages[:2 * turn], {"role": "user", "content": self.question(1000 + turn)}]
        reply = self.send(messages)
        if compare:
            cold = self.send(messages, cache_prompt=False)
            equal(cold["choices"][0]["message"], reply["choices"][0]["message"])
        cache = reply["mote"]["cache"]
        return cache["prefilled"], cache["prompt"] - self.before[turn]


@case
def edits_of_early_messages():
    """Without a disk cache: a changed question prefills what follows, and at most 64 tokens more."""
    with Server("--cache-disk", "off", model=MODEL) as server:
        chat = Conversation(server, 20, 20)
        for turn in (1, 0, 5, 10, 18, 2, 1):
            prefilled, new = chat.edit(turn)
            assert prefilled <= new + SLACK, (turn, prefilled, new)


@case
def states_get_sparse():
    """With few states, those that save least are evicted: every part of a conversation keeps some."""
    with Server("--cache-disk", "off", "--parallel", "1", model=MODEL) as server:
        chat = Conversation(server, 20, 40)
        length = chat.before[-1]
        for turn in (18, 15, 10, 5):
            prefilled, new = chat.edit(turn, compare=False)
            assert prefilled <= new + length // 4, (turn, prefilled, new, length)


if __name__ == "__main__":
    with Server(model=MODEL) as plain:
        state = plain.get("/health")
    if state["seccomp"] and not state["landlock"]:  # the disk cache needs both or none
        SANDBOX = ["--sandbox", "off"]
    assert request
    sys.exit(main())
