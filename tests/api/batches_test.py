#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/v1/files and /v1/batches: forms, limits, keys, restart, kill -9, requests beside a batch."""
import http.client
import json
import os
import resource
import socket
import stat
import subprocess
import sys
import tempfile
import time

import api_rig
from api_rig import PATIENCE, Server, case, equal, main, post, request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import batch_files as files  # noqa: E402

KEYS = "key-one-0123456789 infer,metrics one\nkey-two-0123456789 infer two\n"


class Files:
    """A directory for files and a key file."""

    def __init__(self):
        self.work = tempfile.TemporaryDirectory(prefix="mote-files-")
        self.directory = os.path.join(self.work.name, "files")
        self.keys = os.path.join(self.work.name, "keys")
        with open(self.keys, "w", encoding="ascii") as f:
            f.write(KEYS)

    def server(self, *flags):
        s = Server("--files", self.directory, "--api-key-file", self.keys, *flags, key="key-one-0123456789")
        return s


def upload(server, lines, purpose="batch", status=200, key=None, name="in.jsonl", more=b""):
    data = b"".join((x if isinstance(x, bytes) else json.dumps(x).encode()) + b"\n" for x in lines)
    body = (b'--XX\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n' + purpose.encode() +
            b'\r\n--XX\r\nContent-Disposition: form-data; name="file"; filename="' + name.encode() +
            b'"\r\nContent-Type: application/octet-stream\r\n\r\n' + data + more + b'\r\n--XX--\r\n')
    headers = {"Content-Type": "multipart/form-data; boundary=XX"}
    if key:
        headers["Authorization"] = "Bearer " + key
    got, _, reply = request(server, "POST", "/v1/files", body, headers)
    equal((got, reply[:300] if got != status else b""), (status, b""))
    return json.loads(reply)


def get(server, path, status=200, key=None, method="GET"):
    got, _, data = request(server, method, path, headers={"Authorization": "Bearer " + key} if key else None)
    equal((path, got), (path, status))
    return data


def create(server, file_id, endpoint="/v1/chat/completions", status=200, **more):
    return post(server, "/v1/batches", {"input_file_id": file_id, "endpoint": endpoint, "completion_window": "24h",
                                        **more}, status)


def wait(server, batch_id, *statuses):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        b = json.loads(get(server, f"/v1/batches/{batch_id}"))
        if b["status"] in statuses:
            return b
        time.sleep(0.05)
    raise AssertionError(b)


def content(server, file_id):
    return [json.loads(x) for x in get(server, f"/v1/files/{file_id}/content").split(b"\n")[:-1]]


