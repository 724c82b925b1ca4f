#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""resize_pillow.py PROBE N - N random images resized by Pillow and by mote: no sample may differ.

Since version 13 Pillow resizes vertically first if an image loses much more height than width.
mote does the same. With an older Pillow such images are skipped and counted.
"""
import random
import struct
import subprocess
import sys

try:
    import PIL
    from PIL import Image
except ModuleNotFoundError as missing:
    if missing.name != "PIL":
        raise
    print("Pillow is not installed (Debian: python3-pil)")
    sys.exit(77)

BICUBIC = 3
FOLLOWS_13 = int(PIL.__version__.split(".")[0]) >= 13


def random_image(rng, width, height):
    """Noise, black and white, or a gradient."""
    kind = rng.randrange(3)
    n = width * height * 3
    if kind == 0:
        return rng.randbytes(n)
    if kind == 1:
        return bytes(255 * (b & 1) for b in rng.randbytes(n))
    return bytes((i // 3 % width * 2 + i // 3 // width + i % 3 * 40) % 256 for i in range(n))


def side(rng):
    return rng.choice([1, 2, 3, 7, 17, 33, rng.randint(1, 200), rng.randint(1, 700)])


def main():
    probe = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    rng = random.Random(11)
    done = skipped = differing = 0
    while done < int(sys.argv[2]):
        w, h = side(rng), side(rng)
        ow = rng.choice([w, rng.randint(1, 700), 32 * rng.randint(1, 20)])
        oh = rng.choice([h, rng.randint(1, 700), 32 * rng.randint(1, 20)])
        if not FOLLOWS_13 and w != ow and h > oh and h - oh > 2 * (w - ow):
            skipped += 1
            continue
        pixels = random_image(rng, w, h)
        want = Image.frombytes("RGB", (w, h), pixels).resize((ow, oh), BICUBIC).tobytes()
        probe.stdin.write(struct.pack("<4I", w, h, ow, oh) + pixels)
        probe.stdin.flush()
        got = probe.stdout.read(len(want))
        done += 1
        if got != want:
            differing += 1
            print(f"{w} x {h} to {ow} x {oh}: {sum(a != b for a, b in zip(got, want))} samples differ")
    print(f"{done} images against Pillow {PIL.__version__}, {differing} differ, {skipped} skipped")
    sys.exit(differing != 0)


main()
