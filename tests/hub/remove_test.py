# SPDX-License-Identifier: Apache-2.0
"""remove_test.py - mote rm and mote verify on a Hugging Face cache, which the published client then reads.

The cache is written here in the layout of huggingface_hub. `kill_at` ends mote before each of its calls that remove a
file, so that every intermediate state of the cache is seen."""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

import huggingface_hub

MOTE, DATA, KILL_AT = os.environ["MOTE"], os.environ["DATA"], os.environ["KILL_AT_LIBRARY"]
MAIN, OLD = "a" * 40, "b" * 40
with open(DATA + "/mote-tiny-Q4_K_M.gguf", "rb") as f:
    WEIGHTS = f.read()
with open(DATA + "/mmproj-mote-tiny-BF16.gguf", "rb") as f:
    MMPROJ = f.read()


def equal(got, wanted):
    assert got == wanted, f"{got!r}, not {wanted!r}"


class Cache:
    """A home directory with a cache of one repository, owner/tiny."""

    def __init__(self):
        self.home = tempfile.mkdtemp()
        self.root = self.home + "/hub"
        self.repo = self.root + "/models--owner--tiny"
        for kind in ("blobs", "refs", "snapshots"):
            os.makedirs(f"{self.repo}/{kind}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.home)

    def blob(self, data, git=False):
        head = b"blob %d\0" % len(data)
        name = hashlib.sha1(head + data).hexdigest() if git else hashlib.sha256(data).hexdigest()
        with open(f"{self.repo}/blobs/{name}", "wb") as f:
            f.write(data)
        return name

    def add(self, commit, path, data, git=False):
        link = f"{self.repo}/snapshots/{commit}/{path}"
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink("../" * (2 + path.count("/")) + "blobs/" + self.blob(data, git), link)
        return link

    def ref(self, name, commit):
        with open(f"{self.repo}/refs/{name}", "w", encoding="ascii") as f:
            f.write(commit)

    def mote(self, code, *words, **more):
        env = {"PATH": os.environ["PATH"], "HOME": self.home, "HF_HUB_CACHE": self.root, "LC_ALL": "C.UTF-8", **more}
        done = subprocess.run([MOTE, *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=600, check=False)
        assert code in (None, done.returncode), f"mote {words}: {done.returncode}, not {code}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def scan(self):
        """What the published client sees: {commit: file names}; no warnings."""
        info = huggingface_hub.scan_cache_dir(self.root)
        equal([str(w) for w in info.warnings], [])
        return {r.commit_hash: sorted(f.file_name for f in r.files) for repo in info.repos for r in repo.revisions}

    def blobs(self):
        return sorted(os.listdir(self.repo + "/blobs")) if os.path.isdir(self.repo) else []


def name(path):
    return "hf:owner/tiny:" + path


def two_models(cache):
    cache.add(MAIN, "tiny-Q4_K_M.gguf", WEIGHTS + b"4")
    cache.add(MAIN, "tiny-Q8_0.gguf", WEIGHTS + b"8")
    cache.add(MAIN, "mmproj-F16.gguf", MMPROJ, git=True)
    cache.ref("main", MAIN)


def side_files_stay_for_other_models():
    with Cache() as c:
        two_models(c)
        text = c.mote(0, "rm", name("tiny-Q4_K_M.gguf"))
        assert "1 file," in text and "freed" in text, text
        equal(c.scan(), {MAIN: ["mmproj-F16.gguf", "tiny-Q8_0.gguf"]})
        equal(len(c.blobs()), 2)
        c.mote(3, "rm", name("tiny-Q4_K_M.gguf"))
        assert "2 files," in c.mote(0, "rm", name("tiny-Q8_0.gguf"))
        equal(c.scan(), {})
        assert not os.path.exists(c.repo)
        equal([e for e in os.listdir(c.root) if e != ".locks"], [])


def other_files_stay():
    with Cache() as c:
        c.add(MAIN, "tiny-Q8_0.gguf", WEIGHTS)
        c.add(MAIN, "README.md", b"# A model\n", git=True)
        c.ref("main", MAIN)
        c.mote(0, "rm", name("tiny-Q8_0.gguf"))
        equal(c.scan(), {MAIN: ["README.md"]})
        equal(len(c.blobs()), 1)


def a_blob_of_two_revisions():
    with Cache() as c:
        c.add(MAIN, "tiny-Q8_0.gguf", WEIGHTS)
        c.add(OLD, "tiny-Q8_0.gguf", WEIGHTS)
        c.ref("main", MAIN)
        c.ref("v1.0", OLD)
        text = c.mote(2, "rm", name("tiny-Q8_0.gguf"))
        assert f"revision {OLD[:12]} of owner/tiny has the same file" in text and "mote rm -y" in text, text
        equal(c.scan(), {MAIN: ["tiny-Q8_0.gguf"], OLD: ["tiny-Q8_0.gguf"]})
        text = c.mote(0, "rm", "-y", name("tiny-Q8_0.gguf"))
        assert "0 B freed" in text and "kept" in text, text
        equal(c.scan(), {OLD: ["tiny-Q8_0.gguf"]})
        c.mote(0, "verify", name("tiny-Q8_0.gguf"))
        text = c.mote(2, "rm", name("tiny-Q8_0.gguf"))
        assert "reference v1.0" in text, text
        c.mote(0, "rm", "-y", name("tiny-Q8_0.gguf"))
        equal(c.scan(), {})


def split_weights():
    with Cache() as c:
        subprocess.run([os.environ["SPLIT"], DATA + "/shapes/r1-gqa4-tied.gguf", c.home + "/t", "3"], check=True)
        for i in range(1, 4):
            part = f"t-0000{i}-of-00003.gguf"
            with open(f"{c.home}/{part}", "rb") as f:
                c.add(MAIN, "BF16/" + part, f.read())
        c.ref("main", MAIN)
        equal(c.mote(0, "verify").count("  ok "), 3)
        assert "3 files," in c.mote(0, "rm", name("BF16/t-00001-of-00003.gguf"))
        equal(c.scan(), {})


def files_outside_stay():
    with Cache() as c:
        two_models(c)
        outside, shared = c.home + "/outside.gguf", c.root + "/blobs/ab/" + "c" * 64
        os.makedirs(os.path.dirname(shared))
        for path in (outside, shared):
            with open(path, "wb") as f:
                f.write(WEIGHTS)
        with open(c.root + "/blobs/.huggingface-shared-blobs", "w", encoding="ascii") as f:
            f.write("1\n")
        os.symlink(outside, f"{c.repo}/snapshots/{MAIN}/outside.gguf")
        c.mote(3, "rm", "-y", name("outside.gguf"))
        # A blob that is a link into the blobs that repositories share.
        blob = hashlib.sha256(WEIGHTS).hexdigest()
        os.symlink("../../blobs/ab/" + "c" * 64, f"{c.repo}/blobs/{blob}")
        os.symlink("../../blobs/" + blob, f"{c.repo}/snapshots/{MAIN}/shared.gguf")
        c.mote(0, "rm", "-y", name("shared.gguf"))
        assert os.path.exists(outside) and os.path.exists(shared)
        assert not os.path.lexists(f"{c.repo}/blobs/{blob}")
        # A directory of the user.
        text = c.mote(11, "rm", "-y", "outside", MOTE_MODELS=c.home)
        assert "mote does not delete other files" in text and os.path.exists(outside), text


def a_flipped_bit():
    with Cache() as c:
        two_models(c)
        c.mote(0, "verify")
        with open(c.home + "/.cache/mote/store/verified", encoding="ascii") as f:
            equal(len(f.readlines()), 3)
        path = f"{c.repo}/blobs/{hashlib.sha256(WEIGHTS + b'8').hexdigest()}"
        before = os.stat(path)
        with open(path, "r+b") as f:
            f.seek(700000)
            byte = f.read(1)[0]
            f.seek(700000)
            f.write(bytes([byte ^ 4]))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # the time alone would not tell
        text = c.mote(6, "verify", name("tiny-Q8_0.gguf"))
        assert "tiny-Q8_0.gguf is damaged" in text and f"mote pull {name('tiny-Q8_0.gguf')}" in text, text
        states = {words[0]: words[-1] for words in map(str.split, c.mote(0, "list").splitlines())}
        equal(states[name("tiny-Q4_K_M.gguf")], "verified")
        assert "damaged" in c.mote(0, "list"), c.mote(0, "list")
        c.mote(0, "verify", name("tiny-Q4_K_M.gguf"))
        c.mote(6, "verify", "--json")


def killed_at_every_step():
    calls = 0
    for at in range(1, 40):
        with Cache() as c:
            two_models(c)
            c.add(OLD, "tiny-Q4_K_M.gguf", WEIGHTS + b"old")
            done = c.mote(None, "rm", "-y", name("tiny-Q8_0.gguf"), LD_PRELOAD=KILL_AT, KILL_AT=str(at))
            killed = "removed" not in done
            calls += killed
            seen = c.scan()
            for commit, files in seen.items():
                for file in files:
                    assert os.path.exists(f"{c.repo}/snapshots/{commit}/{file}"), file
            c.mote(0, "list")
            c.mote(0, "verify", name("tiny-Q4_K_M.gguf"))
            c.mote(None, "rm", "-y", name("tiny-Q8_0.gguf"))
            assert "tiny-Q8_0.gguf" not in c.scan()[MAIN]
            if not killed:
                break
    assert calls >= 2, calls
    # The last model of a repository: also the reference, the snapshot and the directory.
    for at in range(1, 60):
        with Cache() as c:
            c.add(MAIN, "tiny-Q8_0.gguf", WEIGHTS)
            c.ref("main", MAIN)
            done = c.mote(None, "rm", "-y", name("tiny-Q8_0.gguf"), LD_PRELOAD=KILL_AT, KILL_AT=str(at))
            c.scan()
            c.mote(0, "list")
            if "removed" in done:
                equal(c.scan(), {})
                assert at > 5, at
                return
    assert False, "mote rm never ends"


for test in (side_files_stay_for_other_models, other_files_stay, a_blob_of_two_revisions, split_weights,
             files_outside_stay, a_flipped_bit, killed_at_every_step):
    test()
    print("ok", test.__name__)
sys.exit(0)
