/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_256_avx512.c - GEMM with superblock formats, AVX-512 VNNI.
 *
 * isum = sum_s scale_s * (sum of q x over group s) needs one multiplication per group. vpdpwssd
 * multiplies and adds in one instruction if the sum of the group fits in 16 signed bits: the low
 * half of a lane is the sum, the high half is multiplied by zero. So the codes of a superblock are
 * summed in pieces of `dot` codes, small enough that, after subtraction of an offset, this bound
 * holds:
 *
 *     format   dot   codes    offset   largest |sum| (activations |x| <= 127)
 *     Q2_K      16   0 .. 3      -     16 *  3 * 127 =  6,096
 *     Q3_K      16   0 .. 7      4     16 *  4 * 127 =  8,128
 *     Q4_K      32   0 .. 15     8     32 *  8 * 127 = 32,512
 *     Q5_K      16   0 .. 31    16     16 * 16 * 127 = 32,512
 *     Q6_K       8   0 .. 63    32      8 * 32 * 127 = 32,512
 *     IQ4_XS    32   1 .. 241  128     too large: vpmulld and vpaddd instead
 *     i8_256    16   0 .. 255  128     likewise
 *
 * The sum of a piece starts at -offset * (sum of its activations). In Q3_K, Q6_K, IQ4_XS and
 * i8_256 the offset is part of the format. In Q4_K and Q5_K it is not, so sum_s (offset * scale_s) * xsum_s is
 * added back to isum, with four vpdpwssd per superblock. msum takes another four.
 *
 * One or two tokens take another way: gemm_rows_256_avx512.h.
 */
#include "kernels/x86/gemm_rows_256_avx512.h"

enum {
    N_SUMS = 16,           /* entries of kern_act.sum per superblock */
    L2_BUDGET = 640 << 10, /* activations that stay in L2 while all panels use them */
    MIN_CHUNK = 64         /* minimum tokens per chunk, so that unpacking pays off */
};

typedef struct format_256 {
    int block_bytes;
    int group;       /* columns that share a scale: 16 or 32 */
    int min_pairs;   /* pairs of minima: 0, 4 (a minimum per 32 columns) or 8 (per 16) */
    bool add_offset; /* the format has no offset, but the sums use one; add it back */
    bool wide;       /* the sum of a piece needs more than 16 bits */
    int dot, offset; /* codes of a piece; its sum starts at -offset * (sum of its activations) */
} format_256;

static const format_256 format_q2_k = {sizeof(quant_q2_k), 16, 8, false, false, 16, 0};
static const format_256 format_q3_k = {sizeof(quant_q3_k), 16, 0, false, false, 16, 4};
static const format_256 format_q4_k = {sizeof(quant_q4_k), 32, 4, true, false, 32, 8};
static const format_256 format_q5_k = {sizeof(quant_q5_k), 32, 4, true, false, 16, 16};
static const format_256 format_q6_k = {sizeof(quant_q6_k), 16, 0, false, false, 8, 32};
static const format_256 format_iq4_xs = {sizeof(quant_iq4_xs), 32, 0, false, true, 32, 128};
static const format_256 format_i8_256 = {sizeof(quant_i8_256), 16, 0, false, true, 16, 128};

/* One superblock of 16 rows, unpacked. */
typedef struct slab_256 {
    __m512i q[SLAB_VECTORS];
    head_256 head;
    __m512i offset[4]; /* pairs of offset * scale */
} slab_256;

