/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_256_avx512.c - products with superblock formats, by panels.
 *
 * isum = sum_s scale_s * (sum of q x over group s) needs a multiplication per
 * group. vpdpwssd does it with the addition, in one instruction, if the group's
 * sum fits 16 signed bits: then the low half of a lane is the sum, the high half
 * meets a zero. So the codes of a superblock are summed in pieces of `dot` codes,
 * small enough after centring that the bound holds:
 *
 *     format   dot   codes    offset   largest |sum| (activations |x| <= 127)
 *     Q2_K      16   0 .. 3      -     16 *  3 * 127 =  6,096
 *     Q3_K      16   0 .. 7      4     16 *  4 * 127 =  8,128
 *     Q4_K      32   0 .. 15     8     32 *  8 * 127 = 32,512
 *     Q5_K      16   0 .. 31    16     16 * 16 * 127 = 32,512
 *     Q6_K       8   0 .. 63    32      8 * 32 * 127 = 32,512
 *     IQ4_XS    32   1 .. 241  128     too large: vpmulld and vpaddd instead
 *
 * The sum of a piece starts at -offset * (sum of its activations). For Q3_K, Q6_K
 * and IQ4_XS that is the meaning of the codes. For Q4_K and Q5_K, whose codes mean
 * themselves, isum gets sum_s (offset * scale_s) * xsum_s back, four vpdpwssd for a
 * superblock, and msum is another four.
 */
#include "kernels/x86/gemm_unpack_256_avx512.h"

enum {
    N_SUMS = 16,           /* entries of kern_act.sum in a superblock */
    L2_BUDGET = 640 << 10, /* of activations that all panels of a call share */
    MIN_CHUNK = 64         /* tokens that make unpacking a slab worth it */
};

typedef struct format_256 {
    unpack_256_fn *unpack;
    int block_bytes;
    int dot, offset;
    int min_pairs;   /* pairs of minima: 0, 4 (one minimum per 32 values) or 8 (per 16) */
    bool add_offset; /* codes mean themselves, but their sums start at -offset */
    bool wide;       /* the sum of a piece exceeds 16 bits */
} format_256;

static const format_256 format_q2_k = {
    .unpack = unpack_q2_k, .block_bytes = sizeof(quant_q2_k), .dot = 16, .min_pairs = 8};
static const format_256 format_q3_k = {
    .unpack = unpack_q3_k, .block_bytes = sizeof(quant_q3_k), .dot = 16, .offset = 4};
static const format_256 format_q4_k = {.unpack = unpack_q4_k,
                                       .block_bytes = sizeof(quant_q4_k),
                                       .dot = 32,
                                       .offset = 8,
                                       .min_pairs = 4,
                                       .add_offset = true};
static const format_256 format_q5_k = {.unpack = unpack_q5_k,
                                       .block_bytes = sizeof(quant_q5_k),
                                       .dot = 16,
                                       .offset = 16,
                                       .min_pairs = 4,
                                       .add_offset = true};
static const format_256 format_q6_k = {
    .unpack = unpack_q6_k, .block_bytes = sizeof(quant_q6_k), .dot = 8, .offset = 32};
static const format_256 format_iq4_xs = {.unpack = unpack_iq4_xs,
                                         .block_bytes = sizeof(quant_iq4_xs),
                                         .dot = 32,
                                         .offset = 128,
                                         .wide = true};

/* Activations of a run of tokens at one superblock; strides are between tokens. */
typedef struct tile_x {
    const int8_t *q; /* [256] */
    /* [256 / dot]: where the sum of each piece starts. The same for all groups, but
     * the compiler must not know: it would turn the second load into a copy, and
     * loads have a port of their own. */
    const int32_t *start[GROUPS];
    const int16_t *sum; /* [2 * min_pairs]: sums that meet the minima */
    const float *d;
    size_t q_stride, start_stride, sum_stride, d_stride;
    size_t n; /* tokens */
} tile_x;

/* Where the chains of a panel rest. */
typedef struct tile_y {
    float *y;
    size_t stride;
    __mmask16 mask[GROUPS];
    bool first;
} tile_y;

typedef void multiply_fn(const slab_256 *w, const tile_x *x, const tile_y *y);

