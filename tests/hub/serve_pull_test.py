# SPDX-License-Identifier: Apache-2.0
"""serve_pull_test.py - the Python package ollama pulls models through `mote serve --allow-pull` from the test double.

mote-tiny is a row of the user's table of models that points to the double. The server runs in its sandbox.
"""
import contextlib
import glob
import os
import signal
import sys
import tempfile
import threading

import ollama

from double import TOKEN, Double, gguf_bytes, range_of
from hub_rig import MIB, case, check_installed, check_tokens, equal, main, new_home, raises, repo_dir, run, until
import rig  # hub_rig adds its directory

DATA = os.environ["DATA"]
WEIGHTS, MMPROJ, LARGE = "mote-tiny-Q4_K_M.gguf", "mmproj-mote-tiny-BF16.gguf", "large-Q4_K_M.gguf"
MODELS = """
[mote-tiny]
repo = owner/mote-tiny-GGUF
file = mote-tiny-{quant}.gguf
quants = Q4_K_M
mmproj = mmproj-mote-tiny-BF16.gguf
"""
RANGE = 8 * MIB  # of a download
LARGE_NAME = "hf.co/owner/large-GGUF:Q4_K_M"


class Held:
    """Holds back all but the first 8 MiB of a file until release() is called."""

    def __init__(self, repo):
        self.repo, self.free = repo, threading.Event()
        repo.hooks["cdn"] = self.answer

    def answer(self, request, answer):
        span = range_of(request, 1 << 40)
        if request.method == "GET" and span and span[0] > 0:
            self.free.wait(rig.PATIENCE)
        return answer

    def release(self):
        self.free.set()
        self.repo.hooks.clear()


@contextlib.contextmanager
def serving(hub, *flags, **options):
    """A server with an empty home directory. Returns the server, a client and the home directory."""
    with new_home() as home, tempfile.TemporaryDirectory() as config:
        os.mkdir(os.path.join(config, "mote"))
        with open(os.path.join(config, "mote", "models"), "w", encoding="ascii") as f:
            f.write(MODELS)
        env = hub.env(home, XDG_CONFIG_HOME=config, HF_HUB_DOWNLOAD_TIMEOUT="300")
        with rig.Server(*flags, model=None, env=env, **options) as server:
            yield server, connect(server), home
        assert TOKEN not in server.said(), "the token is in the log"


def connect(server, key=rig.KEY):
    return ollama.Client(host=server.url, headers={"Authorization": "Bearer " + key}, timeout=rig.PATIENCE)


def chat(client, model):
    answer = client.chat(model=model, messages=[{"role": "user", "content": rig.FACT}], think=False,
                         options={"temperature": 0, "num_predict": 40})
    return answer.message.content


