# SPDX-License-Identifier: Apache-2.0
"""cancel_test.py - a closed connection frees its slot at once: in the queue, in prefill and in decode,
also if the current step continues for other requests.

Measured through /v1/status on a separate connection: from the close of the socket until the work is gone.
Goal: 100 ms. On a quiet machine the median must reach the goal, and no time may exceed two seconds. On a
busy machine the best time must reach the goal plus one step.

By hand with a real model: MODEL=FILE THREADS=2 python3 cancel_test.py
next_to_another_prefill next_to_a_decode next_to_a_prefill
"""
import http.client
import json
import os
import socket
import time

from load_rig import FACT, FACT_ANSWER, KEY, PATIENCE, SANITIZED, Server, case, equal, is_quiet, main, scaled

PATH = "/v1/chat/completions"
GOAL = 0.1
ENDLESS = {"max_tokens": 100000, "ignore_eos": True, "stream": True}
WORDS = "the clever duck walked to the market in the morning "


class Watcher:
    """Polls /v1/status on one connection."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)

    def look(self):
        try:
            return self.ask()
        except ConnectionError:  # it was idle for a minute, on a machine that stood still
            self.connection.close()
            return self.ask()

    def ask(self):
        self.connection.request("GET", "/v1/status", headers={"Authorization": "Bearer " + KEY})
        return json.loads(self.connection.getresponse().read())

    def phases(self):
        """Phases of all streams; the HTTP layer must report the same number."""
        now = self.look()
        places = [p for p in ("decode", "prefill", "queued") for _ in range(now[p])]  # in sorted order
        return places if len(places) == len(now["streams"]) else ["unequal"]

    def wait_for(self, *good):
        """Waits until the phases are one of these; returns the seconds."""
        began = time.monotonic()
        while (now := self.phases()) not in [sorted(phases) for phases in good]:
            assert time.monotonic() < began + PATIENCE, f"{now}, not {good}"
            time.sleep(0.002)
        return time.monotonic() - began

    def catches(self, phases):
        """Waits for these phases; False: prefill was over before the first poll."""
        later = [["decode"] * len(phases)] + [["prefill", "decode"]] * (phases == ["prefill"] * 2)
        self.wait_for(phases, *later)
        return self.phases() == sorted(phases)


class Asker:
    """A request that is sent without waiting for the reply."""

    def __init__(self, server, content, **more):
        body = json.dumps({"model": "x", **ENDLESS, **more,
                           "messages": [{"role": "user", "content": content}]}).encode()
        head = (f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n")
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
        self.socket.sendall(head.encode() + body)

    def go(self):
        self.socket.close()


def steps(watcher):
    totals = watcher.look()["totals"]
    return totals["steps"], totals["step_seconds"]


def hold(kind, watcher, before, times):
    """Checks the goal; on a busy machine plus the current step, which may take twice the mean."""
    n, seconds = (b - a for a, b in zip(before, steps(watcher)))
    step = 2 * seconds / max(1, n)
    times = sorted(times)
    middle = times[len(times) // 2]
    print(f"     {kind}: {len(times)} times, best {1000 * times[0]:.1f} ms, middle "
          f"{1000 * middle:.1f}, worst {1000 * times[-1]:.1f}; two steps "
          f"{1000 * step:.1f} ms")
    if SANITIZED:
        return
    if is_quiet():
        assert middle <= GOAL and times[-1] <= 2, times
    assert times[0] <= GOAL + step, times


def rounds_of(n):
    """Round numbers without end, because some rounds do not count; but most must."""
    yield from range(10 * n)
    raise AssertionError("they are never at it")


@case
def in_decode(server):
    watcher, times = Watcher(server), []
    before = steps(watcher)
    for i in range(server.rounds):
        asker = Asker(server, FACT, seed=i, stream=i % 2 == 0)
        watcher.wait_for(["decode"])
        asker.go()
        times.append(watcher.wait_for([]))
    hold("decode", watcher, before, times)


@case
def in_prefill(server):
    """Prompts of thousands of tokens, each with a different start."""
    watcher, times = Watcher(server), []
    before = steps(watcher)
    for i in rounds_of(server.rounds):
        asker = Asker(server, f"{i} {time.monotonic()} " + WORDS * 1500)
        caught = watcher.catches(["prefill"])
        asker.go()
        took = watcher.wait_for([])
        times += [took] * caught
        if len(times) == server.rounds:
            break
    hold("prefill", watcher, before, times)


def long_question():
    """A different start, so that it is not in the prefix cache; two of them fit at the same time."""
    return f"{time.monotonic()} " + WORDS * 600


def cancel_in_batch(server, kind, stays, leaves):
    """Each time at another moment of a step with both requests; repeats if the step is already over."""
    watcher, times = Watcher(server), []
    before = steps(watcher)
    n = max(4, server.rounds // 4)
    for i in rounds_of(n):
        stayer = Asker(server, stays())
        phase = "prefill" if stays is long_question else "decode"
        watcher.catches([phase])
        leaver = Asker(server, leaves())
        phases = [phase, "prefill" if leaves is long_question else "decode"]
        watcher.catches(phases)
        time.sleep(0.07 * (i % 4))
        caught = watcher.phases() == sorted(phases)
        leaver.go()
        took = watcher.wait_for([phase], ["decode"])
        times += [took] * caught
        stayer.go()
        watcher.wait_for([])
        if len(times) == n:
            break
    hold(kind, watcher, before, times)


@case
def next_to_another_prefill(server):
    cancel_in_batch(server, "reading beside one who reads", long_question, long_question)


@case
def next_to_a_decode(server):
    cancel_in_batch(server, "reading beside one who writes", lambda: FACT, long_question)


@case
def next_to_a_prefill(server):
    cancel_in_batch(server, "writing beside one who reads", long_question, lambda: FACT)


@case
def in_the_queue(server):
    """Two running, the others queued: a cancelled one makes place for the next."""
    watcher, times = Watcher(server), []
    before = steps(watcher)
    workers = [Asker(server, FACT, seed=i) for i in range(2)]
    watcher.wait_for(["decode"] * 2)
    for i in range(server.rounds):
        waiter = Asker(server, FACT, seed=i)
        watcher.wait_for(["queued", "decode", "decode"])
        waiter.go()
        times.append(watcher.wait_for(["decode"] * 2))
    hold("queued", watcher, before, times)
    waiter = Asker(server, FACT)
    watcher.wait_for(["queued", "decode", "decode"])
    workers[0].go()
    watcher.wait_for(["decode"] * 2)
    for asker in (waiter, workers[1]):
        asker.go()
    watcher.wait_for([])


@case
def the_next_reply_is_unchanged(server):
    body = {"model": "x", "messages": [{"role": "user", "content": FACT}], "temperature": 0}
    answer = server.get(PATH, body)
    equal(answer["choices"][0]["message"]["content"], FACT_ANSWER)
    for phase in ("queued", "prefill", "decode"):
        counted = server.metric(f'mote_requests_aborted_total{{phase="{phase}"}}')
        assert counted is not None and counted >= server.rounds, (phase, counted)


if __name__ == "__main__":
    flags = ("--parallel", "2", "--queue", "8", "--log", "off", "--threads",
             os.environ.get("THREADS", "1"))
    with Server(*flags, model=os.environ.get("MODEL", "mote-tiny-BF16.gguf")) as server:
        server.rounds = scaled(20, 5)
        code = main(server)
    raise SystemExit(code)
