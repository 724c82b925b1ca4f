# SPDX-License-Identifier: Apache-2.0
"""api_rig.py - shared by the tests of the APIs: raw HTTP requests and replies, without a client library.

The server and the list of cases come from tests/sdk/rig.py.
"""
import http.client
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))

from rig import (FACT, FACT_ANSWER, KEY, LONG, PATIENCE, POINT, POINT_SCHEMA, WEATHER,  # noqa: E402,F401
                 WEATHER_ANSWER, WEATHER_RESULT, WEATHER_SCHEMA, WEATHER_TOOL, Server, case, equal,
                 in_letters, main, shown)

SUM = "What is 449 + 791?"
SUM_ANSWER = "449 + 791 = 1240"


def request(server, method, path, body=None, headers=None, timeout=PATIENCE):
    """Returns (status, headers, bytes). A body that is not bytes is sent as JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    all_headers = {"Content-Type": "application/json"} if body is not None else {}
    if server.key:
        all_headers["Authorization"] = "Bearer " + server.key
    connection.request(method, path, body, {**all_headers, **(headers or {})})
    reply = connection.getresponse()
    data = reply.read()
    connection.close()
    return reply.status, {k.lower(): v for k, v in reply.getheaders()}, data


def post(server, path, body, status=200, headers=None):
    """Returns the JSON of a reply. The reply must have this status."""
    got, _, data = request(server, "POST", path, body, headers)
    if got != status:
        raise AssertionError(f"{got}, not {status}: {data[:400]!r}")
    return json.loads(data)


def sse(server, path, body, headers=None):
    """Returns (event name or None, data) of every event. Comments are skipped."""
    status, got, data = request(server, "POST", path, body, headers)
    equal(status, 200)
    equal(got["content-type"], "text/event-stream; charset=utf-8")
    equal(got["cache-control"], "no-cache")
    return split_sse(data)


def split_sse(data):
    events = []
    assert data.endswith(b"\n\n"), data[-80:]
    for block in data.decode("utf-8").split("\n\n")[:-1]:
        if block.startswith(":"):
            continue
        lines = block.split("\n")
        name = None
        if lines[0].startswith("event: "):
            name = lines.pop(0)[len("event: "):]
        assert len(lines) == 1 and lines[0].startswith("data: "), block
        events.append((name, lines[0][len("data: "):]))
    return events


def ndjson(server, path, body):
    """Returns the lines of a reply. Every line must be valid JSON."""
    status, got, data = request(server, "POST", path, body)
    equal(status, 200)
    equal(got["content-type"], "application/x-ndjson")
    assert data.endswith(b"\n"), data[-80:]
    return data.decode("utf-8").split("\n")[:-1]


NORMAL = [
    (re.compile(r"\b(msg|toolu|call|req|chatcmpl|resp)(_|-)[0-9a-f]{24,32}\b"), r"\1\2ID"),
    (re.compile(r'"signature":"[^"]+"'), '"signature":"SIGN"'),
    (re.compile(r'"mote":\{.*\}(?=\}$)'), '"mote":{}'),
    (re.compile(r'"created_at":"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{9}Z"'),
     '"created_at":"TIME"'),
    (re.compile(r'"(\w+_duration)":[0-9]+'), r'"\1":N'),
]


def normal(text, model=None):
    """Replaces ids, times and other values that differ between runs."""
    for pattern, by in NORMAL:
        text = pattern.sub(by, text)
    return text.replace(json.dumps(model), '"MODEL"') if model else text


def bits(call_id):
    """Returns the random part of a tool call id, without its prefix."""
    found = re.fullmatch(r"(?:toolu|call)_([0-9a-f]{32})", call_id)
    assert found, call_id
    return found.group(1)


def run(*flags):
    """Starts a server and runs all cases of the test file."""
    with Server(*flags) as server:
        code = main(server)
    sys.exit(code)
