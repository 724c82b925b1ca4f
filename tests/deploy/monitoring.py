# SPDX-License-Identifier: Apache-2.0
"""monitoring.py - metrics that promtool accepts, status, and a log that requests cannot forge."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sdk"))
import rig  # noqa: E402
from rig import case, equal  # noqa: E402

DEPLOY = os.path.join(HERE, "..", "..", "deploy")
SECRET = "the owl knows where the silver key is"


def ask(server, text=SECRET, **more):
    return server.get("/v1/chat/completions", {"model": "x", "temperature": 0, "max_tokens": 20, "ignore_eos": True,
                                               "messages": [{"role": "user", "content": text}], **more})


def raw(server, data):
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        while s.recv(65536):
            pass


def lint(text):
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
    return done.returncode, done.stdout + done.stderr


@case
def promtool_accepts(text_server, json_server):
    ask(text_server)
    text = text_server.text("/metrics")
    assert text.endswith("\n")
    if shutil.which("promtool") is None:
        print("there is no promtool")
        return
    code, said = lint(text)
    equal((code, said), (0, ""))
    code, _ = lint(text.replace("mote_engine_steps_total", "mote_steps"))
    assert code != 0, "promtool accepts anything"


@case
def metrics_change(text_server, json_server):
    server = text_server
    names = ("mote_generations_completed_total", "mote_prompt_tokens_total", "mote_generated_tokens_total",
             "mote_time_to_first_token_seconds_count", 'mote_http_requests_total{dialect="openai",route="chat",code="200"}')
    before = [server.metric(n) or 0 for n in names]
    usage = ask(server, SECRET + " again")["usage"]
    wanted = [1, usage["prompt_tokens"], usage["completion_tokens"], 1, 1]
    end = time.monotonic() + rig.PATIENCE  # some metrics change after the reply was sent
    while (moved := [server.metric(n) - b for n, b in zip(names, before)]) != wanted:
        assert time.monotonic() < end, (moved, wanted)
        time.sleep(0.02)
    cached = server.metric('mote_prefix_cache_hit_tokens_total{tier="ram"}') + server.metric(
        'mote_prefix_cache_hit_tokens_total{tier="live"}')
    equal(cached + server.metric("mote_prefill_tokens_total"), server.metric("mote_prompt_tokens_total"))


@case
def histograms_add_up(text_server, json_server):
    text = text_server.text("/metrics")
    for name in ("request_queue_seconds", "request_prefill_seconds", "time_to_first_token_seconds",
                 "inter_token_latency_seconds", "request_duration_seconds"):
        buckets = [int(n) for n in re.findall(rf"^mote_{name}_bucket{{.*}} (\d+)$", text, re.MULTILINE)]
        count = int(re.search(rf"^mote_{name}_count{{.*}} (\d+)$", text, re.MULTILINE).group(1))
        assert buckets == sorted(buckets) and buckets[-1] == count and len(buckets) == 20, (name, buckets)


@case
def series_are_bounded(text_server, json_server):
    before = len(text_server.text("/metrics").splitlines())
    for i in range(100):
        raw(text_server, f"GET /no/such/{i} HTTP/1.1\r\nHost: localhost\r\nX-{i}: {i}\r\n\r\n".encode())
    grown = len(text_server.text("/metrics").splitlines()) - before
    assert grown <= 4, f"100 strange paths made {grown} series"


@case
def dashboard_and_rules_name_series_that_exist(text_server, json_server):
    text = text_server.text("/metrics")
    known = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    known |= {n + s for n in known for s in ("_bucket", "_sum", "_count")}
    for path in ("grafana/mote.json", "prometheus/mote.rules.yml"):
        with open(os.path.join(DEPLOY, path), encoding="utf-8") as f:
            used = set(re.findall(r"\bmote_[a-z0-9_]+", f.read()))
        assert len(used) > 8 and used <= known, (path, sorted(used - known))


@case
def status_lists_streams(text_server, json_server):
    server = text_server
    with server.open("/v1/chat/completions", {
            "model": "x", "stream": True, "max_tokens": 30000, "ignore_eos": True,
            "messages": [{"role": "user", "content": "Tell me a story."}]}) as stream:
        stream.readline()
        end = time.monotonic() + rig.PATIENCE
        status = server.get("/v1/status")
        # Counts and phases are read at different times; one step may lie between them.
        while not (status["decode"] and status["streams"] and
                   status["streams"][0]["phase"] == "decode"):
            assert time.monotonic() < end, status
            status = server.get("/v1/status")
    equal((status["model"], len(status["streams"]), status["decode"]), (server.model, 1, 1))
    assert status["streams"][0]["request_id"].startswith("req_")
    assert status["memory"]["weights"] > 10**7 and status["memory"]["total"] > status["memory"]["kv_cache"]
    while server.get("/v1/status")["streams"]:
        assert time.monotonic() < end
        time.sleep(0.02)


def lines_of(server):
    with open(server.log.name, encoding="utf-8") as f:
        return f.read().splitlines()


def line_of(server, request_id):
    """Waits for the log line of a request, which is written after the reply."""
    end = time.monotonic() + rig.PATIENCE
    while True:
        found = [x for x in lines_of(server) if request_id in x]
        if found:
            return found[0]
        assert time.monotonic() < end, f"no line of {request_id}"
        time.sleep(0.02)


def provoke(server):
    """Sends requests that try to inject log lines."""
    evil = b"\r\n2026-01-01T00:00:00Z req_forged GET chat 200"
    raw(server, b"GET /x%0d%0areq_forged%1b[2J HTTP/1.1\r\nHost: localhost\r\n\r\n")
    raw(server, b"GET /\x1b[31m" + evil + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    raw(server, b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: \x1b]0;req_forged\x07\r\n\r\n")
    raw(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\nx-request-id: req_forged\r\n\r\n")
    ask(server, SECRET, user="req_forged\n\x1b[2J", model="req_forged\nx")


@case
def text_log(text_server, json_server):
    provoke(text_server)
    reply = ask(text_server, SECRET)
    line = line_of(text_server, reply["mote"]["request_id"])
    text = "\n".join(lines_of(text_server))
    assert "req_forged" not in text and "\x1b" not in text and SECRET not in text, text[-2000:]
    assert rig.KEY not in text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    assert re.search(r" POST chat 200 .* prompt=\d+ cached=\d+ out=20 .*ttft=[\d.]+ .*stop=max_tokens", line), line


@case
def json_log(text_server, json_server):
    provoke(json_server)
    reply = ask(json_server, SECRET)
    row = json.loads(line_of(json_server, reply["mote"]["request_id"]))
    assert all(json.loads(x) for x in lines_of(json_server) if x.startswith("{"))
    equal((row["route"], row["status"], row["output_tokens"], row["stop"]), ("chat", 200, 20, "max_tokens"))
    equal(row["prompt_tokens"], reply["usage"]["prompt_tokens"])
    assert SECRET not in "\n".join(lines_of(json_server))


if not os.path.exists(os.path.join(os.environ["DATA"], "mote-tiny-BF16.gguf")):
    sys.exit(77)
with rig.Server() as text_server, rig.Server("--log", "json") as json_server:
    code = rig.main(text_server, json_server)
sys.exit(code)
