/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_32_avx512.c - products with 32-value blocks, by panels.
 *
 * Every block ends in a step of the float chains, so a tile keeps two sets of
 * registers: twelve integer sums and the twelve chains. Unsigned codes are those of
 * the format plus an offset:
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
 */
#include "kernels/x86/gemm_unpack_32_avx512.h"

enum {
    L2_BUDGET = 640 << 10, /* of activations that all panels of a call share */
    MIN_CHUNK = 64         /* tokens that make unpacking a slab worth it */
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

/* A slab of a panel. */
typedef struct slab_32 {
    block_32 block[SLAB_BLOCKS][GROUPS];
} slab_32;

/* Activations of a run of tokens from one block on; strides are between tokens. */
typedef struct tile_x {
    const int8_t *q;
    /* Per block, where its sum starts. The same for all groups, but the compiler must
     * not know: it would turn the second load into a copy, and loads have a port of
     * their own. */
    const int32_t *start[GROUPS];
    const float *sum; /* per block, the sum of the codes: meets m */
    const float *d;
    size_t q_stride, block_stride;
    size_t n; /* tokens */
} tile_x;

/* Where the chains of a panel rest. */
typedef struct tile_y {
    float *chains; /* [tokens][PANEL] */
    bool first;
    prefetch_ahead *ask;
    outputs out;
} tile_y;

/* ---- several tokens ---- */

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

/* One step of 16 chains. */
ALWAYS_INLINE __m512 add_to_chain(const format_32 *f, const block_32 *w, __m512 dx, __m512i sum,
                                  const float *xsum, __m512 acc)
{
    acc = _mm512_fmadd_ps(_mm512_mul_ps(w->d, dx), _mm512_cvtepi32_ps(sum), acc);
    if (f->has_m)
        acc = _mm512_fmadd_ps(_mm512_mul_ps(w->m, dx), _mm512_set1_ps(*xsum), acc);
    return acc;
}

/* A slab of a panel against nt tokens; f and nt are constants where this is inlined. */
ALWAYS_INLINE void tile(const format_32 *f, const slab_32 *w, size_t n_blocks, const tile_x *x,
                        int nt, bool ask, const tile_y *out)
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
        if (ask)
            prefetch_some(out->ask);
        EACH(t, nt)
        {
            const __m512 dx = _mm512_set1_ps(x->d[t * x->block_stride + b]);
            EACH(g, GROUPS)
            {
                acc[g][t] = add_to_chain(f, &block[g], dx, sum[g][t],
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

/* A slab of a panel against all tokens of x. */
ALWAYS_INLINE void tiles(const format_32 *f, const slab_32 *w, size_t n_blocks, tile_x x, tile_y y)
{
    for (size_t n; x.n > 0; x.n -= n) {
        n = x.n >= MANY ? TILE : next_tile(x.n);
        switch (x.n >= MANY ? MANY : n) {
        case 1: tile(f, w, n_blocks, &x, 1, true, &y); break;
        case 2: tile(f, w, n_blocks, &x, 2, true, &y); break;
        case 3: tile(f, w, n_blocks, &x, 3, true, &y); break;
        case 4: tile(f, w, n_blocks, &x, 4, true, &y); break;
        case 5: tile(f, w, n_blocks, &x, 5, true, &y); break;
        case TILE: tile(f, w, n_blocks, &x, TILE, true, &y); break;
        default: tile(f, w, n_blocks, &x, TILE, false, &y); break;
        }
        x.q += n * x.q_stride;
        x.start[0] += n * x.block_stride;
        x.start[1] += n * x.block_stride;
        x.sum += n * x.block_stride;
        x.d += n * x.block_stride;
        y.chains += n * PANEL;
        ask_outputs(&y.out, n);
    }
}

/* ---- one token ---- */

/* n_blocks blocks of 16 rows against one token, from acc on: multiplied while they
 * are unpacked, since the reading of the weights is what takes the time. */
ALWAYS_INLINE __m512 one(const format_32 *f, unpack_32_fn *unpack, const uint8_t *block,
                         size_t stride, size_t n_blocks, const tile_x *x, __m512 acc)
{
    const uint8_t *ahead = block + LANES * stride;
    for (size_t b = 0; b < n_blocks; b++, block += f->block_bytes) {
        block_32 w;
        unpack(block, stride, &w);
        EACH(i, LANES * f->block_bytes / 64)
        {
            _mm_prefetch((const char *)ahead + 64 * i, _MM_HINT_T0);
        }
        __m512i sum = f->offset == 0 ? _mm512_setzero_si512() : set1_at(x->start[0] + b);
        EACH(k, BLOCK_VECTORS)
        {
            sum = _mm512_dpbusd_epi32(sum, w.q[k], set1_at(x->q + b * QUANT_BLOCK + 4 * k));
        }
        acc = add_to_chain(f, &w, _mm512_set1_ps(x->d[b]), sum, x->sum + b, acc);
        ahead += LANES * f->block_bytes;
    }
    return acc;
}

/* ---- panels ---- */

/* The functions of a format, with everything inlined. */
typedef struct kernel_32 {
    const format_32 *f;
    unpack_32_fn *unpack;
    void (*tiles)(const slab_32 *w, size_t n_blocks, const tile_x *x, const tile_y *y);
    __m512 (*one)(const uint8_t *block, size_t stride, size_t n_blocks, const tile_x *x,
                  __m512 acc);
} kernel_32;

typedef struct workspace {
    slab_32 slab;
    uint8_t stage[LANES * 64];         /* of the last rows: a block of each */
    _Alignas(64) unsigned char rest[]; /* of KERN_SCRATCH_BYTES: chains, prepared activations */
} workspace;

/* Tokens t0 .. t0+n-1; prepared: per token and block a start (int32) or a sum (float). */
typedef struct chunk {
    size_t t0, n;
    float *chains; /* [n][PANEL] */
    const void *prepared;
} chunk;

/* Room for as many tokens as stay in the second-level cache while panel after
 * panel passes over them. */
static size_t chunk_tokens(size_t cols)
{
    const size_t prepared_bytes = cols / QUANT_BLOCK * sizeof(int32_t);
    const size_t chain_bytes = PANEL * sizeof(float);
    const size_t room = (KERN_SCRATCH_BYTES - sizeof(workspace)) / (prepared_bytes + chain_bytes);
    const size_t cached = L2_BUDGET / (cols + 2 * prepared_bytes + chain_bytes);
    const size_t wanted = cached > MIN_CHUNK ? cached : MIN_CHUNK;
    return wanted < room ? wanted : room;
}

/* Sums of activations as the tiles want them: times -offset, or as floats. */
static void prepare(const format_32 *f, const int16_t *sum, size_t n, void *room)
{
    int32_t *start = room;
    float *floats = room;
    for (size_t i = 0; i < n; i++) {
        if (f->has_m)
            floats[i] = (float)sum[i];
        else
            start[i] = -f->offset * sum[i];
    }
}

/* Block b of the chunk's tokens. */
static tile_x view_x(const kern_act *x, const chunk *c, size_t b)
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

/* Blocks of all groups of a panel, of which `rows` rows are left. */
static void unpack_slab(const kernel_32 *k, const uint8_t *w, size_t stride, size_t rows,
                        size_t n_blocks, workspace *ws, prefetch_ahead *ask)
{
    const size_t bytes = (size_t)k->f->block_bytes;
    for (size_t g = 0; g < GROUPS; g++) {
        const uint8_t *block = w + g * LANES * stride;
        const size_t left = rows > g * LANES ? rows - g * LANES : 0;
        for (size_t b = 0; b < n_blocks; b++, block += bytes) {
            prefetch_some(ask);
            if (left >= LANES)
                k->unpack(block, stride, &ws->slab.block[b][g]);
            else
                k->unpack(stage_rows(block, stride, left, bytes, ws->stage), bytes,
                          &ws->slab.block[b][g]);
        }
    }
}

/* Rows r0 .. r0+31 (fewer at the end) for the tokens of a chunk. */
static void multiply_panel(const kern_gemm_args *a, const kernel_32 *k, const chunk *c, size_t r0)
{
    workspace *ws = a->scratch;
    const size_t rows = a->rows - r0, bytes = (size_t)k->f->block_bytes;
    const size_t blocks = a->x->cols / QUANT_BLOCK;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    float *y0 = a->y + c->t0 * a->y_stride + r0;
    /* Unpacking takes about the time of a tile; each asks for its share of the next
     * panel. With many tokens there is time enough, and only unpacking asks. */
    const bool many = c->n >= MANY;
    const size_t share = PANEL * bytes / (many ? 1 : tiles_of(c->n) + 1);
    prefetch_ahead ask = prefetch_for(w + PANEL * a->row_bytes);
    for (size_t b = 0; b < blocks; b += SLAB_BLOCKS, w += SLAB_BLOCKS * bytes) {
        const size_t n_blocks = blocks - b < SLAB_BLOCKS ? blocks - b : SLAB_BLOCKS;
        ask.step = share / GROUPS;
        unpack_slab(k, w, a->row_bytes, rows, n_blocks, ws, &ask);
        ask.step = many ? 0 : share;
        const tile_x x = view_x(a->x, c, b);
        const tile_y y = {.chains = c->chains,
                          .first = b == 0,
                          .ask = &ask,
                          .out = {b + n_blocks == blocks ? y0 : NULL, a->y_stride}};
        k->tiles(&ws->slab, n_blocks, &x, &y);
    }
    store_chains(c->chains, c->n, y0, a->y_stride, rows);
}

/* Rows r0 .. r0+15 (fewer at the end) for the only token. */
static void multiply_one(const kern_gemm_args *a, const kernel_32 *k, const chunk *c, size_t r0)
{
    workspace *ws = a->scratch;
    const size_t rows = a->rows - r0, bytes = (size_t)k->f->block_bytes;
    const size_t blocks = a->x->cols / QUANT_BLOCK;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    __m512 acc = _mm512_setzero_ps();
    tile_x x = view_x(a->x, c, 0);
    if (rows >= LANES) {
        acc = k->one(w, a->row_bytes, blocks, &x, acc);
    } else {
        for (size_t b = 0; b < blocks; b++, w += bytes) {
            x = view_x(a->x, c, b);
            stage_rows(w, a->row_bytes, rows, bytes, ws->stage);
            acc = k->one(ws->stage, bytes, 1, &x, acc);
        }
    }
    _mm512_mask_storeu_ps(a->y + r0, row_mask(rows, 0), acc);
}

static void gemm(const kern_gemm_args *a, const kernel_32 *k)
{
    workspace *ws = a->scratch;
    const size_t blocks = a->x->cols / QUANT_BLOCK;
    const size_t at_once = chunk_tokens(a->x->cols);
    for (size_t t0 = 0; t0 < a->x->n; t0 += at_once) {
        const size_t left = a->x->n - t0;
        const size_t n = left < at_once ? left : at_once;
        float *chains = (float *)ws->rest;
        const chunk c = {t0, n, chains, chains + n * PANEL};
        prepare(k->f, a->x->sum + t0 * blocks, n * blocks, chains + n * PANEL);
        if (a->x->n == 1)
            for (size_t r0 = 0; r0 < a->rows; r0 += LANES)
                multiply_one(a, k, &c, r0);
        else
            for (size_t r0 = 0; r0 < a->rows; r0 += PANEL)
                multiply_panel(a, k, &c, r0);
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
        tiles(&format_##format, w, n_blocks, *x, *y);                                              \
    }                                                                                              \
    static __m512 one_##format(const uint8_t *block, size_t stride, size_t n_blocks,               \
                               const tile_x *x, __m512 acc)                                        \
    {                                                                                              \
        return one(&format_##format, unpack_##format, block, stride, n_blocks, x, acc);            \
    }                                                                                              \
    void k_gemm_##format##_avx512(const kern_gemm_args *a)                                         \
    {                                                                                              \
        static const kernel_32 kernel = {&format_##format, slab_##format, tiles_##format,          \
                                         one_##format};                                            \
        gemm(a, &kernel);                                                                          \
    }

GEMM(q4_0)
GEMM(q4_1)
GEMM(q5_0)
GEMM(q5_1)
GEMM(q8_0)
GEMM(iq4_nl)
