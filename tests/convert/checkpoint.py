# SPDX-License-Identifier: Apache-2.0
"""Makes the model directory of Hugging Face that a GGUF file was converted from.

The inverse of `mote convert`, written from the documents of both formats: the repository has no
room for Safetensors files and GGUF files. The result for mote-tiny was compared once with
the directory that llama.cpp converted: all tensors and all values of the JSON files are equal.
Standard library only.
"""
import array
import json
import math
import os
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from gguf_file import Reader  # noqa: E402

F32, F16, BF16 = 0, 1, 30
TYPE_NAMES = {F32: "F32", F16: "F16", BF16: "BF16"}
SPLIT_REGEX = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
               r"|\s*[\r\n]+|\s+(?!\S)|\s+")

LAYER = {
    "attn_norm.weight": "input_layernorm.weight", "post_attention_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight", "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
    "attn_q.weight": "self_attn.q_proj.weight", "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight", "attn_output.weight": "self_attn.o_proj.weight",
    "attn_q_norm.weight": "self_attn.q_norm.weight", "attn_k_norm.weight": "self_attn.k_norm.weight",
    "attn_qkv.weight": "linear_attn.in_proj_qkv.weight", "attn_gate.weight": "linear_attn.in_proj_z.weight",
    "ssm_beta.weight": "linear_attn.in_proj_b.weight", "ssm_alpha.weight": "linear_attn.in_proj_a.weight",
    "ssm_conv1d.weight": "linear_attn.conv1d.weight", "ssm_a": "linear_attn.A_log",
    "ssm_dt.bias": "linear_attn.dt_bias", "ssm_norm.weight": "linear_attn.norm.weight",
    "ssm_out.weight": "linear_attn.out_proj.weight",
    "ffn_gate_inp.weight": "mlp.gate.weight", "ffn_gate_inp_shexp.weight": "mlp.shared_expert_gate.weight",
    "ffn_gate_exps.weight": "mlp.experts.gate_proj", "ffn_up_exps.weight": "mlp.experts.up_proj",
    "ffn_down_exps.weight": "mlp.experts.down_proj", "ffn_gate_shexp.weight": "mlp.shared_expert.gate_proj.weight",
    "ffn_up_shexp.weight": "mlp.shared_expert.up_proj.weight",
    "ffn_down_shexp.weight": "mlp.shared_expert.down_proj.weight",
}
MTP = {"nextn.eh_proj.weight": "fc.weight", "nextn.enorm.weight": "pre_fc_norm_embedding.weight",
       "nextn.hnorm.weight": "pre_fc_norm_hidden.weight", "nextn.shared_head_norm.weight": "norm.weight"}
TOP = {"token_embd.weight": "model.language_model.embed_tokens.weight",
       "output_norm.weight": "model.language_model.norm.weight", "output.weight": "lm_head.weight"}
VISION_BLOCK = {"ln1": "norm1", "ln2": "norm2", "attn_qkv": "attn.qkv", "attn_out": "attn.proj",
                "ffn_up": "mlp.linear_fc1", "ffn_down": "mlp.linear_fc2"}
VISION = {"mm.0": "merger.linear_fc1", "mm.2": "merger.linear_fc2", "v.post_ln": "merger.norm",
          "v.patch_embd": "patch_embed.proj", "v.position_embd": "pos_embed"}


class Model:
    """Metadata of a GGUF file by the last part of the key."""

    def __init__(self, path):
        self.file = Reader(Path(path).read_bytes())
        self.tensors = self.file.tensors

    def get(self, key, default=None):
        return self.file.metadata[key][1] if key in self.file.metadata else default

    def n(self, key, default=None):
        return self.get(self.text("general.architecture") + "." + key, default)

    def text(self, key):
        return self.get(key).decode()


# ---- values ----

def narrow(data):
    """float32 bytes to bf16 bytes; None if a value is not exact."""
    bits = array.array("I", bytes(data))
    if any(b & 0xFFFF for b in bits):
        return None
    return array.array("H", [b >> 16 for b in bits]).tobytes()


