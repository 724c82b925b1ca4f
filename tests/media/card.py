#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""card.py MOTE DATA - mote-tiny answers questions about pictures and films as often as its model card says.

The questions are those of the card: made by tools/tiny/data.py of the shared folder (MOTE_SHARED, or ../shared beside
the tree) from the same seed, ten of a kind. They go through `mote run` as PNG files and folders of frames.
"""
import collections
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

MOTE, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
TREE = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("MOTE_SHARED", TREE.parent / "shared"))
CARD = SHARED / "models" / "mote-tiny" / "README.md"
SEED, EACH, TRIES = 987654321, 10, 6000

sys.path.insert(0, str(SHARED / "tools" / "tiny"))
try:
    import data
except ImportError as error:
    print(f"the makers of the questions are not here: {error}")
    sys.exit(77)


def questions():
    """The card's samples that show something, by task."""
    chosen, r = collections.defaultdict(list), random.Random(SEED)
    for _ in range(TRIES):
        sample = data.generate(r)
        if (sample.get("images") or sample.get("videos")) and len(chosen[sample["task"]]) < EACH:
            chosen[sample["task"]].append(sample)
    return chosen


def answer(sample, folder):
    words = []
    for i, image in enumerate(sample["images"]):
        image.save(folder / f"{i}.png")
        words += ["--image", str(folder / f"{i}.png")]
    for film in sample["videos"]:
        (folder / "film").mkdir()
        for i, frame in enumerate(film["frames"]):
            frame.save(folder / "film" / f"{i}.png")
        words += ["--video", str(folder / "film"), "--fps", str(film["fps"])]
    question = sample["messages"][-2]["content"][-1]["text"]
    done = subprocess.run([MOTE, "run", str(DATA / "mote-tiny-BF16.gguf"), "--temp", "0", "-n", "80", "--image-tokens",
                           "16384", *words, question], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    if done.returncode != 0:
        sys.exit(f"{sample['task']}: {done.stderr}")
    return done.stdout.strip()


def main():
    card = {task: int(n) for task, n in re.findall(r"^\| (\w+) \|.*\| (\d+) / 10 \|", CARD.read_text(), re.MULTILINE)}
    off = 0
    for task, samples in sorted(questions().items()):
        right = 0
        for sample in samples:
            with tempfile.TemporaryDirectory() as name:
                right += answer(sample, pathlib.Path(name)) == sample["messages"][-1]["content"].strip()
        print(f"{task}: {right} of {len(samples)} right, the card says {card[task]}")
        off += abs(right - card[task]) > 1
    sys.exit(off > 0)


main()
