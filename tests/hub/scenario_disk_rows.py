# SPDX-License-Identifier: Apache-2.0
"""scenario_disk_rows.py - failures of the disk, files of others in the cache, locks, and interrupted pulls."""
import ctypes
import errno
import fcntl
import glob
import os
import platform
import resource
import shutil
import signal
import stat
import struct
import subprocess
import threading

from hub_rig import MIB, PATIENCE, cache_of, equal, sha256_of, until
from scenarios import LARGE, OTHER, SMALL, Skip, cut, flipped, replaced, row, status

ONE = {"a.gguf": LARGE}
RANGE = 8 * MIB


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def read(path):
    with open(path, "rb") as f:
        return f.read()


# Resuming

def part_of_first_range(s):
    """A pull that fails after a bit more than the first range. Its part file stays."""
    s.use(cdn="raw_cdn")
    fail, send = status(503), cut(RANGE + MIB)

    def once(request, answer):
        if request.headers.get("range", "").startswith("bytes=0-") and not s.counts.get("sent"):
            s.counts["sent"] = 1
            return send(request, answer)
        return fail(request, answer)
    s.repo.hooks["cdn"] = once
    s.flags += ["--jobs", "1"]
    equal(s.pull().code, 5)
    s.check_intact()
    del s.repo.hooks["cdn"]
    s.forget()
    part, = glob.glob(os.path.join(s.directory, "blobs", "*.mote-part"))
    return part


@row(17, 0, files=ONE)
def resumed_by_the_next_run(s):
    part_of_first_range(s)
    yield
    assert min(begin for begin, _ in s.spans()) >= RANGE, s.spans()
    equal(glob.glob(os.path.join(s.directory, "blobs", "*.mote-*")), [])


def odd_reply(title, change):
    """One odd reply after the first range: that range is not requested again. With odd replies only, it is kept for the
    next run."""
    def once(s):
        s.use(cdn="raw_cdn")
        s.flags += ["--jobs", "1"]
        s.hook("cdn", change, times=1, skip=1)
        yield
        equal([begin for begin, _ in s.spans()].count(0), 1)

    def always(s):
        s.use(cdn="raw_cdn")
        s.flags += ["--jobs", "1"]
        s.hook("cdn", change, skip=1)
        equal(s.pull().code, 5)
        assert len(s.requests("raw_cdn")) < 60
        del s.repo.hooks["cdn"]
        s.forget()
        yield
        assert min(begin for begin, _ in s.spans()) >= RANGE, s.spans()
    once.__name__, always.__name__ = f"odd_{title}_once", f"odd_{title}_always"
    row(13, 0, files=ONE)(once)
    if title not in ("etag", "whole_file"):
        row(13, 0, files=ONE)(always)


odd_reply("status_400", status(400))
odd_reply("status_416", status(416, "", ("Content-Range", f"bytes */{len(LARGE)}")))
odd_reply("range", lambda request, answer: replaced(answer, content_range=f"bytes 5-9/{len(LARGE)}"))
odd_reply("etag", lambda request, answer: replaced(answer, etag='"other"'))
odd_reply("whole_file", lambda request, answer: (200, [("ETag", '"x"')], LARGE))


@row(13, 0, files=ONE)
def ranges_no_longer_supported(s):
    """The server of the next run knows no ranges. The first one is not written again."""
    part = part_of_first_range(s)
    with open(part, "r+b") as f:
        f.seek(RANGE - 1)  # a wrong byte in the first range stays, so the hash is wrong once
        f.write(bytes([LARGE[RANGE - 1] ^ 1]))
    s.hook("cdn", lambda request, answer: (200, [], LARGE))
    yield
    assert "downloaded again" in s.result.out, s.result.out


@row(14, 0, files=ONE)
def part_larger_than_the_file(s):
    with open(part_of_first_range(s), "ab") as f:
        f.truncate(len(LARGE))
        f.seek(0, os.SEEK_END)
        f.write(b"x" * MIB)


