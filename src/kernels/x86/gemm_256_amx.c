/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_256_amx.c - products with superblock formats, by tiles.
 *
 * The scale is multiplied into the code, v = scale * q, so that a superblock needs no
 * steps between its groups: isum = sum v x over 256 columns is all tile products. Where v
 * has more than eight bits it is cut into two planes of bytes. How depends on what makes
 * them with the fewest instructions:
 *
 *     format   scale         q             v               planes
 *     Q2_K       0 .. 15       0 .. 3        0 .. 45       v
 *     Q4_K       0 .. 63       0 .. 15       0 .. 945      (scale / 8) q, (scale mod 8) q   <= 105
 *     Q5_K       0 .. 63       0 .. 31       0 .. 1,953    (scale / 8) q, (scale mod 8) q   <= 217
 *     Q3_K     -32 .. 31      -4 .. 3     -124 .. 128      -v
 *     Q6_K    -128 .. 127    -32 .. 31  -4,064 .. 4,096    v / 256 rounded down, v mod 256
 *     IQ4_XS   -32 .. 31    -127 .. 113 -3,937 .. 4,064    v / 256 rounded down, v mod 256
 *
 * In the first three a 16-bit multiplication makes two bytes at once, since none of them
 * overflows. Their planes are unsigned bytes, and so is v mod 256; -v and v / 256 are signed.
 * Q3_K reaches 128, which is no signed byte, but not -128: its sum changes its sign at the
 * end. With |x| <= 127 a sum over a plane is at most 256 * 255 * 127 = 8,290,560; that over
 * the first is at most 256 * 217 * 127 = 7,055,104 in Q5_K, where it counts eightfold, and
 * 256 * 16 * 127 = 520,192 in Q6_K, where it counts 256-fold: all far inside 32 bits.
 *
 * A step has four products, so that the additions of each need not wait for
 * themselves: the two groups by the two planes or, with one plane, by the two halves of
 * the superblock. The minima meet sums of activations with vpdpwssd, four or eight times
 * for 16 outputs: as a plane of their own they would cost the tiles half as much again.
 */
#include "kernels/x86/gemm_panel_amx.h"
#include "kernels/x86/gemm_unpack_256_avx512.h"

enum {
    N_SUMS = 16,                            /* entries of kern_act.sum in a superblock */
    TILE_VECTORS = TILE_ROWS,               /* of a slab */
    SLAB_TILES = SLAB_COLS / TILE_ROW_BYTES /* in a plane of a group */
};

typedef struct format_256 {
    int block_bytes;
    int group;     /* columns that share a scale: 16 or 32 */
    int offset;    /* codes as unpacked are q + offset; if not 0, v is signed */
    int min_pairs; /* pairs of minima: 0, 4 (a minimum per 32 columns) or 8 (per 16) */
    int shift;     /* the first plane counts 2^shift; 0: there is one plane */
} format_256;

static const format_256 format_q2_k = {sizeof(quant_q2_k), 16, 0, 8, 0};
static const format_256 format_q3_k = {sizeof(quant_q3_k), 16, 4, 0, 0};
static const format_256 format_q4_k = {sizeof(quant_q4_k), 32, 0, 4, 3};
static const format_256 format_q5_k = {sizeof(quant_q5_k), 32, 0, 4, 3};
static const format_256 format_q6_k = {sizeof(quant_q6_k), 16, 32, 0, 8};
static const format_256 format_iq4_xs = {sizeof(quant_iq4_xs), 32, 128, 0, 8};

/* A superblock of a group of rows: the first plane, then the second if there is one. */
typedef struct slab_256 {
    __m512i q[2 * SLAB_VECTORS];
    head_256 head;
} slab_256;

/* ---- unpacking ---- */

/* The plane is -v. */
ALWAYS_INLINE bool is_negative(const format_256 *f)
{
    return f->offset != 0 && f->shift == 0;
}

typedef struct unpacking {
    const format_256 *f;
    slab_256 *out;
} unpacking;

/* (a & mask) | (b & ~mask) */
ALWAYS_INLINE __m512i choose(int mask, __m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi32(_mm512_set1_epi32(mask), a, b, 0xCA);
}

