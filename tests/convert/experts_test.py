#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models with experts in `mote convert`, `mote quantize` and `mote imatrix`.

    experts_test.py CASE        one of the functions case_* below

Environment as in convert_test.py. With LLAMA_QUANTIZE, the path of llama.cpp's program, case_mixes compares with its
files instead of the checksums in expert_mixes.json, and with MOTE_TEST_UPDATE=1 it writes these.
"""
import hashlib
import json
import os
import subprocess
from pathlib import Path

import checkpoint
from checkpoint import Model
from convert_test import (DATA, SANITIZED, WORK, calibration_text, collected_experts, demand, main, mote, refused, same,
                          write_importance)
from gguf_file import Writer

MOE = DATA / "golden/moe/moe-bf16.gguf"
STORED = Path(__file__).with_name("expert_mixes.json")
BLOCKS, COLUMNS, ROWS = 16, 256, 2
MIXES = ("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ4_NL IQ4_XS IQ3_M "
         "IQ3_S").split()
FEW = "Q2_K Q3_K_M Q4_K_M IQ3_M IQ3_XS IQ2_XS IQ1_S".split()  # of the second and third model
NEED_IMATRIX = "Q2_K_S IQ3_XS IQ3_XXS IQ2_M IQ2_S IQ2_XS IQ2_XXS IQ1_M IQ1_S".split()


# ---- named mixes ----

def tensors_of(experts, merged):
    """The matrices that a mix distinguishes, with few rows."""
    shapes = {"token_embd.weight": [COLUMNS, 2 * ROWS], "output.weight": [COLUMNS, 2 * ROWS]}
    for i in range(BLOCKS):
        names = ("attn_q", "attn_k", "attn_v", "attn_output") if i % 4 == 3 else ("attn_qkv", "attn_gate", "ssm_out")
        names += ("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp")
        shapes.update({f"blk.{i}.{name}.weight": [COLUMNS, ROWS] for name in names})
        names = ("ffn_gate_up_exps", "ffn_down_exps") if merged else ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
        shapes.update({f"blk.{i}.{name}.weight": [COLUMNS, ROWS, experts] for name in names})
    return shapes


HIGH = bytes(b & 0x80 | 0x3B + (b & 3) for b in range(256))


def values_of(name, size):
    """bf16 values of both signs, from 0.002 to 1."""
    data = bytearray(hashlib.shake_128(name.encode()).digest(size))
    data[1::2] = data[1::2].translate(HIGH)
    return bytes(data)


def experts_model(path, experts, merged):
    """llama-quantize reads the metadata of the whole model, and of the tensors only those that exist."""
    source, w = Model(MOE), Writer()
    changed = {"block_count": BLOCKS, "embedding_length": COLUMNS, "expert_count": experts, "attention.head_count": 2,
               "attention.head_count_kv": 1, "nextn_predict_layers": None}
    arch = source.text("general.architecture") + "."
    w.entries = [raw for key, (raw, _) in source.file.metadata.items()
                 if not key.startswith("tokenizer.") and key.removeprefix(arch) not in changed]
    for key, value in changed.items():
        if value is not None:
            w.u32(arch + key, value)
    for name, dims in tensors_of(experts, merged).items():
        w.tensor(name, dims, "bf16")
    w.write(path, lambda f, name, dims, kind, size: f.write(values_of(name, size)))


def importance(experts, merged):
    """Of all matrices of the blocks; some experts have few tokens, one none."""
    entries = {}
    for name, dims in tensors_of(experts, merged).items():
        n = dims[2] if len(dims) == 3 else 1
        if name.startswith("blk."):
            values = [(b | 1) * 2.0 ** (b % 7 - 10) for b in hashlib.shake_128(b"i" + name.encode()).digest(n * COLUMNS)]
            entries[name] = values, [(512, 3, 0, 64)[e % 4] for e in range(n)]
    return entries


def reference_sum(program, source, mix, weighted):
    flags = ["--imatrix", "imatrix.gguf"] if weighted else []
    subprocess.run([program, *flags, source, "reference.gguf", mix, "2"], check=True, capture_output=True)
    return hashlib.sha256(Path("reference.gguf").read_bytes()).hexdigest()


def case_mixes():
    """The choices of llama-quantize: layers are counted by block, in IQ1 and IQ2 by tensor; rules for 8 experts."""
    os.chdir(WORK)  # the output has the path of the importance matrix
    program, stored = os.environ.get("LLAMA_QUANTIZE"), json.loads(STORED.read_text()) if STORED.exists() else {}
    made, kinds = {}, {}
    for experts, merged in ((5, False), (8, False), (5, True)):
        experts_model("source.gguf", experts, merged)
        write_importance("imatrix.gguf", importance(experts, merged))
        for weighted in (False, True):
            for mix in MIXES + NEED_IMATRIX * weighted:
                if (mix not in FEW and (SANITIZED or experts == 8 or merged)) or (SANITIZED and merged):
                    continue
                case = f"{experts} experts{', merged' * merged}{', weighted' * weighted}: {mix}"
                wanted = reference_sum(program, "source.gguf", mix, weighted) if program else stored[case]
                mote("quantize", "source.gguf", "out.gguf", mix, "-y", *(["--imatrix", "imatrix.gguf"] if weighted else []))
                made[case] = hashlib.sha256(Path("out.gguf").read_bytes()).hexdigest()
                kinds[case] = {n: k for n, (_, k, _) in Model("out.gguf").tensors.items()}
                demand(made[case] == wanted, f"{case} differs from llama-quantize")
    if program and os.environ.get("MOTE_TEST_UPDATE") == "1":
        STORED.write_text(json.dumps(made, indent=0) + "\n")
    demand(SANITIZED or made.keys() == stored.keys() or program, "cases without a checksum")
    down = [kinds["5 experts: Q4_K_M"][f"blk.{i}.ffn_down_exps.weight"] for i in range(BLOCKS)]
    demand(down == [14 if i < 2 or i >= 14 or (i - 2) % 3 == 2 else 12 for i in range(BLOCKS)], f"Q4_K_M: {down}")


# ---- importance matrices ----

# What llama-imatrix (commit b21e4de7) -c 512 has for moe-bf16.gguf and calibration_text: matrix, expert, tokens, mean of
# squares over all columns. It rounds the inputs of BF16 matrices to BF16, so 0.5 % of the tokens choose other experts.
LLAMA_EXPERTS = (("blk.0.ffn_gate_exps.weight", 3, 194, 1.1004769), ("blk.3.ffn_up_exps.weight", 11, 198, 1.0270226),
                 ("blk.5.ffn_down_exps.weight", 0, 227, 0.9230022), ("blk.7.ffn_down_exps.weight", 15, 343, 0.9471797))


def check_experts(path, source, text_tokens):
    """Every token counts for as many experts as it uses, with the inputs of the router."""
    m, sums = Model(source), collected_experts(path)
    used, n = m.n("expert_used_count"), m.n("expert_count")
    matrices = {name for name, (dims, _, _) in m.tensors.items() if name.startswith("blk.") and name.endswith("weight")
                and len(dims) > 1 and "norm" not in name and "conv1d" not in name}
    demand(sums.keys() == matrices, f"matrices: {sums.keys() ^ matrices}")
    names = [name for name in m.tensors if name.endswith("_exps.weight")]
    for name in names:
        values, counts = sums[name]
        columns = m.tensors[name][0][0]
        demand(len(counts) == n and len(values) == n * columns, f"{name}: {len(values)} values, {len(counts)} counts")
        block = name.split(".")[1]
        router, (tokens,) = sums[f"blk.{block}.ffn_gate_inp.weight"]
        demand(sum(counts) == used * tokens and len(set(counts)) > 1, f"{name}: {counts}, {tokens} tokens")
        demand(tokens == text_tokens or int(block) == m.n("block_count") - 1, f"{name}: {tokens} tokens")
        if "down" in name:
            gate = next(g for g in names if g.startswith(f"blk.{block}.ffn_gate"))
            demand(counts == sums[gate][1], f"{name}: {counts}, the gate has {sums[gate][1]}")
            continue
        for column in range(columns):
            total = sum(values[e * columns + column] for e in range(n))
            demand(abs(total - used * router[column]) <= 1e-5 * total, f"{name}, column {column}: {total}")
    return sums


def case_imatrix():
    os.chdir(WORK)
    calibration_text("text.txt")
    for source in (MOE, DATA / "golden/moe/moe-q8_0.gguf"):
        done = mote("imatrix", source, "text.txt", "-o", "one.gguf", "-t", "1", "--limit", "2", "-y", "--json")
        document = json.loads(done.stdout)
        sums = check_experts("one.gguf", source, document["tokens"])
        expert_counts = [c for name, (_, c) in sums.items() if name.endswith("_exps.weight")]
        demand(document["expert_matrices"] == sum(map(len, expert_counts)) and
               document["unused_expert_matrices"] == sum(c.count(0) for c in expert_counts), done.stdout)
        mote("imatrix", source, "text.txt", "-o", "other.gguf", "--limit", "2", "-y", "-t", "2")
        same("one.gguf", "other.gguf", "2 threads")
        if source != MOE:
            continue
        for name, expert, tokens, mean in LLAMA_EXPERTS:
            values, counts = sums[name]
            columns = len(values) // len(counts)
            got = sum(values[expert * columns:(expert + 1) * columns]) / columns / counts[expert]
            demand(abs(counts[expert] - tokens) <= 0.03 * tokens, f"{name}, expert {expert}: {counts[expert]} tokens")
            demand(abs(got - mean) <= 0.02 * mean, f"{name}, expert {expert}: {got}, llama-imatrix has {mean}")
        done = mote("quantize", source, "out.gguf", "IQ2_XS", "--imatrix", "one.gguf")
        demand("1 tensor not in the importance matrix: token_embd.weight" in done.stderr or
               "tensors not in the importance matrix" in done.stderr, done.stderr)
        mote("logits", "out.gguf", "--ids", "1,2,3")
    done = mote("imatrix", MOE, "text.txt", "-o", "few.gguf", "-c", "32", "--limit", "1", "--json")
    if json.loads(done.stdout)["unused_expert_matrices"] > 0:
        demand("matrices of experts; their inputs count equally" in done.stderr, done.stderr)


# ---- own mixes ----

def short_model(path):
    """The first four layers of moe-bf16."""
    source, w = Model(MOE), Writer()
    arch = source.text("general.architecture") + "."
    changed = (arch + "block_count", arch + "nextn_predict_layers")
    w.entries = [raw for key, (raw, _) in source.file.metadata.items() if key not in changed]
    w.u32(arch + "block_count", 4)
    for name, (dims, kind, _) in source.tensors.items():
        if not name.startswith("blk.") or int(name.split(".")[1]) < 4:
            w.tensor(name, dims, "bf16" if kind == checkpoint.BF16 else "f32")
    w.write(path, lambda f, name, *_: f.write(source.tensors[name][2]))


def case_own():
    os.chdir(WORK)
    calibration_text("text.txt")
    Path("text.txt").write_text(Path("text.txt").read_text()[:700])
    short_model("short.gguf")
    mote("quantize", "short.gguf", "plain.gguf", "Q4_K_M")
    mote("imatrix", "short.gguf", "text.txt", "-o", "imatrix.gguf", "-c", "128", "-t", "1")
    for flags in ((), ("--imatrix", "imatrix.gguf")):
        if SANITIZED and flags == ():
            continue
        mote("quantize", "short.gguf", "own.gguf", "balanced", "--calibrate", "text.txt", "-t", "1", "-y", *flags)
        own, size = Model("own.gguf"), Path("own.gguf").stat().st_size
        demand(size <= Path("plain.gguf").stat().st_size + 4096, f"{size} bytes")
        choices = dict(row.decode().split(" ")[0].split("=") for row in own.get("mote.quantize.choices"))
        matrices = {n for n, (dims, _, _) in own.tensors.items() if n.endswith("weight") and len(dims) > 1 and dims[1] > 1
                    and not any(part in n for part in ("norm", "conv1d", "ffn_gate_inp"))}
        demand(choices.keys() == matrices, f"choices: {matrices ^ choices.keys()}")
        if not SANITIZED and flags:
            mote("quantize", "short.gguf", "threads.gguf", "balanced", "--calibrate", "text.txt", "-t", "2", *flags)
            same("own.gguf", "threads.gguf", "2 threads")
        mote("logits", "own.gguf", "--ids", "1,2,3")
    # The rows of this model are too short for IQ2, so another one; the text is never read.
    experts_model("source.gguf", 5, False)
    done = mote("quantize", "source.gguf", "bad.gguf", "small", "--tensor-type", "ffn_up_shexp=IQ2_XS", code=None)
    demand(done.returncode != 0 and "IQ2_XS needs an importance matrix with 'blk.0.ffn_up_shexp.weight'" in done.stderr,
           done.stderr)


# ---- mote convert ----

def case_missing():
    """Experts one by one: a matrix of all experts is missing, one expert, or all of them."""
    def without(ends):
        def change(tensors, config):
            for name in [n for n in tensors if n.startswith("mtp.") and ".experts." in n and n.endswith(ends)]:
                del tensors[name]
        return change

    for ends, text in ((".up_proj.weight", "tensor 'mtp.layers.0.mlp.experts.0.up_proj.weight' is missing"),
                       (".3.down_proj.weight", "expert 3 of 'blk.8.ffn_down_exps.weight' is missing"),
                       ("", "tensor 'mtp.layers.0.mlp.experts.gate_up_proj' is missing")):
        refused(checkpoint.make(WORK / f"without{ends}", MOE, change=without(ends)), text)


if __name__ == "__main__":
    main(globals())
