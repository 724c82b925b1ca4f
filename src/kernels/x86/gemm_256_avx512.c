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
 *
 * A single token is bound by the reading of the weights. It is multiplied while
 * they are unpacked, without a slab, and in pieces that need no offset to come back:
 * 16 codes of Q4_K (30,480 at most) or 8 of Q5_K (31,496).
 */
#include "kernels/x86/gemm_unpack_256_avx512.h"

enum {
    N_SUMS = 16,           /* entries of kern_act.sum in a superblock */
    L2_BUDGET = 640 << 10, /* of activations that all panels of a call share */
    MIN_CHUNK = 64         /* tokens that make unpacking a slab worth it */
};

/* How codes are summed: in pieces of `dot`, each starting at -offset * (its sum of x). */
typedef struct pieces {
    int dot, offset;
} pieces;

typedef struct format_256 {
    int block_bytes;
    int group;        /* columns that share a scale: 16 or 32 */
    int min_pairs;    /* pairs of minima: 0, 4 (a minimum per 32 columns) or 8 (per 16) */
    bool add_offset;  /* codes mean themselves, but sums of `many` start at -offset */
    bool wide;        /* the sum of a piece exceeds 16 bits */
    pieces many, one; /* several tokens by slabs; one token */
} format_256;

static const format_256 format_q2_k = {sizeof(quant_q2_k), 16, 8, false, false, {16, 0}, {16, 0}};
static const format_256 format_q3_k = {sizeof(quant_q3_k), 16, 0, false, false, {16, 4}, {16, 4}};
static const format_256 format_q4_k = {sizeof(quant_q4_k), 32, 4, true, false, {32, 8}, {16, 0}};
static const format_256 format_q5_k = {sizeof(quant_q5_k), 32, 4, true, false, {16, 16}, {8, 0}};
static const format_256 format_q6_k = {sizeof(quant_q6_k), 16, 0, false, false, {8, 32}, {8, 32}};
static const format_256 format_iq4_xs = {
    sizeof(quant_iq4_xs), 32, 0, false, true, {32, 128}, {16, 128}};

/* A superblock of a group of rows. */
typedef struct slab_256 {
    __m512i q[SLAB_VECTORS];
    head_256 head;
    __m512i offset[4]; /* pairs of offset * scale */
} slab_256;

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
    float *chains; /* [tokens][PANEL] */
    bool first;
    prefetch_ahead *ask;
    outputs out;
} tile_y;

/* ---- several tokens ---- */

/* sum[g][t] = the sum of piece s: `dot` codes of group g's rows with those of token t. */
ALWAYS_INLINE void sum_piece(pieces p, const slab_256 *w, const tile_x *x, int nt, int s,
                             __m512i sum[GROUPS][TILE])
{
    const int vectors = p.dot / 4;
    EACH(t, nt)
    {
        EACH(g, GROUPS)
        {
            sum[g][t] = p.offset == 0 ? _mm512_setzero_si512()
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
                msum[g][t] = _mm512_dpwssd_epi32(before, w[g].head.min[p], pair);
                if (f->add_offset)
                    isum[g][t] = _mm512_dpwssd_epi32(isum[g][t], w[g].offset[p], pair);
            }
        }
    }
}

/* One step of 16 chains. */
ALWAYS_INLINE __m512 add_to_chain(const format_256 *f, const head_256 *head, __m512 dx,
                                  __m512i isum, __m512i msum, __m512 acc)
{
    acc = _mm512_fmadd_ps(_mm512_mul_ps(head->d, dx), _mm512_cvtepi32_ps(isum), acc);
    if (f->min_pairs > 0)
        acc = _mm512_fnmadd_ps(_mm512_mul_ps(head->dmin, dx), _mm512_cvtepi32_ps(msum), acc);
    return acc;
}

