# SPDX-License-Identifier: Apache-2.0
"""waiting_test.py - keep-alive output of waiting streams, a full queue, and clients that disconnect.

The server runs one request at a time and queues one more, so the state of each request is known.
"""
import http.client
import json
import socket
import time

from api_rig import FACT, FACT_ANSWER, PATIENCE, case, equal, post, request, run

WORK = {"max_tokens": 100000, "ignore_eos": True, "temperature": 1, "stream": True,
        "messages": [{"role": "user", "content": FACT}]}


def bodies(server, **more):
    """The same question in several APIs: path, body, end of a complete stream."""
    messages = [{"role": "user", "content": FACT}]
    return [("/v1/messages", {"model": "x", "max_tokens": 20, "temperature": 0, "messages": messages,
                              "stream": True, **more}),
            ("/api/chat", {"model": server.model, "messages": messages,
                           "options": {"temperature": 0, "num_predict": 20}, "stream": True, **more})]


class OpenRequest:
    """A request with a reply that is read in pieces."""

    def __init__(self, server, path, body):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        self.connection.request("POST", path, json.dumps(body), {
            "Content-Type": "application/json", "Authorization": "Bearer " + server.key})
        self.reply = self.connection.getresponse()

    def go(self):
        self.reply.close()
        self.connection.sock and self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.connection.close()


def slots(server):
    return json.loads(request(server, "GET", "/slots")[2])


def until_idle(server):
    """Returns seconds. tests/load/cancel_test.py checks how many are allowed."""
    began = time.monotonic()
    while slots(server):
        assert time.monotonic() < began + PATIENCE, "work stays behind"
        time.sleep(0.005)
    return time.monotonic() - began


@case
def waiting_streams_get_output(server):
    """Streams get a comment every second and an event every five; JSON lines get events only."""
    for path, body in bodies(server):
        worker = OpenRequest(server, "/v1/messages", {"model": "x", **WORK})
        worker.reply.readline()
        while not any(slot["is_processing"] for slot in slots(server)):
            time.sleep(0.01)
        lines, began = [], time.monotonic()
        waiter = OpenRequest(server, path, body)
        while time.monotonic() < began + PATIENCE:
            line = waiter.reply.readline().decode().rstrip("\n")
            lines.append(line)
            if line in ("event: ping",) and len(lines) > 8 or '"done":false' in line:
                break
        waited = time.monotonic() - began
        assert waited < PATIENCE, lines
        if path == "/v1/messages":
            equal(lines[0], "event: message_start")
            assert lines.count(": queue 1") >= 3, lines
            equal(lines[-1], "event: ping")
        else:
            data = json.loads(lines[-1])
            equal((data["message"], data["done"]), ({"role": "assistant", "content": ""}, False))
            equal(len(lines), 1)
        assert waited > 4.5, waited
        worker.go()
        rest = waiter.reply.read().decode()
        assert ('event: message_stop\n' if path == "/v1/messages" else '"done":true') in rest
        waiter.go()
        until_idle(server)


@case
def full_queue_is_429(server):
    first = OpenRequest(server, "/v1/messages", {"model": "x", **WORK})
    first.reply.readline()
    while not any(slot["is_processing"] for slot in slots(server)):
        time.sleep(0.01)
    second = OpenRequest(server, "/v1/messages", {"model": "x", **WORK})
    second.reply.readline()
    for path, body in bodies(server):
        for stream in (False, True):
            status, headers, data = request(server, "POST", path, {**body, "stream": stream})
            data = json.loads(data)
            if path == "/v1/messages":
                equal((status, data["error"]["type"]), (529, "overloaded_error"))
            else:
                equal((status, list(data)), (429, ["error"]))
            equal(headers["x-should-retry"], "true")
            assert int(headers["retry-after"]) >= 1 and int(headers["retry-after-ms"]) >= 1
    first.go()
    second.go()
    until_idle(server)


@case
def counting_does_not_queue(server):
    worker = OpenRequest(server, "/v1/messages", {"model": "x", **WORK})
    worker.reply.readline()
    post(server, "/v1/messages/count_tokens", {"model": "x", "messages": WORK["messages"]})
    equal(len(slots(server)), 1)  # the running request is not finished
    worker.go()
    until_idle(server)


@case
def disconnect_during_a_stream(server):
    """Disconnects after each event of a stream in turn. The next request gets the same answer."""
    slowest = 0
    for path, body in bodies(server):
        long = dict(body)
        if path == "/v1/messages":
            long |= {"max_tokens": 30000, "ignore_eos": True}
        else:
            long["options"] = {"num_predict": 30000, "ignore_eos": True}
        for lines in (0, 1, 2, 3, 5, 8, 13, 40):
            asking = OpenRequest(server, path, long)
            for _ in range(lines):
                asking.reply.readline()
            asking.go()
            slowest = max(slowest, until_idle(server))
    print(f"     the slowest to leave took {1000 * slowest:.0f} ms")
    answer = post(server, "/v1/messages", {**bodies(server)[0][1], "stream": False})
    equal(answer["content"][0]["text"], FACT_ANSWER)


@case
def disconnect_before_the_reply(server):
    """A request without stream is also aborted when the client disconnects."""
    for path, body in bodies(server, stream=False):
        body = {**body, "max_tokens": 30000, "ignore_eos": True} if path == "/v1/messages" else \
            {**body, "options": {"num_predict": 30000, "ignore_eos": True}}
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        connection.request("POST", path, json.dumps(body), {
            "Content-Type": "application/json", "Authorization": "Bearer " + server.key})
        end = time.monotonic() + PATIENCE
        while not slots(server):
            assert time.monotonic() < end
            time.sleep(0.005)
        connection.close()
        until_idle(server)


if __name__ == "__main__":
    run("--parallel", "1", "--queue", "1")
