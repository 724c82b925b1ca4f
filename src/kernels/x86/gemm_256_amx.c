/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_256_amx.c - GEMM with superblock formats, AMX int8 tiles.
 *
 * The scale is multiplied into the code, v = scale * q. So isum = sum v x over 256 columns consists
 * of tile products only. If v needs more than eight bits, it is divided into two planes of bytes,
 * in the way that needs the fewest instructions:
 *
 *     format   scale         q             v               planes
 *     Q2_K       0 .. 15       0 .. 3        0 .. 45       v
 *     Q4_K       0 .. 63       0 .. 15       0 .. 945      (scale / 8) q, (scale mod 8) q   <= 105
 *     Q5_K       0 .. 63       0 .. 31       0 .. 1,953    (scale / 8) q, (scale mod 8) q   <= 217
 *     Q3_K     -32 .. 31      -4 .. 3     -124 .. 128      -v
 *     Q6_K    -128 .. 127    -32 .. 31  -4,064 .. 4,096    v / 256 rounded down, v mod 256
 *     IQ4_XS   -32 .. 31    -127 .. 113 -3,937 .. 4,064    v / 256 rounded down, v mod 256
 *
 * In the first three formats one 16-bit multiplication computes two bytes at once, because no byte
 * overflows. Their planes are unsigned bytes, and so is v mod 256; -v and v / 256 are signed. v of
 * Q3_K can be 128, which is not a signed byte, but never -128; so the plane is -v and the sum is
 * negated at the end. With |x| <= 127 a sum over a plane is at most 256 * 255 * 127 = 8,290,560.
 * The sum over the first plane is at most 256 * 217 * 127 = 7,055,104 in Q5_K (weight 8) 520,192 in
 * Q6_K (weight 256). All fit in 32 bits.
 *
 * A step has four independent tile products, to hide the latency of the tile multiplication: two
 * groups by two planes or, with one plane, by the two halves of the superblock. The minima are
 * multiplied by the activation sums with vpdpwssd, four or eight per 16 outputs. A plane for the
 * minima would cost 50 % more tile products.
 */
#include "kernels/x86/gemm_panel_amx.h"
#include "kernels/x86/gemm_unpack_256_avx512.h"

enum {
    N_SUMS = 16,                            /* entries of kern_act.sum per superblock */
    TILE_VECTORS = TILE_ROWS,               /* vectors of a slab per tile */
    SLAB_TILES = SLAB_COLS / TILE_ROW_BYTES /* tiles per plane and group */
};

typedef struct format_256 {
    int block_bytes;
    int group;     /* columns that share a scale: 16 or 32 */
    int offset;    /* unpacked codes are q + offset; v is signed if not 0 */
    int min_pairs; /* pairs of minima: 0, 4 (a minimum per 32 columns) or 8 (per 16) */
    int shift;     /* the first plane has weight 2^shift; 0: one plane */
} format_256;

static const format_256 format_q2_k = {sizeof(quant_q2_k), 16, 0, 8, 0};
static const format_256 format_q3_k = {sizeof(quant_q3_k), 16, 4, 0, 0};
static const format_256 format_q4_k = {sizeof(quant_q4_k), 32, 0, 4, 3};
static const format_256 format_q5_k = {sizeof(quant_q5_k), 32, 0, 4, 3};
static const format_256 format_q6_k = {sizeof(quant_q6_k), 16, 32, 0, 8};
static const format_256 format_iq4_xs = {sizeof(quant_iq4_xs), 32, 128, 0, 8};

/* One superblock of 16 rows, unpacked: first plane, then the second (if any). */
typedef struct slab_256 {
    __m512i q[2 * SLAB_VECTORS];
    head_256 head;
} slab_256;

/* ---- unpacking ---- */

/* True if the plane holds -v. */
ALWAYS_INLINE bool plane_is_negated(const format_256 *f)
{
    return f->offset != 0 && f->shift == 0;
}

typedef struct unpacking {
    const format_256 *f;
    slab_256 *out;
} unpacking;

/* (a & mask) | (b & ~mask) */
ALWAYS_INLINE __m512i select_bits(int mask, __m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi32(_mm512_set1_epi32(mask), a, b, 0xCA);
}

/* The scale of columns at .. at+15 in both halves of each lane. */
ALWAYS_INLINE __m512i scale_pair(const unpacking *u, int at)
{
    const __m512i scale = u->out->head.scale[at / u->f->group];
    return select_bits(0xFFFF, scale, _mm512_slli_epi32(scale, 16));
}

