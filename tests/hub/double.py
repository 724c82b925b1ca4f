# SPDX-License-Identifier: Apache-2.0
"""double.py - a test double of the Hugging Face hub and its CDN.

    with Double() as hub:
        hub.add("owner/name", {"model.gguf": "/path/of/a/file", "README.md": b"text"})
        ... run a client with hub.env(home) ...
        hub.requests("cdn")         # what the client sent

nginx serves both with TLS on two ports, so a redirect from the hub to the CDN goes to another origin, as
the real one does. `raw_hub` and `raw_cdn` are the same routes without nginx, for answers that nginx would
correct. A test changes answers with hooks: repo.hooks[STAGE] = f(request, answer). `answer` is (status,
headers, body); the hook returns another answer, or None if it has sent the bytes itself. Stages: info,
tree, refs, resolve, small (the target of the redirect for a file in git), cdn.

As a program it serves files until it is interrupted, and prints the variables for a client:

    python3 tests/hub/double.py owner/name model.gguf ...
"""
import base64
import copy
import hashlib
import hmac
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import urllib.parse

from certificates import Authority
from front import Nginx
from listener import Listener

TOKEN = "hf_" + "a" * 34  # as long as a real one: some clients check that
BAD_TOKEN_TEXT = "Invalid credentials in Authorization header"
PAGE = 1000
EXPANDED_PAGE = 50


class File:
    """A file of a repository. LFS files are served by the CDN, others by the hub."""

    def __init__(self, path, place, lfs):
        self.path, self.place, self.lfs = path, place, lfs
        self.size = os.path.getsize(place)
        sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % self.size)
        with open(place, "rb") as f:
            while piece := f.read(1 << 20):
                sha256.update(piece)
                if not lfs:
                    git.update(piece)
        self.sha256 = sha256.hexdigest()
        # For LFS the hub reports the id of the pointer file. No client can check it.
        self.oid = hashlib.sha1(b"pointer " + self.sha256.encode()).hexdigest() if lfs else git.hexdigest()
        self.etag = self.sha256 if lfs else self.oid
        self.xet = hashlib.sha256(b"xet " + self.sha256.encode()).hexdigest()


class Repo:
    """A repository. `access` is public, private, gated or disabled."""

    def __init__(self, name, access="public", xet=False, page=PAGE, cdn="cdn"):
        self.name, self.access, self.xet, self.page, self.cdn = name, access, xet, page, cdn
        self.commits = {}  # commit: {path: File}
        self.refs = {}  # branch: commit
        self.hooks = {}
        self.generation = 0  # part of every signed URL: a new value makes earlier URLs expire

    @property
    def head(self):
        return self.refs["main"]

    def file(self, path):
        return self.commits[self.head][path]

    def commit_of(self, revision):
        return revision if revision in self.commits else self.refs.get(revision)


