# SPDX-License-Identifier: Apache-2.0
"""spawner_test.py - a server that an attacker controls cannot change the settings of `mote-pull --spawner`.

The test is the server: it sends the settings once, then requests. Two hubs on loopback record what is asked of them. The
hub of the settings must get every request, with the token; the hub of the attacker none.

usage: spawner_test.py MOTE_PULL"""
import http.server
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "hub"))
from certificates import Authority  # noqa: E402

PATIENCE = 300
TOKEN = "hf_secretsecretsecret"


class Hub:
    """Knows no repository, and records paths and tokens."""

    def __init__(self, authority, name):
        seen = self.seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                seen.append((self.path, self.headers.get("Authorization")))
                self.send_response(404)
                self.send_header("X-Error-Code", "RepoNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.certificate(name))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://localhost:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Spawner:
    def __init__(self, program, settings):
        self.control, other = socket.socketpair()
        self.process = subprocess.Popen([program, "--spawner"], stdin=other)
        other.close()
        self.send(settings).close()

    def send(self, message):
        mine, other = socket.socketpair()
        mine.settimeout(PATIENCE)
        socket.send_fds(self.control, [b"\0"], [other.fileno()])
        other.close()
        mine.sendall(message if isinstance(message, bytes) else json.dumps(message).encode())
        mine.shutdown(socket.SHUT_WR)
        return mine

    def last_event(self, message):
        with self.send(message) as events, events.makefile("r", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines][-1]

    def end(self):
        self.control.close()
        assert self.process.wait(PATIENCE) == 0


def main(program):
    with tempfile.TemporaryDirectory() as directory:
        os.mkdir(os.path.join(directory, "ca"))
        authority = Authority(os.path.join(directory, "ca"))
        good, evil = Hub(authority, "good"), Hub(authority, "evil")
        cache, other = os.path.join(directory, "cache"), os.path.join(directory, "other")
        os.makedirs(cache)
        settings = {"cache": cache, "endpoint": good.url, "token": TOKEN, "ca_file": authority.file, "retry_wait": 0.01}
        hostile = {"endpoint": evil.url, "cache": other, "state": other, "token": "hf_otherotherother", "from": "/etc",
                   "proxy": evil.url, "no_proxy": "", "ca_file": "/etc/passwd", "ca_dir": "/etc", "jobs": 16,
                   "limit_rate": 1, "timeout": 3600, "retry_wait": 60, "dry_run": True, "no_symlinks": True}
        spawner = Spawner(program, settings)
        event = spawner.last_event({**settings, "repo": "a/b", "endpoint": evil.url, "cache": other})
        assert evil.seen == [] and event["code"] == "bad_request", (evil.seen, event)
        for field, value in hostile.items():
            event = spawner.last_event({"repo": "a/b", field: value})
            assert (event["event"], event["code"]) == ("error", "bad_request"), (field, event)
            assert field in event["message"], event
        for message in (hostile, {**settings, **hostile, "repo": "a/b"}, settings, {}, [], b"", b"{"):
            event = spawner.last_event(message)
            assert event["code"] == "bad_request", (message, event)
        assert evil.seen == [] and good.seen == [], (evil.seen, good.seen)
        event = spawner.last_event({"repo": "owner/name", "quant": "Q4_K_M"})
        assert event["code"] == "not_found", event
        assert good.seen and all(path.startswith("/api/models/owner/name") and token == "Bearer " + TOKEN
                                 for path, token in good.seen), good.seen
        assert evil.seen == [], evil.seen
        assert not os.path.exists(other)
        spawner.end()
        wrong = Spawner(program, {"cache": "relative"})
        assert wrong.last_event({"repo": "a/b"})["code"] == "bad_request"
        wrong.end()


if __name__ == "__main__":
    main(sys.argv[1])
