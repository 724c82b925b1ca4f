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
 *     i8_256  -128 .. 127   -128 .. 127 up to 16,384       v / 256 rounded down, v mod 256
 *
 * In the first three formats one 16-bit multiplication computes two bytes at once, because no byte
 * overflows. Their planes are unsigned bytes, and so is v mod 256; -v and v / 256 are signed. v of
 * Q3_K can be 128, which is not a signed byte, but never -128; so the plane is -v and the sum is
 * negated at the end. With |x| <= 127 a sum over a plane is at most 256 * 255 * 127 = 8,290,560.
 * The sum over the first plane is at most 256 * 217 * 127 = 7,055,104 in Q5_K (weight 8), 520,192 in
 * Q6_K and 2,080,768 in i8_256 (weight 256). All fit in 32 bits.
 *
 * A step has four independent tile products, to hide the latency of the tile multiplication: two
 * groups by two planes or, with one plane, by the two halves of the superblock.
 *
 * The minima are multiplied by the activation sums in bf16 tiles, one product per group of rows. A
 * sum s has up to 13 bits, so it is two numbers of bf16: a multiple of 128 and s mod 128. They have
 * at most 7 significant bits, a minimum has 6, and |msum| <= 2,048,256 < 2^24. So every product and
 * every partial sum is an integer that f32 represents exactly, in any order, and the tile holds
 * (float)msum. A sum of zero is +0, because the tile starts at +0.
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
    int group;    /* columns that share a scale: 16 or 32 */
    int offset;   /* unpacked codes are q + offset; v is signed if not 0 */
    int n_minima; /* 0, 8 (a minimum per 32 columns) or 16 (per 16) */
    int shift;    /* the first plane has weight 2^shift; 0: one plane */
} format_256;

static const format_256 format_q2_k = {sizeof(quant_q2_k), 16, 0, 16, 0};
static const format_256 format_q3_k = {sizeof(quant_q3_k), 16, 4, 0, 0};
static const format_256 format_q4_k = {sizeof(quant_q4_k), 32, 0, 8, 3};
static const format_256 format_q5_k = {sizeof(quant_q5_k), 32, 0, 8, 3};
static const format_256 format_q6_k = {sizeof(quant_q6_k), 16, 32, 0, 8};
static const format_256 format_iq4_xs = {sizeof(quant_iq4_xs), 32, 128, 0, 8};
static const format_256 format_i8_256 = {sizeof(quant_i8_256), 16, 128, 0, 8};

