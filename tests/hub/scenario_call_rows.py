# SPDX-License-Identifier: Apache-2.0
"""scenario_call_rows.py - a pull that is killed, fails or loses power at each system call that changes files.

KILL_AT_LIBRARY is the library of tests/support/kill_at.c. A copy of mote starts a script in the place of mote-pull,
which loads the library: mote itself passes no such variable on.
"""
import glob
import os
import re
import shutil
import subprocess

from hub_rig import cache_of, equal
from scenarios import Skip, row

CALLS_MAX = 60  # more than a pull of one file makes


def with_library(s, **variables):
    """From now on mote-pull runs with the library and these variables; without variables as usual."""
    real = os.environ["MOTE"]
    if not variables:
        s.mote = real
        return
    if not os.path.exists(os.environ.get("KILL_AT_LIBRARY", "")):
        raise Skip("the library kill_at is not built")
    directory = os.path.join(s.home, "bin")
    s.mote = os.path.join(directory, "mote")
    if not os.path.exists(directory):
        os.mkdir(directory)
        # Other programs write these files: a process that another thread starts at this moment would inherit the open
        # file, and an open file cannot be executed.
        subprocess.run(["cp", real, s.mote], check=True)
        script = f"#!/bin/sh\n. {s.mote}.variables\nexec {real}-pull \"$@\"\n"
        subprocess.run(["sh", "-c", 'printf %s "$2" >"$1" && chmod 755 "$1"', "sh", s.mote + "-pull", script], check=True)
    words = [f"export {name}={value}\n" for name, value in variables.items()]
    with open(s.mote + ".variables", "w", encoding="utf-8") as f:
        f.write("".join([*words, f"export LD_PRELOAD={os.environ['KILL_AT_LIBRARY']}\n"]))


def calls_of(text):
    """The calls that the library wrote to stderr: (name, inode)."""
    return [(name, int(inode)) for name, inode in re.findall(r"call (\w+) (\d+)\n", text)]


def check_next_run(s, call):
    """The same command finishes, and nothing of the failed run is left."""
    with_library(s)
    s.check_blobs()
    done = s.pull()
    equal((call, done.code), (call, 0))
    s.check_installed("a.gguf")
    equal((call, os.listdir(os.path.join(s.directory, "blobs"))), (call, [s.repo.file("a.gguf").sha256]))
    shutil.rmtree(cache_of(s.home))


@row(47, 0)
def killed_at_every_call(s):
    for n in range(1, CALLS_MAX):
        with_library(s, KILL_AT=n, CALL_LOG=1)
        done = s.pull()
        calls = calls_of(done.err)
        if done.code == 0:
            break
        assert (len(calls), done.code) == (n, 1), done.err  # mote says that mote-pull ended
        check_next_run(s, (n, calls[-1]))
    assert n > 10 and {"mkdir", "ftruncate", "fsync", "rename", "symlink", "unlink"} <= {name for name, _ in calls}, calls
    with_library(s)


@row(46, 0)
def disk_full_at_every_call(s):
    """A call without which the file is not installed ends with 12, and nothing is visible."""
    fatal = set()
    for n in range(1, CALLS_MAX):
        with_library(s, FAIL_AT=n, CALL_LOG=1)
        done = s.pull()
        calls = calls_of(done.err)
        if len(calls) < n:
            break
        if done.code == 0:
            s.check_installed("a.gguf")
        else:
            equal((calls[n - 1], done.code), (calls[n - 1], 12))
            assert "No space left on device" in done.err, done.err
            fatal.add(calls[n - 1][0])
            refs = glob.glob(os.path.join(s.directory, "refs", "*"))
            equal(refs, [])
        check_next_run(s, (n, calls[n - 1]))
    equal(fatal, {"mkdir", "ftruncate", "fsync", "rename", "symlink"})
    with_library(s)


@row(48, 0)
def synced_before_visible(s):
    """The bytes are on the disk before the name of the blob, the blob before its link, the link before the ref. So a
    power loss leaves a whole file or none."""
    with_library(s, CALL_LOG=1)
    done = s.pull()
    equal(done.code, 0)
    calls = calls_of(done.err)
    snapshot = os.path.join(s.directory, "snapshots", s.repo.head)

    def first(name, path, after):
        wanted = (name, os.lstat(path).st_ino)
        assert wanted in calls[after:], f"no {wanted} of {path} after call {after} of {calls}"
        return calls.index(wanted, after) + 1
    at = first("fsync", s.blob(), 0)
    at = first("rename", s.blob(), at)
    at = first("fsync", os.path.dirname(s.blob()), at)
    at = first("rename", os.path.join(snapshot, "a.gguf"), at)
    at = first("fsync", snapshot, at)
    at = first("fsync", os.path.dirname(snapshot), at)
    ref = os.path.join(s.directory, "refs", "main")
    at = first("fsync", ref, at)
    at = first("rename", ref, at)
    first("fsync", os.path.dirname(ref), at)
    with_library(s)


class Disk:
    """A small ext4 file system in a file, as the cache."""

    def __init__(self, s):
        self.s, self.image = s, os.path.join(s.home, "image")
        self.path = cache_of(s.home)
        self.mounted = False
        s.undo.append(self.unmount)

    def make(self):
        with open(self.image, "wb") as f:
            f.truncate(24 << 20)
        if shutil.which("mkfs.ext4", path="/usr/sbin:/sbin:" + os.environ["PATH"]) is None:
            raise Skip("there is no mkfs.ext4")
        subprocess.run(["env", "PATH=/usr/sbin:/sbin:" + os.environ["PATH"], "mkfs.ext4", "-q", "-F", self.image], check=True)

    def mount(self, image=None):
        os.makedirs(self.path, exist_ok=True)
        words = ["mount", "-o", "loop,data=writeback,noauto_da_alloc", image or self.image, self.path]
        if subprocess.run(words, capture_output=True).returncode != 0:
            raise Skip("mounting a file system is not permitted")
        self.mounted = True

    def unmount(self):
        if self.mounted:
            subprocess.run(["umount", self.path], check=True)
            self.mounted = False

    def lose_power(self):
        """What was not written to the disk at this moment is gone."""
        copy = self.image + ".copy"
        subprocess.run(["cp", "--sparse=always", self.image, copy], check=True)
        self.unmount()
        self.mount(copy)


@row(48, 0)
def power_loss_at_every_call(s):
    """The process is killed, and what is in the memory of the kernel is lost too."""
    with_library(s, CALL_LOG=1)
    names = [name for name, _ in calls_of(s.pull().err)]
    shutil.rmtree(cache_of(s.home))
    disk = Disk(s)
    n, code = names.index("fsync"), None  # before it nothing has a name that others know
    while code != 0:
        n += 1
        disk.make()
        disk.mount()
        with_library(s, KILL_AT=n)
        code = s.pull().code
        disk.lose_power()
        s.check_blobs()
        if os.path.exists(os.path.join(s.directory, "refs", "main")):
            s.check_installed("a.gguf")
        elif code == 0:
            raise AssertionError("a pull that succeeded is lost")
        with_library(s)
        equal((n, s.pull().code), (n, 0))
        s.check_installed("a.gguf")
        disk.unmount()
    assert n > len(names), (n, names)