/* Activations of consecutive tokens at one superblock. Strides are between tokens. */
typedef struct tile_x {
    const int8_t *q; /* [256] */
    /* [256 / dot]: start value of the sum of each piece. Both pointers are equal, but the compiler
     * must not know that: it would replace the second load by a register copy, and a load port is
     * idle. */
    const int32_t *start[GROUPS];
    const int16_t *sum; /* [2 * min_pairs]: sums that are multiplied by the minima */
    const float *d;
    size_t q_stride, start_stride, sum_stride, d_stride;
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

/* sum[g][t] = sum of piece s: `dot` codes of the rows of group g, times those of token t. */
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

/* isum += offsets * sums, msum = minima * sums. The loops interleave all outputs of the tile, to
 * hide the latency of vpdpwssd. */
ALWAYS_INLINE void add_minima(const format_256 *f, const slab_256 *w, const tile_x *x, int nt,
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
                msum[g][t] = _mm512_dpwssd_epi32(before, w[g].head.min[p], pair);
                if (f->add_offset)
                    isum[g][t] = _mm512_dpwssd_epi32(isum[g][t], w[g].offset[p], pair);
            }
        }
    }
}

/* One chain step of 16 outputs. */
ALWAYS_INLINE __m512 chain_step(const format_256 *f, const head_256 *head, __m512 dx, __m512i isum,
                                __m512i msum, __m512 acc)
{
    acc = _mm512_fmadd_ps(_mm512_mul_ps(head->d, dx), _mm512_cvtepi32_ps(isum), acc);
    if (f->min_pairs > 0)
        acc = _mm512_fnmadd_ps(_mm512_mul_ps(head->dmin, dx), _mm512_cvtepi32_ps(msum), acc);
    return acc;
}

/* One superblock of a panel, nt tokens. f and nt are compile-time constants after inlining. */
ALWAYS_INLINE void gemm_tile(const format_256 *f, const slab_256 *w, const tile_x *x, int nt,
                             bool prefetch, const tile_y *out)
{
    __m512i isum[GROUPS][TILE], sum[GROUPS][TILE], msum[GROUPS][TILE];
    EACH(t, nt)
    {
        isum[0][t] = isum[1][t] = _mm512_setzero_si512();
    }
    for (int s = 0; s < SLAB_COLS / f->dot; s++) {
        const int group = s * f->dot / f->group;
        sum_piece(f, w, x, nt, s, sum);
        if (prefetch)
            prefetch_next_lines(out->prefetch);
        EACH(t, nt)
        {
            EACH(g, GROUPS)
            {
                isum[g][t] = add_scaled(f, isum[g][t], sum[g][t], w[g].head.scale[group]);
            }
        }
    }
    add_minima(f, w, x, nt, isum, msum);
    EACH(t, nt)
    {
        const __m512 dx = _mm512_set1_ps(x->d[t * x->d_stride]);
        EACH(g, GROUPS)
        {
            float *chain = out->chains + t * PANEL + g * LANES;
            const __m512 acc = out->first ? _mm512_setzero_ps() : _mm512_load_ps(chain);
            const __m512i m = f->min_pairs > 0 ? msum[g][t] : _mm512_setzero_si512();
            _mm512_store_ps(chain, chain_step(f, &w[g].head, dx, isum[g][t], m, acc));
        }
    }
}

/* One superblock of a panel, all tokens of x. */
ALWAYS_INLINE void gemm_tiles(const format_256 *f, const slab_256 *w, tile_x x, tile_y y)
{
    for (size_t n; x.n > 0; x.n -= n) {
        n = x.n >= MANY ? TILE : next_tile(x.n);
        switch (x.n >= MANY ? MANY : n) {
        case 1: gemm_tile(f, w, &x, 1, true, &y); break;
        case 2: gemm_tile(f, w, &x, 2, true, &y); break;
        case 3: gemm_tile(f, w, &x, 3, true, &y); break;
        case 4: gemm_tile(f, w, &x, 4, true, &y); break;
        case 5: gemm_tile(f, w, &x, 5, true, &y); break;
        case TILE: gemm_tile(f, w, &x, TILE, true, &y); break;
        default: gemm_tile(f, w, &x, TILE, false, &y); break;
        }
        x.q += n * x.q_stride;
        x.start[0] += n * x.start_stride;
        x.start[1] += n * x.start_stride;
        x.sum += n * x.sum_stride;
        x.d += n * x.d_stride;
        y.chains += n * PANEL;
        prefetch_outputs(&y.out, n);
    }
}