@case
def files_live_and_die():
    where = Files()
    with where.server() as server:
        f = upload(server, [files.line(0)], name='a "b".jsonl')
        equal((f["object"], f["purpose"], f["status"]), ("file", "batch", "processed"))
        equal(json.loads(get(server, "/v1/files/" + f["id"])), f)
        equal(content(server, f["id"]), [files.line(0)])
        others = [upload(server, [files.line(i)])["id"] for i in range(3)]
        listed = json.loads(get(server, "/v1/files"))
        equal(len(listed["data"]), 4)
        page = json.loads(get(server, "/v1/files?limit=2&purpose=batch"))
        equal((len(page["data"]), page["has_more"]), (2, True))
        page = json.loads(get(server, f"/v1/files?limit=2&after={page['last_id']}"))
        equal((len(page["data"]), page["has_more"]), (2, False))
        equal(json.loads(get(server, "/v1/files?purpose=batch_output"))["data"], [])
        for name in os.listdir(where.directory):
            mode = stat.S_IMODE(os.stat(os.path.join(where.directory, name)).st_mode)
            equal((name, mode), (name, 0o600))
        equal(stat.S_IMODE(os.stat(where.directory).st_mode), 0o700)
        # Another key sees none of it.
        two = "key-two-0123456789"
        equal(json.loads(get(server, "/v1/files", key=two))["data"], [])
        get(server, "/v1/files/" + f["id"], 404, key=two)
        get(server, f"/v1/files/{f['id']}/content", 404, key=two)
        get(server, "/v1/files/" + f["id"], 404, key=two, method="DELETE")
        status, _, data = request(server, "POST", "/v1/batches", {
            "input_file_id": f["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"},
            {"Authorization": "Bearer " + two})
        equal(status, 400)
        equal(json.loads(get(server, "/v1/files/" + f["id"], method="DELETE"))["deleted"], True)
        get(server, "/v1/files/" + f["id"], 404)
        for name in ("../keys", "..%2fkeys", "file-x/../lock", f["id"] + "/other"):
            get(server, "/v1/files/" + name, 404)
    with where.server() as server:  # what is left after a restart
        equal({f["id"] for f in json.loads(get(server, "/v1/files"))["data"]}, set(others))


@case
def unreadable_files_stay():
    """A file that cannot be read at a start is kept, the log names it, and the others are served."""
    where = Files()
    with where.server() as server:
        good, hidden = (upload(server, [files.line(i)])["id"] for i in range(2))
    metadata = os.path.join(where.directory, hidden + ".json")
    os.rename(metadata, where.work.name + "/aside")
    os.mkdir(metadata)  # not even root can read it as a file
    with where.server() as server:
        equal([f["id"] for f in json.loads(get(server, "/v1/files"))["data"]], [good])
        said = [x for x in server.said().splitlines() if hidden + ".json: Is a directory" in x]
        equal(len(said), 1)
    os.rmdir(metadata)
    os.rename(where.work.name + "/aside", metadata)
    with where.server() as server:
        equal(content(server, hidden), [files.line(1)])


@case
def uploads_have_limits():
    where = Files()
    with where.server("--limit", "file-bytes=20000", "--limit", "files=3", "--limit",
                      "total-file-bytes=1048576") as server:
        upload(server, [b"x" * 30000], status=413)
        for _ in range(3):
            upload(server, [b"x"])
        equal(upload(server, [b"x"], status=400)["error"]["code"], "storage_full")
        upload(server, [b"x"], status=200, key="key-two-0123456789")
        upload(server, [b"x"], purpose="fine-tune", status=400)
        for body, kind, status in ((b"{}", "application/json", 415), (b"--XX\r\n", "multipart/form-data", 400),
                                   (b"--XX\r\n\r\n\r\n--XX--", "multipart/form-data", 400),
                                   (b"", "multipart/form-data", 400)):
            got, _, _ = request(server, "POST", "/v1/files", body, {"Content-Type": kind})
            equal((body, got), (body, status))
        got, _, _ = request(server, "POST", "/v1/files", b"--XX--", {
            "Content-Type": "multipart/form-data", "Sec-Fetch-Site": "same-origin"})
        equal(got, 415)
        # The fetch of Node.js sends this header without being a browser.
        got, _, _ = request(server, "POST", "/v1/files", b"--XX--", {
            "Content-Type": "multipart/form-data", "Sec-Fetch-Mode": "cors"})
        equal(got, 400)
        equal(len(json.loads(get(server, "/v1/files"))["data"]), 3)


@case
def without_a_directory_they_are_off():
    with Server() as server:
        for method, path in (("GET", "/v1/files"), ("GET", "/v1/batches"), ("GET", "/v1/files/x")):
            equal(request(server, method, path)[0], 501)


@case
def batch_to_results():
    where = Files()
    with where.server() as server:
        lines = [files.line(i) for i in range(12)] + [files.line(50, {"messages": 3}), b"no json",
                                                      files.line(51, url="/v1/embeddings")]
        f = upload(server, lines)
        b = create(server, f["id"], metadata={"who": "me"})
        equal((b["object"], b["input_file_id"], b["metadata"]), ("batch", f["id"], {"who": "me"}))
        b = wait(server, b["id"], "completed", "failed")
        equal((b["status"], b["request_counts"]), ("completed", {"total": 15, "completed": 12, "failed": 3}))
        good, bad = content(server, b["output_file_id"]), content(server, b["error_file_id"])
        files.check_once(good, [f"r-{i}" for i in range(12)])
        files.check_once(bad, ["r-50", "request-14", "r-51"])
        equal(files.answers(good)["r-0"], "The emblem of Venvia is the owl.")
        equal([r["error"] and r["error"]["code"] for r in bad], [None, "invalid_json_line", "mismatched_url"])
        equal(json.loads(get(server, "/v1/files/" + b["output_file_id"]))["purpose"], "batch_output")
        equal([x["id"] for x in json.loads(get(server, "/v1/batches"))["data"]], [b["id"]])
        get(server, "/v1/batches/" + b["id"], 404, key="key-two-0123456789")
        equal(json.loads(get(server, "/v1/batches", key="key-two-0123456789"))["data"], [])
        equal(server.metric('mote_batch_requests_total{result="done"}'), 12)
        equal(server.metric('mote_batch_requests_total{result="failed"}'), 3)
        create(server, "file-none", status=400)
        create(server, f["id"], endpoint="/v1/models", status=400)
        empty = upload(server, [b""])
        failed = wait(server, create(server, empty["id"])["id"], "failed")
        assert "no lines" in failed["errors"]["data"][0]["message"], failed
        equal(b["metadata"], {"who": "me"})
        left = [n for n in os.listdir(where.directory) if n.endswith((".out", ".part"))]
        equal(left, [])


@case
def many_lines_are_refused():
    where = Files()
    with where.server() as server:
        f = upload(server, [b"{}"] * 50001)
        b = wait(server, create(server, f["id"])["id"], "failed", "completed")
        assert "more than 50000 lines" in b["errors"]["data"][0]["message"], b


@case
def long_files_are_sent_in_pieces():
    """A file that is longer than the limit of replies in memory; readers that are slow or leave."""
    where = Files()
    data = [os.urandom(1000).hex().encode() for _ in range(2500)]
    with where.server("--limit", "total-reply-bytes=1048576") as server:
        f = upload(server, data)
        path = f"/v1/files/{f['id']}/content"
        equal(get(server, path).split(b"\n")[:-1], data)
        status, headers, body = request(server, "HEAD", path)
        equal((status, headers["content-length"], body), (200, str(f["bytes"]), b""))
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as s:
                s.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer key-one-0123456789\r\n\r\n".
                          encode())
                assert s.recv(4096).startswith(b"HTTP/1.1 200"), "no reply"
        equal(get(server, path).split(b"\n")[:-1], data)
    with where.server("--limit", "output-buffer-bytes=4096") as server:
        equal(get(server, path).split(b"\n")[:-1], data)
        os.truncate(os.path.join(where.directory, f["id"] + ".data"), 3000)
        try:
            got = get(server, path)
        except http.client.IncompleteRead:
            got = b""
        assert len(got) < f["bytes"], "it became complete"
        equal(json.loads(get(server, "/v1/files"))["data"][0]["id"], f["id"])


