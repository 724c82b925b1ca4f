# SPDX-License-Identifier: Apache-2.0
"""scenario_net_rows.py - failures of connections, TLS and proxies, and what the environment says about them."""
import os
import select
import socket
import ssl
import threading
import warnings

from double import TOKEN
from hub_rig import equal
from listener import Listener
from namespace import Namespace
from scenarios import LARGE, Skip, redirect, replaced, row

ONE = {"a.gguf": LARGE}
SHORT = {"HF_HUB_DOWNLOAD_TIMEOUT": "1", "HF_HUB_ETAG_TIMEOUT": "1"}


# Connections

@row(36, 5, "too slow .*Less than 1000 bytes.*gave up after 5 tries", files=ONE)
def slow_body(s):
    """A byte now and then: below any useful rate."""
    def drip(request, answer):
        request.head(answer[0], [*answer[1], ("Content-Length", len(answer[2]))])
        for byte in answer[2]:
            if s.hub.raw_cdn.closing.wait(0.3):
                return
            request.send(bytes([byte]))
    s.env.update(SHORT)
    s.use(cdn="raw_cdn")
    s.hook("cdn", drip)


@row(36, 0, files=ONE)
def slow_body_once(s):
    def drip(request, answer):
        request.head(answer[0], [*answer[1], ("Content-Length", len(answer[2]))])
        request.send(answer[2][:1000])
        s.hub.raw_cdn.closing.wait(600)
    s.env.update(SHORT)
    s.use(cdn="raw_cdn")
    s.hook("cdn", drip, times=1)


@row(37, 5, "is too slow or does not answer")
def hub_never_answers(s):
    s.env.update(SHORT)
    s.use("raw_hub")
    s.hook("info", lambda request, answer: s.hub.raw_hub.closing.wait(600) and request.close())


@row(37, 5, "the reply of .* is too large")
def headers_without_end(s):
    def endless(request, answer):
        request.send("HTTP/1.1 200 OK\r\n")
        while not s.hub.raw_hub.closing.is_set():
            request.send("X-Filler: " + "x" * 1000 + "\r\n")
    s.use("raw_hub")
    s.hook("tree", endless)


@row(37, 5, "sends a header that is too long")
def header_of_a_megabyte(s):
    s.use("raw_hub")
    s.hook("tree", lambda request, answer: replaced(answer, x_filler="x" * 1000000))


@row(38, 5, "Could not resolve host: none.example")
def host_without_an_address(s):
    s.env["HF_ENDPOINT"] = "https://none.example"


@row(36, 0)
def rate_in_bytes(s):
    """A rate without a suffix is bytes per second, as for curl."""
    s.flags += ["--limit-rate", "500000"]


@row(36, 2, "bytes per second .*at least 1000, got '999'")
def rate_too_small(s):
    s.flags = ["--limit-rate", "999"]


@row(37, 5, "does not answer")
def timeout_of_the_metadata(s):
    """HF_HUB_ETAG_TIMEOUT counts for the metadata of a file, HF_HUB_DOWNLOAD_TIMEOUT for all else."""
    s.env.update(HF_HUB_DOWNLOAD_TIMEOUT="600", HF_HUB_ETAG_TIMEOUT=" 1 ")
    s.use("raw_hub")
    s.hook("resolve", lambda request, answer: s.hub.raw_hub.closing.wait(600) and request.close())


def bad_timeout(variable, value):
    def check(s):
        s.env[variable] = value
        s.flags.remove("--json")
    check.__name__ = "bad_" + variable.lower()
    row(37, 2, variable, "whole number of seconds")(check)


bad_timeout("HF_HUB_DOWNLOAD_TIMEOUT", "1.5")
bad_timeout("HF_HUB_ETAG_TIMEOUT", "soon")


@row(37, 0)
def timeout_of_zero(s):
    """As for huggingface_hub: the default."""
    s.env.update(HF_HUB_DOWNLOAD_TIMEOUT="0", HF_HUB_ETAG_TIMEOUT="0")


