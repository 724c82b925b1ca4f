# SPDX-License-Identifier: Apache-2.0
"""transcripts_test.py - recorded requests of five programs; each must get a complete reply.

A transcript has a path, headers and requests. A request may have its own path and expected status. In a
body, "$model" is the name of the model and "$mcp_tools": N adds N tools, as programs with many MCP servers
send. Bodies keep the limits of the programs; the header Mote-Timeout-Ms ends long answers.
"""
import copy
import glob
import json
import os
import urllib.error

import rig
from rig import case, equal

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = {"Mote-Timeout-Ms": "3000"}


def mcp_tool(i, path):
    name = f"mcp__server{i % 7}__operation_{i}"
    text = f"Operation {i} of a connected service: reads or changes one of its records. " * 2
    schema = {"type": "object", "properties": {
        "id": {"type": "string", "description": "Which record"},
        "fields": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
        "options": {"type": "object", "properties": {"limit": {"type": "integer", "minimum": 0}},
                    "additionalProperties": True}}, "required": ["id"]}
    if "/messages" in path:
        return {"name": name, "description": text, "input_schema": schema}
    return {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}


def filled(body, path, server):
    body = copy.deepcopy(body)
    more = body.pop("$mcp_tools", 0)
    if more:
        body["tools"] += [mcp_tool(i, path) for i in range(more)]
    for key in ("model", "name"):
        if body.get(key) == "$model":
            body[key] = server.model
    return body


def ended_well(path, body, raw):
    """Does the stream have the regular end of its API?"""
    if path.startswith("/api/"):
        lines = [json.loads(line) for line in raw.splitlines()]
        assert not any("error" in line for line in lines), raw[-500:]
        return lines[-1]["done"] is True
    events = [e for e in raw.split("\n\n") if e.strip() and not e.startswith(":")]
    data = [e[e.index("data: ") + 6:] for e in events]
    assert not any('"error":{' in d for d in data), raw[-500:]
    if "/messages" in path:
        return json.loads(data[-1])["type"] == "message_stop"
    if "/responses" in path:
        return json.loads(data[-1])["type"] in ("response.completed", "response.incomplete")
    return data[-1] == "[DONE]"


def send(server, path, body, headers):
    try:
        with server.open(path, body, {**headers, **PATIENCE}, timeout=120) as r:
            return r.status, r.headers.get("Content-Type", ""), r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, "", e.read().decode()


def replay(server, name):
    with open(os.path.join(HERE, "transcripts", name + ".json"), encoding="utf-8") as f:
        transcript = json.load(f)
    for i, request in enumerate(transcript["requests"]):
        path = request.get("path", transcript["path"])
        body = request["body"] and filled(request["body"], path, server)
        status, kind, raw = send(server, path, body, transcript["headers"])
        where = f"{name}[{i}] {path}"
        assert status == request.get("status", 200), f"{where}: {status} {raw[:600]}"
        if status != 200:
            continue
        if "event-stream" in kind or "ndjson" in kind:
            assert ended_well(path.split("?")[0], body, raw), f"{where}: {raw[-600:]}"
        else:
            assert "error" not in json.loads(raw), f"{where}: {raw[:600]}"


def add_case(name):
    def body(_, server):
        replay(server, name)
    body.__name__ = name
    case(body)


for file in sorted(glob.glob(os.path.join(HERE, "transcripts", "*.json"))):
    add_case(os.path.basename(file)[:-5])


@case
def five_programs(_, server):
    equal(len(rig.CASES), 6)


# With this small vocabulary, a hundred tools are some ten thousand tokens.
rig.run_with_server(lambda s: None, "--kv-tokens", "131072")
