# SPDX-License-Identifier: Apache-2.0
"""memory_test.py - the process stays within `--memory X`, whatever requests it gets.

The server gets X and no other size. Then it gets more requests than slots, prompts as long as its
context, schemas, tools, and idle connections. The private memory of the process (RssAnon and VmSwap) is
sampled all the time. It must not exceed the total in /v1/status by more than 2 %, and that total must not
exceed X. (The total includes the mapped model file, which is not private memory.)
"""
import sys
import threading
import time

from load_rig import (POINT, POINT_SCHEMA, SANITIZED, WEATHER, WEATHER_TOOL, Server, case, chat,
                      run_clients, equal, main, numbers, own_memory, scaled)

PATH = "/v1/chat/completions"
MEMORY = 0.1e9
WORDS = "the clever duck walked to the market in the morning "


class Peak(threading.Thread):
    """Samples the memory of the process every few milliseconds; keeps the maximum."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.most, self.going = pid, 0, True

    def run(self):
        while self.going:
            self.most = max(self.most, own_memory(self.pid))
            time.sleep(0.01)

    def end(self):
        self.going = False
        self.join()
        return self.most


def requests(n, context):
    """Short requests, structured output, tools, and a few with a full context."""
    long = WORDS * (context // 12)
    kinds = [
        lambda i: chat(i),
        lambda i: chat(i, messages=[{"role": "user", "content": POINT}], response_format={
            "type": "json_schema", "json_schema": {"name": "p", "schema": POINT_SCHEMA}}),
        lambda i: chat(i, messages=[{"role": "user", "content": WEATHER}], tools=[WEATHER_TOOL]),
        lambda i: chat(i, messages=[{"role": "user", "content": f"{i} {long}"}], max_tokens=4),
    ]
    return [(PATH, kinds[0 if i % 8 < 4 else 3 if i % 32 == 31 else i % 3](i)) for i in range(n)]


@case
def it_stays_within_its_total(server):
    status = server.get("/v1/status")
    context, stated = status["context"], status["memory"]["total"]
    peak = Peak(server.process.pid)
    peak.start()
    summary, replies = run_clients(server, requests(server.streams, min(context, 4096)), server.idle)
    most = peak.end()
    statuses = sorted({r.status for r in replies})
    print(f"     {len(replies)} requests, {server.idle} idle connections: at most "
          f"{most / 1e6:.1f} MB of {stated / 1e6:.1f} stated, {MEMORY / 1e6:.0f} allowed, {statuses}, "
          f"{summary['seconds']:.1f} s")
    # 2 %, and libraries, stacks and connections, which the total does not include
    assert SANITIZED or most <= 1.02 * stated + 4e6, (most, stated)
    assert stated <= MEMORY, stated
    assert set(statuses) <= {200, 429, 503}, statuses
    equal(summary["idle_closed"], 0)
    assert sum(r.status == 200 for r in replies) > len(replies) // 2


@case
def the_total_is_within_the_limit(server):
    memory = server.get("/v1/status")["memory"]
    equal(memory["limit"], MEMORY)
    assert memory["total"] <= MEMORY, memory


if __name__ == "__main__":
    streams, idle = numbers(scaled(300, 40), scaled(500, 50))
    with Server("--memory", str(MEMORY / 1e9), "--parallel", "4", "--queue", str(streams), "--log", "off",
                "--limit", f"connections={streams + idle + 100}",
                "--limit", f"connections-per-ip={streams + idle + 100}") as server:
        server.streams, server.idle = streams, idle
        code = main(server)
    sys.exit(code)
