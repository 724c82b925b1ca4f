# SPDX-License-Identifier: Apache-2.0
"""ollama_test.py - /api/*: recorded bytes, stream equals reply, generate and its context, models, errors."""
import json
import re

from api_rig import (FACT, FACT_ANSWER, LONG, POINT, POINT_SCHEMA, SUM, WEATHER, WEATHER_ANSWER,
                       WEATHER_RESULT, WEATHER_TOOL, bits, case, equal, ndjson, normal, post, request,
                       run)

CHAT, GENERATE = "/api/chat", "/api/generate"


def chat(server, text=FACT, options=None, **more):
    return {"model": server.model, "messages": [{"role": "user", "content": text}],
            "options": {"temperature": 0, "num_predict": 64, **(options or {})}, **more}


def generate(server, prompt=FACT, options=None, **more):
    return {"model": server.model, "prompt": prompt,
            "options": {"temperature": 0, "num_predict": 64, **(options or {})}, **more}


def joined(lines, text="message"):
    """Returns the last line with the texts of all lines."""
    whole = {"content": "", "thinking": "", "calls": []}
    for number, line in enumerate(lines):
        data = json.loads(line)
        equal(data["done"], number == len(lines) - 1)
        assert "error" not in data
        if text == "message":
            equal(data["message"]["role"], "assistant")
            whole["content"] += data["message"]["content"]
            whole["thinking"] += data["message"].get("thinking", "")
            whole["calls"] += data["message"].get("tool_calls", [])
        else:
            whole["content"] += data["response"]
            whole["thinking"] += data.get("thinking", "")
    return whole, data


@case
def stream_bytes(server):
    lines = [normal(line, server.model) for line in ndjson(server, CHAT, chat(server))]
    delta = re.compile(r'\{"model":"MODEL","created_at":"TIME","message":\{"role":"assistant",'
                       r'"content":("(?:[^"\\]|\\.)*")\},"done":false\}')
    pieces = [delta.fullmatch(line) for line in lines[:-1]]
    assert all(pieces), lines
    equal("".join(json.loads(p.group(1)) for p in pieces), FACT_ANSWER)
    last = re.sub(r'"(prompt_eval|eval)_count":[0-9]+', r'"\1_count":N', lines[-1])
    equal(last, '{"model":"MODEL","created_at":"TIME","message":{"role":"assistant","content":""},'
                '"done":true,"done_reason":"stop","total_duration":N,"load_duration":N,'
                '"prompt_eval_count":N,"prompt_eval_duration":N,"eval_count":N,"eval_duration":N,'
                '"mote":{}}')


@case
def stream_equals_reply(server):
    for body in (chat(server), chat(server, SUM), chat(server, WEATHER, tools=[WEATHER_TOOL]),
                 chat(server, SUM, think=True, options={"num_predict": 300}),
                 chat(server, POINT, format=POINT_SCHEMA), chat(server, options={"stop": ["owl"]}),
                 chat(server, options={"num_predict": 3})):
        streamed, last = joined(ndjson(server, CHAT, body))
        whole = post(server, CHAT, {**body, "stream": False})
        message = whole["message"]
        equal(message["content"], streamed["content"])
        equal(message.get("thinking", ""), streamed["thinking"])
        equal([c["function"] for c in message.get("tool_calls", [])],
              [c["function"] for c in streamed["calls"]])
        for key in ("done_reason", "prompt_eval_count", "eval_count"):
            equal(whole[key], last[key])
        equal(set(whole) - {"logprobs"}, set(last))


@case
def tools_round_trip(server):
    asked = post(server, CHAT, chat(server, WEATHER, tools=[WEATHER_TOOL], stream=False))
    equal(asked["done_reason"], "stop")
    call = asked["message"]["tool_calls"][0]
    equal(call["function"], {"index": 0, "name": "get_weather", "arguments": {"city": "Haldon"}})
    bits(call["id"])
    history = [{"role": "user", "content": WEATHER}, asked["message"],
               {"role": "tool", "content": WEATHER_RESULT, "tool_name": "get_weather"}]
    body = {**chat(server, tools=[WEATHER_TOOL], stream=False), "messages": history}
    equal(post(server, CHAT, body)["message"]["content"], WEATHER_ANSWER)


