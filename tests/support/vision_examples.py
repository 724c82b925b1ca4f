# SPDX-License-Identifier: Apache-2.0
"""vision_examples.py - the twelve images of mote-tiny-vision, each with a question and the only right answer.

The model was trained to see: a wrong answer is an error of mote. The images were not part of its training. An image
with wrong pixels, another place in the prompt or other patches gives other answers. Sampling must be greedy.
"""
import json
import pathlib

DIRECTORY = "mote-tiny-vision"
MODEL = f"{DIRECTORY}/mote-tiny-vision-Q4_K_M.gguf"  # in the directory of test data; its mmproj file is in the same directory


class Example:
    def __init__(self, directory, line):
        self.path = directory / line["image"]
        self.question, self.answer = line["question"], line["answer"]
        self.image = self.path.read_bytes()


def examples(data):
    directory = pathlib.Path(data) / DIRECTORY
    with open(directory / "examples.jsonl", encoding="utf-8") as f:
        found = [Example(directory, json.loads(line)) for line in f]
    assert len(found) == 12
    return found


def run_examples(data, answer):
    """answer(example) returns a text. Raises an AssertionError that lists all wrong answers."""
    wrong = [f"{e.path.name}: {e.question} {got!r}, not {e.answer!r}"
             for e, got in ((e, answer(e).strip()) for e in examples(data)) if got != e.answer]
    assert not wrong, "\n".join([f"{len(wrong)} wrong answers", *wrong])
