# SPDX-License-Identifier: Apache-2.0
"""models_test.py - two models in one server: choice by name, lists, and isolation. They share only cores and the
memory limit."""
import concurrent.futures
import json
import os
import subprocess
import tempfile
import time

from images_rig import png, url
from api_rig import FACT, FACT_ANSWER, KEY, PATIENCE, SUM, Server, case, equal, main, post, request, sse

FIRST, SECOND = "mote-tiny-q8_0", "mote-tiny-q4_k_m"
FILES = ("mote-tiny-Q8_0.gguf", "mote-tiny-Q4_K_M.gguf")
MEMORY = 0.6
QUESTIONS = [FACT, SUM, "Tell me a story of a duck.", "Who are you?"]


def chat(question, model, **more):
    return {"model": model, "messages": [{"role": "user", "content": question}], "temperature": 0,
            "max_tokens": 24, "logprobs": True, "enable_thinking": False, **more}


def said(server, question, model):
    """Returns the model, the text and the log-probabilities, which always differ between two models."""
    reply = post(server, "/v1/chat/completions", chat(question, model))
    choice = reply["choices"][0]
    return reply["model"], choice["message"]["content"], json.dumps(choice["logprobs"])


@case
def name_selects_the_model(both, alone):
    for name, answers in (
            (FIRST, FIRST), (SECOND, SECOND), (SECOND.upper(), SECOND), ("Qwen/" + SECOND, SECOND),
            (SECOND + ":latest", SECOND), ("mote-tiny:q4_k_m", SECOND), ("mote-tiny:q4-k-m:nothink", SECOND),
            ("mote-tiny", FIRST), ("default", FIRST), ("gpt-5", FIRST)):
        status, headers, data = request(both, "POST", "/v1/chat/completions", chat(FACT, name))
        reply = json.loads(data)
        equal((name, status, reply["model"], headers["mote-model"]), (name, 200, answers, answers))
        warned = [w["code"] for w in reply["mote"]["warnings"]]
        equal("model_substituted" in warned, name == "gpt-5")
    body = chat(FACT, None)
    equal(post(both, "/v1/chat/completions", body)["model"], FIRST)


@case
def all_apis_select_alike(both, alone):
    messages = [{"role": "user", "content": FACT}]
    equal(post(both, "/v1/messages", {"model": SECOND, "max_tokens": 8, "messages": messages})["model"], SECOND)
    equal(post(both, "/v1/responses", {"model": SECOND, "input": FACT, "max_output_tokens": 8})["model"], SECOND)
    equal(post(both, "/api/chat", {"model": SECOND, "stream": False, "messages": messages,
                                   "options": {"num_predict": 8}})["model"], SECOND)
    equal(post(both, "/api/generate", {"name": SECOND, "stream": False, "prompt": FACT,
                                       "options": {"num_predict": 8}})["model"], SECOND)
    equal(post(both, "/api/chat", {"model": "gpt-5", "messages": messages}, 404)["error"],
          "model 'gpt-5' not found")
    equal(post(both, "/v1/embeddings", {"model": SECOND, "input": FACT})["model"], SECOND)
    equal(post(both, "/v1/score", {"model": SECOND, "prompt": FACT, "choices": ["a", "b"]})["model"], SECOND)
    first = json.loads(sse(both, "/v1/chat/completions", chat(FACT, SECOND, stream=True))[0][1])
    equal(first["model"], SECOND)


@case
def lists_have_all_models(both, alone):
    models = both.get("/v1/models")
    equal([m["id"] for m in models["data"]], [FIRST, SECOND])
    equal((models["first_id"], models["last_id"]), (FIRST, SECOND))
    assert models["data"][0]["meta"]["size"] > models["data"][1]["meta"]["size"]
    equal(both.get("/v1/models/" + SECOND), models["data"][1])
    equal(request(both, "GET", "/v1/models/gpt-5")[0], 404)
    for path in ("/api/tags", "/api/ps"):
        listed = both.get(path)["models"]
        equal([m["name"] for m in listed], [FIRST, SECOND])
        equal([m["details"]["quantization_level"] for m in listed], ["Q8_0", "Q4_K_M"])
        equal(len({m["digest"] for m in listed}), 2)
    equal(post(both, "/api/show", {"model": SECOND})["details"]["quantization_level"], "Q4_K_M")
    equal(both.get("/props")["model_alias"], FIRST)
    equal(both.get("/health")["model"], FIRST)
    status = both.get("/v1/status")
    equal([m["name"] for m in status["models"]], [FIRST, SECOND])
    for name in ("parallel", "positions"):
        equal(status[name], sum(m[name] for m in status["models"]))


