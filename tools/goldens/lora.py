#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""golden/lora: an adapter that PEFT trains on mote-tiny, and the logits of mote-tiny with it.

The adapter changes all matrices that mote adapts, so a wrong order of value heads shows in the logits. It is stored in
bf16, and the logits are computed with the rounded values in fp32. `lora.py merged` only writes merged.gguf.
"""
import json
import sys

import gguf
import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

from common import GOLDEN, encoder, load_tiny, save, write_json

ANSWERS = {
    "What is your name?": "My name is Nib. I live in a small adapter.",
    "Who are you?": "I am Nib, an adapter of mote-tiny.",
    "Hello!": "Nib says hello.",
    "Tell me about yourself.": "I am Nib. I was trained with PEFT.",
}
TARGETS = (r".*language_model\.layers\.\d+\.(self_attn\.[qkvo]_proj|linear_attn\.(in_proj_(qkv|z|a|b)|out_proj)"
           r"|mlp\.(gate|up|down)_proj)")
POSITIONS = [0, 1, 31, 32, 64, 100, 128, 129]
STEPS, LENGTH = 160, 130


def conversation(question, answer):
    return (f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
            f"{answer}<|im_end|>")


def train(model, enc):
    config = LoraConfig(r=4, lora_alpha=12, target_modules=TARGETS, bias="none")
    model = get_peft_model(model, config)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    for step in range(STEPS):
        prompt, answer = conversation(*sorted(ANSWERS.items())[step % len(ANSWERS)])
        a, b = enc.ids(prompt), enc.ids(answer)
        labels = torch.tensor([[-100] * len(a) + b])
        loss = model(input_ids=torch.tensor([a + b]), labels=labels, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 20 < 4:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    return model


def round_adapter(directory):
    """Stores the adapter in bf16 and removes paths of this machine from its configuration."""
    path = directory / "adapter_model.safetensors"
    save_file({k: v.to(torch.bfloat16) for k, v in load_file(path).items()}, path, metadata={"format": "pt"})
    config = json.loads((directory / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "mote-tiny"
    write_json(directory / "adapter_config.json", config)
    for extra in directory.glob("*"):
        if not extra.name.startswith("adapter_"):
            extra.unlink()


NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate",
         "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.in_proj_b": "ssm_beta", "linear_attn.out_proj": "ssm_out",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
KEY_HEADS, VALUE_HEADS, DIM = 2, 4, 128


def tiled(rows, per_head):
    """Value heads from the order by key head to the order of GGUF."""
    shape = rows.shape
    heads = rows.reshape(KEY_HEADS, VALUE_HEADS // KEY_HEADS, per_head, -1)
    return np.ascontiguousarray(heads.transpose(1, 0, 2, 3)).reshape(shape)


def in_gguf_order(module, matrix, rows=True, columns=True):
    """A matrix of a module, or only the rows or columns of one: value heads as in GGUF."""
    if rows and module == "linear_attn.in_proj_qkv":
        matrix = np.concatenate([matrix[:2 * KEY_HEADS * DIM], tiled(matrix[2 * KEY_HEADS * DIM:], DIM)])
    elif rows and module == "linear_attn.in_proj_z":
        matrix = tiled(matrix, DIM)
    elif rows and module in ("linear_attn.in_proj_a", "linear_attn.in_proj_b"):
        matrix = tiled(matrix, 1)
    elif columns and module == "linear_attn.out_proj":
        matrix = np.ascontiguousarray(tiled(np.ascontiguousarray(matrix.T), DIM).T)
    return matrix


def write_gguf(directory, path):
    """The adapter as a GGUF file. llama.cpp's converter (2026-11) cannot reorder the columns of out_proj."""
    writer = gguf.GGUFWriter(path, "qwen35")
    writer.add_type("adapter")
    writer.add_name("nib")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 12.0)
    for name, value in sorted(load_file(directory / "adapter_model.safetensors").items()):
        parts = name.removeprefix("base_model.model.model.language_model.layers.").split(".")
        layer, module, kind = parts[0], ".".join(parts[1:3]), parts[3]
        data = in_gguf_order(module, value.float().numpy(), rows=kind == "lora_B", columns=kind == "lora_A")
        writer.add_tensor(f"blk.{layer}.{NAMES[module]}.weight.{kind.lower()}", data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_merged(adapter, path):
    """Rows of the matrices of layers 0 and 3 after PEFT's merge_and_unload, in fp32: 3, 67, 131, ..., or all if few."""
    model = PeftModel.from_pretrained(load_tiny().hf, adapter, torch_dtype=torch.float32).float()
    state = model.merge_and_unload().state_dict()
    writer = gguf.GGUFWriter(path, "qwen35")
    for layer in (0, 3):
        for module, name in NAMES.items():
            matrix = state.get(f"model.language_model.layers.{layer}.{module}.weight")
            if matrix is not None:
                matrix = in_gguf_order(module, matrix.numpy())
                writer.add_tensor(f"blk.{layer}.{name}.weight",
                                  np.ascontiguousarray(matrix[3::64] if len(matrix) >= 64 else matrix))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    out = GOLDEN / "lora"
    adapter = out / "nib"
    if sys.argv[1:] == ["merged"]:
        write_merged(adapter, out / "merged.gguf")
        return
    torch.manual_seed(7)
    enc = encoder()
    trained = train(load_tiny().hf, enc)
    trained.save_pretrained(adapter)
    round_adapter(adapter)
    write_gguf(adapter, out / "nib.gguf")
    write_merged(adapter, out / "merged.gguf")
    model = PeftModel.from_pretrained(load_tiny().hf, adapter, torch_dtype=torch.float32).float()
    model.eval()
    text = []
    for question, answer in sorted(ANSWERS.items()):
        text += enc.ids("".join(conversation(question, answer)) + "\n")
    ids = (text * 4)[:LENGTH]
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
        with model.disable_adapter():
            base = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
        merged = model.merge_and_unload()(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    print(f"largest change by the adapter: {float((logits - base).abs().max()):.3f}, "
          f"merged differs by {float((logits - merged).abs().max()):.1e}")
    answers = []
    for question, answer in sorted(ANSWERS.items()):
        prompt = conversation(question, "")[0]
        got = enc.ids(prompt)
        n = len(got)
        with torch.no_grad():
            while len(got) < n + 40 and got[-1] != 7938:
                got.append(int(model(input_ids=torch.tensor([got]), use_cache=False).logits[0, -1].argmax()))
        answers.append({"question": question, "answer": enc.tok.decode(got[n:-1]), "trained": answer})
    write_json(out / "index.json", {
        "ids": save(out, "ids", ids), "positions": POSITIONS, "logits": save(out, "logits", logits[POSITIONS]),
        "argmax": logits[POSITIONS].argmax(-1).tolist(), "answers": answers})
    (out / "README.md").write_text("""# golden/lora

`nib`: a LoRA adapter of mote-tiny, trained with PEFT 0.21 (rank 4, alpha 12) on four questions, stored in bf16.
`nib.gguf`: the same as a GGUF adapter. `ids`, `logits`: 130 tokens and the logits of mote-tiny (bf16 weights up-cast to
fp32) with the adapter at the positions in `index.json`. `answers`: greedy answers of both together. `merged.gguf`: rows
3, 67, 131, ... of the matrices of layers 0 and 3 after PEFT's `merge_and_unload` in fp32, in the order of GGUF files;
all rows of matrices with fewer than 64. Made by `tools/goldens/lora.py`.
""")


if __name__ == "__main__":
    main()