@row(14, 0, files=ONE)
def part_shorter_than_its_record(s):
    os.truncate(part_of_first_range(s), 1000)


@row(23, 0, files=ONE)
def flipped_bit_in_the_part(s):
    """The hash is wrong at the end; the second attempt starts at zero."""
    part = part_of_first_range(s)
    with open(part, "r+b") as f:
        f.seek(1000)
        byte = f.read(1)[0]
        f.seek(1000)
        f.write(bytes([byte ^ 4]))


@row(54, 0, files=ONE)
def record_of_the_part_is_damaged(s):
    part_of_first_range(s)
    record, = glob.glob(os.path.join(s.directory, "blobs", "*.mote-ranges"))
    write(record, os.urandom(os.path.getsize(record)))


@row(54, 0, files=ONE)
def record_of_the_part_is_gone(s):
    part_of_first_range(s)
    os.unlink(*glob.glob(os.path.join(s.directory, "blobs", "*.mote-ranges")))


@row(15, 0, files=ONE)
def file_replaced_since_the_part_was_begun(s):
    """The publisher uploads another file under the same name. The old part goes."""
    part_of_first_range(s)
    s.hub.commit(s.repo, {"a.gguf": OTHER})
    yield
    equal(glob.glob(os.path.join(s.directory, "blobs", "*.mote-*")), [])


@row(60, 0, files=ONE)
def part_from_the_future(s):
    os.utime(part_of_first_range(s), (4000000000, 4000000000))
    yield
    assert min(begin for begin, _ in s.spans()) >= RANGE, s.spans()


@row(49, 0, files=ONE)
def two_pulls_at_once(s):
    """One downloads, the other one waits and uses the file."""
    other = s.start()
    yield
    out, err = other.communicate()
    equal((other.returncode, err), (0, err))
    equal(sum(end - begin for begin, end in s.spans()), len(LARGE))


# Locks

def lock_path(s):
    return os.path.join(cache_of(s.home), ".locks", os.path.basename(s.directory), s.repo.file("a.gguf").etag + ".lock")


@row(51, 0)
def lock_of_another_process(s):
    """While the lock is held nothing is downloaded; Ctrl-C ends the wait. Then the lock is free."""
    write(lock_path(s), b"")
    with open(lock_path(s), "rb+") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        process = s.start()
        line = ""
        while '"wait' not in line:
            line = process.stdout.readline()
            assert line, "ended: " + process.stderr.read()
        assert "lock" in line, line
        process.send_signal(signal.SIGINT)
        process.communicate()
        equal(process.returncode, 130)
        equal(s.requests("cdn"), [])


@row(51, 0)
def lock_file_of_a_dead_process(s):
    write(lock_path(s), b"4711")


@row(52, 0, "the cache cannot be locked .*own part files")
def lock_file_is_a_link(s):
    os.makedirs(os.path.dirname(lock_path(s)))
    victim = os.path.join(s.home, "victim")
    write(victim, b"text")
    os.symlink(victim, lock_path(s))
    yield
    equal(read(victim), b"text")


@row(52, 0, "the cache cannot be locked .*own part files")
def lock_file_is_a_link_to_a_file_next_to_it(s):
    """The sandbox would allow it. The target is not created."""
    os.makedirs(os.path.dirname(lock_path(s)))
    victim = os.path.join(os.path.dirname(lock_path(s)), "victim")
    os.symlink(victim, lock_path(s))
    yield
    assert not os.path.exists(victim)


@row(52, 0, "the cache cannot be locked .*own part files")
def lock_file_is_a_directory(s):
    os.makedirs(lock_path(s))


