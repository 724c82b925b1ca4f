# SPDX-License-Identifier: Apache-2.0
"""scenario_large_rows.py - files of more than 4 GiB. Hashing one takes seconds, so scripts/hub_long runs these rows."""
import os

from double import gguf_bytes
from hub_rig import MIB, equal
from scenarios import Skip, row, status

RANGE = 8 * MIB


@row(61, 0)
def file_of_more_than_4_gib(s):
    """A sparse file. Its first 4 GiB are in the part already, so the requests are for offsets above."""
    first, head, tail = 4 << 30, gguf_bytes(MIB, 31), os.urandom(RANGE + 12345)
    space = os.statvfs(s.home)
    if space.f_bavail * space.f_frsize < 6 << 30:
        raise Skip("less than 6 GB are free")
    source = os.path.join(s.home, "source.gguf")
    with open(source, "wb") as f:
        f.write(head)
        f.seek(first)
        f.write(tail)
    s.repo = s.hub.add("scenario/file-of-4-gib", {"a.gguf": source})
    s.target, s.installed = f"hf:{s.repo.name}:a.gguf", []
    s.hook("cdn", status(503))
    equal(s.pull().code, 5)
    with open(s.blob() + ".mote-part", "r+b") as f:
        f.write(head)
    with open(s.blob() + ".mote-ranges", "r+b") as f:
        size = os.path.getsize(f.name)
        f.seek(size - -(-os.path.getsize(source) // RANGE))  # one byte per range at the end
        f.write(b"1" * (first // RANGE))
    del s.repo.hooks["cdn"]
    s.forget()
    yield
    equal(s.result.events("done")[0]["downloaded"], len(tail))
    # A request of the first run may have been recorded late.
    assert {(first, first + RANGE - 1), (first + RANGE, first + len(tail) - 1)} <= {span_of(r) for r in s.requests("cdn")}
    with open(os.path.join(s.directory, "snapshots", s.repo.head, "a.gguf"), "rb") as f:
        f.seek(first)
        equal(f.read(), tail)
    os.unlink(s.blob())  # mote has hashed it; once more takes seconds


def span_of(request):
    return tuple(int(n) for n in request.headers["range"].removeprefix("bytes=").split("-"))
