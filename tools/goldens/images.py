#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""images.py OUT - the questions about images and videos of mote-tiny's model card, with answers.

One JSON object per line: task, question, files, right answer, and the answer of the model (greedy, fp32). Images have few
colours, so palette PNG files are exact. A video is stored as frames and as an animated GIF.
"""
import base64
import io
import json
import random
import sys
from collections import defaultdict

from common import encoder, greedy, load_tiny, prompt_kwargs
import data

SEED, TRIES, EACH = 987654321, 6000, 10  # of the card


def base64_of(save):
    out = io.BytesIO()
    save(out)
    return base64.b64encode(out.getvalue()).decode()


def few_colours(image):
    p = image.quantize(256, dither=0)
    assert list(p.convert("RGB").getdata()) == list(image.getdata())
    return p


def png(image):
    return base64_of(lambda out: few_colours(image).save(out, "PNG", optimize=True))


def gif(video):
    frames = [few_colours(f) for f in video["frames"]]
    return base64_of(lambda out: frames[0].save(out, "GIF", save_all=True, append_images=frames[1:], disposal=1,
                                              duration=int(1000 / video["fps"])))


def samples():
    r, chosen = random.Random(SEED), defaultdict(list)
    for _ in range(TRIES):
        s = data.generate(r)
        if (s.get("images") or s.get("videos")) and len(chosen[s["task"]]) < EACH:
            chosen[s["task"]].append(s)
    return [s for task in sorted(chosen) for s in chosen[task]]


def line_of(s, enc, tiny):
    prompt, answer = enc.split(s)
    kw, _ = prompt_kwargs(enc, prompt, s["images"], s["videos"])
    ids, _, gap = greedy(tiny.hf, kw, len(enc.ids(answer)) + 40)
    line = {"task": s["task"], "question": s["messages"][-2]["content"][-1]["text"],
            "right": s["messages"][-1]["content"].strip(),
            "said": enc.tok.decode([i for i in ids if i not in (7936, 7938)], skip_special_tokens=False).strip(),
            "gap": round(gap, 4), "images": [png(i) for i in s["images"]]}
    for video in s["videos"]:
        line["film"] = {"fps": video["fps"], "frames": [png(f) for f in video["frames"]], "gif": gif(video)}
    return line


def main():
    enc, tiny = encoder(), load_tiny()
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        for s in samples():
            line = line_of(s, enc, tiny)
            f.write(json.dumps(line) + "\n")
            print(line["task"], line["said"] == line["right"], line["said"], line["gap"], flush=True)


main()