def journal_is_open(server, batch_id):
    descriptors = f"/proc/{server.process.pid}/fd"
    for name in os.listdir(descriptors):
        try:
            if os.readlink(os.path.join(descriptors, name)).endswith(batch_id + ".out"):
                return True
        except FileNotFoundError:
            pass
    return False


@case
def disk_errors_end_no_batch():
    """The disk is full for a while: the batch waits and continues from its journal."""
    where = Files()
    n = 30
    with where.server("--parallel", "2") as server:
        b = create(server, upload(server, [files.line(i) for i in range(n)])["id"])
        while json.loads(get(server, "/v1/batches/" + b["id"]))["request_counts"]["completed"] < 4:
            time.sleep(0.01)
        old = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
        end = time.monotonic() + PATIENCE
        while journal_is_open(server, b["id"]):  # it is closed while the batch waits
            assert time.monotonic() < end, "it does not wait"
            time.sleep(0.01)
        b = json.loads(get(server, "/v1/batches/" + b["id"]))
        equal((b["status"], b["request_counts"]["completed"] < n), ("in_progress", True))
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, old)
        b = wait(server, b["id"], "completed", "failed")
        equal((b["status"], b["request_counts"]), ("completed", {"total": n, "completed": n, "failed": 0}))
        files.check_once(content(server, b["output_file_id"]), [f"r-{i}" for i in range(n)])


def wait_for_log(server, text):
    end = time.monotonic() + PATIENCE
    while text not in server.said():
        assert time.monotonic() < end, server.said()
        time.sleep(0.02)


@case
def unreadable_input_ends_no_batch():
    """An input that cannot be opened for a while; a deleted one ends the batch."""
    where = Files()
    with where.server() as server:
        f = upload(server, [files.line(0)])["id"]
        data, aside = os.path.join(where.directory, f + ".data"), where.work.name + "/aside"
        os.rename(data, aside)
        os.mkdir(data)  # not even root can read it as a file
        b = create(server, f)
        wait_for_log(server, f"batch {b['id']} waits")
        equal(json.loads(get(server, "/v1/batches/" + b["id"]))["status"], "validating")
        os.rmdir(data)
        os.rename(aside, data)
        b = wait(server, b["id"], "completed", "failed")
        equal((b["status"], b["request_counts"]["completed"]), ("completed", 1))
        os.unlink(data)
        b = wait(server, create(server, f)["id"], "completed", "failed")
        equal((b["status"], b["errors"]["data"][0]["message"]), ("failed", "the input file was deleted"))