def closed_port(s):
    """A port that refuses connections: bound, so no other process gets it, and not listening."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    s.undo.append(taken.close)
    return taken.getsockname()[1]


@row(38, 5, "Failed to connect to 127.0.0.1")
def connection_refused(s):
    s.env["HF_ENDPOINT"] = f"https://127.0.0.1:{closed_port(s)}"


@row(38, 5, "reset by peer|closed")
def connection_reset_at_once(s):
    def reset(request, answer):
        request.reset()
    s.use("raw_hub")
    s.hook("tree", reset)


# TLS

def with_tls(s, tls):
    """The endpoint is a listener with another certificate or other settings."""
    listener = Listener("raw_hub", s.hub._app, tls=tls)
    s.undo.append(listener.close)
    s.env["HF_ENDPOINT"] = f"https://127.0.0.1:{listener.port}"


def bad_certificate(title, words, make):
    def check(s):
        with_tls(s, make(s.hub.authority))
        yield
        equal(s.requests(), [])  # not even the token was sent
    check.__name__ = "certificate_" + title
    row(39, 5, words)(check)


bad_certificate("self_signed", "cannot verify the TLS certificate .*self-signed certificate", lambda a: a.self_signed("alone"))
bad_certificate("of_another_host", "cannot verify the TLS certificate .*no alternative certificate subject name", lambda a: a.certificate("other", "DNS:other.example"))
bad_certificate("expired", "certificate has expired; check the clock",
                lambda a: a.certificate("old", begin="20200101000000Z", end="20210101000000Z"))
bad_certificate("not_yet_valid", "certificate is not yet valid; check the clock",
                lambda a: a.certificate("new", begin="20900101000000Z", end="20910101000000Z"))


@row(39, 5, "the TLS connection to .* failed: .*protocol version")
def old_tls(s):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python calls the old versions deprecated
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1
    context.load_cert_chain(*s.hub.certificate)
    with_tls(s, context)


@row(39, 5, "SSL connection timeout")
def no_tls(s):
    s.env.update(SHORT)
    with_tls(s, None)
    yield
    equal(s.requests(), [])


@row(39, 2, "cannot use the endpoint .*the scheme is http; only https is allowed")
def endpoint_without_tls(s):
    s.env["HF_ENDPOINT"] = s.env["HF_ENDPOINT"].replace("https:", "http:")


# Proxies

class ConnectProxy:
    """A proxy for CONNECT to ports of this machine. `public` is the port of all other hosts. `heads` are the requests
    it got."""

    def __init__(self, public=None):
        self.public, self.heads = public, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                end, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(end,), daemon=True).start()

    def _serve(self, end):
        head = b""
        while b"\r\n\r\n" not in head:
            piece = end.recv(4096)
            if not piece:
                return
            head += piece
        self.heads.append(head.decode("latin-1"))
        host, _, port = head.split()[1].decode("latin-1").rpartition(":")
        port = int(port) if host == "127.0.0.1" else self.public
        with end, socket.create_connection(("127.0.0.1", port)) as other:
            end.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            pairs = {end: other, other: end}
            while True:
                for ready in select.select([end, other], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    pairs[ready].sendall(data)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@row(40, 0)
def proxy(s):
    """Hub and CDN through a proxy; the token stays inside TLS."""
    proxy = ConnectProxy()
    s.env["HTTPS_PROXY"] = proxy.url
    s.undo.append(proxy.close)
    yield
    assert len(proxy.heads) >= 2 and all(TOKEN not in head for head in proxy.heads), proxy.heads


@row(40, 0)
def host_without_a_proxy(s):
    s.env.update(HTTPS_PROXY=f"http://127.0.0.1:{closed_port(s)}", NO_PROXY="other.example,127.0.0.1")


def bad_proxy(s, app):
    listener = Listener("proxy", app)
    s.undo.append(listener.close)
    s.env["HTTPS_PROXY"] = f"http://127.0.0.1:{listener.port}"


@row(40, 5, r"the proxy requires a user name and password \(407\)")
def proxy_wants_a_password(s):
    bad_proxy(s, lambda r: r.reply(407, [("Proxy-Authenticate", "Basic realm=x")], "<html>"))


@row(40, 5, "Failed to connect .*through a proxy")
def proxy_is_down(s):
    s.env["HTTPS_PROXY"] = f"http://127.0.0.1:{closed_port(s)}"


@row(40, 5, "the proxy failed: .*503")
def proxy_sends_a_page(s):
    bad_proxy(s, lambda r: (r.reply(503, [], "<html>"), r.close()))


def public_hub(s):
    """The hub under a public name, reached through a proxy."""
    listener = Listener("raw_hub", s.hub._app, tls=s.hub.authority.certificate(
        "public-" + s.row.name, "DNS:hub.example"))
    proxy = ConnectProxy(listener.port)
    s.undo += [listener.close, proxy.close]
    s.env.update(HF_ENDPOINT="https://hub.example", HTTPS_PROXY=proxy.url)
    return proxy


@row(4, 5, "a redirect of hub.example is not followed: 127.0.0.1 is a private address")
def redirect_from_a_public_hub_to_loopback(s):
    public_hub(s)
    yield
    equal(s.requests("cdn"), [])


@row(4, 5, "a redirect of hub.example is not followed: 169.254.169.254 is a private address")
def redirect_from_a_public_hub_to_metadata(s):
    proxy = public_hub(s)
    s.hook("resolve", lambda request, answer: replaced(answer, location="https:" + "//169.254.169.254/latest"))
    yield
    equal([head for head in proxy.heads if "169.254" in head], [])


# Addresses that names lead to. The hub and the CDN have public addresses in a namespace.

PUBLIC = {"hub.example": "203.0.113.7", "cdn.example": "203.0.113.8", "inside.example": "10.1.2.3"}


def public_network(s, location):
    """The hub at hub.example, which redirects to `location`. Returns the namespace and the list of requests that came to
    cdn.example and inside.example."""
    try:
        network = Namespace(PUBLIC)
    except Namespace.Forbidden as e:
        raise Skip(f"no network namespace: {e}") from None
    certificate = s.hub.authority.certificate("names-" + s.row.name, ",".join("DNS:" + name for name in PUBLIC))
    arrived = []

    def content(request):
        arrived.append(request)
        status, headers, data = s.hub._range(request, s.repo.file("a.gguf").sha256)
        request.reply(status, headers, data)
    ends = [("raw_hub", s.hub._app, "hub.example"), ("cdn", content, "cdn.example"), ("cdn", content, "inside.example")]
    listeners = [Listener(name, app, tls=certificate, bound=network.listen(PUBLIC[host])) for name, app, host in ends]
    s.undo += [*(listener.close for listener in listeners), network.close]
    s.preexec = network.enter
    s.env["HF_ENDPOINT"] = "https://hub.example"
    s.hook("resolve", redirect(location))
    return network, arrived


@row(4, 0)
def redirect_to_a_name_with_a_public_address(s):
    _, arrived = public_network(s, "https://cdn.example/a.gguf")
    yield
    assert arrived and not any("authorization" in r.headers for r in arrived)


@row(4, 5, "inside.example resolves to a private address; a public hub must not send requests there")
def redirect_to_a_name_with_a_private_address(s):
    _, arrived = public_network(s, "https://inside.example/a.gguf")
    yield
    equal(arrived, [])


@row(4, 5, "cdn.example resolves to a private address")
def name_gets_a_private_address_later(s):
    """The URL of the content works once. Then its name leads to a private address."""
    network, arrived = public_network(s, "https://cdn.example/a.gguf")
    equal(s.pull().code, 0)
    assert arrived
    arrived.clear()
    os.unlink(s.blob())
    network.name({**PUBLIC, "cdn.example": PUBLIC["inside.example"]})
    s.installed = None
    yield
    equal(arrived, [])


@row(4, 5, "resolves to a private address")
def hub_moves_to_a_private_address(s):
    """The address of the hub's first connection decides whether it is private."""
    network, arrived = public_network(s, "https://hub.example:444/a.gguf")
    other = Listener("cdn", arrived.append, tls=s.hub.certificate, bound=network.listen(PUBLIC["inside.example"], 444))
    s.undo.append(other.close)

    def move(request, answer):
        network.name({**PUBLIC, "hub.example": PUBLIC["inside.example"]})
        return replaced(answer, location="https://hub.example:444/a.gguf")
    s.hook("resolve", move)
    yield
    equal(arrived, [])