/* Context of store_codes: destination, and prefetch to advance. */
typedef struct slab_sink {
    __m512i *q;
    prefetch_ahead *prefetch;
} slab_sink;

ALWAYS_INLINE void store_codes(void *to, int at, const __m512i q[4])
{
    const slab_sink *slab = to;
    prefetch_next_lines(slab->prefetch);
    EACH(i, 4)
    {
        slab->q[at / 4 + i] = q[i];
    }
}

ALWAYS_INLINE void slab_unpack(const format_256 *f, head_256_fn *head, codes_256_fn *codes,
                               const uint8_t *block, size_t stride, slab_256 *out,
                               prefetch_ahead *prefetch)
{
    slab_sink to = {out->q, prefetch};
    head(block, stride, &out->head);
    codes(block, stride, store_codes, &to);
    if (!f->add_offset)
        return;
    EACH(p, 4)
    {
        const __m512i *scale = out->head.scale + 2 * p;
        const __m512i pair = _mm512_or_si512(scale[0], _mm512_slli_epi32(scale[1], 16));
        out->offset[p] = _mm512_mullo_epi16(pair, _mm512_set1_epi16((short)f->offset));
    }
}

/* ---- activations ---- */

/* Derived from the activations, per token and superblock. */
typedef struct prepared {
    int32_t *start; /* [256 / dot] */
    int16_t *sum;   /* [8]: sums of 32 codes, for four pairs of minima */
} prepared;

/* -offset * (sum of 8 consecutive codes). */
static void starts_of_8(const int8_t *q, int offset, int32_t *start)
{
    for (int i = 0; i < SLAB_COLS / 64; i++) {
        const __m512i codes = _mm512_loadu_si512(q + 64 * i);
        const __m512i four =
            _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8((char)offset), codes);
        const __m512i eight = _mm512_add_epi32(four, _mm512_srli_epi64(four, 32));
        const __m256i minus =
            _mm256_sub_epi32(_mm256_setzero_si256(), _mm512_cvtepi64_epi32(eight));
        _mm256_storeu_si256((__m256i *)(start + 8 * i), minus);
    }
}

static void chunk_prepare_block(const format_256 *f, const int8_t *q, const int16_t *sum,
                                prepared out)
{
    const __m256i sums = _mm256_loadu_si256((const __m256i *)sum);
    const __m256i minus_offset = _mm256_set1_epi16((short)-f->offset);
    if (f->offset != 0 && f->dot == 8) {
        starts_of_8(q, f->offset, out.start);
    } else if (f->offset != 0 && f->dot == 16) {
        const __m512i wide = _mm512_cvtepi16_epi32(sums);
        _mm512_storeu_si512(out.start, _mm512_mullo_epi32(wide, _mm512_set1_epi32(-f->offset)));
    } else if (f->offset != 0) {
        _mm256_storeu_si256((__m256i *)out.start, _mm256_madd_epi16(sums, minus_offset));
    }
    if (f->min_pairs == 4) {
        const __m256i sums_of_32 = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
        _mm_storeu_si128((__m128i *)out.sum, _mm256_cvtepi32_epi16(sums_of_32));
    }
}

/* ---- panels ---- */

/* The functions of a format, specialised by inlining. */
typedef struct kernel_256 {
    const format_256 *f;
    void (*slab_unpack)(const uint8_t *block, size_t stride, slab_256 *out,
                        prefetch_ahead *prefetch);
    void (*gemm_tiles)(const slab_256 *w, const tile_x *x, const tile_y *y);
} kernel_256;

typedef struct workspace {
    slab_256 slab[GROUPS];
    uint8_t stage[LANES * MAX_BLOCK_BYTES]; /* one block of each of the last rows */
    _Alignas(64) unsigned char buffer[];    /* accumulators, prepared activations */
} workspace;

