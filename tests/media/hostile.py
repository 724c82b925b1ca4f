#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hostile.py PROBE - small files that ask a decoder for much work are refused, or decoded in time for their pixels.

A decoder may use 2 s of CPU time, 250 ns per pixel and 50 ns per byte: the limit of a decoder process
(media_sandbox_seconds). Real images need a tenth of it. Refusals must be as fast as that, too.
"""
import io
import os
import select
import struct
import subprocess
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from jpeg_scans import jpeg  # noqa: E402

try:
    from PIL import Image

    import transparent
    import videos
except ModuleNotFoundError as missing:
    if missing.name != "PIL":
        raise
    print("Pillow is not installed (Debian: python3-pil)")
    sys.exit(77)


# ---- PNG ----

def png(width, height, chunks=(), interlaced=False, pieces=1, depth=8, kind=transparent.RGB):
    """An image of zeros, its data in `pieces` chunks."""
    bits = transparent.CHANNELS[kind] * depth
    passes = [(-(-(width - x) // dx), -(-(height - y) // dy)) for x, y, dx, dy in transparent.ADAM7] if interlaced else [
        (width, height)]
    zeros, rows = zlib.compressobj(9), b""
    for w, h in passes:
        rows += zeros.compress(bytes(((w * bits + 7) // 8 + 1) * h))
    rows += zeros.flush()
    step = -(-len(rows) // pieces)
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced)
    return b"\x89PNG\r\n\x1a\n" + b"".join(transparent.png_chunk(*c) for c in (
        (b"IHDR", header), *chunks, *((b"IDAT", rows[i:i + step]) for i in range(0, len(rows), step)), (b"IEND", b"")))


def text_bombs(n, megabytes):
    """Compressed texts and colour profiles that nothing needs."""
    zeros = zlib.compress(bytes(megabytes << 20), 9)
    return [c for _ in range(n) for c in ((b"zTXt", b"k\0\0" + zeros), (b"iTXt", b"k\0\1\0\0\0" + zeros))] + [
        (b"iCCP", b"k\0\0" + zeros)]


# ---- GIF ----

def gif_pixels(n):
    """n pixels of colour 0. After the first 4,000 strings of the table, each code is 4,000 pixels long."""
    held, bits, out = 0, 0, bytearray()

    def put(code, width):
        nonlocal held, bits
        held |= code << bits
        bits += width
        while bits >= 8:
            out.append(held & 255)
            held >>= 8
            bits -= 8
    put(4, 3)
    put(0, 3)
    done, length, code, width = 1, 2, 6, 3
    while done < n:
        step = min(length, n - done)
        put(code - (length - step) if step > 1 else 0, width)
        done += step
        if code < 4095:
            length, code = length + 1, code + 1
            width += code == 1 << width and width < 12
    put(5, width)
    out.append(held & 255)
    return b"\2" + b"".join(bytes([len(out[i:i + 255])]) + out[i:i + 255] for i in range(0, len(out), 255)) + b"\0"


def gif(screen, box, frames, disposal=0):
    control = b"\x21\xf9\x04" + struct.pack("<BHB", disposal << 2, 5, 0) + b"\0"
    frame = control + b"," + struct.pack("<HHHHB", *box, 0) + gif_pixels(box[2] * box[3])
    return b"GIF89a" + struct.pack("<HHBBB", *screen, 0x81, 0, 0) + bytes(range(12)) + frame * frames + b";"


# ---- WebP ----

def riff(name, data):
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def webp(canvas, frames):
    """An animation with frames of one pixel."""
    pixel = io.BytesIO()
    Image.new("RGB", (1, 1)).save(pixel, "WEBP", lossless=True)
    frame = riff(b"ANMF", bytes(12) + struct.pack("<I", 100)[:3] + b"\0" + pixel.getvalue()[12:])
    size = b"".join(struct.pack("<I", side - 1)[:3] for side in canvas)
    return riff(b"RIFF", b"WEBP" + riff(b"VP8X", b"\2\0\0\0" + size) + riff(b"ANIM", bytes(6)) + frame * frames)


# ---- the test ----

def images():
    """(name, file, pixels, words of the refusal or None)"""
    yield "an honest JPEG", jpeg(4000, 2500, 10), 10e6, None
    yield "a JPEG of 100 scans", jpeg(1000, 1000, 100), 1e6, None
    yield "a JPEG of 3,000 scans", jpeg(2000, 2000, 3000), 4e6, "at least 3000 scans; at most 100 for"
    yield "a JPEG of 15,000 large scans", jpeg(8000, 5000, 15000), 4e6, "at least 15000 scans; at most 25 for 8000 x 5000"
    yield "a JPEG of 25 large scans", jpeg(8000, 5000, 25), 40e6, None
    yield "a baseline JPEG of 3,000 scans", jpeg(256, 256, 3000, "baseline"), 65536, "at least 3000 scans"
    yield "a JPEG of 3,000 empty scans", jpeg(2000, 2000, 3000, "arithmetic"), 4e6, "at least 3000 scans"
    yield "an interlaced PNG", png(4000, 2500, interlaced=True), 10e6, None
    yield "a wide interlaced PNG", png(65535, 150, interlaced=True), 9.8e6, None
    yield "a tall interlaced PNG", png(150, 65535, interlaced=True), 9.8e6, None
    yield "an interlaced PNG of 1 bit", png(4000, 2500, interlaced=True, depth=1, kind=transparent.GRAY), 10e6, None
    yield "a PNG without its data", png(4000, 2500, interlaced=True)[:3000] + bytes(12), 10e6, "invalid PNG"
    yield "a PNG with 3 GB of compressed texts", png(8, 8, text_bombs(80, 19)), 64, None
    yield "a PNG in pieces of one byte", png(2000, 2000, pieces=10 ** 6), 4e6, None
    yield "a GIF frame larger than the screen", gif((1, 1), (0, 0, 30000, 30000), 1), 1, "30000 x 30000 pixels"
    yield "a GIF of 30,000 frames", gif((100, 100), (0, 0, 1, 1), 30000), 10000, None
    yield "a GIF with a large screen", gif((8000, 1000), (0, 0, 1, 1), 1), 8e6, None
    yield "a WebP of 30,000 frames", webp((100, 100), 30000), 10000, None
    yield "a WebP with a large canvas", webp((8000, 1000), 1), 8e6, None


def clips():
    still = jpeg(64, 64, 2)
    deep = videos.avi([still] * 4)
    for _ in range(5000):
        deep = deep.replace(b"LIST", b"LIST\xff\xff\xff\xffrec LIST", 1)
    yield "a GIF of 4,096 small frames", gif((100, 100), (0, 0, 50, 50), 4096, disposal=3), 30e6, None
    yield "a GIF of 4,096 tiny frames on a large screen", gif((8000, 5000), (0, 0, 1, 1), 4096), 0, "million pixels"
    yield "a GIF of 4,096 large frames", gif((3000, 2000), (0, 0, 3000, 2000), 4096), 0, "million pixels"
    yield "a GIF whose second frame exceeds the screen", (gif((9, 9), (0, 0, 9, 9), 1)[:-1] +
                                                          gif((9, 9), (0, 0, 30000, 30000), 1)[25:]), 81, "30000 x 30000 pixels"
    yield "a WebP of 4,096 tiny frames on a large canvas", webp((8000, 5000), 4096), 0, "million pixels"
    yield "a WebP of 30,000 frames", webp((64, 64), 30000), 17e6, None
    yield "an AVI that repeats a large frame", videos.avi([jpeg(8000, 5000, 2)] + [b""] * 900, height=5000), 0, "million pixels"
    yield "an AVI of 200,000 repeated frames", videos.avi([still] + [b""] * 200000, height=64), 3.2e6, None
    yield "an AVI of nested lists", deep, 0, "AVI"
    yield "an AVI with a JPEG of 3,000 scans", videos.avi([still, jpeg(64, 64, 3000), still, still], height=64), 16384, "frame 2"
    yield "a stream with a JPEG of 3,000 scans", still + jpeg(64, 64, 3000) + still + still, 16384, "at least 3000 scans"


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat") as stat:
        numbers = stat.read().rsplit(")", 1)[1].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def decode(words, file, seconds):
    """(CPU time, error message or ""). Stops the probe when its time is over."""
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    reply, head = b"", 8
    try:
        process.stdin.write(struct.pack("<I", len(file)) + file)
        process.stdin.flush()
        while len(reply) < head and cpu_seconds(process) <= seconds:
            if select.select([process.stdout], [], [], 0.02)[0]:
                part = os.read(process.stdout.fileno(), 1 << 16)
                if not part:
                    return cpu_seconds(process), "the decoder died"
                reply += part
        used = cpu_seconds(process)
        frames, n = struct.unpack("<II", reply[:8]) if len(reply) >= 8 else (1, 0)
        while frames == 0 and len(reply) < 8 + n:
            reply += os.read(process.stdout.fileno(), 1 << 16)
        return used, reply[8:8 + n].decode() if frames == 0 else ""
    finally:
        process.kill()
        process.wait()


def check(failures, words, name, file, pixels, refusal):
    allowed = 2 + 250e-9 * pixels + 50e-9 * len(file)
    used, message = decode(words, file, allowed)
    print(f"{name}: {len(file):,} bytes, {used:.2f} s of {allowed:.1f} s{'; ' if message else ''}{message}")
    if used > allowed:
        failures.append(f"{name}: {used:.1f} s of CPU time")
    if (refusal is None) != (message == "") or (refusal or "") not in message:
        failures.append(f"{name}: {message or 'decoded'}; expected: {refusal or 'decoded'}")


def main():
    failures = []
    for case in images():
        check(failures, [sys.argv[1]], *case)
    for case in clips():
        check(failures, [sys.argv[1], "video"], *case)
    sys.exit("\n".join(["FAILED:", *failures]) if failures else 0)


if __name__ == "__main__":
    main()