# The token, and offline

def token_file(s, content):
    path = os.path.join(s.home, "token")
    with open(path, "wb") as f:
        f.write(content)
    s.env.pop("HF_TOKEN")
    s.env["HF_TOKEN_PATH"] = path


def uses_token(s):
    return any(r.headers.get("authorization") == "Bearer " + TOKEN for r in s.requests("hub"))


@row(44, 0)
def token_file_with_a_newline(s):
    token_file(s, b" " + TOKEN.encode() + b"\r\n\n")
    yield
    assert uses_token(s)


@row(44, 0)
def token_file_empty(s):
    token_file(s, b"\n")
    yield
    assert all("authorization" not in r.headers for r in s.requests())


@row(44, 11, "the token contains a character that no token has")
def token_with_a_header_inside(s):
    s.env["HF_TOKEN"] = "hf_abc\r\nX-Evil: 1"
    yield
    assert not any("x-evil" in r.headers for r in s.requests())


@row(44, 0)
def token_from_home(s):
    """The file that `hf auth login` writes."""
    s.env.pop("HF_TOKEN")
    os.makedirs(s.env["HF_HOME"])
    with open(os.path.join(s.env["HF_HOME"], "token"), "w", encoding="ascii") as f:
        f.write(TOKEN)
    yield
    assert uses_token(s)


@row(44, 0)
def token_that_is_not_implicit(s):
    s.env["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"
    yield
    assert not uses_token(s)


@row(6, 0)
def token_of_another_hub(s):
    """HF_TOKEN is for HF_ENDPOINT. The hub of --from does not get it."""
    s.flags += ["--from", s.hub.url("raw_hub")]
    yield
    assert s.requests("raw_hub") and not s.requests("hub")
    assert all("authorization" not in r.headers for r in s.requests())
    assert "--token-file" in s.result.out, s.result.out


@row(6, 0)
def token_of_the_same_hub(s):
    s.flags += ["--from", s.hub.url("hub") + "/"]
    yield
    assert uses_token(s)


@row(6, 0)
def token_file_for_another_hub(s):
    """The user names both."""
    path = os.path.join(s.home, "token")
    with open(path, "w", encoding="ascii") as f:
        f.write(TOKEN)
    s.env["HF_TOKEN"] = "hf_" + "c" * 34
    s.flags += ["--from", s.hub.url("raw_hub"), "--token-file", path]
    yield
    equal({r.headers.get("authorization") for r in s.requests("raw_hub")}, {"Bearer " + TOKEN})


def offline(variable, value):
    def check(s):
        s.env[variable] = value
        yield
        equal(s.requests(), [])
    check.__name__ = "offline_by_" + variable.lower()
    row(62, 5, variable + " is set: no network")(check)


offline("HF_HUB_OFFLINE", "1")
offline("TRANSFORMERS_OFFLINE", "yes")
offline("MOTE_NO_NETWORK", "1")