/* A superblock of a panel against nt tokens; f and nt are constants where this is inlined. */
ALWAYS_INLINE void tile(const format_256 *f, const slab_256 *w, const tile_x *x, int nt, bool ask,
                        const tile_y *out)
{
    __m512i isum[GROUPS][TILE], sum[GROUPS][TILE], msum[GROUPS][TILE];
    EACH(t, nt)
    {
        isum[0][t] = isum[1][t] = _mm512_setzero_si512();
    }
    for (int s = 0; s < SLAB_COLS / f->many.dot; s++) {
        const int group = s * f->many.dot / f->group;
        sum_piece(f->many, w, x, nt, s, sum);
        if (ask)
            prefetch_some(out->ask);
        EACH(t, nt)
        {
            EACH(g, GROUPS)
            {
                isum[g][t] = add_scaled(f, isum[g][t], sum[g][t], w[g].head.scale[group]);
            }
        }
    }
    pair_products(f, w, x, nt, isum, msum);
    EACH(t, nt)
    {
        const __m512 dx = _mm512_set1_ps(x->d[t * x->d_stride]);
        EACH(g, GROUPS)
        {
            float *chain = out->chains + t * PANEL + g * LANES;
            const __m512 acc = out->first ? _mm512_setzero_ps() : _mm512_load_ps(chain);
            const __m512i m = f->min_pairs > 0 ? msum[g][t] : _mm512_setzero_si512();
            _mm512_store_ps(chain, add_to_chain(f, &w[g].head, dx, isum[g][t], m, acc));
        }
    }
}

/* A superblock of a panel against all tokens of x. */
ALWAYS_INLINE void tiles(const format_256 *f, const slab_256 *w, tile_x x, tile_y y)
{
    for (size_t n; x.n > 0; x.n -= n) {
        n = x.n >= MANY ? TILE : next_tile(x.n);
        switch (x.n >= MANY ? MANY : n) {
        case 1: tile(f, w, &x, 1, true, &y); break;
        case 2: tile(f, w, &x, 2, true, &y); break;
        case 3: tile(f, w, &x, 3, true, &y); break;
        case 4: tile(f, w, &x, 4, true, &y); break;
        case 5: tile(f, w, &x, 5, true, &y); break;
        case TILE: tile(f, w, &x, TILE, true, &y); break;
        default: tile(f, w, &x, TILE, false, &y); break;
        }
        x.q += n * x.q_stride;
        x.start[0] += n * x.start_stride;
        x.start[1] += n * x.start_stride;
        x.sum += n * x.sum_stride;
        x.d += n * x.d_stride;
        y.chains += n * PANEL;
        ask_outputs(&y.out, n);
    }
}

/* Where codes are stored, and what is asked for meanwhile. */
typedef struct slab_to {
    __m512i *q;
    prefetch_ahead *ask;
} slab_to;

ALWAYS_INLINE void store_codes(void *to, int at, const __m512i q[4])
{
    const slab_to *slab = to;
    prefetch_some(slab->ask);
    EACH(i, 4)
    {
        slab->q[at / 4 + i] = q[i];
    }
}

ALWAYS_INLINE void unpack(const format_256 *f, head_256_fn *head, codes_256_fn *codes,
                          const uint8_t *block, size_t stride, slab_256 *out, prefetch_ahead *ask)
{
    slab_to to = {out->q, ask};
    head(block, stride, &out->head);
    codes(block, stride, store_codes, &to);
    if (!f->add_offset)
        return;
    EACH(p, 4)
    {
        const __m512i *scale = out->head.scale + 2 * p;
        const __m512i pair = _mm512_or_si512(scale[0], _mm512_slli_epi32(scale[1], 16));
        out->offset[p] = _mm512_mullo_epi16(pair, _mm512_set1_epi16((short)f->many.offset));
    }
}

/* ---- one token ---- */

/* What multiplying while unpacking needs. The rows that follow are asked for early,
 * a few lines with every 16 columns; at the end of a matrix that is a hint for
 * whatever lies there, which no processor minds. Two sums, so that their chains overlap. */
typedef struct one_sum {
    const format_256 *f;
    const tile_x *x;
    const head_256 *head;
    const uint8_t *ahead; /* 16 * block_bytes that are wanted next */
    int asked, taken;     /* lines asked for; times codes were taken */
    __m512i isum[2];
} one_sum;

