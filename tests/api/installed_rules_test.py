# SPDX-License-Identifier: Apache-2.0
"""installed_rules_test.py - `mote serve` without a model: which model a name means, what is loaded and what is not, and
models that appear after the start."""
import concurrent.futures
import http.client
import json
import os
import re
import shutil
import signal
import threading

from api_rig import FACT_ANSWER, PATIENCE, case, equal, main, post, request
from installed_rig import FILE, SMALL, Home, chat, loaded, megabytes, plan_of_one, said, wait_until

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def put_repo(home, owner, name, file):
    """A model in the Hugging Face cache, as after `mote pull`."""
    repo = os.path.join(home.directory.name, ".cache", "huggingface", "hub", f"models--{owner}--{name}")
    snapshot = os.path.join(repo, "snapshots", COMMIT)
    os.makedirs(snapshot)
    os.makedirs(os.path.join(repo, "refs"))
    shutil.copyfile(os.path.join(os.environ["DATA"], FILE), os.path.join(snapshot, file))
    with open(os.path.join(repo, "refs", "main"), "w", encoding="ascii") as f:
        f.write(COMMIT)


@case
def owners_are_not_mixed(plan):
    """Two owners with repositories of the same name."""
    with Home([]) as home:
        put_repo(home, "anna", "gull-GGUF", "gull-Q4_K_M.gguf")
        put_repo(home, "ben", "gull-GGUF", "gull-Q4_K_M.gguf")
        with home.serve(*SMALL) as server:
            for owner in ("anna", "ben"):
                name = f"hf:{owner}/gull-GGUF:gull-Q4_K_M.gguf"
                for wanted in (name, f"{owner}/gull-gguf", f"hf.co/{owner}/gull-GGUF:Q4_K_M"):
                    equal(post(server, "/v1/chat/completions", chat(wanted))["model"], name)
                    equal(post(server, "/api/show", {"model": wanted})["details"]["family"], "qwen35")
                    equal(server.get("/v1/models/" + wanted.replace("/", "%2F"))["id"], name)
                equal(name in loaded(server), True)
                equal(post(server, "/v1/unload", {"model": name})["model"], name)
                equal(loaded(server), [])
            post(server, "/v1/chat/completions", chat("carl/gull-GGUF"), 404)
            post(server, "/v1/chat/completions", chat("hf.co/carl/gull-GGUF:Q4_K_M"), 404)


@case
def the_first_model_appears_later(plan):
    """No directory of models exists at the start; the sandbox must not hide what comes."""
    with Home([]) as home:
        os.rmdir(home.models)
        with home.serve(*SMALL, env={"MOTE_MODELS": ""}) as server:
            assert "no model is installed" in server.said(), server.said()
            post(server, "/v1/chat/completions", chat("gull"), 404)
            put_repo(home, "anna", "gull-GGUF", "gull-Q4_K_M.gguf")
            shutil.copyfile(os.path.join(os.environ["DATA"], FILE),
                            os.path.join(home.directory.name, ".local", "share", "mote", "models", "plain.gguf"))
            for name in ("anna/gull-GGUF", "plain"):
                wait_until(f"{name} is not found", lambda name=name: request(
                    server, "POST", "/v1/chat/completions", chat(name))[0] == 200)


@case
def unloading_does_not_load(plan):
    """Ollama's "keep_alive": 0 without a prompt unloads. A model that is not loaded stays so."""
    with Home(["m00"]) as home, home.serve(*SMALL) as server:
        for keep in (0, "0s"):
            for path, member in (("/api/chat", "message"), ("/api/generate", "response")):
                reply = post(server, path, {"model": "m00", "keep_alive": keep})
                equal((reply["model"], reply["done"], reply["done_reason"]), ("m00", True, "unload"))
                assert member in reply, reply
        equal(server.metric("mote_model_loads_total"), 0)
        post(server, "/api/chat", {"model": "other", "keep_alive": 0}, 404)
        equal(post(server, "/api/generate", {"model": "m00"})["done_reason"], "load")
        equal(loaded(server), ["m00"])
        equal(post(server, "/api/generate", {"model": "m00", "keep_alive": 0})["done_reason"], "unload")
        wait_until("m00 stays loaded", lambda: loaded(server) == [])


