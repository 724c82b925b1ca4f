#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/v1/files and /v1/batches: forms, limits, keys, restart, kill -9, requests beside a batch."""
import json
import os
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