@case
def thinking(server):
    on = post(server, CHAT, chat(server, SUM, think=True, stream=False, options={"num_predict": 400}))
    assert on["message"]["thinking"] and on["message"]["content"]
    equal(on["mote"]["thinking"]["source"], "think")
    low = post(server, CHAT, chat(server, SUM, think="low", stream=False, options={"num_predict": 64}))
    equal(low["mote"]["thinking"]["mode"], "on")
    off = post(server, CHAT, chat(server, SUM, think=False, stream=False))
    assert "thinking" not in off["message"]
    history = [{"role": "user", "content": SUM}, on["message"], {"role": "user", "content": FACT}]
    again = post(server, CHAT, {**chat(server, stream=False, think=True), "messages": history})
    assert again["mote"]["cache"]["reused"] > 0


@case
def log_probabilities(server):
    body = chat(server, logprobs=True, top_logprobs=2)
    streamed = [json.loads(line) for line in ndjson(server, CHAT, body)]
    pieces = [entry for line in streamed for entry in line.get("logprobs", [])]
    whole = post(server, CHAT, {**body, "stream": False})
    equal(pieces, whole["logprobs"])
    equal(b"".join(bytes(p["bytes"]) for p in pieces).decode(), FACT_ANSWER)
    for p in pieces:
        equal(list(p), ["token", "logprob", "bytes", "top_logprobs"])
        equal(len(p["top_logprobs"]), 2)
        equal(p["top_logprobs"][0]["token"], p["token"])


@case
def loading(server):
    for path, empty in ((CHAT, {"messages": []}), (CHAT, {}), (GENERATE, {}), (GENERATE, {"prompt": ""})):
        reply = post(server, path, {"model": server.model, **empty})
        equal((reply["done"], reply["done_reason"]), (True, "load"))
        reply = post(server, path, {"model": server.model, "keep_alive": 0, **empty})
        equal(reply["done_reason"], "unload")
        equal(post(server, path, {"model": server.model, "keep_alive": "0s", **empty})["done_reason"],
              "unload")
        equal(post(server, path, {"model": server.model, "keep_alive": "1h30m", **empty})["done_reason"],
              "load")
        equal(reply["message"]["content"] if path == CHAT else reply["response"], "")


@case
def generates(server):
    lines = ndjson(server, GENERATE, generate(server))
    whole, last = joined(lines, "response")
    equal(whole["content"], FACT_ANSWER)
    assert all("message" not in json.loads(line) for line in lines)
    reply = post(server, GENERATE, generate(server, stream=False))
    equal(reply["response"], FACT_ANSWER)
    equal(reply["context"], last["context"])
    equal(len(reply["context"]), reply["prompt_eval_count"] + reply["eval_count"] -
          (reply["done_reason"] == "stop" and
           len(reply["context"]) < reply["prompt_eval_count"] + reply["eval_count"]))


@case
def context_continues(server):
    """With `context`, the prompt has the same token ids as the conversation it came from."""
    first = post(server, GENERATE, generate(server, stream=False, system="Be kind."))
    second = post(server, GENERATE, generate(server, SUM, stream=False, context=first["context"]))
    history = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": FACT},
               {"role": "assistant", "content": first["response"]}, {"role": "user", "content": SUM}]
    talked = post(server, CHAT, {**chat(server, stream=False), "messages": history})
    equal(second["prompt_eval_count"], talked["prompt_eval_count"])
    equal(second["response"], talked["message"]["content"])
    equal(second["context"][:len(first["context"])], first["context"])
    same = post(server, GENERATE, generate(server, SUM, stream=False, context=first["context"],
                                           system="Be kind."))
    equal(same["prompt_eval_count"], second["prompt_eval_count"])
    for wrong in ([1, 2, 3], ["x"], [-1], [10 ** 9], [1.5]):
        request_body = generate(server, stream=False, context=wrong)
        assert "context" in post(server, GENERATE, request_body, 400)["error"]


@case
def raw_and_fill_in_the_middle(server):
    reply = post(server, GENERATE, generate(server, "The emblem of Venvia is", raw=True, stream=False,
                                            options={"num_predict": 4}))
    assert reply["response"] and "context" not in reply
    spelled = "<|im_start|>user\n" + FACT + "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    reply = post(server, GENERATE, generate(server, spelled, raw=True, stream=False))
    equal(reply["response"], FACT_ANSWER)
    for more in ({"system": "x"}, {"context": [1]}, {"template": "x"}):
        post(server, GENERATE, generate(server, raw=True, **more), 400)
    status, _, data = request(server, "POST", GENERATE, generate(server, "def f(", suffix=")", stream=False))
    if "insert" in post(server, "/api/show", {"model": server.model})["capabilities"]:
        equal(status, 200)
    else:
        equal((status, "gap" in json.loads(data)["error"]), (400, True))


