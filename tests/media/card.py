#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""card.py MOTE DATA - mote-tiny answers questions about pictures and films as often as its model card says.

They go through `mote run` as PNG files and folders of frames; the questions are those of tests/sdk too.
"""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from image_questions import ask_all  # noqa: E402

MOTE, DATA = sys.argv[1], pathlib.Path(sys.argv[2])


def answer(question):
    with tempfile.TemporaryDirectory() as name:
        folder, words = pathlib.Path(name), []
        for i, image in enumerate(question.images):
            (folder / f"{i}.png").write_bytes(image)
            words += ["--image", str(folder / f"{i}.png")]
        if question.film:
            (folder / "film").mkdir()
            for i, frame in enumerate(question.film.frames):
                (folder / "film" / f"{i}.png").write_bytes(frame)
            words += ["--video", str(folder / "film"), "--fps", str(question.film.fps)]
        done = subprocess.run([MOTE, "run", str(DATA / "mote-tiny-BF16.gguf"), "--temp", "0", "--presence", "0", *words,
                               question.text], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{question.task}: {done.stderr}")
    return done.stdout


try:
    ask_all(answer)
except AssertionError as wrong:
    sys.exit(f"FAILED: {wrong}")
