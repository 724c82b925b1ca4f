# SPDX-License-Identifier: Apache-2.0
"""Listening sockets, systemd, deadlines, clients that do not read, shutdown, log."""
import json
import os
import resource
import signal
import socket
import stat
import time

import http_rig
from http_rig import get, post, until

LONG = {"prompt": "a", "max_tokens": 4000, "ignore_eos": True, "stream": True}
SHORT = {**LONG, "max_tokens": 150}


def in_time(test, least, most, measure):
    """Never sooner than `least` seconds, and in one of several attempts not later than `most`: a wrong
    deadline fails every time, a busy machine only sometimes."""
    times = []
    while len(times) < 4 and not (times and times[-1] < most):
        times.append(measure())
        test.assertGreater(times[-1], least)
    test.assertLess(times[-1], most, times)


class Sockets(http_rig.unittest.TestCase):
    def test_unix_socket(self):
        with http_rig.tempfile.TemporaryDirectory(prefix="mote-http-") as directory:
            path = directory + "/mote.sock"
            with http_rig.Server(listen=("unix:" + path,)) as server:
                mode = os.stat(path).st_mode
                self.assertTrue(stat.S_ISSOCK(mode))
                self.assertEqual(stat.S_IMODE(mode), 0o600)
                self.assertEqual(server.ask(get()).status, 200)
                self.assertEqual(server.ask(get("/health", b"Origin: https://evil.example")).status, 403)
                other = http_rig.Server(listen=("unix:" + path,), wait=False)
                self.assertEqual(other.process.wait(http_rig.PATIENCE), 1)
                self.assertIn("the address is in use", other.log())
                other.close()
                self.assertEqual(server.ask(get()).status, 200)
            self.assertFalse(os.path.exists(path))
            left = socket.socket(socket.AF_UNIX)  # as a process that was killed leaves it
            left.bind(path)
            left.close()
            with http_rig.Server(listen=("unix:" + path,)) as server:
                self.assertEqual(server.ask(get()).status, 200)

    def test_several_addresses(self):
        with http_rig.tempfile.TemporaryDirectory(prefix="mote-http-") as directory:
            with http_rig.Server(listen=("127.0.0.1:0", "[::1]:0", f"unix:{directory}/s")) as server:
                for address in server.addresses:
                    with http_rig.Wire(address) as wire:
                        self.assertEqual(wire.ask(get()).status, 200)

    def test_taken_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            server = http_rig.Server(listen=("127.0.0.1:%d" % taken.getsockname()[1],), wait=False)
            self.assertEqual(server.process.wait(http_rig.PATIENCE), 1)
            self.assertIn("--listen", server.log())
            server.close()

    def test_nonsense(self):
        for address in ("localhost", "127.0.0.1:99999", "127.0.0.1:", "nowhere.example:80", "unix:", ""):
            server = http_rig.Server(listen=(address,), wait=False)
            self.assertEqual(server.process.wait(http_rig.PATIENCE), 2, address)
            server.close()