/* The scale of columns at .. at+15 in both halves of each lane. */
ALWAYS_INLINE __m512i two_scales(const unpacking *u, int at)
{
    const __m512i scale = u->out->head.scale[at / u->f->group];
    return choose(0xFFFF, scale, _mm512_slli_epi32(scale, 16));
}

/* 16 columns of a format without signs: bytes that stay bytes when multiplied in pairs. */
ALWAYS_INLINE void store_unsigned(void *to, int at, const __m512i q[4])
{
    const unpacking *u = to;
    __m512i *first = u->out->q + at / 4, *second = first + SLAB_VECTORS;
    const __m512i scale = two_scales(u, at);
    const __m512i eighth = _mm512_srli_epi16(scale, 3);
    const __m512i rest = _mm512_and_si512(scale, _mm512_set1_epi16(7));
    EACH(i, 4)
    {
        if (u->f->shift == 0) {
            first[i] = _mm512_mullo_epi16(q[i], scale);
        } else {
            first[i] = _mm512_mullo_epi16(q[i], eighth);
            second[i] = _mm512_mullo_epi16(q[i], rest);
        }
    }
}

/* 16 columns of a format with signs: v of the even and of the odd bytes, in 16 bits, and
 * their lower and upper halves. */
ALWAYS_INLINE void store_signed(void *to, int at, const __m512i q[4])
{
    const unpacking *u = to;
    __m512i *first = u->out->q + at / 4, *second = first + SLAB_VECTORS;
    const __m512i scale = two_scales(u, at);
    const __m512i for_even = _mm512_and_si512(scale, _mm512_set1_epi16(0xFF));
    const __m512i for_odd = _mm512_slli_epi16(scale, 8);
    const __m512i none = _mm512_mullo_epi16(scale, _mm512_set1_epi16((short)u->f->offset));
    EACH(i, 4)
    {
        const __m512i even = _mm512_sub_epi16(_mm512_maddubs_epi16(q[i], for_even), none);
        const __m512i odd = _mm512_sub_epi16(_mm512_maddubs_epi16(q[i], for_odd), none);
        const __m512i lower = choose(0x00FF00FF, even, _mm512_slli_epi16(odd, 8));
        if (u->f->shift == 0) {
            first[i] = lower;
        } else {
            first[i] = choose(0x00FF00FF, _mm512_srli_epi16(even, 8), odd);
            second[i] = lower;
        }
    }
}

ALWAYS_INLINE void unpack(const format_256 *f, head_256_fn *head, codes_256_fn *codes,
                          const uint8_t *block, size_t stride, slab_256 *out)
{
    unpacking u = {f, out};
    head(block, stride, &out->head);
    if (is_negative(f))
        EACH(s, SLAB_COLS / f->group)
        {
            out->head.scale[s] = _mm512_sub_epi32(_mm512_setzero_si512(), out->head.scale[s]);
        }
    codes(block, stride, f->offset == 0 ? store_unsigned : store_signed, &u);
}

/* ---- tiles ---- */

/* A macro, since the number of a tile is a digit. */
#define MULTIPLY(is_signed, c, a, b)                                                               \
    do {                                                                                           \
        if (is_signed)                                                                             \
            tile_dp_ss(c, a, b);                                                                   \
        else                                                                                       \
            tile_dp_su(c, a, b);                                                                   \
    } while (0)

/* Steps of a superblock: one for each of its tiles or, with one plane, for two of them. */
ALWAYS_INLINE int n_steps(const format_256 *f)
{
    return f->shift == 0 ? SLAB_TILES / 2 : SLAB_TILES;
}

ALWAYS_INLINE void begin_products(void)
{
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
}

/* Step k of the products of a superblock with 16 tokens: product 2p + g is that of group g
 * with plane p, or with half p of the only plane. w0 and w1 are the groups' tiles k. */