/* One superblock of 16 rows, unpacked: first plane, then the second (if any). */
typedef struct slab_256 {
    __m512i q[2 * SLAB_VECTORS];
    __m512i min[N_SUMS]; /* vector i: minimum i of every row, twice as bf16 */
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
    prefetch_ahead *prefetch; /* advanced with every 16 columns */
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
    prefetch_next_lines(u->prefetch);
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
    prefetch_next_lines(u->prefetch);
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

/* Converts the minima to bf16, which is the upper half of a float. */
ALWAYS_INLINE void store_minima(const format_256 *f, slab_256 *out)
{
    EACH(i, f->n_minima)
    {
        const __m512i min = bits(out->head.min[i / 2], 16 * (i % 2), 0xFFFF);
        const __m512i value = _mm512_castps_si512(_mm512_cvtepi32_ps(min));
        out->min[i] = _mm512_or_si512(value, _mm512_srli_epi32(value, 16));
    }
}

ALWAYS_INLINE void slab_unpack(const format_256 *f, head_256_fn *head, codes_256_fn *codes,
                               const uint8_t *block, size_t stride, slab_256 *out,
                               prefetch_ahead *prefetch)
{
    unpacking u = {f, out, prefetch};
    head(block, stride, &out->head);
    store_minima(f, out);
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

/* Activations of a token tile at one superblock. Strides are bytes between tokens. */
typedef struct tile_x {
    const int8_t *q;
    const uint16_t *sums; /* bf16: { s mod 128, the rest of s } of each sum of the superblock */
    size_t q_stride, sums_stride;
} tile_x;

/* Step k of the products of a superblock with a token tile. Product 2p + g is group g with plane p,
 * or with half p of a single plane. */
ALWAYS_INLINE void multiply_step(const format_256 *f, int k, const slab_256 *w, const tile_x *x)
{
    enum { ROW = TILE_ROW_BYTES, HALF = SLAB_TILES / 2 };
    const bool halves = f->shift == 0;
    /* Prevents the compiler from keeping the addresses of all tiles live, which would spill
     * registers. */
    __asm__("" : "+r"(w));
    const __m512i *w0 = w[0].q + k * TILE_VECTORS, *w1 = w[1].q + k * TILE_VECTORS;
    const int second = halves ? HALF * TILE_VECTORS : SLAB_VECTORS;
    tile_load(4, x->q + k * ROW, x->q_stride);
    tile_load(6, w0, ROW);
    MULTIPLY(f->offset != 0, 0, 4, 6);
    tile_load(6, w1, ROW);
    MULTIPLY(f->offset != 0, 1, 4, 6);
    if (halves) {
        tile_load(5, x->q + (HALF + k) * ROW, x->q_stride);
        tile_load(6, w0 + second, ROW);
        MULTIPLY(f->offset != 0, 2, 5, 6);
        tile_load(6, w1 + second, ROW);
        MULTIPLY(f->offset != 0, 3, 5, 6);
    } else {
        tile_load(6, w0 + second, ROW);
        MULTIPLY(false, 2, 4, 6);
        tile_load(6, w1 + second, ROW);
        MULTIPLY(false, 3, 4, 6);
    }
}

/* Minima times activation sums, and the stores of all products. */
ALWAYS_INLINE void products_finish(const format_256 *f, const slab_256 *w, const tile_x *x,
                                   products *out)
{
    enum { ROW = TILE_ROW_BYTES };
    tile_store(0, out->sum[0], ROW);
    tile_store(1, out->sum[1], ROW);
    tile_store(2, out->sum[2], ROW);
    tile_store(3, out->sum[3], ROW);
    if (f->n_minima == 0)
        return;
    tile_zero(0);
    tile_zero(1);
    tile_load(5, x->sums, x->sums_stride);
    tile_load(7, w[0].min, ROW);
    tile_dp_bf16(0, 5, 7);
    tile_load(7, w[1].min, ROW);
    tile_dp_bf16(1, 5, 7);
    tile_store(0, out->msum[0], ROW);
    tile_store(1, out->msum[1], ROW);
}

/* Tiles 0 .. 3 are products, 4 and 5 activations, 6 and 7 weights. Tiles 5 and 7 hold sums and
 * minima; with a single plane tile 5 also holds activations. `tokens` is at most 16. */
static void configure_tiles(const format_256 *f, size_t tokens)
{
    const int minima = f->n_minima == 8 ? 8 : TILE_ROWS;
    _Alignas(64) tile_config config = {.palette = 1};
    for (int i = 0; i < TILE_COUNT; i++) {
        config.row_bytes[i] = TILE_ROW_BYTES;
        config.rows[i] = i < 6 ? (uint8_t)tokens : TILE_ROWS;
    }
    config.row_bytes[5] = (uint16_t)(minima * 4);
    config.rows[7] = (uint8_t)minima;
    tile_configure(&config);
}

/* ---- chains ---- */

/* isum of 16 rows from their two products. */
ALWAYS_INLINE __m512i combine_products(const format_256 *f, const int32_t *first,
                                       const int32_t *second)
{
    const __m512i a = _mm512_load_si512(first), b = _mm512_load_si512(second);
    const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(a, (unsigned)f->shift), b);
    return plane_is_negated(f) ? _mm512_sub_epi32(_mm512_setzero_si512(), sum) : sum;
}

/* The chains of a panel at one superblock, and the next token. */
typedef struct chain_state {
    __m512 d[GROUPS], dmin[GROUPS]; /* of the weights */
    const products *p;
    const float *dx;     /* of the next token; dx_stride to the one after it */
    const float *chains; /* [PANEL] of the next token */
    float *to;           /* outputs of the next token: its chains, or y in the last superblock */
    size_t dx_stride, to_stride;
    __mmask16 old;          /* 0: the chains begin; else all ones */
    __mmask16 rows[GROUPS]; /* rows to store */
} chain_state;

/* Chain step of the next token, which is row `at` of the products. `stream`: stores whole lines past
 * the caches. */
ALWAYS_INLINE void chain_step(const format_256 *f, chain_state *k, size_t at, bool stream)
{
    const __m512 dx = _mm512_set1_ps(*k->dx);
    EACH(g, GROUPS)
    {
        const __m512i isum = combine_products(f, k->p->sum[g][at], k->p->sum[GROUPS + g][at]);
        __m512 acc = _mm512_maskz_load_ps(k->old, k->chains + g * LANES);
        acc = _mm512_fmadd_ps(_mm512_mul_ps(k->d[g], dx), _mm512_cvtepi32_ps(isum), acc);
        if (f->n_minima > 0)
            acc = _mm512_fnmadd_ps(_mm512_mul_ps(k->dmin[g], dx), _mm512_load_ps(k->p->msum[g][at]),
                                   acc);
        if (stream)
            _mm512_stream_ps(k->to + g * LANES, acc);
        else
            _mm512_mask_storeu_ps(k->to + g * LANES, k->rows[g], acc);
    }
    k->dx += k->dx_stride;
    k->chains += PANEL;
    k->to += k->to_stride;
    /* Prevents the compiler from computing the addresses of all tokens in advance. */
    __asm__("" : "+r"(k->dx), "+r"(k->to));
}

/* ---- panels ---- */

typedef struct workspace {
    products last; /* products of the tile before */
    slab_256 slab[GROUPS];
    uint8_t stage[LANES * MAX_BLOCK_BYTES]; /* one block of each of the last rows */
    unsigned char buffer[]; /* up to KERN_SCRATCH_BYTES: accumulators, prepared sums */
} workspace;
_Static_assert(sizeof(workspace) % 64 == 0 && sizeof(workspace) <= MAX_WORKSPACE,
               "accumulators are aligned to cache lines and fit");

/* Context of a call, for one chunk of tokens. */
typedef struct work {
    const kern_gemm_args *a;
    workspace *ws;
    token_chunk c;
    float *chains;  /* [c.n][PANEL] */
    uint16_t *sums; /* [tokens from c.first on][cols / 256][2 * n_minima] */
    bool stream;    /* streams_outputs */
} work;

/* Token tile i at superblock b. */
ALWAYS_INLINE tile_x activations_at(const format_256 *f, const work *k, size_t i, size_t b)
{
    const kern_act *x = k->a->x;
    const size_t blocks = x->cols / SLAB_COLS, per_block = 2 * (size_t)f->n_minima;
    const size_t t = tile_start(&k->c, i);
    return (tile_x){x->q + t * x->cols + b * SLAB_COLS,
                    k->sums + ((t - k->c.first) * blocks + b) * per_block, x->cols,
                    blocks * per_block * sizeof *k->sums};
}

/* The products of a token tile. Between the steps the chains `before` add a part of the products of
 * the full tile before it, so that the CPU overlaps tile and vector instructions. NULL: none. */
ALWAYS_INLINE void multiply_tile(const format_256 *f, const slab_256 *w, const tile_x *x,
                                 chain_state *before, bool stream, prefetch_ahead *prefetch,
                                 products *out)
{
    const int share = TOKENS / n_steps(f);
    products_zero();
    EACH(step, n_steps(f))
    {
        multiply_step(f, step, w, x);
        prefetch_next_lines(prefetch);
        if (before == NULL)
            continue;
        EACH(t, share)
        {
            chain_step(f, before, (size_t)(step * share + t), stream);
        }
    }
    products_finish(f, w, x, out);
}

/* The first chain step of superblock b of the panel at row r0. */
static inline chain_state chain_start(const work *k, size_t r0, size_t b)
{
    const kern_gemm_args *a = k->a;
    const slab_256 *w = k->ws->slab;
    const size_t blocks = a->x->cols / SLAB_COLS;
    chain_state c = {.d = {w[0].head.d, w[1].head.d},
                     .dmin = {w[0].head.dmin, w[1].head.dmin},
                     .p = &k->ws->last,
                     .dx = a->x->d + k->c.t0 * blocks + b,
                     .dx_stride = blocks,
                     .chains = k->chains,
                     .old = b == 0 ? 0 : 0xFFFF,
                     .to = k->chains,
                     .to_stride = PANEL,
                     .rows = {0xFFFF, 0xFFFF}};
    if (b + 1 == blocks) {
        c.to = a->y + k->c.t0 * a->y_stride + r0;
        c.to_stride = a->y_stride;
        c.rows[0] = row_mask(a->rows - r0, 0);
        c.rows[1] = row_mask(a->rows - r0, 1);
    }
    return c;
}

/* Superblock b of a panel, all tokens of a chunk. */
ALWAYS_INLINE void gemm_tiles(const format_256 *f, const work *k, size_t r0, size_t b, bool stream,
                              prefetch_plan *prefetch)
{
    const size_t n_tiles = n_token_tiles(&k->c);
    const slab_256 *w = k->ws->slab;
    chain_state before = chain_start(k, r0, b);
    tile_x x = activations_at(f, k, 0, b);
    multiply_tile(f, w, &x, NULL, false, &prefetch->weights, &k->ws->last);
    for (size_t i = 1; i < n_tiles; i++) {
        prefetch_outputs(&prefetch->out, TOKENS);
        x = activations_at(f, k, i, b);
        multiply_tile(f, w, &x, &before, stream, &prefetch->weights, &k->ws->last);
    }
    const size_t n = new_tokens(&k->c, n_tiles - 1), skipped = k->c.tile_tokens - n;
    prefetch_outputs(&prefetch->out, n);
    for (size_t t = 0; t < n; t++)
        chain_step(f, &before, skipped + t, stream);
}

/* The functions of a format, specialised by inlining. */
typedef struct kernel_256 {
    const format_256 *f;
    void (*slab_unpack)(const uint8_t *block, size_t stride, slab_256 *out,
                        prefetch_ahead *prefetch);
    void (*gemm_tiles)(const work *k, size_t r0, size_t b, prefetch_plan *prefetch);
    kern_gemm_fn *avx512;
} kernel_256;

/* Unpacks one superblock of the 16 rows of group g. */
static void slab_unpack_rows(const kernel_256 *kernel, const uint8_t *w, size_t stride, size_t rows,
                             size_t g, workspace *ws, prefetch_ahead *prefetch)
{
    const size_t bytes = (size_t)kernel->f->block_bytes;
    const uint8_t *block = w + g * LANES * stride;
    const size_t left = rows > g * LANES ? rows - g * LANES : 0;
    if (left >= LANES)
        kernel->slab_unpack(block, stride, &ws->slab[g], prefetch);
    else
        kernel->slab_unpack(stage_rows(block, stride, left, bytes, ws->stage), bytes, &ws->slab[g],
                            prefetch);
}

/* Rows r0 .. r0+31 (fewer at the end), all tokens of a chunk. */
static void gemm_panel_256_amx(const kernel_256 *kernel, const work *k, size_t r0)
{
    const kern_gemm_args *a = k->a;
    const size_t bytes = (size_t)kernel->f->block_bytes, blocks = a->x->cols / SLAB_COLS;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    /* Unpacking takes about as long as a tile, so both prefetch equal shares. */
    const size_t share = PANEL * bytes / (n_token_tiles(&k->c) + 1);
    prefetch_plan prefetch = {prefetch_from(w + PANEL * a->row_bytes), {NULL, a->y_stride}};
    for (size_t b = 0; b < blocks; b++, w += bytes) {
        prefetch.weights.step = share / (GROUPS * SLAB_COLS / 16) + 1;
        for (size_t g = 0; g < GROUPS; g++)
            slab_unpack_rows(kernel, w, a->row_bytes, a->rows - r0, g, k->ws, &prefetch.weights);
        prefetch.weights.step = share / (size_t)n_steps(kernel->f) + 1;
        if (b + 1 == blocks && !k->stream)
            prefetch.out.y = a->y + k->c.t0 * a->y_stride + r0;
        kernel->gemm_tiles(k, r0, b, &prefetch);
    }
}

/* bf16 pairs { s mod 128, the rest of s } of 16 sums. */
ALWAYS_INLINE __m512i split_sums(__m512i sums)
{
    const __m512i low = _mm512_and_si512(sums, _mm512_set1_epi32(127));
    const __m512i rest = _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_sub_epi32(sums, low)));
    const __m512i low_f = _mm512_castps_si512(_mm512_cvtepi32_ps(low));
    return _mm512_or_si512(rest, _mm512_srli_epi32(low_f, 16));
}

