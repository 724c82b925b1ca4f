/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_32_amx.c - products with 32-value blocks, by tiles.
 *
 * Every block ends in a step of the float chains, so a tile is 32 columns deep: half of
 * what the multiplier could do, but the chains take longer than the tiles anyway. Codes
 * are signed bytes as the format means them, so a product is isum and needs no correction:
 *
 *     format   Q4_0       Q4_1      Q5_0        Q5_1      Q8_0          IQ4_NL
 *     codes    -8 .. 7    0 .. 15   -16 .. 15   0 .. 31   -128 .. 127   -127 .. 113
 *
 * |isum| <= 32 * 128 * 127 = 520,192. A step is two neighbouring blocks, four products
 * with the two groups; the last of an odd number of blocks goes alone.
 */
#include "kernels/x86/gemm_panel_amx.h"
#include "kernels/x86/gemm_unpack_32_avx512.h"

enum { PAIR = 2 }; /* blocks of a step */

typedef struct format_32 {
    int block_bytes;
    int offset; /* codes as unpacked are those of the format plus this */
    bool has_m;
} format_32;

static const format_32 format_q4_0 = {sizeof(quant_q4_0), 8, false};
static const format_32 format_q4_1 = {sizeof(quant_q4_1), 0, true};
static const format_32 format_q5_0 = {sizeof(quant_q5_0), 16, false};
static const format_32 format_q5_1 = {sizeof(quant_q5_1), 0, true};
static const format_32 format_q8_0 = {sizeof(quant_q8_0), 128, false};
static const format_32 format_iq4_nl = {sizeof(quant_iq4_nl), 128, false};

ALWAYS_INLINE void unpack_signed(const format_32 *f, unpack_32_fn *unpack, const uint8_t *block,
                                 size_t stride, block_32 *out)
{
    unpack(block, stride, out);
    if (f->offset != 0)
        EACH(k, BLOCK_VECTORS)
        {
            out->q[k] = _mm512_sub_epi8(out->q[k], _mm512_set1_epi8((char)f->offset));
        }
}

/* ---- tiles ---- */

typedef block_32 panel_block[GROUPS];

/* The products of one or two blocks of a panel with 16 tokens: sum[2b + g] is that of
 * group g with block b. */
static inline void multiply(const panel_block *w, size_t n_blocks, const int8_t *x, size_t x_stride,
                            products *out)
{
    enum { ROW = TILE_ROW_BYTES };
    tile_zero(0);
    tile_zero(1);
    tile_load(4, x, x_stride);
    tile_load(6, w[0][0].q, ROW);
    tile_dp_ss(0, 4, 6);
    tile_load(7, w[0][1].q, ROW);
    tile_dp_ss(1, 4, 7);
    if (n_blocks == PAIR) {
        tile_zero(2);
        tile_zero(3);
        tile_load(5, x + QUANT_BLOCK, x_stride);
        tile_load(6, w[1][0].q, ROW);
        tile_dp_ss(2, 5, 6);
        tile_load(7, w[1][1].q, ROW);
        tile_dp_ss(3, 5, 7);
        tile_store(2, out->sum[2], ROW);
        tile_store(3, out->sum[3], ROW);
    }
    tile_store(0, out->sum[0], ROW);
    tile_store(1, out->sum[1], ROW);
}

/* ---- chains ---- */

/* One or two blocks of the last n tokens of a tile, with their products. */
typedef struct step {
    const products *p;
    const panel_block *w;
    size_t n_blocks, n;
    const float *d, *sum; /* [n][stride]: scales; sums of the codes, which meet m */
    size_t stride;
    float (*chains)[PANEL]; /* [n] */
    bool first;
} step;

