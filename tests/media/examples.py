#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples.py MOTE BUILD README - mote-tiny-vision answers questions about images correctly.

First all examples through `mote run`, then the commands of README.md that use the model: each prints the answer that
README.md shows after it.
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from vision_examples import DIRECTORY, MODEL, run_examples  # noqa: E402

MOTE, BUILD, README = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])


def output(command, shell=False):
    done = subprocess.run(command, shell=shell, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def answer(example):
    return output([MOTE, "run", str(BUILD / "data" / MODEL), "--image", str(example.path), "--temp", "0", example.question])


def readme_commands():
    """(command for this build, the answer that the page shows below it)"""
    for block in re.findall(r"```console\n(.*?)```", README.read_text(encoding="utf-8"), re.S):
        for command, shown in re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:[^$].*\n)*)", block, re.M):
            if DIRECTORY in command:
                yield command.replace("build/release", str(BUILD)), shown


def main():
    run_examples(BUILD / "data", answer)
    commands = list(readme_commands())
    assert commands, "README.md has no command with mote-tiny-vision"
    for command, shown in commands:
        got = output(command, shell=True)
        assert got.strip() == shown.strip(), f"{command}\n{got!r}, README.md says {shown!r}"
    print(f"12 examples and {len(commands)} commands of README.md")


try:
    main()
except AssertionError as wrong:
    sys.exit(f"FAILED: {wrong}")
