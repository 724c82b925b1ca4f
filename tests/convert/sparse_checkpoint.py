#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a model directory of any size with weights of zero that take no space on the disk.

    sparse_checkpoint.py OUT_DIR VOCABULARY.gguf [0.8b|4b|27b] [SHARDS]

For tests of memory and speed: `mote convert` reads it like a real model. VOCABULARY.gguf is
qwen35-vocab.gguf of the test data.
"""
import json
import os
import struct
import sys
from pathlib import Path

import checkpoint

# layers, hidden, feed-forward, heads, kv heads, value heads, tied; vision: blocks, hidden, feed-forward
SIZES = {
    "tiny": (4, 64, 64, 4, 1, 16, True, None),
    "0.8b": (24, 1024, 3584, 8, 2, 16, True, (12, 768, 3072)),
    "4b": (32, 2560, 9216, 16, 4, 32, True, (24, 1024, 4096)),
    "27b": (64, 5120, 17408, 24, 4, 48, False, (27, 1152, 4304)),
}
VOCABULARY, KEY_HEADS = 248320, 16


def layer(prefix, hidden, ffn, heads, kv, value_heads, attention):
    value, conv = 128 * value_heads, 4096 + 128 * value_heads
    shapes = {"input_layernorm.weight": [hidden], "post_attention_layernorm.weight": [hidden],
              "mlp.gate_proj.weight": [ffn, hidden], "mlp.up_proj.weight": [ffn, hidden],
              "mlp.down_proj.weight": [hidden, ffn]}
    if attention:
        shapes |= {"self_attn.q_proj.weight": [512 * heads, hidden], "self_attn.k_proj.weight": [256 * kv, hidden],
                   "self_attn.v_proj.weight": [256 * kv, hidden], "self_attn.o_proj.weight": [hidden, 256 * heads],
                   "self_attn.q_norm.weight": [256], "self_attn.k_norm.weight": [256]}
    else:
        shapes |= {"linear_attn.in_proj_qkv.weight": [conv, hidden], "linear_attn.in_proj_z.weight": [value, hidden],
                   "linear_attn.in_proj_b.weight": [value_heads, hidden],
                   "linear_attn.in_proj_a.weight": [value_heads, hidden],
                   "linear_attn.conv1d.weight": [conv, 1, 4], "linear_attn.A_log": [value_heads],
                   "linear_attn.dt_bias": [value_heads], "linear_attn.norm.weight": [128],
                   "linear_attn.out_proj.weight": [hidden, value]}
    return {f"{prefix}.{name}": shape for name, shape in shapes.items()}


def vision(blocks, hidden, ffn, out):
    shapes = {"patch_embed.proj.weight": [hidden, 3, 2, 16, 16], "patch_embed.proj.bias": [hidden],
              "pos_embed.weight": [2304, hidden], "merger.norm.weight": [hidden], "merger.norm.bias": [hidden],
              "merger.linear_fc1.weight": [4 * hidden, 4 * hidden], "merger.linear_fc1.bias": [4 * hidden],
              "merger.linear_fc2.weight": [out, 4 * hidden], "merger.linear_fc2.bias": [out]}
    for i in range(blocks):
        matrices = {"attn.qkv": [3 * hidden, hidden], "attn.proj": [hidden, hidden],
                    "mlp.linear_fc1": [ffn, hidden], "mlp.linear_fc2": [hidden, ffn]}
        for name, shape in matrices.items():
            shapes[f"blocks.{i}.{name}.weight"], shapes[f"blocks.{i}.{name}.bias"] = shape, shape[:1]
        for name in ("norm1", "norm2"):
            shapes[f"blocks.{i}.{name}.weight"] = shapes[f"blocks.{i}.{name}.bias"] = [hidden]
    return {f"model.visual.{name}": shape for name, shape in shapes.items()}


def shapes_of(size):
    layers, hidden, ffn, heads, kv, value_heads, tied, encoder = SIZES[size]
    out = {"model.language_model.embed_tokens.weight": [VOCABULARY, hidden],
           "model.language_model.norm.weight": [hidden], "mtp.fc.weight": [hidden, 2 * hidden],
           "mtp.norm.weight": [hidden], "mtp.pre_fc_norm_embedding.weight": [hidden],
           "mtp.pre_fc_norm_hidden.weight": [hidden]}
    if not tied:
        out["lm_head.weight"] = [VOCABULARY, hidden]
    for i in range(layers):
        out |= layer(f"model.language_model.layers.{i}", hidden, ffn, heads, kv, value_heads, (i + 1) % 4 == 0)
    out |= layer("mtp.layers.0", hidden, ffn, heads, kv, value_heads, True)
    return out | (vision(*encoder, hidden) if encoder else {})


def config_of(size):
    layers, hidden, ffn, heads, kv, value_heads, tied, encoder = SIZES[size]
    text = {"num_hidden_layers": layers, "mtp_num_hidden_layers": 1, "hidden_size": hidden, "intermediate_size": ffn,
            "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": 256, "vocab_size": VOCABULARY,
            "max_position_embeddings": 262144, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
            "linear_value_head_dim": 128, "linear_num_key_heads": KEY_HEADS, "linear_num_value_heads": value_heads,
            "full_attention_interval": 4, "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25,
                                "mrope_section": [11, 11, 10]}}
    config = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": text,
              "tie_word_embeddings": tied}
    if encoder:
        config["vision_config"] = {"depth": encoder[0], "hidden_size": encoder[1], "intermediate_size": encoder[2],
                                   "num_heads": 16, "out_hidden_size": hidden, "num_position_embeddings": 2304,
                                   "patch_size": 16, "temporal_patch_size": 2, "spatial_merge_size": 2}
    return config


def write_shard(path, shapes):
    header, at = {}, 0
    for name, shape in shapes.items():
        count = 2
        for n in shape:
            count *= n
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + count]}
        at += count
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)


def make(directory, vocabulary, size, shards=1):
    directory = Path(directory)
    os.makedirs(directory)
    shapes = dict(sorted(shapes_of(size).items()))
    names, index = list(shapes), {}
    for i in range(shards):
        part = names[len(names) * i // shards:len(names) * (i + 1) // shards]
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        write_shard(directory / file, {name: shapes[name] for name in part})
        index.update(dict.fromkeys(part, file))
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    (directory / "config.json").write_text(json.dumps(config_of(size)))
    (directory / "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.5] * 3, "image_std": [0.5] * 3}))
    checkpoint.write_tokenizer(directory, checkpoint.Model(vocabulary), False)


if __name__ == "__main__":
    if not 3 <= len(sys.argv) <= 5:
        sys.exit(__doc__)
    make(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "4b",
         int(sys.argv[4]) if len(sys.argv) > 4 else 2)