@row(52, 0, files=ONE)
def two_pulls_without_locks(s):
    """No lock file can be made. Both pulls download, each into its own part file."""
    os.makedirs(os.path.dirname(os.path.dirname(lock_path(s))))
    write(os.path.dirname(lock_path(s)), b"")
    both = threading.Barrier(2)

    def together(request, answer):
        if request.headers.get("range", "").startswith("bytes=0-"):
            both.wait(PATIENCE)
        return answer
    s.use(cdn="raw_cdn")
    s.hook("cdn", together)
    s.flags += ["--jobs", "1"]
    other = s.start()
    yield
    out, err = other.communicate()
    equal((other.returncode, err), (0, err))
    assert "own part files" in out and "own part files" in s.result.out, out
    check_no_temporary_files(s)


# Files that are in the way

@row(54, 0)
def blob_too_short(s):
    write(s.blob(), SMALL[:1000])


@row(54, 0)
def blob_with_a_flipped_bit(s):
    write(s.blob(), flipped(SMALL))


@row(54, 0)
def blob_damaged_after_the_pull(s):
    equal(s.pull().code, 0)
    write(s.blob(), flipped(SMALL))
    s.forget()
    yield
    assert s.requests("cdn")


@row(54, 12, "cannot rename .*Is a directory")
def blob_is_a_directory(s):
    os.makedirs(s.blob())
    s.installed = None
    yield
    # An empty directory may be replaced. It is never taken for a model.
    link = os.path.join(s.directory, "snapshots", s.repo.head, "a.gguf")
    assert not os.path.isdir(link)


@row(54, 0)
def blob_is_a_dangling_link(s):
    os.makedirs(os.path.dirname(s.blob()))
    os.symlink(os.path.join(s.home, "nowhere"), s.blob())
    yield
    assert not os.path.exists(os.path.join(s.home, "nowhere"))


@row(54, 0)
def blob_in_the_shared_store(s):
    """The blob is a link into <cache>/blobs, which repositories share. It is used, not written."""
    shared = os.path.join(cache_of(s.home), "blobs", "ab", "ab" * 32)
    write(shared, SMALL)
    os.chmod(shared, 0o444)
    os.makedirs(os.path.dirname(s.blob()))
    os.symlink(os.path.relpath(shared, os.path.dirname(s.blob())), s.blob())
    yield
    equal(s.requests("cdn"), [])
    assert os.path.islink(s.blob())


@row(54, 0)
def damaged_blob_in_the_shared_store(s):
    shared = os.path.join(cache_of(s.home), "blobs", "ab", "ab" * 32)
    write(shared, flipped(SMALL))
    os.makedirs(os.path.dirname(s.blob()))
    os.symlink(os.path.relpath(shared, os.path.dirname(s.blob())), s.blob())
    yield
    equal(read(shared), flipped(SMALL))  # not written through the link


def snapshot_link(title, target):
    def check(s):
        link = os.path.join(s.directory, "snapshots", s.repo.head, "a.gguf")
        os.makedirs(os.path.dirname(link))
        victim = os.path.join(s.home, "victim")
        write(victim, b"text")
        os.symlink(target.format(victim=victim), link)
        yield
        equal(read(victim), b"text")
    check.__name__ = "snapshot_link_" + title
    row(55, 0)(check)


snapshot_link("to_a_file_outside", "{victim}")
snapshot_link("to_itself", "a.gguf")
snapshot_link("to_a_missing_blob", "../../blobs/" + "0" * 64)


def bad_ref(title, content):
    def check(s):
        write(os.path.join(s.directory, "refs", "main"), content)
    check.__name__ = "ref_" + title
    row(56, 0)(check)


bad_ref("empty", b"")
bad_ref("with_a_newline", b"1" * 40 + b"\n")
bad_ref("of_two_megabytes", b"x" * (2 << 20))
bad_ref("with_a_path", b"../../../../etc")


@row(53, 12, "another program removed the part file .*run the command again", files=ONE)
def repository_removed_during_the_pull(s):
    """`hf cache rm` takes no lock. The pull ends with an error or with the file; the next one works."""
    def remove(request, answer):
        shutil.rmtree(s.directory, ignore_errors=True)
        return answer
    s.use(cdn="raw_cdn")
    s.hook("cdn", remove, times=1, skip=1)
    yield
    del s.repo.hooks["cdn"]
    equal(s.pull().code, 0)
    s.check_installed("a.gguf")


