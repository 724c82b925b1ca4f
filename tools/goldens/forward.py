#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""golden/forward: logits, layer outputs, states and greedy continuations of mote-tiny in fp32."""
import random

import torch

from common import GOLDEN, encoder, greedy, load_tiny, prompt_kwargs, save, write_json
import data

LENGTHS = [1, 2, 5, 63, 64, 65, 127, 128, 129, 300, 700]


def main():
    enc, tiny = encoder(), load_tiny()
    out = GOLDEN / "forward"
    r = random.Random(5)
    text = []
    while len(text) < 900:                                   # chat turns and prose, one after the other
        s = data.generate(r)
        if s.get("images") or s.get("videos"):
            continue
        text += enc.ids(s["text"] if "text" in s else "".join(enc.split(s)) + "\n")
    index = {"prompts": [], "model": "models/mote-tiny"}
    with torch.no_grad():
        for n in LENGTHS:
            ids = text[:n]
            logits = tiny.hf(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
            pos = list(range(n)) if n <= 65 else sorted({0, 1, 2, 31, 62, 63, 64, 65, n // 2, n - 65, n - 2, n - 1})
            index["prompts"].append({"length": n, "ids": save(out, f"len{n}.ids", ids), "positions": pos,
                                     "logits": save(out, f"len{n}.logits", logits[pos]), "argmax": logits[pos].argmax(-1).tolist()})
        # one prompt in detail
        ids = torch.tensor([text[200:330]])
        index["detail"] = {"ids": save(out, "detail.ids", ids[0]), "layers": [], "states": {}}
        layer_out = []
        hooks = [l.register_forward_hook(lambda m, a, o: layer_out.append(o[0].clone())) for l in tiny.text.layers]
        embeds = tiny.text.embed_tokens(ids)[0]
        res = tiny.hf.model(input_ids=ids, use_cache=True)
        index["detail"]["embeddings"] = save(out, "detail.embeddings", embeds)
        for i, h in enumerate(layer_out):
            index["detail"]["layers"].append(save(out, f"detail.layer{i}", h))
        index["detail"]["final_norm"] = save(out, "detail.final_norm", res.last_hidden_state[0])
        index["detail"]["logits_last"] = save(out, "detail.logits_last", tiny.hf.lm_head(res.last_hidden_state)[0, -1])
        for h in hooks:
            h.remove()
        for n in (64, 130):
            cache = tiny.hf.model(input_ids=ids[:, :n], use_cache=True).past_key_values
            st = {}
            for i, l in enumerate(tiny.text.layers):
                c = cache.layers[i]
                if l.block_type == "linear_attention":
                    conv = cache.get_conv_state(i, state_idx=0)[0]
                    st[f"layer{i}"] = {"conv": save(out, f"state{n}.layer{i}.conv", conv[:, -3:]),
                                       "S": save(out, f"state{n}.layer{i}.S", cache.get_recurrent_state(i, state_idx=0)[0])}
                else:
                    st[f"layer{i}"] = {"k": save(out, f"state{n}.layer{i}.k", c.keys[0]), "v": save(out, f"state{n}.layer{i}.v", c.values[0])}
            index["detail"]["states"][str(n)] = st
    # greedy continuations
    index["greedy"] = []
    r = random.Random(11)
    seen = set()
    while len(index["greedy"]) < 20:
        s = data.generate(r)
        if "text" in s or s["images"] or s["videos"] or (s["task"] in seen and r.random() < 0.8):
            continue
        seen.add(s["task"])
        prompt, answer = enc.split(s)
        kw, _ = prompt_kwargs(enc, prompt)
        got, first, gap = greedy(tiny.hf, kw, 64)
        index["greedy"].append({"task": s["task"], "prompt": prompt, "prompt_ids": kw["input_ids"][0].tolist(), "ids": got,
                                "text": enc.tok.decode(got, skip_special_tokens=False), "expected": answer, "smallest_gap": round(gap, 4)})
    write_json(out / "index.json", index)
    (out / "README.md").write_text("""# golden/forward

mote-tiny (bf16 weights up-cast to fp32), HF transformers 5.22.2, eager attention, torch fallback of the delta rule (chunked, 64).
Made by `tools/goldens/forward.py`. `index.json` lists everything.

- `lenN.ids`, `lenN.logits`: N = 1, 2, 5, 63, 64, 65 with every position; 127, 128, 129, 300, 700 with the positions in the index.
  The prompts are prefixes of one text, so shorter files are also checks of causality. 8192 logits; ids from 7969 are padding.
- `detail.*`: one 130-token prompt: embeddings, output of each of the 8 layers (residual stream), final norm, last logits.
- `stateN.*` after the first 64 and after all 130 tokens: `conv` [1024, 3] (the last three inputs of the convolution, oldest first; HF
  channel order q|k|v), `S` [4 value heads, 128 key, 128 value] in HF head order (value head n uses key head n / 2; a GGUF
  engine holds heads in the order 0, 2, 1, 3), `k`/`v` [1 kv head, tokens, 256] (k after norm and RoPE).
- `greedy` in the index: 20 chat prompts with up to 64 greedy tokens (they end at `<|im_end|>` 7938), with the smallest gap
  between the best two logits: where it is below ~1e-3, another summation order may pick the other token.
- `llama_cpp.json`: the same greedy prompts through llama.cpp (BF16 GGUF, f32 KV cache), compared as text (`tools/goldens/llama_compare.py`).

Tolerance for an fp32 engine: logits 1e-3 absolute (`tools/reference_engine.py`, in float64, meets len65 within 2e-5), hidden states 1e-3, S 1e-4. With bf16 or int8 activations compare
argmax and use ~0.1.
""")


if __name__ == "__main__":
    main()
