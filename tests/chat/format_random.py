#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""format_random - a model answers with random JSON Schemas; jsonschema validates the answers.

The schemas are those of tests/grammar/schema_random.py. An answer that the model ended must be
valid; one that was cut by its length is only counted.

usage: format_random.py PROBE MODEL [SCHEMAS [SEEDS [FIRST]]]   (FIRST: number of the first schema)
"""
import json
import random
import subprocess
import sys
from pathlib import Path

try:
    import jsonschema  # noqa: F401
except ImportError:
    print("jsonschema is not installed")
    sys.exit(77)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "grammar"))
import schema_random  # noqa: E402


class Probe:
    def __init__(self, path, model):
        self.process = subprocess.Popen([path, model], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def answers(self, schema, seeds):
        """[(finish, text)], or the error text that rejects the schema."""
        data = json.dumps(schema, ensure_ascii=False).encode()
        self.process.stdin.write(b"%d %d\n" % (seeds, len(data)) + data)
        self.process.stdin.flush()
        out = []
        for _ in range(seeds):
            line = self.process.stdout.readline().decode()
            if not line:
                sys.exit(f"the probe ended at {schema}")
            if line.startswith("refused "):
                return line.strip()
            finish, size = line.split()
            out.append((finish, self.process.stdout.read(int(size) + 1)[:-1].decode()))
        return out


def fault_of(validator, text):
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"is not JSON ({error})"
    return None if validator.is_valid(value) else "is not valid"


def main():
    probe = Probe(sys.argv[1], sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
    seeds = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    first = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    n = dict(schemas=0, refused=0, ended=0, cut=0)
    faults = []
    for number in range(first, first + count):
        rng = random.Random(7_000_003 + number)
        make = schema_random.recursive_schema if number % 10 == 0 else None
        schema = make(rng)[0] if make else schema_random.any_schema(rng, 3)[0]
        validator = schema_random.validator_of(schema)
        answers = probe.answers(schema, seeds)
        n["schemas"] += 1
        if isinstance(answers, str):
            n["refused"] += 1
            continue
        for finish, text in answers:
            if finish != "stop":
                n["cut"] += 1
                continue
            n["ended"] += 1
            fault = fault_of(validator, text)
            if fault:
                faults.append(f"{json.dumps(schema, ensure_ascii=False)}\n  answer {text!r} {fault}")
    print(", ".join(f"{value} {name}" for name, value in n.items()) + f"; {len(faults)} faults")
    for fault in faults[:20]:
        print(fault)
    return 1 if faults or n["ended"] == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
