#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""golden/rope: positions, M-RoPE indices, YaRN."""
import random

import torch
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5TextRotaryEmbedding

from common import GOLDEN, encoder, load_tiny, prompt_kwargs, save, write_json
import data
from model import ROPE, make_config


def main():
    enc, tiny = encoder(), load_tiny()
    out = GOLDEN / "rope"
    index = {}
    # cos/sin tables
    rot = tiny.text.rotary_emb
    pos = torch.tensor([0, 1, 2, 3, 17, 63, 64, 1000, 4096, 32767, 100000, 262143])
    cos, sin = rot(torch.zeros(1, 1, 1), pos.view(1, 1, -1).expand(3, 1, -1))
    index["text"] = {"positions": pos.tolist(), "inv_freq": save(out, "inv_freq", rot.inv_freq), "cos": save(out, "text.cos", cos[0, :, :32]),
                     "sin": save(out, "text.sin", sin[0, :, :32])}
    p3 = torch.tensor([[5, 5, 7, 100], [5, 6, 9, 40], [5, 8, 7, 3]])
    cos, sin = rot(torch.zeros(1, 1, 1), p3.view(3, 1, -1))
    index["axes"] = {"positions_thw": p3.tolist(), "cos": save(out, "axes.cos", cos[0, :, :32]), "sin": save(out, "axes.sin", sin[0, :, :32])}
    # prompts with media: positions by the library
    r = random.Random(3)
    cases = {"image": [], "two_images": [], "video": [], "image_text_video": []}
    im = lambda k: data.gen_image(r, k)["images"]
    v = lambda: data.gen_video(r)["videos"]
    T = lambda s: {"type": "text", "text": s}
    I, V = {"type": "image"}, {"type": "video"}
    cases["image"] = ([I, T("What do you see?")], im("see"), [])
    cases["two_images"] = ([T("First: "), I, T(" second: "), I, T(" Compare them.")], im("two"), [])
    cases["video"] = ([V, T("Which way does the ball move?")], [], v())
    wide = data.Image.new("RGB", (640, 160), (10, 200, 30))
    cases["image_text_video"] = ([I, T("A picture, then a video: "), V, T("and a wide one "), I, T("done")], im("see") + [wide], v())
    index["prompts"] = {}
    for name, (content, images, videos) in cases.items():
        prompt = enc.render([{"role": "user", "content": content}])
        kw, mine = prompt_kwargs(enc, prompt, images, videos)
        p, delta = tiny.hf.model.get_rope_index(kw["input_ids"], kw["mm_token_type_ids"], kw.get("image_grid_thw"), kw.get("video_grid_thw"))
        assert (p[:, 0].numpy() == mine).all()
        index["prompts"][name] = {"ids": save(out, f"{name}.ids", kw["input_ids"][0]), "positions": save(out, f"{name}.positions", p[:, 0]),
                                  "rope_delta": int(delta[0, 0]), "image_grid_thw": kw["image_grid_thw"].tolist() if images else [],
                                  "video_grid_thw": kw["video_grid_thw"].tolist() if videos else []}
    # YaRN
    index["yarn"] = {}
    for name, factor, orig in (("real_x4", 4.0, 262144), ("real_x2", 2.0, 262144), ("tiny_x4", 4.0, 64)):
        cfg = make_config(rope_parameters={**ROPE, "rope_type": "yarn", "factor": factor, "original_max_position_embeddings": orig})
        rot = Qwen3_5TextRotaryEmbedding(cfg.text_config)
        index["yarn"][name] = {"factor": factor, "original_max_position_embeddings": orig, "inv_freq": save(out, f"yarn.{name}.inv_freq", rot.inv_freq),
                               "attention_scaling": float(rot.attention_scaling)}
    yarn = load_tiny(rope_parameters={**ROPE, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64})
    ids = []
    while len(ids) < 300:
        s = data.gen_needle(r) if len(ids) == 0 else data.gen_story(r)
        ids += enc.ids("".join(enc.split(s)) + "\n")
    ids = torch.tensor([ids[:300]])
    where = [0, 1, 10, 63, 64, 100, 150, 200, 250, 297, 298, 299]
    with torch.no_grad():
        a = yarn.hf(input_ids=ids, use_cache=False).logits[0][where]
        b = tiny.hf(input_ids=ids, use_cache=False).logits[0][where]
    index["yarn"]["logits"] = {"ids": save(out, "yarn.ids", ids[0]), "positions": where, "logits": save(out, "yarn.logits", a),
                               "plain_logits": save(out, "yarn.plain_logits", b), "largest_change": float((a - b).abs().max())}
    write_json(out / "index.json", index)
    print(index["yarn"])
    (out / "README.md").write_text("""# golden/rope

Made by `tools/goldens/rope.py` with HF transformers 5.22.2, fp32.

- `inv_freq` (32), `text.cos/sin` [12 positions, 32] at the positions in the index (equal on all three axes).
- `axes.cos/sin`: four (t, h, w) triples with different axes: checks the interleaved axis map (T: i%3==0 and 30; H: i%3==1; W: i%3==2 below 30).
- `NAME.ids`, `NAME.positions` [3, tokens] and `rope_delta` for four prompts with images and videos. Videos use the timestamp
  form in which the whole `<|vision_start|><|video_pad|><|vision_end|>` triple is replaced (SPEC.md 5.5).
- `yarn.*`: inv_freq and attention scaling for factor 4 and 2 of 262144, and for factor 4 of 64. `yarn.logits` are those of
  mote-tiny (text model) with `{rope_type: yarn, factor: 4, original_max_position_embeddings: 64}` on 300 tokens, at 12 positions;
  `yarn.plain_logits` without YaRN, to see that the option does something (`largest_change`).

Tolerance: inv_freq 1e-6 relative. cos/sin 1e-6 below position 5000; HF multiplies position and inv_freq in fp32, so at 100000 and more its own
angle is off by up to ~1e-2 from exact arithmetic for the fastest frequencies. Positions exact. YaRN logits 2e-3.
""")


if __name__ == "__main__":
    main()