@case
def input_unreadable_at_a_start_ends_no_batch():
    """The server starts while the metadata of the input are unreadable: the results so far stay."""
    where = Files()
    n = 30
    with where.server("--parallel", "2") as server:
        f = upload(server, [files.line(i) for i in range(n)])["id"]
        b = create(server, f)
        while json.loads(get(server, "/v1/batches/" + b["id"]))["request_counts"]["completed"] < 4:
            time.sleep(0.01)
    metadata, aside = os.path.join(where.directory, f + ".json"), where.work.name + "/aside"
    journal = os.path.join(where.directory, b["id"] + ".out")
    with open(journal, "rb") as out:
        results = out.read()
    os.rename(metadata, aside)
    os.mkdir(metadata)
    with where.server() as server:
        wait_for_log(server, f"batch {b['id']} waits")
        equal(json.loads(get(server, "/v1/batches/" + b["id"]))["status"], "in_progress")
    with open(journal, "rb") as out:
        equal(out.read(), results)
    os.rmdir(metadata)
    os.rename(aside, metadata)
    with where.server() as server:
        b = wait(server, b["id"], "completed", "failed")
        equal((b["status"], b["request_counts"]), ("completed", {"total": n, "completed": n, "failed": 0}))
        files.check_once(content(server, b["output_file_id"]), [f"r-{i}" for i in range(n)])


@case
def batches_leave_the_memory_of_clients():
    """Bodies of batches do not count for the limit of bodies of clients."""
    where = Files()
    pad = {"user": "x" * 200000}
    with where.server("--parallel", "4", "--limit", "total-body-bytes=2000000") as server:
        f = upload(server, [files.line(i, {**files.chat(i, tokens=200), **pad}) for i in range(8)])
        b = create(server, f["id"])
        wait(server, b["id"], "in_progress")
        for _ in range(5):
            equal(server.metric('mote_memory_bytes{kind="request_bodies"}'), 0)
            post(server, "/v1/chat/completions", {**files.chat(0, tokens=1), "user": "x" * 600000})
        equal(wait(server, b["id"], "completed", "failed")["request_counts"]["completed"], 8)


@case
def waiting_batches_are_cancelled():
    """One batch per key runs; the next one is cancelled without waiting for it."""
    where = Files()
    with where.server("--parallel", "2") as server:
        f = upload(server, [files.line(i, files.chat(i, tokens=100)) for i in range(300)])
        first, second = create(server, f["id"]), create(server, f["id"])
        wait(server, first["id"], "in_progress")
        request(server, "POST", f"/v1/batches/{second['id']}/cancel")
        b = wait(server, second["id"], "cancelled")
        equal((b["output_file_id"], b["request_counts"]["completed"]), (None, 0))
        equal(json.loads(get(server, "/v1/batches/" + first["id"]))["status"], "in_progress")
        # A file of another key does not exist, also while a batch needs it.
        get(server, "/v1/files/" + f["id"], 404, key="key-two-0123456789", method="DELETE")
        get(server, "/v1/files/" + f["id"], 409, method="DELETE")
        request(server, "POST", f"/v1/batches/{first['id']}/cancel")
        wait(server, first["id"], "cancelled")


