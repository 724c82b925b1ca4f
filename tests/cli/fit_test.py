#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mote fit: memory equals the plan of real files, the table and its exit codes, speeds are plausible.

Memory: for every size a file without weights but with the real vocabulary is made; `mote show` plans it and must
give the bytes that `mote fit` gives for the name.

Speed: a model of random weights is measured by `mote bench` and predicted by `mote fit`, alternately. Other programs
disturb both, so the best results of several rounds count; the factor is generous. With MOTE_QUIET=1 the prediction
must be within 25 %.
"""
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MOTE = os.environ["MOTE"]
ROUNDS = 5

sys.path.insert(0, str(ROOT / "tools"))


def load_maker():
    loader = importlib.machinery.SourceFileLoader("make_bench_model", str(ROOT / "tools/make-bench-model"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


maker = load_maker()
vocabulary = maker.Writer()
maker.add_vocabulary(vocabulary)


def make_model(path, size, kind, data):
    w, layers = maker.Writer(), maker.SIZES[size][0]
    maker.add_hparams(w, size, layers, kind, 0)
    w.entries += vocabulary.entries
    maker.add_tensors(w, size, layers, kind, 0)
    w.write(path, data)


def mote(*arguments, code=0):
    done = subprocess.run([MOTE, *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    return done


def fit(*arguments, code=0):
    return json.loads(mote("fit", *arguments, "--json", code=code).stdout)


def by_name(report):
    return {(m["name"].removesuffix("-" + m["quant"].lower()), m["quant"]): m for m in report["models"]}


def plan(path, context):
    return json.loads(mote("show", path, "-c", context, "--json").stdout)["memory"]


def check_memory(work):
    rows = by_name(fit("--no-measure"))
    assert len(rows) == 32, sorted(rows)
    for size in ("0.8b", "2b", "4b", "9b", "27b", "35b-a3b"):
        for kind in ("q4_k_m", "q8_0"):
            path = work / "hollow.gguf"
            make_model(path, size, kind, maker.hollow)
            row = rows[f"qwen3.5:{size}", kind.upper()]
            for context, memory in ((8192, row["memory"]), (262144, row["memory_full"])):
                real = plan(path, context)
                for part in ("kv_cache", "recurrent_state", "scratch", "experts"):
                    assert real[part] == memory[part], (size, kind, part, real, memory)
                # the plan of a file counts its path
                assert real["model"] - len(str(path)) == memory["model"], (size, kind, real, memory)
                # the metadata differ in the name of the model, by less than the alignment
                assert abs(real["weights"] - memory["weights"]) <= 32, (size, kind, real, memory)
                parts = ("weights", "model", "kv_cache", "recurrent_state", "scratch")
                assert memory["total"] == sum(memory[p] for p in parts), memory
            path.unlink()
    four = by_name(fit("--no-measure", "--parallel", 4, "--context", 4096))["qwen3.5:2b", "Q8_0"]
    path = work / "hollow.gguf"
    make_model(path, "2b", "q8_0", maker.hollow)
    real = json.loads(mote("show", path, "-c", 4096, "--sessions", 4, "--json").stdout)["memory"]
    assert real["kv_cache"] == four["memory"]["kv_cache"], (real, four)
    assert real["recurrent_state"] == four["memory"]["recurrent_state"], (real, four)
    # a file is planned under its own path
    real, own = plan(path, 8192), fit(path, "--no-measure")["models"][0]["memory"]
    assert all(real[part] == own[part] for part in own), (real, own)
    path.unlink()


def check_table():
    report = fit("--no-measure", "--memory", "8GB")
    assert report["usable"] == 8000000000 and report["limit"] == "--memory", report
    for m in report["models"]:
        need = m["memory"]["total"] + m["vision_bytes"]
        assert m["fits"] == (need <= 8000000000), m
        assert (m["verdict"] == "does not fit") == (not m["fits"]), m
        assert (m["context_fits"] >= 8192) == m["fits"], m
        assert m["memory_full"]["total"] > m["memory"]["total"], m
        assert m["prefill"] is None and m["decode"] is None, m
    names = [m["name"] for m in fit("qwen3.5:4b", "--no-measure", "--memory", "64GB")["models"]]
    assert names == ["qwen3.5:4b", "qwen3.5:4b-q4_k_s", "qwen3.5:4b-q5_k_m", "qwen3.5:4b-q6_k", "qwen3.5:4b-q8_0",
                     "qwen3.5:4b-bf16"], names
    assert len(fit("qwen3.5:4b-q8_0", "--no-measure", "--memory", "64GB")["models"]) == 1
    # the default quantisation decides, and more context needs more memory
    fit("qwen3.5:4b", "--no-measure", "--memory", "4GB")
    fit("qwen3.5:4b", "--no-measure", "--memory", "4GB", "--context", 65536, code=4)
    failed = mote("fit", "qwen3.5:27b", "--no-measure", "--memory", "8GB", code=4)
    assert "qwen3.5:27b does not fit: available are 8.0 GB (--memory) [out_of_memory]" in failed.stderr, failed.stderr
    assert "does not fit" in failed.stdout, failed.stdout
    failed = mote("fit", "qwen3.5:3b", code=3)
    assert "0.8b" in failed.stderr and "27b" in failed.stderr, failed.stderr
    lines = mote("fit", "--no-measure", "--memory", "64GB").stdout.splitlines()
    assert len(lines) == 12 and lines[0].startswith("This machine: ") and lines[1].startswith("MODEL "), lines
    assert len(mote("fit", "--no-measure", "--memory", "64GB", "--all").stdout.splitlines()) == 39


def check_choice():
    """A stored measurement decides, so that the result does not depend on the speed of this machine."""
    path = Path(os.environ["XDG_CACHE_HOME"]) / "mote/machine-speed.json"
    stored = json.loads(path.read_text())
    fast = {"decode": 2e10, "prefill": 1e12}
    stored.update(read=2e10, decode_rest=1e-4, decode_position=1e-9, prefill_delta=1e-6, prefill_attention=1e-6,
                  prefill_ffn=1e-10, slowdown=1.0,
                  formats={name: fast for name in ("Q4_K", "Q5_K", "Q6_K", "Q8_0", "BF16", "F32")})
    path.write_text(json.dumps(stored))
    report = fit("--no-measure", "--memory", "64GB")
    assert report["recommended"] == "qwen3.5:35b-a3b", report["recommended"]
    # the experts do not fit, and 9B is slow
    assert fit("--no-measure", "--memory", "20GB")["recommended"] == "qwen3.5:4b"
    assert not report["machine"]["busy"], report["machine"]
    assert all(m["decode_at_context"] < m["decode"] for m in report["models"]), report
    assert mote("fit", "--no-measure", "--memory", "64GB").stderr == ""
    path.write_text(json.dumps(stored | {"slowdown": 3.0}))
    assert fit("--no-measure", "--memory", "64GB")["machine"]["busy"]
    assert "the machine was busy" in mote("fit", "--no-measure", "--memory", "64GB").stderr
    path.write_text(json.dumps(stored))
    # nothing is installed: one line with the choice, then how to get it
    failed = mote("run", "qwen3.5", "Hello", "--memory", "3GB", code=3)
    assert failed.stderr.startswith("qwen3.5: qwen3.5:2b "), failed.stderr
    assert "is not installed" in failed.stderr, failed.stderr
    failed = mote("run", "qwen3.5", "Hello", "--memory", "500MB", code=4)
    assert "no size of qwen3.5 fits" in failed.stderr, failed.stderr


def bench_speeds(path):
    """Like `mote fit`, from CPU time if the threads had to wait for a core."""
    report = json.loads(mote("bench", path, "-p", 512, "-d", 0, "-b", 0, "-n", 8, "-r", 2, "-q", "--json").stdout)
    speeds = {}
    for r in report["results"]:
        busy = r["median_seconds"] > 1.25 * r["best_cpu_seconds"]
        speeds[r["test"]] = r["tokens"] / r["best_cpu_seconds" if busy else "best_seconds"]
    return {test: speeds[test] for test in ("prefill", "decode")}


def check_speed(work):
    maker.SIZES["check"] = (4, 1024, 3584, 8, 2, 16, 16, True)
    path = work / "check.gguf"
    make_model(path, "check", "q4_k_m", maker.Weights(1))
    factor = 1.25 if os.environ.get("MOTE_QUIET") == "1" else 3
    measured, predicted = {}, {}
    for _ in range(ROUNDS):
        row = fit(path)["models"][0]
        for test, speed in bench_speeds(path).items():
            measured[test] = max(measured.get(test, 0), speed)
            predicted[test] = max(predicted.get(test, 0), row[test])
        ratios = {test: predicted[test] / measured[test] for test in measured}
        print("predicted / measured:", ratios)
        if all(1 / factor <= ratio <= factor for ratio in ratios.values()):
            break
    else:
        raise AssertionError((predicted, measured))
    # the measurement is stored: now it can be used without another one
    stored = json.loads((Path(os.environ["XDG_CACHE_HOME"]) / "mote/machine-speed.json").read_text())
    assert set(stored["formats"]) == {"Q4_K", "Q6_K"}, stored
    assert fit(path, "--no-measure")["models"][0]["decode"] == row["decode"]


def main():
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        for name in list(os.environ):
            if name.startswith(("MOTE_", "HF_", "XDG_", "OLLAMA_", "LLAMA_", "HUGGINGFACE_")) and name != "MOTE_QUIET":
                del os.environ[name]
        os.environ.update(HOME=directory, XDG_CACHE_HOME=f"{directory}/cache", MOTE_CONFIG="/dev/null")
        check_memory(work)
        check_table()
        check_speed(work)
        check_choice()


main()
