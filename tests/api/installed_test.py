# SPDX-License-Identifier: Apache-2.0
"""installed_test.py - `mote serve` without a model: installed models are loaded on request, unloaded when idle or when
another one needs the memory, and never during a response.

MOTE_SERVE_REQUESTS and MOTE_SERVE_NAMES scale the random test; scripts/serve_many runs the full one."""
import concurrent.futures
import json
import os
import random
import time

from api_rig import FACT, FACT_ANSWER, case, equal, main, post, request
from installed_rig import SMALL, Home, chat, loaded, mapped, megabytes, plan_of_one, said, wait_until

REQUESTS = int(os.environ.get("MOTE_SERVE_REQUESTS", 30))
NAMES = int(os.environ.get("MOTE_SERVE_NAMES", 10))
FIT = 3


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
    """A new file is found by its first request after the last scan is a second old; a removed one disappears. A damaged
    one fails alone."""
    def listed():
        return [m["id"] for m in server.get("/v1/models")["data"]]

    home.install("bad")
    os.truncate(home.path("bad"), os.path.getsize(home.path("bad")) // 2)
    home.install("new")
    wait_until("new is not found",
               lambda: request(server, "POST", "/v1/chat/completions", chat("new"))[0] == 200)
    assert "new" in loaded(server)
    assert "bad" in listed()
    reply = post(server, "/v1/chat/completions", chat("bad"), 503)["error"]
    equal(reply["code"], "model_file_damaged")
    assert home.models not in reply["message"], reply
    equal(said(server, "m00")[0], FACT_ANSWER)
    os.remove(home.path("new"))
    os.remove(home.path("bad"))
    wait_until("new does not disappear", lambda: "new" not in listed())
    assert "bad" not in listed()
    equal(request(server, "POST", "/v1/chat/completions", chat("new"))[0], 404)
    wait_until("new stays mapped", lambda: not any(n.startswith("new") for n in mapped(server) + loaded(server)))


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


if __name__ == "__main__":
    PLAN = plan_of_one()
    HOME = Home([f"m{i:02}" for i in range(NAMES)])
    with HOME.serve(*SMALL, "--memory", megabytes(FIT * PLAN + PLAN // 2)) as SERVER:
        code = main(SERVER, HOME, PLAN)
    raise SystemExit(code)
