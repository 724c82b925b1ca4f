#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""decode_pillow.py PROBE [GOLDEN] - images of every kind, decoded by the reference and by mote: no sample may differ.

The reference is load_image and the image processor of transformers, both on Pillow. If transformers is
installed, its functions run; otherwise the same calls of Pillow.

The images are made here: all modes that a format can hold, sizes from 1 x 1 on, every EXIF
orientation, progressive and restart-marked JPEG of all subsamplings, lossy and lossless WebP; every type of
transparency, still and animated (transparent.py). GOLDEN is a directory with images of the reference.
"""
import io
import pathlib
import random
import struct
import subprocess
import sys
import warnings

try:
    import PIL
    from PIL import Image, ImageOps

    import transparent
except ModuleNotFoundError as missing:
    if missing.name != "PIL":
        raise
    print("Pillow is not installed (Debian: python3-pil)")
    sys.exit(77)

try:
    from transformers.image_transforms import convert_to_rgb
    from transformers.image_utils import load_image
except ImportError:
    def load_image(image):
        return ImageOps.exif_transpose(image).convert("RGB")

    def convert_to_rgb(image):
        if image.info.get("transparency") is None:  # convert("RGB") keeps a single transparent colour
            return image
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")

MOST_FRAMES = 8


class Probe:
    def __init__(self, path):
        self.process = subprocess.Popen([path, str(MOST_FRAMES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def decode(self, data):
        """[(width, height, pixels)] of the frames, or the message of an error."""
        self.process.stdin.write(struct.pack("<I", len(data)) + data)
        self.process.stdin.flush()
        out = self.process.stdout
        n, frames = struct.unpack("<I", out.read(4))[0], []
        if n == 0:
            return out.read(struct.unpack("<I", out.read(4))[0]).decode()
        for _ in range(n):
            width, height = struct.unpack("<II", out.read(8))
            frames.append((width, height, out.read(width * height * 3)))
        return frames


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
    rows = b"".join(b"\0" + rng.randbytes(width * 6) for _ in range(height))
    return transparent.png_file(width, height, 16, transparent.RGB, [], rows)


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
    image, frames = Image.open(io.BytesIO(data)), []
    for i in range(getattr(image, "n_frames", 1)):
        image.seek(i)
        shown = convert_to_rgb(load_image(image))
        frames.append((shown.width, shown.height, shown.tobytes()))
    return frames


def difference(got, want):
    if isinstance(got, str) or [f[:2] for f in got] != [f[:2] for f in want]:
        return f"{got if isinstance(got, str) else [f[:2] for f in got]}, the reference has {[f[:2] for f in want]}"
    far = [[abs(a - b) for a, b in zip(g[2], w[2])] for g, w in zip(got, want)]
    return ", ".join(f"frame {i}: {sum(d > 0 for d in f)} samples differ, by {max(f)} at most"
                     for i, f in enumerate(far) if any(f))


def main():
    warnings.simplefilter("ignore")  # Pillow's, about transparency
    probe, rng = Probe(sys.argv[1]), random.Random(7)
    files = list(cases(rng, 360))
    if len(sys.argv) > 2:
        files += [(p.name, p.read_bytes()) for p in sorted(pathlib.Path(sys.argv[2]).iterdir())]
    files += [*transparent.pngs(rng), *transparent.gifs(rng, 300), *transparent.webps(rng, 10)]
    differing = 0
    for name, data in files:
        got, want = probe.decode(data), wanted(data)
        if got != want:
            differing += 1
            print(f"{name}: {difference(got, want)}")
    print(f"{len(files)} files against Pillow {PIL.__version__}, {differing} differ")
    sys.exit(differing != 0)


main()