ALWAYS_INLINE void multiply_step(const format_256 *f, int k, const __m512i *w0, const __m512i *w1,
                                 const int8_t *x, size_t x_stride)
{
    enum { ROW = TILE_ROW_BYTES, HALF = SLAB_TILES / 2 };
    const bool halves = f->shift == 0;
    const int second = halves ? HALF * TILE_VECTORS : SLAB_VECTORS;
    tile_load(4, x + k * ROW, x_stride);
    tile_load(6, w0, ROW);
    MULTIPLY(f->offset != 0, 0, 4, 6);
    tile_load(7, w1, ROW);
    MULTIPLY(f->offset != 0, 1, 4, 7);
    tile_load(6, w0 + second, ROW);
    if (halves) {
        tile_load(5, x + (HALF + k) * ROW, x_stride);
        MULTIPLY(f->offset != 0, 2, 5, 6);
        tile_load(7, w1 + second, ROW);
        MULTIPLY(f->offset != 0, 3, 5, 7);
    } else {
        MULTIPLY(false, 2, 4, 6);
        tile_load(7, w1 + second, ROW);
        MULTIPLY(false, 3, 4, 7);
    }
}

static inline void end_products(products *out)
{
    enum { ROW = TILE_ROW_BYTES };
    tile_store(0, out->sum[0], ROW);
    tile_store(1, out->sum[1], ROW);
    tile_store(2, out->sum[2], ROW);
    tile_store(3, out->sum[3], ROW);
}

/* ---- chains ---- */

/* What a superblock of the activations has besides codes, of 16 tokens; strides are
 * between tokens. */
typedef struct tile_x {
    const int16_t *sum; /* [2 * min_pairs]: sums that meet the minima */
    const float *d;
    size_t sum_stride, d_stride;
} tile_x;

/* isum of 16 rows from their two products. */
ALWAYS_INLINE __m512i whole_sum(const format_256 *f, const int32_t *first, const int32_t *second)
{
    const __m512i a = _mm512_load_si512(first), b = _mm512_load_si512(second);
    const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(a, (unsigned)f->shift), b);
    return is_negative(f) ? _mm512_sub_epi32(_mm512_setzero_si512(), sum) : sum;
}

/* What the chains of a group need of its weights, in registers. */
typedef struct chain_w {
    __m512i min[8];
    __m512 d, dmin;
} chain_w;

ALWAYS_INLINE chain_w load_weights(const format_256 *f, const head_256 *head)
{
    chain_w w = {.d = head->d, .dmin = head->dmin};
    EACH(i, f->min_pairs)
    {
        w.min[i] = head->min[i];
    }
    return w;
}

/* What the chains of a tile take in: the last `n` of its tokens, whose x and chains these are. */
typedef struct taking {
    const products *p;
    tile_x x;
    size_t n;
    bool first;
    float (*chains)[PANEL];
} taking;

/* One step of the chains of a panel, for those tokens of a tile that are from .. to-1 in it. */
ALWAYS_INLINE void advance(const format_256 *f, const chain_w w[GROUPS], const taking *k,
                           size_t from, size_t to)
{
    const size_t skipped = TOKENS - k->n;
    for (size_t at = from > skipped ? from : skipped; at < to; at++) {
        const size_t t = at - skipped;
        const __m512 dx = _mm512_set1_ps(k->x.d[t * k->x.d_stride]);
        __m512i msum[GROUPS] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
        EACH(i, f->min_pairs)
        {
            const __m512i pair = set1_at(k->x.sum + t * k->x.sum_stride + 2 * i);
            msum[0] = _mm512_dpwssd_epi32(msum[0], w[0].min[i], pair);
            msum[1] = _mm512_dpwssd_epi32(msum[1], w[1].min[i], pair);
        }
        EACH(g, GROUPS)
        {
            const __m512i isum = whole_sum(f, k->p->sum[g][at], k->p->sum[GROUPS + g][at]);
            float *chain = k->chains[t] + g * LANES;
            __m512 acc = k->first ? _mm512_setzero_ps() : _mm512_load_ps(chain);
            acc = _mm512_fmadd_ps(_mm512_mul_ps(w[g].d, dx), _mm512_cvtepi32_ps(isum), acc);
            if (f->min_pairs > 0)
                acc = _mm512_fnmadd_ps(_mm512_mul_ps(w[g].dmin, dx), _mm512_cvtepi32_ps(msum[g]),
                                       acc);
            _mm512_store_ps(chain, acc);
        }
    }
}