ALWAYS_INLINE void multiply_codes(void *to, int at, const __m512i q[4])
{
    one_sum *o = to;
    const pieces p = o->f->one;
    const int lines = LANES * o->f->block_bytes / 64;
    for (; o->asked < (o->taken + 1) * lines / 16; o->asked++)
        _mm_prefetch((const char *)o->ahead + 64 * o->asked, _MM_HINT_T0);
    o->taken++;
    EACH(s, 16 / p.dot)
    {
        const int from = at + s * p.dot;
        __m512i sum =
            p.offset == 0 ? _mm512_setzero_si512() : set1_at(o->x->start[0] + from / p.dot);
        EACH(i, p.dot / 4)
        {
            sum = _mm512_dpbusd_epi32(sum, q[s * (p.dot / 4) + i], set1_at(o->x->q + from + 4 * i));
        }
        __m512i *isum = &o->isum[at / 32 % 2];
        *isum = add_scaled(o->f, *isum, sum, o->head->scale[at / o->f->group]);
    }
}

/* n_blocks superblocks of 16 rows against one token, from acc on. */
ALWAYS_INLINE __m512 one(const format_256 *f, head_256_fn *head, codes_256_fn *codes,
                         const uint8_t *block, size_t stride, size_t n_blocks, tile_x x, __m512 acc)
{
    const uint8_t *ahead = block + LANES * stride;
    for (size_t b = 0; b < n_blocks; b++, block += f->block_bytes) {
        head_256 h;
        head(block, stride, &h);
        one_sum o = {f, &x, &h, ahead, 0, 0, {_mm512_setzero_si512(), _mm512_setzero_si512()}};
        codes(block, stride, multiply_codes, &o);
        __m512i msum = _mm512_setzero_si512();
        EACH(p, f->min_pairs)
        {
            msum = _mm512_dpwssd_epi32(msum, h.min[p], set1_at(x.sum + 2 * p));
        }
        acc = add_to_chain(f, &h, _mm512_set1_ps(*x.d), _mm512_add_epi32(o.isum[0], o.isum[1]),
                           msum, acc);
        x.q += SLAB_COLS;
        x.start[0] += SLAB_COLS / f->one.dot;
        x.sum += f->min_pairs == 4 ? N_SUMS / 2 : N_SUMS;
        x.d++;
        ahead += LANES * f->block_bytes;
    }
    return acc;
}

/* ---- activations ---- */

/* What is read of the activations besides the codes, per token and superblock. */
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
        const __m256i minus =
            _mm256_sub_epi32(_mm256_setzero_si256(), _mm512_cvtepi64_epi32(eight));
        _mm256_storeu_si256((__m256i *)(start + 8 * i), minus);
    }
}

static void prepare_block(const format_256 *f, pieces p, const int8_t *q, const int16_t *sum,
                          prepared out)
{
    const __m256i sums = _mm256_loadu_si256((const __m256i *)sum);
    const __m256i minus_offset = _mm256_set1_epi16((short)-p.offset);
    if (p.offset != 0 && p.dot == 8) {
        start_of_8(q, p.offset, out.start);
    } else if (p.offset != 0 && p.dot == 16) {
        const __m512i wide = _mm512_cvtepi16_epi32(sums);
        _mm512_storeu_si512(out.start, _mm512_mullo_epi32(wide, _mm512_set1_epi32(-p.offset)));
    } else if (p.offset != 0) {
        _mm256_storeu_si256((__m256i *)out.start, _mm256_madd_epi16(sums, minus_offset));
    }
    if (f->min_pairs == 4) {
        const __m256i sums_of_32 = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
        _mm_storeu_si128((__m128i *)out.sum, _mm256_cvtepi32_epi16(sums_of_32));
    }
}

/* ---- panels ---- */

/* The functions of a format, with everything inlined. */
typedef struct kernel_256 {
    const format_256 *f;
    void (*unpack)(const uint8_t *block, size_t stride, slab_256 *out, prefetch_ahead *ask);
    void (*tiles)(const slab_256 *w, const tile_x *x, const tile_y *y);
    __m512 (*one)(const uint8_t *block, size_t stride, size_t n_blocks, const tile_x *x,
                  __m512 acc);
} kernel_256;

