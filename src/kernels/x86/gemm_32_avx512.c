/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_32_avx512.c - GEMM with formats of 32-value blocks, AVX-512 VNNI.
 *
 * Every block ends with a step of the float chains, so a tile has two sets of registers: twelve
 * integer sums and twelve accumulators. The unpacked codes are unsigned, q + offset:
 *
 *     format   codes    offset
 *     Q4_0     0 .. 15     8
 *     Q4_1     0 .. 15     -
 *     Q5_0     0 .. 31    16
 *     Q5_1     0 .. 31     -
 *     Q8_0     0 .. 255  128
 *     IQ4_NL   1 .. 241  128
 *
 * |sum| <= 32 * 255 * 127 + 128 * 4064 < 2^21 at every step.
 *
 * One token takes another way: gemm_rows_32_avx512.h.
 */
#include "kernels/x86/gemm_rows_32_avx512.h"

enum {
    L2_BUDGET = 640 << 10, /* activations that stay in L2 while all panels use them */
    MIN_CHUNK = 64         /* minimum tokens per chunk, so that unpacking pays off */
};

typedef struct format_32 {
    int block_bytes;
    int offset;
    bool has_m;
} format_32;

static const format_32 format_q4_0 = {sizeof(quant_q4_0), 8, false};
static const format_32 format_q4_1 = {sizeof(quant_q4_1), 0, true};
static const format_32 format_q5_0 = {sizeof(quant_q5_0), 16, false};
static const format_32 format_q5_1 = {sizeof(quant_q5_1), 0, true};
static const format_32 format_q8_0 = {sizeof(quant_q8_0), 128, false};
static const format_32 format_iq4_nl = {sizeof(quant_iq4_nl), 128, false};

/* The slabs of a panel. */
typedef struct slab_32 {
    block_32 block[SLAB_BLOCKS][GROUPS];
} slab_32;

/* Activations of consecutive tokens from one block on. Strides are between tokens. */
typedef struct tile_x {
    const int8_t *q;
    /* Per block, the start value of its sum. Both pointers are equal, but the compiler must not
     * know that: it would replace the second load by a register copy, and a load port is idle. */
    const int32_t *start[GROUPS];
    const float *sum; /* per block, the sum of the codes; multiplied by m */
    const float *d;
    size_t q_stride, block_stride;
    size_t n; /* tokens */
} tile_x;

/* Accumulators of a panel. */
typedef struct tile_y {
    float *chains; /* [tokens][PANEL] */
    bool first;
    prefetch_ahead *prefetch;
    output_rows out;
} tile_y;

/* ---- GEMM ---- */

/* sum[g][t] = sum of q x over block b. */
ALWAYS_INLINE void sum_block(const format_32 *f, const block_32 w[GROUPS], const tile_x *x, int nt,
                             size_t b, __m512i sum[GROUPS][TILE])
{
    EACH(t, nt)
    {
        EACH(g, GROUPS)
        {
            sum[g][t] = f->offset == 0 ? _mm512_setzero_si512()
                                       : set1_at(x->start[g] + t * x->block_stride + b);
        }
    }
    EACH(k, BLOCK_VECTORS)
    {
        EACH(t, nt)
        {
            const __m512i codes = set1_at(x->q + t * x->q_stride + b * QUANT_BLOCK + 4 * k);
            sum[0][t] = _mm512_dpbusd_epi32(sum[0][t], w[0].q[k], codes);
            sum[1][t] = _mm512_dpbusd_epi32(sum[1][t], w[1].q[k], codes);
        }
    }
}

/* One chain step of 16 outputs. */
ALWAYS_INLINE __m512 chain_step(const format_32 *f, const block_32 *w, __m512 dx, __m512i sum,
                                const float *xsum, __m512 acc)
{
    acc = _mm512_fmadd_ps(_mm512_mul_ps(w->d, dx), _mm512_cvtepi32_ps(sum), acc);
    if (f->has_m)
        acc = _mm512_fmadd_ps(_mm512_mul_ps(w->m, dx), _mm512_set1_ps(*xsum), acc);
    return acc;
}