@case
def debug_render_only(server):
    reply = post(server, CHAT, chat(server, _debug_render_only=True))
    shown = post(server, "/apply-template", {"messages": [{"role": "user", "content": FACT}]})
    equal(reply["_debug_info"], {"rendered_template": shown["prompt"], "image_count": 0})


@case
def stop_causes(server):
    def stop(options=None, **more):
        reply = post(server, CHAT, chat(server, options=options, stream=False, **more))
        return reply["done_reason"], reply["mote"]["stop"]["cause"]
    equal(stop(), ("stop", "eos"))
    equal(stop({"stop": "owl"}), ("stop", "stop"))
    equal(stop({"num_predict": 2}), ("length", "max_tokens"))
    equal(stop({"num_predict": -1}), ("stop", "eos"))
    equal(stop({"num_predict": -1, "ignore_eos": True, "t_max_predict_ms": 300}), ("length", "deadline"))
    equal(stop({"num_predict": -1, "ignore_eos": True, "num_ctx": 256, "temperature": 1})[0], "length")
    equal(stop(tools=[WEATHER_TOOL], tool_choice="required"), ("stop", "tool_calls"))
    reply = post(server, CHAT, chat(server, options={"num_predict": 0}, stream=False))
    equal((reply["message"]["content"], reply["done_reason"]), ("", "length"))


@case
def truncate(server):
    turns = []
    for i in range(12):
        turns += [{"role": "user", "content": f"Question {i}: {FACT} " * 6},
                  {"role": "assistant", "content": "Yes."}]
    turns = [{"role": "system", "content": "Be brief."}, *turns, {"role": "user", "content": FACT}]
    body = {**chat(server, stream=False, options={"num_ctx": 512}), "messages": turns}
    assert "prompt is too long" in post(server, CHAT, body, 400)["error"]
    reply = post(server, CHAT, {**body, "truncate": True})
    assert reply["prompt_eval_count"] < 512
    assert any(w["code"] == "turns_dropped" for w in reply["mote"]["warnings"])


@case
def models(server):
    equal(request(server, "GET", "/")[2], b"Ollama is running")
    status, _, data = request(server, "HEAD", "/")
    equal((status, data), (200, b""))
    version = json.loads(request(server, "GET", "/api/version")[2])
    assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", version["version"])
    assert version["mote_version"]
    tags = json.loads(request(server, "GET", "/api/tags")[2])["models"]
    equal(len(tags), 1)
    equal((tags[0]["name"], tags[0]["model"]), (server.model, server.model))
    assert re.fullmatch("[0-9a-f]{64}", tags[0]["digest"])
    details = tags[0]["details"]
    equal((details["format"], details["family"], details["families"], details["quantization_level"]),
          ("gguf", "qwen35", ["qwen35"], "BF16"))
    assert re.fullmatch(r"[0-9.]+[MB]", details["parameter_size"])
    running = json.loads(request(server, "GET", "/api/ps")[2])["models"][0]
    equal((running["name"], running["digest"], running["size_vram"]),
          (server.model, tags[0]["digest"], 0))
    assert running["context_length"] > 0 and running["expires_at"]
    shown = post(server, "/api/show", {"model": server.model})
    info = shown["model_info"]
    equal(info["general.architecture"], "qwen35")
    assert info["qwen35.context_length"] > 0 and info["general.parameter_count"] > 0
    equal(info["tokenizer.ggml.tokens"], [])
    for wanted in ("completion", "tools", "thinking"):
        assert wanted in shown["capabilities"]
    assert "vision" not in shown["capabilities"]
    assert "temperature" in shown["parameters"] and shown["template"] and shown["mote"]["presets"]
    verbose = post(server, "/api/show", {"name": server.model, "verbose": True})
    assert len(verbose["model_info"]["tokenizer.ggml.tokens"]) > 100


@case
def pull_create_delete(server):
    lines = ndjson(server, "/api/pull", {"model": server.model})
    equal([json.loads(line)["status"] for line in lines], ["pulling manifest", "success"])
    equal(post(server, "/api/pull", {"name": server.model, "stream": False}), {"status": "success"})
    assert "--allow-pull" in post(server, "/api/pull", {"model": "other:1b"}, 403)["error"]
    post(server, "/api/pull", {"model": server.model, "insecure": True}, 400)
    for path in ("/api/create", "/api/copy", "/api/push", "/api/blobs/sha256:0"):
        assert "not supported" in post(server, path, {}, 501)["error"]
    status, _, data = request(server, "DELETE", "/api/delete", {"model": "other"})
    equal((status, json.loads(data)), (404, {"error": "model 'other' not found"}))
    equal(request(server, "DELETE", "/api/delete", {"model": server.model})[0], 403)


