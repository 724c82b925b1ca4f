# SPDX-License-Identifier: Apache-2.0
"""videos.py - test videos made of JPEGs: streams and AVIs in all variants that recorders write."""
import io
import struct

from PIL import Image


def jpegs(rng, n, size=(40, 30), **options):
    """n frames that differ, as JPEG bytes."""
    out = []
    for _ in range(n):
        small = Image.frombytes("RGB", (4, 4), rng.randbytes(48)).resize(size, Image.BICUBIC)
        file = io.BytesIO()
        small.save(file, "JPEG", **{"quality": 90, **options})
        out.append(file.getvalue())
    return out


def without_tables(jpeg):
    """As cameras and ffmpeg write video frames: without the standard Huffman tables."""
    out, at = jpeg[:2], 2
    while jpeg[at:at + 2] != b"\xff\xda":
        end = at + 2 + struct.unpack(">H", jpeg[at + 2:at + 4])[0]
        if jpeg[at + 1] != 0xc4:
            out += jpeg[at:end]
        at = end
    return out + jpeg[at:]


def chunk(name, data):
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def group(name, data, kind=b"LIST"):
    return chunk(kind, name + data)


def stream(kind, rate, scale, height, coding=b"MJPG"):
    head = struct.pack("<4s4sIHHIIIIIIII4H", kind, coding, 0, 0, 0, 0, scale, rate, 0, 100, 0, 0, 0, 0, 0, 40, abs(height))
    format_data = struct.pack("<IiiHH4sIiiII", 40, 40, height, 1, 24, coding, 3600, 0, 0, 0, 0)
    return group(b"strl", chunk(b"strh", head) + chunk(b"strf", format_data))


def avi(frames, rate=10, scale=1, height=30, coding=b"MJPG", sound=False, index=True, grouped=False, open_end=False,
        second=0, name=b"dc", odd_lists=False):
    """An AVI. `second`: number of frames in a second RIFF chunk, as in large files."""
    number = b"01" if sound else b"00"
    heads = (stream(b"auds", 8000, 1, 0, b"\0\0\0\0") if sound else b"") + stream(b"vids", rate, scale, height, coding)
    chunks = [(chunk(b"00wb", b"\x80" * 37) if sound else b"") + chunk(number + name, f) for f in frames]
    if odd_lists:  # lists with the names of chunks
        heads += group(b"strh", b"")
        chunks = [p + group(number + name, b"") for p in chunks]
    if grouped:
        chunks = [group(b"rec ", p) for p in chunks]
    cut = len(chunks) - second
    movi = group(b"movi", b"".join(chunks[:cut]))
    body = (group(b"hdrl", chunk(b"avih", struct.pack("<14I", 100000, *[0] * 13)) + heads) +
            group(b"INFO", chunk(b"ISFT", b"a test")) + chunk(b"JUNK", b"\0" * 101))
    if open_end:  # recording was interrupted before the sizes were written
        whole = group(b"AVI ", body + movi, b"RIFF")
        whole = whole.replace(movi[:8], b"LIST\0\0\0\0")
        return b"RIFF\0\0\0\0" + whole[8:]
    tail = chunk(b"idx1", b"\xff" * 32) if index else b""
    more = group(b"AVIX", group(b"movi", b"".join(chunks[cut:])), b"RIFF") if second else b""
    return group(b"AVI ", body + movi + tail, b"RIFF") + more
