# SPDX-License-Identifier: Apache-2.0
"""lora_test.py - adapters of a server: by model name, by `mote.lora`, together in one step, with the prefix cache."""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

from api_rig import Server, case, equal, main, post, request

DATA = os.environ["DATA"]
NIB = os.path.join(DATA, "golden/lora/nib")
CHAT = "/v1/chat/completions"
NAME = "What is your name?"
with open(os.path.join(DATA, "golden/lora/index.json"), encoding="utf-8") as index:
    TRAINED = {a["question"]: a["answer"] for a in json.load(index)["answers"]}


def body(model=None, question=NAME, **more):
    given = {"messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 40,
             "reasoning_effort": "none", **more}
    return {**given, "model": model} if model else given


def answer(server, *args, **more):
    return post(server, CHAT, body(*args, **more))["choices"][0]["message"]["content"]


def base_of(server):
    return json.loads(request(server, "GET", "/v1/models")[2])["data"][0]["id"]


@case
def models_are_listed(server):
    listed = json.loads(request(server, "GET", "/v1/models")[2])["data"]
    base = listed[0]["id"]
    equal([m["id"] for m in listed], [base, base + ":nib", base + ":half"])
    equal([m.get("parent") for m in listed], [None, base, base])
    status, _, data = request(server, "GET", f"/v1/models/{base}:nib")
    equal((status, json.loads(data)["id"]), (200, base + ":nib"))
    equal(request(server, "GET", f"/v1/models/{base}:other")[0], 404)


@case
def model_names_select_an_adapter(server):
    base = base_of(server)
    for question, trained in TRAINED.items():
        equal(answer(server, base + ":nib", question), trained)
    plain = answer(server, base)
    assert plain != TRAINED[NAME], plain
    equal(answer(server), plain)
    reply = post(server, CHAT, body(base + ":nib"))
    equal((reply["model"], reply["mote"]["model"]), (base + ":nib", base + ":nib"))
    equal(answer(server, base + ":nib:nothink"), TRAINED[NAME])
    equal(answer(server, ":nib"), TRAINED[NAME])
    reply = post(server, CHAT, body(base + ":other"))  # as every unknown name: the first model, with a warning
    equal(reply["model"], base)
    equal(reply["mote"]["warnings"], [{"code": "model_substituted", "at": base + ":other"}])


@case
def requests_select_adapters(server):
    base = base_of(server)
    plain, half = answer(server, base), answer(server, base + ":half")
    equal(answer(server, base, mote={"lora": "nib"}), TRAINED[NAME])
    equal(answer(server, base, mote={"lora": {"name": "nib"}}), TRAINED[NAME])
    equal(answer(server, base, mote={"lora": ["nib"]}), TRAINED[NAME])
    equal(answer(server, base, mote={"lora": [{"name": "nib", "scale": 0.5}]}), half)
    equal(answer(server, base, mote={"lora": [{"name": "half", "scale": 1}]}), TRAINED[NAME])
    equal(answer(server, base, mote={"lora": ["half", "half"]}), TRAINED[NAME])  # two halves
    equal(answer(server, base + ":nib", mote={"lora": []}), plain)
    equal(answer(server, base, mote={"lora": {"name": "nib", "scale": 0}}), plain)
    equal(answer(server, base, mote={"lora": {"name": "nib", "scale": 1e-60}}), plain)  # 0 as a float


@case
def invalid_adapters(server):
    for value, words in (("nob", "'nob'"), ({"scale": 1}, "name"), ([1], "name"), ([{"name": "nib", "scale": 101}], "scale"),
                         ([{"name": "nib", "scale": "1"}], "scale"), (["nib"] * 9, "at most 8")):
        error = post(server, CHAT, body(mote={"lora": value}), status=400)["error"]
        equal(error["param"], "mote.lora")
        assert words in error["message"], error
    equal(post(server, CHAT, body(mote={"lora": 1}), status=400)["error"]["param"], "mote.lora")


@case
def batches_mix_adapters(server):
    """Logprobs of answers do not depend on other adapters in the same steps."""
    base = base_of(server)
    wanted = [body(base + suffix, question, logprobs=True, top_logprobs=3, seed=i)
              for i, (question, suffix) in enumerate((q, s) for q in TRAINED for s in ("", ":nib", ":half"))]

    def ask(b):
        choice = post(server, CHAT, {**b, "cache_prompt": False})["choices"][0]
        return choice["message"], choice["logprobs"]

    alone = [ask(b) for b in wanted]
    with concurrent.futures.ThreadPoolExecutor(len(wanted)) as pool:
        together = list(pool.map(ask, wanted))
    equal(together, alone)


