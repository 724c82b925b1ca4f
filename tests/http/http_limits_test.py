# SPDX-License-Identifier: Apache-2.0
"""Every limit of the HTTP layer at one less, exactly, one more, and far beyond."""
import resource

import http_rig
from http_rig import HOST, get, post

FIELDS, FIELD_BYTES, TARGET, BODY = 64, 16384, 4096, 4 << 20


def with_target(n):
    return get("/" + "a" * (n - 1))


def with_fields(n):
    """n headers, including Host."""
    return get("/health", *(b"X-%d: y" % i for i in range(n - 1)))


def with_field_bytes(n):
    """Header lines of n bytes together, with line ends, without the blank line."""
    left = n - len(HOST) - len(b"X: \r\n")
    return get("/health", b"X: " + b"a" * left)


def with_body(n):
    return post("/tokenize", b'{"content":"' + b"a" * (n - 14) + b'"}')


def with_chunks(n):
    body = b'{"content":"' + b"a" * (n - 14) + b'"}'
    out = get("/tokenize", b"Content-Type: application/json", b"Transfer-Encoding: chunked", method=b"POST")
    for at in range(0, len(body), 65536):
        piece = body[at:at + 65536]
        out += b"%x\r\n%s\r\n" % (len(piece), piece)
    return out + b"0\r\n\r\n"


class Limits(http_rig.OneServer):
    flags = ("--limit", "connections-per-ip=1024")

    def status(self, data):
        """The status; a server that closes while the client still writes has replied before."""
        with self.server.wire() as wire:
            try:
                wire.send(data)
            except (BrokenPipeError, ConnectionResetError):
                pass
            reply = wire.reply()
            if reply.status >= 400 and reply.status != 404:
                self.assertEqual(reply.headers["connection"], "close")
            return reply.status

    def around(self, make, limit, inside, beyond, absurd):
        self.assertEqual(self.status(make(limit - 1)), inside)
        self.assertEqual(self.status(make(limit)), inside)
        self.assertEqual(self.status(make(limit + 1)), beyond)
        self.assertEqual(self.status(make(absurd)), beyond)

    def test_target(self):
        self.around(with_target, TARGET, 404, 414, 1 << 20)

    def test_fields(self):
        self.around(with_fields, FIELDS, 200, 431, 2000)

    def test_field_bytes(self):
        self.around(with_field_bytes, FIELD_BYTES, 200, 431, 4 << 20)

    def test_body(self):
        self.around(with_body, BODY, 200, 413, 64 << 20)

    def test_body_in_chunks(self):
        self.around(with_chunks, BODY, 200, 413, 16 << 20)

    def test_body_is_refused_before_it_is_read(self):
        head = get("/tokenize", b"Content-Type: application/json", b"Content-Length: %d" % (BODY + 1),
                   method=b"POST")
        self.assertEqual(self.status(head), 413)
        head = head.replace(b"%d" % (BODY + 1), b"999999999999999999")
        self.assertEqual(self.status(head), 413)

    @http_rig.unittest.skipIf(http_rig.SANITIZED, "a sanitizer keeps memory and takes time")
    def test_refusing_is_cheap(self):
        """Little CPU time each, and no memory growth. CPU time does not depend on the load of the machine."""
        data, n = [with_target(1 << 20), with_field_bytes(1 << 20), with_fields(5000)], 120
        for _ in range(5):  # the first time is for the allocator; more, where others take the caches away
            before = self.cost()
            for i in range(n):
                self.status(data[i % 3])
            cpu, memory = (now - then for now, then in zip(self.cost(), before))
            print(f"{n} refused: {1000 * cpu / n:.2f} ms each, {memory >> 10} KiB more in all")
            if cpu / n < 0.003 and memory < 1 << 20:
                return
        self.fail("that is too much")

    def cost(self):
        pid = self.server.process.pid
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        ticks = (int(fields[11]) + int(fields[12])) / 100
        return ticks, http_rig.own_memory(pid)


