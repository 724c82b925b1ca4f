#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""seeds.py FORMAT PROGRAM | seeds.py FORMAT DIRECTORY - small valid files of a format, as seeds for fuzzing.

Runs PROGRAM with a directory of seeds, or writes them to DIRECTORY. FORMAT is jpeg (images and streams), png, webp,
gif or avi.
"""
import io
import os
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    from PIL import Image

    import videos
except ImportError:
    if __name__ != "__main__":
        raise
    print("Pillow is not installed (Debian: python3-pil)")
    sys.exit(77)


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def seeds(rng):
    small = Image.frombytes("RGB", (40, 30), rng.randbytes(3600))
    soft = small.resize((64, 48), Image.BICUBIC)
    frames = [Image.frombytes("P", (20, 20), rng.randbytes(400)) for _ in range(3)]
    for f in frames:
        f.putpalette(rng.randbytes(768))
    moving = [Image.frombytes("RGB", (16, 16), rng.randbytes(768)) for _ in range(3)]
    shots = videos.jpegs(rng, 3, size=(24, 16))
    return {
        "jpeg": [saved(soft, "JPEG"), saved(soft, "JPEG", progressive=True), saved(soft.convert("CMYK"), "JPEG")],
        "png": [saved(small, "PNG"), saved(small.convert("P"), "PNG"), saved(small.convert("RGBA"), "PNG")],
        "webp": [saved(soft, "WEBP"), saved(small, "WEBP", lossless=True),
                 saved(moving[0], "WEBP", save_all=True, append_images=moving[1:])],
        "gif": [saved(frames[0], "GIF"), saved(frames[0], "GIF", save_all=True, append_images=frames[1:])],
        "mjpeg": [b"".join(shots), b"\0\xff".join(videos.without_tables(s) for s in shots)],
        "avi": [videos.avi(shots), videos.avi(shots, sound=True, grouped=True), videos.avi(shots, open_end=True),
                videos.avi([videos.without_tables(shots[0]), b""], second=1)],
    }


def write_seeds(kind, directory):
    made = seeds(random.Random(5))
    for i, data in enumerate(made[kind] + (made["mjpeg"] if kind == "jpeg" else [])):
        (pathlib.Path(directory) / f"{kind}{i}").write_bytes(data)


def main():
    kind, target = sys.argv[1:]
    if os.path.isdir(target):
        write_seeds(kind, target)
        return
    with tempfile.TemporaryDirectory() as directory:
        write_seeds(kind, directory)
        sys.exit(subprocess.run([target, directory]).returncode)


if __name__ == "__main__":
    main()