/* Stores 16 columns of an unsigned format. 16-bit products of two bytes at once do not overflow. */
ALWAYS_INLINE void store_unsigned(void *to, int at, const __m512i q[4])
{
    const unpacking *u = to;
    __m512i *first = u->out->q + at / 4, *second = first + SLAB_VECTORS;
    const __m512i scale = scale_pair(u, at);
    const __m512i eighth = _mm512_srli_epi16(scale, 3);
    const __m512i low_scale = _mm512_and_si512(scale, _mm512_set1_epi16(7));
    EACH(i, 4)
    {
        if (u->f->shift == 0) {
            first[i] = _mm512_mullo_epi16(q[i], scale);
        } else {
            first[i] = _mm512_mullo_epi16(q[i], eighth);
            second[i] = _mm512_mullo_epi16(q[i], low_scale);
        }
    }
}

/* Stores 16 columns of a signed format: computes v of even and odd bytes in 16 bits, then separates
 * low and high bytes. */
ALWAYS_INLINE void store_signed(void *to, int at, const __m512i q[4])
{
    const unpacking *u = to;
    __m512i *first = u->out->q + at / 4, *second = first + SLAB_VECTORS;
    const __m512i scale = scale_pair(u, at);
    const __m512i for_even = _mm512_and_si512(scale, _mm512_set1_epi16(0xFF));
    const __m512i for_odd = _mm512_slli_epi16(scale, 8);
    const __m512i none = _mm512_mullo_epi16(scale, _mm512_set1_epi16((short)u->f->offset));
    EACH(i, 4)
    {
        const __m512i even = _mm512_sub_epi16(_mm512_maddubs_epi16(q[i], for_even), none);
        const __m512i odd = _mm512_sub_epi16(_mm512_maddubs_epi16(q[i], for_odd), none);
        const __m512i lower = select_bits(0x00FF00FF, even, _mm512_slli_epi16(odd, 8));
        if (u->f->shift == 0) {
            first[i] = lower;
        } else {
            first[i] = select_bits(0x00FF00FF, _mm512_srli_epi16(even, 8), odd);
            second[i] = lower;
        }
    }
}

ALWAYS_INLINE void slab_unpack(const format_256 *f, head_256_fn *head, codes_256_fn *codes,
                               const uint8_t *block, size_t stride, slab_256 *out)
{
    unpacking u = {f, out};
    head(block, stride, &out->head);
    if (plane_is_negated(f))
        EACH(s, SLAB_COLS / f->group)
        {
            out->head.scale[s] = _mm512_sub_epi32(_mm512_setzero_si512(), out->head.scale[s]);
        }
    codes(block, stride, f->offset == 0 ? store_unsigned : store_signed, &u);
}

/* ---- tiles ---- */

/* A macro, because a tile number is a literal digit. */
#define MULTIPLY(is_signed, c, a, b)                                                               \
    do {                                                                                           \
        if (is_signed)                                                                             \
            tile_dp_ss(c, a, b);                                                                   \
        else                                                                                       \
            tile_dp_su(c, a, b);                                                                   \
    } while (0)

/* Steps per superblock: one per tile of a plane or, with one plane, one per two tiles. */
ALWAYS_INLINE int n_steps(const format_256 *f)
{
    return f->shift == 0 ? SLAB_TILES / 2 : SLAB_TILES;
}

ALWAYS_INLINE void products_zero(void)
{
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
}

/* Step k of the products of a superblock with 16 tokens. Product 2p + g is group g with plane p, or
 * with half p of a single plane. w0 and w1 are tile k of the two groups. */
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

static inline void products_store(products *out)
{
    enum { ROW = TILE_ROW_BYTES };
    tile_store(0, out->sum[0], ROW);
    tile_store(1, out->sum[1], ROW);
    tile_store(2, out->sum[2], ROW);
    tile_store(3, out->sum[3], ROW);
}

/* ---- chains ---- */

/* Sums and scales of a superblock of the activations, 16 tokens. Strides are between tokens. */
typedef struct tile_x {
    const int16_t *sum; /* [2 * min_pairs]: sums that are multiplied by the minima */
    const float *d;
    size_t sum_stride, d_stride;
} tile_x;

/* isum of 16 rows from their two products. */
ALWAYS_INLINE __m512i combine_products(const format_256 *f, const int32_t *first,
                                       const int32_t *second)
{
    const __m512i a = _mm512_load_si512(first), b = _mm512_load_si512(second);
    const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(a, (unsigned)f->shift), b);
    return plane_is_negated(f) ? _mm512_sub_epi32(_mm512_setzero_si512(), sum) : sum;
}

