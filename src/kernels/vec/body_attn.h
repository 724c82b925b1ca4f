/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body_attn.h - attention over a KV page, on the vector layer. ref/attn_ref.c defines the result.
 *
 * Queries are processed in tiles of 64. An f32 page is used in place. Other pages are converted to
 * f32 at each load for few queries (decode); for more, they are converted once, in pieces of 16 KiB
 * (64 x 64 floats) that stay in the L1 cache while all queries use them.
 */
#ifndef MOTE_KERNELS_VEC_BODY_ATTN_H
#define MOTE_KERNELS_VEC_BODY_ATTN_H

#include "kernels/vec/chain.h"
#include "kernels/vec/kv_chain.h"
#include "kernels/vec/vmath.h"

enum {
    DIM = KERN_HEAD_DIM,
    PAGE = KERN_PAGE,
    QUERIES = 64,
    PIECE = 64,
    FEW_QUERIES = 2 * TILE_ROWS,      /* f16: converted at each load */
    FEW_QUERIES_QUANTISED = TILE_ROWS /* the same for codes: one tile */
};

/* Page format and conversion. Always a compile-time constant. */
typedef enum attn_page {
    PAGE_F32,
    PAGE_F16_PER_LOAD,
    PAGE_F16_ONCE,
    PAGE_Q8_0_PER_LOAD,
    PAGE_Q8_0_ONCE,
    PAGE_Q4_0_PER_LOAD,
    PAGE_Q4_0_ONCE
} attn_page;

CHAIN_INLINE bool attn_scales_at_load(const attn_page page)
{
    return page == PAGE_Q8_0_PER_LOAD || page == PAGE_Q4_0_PER_LOAD;
}

CHAIN_INLINE bool attn_scales_once(const attn_page page)
{
    return page == PAGE_Q8_0_ONCE || page == PAGE_Q4_0_ONCE;
}

CHAIN_INLINE kv_codes attn_codes(const attn_page page)
{
    return page == PAGE_Q4_0_PER_LOAD || page == PAGE_Q4_0_ONCE ? KV_CODES_Q4_0 : KV_CODES_Q8_0;
}

/* A tile of queries that see at least one key. */
typedef struct attn_tile {
    size_t n;
    size_t max_keys;
    const float *q[QUERIES];
    kern_attn_acc *acc[QUERIES];
    size_t n_keys[QUERIES];
    float *score[QUERIES];                /* rows of p */
    float e_old[QUERIES];                 /* merge factor of the accumulator */
    float e_new[QUERIES];                 /* merge factor of this block */
    _Alignas(64) float p[QUERIES][PAGE];  /* scores, then softmax weights */
    _Alignas(64) float piece[PIECE * 64]; /* part of the page as f32 */
    float value_d[PAGE * KERN_KV_GROUPS]; /* scales of the values as f32 */
} attn_tile;

/* Fills the tile with queries from *next on. */
static inline void attn_gather(const kern_attn_args *a, size_t *next, attn_tile *t)
{
    t->n = 0;
    t->max_keys = 0;
    for (; *next < a->n && t->n < QUERIES; ++*next) {
        const size_t keys = a->n_keys[*next];
        if (keys == 0)
            continue;
        t->q[t->n] = a->q + *next * a->q_stride;
        t->acc[t->n] = &a->acc[*next];
        t->n_keys[t->n] = keys;
        t->score[t->n] = t->p[t->n];
        t->max_keys = keys > t->max_keys ? keys : t->max_keys;
        t->n++;
    }
}

CHAIN_INLINE chain_shape attn_shape(const attn_page page)
{
    const bool halves = page == PAGE_F16_PER_LOAD;
    return (chain_shape){.vectors = TILE_VECTORS,
                         .halves = halves,
                         .prefetch = halves ? KV_TILE * (int)sizeof(uint16_t) : 0};
}

/* Selects a piece of a page: `rows` rows of 64 values, `stride` apart, from value `first` on. */
CHAIN_INLINE void attn_piece(const void *values, size_t first, size_t rows, size_t stride,
                             attn_tile *t, chain_args *piece, const attn_page page)
{
    const uint16_t *from = (const uint16_t *)values + first;
    piece->len = rows;
    if (page != PAGE_F16_ONCE) {
        piece->m = page == PAGE_F32 ? (const void *)((const float *)values + first) : from;
        piece->m_stride = stride;
        return;
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < 64; i += VF_WIDTH)
            vf_store(t->piece + r * 64 + i, vf_load_f16(from + r * stride + i));
    piece->m = t->piece;
    piece->m_stride = 64;
}

