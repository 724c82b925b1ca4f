# SPDX-License-Identifier: Apache-2.0
"""scenarios.py - the harness for rows of failures: each row is one pull with a hub, network or disk that misbehaves.

A row is a function with the decorator @row(number, exit, words). It changes the repository, the hub or the
home directory of its scenario; if it is a generator, the part after `yield` checks more. The harness then
runs `mote pull`, checks the exit code and the words of the message, without the names, paths and URLs in
it, and always checks that

- after exit code 0 the expected files are in the cache with the right bytes, otherwise no file is visible,
- no file has the name of a blob without its content,
- no URL has the token in it, and the CDN never gets it.
"""
import glob
import inspect
import json
import os
import re
import signal
import subprocess
import threading

import hub_rig as rig
from double import TOKEN, gguf_bytes, range_of
from hub_rig import MIB, PATIENCE

ROWS = []
SMALL = gguf_bytes(200000, 11)
LARGE = gguf_bytes(16 * MIB + 12345, 12)  # three ranges
OTHER = gguf_bytes(16 * MIB + 12345, 13)


class Row:
    def __init__(self, function, number, code, words, names, files, options):
        self.function, self.number, self.code, self.words, self.names = function, number, code, words, names
        self.files, self.options = files, options
        self.name = function.__name__


def row(number, code, *words, names=(), files=None, **options):
    """`number`: of the scenario. `code`: the exit code. `words`: regular expressions for the message without names,
    paths and URLs. `names`: what the whole message contains. `files`: the content of the repository. Options: those of
    hub.add()."""
    assert code == 0 or words, f"a row of scenario {number} does not check the message"

    def add(function):
        assert all(r.name != function.__name__ for r in ROWS), function.__name__
        ROWS.append(Row(function, number, code, words, names, files or {"a.gguf": SMALL}, options))
        return function
    return add


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err
        self.text = out + err

    def events(self, kind=None):
        """The events of --json."""
        events = [json.loads(line) for line in self.out.splitlines()]
        return [e for e in events if kind is None or e.get("event") == kind]

    def message(self):
        """What a user reads: stderr, and the warnings and the error among the events."""
        said = [e["message"] for e in self.events() if e["event"] in ("warning", "error")] if self.out[:1] == "{" else []
        return "\n".join([self.err, *said])


class Skip(Exception):
    """This row cannot run on this machine."""


