# SPDX-License-Identifier: Apache-2.0
"""scenario_place_rows.py - the file system and the owner of the cache, other programs in it, parts that are complete, and
what other users see of the token."""
import glob
import os
import re
import shutil
import subprocess

from double import TOKEN
from hub_rig import MIB, cache_of, equal
from scenario_disk_rows import Mounted, lock_path, write
from scenarios import LARGE, SMALL, Skip, flipped, row

ONE = {"a.gguf": LARGE}
OTHER_USER = 65534


# A part that is complete

def complete_part(s):
    """A directory with the name of the blob: the file arrives, the rename fails. Returns the part."""
    write(os.path.join(s.blob(), "file"), b"text")
    equal(s.pull().code, 12)
    shutil.rmtree(s.blob())
    s.forget()
    part, = glob.glob(os.path.join(s.directory, "blobs", "*.mote-part"))
    equal(os.path.getsize(part), len(LARGE))
    return part


@row(13, 0, files=ONE)
def part_is_complete(s):
    """It is hashed and renamed; no byte is requested."""
    complete_part(s)
    yield
    equal(s.spans(), [])


@row(13, 0, "the hash of the file is wrong; it is downloaded again", files=ONE)
def part_is_complete_and_damaged(s):
    with open(complete_part(s), "r+b") as f:
        f.seek(12 * MIB)
        f.write(bytes(16))
    yield
    equal(sum(end - begin for begin, end in s.spans()), len(LARGE))


# llama.cpp, which takes no lock and computes no hash. These are the files that it writes, in its order.

def llama_cpp_writes(s, data):
    os.makedirs(os.path.dirname(s.blob()), exist_ok=True)
    write(s.blob() + ".downloadInProgress", data)
    os.rename(s.blob() + ".downloadInProgress", s.blob())
    link = os.path.join(s.directory, "snapshots", s.repo.head, "a.gguf")
    os.makedirs(os.path.dirname(link), exist_ok=True)
    if os.path.lexists(link):
        os.unlink(link)
    os.symlink(os.path.relpath(s.blob(), os.path.dirname(link)), link)
    write(os.path.join(s.directory, "refs", "main"), s.repo.head.encode())


@row(50, 0)
def part_of_llama_cpp(s):
    """It is not used and not removed."""
    part = s.blob() + ".downloadInProgress"
    write(part, SMALL[:5000])
    yield
    with open(part, "rb") as f:
        equal(f.read(), SMALL[:5000])


def llama_cpp_at_once(title, data):
    def check(s):
        def finish(request, answer):
            llama_cpp_writes(s, data)
            return answer
        s.use(cdn="raw_cdn")
        s.hook("cdn", finish, times=1, skip=1)
    check.__name__ = "llama_cpp_finishes_first_" + title
    row(50, 0, files=ONE)(check)


llama_cpp_at_once("with_the_right_file", LARGE)
llama_cpp_at_once("with_a_damaged_file", flipped(LARGE))


@row(50, 0, files=ONE)
def llama_cpp_renames_last(s):
    """mote hashes the new file once and does not download it."""
    equal(s.pull().code, 0)
    llama_cpp_writes(s, LARGE)
    s.forget()
    yield
    assert s.result.events("progress")[0]["action"] == "verifying", s.result.out
    equal(s.requests("cdn"), [])
    equal(s.pull().events("progress"), [])


# File systems

@row(58, 0, files=ONE)
def cache_on_another_file_system(s):
    """The part is in the cache, so the rename stays on its file system. No other directory is needed."""
    Mounted(s, "size=64m")
    s.env["TMPDIR"] = "/nonexistent"
    parts = []

    def look(request, answer):
        parts.extend(glob.glob(os.path.join(s.directory, "blobs", "*.mote-part")))
        return answer
    s.hook("cdn", look)
    yield
    assert parts
    device = os.stat(cache_of(s.home)).st_dev
    assert os.stat(s.home).st_dev != device
    equal(os.stat(s.blob()).st_dev, device)


