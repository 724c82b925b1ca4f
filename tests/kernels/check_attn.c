/* SPDX-License-Identifier: Apache-2.0 */
/* check_attn.c - checks of hadamard, kv_put_*, attn_block_*, attn_merge, attn_finish. */
#include "kernels/checks.h"

#include "quant/half.h"

#include <string.h>

enum { DIM = KERN_HEAD_DIM, PAGE = KERN_PAGE, PAGE_VALUES = DIM * PAGE };
enum { ACC_FLOATS = sizeof(kern_attn_acc) / sizeof(float) };

/* Like check_in_f32, rounded to f16: finite, with subnormals. */
static const void *in_f16(check *c, size_t n)
{
    uint16_t *x = check_in_aligned(c, n * sizeof *x, sizeof *x);
    for (size_t i = 0; i < n; i++) {
        float value;
        check_fill_f32(c, &value, 1);
        x[i] = half_f32_to_f16(value);
        if ((x[i] & 0x7c00u) == 0x7c00u)
            x[i] ^= 0x4000u;
    }
    return x;
}

/* Bytes of the keys or values of a page. */
static size_t page_bytes(mote_kv kv)
{
    switch (kv) {
    case MOTE_KV_F32: return PAGE_VALUES * sizeof(float);
    case MOTE_KV_F16: return PAGE_VALUES * sizeof(uint16_t);
    case MOTE_KV_Q8_0: return sizeof(kern_q8_keys);
    case MOTE_KV_Q4_0: break;
    }
    return sizeof(kern_q4_keys);
}

/* Random codes, -128 and -8 included; f16 scales with zeros, subnormals and both signs. Keys and
 * values both end with the scales. */
static const void *in_quantised(check *c, mote_kv kv)
{
    const size_t bytes = page_bytes(kv), scale_bytes = KERN_KV_GROUPS * PAGE * sizeof(uint16_t);
    unsigned char *page = check_in_aligned(c, bytes, sizeof(uint16_t));
    const void *scales = in_f16(c, KERN_KV_GROUPS * PAGE);
    for (size_t i = 0; i < bytes - scale_bytes; i++)
        page[i] = (unsigned char)check_random(c);
    memcpy(page + bytes - scale_bytes, scales, scale_bytes);
    return page;
}

/* Output buffer for the keys or values of a page. */
static void *out_page(check *c, mote_kv kv)
{
    return check_out_aligned(c, page_bytes(kv),
                             kv == MOTE_KV_F32 ? sizeof(float) : sizeof(uint16_t));
}

static const void *in_page(check *c, mote_kv kv)
{
    return kv == MOTE_KV_F32   ? check_in_f32(c, PAGE_VALUES)
           : kv == MOTE_KV_F16 ? in_f16(c, PAGE_VALUES)
                               : in_quantised(c, kv);
}

static bool put_case(check *c, uint32_t i, mote_kv kv, kern_kv_put_fn *put)
{
    if (i >= (c->bench ? 1 : PAGE))
        return false;
    const float *k = check_in_f32(c, DIM);
    const float *v = check_in_f32(c, DIM);
    void *k_page = out_page(c, kv);
    void *v_page = out_page(c, kv);
    check_label(c, 0, 0, "one position");
    CHECK_CALL(c)
    put(k, v, k_page, v_page, i);
    return true;
}

bool check_kv_put_f32(check *c, uint32_t i)
{
    return put_case(c, i, MOTE_KV_F32, c->table->kv_put_f32);
}

bool check_kv_put_f16(check *c, uint32_t i)
{
    return put_case(c, i, MOTE_KV_F16, c->table->kv_put_f16);
}

bool check_kv_put_q8_0(check *c, uint32_t i)
{
    return put_case(c, i, MOTE_KV_Q8_0, c->table->kv_put_q8_0);
}

bool check_kv_put_q4_0(check *c, uint32_t i)
{
    return put_case(c, i, MOTE_KV_Q4_0, c->table->kv_put_q4_0);
}

/* One to nine groups. */
bool check_hadamard(check *c, uint32_t i)
{
    const size_t n = c->bench ? DIM : (i + 1) * KERN_KV_GROUP;
    if (i >= (c->bench ? 1u : 9u))
        return false;
    float *x = check_inout_f32(c, n);
    const float scale = c->bench || i % 2 == 0 ? 0.03125f : 1.0f;
    check_label(c, 0, 0, "%zu values", n);
    CHECK_CALL(c)
    c->table->hadamard(x, n, scale);
    return true;
}