@case
def concurrent_answers_equal_single_ones(both, alone):
    expected = {m: [said(alone[m], q, m) for q in QUESTIONS] for m in (FIRST, SECOND)}
    assert expected[FIRST] != [(FIRST, *s[1:]) for s in expected[SECOND]], "the models are the same"
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [(m, i, pool.submit(said, both, QUESTIONS[i], m))
                 for i in range(len(QUESTIONS)) for m in (FIRST, SECOND)]
    for model, i, answer in asked:
        equal((model, i, answer.result()), (model, i, expected[model][i]))


@case
def caches_are_separate(both, alone):
    """Prefix cache and answer-token cache are separate for each model."""
    question = "The clever duck walked to the market in the morning. " * 20 + FACT
    reused = [post(both, "/v1/chat/completions", chat(question, m))["mote"]["cache"]["reused"] > 100
              for m in (FIRST, SECOND, FIRST, SECOND)]
    equal(reused, [False, False, True, True])


@case
def stored_response_continues_on_the_other_model(both, alone):
    """A stored response is text, so another model can continue it."""
    first = post(both, "/v1/responses", {"model": FIRST, "input": FACT, "temperature": 0, "max_output_tokens": 16,
                                         "reasoning": {"effort": "none"}})
    equal(first["output"][0]["content"][0]["text"], FACT_ANSWER)
    after = post(both, "/v1/responses", {"model": SECOND, "input": "Again.", "temperature": 0,
                                         "max_output_tokens": 16, "reasoning": {"effort": "none"},
                                         "previous_response_id": first["id"]})
    equal(after["model"], SECOND)
    messages = [{"role": "user", "content": FACT}, {"role": "assistant", "content": FACT_ANSWER},
                {"role": "user", "content": "Again."}]
    alike = post(alone[SECOND], "/v1/chat/completions",
                 chat(None, SECOND, messages=messages, max_tokens=16))
    equal(after["output"][0]["content"][0]["text"], alike["choices"][0]["message"]["content"])
    equal(after["usage"]["input_tokens"], alike["usage"]["prompt_tokens"])


@case
def vision_is_separate(both, alone):
    """The same image to both models at once: each vision encoder encodes it once."""
    image = {"type": "image_url", "image_url": {"url": url(png(64, 64, (200, 40, 90)))}}
    question = [image, {"type": "text", "text": "What is in the picture?"}]
    expected = {m: said(alone[m], question, m) for m in (FIRST, SECOND)}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        asked = [(m, pool.submit(said, both, question, m)) for m in (FIRST, SECOND) * 2]
    for model, answer in asked:
        equal(answer.result(), expected[model])
    equal([both.metric("mote_images_encoded_total", m) for m in (FIRST, SECOND)], [1, 1])


@case
def metrics_have_model_labels(both, alone):
    before = [both.metric("mote_generations_completed_total", m) for m in (FIRST, SECOND)]
    post(both, "/v1/chat/completions", chat(FACT, SECOND))
    after = [both.metric("mote_generations_completed_total", m) for m in (FIRST, SECOND)]
    equal([b - a for a, b in zip(before, after)], [0, 1])
    equal(both.get("/v1/status")["totals"]["answers"], sum(after))
    assert f" model={SECOND} q=" in both.said(), both.said()
    text = both.text("/metrics")
    families = [line for line in text.splitlines() if line.startswith("# TYPE")]
    equal(len(families), len(set(families)))


