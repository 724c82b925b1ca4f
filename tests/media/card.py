#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""card.py MOTE DATA - the accuracy of mote-tiny on images and videos equals its model card.

The input of `mote run` is PNG files and directories of frames. tests/sdk uses the same questions.
"""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from image_questions import run_questions  # noqa: E402

MOTE, DATA = sys.argv[1], pathlib.Path(sys.argv[2])


def answer(question):
    with tempfile.TemporaryDirectory() as name:
        directory, arguments = pathlib.Path(name), []
        for i, image in enumerate(question.images):
            (directory / f"{i}.png").write_bytes(image)
            arguments += ["--image", str(directory / f"{i}.png")]
        if question.video:
            (directory / "video").mkdir()
            for i, frame in enumerate(question.video.frames):
                (directory / "video" / f"{i}.png").write_bytes(frame)
            arguments += ["--video", str(directory / "video"), "--fps", str(question.video.fps)]
        done = subprocess.run([MOTE, "run", str(DATA / "mote-tiny-BF16.gguf"), "--temp", "0", "--presence", "0", *arguments,
                               question.text], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{question.task}: {done.stderr}")
    return done.stdout


try:
    run_questions(answer)
except AssertionError as wrong:
    sys.exit(f"FAILED: {wrong}")