class ServiceManager(http_rig.unittest.TestCase):
    def passed(self, listening, **more):
        """A server that gets the socket as descriptor 3, as from systemd."""
        os.set_inheritable(listening.fileno(), True)

        def prepare():
            os.dup2(listening.fileno(), 3)
            os.environ["LISTEN_PID"] = str(os.getpid())

        # LISTEN_PID is known only after the fork: a shell sets it
        mote = http_rig.MOTE
        wrapper = http_rig.tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False)
        with wrapper:
            wrapper.write('#!/bin/sh\nLISTEN_PID=$$ exec "%s" "$@"\n' % os.path.abspath(mote))
        os.chmod(wrapper.name, 0o700)
        http_rig.MOTE = wrapper.name
        try:
            return http_rig.Server(listen=(), prepare=prepare, pass_fds=(3, listening.fileno()),
                               env={"LISTEN_FDS": "1", **more.pop("env", {})}, **more)
        finally:
            http_rig.MOTE = mote
            self.addCleanup(os.unlink, wrapper.name)

    def test_activation(self):
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            with self.passed(listening) as server:
                self.assertEqual(server.address[1], listening.getsockname()[1])
                self.assertEqual(server.ask(get()).status, 200)

    def test_activation_needs_a_key_too(self):
        with socket.socket() as listening:
            listening.bind(("0.0.0.0", 0))
            listening.listen()
            server = self.passed(listening, wait=False)
            self.assertEqual(server.process.wait(http_rig.PATIENCE), 2)
            self.assertIn("key", server.log())
            server.close()

    def test_no_activation_for_another_process(self):
        server = http_rig.Server(listen=("systemd",), env={"LISTEN_FDS": "1", "LISTEN_PID": "1"}, wait=False)
        self.assertEqual(server.process.wait(http_rig.PATIENCE), 2)
        self.assertIn("systemd", server.log())
        server.close()

    def test_ready_and_stopping(self):
        with http_rig.tempfile.TemporaryDirectory(prefix="mote-http-") as directory:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifications:
                notifications.bind(directory + "/notify")
                notifications.settimeout(http_rig.PATIENCE)
                with http_rig.Server(env={"NOTIFY_SOCKET": directory + "/notify", "WATCHDOG_USEC": "400000"}):
                    words = [notifications.recv(100) for _ in range(4)]
                    self.assertEqual(words, [b"READY=1"] + [b"WATCHDOG=1"] * 3)
                    ready = True
                while words[-1] != b"STOPPING=1":
                    words.append(notifications.recv(100))
                self.assertTrue(ready)


class Deadlines(http_rig.OneServer):
    flags = ("--limit", "header-seconds=1", "--limit", "body-seconds=1", "--limit", "idle-seconds=1.5",
             "--limit", "linger-seconds=0.5", "--limit", "body-bytes-per-second=100")

    def late(self, first, then=b"", every=0.1):
        """Seconds until the server replies or closes, and the reply."""
        began = time.monotonic()
        with self.server.wire() as wire:
            wire.send(first)
            wire.socket.settimeout(every)
            while time.monotonic() - began < http_rig.PATIENCE:
                try:
                    data = wire.socket.recv(65536)
                    wire.buffer += data
                    break
                except socket.timeout:
                    if then:
                        wire.send(then)
            took = time.monotonic() - began
            wire.socket.settimeout(http_rig.PATIENCE)
            return took, wire.reply().status if wire.buffer else None

    def refused(self, status, first, then=b"", least=0.9):
        def measure():
            took, got = self.late(first, then)
            self.assertEqual(got, status)
            return took
        in_time(self, least, 5, measure)

    def test_no_byte(self):
        self.refused(None, b"")

    def test_head(self):
        self.refused(408, b"GET /health HTTP/1.1\r\n", b"X")

    def test_body(self):
        head = get("/tokenize", b"Content-Type: application/json", b"Content-Length: 1000", method=b"POST")
        for then in (b"", b"a"):
            self.refused(408, head + b"a" * 50, then)

    def test_body_that_stalls_after_a_fast_beginning(self):
        head = get("/tokenize", b"Content-Type: application/json", b"Content-Length: 100000",
                   method=b"POST")
        self.refused(408, head + b"a" * 90000, least=0)

    def test_body_of_zeros(self):
        """Leading zeros of a chunk size do not count as body bytes."""
        head = get("/tokenize", b"Content-Type: application/json", b"Transfer-Encoding: chunked",
                   method=b"POST")
        _, status = self.late(head, b"0" * 200)
        self.assertIn(status, (400, 408))

    def trickle(self, head, body):
        """The status, also if the server refuses before the body is sent."""
        with self.server.wire() as wire:
            try:
                wire.send(head)
                for at in range(0, len(body), 60):
                    wire.send(body[at:at + 60])
                    time.sleep(0.2)
                return wire.reply().status
            except (BrokenPipeError, ConnectionResetError, EOFError):
                return None

    def test_slow_but_fast_enough(self):
        """One of several attempts: a busy machine may be too slow."""
        body = json.dumps({"content": "a" * 700}).encode()
        head = get("/tokenize", b"Content-Type: application/json", b"Content-Length: %d" % len(body),
                   method=b"POST")
        self.assertTrue(any(self.trickle(head, body) == 200 for _ in range(5)))

    def test_idle(self):
        def measure():
            with self.server.wire() as wire:
                began = time.monotonic()
                wire.ask(get())
                self.assertTrue(wire.closed())
                return time.monotonic() - began
        in_time(self, 1.4, 10, measure)

    def test_linger_ends(self):
        """A client that keeps sending after a refusal is disconnected."""
        with self.server.wire() as wire:
            wire.send(get("/health", b"Host: again"))
            self.assertEqual(wire.reply().status, 400)

            def cut_off():
                try:
                    wire.send(b"a" * 10)
                except (BrokenPipeError, ConnectionResetError):
                    return True
            self.assertTrue(until(cut_off))


