# SPDX-License-Identifier: Apache-2.0
"""proxy_rig.py - starts nginx or HAProxy with the configuration of deploy/ in front of real servers.

Only addresses are replaced in the files. The line of the first server is repeated for further servers.
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

DEPLOY = os.path.join(HERE, "..", "..", "deploy")
os.environ["PATH"] += ":/usr/sbin"


def server_lines(text, ports):
    """Replaces the servers of a configuration with one for each port."""
    out = []
    for line in text.splitlines():
        if "127.0.0.1:11435" in line:
            out += [re.sub(r"\bserver a\b", f"server s{i}", line).replace(":11435", f":{port}")
                    for i, port in enumerate(ports)]
        elif "127.0.0.1:11436" not in line:
            out.append(line)
    return "\n".join(out) + "\n"


def config(path, port, servers, directory):
    """Returns a configuration file of deploy/ with these addresses."""
    with open(os.path.join(DEPLOY, path), encoding="utf-8") as f:
        text = server_lines(f.read(), [s.port for s in servers])
    text = re.sub(r"(?m)^(\s*(?:bind|listen)\s+):?8080\b", rf"\g<1>127.0.0.1:{port}", text)
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


def head_of(port, method, path, body=None, headers=()):
    """Returns the head of the reply, in lower case."""
    s = send(port, method, path, body, (*headers, "Connection: close"))
    raw = b""
    while b"\r\n\r\n" not in raw and (piece := s.recv(65536)):
        raw += piece
    s.close()
    return raw.split(b"\r\n\r\n")[0].decode("latin-1").lower()


def routes():
    """Returns (methods, path, privilege) of every row of the route table of the server."""
    with open(os.path.join(HERE, "..", "..", "src", "server", "api", "routes.c"), encoding="utf-8") as f:
        rows = re.findall(r'(?m)^\s*\{([A-Z| ]+),\s*"([^"]+)",\s*(PUBLIC|INFER|METRICS|ADMIN|OWN),', f.read())
    assert len(rows) > 40, rows
    return [(re.findall("[A-Z]+", methods), path, privilege) for methods, path, privilege in rows]


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
