# SPDX-License-Identifier: Apache-2.0
"""Shared code of the golden scripts. MOTE_ORIGINALS is the directory they read from and write to."""
import json
import os
from pathlib import Path

import numpy as np

ORIGINALS = Path(os.environ["MOTE_ORIGINALS"])
MODEL = ORIGINALS / "models/mote-tiny"
GOLDEN = ORIGINALS / "golden"
STOP = (7936, 7938)  # <|endoftext|> and <|im_end|> of mote-tiny


def save(directory, name, array):
    """Writes a float32, int32 or uint8 .npy in C order. Returns its entry for index.json."""
    a = np.asarray(array.detach().cpu() if hasattr(array, "detach") else array)
    a = a.astype(np.float32) if a.dtype.kind == "f" else a if a.dtype == np.uint8 else a.astype(np.int32)
    Path(directory).mkdir(parents=True, exist_ok=True)
    np.save(Path(directory) / f"{name}.npy", np.ascontiguousarray(a))
    return {"file": f"{name}.npy", "dtype": str(a.dtype), "shape": list(a.shape)}


def write_json(path, obj):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(obj, f, ensure_ascii=False, indent=1)
        f.write("\n")


def load_tiny(**text_over):
    """mote-tiny with bf16 weights converted to fp32, eager attention."""
    from safetensors.torch import load_file
    from model import Tiny, make_config
    cfg = make_config(**text_over)
    cfg._attn_implementation = "eager"
    tiny = Tiny(cfg)
    tiny.load_state({k: v.float() for k, v in load_file(MODEL / "model.safetensors").items()})
    tiny.eval()
    return tiny


def encoder():
    import data
    return data.Encoder(MODEL)


def prompt_kwargs(enc, prompt, images=(), videos=()):
    """Model inputs of a rendered prompt (ids, patches, grids) as the library expects them."""
    import torch
    ids, pos, _, px, grids = enc.prompt_inputs(prompt, images, videos)
    kw = {"input_ids": torch.tensor([ids])}
    ni = len(images)
    if px:
        kw["mm_token_type_ids"] = torch.tensor([[1 if i == enc.im else 2 if i == enc.vid else 0 for i in ids]])
    if ni:
        kw["pixel_values"] = torch.tensor(np.concatenate(px[:ni]))
        kw["image_grid_thw"] = torch.tensor(grids[:ni])
    if len(videos):
        kw["pixel_values_videos"] = torch.tensor(np.concatenate(px[ni:]))
        kw["video_grid_thw"] = torch.tensor(grids[ni:])
    return kw, np.array(pos).T


def greedy(hf, kw, n, stop=True):
    """Greedy tokens, logits of the first step, and the smallest gap between the best two logits of all steps."""
    import torch
    with torch.no_grad():
        hf.model.rope_deltas = None
        out = hf(**kw, use_cache=True)
        first, ids, gap = out.logits[0, -1].clone(), [], float("inf")
        logits, cache = out.logits[0, -1], out.past_key_values
        for _ in range(n):
            top = logits.topk(2).values
            gap = min(gap, float(top[0] - top[1]))
            ids.append(int(logits.argmax()))
            if stop and ids[-1] in STOP:
                break
            out = hf(input_ids=torch.tensor([[ids[-1]]]), past_key_values=cache, use_cache=True)
            logits, cache = out.logits[0, -1], out.past_key_values
    return ids, first, gap