class Scenario:
    """One row: a repository of its own, a home directory of its own."""

    def __init__(self, hub, home, this):
        self.hub, self.home, self.row = hub, home, this
        self.lock = threading.Lock()
        self.repo = hub.add("scenario/" + this.name.replace("_", "-"), this.files, **this.options)
        self.env = hub.env(home, HF_HUB_DOWNLOAD_TIMEOUT="20", HF_HUB_ETAG_TIMEOUT="20")
        self.target = f"hf:{self.repo.name}:{next(iter(this.files))}"
        # Short waits: rows are about what happens after them.
        self.flags = ["--json", "--retry-wait", "0.01"]
        self.installed = [next(iter(this.files))]
        self.counts = {}
        self.preexec = None
        self.mote = os.environ["MOTE"]
        self.since = 0
        self.result = None  # of the pull, for the part after `yield`
        self.undo = []  # called at the end of the row

    def use(self, hub="hub", cdn=None):
        """The hub and the CDN of this row: "hub", "cdn" or without nginx "raw_hub", "raw_cdn"."""
        self.env["HF_ENDPOINT"] = self.hub.url(hub)
        self.repo.cdn = cdn or self.repo.cdn

    def hook(self, stage, function, times=None, skip=0):
        """Changes the answers of a stage: all of them, or only `times` after the first `skip`. A raw stage never goes
        through nginx."""
        def changed(request, answer):
            with self.lock:
                n = self.counts[stage] = self.counts.get(stage, 0) + 1
            if n <= skip or (times is not None and n > skip + times):
                return answer
            return function(request, answer)
        self.repo.hooks[stage] = changed

    @property
    def directory(self):
        return rig.repo_dir(self.home, self.repo)

    def blob(self, path="a.gguf"):
        return os.path.join(self.directory, "blobs", self.repo.file(path).etag)

    def requests(self, *listeners):
        """The requests about the repository of this row, since forget()."""
        return self.hub.requests(*listeners, repo=self.repo.name, since=self.since)

    def forget(self):
        self.since = len(self.hub.records)

    def spans(self):
        """The ranges (begin, end) that the CDN was asked for."""
        size = self.repo.file(self.installed[0]).size
        return [range_of(r, size) or (0, size) for r in self.requests("cdn", "raw_cdn") if r.method == "GET"]

    def start(self, *flags, **options):
        return subprocess.Popen([self.mote, "pull", self.target, *self.flags, *flags], env=self.env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                errors="replace", preexec_fn=self.preexec, **options)

    def pull(self, *flags):
        process = self.start(*flags)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate()
            raise AssertionError(f"{self.row.name} does not end:\n{out}{err}") from None
        return Result(process.returncode, out, err)

    # What is in the cache

    def check_installed(self, *paths):
        rig.check_installed(self.home, self.repo, *paths)

    def check_intact(self):
        """No file is visible: no blob, no snapshot with files, no ref."""
        for kind in ("blobs", "refs", "snapshots"):
            for directory, _, names in os.walk(os.path.join(self.directory, kind)):
                seen = [name for name in names if not name.endswith((".mote-part", ".mote-ranges"))]
                assert not seen, f"{directory} has {seen}"

    def check_blobs(self):
        """A file with the name of a SHA-256 has that hash."""
        for path in glob.glob(os.path.join(rig.cache_of(self.home), "models--*", "blobs", "*")):
            name = os.path.basename(path)
            if re.fullmatch("[0-9a-f]{64}", name) and os.path.isfile(path):
                rig.equal(rig.sha256_of(path), name)

    def run(self):
        """Runs the row and returns the Result."""
        result = Result(None, "", "")
        steps = self.row.function(self)
        try:
            if inspect.isgenerator(steps):
                next(steps)
            result = self.result = self.pull()
            self._check(result)
            if inspect.isgenerator(steps):
                next(steps, None)
            self.check_blobs()
            rig.check_tokens(self.hub, TOKEN)
        except AssertionError as e:
            sent = "".join(f"{r.listener} {r.method} {r.target} {r.headers.get('range', '')}\n" for r in self.requests())
            raise AssertionError(f"{e}\nexit code {result.code}\n{result.text}\n{sent}") from e
        finally:
            for undo in self.undo:
                undo()
        return result

    def words_of(self, message):
        """The message without what the row itself put there: URLs, paths, names of the repository and of files, and
        without the code in brackets."""
        message = re.sub(r"https?://\S+|(?<!\w)/\S+|\[[a-z_]+\]$", " ", message.replace(self.repo.name, " "), flags=re.MULTILINE)
        for name in self.row.files:
            message = message.replace(name, " ")
        return message

    def _check(self, result):
        assert result.code == self.row.code, f"exit code {result.code}, not {self.row.code}"
        message = result.message()
        for words in self.row.words:
            assert re.search(words, self.words_of(message)), f"the message has no {words!r}"
        for name in self.row.names:
            assert name in message, f"the message has no {name!r}"
        assert TOKEN not in result.text, "the message has the token in it"
        assert not re.search("[\0-\x08\x0b-\x1f\x7f]", result.text), "the message has control characters"
        if "--json" in self.flags and result.out:
            last = result.events()[-1]
            rig.equal(last["event"], "done" if result.code == 0 else "error")
            if result.code:
                rig.equal(last["exit"], result.code)
        if result.code == 0:
            if self.installed:
                self.check_installed(*self.installed)
        elif self.installed is not None:
            self.check_intact()


# Answers

def replaced(answer, **headers):
    """The answer with these headers; None removes one. Underscores stand for hyphens."""
    status, old, body = answer
    new = {name.replace("_", "-").lower(): value for name, value in headers.items()}
    kept = [(name, value) for name, value in old if name.lower() not in new]
    return status, kept + [(name, value) for name, value in new.items() if value is not None], body


def redirect(location):
    """A hook: a redirect to this URL, with the other headers as they are."""
    return lambda request, answer: replaced(answer, location=location)


def status(code, body="", *headers):
    """A hook: this status."""
    return lambda request, answer: (code, list(headers), body)


def cut(at, reset=False):
    """A hook: the connection ends after `at` bytes of the body."""
    def send(request, answer):
        code, headers, body = answer
        request.head(code, [*headers, ("Content-Length", len(body))])
        request.send(body[:at])
        if reset:
            request.reset()
        request.close()
    return send


def body(change):
    """A hook: other bytes of the same range."""
    return lambda request, answer: (answer[0], answer[1], change(answer[2]))


def flipped(data):
    """One bit is different, in the middle."""
    out = bytearray(data)
    out[len(out) // 2] ^= 1
    return bytes(out)


def listing(change):
    """A hook for the tree: entries changed as Python objects."""
    def send(request, answer):
        entries = json.loads(answer[2])
        changed = change(entries)
        return answer[0], answer[1], json.dumps(entries if changed is None else changed)
    return send