class Readers(http_rig.unittest.TestCase):
    def busy(self, server):
        reply = server.ask(get("/slots", server.local_key())).json()
        return any(slot["is_processing"] for slot in reply)

    def slow_reader(self, server, body):
        wire = http_rig.Wire.__new__(http_rig.Wire)
        wire.socket, wire.buffer = socket.socket(), b""
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.socket.settimeout(http_rig.PATIENCE)
        wire.socket.connect(server.address)
        wire.send(post("/v1/completions", body))
        return wire

    def test_unread_stream(self):
        """The stream is closed when the output buffer is full, and its generation ends."""
        with http_rig.Server("--limit", "output-buffer-bytes=4096", "-c", "8192") as server:
            with self.slow_reader(server, {**LONG, "max_tokens": 8000, "logprobs": 20}):
                self.assertTrue(until(lambda: self.busy(server)))
                self.assertTrue(until(lambda: " 499 " in server.log(), http_rig.PATIENCE), server.log())
                self.assertTrue(until(lambda: not self.busy(server)))

    def test_stalled_reader(self):
        with http_rig.Server("--limit", "stall-seconds=1", "--limit", "output-buffer-bytes=67108864",
                         "-c", "8192") as server:
            with self.slow_reader(server, {**LONG, "max_tokens": 8000, "logprobs": 20}):
                self.assertTrue(until(lambda: " 499 " in server.log(), http_rig.PATIENCE))

    def test_client_disconnects(self):
        with http_rig.Server() as server:
            for _ in range(3):
                with server.wire() as wire:
                    wire.send(post("/v1/completions", {**LONG, "max_tokens": 20000}))
                    wire._until(b"data:")
                self.assertTrue(until(lambda: not self.busy(server)))
            self.assertTrue(until(lambda: server.log().count(" 499 ") == 3), server.log())

    def test_client_disconnects_in_its_body(self):
        with http_rig.Server() as server:
            for cut in (10, 100, 150):
                with server.wire() as wire:
                    wire.send(post("/v1/completions", LONG)[:cut])
            self.assertEqual(server.ask(get()).status, 200)


