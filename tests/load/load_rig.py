# SPDX-License-Identifier: Apache-2.0
"""load_rig.py - shared by the load tests: many concurrent clients, parsing of streams, and process
statistics of the system.

CLIENT is tests/load/sse_client; the server and the list of cases are those of tests/sdk/rig.py.
"""
import json
import os
import subprocess
import sys
import tempfile

for directory in ("sdk", "support"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", directory))

from around import SANITIZED, is_quiet, scaled, waited  # noqa: E402,F401
from rig import (FACT, FACT_ANSWER, KEY, PATIENCE, POINT, POINT_SCHEMA, WEATHER,  # noqa: E402,F401
                 WEATHER_TOOL, IDENTITY, Server, case, equal, main)


def numbers(*usual):
    """The numbers of the command line, or the defaults; words are left for main."""
    given = [int(w) for w in sys.argv[1:] if w.isdigit()]
    sys.argv[1:] = [w for w in sys.argv[1:] if not w.isdigit()]
    return [*given, *usual[len(given):]]


# ---- requests ----

def chat(i, **more):
    """Conversation number i; all differ, and half of them ignore the end of turn."""
    questions = [FACT, IDENTITY, f"What is {100 + 7 * i % 800} + {100 + 13 * i % 800}?",
                 f"Give me the point {i % 97}, {i % 89} as JSON."]
    return {"model": "x", "messages": [{"role": "user", "content": questions[i % 4]}],
            "stream": True, "seed": i, "temperature": 0.9, "max_tokens": 12 + i % 13,
            "ignore_eos": i % 8 < 4, **more}


# ---- concurrent clients ----

class Reply:
    def __init__(self, status, seconds, body):
        self.status, self.seconds, self.body = status, seconds, body


def run_clients(server, requests, idle=0, timeout=600):
    """Sends all requests at the same time; returns the summary of the client and a Reply for each (status 0: lost)."""
    with tempfile.TemporaryDirectory() as directory:
        asked, came = os.path.join(directory, "requests"), os.path.join(directory, "replies")
        with open(asked, "w", encoding="utf-8") as f:
            f.writelines(f"{path} {json.dumps(body)}\n" for path, body in requests)
        done = subprocess.run([os.environ["CLIENT"], str(server.port), str(idle), asked, came],
                              env={**os.environ, "MOTE_KEY": server.key}, timeout=timeout,
                              stdout=subprocess.PIPE, check=True)
        summary = {k: float(v) for k, v in (w.split("=") for w in done.stdout.decode().split())}
        return summary, read_replies(came)


def read_replies(name):
    replies = []
    with open(name, "rb") as f:
        while head := f.readline():
            number, status, seconds, n = head.split()
            assert int(number) == len(replies)
            replies.append(Reply(int(status), float(seconds), f.read(int(n))))
    return replies


def stream_of(body):
    """(id, text, finish reason) of a stream of chat completions. It must be one complete stream: one id, one
    start, one end, one [DONE]."""
    assert body.endswith(b"data: [DONE]\n\n"), body[-200:]
    ids, text, ends, roles, done = set(), [], [], 0, 0
    for block in body.decode("utf-8").split("\n\n")[:-1]:
        if block.startswith(":"):
            continue
        assert block.startswith("data: ") and "\n" not in block, block
        if block == "data: [DONE]":
            done += 1
            continue
        event = json.loads(block[6:])
        ids.add(event["id"])
        for choice in event["choices"]:
            roles += choice["delta"].get("role") is not None
            text.append(choice["delta"].get("content") or "")
            text.append(choice["delta"].get("reasoning_content") or "")
            if choice.get("finish_reason"):
                ends.append(choice["finish_reason"])
    equal((len(ids), len(ends), roles, done), (1, 1, 1, 1))
    return ids.pop(), "".join(text), ends[0]


# ---- the process ----

def status_of(pid):
    """The numeric lines of /proc/PID/status; sizes in bytes."""
    got = {}
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        for line in f:
            name, value = line.split(":", 1)
            words = value.split()
            if words and words[0].isdigit():
                got[name] = int(words[0]) * (1024 if words[-1] == "kB" else 1)
    return got


def own_memory(pid):
    got = status_of(pid)
    return got["RssAnon"] + got.get("VmSwap", 0)


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid):
    return status_of(pid)["Threads"]


def put_loop_first(server):
    """Raises the priority of the event loop, the first thread of the process, so that other processes do
    not delay it. Uses niceness, not real-time priority: libuv yields in a loop to a thread that wakes it,
    and a real-time thread does not yield to normal ones. False: not permitted."""
    try:
        os.setpriority(os.PRIO_PROCESS, server.process.pid, -20)
        return True
    except (PermissionError, OSError):
        return False
