# SPDX-License-Identifier: Apache-2.0
"""fallback.py - examples/fallback with real endpoints: healthy, unreachable, overloaded, not confident."""
import os
import re
import socket
import socketserver
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sdk"))
import rig  # noqa: E402
from rig import case, equal  # noqa: E402

EXAMPLE = os.path.join(HERE, "..", "..", "examples", "fallback", "fallback.py")


SILENT, WAITING = 0, 200


class Answer(socketserver.BaseRequestHandler):
    """Sends one reply to any request: an error; nothing; or comments, as a server that queues or prefills a request."""

    def read_request(self):
        """Reads the whole request. Closing earlier would reset the connection."""
        asked, head = b"", None
        while head is None or len(asked) < head.end() + int(head[1]):
            piece = self.request.recv(65536)
            asked += piece
            head = re.match(rb"(?s).*?\ncontent-length: *(\d+).*?\r\n\r\n", asked, re.IGNORECASE)
            if not piece:
                break

    def send_comments(self):
        try:
            self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            while not self.server.patience.wait(0.1):
                self.request.sendall(b": waiting\n\n")
        except OSError:
            pass  # the client has closed the connection

    def handle(self):
        self.read_request()
        if self.server.status == SILENT:
            self.server.patience.wait(rig.PATIENCE)
            return
        if self.server.status == WAITING:
            self.send_comments()
            return
        body = b'{"error":{"message":"no","type":"t","param":null,"code":"c"}}'
        self.request.sendall(b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                             b"Connection: close\r\n\r\n%s" % (self.server.status, len(body), body))


def run(local_url, server, patience=rig.PATIENCE, min_confidence=0):
    env = {**os.environ, "LOCAL_URL": local_url, "LOCAL_KEY": rig.KEY, "REMOTE_URL": server.url + "/v1",
           "REMOTE_KEY": rig.KEY, "REMOTE_MODEL": "other", "PATIENCE": str(patience),
           "MIN_CONFIDENCE": str(min_confidence)}
    done = subprocess.run([sys.executable, EXAMPLE, rig.FACT], env=env, text=True, capture_output=True,
                          timeout=rig.PATIENCE)
    return done.returncode, done.stdout.strip(), done.stderr.strip().splitlines()[-1:]


def run_with_status(status, server):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as other:
        other.status, other.patience = status, threading.Event()
        threading.Thread(target=other.serve_forever, daemon=True).start()
        patience = 2 if status in (SILENT, WAITING) else rig.PATIENCE
        result = run(f"http://127.0.0.1:{other.server_address[1]}/v1", server, patience)
        other.patience.set()
        other.shutdown()
    return result


@case
def local_first(server):
    code, text, backends = run(server.url + "/v1", server)
    equal((code, backends), (0, ["(local)"]))
    assert text, "no answer"


@case
def confidence_decides(server):
    # A mean of probabilities is between 0 and 1; 1.1 is more than any answer has.
    for minimum, backend in ((1e-9, "(local)"), (1.1, "(remote)")):
        code, text, backends = run(server.url + "/v1", server, min_confidence=minimum)
        equal((minimum, code, backends), (minimum, 0, [backend]))
        assert text, "no answer"


@case
def unreachable(server):
    with socket.socket() as taken:  # reserves the port
        taken.bind(("127.0.0.1", 0))
        equal(run(f"http://127.0.0.1:{taken.getsockname()[1]}/v1", server)[2], ["(remote)"])


@case
def full_or_stopping_or_slow(server):
    for status in (429, 503, SILENT, WAITING):
        code, text, backends = run_with_status(status, server)
        equal((status, code, backends), (status, 0, ["(remote)"]))
        assert text


@case
def client_errors_are_not_hidden(server):
    code, text, _ = run_with_status(400, server)
    assert code != 0 and text == ""


with rig.Server() as one:
    result = rig.main(one)
sys.exit(result)
