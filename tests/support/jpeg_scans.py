# SPDX-License-Identifier: Apache-2.0
"""jpeg_scans.py - JPEG files with any number of scans. A scan of some bytes can cover the whole image."""
import struct


def jpeg_segment(code, data):
    return bytes([0xff, code]) + struct.pack(">H", len(data) + 2) + data


def huffman(kind, number, symbols):
    """A table with codes of 1 bit for the first symbol, 2 bits for the second."""
    return jpeg_segment(0xc4, bytes([kind << 4 | number, *[1] * len(symbols), *[0] * (16 - len(symbols))]) + bytes(symbols))


def jpeg(width, height, scans, kind="progressive"):
    """A JPEG of one colour. In a progressive one, the scans after the first refine all coefficients of all blocks, but
    hold only one code for every 32,767 blocks; with arithmetic coding, they hold nothing."""
    blocks = -(-width // 8) * -(-height // 8)
    components = 3 if kind == "baseline" else 1  # with one, a baseline JPEG has one scan
    head = (b"\xff\xd8" + jpeg_segment(0xdb, b"\0" + b"\x10" * 64) +
            jpeg_segment({"baseline": 0xc0, "progressive": 0xc2, "arithmetic": 0xca}[kind],
                         struct.pack(">BHHB", 8, height, width, components) +
                         b"".join(bytes([i + 1, 0x11, 0]) for i in range(components))) +
            huffman(0, 0, [0, 1]) + huffman(1, 0, [0 if kind == "baseline" else 0xe0, 1]))
    first, later = jpeg_segment(0xda, b"\x01\x01\0\0\0\0"), jpeg_segment(0xda, b"\x01\x01\0\x01\x3f\x10")
    if kind == "baseline":
        first = later = jpeg_segment(0xda, b"\x01\x01\0\0\x3f\0") + bytes(-(-blocks // 4))
    elif kind == "progressive":
        codes = "".join("0" + "1" * 14 for _ in range(-(-blocks // 32767)))
        codes += "1" * (-len(codes) % 8)
        first += bytes(-(-blocks // 8))
        later += int(codes, 2).to_bytes(len(codes) // 8, "big").replace(b"\xff", b"\xff\0")
    return head + first + later * (scans - 1) + b"\xff\xd9"
