#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""decode_pillow.py PROBE [GOLDEN] - images of every kind, decoded by Pillow and by mote: no sample may differ.

The images are made here: all modes that a format can hold, sizes from 1 x 1 on, every EXIF
orientation, progressive and restart-marked JPEG of all subsamplings, interlaced PNG, lossy and
lossless WebP, GIFs with odd frames. GOLDEN is a directory with images of the reference.
"""
import io
import pathlib
import random
import struct
import subprocess
import sys

try:
    import PIL
    from PIL import Image, ImageOps
except ModuleNotFoundError as missing:
    if missing.name != "PIL":
        raise
    print("Pillow is not installed (Debian: python3-pil)")
    sys.exit(77)


class Probe:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def decode(self, data):
        """(width, height, pixels), or the message of an error."""
        self.process.stdin.write(struct.pack("<I", len(data)) + data)
        self.process.stdin.flush()
        out = self.process.stdout
        if struct.unpack("<I", out.read(4))[0] == 0:
            return out.read(struct.unpack("<I", out.read(4))[0]).decode()
        width, height = struct.unpack("<II", out.read(8))
        return width, height, out.read(width * height * 3)


def noise(rng, mode, width, height):
    bands = len(Image.new(mode, (1, 1)).getbands())
    if mode == "I;16":
        return Image.frombytes(mode, (width, height), b"".join(
            struct.pack("<H", rng.choice([rng.randrange(300), rng.randrange(65536)])) for _ in range(width * height)))
    if mode == "1":
        return Image.frombytes("L", (width, height), rng.randbytes(width * height)).convert("1")
    if mode == "P":
        image = Image.frombytes("P", (width, height), rng.randbytes(width * height))
        image.putpalette(rng.randbytes(768))
        return image
    # smooth: few colours, enlarged, as JPEG and WebP expect
    small = Image.frombytes(mode, (4, 4), rng.randbytes(16 * bands)).resize((width, height), Image.BICUBIC)
    return small if rng.random() < 0.7 else Image.frombytes(mode, (width, height), rng.randbytes(width * height * bands))


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def exif(orientation):
    block = Image.Exif()
    block[0x0112] = orientation
    return block.tobytes()


def sixteen_bit_rgb(rng, width, height):
    """A PNG with 16 bits per colour. Pillow reads these but does not write them."""
    import zlib
    rows = b"".join(b"\0" + rng.randbytes(width * 6) for _ in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def cases(rng, n):
    """(name, bytes) of at least n files."""
    sizes = [(1, 1), (1, 7), (8, 8), (17, 33), (16, 16), (64, 5), (100, 75)]
    for i in range(n):
        w, h = sizes[i % 7] if i % 3 else (rng.randint(1, 200), rng.randint(1, 160))
        turn = i % 9
        extra = {"exif": exif(turn)} if turn else {}
        kind = i % 4
        if kind == 0:
            mode = ["RGB", "L", "CMYK"][i // 4 % 3]
            more = {"quality": rng.choice([5, 50, 75, 95, 100]), "progressive": bool(i // 4 % 2)}
            if mode == "RGB":
                more["subsampling"] = i // 12 % 3
            yield f"jpeg {mode} {w}x{h} {more} orientation {turn}", saved(noise(rng, mode, w, h), "JPEG", **more, **extra)
        elif kind == 1:
            mode = ["RGB", "RGBA", "L", "LA", "P", "1", "I;16"][i // 4 % 7]
            yield f"png {mode} {w}x{h} orientation {turn}", saved(noise(rng, mode, w, h), "PNG", **extra)
        elif kind == 2:
            mode = ["RGB", "RGBA"][i // 4 % 2]
            more = {"lossless": bool(i // 8 % 2), "quality": rng.choice([10, 80, 100])}
            yield f"webp {mode} {w}x{h} {more} orientation {turn}", saved(noise(rng, mode, w, h), "WEBP", **more, **extra)
        elif i // 4 % 3 == 2:
            yield f"png 16 bits {w}x{h}", sixteen_bit_rgb(rng, w, h)
        else:
            mode = ["P", "L"][i // 4 % 2]
            more = {"transparency": rng.randrange(256)} if i // 8 % 2 else {}
            yield f"gif {mode} {w}x{h} {more}", saved(noise(rng, mode, w, h), "GIF", **more)


def wanted(data):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    return image.width, image.height, image.tobytes()


def main():
    probe = Probe(sys.argv[1])
    files = list(cases(random.Random(7), 360))
    if len(sys.argv) > 2:
        files += [(p.name, p.read_bytes()) for p in sorted(pathlib.Path(sys.argv[2]).iterdir())]
    differing = 0
    for name, data in files:
        got, want = probe.decode(data), wanted(data)
        if got != want:
            differing += 1
            if isinstance(got, str) or got[:2] != want[:2]:
                print(f"{name}: {got if isinstance(got, str) else got[:2]}, Pillow has {want[:2]}")
            else:
                far = [abs(a - b) for a, b in zip(got[2], want[2])]
                print(f"{name}: {sum(d > 0 for d in far)} samples differ, by {max(far)} at most")
    print(f"{len(files)} files against Pillow {PIL.__version__}, {differing} differ")
    sys.exit(differing != 0)


main()
