# SPDX-License-Identifier: Apache-2.0
"""slow_test.py - slowhttptest in its four modes, while a normal client is served.

Slow headers (slowloris), slow bodies, many ranges in a header, and slow reading of replies. Meanwhile a
client sends the same small request again and again, on a new connection each time. Goal: its p99 latency
at most doubles, and it is never refused.

  python3 slow_test.py [CONNECTIONS [SECONDS]]     4,000 and 20 by hand; 200 and 4 in the test run

Needs the package slowhttptest. Latencies are checked on a quiet machine only. Always checked: every reply
comes within five seconds, at the latest in the third attempt, and all slots are free afterwards. With more
connections, and compared with a server that is not attacked: tests/http/http_slow_test.py.
"""
import json
import shutil
import subprocess
import threading
import time
import urllib.error

from load_rig import (FACT, PATIENCE, SANITIZED, Server, case, descriptors, is_quiet, main, numbers,
                      own_memory, scaled)

MODES = {"slow headers": ["-H", "-i", "3"], "slow bodies": ["-B", "-i", "3", "-s", "8192"],
         "ranges": ["-R", "-a", "5", "-b", "2000"], "slow reading": ["-X", "-w", "10", "-y", "20", "-z", "5"]}
QUESTION = {"model": "x", "messages": [{"role": "user", "content": FACT}], "temperature": 0,
            "max_tokens": 4}
LITTLE = 0.05  # seconds: what no attack is blamed for
MUCH = 5  # more than any request waits on a busy machine


class Normal(threading.Thread):
    """A client that sends requests until end(); keeps latencies and refusals."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.times, self.refused, self.going = server, [], [], True

    def run(self):
        while self.going:
            began = time.monotonic()
            try:
                self.server.get("/v1/chat/completions", QUESTION)
                self.times.append(time.monotonic() - began)
            except urllib.error.HTTPError as e:
                self.refused.append(f"{e.code} {e.read()[:200]}")
            except OSError as e:
                self.refused.append(repr(e))
            time.sleep(0.01)

    def end(self):
        self.going = False
        self.join()


def p99(times):
    return sorted(times)[min(len(times) - 1, len(times) * 99 // 100)]


def attack(server, how):
    """Runs one mode; returns the output of slowhttptest, lines of "name: value"."""
    done = subprocess.run(
        ["slowhttptest", *how, "-c", str(server.attackers), "-r", str(max(100, server.attackers // 10)),
         "-l", str(server.seconds), "-p", "3", "-t", "POST" if "-B" in how else "GET",
         "-u", server.url + ("/v1/models" if "-X" in how else "/v1/chat/completions")],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
    return done.stdout.decode(errors="replace")


def measure(server, doing):
    normal = Normal(server)
    normal.start()
    result = doing()
    normal.end()
    assert normal.times, normal.refused[:3]
    return normal, result


def check(server, name):
    for _ in range(3):
        if attempt(server, name):
            return
    raise AssertionError(f"{name}: somebody waits too long")


def attempt(server, name):
    """True: the latencies are fine. A refused request fails in any case."""
    before, _ = measure(server, lambda: time.sleep(1 if SANITIZED else server.seconds / 2))
    during, said = measure(server, lambda: attack(server, MODES[name]))
    asked, goal = p99(during.times), 2 * p99(before.times) + LITTLE
    print(f"     {name}: {server.attackers} connections, {len(during.times)} answers, p99 "
          f"{1000 * p99(before.times):.0f} ms before, {1000 * asked:.0f} ms during, "
          f"{len(during.refused)} refused", flush=True)
    assert "initializing" in said or "connected" in said, said[-400:]
    assert not during.refused, during.refused[:3]
    return SANITIZED or max(during.times) <= MUCH and (asked <= goal or not is_quiet())


def add(name):
    def one(server):
        check(server, name)
    one.__name__ = name.replace(" ", "_")
    case(one)


for mode in MODES:
    add(mode)


@case
def no_leak(server):
    """By then all deadlines have passed."""
    end = time.monotonic() + PATIENCE
    while server.metric("mote_http_connections") > 1 and time.monotonic() < end:
        time.sleep(0.2)
    status = json.loads(server.text("/v1/status"))
    print(f"     {own_memory(server.process.pid) / 2**20:.0f} MiB, "
          f"{descriptors(server.process.pid)} descriptors, longest turn of the loop "
          f"{1000 * server.metric('mote_event_loop_lag_max_seconds'):.0f} ms")
    assert (status["streams"], status["connections"]) == ([], 1), status


if __name__ == "__main__":
    if shutil.which("slowhttptest") is None:
        print("no slowhttptest")
        raise SystemExit(77)
    attackers, seconds = numbers(scaled(200, 50), 4)
    room = 2 * attackers + 100  # no limit of connections helps: only deadlines do
    with Server("--log", "off", "--limit", f"connections={room}", "--limit",
                f"connections-per-ip={room}", key=None, deadlines=True) as server:
        server.attackers, server.seconds = attackers, seconds
        code = main(server)
    raise SystemExit(code)