class Shutdown(http_rig.unittest.TestCase):
    def test_idle_server_ends_at_once(self):
        def measure():
            with http_rig.Server() as server, server.wire() as idle:
                idle.ask(get())
                began = time.monotonic()
                self.assertEqual(server.stop(), 0)
                return time.monotonic() - began
        in_time(self, 0, 5, measure)

    def test_running_generations_finish(self):
        for sent in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with http_rig.Server("--drain", "600") as server:  # a machine may stand still for longer than the usual 30
                with server.wire() as alone:
                    want = alone.ask(post("/v1/completions", {**SHORT, "seed": 7})).body
                with server.wire() as wire, server.wire() as idle, server.wire() as kept:
                    kept.ask(get())
                    wire.send(post("/v1/completions", {**SHORT, "seed": 7}))
                    first = wire._until(b"data:")
                    server.process.send_signal(sent)
                    wire.buffer = first + b"data:" + wire.buffer
                    reply = wire.reply()
                    self.assertEqual(reply.body.count(b"data:"), want.count(b"data:"))
                    self.assertTrue(reply.body.endswith(b"[DONE]\n\n"))
                    self.assertTrue(idle.closed() and kept.closed())
                    self.assertEqual(server.process.wait(http_rig.PATIENCE), 0)
                self.assertIn("stopped", server.log())

    def test_no_new_connections_while_draining(self):
        with http_rig.Server("--drain", "3", "-c", "30000") as server:
            address = server.address
            with server.wire() as wire, server.wire() as body:
                body.send(post("/tokenize", {"content": "a"})[:-3])
                wire.send(post("/v1/completions", {**LONG, "max_tokens": 29000}))
                wire._until(b"data:")
                server.process.send_signal(signal.SIGTERM)
                self.assertTrue(until(lambda: "stopping" in server.log()))
                with self.assertRaises(ConnectionRefusedError):
                    http_rig.Wire(address)
                began = time.monotonic()
                self.assertEqual(server.process.wait(http_rig.PATIENCE), 0)
                self.assertLess(time.monotonic() - began, 20)  # 30 unless said otherwise

    def test_requests_on_their_way_are_served(self):
        """Requests that arrive together with the signal, on new and on kept connections."""
        with http_rig.Server("--drain", "600") as server:
            kept = [server.wire() for _ in range(8)]
            for wire in kept:
                self.assertEqual(wire.ask(get()).status, 200)
            server.process.send_signal(signal.SIGSTOP)
            new = [server.wire() for _ in range(24)]  # the kernel accepts them
            for wire in kept + new:
                wire.send(post("/tokenize", {"content": "a"}))
            server.process.send_signal(signal.SIGTERM)
            server.process.send_signal(signal.SIGCONT)
            for wire in kept + new:
                reply = wire.reply()
                self.assertEqual(reply.status, 200, reply.body)
                # A reply that was sent before the event loop saw the signal has no such header;
                # then the drain closes the idle connection.
                self.assertEqual(reply.headers.get("connection", "close"), "close")
                self.assertTrue(wire.closed())
                wire.socket.close()
            self.assertEqual(server.process.wait(http_rig.PATIENCE), 0)

    def test_drain_delay(self):
        """Between the signal and the end of the delay only /health changes."""
        with http_rig.Server("--drain-delay", "4") as server:
            with server.wire() as kept:
                self.assertEqual(kept.ask(get()).status, 200)
                server.process.send_signal(signal.SIGTERM)
                self.assertTrue(until(lambda: "stopping" in server.log()))
                reply = server.ask(get())
                self.assertEqual((reply.status, reply.headers["connection"]), (503, "close"))
                self.assertEqual(server.ask(post("/v1/completions", {**SHORT, "max_tokens": 2})).status, 200)
                reply = kept.ask(post("/tokenize", {"content": "a"}))
                self.assertEqual((reply.status, reply.headers["connection"]), (200, "close"))
            began = time.monotonic()
            self.assertEqual(server.process.wait(http_rig.PATIENCE), 0)
            self.assertLess(time.monotonic() - began, 60)

    def test_unfinished_requests_get_an_error(self):
        """After --drain a stream ends with an error event, and other requests get 503."""
        with http_rig.Server("--drain", "0.5", "-c", "30000") as server:
            with server.wire() as stream, server.wire() as whole:
                body = {**LONG, "max_tokens": 29000}
                stream.send(post("/v1/completions", body))
                first = stream._until(b"data:")
                whole.send(post("/v1/completions", {**body, "stream": False}))
                self.assertTrue(until(lambda: b'phase="prefill"} 0' in (m := server.ask(get("/metrics", server.local_key())).body) and
                                      b'phase="decode"} 2' in m))
                server.process.send_signal(signal.SIGTERM)
                stream.buffer = first + b"data:" + stream.buffer
                self.assertIn(b'"code":"draining"', stream.reply().body.split(b"data: ")[-1])
                reply = whole.reply()
                self.assertEqual((reply.status, reply.json()["error"]["code"]), (503, "draining"))
            self.assertEqual(server.process.wait(http_rig.PATIENCE), 0)

    def test_second_signal(self):
        with http_rig.Server("--drain", "100", "-c", "30000") as server:
            with server.wire() as wire:
                wire.send(post("/v1/completions", {**LONG, "max_tokens": 29000}))
                wire._until(b"data:")
                server.process.send_signal(signal.SIGTERM)
                self.assertTrue(until(lambda: "stopping" in server.log()))
                server.process.send_signal(signal.SIGTERM)
                self.assertIn(server.process.wait(http_rig.PATIENCE), (0, 143))
            server.process.returncode = 0


