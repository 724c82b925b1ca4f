#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""grammar_compare - compares mote's constrained decoding with llguidance and xgrammar.

All three get the same vocabulary, schemas, documents and tokens.
Coverage: which schemas compile, which valid and invalid documents are accepted.
Time: of a compilation, and of the mask before each token of documents that all three
accept. All times are CPU time of one thread.

usage: grammar_compare.py BENCH VOCABULARY.gguf TOKENIZER.json [--random N] [--suite DIRECTORY]... [--only WORD]

BENCH is the built bench/grammar_bench.c. DIRECTORY is one draft of the JSON-Schema-Test-Suite: tests/draft4 of
the npm package json-schema-test-suite, or json/tests/draft2020-12 of the source package of jsonschema
on PyPI, which carries the current suite. Needs llguidance, xgrammar and numpy from PyPI.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import time

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "tests" / "grammar")]

import grammar_schemas  # noqa: E402

WIDTH = 248320


class Mote:
    name = "mote"

    def __init__(self, bench, vocabulary):
        self.process = subprocess.Popen([bench, vocabulary], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, what, text):
        data = text.encode()
        self.process.stdin.write(b"%s %d\n" % (what, len(data)) + data)
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().strip()

    def ids(self, text):
        return [int(x) for x in self.ask(b"I", text).split()]

    def compile(self, schema):
        answer = self.ask(b"S", schema)
        self.reason = answer
        return float(answer.split()[1]) if answer.startswith("ok") else None

    def accepts(self, text, _):
        return self.ask(b"D", text) == "yes"

    def masks(self, text, _):
        answer = self.ask(b"T", text).split()
        return [int(x) / 1000 for x in answer[1:]] if answer[0] == "yes" else None


class Guidance:
    name = "llguidance"

    def __init__(self, tokenizer):
        import llguidance
        self.matcher = llguidance.LLMatcher
        self.tokenizer = llguidance.LLTokenizer(pathlib.Path(tokenizer).read_text(), n_vocab=WIDTH)
        self.bits = numpy.zeros(WIDTH // 32, dtype=numpy.uint32)

    def compile(self, schema):
        best = None
        for _ in range(3):
            start = time.process_time_ns()
            matcher = self.matcher(self.tokenizer, self.matcher.grammar_from_json_schema(schema), log_level=0)
            took = (time.process_time_ns() - start) / 1000
            if matcher.is_error():
                self.reason = matcher.get_error()
                return None
            best = took if best is None else min(best, took)
        self.fresh = matcher
        return best

    def accepts(self, _, ids):
        matcher = self.fresh.deep_copy()
        return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()

    def masks(self, _, ids):
        matcher, took = self.fresh.deep_copy(), []
        for token in [*ids, None]:
            start = time.process_time_ns()
            matcher.unsafe_compute_mask_ptr(self.bits.ctypes.data, self.bits.nbytes)
            took.append((time.process_time_ns() - start) / 1000)
            if token is not None and not matcher.consume_token(token):
                return None
        return took


class XGrammar:
    name = "xgrammar"

    def __init__(self, tokenizer):
        import xgrammar
        self.x = xgrammar
        info = json.loads(pathlib.Path(tokenizer).read_text())
        vocabulary = [""] * WIDTH
        for text, token in info["model"]["vocab"].items():
            vocabulary[token] = text
        for added in info["added_tokens"]:
            vocabulary[added["id"]] = added["content"]
        ends = [a["id"] for a in info["added_tokens"] if a["content"] in ("<|im_end|>", "<|endoftext|>")]
        self.end = ends[0]
        self.info = xgrammar.TokenizerInfo(vocabulary, xgrammar.VocabType.BYTE_LEVEL, vocab_size=WIDTH,
                                           stop_token_ids=ends)
        self.bits = xgrammar.allocate_token_bitmask(1, WIDTH)

    def compile(self, schema):
        compiler = self.x.GrammarCompiler(self.info, max_threads=1, cache_enabled=False)
        start = time.process_time_ns()
        try:
            self.compiled = compiler.compile_json_schema(schema, strict_mode=False)
        except Exception as error:
            self.reason = str(error)
            return None
        return (time.process_time_ns() - start) / 1000

    def accepts(self, _, ids):
        matcher = self.x.GrammarMatcher(self.compiled)
        return all(matcher.accept_token(i) for i in [*ids, self.end])

    def masks(self, _, ids):
        matcher, took = self.x.GrammarMatcher(self.compiled), []
        for token in [*ids, None]:
            start = time.process_time_ns()
            matcher.fill_next_token_bitmask(self.bits)
            took.append((time.process_time_ns() - start) / 1000)
            if token is not None and not matcher.accept_token(token):
                return None
        return took


def spelled(document):
    return json.dumps(document, ensure_ascii=False)


def ordered(schema, document):
    """The document's members in the order of the schema, as all three write them."""
    if isinstance(document, dict) and isinstance(schema, dict):
        known = schema.get("properties", {})
        known = known if isinstance(known, dict) else {}
        return {k: ordered(known.get(k), document[k]) for k in [*known, *document] if k in document}
    if isinstance(document, list) and isinstance(schema, dict):
        return [ordered(schema.get("items"), d) for d in document]
    return document


# ---- comparison ----

def share(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))] if values else float("nan")


