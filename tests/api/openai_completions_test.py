# SPDX-License-Identifier: Apache-2.0
"""openai_completions_test.py - /v1/completions, /v1/models and /v1/embeddings."""
import array
import base64
import json
import math
import os
import struct
import subprocess
import tempfile

from golden import same_as_golden
from api_rig import case, equal, post, request, run, sse

COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"
TOKENS = 7969  # of mote-tiny; the ids above are padding, which has no probability


def body(prompt="The emblem of Venvia", **more):
    return {"prompt": prompt, "temperature": 0, "presence_penalty": 0, "max_tokens": 12, **more}


def joined(events):
    equal(events[-1], (None, "[DONE]"))
    choices = {}
    for _, data in events[:-1]:
        for c in json.loads(data)["choices"]:
            got = choices.setdefault(c["index"], {"text": "", "finish_reason": None})
            equal(got["finish_reason"], None)
            got["text"] += c["text"]
            got["finish_reason"] = c["finish_reason"]
    return choices


def plain(reply):
    return {c["index"]: {"text": c["text"], "finish_reason": c["finish_reason"]} for c in reply["choices"]}


@case
def recorded_stream_and_reply(server):
    same_as_golden("openai_completions_reply", request(server, "POST", COMPLETIONS, body(logprobs=2))[2].decode(), server.model)
    same_as_golden("openai_completions_stream", request(server, "POST", COMPLETIONS, body(
        stream=True, stream_options={"include_usage": True}))[2].decode(), server.model)


@case
def stream_equals_reply(server):
    for more in ({}, {"prompt": ["The", "One", "Two"], "n": 2, "temperature": 1, "seed": 4}, {"echo": True},
                 {"stop": ["is"]}, {"suffix": " end."}, {"prompt": [5, 6, 7]}, {"regex": "[a-z]{4}"}):
        whole = post(server, COMPLETIONS, {"seed": 3, **body(**more)})
        equal(joined(sse(server, COMPLETIONS, {"seed": 3, **body(**more), "stream": True})), plain(whole))


@case
def prompts_keep_their_order(server):
    texts = ["The emblem of Venvia", "Once", "A small"]
    alone = [post(server, COMPLETIONS, body(t))["choices"][0]["text"] for t in texts]
    many = post(server, COMPLETIONS, body(texts))
    equal([c["text"] for c in many["choices"]], alone)
    twice = post(server, COMPLETIONS, body(texts, n=2))
    equal([c["index"] for c in twice["choices"]], list(range(6)))
    equal([c["text"] for c in twice["choices"]][::2], alone)
    full = post(server, COMPLETIONS, body(["a"] * 64, max_tokens=1, n=8))
    equal(len(full["choices"]), 512)
    ids = post(server, "/tokenize", {"content": texts[0]})["tokens"]
    equal(post(server, COMPLETIONS, body(ids))["choices"][0]["text"], alone[0])
    equal([c["text"] for c in post(server, COMPLETIONS, body([ids, ids]))["choices"]], [alone[0]] * 2)


@case
def lengths(server):
    equal(post(server, COMPLETIONS, {"prompt": "A", "ignore_eos": True})["usage"]["completion_tokens"], 16)
    nothing = post(server, COMPLETIONS, body(max_tokens=0))
    equal((nothing["choices"][0]["text"], nothing["usage"]["completion_tokens"]), ("", 0))
    equal(post(server, COMPLETIONS, body("", max_tokens=1))["usage"]["prompt_tokens"], 1)


@case
def control_tokens_in_text(server):
    spelled = post(server, COMPLETIONS, body("<|im_end|>", max_tokens=1))["usage"]["prompt_tokens"]
    meant = post(server, COMPLETIONS, body("<|im_end|>", max_tokens=1, parse_special=True))["usage"]["prompt_tokens"]
    assert spelled > 1
    equal(meant, 1)


