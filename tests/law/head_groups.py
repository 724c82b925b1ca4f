#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Head layouts of the largest models: 16 query heads per KV head, 4 value heads per key head (122B-A10B, 397B-A17B).

    head_groups.py MOTE moe-bf16.gguf OUT.gguf

Writes OUT.gguf: moe-bf16.gguf with 32 query heads, 2 KV heads and 1 key head. A second file has the same heads in smaller
groups, as the golden tests check them: 4 KV heads and 2 key heads, each one twice. Both compute the same numbers, so
their logits must be equal bit for bit, with every KV cache type and at several instruction-set levels.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from gguf_file import TYPES, Reader, Writer  # noqa: E402

HEADS, HEAD, STATE = 32, 256, 128
FLAGS = ((), ("-t", "2"), ("--cut", "1"), ("--isa", "avx2"), ("--isa", "avx512"))
IDS = ",".join(str(7 * i * i % 479) for i in range(100))


def rotated(row, n):
    """The values of a row of bf16 values, n places further."""
    at = 2 * n % len(row)
    return row[at:] + row[:at]


def rows_of(data, size):
    return [bytes(data[i:i + size]) for i in range(0, len(data), size)]


def wide(tensor, old, each):
    """A matrix with `each` rows per head for HEADS heads instead of `old`; the new heads have other values."""
    dims, kind, data = tensor
    rows = rows_of(data, 2 * dims[0])
    rows = [rotated(row, n) for n in range(HEADS // old) for row in rows]
    return [dims[0], HEADS * each], kind, b"".join(rows)


def wide_columns(tensor):
    dims, kind, data = tensor
    times = HEADS * HEAD // dims[0]
    rows = [b"".join(rotated(row, n) for n in range(times)) for row in rows_of(data, 2 * dims[0])]
    return [dims[0] * times, dims[1]], kind, b"".join(rows)


def kv(tensor, twice):
    """Two KV heads instead of one, each of them once or twice."""
    dims, kind, data = tensor
    first = rows_of(data, 2 * dims[0])
    heads = [first, [rotated(row, 5) for row in first]]
    rows = [row for head in heads for _ in range(twice) for row in head]
    return [dims[0], len(rows)], kind, b"".join(rows)


def one_key_head(tensor, twice, keys):
    """Rows of Q, K and V with one of the key heads, once or twice."""
    dims, kind, data = tensor
    rows = rows_of(data, len(data) // dims[1])
    q, k, v = rows[:STATE], rows[keys * STATE:(keys + 1) * STATE], rows[2 * keys * STATE:]
    rows = q * twice + k * twice + v
    return [dims[0], len(rows)], kind, b"".join(rows)


def write(source, path, twice):
    value = {key: entry[1] for key, entry in source.metadata.items()}
    arch = value["general.architecture"].decode() + "."
    heads, keys = value[arch + "attention.head_count"], value[arch + "ssm.group_count"]
    assert value[arch + "attention.head_count_kv"] == 1 and keys == 2
    numbers = {"attention.head_count": HEADS, "attention.head_count_kv": 2 * twice, "ssm.group_count": twice}
    w, datas, kinds = Writer(), {}, {number: name for name, (number, _, _) in TYPES.items()}
    w.entries = [raw for key, (raw, _) in source.metadata.items() if key.removeprefix(arch) not in numbers]
    for key, number in numbers.items():
        w.u32(arch + key, number)
    for name, tensor in source.tensors.items():
        part = name.split(".", 2)[-1]
        if part == "attn_q.weight":
            tensor = wide(tensor, heads, 2 * HEAD)
        elif part == "attn_output.weight":
            tensor = wide_columns(tensor)
        elif part in ("attn_k.weight", "attn_v.weight"):
            tensor = kv(tensor, twice)
        elif part in ("attn_qkv.weight", "ssm_conv1d.weight"):
            tensor = one_key_head(tensor, twice, keys)
        dims, kind, data = tensor
        w.tensor(name, dims, kinds[kind])
        datas[name] = bytes(data)
    w.write(path, lambda f, name, *_: f.write(datas[name]))


def logits(mote, model, *flags):
    with tempfile.NamedTemporaryFile() as out:
        done = subprocess.run([mote, "logits", model, "--ids", IDS, "--all", "-q", "--out", out.name, "-t", "1", *flags],
                              env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "MOTE_CONFIG": "/dev/null"},
                              capture_output=True, text=True, check=False)
        if done.returncode == 2 and "--isa" in flags:
            return None  # a level of another CPU
        if done.returncode != 0:
            sys.exit(f"FAIL: {model} {flags}: {done.stderr}")
        return Path(out.name).read_bytes()


def main(mote, model, out):
    source, small = Reader(Path(model).read_bytes()), out + ".small"
    write(source, out + ".new", 1)
    write(source, small, 2)
    first = None
    for kv_type in ("f16", "f32", "q8_0", "q4_0"):
        wanted = logits(mote, small, "--kv", kv_type)
        for flags in FLAGS if kv_type == "f16" else ((), ("--cut", "1")):
            got = logits(mote, out + ".new", "--kv", kv_type, *flags)
            if got not in (None, wanted):
                sys.exit(f"FAIL: --kv {kv_type} {flags}: 16 query heads per KV head give other logits than 8")
        if len(wanted) != 4 * 512 * 100 or wanted == first:
            sys.exit(f"FAIL: --kv {kv_type}: {len(wanted)} bytes")
        first = first or wanted
    os.unlink(small)
    os.rename(out + ".new", out)


main(*sys.argv[1:])
