# SPDX-License-Identifier: Apache-2.0
"""listener.py - a small HTTP server that can also answer what no correct server would.

A Listener accepts connections on a port chosen by the kernel, or on a socket file for nginx in front of
it. It calls app(request) for each request. The app answers with request.reply(), or writes the bytes of
its choice with request.send() and ends the connection with request.close() or request.reset().
"""
import socket
import ssl
import struct
import threading
import time
import urllib.parse

HEAD_LIMIT = 65536
REASONS = {200: "OK", 204: "No Content", 206: "Partial Content", 302: "Found", 304: "Not Modified",
           307: "Temporary Redirect", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
           407: "Proxy Authentication Required", 416: "Range Not Satisfiable", 429: "Too Many Requests",
           500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout"}


class Request:
    """One request. Header names are in lower case; `headers` is the last value of each, `pairs` all of them."""

    def __init__(self, connection, listener, head):
        self.connection = connection
        self.time = time.time()
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = (lines[0] + "  ").split(" ", 2)
        self.pairs = [(name.strip().lower(), value.strip()) for name, _, value in (s.partition(":") for s in lines[1:])]
        self.headers = dict(self.pairs)
        # Behind nginx the name of the listener comes with the request.
        self.listener = self.headers.pop("x-listener", listener)
        url = urllib.parse.urlsplit(self.target)
        self.path = urllib.parse.unquote(url.path)
        self.raw_path = url.path
        self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        self.keep = self.headers.get("connection", "").lower() != "close"

    def send(self, data):
        self.connection.sendall(data if isinstance(data, bytes) else data.encode("latin-1"))

    def head(self, status, headers=()):
        """Sends the head of an answer exactly as given: no header is added."""
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Other')}", *(f"{name}: {value}" for name, value in headers)]
        self.send("\r\n".join(lines) + "\r\n\r\n")

    def reply(self, status, headers=(), body=b""):
        """Sends a correct answer. A HEAD gets the same head without the body."""
        body = body if isinstance(body, bytes) else body.encode()
        names = {name.lower() for name, _ in headers}
        lengths = [] if "content-length" in names else [("Content-Length", len(body))]
        self.head(status, [*headers, *lengths])
        if self.method != "HEAD":
            self.send(body)

    def close(self):
        self.keep = False

    def reset(self):
        """Ends the connection with a TCP reset."""
        self.keep = False
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Listener:
    """A listening socket with a thread for each connection. `tls` is (certificate, key) or an SSLContext, `bound` a
    socket with an address."""

    def __init__(self, name, app, tls=None, path=None, bound=None):
        self.name, self.app, self.context = name, app, tls
        self.closing = threading.Event()
        if isinstance(tls, tuple):
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*tls)
        self.socket = bound or socket.socket(socket.AF_UNIX if path else socket.AF_INET, socket.SOCK_STREAM)
        if bound is None:
            self.socket.bind(path or ("127.0.0.1", 0))
        self.socket.listen(512)
        self.port = None if path else self.socket.getsockname()[1]
        self.connections = set()
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:  # closed
                return
            with self.lock:
                self.connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, plain):
        connection = plain
        try:
            if self.context:
                connection = self.context.wrap_socket(plain, server_side=True)
            rest = b""
            while True:
                while b"\r\n\r\n" not in rest:
                    piece = connection.recv(65536)
                    if not piece or len(rest) > HEAD_LIMIT:
                        return
                    rest += piece
                head, _, rest = rest.partition(b"\r\n\r\n")
                request = Request(connection, self.name, head)
                self.app(request)
                if not request.keep:
                    return
        except (OSError, ValueError):  # the client has gone, or this is not TLS
            pass
        finally:
            with self.lock:
                self.connections.discard(plain)
            connection.close()

    def close(self):
        self.closing.set()
        # shutdown() wakes accept(); close() alone does not.
        for end in [self.socket, *list(self.connections)]:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.socket.close()
