/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attn_ref.c - attention over one KV page, and the merge of two results (online softmax).
 *
 * The result over any set of keys is (m, l, o): the maximum score, the sum of e^(s - m), and the
 * sum of values weighted with e^(s - m). Two results merge into one:
 *
 *   m = max(m1, m2),  e1 = e^(m1 - m),  e2 = e^(m2 - m)
 *   l = l2 e2 + l1 e1,  o = o2 e2 + o1 e1      (fma(l2, e2, l1 * e1), same for o)
 *
 * Each page is computed on its own and then merged, pages in ascending order. Absolute positions
 * alone decide what is merged when, so the bits do not depend on threads or prefill chunks.
 */
#include "kernels/variants.h"

#include "kernels/fmath.h"
#include "kernels/ref/lanes.h"
#include "quant/half.h"

enum { DIM = KERN_HEAD_DIM, PAGE = KERN_PAGE };

/* Accessors of a cache format: dimension i of the key or value of position j. */
typedef struct page_format {
    float (*key)(const void *page, size_t i, size_t j);
    float (*value)(const void *page, size_t i, size_t j);
} page_format;

static float key_f32(const void *page, size_t i, size_t j)
{
    return ((const float *)page)[i * PAGE + j];
}

static float value_f32(const void *page, size_t i, size_t j)
{
    return ((const float *)page)[j * DIM + i];
}

static float key_f16(const void *page, size_t i, size_t j)
{
    return half_f16_to_f32(((const uint16_t *)page)[i * PAGE + j]);
}

static float value_f16(const void *page, size_t i, size_t j)
{
    return half_f16_to_f32(((const uint16_t *)page)[j * DIM + i]);
}

/* Exact: the product of 7 and 11 significant bits fits in a float. */
static float key_q8_0(const void *page, size_t i, size_t j)
{
    const kern_q8_keys *k = page;
    return (float)k->code[i][j] * half_f16_to_f32(k->d[i / KERN_KV_GROUP][j]);
}

static float value_q8_0(const void *page, size_t i, size_t j)
{
    const kern_q8_values *v = page;
    return (float)v->code[j][i] * half_f16_to_f32(v->d[j][i / KERN_KV_GROUP]);
}

/* The low or the high nibble of a byte, sign-extended. */
static float code_q4_0(uint8_t byte, bool high)
{
    const int code = high ? byte >> 4 : byte & 15;
    return (float)(code < 8 ? code : code - 16);
}

static float key_q4_0(const void *page, size_t i, size_t j)
{
    const kern_q4_keys *k = page;
    return code_q4_0(k->code[i / 2][j], i % 2 == 1) * half_f16_to_f32(k->d[i / KERN_KV_GROUP][j]);
}

static float value_q4_0(const void *page, size_t i, size_t j)
{
    const kern_q4_values *v = page;
    const size_t group = i / KERN_KV_GROUP, at = i % KERN_KV_GROUP, half = KERN_KV_GROUP / 2;
    return code_q4_0(v->code[j][group * half + at % half], at >= half) *
           half_f16_to_f32(v->d[j][group]);
}

static const page_format page_f32 = {key_f32, value_f32};
static const page_format page_f16 = {key_f16, value_f16};
static const page_format page_q8_0 = {key_q8_0, value_q8_0};
static const page_format page_q4_0 = {key_q4_0, value_q4_0};

static float max_float(float first, float second)
{
    return second > first ? second : first;
}

static void attn_acc_merge(kern_attn_acc *into, const kern_attn_acc *from)
{
    const float m = max_float(into->m, from->m);
    const float e1 = f_exp(into->m - m);
    const float e2 = f_exp(from->m - m);
    into->m = m;
    into->l = fmaf(from->l, e2, into->l * e1);
    for (int d = 0; d < DIM; d++)
        into->o[d] = fmaf(from->o[d], e2, into->o[d] * e1);
}

/* One query q [256] with the first n >= 1 positions of a page:
 *   s_j = (q . k_j) * scale   a chain over the 256 dimensions
 *   m = max s_j,  p_j = e^(s_j - m)
 *   l = lanes(p),  o[d] = chain over j of p_j v_j[d]
 * Masked positions are skipped, not added as zero. */
static void attn_one_query(const float *q, const kern_attn_args *a, size_t n,
                           const page_format *page, kern_attn_acc *out)
{
    float p[PAGE];
    lanes sums = {{0}};
    out->m = -INFINITY;
    for (size_t j = 0; j < n; j++) {
        float score = 0.0f;
        for (size_t i = 0; i < DIM; i++)
            score = fmaf(q[i], page->key(a->k_page, i, j), score);
        p[j] = score * a->scale;
        out->m = max_float(out->m, p[j]);
    }
    for (size_t j = 0; j < n; j++) {
        p[j] = f_exp(p[j] - out->m);
        sums.lane[j % KERN_LANES] += p[j];
    }
    out->l = lanes_total(&sums);
    for (size_t d = 0; d < DIM; d++) {
        float sum = 0.0f;
        for (size_t j = 0; j < n; j++)
            sum = fmaf(p[j], page->value(a->v_page, d, j), sum);
        out->o[d] = sum;
    }
}

static void attn_all_queries(const kern_attn_args *a, const page_format *page)
{
    for (size_t i = 0; i < a->n; i++) {
        kern_attn_acc result;
        if (a->n_keys[i] == 0)
            continue;
        attn_one_query(a->q + i * a->q_stride, a, a->n_keys[i], page, &result);
        if (a->first)
            a->acc[i] = result;
        else
            attn_acc_merge(&a->acc[i], &result);
    }
}

void k_attn_block_f32_ref(const kern_attn_args *a)
{
    attn_all_queries(a, &page_f32);
}

void k_attn_block_f16_ref(const kern_attn_args *a)
{
    attn_all_queries(a, &page_f16);
}

void k_attn_block_q8_0_ref(const kern_attn_args *a)
{
    attn_all_queries(a, &page_q8_0);
}

void k_attn_block_q4_0_ref(const kern_attn_args *a)
{
    attn_all_queries(a, &page_q4_0);
}

void k_attn_merge_ref(kern_attn_acc *into, const kern_attn_acc *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        attn_acc_merge(&into[i], &from[i]);
}

/* Divides by the softmax denominator, then applies the output gate. */
void k_attn_finish_ref(const kern_attn_acc *acc, const float *gate, float *y)
{
    for (int d = 0; d < DIM; d++)
        y[d] = (acc->o[d] / acc->l) * f_sigmoid(gate[d]);
}
