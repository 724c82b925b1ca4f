#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mote batch: forms of lines and results, errors per line, order, shards, and runs that are killed.

BATCH_LINES and BATCH_KILLS set the size of the run that is killed; scripts/batch_kill uses larger ones.
"""
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))
import batch_files as files  # noqa: E402
from rig import case, equal, main  # noqa: E402

MOTE = os.environ["MOTE"]
MODEL = os.path.join(os.environ["DATA"], "mote-tiny-BF16.gguf")
LINES = int(os.environ.get("BATCH_LINES", "60"))
KILLS = int(os.environ.get("BATCH_KILLS", "6"))
SEED = int(os.environ.get("SEED", "7"))


def command(work, *flags, model=MODEL):
    chosen = ["--model", model, "--mmproj", "none"] if model else []
    return [MOTE, "batch", os.path.join(work, "in.jsonl"), os.path.join(work, "out.jsonl"), "--threads", "1",
            *chosen, *flags]


def batch(work, *flags, code=0):
    done = subprocess.run(command(work, *flags), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == code, (done.returncode, done.stderr)
    return done


def results(work):
    return files.read(os.path.join(work, "out.jsonl"))


def count(work):
    """Whole lines of the output so far."""
    try:
        with open(os.path.join(work, "out.jsonl"), "rb") as f:
            return f.read().count(b"\n")
    except FileNotFoundError:
        return 0


def fill(work, lines):
    files.write(os.path.join(work, "in.jsonl"), lines)


@case
def lines_select_adapters(work):
    nib = os.path.join(os.environ["DATA"], "golden/lora/nib")
    with open(os.path.join(os.path.dirname(nib), "index.json"), encoding="utf-8") as f:
        trained = json.load(f)["answers"]
    fill(work, [{"custom_id": f"{model}{i}", "method": "POST", "url": "/v1/chat/completions",
                 "body": {"model": model, "messages": [{"role": "user", "content": a["question"]}], "temperature": 0,
                          "max_tokens": 40, "reasoning_effort": "none"}}
                for i, a in enumerate(trained) for model in ("mote-tiny-BF16", "mote-tiny-BF16:nib")])
    batch(work, "--lora", nib)
    said = {r["custom_id"]: r["response"]["body"]["choices"][0]["message"]["content"] for r in results(work)}
    for i, a in enumerate(trained):
        equal(said[f"mote-tiny-BF16:nib{i}"], a["answer"])
        assert said[f"mote-tiny-BF16{i}"] != a["answer"], said


@case
def forms_of_lines(work):
    fill(work, [
        files.line(0),
        files.chat(1),
        files.line(2, {"model": "m", "prompt": "The", "max_tokens": 3, "temperature": 0}, url="/v1/completions"),
        files.line(3, {"model": "m", "input": "a town"}, url="/v1/embeddings"),
        files.line(4, {"model": "m", "input": "Hello", "max_output_tokens": 16, "store": False}, url="/v1/responses"),
        json.dumps(files.line(5)).replace("/", "\\/").encode(),
    ])
    report = json.loads(batch(work, "--json").stdout)
    equal((report["requests"], report["done"], report["failed"]), (6, 6, 0))
    assert report["answer_tokens"] > 0 and report["prompt_tokens"] > 0, report
    got = results(work)
    files.check_once(got, ["r-0", "request-2", "r-2", "r-3", "r-4", "r-5"])
    for r in got:
        equal(sorted(r), ["custom_id", "error", "id", "response"])
        equal((r["error"], r["response"]["status_code"]), (None, 200))
        assert r["response"]["request_id"].startswith("req_"), r
    bodies = [r["response"]["body"] for r in got]
    equal([b["object"] for b in bodies],
          ["chat.completion", "chat.completion", "text_completion", "list", "response", "chat.completion"])
    equal(files.answers(got[:1])["r-0"], "The emblem of Venvia is the owl.")
    assert all("mote" not in b for b in bodies)


@case
def errors_are_results(work):
    fill(work, [
        files.line(0),
        b"not json",
        b'{"custom_id": "half", "body": {"messages": [',
        files.line(3, url="/v1/images"),
        files.line(0),
        files.line(5, method="GET"),
        files.line(6, {"messages": "no list"}),
        files.line(7, {**files.chat(7), "stream": True}),
        json.dumps(files.line(11, {**files.chat(7), "stream": True})).replace("stream", "str\\u0065am").encode(),
        b'{"custom_id": "bad \\q", "url": "/v1/chat/completions", "body": {}}',
        b"",
        {"url": "/v1/chat/completions", "body": files.chat(9)},
        files.line(10),
    ])
    done = batch(work, code=1)
    assert "10 requests failed" in done.stderr, done.stderr
    got = results(work)
    equal([(r["error"] or {}).get("code") for r in got],
          [None, "invalid_json_line", "invalid_json_line", "invalid_url", "duplicate_custom_id", "invalid_method", None,
           "invalid_value", "invalid_value", "invalid_json_line", "missing_custom_id", None])
    equal([r["response"] and r["response"]["status_code"] for r in got],
          [200, None, None, None, None, None, 400, None, None, None, None, 200])
    equal(got[6]["response"]["body"]["error"]["type"], "invalid_request_error")
    # A second run does nothing.
    before = open(os.path.join(work, "out.jsonl"), "rb").read()
    done = batch(work, code=1)
    assert "12 of 12 requests were done before" in done.stderr, done.stderr
    equal(open(os.path.join(work, "out.jsonl"), "rb").read(), before)


def result_id(number, text):
    """The id of a result, as docs/batch.md describes it: FNV-1a of the line."""
    value = 0xCBF29CE484222325
    for byte in text:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"batch_req_{number:08x}{value:016x}"


@case
def done_lines_take_no_time(work):
    """A run looks at 64 lines per 100 ms; lines with a result do not count: 20,000 of them would take 31 s."""
    lines = [b'{"a":%d}' % i for i in range(20000)]
    fill(work, [*lines, files.line(0)])
    with open(os.path.join(work, "out.jsonl"), "w", encoding="ascii") as f:
        for i, text in enumerate(lines):
            f.write('{"id":"%s","response":{"status_code":200}}\n' % result_id(i, text))
    report = json.loads(batch(work, "--json").stdout)
    equal((report["done"], report["finished_now"]), (20001, 1))
    assert report["seconds"] < 15, report


@case
def other_input_is_refused(work):
    fill(work, [files.line(0), files.line(1)])
    batch(work)
    fill(work, [files.line(0), files.line(2)])
    before = open(os.path.join(work, "out.jsonl"), "rb").read()
    assert "--restart" in batch(work, code=2).stderr
    equal(open(os.path.join(work, "out.jsonl"), "rb").read(), before)
    batch(work, "--restart")
    files.check_once(results(work), ["r-0", "r-2"])
    with open(os.path.join(work, "out.jsonl"), "w", encoding="utf-8") as f:
        f.write("notes of mine")
    assert "--restart" in batch(work, code=2).stderr
    equal(open(os.path.join(work, "out.jsonl"), encoding="utf-8").read(), "notes of mine")
    done = subprocess.run([MOTE, "batch", os.path.join(work, "in.jsonl"), os.path.join(work, "in.jsonl")],
                          capture_output=True, text=True)
    equal(done.returncode, 2)


@case
def limit_and_fail_fast(work):
    fill(work, [files.line(i) for i in range(6)])
    batch(work, "--limit", "2")
    files.check_once(results(work), ["r-0", "r-1"])
    batch(work)
    files.check_once(results(work), [f"r-{i}" for i in range(6)])
    fill(work, [files.line(i, {"messages": 1}) for i in range(40)])
    batch(work, "--restart", "--fail-fast", "--parallel", "1", code=1)
    assert len(results(work)) < 40


@case
def shards_are_a_partition(work):
    ids = [f"r-{i}" for i in range(20)]
    fill(work, [files.line(i, files.chat(i, files.SYSTEM + "AB"[i % 2] * 40)) for i in range(20)])
    seen = []
    for shard in ("1/3", "2/3", "3/3"):
        batch(work, "--restart", "--shard", shard)
        part = [r["custom_id"] for r in results(work)]
        equal(part, sorted(part, key=ids.index))
        seen += part
    equal(sorted(seen), sorted(ids))
    batch(work, "--shard", "0/3", code=2)


@case
def lines_with_a_shared_prompt_reuse_it(work):
    """Two prompts alternate in the file. In the order of the file, with room for one session, none would be reused."""
    prompts = [files.SYSTEM * 12 + letter for letter in "AB"]
    fill(work, [files.line(i, files.chat(i, prompts[i % 2], tokens=4)) for i in range(48)])
    report = json.loads(batch(work, "--json", "--parallel", "2").stdout)
    share = report["cached_tokens"] / report["prompt_tokens"]
    assert share > 0.85, f"{share:.2f} of the prompt tokens were reused"


@case
def second_process_is_refused(work):
    fill(work, [files.line(i, files.chat(i, tokens=200)) for i in range(40)])
    first = subprocess.Popen(command(work), stderr=subprocess.DEVNULL)
    try:
        while count(work) == 0:
            time.sleep(0.01)
            assert first.poll() is None
        assert "in use" in batch(work, code=12).stderr
    finally:
        first.kill()
        first.wait()


@case
def interrupted_and_continued(work):
    fill(work, [files.line(i) for i in range(40)])
    process = subprocess.Popen(command(work, "--parallel", "2"), stderr=subprocess.DEVNULL)
    while count(work) < 3:
        time.sleep(0.005)
        assert process.poll() in (None, 0)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) in (0, 130)
    batch(work)
    files.check_once(results(work), [f"r-{i}" for i in range(40)])


@case
def full_disk_keeps_whole_lines(work):
    """A file size limit stands for a full disk: the write that fails leaves no part of a line."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
    fill(work, [files.line(i) for i in range(20)])
    done = subprocess.run(command(work), capture_output=True, text=True, stdin=subprocess.DEVNULL, preexec_fn=limit)
    equal(done.returncode, 12)
    assert "cannot write" in done.stderr, done.stderr
    with open(os.path.join(work, "out.jsonl"), "rb") as f:
        assert f.read().endswith(b"}\n")
    assert 0 < len(results(work)) < 20
    batch(work)
    files.check_once(results(work), [f"r-{i}" for i in range(20)])


