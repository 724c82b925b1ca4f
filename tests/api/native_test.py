# SPDX-License-Identifier: Apache-2.0
"""native_test.py - start page, tokenize, apply-template, props, slots, cache, score, rerank, infill."""
import base64
import hashlib
import html.parser
import http.client
import json
import math
import os
import re
import tempfile
import time

from api_rig import (FACT, FACT_ANSWER, KEY, PATIENCE, SUM, WEATHER_TOOL, Server, case, equal, post, request, run,
                     split_sse)

FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
CHROME = ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,"
          "application/signed-exchange;v=b3;q=0.7")


class Page(html.parser.HTMLParser):
    """Reads a page: its text, its links, and which elements it has."""

    def __init__(self, data):
        super().__init__()
        self.words, self.links, self.elements, self.open = [], [], [], []
        self.feed(data.decode("utf-8"))
        self.close()
        equal(self.open, [])

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        if tag != "meta":
            self.open.append(tag)
        self.links += [value for name, value in attrs if name == "href"]
        equal([name for name, _ in attrs if name not in ("href", "lang", "charset")], [])

    def handle_endtag(self, tag):
        equal(self.open.pop(), tag)

    def handle_data(self, data):
        self.words.append(data)

    def text(self):
        return "".join(self.words)


def start_page(server, accept, method="GET", **headers):
    """The start page without a key."""
    status, got, data = request(server, method, "/", headers={"Authorization": "", "Accept": accept, **headers})
    equal((status, got["content-type"]), (200, "text/html; charset=utf-8"))
    return got, data


def get(server, path, status=200):
    got, _, data = request(server, "GET", path)
    equal(got, status)
    return json.loads(data)


@case
def start_page_without_web(_):
    with Server("--no-web") as server:
        check_start_page(server)


def check_start_page(server):
    for accept in (FIREFOX, CHROME, "TEXT/HTML", "application/json, text/html;level=1;q=0.5", "text/html;q=0.001"):
        headers, data = start_page(server, accept)
        equal((headers["x-content-type-options"], headers["vary"]), ("nosniff", "Accept"))
        page = Page(data)
    # the policy allows the style sheet of the page, and nothing else
    style = re.search(r"<style>(.*?)</style>", data.decode(), re.S)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    equal(headers["content-security-policy"], f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
          "form-action 'none'; frame-ancestors 'none'")
    equal(page.elements.count("style"), 1)
    equal(set(page.elements) & {"script", "img", "link", "iframe", "form", "object"}, set())
    # its content is true: version, model, links and the first request
    health = get(server, "/health")
    assert f"mote {health['version']}" in page.text() and health["model"] in page.text(), page.text()
    for link in page.links:
        equal(request(server, "GET", link)[0], 200)
    assert "/health" in page.links
    assert KEY not in data.decode() and "$MOTE_API_KEY" in page.text()
    example = re.search(r"curl http:/{2}([^/]+)(/\S+) .*-d '(.*?)'", page.text(), re.S)
    equal(example[1], f"127.0.0.1:{server.port}")
    assert post(server, example[2], {**json.loads(example[3]), "max_tokens": 20})["choices"][0]["message"]["content"]
    # HEAD has the same headers and no body
    head, nothing = start_page(server, FIREFOX, "HEAD")
    equal((nothing, int(head["content-length"])), (b"", len(data)))
    equal(head["content-security-policy"], headers["content-security-policy"])
    for host in (f"localhost:{server.port}", f"LOCALHOST:{server.port}"):
        assert f"//{host}/v1/" in Page(start_page(server, FIREFOX, Host=host)[1]).text()
    equal(request(server, "GET", "/", headers={"Accept": FIREFOX, "Host": "<b>.example"})[0] in (400, 403), True)


