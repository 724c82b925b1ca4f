# SPDX-License-Identifier: Apache-2.0
"""picture_questions.py - the questions about pictures and films of mote-tiny's model card, and how it must answer them.

tests/data/chat/pictures.jsonl has ten of each kind: the files, what would be right, and what the reference says. mote must
say the same, word for word, whichever way it is asked, if the most likely token is taken and nothing is punished (the card's own
settings for pictures have a presence penalty, which changes whole words); what is right of that is the card's accuracy. A picture that is
swapped or a tower that mixes up its patches changes most of the answers.
"""
import base64
import collections
import json
import pathlib

FILE = pathlib.Path(__file__).resolve().parents[1] / "data" / "chat" / "pictures.jsonl"
# Correct answers of ten, as the card says.
CARD = {"img_colour": 4, "img_count": 1, "img_exists": 4, "img_see": 0, "img_two": 0, "img_where": 0, "video": 1}


class Film:
    """Frames as PNG files, and the same as one moving GIF."""

    def __init__(self, film):
        self.fps = film["fps"]
        self.frames = [base64.b64decode(f) for f in film["frames"]]
        self.gif = base64.b64decode(film["gif"])


class Question:
    def __init__(self, line):
        self.task, self.text, self.right, self.said = line["task"], line["question"], line["right"], line["said"]
        self.gap = line["gap"]  # of the reference: from the best logit to the next, where that is smallest
        self.images = [base64.b64decode(i) for i in line["images"]]
        self.film = Film(line["film"]) if "film" in line else None


def questions(films=True):
    with open(FILE, encoding="utf-8") as f:
        every = [Question(json.loads(line)) for line in f]
    return [q for q in every if films or q.film is None]


class Gaps:
    """How far each answer was from another one, against the reference: the text of an answer hides small faults."""

    def __init__(self):
        self.far = []

    def take(self, question, gap):
        """`gap` without the end of the answer, which may have had the smallest."""
        if abs(gap - question.gap) > 1e-3:
            self.far.append((question.task, gap, question.gap))

    def check(self):
        assert all(gap > wanted for _, gap, wanted in self.far) and len(self.far) <= 7, self.far


def ask_all(answer, films=True):
    """Asks everything: answer(question) is a text. What is wrong is an AssertionError that lists it."""
    right, faults, seen = collections.Counter(), [], set()
    for q in questions(films):
        text = answer(q).strip()
        seen.add(q.task)
        right[q.task] += text == q.right
        if text != q.said:
            faults.append(f"{q.task}: {text!r}, the reference says {q.said!r}")
    found = {task: right[task] for task in sorted(seen)}
    print("right of ten:", ", ".join(f"{task} {n}" for task, n in found.items()))
    if found != {task: n for task, n in CARD.items() if films or task != "video"}:
        faults.append(f"right of ten: {found}, the card says {CARD}")
    assert not faults, "\n".join([f"{len(faults)} faults"] + faults)
