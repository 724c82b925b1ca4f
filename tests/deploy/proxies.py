# SPDX-License-Identifier: Apache-2.0
"""proxies.py - nginx and HAProxy with the configurations of deploy/, in front of real servers.

A stream must arrive event by event, a disconnect must free the slot, and two servers behind a proxy
with session affinity must reuse as many prompt tokens as one server. Privileged routes are closed.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from proxy_rig import Proxy, head_of, request, rig, routes, send  # noqa: E402
from rig import case, equal  # noqa: E402


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


# Names for the wildcards of the route table, as the server makes them.
IDS = {"/web/*": "main.js", "/v1/models/*": "mote-tiny:think", "/v1/responses/*": "resp_0123456789abcdef",
       "/v1/requests/*": "req_0123456789abcdef01234567"}
# Spellings of privileged paths. The server decodes a path once and changes nothing else.
EVASIONS = ("/%6detrics", "/metrics?x=1", "/metrics/", "//metrics", "/./metrics", "/v1/../metrics", "/%2e/metrics",
            "/METRICS", "/v1/%73tatus", "/v1//status", "/v1/chat/completions/../../status", "/v1/models/../status",
            "/v1/models/..%2f..%2fmetrics", "/v1/requests/l%61st", "/%73lots", "/slots;x", "/slots%00", "/health/../slots",
            "/v1/responses/../cache", "http://localhost/metrics", "//localhost/metrics")


def check_routes(port, _):
    """Only routes that are public or need the scope infer reach the server. Its replies have a request id."""
    for methods, path, privilege in routes():
        for method in methods:
            name = path[:-1] + IDS.get(path, "some-id") if path.endswith("*") else path
            head = head_of(port, method, name, {} if method == "POST" else None)
            assert ("x-request-id" in head) == (privilege in ("PUBLIC", "INFER")), (method, path, head)
    for path in EVASIONS:
        head = head_of(port, "GET", path)
        assert head.split()[1] in ("400", "403", "404"), (path, head)


def check_keyless(port, server):
    """Without keys clients may infer, but neither see nor change the state of the server: not through a proxy, and
    not with the Host and the address of the server's own user. That user has a key in a private file."""
    hello = chat([{"role": "user", "content": "Hello"}], max_tokens=1)
    equal(request(port, "POST", "/v1/chat/completions", hello)[0], 200)
    for at, refused in ((port, 404), (server.port, 401)):
        for method, path in (("GET", "/metrics"), ("GET", "/v1/status"), ("GET", "/slots"), ("GET", "/v1/cache"),
                             ("DELETE", "/v1/cache"), ("GET", "/v1/requests/last"), ("POST", "/v1/unload"),
                             ("POST", "/props")):
            head = head_of(at, method, path, {"model": server.model} if method == "POST" else None)
            equal((method, path, head.split()[1]), (method, path, str(refused)))
        equal(request(at, "POST", "/api/generate", {"model": server.model, "keep_alive": 0})[0], 200)
    mine = (f"x-api-key: {server.local_key()}",)
    status, raw = request(server.port, "GET", "/v1/status", headers=mine)
    equal((status, json.loads(raw)["models"][0]["loaded"]), (200, True))
    assert request(server.port, "GET", "/v1/requests/last", headers=mine)[0] == 200
    done = subprocess.run([os.environ["MOTE"], "ps", "--host", f"127.0.0.1:{server.port}"], text=True,
                          capture_output=True, env={"XDG_RUNTIME_DIR": server.runtime.name})
    assert done.returncode == 0 and server.model in done.stdout, done
    other = subprocess.run([os.environ["MOTE"], "ps", "--host", f"127.0.0.1:{server.port}"], text=True,
                           capture_output=True, env={"XDG_RUNTIME_DIR": "/nowhere"})
    assert other.returncode != 0 and "API key" in other.stderr, other


for kind in ("nginx", "haproxy"):
    if shutil.which(kind) is None:
        print(f"there is no {kind}")
        continue

    def whole(_, kind=kind):
        def check(port, server):
            check_unbuffered(port, server)
            check_cancel(port, server)
            check_routes(port, server)
        with_proxy(kind, check)

    def keyless(_, kind=kind):
        with rig.Server(*FLAGS, key=None) as server, Proxy(kind, [server]) as proxy:
            check_keyless(proxy.port, server)

    def affine(_, kind=kind):
        check_affinity(kind, no_header if kind == "haproxy" else by_header)

    whole.__name__, affine.__name__ = f"{kind}_streams_and_cancels", f"{kind}_is_affine"
    keyless.__name__ = f"{kind}_without_keys"
    case(whole)
    case(keyless)
    case(affine)

if not rig.CASES:
    sys.exit(77)
if not os.path.exists(os.path.join(os.environ["DATA"], "mote-tiny-BF16.gguf")):
    sys.exit(77)
sys.exit(rig.main(None))