/* With few queries the kernel is memory-bound, and the hardware prefetcher does not follow its reads:
 * keys end after a few pages of memory, values are read in columns of 64. So values are prefetched
 * while scores are computed, and the keys of the next call while values are summed. Kernels that
 * convert at each load spread this over their loops. */
static inline const char *attn_after_values(const kern_attn_args *a)
{
    return a->next_keys != NULL ? a->next_keys : a->v_page;
}

/* The others prefetch a quarter of the values with each piece of the keys. */
CHAIN_INLINE void attn_prefetch_quarter(const kern_attn_args *a, size_t quarter,
                                        const attn_page page)
{
    const size_t all = page == PAGE_F32         ? (size_t)PAGE * DIM * sizeof(float)
                       : page == PAGE_Q8_0_ONCE ? sizeof(kern_q8_values)
                                                : sizeof(kern_q4_values);
    for (size_t at = quarter * all / 4; at < (quarter + 1) * all / 4; at += 64)
        __builtin_prefetch((const char *)a->v_page + at);
}

/* Codes and scales of the keys. */
CHAIN_INLINE kv_key_args attn_quantised_keys(const kern_attn_args *a, const attn_page page)
{
    const kern_q8_keys *q8 = a->k_page;
    const kern_q4_keys *q4 = a->k_page;
    const bool nibbles = attn_codes(page) == KV_CODES_Q4_0;
    return (kv_key_args){.code = a->k_page, .d = nibbles ? q4->d[0] : q8->d[0], .next = a->v_page};
}

/* Piece of the keys: dimensions i .. i+63. */
CHAIN_INLINE void attn_key_piece(const kern_attn_args *a, size_t i, attn_tile *t, chain_args *piece,
                                 const attn_page page)
{
    if (!attn_scales_once(page)) {
        attn_piece(a->k_page, i * PAGE, PIECE, PAGE, t, piece, page);
        return;
    }
    const kv_key_args k = attn_quantised_keys(a, page);
    piece->m = t->piece;
    piece->m_stride = 64;
    piece->len = PIECE;
    for (size_t first = 0; first < PIECE; first += KERN_KV_GROUP)
        for (size_t j = 0; j < PAGE; j += VF_WIDTH) {
            const vf d = vf_load_f16(k.d + (i + first) / KERN_KV_GROUP * PAGE + j);
            for (size_t r = first; r < first + KERN_KV_GROUP; r += 2) {
                vf pair[2];
                kv_key_codes(&k, i + r, j, pair, attn_codes(page));
                vf_store(t->piece + r * 64 + j, vf_mul(pair[0], d));
                vf_store(t->piece + (r + 1) * 64 + j, vf_mul(pair[1], d));
            }
        }
}

/* Piece of the values: dimensions d .. d+63 of the positions that at least one query sees. */
CHAIN_INLINE void attn_value_piece(const kern_attn_args *a, size_t d, attn_tile *t,
                                   chain_args *piece, const attn_page page)
{
    if (!attn_scales_once(page)) {
        attn_piece(a->v_page, d, t->max_keys, DIM, t, piece, page);
        return;
    }
    const kv_value_args v = {.code = a->v_page};
    piece->m = t->piece;
    piece->m_stride = 64;
    piece->len = t->max_keys;
    for (size_t r = 0; r < t->max_keys; r++)
        CHAIN_UNROLL
    for (size_t i = 0; i < PIECE; i += VF_WIDTH) {
        const vf scale = vf_set(t->value_d[r * KERN_KV_GROUPS + (d + i) / KERN_KV_GROUP]);
        const bool high = i % KERN_KV_GROUP >= KERN_KV_GROUP / 2;
        const vf code = kv_value_codes(&v, r, d + i, high, attn_codes(page));
        vf_store(t->piece + r * 64 + i, vf_mul(code, scale));
    }
}

