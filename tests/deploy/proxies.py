# SPDX-License-Identifier: Apache-2.0
"""proxies.py - nginx and HAProxy with the configurations of deploy/, in front of real servers.

Only addresses are replaced in the files. A stream must arrive event by event, a disconnect must free
the slot, and two servers behind a proxy with session affinity must reuse as many prompt tokens as one
server.
"""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sdk"))
import rig  # noqa: E402
from rig import case  # noqa: E402

DEPLOY = os.path.join(HERE, "..", "..", "deploy")
os.environ["PATH"] += ":/usr/sbin"


def config(path, port, servers, directory):
    """Returns a configuration file of deploy/ with these addresses."""
    with open(os.path.join(DEPLOY, path), encoding="utf-8") as f:
        text = f.read()
    for old, new in ((":8080", f"127.0.0.1:{port}"), ("listen 8080", f"listen 127.0.0.1:{port}"),
                     ("127.0.0.1:11435", f"127.0.0.1:{servers[0].port}"),
                     ("127.0.0.1:11436", f"127.0.0.1:{servers[-1].port}")):
        text = text.replace(old, new)
    out = os.path.join(directory, os.path.basename(path))
    with open(out, "w", encoding="utf-8") as f:
        f.write(text)
    return out


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Proxy:
    """nginx or HAProxy in front of these servers."""

    def __init__(self, kind, servers):
        self.kind = kind
        self.work = tempfile.mkdtemp(prefix="mote-proxy-")
        os.chmod(self.work, 0o755)
        self.log = open(os.path.join(self.work, "log"), "w+", encoding="utf-8")
        start = self._nginx if kind == "nginx" else self._haproxy
        for _ in range(5):  # another process may take the port before the proxy does
            self.port = free_port()
            self.process = subprocess.Popen(start(servers), stdout=self.log, stderr=self.log)
            if self._answers():
                return
        raise AssertionError("the proxy does not answer: " + self.said())

    def _nginx(self, servers):
        include = config("nginx/mote.conf", self.port, servers, self.work)
        main = os.path.join(self.work, "nginx.conf")
        temporary = " ".join(f"{k}_temp_path {self.work}/{k};"
                             for k in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        with open(main, "w", encoding="utf-8") as f:
            f.write(f"daemon off; pid {self.work}/pid; error_log stderr; worker_processes 1;\n"
                    f"events {{ }} http {{ access_log off; {temporary} include {include}; }}\n")
        return ["nginx", "-p", self.work, "-c", main]

    def _haproxy(self, servers):
        return ["haproxy", "-db", "-f", config("haproxy/haproxy.cfg", self.port, servers, self.work)]

    def _answers(self):
        """Returns False if the proxy has exited."""
        end = time.monotonic() + rig.PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, "the proxy does not answer: " + self.said()
            try:
                if request(self.port, "GET", "/health")[0] == 200:
                    return True
            except (OSError, IndexError):  # not listening yet, or closed early
                pass
            time.sleep(0.1)
        return False

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=rig.PATIENCE)
        self.log.close()
        shutil.rmtree(self.work, ignore_errors=True)


def send(port, method, path, body=None, headers=()):
    """Sends a request and returns the connection."""
    data = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {rig.KEY}",
             "Content-Type: application/json", f"Content-Length: {len(data)}", *headers]
    s = socket.create_connection(("127.0.0.1", port), timeout=400)
    s.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
    return s


def request(port, method, path, body=None, headers=()):
    s = send(port, method, path, body, (*headers, "Connection: close"))
    raw = b""
    while piece := s.recv(65536):
        raw += piece
    s.close()
    head, _, rest = raw.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        whole = b""
        while (n := int(rest.split(b"\r\n", 1)[0], 16)) > 0:
            start = rest.index(b"\r\n") + 2
            whole, rest = whole + rest[start:start + n], rest[start + n + 2:]
        rest = whole
    return int(head.split()[1]), rest


def chat(messages, **more):
    return {"model": "x", "messages": messages, "temperature": 0, **more}


# A long answer: without an end token it runs to max_tokens.
def endless(tokens):
    return chat([{"role": "user", "content": "Tell me a story."}], stream=True, max_tokens=tokens,
                ignore_eos=True)


def arrivals(port, body):
    """Returns the arrival time of each event of a stream."""
    s = send(port, "POST", "/v1/chat/completions", body)
    times, raw = [], b""
    while b"[DONE]" not in raw:
        piece = s.recv(65536)
        assert piece, raw[-500:]
        raw += piece
        times += [time.monotonic()] * piece.count(b"data: ")
    s.close()
    return times