@case
def embeddings(server):
    reply = post(server, "/api/embed", {"model": server.model, "input": ["a town", "a duck"]})
    equal(list(reply), ["model", "embeddings", "total_duration", "load_duration", "prompt_eval_count"])
    one = post(server, "/api/embed", {"model": server.model, "input": "a town"})
    equal(one["embeddings"][0], reply["embeddings"][0])
    assert abs(sum(x * x for x in one["embeddings"][0]) - 1) < 1e-4
    short = post(server, "/api/embed", {"model": server.model, "input": "a town", "dimensions": 8})
    equal(len(short["embeddings"][0]), 8)
    assert abs(sum(x * x for x in short["embeddings"][0]) - 1) < 1e-4
    old = post(server, "/api/embeddings", {"model": server.model, "prompt": "a town"})
    equal(old, {"embedding": one["embeddings"][0]})
    equal(post(server, "/api/embed", {"model": server.model, "input": []})["embeddings"], [])
    post(server, "/api/embed", {"model": server.model, "input": LONG})
    post(server, "/api/embed", {"model": server.model, "input": LONG, "truncate": False}, 400)
    post(server, "/api/embed", {"model": server.model, "input": "x", "dimensions": 0}, 400)


@case
def unusual_but_accepted(server):
    def ok(**more):
        return post(server, CHAT, {**chat(server, stream=False), **more})
    ok(messages=[{"role": "user", "content": None}])
    ok(messages=[{"role": "user"}])
    ok(messages=[{"role": "assistant", "content": "Hi."}, {"role": "user", "content": FACT, "images": []}])
    ok(messages=[{"role": "tool", "content": "x"}, {"role": "user", "content": FACT}])
    ok(format="", keep_alive=-1, shift=True, think=None, tools=None, stream=False)
    ok(options={"num_gpu": 1, "mirostat": 2, "num_thread": 4, "temperature": 0, "num_predict": 5})
    reply = ok(options={"temperature": 0, "num_predict": 5, "unheard_of": 1})
    assert {"code": "unknown_field", "at": "/options/unheard_of"} in reply["mote"]["warnings"]
    reply = ok(format="json", messages=[{"role": "user", "content": POINT}])
    assert isinstance(json.loads(reply["message"]["content"]), dict)
    for name in (server.model.upper(), server.model + ":latest", server.model + ":nothink"):
        ok(model=name)


@case
def errors(server):
    def error(status, body, part, path=CHAT):
        got, head, data = request(server, "POST", path, body)
        data = json.loads(data)
        equal(got, status)
        equal(list(data), ["error"])
        assert head["content-type"].startswith("application/json")
        assert part in data["error"], data
    error(400, b"{", "JSON")
    error(400, {}, "model is required")
    error(400, {}, "model is required", GENERATE)
    error(404, {"model": "other", "messages": []}, "model 'other' not found")
    error(404, {"model": "other", "prompt": "x"}, "model 'other' not found", GENERATE)
    error(404, {"model": "other"}, "not found", "/api/show")
    error(400, {}, "required", "/api/show")
    error(400, chat(server, options={"temperature": "hot"}), 'option "temperature" must be of type')
    error(400, chat(server, options={"temperature": 3}), "temperature")
    error(400, chat(server, options={"top_k": -1}), "top_k")
    error(400, chat(server, think="deeply"), '"low", "medium", "high"')
    error(400, chat(server, think=3), "think")
    error(400, chat(server, format="yaml"), "format")
    error(400, chat(server, keep_alive="soon"), "keep_alive")
    error(400, {**chat(server), "messages": [{"role": "robot"}]}, "messages[0].role")
    error(400, {**chat(server), "messages": ["x"]}, "messages[0]")
    error(400, {**chat(server), "messages": [{"role": "user", "images": ["aGk="]}]}, "image")
    error(400, generate(server, images=["aGk="]), "image", GENERATE)
    error(400, chat(server, LONG), "prompt is too long: ")
    error(400, generate(server, LONG), "prompt is too long: ", GENERATE)
    equal(request(server, "GET", CHAT)[0], 405)
    equal(request(server, "POST", "/api/nothing", {})[0], 404)


if __name__ == "__main__":
    run("--context", "4096")