/* Visible keys of each query, by kind of case: all, causal, random. */
static const uint8_t *key_counts(check *c, uint32_t i, size_t n)
{
    uint8_t *counts = check_in_aligned(c, n, 1);
    const uint32_t edge = check_below(c, PAGE);
    for (size_t q = 0; q < n; q++) {
        const size_t causal = edge + q / 2;
        if (i % 3 == 0 || c->bench)
            counts[q] = PAGE;
        else if (i % 3 == 1)
            counts[q] = (uint8_t)(causal < PAGE ? causal : PAGE);
        else
            counts[q] = (uint8_t)check_below(c, PAGE + 1);
    }
    return counts;
}

/* Number of queries of case i; 0: no such case. The first 65 cases have one query that sees i
 * keys. */
static size_t queries_of_case(const check *c, uint32_t i)
{
    static const uint8_t bench[] = {1, 4, 8, 16, 64};
    static const uint8_t some[] = {2, 3, 4,  5,  6, 7, 8, 9, 12, 4, 5, 8,
                                   1, 4, 15, 16, 5, 8, 3, 4, 17, 9, 8, 33};
    if (c->bench)
        return i < sizeof bench ? bench[i] : 0;
    if (i <= PAGE)
        return 1;
    i -= PAGE + 1;
    return i < sizeof some ? some[i] : 0;
}

static bool block_case(check *c, uint32_t i, mote_kv kv, kern_attn_block_fn *block)
{
    const size_t n = queries_of_case(c, i);
    if (n == 0)
        return false;
    kern_attn_args a = {.n = n, .scale = 0.0625f, .first = !c->bench && check_random(c) % 2 == 0};
    a.q_stride = c->bench ? DIM : DIM + check_below(c, 4) * 5;
    a.q = check_in_f32(c, (n - 1) * a.q_stride + DIM);
    uint8_t *one = check_in_aligned(c, 1, 1);
    one[0] = (uint8_t)i;
    a.n_keys = i <= PAGE && !c->bench ? one : key_counts(c, i, n);
    a.k_page = in_page(c, kv);
    a.v_page = in_page(c, kv);
    a.acc = (kern_attn_acc *)check_inout_f32(c, n * ACC_FLOATS);
    check_label(c, 4.0 * (double)n * PAGE_VALUES, 0, "queries=%zu", n);
    CHECK_CALL(c)
    block(&a);
    return true;
}

bool check_attn_block_f32(check *c, uint32_t i)
{
    return block_case(c, i, MOTE_KV_F32, c->table->attn_block_f32);
}

bool check_attn_block_f16(check *c, uint32_t i)
{
    return block_case(c, i, MOTE_KV_F16, c->table->attn_block_f16);
}

bool check_attn_block_q8_0(check *c, uint32_t i)
{
    return block_case(c, i, MOTE_KV_Q8_0, c->table->attn_block_q8_0);
}

bool check_attn_block_q4_0(check *c, uint32_t i)
{
    return block_case(c, i, MOTE_KV_Q4_0, c->table->attn_block_q4_0);
}

bool check_attn_merge(check *c, uint32_t i)
{
    const size_t n = c->bench ? 4 : i;
    if (i >= (c->bench ? 1u : 7u))
        return false;
    kern_attn_acc *into = (kern_attn_acc *)check_inout_f32(c, n * ACC_FLOATS);
    const kern_attn_acc *from = (const kern_attn_acc *)check_in_f32(c, n * ACC_FLOATS);
    check_label(c, 0, 0, "queries=%zu", n);
    CHECK_CALL(c)
    c->table->attn_merge(into, from, n);
    return true;
}

bool check_attn_finish(check *c, uint32_t i)
{
    if (i >= (c->bench ? 1u : 10u))
        return false;
    const kern_attn_acc *acc = (const kern_attn_acc *)check_in_f32(c, ACC_FLOATS);
    const float *gate = check_in_f32(c, DIM);
    float *y = check_out_f32(c, DIM);
    check_label(c, 0, 0, "one query");
    CHECK_CALL(c)
    c->table->attn_finish(acc, gate, y);
    return true;
}