def row(name, values):
    return (f"{name:12} {len(values):7} {share(values, .5):9.1f} {share(values, .9):9.1f} {share(values, .99):9.1f} "
            f"{max(values, default=0):9.1f} {sum(values) / max(1, len(values)):9.1f}")


class Stats:
    def __init__(self, engines):
        self.engines = engines
        self.compile = {e.name: [] for e in engines}
        self.mask = {e.name: [] for e in engines}
        self.taken = {e.name: 0 for e in engines}
        self.valid = {e.name: 0 for e in engines}
        self.wrong = {e.name: 0 for e in engines}
        self.schemas = self.n_valid = self.n_invalid = 0
        self.rejected_alone, self.lost = [], []

    def add(self, where, schema, documents):
        """documents: (document, is it valid?)"""
        text = json.dumps(schema, ensure_ascii=False)
        taken = {}
        self.schemas += 1
        for engine in self.engines:
            took = engine.compile(text)
            taken[engine.name] = took is not None
            self.taken[engine.name] += took is not None
            if took is not None:
                self.compile[engine.name].append(took)
        if taken["llguidance"] and taken["xgrammar"] and not taken["mote"]:
            self.rejected_alone.append(f"{where}: {self.engines[0].reason}")
        for document, valid in documents:
            spelling = spelled(ordered(schema, document))
            ids = self.engines[0].ids(spelling)
            passes = {e.name: taken[e.name] and e.accepts(spelling, ids) for e in self.engines}
            self.n_valid += valid
            self.n_invalid += not valid
            for name, passed in passes.items():
                (self.valid if valid else self.wrong)[name] += passed
            if valid and passes["llguidance"] and passes["xgrammar"] and taken["mote"] and not passes["mote"]:
                self.lost.append(f"{where}: {spelling[:100]}")
            if valid and all(passes.values()):
                for engine in self.engines:
                    self.mask[engine.name] += engine.masks(spelling, ids) or []

    def show(self, title):
        print(f"\n{title}: {self.schemas} schemas, {self.n_valid} valid documents, {self.n_invalid} invalid ones")
        print(f"{'':12} {'schemas':>8} {'valid':>8} {'invalid passed':>14}")
        for e in self.engines:
            print(f"{e.name:12} {self.taken[e.name]:8} {self.valid[e.name]:8} {self.wrong[e.name]:14}")
        for what, values in (("compile", self.compile), ("mask", self.mask)):
            print(f"{what + ', us':12} {'n':>7} {'median':>9} {'p90':>9} {'p99':>9} {'max':>9} {'mean':>9}")
            for e in self.engines:
                print(row(e.name, values[e.name]))
        print(f"schemas accepted by both others and rejected by mote: {len(self.rejected_alone)}")
        for line in self.rejected_alone:
            print("   ", line[:220])
        print(f"valid documents accepted by both others and rejected by mote: {len(self.lost)}")
        for line in self.lost:
            print("   ", line[:220])
        sys.stdout.flush()


def add_random(stats, count):
    from schema_random import any_schema, validator_of
    for number in range(count):
        rng = random.Random(number)
        schema, make = any_schema(rng, 3)
        validator = validator_of(schema)
        documents = [make(rng) for _ in range(3)]
        stats.add(f"random {number}", schema, [(d, validator.is_valid(d)) for d in documents])


def add_suite(stats, directory):
    draft = {"draft4": "http://json-schema.org/draft-04/schema#"}.get(directory.name)
    for path in sorted(directory.glob("*.json")):
        for group in json.loads(path.read_text()):
            schema = group["schema"]
            if draft and isinstance(schema, dict) and "$schema" not in schema:
                schema = {"$schema": draft, **schema}
            tests = [(t["data"], t["valid"]) for t in group["tests"]]
            stats.add(f"{path.stem}: {group['description']}", schema, tests)


def main():
    arguments = argparse.ArgumentParser()
    for name in ("bench", "vocabulary", "tokenizer"):
        arguments.add_argument(name)
    arguments.add_argument("--random", type=int, default=100)
    arguments.add_argument("--suite", type=pathlib.Path, action="append", default=[])
    arguments.add_argument("--only", default="")
    given = arguments.parse_args()
    engines = [Mote(given.bench, given.vocabulary), Guidance(given.tokenizer), XGrammar(given.tokenizer)]

    def everyday(stats):
        for name, schema, document in grammar_schemas.everyday():
            stats.add(name, schema, [(document, True)])

    def hard(stats):
        for name, schema in grammar_schemas.hard():
            stats.add(name, schema, [])

    parts = [("everyday", everyday), ("random", lambda f: add_random(f, given.random)), ("of 4 KB", hard)]
    parts += [(f"JSON-Schema-Test-Suite, {directory.name}", lambda f, directory=directory: add_suite(f, directory))
              for directory in given.suite]
    for title, fill in parts:
        if given.only in title:
            stats = Stats(engines)
            fill(stats)
            stats.show(title)


if __name__ == "__main__":
    main()