/* Tokens t0 .. t0+n-1 with their prepared activations. */
typedef struct chunk {
    size_t t0, n;
    float *chains; /* [n][PANEL] */
    prepared x;    /* [n][cols / 256] */
} chunk;

static size_t start_bytes(const format_256 *f)
{
    return (size_t)(SLAB_COLS / f->dot) * sizeof(int32_t);
}

/* Tokens per chunk: as many as stay in the L2 cache while all panels use them, and fit in
 * scratch. */
static size_t chunk_tokens(const format_256 *f, size_t cols)
{
    const size_t prepared_bytes =
        cols / SLAB_COLS * (start_bytes(f) + N_SUMS / 2 * sizeof(int16_t));
    const size_t chain_bytes = PANEL * sizeof(float);
    const size_t fits = (KERN_SCRATCH_BYTES - sizeof(workspace)) / (prepared_bytes + chain_bytes);
    const size_t cached = L2_BUDGET / (cols + prepared_bytes + chain_bytes);
    const size_t wanted = cached > MIN_CHUNK ? cached : MIN_CHUNK;
    return wanted < fits ? wanted : fits;
}

static void chunk_prepare(const format_256 *f, const kern_act *x, chunk *c, unsigned char *buffer)
{
    const size_t blocks = x->cols / SLAB_COLS;
    c->chains = (float *)buffer;
    c->x.start = (int32_t *)(c->chains + c->n * PANEL);
    c->x.sum = (int16_t *)((unsigned char *)c->x.start + c->n * blocks * start_bytes(f));
    for (size_t i = 0; i < c->n * blocks; i++) {
        const size_t from = c->t0 * blocks + i;
        const prepared to = {c->x.start + i * (size_t)(SLAB_COLS / f->dot),
                             c->x.sum + i * N_SUMS / 2};
        chunk_prepare_block(f, x->q + from * SLAB_COLS, x->sum + from * N_SUMS, to);
    }
}

/* The activations of the chunk at superblock b. */
static tile_x activations_at(const format_256 *f, const kern_act *x, const chunk *c, size_t b)
{
    const size_t blocks = x->cols / SLAB_COLS;
    const size_t from = c->t0 * blocks + b;
    const size_t n_pieces = (size_t)(SLAB_COLS / f->dot);
    const bool raw = f->min_pairs == N_SUMS / 2;
    const size_t n_sums = raw ? N_SUMS : N_SUMS / 2;
    const int32_t *start = c->x.start + b * n_pieces;
    return (tile_x){.q = x->q + from * SLAB_COLS,
                    .start = {start, start},
                    .sum = raw ? x->sum + from * n_sums : c->x.sum + b * n_sums,
                    .d = x->d + from,
                    .q_stride = x->cols,
                    .start_stride = blocks * n_pieces,
                    .sum_stride = blocks * n_sums,
                    .d_stride = blocks,
                    .n = c->n};
}

/* Unpacks one superblock of the 16 rows of group g. */
static void slab_unpack_rows(const kernel_256 *k, const uint8_t *w, size_t stride, size_t rows,
                             size_t g, workspace *ws, prefetch_ahead *prefetch)
{
    const size_t bytes = (size_t)k->f->block_bytes;
    const uint8_t *block = w + g * LANES * stride;
    const size_t left = rows > g * LANES ? rows - g * LANES : 0;
    if (left >= LANES)
        k->slab_unpack(block, stride, &ws->slab[g], prefetch);
    else
        k->slab_unpack(stage_rows(block, stride, left, bytes, ws->stage), bytes, &ws->slab[g],
                       prefetch);
}