@case
def keys_have_their_own_records():
    """A key with as many records as there can be takes none from another key."""
    where = Files()
    two = "key-two-0123456789"
    with where.server() as server:
        f = upload(server, [b"no json"])
        mine = wait(server, create(server, f["id"])["id"], "completed")
        record = json.loads(open(os.path.join(where.directory, mine["id"] + ".json"), encoding="utf-8").read())
        other = upload(server, [b"no json"], key=two)
        theirs = json.loads(open(os.path.join(where.directory, other["id"] + ".json"), encoding="utf-8").read())["ns"]
    for i in range(1000):
        name = f"batch_{i:032x}"
        with open(os.path.join(where.directory, name + ".json"), "w", encoding="utf-8") as out:
            json.dump({**record, "id": name, "ns": theirs, "created_at": 1000 + i}, out)
    with where.server() as server:
        order = {"input_file_id": other["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        status, _, data = request(server, "POST", "/v1/batches", order, {"Authorization": "Bearer " + two})
        equal(status, 200)
        get(server, "/v1/batches/" + f"batch_{0:032x}", 404, key=two)  # its oldest one
        get(server, "/v1/batches/" + f"batch_{1:032x}", 200, key=two)
        create(server, f["id"])
        get(server, "/v1/batches/" + mine["id"])
        get(server, "/v1/batches/" + f"batch_{1:032x}", 200, key=two)


@case
def cancelled():
    where = Files()
    with where.server("--parallel", "2") as server:
        f = upload(server, [files.line(i, files.chat(i, tokens=100)) for i in range(300)])
        b = create(server, f["id"])
        wait(server, b["id"], "in_progress")
        get(server, "/v1/files/" + f["id"], 409, method="DELETE")
        get(server, f"/v1/batches/{b['id']}/cancel", 405)
        got, _, data = request(server, "POST", f"/v1/batches/{b['id']}/cancel")
        equal((got, json.loads(data)["status"]), (200, "cancelling"))
        b = wait(server, b["id"], "cancelled")
        counts = b["request_counts"]
        assert counts["completed"] < 300, counts
        good = content(server, b["output_file_id"]) if b["output_file_id"] else []
        equal(len(good), counts["completed"])
        get(server, "/v1/files/" + f["id"], method="DELETE")


@case
def cancelled_at_its_end():
    """Whoever comes first, the client or the end of the batch: the disk has the status that clients see."""
    where = Files()
    with where.server() as server:
        f = upload(server, [b"no json"])
        for i in range(8):
            b = create(server, f["id"])
            wait(server, b["id"], "in_progress", "finalizing", "completed")
            time.sleep(0.015 * i)
            request(server, "POST", f"/v1/batches/{b['id']}/cancel")
            b = wait(server, b["id"], "completed", "cancelled")
            with open(os.path.join(where.directory, b["id"] + ".json"), encoding="utf-8") as record:
                equal(json.load(record)["status"], b["status"])


@case
def killed_and_continued():
    """kill -9 while a batch runs, then a restart with SIGTERM; every line has one result."""
    where = Files()
    n = 36
    server = where.server("--parallel", "2")
    f = upload(server, [files.line(i) for i in range(n)])
    b = create(server, f["id"], metadata={"kept": "yes"})
    seen = 0
    for end in ("kill", "stop", "kill"):
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            now = json.loads(get(server, f"/v1/batches/{b['id']}"))
            if now["request_counts"]["completed"] >= min(seen + 6, n) or now["status"] == "completed":
                break
            time.sleep(0.01)
        assert now["request_counts"]["completed"] >= seen, (now, seen)
        seen = now["request_counts"]["completed"]
        if end == "kill":
            server.process.kill()
            server.process.wait()
        else:
            server.stop()
        server = where.server("--parallel", "2")
    done = wait(server, b["id"], "completed", "failed")
    equal((done["request_counts"], done["metadata"]), ({"total": n, "completed": n, "failed": 0}, {"kept": "yes"}))
    files.check_once(content(server, done["output_file_id"]), [f"r-{i}" for i in range(n)])
    server.stop()


@case
def requests_come_first():
    """Requests beside a batch are answered while the batch runs, with equal answers, and the batch finishes."""
    where = Files()
    with where.server("--parallel", "2", "--kv-tokens", "2048") as server:
        f = upload(server, [files.line(i, files.chat(i, files.SYSTEM * 4, tokens=40)) for i in range(30)])
        b = create(server, f["id"])
        wait(server, b["id"], "in_progress")
        during = 0
        for _ in range(10):
            reply = post(server, "/v1/chat/completions", files.chat(0))
            equal(reply["choices"][0]["message"]["content"], "The emblem of Venvia is the owl.")
            during += json.loads(get(server, "/v1/batches/" + b["id"]))["status"] == "in_progress"
        assert during > 0, "the batch was over too early"
        b = wait(server, b["id"], "completed", "failed")
        equal(b["request_counts"]["completed"], 30)
        got = files.answers(content(server, b["output_file_id"]))
        with tempfile.TemporaryDirectory() as work:  # the same file without a server
            files.write(os.path.join(work, "in"), [files.line(i, files.chat(i, files.SYSTEM * 4, tokens=40))
                                                   for i in range(30)])
            subprocess.run([os.environ["MOTE"], "batch", work + "/in", work + "/out", "--threads", "1", "--mmproj",
                            "none", "--model", os.path.join(os.environ["DATA"], "mote-tiny-BF16.gguf")],
                           check=True, capture_output=True)
            equal(got, files.answers(files.read(work + "/out")))


@case
def files_of_others_stay():
    where = Files()
    os.mkdir(where.directory, 0o700)
    with open(where.directory + "/video.part", "w", encoding="ascii") as f:
        f.write("a download of another program")
    try:
        where.server()
    except RuntimeError as e:
        assert "mote did not make" in str(e), e
    else:
        raise AssertionError("it started")
    assert os.path.exists(where.directory + "/video.part")


@case
def directory_must_be_private():
    where = Files()
    os.mkdir(where.directory)
    os.chmod(where.directory, 0o755)
    try:
        where.server()
    except RuntimeError as e:
        assert "chmod go=" in str(e), e
    else:
        raise AssertionError("it started")
    os.chmod(where.directory, 0o700)
    with where.server():
        try:
            where.server()
        except RuntimeError as e:
            assert "another server" in str(e), e
        else:
            raise AssertionError("a second one started")


del api_rig
sys.exit(main())