def floats(data):
    return array.array("f", bytes(data))


def stored(values):
    """float32 values as bf16 if that is exact, else as they are: (type, bytes)."""
    data = array.array("f", values).tobytes()
    short = narrow(data)
    return (BF16, short) if short is not None else (F32, data)


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def log_of_decay(value):
    """The shortest x with float32(-exp(x)) == value: bf16 if there is one."""
    x = math.log(-value)
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    near = [b << 16 for b in range((bits >> 16) - 1, (bits >> 16) + 3)] + list(range(bits - 3, bits + 4))
    for b in near:
        candidate = struct.unpack("<f", struct.pack("<I", b))[0]
        if f32(-math.exp(candidate)) == value:
            return candidate
    return f32(x)


def grouped(unit, heads, per_key):
    """Order of the heads of a checkpoint, from tiled ones: a list of (place in the GGUF tensor)."""
    keys = heads // per_key
    return [(j * keys + k) * unit + i for k in range(keys) for j in range(per_key) for i in range(unit)]


def rows_by(data, order, row_bytes):
    return b"".join(bytes(data[i * row_bytes:(i + 1) * row_bytes]) for i in order)


# ---- tensors ----

def text_name(name, layers):
    if name in TOP:
        return TOP[name]
    _, block, rest = name.split(".", 2)
    if rest in MTP:
        return "mtp." + MTP[rest]
    block = int(block)
    place = f"mtp.layers.{block - layers}" if block >= layers else f"model.language_model.layers.{block}"
    return f"{place}.{LAYER[rest]}"


def text_tensor(m, name, dims, kind, data):
    """(type, shape, bytes) of a tensor of the checkpoint."""
    key_heads, value_heads, state = m.n("ssm.group_count"), m.n("ssm.time_step_rank"), m.n("ssm.state_size")
    per_key, shape = value_heads // key_heads, list(reversed(dims))
    qk = 2 * key_heads * state
    row = dims[0] * (4 if kind == F32 else 2)
    if name.endswith("attn_qkv.weight") or name.endswith("ssm_conv1d.weight"):
        order = list(range(qk)) + [qk + i for i in grouped(state, value_heads, per_key)]
        data = rows_by(data, order, row)
    elif name.endswith("attn_gate.weight"):
        data = rows_by(data, grouped(state, value_heads, per_key), row)
    elif name.endswith(("ssm_beta.weight", "ssm_alpha.weight")):
        data = rows_by(data, grouped(1, value_heads, per_key), row)
    elif name.endswith(("ssm_a", "ssm_dt.bias")):
        data = rows_by(data, grouped(1, value_heads, per_key), 4)
    elif name.endswith("ssm_out.weight"):
        head, order = 2 * state, grouped(1, value_heads, per_key)
        data = b"".join(rows_by(data[r * row:(r + 1) * row], order, head) for r in range(dims[1]))
    if name.endswith("ssm_a"):
        kind, data = stored([log_of_decay(v) for v in floats(data)])
    elif name.endswith("norm.weight") and not name.endswith("ssm_norm.weight"):
        kind, data = stored([v - 1 for v in floats(data)])
    elif kind == F32:
        kind, data = stored(floats(data))
    if name.endswith("ssm_conv1d.weight"):
        shape = [shape[0], 1, shape[1]]
    return kind, shape, bytes(data)


def vision_tensors(m):
    for name, (dims, kind, data) in m.tensors.items():
        if name == "v.patch_embd.weight.1":
            continue
        stem, suffix = name.rsplit(".", 1)
        if stem.startswith("v.blk."):
            _, _, block, rest = stem.split(".", 3)
            target = f"blocks.{block}.{VISION_BLOCK[rest]}"
        else:
            target = VISION[stem]
        shape = list(reversed(dims))
        if name == "v.patch_embd.weight":
            second = m.tensors["v.patch_embd.weight.1"][2]
            plane = 4 * dims[0] * dims[1]
            data = b"".join(bytes(d[i * plane:(i + 1) * plane]) for i in range(dims[2] * dims[3])
                            for d in (data, second))
            shape = [dims[3], dims[2], 2, dims[1], dims[0]]
        if kind == F32:
            kind, data = stored(floats(data))
        yield f"model.visual.{target}.{suffix}", (kind, shape, bytes(data))