class Connections(http_rig.unittest.TestCase):
    def count(self, flags, n):
        """How many of n concurrent connections are served."""
        with http_rig.Server(*flags) as server:
            wires = [server.wire() for _ in range(n)]
            good = 0
            for wire in wires:
                try:
                    wire.send(get())
                    good += wire.reply().status == 200
                except (EOFError, ConnectionError):
                    pass
            for wire in wires:
                wire.socket.close()
            return good

    def test_loopback_has_no_limit_per_address(self):
        """A local proxy connects for all of its clients."""
        self.assertEqual(self.count((), 200), 200)

    def test_per_address(self):
        """The 65th connection of another address gets an error in the format of its API."""
        address = http_rig.own_address()
        if address is None:
            self.skipTest("this machine has loopback addresses only")
        with http_rig.Server(keys=["key infer"], listen=(f"{address}:0",)) as server:
            wires = [server.wire() for _ in range(64)]
            for wire in wires:
                self.assertEqual(wire.ask(get()).status, 200)
            self.check_refusals(server, 429, "rate_limit_error")
            for wire in wires:
                wire.socket.close()

    def check_refusals(self, server, status, kind):
        host = b"Host: localhost\r\n"
        heads = {"/v1/chat/completions": lambda e: e["error"]["type"] == kind,
                 "/v1/messages": lambda e: e["type"] == "error" and "type" in e["error"],
                 "/api/chat": lambda e: isinstance(e["error"], str)}
        for path, is_right in heads.items():
            # a whole request, a head without body, a part of a head
            for data in (post(path, {}), post(path, {})[:-2], b"POST " + path.encode() + b" HTTP/1.1\r\n" + host):
                reply = server.ask(data)
                self.assertEqual((reply.status, reply.headers["connection"]), (status, "close"), data)
                self.assertIn("retry-after", reply.headers)
                self.assertIn("application/json", reply.headers["content-type"])
                self.assertTrue(is_right(reply.json()), reply.body)
                self.assertIn("--limit connections", reply.body.decode())
        with server.wire() as silent:  # no request at all
            reply = silent.reply()
            self.assertEqual((reply.status, reply.json()["error"]["code"]), (status, "too_many_connections"))

    def test_refusals_of_the_total(self):
        with http_rig.Server("--limit", "connections=2") as server:
            with server.wire() as a, server.wire() as b:
                self.assertEqual([a.ask(get()).status, b.ask(get()).status], [200, 200])
                self.check_refusals(server, 503, "unavailable_error")
                many = [server.wire() for _ in range(100)]  # more than wait for a request
                for wire in many:
                    wire.send(get())
                for wire in many:
                    reply = wire.reply()
                    self.assertEqual((reply.status, reply.json()["error"]["code"]), (503, "too_many_connections"))
                    wire.socket.close()

    def test_refused_heads_have_the_format_of_their_api(self):
        with http_rig.Server("--limit", "header-seconds=0.5") as server:
            for path, is_right in (("/v1/messages", lambda e: e["type"] == "error"),
                                   ("/api/chat", lambda e: isinstance(e["error"], str)),
                                   ("/v1/models", lambda e: isinstance(e["error"]["code"], str))):
                for status, data in ((431, get(path, b"X: " + b"a" * 17000)), (400, get(path, b"X : a")),
                                     (404, get(path + "/x/y/z")), (405, get(path, method=b"DELETE")),
                                     (414, get(path + "?" + "a" * 5000)),
                                     (408, b"GET " + path.encode() + b" HTTP/1.1\r\nHost: local"),
                                     (413, get(path, b"Content-Type: application/json",
                                               b"Content-Length: 999999999", method=b"POST"))):
                    reply = server.ask(data)
                    if path == "/v1/models" and status == 413:
                        continue  # there is no POST
                    self.assertEqual(reply.status, status, data[:80])
                    if status != 414:  # the path is too long to be read
                        self.assertTrue(is_right(reply.json()), (status, path, reply.body))

    def test_total(self):
        flags = ("--limit", "connections=100", "--limit", "connections-per-ip=1000")
        for n, served in ((99, 99), (100, 100), (101, 100), (400, 100)):
            self.assertEqual(self.count(flags, n), served)

    def two_and_no_third(self, server):
        """Two concurrent connections are served, a third one is not."""
        with server.wire() as a, server.wire() as b:
            if [a.ask(get()).status, b.ask(get()).status] != [200, 200]:
                return False
            with server.wire() as c:
                c.send(get())
                self.assertEqual(c.reply().status, 503)
        return True

    def test_closed_connections_free_their_slot(self):
        """As soon as the server has seen that the others are closed."""
        with http_rig.Server("--limit", "connections=2") as server:
            for _ in range(5):
                self.assertTrue(http_rig.until(lambda: self.two_and_no_third(server)))

    def held(self, server):
        """Bytes of request bodies in memory."""
        text = server.ask(get("/metrics", server.local_key())).body.decode()
        return int(http_rig.re.search(r'mote_memory_bytes{kind="request_bodies"} (\d+)', text).group(1))

    def test_all_bodies_together(self):
        with http_rig.Server("--limit", "total-body-bytes=100000") as server:
            head = get("/tokenize", b"Content-Type: application/json", b"Content-Length: 90000",
                       method=b"POST")
            with server.wire() as first:
                first.send(head + b"a" * 80000)
                self.assertTrue(http_rig.until(lambda: self.held(server) >= 80000))
                self.assertEqual(server.ask(head).status, 503)
                self.assertEqual(server.ask(post("/tokenize", {"content": "a"})).status, 200)
            self.assertTrue(http_rig.until(lambda: self.held(server) < 10000))
            self.assertEqual(server.ask(head + b"a" * 90000).status, 400)


class Settings(http_rig.unittest.TestCase):
    def refused(self, *flags):
        server = http_rig.Server(*flags, wait=False)
        code = server.process.wait(http_rig.PATIENCE)
        text = server.log()
        server.close()
        return code, text

    def test_names_and_ranges(self):
        code, text = self.refused("--limit", "conections=5")
        self.assertEqual(code, 2)
        self.assertIn("connections-per-ip", text)
        for wrong in ("connections=0", "connections=x", "connections", "connections=5x",
                      "header-fields=65", "target-bytes=4097", "header-bytes=99999"):
            self.assertEqual(self.refused("--limit", wrong)[0], 2, wrong)

    def test_lowered(self):
        flags = []
        for text in ("header-fields=8", "header-bytes=512", "target-bytes=64", "body-bytes=2048"):
            flags += ["--limit", text]
        with http_rig.Server(*flags) as server:
            for make, limit, inside, beyond in ((with_fields, 8, 200, 431), (with_target, 64, 404, 414),
                                                (with_field_bytes, 512, 200, 431),
                                                (with_body, 2048, 200, 413)):
                self.assertEqual(server.ask(make(limit)).status, inside)
                self.assertEqual(server.ask(make(limit + 1)).status, beyond)


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    http_rig.main()