/* The slabs of a panel, nt tokens. f and nt are compile-time constants after inlining. */
ALWAYS_INLINE void gemm_tile(const format_32 *f, const slab_32 *w, size_t n_blocks, const tile_x *x,
                             int nt, bool prefetch, const tile_y *out)
{
    __m512 acc[GROUPS][TILE];
    __m512i sum[GROUPS][TILE];
    EACH(t, nt)
    {
        EACH(g, GROUPS)
        {
            acc[g][t] = out->first ? _mm512_setzero_ps()
                                   : _mm512_load_ps(out->chains + t * PANEL + g * LANES);
        }
    }
    for (size_t b = 0; b < n_blocks; b++) {
        const block_32 *block = w->block[b];
        sum_block(f, block, x, nt, b, sum);
        if (prefetch)
            prefetch_next_lines(out->prefetch);
        EACH(t, nt)
        {
            const __m512 dx = _mm512_set1_ps(x->d[t * x->block_stride + b]);
            EACH(g, GROUPS)
            {
                acc[g][t] = chain_step(f, &block[g], dx, sum[g][t],
                                       x->sum + t * x->block_stride + b, acc[g][t]);
            }
        }
    }
    EACH(t, nt)
    {
        EACH(g, GROUPS)
        {
            _mm512_store_ps(out->chains + t * PANEL + g * LANES, acc[g][t]);
        }
    }
}

/* The slabs of a panel, all tokens of x. */
ALWAYS_INLINE void gemm_tiles(const format_32 *f, const slab_32 *w, size_t n_blocks, tile_x x,
                              tile_y y)
{
    for (size_t n; x.n > 0; x.n -= n) {
        n = x.n >= MANY ? TILE : next_tile(x.n);
        switch (x.n >= MANY ? MANY : n) {
        case 1: gemm_tile(f, w, n_blocks, &x, 1, true, &y); break;
        case 2: gemm_tile(f, w, n_blocks, &x, 2, true, &y); break;
        case 3: gemm_tile(f, w, n_blocks, &x, 3, true, &y); break;
        case 4: gemm_tile(f, w, n_blocks, &x, 4, true, &y); break;
        case 5: gemm_tile(f, w, n_blocks, &x, 5, true, &y); break;
        case TILE: gemm_tile(f, w, n_blocks, &x, TILE, true, &y); break;
        default: gemm_tile(f, w, n_blocks, &x, TILE, false, &y); break;
        }
        x.q += n * x.q_stride;
        x.start[0] += n * x.block_stride;
        x.start[1] += n * x.block_stride;
        x.sum += n * x.block_stride;
        x.d += n * x.block_stride;
        y.chains += n * PANEL;
        prefetch_outputs(&y.out, n);
    }
}

/* ---- panels ---- */

/* The functions of a format, specialised by inlining. */
typedef struct kernel_32 {
    const format_32 *f;
    unpack_32_fn *unpack;
    void (*gemm_tiles)(const slab_32 *w, size_t n_blocks, const tile_x *x, const tile_y *y);
} kernel_32;

typedef struct workspace {
    slab_32 slab;
    uint8_t stage[LANES * 64];           /* one block of each of the last rows */
    _Alignas(64) unsigned char buffer[]; /* accumulators, prepared activations */
} workspace;

/* Tokens t0 .. t0+n-1. prepared: per token and block a start value (int32) or a sum (float). */
typedef struct chunk {
    size_t t0, n;
    float *chains; /* [n][PANEL] */
    const void *prepared;
} chunk;

/* Tokens per chunk: as many as stay in the L2 cache while all panels use them, and fit in
 * scratch. */
static size_t chunk_tokens(size_t cols)
{
    const size_t prepared_bytes = cols / QUANT_BLOCK * sizeof(int32_t);
    const size_t chain_bytes = PANEL * sizeof(float);
    const size_t fits = (KERN_SCRATCH_BYTES - sizeof(workspace)) / (prepared_bytes + chain_bytes);
    const size_t cached = L2_BUDGET / (cols + 2 * prepared_bytes + chain_bytes);
    const size_t wanted = cached > MIN_CHUNK ? cached : MIN_CHUNK;
    return wanted < fits ? wanted : fits;
}

/* Sums of activations for the tiles: times -offset, or converted to float (formats with m). */
static void chunk_prepare(const format_32 *f, const int16_t *sum, size_t n, void *buffer)
{
    int32_t *start = buffer;
    float *floats = buffer;
    for (size_t i = 0; i < n; i++) {
        if (f->has_m)
            floats[i] = (float)sum[i];
        else
            start[i] = -f->offset * sum[i];
    }
}

/* The activations of the chunk from block b on. */
static tile_x activations_at(const kern_act *x, const chunk *c, size_t b)
{
    const size_t blocks = x->cols / QUANT_BLOCK;
    const size_t from = c->t0 * blocks + b;
    const int32_t *start = (const int32_t *)c->prepared + b;
    return (tile_x){.q = x->q + from * QUANT_BLOCK,
                    .start = {start, start},
                    .sum = (const float *)c->prepared + b,
                    .d = x->d + from,
                    .q_stride = x->cols,
                    .block_stride = blocks,
                    .n = c->n};
}

