# SPDX-License-Identifier: Apache-2.0
"""Shared by the HTTP tests: a real server process, and sockets that send and receive raw bytes.

MOTE is the program, DATA the directory of test models; ctest sets both. Every reply is checked for
content that no reply may have: addresses, paths, keys.
"""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from around import SANITIZED, is_quiet  # noqa: E402,F401

MOTE = os.environ.get("MOTE", "build/release/mote")
MODEL = Path(os.environ.get("DATA", "build/release/data")) / "mote-tiny-Q4_K_M.gguf"
SKIPPED = 77
# Sanitizers and busy machines are slower.
PATIENCE = float(os.environ.get("MOTE_TEST_PATIENCE", "300"))
# Replies must not contain the directory of the model.
LEAKS = [re.compile(rb"0x[0-9a-f]{6,}"), re.compile(rb"(?<![\w<])/(?:home|root|tmp|usr|etc|var|work)/"),
         re.compile(re.escape(str(MODEL.parent).encode()))]

HOST = b"Host: localhost\r\n"


class Reply:
    """One response, read from a socket according to its framing."""

    def __init__(self, status, headers, body, raw_head):
        self.status, self.headers, self.body, self.raw_head = status, headers, body, raw_head

    def json(self):
        return json.loads(self.body)


def no_leak(data):
    for pattern in LEAKS:
        found = pattern.search(data)
        if found:
            raise AssertionError(f"a reply leaks {found.group()!r}: {data[:500]!r}")


def own_address():
    """An address of this machine that is not loopback; None: there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return None
        address = s.getsockname()[0]
    return None if address.startswith("127.") else address


class Wire:
    """A connection. A timeout is a failure."""

    def __init__(self, address, timeout=None):
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX)
        else:
            self.socket = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        self.socket.settimeout(timeout or PATIENCE)
        self.socket.connect(address)
        if not isinstance(address, str):
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def _more(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.buffer += data
        return bool(data)

    def _until(self, mark):
        while mark not in self.buffer:
            if not self._more():
                raise EOFError(f"closed before {mark!r}: {self.buffer!r}")
        head, self.buffer = self.buffer.split(mark, 1)
        return head

    def _exactly(self, n):
        while len(self.buffer) < n:
            if not self._more():
                raise EOFError("closed inside a body")
        body, self.buffer = self.buffer[:n], self.buffer[n:]
        return body

    def _chunks(self):
        body = b""
        while True:
            n = int(self._until(b"\r\n"), 16)
            body += self._exactly(n)
            if self._exactly(2) != b"\r\n":
                raise AssertionError("a chunk does not end with CR LF")
            if n == 0:
                return body

    def reply(self, method="GET"):
        """The next response, 1xx responses included."""
        raw = self._until(b"\r\n\r\n")
        first, *lines = raw.split(b"\r\n")
        version, status, _ = first.split(b" ", 2)
        if version != b"HTTP/1.1":
            raise AssertionError(f"not HTTP: {first!r}")
        headers = {}
        for line in lines:
            name, value = line.split(b": ", 1)
            name = name.decode().lower()
            if name in headers:
                raise AssertionError(f"{name} comes twice")
            headers[name] = value.decode("latin-1")
        status = int(status)
        if method == "HEAD" or status in (100, 204):
            body = b""
        elif headers.get("transfer-encoding") == "chunked":
            body = self._chunks()
        elif "content-length" in headers:
            body = self._exactly(int(headers["content-length"]))
        else:
            while self._more():
                pass
            body, self.buffer = self.buffer, b""
        no_leak(raw + body)
        return Reply(status, headers, body, raw)

    def closed(self, within=None):
        """The server closes the connection without sending another byte."""
        self.socket.settimeout(within or PATIENCE)
        try:
            while self._more():
                pass
        except socket.timeout:
            return False
        return self.buffer == b""

    def ask(self, data, method="GET"):
        self.send(data)
        return self.reply(method)


def until(holds, seconds=None):
    """Waits until the condition holds; False: timeout."""
    end = time.monotonic() + (seconds or PATIENCE)
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.02)
    return False


def own_memory(pid):
    """Private bytes of a process. Not from `status`, which lags behind by some pages per CPU."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))


class Server:
    """`mote serve` on a free port, until the end of a with statement."""

    def __init__(self, *flags, env=None, listen=("127.0.0.1:0",), keys=None, prepare=None,
                 pass_fds=(), wait=True):
        self.directory = tempfile.TemporaryDirectory(prefix="mote-http-")
        self.log_path = Path(self.directory.name) / "log"
        words = [MOTE, "serve", str(MODEL), "--threads", "1", "--mmproj", "none", *flags]
        for address in listen:
            words += ["--listen", address]
        if keys:
            path = Path(self.directory.name) / "keys"
            path.write_text("\n".join(keys) + "\n", encoding="utf-8")
            words += ["--api-key-file", str(path)]
        self.env = {**os.environ, "XDG_RUNTIME_DIR": self.directory.name, **(env or {})}
        for name in ("MOTE_HOST", "MOTE_API_KEY", "MOTE_API_KEY_FILE", "MOTE_LOG", "NOTIFY_SOCKET"):
            if not env or name not in env:
                self.env.pop(name, None)
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=log,
                                            env=self.env, preexec_fn=prepare, pass_fds=pass_fds)
        self.addresses = []
        if wait:
            self.wait_ready(len(listen))

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def wait_ready(self, n):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = re.findall(r"listening on (?:http://)?(\S+).*\n", self.log())
            if len(found) >= max(n, 1):
                self.addresses = [self._address(text) for text in found]
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError("the server did not start: " + self.log())

    @staticmethod
    def _address(text):
        if text.startswith("unix:"):
            return text[5:]
        host, port = text.rsplit(":", 1)
        return host.strip("[]"), int(port)

    def local_key(self):
        """A header with the key of a server without API keys, for the user that started it."""
        path = Path(self.directory.name) / "mote" / f"{self.address[1]}.key"
        return b"x-api-key: " + path.read_bytes()

    @property
    def address(self):
        return self.addresses[0]

    def wire(self, timeout=None):
        return Wire(self.address, timeout)

    def ask(self, data, method="GET"):
        """One request on a new connection."""
        with self.wire() as wire:
            return wire.ask(data, method)

    def stop(self, patience=None):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(patience or PATIENCE)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.directory.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            code = self.stop()
            text = self.log()
        finally:
            self.close()
        if code != 0 or "Sanitizer" in text or "runtime error" in text:
            report = text.find("Sanitizer: ")
            shown = text[-3000:] if report < 0 else text[report:report + 6000]
            raise AssertionError(f"the server ended with {code}: {shown}")


def get(path="/health", *lines, method=b"GET", version=b"HTTP/1.1", host=HOST):
    return (method + b" " + path.encode() + b" " + version + b"\r\n" + host +
            b"".join(line + b"\r\n" for line in lines) + b"\r\n")


def post(path, body, *lines, kind=b"application/json", host=HOST):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    extra = [b"Content-Type: " + kind] if kind is not None else []
    extra.append(b"Content-Length: " + str(len(body)).encode())
    return get(path, *extra, *lines, method=b"POST", host=host) + body


class OneServer(unittest.TestCase):
    """Tests that share one server with the flags and keys of the class."""

    flags = ()
    keys = None
    env = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.flags, keys=cls.keys, env=cls.env)
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def alive(self):
        self.assertEqual(self.server.ask(get()).status, 200)


def main():
    if not MODEL.is_file():
        print(f"there is no {MODEL}")
        sys.exit(SKIPPED)
    unittest.main(module="__main__", verbosity=1)
