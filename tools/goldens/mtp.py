#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""golden/mtp: the MTP head of mote-tiny in fp32: rows, chains, acceptance of greedy drafts."""
import random

import torch

from common import GOLDEN, encoder, greedy, load_tiny, prompt_kwargs, save, write_json
import data


class Drafter:
    """Row p pairs E[x_{p+1}] with h_p and sits at RoPE position p. `rows` are the target-derived pairs so far."""

    def __init__(self, tiny):
        self.t = tiny

    @torch.no_grad()
    def run(self, embeds, hidden):
        n = embeds.shape[1]
        pos = torch.arange(n).view(1, 1, -1).expand(3, 1, -1)
        cs = self.t.text.rotary_emb(embeds, pos)
        mask = torch.full((n, n), float("-inf")).triu(1)[None, None]
        y = self.t.mtp(embeds, hidden, cs, mask)
        return y, self.t.hf.lm_head(y)

    @torch.no_grad()
    def chain(self, ids, h, depth):
        """ids x_0..x_N (x_N not yet evaluated by the main model), h_0..h_{N-1}; drafts x_{N+1}.. greedily."""
        e = self.t.text.embed_tokens(torch.tensor([ids[1:]]))
        h = h.clone()
        drafts, logits = [], []
        for _ in range(depth):
            y, lg = self.run(e, h)
            logits.append(lg[0, -1])
            drafts.append(int(lg[0, -1].argmax()))
            e = torch.cat([e, self.t.text.embed_tokens(torch.tensor([[drafts[-1]]]))], 1)
            h = torch.cat([h, y[:, -1:]], 1)
        return drafts, torch.stack(logits), y


def main():
    enc, tiny = encoder(), load_tiny()
    out = GOLDEN / "mtp"
    d = Drafter(tiny)
    r = random.Random(21)
    index = {"prompts": [], "acceptance": {}}
    with torch.no_grad():
        for i, gen in enumerate((data.gen_story, data.gen_json, data.gen_needle)):
            prompt, _ = enc.split(gen(r))
            ids = enc.ids(prompt)
            res = tiny.hf.model(input_ids=torch.tensor([ids]), use_cache=False).last_hidden_state
            nxt = int(tiny.hf.lm_head(res[0, -1]).argmax())
            e = tiny.text.embed_tokens(torch.tensor([ids[1:]]))
            y, lg = d.run(e, res[:, :-1])
            drafts, logits, _ = d.chain(ids + [nxt], res, 3)
            rows = sorted({0, 1, len(ids) // 2, len(ids) - 3, len(ids) - 2})
            index["prompts"].append({
                "ids": save(out, f"p{i}.ids", ids), "hidden": save(out, f"p{i}.hidden", res[0]), "next_token": nxt,
                "rows": rows, "row_output": save(out, f"p{i}.row_output", y[0, rows]), "row_logits": save(out, f"p{i}.row_logits", lg[0, rows]),
                "chain_drafts": drafts, "chain_logits": save(out, f"p{i}.chain_logits", logits)})
    # acceptance on greedy continuations
    r = random.Random(77)
    hit, tot, cycles, emitted, per_task, n = [0, 0, 0], [0, 0, 0], 0, 0, {}, 0
    while n < 50:
        s = data.generate(r)
        if "text" in s or s["images"] or s["videos"]:
            continue
        n += 1
        prompt, _ = enc.split(s)
        kw, _ = prompt_kwargs(enc, prompt)
        got, _, _ = greedy(tiny.hf, kw, 64)
        p = kw["input_ids"][0].tolist()
        full = p + got
        with torch.no_grad():
            h = tiny.hf.model(input_ids=torch.tensor([full]), use_cache=False).last_hidden_state
        at, done, t = len(p), 0, per_task.setdefault(s["task"], [0, 0])
        while at < len(full) - 1:                            # x_at is sampled, not yet evaluated
            k = min(3, len(full) - 1 - at)
            drafts, _, _ = d.chain(full[:at + 1], h[:, :at], k)
            good = 0
            for j in range(k):
                tot[j] += 1
                if drafts[j] != full[at + 1 + j]:
                    break
                hit[j] += 1
                good += 1
            t[0] += good > 0
            t[1] += 1
            cycles, emitted = cycles + 1, emitted + good + 1
            at += good + 1
    index["acceptance"] = {"continuations": n, "cycles": cycles, "depth": 3, "accepted_given_reached": [round(a / max(b, 1), 4) for a, b in zip(hit, tot)],
                           "reached": tot, "tokens_per_cycle": round(emitted / cycles, 3), "first_draft_by_task": {k: f"{a}/{b}" for k, (a, b) in sorted(per_task.items())}}
    print(index["acceptance"])
    write_json(out / "index.json", index)
    (out / "README.md").write_text(f"""# golden/mtp

The MTP head of mote-tiny (SPEC.md section 3), bf16 weights up-cast to fp32, plain torch. Made by `tools/goldens/mtp.py`.

- `pN.ids`, `pN.hidden` [tokens, 256]: the main model's output after the final norm at every position (the head's input).
- `pN.row_output`, `pN.row_logits`: row p of the head takes E[x_p+1] and hidden[p], at RoPE position p, causal over rows 0..p; its output
  after `mtp.norm` and its logits, which predict x_p+2. Rows listed in the index.
- `next_token` = greedy choice of the main model after the prompt. `chain_drafts` / `chain_logits` [3, 8192]: drafts from
  (next_token, hidden[last]), then (draft 1, own output), then (draft 2, own output). Rows before are those of the prompt.
  A constant shift of all RoPE positions changes nothing.
- `acceptance` in `index.json`: greedy speculation with 3 drafts on 50 chat continuations: share accepted at each depth given that the depth was reached
  {index["acceptance"]["accepted_given_reached"]}, {index["acceptance"]["tokens_per_cycle"]} tokens per main-model pass.

Tolerance: 2e-3 absolute on logits, 1e-3 on outputs.
""")


if __name__ == "__main__":
    main()
