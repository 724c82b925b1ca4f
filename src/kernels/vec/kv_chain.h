/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_chain.h - chains over quantised keys and values, over a vec_*.h.
 *
 *   scores   out[g][j] = sum over i ascending of x[g][i] * k[i][j]
 *   values   out[g][d] (+)= sum over j ascending of x[g][j] * v[j][d]
 *
 * An element is a code times the scale of its group. The product is exact, so it does not matter
 * whether a page is widened first or, as here, each vector at its load. Tiles as in chain.h; the
 * chains of the scores stay in registers over all dimensions, and the codes of the keys are read in
 * the order of memory.
 */
#ifndef MOTE_KERNELS_VEC_KV_CHAIN_H
#define MOTE_KERNELS_VEC_KV_CHAIN_H

#include "kernels/vec/chain.h"

/* acc[g][v] += column * x[g][i] for each row g. */
CHAIN_INLINE void kv_add_column(vf acc[TILE_ROWS][TILE_VECTORS], int v, vf column,
                                const float *const *x, size_t i, const int rows)
{
    CHAIN_UNROLL
    for (int g = 0; g < rows; g++)
        acc[g][v] = vf_fma(column, vf_set(x[g][i]), acc[g][v]);
}

/* Format of the codes. Always a compile-time constant. */
typedef enum kv_codes { KV_CODES_Q8_0, KV_CODES_Q4_0 } kv_codes;

/* Codes and scales of the keys, and the memory to prefetch while scores are computed: the
 * values. */
typedef struct kv_key_args {
    const void *code;  /* of kern_q8_keys or kern_q4_keys */
    const uint16_t *d; /* [KERN_KV_GROUPS][64] */
    const char *next;
} kv_key_args;

enum { KV_TILE = TILE_VECTORS * VF_WIDTH }; /* columns of a tile */

/* Bytes to prefetch with each pair of dimensions of the keys, and with each position of the
 * values: codes and scales of 64 positions in 256 dimensions, divided by the steps. */
CHAIN_INLINE int kv_prefetch_bytes(const kv_codes codes, const int steps)
{
    const int bytes =
        codes == KV_CODES_Q4_0 ? (int)sizeof(kern_q4_keys) : (int)sizeof(kern_q8_keys);
    return bytes * KV_TILE / KERN_PAGE / steps;
}

/* Codes of dimensions i and i + 1, i even, of positions j .. */
CHAIN_INLINE void kv_key_codes(const kv_key_args *a, size_t i, size_t j, vf pair[2],
                               const kv_codes codes)
{
    if (codes == KV_CODES_Q4_0) {
        const uint8_t *at = (const uint8_t *)a->code + i / 2 * KERN_PAGE + j;
        pair[0] = vf_load_i4_low(at);
        pair[1] = vf_load_i4_high(at);
        return;
    }
    const int8_t *at = (const int8_t *)a->code + i * KERN_PAGE + j;
    pair[0] = vf_load_i8(at);
    pair[1] = vf_load_i8(at + KERN_PAGE);
}

/* Columns j .. of the scores of `rows` queries. */
CHAIN_INLINE void kv_key_tile(const kv_key_args *a, const float *const *x, float *const *out,
                              size_t j, const int rows, const kv_codes codes)
{
    vf acc[TILE_ROWS][TILE_VECTORS];
    CHAIN_UNROLL
    for (int g = 0; g < rows; g++)
        CHAIN_UNROLL
    for (int v = 0; v < TILE_VECTORS; v++)
        acc[g][v] = vf_zero();
    for (size_t group = 0; group < KERN_KV_GROUPS; group++) {
        vf d[TILE_VECTORS];
        CHAIN_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            d[v] = vf_load_f16(a->d + group * KERN_PAGE + j + v * VF_WIDTH);
        for (size_t i = group * KERN_KV_GROUP; i < (group + 1) * KERN_KV_GROUP; i += 2) {
            chain_prefetch(a->next, j / KV_TILE * (KERN_HEAD_DIM / 2) + i / 2,
                           kv_prefetch_bytes(codes, KERN_HEAD_DIM / 2));
            CHAIN_UNROLL
            for (int v = 0; v < TILE_VECTORS; v++) {
                vf pair[2];
                kv_key_codes(a, i, j + v * VF_WIDTH, pair, codes);
                kv_add_column(acc, v, vf_mul(pair[0], d[v]), x, i, rows);
                kv_add_column(acc, v, vf_mul(pair[1], d[v]), x, i + 1, rows);
            }
        }
    }
    CHAIN_UNROLL
    for (int g = 0; g < rows; g++)
        CHAIN_UNROLL
    for (int v = 0; v < TILE_VECTORS; v++)
        vf_store(out[g] + j + v * VF_WIDTH, acc[g][v]);
}