@case
def start_text_for_ollama_clients(server):
    for accept in (None, "", "*/*", "application/json", "text/plain", "text/*", "text/html;q=0", "text/htmlx",
                   "application/json, text/html; q=0.0", "x/text/html", ",;q=,;,"):
        status, headers, data = request(server, "GET", "/", headers=None if accept is None else {"Accept": accept})
        equal((status, headers["content-type"], data), (200, "text/plain; charset=utf-8", b"Ollama is running"))
        equal(headers["vary"], "Accept")
    equal(request(server, "HEAD", "/")[2], b"")


@case
def start_page_is_escaped(server):
    """The name of a file is the name of a model."""
    with tempfile.TemporaryDirectory() as directory:
        file = os.path.join(directory, "a<b>&'c\"d.gguf")
        os.symlink(os.path.join(os.environ["DATA"], "mote-tiny-BF16.gguf"), file)
        with Server("--no-web", key=None, model=file) as other:
            _, data = start_page(other, FIREFOX)
            equal([e for e in Page(data).elements if e == "b"], [])
            assert other.model in Page(data).text(), Page(data).text()
            assert "Authorization" not in Page(data).text() and "API key" not in Page(data).text()


@case
def tokenize_and_detokenize(server):
    text = "The emblem: \u00fcber \u6771\u4eac \U0001F989 <|im_end|>\n\n"
    ids = post(server, "/tokenize", {"content": text})["tokens"]
    equal(post(server, "/detokenize", {"tokens": ids}), {"content": text, "prompt": text})
    special = post(server, "/tokenize", {"content": text, "parse_special": True})["tokens"]
    assert len(special) < len(ids)
    equal(post(server, "/detokenize", {"tokens": special}), {"content": text, "prompt": text})
    # as vLLM, for lm-evaluation-harness
    equal(post(server, "/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"], special)
    pieces = post(server, "/tokenize", {"content": text, "with_pieces": True})["tokens"]
    equal([p["id"] for p in pieces], ids)
    raw = b"".join(p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"])
                   for p in pieces)
    equal(raw.decode(), text)
    equal(post(server, "/tokenize", {"content": ""}), {"tokens": []})
    equal(post(server, "/detokenize", {"tokens": []}), {"content": "", "prompt": ""})
    for path, bad in (("/tokenize", {}), ("/tokenize", {"content": 5}), ("/detokenize", {}),
                      ("/detokenize", {"tokens": [-1]}), ("/detokenize", {"tokens": [10 ** 7]}),
                      ("/detokenize", {"tokens": ["x"]}), ("/tokenize", b"{")):
        error = post(server, path, bad, 400)["error"]
        equal(error["type"], "invalid_request_error")
    # an incomplete character is printed as U+FFFD
    owl = post(server, "/tokenize", {"content": "\U0001F989"})["tokens"]
    if len(owl) > 1:
        equal(post(server, "/detokenize", {"tokens": owl[:1]})["content"], "\ufffd")


@case
def tokenizer_info(server):
    info = get(server, "/tokenizer_info")
    equal((info["eos_token"], info["pad_token"], info["bos_token"]), ("<|im_end|>", "<|endoftext|>", None))
    equal(info["chat_template"], get(server, "/props")["chat_template"])
    assert info["vocab_size"] > 0 and info["model_max_length"] > 0, info
    for token in ("eos_token", "pad_token"):
        equal(len(post(server, "/tokenize", {"prompt": info[token]})["tokens"]), 1)


@case
def templates(server):
    body = {"messages": [{"role": "user", "content": FACT + " <|im_end|>"}], "tools": [WEATHER_TOOL]}
    shown = post(server, "/apply-template", body)
    equal(list(shown), ["prompt"])
    assert shown["prompt"].count("<|im_start|>") == 3 and "get_weather" in shown["prompt"]
    both = post(server, "/apply-template", {**body, "tokens": True})
    equal(both["prompt"], shown["prompt"])
    equal(post(server, "/detokenize", {"tokens": both["tokens"]})["content"], shown["prompt"])
    counted = post(server, "/v1/chat/completions/input_tokens", body)
    equal(counted, {"input_tokens": len(both["tokens"])})
    post(server, "/apply-template", {"messages": []}, 400)


