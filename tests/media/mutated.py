#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutated.py PROBE [N] - N damaged files of each format (1,000): each is decoded or rejected.

The probe must reply to every file in time and still run at the end. Damage: bytes changed, removed,
repeated or zeroed, and absurd lengths. Decompression bombs and impossible sizes come first.
"""
import os
import random
import select
import struct
import subprocess
import sys
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from around import scaled  # noqa: E402

try:
    from seeds import seeds
except ModuleNotFoundError as missing:
    if missing.name != "PIL":
        raise
    print("Pillow is not installed (Debian: python3-pil)")
    sys.exit(77)

SECONDS = 120


def png(width, height, rows):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", rows) + chunk(b"IEND", b""))


def bombs():
    """Small files that claim or hold many pixels."""
    return [png(6000, 6000, zlib.compress(b"\0" * (6000 * 18001), 9)), png(6400, 6400, zlib.compress(b"\0" * 1000)),
            png(65535, 65535, b""), png(1, 2 ** 31 - 1, b""), b"GIF89a\xff\xff\xff\xff\x80\0\0" + b"\0" * 3000,
            b"RIFF\xff\xff\xff\xffWEBPVP8X\x0a\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff"]


def damaged(rng, data):
    data = bytearray(data[: 60000])
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        at = rng.randrange(len(data)) if rng.random() < 0.5 else rng.randrange(min(len(data), 64))
        how = rng.randrange(6)
        if how == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            data[at] = rng.choice([0, 1, 127, 128, 255])
        elif how == 2:
            data = data[:max(12, at)]
        elif how == 3:
            data[at:at] = data[at:at + rng.randrange(1, 40)]
        elif how == 4:
            data[at:at + 4] = struct.pack(rng.choice(["<I", ">I"]), rng.choice([0, 1, 2 ** 31, 2 ** 32 - 1, 65535]))
        else:
            del data[at:at + rng.randrange(1, 20)]
        if not data:
            return b"GIF89a"
    return bytes(data)


class Probe:
    def __init__(self, path):
        self.process = subprocess.Popen([path, "8"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def read(self, n):
        """Reads n bytes and returns the first of them; pixels are not checked."""
        got, left, end = b"", n, time.monotonic() + SECONDS
        while left > 0:
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError("no reply in time")
            part = os.read(self.process.stdout.fileno(), min(left, 1 << 20))
            if not part:
                raise RuntimeError(f"the decoder died: {self.process.wait()}")
            got = got or part
            left -= len(part)
        return got

    def decode(self, data):
        self.process.stdin.write(struct.pack("<I", len(data)) + data)
        frames = struct.unpack("<I", self.read(4))[0]
        if frames == 0:
            self.read(struct.unpack("<I", self.read(4))[0])
        for _ in range(frames):
            width, height = struct.unpack("<II", self.read(8))
            self.read(width * height * 3)
        return frames > 0


def main():
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    n = scaled(n, 50)
    rng = random.Random(5)
    probe = Probe(sys.argv[1])
    for data in bombs():
        probe.decode(data)
    for kind, files in seeds(rng).items():
        decoded = 0
        for i in range(n):
            seed = files[i % len(files)]
            data = seed if i < len(files) else damaged(rng, seed)
            try:
                decoded += probe.decode(data)
            except (RuntimeError, BrokenPipeError) as error:
                name = f"bad.{kind}"
                with open(name, "wb") as out:
                    out.write(data)
                sys.exit(f"{kind} number {i}: {error}; kept as {name}")
        print(f"{kind}: {n} files, {decoded} decoded, {n - decoded} rejected")


main()
