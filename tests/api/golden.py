# SPDX-License-Identifier: Apache-2.0
"""golden.py - compares replies with recorded files, after replacing values that differ between runs.

MOTE_WRITE_GOLDEN=1 rewrites the files. Review the difference before committing it.
"""
import os
import re

DIRECTORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected")

NORMAL = [
    (re.compile(r"\b(msg|toolu|call|req|chatcmpl|cmpl|resp|rs|fc|ctc)(_|-)[0-9a-f]{24,32}\b"), r"\1\2ID"),
    (re.compile(r'"(created|created_at|completed_at)":[0-9]+'), r'"\1":TIME'),
    (re.compile(r'"system_fingerprint":"mote-[0-9.]+-[0-9a-f]{8}"'), '"system_fingerprint":"PRINT"'),
    (re.compile(r'"timings":\{[^}]*\}'), '"timings":{}'),
    (re.compile(r'"mote":\{.*?"warnings":\[[^\]]*\]\}'), '"mote":{}'),
    (re.compile(r'"cached_tokens":[0-9]+'), '"cached_tokens":N'),
    (re.compile(r'"encrypted_content":"[^"]+"'), '"encrypted_content":"SEALED"'),
    (re.compile(r"^: [^\n]*\n\n", re.MULTILINE), ""),
]


def same_as_golden(name, text, model):
    for pattern, by in NORMAL:
        text = pattern.sub(by, text)
    text = text.replace('"' + model + '"', '"MODEL"').rstrip("\n") + "\n"
    path = os.path.join(DIRECTORY, name + ".txt")
    if os.environ.get("MOTE_WRITE_GOLDEN") == "1":
        os.makedirs(DIRECTORY, exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="\n") as f:
            f.write(text)
        return
    with open(path, encoding="utf-8", newline="\n") as f:
        wanted = f.read()
    if text != wanted:
        at = next((i for i, (a, b) in enumerate(zip(text, wanted)) if a != b), min(len(text), len(wanted)))
        raise AssertionError(f"{name} differs at byte {at}:\n{text[max(0, at - 100):at + 200]!r}\nnot\n"
                             f"{wanted[max(0, at - 100):at + 200]!r}")