/* Positions first .. end-1 of the values. `d` is the scales as f32, [64][KERN_KV_GROUPS]. */
typedef struct kv_value_args {
    const void *code; /* of kern_q8_values or kern_q4_values */
    const float *d;
    size_t first, end;
    size_t dim;       /* out[g][0] is dimension `dim` */
    bool resume;      /* as in chain_args */
    const char *next; /* memory to prefetch: the keys of the next page */
} kv_value_args;

/* Codes of dimensions dim .. of position j. In Q4_0 dim is a multiple of 16, plus a multiple of
 * VF_WIDTH below 16; `high` selects the nibble. */
CHAIN_INLINE vf kv_value_codes(const kv_value_args *a, size_t j, size_t dim, const bool high,
                               const kv_codes codes)
{
    if (codes == KV_CODES_Q8_0)
        return vf_load_i8((const int8_t *)a->code + j * KERN_HEAD_DIM + dim);
    const size_t byte = dim / KERN_KV_GROUP * (KERN_KV_GROUP / 2) + dim % (KERN_KV_GROUP / 2);
    const uint8_t *at = (const uint8_t *)a->code + j * (KERN_HEAD_DIM / 2) + byte;
    return high ? vf_load_i4_high(at) : vf_load_i4_low(at);
}

/* Columns c .. of the outputs of `rows` queries; x[g][j] is the weight of position j. `odd`: the
 * columns begin in the second half of a group. */
CHAIN_INLINE void kv_value_tile(const kv_value_args *a, const float *const *x, float *const *out,
                                size_t c, const int rows, const kv_codes codes, const bool odd)
{
    vf acc[TILE_ROWS][TILE_VECTORS];
    const size_t dim = a->dim + c;
    CHAIN_UNROLL
    for (int g = 0; g < rows; g++)
        CHAIN_UNROLL
    for (int v = 0; v < TILE_VECTORS; v++)
        acc[g][v] = a->resume ? vf_load(out[g] + c + v * VF_WIDTH) : vf_zero();
    for (size_t j = a->first; j < a->end; j++) {
        const float *d = a->d + j * KERN_KV_GROUPS + dim / KERN_KV_GROUP;
        chain_prefetch(a->next, dim / KV_TILE * KERN_PAGE + j,
                       kv_prefetch_bytes(codes, KERN_HEAD_DIM));
        CHAIN_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++) {
            const size_t at = (size_t)v * VF_WIDTH;
            const bool high = (at / (KERN_KV_GROUP / 2)) % 2 != (odd ? 1 : 0);
            const vf code = kv_value_codes(a, j, dim + at, high, codes);
            kv_add_column(acc, v, vf_mul(code, vf_set(d[at / KERN_KV_GROUP])), x, j, rows);
        }
    }
    CHAIN_UNROLL
    for (int g = 0; g < rows; g++)
        CHAIN_UNROLL
    for (int v = 0; v < TILE_VECTORS; v++)
        vf_store(out[g] + c + v * VF_WIDTH, acc[g][v]);
}

/* Calls `tile` with a constant number of rows, 1 to TILE_ROWS. */
#define KV_TILE_ROWS(rows, tile, a, x, out, c, ...)                                                \
    switch (rows) {                                                                                \
    case 1: tile(a, x, out, c, 1, __VA_ARGS__); break;                                             \
    case 2: tile(a, x, out, c, 2, __VA_ARGS__); break;                                             \
    case 3: tile(a, x, out, c, 3, __VA_ARGS__); break;                                             \
    case 4: tile(a, x, out, c, 4, __VA_ARGS__); break;                                             \
    case 5: tile(a, x, out, c, 5, __VA_ARGS__); break;                                             \
    default: tile(a, x, out, c, TILE_ROWS, __VA_ARGS__); break;                                    \
    }

/* Scores of 1 to TILE_ROWS queries with all 64 positions. */
CHAIN_INLINE void kv_key_rows(const kv_key_args *a, const float *const *x, float *const *out,
                              size_t rows, const kv_codes codes)
{
    for (size_t j = 0; j < KERN_PAGE; j += KV_TILE)
        KV_TILE_ROWS(rows, kv_key_tile, a, x, out, j, codes)
}

/* `width` columns of 1 to TILE_ROWS queries; width is a multiple of 64. Tiles of 16 columns are in
 * the first and the second half of a group in turn. */
CHAIN_INLINE void kv_value_rows(const kv_value_args *a, const float *const *x, float *const *out,
                                size_t width, size_t rows, const kv_codes codes)
{
    const size_t tile = KV_TILE;
    for (size_t c = 0; c < width; c += 2 * tile) {
        KV_TILE_ROWS(rows, kv_value_tile, a, x, out, c, codes, false)
        if (tile < width)
            KV_TILE_ROWS(rows, kv_value_tile, a, x, out, c + tile, codes, tile == 16)
    }
}

#endif