@case
def memory_limit_is_shared(both, alone):
    status = both.get("/v1/status")
    total = status["memory"]["total"]
    equal(status["memory"]["limit"], int(MEMORY * 1e9))
    equal(total, sum(m["memory"]["total"] for m in status["models"]))
    assert 0.95 * MEMORY * 1e9 < total <= MEMORY * 1e9, total
    first, second = (m["memory"]["total"] - m["memory"]["weights"] for m in status["models"])
    assert abs(first - second) < 0.1 * total, (first, second)
    for m in status["models"]:
        equal(both.metric('mote_memory_bytes{kind="kv_cache"}', m["name"]), m["memory"]["kv_cache"])


@case
def invalid_setups_are_rejected(both, alone):
    data = os.environ["DATA"]
    files = [os.path.join(data, f) for f in FILES]
    with tempfile.TemporaryDirectory() as directory:
        twin = os.path.join(directory, "Mote-tiny_Q8_0.gguf")
        os.symlink(files[0], twin)
        missing = os.path.join(directory, "none.gguf")
        for words, texts in (
                ([files[0], twin], ("both be named", files[0], twin)),
                ([*files, "--name", "m"], ("--name needs a single model",)),
                ([*files, "--mmproj", "some.gguf"], ("--mmproj FILE needs a single model",)),
                ([*files, "--memory", "0.02"], ("not enough for 2 models",)),
                ([files[1], "--memory", "0.05"], ("out of memory: 8 parallel requests", "more are available")),
                ([*files, missing], ("no such file", missing))):
            done = subprocess.run([os.environ["MOTE"], "serve", *words, "--listen", f"unix:{directory}/socket"],
                                  capture_output=True, text=True, timeout=PATIENCE, env={"PATH": os.environ["PATH"]})
            assert done.returncode != 0, words
            for text in texts:
                assert text in done.stderr, (words, done.stderr)


@case
def ps_lists_both(both, alone):
    done = subprocess.run([os.environ["MOTE"], "ps", "--host", f"127.0.0.1:{both.port}"], text=True,
                          capture_output=True, timeout=PATIENCE, env={"MOTE_API_KEY": KEY})
    equal([line.split()[0] for line in done.stdout.splitlines()], ["NAME", FIRST, SECOND])


def loaded(server):
    return [m["name"] for m in server.get("/api/ps")["models"]]


def until_loaded(server, names):
    end = time.monotonic() + PATIENCE
    while loaded(server) != names:
        assert time.monotonic() < end, (loaded(server), names)
        time.sleep(0.05)


def unload(server, model, status=200):
    return post(server, "/v1/unload", {"model": model}, status)


@case
def unload_and_reload(both, alone):
    long = "The clever duck walked to the market in the morning. " * 20 + FACT
    before = said(both, long, SECOND)
    memory = both.get("/v1/status")["memory"]["total"]
    equal(unload(both, SECOND.upper()), {"model": SECOND, "status": "unloaded"})
    unload(both, SECOND)  # already unloaded
    status = both.get("/v1/status")
    equal([m["loaded"] for m in status["models"]], [True, False])
    gone = status["models"][1]["memory"]
    equal((gone["kv_cache"], gone["recurrent_state"], gone["scratch"], gone["weights"]), (0, 0, 0, 0))
    assert status["memory"]["total"] < 0.7 * memory, (status["memory"], memory)
    equal(loaded(both), [FIRST])
    equal([m["status"] for m in both.get("/v1/models")["data"]], ["loaded", "unloaded"])
    equal([both.metric("mote_model_loaded", m) for m in (FIRST, SECOND)], [1, 0])
    equal(said(both, long, FIRST)[0], FIRST)  # the other model still works
    reply = post(both, "/api/chat", {"model": SECOND, "stream": False, "think": False, "options": {"temperature": 0},
                                     "messages": [{"role": "user", "content": FACT}]})
    assert reply["load_duration"] > 0, reply
    equal(loaded(both), [FIRST, SECOND])
    equal(both.get("/v1/status")["memory"]["total"], memory)
    again = post(both, "/v1/chat/completions", chat(long, SECOND))
    equal((again["mote"]["cache"]["reused"], again["mote"]["ms"]["load"]), (0, 0))
    equal(said(both, long, SECOND), before)


