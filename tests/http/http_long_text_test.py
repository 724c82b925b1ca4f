#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""http_long_text_test.py - long texts: one word of millions of bytes must not cost much memory, delay
short requests, run on after its client has gone, or be free for its key. scripts/hostile_load measures
latencies."""
import threading
import time
import unittest

from http_rig import SANITIZED, Server, main, own_memory, post, until

# One word for the pre-tokenizer, so BPE has to encode all of it at once. More than 1 MiB: the lane for long texts.
WORD = 1_100_000 if SANITIZED else 1_500_000
HOSTILE = 4 if SANITIZED else 8
SHORT = post("/tokenize", {"content": "Hello"})
LONG = post("/v1/messages/count_tokens", {"model": "mote-tiny", "messages": [
    {"role": "user", "content": "a" * WORD}]})
KEYS = ["alice infer alice rpm=4", "bob infer bob par=1", "carol infer carol tpm=100", "dave infer dave"]


def as_key(name, data):
    return data.replace(b"\r\n", b"\r\nAuthorization: Bearer " + name.encode() + b"\r\n", 1)


class Hostile(threading.Thread):
    """Sends one request and notes when its reply is complete."""

    def __init__(self, server, data):
        super().__init__(daemon=True)
        self.server, self.data, self.ended, self.status = server, data, None, None
        self.sent = threading.Event()

    def run(self):
        with self.server.wire() as wire:
            wire.send(self.data)
            self.sent.set()
            self.status = wire.reply().status
            self.ended = time.monotonic()


def hostiles(server, n=HOSTILE, data=LONG):
    threads = [Hostile(server, data) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.sent.wait()
    return threads


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


class Memory(unittest.TestCase):
    def test_a_giant_word_needs_memory_for_itself_only(self):
        """All bodies wait in memory, and one of them is tokenized at a time."""
        with Server() as server:
            server.ask(SHORT)
            before, most = own_memory(server.process.pid), 0
            threads = hostiles(server)
            while any(t.is_alive() for t in threads):
                most = max(most, own_memory(server.process.pid))
                time.sleep(0.02)
            self.assertEqual({t.status for t in threads}, {200})
            if not SANITIZED:
                self.assertLess(most - before, (4 * HOSTILE + 16) * WORD)

    def test_a_prompt_that_cannot_fit_is_refused_before_it_is_tokenized(self):
        with Server("--context", "512") as server:
            for path, body in (("/v1/completions", {"prompt": "a" * WORD}),
                               ("/v1/embeddings", {"input": "a" * WORD}),
                               ("/v1/chat/completions",
                                {"messages": [{"role": "user", "content": "a" * WORD}]}),
                               ("/api/generate", {"prompt": "a" * WORD}),
                               ("/v1/messages", {"max_tokens": 1, "messages": [
                                   {"role": "user", "content": "a" * WORD}]})):
                reply = server.ask(post(path, {"model": "mote-tiny", **body}))
                self.assertEqual(reply.status, 400, path)
                self.assertIn(b"number of tokens is a lower bound", reply.body, path)


class Delay(unittest.TestCase):
    def test_short_requests_overtake_long_ones(self):
        """A short request that comes after many long ones is answered before the third of them ends."""
        with Server() as server:
            threads = hostiles(server)
            for _ in range(3):
                reply = server.ask(SHORT)
                self.assertEqual(reply.status, 200)
            answered = time.monotonic()
            for t in threads:
                t.join()
            self.assertEqual({t.status for t in threads}, {200})
            self.assertLess(sum(t.ended < answered for t in threads), 3)

    def test_long_work_ends_when_its_client_goes(self):
        with Server() as server:
            pid = server.process.pid
            start = cpu_seconds(pid)
            self.assertEqual(server.ask(LONG).status, 200)
            one = cpu_seconds(pid) - start
            start = cpu_seconds(pid)
            wires = [server.wire() for _ in range(HOSTILE)]
            for wire in wires:
                wire.send(LONG)
            for wire in wires:
                wire.socket.close()
            self.assertTrue(until(lambda: server.ask(SHORT).status == 200))
            self.assertEqual(server.ask(LONG).status, 200)  # waits for the long work before it
            used = cpu_seconds(pid) - start
            self.assertLess(used, (HOSTILE / 2) * one + 0.2)


class Quotas(unittest.TestCase):
    """Work without generation counts for the key, too."""

    def test_requests_and_bytes_are_charged(self):
        routes = [("/tokenize", {"content": "a"}), ("/detokenize", {"tokens": [1]}),
                  ("/apply-template", {"messages": [{"role": "user", "content": "a"}]}),
                  ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "a"}]})]
        with Server(keys=KEYS) as server:
            for path, body in routes:
                reply = server.ask(as_key("alice", post(path, {"model": "mote-tiny", **body})))
                self.assertEqual(reply.status, 200, (path, reply.body))
            for path, body in routes:
                reply = server.ask(as_key("alice", post(path, {"model": "mote-tiny", **body})))
                self.assertEqual(reply.status, 429, path)
                self.assertIn("retry-after", reply.headers)
            # 400 kB are 390 tokens; the next request waits until the debt is gone
            text = as_key("carol", post("/tokenize", {"content": "a " * 200_000}))
            self.assertEqual(server.ask(text).status, 200)
            self.assertEqual(server.ask(as_key("carol", SHORT)).status, 429)
            self.assertEqual(server.ask(as_key("dave", SHORT)).status, 200)

    def test_concurrent_long_work_is_limited_by_par(self):
        def both_at_once():
            first = hostiles(server, 1, as_key("bob", LONG))[0]
            statuses = []
            while 429 not in statuses and first.is_alive():
                statuses.append(server.ask(as_key("bob", SHORT)).status)
            first.join()
            return 429 in statuses and first.status == 200

        with Server(keys=KEYS) as server:
            # the short request may come first; then the long one is refused
            self.assertTrue(any(both_at_once() for _ in range(10)))
            self.assertTrue(until(lambda: server.ask(as_key("bob", SHORT)).status == 200))


if __name__ == "__main__":
    main()