@case
def logprobs_of_answers_and_prompts(server):
    reply = post(server, COMPLETIONS, body(logprobs=2))["choices"][0]
    listed = reply["logprobs"]
    equal("".join(listed["tokens"]), reply["text"])
    equal([len(listed[k]) for k in ("token_logprobs", "top_logprobs", "text_offset")], [len(listed["tokens"])] * 3)
    for i, offset in enumerate(listed["text_offset"]):
        assert reply["text"][offset:].startswith(listed["tokens"][i])
    scored = post(server, COMPLETIONS, body("Once there was", max_tokens=0, echo=True, logprobs=1))["choices"][0]
    equal(scored["text"], "Once there was")
    equal("".join(scored["logprobs"]["tokens"]), scored["text"])
    equal(scored["logprobs"]["token_logprobs"][0], None)
    assert all(x <= 0 for x in scored["logprobs"]["token_logprobs"][1:])
    one = post(server, COMPLETIONS, body([5], max_tokens=0, echo=True, logprobs=1))["choices"][0]["logprobs"]
    equal((len(one["tokens"]), one["token_logprobs"]), (1, [None]))
    both = post(server, COMPLETIONS, body("Once there was", max_tokens=3, echo=True, logprobs=0))["choices"][0]
    equal(both["logprobs"]["token_logprobs"][:len(scored["logprobs"]["tokens"])], scored["logprobs"]["token_logprobs"])
    # scores of a prompt equal the log-probabilities of the same tokens as an answer
    again = post(server, COMPLETIONS, body(both["text"], max_tokens=0, echo=True, logprobs=0))["choices"][0]
    if again["logprobs"]["tokens"] == both["logprobs"]["tokens"]:
        for a, b in zip(again["logprobs"]["token_logprobs"][1:], both["logprobs"]["token_logprobs"][1:]):
            assert abs(a - b) < 1e-5, (a, b)


def row_logprobs(ids):
    """Log-probabilities of the whole vocabulary after each of the ids, from `mote logits`."""
    with tempfile.NamedTemporaryFile() as f:
        subprocess.run([os.environ["MOTE"], "logits", os.path.join(os.environ["DATA"], "mote-tiny-BF16.gguf"), "--ids",
                        ",".join(map(str, ids)), "--all", "-q", "--out", f.name], check=True, stdin=subprocess.DEVNULL)
        with open(f.name, "rb") as logits:
            values = array.array("f", logits.read())
    width = len(values) // len(ids)
    for i in range(len(ids)):
        row = values[i * width:i * width + TOKENS]
        most = max(row)
        total = most + math.log(math.fsum(math.exp(x - most) for x in row))
        yield [x - total for x in row]


@case
def harness_requests(server):
    """The requests of lm-evaluation-harness, and how it reads the replies: arrays of token ids, one entry after the prompt,
    also if the answer is empty because the model ends it at once."""
    def ids_of(text):
        return post(server, "/tokenize", {"content": text, "parse_special": True})["tokens"]
    start = "<|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    prompts = [ids_of(start + "I am Mote, a very small language model."), ids_of("The emblem of Venvia is the owl"),
               [*ids_of("<|endoftext|>"), 5, 4000, 7], ids_of("Caf\u00e9 \u4e2d \U0001f642 x")]
    reply = post(server, COMPLETIONS, {"model": server.model, "prompt": prompts, "temperature": 0, "max_tokens": 1,
                                       "logprobs": 1, "seed": 1234, "echo": True})
    choices = sorted(reply["choices"], key=lambda c: c["index"])
    equal([c["finish_reason"] for c in choices[:1]], ["stop"])
    equal(choices[0]["logprobs"]["tokens"][-1], "<|im_end|>")
    for ids, c in zip(prompts, choices):
        listed = c["logprobs"]
        equal([len(listed[k]) for k in ("tokens", "token_logprobs", "top_logprobs", "text_offset")], [len(ids) + 1] * 4)
        equal((listed["token_logprobs"][0], listed["top_logprobs"][0], listed["text_offset"][0]), (None, None, 0))
        rows = list(row_logprobs(ids))
        for i in range(1, len(ids) + 1):
            row, logprob, top = rows[i - 1], listed["token_logprobs"][i], listed["top_logprobs"][i]
            wanted = row[ids[i]] if i < len(ids) else max(row)
            assert abs(logprob - wanted) <= 1e-6 * (1 + abs(wanted)), (i, logprob, wanted)
            equal(len(top), 1)
            [most] = top.values()
            assert abs(most - max(row)) < 1e-5 and most >= logprob
            # The harness calls a continuation greedy if the numbers are equal.
            equal(most == logprob, max(row) == wanted)
    alone = [post(server, COMPLETIONS, {"prompt": [p], "temperature": 0, "max_tokens": 1, "logprobs": 1, "echo": True})
             for p in prompts]
    equal([a["choices"][0]["logprobs"] for a in alone], [c["logprobs"] for c in choices])
    # max_tokens 0 leaves out the entry after the prompt and changes nothing else.
    scored = post(server, COMPLETIONS, {"prompt": prompts, "max_tokens": 0, "logprobs": 1, "echo": True})["choices"]
    equal([c["logprobs"]["token_logprobs"] for c in scored], [c["logprobs"]["token_logprobs"][:-1] for c in choices])
    # generate_until: batched ids with stop strings.
    until = post(server, COMPLETIONS, {"model": server.model, "prompt": [ids_of("The emblem of Venvia is the")] * 2,
                                       "max_tokens": 12, "temperature": 0, "stop": [".", "\n", "<|endoftext|>"],
                                       "seed": 1234})["choices"]
    equal([c["text"] for c in until], [" owl"] * 2)


