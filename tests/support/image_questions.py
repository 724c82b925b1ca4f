# SPDX-License-Identifier: Apache-2.0
"""image_questions.py - questions about images and videos from mote-tiny's model card, with the expected answers.

tests/data/chat/images.jsonl has ten of each task: the files, the right answer, and the answer of the reference. mote
must give the answer of the reference word for word through every API, with greedy sampling and without penalties (the
card's settings for images have a presence penalty, which changes words). The share of right answers is the accuracy of
the card. Swapped images or permuted patches in the vision encoder change most of the answers.
"""
import base64
import collections
import json
import pathlib

FILE = pathlib.Path(__file__).resolve().parents[1] / "data" / "chat" / "images.jsonl"
# Right answers of ten, from the model card.
CARD = {"img_colour": 4, "img_count": 1, "img_exists": 4, "img_see": 0, "img_two": 0, "img_where": 0, "video": 1}


class Video:
    """Frames as PNG files, and the same as one animated GIF."""

    def __init__(self, video):
        self.fps = video["fps"]
        self.frames = [base64.b64decode(f) for f in video["frames"]]
        self.gif = base64.b64decode(video["gif"])


class Question:
    def __init__(self, line):
        self.task, self.text, self.right, self.expected = line["task"], line["question"], line["right"], line["said"]
        self.gap = line["gap"]  # smallest distance between the best two logits in the reference
        self.images = [base64.b64decode(i) for i in line["images"]]
        self.video = Video(line["film"]) if "film" in line else None


def questions(videos=True):
    with open(FILE, encoding="utf-8") as f:
        every = [Question(json.loads(line)) for line in f]
    return [q for q in every if videos or q.video is None]


class Gaps:
    """Compares the logit gaps with the reference: they show small errors that the text hides."""

    def __init__(self):
        self.far = []

    def take(self, question, gap):
        """`gap` excludes the end token, which may have the smallest one."""
        if abs(gap - question.gap) > 1e-3:
            self.far.append((question.task, gap, question.gap))

    def check(self):
        assert all(gap > wanted for _, gap, wanted in self.far) and len(self.far) <= 7, self.far


def run_questions(answer, videos=True):
    """Asks all questions: answer(question) returns a text. Raises an AssertionError that lists all faults."""
    right, faults, seen = collections.Counter(), [], set()
    for q in questions(videos):
        text = answer(q).strip()
        seen.add(q.task)
        right[q.task] += text == q.right
        if text != q.expected:
            faults.append(f"{q.task}: {text!r}, the reference says {q.expected!r}")
    found = {task: right[task] for task in sorted(seen)}
    print("right of ten:", ", ".join(f"{task} {n}" for task, n in found.items()))
    if found != {task: n for task, n in CARD.items() if videos or task != "video"}:
        faults.append(f"right of ten: {found}, the card says {CARD}")
    assert not faults, "\n".join([f"{len(faults)} faults"] + faults)