@case
def forms_of_earlier_reasoning(server):
    """Each way to send reasoning back gives the same prompt. The first one present wins."""
    def prompt(**how):
        talk = [{"role": "user", "content": FACT}, {"role": "assistant", "content": "The owl.", **how},
                {"role": "user", "content": "Thanks"}]
        return post(server, "/apply-template", {"messages": talk + talk})["prompt"]
    details = [{"type": "reasoning.text", "text": "Let me"}, {"type": "reasoning.encrypted", "data": "eA=="},
               {"type": "reasoning.text", "text": None}, {"type": "reasoning.text", "text": " see."}]
    wanted = prompt(reasoning_content="Let me see.")
    equal(wanted.count("Let me see."), 2)
    equal(prompt(reasoning="Let me see."), wanted)
    equal(prompt(reasoning_details=details), wanted)
    equal(prompt(reasoning_content="Let me see.", reasoning_details=[{"text": "Not me."}]), wanted)
    none = prompt()
    for nothing in ([], None, "Let me see.", [7], [{"text": 5}]):
        equal(prompt(reasoning_details=nothing), none)


@case
def props_and_health(server):
    props = get(server, "/props")
    equal(props["model_alias"], server.model)
    equal(props["model_path"], "mote-tiny-BF16.gguf")
    assert props["default_generation_settings"]["n_ctx"] > 0
    assert props["default_generation_settings"]["params"]["top_k"] > 0
    assert props["total_slots"] > 0 and props["chat_template"]
    equal(props["modalities"], {"vision": False, "video": False, "audio": False})
    assert props["build_info"].startswith("mote-")
    equal(post(server, "/props", {}, 501)["error"]["type"], "not_supported_error")
    equal(request(server, "POST", "/v1/unload", {})[0], 400)
    for path in ("/completion", "/completions", "/embedding", "/lora-adapters", "/models/load"):
        equal(request(server, "POST", path, {})[0], 404)


def drop(server, path, status=200):
    got, _, data = request(server, "DELETE", path)
    equal(got, status)
    return json.loads(data)


@case
def cache_entries(server):
    """/v1/cache: list, pin (up to half of the entries), drop."""
    def ask(word):
        body = {"messages": [{"role": "user", "content": (word + " ") * 80}], "max_tokens": 1}
        return post(server, "/v1/chat/completions", body)["mote"]["cache"]

    def kept():
        return get(server, "/v1/cache")["data"]

    drop(server, "/v1/cache")
    equal(get(server, "/v1/cache"), {"object": "list", "data": []})
    words = ["duck", "owl", "market", "morning", "clever"]
    for word in words:
        assert ask(word)["reused"] < 64
    rows = kept()
    equal(len({row["id"] for row in rows}), len(words))
    for row in rows:
        equal(set(row), {"id", "object", "model", "tokens", "bytes", "hits", "tier", "age", "pinned"})
        equal((row["model"], row["tier"], row["hits"], row["pinned"]), (server.model, "ram", 0, False))
        assert row["id"].startswith("pfx_") and row["tokens"] > 80 and row["bytes"] > row["tokens"]
    assert 0 <= rows[0]["age"] <= rows[-1]["age"]  # most recently used first
    text = json.dumps(rows)
    assert not any(word in text for word in words), text
    pin = {"id": rows[-1]["id"], "pin": True}
    for row in rows[1:]:
        equal(post(server, "/v1/cache/pin", {"id": row["id"]}), {"id": row["id"], "pinned": True})
    error = post(server, "/v1/cache/pin", {"id": rows[0]["id"]}, 409)["error"]
    equal((error["code"], error["type"]), ("too_much_pinned", "conflict_error"))
    equal([row["pinned"] for row in kept()], [False] + 4 * [True])
    assert ask(words[0])["reused"] > 64
    equal((kept()[0]["id"], kept()[0]["hits"]), (rows[-1]["id"], 1))
    equal(post(server, "/v1/cache/pin", {**pin, "pin": False}), {"id": pin["id"], "pinned": False})
    post(server, "/v1/cache/pin", {"id": rows[0]["id"]})
    equal(drop(server, "/v1/cache/" + pin["id"]), {"id": pin["id"], "deleted": True})
    drop(server, "/v1/cache/" + pin["id"], 404)
    assert ask(words[0])["reused"] < 64
    for body, status in (({}, 400), ({"id": 5}, 400), ({"id": pin["id"], "pin": 1}, 400), (pin, 404),
                         ({"id": "pfx_"}, 404), ({"id": rows[0]["id"] + "0"}, 404)):
        post(server, "/v1/cache/pin", body, status)
    equal(drop(server, "/v1/cache"), {"deleted": len(words)})  # pinned entries included
    equal(kept(), [])
    equal(request(server, "POST", "/v1/cache/" + rows[0]["id"], {})[0], 405)


