/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_panel_arm.h - common parts of the panel kernels: many tokens.
 *
 * Include a tile_*.h first. A panel is eight rows with all their columns, unpacked to the order of
 * the tile. A chunk is as many tokens as fit in the rest of the scratch memory, packed to the order
 * of the tile once for all panels. A tile keeps its float chains in registers from the first column
 * to the last.
 */
#ifndef MOTE_KERNELS_ARM_GEMM_PANEL_ARM_H
#define MOTE_KERNELS_ARM_GEMM_PANEL_ARM_H

#include "kernels/arm/take.h"
#include "kernels/variants.h"

enum { STEP_COLS = 8, STEP_ROW_BYTES = 64, STEP_TOKEN_BYTES = 32 };

/* Tokens of a chunk, a multiple of TILE_TOKENS; 0: the panel and one tile do not fit. */
static inline size_t chunk_tokens(size_t n, size_t panel_bytes, size_t tile_bytes)
{
    if (panel_bytes + tile_bytes > KERN_SCRATCH_BYTES)
        return 0;
    const size_t fit = (KERN_SCRATCH_BYTES - panel_bytes) / tile_bytes;
    const size_t wanted = (n + TILE_TOKENS - 1) / TILE_TOKENS;
    return (fit < wanted ? fit : wanted) * TILE_TOKENS;
}

/* Columns of four tokens to the order of the tile. The last token is repeated if n < 4. */
static inline void pack_tokens(const int8_t *q, size_t cols, size_t n, size_t steps, int8_t *out)
{
    for (size_t t = 0; t < TILE_TOKENS; t++) {
        const int8_t *from = q + (t < n ? t : n - 1) * cols;
        for (size_t s = 0; s < steps; s++)
            memcpy(out + s * STEP_TOKEN_BYTES + STEP_COLS * t, from + STEP_COLS * s, STEP_COLS);
    }
}

/* y of `rows` rows from r on and n tokens from t on. */
static inline void store_tile(const kern_gemm_args *a, const float32x4_t acc[TILE_SUMS], size_t r,
                              size_t rows, size_t t, size_t n)
{
    float out[TILE_TOKENS][TILE_ROWS];
    tile_unpack(acc, out);
    for (size_t i = 0; i < n && i < TILE_TOKENS; i++) {
        float *y = a->y + (t + i) * a->y_stride + r;
        if (rows >= TILE_ROWS)
            memcpy(y, out[i], sizeof out[i]);
        else
            memcpy(y, out[i], rows * sizeof *y);
    }
}

#endif
