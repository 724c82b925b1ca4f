#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""grammar_times - checks the times of compilations and masks against limits.

Masks: before every token and at the end of documents of everyday and random schemas, each
document with a new grammar (empty caches). Compilations: everyday schemas, random ones, and
expensive ones of up to 4 KB. All times are CPU time.

usage: grammar_times.py BENCH VOCABULARY.gguf [--random N] [--factor F] [--list]

BENCH is the built bench/grammar_bench.c. Exit code 1 if a limit times F is exceeded; --list shows
each expensive schema and the slowest masks.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "tests" / "grammar")]

import grammar_schemas  # noqa: E402

LIMITS = {"mask, median": 50, "mask, p99": 1000, "compilation of 4 KB, longest": 50000}  # microseconds


class Bench:
    def __init__(self, path, vocabulary, rounds=3):
        self.process = subprocess.Popen([path, vocabulary, str(rounds)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def ask(self, what, text):
        data = text.encode()
        self.process.stdin.write(b"%s %d\n" % (what, len(data)) + data)
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().strip()

    def compile(self, schema):
        """(microseconds, the reason of a rejection, or None)"""
        answer = self.ask(b"S", json.dumps(schema, ensure_ascii=False))
        word, took, *reason = answer.split(" ", 2)
        return float(took), reason[0] if word == "refused" else None

    def masks(self, text):
        answer = self.ask(b"T", text).split()
        return [int(x) / 1000 for x in answer[1:]] if answer[0] == "yes" else None


def share(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def documents(count):
    """(name, schema, text)"""
    for name, schema, document in grammar_schemas.everyday():
        yield name, schema, json.dumps(document, ensure_ascii=False)
    from schema_random import any_schema, recursive_schema, spelled
    for number in range(count):
        rng = random.Random(20_000_003 + number)
        schema, make = recursive_schema(rng) if number % 10 == 0 else any_schema(rng, 3)
        for _ in range(2):
            yield f"random {number}", schema, spelled(rng, make(rng))


def time_masks(bench, count, show):
    masks, compilations, slow, latest = [], [], [], None
    for name, schema, text in documents(count):
        if name != latest:
            took, refused = bench.compile(schema)
            latest = name
            if refused is None:
                compilations.append(took)
        took = None if refused else bench.masks(text)
        for at, one in enumerate(took or []):
            masks.append(one)
            slow.append((one, name, at, text))
    if show:
        for one, name, at, text in sorted(slow, reverse=True)[:40]:
            print(f"    {one:9.1f} us  {name}, token {at} of {text[:80]}")
    print(f"masks: {len(masks)}, median {share(masks, .5):.1f} us, p90 {share(masks, .9):.1f}, "
          f"p99 {share(masks, .99):.1f}, p99.9 {share(masks, .999):.1f}, longest {max(masks):.1f}, "
          f"mean {sum(masks) / len(masks):.1f}")
    print(f"compilations: {len(compilations)}, median {share(compilations, .5):.0f} us, "
          f"p99 {share(compilations, .99):.0f}, longest {max(compilations):.0f}")
    return masks


def time_hard(bench, show):
    times = []
    for name, schema in grammar_schemas.hard():
        took, refused = bench.compile(schema)
        times.append(took)
        if show:
            print(f"    {took / 1000:7.2f} ms  {name}, {len(json.dumps(schema, ensure_ascii=False))} bytes"
                  f"{': ' + refused if refused else ''}")
    print(f"compilations of 4 KB: {len(times)}, median {share(times, .5) / 1000:.2f} ms, longest {max(times) / 1000:.2f} ms")
    return times


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("bench")
    arguments.add_argument("vocabulary")
    arguments.add_argument("--random", type=int, default=200)
    arguments.add_argument("--factor", type=float, default=1)
    arguments.add_argument("--list", action="store_true")
    given = arguments.parse_args()
    bench = Bench(given.bench, given.vocabulary)
    masks = time_masks(bench, given.random, given.list)
    hard = time_hard(bench, given.list)
    reached = {"mask, median": share(masks, .5), "mask, p99": share(masks, .99), "compilation of 4 KB, longest": max(hard)}
    passed = [f"{name}: {reached[name]:.1f} us, more than {limit * given.factor:.0f}"
              for name, limit in LIMITS.items() if reached[name] > limit * given.factor]
    print("\n".join(passed) or "all within their limits")
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main())