/* ---- panels ---- */

typedef struct workspace {
    products last; /* of the tile that the chains take in */
    slab_256 slab[GROUPS];
    uint8_t stage[LANES * 256]; /* of the last rows: a block of each */
    unsigned char rest[];       /* of KERN_SCRATCH_BYTES: chains, sums of 32 activations */
} workspace;
_Static_assert(sizeof(workspace) % 64 == 0 && sizeof(workspace) <= MAX_WORKSPACE,
               "chains are on cache lines, and there is room for them");

/* A call, or the part of it that a run of tokens is. */
typedef struct work {
    const kern_gemm_args *a;
    workspace *ws;
    token_run c;
    float (*chains)[PANEL]; /* [c.n] */
    int16_t *sums;          /* [c.n][cols / 256][8], for four pairs of minima */
} work;

/* Superblock b from token c.t0 + t on. */
static tile_x view_x(const format_256 *f, const work *k, size_t t, size_t b)
{
    const kern_act *x = k->a->x;
    const size_t blocks = x->cols / SLAB_COLS;
    const size_t from = (k->c.t0 + t) * blocks + b;
    if (f->min_pairs == 4)
        return (tile_x){k->sums + (t * blocks + b) * N_SUMS / 2, x->d + from, blocks * N_SUMS / 2,
                        blocks};
    return (tile_x){x->sum + from * N_SUMS, x->d + from, blocks * N_SUMS, blocks};
}

static taking take_in(const format_256 *f, const work *k, size_t b, size_t tile)
{
    const size_t t = tile * TOKENS;
    return (taking){&k->ws->last, view_x(f, k, t, b), new_tokens(&k->c, tile), b == 0,
                    k->chains + t};
}

/* Superblock b of a panel against all tokens of a run. Between the steps of tile i the
 * chains take in tile i - 1, a few tokens at a time: only what is near each other in the
 * program is done at once. */
ALWAYS_INLINE void tiles(const format_256 *f, const work *k, size_t b, needed_soon *soon)
{
    const kern_act *x = k->a->x;
    workspace *ws = k->ws;
    const chain_w w[GROUPS] = {load_weights(f, &ws->slab[0].head),
                               load_weights(f, &ws->slab[1].head)};
    const size_t n_tiles = n_token_tiles(&k->c), share = TOKENS / (size_t)n_steps(f);
    taking before = {.n = 0};
    for (size_t i = 0; i < n_tiles; i++) {
        const int8_t *q = x->q + tile_start(&k->c, i) * x->cols + b * SLAB_COLS;
        const __m512i *w0 = ws->slab[0].q, *w1 = ws->slab[1].q;
        begin_products();
        for (int step = 0; step < n_steps(f); step++) {
            multiply_step(f, step, w0, w1, q, x->cols);
            advance(f, w, &before, (size_t)step * share, (size_t)(step + 1) * share);
            w0 += TILE_VECTORS;
            w1 += TILE_VECTORS;
            /* Keeps the compiler from holding the addresses of all tiles over the calls: it
             * has not so many registers. */
            __asm__("" : "+r"(w0), "+r"(w1));
        }
        end_products(&ws->last);
        prefetch_soon(soon, &k->c, i, n_tiles);
        before = take_in(f, k, b, i);
    }
    advance(f, w, &before, 0, TOKENS);
}

/* The functions of a format, with everything inlined. */
typedef struct kernel_256 {
    const format_256 *f;
    void (*unpack)(const uint8_t *block, size_t stride, slab_256 *out);
    void (*tiles)(const work *k, size_t b, needed_soon *soon);
    kern_gemm_fn *avx512;
} kernel_256;

/* One superblock of the 16 rows of group g. */
static void unpack_group(const kernel_256 *kernel, const uint8_t *w, size_t stride, size_t rows,
                         size_t g, workspace *ws)
{
    const size_t bytes = (size_t)kernel->f->block_bytes;
    const uint8_t *block = w + g * LANES * stride;
    const size_t left = rows > g * LANES ? rows - g * LANES : 0;
    if (left >= LANES)
        kernel->unpack(block, stride, &ws->slab[g]);
    else
        kernel->unpack(stage_rows(block, stride, left, bytes, ws->stage), bytes, &ws->slab[g]);
}

