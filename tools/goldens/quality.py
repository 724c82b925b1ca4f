#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""golden/quality: held-out text and the fp32 perplexity of mote-tiny on it.

Windows like llama-perplexity: chunks of 512 tokens, each from an empty state. Only the predictions of tokens 257 to 511
of a chunk count (the second half). An incomplete last chunk is dropped.
"""
import math
import random

import torch

from common import GOLDEN, encoder, load_tiny, write_json
import data

N = 512


def main():
    enc, tiny = encoder(), load_tiny()
    out = GOLDEN / "quality"
    out.mkdir(parents=True, exist_ok=True)
    r = random.Random(424242)
    parts, size = [], 0
    while size < 50_000:
        t = data.gen_text(r)["text"] if r.random() < 0.8 else data.story(r)
        parts.append(t)
        size += len(t) + 2
    text = "\n\n".join(parts)
    (out / "heldout.txt").write_text(text)
    ids = enc.ids(text)
    nll, count = 0.0, 0
    with torch.no_grad():
        for c in range(len(ids) // N):
            x = torch.tensor([ids[c * N:(c + 1) * N]])
            lp = tiny.hf(input_ids=x, use_cache=False).logits[0, :-1].log_softmax(-1)
            tok = lp.gather(1, x[0, 1:, None])[:, 0]
            nll -= float(tok[N // 2:].double().sum())
            count += len(tok[N // 2:])
    res = {"file": "heldout.txt", "bytes": len(text.encode()), "tokens": len(ids), "chunks": len(ids) // N, "scored": count,
           "nll_per_token": nll / count, "perplexity": math.exp(nll / count)}
    print(res)
    write_json(out / "hf.json", res)


if __name__ == "__main__":
    main()
