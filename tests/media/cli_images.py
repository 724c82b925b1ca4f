#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cli_images.py MOTE DATA - `mote run --image` and `--video` say what the reference says, and what is wrong.

The tower is put beside the model, where the command looks for it; questions, pictures and greedy answers
are the reference's (golden/vision).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MOTE, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
GOLDEN = DATA / "golden" / "vision"


def run(folder, *words):
    done = subprocess.run([MOTE, "run", str(folder / "model.gguf"), "--temp", "0", *words],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
    return done.returncode, done.stdout, done.stderr


def expect(condition, what, *found):
    if not condition:
        sys.exit(f"FAILED: {what}: {found}")


def answers(folder):
    for prompt in json.loads((GOLDEN / "index.json").read_text())["prompts"]:
        question = prompt["prompt"].split("<|vision_end|>")[-1].split("<|im_end|>")[0]
        words = [word for name in prompt["media"] for word in ("--image", str(GOLDEN / name))]
        if prompt["name"] == "video":
            words = ["--video", str(GOLDEN / "media" / "video*.png"), "--fps", "2"]
        code, out, said = run(folder, *words, question)
        expect(code == 0 and out.strip() == prompt["text"].replace("<|im_end|>", ""), prompt["name"], out, said)
        print(prompt["name"], out.strip())


def faults(folder):
    picture = str(GOLDEN / "media" / "see0.png")
    code, out, _ = run(folder, "--image", picture, "Describe the picture.", "--json")
    reply = json.loads(out)
    expect(code == 0 and reply["images"] == [{"w": 256, "h": 256, "tokens": 64}], "the size that was used", out)
    code, out, _ = run(folder, "--image", picture, "--image-tokens", "16", "Describe the picture.", "--json")
    expect(json.loads(out)["images"][0]["tokens"] <= 16, "the limit of tokens", out)
    (folder / "text.png").write_text("not a picture")
    code, _, said = run(folder, "--image", str(folder / "text.png"), "?")
    expect(code != 0 and "text.png" in said and "PNG" in said, "a file that is no picture", said)
    code, _, said = run(folder, "--image", str(folder / "gone.png"), "?")
    expect(code != 0 and "gone.png" in said, "a file that is not there", said)
    (folder / "film.mp4").write_bytes(b"\0\0\0\x18ftypisom" + b"\0" * 100)
    code, _, said = run(folder, "--video", str(folder / "film.mp4"), "?")
    expect(code != 0 and ("MOTE_FFMPEG" in said or "invalid video" in said), "a film that is not built in", said)
    (folder / "mmproj.gguf").unlink()
    code, _, said = run(folder, "--image", picture, "?")
    expect(code != 0 and "mmproj" in said, "a model without its tower", said)


with tempfile.TemporaryDirectory() as name:
    there = pathlib.Path(name)
    os.symlink(DATA / "mote-tiny-BF16.gguf", there / "model.gguf")
    os.symlink(DATA / "mmproj-mote-tiny-BF16.gguf", there / "mmproj.gguf")
    answers(there)
    faults(there)