@case
def busy_model_is_not_unloaded(both, alone):
    with both.open("/v1/chat/completions", chat("Tell me a story.", SECOND, stream=True, max_tokens=20000,
                                                ignore_eos=True, logprobs=False)) as stream:
        stream.readline()
        error = unload(both, SECOND, 409)["error"]
        equal((error["code"], error["type"]), ("model_busy", "conflict_error"))
        unload(both, FIRST)
        until_loaded(both, [SECOND])
    end = time.monotonic() + PATIENCE
    while request(both, "POST", "/v1/unload", {"model": SECOND})[0] != 200:
        assert time.monotonic() < end
        time.sleep(0.02)
    until_loaded(both, [])
    equal(both.get("/props")["is_sleeping"], True)
    equal(both.get("/health")["status"], "ok")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:  # both reload at once
        asked = [pool.submit(said, both, FACT, m) for m in (FIRST, SECOND) * 3]
    equal({a.result()[:2] for a in asked}, {(FIRST, FACT_ANSWER), (SECOND, FACT_ANSWER)})
    equal(unload(both, "gpt-5", 404)["error"]["code"], "model_not_found")
    equal(post(both, "/v1/unload", {}, 400)["error"]["code"], "missing_field")


@case
def keep_alive_of_requests(both, alone):
    def ask(keep, **more):
        return post(both, "/api/generate", {"model": SECOND, "stream": False, "think": False, "keep_alive": keep,
                                            "options": {"num_predict": 2}, **more})
    ask(0, prompt=FACT)
    until_loaded(both, [FIRST])
    equal(ask("5m")["done_reason"], "load")
    equal(loaded(both), [FIRST, SECOND])
    status = both.get("/v1/status")["models"]
    assert 200 < status[1]["leaves_in"] <= 300 and "leaves_in" not in status[0], status
    expires = [m["expires_at"] for m in both.get("/api/ps")["models"]]
    assert expires[0].startswith("9999") and not expires[1].startswith("9999"), expires
    ask("200ms", prompt=FACT)
    until_loaded(both, [FIRST])
    equal(ask(0)["done_reason"], "unload")
    equal(loaded(both), [FIRST])
    ask("1ms", prompt=FACT)
    ask(-1, prompt=FACT)  # the last request wins
    assert both.get("/api/ps")["models"][1]["expires_at"].startswith("9999")
    ask("60m", prompt=FACT)
    post(both, "/v1/chat/completions", chat(FACT, SECOND))  # without keep_alive the server's value applies
    assert both.get("/api/ps")["models"][1]["expires_at"].startswith("9999")
    equal(post(both, "/api/chat", {"model": SECOND, "messages": [], "keep_alive": "soon"}, 400)["error"],
          'keep_alive must be seconds or a duration such as "5m"')


@case
def keep_alive_needs_admin(both, alone):
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("plain-key infer,metrics\nchief-key infer,metrics,admin\n")
        keys.flush()
        with Server("--api-key-file", keys.name, "--keep-alive", "1s", key="plain-key", model=FILES[0]) as server:
            until_loaded(server, [])  # the server's keep-alive, without any request
            reply = post(server, "/v1/chat/completions", chat(FACT, FIRST, keep_alive="1h"))
            assert "keep_alive_ignored" in [w["code"] for w in reply["mote"]["warnings"]], reply["mote"]
            equal(reply["choices"][0]["message"]["content"], FACT_ANSWER)
            assert server.get("/v1/status")["models"][0].get("leaves_in", 0) <= 1
            unload(server, FIRST, 403)
            server.key = "chief-key"
            post(server, "/v1/chat/completions", chat(FACT, FIRST, keep_alive="1h"))
            assert server.get("/v1/status")["models"][0]["leaves_in"] > 3000
            unload(server, FIRST)


if __name__ == "__main__":
    with Server("--memory", str(MEMORY), model=FILES[0], more=FILES[1:], sees=True) as pair, \
            Server(model=FILES[0], sees=True) as one, Server(model=FILES[1], sees=True) as other:
        raise SystemExit(main(pair, {FIRST: one, SECOND: other}))