@case
def a_context_above_the_trained_one_is_reduced(plan):
    with Home(["m00"]) as home, home.serve("--parallel", "2", "--context", "4000000") as server:
        equal(said(server, "m00")[0], FACT_ANSWER)
        shown = post(server, "/api/show", {"model": "m00"})
        trained = shown["model_info"]["qwen35.context_length"]
        equal(shown["mote"]["context_length"], trained)
        wait_until("no line in the log", lambda: f"--context 4000000 is reduced to {trained}" in server.said())


@case
def a_pull_without_keys_is_explained(plan):
    with Home(["m00"]) as home:
        env = {"HF_ENDPOINT": "http://127.0.0.1:9"}
        with home.serve("--allow-pull", key=None, env=env) as server:
            assert re.search(r"--allow-pull: no client can pull.*MOTE_API_KEY.*--api-key-file", server.said()), server.said()
            equal(request(server, "POST", "/api/pull", {"model": "hf.co/a/b"})[0], 401)
        with home.serve("--allow-pull", env=env) as server:
            assert "clients with the scope admin can pull" in server.said(), server.said()


def open_stream(server, path, body):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.request("POST", path, json.dumps(body),
                       {"Content-Type": "application/json", "Authorization": "Bearer " + server.key})
    return connection


@case
def status_is_read_while_models_load(plan):
    """A request is prepared by a worker after its model is loaded, while others read the list of requests: tsan reports a
    race if it is in the list then. Long prompts make that time long; the client leaves when its jobs have started."""
    prompts = ["The clever duck walked to the market. " * 40] * 16
    with Home(["m00", "m01"]) as home, home.serve(*SMALL, "--memory", megabytes(plan + plan // 2)) as server:
        over = threading.Event()

        def watch(path):
            n = 0
            while not over.is_set():
                server.get(path)
                n += 1
            return n

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            watches = [pool.submit(watch, path) for path in ("/v1/status", "/slots")]
            try:
                for name in ("m00", "m01") * 5:
                    client = open_stream(server, "/v1/completions", {"model": name, "prompt": prompts, "max_tokens": 1})
                    wait_until("no job starts", lambda name=name: name in [
                        s["model"] for s in server.get("/v1/status")["streams"]])
                    client.close()
            finally:
                over.set()
            assert all(w.result() > 0 for w in watches)
        equal(server.metric("mote_model_loads_total"), 10)


@case
def the_server_stops_while_requests_wait(plan):
    """Streams of every API that wait for a model when --drain is over end with an error, and the server with 0."""
    message = [{"role": "user", "content": "x"}]
    waiting = (("/v1/chat/completions", chat("m01", stream=True)),
               ("/v1/messages", {"model": "m01", "messages": message, "max_tokens": 8, "stream": True}),
               ("/v1/responses", {"model": "m01", "input": "x", "stream": True}),
               ("/v1/completions", {"model": "m01", "prompt": "x", "stream": True}),
               ("/api/chat", {"model": "m01", "messages": message}),
               ("/v1/chat/completions", chat("m01")))
    with Home(["m00", "m01"]) as home:
        limit = ("--memory", megabytes(2 * plan + plan // 2), "--drain", "0.2", "--kv-tokens", "30000", "--parallel", "2")
        with home.serve(*limit) as server:
            busy = open_stream(server, "/v1/chat/completions",
                               chat("m00", stream=True, ignore_eos=True, max_tokens=25000, logprobs=False))
            stream = busy.getresponse()
            assert stream.readline().startswith(b"data: ")
            asked = [(path, open_stream(server, path, body)) for path, body in waiting]
            plain = asked.pop()[1]
            replies = [(path, c.getresponse()) for path, c in asked]  # the head comes with the first progress line
            left = open_stream(server, "/v1/chat/completions", chat("m01"))
            wait_until("they do not wait", lambda: server.get("/v1/status")["registry"]["waiting"] == len(waiting) + 1)
            left.close()
            wait_until("it waits for ever", lambda: server.get("/v1/status")["registry"]["waiting"] == len(waiting))
            server.process.send_signal(signal.SIGTERM)
            for path, reply in replies:
                text = reply.read().decode()
                assert "shutting down" in text, (path, text)
            equal(plain.getresponse().status, 503)
            busy.close()
            equal(server.process.wait(PATIENCE), 0)


if __name__ == "__main__":
    raise SystemExit(main(plan_of_one()))