/* sum[g][t] = the sum of piece s: `dot` codes of group g's rows with those of token t. */
ALWAYS_INLINE void sum_piece(const format_256 *f, const slab_256 *w, const tile_x *x, int nt, int s,
                             __m512i sum[GROUPS][TILE])
{
    const int vectors = f->dot / 4;
    EACH(t, nt)
    {
        EACH(g, GROUPS)
        {
            sum[g][t] = f->offset == 0 ? _mm512_setzero_si512()
                                       : set1_at(x->start[g] + t * x->start_stride + s);
        }
    }
    EACH(k, vectors)
    {
        const __m512i w0 = w[0].q[s * vectors + k], w1 = w[1].q[s * vectors + k];
        EACH(t, nt)
        {
            const __m512i codes = set1_at(x->q + t * x->q_stride + 4 * (s * vectors + k));
            sum[0][t] = _mm512_dpbusd_epi32(sum[0][t], w0, codes);
            sum[1][t] = _mm512_dpbusd_epi32(sum[1][t], w1, codes);
        }
    }
}

ALWAYS_INLINE __m512i add_scaled(const format_256 *f, __m512i isum, __m512i sum, __m512i scale)
{
    return f->wide ? _mm512_add_epi32(isum, _mm512_mullo_epi32(sum, scale))
                   : _mm512_dpwssd_epi32(isum, sum, scale);
}

/* isum += offsets * sums, msum = minima * sums. All outputs of the tile advance
 * side by side: one after the other, their chains would wait for themselves. */
ALWAYS_INLINE void pair_products(const format_256 *f, const slab_256 *w, const tile_x *x, int nt,
                                 __m512i isum[GROUPS][TILE], __m512i msum[GROUPS][TILE])
{
    EACH(p, f->min_pairs)
    {
        EACH(t, nt)
        {
            const __m512i pair = set1_at(x->sum + t * x->sum_stride + 2 * p);
            EACH(g, GROUPS)
            {
                const __m512i before = p == 0 ? _mm512_setzero_si512() : msum[g][t];
                msum[g][t] = _mm512_dpwssd_epi32(before, w[g].min[p], pair);
                if (f->add_offset)
                    isum[g][t] = _mm512_dpwssd_epi32(isum[g][t], w[g].offset[p], pair);
            }
        }
    }
}

/* One step of the chains of a tile. */
ALWAYS_INLINE void add_to_chains(const format_256 *f, const slab_256 *w, const tile_x *x, int nt,
                                 __m512i isum[GROUPS][TILE], __m512i msum[GROUPS][TILE],
                                 const tile_y *out)
{
    EACH(t, nt)
    {
        const __m512 dx = _mm512_set1_ps(x->d[t * x->d_stride]);
        EACH(g, GROUPS)
        {
            float *y = out->y + t * out->stride + g * LANES;
            __m512 acc = _mm512_maskz_loadu_ps(out->first ? 0 : out->mask[g], y);
            acc = _mm512_fmadd_ps(_mm512_mul_ps(w[g].d, dx), _mm512_cvtepi32_ps(isum[g][t]), acc);
            if (f->min_pairs > 0)
                acc = _mm512_fnmadd_ps(_mm512_mul_ps(w[g].dmin, dx), _mm512_cvtepi32_ps(msum[g][t]),
                                       acc);
            _mm512_mask_storeu_ps(y, out->mask[g], acc);
        }
    }
}

/* A superblock of a panel against nt tokens; f and nt are constants where this is inlined. */
ALWAYS_INLINE void tile(const format_256 *f, const slab_256 *w, const tile_x *x, int nt,
                        const tile_y *out)
{
    __m512i isum[GROUPS][TILE], sum[GROUPS][TILE];
    EACH(t, nt)
    {
        isum[0][t] = isum[1][t] = _mm512_setzero_si512();
    }
    for (int s = 0; s < SLAB_COLS / f->dot; s++) {
        sum_piece(f, w, x, nt, s, sum);
        EACH(t, nt)
        {
            EACH(g, GROUPS)
            {
                isum[g][t] = add_scaled(f, isum[g][t], sum[g][t], w[g].scale[s]);
            }
        }
    }
    __m512i msum[GROUPS][TILE];
    pair_products(f, w, x, nt, isum, msum);
    add_to_chains(f, w, x, nt, isum, msum, out);
}

