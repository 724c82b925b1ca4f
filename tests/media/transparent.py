# SPDX-License-Identifier: Apache-2.0
"""transparent.py - PNG, GIF and WebP files of every colour type with transparency, as (name, bytes).

PNG and GIF are written here byte by byte, because Pillow writes only some of the types.
"""
import io
import struct
import zlib

import PIL
from PIL import Image

# Pillow before 13 shows indexes after the end of a palette as grays, mote and later versions as black.
SHORT_PALETTES = int(PIL.__version__.split(".")[0]) >= 13

GRAY, RGB, PALETTE, GRAY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6
CHANNELS = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGB_ALPHA: 4}
DEPTHS = {GRAY: (1, 2, 4, 8, 16), RGB: (8, 16), PALETTE: (1, 2, 4, 8), GRAY_ALPHA: (8, 16), RGB_ALPHA: (8, 16)}
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_file(width, height, depth, kind, chunks, rows, interlaced=False):
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + b"".join(png_chunk(*c) for c in chunks) +
            png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b""))


def png_rows(rng, width, height, bits):
    """Few different bytes, so that colours repeat."""
    some = rng.randbytes(4) + b"\0\xff"
    return b"".join(b"\0" + bytes(rng.choice(some) for _ in range((width * bits + 7) // 8)) for _ in range(height))


def transparency(rng, kind, depth, which, colours):
    """The bytes of tRNS; which is 0 to 5. 0: none."""
    if which == 0:
        return None
    if kind == PALETTE:
        opaque = b"\xff" * (colours - 1)
        return [rng.randbytes(colours), b"\0" + opaque, opaque + b"\0", rng.randbytes(max(1, colours // 2)),
                b"\0" * colours][which - 1]
    samples = CHANNELS[kind] & ~1 | 1  # of a colour, without alpha
    most = 2 ** depth - 1
    return struct.pack(f">{samples}H", *[[0] * samples, [most] * samples, [rng.randint(0, most)] * samples,
                                         [rng.randint(0, 255) for _ in range(samples)], [65535] * samples][which - 1])


def pngs(rng):
    for kind in DEPTHS:
        for depth in DEPTHS[kind]:
            for i in range(12):
                which, interlaced = i % 6, i >= 6
                width, height = rng.randint(1, 40), rng.randint(1, 30)
                bits = CHANNELS[kind] * depth
                passes = [(-(-(width - x) // dx), -(-(height - y) // dy)) for x, y, dx, dy in ADAM7
                          if width > x and height > y] if interlaced else [(width, height)]
                rows = b"".join(png_rows(rng, w, h, bits) for w, h in passes)
                colours = 2 ** depth - (SHORT_PALETTES and which == 3 and depth < 8) if kind == PALETTE else 0
                trns = transparency(rng, kind, depth, which, colours)
                if kind == RGB and which == 4:  # the colour of the first pixel, or what Pillow takes for it
                    trns = struct.pack(">3H", *rows[1:4] if depth == 8 else rows[1:7:2])
                chunks = [(b"PLTE", rng.randbytes(3 * colours))] if kind == PALETTE else []
                chunks += [(b"tRNS", trns)] if trns else []
                yield (f"png type {kind} with {depth} bits, tRNS {which}, interlaced {interlaced}",
                       png_file(width, height, depth, kind, chunks, rows, interlaced))


def lzw(pixels, bits):
    """Codes of one width: the table is cleared before it grows."""
    clear, out, held, n = 1 << bits, bytearray(), 0, 0
    codes = []
    for i, pixel in enumerate(pixels):
        codes += [clear, pixel] if i % (clear - 2) == 0 else [pixel]
    for code in [*codes, clear + 1]:
        held |= code << n
        n += bits + 1
        while n >= 8:
            out.append(held & 255)
            held >>= 8
            n -= 8
    out.append(held)
    return bytes([bits]) + b"".join(bytes([len(out[i:i + 255])]) + out[i:i + 255] for i in range(0, len(out), 255)) + b"\0"


def gif_frame(pixels, box, bits, palette=None, transparent=None, disposal=0, interlaced=False):
    control = struct.pack("<BHB", disposal << 2 | (transparent is not None), 5, transparent or 0)
    return ((b"\x21\xf9\x04" + control + b"\0" if disposal or transparent is not None else b"") + b"," +
            struct.pack("<HHHHB", *box, (0x80 | bits - 1 if palette else 0) | 0x40 * interlaced) + (palette or b"") +
            lzw(pixels, max(2, bits)))


def gif_file(size, bits, palette, background, frames):
    return (b"GIF89a" + struct.pack("<HHBBB", *size, 0x80 | bits - 1 if palette else 0, background, 0) + (palette or b"") +
            b"".join(frames) + b";")


def random_box(rng, width, height):
    w, h = rng.randint(1, width), rng.randint(1, height)
    return rng.randint(0, width - w), rng.randint(0, height - h), w, h


def gifs(rng, n):
    for i in range(n):
        bits, size = rng.choice([1, 2, 4, 8]), (rng.randint(1, 20), rng.randint(1, 15))
        ramp = b"".join(bytes([c] * 3) for c in range(1 << bits)) if i % 10 == 9 else None

        def palette(ramp=ramp, bits=bits):
            return ramp or rng.randbytes(3 << bits)
        shared = palette() if rng.random() < 0.8 else None
        screen, frames = size, []
        for f in range(rng.choice([1, 1, 2, 4])):
            box = random_box(rng, *size) if rng.random() < 0.6 else (0, 0, *size)
            if f == 0 and i % 17 == 0:
                box = (box[0] + 3, box[1] + 2, *box[2:])  # exceeds the screen: the canvas grows
                size = max(size[0], box[0] + box[2]), max(size[1], box[1] + box[3])
            pixels = [rng.randrange(1 << bits) for _ in range(box[2] * box[3])]
            own = palette() if not shared or rng.random() < 0.3 else None
            frames.append(gif_frame(pixels, box, bits, own, rng.choice([None, rng.randrange(1 << bits)]),
                                    rng.randrange(4), rng.random() < 0.3))
        yield (f"gif {i} with {bits} bits, {len(frames)} frames",
               gif_file(screen, bits, shared, rng.randrange(1 << bits), frames))


def webps(rng, n):
    for i in range(n):
        size = rng.randint(1, 50), rng.randint(1, 40)
        images = [Image.frombytes("RGBA", (4, 4), rng.randbytes(64)).resize(size) for _ in range(3)]
        for image in images:
            image.putalpha(Image.frombytes("L", size, bytes(rng.choice([0, 255, rng.randrange(256)])
                                                            for _ in range(size[0] * size[1]))))
        for name, options in (("lossy", {"quality": 80}), ("lossless", {"lossless": True}),
                              ("exact", {"lossless": True, "exact": True}),
                              ("animated", {"save_all": True, "append_images": images[1:], "lossless": bool(i % 2)})):
            out = io.BytesIO()
            images[0].save(out, "WEBP", **options)
            yield f"webp {name} with alpha {i}", out.getvalue()
