# SPDX-License-Identifier: Apache-2.0
"""Runs examples/hello: deterministic answers, and error messages.

Arguments: the program, a model, the source of the program.
"""
import subprocess
import sys
import unittest
from pathlib import Path

HELLO, MODEL, SOURCE = sys.argv[1:4]


def hello(*args):
    return subprocess.run([HELLO, *args], capture_output=True, check=False, timeout=300)


class Hello(unittest.TestCase):
    def test_it_is_short(self):
        self.assertLess(len(Path(SOURCE).read_text(encoding="utf-8").splitlines()), 50)

    def test_it_answers_and_repeats_itself(self):
        text = "The road to the north"
        first, second = hello(MODEL, text), hello(MODEL, text)
        self.assertEqual((0, b""), (first.returncode, first.stderr))
        self.assertGreater(len(first.stdout.decode("utf-8").strip()), 20)
        self.assertEqual(first.stdout, second.stdout)
        self.assertNotEqual(first.stdout, hello(MODEL, "The road to the south").stdout)

    def expect_failure(self, word, *args):
        done = hello(*args)
        self.assertEqual((1, b""), (done.returncode, done.stdout))
        self.assertIn(word, done.stderr.decode("utf-8"))

    def test_errors_reach_the_reader(self):
        self.expect_failure("usage")
        self.expect_failure("no-such-file.gguf", "no-such-file.gguf", "text")
        self.expect_failure("GGUF", SOURCE, "text")
        self.expect_failure("token", MODEL, "")


if __name__ == "__main__":
    if not Path(MODEL).exists():
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