/* A superblock of a panel against all tokens of x. */
ALWAYS_INLINE void tiles(const format_256 *f, const slab_256 *w, tile_x x, tile_y y)
{
    for (size_t n; x.n > 0; x.n -= n) {
        n = next_tile(x.n);
        switch (n) {
        case 1: tile(f, w, &x, 1, &y); break;
        case 2: tile(f, w, &x, 2, &y); break;
        case 3: tile(f, w, &x, 3, &y); break;
        case 4: tile(f, w, &x, 4, &y); break;
        case 5: tile(f, w, &x, 5, &y); break;
        default: tile(f, w, &x, TILE, &y); break;
        }
        x.q += n * x.q_stride;
        x.start[0] += n * x.start_stride;
        x.start[1] += n * x.start_stride;
        x.sum += n * x.sum_stride;
        x.d += n * x.d_stride;
        y.y += n * y.stride;
    }
}

/* ---- activations ---- */

/* What tiles read of a chunk of tokens besides the codes, per token and superblock. */
typedef struct prepared {
    int32_t *start; /* [256 / dot] */
    int16_t *sum;   /* [8]: sums of 32, for four pairs of minima */
} prepared;

/* -offset times the sums of 8 neighbours. */
static void start_of_8(const int8_t *q, int offset, int32_t *start)
{
    for (int i = 0; i < SLAB_COLS / 64; i++) {
        const __m512i codes = _mm512_loadu_si512(q + 64 * i);
        const __m512i four =
            _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8((char)offset), codes);
        const __m512i eight = _mm512_add_epi32(four, _mm512_srli_epi64(four, 32));
        const __m256i sums = _mm512_cvtepi64_epi32(eight);
        _mm256_storeu_si256((__m256i *)(start + 8 * i),
                            _mm256_sub_epi32(_mm256_setzero_si256(), sums));
    }
}

static void prepare_block(const format_256 *f, const int8_t *q, const int16_t *sum, prepared out)
{
    const __m256i sums = _mm256_loadu_si256((const __m256i *)sum);
    const __m256i minus_offset = _mm256_set1_epi16((short)-f->offset);
    if (f->dot == 8) {
        start_of_8(q, f->offset, out.start);
    } else if (f->dot == 32) {
        _mm256_storeu_si256((__m256i *)out.start, _mm256_madd_epi16(sums, minus_offset));
    } else if (f->offset != 0) {
        const __m512i product = _mm512_cvtepi16_epi32(_mm256_mullo_epi16(sums, minus_offset));
        _mm512_storeu_si512(out.start, product);
    }
    if (f->min_pairs == 4) {
        const __m256i sums_of_32 = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
        _mm_storeu_si128((__m128i *)out.sum, _mm256_cvtepi32_epi16(sums_of_32));
    }
}

/* ---- panels ---- */

typedef struct workspace {
    slab_256 slab[GROUPS];
    uint8_t stage[LANES * 256]; /* of the last rows: a block of each */
    unsigned char rest[];       /* of KERN_SCRATCH_BYTES: prepared activations */
} workspace;

/* Tokens t0 .. t0+n-1 of the activations, prepared. */
typedef struct chunk {
    size_t t0, n;
    prepared x; /* [n][cols / 256] */
} chunk;

static size_t start_bytes(const format_256 *f)
{
    return (size_t)(SLAB_COLS / f->dot) * sizeof(int32_t);
}

/* Room for as many tokens as stay in the second-level cache while panel after
 * panel passes over them. */
static size_t chunk_tokens(const format_256 *f, size_t cols)
{
    const size_t prepared_bytes =
        cols / SLAB_COLS * (start_bytes(f) + N_SUMS * sizeof(int16_t) / 2);
    const size_t room = (KERN_SCRATCH_BYTES - sizeof(workspace)) / prepared_bytes;
    const size_t cached = L2_BUDGET / (cols + prepared_bytes);
    const size_t wanted = cached > MIN_CHUNK ? cached : MIN_CHUNK;
    return wanted < room ? wanted : room;
}