# The disk

@row(46, 12, "cannot write .*File too large; the part is kept", files=ONE)
def limit_of_the_file_size(s):
    s.preexec = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9 * MIB, 9 * MIB))


class Mounted:
    """A tmpfs as the cache."""

    def __init__(self, s, options):
        self.path = cache_of(s.home)
        os.makedirs(self.path)
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", self.path]
        if shutil.which("mount") is None or subprocess.run(words, capture_output=True).returncode != 0:
            raise Skip("mounting a tmpfs is not permitted")
        s.undo.append(lambda: subprocess.run(["umount", "-l", self.path], check=True))

    def remount(self, options):
        subprocess.run(["mount", "-o", "remount," + options, self.path], check=True)


@row(46, 12, "the download needs 16.8 MB, 9.4 MB are free", files=ONE)
def no_space_at_the_start(s):
    """The message says how much is missing, and nothing is downloaded."""
    Mounted(s, "size=9m")
    yield
    equal(s.requests("cdn"), [])


@row(46, 12, "No space left on device; the part is kept", files=ONE)
def no_space_in_the_middle(s):
    """Another program fills the disk during the pull. With space again the next run resumes."""
    disk = Mounted(s, "size=40m")
    filler = os.path.join(disk.path, "filler")

    def fill(request, answer):
        with open(filler, "wb") as f:
            try:
                while True:
                    f.write(bytes(65536))
                    f.flush()
            except OSError:
                pass
        return answer
    s.use(cdn="raw_cdn")
    s.flags += ["--jobs", "1"]
    s.hook("cdn", fill, times=1)
    yield
    os.unlink(filler)
    equal(s.pull().code, 0)
    s.check_installed("a.gguf")
    s.check_blobs()


@row(46, 12, "cannot create .*No space left on device", files=ONE)
def no_inodes(s):
    Mounted(s, "size=40m,nr_inodes=6")


@row(46, 12, "cannot create .*Read-only file system")
def read_only_file_system(s):
    disk = Mounted(s, "size=40m")
    disk.remount("ro")


def refuse_call(number, argument, value, error):
    """The system call fails with `error` if one of its arguments has this value: a seccomp filter."""
    def op(code, k, yes=0, no=0):
        return struct.pack("HBBI", code, yes, no, k)
    load, equals, give = 0x20, 0x15, 0x06
    code = (op(load, 0) + op(equals, number, 0, 3) + op(load, 16 + 8 * argument) + op(equals, value, 0, 1)
            + op(give, 0x50000 | error) + op(give, 0x7FFF0000))
    steps = ctypes.create_string_buffer(code)

    def apply():
        libc = ctypes.CDLL(None, use_errno=True)
        program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(steps)))
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program):
            os._exit(77)
    return apply


@row(46, 12, "record|mote-ranges")
def record_cannot_be_written(s):
    """The one write of a single byte: a range is complete. It is also the last range."""
    calls = {"x86_64": 18, "aarch64": 68}  # pwrite64
    if platform.machine() not in calls:
        raise Skip("the number of pwrite64 is not known")
    s.preexec = refuse_call(calls[platform.machine()], 2, 1, errno.EIO)


@row(46, 12, "cannot create .*Not a directory")
def cache_is_a_file(s):
    write(cache_of(s.home), b"text")
    s.installed = None
    yield
    equal(read(cache_of(s.home)), b"text")


@row(59, 0)
def mask_of_the_user(s):
    """Modes are those that the umask leaves."""
    s.preexec = lambda: os.umask(0o077)
    yield
    equal(stat.S_IMODE(os.stat(s.blob()).st_mode), 0o600)