@case
def best_of(server):
    more = {"temperature": 1.2, "seed": 8, "logprobs": 0}
    tried = post(server, COMPLETIONS, body(n=6, **more))["choices"]

    def mean(c):
        return sum(c["logprobs"]["token_logprobs"]) / len(c["logprobs"]["token_logprobs"])
    wanted = sorted(tried, key=mean, reverse=True)
    best = post(server, COMPLETIONS, body(n=2, best_of=6, **more))["choices"]
    equal([c["text"] for c in best], [c["text"] for c in wanted[:2]])


@case
def models(server):
    reply = server.get("/v1/models")
    equal((reply["object"], reply["has_more"], reply["first_id"], reply["last_id"]), ("list", False, server.model, server.model))
    model = reply["data"][0]
    equal((model["id"], model["object"], model["type"], model["owned_by"]), (server.model, "model", "model", "mote"))
    assert isinstance(model["created"], int) and model["context_length"] > 0
    equal(server.get("/v1/models/" + server.model), model)
    equal(server.get("/v1/models/Some%2F" + server.model), model)
    equal(request(server, "HEAD", "/v1/models")[0], 200)


@case
def embeddings(server):
    many = post(server, EMBEDDINGS, {"input": ["one", "two", "one"]})
    equal([d["index"] for d in many["data"]], [0, 1, 2])
    equal(many["data"][0]["embedding"], many["data"][2]["embedding"])
    assert many["data"][0]["embedding"] != many["data"][1]["embedding"]
    vector = post(server, EMBEDDINGS, {"input": "one"})["data"][0]["embedding"]
    equal(vector, many["data"][0]["embedding"])
    assert abs(math.fsum(x * x for x in vector) - 1) < 1e-5
    packed = post(server, EMBEDDINGS, {"input": "one", "encoding_format": "base64"})["data"][0]["embedding"]
    equal(list(struct.unpack(f"<{len(vector)}f", base64.b64decode(packed))),
          [struct.unpack("<f", struct.pack("<f", x))[0] for x in vector])
    short = post(server, EMBEDDINGS, {"input": "one", "dimensions": 8})["data"][0]["embedding"]
    equal(len(short), 8)
    assert abs(math.fsum(x * x for x in short) - 1) < 1e-5
    assert abs(short[0] / short[1] - vector[0] / vector[1]) < 1e-4
    ids = post(server, "/tokenize", {"content": "one"})["tokens"]
    equal(post(server, EMBEDDINGS, {"input": ids})["data"][0]["embedding"], vector)
    equal(post(server, EMBEDDINGS, {"input": [ids, ids]})["data"][1]["embedding"], vector)
    instructed = post(server, EMBEDDINGS, {"input": ["one"] * 2, "instruction": "Topic: "})
    equal(instructed["data"][0]["embedding"], post(server, EMBEDDINGS, {"input": "Topic: one"})["data"][0]["embedding"])
    equal(len(post(server, EMBEDDINGS, {"input": ["x"] * 256})["data"]), 256)
    post(server, EMBEDDINGS, {"input": ["x"] * 257}, 400)


@case
def embeddings_mean(server):
    """Mean pooling of one token equals last pooling; of several tokens it differs. The prefix cache does not change
    it."""
    def vector(text, pooling):
        reply = post(server, EMBEDDINGS, {"input": text, "pooling": pooling})
        equal(reply["mote"], {"pooling": pooling, "normalized": True})
        return reply["data"][0]["embedding"]
    ids = post(server, "/tokenize", {"content": "one town and another"})["tokens"]
    equal(vector(ids[:1], "mean"), vector(ids[:1], "last"))
    mean = vector(ids, "mean")
    assert mean != vector(ids, "last")
    assert abs(math.fsum(x * x for x in mean) - 1) < 1e-5
    equal(vector(ids, "mean"), mean)
    swapped = vector([ids[0], *reversed(ids[1:])], "mean")
    assert swapped != mean


if __name__ == "__main__":
    run()