static void prepare(const format_256 *f, const kern_act *x, chunk *c, unsigned char *room)
{
    const size_t blocks = x->cols / SLAB_COLS;
    c->x.start = (int32_t *)room;
    c->x.sum = (int16_t *)(room + c->n * blocks * start_bytes(f));
    for (size_t i = 0; i < c->n * blocks; i++) {
        const size_t from = c->t0 * blocks + i;
        const prepared to = {c->x.start + i * (size_t)(SLAB_COLS / f->dot),
                             c->x.sum + i * N_SUMS / 2};
        prepare_block(f, x->q + from * SLAB_COLS, x->sum + from * N_SUMS, to);
    }
}

/* Superblock b of the chunk's tokens. */
static tile_x view_x(const format_256 *f, const kern_act *x, const chunk *c, size_t b)
{
    const size_t blocks = x->cols / SLAB_COLS;
    const size_t from = c->t0 * blocks + b;
    const size_t pieces = (size_t)(SLAB_COLS / f->dot);
    const bool raw = f->min_pairs == N_SUMS / 2;
    const size_t n_sums = raw ? N_SUMS : N_SUMS / 2;
    const int32_t *start = c->x.start + b * pieces;
    return (tile_x){.q = x->q + from * SLAB_COLS,
                    .start = {start, start},
                    .sum = raw ? x->sum + from * n_sums : c->x.sum + b * n_sums,
                    .d = x->d + from,
                    .q_stride = x->cols,
                    .start_stride = blocks * pieces,
                    .sum_stride = blocks * n_sums,
                    .d_stride = blocks,
                    .n = c->n};
}

/* One superblock of the 16 rows of group g. */
static void unpack_group(const uint8_t *w, size_t stride, size_t rows, size_t g,
                         const format_256 *f, workspace *ws)
{
    const size_t bytes = (size_t)f->block_bytes;
    const uint8_t *block = w + g * LANES * stride;
    const size_t left = rows > g * LANES ? rows - g * LANES : 0;
    if (left >= LANES)
        f->unpack(block, stride, &ws->slab[g]);
    else
        f->unpack(stage_rows(block, stride, left, bytes, ws->stage), bytes, &ws->slab[g]);
}

/* Rows r0 .. r0+31 (fewer at the end) for the tokens of a chunk. */
static void multiply_panel(const kern_gemm_args *a, const format_256 *f, multiply_fn *multiply,
                           const chunk *c, size_t r0)
{
    workspace *ws = a->scratch;
    const size_t rows = a->rows - r0, bytes = (size_t)f->block_bytes;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    for (size_t b = 0; b < a->x->cols / SLAB_COLS; b++, w += bytes) {
        for (size_t g = 0; g < GROUPS; g++)
            unpack_group(w, a->row_bytes, rows, g, f, ws);
        if (rows >= 2 * PANEL)
            prefetch_panel(w, a->row_bytes, bytes);
        const tile_x x = view_x(f, a->x, c, b);
        const tile_y y = {.y = a->y + c->t0 * a->y_stride + r0,
                          .stride = a->y_stride,
                          .mask = {row_mask(rows, 0), row_mask(rows, 1)},
                          .first = b == 0};
        multiply(ws->slab, &x, &y);
    }
}

static void gemm(const kern_gemm_args *a, const format_256 *f, multiply_fn *multiply)
{
    workspace *ws = a->scratch;
    const size_t at_once = chunk_tokens(f, a->x->cols);
    for (size_t t0 = 0; t0 < a->x->n; t0 += at_once) {
        chunk c = {.t0 = t0, .n = a->x->n - t0 < at_once ? a->x->n - t0 : at_once};
        prepare(f, a->x, &c, ws->rest);
        for (size_t r0 = 0; r0 < a->rows; r0 += PANEL)
            multiply_panel(a, f, multiply, &c, r0);
    }
}

#define GEMM(format)                                                                               \
    static void multiply_##format(const slab_256 *w, const tile_x *x, const tile_y *y)             \
    {                                                                                              \
        tiles(&format_##format, w, *x, *y);                                                        \
    }                                                                                              \
    void k_gemm_##format##_avx512(const kern_gemm_args *a)                                         \
    {                                                                                              \
        gemm(a, &format_##format, multiply_##format);                                              \
    }

GEMM(q2_k)
GEMM(q3_k)
GEMM(q4_k)
GEMM(q5_k)
GEMM(q6_k)
GEMM(iq4_xs)
