# SPDX-License-Identifier: Apache-2.0
"""fake_server.py - a server with the page of a real one and scripted answers.

Files of the page come from a real `mote serve`, with its headers. /v1/chat/completions sends what a test has put into
`answers`: a list of bytes and numbers. Bytes are sent as they are, numbers are pauses in seconds, a threading.Event is
waited for.
"""
import http.server
import json
import threading
import time
import urllib.request


def chunk(delta, finish=None, **more):
    """A data line of a chat completion."""
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


END = chunk({}, "stop") + b"data: [DONE]\n\n"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, headers, data):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/v1/models":
            body = {"data": [{"id": "fake", "context_length": 32768}]}
            self.reply(200, {"Content-Type": "application/json"}, json.dumps(body).encode())
            return
        if self.path == "/health":
            self.reply(200, {"Content-Type": "application/json"}, b"{}")
            return
        request = urllib.request.Request(self.server.real.url + self.path,
                                         headers={"Accept": self.headers.get("Accept", "*/*"), "Accept-Encoding": "gzip"})
        with urllib.request.urlopen(request) as got:
            kept = ("content-type", "content-encoding", "content-security-policy", "x-content-type-options")
            self.reply(got.status, {k: v for k, v in got.headers.items() if k.lower() in kept}, got.read())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/chat/completions/control":
            self.server.controls.append(body)
            self.reply(200, {"Content-Type": "application/json"}, b"{}")
            return
        self.server.requests.append(body)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for part in self.server.answers.pop(0):
                if isinstance(part, bytes):
                    self.wfile.write(part)
                    self.wfile.flush()
                elif isinstance(part, threading.Event):
                    part.wait(60)
                else:
                    time.sleep(part)
        except (BrokenPipeError, ConnectionResetError):
            self.server.left += 1


class FakeServer:
    def __init__(self, real):
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.real, self.http.answers, self.http.requests, self.http.left = real, [], [], 0
        self.http.controls = []
        self.http.daemon_threads = True
        self.answers, self.requests, self.controls = self.http.answers, self.http.requests, self.http.controls
        self.url = "http://127.0.0.1:%d" % self.http.server_address[1]
        self.key = None
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def left(self):
        """Requests that the page has closed before their end."""
        return self.http.left

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()
