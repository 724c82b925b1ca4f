#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the table of tests/golden/quant_blocks.c: the SHA-256 of 1,000 decoded blocks per format.

    quant_blocks.py LIBGGML_BASE

The blocks are random and extreme; tests/golden/quant_blocks.c makes the same ones. gguf-py decodes them. Version 0.19 has
no decoder of Q1_0 and Q2_0, so those of llama.cpp's libggml-base.so are used.
"""
import ctypes
import hashlib
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T, quants

N = 1000
MASK = (1 << 64) - 1
SPECIAL = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00, 0xBC00]
# name, id, values, bytes, offsets of f16 fields
FORMATS = [("IQ1_S", 19, 256, 50, [0]), ("IQ1_M", 29, 256, 56, []), ("IQ2_XXS", 16, 256, 66, [0]),
           ("IQ2_XS", 17, 256, 74, [0]), ("IQ2_S", 22, 256, 82, [0]), ("IQ3_XXS", 18, 256, 98, [0]),
           ("IQ3_S", 21, 256, 110, [0]), ("TQ1_0", 34, 256, 54, [52]), ("TQ2_0", 35, 256, 66, [64]),
           ("MXFP4", 39, 32, 17, []), ("NVFP4", 40, 64, 36, []), ("Q1_0", 41, 128, 18, [0]), ("Q2_0", 42, 64, 18, [0])]


def words(seed):
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        z = ((seed ^ seed >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        yield z ^ z >> 31


def make_block(fmt, i):
    name, ident, _, size, fields = fmt
    stream = words(ident << 32 | i)
    raw = bytearray(b"".join(next(stream).to_bytes(8, "little") for _ in range(size // 8 + 1))[:size])
    if i % 8 < 2:
        raw = bytearray([0, 255][i % 8:i % 8 + 1] * size)
    half = next(stream) & 0xFFFF
    if half & 0x7C00 == 0x7C00:  # finite
        half &= 0x83FF
    if i % 3 == 0:
        half = SPECIAL[i // 3 % 10]
    for at in fields:
        raw[at:at + 2] = half.to_bytes(2, "little")
    if name == "IQ1_M":  # four bits of d in the top of each word of scales
        for k in range(4):
            raw[49 + 2 * k] = raw[49 + 2 * k] & 15 | (half >> 4 * k & 15) << 4
    if name == "MXFP4":
        raw[0] = i & 255
    if name == "NVFP4":
        raw[i % 4] = i // 4 & 255
    return raw


def main():
    lib = ctypes.CDLL(sys.argv[1])
    for fmt in FORMATS:
        name, ident, values, size, _ = fmt
        raw = np.frombuffer(b"".join(make_block(fmt, i) for i in range(N)), np.uint8).reshape(N, size)
        if name not in ("Q1_0", "Q2_0"):
            assert GGML_QUANT_SIZES[T(ident)] == (values, size)
            with np.errstate(over="ignore"):
                out = quants.dequantize(raw, T(ident)).astype(np.float32)
        else:
            out = np.empty((N, values), np.float32)
            getattr(lib, f"dequantize_row_{name.lower()}")(raw.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
                                                           ctypes.c_int64(N * values))
        assert out.size == N * values and not np.isnan(out).any()
        print(f'    {{QUANT_{name}, "{hashlib.sha256(np.ascontiguousarray(out).tobytes()).hexdigest()}"}},')


main()