typedef struct workspace {
    slab_256 slab[GROUPS];
    uint8_t stage[LANES * 256];        /* of the last rows: a block of each */
    _Alignas(64) unsigned char rest[]; /* of KERN_SCRATCH_BYTES: chains, prepared activations */
} workspace;

/* Tokens t0 .. t0+n-1 of the activations, prepared. */
typedef struct chunk {
    size_t t0, n;
    pieces p;
    float *chains; /* [n][PANEL] */
    prepared x;    /* [n][cols / 256] */
} chunk;

static size_t start_bytes(pieces p)
{
    return (size_t)(SLAB_COLS / p.dot) * sizeof(int32_t);
}

/* Room for as many tokens as stay in the second-level cache while panel after
 * panel passes over them. */
static size_t chunk_tokens(pieces p, size_t cols)
{
    const size_t prepared_bytes =
        cols / SLAB_COLS * (start_bytes(p) + N_SUMS / 2 * sizeof(int16_t));
    const size_t chain_bytes = PANEL * sizeof(float);
    const size_t room = (KERN_SCRATCH_BYTES - sizeof(workspace)) / (prepared_bytes + chain_bytes);
    const size_t cached = L2_BUDGET / (cols + prepared_bytes + chain_bytes);
    const size_t wanted = cached > MIN_CHUNK ? cached : MIN_CHUNK;
    return wanted < room ? wanted : room;
}

static void prepare(const format_256 *f, const kern_act *x, chunk *c, unsigned char *room)
{
    const size_t blocks = x->cols / SLAB_COLS;
    c->chains = (float *)room;
    c->x.start = (int32_t *)(c->chains + c->n * PANEL);
    c->x.sum = (int16_t *)((unsigned char *)c->x.start + c->n * blocks * start_bytes(c->p));
    for (size_t i = 0; i < c->n * blocks; i++) {
        const size_t from = c->t0 * blocks + i;
        const prepared to = {c->x.start + i * (size_t)(SLAB_COLS / c->p.dot),
                             c->x.sum + i * N_SUMS / 2};
        prepare_block(f, c->p, x->q + from * SLAB_COLS, x->sum + from * N_SUMS, to);
    }
}