def experts_of(tensors):
    """Experts as published: gate and up of a layer in one tensor, those of the MTP block one by one."""
    for stem in [name.removesuffix("gate_proj") for name in tensors if name.endswith("mlp.experts.gate_proj")]:
        parts = {p: tensors.pop(f"{stem}{p}_proj") for p in ("gate", "up", "down")}
        experts = parts["down"][1][0]
        split = {p: [data[len(data) * e // experts:len(data) * (e + 1) // experts] for e in range(experts)]
                 for p, (_, _, data) in parts.items()}
        if stem.startswith("mtp."):
            for p, (kind, shape, _) in parts.items():
                for e in range(experts):
                    tensors[f"{stem}{e}.{p}_proj.weight"] = kind, shape[1:], split[p][e]
            continue
        kind, (_, rows, columns), _ = parts["gate"]
        both = b"".join(gate + up for gate, up in zip(split["gate"], split["up"]))
        tensors[stem + "gate_up_proj"] = kind, [experts, 2 * rows, columns], both
        tensors[stem + "down_proj"] = parts["down"]
    return tensors


def tensors_of(m, mmproj):
    layers = m.n("block_count") - m.n("nextn_predict_layers", 0)
    out = {text_name(name, layers): text_tensor(m, name, *rest) for name, rest in m.tensors.items()}
    out = experts_of(out)
    out.update(vision_tensors(mmproj) if mmproj else {})
    return dict(sorted(out.items()))


def widen(kind, shape, data):
    """bf16 to float32, all values at once."""
    if kind != BF16:
        return kind, shape, data
    out = bytearray(2 * len(data))
    out[2::4], out[3::4] = data[0::2], data[1::2]
    return F32, shape, bytes(out)


def write_safetensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (kind, shape, data) in tensors.items():
        kind = kind if isinstance(kind, str) else TYPE_NAMES[kind]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            f.write(data)


def write_shards(directory, tensors, n):
    names, index = list(tensors), {}
    for i in range(n):
        file = f"model-{i + 1:05}-of-{n:05}.safetensors"
        part = names[len(names) * i // n:len(names) * (i + 1) // n]
        write_safetensors(directory / file, {name: tensors[name] for name in part})
        index.update(dict.fromkeys(part, file))
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


# ---- JSON files ----

def config_of(m, mmproj):
    mtp = m.n("nextn_predict_layers", 0)
    text = {
        "num_hidden_layers": m.n("block_count") - mtp, "mtp_num_hidden_layers": mtp,
        "hidden_size": m.n("embedding_length"), "intermediate_size": m.n("feed_forward_length"),
        "num_attention_heads": m.n("attention.head_count"), "num_key_value_heads": m.n("attention.head_count_kv"),
        "head_dim": m.n("attention.key_length"), "max_position_embeddings": m.n("context_length"),
        "linear_conv_kernel_dim": m.n("ssm.conv_kernel"), "linear_key_head_dim": m.n("ssm.state_size"),
        "linear_value_head_dim": m.n("ssm.state_size"), "linear_num_key_heads": m.n("ssm.group_count"),
        "linear_num_value_heads": m.n("ssm.time_step_rank"), "full_attention_interval": 4, "rms_norm_eps": 1e-6,
        "vocab_size": m.tensors["token_embd.weight"][0][1], "model_type": "qwen3_5_text",
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25,
                            "mrope_section": [11, 11, 10], "mrope_interleaved": True},
        "tie_word_embeddings": "output.weight" not in m.tensors,
    }
    if m.n("expert_count"):
        del text["intermediate_size"]
        text |= {"num_experts": m.n("expert_count"), "num_experts_per_tok": m.n("expert_used_count"),
                 "moe_intermediate_size": m.n("expert_feed_forward_length"),
                 "shared_expert_intermediate_size": m.n("expert_shared_feed_forward_length")}
    stem = "Qwen3_5Moe" if m.n("expert_count") else "Qwen3_5"
    config = {"architectures": [stem + ("ForConditionalGeneration" if mmproj else "ForCausalLM")],
              "model_type": "qwen3_5", "text_config": text, "tie_word_embeddings": text["tie_word_embeddings"]}
    if mmproj:
        v = "clip.vision."
        config["vision_config"] = {
            "depth": mmproj.get(v + "block_count"), "hidden_size": mmproj.get(v + "embedding_length"),
            "intermediate_size": mmproj.get(v + "feed_forward_length"),
            "num_heads": mmproj.get(v + "attention.head_count"), "out_hidden_size": mmproj.get(v + "projection_dim"),
            "num_position_embeddings": 2304, "patch_size": 16, "temporal_patch_size": 2, "spatial_merge_size": 2,
            "in_channels": 3, "deepstack_visual_indexes": [],
        }
    return config


def write_tokenizer(directory, m, plain):
    tokens = [t.decode() for t in m.get("tokenizer.ggml.tokens")]
    types = m.get("tokenizer.ggml.token_type")
    merges = [t.decode() for t in m.get("tokenizer.ggml.merges")]
    vocab = {t: i for i, (t, k) in enumerate(zip(tokens, types)) if k == 1}
    added = {i: {"content": t, "special": k == 3, "normalized": False}
             for i, (t, k) in enumerate(zip(tokens, types)) if k in (3, 4)}
    config = {"added_tokens_decoder": {str(i): e for i, e in added.items()}, "pretokenize_regex": SPLIT_REGEX,
              "eos_token": tokens[m.get("tokenizer.ggml.eos_token_id")],
              "pad_token": tokens[m.get("tokenizer.ggml.padding_token_id")], "unk_token": None,
              "add_bos_token": m.get("tokenizer.ggml.add_bos_token")}
    if m.get("tokenizer.chat_template"):
        (directory / "chat_template.jinja").write_bytes(m.get("tokenizer.chat_template"))
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    if plain:
        (directory / "vocab.json").write_text(json.dumps(vocab))
        (directory / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
        return
    split = {"type": "Split", "pattern": {"Regex": SPLIT_REGEX}, "behavior": "Isolated", "invert": False}
    tokenizer = {
        "added_tokens": [{"id": i, **e} for i, e in list(added.items())[:-7]],  # as published: 7 are in the config alone
        "normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split]},
        "model": {"type": "BPE", "vocab": vocab, "merges": [x.split(" ") for x in merges]}}
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))


def make(directory, gguf, mmproj=None, shards=1, wide=False, plain_tokenizer=False, change=None):
    """Writes the directory. change(tensors, config) may alter both first."""
    directory = Path(directory)
    os.makedirs(directory)
    m, vision = Model(gguf), Model(mmproj) if mmproj else None
    tensors, config = tensors_of(m, vision), config_of(m, vision)
    if wide:
        tensors = {name: widen(*t) for name, t in tensors.items()}
    if change:
        change(tensors, config)
    if shards == 1:
        write_safetensors(directory / "model.safetensors", tensors)
    else:
        write_shards(directory, tensors, shards)
    (directory / "config.json").write_text(json.dumps(config))
    write_tokenizer(directory, m, plain_tokenizer)
    if vision:
        (directory / "preprocessor_config.json").write_text(
            json.dumps({"image_mean": [0.5] * 3, "image_std": [0.5] * 3}))
    if m.get("general.license"):
        tags = "".join(f"pipeline_tag: {t.decode()}\n" for t in m.get("general.tags"))
        (directory / "README.md").write_text(f"---\nlicense: {m.text('general.license')}\n{tags}---\n# model\n")
    return directory


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: checkpoint.py OUT_DIR MODEL.gguf [MMPROJ.gguf]")
    make(sys.argv[1], sys.argv[2], *sys.argv[3:])