/* Rows r0 .. r0+31 (fewer at the end), all tokens of a chunk. */
static void gemm_panel_256_avx512(const kern_gemm_args *a, const kernel_256 *k, const chunk *c,
                                  size_t r0)
{
    workspace *ws = a->scratch;
    const size_t rows = a->rows - r0, bytes = (size_t)k->f->block_bytes;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    float *y0 = a->y + c->t0 * a->y_stride + r0;
    /* Prefetch of the next panel. Unpacking takes about as long as a tile, so both prefetch equal
     * shares. With many tokens unpacking alone has enough time to prefetch everything. */
    const bool many = c->n >= MANY;
    const size_t share = PANEL * bytes / (many ? 1 : tile_count(c->n) + 1);
    prefetch_ahead prefetch = prefetch_from(w + PANEL * a->row_bytes);
    for (size_t b = 0; b < a->x->cols / SLAB_COLS; b++, w += bytes) {
        prefetch.step = share / (GROUPS * SLAB_COLS / 16);
        for (size_t g = 0; g < GROUPS; g++)
            slab_unpack_rows(k, w, a->row_bytes, rows, g, ws, &prefetch);
        prefetch.step = many ? 0 : share / (size_t)(SLAB_COLS / k->f->dot);
        const tile_x x = activations_at(k->f, a->x, c, b);
        const tile_y y = {.chains = c->chains,
                          .first = b == 0,
                          .prefetch = &prefetch,
                          .out = {b + 1 == a->x->cols / SLAB_COLS ? y0 : NULL, a->y_stride}};
        k->gemm_tiles(ws->slab, &x, &y);
    }
    panel_store(c->chains, c->n, y0, a->y_stride, rows);
}

static void gemm_256_avx512(const kern_gemm_args *a, const kernel_256 *k)
{
    workspace *ws = a->scratch;
    const size_t at_once = chunk_tokens(k->f, a->x->cols);
    for (size_t t0 = 0; t0 < a->x->n; t0 += at_once) {
        chunk c = {.t0 = t0, .n = a->x->n - t0 < at_once ? a->x->n - t0 : at_once};
        chunk_prepare(k->f, a->x, &c, ws->buffer);
        for (size_t r0 = 0; r0 < a->rows; r0 += PANEL)
            gemm_panel_256_avx512(a, k, &c, r0);
    }
}

#define GEMM(format, head)                                                                         \
    static void unpack_##format(const uint8_t *block, size_t stride, slab_256 *out,                \
                                prefetch_ahead *prefetch)                                          \
    {                                                                                              \
        slab_unpack(&format_##format, head, codes_##format, block, stride, out, prefetch);         \
    }                                                                                              \
    static void tiles_##format(const slab_256 *w, const tile_x *x, const tile_y *y)                \
    {                                                                                              \
        gemm_tiles(&format_##format, w, *x, *y);                                                   \
    }                                                                                              \
    static void one_##format(const kern_gemm_args *a)                                              \
    {                                                                                              \
        gemm_along_rows(&rows_##format, 1, a);                                                     \
    }                                                                                              \
    static void two_##format(const kern_gemm_args *a)                                              \
    {                                                                                              \
        gemm_along_rows(&rows_##format, 2, a);                                                     \
    }                                                                                              \
    void k_gemm_##format##_avx512(const kern_gemm_args *a)                                         \
    {                                                                                              \
        static const kernel_256 kernel = {&format_##format, unpack_##format, tiles_##format};      \
        if (!rows_fit(a->x))                                                                       \
            gemm_256_avx512(a, &kernel);                                                           \
        else if (a->x->n == 1)                                                                     \
            one_##format(a);                                                                       \
        else                                                                                       \
            two_##format(a);                                                                       \
    }

GEMM(q2_k, head_q2_k)
GEMM(q3_k, head_q3_k)
GEMM(q4_k, head_q4_k)
GEMM(q5_k, head_q4_k)
GEMM(q6_k, head_q6_k)
GEMM(iq4_xs, head_iq4_xs)
GEMM(i8_256, head_i8_256)