/* Scales and minima of a group, in registers. */
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

/* Input of a chain step of one token tile. x and chains belong to its last `n` tokens. */
typedef struct chain_input {
    const products *p;
    tile_x x;
    size_t n;
    bool first;
    float (*chains)[PANEL];
} chain_input;

/* One chain step of a panel, for tokens from .. to-1 of a tile. */
ALWAYS_INLINE void chains_advance(const format_256 *f, const chain_w w[GROUPS],
                                  const chain_input *k, size_t from, size_t to)
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
            const __m512i isum = combine_products(f, k->p->sum[g][at], k->p->sum[GROUPS + g][at]);
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
    products last; /* products of the tile before */
    slab_256 slab[GROUPS];
    uint8_t stage[LANES * 256]; /* one block of each of the last rows */
    unsigned char buffer[];     /* up to KERN_SCRATCH_BYTES: accumulators, sums of 32 activations */
} workspace;
_Static_assert(sizeof(workspace) % 64 == 0 && sizeof(workspace) <= MAX_WORKSPACE,
               "accumulators are aligned to cache lines and fit");

/* Context of a call, for one chunk of tokens. */
typedef struct work {
    const kern_gemm_args *a;
    workspace *ws;
    token_chunk c;
    float (*chains)[PANEL]; /* [c.n] */
    int16_t *sums;          /* [c.n][cols / 256][8], for four pairs of minima */
} work;

/* Activations at superblock b, from token c.t0 + t on. */
static tile_x activations_at(const format_256 *f, const work *k, size_t t, size_t b)
{
    const kern_act *x = k->a->x;
    const size_t blocks = x->cols / SLAB_COLS;
    const size_t from = (k->c.t0 + t) * blocks + b;
    if (f->min_pairs == 4)
        return (tile_x){k->sums + (t * blocks + b) * N_SUMS / 2, x->d + from, blocks * N_SUMS / 2,
                        blocks};
    return (tile_x){x->sum + from * N_SUMS, x->d + from, blocks * N_SUMS, blocks};
}

static chain_input chain_input_of(const format_256 *f, const work *k, size_t b, size_t tile)
{
    const size_t t = tile * TOKENS;
    return (chain_input){&k->ws->last, activations_at(f, k, t, b), new_tokens(&k->c, tile), b == 0,
                         k->chains + t};
}

/* Superblock b of a panel, all tokens of a chunk. Between the steps of tile i the chains add the
 * products of tile i - 1, a few tokens at a time. The interleaving lets the CPU overlap AMX and
 * AVX-512 instructions. */
ALWAYS_INLINE void gemm_tiles(const format_256 *f, const work *k, size_t b, prefetch_plan *prefetch)
{
    const kern_act *x = k->a->x;
    workspace *ws = k->ws;
    const chain_w w[GROUPS] = {load_weights(f, &ws->slab[0].head),
                               load_weights(f, &ws->slab[1].head)};
    const size_t n_tiles = n_token_tiles(&k->c), share = TOKENS / (size_t)n_steps(f);
    chain_input before = {.n = 0};
    for (size_t i = 0; i < n_tiles; i++) {
        const int8_t *q = x->q + tile_start(&k->c, i) * x->cols + b * SLAB_COLS;
        const __m512i *w0 = ws->slab[0].q, *w1 = ws->slab[1].q;
        products_zero();
        for (int step = 0; step < n_steps(f); step++) {
            multiply_step(f, step, w0, w1, q, x->cols);
            chains_advance(f, w, &before, (size_t)step * share, (size_t)(step + 1) * share);
            w0 += TILE_VECTORS;
            w1 += TILE_VECTORS;
            /* Prevents the compiler from keeping the addresses of all tiles live, which would spill
             * registers. */
            __asm__("" : "+r"(w0), "+r"(w1));
        }
        products_store(&ws->last);
        prefetch_step(prefetch, &k->c, i, n_tiles);
        before = chain_input_of(f, k, b, i);
    }
    chains_advance(f, w, &before, 0, TOKENS);
}

/* The functions of a format, specialised by inlining. */
typedef struct kernel_256 {
    const format_256 *f;
    void (*slab_unpack)(const uint8_t *block, size_t stride, slab_256 *out);
    void (*gemm_tiles)(const work *k, size_t b, prefetch_plan *prefetch);
    kern_gemm_fn *avx512;
} kernel_256;

