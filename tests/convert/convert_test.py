#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`mote convert` and `mote quantize` with the real program: the files equal those of llama.cpp's tools.

    convert_test.py CASE        one of the functions case_* below

MOTE is the program, DATA the directory of the test models, KILL_AT a library of tests/support, SPLIT
a program of it. mote-tiny-BF16.gguf and its mmproj were written by llama.cpp's converter, so
checkpoint.py followed by `mote convert` must give their bytes.
"""
import array
import fcntl
import hashlib
import json
import math
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import checkpoint
import sparse_checkpoint
from checkpoint import BF16, F32, Model, floats
from gguf_file import Writer

MOTE, DATA = os.environ["MOTE"], Path(os.environ["DATA"])
TINY, TINY_MMPROJ = DATA / "mote-tiny-BF16.gguf", DATA / "mmproj-mote-tiny-BF16.gguf"
SANITIZED = os.environ["MOTE_SANITIZED"] == "1"  # then encoding takes seconds
WORK = Path(tempfile.mkdtemp(prefix="mote-convert-"))
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": str(WORK), "MOTE_CONFIG": "/dev/null", "LC_ALL": "C.UTF-8"}


def demand(holds, what):
    if not holds:
        sys.exit(f"FAIL: {what}")


def mote(*arguments, code=0, **environment):
    done = subprocess.run([MOTE, *map(str, arguments)], env=ENVIRONMENT | environment, capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, check=False)
    demand(code is None or done.returncode == code,
           f"mote {' '.join(map(str, arguments))}: exit code {done.returncode}, not {code}: {done.stderr}")
    return done


def same(a, b, what):
    demand(Path(a).read_bytes() == Path(b).read_bytes(), f"{what}: {a} differs from {b}")


def tiny(name, **options):
    return checkpoint.make(WORK / name, TINY, TINY_MMPROJ, **options)


def refused(directory, text, *flags, code=None):
    """The conversion fails with a message that contains the text, and leaves no output."""
    done = mote("convert", directory, WORK / "refused.gguf", *flags, code=code)
    demand(done.returncode != 0 and text in done.stderr, f"expected '{text}', got: {done.stderr}")
    demand(not list(WORK.glob("*refused*")), f"{text}: an output or a partial file is left")


# ---- the same bytes as llama.cpp's converter ----

def case_bytes():
    for name, options in (("one", {}), ("shards", {"shards": 3}), ("plain", {"plain_tokenizer": True})):
        out = WORK / f"{name}.gguf"
        mote("convert", tiny(name, **options), out, "--name", "mote-tiny")
        same(out, TINY, name)
        same(WORK / f"mmproj-{name}.gguf", TINY_MMPROJ, name)
    wide = tiny("wide", wide=True)
    mote("convert", wide, WORK / "narrow.gguf", "--dtype", "bf16", "--name", "mote-tiny", "--mmproj", WORK / "mm.gguf")
    same(WORK / "narrow.gguf", TINY, "float32 to bf16")
    same(WORK / "mm.gguf", TINY_MMPROJ, "mmproj from float32")


def case_dtype():
    source = tiny("source")
    mote("convert", source, WORK / "f32.gguf", "--dtype", "f32", "--no-vision")
    mote("convert", source, WORK / "f16.gguf", "--dtype", "f16", "--no-vision")
    plain, wide, half = Model(TINY), Model(WORK / "f32.gguf"), Model(WORK / "f16.gguf")
    demand((wide.get("general.file_type"), half.get("general.file_type")) == (0, 1), "general.file_type")
    for name, (dims, kind, data) in plain.tensors.items():
        expected = checkpoint.widen(kind, dims, bytes(data))[2]
        demand(wide.tensors[name][1] == F32 and bytes(wide.tensors[name][2]) == expected, f"{name} in f32")
        demand(half.tensors[name][1] == (1 if kind == BF16 else F32), f"type of {name} in f16")
    import struct
    data = bytes(half.tensors["blk.0.ffn_up.weight"][2])
    values = floats(checkpoint.widen(BF16, None, bytes(plain.tensors["blk.0.ffn_up.weight"][2]))[2])
    demand(data == struct.pack(f"<{len(values)}e", *values), "values in f16")


def case_shapes():
    """Every head layout: the order of value heads shows only with several per key head. And a model with experts,
    merged in the layers, one by one in the MTP block."""
    names = json.loads((DATA / "shapes/index.json").read_text())
    names = names.keys() if isinstance(names, dict) else [e["name"] if isinstance(e, dict) else e for e in names]
    checked = 0
    for path in [*sorted((DATA / "shapes").glob("*.gguf")), DATA / "golden/moe/moe-bf16.gguf"]:
        out = WORK / path.name
        mote("convert", checkpoint.make(WORK / path.stem, path), out)
        a, b = Model(path), Model(out)
        demand(a.tensors.keys() == b.tensors.keys(), f"{path.stem}: names of tensors")
        for name, (dims, kind, data) in a.tensors.items():
            got = b.tensors[name]
            demand((got[0], got[1]) == (dims, kind), f"{path.stem}: shape of {name}")
            # A_log is stored in float32, so some values of ssm_a cannot be met exactly.
            equal = bytes(got[2]) == bytes(data) if not name.endswith("ssm_a") else \
                all(abs(x - y) <= 2e-7 * abs(y) for x, y in zip(floats(got[2]), floats(data)))
            demand(equal, f"{path.stem}: {name}")
        for key, (_, value) in a.file.metadata.items():
            demand(b.get(key) == value or key == "general.name", f"{path.stem}: {key}")
        checked += 1
    demand(checked == 6, f"{checked} shapes of {names}")


def case_parts():
    source = tiny("source")
    done = mote("convert", source, WORK / "text.gguf", "--no-vision", "--no-mtp", "--json")
    document = json.loads(done.stdout)
    reasons = [u["reason"] for u in document["unused"]]
    demand(reasons.count("--no-mtp") == 15 and reasons.count("--no-vision") == 57, f"unused: {reasons}")
    demand([f["tensors"] for f in document["files"]] == [108], "number of tensors")
    demand("left out: 15 tensors (--no-mtp)" in done.stderr, done.stderr)
    text, whole = Model(WORK / "text.gguf"), Model(TINY)
    demand(text.n("block_count") == 8 and text.n("nextn_predict_layers") is None, "block_count")
    demand(not list(WORK.glob("mmproj-*")), "an mmproj file with --no-vision")
    for name, (_, _, data) in text.tensors.items():
        demand(bytes(data) == bytes(whole.tensors[name][2]), name)

    def without(tensors, config):
        for name in [n for n in tensors if n.startswith(("mtp.", "model.visual."))]:
            del tensors[name]
        tensors["model.extra.weight"] = (BF16, [2, 2], b"\0" * 8)
        tensors["lm_head.weight"] = tensors["model.language_model.embed_tokens.weight"]

    done = mote("convert", tiny("fine-tune", change=without), WORK / "tuned.gguf")
    demand("not used: tensor model.extra.weight (no part of a Qwen 3.5 model)" in done.stderr, done.stderr)
    demand("not used: tensor lm_head.weight (the output matrix is the token embedding)" in done.stderr, done.stderr)
    tuned = Model(WORK / "tuned.gguf")
    demand(tuned.tensors.keys() == text.tensors.keys() and tuned.n("block_count") == 8, "a fine-tune without MTP")


def case_metadata():
    """Sampling presets, YaRN, names."""
    def yarn(tensors, config):
        config["text_config"]["rope_parameters"] |= {"rope_type": "yarn", "factor": 4.0,
                                                     "original_max_position_embeddings": 262144}
    source = tiny("Qwen3.5-4B-Instruct", change=yarn)
    (source / "generation_config.json").write_text(
        json.dumps({"temperature": 1.0, "top_k": 20, "top_p": 0.95, "do_sample": True, "eos_token_id": [1, 2]}))
    (source / "README.md").write_text(
        "---\nlicense: apache-2.0\nlicense_link: https://example.com/LICENSE\nlanguage: [en, de]\ntags:\n- chat\n"
        "pipeline_tag: image-text-to-text # what it does\nbase_model:\n  - Qwen/Qwen3.5-4B-Base\n---\n")
    mote("convert", source, WORK / "out.gguf", "--no-vision")
    m = Model(WORK / "out.gguf")
    expected = {
        "general.sampling.temp": 1.0, "general.sampling.top_k": 20, "general.name": b"Qwen3.5 4B Instruct",
        "general.basename": b"Qwen3.5", "general.finetune": b"4b-Instruct", "general.size_label": b"13M",
        "general.license.link": b"https://example.com/LICENSE", "general.tags": [b"chat", b"image-text-to-text"],
        "general.languages": [b"en", b"de"], "general.base_model.count": 1,
        "general.base_model.0.name": b"Qwen3.5 4B Base", "general.base_model.0.organization": b"Qwen",
        "general.base_model.0.repo_url": b"https://huggingface.co/Qwen/Qwen3.5-4B-Base",
        "qwen35.rope.scaling.type": b"yarn", "qwen35.rope.scaling.factor": 4.0,
        "qwen35.rope.scaling.original_context_length": 262144,
    }
    for key, value in expected.items():
        demand(m.get(key) == value, f"{key} is {m.get(key)}, not {value}")
    demand(abs(m.get("general.sampling.top_p") - 0.95) < 1e-6, "top_p")


def case_vocabulary():
    """The real vocabulary of 248,320 entries, and the memory that it takes."""
    sparse_checkpoint.make(WORK / "source", DATA / "qwen35-vocab.gguf", "tiny")
    mote("convert", WORK / "source", WORK / "out.gguf")
    wanted, got = Model(DATA / "qwen35-vocab.gguf"), Model(WORK / "out.gguf")
    for key, (_, value) in wanted.file.metadata.items():
        demand(not key.startswith("tokenizer.") or got.get(key) == value, key)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    demand(SANITIZED or peak < 300 * 1024, f"{peak} kB of memory")


# ---- interruption ----

def interrupted(flags, **how):
    return mote(*flags, code=None, LD_PRELOAD=os.environ["KILL_AT_LIBRARY"], KILL_WRITES="1", **how)


def case_resume():
    """Killed at a call that changes a file, a second run gives the same bytes."""
    source, out = tiny("source"), WORK / "out.gguf"
    flags = ("convert", source, out, "--dtype", "f32", "--name", "x")
    mote(*flags)
    files, journal = [out, WORK / "mmproj-out.gguf"], WORK / "out.gguf.partial.journal"
    wanted = [f.read_bytes() for f in files]
    continued = call = 0
    while call < 1000:
        call += 1 if call < 8 else 7
        for f in files:
            f.unlink(missing_ok=True)
        killed = interrupted(flags, KILL_AT=str(call))
        if killed.returncode == 0:
            break
        demand(killed.returncode == -9, f"call {call}: exit code {killed.returncode}: {killed.stderr}")
        continued += journal.exists() and b"\ndone " in journal.read_bytes()
        mote(*flags, "-y")
        demand([f.read_bytes() for f in files] == wanted, f"killed at call {call}: other bytes")
        demand(not list(WORK.glob("*.partial*")), f"killed at call {call}: a partial file is left")
    demand(100 < call < 1000 and continued > 5, f"{call} calls, {continued} runs continued")
    for f in files:
        f.unlink()
    full = interrupted(flags, FAIL_AT="100")
    demand("No space left on device; free space on that disk and run the same command again" in full.stderr,
           full.stderr)
    mote(*flags)
    demand([f.read_bytes() for f in files] == wanted, "other bytes after a full disk")
    # Another source: the partial file must not be continued.
    for f in files:
        f.unlink()
    interrupted(flags, KILL_AT=str(call - 16))
    demand(b"\ndone " in journal.read_bytes(), "nothing to continue")

    def louder(tensors, config):
        name = "model.language_model.embed_tokens.weight"
        kind, shape, data = tensors[name]
        tensors[name] = kind, shape, data[::-1]

    shutil.rmtree(source)
    tiny("source", change=louder)
    mote(*flags)
    again = out.read_bytes()
    mote(*flags, "-y")
    demand(out.read_bytes() == again and again != wanted[0], "a partial file of another source was continued")


def case_changed():
    """A source that changes while it is read gives no output."""
    source, out = tiny("source"), WORK / "out.gguf"
    for _ in range(50):
        run = subprocess.Popen([MOTE, "convert", source, out, "--dtype", "f32", "--no-vision", "-y"], env=ENVIRONMENT,
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while run.poll() is None and not (WORK / "out.gguf.partial").exists():
            pass
        run.send_signal(signal.SIGSTOP)
        os.utime(source / "model.safetensors")
        run.send_signal(signal.SIGCONT)
        stderr = run.communicate()[1]
        if run.returncode != 0:
            break
        out.unlink()  # the run was complete before it stopped
    demand("model.safetensors has changed while it was read; run the command again" in stderr, stderr)
    demand(run.returncode == 1 and not out.exists(), f"exit code {run.returncode}")


# ---- errors ----

def case_errors():
    def edit(function):
        shutil.rmtree(WORK / "bad", ignore_errors=True)
        return tiny("bad", change=function)

    def set_config(**values):
        return lambda tensors, config: config.update(values)

    def drop(name):
        return lambda tensors, config: tensors.pop(name)

    def replace(name, tensor):
        return lambda tensors, config: tensors.update({name: tensor})

    refused(edit(set_config(architectures=["LlamaForCausalLM"])), "architecture 'LlamaForCausalLM' is not")
    for sections in ([], [11, 11], [1, 2, 3, 4, 5], 11, ["11", 11, 10]):
        refused(edit(lambda t, config, s=sections: config["text_config"]["rope_parameters"].update(mrope_section=s)),
                "config.json: mrope_section must be three sizes")
    refused(edit(set_config(quantization_config={"quant_method": "fp8"})), "the weights are quantised (fp8)")
    refused(edit(drop("model.language_model.layers.3.self_attn.k_norm.weight")),
            "tensor 'model.layers.3.self_attn.k_norm.weight' is missing")
    refused(edit(drop("mtp.norm.weight")), "tensor 'mtp.norm.weight' is missing")
    refused(edit(replace("model.language_model.norm.weight", (BF16, [255], b"\0" * 510))),
            "tensor 'model.language_model.norm.weight' has shape [255], but config.json says [256]")
    refused(edit(replace("mtp.fc.weight", ("F8_E4M3", [256, 512], b"\0" * 131072))), "has type F8_E4M3")
    refused(edit(replace("mtp.fc.weight", (F32, [256, 512], b"\0\x50\xc3\x47" * 131072))),
            "tensor 'mtp.fc.weight' has the value 100000, but the largest of f16 is 65504", "--dtype", "f16")
    source = edit(None)
    (source / "tokenizer.json").write_text((source / "tokenizer.json").read_text().replace(r"[\\p{L}\\p{M}]+", "x"))
    refused(source, "the tokenizer splits text by")
    (source / "tokenizer.json").unlink()
    refused(source, "has neither tokenizer.json nor vocab.json")
    whole = (source / "model.safetensors").read_bytes()
    (source / "model.safetensors").write_bytes(whole[:-5])
    refused(source, "the file is incomplete, download it again")
    (source / "model.safetensors").write_bytes(whole[:3])
    refused(source, "model.safetensors: the file has 3 bytes")
    (source / "model.safetensors").rename(source / "model (1).safetensors")
    refused(source, "the directory has the file 'model (1).safetensors'; expected a name of letters")
    (source / "model (1).safetensors").unlink()
    os.mkfifo(source / "model.safetensors")
    refused(source, "not a file; download all files of the model")
    (source / "model.safetensors").unlink()
    refused(source, "has no model*.safetensors")
    (source / "model.safetensors.index.json").write_text('{"weight_map": {"x": "../../etc/x.safetensors"}}')
    refused(source, "model.safetensors.index.json names the file '../../etc/x.safetensors'")
    (source / "model.safetensors.index.json").write_text('{"weight_map": {"x": "model-1.safetensors"}}')
    refused(source, "No such file or directory; download all files of the model")
    (source / "config.json").write_text("{")
    refused(source, "config.json: invalid JSON")
    (source / "config.json").unlink()
    refused(source, "has no config.json")
    os.mkfifo(source / "config.json")
    refused(source, "config.json is not a file of at most 256 MB")
    (WORK / "there.gguf").write_text("x")
    done = mote("convert", source, WORK / "there.gguf", code=11)
    demand("exists; replace it with -y" in done.stderr, done.stderr)
    existing_mmproj()
    mote("convert", WORK / "nothing", WORK / "o.gguf", code=3)
    same_names()
    mote("convert", WORK / "there.gguf", WORK / "o.gguf", code=6)


def existing_mmproj():
    """An mmproj file that exists matters only if the source has a vision encoder."""
    (WORK / "mmproj-second.gguf").write_text("precious")
    done = mote("convert", tiny("sees"), WORK / "second.gguf", code=11)
    demand("mmproj-second.gguf exists; replace it with -y" in done.stderr, done.stderr)
    demand(not list(WORK.glob("second.gguf*")), "an output that was refused leaves a file")
    blind = checkpoint.make(WORK / "blind", TINY)
    for flags in ((), ("--no-vision",)):
        mote("convert", blind if flags == () else WORK / "sees", WORK / "second.gguf", *flags)
        (WORK / "second.gguf").unlink()
    demand((WORK / "mmproj-second.gguf").read_text() == "precious", "the mmproj file is changed")


def same_names():
    """An output that is a source, or both outputs in one file."""
    source, out = tiny("named"), WORK / "named.gguf"
    os.chdir(WORK)
    for mmproj in (out, "named.gguf", "./named.gguf"):
        done = mote("convert", source, out, "--mmproj", mmproj, code=2)
        demand("cannot hold the text model and the vision encoder" in done.stderr, done.stderr)
    weights = (source / "model.safetensors").read_bytes()
    for flags in ((source / "model.safetensors", "--no-vision"), (out, "--mmproj", source / "model.safetensors")):
        done = mote("convert", source, *flags, "-y", code=2)
        demand("would replace the source" in done.stderr, done.stderr)
    demand((source / "model.safetensors").read_bytes() == weights, "the source has changed")
    model = TINY.read_bytes()
    for source in (out, WORK / "named.gguf.partial"):
        source.write_bytes(model)
        for arguments in (("convert", source, out), ("quantize", source, out, "Q8_0")):
            done = mote(*arguments, "-y", code=2)
            demand("would replace the source" in done.stderr, done.stderr)
            demand(source.read_bytes() == model, "the source has changed")
        source.unlink()
    demand(not list(WORK.glob("*named*.gguf*")), "an output is left")


# ---- GGUF sources ----

def case_gguf():
    subprocess.run([os.environ["SPLIT"], DATA / "mote-tiny-Q4_K_M.gguf", WORK / "tiny", "3"], check=True)
    mote("convert", WORK / "tiny-00002-of-00003.gguf", WORK / "joined.gguf")
    same(WORK / "joined.gguf", DATA / "mote-tiny-Q4_K_M.gguf", "joined parts")
    # Text and MTP in files of their own, as some repositories publish them.
    mote("convert", TINY, WORK / "text.gguf", "--no-mtp")
    whole, text = Model(TINY), Model(WORK / "text.gguf")
    demand(len(text.tensors) == len(whole.tensors) - 15 and text.n("block_count") == 8, "--no-mtp")
    w = Writer()
    w.entries = [raw for key, (raw, _) in whole.file.metadata.items() if not key.startswith("tokenizer.")]
    for name, (dims, kind, _) in whole.tensors.items():
        if name.startswith(("blk.8.", "token_embd", "output_norm")):
            w.tensor(name, dims, "bf16" if kind == BF16 else "f32")
    w.write(WORK / "mtp.gguf", lambda f, name, *_: f.write(whole.tensors[name][2]))
    mote("convert", WORK / "text.gguf", WORK / "again.gguf", "--mtp", WORK / "mtp.gguf")
    again = Model(WORK / "again.gguf")
    demand({n: bytes(t[2]) for n, t in again.tensors.items()} == {n: bytes(t[2]) for n, t in whole.tensors.items()},
           "tensors with --mtp")
    demand({k: v for k, (_, v) in again.file.metadata.items()} == {k: v for k, (_, v) in whole.file.metadata.items()},
           "metadata with --mtp")
    # A key that says 0, a block that is not counted, and no name.
    w = Writer()
    w.entries = [raw for key, (raw, _) in text.file.metadata.items() if key != "general.name"]
    w.u32("qwen35.nextn_predict_layers", 0)
    for name, (dims, kind, _) in text.tensors.items():
        w.tensor(name, dims, "bf16" if kind == BF16 else "f32")
    w.tensor("blk.99.ffn_up.weight", [32], "f32")
    w.write(WORK / "zero.gguf",
            lambda f, name, *_: f.write(text.tensors[name][2] if name in text.tensors else b"\0" * 128))
    done = mote("convert", WORK / "zero.gguf", WORK / "one.gguf", "--mtp", WORK / "mtp.gguf", "--name", "new")
    demand("blk.99.ffn_up.weight (its block is not in block_count)" in done.stderr, done.stderr)
    mote("show", WORK / "one.gguf")
    one = Model(WORK / "one.gguf")
    demand((one.n("nextn_predict_layers"), one.get("general.name")) == (1, b"new"), "a key that says 0")
    done = mote("convert", TINY, WORK / "o.gguf", "--mtp", WORK / "mtp.gguf", code=2)
    demand("has an MTP block already" in done.stderr, done.stderr)
    done = mote("convert", TINY_MMPROJ, WORK / "o.gguf", code=None)
    demand("architecture 'clip' is not a Qwen 3.5 model" in done.stderr, done.stderr)


# ---- adapters ----

NIB = DATA / "golden/lora/nib"


def bf16_bits(value):
    """The nearest bf16, as an integer that orders like the values."""
    bits = struct.unpack("<i", struct.pack("<f", value))[0]
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return bits if bits >= 0 else -0x8000 - bits


def widened(kind, data):
    if kind == F32:
        return floats(data)
    return floats(array.array("I", [b << 16 for b in array.array("H", bytes(data))]).tobytes())


def compare_with_peft(merged):
    """Rows of a merged file against those that PEFT's merge_and_unload gives. The sums have another order."""
    peft, seen, others = Model(DATA / "golden/lora/merged.gguf"), 0, 0
    for name, (_, _, data) in peft.tensors.items():
        (cols, rows), kind = merged.tensors[name][0][:2], merged.tensors[name][1]
        first, step = (3, 64) if rows >= 64 else (0, 1)
        got, want = widened(kind, merged.tensors[name][2]), floats(data)
        for i, value in enumerate(want):
            mine = got[(first + i // cols * step) * cols + i % cols]
            near = abs(bf16_bits(mine) - bf16_bits(value)) <= 1 if kind == BF16 else abs(mine - value) <= 1e-6
            demand(near, f"{name}, value {i}: {mine}, PEFT has {value}")
            others += kind == BF16 and bf16_bits(mine) != bf16_bits(value)
        seen += len(want)
    demand(seen > 20000 and others * 1000 <= seen, f"{others} of {seen} values differ from PEFT's in their last bit")


def adapter(path, tensor, rows, value):
    """An adapter of rank 1 with the same value everywhere."""
    w = Writer()
    for key, text in (("general.architecture", "qwen35"), ("general.type", "adapter"), ("adapter.type", "lora")):
        w.text(key, text)
    w.scalar("adapter.lora.alpha", 6, 1.0)
    w.tensor(f"{tensor}.lora_a", [256, 1], "f32")
    w.tensor(f"{tensor}.lora_b", [1, rows], "f32")
    w.write(path, lambda f, name, *_: f.write(struct.pack("<f", value) * (256 if name.endswith("a") else rows)))
    return path


def case_lora():
    mote("convert", tiny("source"), WORK / "wide.gguf", "--dtype", "f32", "--no-vision")
    adapted = r"blk\.[0-7]\.(attn_(q|k|v|output|qkv|gate)|ssm_(alpha|beta|out)|ffn_(gate|up|down))\.weight"
    for base in (TINY, WORK / "wide.gguf"):
        out = WORK / f"merged-{base.name}"
        mote("convert", "--lora", NIB, base, out)
        plain, merged = Model(base), Model(out)
        demand(list(plain.tensors) == list(merged.tensors), "tensors of a merged file")
        for name, (dims, kind, data) in merged.tensors.items():
            was = plain.tensors[name]
            demand((dims, kind) == was[:2], f"{name}: shape or type")
            demand((bytes(data) != bytes(was[2])) == bool(re.fullmatch(adapted, name)), f"{name}: changed or not")
        compare_with_peft(merged)
    mote("convert", "--lora", f"{NIB}.gguf", TINY, WORK / "same.gguf")
    same(WORK / "same.gguf", WORK / f"merged-{TINY.name}", "the adapter as a GGUF file")
    mote("convert", "--lora", f"{NIB}=-0.5", "--lora", f"{NIB}=1.5", TINY, WORK / "both.gguf")
    compare_with_peft(Model(WORK / "both.gguf"))
    # Without --lora it answers as the adapter does.
    with open(DATA / "golden/lora/index.json", encoding="utf-8") as f:
        for answer in json.load(f)["answers"]:
            done = mote("run", WORK / "same.gguf", "--temp", "0", "--think", "off", "-q", answer["question"])
            demand(done.stdout.strip() == answer["answer"], f"{answer}: {done.stdout}")
    # What cannot be merged, and a partial file of other adapters.
    rows = {name: dims[1] for name, (dims, *_) in Model(TINY).tensors.items() if len(dims) == 2}
    mote("convert", WORK / "source", WORK / "half.gguf", "--dtype", "f16", "--no-vision")
    gate = "blk.0.ffn_gate.weight"
    large = adapter(WORK / "large.gguf", gate, rows[gate], 300.0)
    mote("convert", "--lora", large, TINY, WORK / "large-BF16.gguf")
    for base, lora, text in ((WORK / "half.gguf", large, "which F16 cannot hold"),
                             (TINY, adapter(WORK / "nan.gguf", gate, rows[gate], math.nan), "has the value nan"),
                             (DATA / "mote-tiny-Q4_K_M.gguf", NIB, "merge into a BF16, F16 or F32 file"),
                             (TINY, adapter(WORK / "head.gguf", "output.weight", rows["token_embd.weight"], 0.0),
                              "shares with its token embedding"),
                             (WORK / "source", NIB, "--lora merges into a GGUF file"),
                             (TINY, f"{NIB}=0", "other than 0"), (TINY, WORK / "none", "none")):
        refused(base, text, "--lora", lora)


# ---- mote quantize ----

# SHA-256 of what llama-quantize of llama.cpp (commit b21e4de7) writes for mote-tiny-BF16.gguf, and for a model with rows
# of 64 values, which K-quants cannot hold.
QUANTIZED = {
    "Q2_K": "66c0f25e74dac333d3ac3643d67227a284ce11aeb2520f2cb877ce01343d1d6a",
    "Q3_K_S": "a80414139ee6867c86d68976b19574a243591b1d65d98a754f2647cb0dfd7709",
    "Q3_K_M": "c417c851d4ae2eaf0463b19fc4d1c05d06ece8d762521d2bd8a7875da3cc16fa",
    "Q3_K_L": "56fbfff2c8f423707a7462670e81591d95726f7d3c1df4a49c2a85390ce6c866",
    "Q4_0": "c02b704a41fde24a39e0811e8acd279c2faa725ab8a007eebc9ffde927f31fbf",
    "Q4_1": "0ff00934314e8dcf74b8b80ba70a271dcc88ebc07e13af2ed69dac95cce334d8",
    "Q4_K_S": "2e4d566922e144c5a75955f63f7456e259b00a4b4a70edb35b45d83794007ac3",
    "Q5_0": "fe5b01b6128278721851a807689e5aa2c0945a1578a7a70f2b9ce780dee9cfd8",
    "Q5_1": "46fca80644b2764c0fd0295cf98a88c93a33b03614a397f469ec8c2aea18cc73",
    "Q5_K_S": "b0e20a3be7c9ea536b5fb0aac8584fc5c747521a8a1b4c9af0277e4847006e6b",
    "Q5_K_M": "5f348a504498f2ba2f70fe27376e332a4e464f19affaf0cfda0c10f8b82bbabe",
    "Q6_K": "679c0138e7207a9e4b7da816c73ac2729c7c05d0bb5204c4ae4b937c338f40b4",
    "F16": "c2143068626507acb42e09764d92e52e9a1fb1b95fdce7ddfc62fe09ac7f26c3",
}
SHORT_ROWS = {
    "Q2_K": "1f570c1ee40d3d694189c5526b276cca7e50c98c2292e7ccdf26ac0fd11f4ff3",
    "Q3_K_M": "8d4da7e93e1055c9d5b3a32ce2f12161b92333231b2e2cccc655912ee6c16539",
    "Q4_K_M": "352f13a64c5072e86841fc412a93db37139be5de2fc3feb3226c250b540525d1",
    "Q5_K_M": "3c3f88c8803a79ae7897ae79470263bf78fc375c867302e436e208e976e33121",
    "Q6_K": "fb3bf893a07392d88045a6afe71bbe773b30b9d1d0615ac7dc69e08bdbebe262",
}


def case_quantize():
    out = WORK / "out.gguf"
    for name in ("Q4_K_M", "Q8_0"):
        mote("quantize", TINY, out, name, "-y")
        same(out, DATA / f"mote-tiny-{name}.gguf", name)
    for source, hashes in ((TINY, QUANTIZED), (DATA / "shapes/r3-gqa4-untied.gguf", SHORT_ROWS)):
        for name, wanted in hashes.items():
            if SANITIZED and source == TINY and name not in ("Q2_K", "Q3_K_S", "Q5_K_S", "Q6_K"):
                continue
            mote("quantize", source, out, name.lower(), "-y", "--threads", "2")
            demand(hashlib.sha256(out.read_bytes()).hexdigest() == wanted, f"{source.name} as {name}")
    for threads in ("1",) if SANITIZED else ("1", "3", "7"):
        mote("quantize", TINY, WORK / f"{threads}.gguf", "Q3_K_M", "-t", threads)
        same(WORK / f"{threads}.gguf", WORK / "1.gguf", f"{threads} threads")
    for name in ("Q2_K", "Q3_K_S", "Q4_K_S", "Q5_K_S", "Q6_K"):
        for level in () if SANITIZED else ("ref", "avx2", "avx512"):  # on another architecture an error
            run = mote("quantize", TINY, out, name, "-y", "--isa", level, code=None)
            demand(run.returncode in (0, 2), run.stderr)
            demand(run.returncode or hashlib.sha256(out.read_bytes()).hexdigest() == QUANTIZED[name], f"{name}, {level}")
    done = mote("quantize", TINY, WORK / "none.gguf", "Q4_K_M", "--dry-run", "--json")
    document, m = json.loads(done.stdout), Model(DATA / "mote-tiny-Q4_K_M.gguf")
    demand({t["name"]: t["bytes"] for t in document["list"]} == {n: len(t[2]) for n, t in m.tensors.items()}, "--dry-run")
    demand(not (WORK / "none.gguf").exists(), "--dry-run wrote a file")
    for arguments, code, text in (
            ((TINY, WORK / "o", "Q9"), 2, "unknown type Q9; one of IQ1_S"),
            ((TINY, out, "Q4_0"), 11, "exists; replace it with -y"),
            ((DATA / "mote-tiny-Q4_K_M.gguf", WORK / "o", "Q8_0"), None, "is Q6_K already; quantise the BF16"),
            ((TINY, WORK / "o", "Q4_0", "--tensor-type", "attn_q"), 2, "attn_q is not REGEX=TYPE"),
            ((TINY, WORK / "o", "Q4_0", "--tensor-type", "(=Q8_0"), 2, "( is not a regular expression: "),
            ((TINY, WORK / "o", "Q4_0", "--tensor-type", "ffn=Q9"), 2, "unknown type Q9 of a tensor; one of F32 F16"),
            ((TINY, WORK / "o", "Q4_0", "--tensor-type", "ffn=Q5_0", "--tensor-type", "ffn_up=Q4_0"), None,
             "ffn_up=Q4_0: no matrix is left that matches"),
            ((TINY, WORK / "o", "Q4_0", "--tensor-type", "output_norm=Q5_0"), None, "no matrix is left")):
        done = mote("quantize", *arguments, code=code)
        demand(done.returncode != 0 and text in done.stderr, done.stderr)


# SHA-256 of the data of all tensors that llama-quantize writes, in the order of their names.
TYPES = (("Q4_K_M", ("ATTN_(q|k)=q8_0", r"blk\.[0-2]\..*ffn_down=Q5_K", "blk.1.*=Q2_K"),
          "50d2ad6c471397fad523cfee1ee3273654812bb44e85ad3d624e5d04207f79fe"),
         ("Q3_K_S", ("token_embd=Q4_0",), "8d5902e3ebf64dc7f4972c1012884ecb5402e049d7fb1aafd291d6770b109fa1"))
MMPROJ = {"Q8_0": "5e08e249459142864a62579970e5c335cf432ae5f18e2a38f90b21e4ad1720e4",
          "Q4_K_M": "13bd5b0464f7d00489b6bac1f5f6714ec93804b1ab05a7a7b11b72cfd0562e35"}


def data_hash(path):
    tensors = Model(path).tensors
    return hashlib.sha256(b"".join(tensors[name][2] for name in sorted(tensors))).hexdigest()


def case_quantize_types():
    """--tensor-type, and vision encoders."""
    out = WORK / "out.gguf"
    for name, rules, wanted in TYPES:
        flags = [word for rule in rules for word in ("--tensor-type", rule)]
        mote("quantize", TINY, out, name, "-y", *flags)
        demand(data_hash(out) == wanted, f"{name} with {rules}: {data_hash(out)}")
        recorded = Model(out).file.metadata["mote.quantize.tensor_types"][1]
        demand([r.decode() for r in recorded] == list(rules), f"mote.quantize.tensor_types: {recorded}")
        document = json.loads(mote("quantize", TINY, WORK / "none", name, "--dry-run", "--json", *flags).stdout)
        demand({t["name"]: t["bytes"] for t in document["list"]} == {n: len(t[2]) for n, t in Model(out).tensors.items()},
               "--dry-run")
    for name, wanted in MMPROJ.items():
        mote("quantize", TINY_MMPROJ, out, name, "-y")
        demand(hashlib.sha256(out.read_bytes()).hexdigest() == wanted, f"mmproj as {name}")


def case_quantize_own():
    """Own mixes: not larger than the mix of llama-quantize, the same with any number of threads, recorded in the file."""
    text = (DATA / "golden/quality/heldout.txt").read_bytes()
    measured, source, plain = WORK / "measured.txt", TINY, WORK / "plain.gguf"
    measured.write_bytes(text[:900])
    if SANITIZED:  # small, with fewer tokens per word
        source = DATA / "shapes/r2-gqa4-kv2-tied-mtp.gguf"
    mote("quantize", source, plain, "Q4_K_M")
    names = {1: "F16", 2: "Q4_0", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K",
             20: "IQ4_NL", 23: "IQ4_XS"}

    def make(name, *flags, kind="balanced"):
        mote("quantize", source, WORK / name, kind, "--calibrate", measured, "-t", "1", *flags)
        demand(not list(WORK.glob("*measuring*")), "a copy of the model is left")
        return WORK / name

    out = make("own.gguf")
    demand(out.stat().st_size <= plain.stat().st_size, f"{out.stat().st_size} bytes")
    m, plain = Model(out), Model(plain)
    mtp = f"blk.{m.n('block_count') - 1}."
    demand(m.text("mote.quantize.mix") == "balanced" and m.get("general.file_type") is None, "metadata")
    choices = dict(row.decode().split(" ")[0].split("=") for row in m.get("mote.quantize.choices"))
    for name, (_, kind, data) in m.tensors.items():
        demand(names.get(kind) == choices[name] if name in choices else (kind, data) == plain.tensors[name][1:],
               f"{name}: {kind} {choices.get(name)}")
    demand(len(set(choices.values())) > 2 and not any(name.startswith(mtp) for name in choices), f"{choices}")
    if not SANITIZED:
        same(make("threads.gguf", "-t", "2"), out, "2 threads")
        fixed = Model(make("fixed.gguf", "--tensor-type", "token_embd=Q8_0", kind="small"))
        demand(fixed.tensors["token_embd.weight"][1] == 8, "--tensor-type")
    (WORK / "short").write_text("Too short.")
    for words, why in (((TINY, WORK / "o", "Q4_0", "--calibrate", measured), "Q4_0 does not measure"),
                       ((TINY, WORK / "o", "best", "--calibrate", WORK / "none"), "none"),
                       ((TINY, WORK / "o", "best", "--calibrate", WORK / "short"), "it needs at least 256"),
                       ((TINY_MMPROJ, WORK / "o", "best"), "Q8_0 for a vision encoder")):
        done = mote("quantize", *words, code=None)
        demand(done.returncode != 0 and why in done.stderr, done.stderr)
        demand(not list(WORK.glob("o.*")) and not list(WORK.glob("*measuring*")), f"{why}: a file is left")
    # The files of another process stay.
    for name, lock, why in (("o.measuring.gguf", fcntl.flock, "another process is measuring with"),
                            ("o.measuring.gguf.partial", fcntl.lockf, "another process is writing")):
        with open(WORK / name, "wb") as other:
            lock(other, fcntl.LOCK_EX)
            done = mote("quantize", source, WORK / "o", "balanced", "--calibrate", measured, code=None)
            demand(done.returncode != 0 and why in done.stderr, done.stderr)
            demand([path.name for path in WORK.glob("o.*")] == [name], f"{why}: {list(WORK.glob('o.*'))}")
        (WORK / name).unlink()


def case_quantize_damaged():
    """Values that a format cannot hold, and metadata that no model has."""
    import struct
    whole, out, damaged = Model(DATA / "shapes/r3-gqa4-untied.gguf"), WORK / "out.gguf", WORK / "damaged.gguf"

    def make(value, **metadata):
        w = Writer()
        w.entries = [raw for key, (raw, _) in whole.file.metadata.items() if key.split(".")[-1] not in metadata]
        for key, number in metadata.items():
            w.scalar("qwen35.attention." + key, 10, number)
        for name, (dims, kind, _) in whole.tensors.items():
            w.tensor(name, dims, "f32" if kind == F32 or name == "blk.0.ffn_up.weight" else "bf16")

        def data(f, name, dims, kind, size):
            if name != "blk.0.ffn_up.weight":
                f.write(whole.tensors[name][2])
                return
            f.write(b"\0" * (dims[0] * 9 * 4))  # in row 9 the last value
            f.write(b"\0" * ((dims[0] - 1) * 4) + struct.pack("<f", value))
            f.write(b"\0" * (size - dims[0] * 10 * 4))
        w.write(damaged, data)

    for value, kinds, text in ((float("nan"), ("Q2_K", "Q4_0", "Q8_0", "F16"), "nan in row 9: the file is damaged"),
                               (float("-inf"), ("Q4_K_M", "Q5_1", "BF16"), "-inf in row 9: the file is damaged"),
                               (1e5, ("F16",), "100000 in row 9, which F16 cannot hold; choose BF16 or F32"),
                               (1e9, ("Q4_0", "Q8_0"), "which Q"), (3.4e38, ("Q4_1", "Q5_0", "BF16"), "cannot hold")):
        make(value)
        for kind in kinds:
            for threads in ("1", "3"):
                done = mote("quantize", damaged, out, kind, "-t", threads, code=None)
                demand(done.returncode in (1, 6) and "tensor 'blk.0.ffn_up.weight' has the value" in done.stderr
                       and text in done.stderr, f"{value} as {kind}: {done.returncode} {done.stderr}")
                demand(not list(WORK.glob("out.gguf*")), f"{value} as {kind}: a file is left")
    make(1e5)
    mote("quantize", damaged, out, "Q8_0")  # the scale is 787
    make(1, head_count_kv=1 << 32)
    mote("quantize", damaged, out, "Q2_K", "-y")


def case_quantize_resume():
    out, flags = WORK / "out.gguf", ("quantize", TINY, WORK / "out.gguf", "F32")
    mote(*flags)
    wanted, continued, call = out.read_bytes(), 0, 0
    while call < 1000:
        call += 1 if call < 4 else 17
        out.unlink(missing_ok=True)
        killed = interrupted(flags, KILL_AT=str(call))
        if killed.returncode == 0:
            break
        journal = WORK / "out.gguf.partial.journal"
        continued += journal.exists() and b"\ndone " in journal.read_bytes()
        mote(*flags, "-y")
        demand(out.read_bytes() == wanted, f"killed at call {call}: other bytes")
    demand(60 < call < 1000 and continued > 2, f"{call} calls, {continued} runs continued")


# ---- importance matrices ----

def importance(model, left_out=()):
    """Weights for all matrices of a model: name to (weights, tokens). Some columns have weight 0, one matrix has no
    tokens. The values are exact in float32 and do not depend on the version of Python."""
    state, entries = 1, {}
    names = [n for n, (dims, _, _) in sorted(model.tensors.items()) if n.startswith("blk.") and len(dims) == 2
             and n.endswith("weight") and "norm" not in n and "conv1d" not in n and n not in left_out]
    for i, name in enumerate(names):
        values = []
        for column in range(model.tensors[name][0][0]):
            state = (state * 1103515245 + 12345) % (1 << 31)
            zero = i % 5 == 1 and column % 64 < 32
            values.append(0.0 if zero else (state >> 16 & 255 | 1) * 2.0 ** ((state >> 24 & 7) - 12))
        entries[name] = values, (0, 3, 512)[min(i, 2)]
    return entries


def write_importance(path, entries):
    import struct
    w = Writer()
    w.text("general.type", "imatrix")
    w.texts("imatrix.datasets", ["calibration.txt", "second.txt"])
    w.u32("imatrix.chunk_count", 17)
    w.u32("imatrix.chunk_size", 512)
    data = {}
    for name, (values, count) in entries.items():
        counts = count if isinstance(count, list) else [count]  # of each expert
        n, columns = len(counts), len(values) // len(counts)
        w.tensor(name + ".in_sum2", [columns, n] if n > 1 else [columns], "f32")
        w.tensor(name + ".counts", [1, n] if n > 1 else [1], "f32")
        data[name + ".in_sum2"] = struct.pack(f"<{len(values)}f", *(v * counts[i // columns] for i, v in enumerate(values)))
        data[name + ".counts"] = struct.pack(f"<{n}f", *counts)
    w.write(path, lambda f, name, *_: f.write(data[name]))


def write_old_importance(path, entries):
    """The older format has no matrices without tokens; llama.cpp stores 1 for these."""
    import struct
    with open(path, "wb") as f:
        f.write(struct.pack("<i", len(entries)))
        for name, (values, count) in entries.items():
            f.write(struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", count or 1, len(values)))
            f.write(struct.pack(f"<{len(values)}f", *(v * count if count else 1 for v in values)))
        f.write(struct.pack("<ii", 17, 15) + b"calibration.txt")


# SHA-256 of what llama-quantize --imatrix imatrix.gguf (commit b21e4de7) writes with the file of write_importance.
WEIGHTED = {
    "Q4_0": "4d948f5698831d1f137379ba00c1224fdaf26f7c11c71e25b182a2965d029ba0",
    "Q4_1": "1bedf4da1b6ef6e7b8faceb642eb0e7adee7d5202b9ef048b732330ea9e5b540",
    "Q5_0": "a6f9ca9bebd84118360c72d18ad31c02786fd831fc80249fef7b7b683e7415ff",
    "Q5_1": "49f6a3b90e7e65bfa0b6ab90ca2b3bb29495bdec61b2bcee16fde538400c7c59",
    "Q8_0": "94152bb08208c3c451051a7d265de1c037337f566dae718b12a7ae4a6b23a3cb",
    "Q2_K_S": "b8fec0957fcc9aa3b1d13a139195ccec6e434cfc1af84bf6b4d5e95039ec527a",
    "Q2_K": "f6e4be2690c5b0b2fa6e173b6e9d2a437fcfb42c90fe306a5ef623c33a2fc88f",
    "Q3_K_S": "6db115959f33d4e705cff14bddb79742224818f335e48e47f4c83502dbf49974",
    "Q3_K_M": "16eba565aaef38979e52faddee15cae40d5a287da9324b699805c1824d9a7424",
    "Q3_K_L": "8a18886c1fc3135ddf416f2c328abe34dd75ac562878499cc2d5b77c5fc18399",
    "Q4_K_S": "944144f22ff66f60672cfe375ad4a84091aa500e950d8e68c9ad407e3be55cc2",
    "Q4_K_M": "7b26445163dbffff1740f055bb5ec19ffd61a198d4ec4c13286b3cad7b90e03a",
    "Q5_K_S": "814e9f45291164f3a8434f4fce2b043fa29d06c7a082b45d57e416ec30c9dc5e",
    "Q5_K_M": "97a0524da1e9c278bc600828b1bfae3ddf8474d1c7bf77b644679f5e3035c126",
    "Q6_K": "75633a842d3ee9197c668f53197fb74a19710ad34776669e9152ef4a63077d5a",
    "IQ4_NL": "7f5673f1be4b3eed57d17502e017456b3ac9564af0020953fa8be8dbc70b9af9",
    "IQ4_XS": "1fd89de272c56c8bf9d71e869b0bcd20ccbfccf448a41f289d26291975aa0701",
}
SHORT_WEIGHTED = {
    "Q2_K": "7385a0c851f1f92deeb6eb79c0e10ee57289d10d79cdb942a8a73172ea33b301",
    "Q4_K_M": "6ee7d30f6176f788f922ca5546ab878eeba5d4e5c9131e92ef87ee7f67cbf127",
    "Q5_0": "299837a5192e9922e5742b2428d94dd5a32ce85f889a2e83bffca867cfb2e7b5",
    "IQ4_XS": "e3173ebd94345e7892c01be0dc09143412f2ad68ca5aaf5a7dd655ed6407027f",
    "IQ3_M": "90db923bf551b3c955ccb0f00a65f459a20678799a22d70b8c46bc9596fb3fd3",
    "IQ2_M": "26219911700dddc4453762fab140d431b0fcae6e478fd9921a568bbbd552c219",
}
PART_WEIGHTED = {  # of part_model
    "IQ3_M": "51f52009f89f1a0576d71ef757b137bc281cee3a3d5c2f4c478ac7ff07b56ccf",
    "IQ3_S": "662b6a01d11937dd215348ad76af6dd7294b6b4c9b04ce3ff3ecdb800b4f9cdd",
    "IQ3_XS": "dbd943125b9afb3798e281f671d8e6f4cf91d65cfa57b697e39142125af747d3",
    "IQ3_XXS": "5bf086c014801614565473a54d8e1ac5cabb0a6189a61f7370e6759e09400945",
    "IQ2_M": "ea7fb89f37540297b9369f4c2d5291ee090cf72a6ae84b7a7a9eb03845451a4c",
    "IQ2_S": "b2efe7382f09e5444a96844f4b19248fd25f8008e9c75cf43fc4fbd2e9ce6314",
    "IQ2_XS": "55ab20afac38232336f57c7d2ce7b1565a0461698b2b4797d3bb504fda2559a8",
    "IQ2_XXS": "7a2e971a8c09e22492d1283477cc16f1a643baca36b8160b683e34e5af6dfa4b",
    "IQ1_M": "563dd33f17e0e54fadf4a6b4f60c6fb1e54e1676e1f595b70807ebbb64d580a2",
    "IQ1_S": "af9e7e6e6af28c61c7112f46966f5df2c5dc41c2a1337e61696e2985d9f21225",
}
UNWEIGHTED = {  # without an importance matrix; IQ3 of part_model
    "IQ4_NL": "3d697c6555b4df57b2bbe5a9a7f6dd1eec9056f98d513394bdf08e510cad757f",
    "IQ4_XS": "05e4eb532e93f68f7f0310cea259bd94217d63073886bf49a71646a6513dbe90",
    "IQ3_M": "390194bc61278e4a76486dfc619af385d10d17a3010765e4e88882acd3f5c385",
    "IQ3_S": "dd0baff23abbafa5e5fca308db92d1c3c5debbc6d84d89cc7b9a8396b13f250e",
}


def part_model(path):
    """Some matrices of mote-tiny: encoding IQ formats takes long."""
    whole, w = Model(TINY), Writer()
    w.entries = [raw for key, (raw, _) in whole.file.metadata.items() if not key.startswith("tokenizer.")]
    names = ["blk.0.attn_qkv", "blk.0.ffn_down", "blk.1.ffn_down", "blk.1.ffn_up", "blk.1.ffn_gate", "blk.3.attn_k",
             "blk.3.attn_output", "blk.3.attn_q"]
    if SANITIZED:
        names = ["blk.3.attn_k"]
    for name in names:
        w.tensor(name + ".weight", whole.tensors[name + ".weight"][0], "bf16")
    w.write(path, lambda f, name, *_: f.write(whole.tensors[name][2]))


def case_imatrix():
    os.chdir(WORK)  # the output has the path of the importance matrix
    short, part = DATA / "shapes/r3-gqa4-untied.gguf", WORK / "part.gguf"
    part_model(part)
    for source, hashes in ((TINY, WEIGHTED), (short, SHORT_WEIGHTED), (part, PART_WEIGHTED)):
        write_importance("imatrix.gguf", importance(Model(source), {"blk.1.ffn_up.weight"} if source == short else ()))
        for name, wanted in hashes.items():
            if SANITIZED and source == TINY and name not in ("Q2_K", "Q3_K_S", "Q4_K_S"):
                continue
            done = mote("quantize", source, "out.gguf", name, "-y", "--imatrix", "imatrix.gguf")
            demand(source == part and SANITIZED or
                   hashlib.sha256(Path("out.gguf").read_bytes()).hexdigest() == wanted, f"{source.name} as {name}")
            demand(("not in the importance matrix" in done.stderr) == (source != part), done.stderr)
    for name, wanted in UNWEIGHTED.items():
        mote("quantize", part if SANITIZED or name.startswith("IQ3") else TINY, "out.gguf", name, "-y")
        demand(SANITIZED or hashlib.sha256(Path("out.gguf").read_bytes()).hexdigest() == wanted,
               f"{name} without weights")
    write_importance("imatrix.gguf", importance(Model(TINY)))
    for name in () if SANITIZED else ("Q2_K", "Q3_K_S", "Q4_K_S", "Q6_K", "IQ4_XS", "IQ4_NL"):
        for flags in (("-t", "7", "--isa", "avx2"), ("--isa", "ref"), ("--isa", "avx512")):
            run = mote("quantize", TINY, "out.gguf", name, "-y", "--imatrix", "imatrix.gguf", *flags, code=None)
            demand(run.returncode in (0, 2), run.stderr)
            demand(run.returncode or hashlib.sha256(Path("out.gguf").read_bytes()).hexdigest() == WEIGHTED[name],
                   f"{name} {flags}")


def case_imatrix_files():
    """The older format has the same meaning. Damaged files and files of other models are refused."""
    import struct
    os.chdir(WORK)
    source = DATA / "shapes/r3-gqa4-untied.gguf"
    entries = importance(Model(source))
    write_importance("imatrix.gguf", entries)
    write_old_importance("imatrix.dat", entries)
    for kind in ("gguf", "dat"):
        mote("quantize", source, f"{kind}.gguf", "Q4_K_M", "--imatrix", f"imatrix.{kind}")
    a, b = Model("gguf.gguf"), Model("dat.gguf")
    demand({n: bytes(t[2]) for n, t in a.tensors.items()} == {n: bytes(t[2]) for n, t in b.tensors.items()},
           "the older format gives other weights")
    for m, name in ((a, b"imatrix.gguf"), (b, b"imatrix.dat")):
        demand((m.get("quantize.imatrix.file"), m.get("quantize.imatrix.dataset"),
                m.get("quantize.imatrix.entries_count"), m.get("quantize.imatrix.chunks_count"))
               == (name, b"calibration.txt", len(entries), 17), "metadata")
    old, new = Path("imatrix.dat").read_bytes(), Path("imatrix.gguf").read_bytes()
    name = next(iter(entries))

    def refuse(text, kind="Q4_K_M", flags=("--imatrix", "bad"), code=None):
        done = mote("quantize", source, "o.gguf", kind, *flags, code=code)
        demand(done.returncode != 0 and text in done.stderr, f"expected '{text}', got: {done.stderr}")
        demand(not list(WORK.glob("o.gguf*")), f"{text}: a file is left")

    for data, text in ((old[:-400], "cut off in entry"), (b"", "bad"), (b"\0\0\0\0", "not an importance matrix"),
                       (new[:-40], "bad"), (TINY.read_bytes(), "no part of an importance matrix"),
                       (old.replace(name.encode(), b"\0" * len(name), 1), "invalid name"),
                       (old[:8 + len(name) + 8] + b"\0\0\x80\x7f" + old[8 + len(name) + 12:], "has the value inf"),
                       (old[:8 + len(name) + 8] + b"\0\0\x80\xbf" + old[8 + len(name) + 12:], "has the value -"),
                       (new.replace(b".counts", b".countz", 1), "")):
        Path("bad").write_bytes(data)
        refuse(text)
    entries[name] = entries[name][0][:-1], 512
    write_importance("bad", entries)
    refuse("use one made with this model")
    refuse("IQ2_XS needs an importance matrix with 'blk.", "IQ2_XS", (), 1)
    refuse("imatrix.none", flags=("--imatrix", "imatrix.none"))
    entries[name] = [struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]] * (len(entries[name][0]) + 1), 1
    write_importance("bad", entries)
    done = mote("quantize", source, "o.gguf", "Q4_0", "--imatrix", "bad", code=None)
    demand(done.returncode == 0 or "values of the importance matrix are too large" in done.stderr, done.stderr)
    shutil.copy("imatrix.gguf", "same.gguf")
    done = mote("quantize", source, "same.gguf", "Q4_0", "--imatrix", "same.gguf", "-y", code=2)
    demand("would replace the source" in done.stderr, done.stderr)
    for kind in ("IQ1_S", "IQ2_M", "IQ3_XS", "Q2_K_S"):  # before anything is downloaded
        done = mote("pull", "hf:none/none", "--quantize", kind, code=2)
        demand(f"--quantize: {kind} needs an importance matrix" in done.stderr, done.stderr)


def calibration_text(path):
    """About 2,500 tokens."""
    words = "the river was cold and a small boat lay under old trees while people of this town walked home".split()
    state, text = 7, []
    for i in range(1600):
        state = (state * 1103515245 + 12345) % (1 << 31)
        text.append(words[(state >> 16) % len(words)] + (f" {state >> 20}." if i % 13 == 12 else ""))
    Path(path).write_text(" ".join(text) + "\n")


def collected_experts(path):
    """name: (sums, counts of each expert) of a file of `mote imatrix`."""
    m = Model(path)
    return {n[:-8]: (floats(t[2]), list(floats(m.tensors[n[:-8] + ".counts"][2])))
            for n, t in m.tensors.items() if n.endswith(".in_sum2")}


def collected(path):
    """The same of a dense model: (sums, count)."""
    return {name: (sums, counts[0]) for name, (sums, counts) in collected_experts(path).items()}


# Means of squares that llama-imatrix (commit b21e4de7) -c 512 has for mote-tiny-BF16.gguf and calibration_text:
# matrix, column, value; and the mean over all columns.
LLAMA_MEANS = (
    ("blk.0.attn_qkv.weight", 0, 0.613835),
    ("blk.0.attn_qkv.weight", None, 0.613337),
    ("blk.3.attn_output.weight", 100, 0.900056),
    ("blk.3.attn_output.weight", None, 1.72431),
    ("blk.7.ffn_down.weight", 255, 6.09837),
    ("blk.7.ffn_down.weight", None, 67.7275),
    ("blk.4.ssm_out.weight", 7, 11.5495),
    ("blk.4.ssm_out.weight", None, 7.96875),
)


def case_imatrix_collect():
    os.chdir(WORK)
    calibration_text("text.txt")
    done = mote("imatrix", TINY, "text.txt", "-o", "one.gguf", "-t", "1", "--json")
    document = json.loads(done.stdout)
    chunks = document["chunks"]
    demand(chunks >= 3 and document["tokens"] == 512 * chunks, done.stdout)
    for flags in (("-t", "3"), ("-t", "2", "--isa", "avx2"))[:1 if SANITIZED else 2]:
        run = mote("imatrix", TINY, "text.txt", "-o", "other.gguf", "-y", *flags, code=None)
        demand(run.returncode in (0, 2) and (run.returncode == 0 or "--isa" in flags), run.stderr)
        demand(run.returncode or Path("other.gguf").read_bytes() == Path("one.gguf").read_bytes(), f"{flags}")
    m, sums = Model("one.gguf"), collected("one.gguf")
    demand((m.get("general.type"), m.get("imatrix.datasets"), m.get("imatrix.chunk_count"), m.get("imatrix.chunk_size"))
           == (b"imatrix", [b"text.txt"], chunks, 512), "metadata")
    wanted = importance(Model(TINY))
    demand({n: len(v[0]) for n, v in sums.items()} == {n: len(v[0]) for n, v in wanted.items()}, "matrices")
    demand(list(m.tensors) == sorted(m.tensors, key=lambda n: (n.rsplit(".", 1)[0], n.endswith("counts"))), "order")
    for name, (_, count) in sums.items():
        demand(count == 512 * chunks if not name.startswith("blk.8.") else count > 0, f"{name}: {count} tokens")
    for name, column, value in LLAMA_MEANS:
        values, count = sums[name]
        got = (values[column] if column is not None else sum(values) / len(values)) / count
        demand(abs(got - value) <= 0.01 * value, f"{name}, column {column}: {got}, llama-imatrix has {value}")
    mote("quantize", TINY, "small.gguf", "IQ2_XXS", "--imatrix", "one.gguf")
    done = mote("imatrix", TINY, "text.txt", "-o", "one.gguf", code=11)
    demand("exists; replace it with -y" in done.stderr, done.stderr)
    Path("short.txt").write_text("a few words")
    done = mote("imatrix", TINY, "short.txt", "-o", "short.gguf", code=2)
    demand("give a longer text" in done.stderr and not Path("short.gguf").exists(), done.stderr)
    limited = json.loads(mote("imatrix", TINY, "text.txt", "-o", "other.gguf", "-y", "--limit", "1", "--json").stdout)
    demand(limited["tokens"] == 512, f"{limited}")


def png(path, side=64):
    import struct
    import zlib
    rows = b"".join(b"\0" + bytes(v for x in range(side) for v in (4 * x & 255, 4 * y & 255, 90)) for y in range(side))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    Path(path).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
                           + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def case_imatrix_conversations():
    os.chdir(WORK)
    png("square.png")
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}}}}]
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bonn"}'}}
    lines = [
        {"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hello!"}]},
        {"system": "Answer in one word.", "tools": tools, "messages": [
            {"role": "user", "content": "How is the weather in Bonn?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "rain"}, {"role": "assistant", "content": "Rain."}]},
        {"messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "square.png"}}, {"type": "text", "text": "What is this?"}]},
            {"role": "assistant", "content": "A square."}]},
    ]

    def tokens(chosen, *flags):
        Path("chats.jsonl").write_text("".join(json.dumps(line) + "\n" for line in chosen) + "\n")
        done = mote("imatrix", TINY, "chats.jsonl", "-o", "chats.gguf", "-y", "--json", *flags)
        document = json.loads(done.stdout)
        demand(document["conversations"] == len(chosen), done.stdout)
        return document["tokens"], Path("chats.gguf").read_bytes()

    single = [tokens([line])[0] for line in lines]
    both, one = tokens(lines, "-t", "1")
    demand(tokens(lines, "-t", "3")[1] == one, "threads")
    demand(both == sum(single) and single[2] > single[0] + 3 and single[1] > single[0] + 30, f"{single}, {both}")
    calibration_text("text.txt")
    mixed = json.loads(mote("imatrix", TINY, "text.txt", "chats.jsonl", "-o", "m.gguf", "--limit", "1", "--json").stdout)
    demand(mixed["tokens"] == 512 + single[0], f"{mixed}")
    demand(Model("m.gguf").get("imatrix.datasets") == [b"text.txt", b"chats.jsonl"], "datasets")
    for line, text in (("{", "chats.jsonl, line 1: "), ("{}", "needs messages"), ('{"messages": [{"role": "x"}]}', "line 1"),
                       ('{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "n.png"}}]}]}',
                        "n.png")):
        Path("chats.jsonl").write_text(line)
        done = mote("imatrix", TINY, "chats.jsonl", "-o", "none.gguf", code=None)
        demand(done.returncode != 0 and text in done.stderr and not Path("none.gguf").exists(), f"{line}: {done.stderr}")


def main(cases):
    try:
        cases["case_" + sys.argv[1]]()
    finally:
        shutil.rmtree(WORK)


if __name__ == "__main__":
    main(globals())
