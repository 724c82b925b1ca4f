# SPDX-License-Identifier: Apache-2.0
"""damage_test.py - the file of one of two models is truncated while streams run. Requests on it fail with a clear error,
the other model returns the same bytes as before, and the damaged model works again when its file is back.

Prints the requests and latencies of the other model before and after the damage. SECONDS in the environment is the
length of both phases.
"""
import json
import os
import shutil
import statistics
import tempfile
import threading
import time

from api_rig import FACT, KEY, PATIENCE, Server, case, equal, main, request, split_sse

SECONDS = float(os.environ.get("SECONDS", "1.5"))
CANARY, VICTIM = "mote-tiny-q4_k_m", "victim"
STREAMS = 3
STORY = "Tell me a story of a duck."


def chat(model, question=FACT, **more):
    return {"model": model, "messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 40,
            "logprobs": True, "enable_thinking": False, **more}


def content(events):
    """Text and log-probabilities of a stream, and its error."""
    said, error = [], None
    for _, data in events:
        if data != "[DONE]":
            chunk = json.loads(data)
            error = chunk.get("error", error)
            said += [(c["delta"].get("content"), c.get("logprobs")) for c in chunk.get("choices", [])]
    return said, error


def stream(server, model, question=FACT, **more):
    status, _, data = request(server, "POST", "/v1/chat/completions", chat(model, question, stream=True, **more))
    if status != 200:
        return status, None, json.loads(data)["error"]
    return (status, *content(split_sse(data)))


class Canaries:
    """Threads that stream from the other model until stop(). Every reply must equal the first one."""

    def __init__(self, server):
        self.expected = {q: stream(server, CANARY, q) for q in (FACT, STORY)}
        self.server, self.times, self.wrong, self.over = server, [], [], threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(q,)) for q in (FACT, STORY)]
        for t in self.threads:
            t.start()

    def run(self, question):
        while not self.over.is_set():
            started = time.monotonic()
            if stream(self.server, CANARY, question) != self.expected[question]:
                self.wrong.append(question)
            self.times.append((started, time.monotonic() - started))

    def stop(self):
        self.over.set()
        for t in self.threads:
            t.join()
        equal(self.wrong, [])


def report(name, times):
    print(f"  canary {name}: {len(times)} streams, median {1e3 * statistics.median(times):.0f} ms, "
          f"max {1e3 * max(times):.0f} ms")


def until(check):
    end = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


@case
def truncated_file_under_load(server, path):
    canaries = Canaries(server)
    try:
        damage_and_restore(server, path, canaries)
    finally:
        canaries.over.set()


def damage_and_restore(server, path, canaries):
    healthy = stream(server, VICTIM)
    assert healthy[0] == 200 and healthy[2] is None, healthy
    results = []
    victims = [threading.Thread(target=lambda: results.append(stream(
        server, VICTIM, STORY, max_tokens=100000, ignore_eos=True))) for _ in range(STREAMS)]
    for t in victims:
        t.start()
    time.sleep(SECONDS)
    damaged = time.monotonic()
    os.truncate(path, 4096)
    for t in victims:
        t.join(PATIENCE)
    # The running streams and new requests get the error of their API.
    equal(len(results), STREAMS)
    for status, said, error in results:
        equal(status, 200)
        assert error is not None and "victim.gguf was truncated" in error["message"], error
        assert len(said) > 5, "the stream had not begun"
    equal(stream(server, VICTIM)[2]["code"], "model_file_damaged")
    status, _, data = request(server, "POST", "/v1/chat/completions", chat(VICTIM))
    error = json.loads(data)["error"]
    equal((status, error["code"]), (503, "model_file_damaged"))
    assert "victim.gguf" in error["message"] and os.path.dirname(path) not in error["message"], error
    until(lambda: server.get("/health")["model_files"] == "damaged")
    assert "model victim: its file was truncated" in server.said(), server.said()
    time.sleep(SECONDS)
    canaries.stop()
    report("before", [t for start, t in canaries.times if start < damaged])
    report("after", [t for start, t in canaries.times if start >= damaged])
    # The file is back.
    shutil.copyfile(os.path.join(os.environ["DATA"], "mote-tiny-BF16.gguf"), path)
    equal(stream(server, VICTIM), healthy)
    until(lambda: server.get("/health")["model_files"] == "ok")


@case
def replaced_file_is_reported(server, path):
    healthy = stream(server, VICTIM)
    os.rename(path, path + ".old")
    until(lambda: server.get("/health")["model_files"] == "replaced")
    equal(stream(server, VICTIM), healthy)
    os.rename(path + ".old", path)
    until(lambda: server.get("/health")["model_files"] == "ok")


@case
def single_damaged_model_is_unhealthy(server, path):
    with tempfile.TemporaryDirectory() as directory:
        only = os.path.join(directory, "only.gguf")
        shutil.copyfile(path, only)
        with Server(model=only) as alone:
            os.truncate(only, 100)
            until(lambda: request(alone, "GET", "/health")[0] == 503)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        victim = os.path.join(directory, "victim.gguf")
        shutil.copyfile(os.path.join(os.environ["DATA"], "mote-tiny-BF16.gguf"), victim)
        with Server("--parallel", "4", model="mote-tiny-Q4_K_M.gguf", more=(victim,), key=KEY) as both:
            code = main(both, victim)
    raise SystemExit(code)
