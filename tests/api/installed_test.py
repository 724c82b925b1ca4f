# SPDX-License-Identifier: Apache-2.0
"""installed_test.py - `mote serve` without a model: installed models are loaded on request, unloaded when idle or when
another one needs the memory, and never during a response.

The installed models are links to one small file under several names, so that every name must give the same answer.
MOTE_SERVE_REQUESTS and MOTE_SERVE_NAMES scale the random test; scripts/serve_many runs the full one."""
import concurrent.futures
import http.client
import json
import os
import random
import shutil
import tempfile
import threading
import time

from api_rig import FACT, FACT_ANSWER, PATIENCE, Server, case, equal, main, post, request

FILE = "mote-tiny-Q4_K_M.gguf"
REQUESTS = int(os.environ.get("MOTE_SERVE_REQUESTS", 60))
NAMES = int(os.environ.get("MOTE_SERVE_NAMES", 10))
FIT = 3
SMALL = ("--parallel", "2", "--kv-tokens", "1024")


class Home:
    """A home directory with a directory of models."""

    def __init__(self, names):
        self.directory = tempfile.TemporaryDirectory(prefix="mote-home-")
        self.models = os.path.join(self.directory.name, "models")
        os.mkdir(self.models)
        for name in names:
            self.install(name)

    def path(self, name):
        return os.path.join(self.models, name + ".gguf")

    def install(self, name, source=FILE):
        """Appears under its name at once, as after a download."""
        part = os.path.join(self.directory.name, "part")
        shutil.copyfile(os.path.join(os.environ["DATA"], source), part)
        os.rename(part, self.path(name))

    def serve(self, *flags):
        empty = {k: "" for k in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "XDG_DATA_HOME",
                                 "XDG_CONFIG_HOME", "OLLAMA_MODELS", "LLAMA_CACHE")}
        return Server(*flags, model=None, env={**empty, "HOME": self.directory.name, "MOTE_MODELS": self.models})


def chat(model, **more):
    return {"model": model, "messages": [{"role": "user", "content": FACT}], "temperature": 0, "max_tokens": 16,
            "logprobs": True, "enable_thinking": False, **more}


def said(server, model):
    """Returns the text and the log-probabilities."""
    choice = post(server, "/v1/chat/completions", chat(model))["choices"][0]
    return choice["message"]["content"], json.dumps(choice["logprobs"])


def mapped(server):
    """Returns the names of the model files that the server has mapped."""
    with open(f"/proc/{server.process.pid}/maps", encoding="utf-8") as f:
        return sorted({os.path.basename(line.split()[-1])[:-5] for line in f if line.rstrip().endswith(".gguf")})


def loaded(server):
    return sorted(m["name"] for m in server.get("/api/ps")["models"])