/* p[q][j] = q . k_j for all 64 positions. Scores of masked positions are not used later. */
CHAIN_INLINE void attn_scores(const kern_attn_args *a, attn_tile *t, const attn_page page)
{
    if (attn_scales_at_load(page)) {
        const kv_key_args keys = attn_quantised_keys(a, page);
        kv_key_rows(&keys, t->q, t->score, t->n, attn_codes(page));
        return;
    }
    for (size_t i = 0; i < DIM; i += PIECE) {
        chain_args keys = {.width = PAGE, .resume = i > 0};
        const float *x[QUERIES];
        for (size_t q = 0; q < t->n; q++)
            x[q] = t->q[q] + i;
        if ((page == PAGE_F32 || attn_scales_once(page)) && t->n <= FEW_QUERIES)
            attn_prefetch_quarter(a, i / PIECE, page);
        if (page == PAGE_F16_PER_LOAD)
            keys.next = (const char *)a->v_page + i * PAGE * sizeof(uint16_t);
        attn_key_piece(a, i, t, &keys, page);
        chain_rows(&keys, x, t->score, t->n, attn_shape(page));
    }
}

/* Replaces scores with softmax weights, and merges maximum and denominator into the accumulator. */
static inline void attn_softmax(const kern_attn_args *a, attn_tile *t)
{
    for (size_t q = 0; q < t->n; q++) {
        kern_attn_acc *acc = t->acc[q];
        for (int j = 0; j < PAGE; j += VF_WIDTH)
            vf_store(t->p[q] + j, vf_mul(vf_load(t->p[q] + j), vf_set(a->scale)));
        const float m2 = vf_max_array(t->p[q], t->n_keys[q]);
        const float l2 = vf_softmax_weights(t->p[q], t->n_keys[q], m2);
        if (a->first) {
            acc->m = m2;
            acc->l = l2;
            continue;
        }
        const float m = m2 > acc->m ? m2 : acc->m;
        t->e_old[q] = f_exp(acc->m - m);
        t->e_new[q] = f_exp(m2 - m);
        acc->m = m;
        acc->l = fmaf(l2, t->e_new[q], acc->l * t->e_old[q]);
    }
}

/* o = o_new * e_new + o_old * e_old */
static inline void attn_merge_values(const float *from, float e_new, float e_old, float *o,
                                     size_t n)
{
    const vf a = vf_set(e_new), b = vf_set(e_old);
    for (size_t d = 0; d < n; d += VF_WIDTH)
        vf_store(o + d, vf_fma(vf_load(from + d), a, vf_mul(vf_load(o + d), b)));
}

/* Columns d .. d+63 of the output of n queries over positions first .. end-1. */
CHAIN_INLINE void attn_value_chain(const kern_attn_args *a, const attn_tile *t, chain_args values,
                                   size_t d, size_t first, size_t end, const float *const *x,
                                   float *const *out, size_t n, const attn_page page)
{
    if (attn_scales_at_load(page)) {
        const kv_value_args v = {a->v_page, t->value_d,          first, end, d,
                                 first > 0, attn_after_values(a)};
        kv_value_rows(&v, x, out, PIECE, n, attn_codes(page));
        return;
    }
    const size_t value_bytes = page == PAGE_F16_PER_LOAD ? sizeof(uint16_t) : sizeof(float);
    const float *from[TILE_ROWS];
    for (size_t g = 0; g < n; g++)
        from[g] = x[g] + first;
    values.m = (const char *)values.m + first * values.m_stride * value_bytes;
    values.len = end - first;
    values.resume = first > 0;
    if (page == PAGE_F16_PER_LOAD)
        values.next = attn_after_values(a) + d * PAGE * sizeof(uint16_t);
    chain_group(&values, from, out, n, attn_shape(page));
}

/* 64 columns of the output for up to TILE_ROWS queries: first together over the keys that all of
 * them see, then each query alone over its other keys. A masked key must be skipped; a weight of
 * zero would not be the same, because an accumulator may be -0. */
CHAIN_INLINE void attn_value_group(const kern_attn_args *a, attn_tile *t, size_t q, size_t n,
                                   size_t d, chain_args values, const attn_page page)
{
    _Alignas(64) float block_o[TILE_ROWS][PIECE];
    const float *x[TILE_ROWS];
    float *out[TILE_ROWS];
    size_t common = PAGE;
    for (size_t g = 0; g < n; g++) {
        x[g] = t->p[q + g];
        out[g] = a->first ? t->acc[q + g]->o + d : block_o[g];
        common = t->n_keys[q + g] < common ? t->n_keys[q + g] : common;
    }
    attn_value_chain(a, t, values, d, 0, common, x, out, n, page);
    for (size_t g = 0; g < n; g++) {
        const size_t keys = t->n_keys[q + g];
        if (keys > common)
            attn_value_chain(a, t, values, d, common, keys, &x[g], &out[g], 1, page);
        if (!a->first)
            attn_merge_values(block_o[g], t->e_new[q + g], t->e_old[q + g], t->acc[q + g]->o + d,
                              PIECE);
    }
}

