#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""golden/quant: blocks of every GGUF type that gguf-py decodes, with their float32 values.

Random blocks: all bytes are random, except the f16 scales, which are finite and of normal size.
Float rows: 8 rows of 256 floats (normal, uniform, outliers, zeros, constant, tiny, huge, ramp) quantised by gguf-py where supported.
"""
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T, quants

from common import GOLDEN, save, write_json

# byte offsets of the f16 fields in a block
SCALES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108],
          T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0], T.F16: None, T.BF16: None,
          T.TQ1_0: [52], T.TQ2_0: [64], T.IQ3_S: [0], T.IQ3_XXS: [0], T.IQ2_XXS: [0], T.IQ2_XS: [0], T.IQ2_S: [0],
          T.IQ1_S: [0], T.MXFP4: None}
N = 64


def main():
    rng = np.random.default_rng(20)
    out = GOLDEN / "quant"
    index = {"blocks": [], "rows": []}
    for t, fields in SCALES.items():
        values, nbytes = GGML_QUANT_SIZES[t]
        n = N if values > 1 else 4096
        raw = rng.integers(0, 256, (n, nbytes), dtype=np.uint8)
        if t == T.F16:
            raw = (rng.standard_normal(n) * 10.0 ** rng.integers(-6, 4, n)).astype(np.float16).view(np.uint8).reshape(n, 2)
        elif t == T.BF16:
            f = (rng.standard_normal(n) * 10.0 ** rng.integers(-20, 20, n)).astype(np.float32)
            raw = f.view(np.uint8).reshape(n, 4)[:, 2:].copy()
        elif t == T.MXFP4:
            raw[:, 0] = rng.integers(110, 140, n)
        else:
            for off in fields:
                s = (rng.standard_normal(n) * 10.0 ** rng.integers(-4, 1, n)).astype(np.float16)
                raw[:, off:off + 2] = s.view(np.uint8).reshape(n, 2)
        deq = quants.dequantize(raw, t).astype(np.float32).reshape(n, -1)
        assert np.isfinite(deq).all(), t
        index["blocks"].append({"type": t.name, "ggml_id": int(t), "values_per_block": values, "bytes_per_block": nbytes, "count": n,
                                "raw": save(out, f"{t.name}.raw", raw), "values": save(out, f"{t.name}.values", deq)})
    k = np.arange(256, dtype=np.float32)
    rows = np.stack([rng.standard_normal(256), rng.uniform(-1, 1, 256), rng.standard_normal(256) * np.where(k % 37 == 0, 20, 1),
                     np.zeros(256), np.full(256, 0.75), rng.standard_normal(256) * 1e-6, rng.standard_normal(256) * 1e4,
                     (k - 128) / 128]).astype(np.float32)
    index["rows_input"] = save(out, "rows", rows)
    for t in (T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.BF16, T.TQ1_0, T.TQ2_0, T.MXFP4, T.IQ4_NL, T.IQ4_XS, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.F16):
        try:
            q = quants.quantize(rows, t)
        except NotImplementedError:
            continue
        q8 = np.ascontiguousarray(q).view(np.uint8).reshape(len(rows), -1)
        deq = quants.dequantize(q, t).astype(np.float32)
        index["rows"].append({"type": t.name, "raw": save(out, f"rows.{t.name}.raw", q8), "values": save(out, f"rows.{t.name}.values", deq)})
    write_json(out / "index.json", index)
    (out / "README.md").write_text(f"""# golden/quant

Block formats of GGUF, decoded by gguf-py 0.19. Made by `tools/goldens/quant.py` (seed 20).

- `TYPE.raw.npy` (uint8, [blocks, bytes]) and `TYPE.values.npy` (float32, [blocks, values]): random valid blocks and their values.
  Types: {', '.join(b['type'] for b in index['blocks'])}.
- `rows.npy` (float32 [8, 256]): normal, uniform, outliers, zeros, constant, tiny, huge, ramp.
  `rows.TYPE.raw.npy` / `rows.TYPE.values.npy`: gguf-py's own quantisation of them and what it decodes to.
  Only types gguf-py can write: {', '.join(r['type'] for r in index['rows'])}. K-quants have no writer there.
- `index.json`: GGUF type id, block sizes and shapes.

Tolerance: decoding is exact up to the order of one or two float32 operations: expect bit equality or 1 ulp (2e-7 relative).
Quantising: the bytes should match exactly for Q8_0, Q4_0, Q5_0, BF16; a different rounding of ties may move single codes by one.
""")


if __name__ == "__main__":
    main()