/* Rows r0 .. r0+31 (fewer at the end) for a run of tokens. */
static void multiply_panel(const kernel_256 *kernel, const work *k, size_t r0)
{
    const kern_gemm_args *a = k->a;
    const size_t bytes = (size_t)kernel->f->block_bytes, blocks = a->x->cols / SLAB_COLS;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    float *y = a->y + k->c.t0 * a->y_stride + r0;
    needed_soon soon = {w + PANEL * a->row_bytes, PANEL * bytes, {NULL, a->y_stride}};
    for (size_t b = 0; b < blocks; b++, w += bytes, soon.weights += soon.weight_bytes) {
        for (size_t g = 0; g < GROUPS; g++)
            unpack_group(kernel, w, a->row_bytes, a->rows - r0, g, k->ws);
        if (b + 1 == blocks)
            soon.out.y = y;
        kernel->tiles(k, b, &soon);
    }
    store_chains(k->chains[0], k->c.n, y, a->y_stride, a->rows - r0);
}

/* Sums of 32 activations from those of 16. */
static void prepare(const work *k)
{
    const size_t blocks = k->a->x->cols / SLAB_COLS;
    const int16_t *from = k->a->x->sum + k->c.t0 * blocks * N_SUMS;
    for (size_t i = 0; i < k->c.n * blocks; i++) {
        const __m256i sums = _mm256_loadu_si256((const __m256i *)(from + i * N_SUMS));
        const __m256i sums_of_32 = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
        _mm_storeu_si128((__m128i *)(k->sums + i * N_SUMS / 2), _mm256_cvtepi32_epi16(sums_of_32));
    }
}

static void gemm(const kern_gemm_args *a, const kernel_256 *kernel)
{
    if (too_few_or_too_wide(a->x)) {
        kernel->avx512(a);
        return;
    }
    const size_t cols = a->x->cols, room = KERN_SCRATCH_BYTES - sizeof(workspace);
    const size_t kept = PANEL * sizeof(float) + cols / SLAB_COLS * N_SUMS / 2 * sizeof(int16_t);
    const size_t at_once = tokens_at_once(a->x->n, cols + kept, kept, room);
    work k = {.a = a, .ws = a->scratch};
    k.chains = (float(*)[PANEL])k.ws->rest;
    k.sums = (int16_t *)(k.chains + at_once);
    configure_tiles();
    for (k.c.t0 = 0; k.c.t0 < a->x->n; k.c.t0 += at_once) {
        k.c.n = a->x->n - k.c.t0 < at_once ? a->x->n - k.c.t0 : at_once;
        if (kernel->f->min_pairs == 4)
            prepare(&k);
        for (size_t r0 = 0; r0 < a->rows; r0 += PANEL)
            multiply_panel(kernel, &k, r0);
    }
    tile_release();
}

#define GEMM(format, head)                                                                         \
    static void unpack_##format(const uint8_t *block, size_t stride, slab_256 *out)                \
    {                                                                                              \
        unpack(&format_##format, head, codes_##format, block, stride, out);                        \
    }                                                                                              \
    static void tiles_##format(const work *k, size_t b, needed_soon *soon)                         \
    {                                                                                              \
        tiles(&format_##format, k, b, soon);                                                       \
    }                                                                                              \
    void k_gemm_##format##_amx(const kern_gemm_args *a)                                            \
    {                                                                                              \
        static const kernel_256 kernel = {&format_##format, unpack_##format, tiles_##format,       \
                                          k_gemm_##format##_avx512};                               \
        gemm(a, &kernel);                                                                          \
    }

GEMM(q2_k, head_q2_k)
GEMM(q3_k, head_q3_k)
GEMM(q4_k, head_q4_k)
GEMM(q5_k, head_q4_k)
GEMM(q6_k, head_q6_k)
GEMM(iq4_xs, head_iq4_xs)