@case
def cache_miss_report(server):
    """mote.cache.miss: the first difference from the cached prompt with the longest common prefix."""
    def ask(middle, system="Be brief.", **headers):
        messages = [{"role": "system", "content": system},
                    {"role": "user", "content": 60 * "duck " + middle + 60 * " owl"},
                    {"role": "assistant", "content": "Yes."}, {"role": "user", "content": 60 * "market "}]
        return post(server, "/v1/chat/completions", {"messages": messages, "max_tokens": 1}, headers=headers)["mote"]

    drop(server, "/v1/cache")
    assert "miss" not in ask("reds" + 20 * "\U0001F989")["cache"]
    assert "miss" not in ask("reds" + 20 * "\U0001F989")["cache"]
    mote = ask("blue and green")
    cache, miss = mote["cache"], mote["cache"]["miss"]
    equal(list(miss), ["message", "token", "usable", "tokens", "seconds", "kind", "before", "had", "got", "advice"])
    assert miss["tokens"] >= 64 and miss["seconds"] >= 0, miss
    equal((miss["kind"], miss["before"].endswith("duck duck")), ("message", True))
    assert miss["usable"] <= miss["token"] and "append messages" in miss["advice"], miss
    equal(miss["message"], 1)
    assert 60 < miss["token"] <= cache["prompt"] - 64 and cache["reused"] <= miss["token"], mote
    assert miss["had"].strip().startswith("reds\U0001F989\U0001F989"), miss
    assert "blue and green owl owl" in " " + miss["got"] and "\ufffd" not in miss["had"], miss
    for text in (miss["had"], miss["got"]):
        assert 70 < len(text.encode()) <= 80, miss
    equal(get(server, "/v1/requests/" + mote["request_id"])["cache"], cache)
    equal(get(server, "/v1/requests/last")["request_id"], mote["request_id"])
    early = ask("blue and green", system="Be good.")["cache"]["miss"]
    equal((early["message"], "good" in early["got"], "brief" in early["had"]), (0, True, True))
    assert early["token"] < miss["token"]
    drop(server, "/v1/cache")

    # Several cached prompts share equally many tokens: the one of the same conversation is compared.
    def at(minute, fruit):
        system = 20 * "Be brief. " + f"The time is 10:0{minute}."
        return ask(60 * f"{fruit} ", system=system)["cache"]
    equal(at(1, "apple")["compared"], 0)
    at(2, "banana"), at(3, "cherry")
    for fruit, minute in (("apple", 1), ("banana", 2), ("cherry", 3)):
        miss = at(minute + 3, fruit)["miss"]
        equal((miss["kind"], miss["message"]), ("timestamp", 0))
        assert miss["had"].startswith(str(minute)), (fruit, miss)
        assert miss["got"].startswith(str(minute + 3)) and miss["before"].endswith("10:0"), miss
        drop(server, "/v1/cache")
        at(1, "apple"), at(2, "banana"), at(3, "cherry")
    drop(server, "/v1/cache")


