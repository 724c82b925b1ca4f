#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model file as Ollama's converter wrote it until May 2026: text model and vision encoder in one file.

    ollama_file.py TEXT.gguf MMPROJ.gguf OUT.gguf [KEY=VALUE ...]

Keys are sorted. The vision encoder has keys ARCHITECTURE.vision.*, tensors with the names below, separate matrices for
queries, keys and values, and one tensor for the patch embedding. head_count_kv is an array, and the bias of the decay is
`ssm_dt`. KEY=VALUE adds a boolean (true, false) or an integer; KEY=[VALUES] an array of integers.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from gguf_file import BOOL, TYPES, Reader, Writer  # noqa: E402

RENAMED = (("v.position_embd", "v.pos_embed"), ("v.patch_embd", "v.patch_embed"), ("v.post_ln", "v.merger.norm"),
           ("mm.0", "v.merger.linear_fc1"), ("mm.2", "v.merger.linear_fc2"), (".ffn_up", ".mlp.linear_fc1"),
           (".ffn_down", ".mlp.linear_fc2"), (".ln1", ".norm1"), (".ln2", ".norm2"))
NUMBERS = {"block_count": "block_count", "embedding_length": "embedding_length",
           "attention.head_count": "attention.head_count", "patch_size": "patch_size",
           "spatial_merge_size": "spatial_merge_size"}


def text_tensors(text):
    for name, (dims, kind, data) in text.tensors.items():
        yield name.replace(".ssm_dt.bias", ".ssm_dt"), dims, kind, bytes(data)


def patch_tensor(vision):
    """Frames first and second of every channel, one after the other."""
    dims, kind, first = vision.tensors["v.patch_embd.weight"]
    second = vision.tensors["v.patch_embd.weight.1"][2]
    plane = len(first) // (dims[2] * dims[3])
    data = b"".join(bytes(f[i * plane:(i + 1) * plane]) for i in range(dims[2] * dims[3]) for f in (first, second))
    return "v.patch_embed.weight", [dims[0], dims[1], 2, dims[2] * dims[3]], kind, data


def vision_tensors(vision):
    yield patch_tensor(vision)
    for name, (dims, kind, data) in vision.tensors.items():
        if name.startswith("v.patch_embd.weight"):
            continue
        if ".attn_qkv." in name:
            third, shape = len(data) // 3, dims[:-1] + [dims[-1] // 3]
            for i, part in enumerate("qkv"):
                yield name.replace("attn_qkv", f"attn_{part}"), shape, kind, bytes(data[i * third:(i + 1) * third])
            continue
        for old, new in RENAMED:
            name = name.replace(old, new)
        yield name, dims, kind, bytes(data)


def add_keys(out, text, vision, more):
    value = {key: entry[1] for key, entry in text.metadata.items()}
    arch = value["general.architecture"].decode()
    layers, interval = value[arch + ".block_count"], value.get(arch + ".full_attention_interval", 4)
    heads = value[arch + ".attention.head_count_kv"]
    added = Writer()
    added.i32s(arch + ".attention.head_count_kv", [heads if (i + 1) % interval == 0 else 0 for i in range(layers)])
    for key, old in NUMBERS.items():
        added.u32(f"{arch}.vision.{key}", vision.metadata[f"clip.vision.{old}"][1])
    for key, given in more.items():
        if given.startswith("["):
            added.i32s(key, [int(v) for v in given[1:-1].split(",") if v])
        elif given in ("true", "false"):
            added.scalar(key, BOOL, given == "true")
        else:
            added.u32(key, int(given))
    entries = [raw for key, (raw, _) in text.metadata.items() if key != arch + ".attention.head_count_kv"]
    out.entries = sorted(entries + added.entries, key=lambda raw: raw[8:8 + int.from_bytes(raw[:8], "little")])


def main(text_path, mmproj_path, out_path, *more):
    text, vision = (Reader(Path(p).read_bytes()) for p in (text_path, mmproj_path))
    out, kinds, datas = Writer(), {number: name for name, (number, _, _) in TYPES.items()}, {}
    add_keys(out, text, vision, dict(m.split("=", 1) for m in more))
    for name, dims, kind, data in sorted([*text_tensors(text), *vision_tensors(vision)]):
        out.tensor(name, dims, kinds[kind])
        datas[name] = data
    out.write(out_path, lambda f, name, dims, kind, size: f.write(datas[name]))


if __name__ == "__main__":
    main(*sys.argv[1:])