/* f and n_blocks are constants where this is inlined. */
ALWAYS_INLINE void advance_blocks(const format_32 *f, const step *s, int n_blocks)
{
    __m512 d[PAIR][GROUPS], m[PAIR][GROUPS];
    EACH(b, n_blocks)
    {
        EACH(g, GROUPS)
        {
            d[b][g] = s->w[b][g].d;
            m[b][g] = f->has_m ? s->w[b][g].m : _mm512_setzero_ps();
        }
    }
    for (size_t t = 0; t < s->n; t++) {
        const size_t at = TOKENS - s->n + t;
        float *chain = s->chains[t];
        __m512 acc[GROUPS];
        EACH(g, GROUPS)
        {
            acc[g] = s->first ? _mm512_setzero_ps() : _mm512_load_ps(chain + g * LANES);
        }
        EACH(b, n_blocks)
        {
            const __m512 dx = _mm512_set1_ps(s->d[t * s->stride + (size_t)b]);
            EACH(g, GROUPS)
            {
                const __m512i isum = _mm512_load_si512(s->p->sum[GROUPS * b + g][at]);
                acc[g] =
                    _mm512_fmadd_ps(_mm512_mul_ps(d[b][g], dx), _mm512_cvtepi32_ps(isum), acc[g]);
                if (f->has_m)
                    acc[g] =
                        _mm512_fmadd_ps(_mm512_mul_ps(m[b][g], dx),
                                        _mm512_set1_ps(s->sum[t * s->stride + (size_t)b]), acc[g]);
            }
        }
        EACH(g, GROUPS)
        {
            _mm512_store_ps(chain + g * LANES, acc[g]);
        }
    }
}

ALWAYS_INLINE void advance(const format_32 *f, const step *s)
{
    if (s->n_blocks == PAIR)
        advance_blocks(f, s, PAIR);
    else
        advance_blocks(f, s, 1);
}

/* ---- panels ---- */

/* The functions of a format, with everything inlined. */
typedef struct kernel_32 {
    const format_32 *f;
    unpack_32_fn *unpack;
    void (*advance)(const step *s);
    kern_gemm_fn *avx512;
} kernel_32;

typedef struct workspace {
    panel_block slab[SLAB_BLOCKS];
    products turn[2];
    uint8_t stage[LANES * 64]; /* of the last rows: a block of each */
    unsigned char rest[];      /* of KERN_SCRATCH_BYTES: chains, sums as floats */
} workspace;
_Static_assert(sizeof(workspace) % 64 == 0 && sizeof(workspace) <= MAX_WORKSPACE,
               "chains are on cache lines, and there is room for them");

/* A call, or the part of it that a run of tokens is. */
typedef struct work {
    const kern_gemm_args *a;
    const kernel_32 *kernel;
    workspace *ws;
    token_run c;
    float (*chains)[PANEL]; /* [c.n] */
    float *sums;            /* [c.n][cols / 32], if the format has m */
} work;

/* Blocks of all groups of a panel, of which `rows` rows are left. */
static void unpack_slab(const work *k, const uint8_t *w, size_t rows, size_t n_blocks)
{
    const size_t bytes = (size_t)k->kernel->f->block_bytes, stride = k->a->row_bytes;
    for (size_t g = 0; g < GROUPS; g++) {
        const uint8_t *block = w + g * LANES * stride;
        const size_t left = rows > g * LANES ? rows - g * LANES : 0;
        for (size_t b = 0; b < n_blocks; b++, block += bytes) {
            block_32 *out = &k->ws->slab[b][g];
            if (left >= LANES)
                k->kernel->unpack(block, stride, out);
            else
                k->kernel->unpack(stage_rows(block, stride, left, bytes, k->ws->stage), bytes, out);
        }
    }
}

/* The chains' step for blocks b, b + 1 of the slab that begins with block b0, and tile i. */
static step step_at(const work *k, size_t i, size_t b0, size_t b, size_t n_blocks)
{
    const size_t blocks = k->a->x->cols / QUANT_BLOCK, t = i * TOKENS;
    return (step){.w = &k->ws->slab[b],
                  .n_blocks = n_blocks - b < PAIR ? n_blocks - b : PAIR,
                  .n = new_tokens(&k->c, i),
                  .d = k->a->x->d + (k->c.t0 + t) * blocks + b0 + b,
                  .sum = k->sums + t * blocks + b0 + b,
                  .stride = blocks,
                  .chains = k->chains + t,
                  .first = b0 + b == 0};
}

/* A slab of a panel against all tokens of a run. The tiles of a step are multiplied
 * before the chains take in those of the step before. `next` are the weights that come
 * after the panel. */