/* Prepares the activation sums of a chunk for tiles. Sums of 16 activations are sums of a minimum
 * group, or halves of it. */
static void chunk_prepare(const format_256 *f, const work *k)
{
    const size_t blocks = k->a->x->cols / SLAB_COLS;
    const size_t n = (k->c.t0 + k->c.n - k->c.first) * blocks;
    const int16_t *from = k->a->x->sum + k->c.first * blocks * N_SUMS;
    for (size_t i = 0; i < n; i++, from += N_SUMS) {
        const __m256i sums = _mm256_loadu_si256((const __m256i *)from);
        if (f->n_minima == N_SUMS) {
            const __m512i wide = _mm512_cvtepi16_epi32(sums);
            _mm512_store_si512(k->sums + i * 2 * N_SUMS, split_sums(wide));
        } else {
            const __m256i of_32 = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
            const __m512i pairs = split_sums(_mm512_castsi256_si512(of_32));
            _mm256_store_si256((__m256i *)(k->sums + i * N_SUMS), _mm512_castsi512_si256(pairs));
        }
    }
}

static void gemm_256_amx(const kern_gemm_args *a, const kernel_256 *kernel)
{
    if (use_avx512(a->x)) {
        kernel->avx512(a);
        return;
    }
    const size_t cols = a->x->cols, room = KERN_SCRATCH_BYTES - sizeof(workspace);
    const size_t sums_bytes = cols / SLAB_COLS * (size_t)kernel->f->n_minima * 4;
    const size_t kept = PANEL * sizeof(float) + sums_bytes;
    const size_t at_once = chunk_tokens(a->x->n, cols + kept, kept, room);
    work k = {.a = a, .ws = a->scratch, .stream = streams_outputs(a)};
    k.chains = (float *)k.ws->buffer;
    k.sums = (uint16_t *)(k.chains + at_once * PANEL);
    configure_tiles(kernel->f, a->x->n < TOKENS ? a->x->n : TOKENS);
    for (size_t t0 = 0; t0 < a->x->n; t0 += at_once) {
        k.c = token_chunk_at(a->x->n, t0, at_once);
        if (kernel->f->n_minima > 0)
            chunk_prepare(kernel->f, &k);
        for (size_t r0 = 0; r0 < a->rows; r0 += PANEL)
            gemm_panel_256_amx(kernel, &k, r0);
    }
    tile_release();
    if (k.stream)
        _mm_sfence(); /* before another thread reads y */
}

#define GEMM(format, head)                                                                         \
    static void unpack_##format(const uint8_t *block, size_t stride, slab_256 *out,                \
                                prefetch_ahead *prefetch)                                          \
    {                                                                                              \
        slab_unpack(&format_##format, head, codes_##format, block, stride, out, prefetch);         \
    }                                                                                              \
    static void tiles_##format(const work *k, size_t r0, size_t b, prefetch_plan *prefetch)        \
    {                                                                                              \
        const bool last = (b + 1) * SLAB_COLS == k->a->x->cols;                                    \
        if (k->stream && last && k->a->rows - r0 >= PANEL)                                         \
            gemm_tiles(&format_##format, k, r0, b, true, prefetch);                                \
        else                                                                                       \
            gemm_tiles(&format_##format, k, r0, b, false, prefetch);                               \
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
GEMM(i8_256, head_i8_256)
