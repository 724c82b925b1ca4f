# SPDX-License-Identifier: Apache-2.0
"""Every case of malformed.py gets its status, and then the connection is closed.

Each case is sent whole, in two pieces, byte by byte if it is short, and followed by a valid request.
A reply to that request would be request smuggling.
"""
import http_rig
from malformed import CASES

BEHIND = http_rig.get("/health")


class Malformed(http_rig.OneServer):
    def check(self, name, status, pieces):
        with self.server.wire() as wire:
            try:
                for piece in pieces:
                    wire.send(piece)
            except (BrokenPipeError, ConnectionResetError):
                pass
            reply = wire.reply()
            self.assertEqual(reply.status, status, f"{name}: {reply.body}")
            self.assertEqual(reply.headers.get("connection"), "close", name)
            self.assertIn("error", reply.json(), name)
            self.assertEqual(reply.headers["x-should-retry"], "false", name)
            wire.socket.shutdown(1)
            self.assertTrue(wire.closed(), f"{name}: more came, or it stayed open")

    def test_enough(self):
        self.assertGreaterEqual(len(CASES), 60)
        self.assertEqual(len({name for name, _, _ in CASES}), len(CASES))

    def test_whole(self):
        for name, data, status in CASES:
            with self.subTest(name):
                self.check(name, status, [data])

    def test_in_two(self):
        for name, data, status in CASES:
            with self.subTest(name):
                self.check(name, status, [data[:len(data) // 2], data[len(data) // 2:]])

    def test_nothing_behind(self):
        for name, data, status in CASES:
            with self.subTest(name):
                self.check(name, status, [data + BEHIND])

    def test_server_lives(self):
        self.alive()


if __name__ == "__main__":
    http_rig.main()
