# SPDX-License-Identifier: Apache-2.0
"""rolling.py - a rolling restart of replicas behind nginx and HAProxy fails no request.

Both proxies run with the configurations of deploy/ in front of the same servers. Clients with
keep-alive connections send requests through both proxies all the time: streamed and not, short and
long, with small bodies and with bodies larger than the buffer of HAProxy. Answers are greedy: the same
request must get the same answer from every replica. Meanwhile each replica gets SIGTERM, drains, and starts again. The
servers run without --drain-delay, so both proxies meet refused connections and must retry.

By hand, for minutes: scripts/rolling_restart.
"""
import contextlib
import http.client
import json
import os
import random
import shutil
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from proxy_rig import Proxy, free_port, rig  # noqa: E402

MODEL = "mote-tiny-Q4_K_M.gguf"
# Values of deploy/kubernetes/mote.yaml. --queue: no client may get 429.
FLAGS = ("--parallel", "8", "--kv-tokens", "16384", "--queue", "1024", "--limit", "connections-per-ip=1024",
         "--drain", "300")
LARGE = 400_000  # bytes; tune.bufsize in haproxy.cfg is 262,144


# Kinds of requests, with their frequency. A count runs no inference, so that there are many of them.
KINDS = {"count": 20, "reply": 4, "stream": 4, "long reply": 1, "long stream": 1, "large count": 2, "large stream": 1}
NAMES = [f"client {i}" for i in range(6)]


def request_of(kind, name):
    """Returns path and body of a request: the same for each kind and name."""
    body = {"model": "x", "temperature": 0, "max_tokens": 60 if "long" in kind else 2, "ignore_eos": True,
            "messages": [{"role": "user", "content": f"My name is {name}. Tell me a story."}]}
    if "stream" in kind:
        body["stream"] = True
    path = "/v1/chat/completions" + ("/input_tokens" if "count" in kind else "")
    return path, json.dumps(body).encode() + b" " * (LARGE if "large" in kind else 0)


def text_of_stream(raw):
    """Returns the text of a complete stream. None: it has an error or no end."""
    events = [line[6:] for line in raw.decode().split("\n") if line.startswith("data: ")]
    if not events or events[-1] != "[DONE]":
        return None
    chunks = [json.loads(e) for e in events[:-1]]
    if any("error" in c for c in chunks):
        return None
    return "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"])


def ask(connection, kind, name):
    """Sends one request. Returns (answer, None) or (None, what went wrong)."""
    began = time.monotonic()
    try:
        connection.request("POST", *request_of(kind, name), {
            "Content-Type": "application/json", "Authorization": "Bearer " + rig.KEY, "X-Session-Affinity": name})
        reply = connection.getresponse()
        raw = reply.read()
    except (OSError, http.client.HTTPException) as e:
        connection.close()
        return None, f"{type(e).__name__} after {time.monotonic() - began:.2f} s: {e}"
    if reply.status != 200:
        return None, f"status {reply.status}: {raw[:200]}"
    if "stream" in kind:
        text = text_of_stream(raw)
        return (text, None) if text is not None else (None, f"the stream broke off: {raw[-200:]}")
    reply = json.loads(raw)
    return (reply["input_tokens"] if "count" in kind else reply["choices"][0]["message"]["content"]), None


class Load:
    """Clients that send requests through a proxy until stop()."""

    lock, answers = threading.Lock(), {}

    def __init__(self, proxy, clients):
        self.proxy, self.over = proxy, threading.Event()
        self.counts, self.failures = {k: 0 for k in KINDS}, []
        self.threads = [threading.Thread(target=self._client, args=(i,), daemon=True) for i in range(clients)]
        for t in self.threads:
            t.start()

    def _client(self, seed):
        pick = random.Random(seed)
        connection = http.client.HTTPConnection("127.0.0.1", self.proxy.port, timeout=rig.PATIENCE)
        while not self.over.is_set():
            kind, name = pick.choices(list(KINDS), KINDS.values())[0], pick.choice(NAMES)
            text, error = ask(connection, kind, name)
            with self.lock:
                self.counts[kind] += 1
                if error is None and text != self.answers.setdefault((kind, name), text):
                    error = f"another answer: {text!r}"
                if error is not None:
                    self.failures.append(f"{self.proxy.kind}, {kind}: {error}")
            if error is not None:
                time.sleep(0.05)
        connection.close()

    def total(self):
        return sum(self.counts.values())

    def stop(self):
        self.over.set()
        for t in self.threads:
            t.join(timeout=rig.PATIENCE)
            assert not t.is_alive(), "a request does not end"


class Replicas:
    """Servers on fixed ports."""

    def __init__(self, n, *flags):
        self.flags = (*FLAGS, *flags)
        self.servers = [rig.Server(*self.flags, model=MODEL, port=free_port()) for _ in range(n)]

    def restart(self, i, down=0):
        """Returns the seconds that the server took to stop. It starts again `down` seconds later."""
        began = time.monotonic()
        self.servers[i].stop()
        took = time.monotonic() - began
        time.sleep(down)
        self.servers[i] = rig.Server(*self.flags, model=MODEL, port=self.servers[i].port)
        return took

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        for s in self.servers:
            s.__exit__(*raised)


def rolling_restart(kinds, n, clients, rounds=lambda turn: turn < 1, pause=0.3, down=0, flags=()):
    """Restarts each of n replicas under load, as long as rounds(turn) is true. Returns (load of each proxy, seconds)."""
    with contextlib.ExitStack() as stack:
        replicas = stack.enter_context(Replicas(n, *flags))
        proxies = [stack.enter_context(Proxy(kind, replicas.servers)) for kind in kinds]
        began = time.monotonic()
        loads = [Load(p, clients) for p in proxies]
        restarts = 0
        while rounds(restarts // n):
            for i in range(n):
                time.sleep(pause)
                took = replicas.restart(i, down)
                restarts += 1
                print(f"     restart {restarts}, replica {i + 1}: stopped in {took:.1f} s; "
                      f"{sum(load.total() for load in loads)} requests, "
                      f"{sum(len(load.failures) for load in loads)} failed", flush=True)
        time.sleep(pause)
        for load in loads:
            load.stop()
        return loads, time.monotonic() - began


def report(loads, seconds):
    """Prints the counts. Returns the number of failed requests."""
    for load in loads:
        print(f"     {load.proxy.kind}: {load.total()} requests in {seconds:.0f} s ({load.counts}), "
              f"{len(load.failures)} failed")
        for kind in sorted({f.split(" after")[0][:150] for f in load.failures})[:10]:
            print("       " + kind)
    return sum(len(load.failures) for load in loads)


@rig.case
def four_replicas(kinds):
    loads, seconds = rolling_restart(kinds, n=4, clients=6)
    rig.equal(report(loads, seconds), 0)
    for load in loads:
        assert load.total() > 50, load.counts


@rig.case
def two_replicas(kinds):
    """With two servers, the limit of hash-balance-factor must not exclude the only one that is left."""
    loads, seconds = rolling_restart(kinds, n=2, clients=12, pause=1.5, down=0.5)
    rig.equal(report(loads, seconds), 0)


if __name__ == "__main__":
    found = [k for k in ("nginx", "haproxy") if shutil.which(k) is not None]
    if not found or not os.path.exists(os.path.join(os.environ["DATA"], MODEL)):
        sys.exit(77)
    sys.exit(rig.main(found))
