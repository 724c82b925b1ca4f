# SPDX-License-Identifier: Apache-2.0
"""malloc_test.py - every allocation of the server process fails once: those of mote, libuv, libcrypto and
libc. (tests/http/fault_test.c does the same for mote's own allocations.)

FAULT is tests/load/malloc_fault, loaded with LD_PRELOAD. A request with a failed allocation gets its
normal reply, 500 or 503, or a closed connection; never a 4xx status. The next request gets the same
reply as before, byte for byte, and the server keeps running.
"""
import http.client
import json
import mmap
import os
import re
import struct
import tempfile
import time

from load_rig import (FACT, PATIENCE, POINT, POINT_SCHEMA, WEATHER, WEATHER_TOOL, Server, case, equal,
                      main, scaled)

ALLOWED = (200, 429, 500, 503, 529)
SOME = {"temperature": 0, "seed": 1, "max_tokens": 8}


def user(text):
    return [{"role": "user", "content": text}]


REQUESTS = {
    "chat": ("/v1/chat/completions", {"messages": user(FACT), **SOME}),
    "chat, streamed": ("/v1/chat/completions", {"messages": user(FACT), "stream": True, **SOME}),
    "a tool": ("/v1/chat/completions", {"messages": user(WEATHER), "tools": [WEATHER_TOOL],
                                        "tool_choice": "required", **SOME}),
    "a schema": ("/v1/chat/completions", {"messages": user(POINT), **SOME, "response_format": {
        "type": "json_schema", "json_schema": {"name": "point", "schema": POINT_SCHEMA}}}),
    "responses": ("/v1/responses", {"input": FACT, "temperature": 0, "max_output_tokens": 16}),
    "messages": ("/v1/messages", {"messages": user(FACT), "max_tokens": 8,
                                  "temperature": 0, "stream": True}),
    "ollama": ("/api/chat", {"messages": user(FACT),
                             "options": {"temperature": 0, "num_predict": 8}}),
    "embeddings": ("/v1/embeddings", {"input": ["one", "two"]}),
}

VARIES = re.compile(r'(chatcmpl-|resp_|msg_|call_|fc_|rs_|toolu_)[0-9a-f]+'
                    r'|"(created|created_at|completed_at|\w+_duration)":("[^"]*"|[0-9.]+)'
                    r'|"(usage|timings)":\{[^{}]*(\{[^{}]*\}[^{}]*)*\}'
                    r'|"(prompt_eval_count|signature)":("[^"]*"|[0-9]+)')


class Switch:
    """The counters that malloc_fault maps: left, failed, seen."""

    def __init__(self, name):
        with open(name, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 24)

    def read(self):
        return struct.unpack("QQQ", self.map[:24])

    def arm(self, k):
        self.map[:8] = struct.pack("Q", k)


def ask(server, path, body):
    """(status, body); status 0: the connection was closed, or the reply is incomplete."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    try:
        connection.request("POST", path, json.dumps(body), {
            "Content-Type": "application/json", "Mote-Ext": "0",
            "Authorization": "Bearer " + server.key})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    except (http.client.HTTPException, ConnectionError):
        return 0, ""
    finally:
        connection.close()


def sound(server, path, body):
    """The reply without the parts that differ between runs."""
    status, text = ask(server, path, body)
    equal(status, 200)
    return VARIES.sub("", re.sub(r"^: .*\n\n", "", text, flags=re.MULTILINE))


def check(server, name):
    path, body = REQUESTS[name]
    body = {"model": server.model, **body}
    sound(server, path, body)
    wanted = sound(server, path, body)
    seen = server.switch.read()[2]
    equal(sound(server, path, body), wanted)
    n = server.switch.read()[2] - seen
    ends, failures, step = {}, 0, max(1, n // server.most)
    for k in range(1, n + 1, step):
        failed = server.switch.read()[1]
        server.switch.arm(k)
        status, text = ask(server, path, body)
        server.switch.arm(0)
        failures += server.switch.read()[1] - failed
        ends[status] = ends.get(status, 0) + 1
        if server.process.poll() is not None:
            raise AssertionError(f"allocation {k} of {name}: the server is gone")
        assert status == 0 or status in ALLOWED, (name, k, status, text)
        if k % (8 * step) == 1 or k + step > n:
            equal(sound(server, path, body), wanted)
    print(f"     {name}: {failures} of about {n} allocations failed; "
          + ", ".join(f"{'closed' if s == 0 else s} {c}x" for s, c in sorted(ends.items())))
    assert failures > 0


def add(name):
    def one(server):
        check(server, name)
    one.__name__ = name
    case(one)


for request_name in REQUESTS:
    add(request_name)


@case
def no_leak(server):
    end = time.monotonic() + PATIENCE
    while server.get("/slots") and time.monotonic() < end:
        time.sleep(0.05)
    equal(server.get("/slots"), [])


if __name__ == "__main__":
    with open(os.environ["MOTE"], "rb") as program:
        if re.search(rb"__(a|t|m)san_init", program.read()):
            print("sanitizers have their own malloc")
            raise SystemExit(77)
    with tempfile.NamedTemporaryFile() as shared:
        shared.write(bytes(24))
        shared.flush()
        os.environ |= {"LD_PRELOAD": os.environ["FAULT"], "MALLOC_FAULT": shared.name}
        with Server("--log", "off", "--parallel", "2") as server:
            for name in ("LD_PRELOAD", "MALLOC_FAULT"):
                del os.environ[name]
            server.switch = Switch(shared.name)
            server.most = scaled(400, 20)
            code = main(server)
    raise SystemExit(code)