class Many(http_rig.unittest.TestCase):
    def test_ten_thousand_idle(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        n = min(500 if http_rig.SANITIZED else 10000, hard - 200)
        if n < 500:
            self.skipTest("too few descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        try:
            self.hold(n)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def hold(self, n):
        flags = ("--limit", f"connections={n + 100}", "--limit", f"connections-per-ip={n + 100}",
                 "--limit", "idle-seconds=600", "--limit", "header-seconds=600", "--log", "off")
        with http_rig.Server(*flags) as server:
            before, wires = http_rig.own_memory(server.process.pid), []
            for _ in range(n):
                wire = server.wire()
                wire.send(get())
                wires.append(wire)
            for wire in wires:
                self.assertEqual(wire.reply().status, 200)
            each = (http_rig.own_memory(server.process.pid) - before) / n
            began = time.monotonic()
            reply = server.ask(post("/v1/completions", {"prompt": "a", "max_tokens": 20}))
            self.assertEqual(reply.status, 200)
            print(f"{n} idle: {each:.0f} bytes each, an answer in {time.monotonic() - began:.3f} s")
            self.assertLess(each, 65536 if http_rig.SANITIZED else 8192)
            for wire in wires[::1000]:
                self.assertEqual(wire.ask(get()).status, 200)
            for wire in wires:
                wire.socket.close()
            self.assertEqual(server.ask(get()).status, 200)


class Log(http_rig.unittest.TestCase):
    def lines(self, *flags):
        with http_rig.Server(*flags) as server:
            server.ask(get("/nowhere%1b%5b31m%0a"[:8], b"User-Agent: \xff<evil>"))
            server.ask(post("/v1/completions", {"prompt": "THE SECRET", "max_tokens": 3}))
            server.ask(get("/a b"))
            self.assertTrue(until(lambda: server.log().count("req_") >= 3))
            text = server.log()
        self.assertNotIn("SECRET", text)
        self.assertNotIn("evil", text)
        return [line for line in text.split("\n") if "req_" in line]

    def test_one_line_each(self):
        self.assertEqual(len(self.lines()), 3)
        for line in self.lines("--log", "json"):
            self.assertIn(json.loads(line)["status"], (200, 400, 404))

    def test_unread_log(self):
        """A full pipe loses log lines and does not block the server."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        words = [http_rig.MOTE, "serve", str(http_rig.MODEL), "--threads", "1", "--listen", "127.0.0.1:0"]
        process = http_rig.subprocess.Popen(words, stderr=write)
        os.close(write)
        try:
            text = b""
            while b"listening" not in text or not text.endswith(b"\n"):
                try:
                    text += os.read(read, 65536)
                except BlockingIOError:
                    time.sleep(0.05)
            port = int(http_rig.re.search(rb"listening on http://127.0.0.1:(\d+)", text).group(1))
            with http_rig.Wire(("127.0.0.1", port)) as wire:
                for _ in range(3000):
                    self.assertEqual(wire.ask(get()).status, 200)
            process.terminate()
            self.assertEqual(process.wait(http_rig.PATIENCE), 0)
        finally:
            process.kill()
            process.wait()
            os.close(read)

    def test_off(self):
        with http_rig.Server("--log", "off") as server:
            server.ask(get())
            self.assertNotIn("req_", server.log())


if __name__ == "__main__":
    http_rig.main()