@row(58, 0)
def blobs_on_another_file_system(s):
    """A rename from blobs/ to snapshots/ and refs/ is not possible."""
    blobs = os.path.dirname(s.blob())
    os.makedirs(blobs)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", blobs], capture_output=True).returncode != 0:
        raise Skip("mounting a tmpfs is not permitted")
    s.undo.append(lambda: subprocess.run(["umount", "-l", blobs], check=True))
    yield
    for directory, _, names in os.walk(s.directory):
        assert not [name for name in names if ".mote-" in name], (directory, names)


# Users and modes

def as_another_user(s):
    """mote runs as another user, who owns the home directory."""
    if os.getuid() != 0:
        raise Skip("this needs the rights of root")
    if subprocess.run(["setpriv", f"--reuid={OTHER_USER}", "--clear-groups", os.environ["MOTE"], "version"],
                      capture_output=True).returncode != 0:
        raise Skip("another user cannot run this program")
    os.chmod(s.home, 0o755)
    for directory, names, files in os.walk(s.home):
        for name in [directory, *(os.path.join(directory, n) for n in names + files)]:
            os.chown(name, OTHER_USER, OTHER_USER)

    def become():
        os.setgroups([])
        os.setgid(OTHER_USER)
        os.setuid(OTHER_USER)
    s.preexec = become


@row(59, 12, "cannot (create|write to) .*Permission denied", names=["/hf/hub"])
def cache_of_root(s):
    as_another_user(s)
    os.makedirs(cache_of(s.home), 0o755)


@row(59, 0)
def cache_with_the_group_of_its_directory(s):
    """A set-group-ID directory: all files get its group."""
    os.makedirs(cache_of(s.home))
    os.chown(cache_of(s.home), -1, OTHER_USER)
    os.chmod(cache_of(s.home), 0o2775)
    yield
    for directory, _, files in os.walk(cache_of(s.home)):
        equal([(name, os.lstat(os.path.join(directory, name)).st_gid) for name in [".", *files]],
              [(name, OTHER_USER) for name in [".", *files]])


@row(52, 0, "the cache cannot be locked .*own part files")
def lock_file_of_another_user(s):
    write(lock_path(s), b"")
    as_another_user(s)
    os.chown(lock_path(s), 0, 0)
    os.chmod(lock_path(s), 0o644)


@row(56, 12, "cannot create .*Is a directory")
def ref_is_a_directory(s):
    os.makedirs(os.path.join(s.directory, "refs", "main"))
    s.installed = None


# The token

@row(44, 0)
def token_is_not_in_the_process_list(s):
    """Arguments and environment of mote-pull; and it writes no core file."""
    s.use(cdn="raw_cdn")
    seen = []

    def look(request, answer):
        with s.lock:
            children = [p for p in os.listdir("/proc") if p.isdigit() and process_parent(p) == str(pid[0])]
            for child in children:
                seen.append({name: read_proc(child, name) for name in ("cmdline", "environ", "limits")})
        return answer
    s.hook("cdn", look)
    pid = []
    process = s.start()
    pid.append(process.pid)
    process.communicate()
    equal(process.returncode, 0)
    assert seen
    for texts in seen:
        assert texts["cmdline"].startswith("mote-pull") and TOKEN not in texts["cmdline"] + texts["environ"], texts
        assert re.search("Max core file size +0 +0", texts["limits"]), texts["limits"]


def read_proc(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as f:
            return f.read().decode(errors="replace")
    except OSError:
        return ""


def process_parent(pid):
    return (read_proc(pid, "stat").rpartition(")")[2].split() + ["", ""])[1]


@row(44, 11, "cannot read the token file .*Is a directory")
def token_file_is_a_directory(s):
    s.env.pop("HF_TOKEN")
    s.env["HF_TOKEN_PATH"] = os.path.join(s.home, "token")
    os.mkdir(s.env["HF_TOKEN_PATH"])


@row(62, 0)
def offline_and_installed(s):
    equal(s.pull().code, 0)
    s.forget()
    s.env["HF_HUB_OFFLINE"] = "1"
    s.flags = []
    yield
    equal(s.requests(), [])
    equal(s.result.out.strip(), os.path.join(s.directory, "snapshots", s.repo.head, "a.gguf"))
