# SPDX-License-Identifier: Apache-2.0
"""Valid HTTP: split packets, pipelining, chunks, HTTP/1.0, keep-alive."""
import json
import socket
import threading

import http_rig
from http_rig import HOST, get, post

BODY = json.dumps({"content": "Hello, world"}).encode()
CHUNKED = (b"POST /tokenize HTTP/1.1\r\n" + HOST +
           b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")


def chunks(body, size):
    out = b""
    for at in range(0, len(body), size):
        piece = body[at:at + size]
        out += b"%x\r\n%s\r\n" % (len(piece), piece)
    return out + b"0\r\n\r\n"


class Talk(http_rig.OneServer):
    flags = ("--limit", "connections-per-ip=1024")

    def tokens(self):
        return self.server.ask(post("/tokenize", BODY)).json()["tokens"]

    def test_headers_of_every_reply(self):
        ids = set()
        for data, method in ((get(), "GET"), (get("/nowhere"), "GET"), (get(method=b"HEAD"), "HEAD"),
                             (post("/tokenize", BODY), "POST"), (get("/a b"), "GET")):
            reply = self.server.ask(data, method)
            self.assertRegex(reply.headers["x-request-id"], r"^req_[0-9a-f]{24}$")
            self.assertEqual(reply.headers["x-request-id"], reply.headers["request-id"])
            self.assertIn("json", reply.headers["content-type"])
            self.assertRegex(reply.headers["date"], r"^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$")
            ids.add(reply.headers["x-request-id"])
        self.assertEqual(len(ids), 5)

    def test_two_pieces_at_every_byte(self):
        whole = self.tokens()
        data = post("/tokenize", BODY)
        for cut in range(1, len(data)):
            with self.server.wire() as wire:
                wire.send(data[:cut])
                wire.send(data[cut:])
                self.assertEqual(wire.reply().json()["tokens"], whole, cut)

    def test_two_pieces_of_chunks_at_every_byte(self):
        whole = self.tokens()
        data = CHUNKED + chunks(BODY, 7)
        with self.server.wire() as wire:
            for cut in range(1, len(data)):
                wire.send(data[:cut])
                wire.send(data[cut:])
                self.assertEqual(wire.reply().json()["tokens"], whole, cut)

    def test_byte_by_byte(self):
        with self.server.wire() as wire:
            for byte in post("/tokenize", BODY):
                wire.send(bytes([byte]))
            self.assertEqual(wire.reply().json()["tokens"], self.tokens())

    def test_chunks_of_every_size(self):
        whole = self.tokens()
        with self.server.wire() as wire:
            for size in range(1, len(BODY) + 1):
                wire.send(CHUNKED + chunks(BODY, size))
                self.assertEqual(wire.reply().json()["tokens"], whole, size)

    def test_upper_case_and_zeros_in_chunk_sizes(self):
        body = b'{"content":"' + b"a" * 14 + b'"}'
        framed = b"00%X\r\n%s\r\n000\r\n\r\n" % (len(body), body)
        self.assertEqual(self.server.ask(CHUNKED + framed).status, 200)

    def test_pipelining_in_order(self):
        paths = ["/health", "/nowhere", "/v1/models", "/", "/v1/models/none"] * 40
        want = [200, 404, 200, 200, 404] * 40
        with self.server.wire() as wire:
            wire.send(b"".join(get(path) for path in paths))
            self.assertEqual([wire.reply().status for _ in paths], want)

    def test_pipelining_waits_for_slow_answers(self):
        slow = post("/v1/completions", {"prompt": "a", "max_tokens": 40, "ignore_eos": True})
        with self.server.wire() as wire:
            wire.send(slow + get("/health") + post("/tokenize", BODY) + get("/nowhere"))
            replies = [wire.reply() for _ in range(4)]
        self.assertEqual([r.status for r in replies], [200, 200, 200, 404])
        self.assertIn("choices", replies[0].json())
        self.assertIn("status", replies[1].json())
        self.assertIn("tokens", replies[2].json())

    def test_much_pipelined_input_behind_a_slow_answer(self):
        slow = post("/v1/completions", {"prompt": "a", "max_tokens": 30, "ignore_eos": True})
        n = 3000  # far more bytes than are read ahead
        with self.server.wire() as wire:
            left, got = slow + get("/health") * n, 0
            sender = threading.Thread(target=wire.socket.sendall, args=(left,))
            sender.start()
            self.assertIn("choices", wire.reply().json())
            while got < n:
                self.assertEqual(wire.reply().status, 200)
                got += 1
            sender.join()

    def test_keep_alive(self):
        with self.server.wire() as wire:
            for _ in range(50):
                reply = wire.ask(get())
                self.assertEqual((reply.status, reply.headers.get("connection")), (200, None))

    def test_connection_close(self):
        with self.server.wire() as wire:
            reply = wire.ask(get("/health", b"Connection: close"))
            self.assertEqual((reply.status, reply.headers["connection"]), (200, "close"))
            self.assertTrue(wire.closed())

    def test_old_clients(self):
        with self.server.wire() as wire:
            reply = wire.ask(get(version=b"HTTP/1.0"))
            self.assertEqual((reply.status, reply.headers["connection"]), (200, "close"))
            self.assertTrue(wire.closed())
        with self.server.wire() as wire:
            for _ in range(3):
                reply = wire.ask(get("/health", b"Connection: keep-alive", version=b"HTTP/1.0"))
                self.assertEqual((reply.status, reply.headers["connection"]), (200, "keep-alive"))
        old = post("/tokenize", BODY).replace(b"HTTP/1.1", b"HTTP/1.0")
        self.assertEqual(self.server.ask(old).status, 200)

    def test_stream_to_old_client_ends_with_the_connection(self):
        body = {"prompt": "a", "max_tokens": 5, "stream": True}
        data = post("/v1/completions", body).replace(b"HTTP/1.1", b"HTTP/1.0")
        with self.server.wire() as wire:
            reply = wire.ask(data)
            self.assertNotIn("transfer-encoding", reply.headers)
            self.assertTrue(reply.body.endswith(b"data: [DONE]\n\n"))

    def test_stream(self):
        body = {"prompt": "a", "max_tokens": 5, "stream": True}
        with self.server.wire() as wire:
            for _ in range(3):
                reply = wire.ask(post("/v1/completions", body))
                self.assertEqual(reply.headers["transfer-encoding"], "chunked")
                self.assertEqual(reply.headers["cache-control"], "no-cache")
                self.assertEqual(reply.headers["x-accel-buffering"], "no")
                self.assertIn("text/event-stream", reply.headers["content-type"])
                self.assertTrue(reply.body.endswith(b"data: [DONE]\n\n"))

    def test_head(self):
        with self.server.wire() as wire:
            length = wire.ask(get()).headers["content-length"]
            for _ in range(3):
                reply = wire.ask(get(method=b"HEAD"), "HEAD")
                self.assertEqual((reply.status, reply.headers["content-length"]), (200, length))
            self.assertEqual(wire.ask(get()).status, 200)

    def test_continue(self):
        head = (b"POST /tokenize HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
                b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY))
        with self.server.wire() as wire:
            self.assertEqual(wire.ask(head).status, 100)
            self.assertEqual(wire.ask(BODY).json()["tokens"], self.tokens())
        refused = head.replace(b"%d" % len(BODY), b"99999999")
        with self.server.wire() as wire:
            self.assertEqual(wire.ask(refused).status, 413)
            self.assertTrue(wire.closed())

    def test_offers_of_other_protocols_are_ignored(self):
        for offer in ((b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AA"),
                      (b"Connection: Upgrade", b"Upgrade: websocket")):
            with self.server.wire() as wire:
                self.assertEqual(wire.ask(get("/health", *offer)).status, 200)
                self.assertEqual(wire.ask(get()).status, 200)
            with self.server.wire() as wire:
                self.assertEqual(wire.ask(post("/tokenize", BODY, *offer)).status, 200)
                self.assertEqual(wire.ask(get()).status, 200)

    def test_half_closed_client_gets_its_reply(self):
        with self.server.wire() as wire:
            wire.send(get() + get("/nowhere"))
            wire.socket.shutdown(socket.SHUT_WR)
            self.assertEqual([wire.reply().status, wire.reply().status], [200, 404])

    def test_paths(self):
        for path, status in (("/health", 200), ("/health/", 404), ("/Health", 404), ("//health", 404),
                             ("/%68ealth", 200), ("/%2568ealth", 404), ("/health?x=y", 200),
                             ("/health?", 200), ("/v1%2Fhealth", 200), ("/v1/../health", 404),
                             ("/v1/models/a%2Fb", 404), ("/v1/models/", 404), ("/%E2%82%AC", 404)):
            self.assertEqual(self.server.ask(get(path)).status, status, path)

    def test_wrong_method_names_the_right_ones(self):
        reply = self.server.ask(post("/health", BODY))
        self.assertEqual((reply.status, reply.headers["allow"]), (405, "GET, HEAD, OPTIONS"))
        reply = self.server.ask(get("/tokenize"))
        self.assertEqual((reply.status, reply.headers["allow"]), (405, "POST, OPTIONS"))
        reply = self.server.ask(get("/api/delete", method=b"GET"))
        self.assertEqual((reply.status, reply.headers["allow"]), (405, "DELETE, OPTIONS"))

    def test_errors_in_the_form_of_the_dialect(self):
        reply = self.server.ask(get("/v1/nowhere"))
        self.assertEqual(reply.json()["error"]["code"], "not_found")
        reply = self.server.ask(get("/v1/messages"))
        self.assertEqual(reply.json()["type"], "error")
        self.assertEqual(reply.json()["request_id"], reply.headers["request-id"])
        reply = self.server.ask(get("/api/nowhere"))
        self.assertIsInstance(reply.json()["error"], str)

    def test_options(self):
        for path in ("/health", "/nowhere", "*"):
            reply = self.server.ask(get(path, method=b"OPTIONS"), "OPTIONS")
            self.assertEqual(reply.status, 204)
            self.assertNotIn("access-control-allow-origin", reply.headers)


if __name__ == "__main__":
    http_rig.main()