/* Superblock b of the chunk's tokens. */
static tile_x view_x(const format_256 *f, const kern_act *x, const chunk *c, size_t b)
{
    const size_t blocks = x->cols / SLAB_COLS;
    const size_t from = c->t0 * blocks + b;
    const size_t n_pieces = (size_t)(SLAB_COLS / c->p.dot);
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

/* One superblock of the 16 rows of group g. */
static void unpack_group(const kernel_256 *k, const uint8_t *w, size_t stride, size_t rows,
                         size_t g, workspace *ws, prefetch_ahead *ask)
{
    const size_t bytes = (size_t)k->f->block_bytes;
    const uint8_t *block = w + g * LANES * stride;
    const size_t left = rows > g * LANES ? rows - g * LANES : 0;
    if (left >= LANES)
        k->unpack(block, stride, &ws->slab[g], ask);
    else
        k->unpack(stage_rows(block, stride, left, bytes, ws->stage), bytes, &ws->slab[g], ask);
}

/* Rows r0 .. r0+31 (fewer at the end) for the tokens of a chunk. */
static void multiply_panel(const kern_gemm_args *a, const kernel_256 *k, const chunk *c, size_t r0)
{
    workspace *ws = a->scratch;
    const size_t rows = a->rows - r0, bytes = (size_t)k->f->block_bytes;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    float *y0 = a->y + c->t0 * a->y_stride + r0;
    /* Unpacking takes about the time of a tile; each asks for its share of the next
     * panel. With many tokens there is time enough, and only unpacking asks. */
    const bool many = c->n >= MANY;
    const size_t share = PANEL * bytes / (many ? 1 : tiles_of(c->n) + 1);
    prefetch_ahead ask = prefetch_for(w + PANEL * a->row_bytes);
    for (size_t b = 0; b < a->x->cols / SLAB_COLS; b++, w += bytes) {
        ask.step = share / (GROUPS * SLAB_COLS / 16);
        for (size_t g = 0; g < GROUPS; g++)
            unpack_group(k, w, a->row_bytes, rows, g, ws, &ask);
        ask.step = many ? 0 : share / (size_t)(SLAB_COLS / k->f->many.dot);
        const tile_x x = view_x(k->f, a->x, c, b);
        const tile_y y = {.chains = c->chains,
                          .first = b == 0,
                          .ask = &ask,
                          .out = {b + 1 == a->x->cols / SLAB_COLS ? y0 : NULL, a->y_stride}};
        k->tiles(ws->slab, &x, &y);
    }
    store_chains(c->chains, c->n, y0, a->y_stride, rows);
}

/* Rows r0 .. r0+15 (fewer at the end) for the only token. */
static void multiply_one(const kern_gemm_args *a, const kernel_256 *k, const chunk *c, size_t r0)
{
    workspace *ws = a->scratch;
    const size_t rows = a->rows - r0, bytes = (size_t)k->f->block_bytes;
    const size_t blocks = a->x->cols / SLAB_COLS;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    __m512 acc = _mm512_setzero_ps();
    tile_x x = view_x(k->f, a->x, c, 0);
    if (rows >= LANES) {
        acc = k->one(w, a->row_bytes, blocks, &x, acc);
    } else {
        for (size_t b = 0; b < blocks; b++, w += bytes) {
            x = view_x(k->f, a->x, c, b);
            stage_rows(w, a->row_bytes, rows, bytes, ws->stage);
            acc = k->one(ws->stage, bytes, 1, &x, acc);
        }
    }
    _mm512_mask_storeu_ps(a->y + r0, row_mask(rows, 0), acc);
}

static void gemm(const kern_gemm_args *a, const kernel_256 *k)
{
    workspace *ws = a->scratch;
    const pieces p = a->x->n == 1 ? k->f->one : k->f->many;
    const size_t at_once = chunk_tokens(p, a->x->cols);
    for (size_t t0 = 0; t0 < a->x->n; t0 += at_once) {
        chunk c = {.t0 = t0, .n = a->x->n - t0 < at_once ? a->x->n - t0 : at_once, .p = p};
        prepare(k->f, a->x, &c, ws->rest);
        if (a->x->n == 1)
            for (size_t r0 = 0; r0 < a->rows; r0 += LANES)
                multiply_one(a, k, &c, r0);
        else
            for (size_t r0 = 0; r0 < a->rows; r0 += PANEL)
                multiply_panel(a, k, &c, r0);
    }
}

#define GEMM(format, head)                                                                         \
    static void unpack_##format(const uint8_t *block, size_t stride, slab_256 *out,                \
                                prefetch_ahead *ask)                                               \
    {                                                                                              \
        unpack(&format_##format, head, codes_##format, block, stride, out, ask);                   \
    }                                                                                              \
    static void tiles_##format(const slab_256 *w, const tile_x *x, const tile_y *y)                \
    {                                                                                              \
        tiles(&format_##format, w, *x, *y);                                                        \
    }                                                                                              \
    static __m512 one_##format(const uint8_t *block, size_t stride, size_t n_blocks,               \
                               const tile_x *x, __m512 acc)                                        \
    {                                                                                              \
        return one(&format_##format, head, codes_##format, block, stride, n_blocks, *x, acc);      \
    }                                                                                              \
    void k_gemm_##format##_avx512(const kern_gemm_args *a)                                         \
    {                                                                                              \
        static const kernel_256 kernel = {&format_##format, unpack_##format, tiles_##format,       \
                                          one_##format};                                           \
        gemm(a, &kernel);                                                                          \
    }

GEMM(q2_k, head_q2_k)
GEMM(q3_k, head_q3_k)
GEMM(q4_k, head_q4_k)
GEMM(q5_k, head_q4_k)
GEMM(q6_k, head_q6_k)
GEMM(iq4_xs, head_iq4_xs)