/* Unpacks one superblock of the 16 rows of group g. */
static void slab_unpack_rows(const kernel_256 *kernel, const uint8_t *w, size_t stride, size_t rows,
                             size_t g, workspace *ws)
{
    const size_t bytes = (size_t)kernel->f->block_bytes;
    const uint8_t *block = w + g * LANES * stride;
    const size_t left = rows > g * LANES ? rows - g * LANES : 0;
    if (left >= LANES)
        kernel->slab_unpack(block, stride, &ws->slab[g]);
    else
        kernel->slab_unpack(stage_rows(block, stride, left, bytes, ws->stage), bytes, &ws->slab[g]);
}

/* Rows r0 .. r0+31 (fewer at the end), all tokens of a chunk. */
static void gemm_panel_256_amx(const kernel_256 *kernel, const work *k, size_t r0)
{
    const kern_gemm_args *a = k->a;
    const size_t bytes = (size_t)kernel->f->block_bytes, blocks = a->x->cols / SLAB_COLS;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    float *y = a->y + k->c.t0 * a->y_stride + r0;
    prefetch_plan prefetch = {w + PANEL * a->row_bytes, PANEL * bytes, {NULL, a->y_stride}};
    for (size_t b = 0; b < blocks; b++, w += bytes, prefetch.weights += prefetch.weight_bytes) {
        for (size_t g = 0; g < GROUPS; g++)
            slab_unpack_rows(kernel, w, a->row_bytes, a->rows - r0, g, k->ws);
        if (b + 1 == blocks)
            prefetch.out.y = y;
        kernel->gemm_tiles(k, b, &prefetch);
    }
    panel_store(k->chains[0], k->c.n, y, a->y_stride, a->rows - r0);
}

/* Computes sums of 32 activations from sums of 16. */
static void chunk_prepare(const work *k)
{
    const size_t blocks = k->a->x->cols / SLAB_COLS;
    const int16_t *from = k->a->x->sum + k->c.t0 * blocks * N_SUMS;
    for (size_t i = 0; i < k->c.n * blocks; i++) {
        const __m256i sums = _mm256_loadu_si256((const __m256i *)(from + i * N_SUMS));
        const __m256i sums_of_32 = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
        _mm_storeu_si128((__m128i *)(k->sums + i * N_SUMS / 2), _mm256_cvtepi32_epi16(sums_of_32));
    }
}

static void gemm_256_amx(const kern_gemm_args *a, const kernel_256 *kernel)
{
    if (use_avx512(a->x)) {
        kernel->avx512(a);
        return;
    }
    const size_t cols = a->x->cols, room = KERN_SCRATCH_BYTES - sizeof(workspace);
    const size_t kept = PANEL * sizeof(float) + cols / SLAB_COLS * N_SUMS / 2 * sizeof(int16_t);
    const size_t at_once = chunk_tokens(a->x->n, cols + kept, kept, room);
    work k = {.a = a, .ws = a->scratch};
    k.chains = (float(*)[PANEL])k.ws->buffer;
    k.sums = (int16_t *)(k.chains + at_once);
    configure_tiles();
    for (k.c.t0 = 0; k.c.t0 < a->x->n; k.c.t0 += at_once) {
        k.c.n = a->x->n - k.c.t0 < at_once ? a->x->n - k.c.t0 : at_once;
        if (kernel->f->min_pairs == 4)
            chunk_prepare(&k);
        for (size_t r0 = 0; r0 < a->rows; r0 += PANEL)
            gemm_panel_256_amx(kernel, &k, r0);
    }
    tile_release();
}

#define GEMM(format, head)                                                                         \
    static void unpack_##format(const uint8_t *block, size_t stride, slab_256 *out)                \
    {                                                                                              \
        slab_unpack(&format_##format, head, codes_##format, block, stride, out);                   \
    }                                                                                              \
    static void tiles_##format(const work *k, size_t b, prefetch_plan *prefetch)                   \
    {                                                                                              \
        gemm_tiles(&format_##format, k, b, prefetch);                                              \
    }                                                                                              \
    void k_gemm_##format##_amx(const kern_gemm_args *a)                                            \
    {                                                                                              \
        static const kernel_256 kernel = {&format_##format, unpack_##format, tiles_##format,       \
                                          k_gemm_##format##_avx512};                               \
        gemm_256_amx(a, &kernel);                                                                  \
    }

GEMM(q2_k, head_q2_k)
GEMM(q3_k, head_q3_k)
GEMM(q4_k, head_q4_k)
GEMM(q5_k, head_q4_k)
GEMM(q6_k, head_q6_k)
GEMM(iq4_xs, head_iq4_xs)