static void multiply_slab(const work *k, size_t b0, size_t n_blocks, const uint8_t *next)
{
    const kern_act *x = k->a->x;
    const size_t n_tiles = n_token_tiles(&k->c);
    step before = {.n = 0};
    size_t turn = 0;
    for (size_t i = 0; i < n_tiles; i++) {
        const int8_t *q = x->q + tile_start(&k->c, i) * x->cols + b0 * QUANT_BLOCK;
        fetch_share(next, PANEL * n_blocks * (size_t)k->kernel->f->block_bytes, i, n_tiles);
        for (size_t b = 0; b < n_blocks; b += PAIR, turn ^= 1) {
            step now = step_at(k, i, b0, b, n_blocks);
            now.p = &k->ws->turn[turn];
            multiply(now.w, now.n_blocks, q + b * QUANT_BLOCK, x->cols, &k->ws->turn[turn]);
            if (before.n > 0)
                k->kernel->advance(&before);
            before = now;
        }
    }
    k->kernel->advance(&before);
}

/* Rows r0 .. r0+31 (fewer at the end) for a run of tokens. */
static void multiply_panel(const work *k, size_t r0)
{
    const kern_gemm_args *a = k->a;
    const size_t bytes = (size_t)k->kernel->f->block_bytes, blocks = a->x->cols / QUANT_BLOCK;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    const uint8_t *next = w + PANEL * a->row_bytes;
    for (size_t b = 0; b < blocks; b += SLAB_BLOCKS, w += SLAB_BLOCKS * bytes) {
        const size_t n_blocks = blocks - b < SLAB_BLOCKS ? blocks - b : SLAB_BLOCKS;
        unpack_slab(k, w, a->rows - r0, n_blocks);
        multiply_slab(k, b, n_blocks, next);
        next += PANEL * n_blocks * bytes;
    }
    finish_panel(a, &k->c, r0, k->chains);
}

static void gemm(const kern_gemm_args *a, const kernel_32 *kernel)
{
    if (too_few_or_too_wide(a->x)) {
        kernel->avx512(a);
        return;
    }
    const size_t blocks = a->x->cols / QUANT_BLOCK, room = KERN_SCRATCH_BYTES - sizeof(workspace);
    const size_t kept = (PANEL + blocks) * sizeof(float);
    const size_t cached = a->x->cols + kept + blocks * sizeof(float);
    const size_t at_once = tokens_at_once(a->x->n, cached, kept, room);
    work k = {.a = a, .kernel = kernel, .ws = a->scratch};
    k.chains = (float(*)[PANEL])k.ws->rest;
    k.sums = k.chains[at_once];
    configure_tiles(QUANT_BLOCK);
    for (k.c.t0 = 0; k.c.t0 < a->x->n; k.c.t0 += at_once) {
        k.c.n = a->x->n - k.c.t0 < at_once ? a->x->n - k.c.t0 : at_once;
        for (size_t i = 0; kernel->f->has_m && i < k.c.n * blocks; i++)
            k.sums[i] = (float)a->x->sum[k.c.t0 * blocks + i];
        for (size_t r0 = 0; r0 < a->rows; r0 += PANEL)
            multiply_panel(&k, r0);
    }
    tile_release();
}

#define GEMM(format)                                                                               \
    static void slab_##format(const uint8_t *block, size_t stride, block_32 *out)                  \
    {                                                                                              \
        unpack_signed(&format_##format, unpack_##format, block, stride, out);                      \
    }                                                                                              \
    static void advance_##format(const step *s)                                                    \
    {                                                                                              \
        advance(&format_##format, s);                                                              \
    }                                                                                              \
    void k_gemm_##format##_amx(const kern_gemm_args *a)                                            \
    {                                                                                              \
        static const kernel_32 kernel = {&format_##format, slab_##format, advance_##format,        \
                                         k_gemm_##format##_avx512};                                \
        gemm(a, &kernel);                                                                          \
    }

GEMM(q4_0)
GEMM(q4_1)
GEMM(q5_0)
GEMM(q5_1)
GEMM(q8_0)
GEMM(iq4_nl)