@row(59, 0)
def usual_mask(s):
    s.preexec = lambda: os.umask(0o022)
    yield
    equal(stat.S_IMODE(os.stat(s.blob()).st_mode), 0o644)


@row(57, 0)
def no_symbolic_links(s):
    """The file lies in the snapshot itself."""
    s.env["HF_HUB_DISABLE_SYMLINKS"] = "1"
    s.installed = []
    yield
    path = os.path.join(s.directory, "snapshots", s.repo.head, "a.gguf")
    assert not os.path.islink(path)
    equal(sha256_of(path), s.repo.file("a.gguf").sha256)
    s.forget()
    equal(s.pull().code, 0)
    equal(s.requests("cdn"), [])


# Renames into another directory, which Landlock refused before Linux 5.19

def landlock_of_linux_5_13():
    """A process with any Landlock ruleset cannot rename into another directory unless the ruleset allows that. This
    one forbids only to create sockets."""
    libc = ctypes.CDLL(None, use_errno=True)
    create, restrict, make_sock = 444, 446, 1 << 9
    ruleset = libc.syscall(create, ctypes.byref(ctypes.c_uint64(make_sock)), 8, 0)
    if ruleset < 0 or libc.prctl(38, 1, 0, 0, 0) or libc.syscall(restrict, ruleset, 0):
        os._exit(77)


def no_rename_across_directories(s):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(444, None, 0, 1) < 1:
        raise Skip("no Landlock")
    s.preexec = landlock_of_linux_5_13


def check_no_temporary_files(s):
    for directory, _, names in os.walk(s.directory):
        assert not [name for name in names if ".mote-" in name], (directory, names)


@row(57, 0)
def landlock_without_renames(s):
    no_rename_across_directories(s)
    yield
    check_no_temporary_files(s)


@row(57, 0)
def landlock_without_renames_and_a_new_commit(s):
    """The ref exists and is replaced."""
    no_rename_across_directories(s)
    equal(s.pull().code, 0)
    s.hub.commit(s.repo, {"a.gguf": SMALL, "other.gguf": SMALL})
    yield
    check_no_temporary_files(s)


def landlock_without_links(title, before):
    def check(s):
        no_rename_across_directories(s)
        s.installed = []
        if before:  # the blob of another snapshot is copied, a new one is moved
            equal(s.pull().code, 0)
            s.hub.commit(s.repo, {"a.gguf": SMALL, "other.gguf": SMALL})
        s.env["HF_HUB_DISABLE_SYMLINKS"] = "1"
        yield
        path = os.path.join(s.directory, "snapshots", s.repo.head, "a.gguf")
        assert not os.path.islink(path)
        equal(sha256_of(path), s.repo.file("a.gguf").sha256)
        equal(os.path.exists(s.blob()), before)
        check_no_temporary_files(s)
    check.__name__ = "landlock_without_renames_and_links_" + title
    row(57, 0)(check)


landlock_without_links("new_blob", False)
landlock_without_links("old_blob", True)


# Signals

@row(47, 0, files=ONE)
def interrupted(s):
    """Ctrl-C: exit code 130, the part stays, the next run needs only the rest."""
    s.use(cdn="raw_cdn")
    s.flags += ["--jobs", "1"]
    held = []

    def hold(request, answer):
        request.head(answer[0], [*answer[1], ("Content-Length", len(answer[2]))])
        request.send(answer[2][:RANGE + MIB])
        held.append(request)
        s.hub.raw_cdn.closing.wait(600)
    s.repo.hooks["cdn"] = hold
    process = s.start()
    until(lambda: held, "no request came")
    until(lambda: part_bytes(s) > 0, "no part file")
    process.send_signal(signal.SIGINT)
    process.communicate()
    equal(process.returncode, 130)
    s.check_intact()
    del s.repo.hooks["cdn"]
    s.forget()


def part_bytes(s):
    parts = glob.glob(os.path.join(s.directory, "blobs", "*.mote-part"))
    return os.stat(parts[0]).st_blocks * 512 if parts else 0