/* Unpacks n_blocks blocks of all groups of a panel. `rows` rows of the matrix remain. */
static void unpack_slab(const kernel_32 *k, const uint8_t *w, size_t stride, size_t rows,
                        size_t n_blocks, workspace *ws, prefetch_ahead *prefetch)
{
    const size_t bytes = (size_t)k->f->block_bytes;
    for (size_t g = 0; g < GROUPS; g++) {
        const uint8_t *block = w + g * LANES * stride;
        const size_t left = rows > g * LANES ? rows - g * LANES : 0;
        for (size_t b = 0; b < n_blocks; b++, block += bytes) {
            prefetch_next_lines(prefetch);
            if (left >= LANES)
                k->unpack(block, stride, &ws->slab.block[b][g]);
            else
                k->unpack(stage_rows(block, stride, left, bytes, ws->stage), bytes,
                          &ws->slab.block[b][g]);
        }
    }
}

/* Rows r0 .. r0+31 (fewer at the end), all tokens of a chunk. */
static void gemm_panel_32_avx512(const kern_gemm_args *a, const kernel_32 *k, const chunk *c,
                                 size_t r0)
{
    workspace *ws = a->scratch;
    const size_t rows = a->rows - r0, bytes = (size_t)k->f->block_bytes;
    const size_t blocks = a->x->cols / QUANT_BLOCK;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    float *y0 = a->y + c->t0 * a->y_stride + r0;
    /* Prefetch of the next panel. Unpacking takes about as long as a tile, so both prefetch equal
     * shares. With many tokens unpacking alone has enough time to prefetch everything. */
    const bool many = c->n >= MANY;
    const size_t share = PANEL * bytes / (many ? 1 : tile_count(c->n) + 1);
    prefetch_ahead prefetch = prefetch_from(w + PANEL * a->row_bytes);
    for (size_t b = 0; b < blocks; b += SLAB_BLOCKS, w += SLAB_BLOCKS * bytes) {
        const size_t n_blocks = blocks - b < SLAB_BLOCKS ? blocks - b : SLAB_BLOCKS;
        prefetch.step = share / GROUPS;
        unpack_slab(k, w, a->row_bytes, rows, n_blocks, ws, &prefetch);
        prefetch.step = many ? 0 : share;
        const tile_x x = activations_at(a->x, c, b);
        const tile_y y = {.chains = c->chains,
                          .first = b == 0,
                          .prefetch = &prefetch,
                          .out = {b + n_blocks == blocks ? y0 : NULL, a->y_stride}};
        k->gemm_tiles(&ws->slab, n_blocks, &x, &y);
    }
    panel_store(c->chains, c->n, y0, a->y_stride, rows);
}

static void gemm_32_avx512(const kern_gemm_args *a, const kernel_32 *k)
{
    workspace *ws = a->scratch;
    const size_t blocks = a->x->cols / QUANT_BLOCK;
    const size_t at_once = chunk_tokens(a->x->cols);
    for (size_t t0 = 0; t0 < a->x->n; t0 += at_once) {
        const size_t left = a->x->n - t0;
        const size_t n = left < at_once ? left : at_once;
        float *chains = (float *)ws->buffer;
        const chunk c = {t0, n, chains, chains + n * PANEL};
        chunk_prepare(k->f, a->x->sum + t0 * blocks, n * blocks, chains + n * PANEL);
        for (size_t r0 = 0; r0 < a->rows; r0 += PANEL)
            gemm_panel_32_avx512(a, k, &c, r0);
    }
}

#define GEMM(format)                                                                               \
    static void slab_##format(const uint8_t *block, size_t stride, block_32 *out)                  \
    {                                                                                              \
        unpack_##format(block, stride, out);                                                       \
    }                                                                                              \
    static void tiles_##format(const slab_32 *w, size_t n_blocks, const tile_x *x,                 \
                               const tile_y *y)                                                    \
    {                                                                                              \
        gemm_tiles(&format_##format, w, n_blocks, *x, *y);                                         \
    }                                                                                              \
    static void gemv_##format(const kern_gemm_args *a)                                             \
    {                                                                                              \
        gemv_along_rows(&rows_##format, a);                                                        \
    }                                                                                              \
    void k_gemm_##format##_avx512(const kern_gemm_args *a)                                         \
    {                                                                                              \
        static const kernel_32 kernel = {&format_##format, slab_##format, tiles_##format};         \
        if (a->x->n == 1)                                                                          \
            gemv_##format(a);                                                                      \
        else                                                                                       \
            gemm_32_avx512(a, &kernel);                                                            \
    }

GEMM(q4_0)
GEMM(q4_1)
GEMM(q5_0)
GEMM(q5_1)
GEMM(q8_0)
GEMM(iq4_nl)