def wait_until(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def megabytes(n):
    return f"{n // 1000000}MB"


def plan_of_one():
    """Planned bytes of one model with SMALL."""
    home = Home(["only"])
    with home.serve(*SMALL, "--memory", "4GB") as server:
        said(server, "only")
        return int(server.metric("mote_models_memory_bytes"))


@case
def lists_without_loading(server, home, plan):
    before = server.get("/api/tags")["models"]
    equal([m["name"] for m in before], [f"m{i:02}" for i in range(NAMES)])
    equal([m["status"] for m in server.get("/v1/models")["data"]], ["unloaded"] * NAMES)
    shown = post(server, "/api/show", {"model": "m00"})
    equal((loaded(server), mapped(server)), ([], []))
    equal(request(server, "GET", "/props")[0], 503)
    equal(server.get("/health")["status"], "ok")
    equal(said(server, "m00")[0], FACT_ANSWER)
    equal((loaded(server), mapped(server)), (["m00"], ["m00"]))
    equal(server.get("/api/tags")["models"], before)
    again = post(server, "/api/show", {"model": "m00"})
    again["mote"]["context_length"] = shown["mote"]["context_length"]  # an upper bound before the first load
    equal(again, shown)


@case
def same_bits_after_reload(server, home, plan):
    first = said(server, "m01")
    equal(post(server, "/v1/unload", {"model": "m01"})["status"], "unloaded")
    assert "m01" not in loaded(server) + mapped(server)
    equal(said(server, "m01"), first)
    equal(said(server, "m02"), first)


@case
def idle_models_are_unloaded(server, home, plan):
    """keep_alive of the request; the mapping of the file and the memory of the plan are gone."""
    body = {"model": "m03", "messages": [{"role": "user", "content": FACT}], "stream": False, "keep_alive": 0}
    equal(post(server, "/api/chat", body)["model"], "m03")
    wait_until("m03 stays loaded", lambda: "m03" not in loaded(server))
    assert "m03" not in mapped(server)
    assert server.metric('mote_model_unloads_total{reason="idle"}') >= 1
    equal(round(server.metric("mote_models_memory_bytes") / plan), len(loaded(server)))


@case
def names_that_are_not_installed(server, home, plan):
    reply = post(server, "/v1/chat/completions", chat("m0x"), 404)["error"]
    equal((reply["code"], reply["param"]), ("model_not_found", "model"))
    assert "similar installed models: m00" in reply["message"], reply
    equal(post(server, "/v1/chat/completions", chat(""), 400)["error"]["code"], "missing_field")
    equal(request(server, "POST", "/api/show", {"model": "other"})[0], 404)


@case
def models_come_and_go(server, home, plan):
    """A new file is found by its first request after the last scan is a second old; a removed one disappears."""
    home.install("new")
    wait_until("new is not found",
               lambda: request(server, "POST", "/v1/chat/completions", chat("new"))[0] == 200)
    assert "new" in loaded(server)
    os.remove(home.path("new"))
    wait_until("new does not disappear", lambda: "new" not in [m["id"] for m in server.get("/v1/models")["data"]])
    equal(request(server, "POST", "/v1/chat/completions", chat("new"))[0], 404)
    wait_until("new stays mapped", lambda: not any(n.startswith("new") for n in mapped(server) + loaded(server)))


@case
def damaged_file_fails_alone(server, home, plan):
    home.install("bad")
    os.truncate(home.path("bad"), os.path.getsize(home.path("bad")) // 2)
    wait_until("bad is not listed", lambda: "bad" in [m["id"] for m in server.get("/v1/models")["data"]])
    reply = post(server, "/v1/chat/completions", chat("bad"), 503)["error"]
    equal(reply["code"], "model_file_damaged")
    assert home.models not in reply["message"], reply
    equal(said(server, "m00")[0], FACT_ANSWER)
    os.remove(home.path("bad"))
    wait_until("bad stays listed", lambda: "bad" not in [m["id"] for m in server.get("/v1/models")["data"]])


@case
def routes_without_engine_load_too(server, home, plan):
    ids = post(server, "/tokenize", {"model": "m04", "content": FACT})["tokens"]
    equal(post(server, "/detokenize", {"model": "m05", "tokens": ids})["content"], FACT)
    assert {"m04", "m05"} <= set(loaded(server))


@case
def random_order(server, home, plan):
    """More names than fit, from several clients at once: no request fails, memory stays below the limit."""
    expected = said(server, "m00")
    draw = random.Random(16)
    names = [f"m{draw.randrange(NAMES):02}" for _ in range(REQUESTS)]
    cold = []

    def one(name):
        reply = post(server, "/v1/chat/completions", chat(name))
        choice, ms = reply["choices"][0], reply["mote"]["ms"]
        if ms["load"] > 0:
            cold.append(ms["load"] + ms["first_token"])
        return choice["message"]["content"], json.dumps(choice["logprobs"])

    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for name, answer in zip(names, pool.map(one, names)):
            equal((name, answer), (name, expected))
    seconds = time.monotonic() - began
    limit = server.get("/v1/status")["registry"]["limit"]
    peak = server.metric("mote_models_memory_peak_bytes")
    assert (FIT - 0.5) * plan < peak <= limit, (peak, plan, limit)
    assert len(mapped(server)) <= FIT, mapped(server)
    loads, load_seconds = server.metric("mote_model_loads_total"), server.metric("mote_model_load_seconds_total")
    assert server.metric('mote_model_unloads_total{reason="memory"}') >= 1
    print(f"  {REQUESTS} requests, {NAMES} names, {FIT} fit: {seconds:.1f} s, {loads:.0f} loads, "
          f"{1000 * load_seconds / loads:.1f} ms each; cold request to first token, waits included: median "
          f"{sorted(cold)[len(cold) // 2]} ms, maximum {max(cold)} ms; peak {peak / 1e6:.1f} of {limit / 1e6:.1f} MB")


@case
def stream_survives_and_the_other_one_sees_progress(server, home, plan):
    """Only one model fits. A request for another one waits until the stream has ended, with comments."""
    with home.serve("--parallel", "2", "--memory", "4GB") as big:
        said(big, "m00")
        one = int(big.metric("mote_models_memory_bytes"))
    with home.serve("--parallel", "2", "--memory", megabytes(one + one // 2)) as tight:
        running = http.client.HTTPConnection("127.0.0.1", tight.port, timeout=PATIENCE)
        waiting = http.client.HTTPConnection("127.0.0.1", tight.port, timeout=PATIENCE)
        headers = {"Content-Type": "application/json", "Authorization": "Bearer " + tight.key}
        endless = chat("m00", stream=True, ignore_eos=True, max_tokens=30000, logprobs=False)
        running.request("POST", "/v1/chat/completions", json.dumps(endless), headers)
        stream = running.getresponse()
        assert stream.readline().startswith(b"data: ")
        waiting.request("POST", "/v1/chat/completions", json.dumps(chat("m01", stream=True)), headers)
        reply = waiting.getresponse()  # its head comes with the first comment
        equal((reply.status, reply.getheader("mote-model")), (200, "m01"))
        equal(reply.readline(), b": loading: waits for running requests of 1 other model\n")
        lines = [stream.readline() for _ in range(20)]
        assert any(line.startswith(b"data: ") for line in lines), lines
        equal(loaded(tight), ["m00"])
        stream.close()
        running.close()
        rest = reply.read().decode()
        events = [json.loads(e[6:]) for e in rest.split("\n\n") if e.startswith("data: {")]
        text = "".join(c["delta"].get("content") or "" for e in events for c in e["choices"])
        equal(text, FACT_ANSWER)
        equal(loaded(tight), ["m01"])
        waiting.close()


@case
def busy_model_does_not_keep_others_out(server, home, plan):
    """Overlapping requests of one model: another one is served all the same."""
    with home.serve(*SMALL, "--memory", megabytes(plan + plan // 2)) as tight:
        over = threading.Event()

        def repeat():
            n = 0
            while not over.is_set():
                equal(said(tight, "m00")[0], FACT_ANSWER)
                n += 1
            return n

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            busy = [pool.submit(repeat) for _ in range(3)]
            try:
                for name in ("m01", "m02"):
                    equal(said(tight, name)[0], FACT_ANSWER)
            finally:
                over.set()
            assert all(b.result() > 0 for b in busy)


@case
def model_that_does_not_fit_alone(server, home, plan):
    with home.serve(*SMALL, "--memory", "10MB") as tiny:
        reply = post(tiny, "/v1/chat/completions", chat("m00"), 400)["error"]
        equal(reply["code"], "model_too_large")
        assert " MB" in reply["message"] and "--memory" in reply["message"], reply
        equal(tiny.get("/health")["status"], "ok")


if __name__ == "__main__":
    PLAN = plan_of_one()
    HOME = Home([f"m{i:02}" for i in range(NAMES)])
    with HOME.serve(*SMALL, "--memory", megabytes(FIT * PLAN + PLAN // 2)) as SERVER:
        code = main(SERVER, HOME, PLAN)
    raise SystemExit(code)
