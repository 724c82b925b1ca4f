#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cli_images.py MOTE DATA - `mote run --image` and `--video` equal the reference, and report errors.

The mmproj file is in the directory of the model, where the command searches it. Questions, images and
greedy answers are those of the reference (golden/vision).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MOTE, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
GOLDEN = DATA / "golden" / "vision"


def run(directory, *arguments):
    done = subprocess.run([MOTE, "run", str(directory / "model.gguf"), "--temp", "0", *arguments],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
    return done.returncode, done.stdout, done.stderr


def expect(condition, what, *found):
    if not condition:
        sys.exit(f"FAILED: {what}: {found}")


def answers(directory):
    for prompt in json.loads((GOLDEN / "index.json").read_text())["prompts"]:
        question = prompt["prompt"].split("<|vision_end|>")[-1].split("<|im_end|>")[0]
        arguments = [argument for name in prompt["media"] for argument in ("--image", str(GOLDEN / name))]
        if prompt["name"] == "video":
            arguments = ["--video", str(GOLDEN / "media" / "video*.png"), "--fps", "2"]
        code, out, stderr = run(directory, *arguments, question)
        expect(code == 0 and out.strip() == prompt["text"].replace("<|im_end|>", ""), prompt["name"], out, stderr)
        print(prompt["name"], out.strip())


def faults(directory):
    image = str(GOLDEN / "media" / "see0.png")
    code, out, _ = run(directory, "--image", image, "Describe the picture.", "--json")
    reply = json.loads(out)
    expect(code == 0 and reply["images"] == [{"w": 256, "h": 256, "tokens": 64}], "the size in use", out)
    code, out, _ = run(directory, "--image", image, "--image-tokens", "16", "Describe the picture.", "--json")
    expect(json.loads(out)["images"][0]["tokens"] <= 16, "the token limit", out)
    (directory / "text.png").write_text("not an image")
    code, _, stderr = run(directory, "--image", str(directory / "text.png"), "?")
    expect(code != 0 and "text.png" in stderr and "PNG" in stderr, "a file that is not an image", stderr)
    code, _, stderr = run(directory, "--image", str(directory / "gone.png"), "?")
    expect(code != 0 and "gone.png" in stderr, "a missing file", stderr)
    (directory / "video.mp4").write_bytes(b"\0\0\0\x18ftypisom" + b"\0" * 100)
    code, _, stderr = run(directory, "--video", str(directory / "video.mp4"), "?")
    expect(code != 0 and ("MOTE_FFMPEG" in stderr or "invalid video" in stderr), "a video format that is not built in", stderr)
    (directory / "mmproj.gguf").unlink()
    code, _, stderr = run(directory, "--image", image, "?")
    expect(code != 0 and "mmproj" in stderr, "a model without its mmproj file", stderr)


with tempfile.TemporaryDirectory() as name:
    there = pathlib.Path(name)
    os.symlink(DATA / "mote-tiny-BF16.gguf", there / "model.gguf")
    os.symlink(DATA / "mmproj-mote-tiny-BF16.gguf", there / "mmproj.gguf")
    answers(there)
    faults(there)