class Double:
    def __init__(self, http2=True, workers=1):
        self.work = tempfile.mkdtemp(prefix="mote-hub-")
        os.chmod(self.work, 0o755)
        self.files = os.path.join(self.work, "files")
        os.mkdir(self.files)
        self.repos = {}
        self.stored = {}  # files by the identity of their bytes, which are kept
        self.records = []
        self.lock = threading.Lock()
        self.secret = os.urandom(16)
        self.authority = Authority(self.work)
        self.certificate = self.authority.certificate("good")
        self.app_listener = Listener("app", self._app, path=os.path.join(self.work, "app"))
        self.raw_hub = Listener("raw_hub", self._app, tls=self.certificate)
        self.raw_cdn = Listener("raw_cdn", self._app, tls=self.certificate)
        self.nginx = Nginx(self.work, self.files, self.certificate, http2, workers)
        self.ports = {"hub": self.nginx.hub, "cdn": self.nginx.cdn, "raw_hub": self.raw_hub.port,
                      "raw_cdn": self.raw_cdn.port}

    def close(self):
        self.nginx.close()
        for listener in (self.app_listener, self.raw_hub, self.raw_cdn):
            listener.close()
        shutil.rmtree(self.work, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            print(self.nginx.said())
        self.close()

    # Repositories

    def _store(self, path, content):
        """Stores a file, given as bytes or as the name of a file on disk."""
        lfs = path.endswith((".gguf", ".bin", ".safetensors"))
        if (id(content), lfs) in self.stored:  # the bytes of another repository
            file = copy.copy(self.stored[id(content), lfs][1])
            file.path = path
            return file
        place = os.path.join(tempfile.mkdtemp(dir=self.work), "incoming")
        if isinstance(content, bytes):
            with open(place, "wb") as f:
                f.write(content)
        else:
            os.symlink(os.path.abspath(content), place)
        file = File(path, place, lfs)
        file.place = os.path.join(self.files, file.sha256)
        os.replace(place, file.place)
        if isinstance(content, bytes):
            self.stored[id(content), lfs] = content, file
        return file

    def add(self, name, files, **options):
        """Makes a repository with one commit."""
        repo = self.repos[name] = Repo(name, **options)
        self.commit(repo, files)
        return repo

    def commit(self, repo, files, branch="main"):
        """Adds a commit with these files only and moves the branch to it."""
        stored = {path: self._store(path, content) for path, content in files.items()}
        text = "\n".join(f"{path} {file.sha256}" for path, file in sorted(stored.items()))
        commit = hashlib.sha1(f"{repo.name} {len(repo.commits)}\n{text}".encode()).hexdigest()
        repo.commits[commit] = stored
        repo.refs[branch] = commit
        return commit

    # What clients see

    def url(self, listener="hub"):
        return f"https://127.0.0.1:{self.ports[listener]}"

    def env(self, home, listener="hub", **more):
        """The environment of a client with this home directory. A value of None removes a variable."""
        gone = ("HF_", "HUGGING", "MOTE_", "XDG_", "OLLAMA_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
        env = {k: v for k, v in os.environ.items() if not k.upper().startswith(gone)}
        env.update(HOME=home, HF_HOME=os.path.join(home, "hf"), HF_ENDPOINT=self.url(listener), HF_TOKEN=TOKEN,
                   SSL_CERT_FILE=self.authority.file, HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1",
                   HF_HUB_DISABLE_UPDATE_CHECK="1", NO_COLOR="1")
        env.update(more)
        return {k: v for k, v in env.items() if v is not None}

    def requests(self, *listeners, repo=None, since=0):
        """The requests recorded so far, of these listeners (all if none is given)."""
        with self.lock:
            return [r for r in self.records[since:]
                    if (not listeners or r.listener in listeners) and (repo is None or f"/{repo}/" in r.path + "/")]

    def forget(self):
        with self.lock:
            self.records.clear()

    # Routes

    def _app(self, request):
        with self.lock:
            self.records.append(request)
        if request.listener.endswith("cdn"):
            self._cdn(request)
            return
        parts = request.path.strip("/").split("/")
        if parts[:2] == ["api", "models"] and len(parts) >= 4:
            repo, rest = "/".join(parts[2:4]), parts[4:]
            stage = {"tree": "tree", "refs": "refs", "revision": "info", "": "info"}.get(rest[0] if rest else "")
        elif parts[:3] == ["api", "resolve-cache", "models"] and len(parts) > 6:
            repo, rest, stage = "/".join(parts[3:5]), parts[5:], "small"
        elif len(parts) > 4 and parts[2] == "resolve":
            repo, rest, stage = "/".join(parts[:2]), parts[3:], "resolve"
        else:
            stage = None
        if stage is None:
            request.reply(404, self._common(), json.dumps({"error": "Sorry, we can't find the page"}))
            return
        self._answer(request, stage, repo, rest)

    def _answer(self, request, stage, name, rest):
        repo = self.repos.get(name)
        answer = self._refusal(request, repo)
        if answer is None:
            answer = getattr(self, "_" + stage)(request, repo, rest)
        if repo and stage in repo.hooks:
            answer = repo.hooks[stage](request, answer)
        if answer is not None:
            request.reply(*answer)

    def _common(self):
        """Headers of every answer of the hub."""
        return [("Content-Type", "application/json; charset=utf-8"), ("RateLimit", '"resolvers";r=2990;t=55'),
                ("RateLimit-Policy", '"fixed window";"resolvers";q=3000;w=300')]

    def error(self, status, code, message, more=()):
        codes = [("X-Error-Code", code)] if code else []
        return (status, [*self._common(), *codes, ("X-Error-Message", message), *more], json.dumps({"error": message}))

    def _refusal(self, request, repo):
        given = request.headers.get("authorization")
        if given and given != "Bearer " + TOKEN:
            return self.error(401, None, BAD_TOKEN_TEXT)
        if repo is None or (repo.access == "private" and not given):
            return self.error(404 if given else 401, "RepoNotFound", "Repository not found")
        if repo.access == "disabled":
            return self.error(403, None, "Access to this resource is disabled.")
        return None

    def _gate(self, request, repo):
        """A gated repository shows its listing, and no file: no token here has access."""
        if repo.access != "gated":
            return None
        given = "authorization" in request.headers
        return self.error(403 if given else 401, "GatedRepo", "Access to model " + repo.name + " is restricted")

    def _info(self, request, repo, rest):
        commit = repo.commit_of("/".join(rest[1:]) or "main")
        if commit is None:
            return self.error(404, "RevisionNotFound", "Invalid rev id: " + "/".join(rest[1:]))
        siblings = []
        for path, file in sorted(repo.commits[commit].items()):
            entry = {"rfilename": path}
            if "blobs" in request.query:
                entry.update(size=file.size, blobId=file.oid)
                if file.lfs:
                    entry["lfs"] = {"sha256": file.sha256, "size": file.size, "pointerSize": 134}
            siblings.append(entry)
        return 200, self._common(), json.dumps({
            "_id": "0" * 24, "id": repo.name, "modelId": repo.name, "sha": commit, "private": repo.access == "private",
            "gated": "manual" if repo.access == "gated" else False, "disabled": False, "tags": ["gguf"],
            "downloads": 1, "likes": 0, "lastModified": "2026-01-02T03:04:05.000Z", "siblings": siblings})

    def entries(self, repo, commit, directory="", recursive=True):
        """The tree as the hub lists it: files and directories in the order of their paths."""
        out = {}
        for path, file in repo.commits[commit].items():
            if directory and not path.startswith(directory + "/"):
                continue
            inside = path[len(directory) + 1 if directory else 0:].split("/")
            for depth in range(1, len(inside)):
                parent = "/".join([*([directory] if directory else []), *inside[:depth]])
                if recursive or depth == 1:
                    oid = hashlib.sha1(parent.encode()).hexdigest()
                    out[parent] = {"type": "directory", "oid": oid, "size": 0, "path": parent}
            if recursive or len(inside) == 1:
                out[path] = {"type": "file", "oid": file.oid, "size": file.size, "path": path}
                if file.lfs:
                    out[path]["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": 134}
                if file.lfs and repo.xet:
                    out[path]["xetHash"] = file.xet
        return [out[path] for path in sorted(out)]

    def _tree(self, request, repo, rest):
        # The revision is one segment, percent-encoded; the segments after it are a directory.
        raw = request.raw_path.strip("/").split("/")[5:]
        commit = repo.commit_of(urllib.parse.unquote(raw[0])) if raw else None
        if commit is None:
            return self.error(404, "RevisionNotFound", "Invalid rev id")
        directory = urllib.parse.unquote("/".join(raw[1:]))
        entries = self.entries(repo, commit, directory, request.query.get("recursive") == "true")
        if directory and not entries:
            return self.error(404, "EntryNotFound", directory + " does not exist")
        page = min(repo.page, EXPANDED_PAGE) if request.query.get("expand") == "true" else repo.page
        begin = int(base64.urlsafe_b64decode(request.query["cursor"])) if "cursor" in request.query else 0
        headers = self._common()
        if begin + page < len(entries):
            cursor = base64.urlsafe_b64encode(str(begin + page).encode()).decode()
            query = urllib.parse.urlencode({**request.query, "cursor": cursor})
            headers.append(("Link", f'<{self.url(request.listener)}{request.raw_path}?{query}>; rel="next"'))
        return 200, headers, json.dumps(entries[begin:begin + page])

    def _refs(self, request, repo, rest):
        branches = [{"name": name, "ref": "refs/heads/" + name, "targetCommit": commit}
                    for name, commit in repo.refs.items()]
        return 200, self._common(), json.dumps({"branches": branches, "tags": [], "converts": []})

    def _find(self, request, repo, revision, path):
        """Returns (commit, File), or an answer with an error."""
        commit = repo.commit_of(revision)
        if commit is None:
            return None, self.error(404, "RevisionNotFound", "Invalid rev id: " + revision)
        gate = self._gate(request, repo)
        if gate:
            return None, gate
        file = repo.commits[commit].get(path)
        if file is None:
            return None, self.error(404, "EntryNotFound", "Entry not found", [("X-Repo-Commit", commit)])
        return (commit, file), None

    def _resolve(self, request, repo, rest):
        raw = request.raw_path.strip("/").split("/")[3:]
        revision, path = urllib.parse.unquote(raw[0]), urllib.parse.unquote("/".join(raw[1:]))
        found, error = self._find(request, repo, revision, path)
        if error:
            return error
        commit, file = found
        headers = [*self._common(), ("X-Repo-Commit", commit), ("Accept-Ranges", "bytes")]
        if not file.lfs:
            query = urllib.parse.urlencode({"/" + repo.name + "/" + path: "", "etag": f'"{file.oid}"'})
            target = f"/api/resolve-cache/models/{repo.name}/{commit}/{urllib.parse.quote(path)}?{query}"
            return 307, [*headers, ("Location", target), ("ETag", f'"{file.oid}"')], "Temporary Redirect to " + target
        headers += [("X-Linked-Etag", f'"{file.sha256}"'), ("X-Linked-Size", str(file.size)),
                    ("Location", self.signed_url(repo, file))]
        if repo.xet:
            base = self.url(request.listener)
            headers += [("X-Xet-Hash", file.xet),
                        ("Link", f'<{base}/api/models/{repo.name}/xet-read-token/{commit}>; rel="xet-auth", '
                                 f'<{base}/v1/reconstructions/{file.xet}>; rel="xet-reconstruction-info"')]
        return 302, headers, "Found. Redirecting"

    def _small(self, request, repo, rest):
        found, error = self._find(request, repo, rest[0], "/".join(rest[1:]))
        if error:
            return error
        commit, file = found
        with open(file.place, "rb") as f:
            body = f.read()
        return 200, [*self._common()[1:], ("Content-Type", "text/plain; charset=utf-8"), ("X-Repo-Commit", commit),
                     ("ETag", f'"{file.oid}"'), ("Accept-Ranges", "bytes")], body

    # The CDN

    def _signature(self, repo, path, expires):
        text = f"{path} {expires} {repo.generation}".encode()
        return hmac.new(self.secret, text, hashlib.sha256).hexdigest()

    def signed_url(self, repo, file, listener=None):
        """A URL of the CDN that is valid for an hour, or until repo.generation changes."""
        path, expires = f"/xet-bridge-us/{repo.name}/{file.sha256}", int(time.time()) + 3600
        query = urllib.parse.urlencode({"X-Amz-Expires": 3600, "Expires": expires,
                                        "X-Amz-Signature": self._signature(repo, path, expires)})
        return f"{self.url(listener or repo.cdn)}{path}?{query}"

    def _cdn(self, request):
        parts = request.path.strip("/").split("/")
        repo = self.repos.get("/".join(parts[1:3])) if len(parts) == 4 else None
        if repo is None:
            request.reply(404)
            return
        expires = request.query.get("Expires", "0")
        expected = self._signature(repo, request.path, expires)
        if "authorization" in request.headers or "cookie" in request.headers:
            answer = 403, [("Content-Type", "application/xml")], "<Error><Code>InvalidRequest</Code></Error>"
        elif request.query.get("X-Amz-Signature") != expected or int(expires) < time.time():
            answer = 403, [("Content-Type", "application/xml")], (
                "<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>")
        elif request.listener == "cdn":
            answer = 200, [("X-Accel-Redirect", "/files/" + parts[3])], b""
        else:
            answer = self._range(request, parts[3])
        if "cdn" in repo.hooks:
            answer = repo.hooks["cdn"](request, answer)
        if answer is not None:
            request.reply(*answer)

    def _range(self, request, sha256):
        """A file or a range of it, for a listener that nginx does not stand in front of."""
        with open(os.path.join(self.files, sha256), "rb") as f:
            data = f.read()
        headers = [("ETag", '"' + sha256[::-1] + '"'), ("Accept-Ranges", "bytes"),
                   ("Content-Type", "application/octet-stream")]
        span = range_of(request, len(data))
        if span is None:
            return 200, headers, data
        if span[0] >= len(data):
            return 416, [*headers, ("Content-Range", f"bytes */{len(data)}")], b""
        return 206, [*headers, ("Content-Range", f"bytes {span[0]}-{span[1] - 1}/{len(data)}")], data[span[0]:span[1]]


def range_of(request, size):
    """Returns the (begin, end) that a request asks for, None without a Range."""
    text = request.headers.get("range", "")
    if not text.startswith("bytes="):
        return None
    begin, _, last = text[6:].partition("-")
    return int(begin), min(size, int(last) + 1 if last else size)


def gguf_bytes(size, seed=1):
    """A file of this size that begins as a GGUF file without tensors does; the rest is random."""
    key, value = b"general.architecture", b"qwen35"
    head = (b"GGUF" + (3).to_bytes(4, "little") + (0).to_bytes(8, "little") + (1).to_bytes(8, "little")
            + len(key).to_bytes(8, "little") + key + (8).to_bytes(4, "little")
            + len(value).to_bytes(8, "little") + value)
    return head + random.Random(seed).randbytes(size - len(head))


def main(name, *paths):
    with Double() as hub, tempfile.TemporaryDirectory() as home:
        hub.add(name, {os.path.basename(path): path for path in paths})
        for key, value in hub.env(home).items():
            if key.startswith(("HF_", "SSL_")):
                print(f"export {key}={value}")
        sys.stdout.flush()
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    # Blocked before the first thread starts, so that sigwait() gets them.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main(*sys.argv[1:])