/* Widens the scales of the values. */
CHAIN_INLINE void attn_value_scales(const kern_attn_args *a, attn_tile *t, const attn_page page)
{
    const kern_q8_values *q8 = a->v_page;
    const kern_q4_values *q4 = a->v_page;
    const uint16_t *d = attn_codes(page) == KV_CODES_Q4_0 ? q4->d[0] : q8->d[0];
    for (size_t i = 0; i < PAGE * KERN_KV_GROUPS; i += VF_WIDTH)
        vf_store(t->value_d + i, vf_load_f16(d + i));
}

CHAIN_INLINE void attn_values(const kern_attn_args *a, attn_tile *t, const attn_page page)
{
    if (attn_scales_at_load(page) || attn_scales_once(page))
        attn_value_scales(a, t, page);
    for (size_t d = 0; d < DIM; d += PIECE) {
        chain_args values = {.width = PIECE};
        attn_value_piece(a, d, t, &values, page);
        for (size_t q = 0; q < t->n; q += TILE_ROWS)
            attn_value_group(a, t, q, t->n - q < TILE_ROWS ? t->n - q : TILE_ROWS, d, values, page);
    }
}

CHAIN_INLINE void attn_run_tile(const kern_attn_args *a, attn_tile *t, const attn_page page)
{
    if (t->n == 0)
        return;
    attn_scores(a, t, page);
    attn_softmax(a, t);
    attn_values(a, t, page);
}

static inline void body_attn_block_f32(const kern_attn_args *a)
{
    attn_tile t;
    for (size_t next = 0; next < a->n;) {
        attn_gather(a, &next, &t);
        attn_run_tile(a, &t, PAGE_F32);
    }
}

static inline void body_attn_block_f16(const kern_attn_args *a)
{
    attn_tile t;
    for (size_t next = 0; next < a->n;) {
        attn_gather(a, &next, &t);
        if (t.n <= FEW_QUERIES)
            attn_run_tile(a, &t, PAGE_F16_PER_LOAD);
        else
            attn_run_tile(a, &t, PAGE_F16_ONCE);
    }
}

static inline void body_attn_block_q8_0(const kern_attn_args *a)
{
    attn_tile t;
    for (size_t next = 0; next < a->n;) {
        attn_gather(a, &next, &t);
        if (t.n <= FEW_QUERIES_QUANTISED)
            attn_run_tile(a, &t, PAGE_Q8_0_PER_LOAD);
        else
            attn_run_tile(a, &t, PAGE_Q8_0_ONCE);
    }
}

static inline void body_attn_block_q4_0(const kern_attn_args *a)
{
    attn_tile t;
    for (size_t next = 0; next < a->n;) {
        attn_gather(a, &next, &t);
        if (t.n <= FEW_QUERIES_QUANTISED)
            attn_run_tile(a, &t, PAGE_Q4_0_PER_LOAD);
        else
            attn_run_tile(a, &t, PAGE_Q4_0_ONCE);
    }
}

static inline void body_attn_merge(kern_attn_acc *into, const kern_attn_acc *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float m1 = into[i].m, m2 = from[i].m;
        const float m = m2 > m1 ? m2 : m1;
        const float e1 = f_exp(m1 - m), e2 = f_exp(m2 - m);
        into[i].m = m;
        into[i].l = fmaf(from[i].l, e2, into[i].l * e1);
        attn_merge_values(from[i].o, e2, e1, into[i].o, DIM);
    }
}

static inline void body_attn_finish(const kern_attn_acc *acc, const float *gate, float *y)
{
    const vf l = vf_set(acc->l);
    for (int d = 0; d < DIM; d += VF_WIDTH)
        vf_store(y + d, vf_mul(vf_div(vf_load(acc->o + d), l), vf_sigmoid(vf_load(gate + d))));
}

#endif
