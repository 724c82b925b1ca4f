#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the tokenizer against the Hugging Face `tokenizers` library, by hand.

    tok_compare.py TOK_BENCH VOCABULARY.gguf TOKENIZER.json [--strings N] [--seed S] [--file FILE]

TOK_BENCH is the program of bench/tok_bench.c, which says how to build it.
VOCABULARY.gguf and TOKENIZER.json must hold the same vocabulary. N random strings (mixed scripts, marks in any order,
white space of every kind, control tokens and pieces of them, odd code points)
are encoded by both, with and without looking for added tokens; any difference is
printed and makes the exit code 1. Ill-formed bytes are compared too: the
library gets what Python reads in their place. With FILE both encode it and the
ratio of their processor times is printed; each runs on one thread.

Needs the PyPI package tokenizers (0.23.3: another release may carry other
Unicode tables, see tools/make-unicode-tables).
"""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import threading
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import Tokenizer  # noqa: E402  (reads the environment when imported)

BATCH = 500  # strings on their way at once
SPACES = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2005\u200a\u2028\u2029\u202f\u205f\u3000"
NEARLY_SPACES = "\x1c\x1d\x1e\x1f\u180e\u200b\u200d\u2060\ufeff\x00\x7f"
ENDINGS = ["'s", "'T", "'re", "'VE", "'m", "'lL", "'d", "'\u017f", "'", "''", "\u2019s", "'\u212a"]
PLAIN = ("the of and to in is it you that he was for on are with as his they at be this have from "
         "or one had by word but not what all were we when your can said there use an each which "
         "def return import struct const for while if else NULL 0x1F e.g. U.S.A. don't I'll").split()
# First and last code point of what texts are written in, and of what makes trouble.
RANGES = {
    "ascii": (0x20, 0x7E), "latin": (0xC0, 0x24F), "greek": (0x370, 0x3FF), "cyrillic": (0x400, 0x52F),
    "hebrew": (0x591, 0x5F4), "arabic": (0x600, 0x6FF), "devanagari": (0x900, 0x97F),
    "bengali": (0x980, 0x9FF), "tamil": (0xB80, 0xBFF), "telugu": (0xC00, 0xC7F),
    "kannada": (0xC80, 0xCFF), "malayalam": (0xD00, 0xD7F), "thai": (0xE01, 0xE5B),
    "tibetan": (0xF00, 0xFDA), "myanmar": (0x1000, 0x109F), "jamo": (0x1100, 0x11FF),
    "khmer": (0x1780, 0x17F9), "kana": (0x3041, 0x30FF), "han": (0x4E00, 0x9FFF),
    "hangul": (0xAC00, 0xD7A3), "extended": (0x1E00, 0x1FFF), "symbols": (0x2010, 0x2BFF),
    "compatibility": (0xF900, 0xFAD9), "forms": (0xFB00, 0xFFFD), "emoji": (0x1F300, 0x1FAFF),
    "indic": (0x11000, 0x11FFF), "music": (0x1D100, 0x1D1FF), "mathematics": (0x1D400, 0x1D7FF),
    "supplement": (0x2F800, 0x2FA1D), "han_b": (0x20000, 0x323AF), "smp": (0x10000, 0x1FFFF),
    "young": (0x10D40, 0x10EFF), "todhri": (0x105C0, 0x105F3), "tulu": (0x11380, 0x113E2),
    "all": (0x80, 0x10FFFF),
}
MARKS = [(0x300, 0x36F), (0x483, 0x487), (0x591, 0x5C7), (0x64B, 0x65F), (0x7EB, 0x7FD),
         (0x898, 0x902), (0x1AB0, 0x1ACE), (0x1DC0, 0x1DFF), (0x20D0, 0x20F0), (0x302A, 0x302F),
         (0x3099, 0x309A), (0xFE20, 0xFE2F), (0x10EFD, 0x10EFF), (0x11930, 0x11943),
         (0x1E000, 0x1E02A), (0x1E8D0, 0x1E8D6), (0x1D165, 0x1D16D), (0x9BE, 0x9D7), (0xB3E, 0xB57),
         (0x1161, 0x11C2), (0x93C, 0x94D), (0xDCA, 0xDDF), (0x1B35, 0x1B35), (0x102E, 0x102E)]
COMPOSING = "aeiouyAEIOUnNcCsSdDhHlLrRzZ\u03b1\u03b9\u03c5\u03c9\u0438\u0435\u304b\u30cf\u0928\u09c7\u1100"


class Maker:
    """Random texts of many kinds."""

    def __init__(self, seed, added):
        self.random = random.Random(seed)
        self.added = added

    def char(self, low, high):
        while True:
            c = self.random.randint(low, high)
            if not 0xD800 <= c <= 0xDFFF:
                return chr(c)

    def run(self, n):
        low, high = RANGES[self.random.choice(list(RANGES))]
        return "".join(self.char(low, high) for _ in range(n))

    def marks(self, n):
        base = self.random.choice(COMPOSING) if self.random.random() < 0.8 else self.run(1)
        return base + "".join(self.char(*self.random.choice(MARKS)) for _ in range(n))

    def spaces(self, n):
        pool = SPACES if self.random.random() < 0.5 else " \n\r\t  "
        return "".join(self.random.choice(pool) for _ in range(n))

    def control(self):
        token = self.random.choice(self.added)
        cut = self.random.randint(0, len(token)) if self.random.random() < 0.3 else len(token)
        return token[:cut] + (token if self.random.random() < 0.1 else "")

    def piece(self):
        r = self.random
        kind = r.random()
        if kind < 0.25:
            return " " * r.randint(0, 1) + r.choice(PLAIN)
        if kind < 0.45:
            return self.run(r.randint(1, 8))
        if kind < 0.60:
            return self.marks(r.randint(1, 4 if r.random() < 0.95 else 40))
        if kind < 0.75:
            return self.spaces(r.randint(1, 5))
        if kind < 0.80:
            return r.choice(ENDINGS)
        if kind < 0.85:
            return "".join(r.choice("0123456789\u0663\u00b2\u2160\uff11") for _ in range(r.randint(1, 5)))
        if kind < 0.90:
            return "".join(r.choice("!\"#$%&()*+,-./:;<=>?@[]^_`{|}~\\") for _ in range(r.randint(1, 6)))
        if kind < 0.95:
            return self.control()
        return r.choice(NEARLY_SPACES) if r.random() < 0.7 else r.choice("ab\u00e9\u4e2d") * r.randint(1, 300)

    def text(self):
        return "".join(self.piece() for _ in range(self.random.randint(1, 12)))

    def damage(self, data):
        """The bytes with some of them changed, cut or doubled."""
        data = bytearray(data)
        for _ in range(self.random.randint(1, 4)):
            if data:
                at = self.random.randrange(len(data))
                data[at:at + self.random.randint(0, 2)] = bytes(
                    self.random.randrange(256) for _ in range(self.random.randint(0, 2)))
        return bytes(data)


class Ours:
    """tok_bench at the other end of a pipe."""

    def __init__(self, program, vocabulary):
        self.process = subprocess.Popen([program, vocabulary, "pipe"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def encode(self, requests):
        """The ids of each (flags, bytes) pair. Pipes are short, so one thread asks while one reads."""
        asked = b"".join(struct.pack("<II", flags, len(data)) + data for flags, data in requests)
        asker = threading.Thread(target=self.ask, args=(asked,))
        asker.start()
        answers = []
        for _ in requests:
            n, = struct.unpack("<I", self.process.stdout.read(4))
            answers.append(list(struct.unpack(f"<{n}i", self.process.stdout.read(4 * n))))
        asker.join()
        return answers

    def ask(self, asked):
        self.process.stdin.write(asked)
        self.process.stdin.flush()


def compare_batch(ours, theirs, batch, flags):
    """How many of a batch of byte strings the two encode differently."""
    texts = [data.decode("utf-8", "replace") for data in batch]
    wanted = theirs.encode_batch_fast(texts, add_special_tokens=False)
    different = 0
    for data, got, want in zip(batch, ours.encode([(flags, data) for data in batch]), wanted):
        if got != want.ids:
            different += 1
            print(f"differs with flags {flags}: {data!r}")
    return different


def compare_strings(ours, with_added, without, args):
    added = [token.content for token in with_added.get_added_tokens_decoder().values()]
    maker = Maker(args.seed, added)
    different = 0
    for first in range(0, args.strings, BATCH):
        batch = [maker.text().encode() for _ in range(min(BATCH, args.strings - first))]
        batch = [maker.damage(data) if i % 5 == 0 else data for i, data in enumerate(batch)]
        different += compare_batch(ours, without, batch, 0)
        different += compare_batch(ours, with_added, batch, 1)
    print(f"{args.strings} strings, with and without added tokens: {different} differences")
    return different


def compare_speed(theirs, args):
    with open(args.file, encoding="utf-8", errors="replace", newline="") as file:
        text = file.read()
    lines, chunks, size = text.splitlines(keepends=True), [], 0
    for line in lines:  # the library is quicker on pieces than on one long text
        if size == 0 or size > 16384:
            chunks.append("")
            size = 0
        chunks[-1] += line
        size += len(line)
    best = 1e9
    for _ in range(3):
        start = time.process_time()
        theirs.encode_batch_fast(chunks, add_special_tokens=False)
        best = min(best, time.process_time() - start)
    rate = len(text.encode()) / best / 1e6
    print(f"tokenizers: {best:.3f} s, {rate:.1f} MB/s")
    report = subprocess.run([args.program, args.vocabulary, "time", args.file, "5"], check=True,
                            capture_output=True, text=True).stdout
    print("tok_bench:", report.strip().replace("\n", "; "))
    print(f"ratio {float(report.split()[-2]) / rate:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("vocabulary")
    parser.add_argument("tokenizer")
    parser.add_argument("--strings", type=int, default=300000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file")
    args = parser.parse_args()
    with_added = Tokenizer.from_file(args.tokenizer)
    with open(args.tokenizer, encoding="utf-8") as file:
        plain = json.load(file)
    plain["added_tokens"] = []
    without = Tokenizer.from_str(json.dumps(plain))
    different = 0
    if args.strings > 0:
        different = compare_strings(Ours(args.program, args.vocabulary), with_added, without, args)
    if args.file:
        compare_speed(without, args)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