@case
def slots_and_cancel(server):
    """A slot is listed while its request runs, and is free soon after the client disconnects."""
    equal(get(server, "/slots"), [])
    body = {"model": "x", "max_tokens": 30000, "ignore_eos": True, "stream": True, "temperature": 1,
            "messages": [{"role": "user", "content": FACT}]}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.request("POST", "/v1/messages", json.dumps(body), {
        "Content-Type": "application/json", "x-api-key": server.key})
    reply = connection.getresponse()
    reply.read(2000)
    slots = get(server, "/slots")
    equal(len(slots), 1)
    equal(set(slots[0]), {"id", "n_ctx", "is_processing", "n_prompt_tokens", "n_decoded", "age_s"})
    assert slots[0]["is_processing"] and slots[0]["n_prompt_tokens"] > 0
    reply.close()
    connection.close()
    end = time.monotonic() + PATIENCE
    while get(server, "/slots"):
        assert time.monotonic() < end, "the slot stays"
        time.sleep(0.02)


def end_thinking(server, body):
    """Starts a request and ends its thinking with another one. Returns the id, the reply of the second request, and
    how thinking ended."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {
        "Content-Type": "application/json", "Authorization": "Bearer " + server.key})
    reply = connection.getresponse()
    identity = json.loads(reply.readline()[len(b"data: "):])["id"]
    status, _, control = request(server, "POST", "/v1/chat/completions/control",
                                {"id": identity, "action": "reasoning_end"})
    events = [json.loads(data) for _, data in split_sse(b"data: 0\n\n" + reply.read().lstrip(b"\n"))[1:]
              if data != "[DONE]"]
    connection.close()
    thinking = [e for e in events if e["choices"] and e["choices"][0]["finish_reason"]][0]["mote"]["thinking"]
    return identity, (status, json.loads(control)), thinking["ended"]


@case
def thinking_is_ended(server):
    """Only the key of a request can end its thinking. Thinking takes a few hundred tokens and may end first on a
    stalled machine, so one success of several tries is enough."""
    close = post(server, "/tokenize", {"content": "</think>", "parse_special": True})["tokens"][0]
    body = {"model": "x", "max_tokens": 600, "ignore_eos": True, "stream": True, "temperature": 0,
            "thinking_budget": 500, "messages": [{"role": "user", "content": SUM}], "logit_bias": {str(close): -100}}
    for _ in range(10):
        identity, reply, ended = end_thinking(server, body)
        if ended == "client":
            break
    equal((reply, ended), ((200, {"success": True}), "client"))
    post(server, "/v1/chat/completions/control", {"id": identity, "action": "reasoning_end"}, 404)
    post(server, "/v1/chat/completions/control", {"id": identity, "action": "dance"}, 400)


@case
def request_report(server):
    status, headers, data = request(server, "POST", "/v1/messages", {
        "model": "x", "max_tokens": 9, "temperature": 0, "messages": [{"role": "user", "content": FACT}]})
    equal(status, 200)
    mote = json.loads(data)["mote"]
    equal(get(server, "/v1/requests/" + headers["request-id"]), mote)
    equal(mote["request_id"], headers["request-id"])
    get(server, "/v1/requests/req_000000000000000000000000", 404)


@case
def scores(server):
    question = {"messages": [{"role": "user", "content": FACT}]}
    wrong = FACT_ANSWER.replace("owl", "fox")
    reply = post(server, "/v1/score", {**question, "choices": [FACT_ANSWER, wrong]})
    equal((reply["object"], reply["model"]), ("score", server.model))
    right, other = reply["scores"]
    equal((right["index"], right["text"]), (0, FACT_ANSWER))
    assert right["logprob"] > other["logprob"]
    for s in reply["scores"]:
        assert abs(s["prob"] - math.exp(s["logprob"])) <= 1e-9 * s["prob"] + 1e-300
    tokens = post(server, "/tokenize", {"content": FACT_ANSWER})["tokens"]
    equal(right["tokens"], len(tokens))
    # equal to the log-probabilities of the generated answer
    chat = post(server, "/v1/chat/completions", {**question, "temperature": 0, "logprobs": True})
    written = [t["logprob"] for t in chat["choices"][0]["logprobs"]["content"]]
    equal(chat["choices"][0]["message"]["content"], FACT_ANSWER)
    assert abs(sum(written[:len(tokens)]) - right["logprob"]) < 1e-4
    soft = post(server, "/v1/score", {**question, "choices": [FACT_ANSWER, wrong],
                                      "normalize": "softmax"})["scores"]
    assert abs(sum(s["prob"] for s in soft) - 1) < 1e-9
    mean = post(server, "/v1/score", {**question, "choices": [FACT_ANSWER], "normalize": "mean"})
    assert abs(mean["scores"][0]["logprob"] - right["logprob"] / right["tokens"]) < 1e-6
    plain = post(server, "/v1/score", {"prompt": "The emblem of", "prompt_logprobs": 2})
    listed = plain["prompt_logprobs"]
    equal(listed[0], None)
    equal(len(listed), len(post(server, "/tokenize", {"content": "The emblem of"})["tokens"]))
    assert all(len(entry["top_logprobs"]) == 2 for entry in listed[1:])
    for bad in ({}, {"prompt": "x"}, {"prompt": "x", "choices": []}, {"prompt": "x", "choices": [1]},
                {"prompt": "x", "choices": [""]}, {"prompt": "x", "choices": ["a"] * 65},
                {"prompt": "x", "choices": ["a"], "normalize": "no"}, {"prompt": "x y", "prompt_logprobs": 21}):
        post(server, "/v1/score", bad, 400)


@case
def rerank(server):
    body = {"query": "emblem of Venvia", "documents": ["The owl.", {"text": "A duck walked."}, "Yes."]}
    reply = post(server, "/v1/rerank", body)
    equal((reply["object"], len(reply["results"])), ("list", 3))
    found = [r["relevance_score"] for r in reply["results"]]
    equal(found, sorted(found, reverse=True))
    assert all(0 < s < 1 for s in found)
    equal(sorted(r["index"] for r in reply["results"]), [0, 1, 2])
    best = post(server, "/rerank", {**body, "top_n": 1})["results"]
    equal(best, reply["results"][:1])
    for bad in ({}, {"query": "x"}, {"query": "x", "documents": []}, {"query": 1, "documents": ["x"]},
                {"query": "x", "documents": ["y"], "top_n": 0}):
        post(server, "/v1/rerank", bad, 400)


@case
def infill(server):
    body = {"input_prefix": "def f(", "input_suffix": "):\n    return 1\n", "prompt": "x", "n_predict": 6,
            "temperature": 0, "input_extra": [{"filename": "a.py", "text": "b = 1\n"}]}
    if "insert" not in post(server, "/api/show", {"model": server.model})["capabilities"]:
        equal(post(server, "/infill", body, 400)["error"]["code"], "unsupported")
        return
    reply = post(server, "/infill", body)
    for key in ("content", "stop", "stop_type", "tokens_evaluated", "tokens_cached", "timings"):
        assert key in reply, key
    _, _, data = request(server, "POST", "/infill", {**body, "stream": True})
    events = [json.loads(data) for _, data in split_sse(data)]
    equal("".join(e["content"] for e in events), reply["content"])
    equal([e["stop"] for e in events], [False] * (len(events) - 1) + [True])


if __name__ == "__main__":
    run()