@case
def prefixes_are_not_shared(server):
    base = base_of(server)
    long = "Remember the words apple, pear, stone, river, cloud and tree. " * 12 + NAME

    def reused(model, **more):
        return post(server, CHAT, body(model, long, **more))["usage"]["prompt_tokens_details"]["cached_tokens"]

    reused(base)
    assert reused(base) > 60
    equal(reused(base + ":nib"), 0)
    assert reused(base + ":nib") > 60
    equal(reused(base + ":nib", mote={"lora": {"name": "nib", "scale": 0.25}}), 0)
    assert reused(base, mote={"lora": "nib"}) > 60
    first = post(server, CHAT, body(base + ":nib", long))["choices"][0]["message"]
    fresh = post(server, CHAT, body(base + ":nib", long, cache_prompt=False))["choices"][0]["message"]
    equal(first, fresh)


@case
def prefixes_on_disk_are_not_shared(_):
    """Restarted servers restore a prefix only for the adapter, its contents and the scale that it was computed with."""
    long = "Remember the words apple, pear, stone, river, cloud and tree. " * 12 + NAME

    def restarted(directory, suffix, lora):
        flags = ("--cache-disk", "64MB", "--lora", lora)
        with Server(*flags, env={"MOTE_CACHE": directory}) as server:
            reply = post(server, CHAT, body(base_of(server) + suffix, long))
        return reply["mote"]["cache"]["from"], reply["choices"][0]["message"]["content"]

    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as fresh:
        nib = f"nib:{NIB}"
        plain, adapted = restarted(directory, "", nib), restarted(directory, ":nib", nib)
        equal((plain[0], adapted[0]), ("none", "none"))
        assert plain[1] != adapted[1], plain
        equal(restarted(directory, "", nib), ("disk", plain[1]))
        equal(restarted(directory, ":nib", nib), ("disk", adapted[1]))
        equal(restarted(directory, ":other", f"other:{NIB}"), ("disk", adapted[1]))  # the name does not matter
        equal(restarted(directory, ":nib", nib + "=0.5"), restarted(fresh, ":nib", nib + "=0.5"))
        equal(restarted(directory, ":nib", nib + ".gguf")[0], "none")  # another file under the same name


@case
def other_apis_have_adapters(server):
    base = base_of(server)
    messages = [{"role": "user", "content": NAME}]
    reply = post(server, "/v1/messages", {"model": base + ":nib", "messages": messages, "max_tokens": 40, "temperature": 0,
                                          "thinking": {"type": "disabled"}})
    equal((reply["content"][0]["text"], reply["model"]), (TRAINED[NAME], base + ":nib"))
    reply = post(server, "/api/chat", {"model": base + ":nib", "messages": messages, "stream": False, "think": False,
                                       "options": {"temperature": 0, "num_predict": 40}})
    equal(reply["message"]["content"], TRAINED[NAME])
    plain = post(server, "/v1/embeddings", {"model": base, "input": "a"})["data"][0]["embedding"]
    adapted = post(server, "/v1/embeddings", {"model": base + ":nib", "input": "a"})["data"][0]["embedding"]
    assert plain != adapted


@case
def command_lines_are_checked(server):
    model = os.path.join(DATA, "mote-tiny-Q8_0.gguf")
    for flags, words in ((["--lora", "nib:" + NIB, "--lora", "nib:" + NIB], "two adapters have the name nib"),
                         (["--lora", NIB + "=0"], "other than 0"), (["--lora", "a b:" + NIB], "letters, digits"),
                         (["--lora", "/nowhere.gguf"], "/nowhere.gguf")):
        done = subprocess.run([os.environ["MOTE"], "serve", model, "--listen", "127.0.0.1:0", *flags], capture_output=True,
                              text=True, timeout=300)
        assert done.returncode != 0 and words in done.stderr, (done.returncode, done.stderr)
    done = subprocess.run([os.environ["MOTE"], "serve", "--lora", NIB], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "single model" in done.stderr, done.stderr


if __name__ == "__main__":
    with Server("--lora", NIB, "--lora", f"half:{NIB}.gguf=0.5", "--parallel", "8") as server:
        code = main(server)
    sys.exit(code)