def check_unbuffered(port, server):
    """A buffering proxy sends pieces of some kilobytes with about a dozen events each. The test counts pieces, not
    times, because a busy machine delays all streams. It also merges pieces without a proxy, so the count is
    compared with a direct connection."""
    for _ in range(5):
        times = arrivals(port, endless(400))
        events, pieces = len(times), len(set(times))
        straight = len(set(arrivals(server.port, endless(400))))
        print(f"     {events} events in {pieces} pieces, {straight} without the proxy")
        if pieces >= min(events / 5, straight / 2):
            return
    raise AssertionError(f"{events} events came in {pieces} pieces")


def check_cancel(port, server):
    before = server.metric('mote_requests_aborted_total{phase="decode"}')
    s = send(port, "POST", "/v1/chat/completions", endless(20000))
    # The first event has no text: a disconnect then would abort prefill, not decode.
    while not re.search(rb'"content":"[^"]', piece := s.recv(65536)):
        assert piece, "the stream ended before the disconnect"
    left = time.monotonic()
    s.close()
    while server.metric('mote_requests_aborted_total{phase="decode"}') == before:
        assert time.monotonic() - left < rig.PATIENCE, "the server did not abort the request"
        time.sleep(0.02)
    print(f"     the slot was free {1000 * (time.monotonic() - left):.0f} ms after the disconnect")


def conversations(port, names, turns, headers_for):
    """Returns cached and total prompt tokens of several conversations that alternate."""
    said = {n: [{"role": "system", "content": f"You are an assistant called {n}. " * 12},
                {"role": "user", "content": f"My name is {n}. I live in Venvia."}] for n in names}
    reused = total = 0
    for turn in range(turns):
        for name in names:
            status, raw = request(port, "POST", "/v1/chat/completions",
                                  chat(said[name], max_tokens=24), headers_for(name))
            assert status == 200, raw[:500]
            reply = json.loads(raw)
            total += reply["usage"]["prompt_tokens"]
            reused += reply["usage"]["prompt_tokens_details"]["cached_tokens"]
            said[name] += [reply["choices"][0]["message"],
                           {"role": "user", "content": f"Where do I live, and what is {turn} + 7?"}]
    return reused, total


NAMES = ["Ada", "Bea", "Cleo", "Dora", "Eva", "Fay"]
FLAGS = ("--parallel", "8", "--kv-tokens", "32768", "--limit", "connections-per-ip=1024")


def no_header(_):
    return ()


def by_header(name):
    return (f"X-Session-Affinity: {name}",)


def check_affinity(kind, headers_for):
    with rig.Server(*FLAGS) as alone:
        one, total = conversations(alone.port, NAMES, 4, no_header)
    # nginx hashes the ports of the servers, which change with every run; all six on one server is rare.
    for _ in range(3):
        with rig.Server(*FLAGS) as a, rig.Server(*FLAGS) as b, Proxy(kind, [a, b]) as proxy:
            two, same = conversations(proxy.port, NAMES, 4, headers_for)
            shares = [s.metric("mote_generations_completed_total") for s in (a, b)]
        if min(shares) > 0:
            break
    print(f"     reused of {total} tokens: one server {one}, two behind {kind} {two}; answers {shares}")
    assert same == total and one > total / 2, (same, total, one)
    assert min(shares) > 0, "all conversations went to one server"
    # All system prompts share a beginning, which the second server prefills once.
    assert two >= one - 0.05 * total, (one, two, total)


def with_proxy(kind, check):
    with rig.Server(*FLAGS) as server, Proxy(kind, [server]) as proxy:
        check(proxy.port, server)


def check_closed(port, server):
    for path in ("/metrics", "/v1/status"):
        status, _ = request(port, "GET", path)
        assert status == 404, (path, status)
    assert server.metric("mote_model_loaded") == 1


for kind in ("nginx", "haproxy"):
    if shutil.which(kind) is None:
        print(f"there is no {kind}")
        continue

    def whole(_, kind=kind):
        def check(port, server):
            check_unbuffered(port, server)
            check_cancel(port, server)
            check_closed(port, server)
        with_proxy(kind, check)

    def affine(_, kind=kind):
        check_affinity(kind, no_header if kind == "haproxy" else by_header)

    whole.__name__, affine.__name__ = f"{kind}_streams_and_cancels", f"{kind}_is_affine"
    case(whole)
    case(affine)

if not rig.CASES:
    sys.exit(77)
if not os.path.exists(os.path.join(os.environ["DATA"], "mote-tiny-BF16.gguf")):
    sys.exit(77)
sys.exit(rig.main(None))
