# SPDX-License-Identifier: Apache-2.0
"""Runs examples/chat: answers, determinism, prefill of new tokens only, error messages.

Arguments: the program, a model, the source of the program.
"""
import re
import subprocess
import sys
import unittest
from pathlib import Path

CHAT, MODEL, SOURCE = sys.argv[1:4]


def chat(lines, *args):
    return subprocess.run([CHAT, *args], input="\n".join(lines) + "\n", capture_output=True, check=False,
                          timeout=300, encoding="utf-8")


class Chat(unittest.TestCase):
    def test_it_is_short(self):
        self.assertLess(len(Path(SOURCE).read_text(encoding="utf-8").splitlines()), 75)

    def test_answers_are_deterministic_and_reuse_the_prefix(self):
        lines = ["Hello", "My name is Anna.", "What is my name?"]
        first, second = chat(lines, MODEL), chat(lines, MODEL)
        self.assertEqual((0, ""), (first.returncode, first.stderr))
        self.assertEqual(first.stdout, second.stdout)
        self.assertNotEqual(first.stdout, chat(lines, MODEL, "Answer in one word.").stdout)
        prefilled = [int(n) for n in re.findall(r"; (\d+) tokens prefilled", first.stdout)]
        self.assertEqual(3, len(prefilled))
        self.assertLess(prefilled[2], 64)  # without the first two messages and their answers

    def expect_failure(self, word, *args):
        done = chat(["Hello"], *args)
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn(word, done.stderr)

    def test_errors_are_printed(self):
        self.expect_failure("usage")
        self.expect_failure("no-such-file.gguf", "no-such-file.gguf")
        self.expect_failure("GGUF", SOURCE)


if __name__ == "__main__":
    if not Path(MODEL).exists():
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