@case
def killed_often(work):
    """kill -9 at random moments; the same command finishes. Answers equal those of a run that was not killed."""
    rng = random.Random(SEED)
    print(f"SEED={SEED} BATCH_LINES={LINES} BATCH_KILLS={KILLS}")
    ids = [f"r-{i}" for i in range(LINES)]
    fill(work, [files.line(i, files.chat(i, files.SYSTEM)) for i in range(LINES)])
    batch(work)
    wanted = files.answers(results(work))
    out = os.path.join(work, "out.jsonl")
    os.unlink(out)
    killed = 0
    for kill in range(KILLS):
        process = subprocess.Popen(command(work, "--parallel", "4"), stderr=subprocess.DEVNULL)
        done = count(work)
        goal = done + rng.randint(0, max(1, 2 * (LINES - done) // (KILLS - kill)))
        while process.poll() is None and count(work) < min(goal, LINES):
            time.sleep(0.002)
        killed += process.poll() is None
        process.kill()
        process.wait()
        got = [r["custom_id"] for r in results(work)] if os.path.exists(out) else []
        equal(len(got), len(set(got)))
        if rng.random() < 0.3 and os.path.exists(out) and len(got) < LINES:  # a torn write
            with open(out, "ab") as f:
                f.write(b'{"id":"batch_req_00')
    assert killed > KILLS // 2, killed
    batch(work)
    files.check_once(results(work), ids)
    equal(files.answers(results(work)), wanted)


def clean(function):
    def run():
        with tempfile.TemporaryDirectory(prefix="mote-batch-") as work:
            function(work)
    run.__name__ = function.__name__
    return run


import rig  # noqa: E402

rig.CASES[:] = [clean(c) for c in rig.CASES]
sys.exit(main())