def children(pid):
    """The child processes of a process: (name, process id)."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as f:
            number, rest = f.read().split(" (", 1)
            name, rest = rest.rsplit(") ", 1)
            if int(rest.split()[1]) == pid and rest[0] != "Z":
                found.append((name, int(number)))
    return found


def pulls(server):
    """The processes of running pulls."""
    spawner, = (pid for name, pid in children(server.process.pid) if name.startswith("mote-pull"))
    return children(spawner)


def first_range(stream):
    """Reads a stream of progress until the range that Held lets through has come."""
    for part in stream:
        if part.completed and part.completed >= RANGE:
            return
    raise AssertionError("no progress")


def files_of(repo, *paths):
    return {"sha256:" + repo.file(path).sha256: repo.file(path).size for path in paths}


@case
def pull_and_chat(hub):
    with serving(hub, "--allow-pull") as (server, client, home):
        equal(client.list().models, [])
        parts = list(client.pull("mote-tiny", stream=True))
        steps = [p.status for p in parts if p.digest is None]
        equal(steps, ["pulling manifest", "verifying sha256 digest", "writing manifest", "success"])
        repo = hub.repos["owner/mote-tiny-GGUF"]
        seen = {p.digest: p.completed for p in parts if p.digest}
        equal(seen, files_of(repo, WEIGHTS, MMPROJ))
        for p in parts:
            if p.digest:
                equal((p.status, p.total), ("pulling " + p.digest[7:19], repo_size(repo, p.digest)))
        check_installed(home, repo, WEIGHTS, MMPROJ)
        check_tokens(hub, TOKEN)
        equal([m.model for m in client.list().models], ["mote-tiny"])
        equal(chat(client, "mote-tiny"), rig.FACT_ANSWER)
        # Again, and under the name of the repository: nothing is downloaded.
        hub.forget()
        for name in ("mote-tiny:latest", "hf.co/owner/mote-tiny-GGUF:Q4_K_M", "hf:owner/mote-tiny-GGUF"):
            equal(client.pull(name).status, "success")
        equal(hub.requests("cdn"), [])
        equal(chat(client, "hf.co/owner/mote-tiny-GGUF:Q4_K_M"), rig.FACT_ANSWER)


def repo_size(repo, digest):
    return files_of(repo, WEIGHTS, MMPROJ)[digest]


@case
def errors(hub):
    hub.add("owner/gated", {WEIGHTS: gguf_bytes(1000)}, access="gated")
    with serving(hub, "--allow-pull") as (server, client, home):
        for name, status, text in (("nosuch", 404, "nosuch is not the name of a model"),
                                   ("../nosuch.gguf", 404, "is not the name of a model"),
                                   ("qwen3.5", 404, "qwen3.5:4b"),
                                   ("qwen3.5:3b", 404, "there is no qwen3.5:3b"),
                                   ("hf.co/owner/none", 404, "owner/none"),
                                   ("hf.co/owner/gated", 403, "owner/gated")):
            error = raises(ollama.ResponseError, client.pull, name)
            equal(error.status_code, status)
            assert text in error.error, error.error
            # A stream has status 200 once it has begun; the error is a line.
            error = raises(ollama.ResponseError, lambda: list(client.pull(name, stream=True)))
            assert text in error.error, error.error
        equal(raises(ollama.ResponseError, client.pull, "mote-tiny", insecure=True).status_code, 400)
        equal(glob.glob(os.path.join(repo_dir(home, hub.repos["owner/gated"]), "blobs", "*")), [])


@case
def not_allowed(hub):
    with serving(hub) as (server, client, _):
        for stream in (False, True):
            error = raises(ollama.ResponseError, lambda: list(client.pull("mote-tiny", stream=stream)))
            equal(error.status_code, 403)
            assert "--allow-pull" in error.error, error.error
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("infer-key-0123456789abcdef infer\n")
        keys.flush()
        with serving(hub, "--allow-pull", "--api-key-file", keys.name, key=None) as (server, _, home):
            client = connect(server, "infer-key-0123456789abcdef")
            equal(raises(ollama.ResponseError, client.pull, "mote-tiny").status_code, 403)
            equal(pulls(server), [])


@case
def start(hub):
    """Settings with which the server does not start."""
    with new_home() as home:
        for env, words, code, text in (({"HF_HUB_OFFLINE": "1"}, (), 5, "HF_HUB_OFFLINE"),
                                       ({}, (os.path.join(DATA, WEIGHTS),), 2, "without MODEL")):
            done = run([os.environ["MOTE"], "serve", *words, "--allow-pull"], hub.env(home, **env))
            equal(done[0], code)
            assert text in done[2], done[2]


@case
def cancel_and_continue(hub):
    repo = hub.add("owner/large-GGUF", {LARGE: gguf_bytes(20 * MIB)})
    held = Held(repo)
    with serving(hub, "--allow-pull", "--limit", "pulls=1") as (server, client, home):
        stream = client.pull(LARGE_NAME, stream=True)
        first_range(stream)
        # Another model: too many. The same one: joins.
        equal(raises(ollama.ResponseError, client.pull, "mote-tiny").status_code, 429)
        other = client.pull("hf:owner/large-GGUF:Q4_K_M", stream=True)
        equal(next(other).status, "pulling manifest")
        equal([name for name, _ in pulls(server)], ["mote-pull"])
        stream.close()
        first_range(other)
        equal(len(pulls(server)), 1)
        # The last client disconnects: the process ends and its part stays.
        other.close()
        until(lambda: pulls(server) == [], "the pull goes on without a client")
        blobs = os.path.join(repo_dir(home, repo), "blobs")
        assert repo.file(LARGE).sha256 + ".mote-part" in os.listdir(blobs), os.listdir(blobs)
        held.release()
        hub.forget()
        equal(client.pull(LARGE_NAME).status, "success")
        check_installed(home, repo, LARGE)
        begins = [range_of(r, 20 * MIB)[0] for r in hub.requests("cdn") if r.method == "GET"]
        assert begins and min(begins) > 0, f"the first range was downloaded again: {begins}"
        until(lambda: pulls(server) == [], "the process stays after its end")


@case
def server_stops(hub):
    """The end of the server is the end of its pulls."""
    repo = hub.add("owner/large-GGUF", {LARGE: gguf_bytes(20 * MIB)})
    held = Held(repo)
    with serving(hub, "--allow-pull", "--drain", "0.1") as (server, client, _):
        stream = client.pull(LARGE_NAME, stream=True)
        first_range(stream)
        (_, pid), = pulls(server)
        server.process.send_signal(signal.SIGTERM)
        assert "server stops" in raises(ollama.ResponseError, lambda: list(stream)).error
        equal(server.process.wait(timeout=rig.PATIENCE), 0)
        until(lambda: not os.path.exists(f"/proc/{pid}"), "the pull goes on without the server")
    held.release()


if __name__ == "__main__":
    with Double() as double:
        double.add("owner/mote-tiny-GGUF", {name: os.path.join(DATA, name) for name in (WEIGHTS, MMPROJ)})
        CODE = main(double)
    sys.exit(CODE)
