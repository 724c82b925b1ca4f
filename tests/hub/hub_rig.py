# SPDX-License-Identifier: Apache-2.0
"""hub_rig.py - runs the Hugging Face client and mote against the test double, and looks into the cache.

Environment: MOTE is the program, DATA the directory of test models. The tests that need the Hugging Face
client run with the Python of its installation (tests/sdk/run).
"""
import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))
from rig import PATIENCE, case, equal, main, raises  # noqa: E402,F401

MIB = 1 << 20


@contextlib.contextmanager
def new_home():
    """An empty home directory."""
    with tempfile.TemporaryDirectory(prefix="mote-home-") as home:
        yield home


def run(command, env, **options):
    """Runs a program to its end and returns (exit code, stdout, stderr)."""
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", timeout=PATIENCE, **options)
    return done.returncode, done.stdout, done.stderr


def until(condition, what):
    """Waits for something that another process does."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def hf(env, *words):
    """Runs the command `hf`. It must succeed. Returns what it printed."""
    code, out, err = run([os.path.join(os.path.dirname(sys.executable), "hf"), *words], env)
    assert code == 0, f"hf {' '.join(words)} exits with {code}:\n{out}{err}"
    return out + err


def client(env, expression):
    """Evaluates an expression with huggingface_hub as `hub` in a new process. Returns what it prints."""
    code, out, err = run([sys.executable, "-c", f"import huggingface_hub as hub\nprint({expression})"], env)
    assert code == 0, f"{expression}:\n{out}{err}"
    return out.strip()


def cache_of(home):
    return os.path.join(home, "hf", "hub")


def repo_dir(home, repo):
    return os.path.join(cache_of(home), "models--" + repo.name.replace("/", "--"))


def sha256_of(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def check_installed(home, repo, *paths):
    """The files are in the cache, visible under main, with the right bytes."""
    directory = repo_dir(home, repo)
    with open(os.path.join(directory, "refs", "main"), "rb") as f:
        equal(f.read(), repo.head.encode())
    for path in paths:
        file = repo.file(path)
        link = os.path.join(directory, "snapshots", repo.head, path)
        blob = os.path.join(directory, "blobs", file.etag)
        equal(os.readlink(link), os.path.relpath(blob, os.path.dirname(link)))
        equal(sha256_of(link), file.sha256)


def check_tokens(hub, token):
    """No URL has the token in it, and the CDN never gets an Authorization or a cookie."""
    for request in hub.requests():
        assert token not in request.target, request.target
        if request.listener.endswith("cdn"):
            assert token not in str(request.pairs), request.pairs
            assert not {"authorization", "cookie"} & set(request.headers), request.pairs
