/* SPDX-License-Identifier: Apache-2.0 */
/*
 * planted_bugs.c - tests the checker with wrong kernels that it must report.
 *
 * Each wrong kernel has a typical bug. All go through the same comparison as the real variants.
 * Correct references go through it too and must pass; otherwise a checker that rejects everything
 * would pass this test.
 */
#include "kernels/check.h"

#include "kernels/fmath.h"
#include "kernels/ref/lanes.h"
#include "kernels/variants.h"
#include "quant/blocks.h"
#include "quant/half.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prevents the compiler from removing a deliberate access. */
static volatile float sink;

/* ---- tails and bounds ---- */

static void add_drops_last(const float *x, size_t n, float *y)
{
    for (size_t i = 0; i + 1 < n; i++)
        y[i] = y[i] + x[i];
}

static void add_writes_past_end(const float *x, size_t n, float *y)
{
    k_add_ref(x, n, y);
    ((volatile float *)y)[n] = 0;
}

static void add_writes_before_start(const float *x, size_t n, float *y)
{
    k_add_ref(x, n, y);
    ((volatile float *)y)[-1] = 0;
}

static void add_reads_past_end(const float *x, size_t n, float *y)
{
    k_add_ref(x, n, y);
    sink = ((const volatile float *)x)[n];
}

static void add_reads_before_start(const float *x, size_t n, float *y)
{
    k_add_ref(x, n, y);
    sink = ((const volatile float *)x)[-1];
}

static void add_changes_input(const float *x, size_t n, float *y)
{
    k_add_ref(x, n, y);
    if (n > 0)
        *(float *)(uintptr_t)x = 1.5f;
}

static void add_wrong_at_one_length(const float *x, size_t n, float *y)
{
    k_add_ref(x, n, y);
    if (n == 33)
        y[32] = -y[32];
}

static void axpy_rounds_twice(float a, const float *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] + a * x[i];
}

static void add_crashes(const float *x, size_t n, float *y)
{
    k_add_ref(x, n, y);
    if (n == 17)
        __builtin_trap();
}

static void kv_put_wrong_neighbour(const float *k, const float *v, void *k_page, void *v_page,
                                   uint32_t slot)
{
    k_kv_put_f16_ref(k, v, k_page, v_page, slot);
    if (slot % 16 != 15) /* a vector store that overwrites the next column */
        ((uint16_t *)k_page)[slot + 1] = 0;
}

static void kv_put_truncates(const float *k, const float *v, void *k_page, void *v_page,
                             uint32_t slot)
{
    float cut[KERN_HEAD_DIM]; /* rounds toward zero instead of to nearest even */
    for (int i = 0; i < KERN_HEAD_DIM; i++)
        cut[i] = f_from_bits(f_bits(k[i]) & 0xffffe000u);
    k_kv_put_f16_ref(cut, v, k_page, v_page, slot);
}

/* Swaps the scales of neighbouring groups. */
static void kv_put_swaps_scales(const float *k, const float *v, void *k_page, void *v_page,
                                uint32_t slot)
{
    k_kv_put_q8_0_ref(k, v, k_page, v_page, slot);
    kern_q8_values *values = v_page;
    const uint16_t first = values->d[slot][0];
    values->d[slot][0] = values->d[slot][1];
    values->d[slot][1] = first;
}

/* The high nibbles of the keys belong to the wrong dimension: 16 further, as in the values. */
static void kv_put_pairs_as_values(const float *k, const float *v, void *k_page, void *v_page,
                                   uint32_t slot)
{
    float moved[KERN_HEAD_DIM];
    for (int i = 0; i < KERN_HEAD_DIM; i++)
        moved[i] = k[i / 32 * 32 + i % 32 / 2 + i % 2 * 16];
    k_kv_put_q4_0_ref(moved, v, k_page, v_page, slot);
}

/* Codes -7 to 7, as if the scale were amax / 7. */
static void kv_put_never_uses_the_lowest_code(const float *k, const float *v, void *k_page,
                                              void *v_page, uint32_t slot)
{
    k_kv_put_q4_0_ref(k, v, k_page, v_page, slot);
    kern_q4_values *values = v_page;
    for (int i = 0; i < KERN_HEAD_DIM / 2; i++)
        if ((values->code[slot][i] & 15) == 8)
            values->code[slot][i] = (uint8_t)(values->code[slot][i] + 1);
}

/* ---- order and rounding of sums ---- */

/* Steps from the largest distance to the smallest: equal in exact arithmetic. */
static void hadamard_descends(float *x, size_t n, float scale)
{
    for (float *group = x; group < x + n; group += KERN_KV_GROUP)
        for (size_t h = KERN_KV_GROUP / 2; h > 0; h /= 2)
            for (size_t i = 0; i < KERN_KV_GROUP; i++) {
                const float a = group[i], b = group[i ^ h];
                if ((i & h) != 0)
                    continue;
                group[i] = a + b;
                group[i + h] = a - b;
            }
    for (size_t i = 0; i < n; i++)
        x[i] *= scale;
}

/* The difference has the wrong sign in the last step. */
static void hadamard_swaps_a_difference(float *x, size_t n, float scale)
{
    k_hadamard_ref(x, n, scale);
    for (size_t i = 16; i < n; i += KERN_KV_GROUP)
        x[i] = -x[i];
}

static void rmsnorm_sums_in_order(const float *x, const float *w, size_t n, float eps, float *y)
{
    float ss = 0;
    for (size_t i = 0; i < n; i++)
        ss = fmaf(x[i], x[i], ss);
    const float r = 1.0f / sqrtf(ss / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] * r) * w[i];
}

/* Correct sum, then x * (r * w). */
static void rmsnorm_other_association(const float *x, const float *w, size_t n, float eps, float *y)
{
    lanes sums = {{0}};
    for (size_t i = 0; i < n; i++)
        sums.lane[i % KERN_LANES] = fmaf(x[i], x[i], sums.lane[i % KERN_LANES]);
    const float r = 1.0f / sqrtf(lanes_total(&sums) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * (r * w[i]);
}

/* Variance as mean of squares minus square of mean. */
static void layernorm_by_squares(const float *x, const float *w, const float *b, size_t n,
                                 float eps, float *y)
{
    lanes sums = {{0}}, squares = {{0}};
    for (size_t i = 0; i < n; i++) {
        sums.lane[i % KERN_LANES] += x[i];
        squares.lane[i % KERN_LANES] = fmaf(x[i], x[i], squares.lane[i % KERN_LANES]);
    }
    const float mean = lanes_total(&sums) / (float)n;
    const float r = 1.0f / sqrtf(lanes_total(&squares) / (float)n - mean * mean + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf((x[i] - mean) * r, w[i], b[i]);
}

static void gelu_erf_for_tanh(const float *b, size_t n, float *y)
{
    k_gelu_tanh_ref(b, n, y);
}

static void vision_attn_sees_one_key_less(const kern_vision_attn_args *a)
{
    kern_vision_attn_args b = *a;
    b.n_keys -= b.n_keys > 1;
    k_vision_attn_block_ref(&b);
}

static void vision_attn_ignores_first(const kern_vision_attn_args *a)
{
    kern_vision_attn_args b = *a;
    b.first = true;
    k_vision_attn_block_ref(&b);
}

static void conv_without_fma(const float *const x[4], const float *w, size_t w_stride, size_t n,
                             float *y)
{
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (size_t j = 0; j < 4; j++)
            sum = sum + w[j * w_stride + i] * x[j][i];
        y[i] = f_silu(sum);
    }
}

static void conv_newest_first(const float *const x[4], const float *w, size_t w_stride, size_t n,
                              float *y)
{
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (size_t j = 4; j-- > 0;)
            sum = fmaf(w[j * w_stride + i], x[j][i], sum);
        y[i] = f_silu(sum);
    }
}

static void rope_fused(float *x, const float *cos, const float *sin, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float a = x[i], b = x[i + n];
        x[i] = fmaf(a, cos[i], -(b * sin[i]));
        x[i + n] = fmaf(b, cos[i], a * sin[i]);
    }
}

static void silu_by_libm(const float *gate, const float *up, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = gate[i] * (1.0f / (1.0f + expf(-gate[i]))) * up[i];
}

static float max_takes_last_zero(const float *x, size_t n)
{
    float best = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if (x[i] >= best)
            best = x[i];
    return best;
}

static float max_stops_at_nan(const float *x, size_t n)
{
    float best = x[0];
    for (size_t i = 1; i < n; i++)
        if (x[i] > best)
            best = x[i];
    return best;
}

static float sum_exp_counts_tail_twice(const float *x, size_t n, float max, float scale)
{
    const float whole = k_sum_exp_ref(x, n, max, scale);
    return n % 16 == 1 ? whole + f_exp((x[n - 1] - max) * scale) : whole;
}

/* Correct order, but keeps results that the definition flushes to zero. */
static float sum_exp_keeps_subnormals(const float *x, size_t n, float max, float scale)
{
    lanes sums = {{0}};
    for (size_t i = 0; i < n; i++) {
        const float at = (x[i] - max) * scale;
        sums.lane[i % KERN_LANES] += at < F_EXP_LO ? (float)exp((double)at) : f_exp(at);
    }
    return lanes_total(&sums);
}

/* ---- DeltaNet and attention ---- */

static void delta_rounds_decay_early(const kern_delta_args *a)
{
    double g[KERN_CHUNK];
    kern_delta_args b = *a;
    for (uint32_t t = 0; t < a->t1; t++)
        g[t] = (double)(float)a->g[t * a->g_stride];
    b.g = g;
    b.g_stride = 1;
    k_delta_rows_ref(&b);
}

static void delta_forgets_own_row(const kern_delta_args *a)
{
    k_delta_rows_ref(a);
    for (uint32_t t = a->t0; t < a->t1; t++) {
        const uint32_t row = t - a->t0;
        float dot = 0;
        for (int i = 0; i < KERN_STATE_DIM; i++)
            dot = fmaf(a->q[row * a->q_stride + i], a->k[t * a->k_stride + i], dot);
        for (int d = 0; d < KERN_STATE_DIM; d++)
            a->o[row * a->o_stride + d] -= dot * a->u[t * a->u_stride + d];
    }
}

static void delta_writes_stride_gap(const kern_delta_args *a)
{
    k_delta_rows_ref(a);
    if (a->t1 - a->t0 > 1 && a->o_stride > KERN_STATE_DIM)
        a->o[KERN_STATE_DIM] = 0;
}

static void fold_reversed(const kern_delta_args *a, float *s1)
{
    kern_delta_args b = *a;
    float k[KERN_CHUNK][KERN_STATE_DIM], u[KERN_CHUNK][KERN_STATE_DIM];
    for (int j = 0; j < KERN_CHUNK; j++) {
        const size_t from = (size_t)(KERN_CHUNK - 1 - j);
        const float decay =
            f_exp((float)(a->g[(KERN_CHUNK - 1) * a->g_stride] - a->g[from * a->g_stride]));
        for (int i = 0; i < KERN_STATE_DIM; i++)
            k[j][i] = decay * a->k[from * a->k_stride + i];
        memcpy(u[j], a->u + from * a->u_stride, sizeof u[j]);
    }
    const float all = f_exp((float)a->g[(KERN_CHUNK - 1) * a->g_stride]);
    for (int i = 0; i < KERN_STATE_DIM; i++)
        for (int d = 0; d < KERN_STATE_DIM; d++) {
            float sum = all * b.s0[i * KERN_STATE_DIM + d];
            for (int j = 0; j < KERN_CHUNK; j++)
                sum = fmaf(k[j][i], u[j][d], sum);
            s1[i * KERN_STATE_DIM + d] = sum;
        }
}

static void attn_sees_one_key_more(const kern_attn_args *a)
{
    uint8_t more[64];
    kern_attn_args b = *a;
    for (size_t i = 0; i < a->n; i++)
        more[i] =
            (uint8_t)(a->n_keys[i] > 0 && a->n_keys[i] < 64 ? a->n_keys[i] + 1 : a->n_keys[i]);
    b.n_keys = more;
    k_attn_block_f16_ref(&b);
}

static void attn_ignores_first(const kern_attn_args *a)
{
    kern_attn_args b = *a;
    b.first = false;
    k_attn_block_f16_ref(&b);
}

/* Scales the query instead of the score: other rounding. */
static void attn_scales_query(const kern_attn_args *a)
{
    for (size_t i = 0; i < a->n; i++) {
        float q[KERN_HEAD_DIM];
        kern_attn_args b = *a;
        for (int d = 0; d < KERN_HEAD_DIM; d++)
            q[d] = a->q[i * a->q_stride + (size_t)d] * 0.3f;
        b.q = q;
        b.n = 1;
        b.n_keys = a->n_keys + i;
        b.acc = a->acc + i;
        b.scale = a->scale / 0.3f;
        k_attn_block_f16_ref(&b);
    }
}

/* Converts codes to f16 instead of f32. */
static void attn_through_halves(const kern_attn_args *a)
{
    static uint16_t keys[KERN_HEAD_DIM][KERN_PAGE], values[KERN_PAGE][KERN_HEAD_DIM];
    const kern_q8_keys *k = a->k_page;
    const kern_q8_values *v = a->v_page;
    for (int i = 0; i < KERN_HEAD_DIM; i++)
        for (int j = 0; j < KERN_PAGE; j++) {
            const int group = i / KERN_KV_GROUP;
            keys[i][j] = half_f32_to_f16((float)k->code[i][j] * half_f16_to_f32(k->d[group][j]));
            values[j][i] = half_f32_to_f16((float)v->code[j][i] * half_f16_to_f32(v->d[j][group]));
        }
    kern_attn_args b = *a;
    b.k_page = keys;
    b.v_page = values;
    k_attn_block_f16_ref(&b);
}

/* The values have their even dimensions in the low nibbles, like the keys. */
static void attn_pairs_values_as_keys(const kern_attn_args *a)
{
    static kern_q4_values wrong;
    wrong = *(const kern_q4_values *)a->v_page;
    for (int j = 0; j < KERN_PAGE; j++)
        for (int i = 0; i < KERN_HEAD_DIM / 2; i++) {
            const uint8_t *group = ((const kern_q4_values *)a->v_page)->code[j] + i / 16 * 16;
            const int low = i % 16 / 2, shift = i % 2 * 4;
            wrong.code[j][i] =
                (uint8_t)((group[low] >> shift & 15) | (group[8 + low] >> shift & 15) << 4);
        }
    kern_attn_args b = *a;
    b.v_page = &wrong;
    k_attn_block_q4_0_ref(&b);
}

/* The scales of the last group of the keys are those of the group before it. */
static void attn_ends_groups_early(const kern_attn_args *a)
{
    static kern_q4_keys wrong;
    wrong = *(const kern_q4_keys *)a->k_page;
    memcpy(wrong.d[KERN_KV_GROUPS - 1], wrong.d[KERN_KV_GROUPS - 2], sizeof wrong.d[0]);
    kern_attn_args b = *a;
    b.k_page = &wrong;
    k_attn_block_q4_0_ref(&b);
}

static void merge_swaps(kern_attn_acc *into, const kern_attn_acc *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        kern_attn_acc other = from[i];
        k_attn_merge_ref(&other, &into[i], 1);
        into[i] = other;
    }
}

static void finish_by_reciprocal(const kern_attn_acc *acc, const float *gate, float *y)
{
    const float inverse = 1.0f / acc->l;
    for (int d = 0; d < KERN_HEAD_DIM; d++)
        y[d] = (acc->o[d] * inverse) * f_sigmoid(gate[d]);
}

/* ---- low_rank_add ---- */

/* The sum of the products is complete before it is added to y. */
static void low_rank_adds_last(const kern_low_rank_args *a)
{
    for (size_t t = 0; t < a->tokens; t++)
        for (size_t r = 0; r < a->n; r++) {
            float sum = 0.0f;
            kern_low_rank_args one = *a;
            one.b = a->halves ? (const void *)((const uint16_t *)a->b + r)
                              : (const void *)((const float *)a->b + r);
            one.x = a->x + t * a->x_stride;
            one.y = &sum;
            one.tokens = one.n = 1;
            k_low_rank_add_ref(&one);
            a->y[t * a->y_stride + r] += sum;
        }
}

/* Subnormal halves are 0. */
static void low_rank_flushes_halves(const kern_low_rank_args *a)
{
    static uint16_t copy[1 << 16];
    kern_low_rank_args flushed = *a;
    const size_t n = a->rank == 0 ? 0 : (a->rank - 1) * a->b_stride + a->n;
    if (a->halves && n <= sizeof copy / sizeof *copy) {
        for (size_t i = 0; i < n; i++) {
            const uint16_t half = ((const uint16_t *)a->b)[i];
            copy[i] = (half & 0x7C00) == 0 ? half & 0x8000 : half;
        }
        flushed.b = copy;
    }
    k_low_rank_add_ref(&flushed);
}

/* The last token is missing if their number is odd. */
static void low_rank_takes_pairs(const kern_low_rank_args *a)
{
    kern_low_rank_args part = *a;
    part.tokens = a->tokens / 2 * 2;
    k_low_rank_add_ref(&part);
}

/* ---- running the kernels ---- */

static const check_slot *find_slot(const char *name)
{
    for (size_t i = 0; i < n_check_slots; i++)
        if (strcmp(check_slots[i].name, name) == 0)
            return &check_slots[i];
    return NULL;
}

static int n_run, n_missed;

/* ---- products of the formats of gemm_unpacked.c: a kernel that misses a bit of a block ---- */

typedef struct missed_bit {
    const char *slot, *field;
    kern_gemm_fn *reference;
    size_t block_bytes, byte;
    unsigned char mask;
} missed_bit;

#define MISSED(f, field, byte, mask)                                                               \
    {                                                                                              \
        "gemm_" #f, #field, k_gemm_##f##_ref, sizeof(quant_##f),                                   \
            offsetof(quant_##f, field) + (byte), mask                                              \
    }

static const missed_bit missed_bits[] = {
    MISSED(iq1_s, qs, 31, 0x80),     MISSED(iq1_s, qh, 0, 0x01),
    MISSED(iq1_s, qh, 15, 0x70),     MISSED(iq1_s, qh, 1, 0x80),
    MISSED(iq1_m, qs, 0, 0x01),      MISSED(iq1_m, qh, 15, 0x80),
    MISSED(iq1_m, qh, 3, 0x07),      MISSED(iq1_m, scales, 0, 0x07),
    MISSED(iq1_m, scales, 7, 0xF0),  MISSED(iq2_xxs, d, 1, 0x80),
    MISSED(iq2_xxs, qs, 0, 0x80),    MISSED(iq2_xxs, qs, 63, 0xF0),
    MISSED(iq2_xxs, qs, 4, 0x40),    MISSED(iq2_xs, qs, 1, 0x01),
    MISSED(iq2_xs, qs, 63, 0x80),    MISSED(iq2_xs, scales, 7, 0xF0),
    MISSED(iq2_s, qs, 31, 0x80),     MISSED(iq2_s, signs, 31, 0x80),
    MISSED(iq2_s, qh, 7, 0xC0),      MISSED(iq2_s, scales, 0, 0x0F),
    MISSED(iq3_xxs, qs, 63, 0x80),   MISSED(iq3_xxs, signs, 3, 0xF0),
    MISSED(iq3_xxs, signs, 0, 0x01), MISSED(iq3_s, qs, 0, 0x01),
    MISSED(iq3_s, qh, 7, 0x80),      MISSED(iq3_s, signs, 31, 0x80),
    MISSED(iq3_s, scales, 3, 0xF0),  MISSED(tq1_0, qs, 47, 0x80),
    MISSED(tq1_0, qh, 3, 0x80),      MISSED(tq1_0, d, 1, 0x80),
    MISSED(tq2_0, qs, 63, 0xC0),     MISSED(tq2_0, d, 1, 0x80),
    MISSED(mxfp4, e, 0, 0x01),       MISSED(mxfp4, qs, 15, 0x80),
    MISSED(nvfp4, d, 3, 0x08),       MISSED(nvfp4, qs, 31, 0x80),
    MISSED(q1_0, qs, 15, 0x80),      MISSED(q1_0, d, 1, 0x80),
    MISSED(q2_0, qs, 15, 0x80),      MISSED(q2_0, d, 1, 0x80),
};

static const missed_bit *missed; /* of gemm_misses_a_bit */

/* Multiplies by a copy of the weights without some bits of each block. */
static void gemm_misses_a_bit(const kern_gemm_args *a)
{
    kern_gemm_args part = *a;
    const size_t bytes = a->rows * a->row_bytes;
    unsigned char *w = malloc(bytes);
    if (w == NULL)
        abort();
    memcpy(w, a->w, bytes);
    for (size_t at = missed->byte; at < bytes; at += missed->block_bytes)
        w[at] &= (unsigned char)~missed->mask;
    part.w = w;
    missed->reference(&part);
    free(w);
}

/* Rows of the last panel are missing if there are more than 32. */
static void gemm_stops_at_a_panel(const kern_gemm_args *a)
{
    kern_gemm_args part = *a;
    part.rows = a->rows > 32 ? 32 : a->rows;
    k_gemm_iq2_s_ref(&part);
}

static void expect_verdict(check *c, const char *slot, const char *bug, const kern_table *table,
                           bool wrong)
{
    kern_table reference;
    uint64_t n_cases = 0;
    kern_table_init(&reference, MOTE_ISA_REF);
    const bool passed = check_variant(c, find_slot(slot), &reference, table, 1, &n_cases);
    const bool as_expected = passed != wrong;
    printf("%-6s %-14s %-26s %s\n", as_expected ? "ok" : "MISSED", slot, bug, c->message);
    n_run++;
    n_missed += !as_expected;
}

#define PLANT(slot, bug)                                                                           \
    do {                                                                                           \
        kern_table table;                                                                          \
        kern_table_init(&table, MOTE_ISA_REF);                                                     \
        table.slot = bug;                                                                          \
        expect_verdict(&c, #slot, #bug, &table, table.slot != k_##slot##_ref);                     \
    } while (0)

static void plant_missed_bits(check *c)
{
    for (size_t i = 0; i < sizeof missed_bits / sizeof *missed_bits; i++) {
        kern_table table;
        missed = &missed_bits[i];
        kern_table_init(&table, MOTE_ISA_REF);
        memcpy((char *)&table + find_slot(missed->slot)->offset,
               &(kern_gemm_fn *){gemm_misses_a_bit}, sizeof(kern_gemm_fn *));
        expect_verdict(c, missed->slot, missed->field, &table, true);
    }
}

int main(void)
{
    static check c;
    check_catch_signals();
    PLANT(gemm_iq2_s, k_gemm_iq2_s_ref); /* correct: must pass */
    PLANT(gemm_iq2_s, gemm_stops_at_a_panel);
    plant_missed_bits(&c);
    PLANT(add, k_add_ref); /* correct: must pass */
    PLANT(add, add_drops_last);
    PLANT(add, add_writes_past_end);
    PLANT(add, add_writes_before_start);
    PLANT(add, add_reads_past_end);
    PLANT(add, add_reads_before_start);
    PLANT(add, add_changes_input);
    PLANT(add, add_wrong_at_one_length);
    PLANT(add, add_crashes);
    PLANT(axpy, k_axpy_ref); /* correct: must pass */
    PLANT(axpy, axpy_rounds_twice);
    PLANT(kv_put_f16, kv_put_wrong_neighbour);
    PLANT(kv_put_f16, kv_put_truncates);
    PLANT(kv_put_q8_0, k_kv_put_q8_0_ref); /* correct: must pass */
    PLANT(kv_put_q8_0, kv_put_swaps_scales);
    PLANT(kv_put_q4_0, k_kv_put_q4_0_ref); /* correct: must pass */
    PLANT(kv_put_q4_0, kv_put_pairs_as_values);
    PLANT(kv_put_q4_0, kv_put_never_uses_the_lowest_code);
    PLANT(hadamard, k_hadamard_ref); /* correct: must pass */
    PLANT(hadamard, hadamard_descends);
    PLANT(hadamard, hadamard_swaps_a_difference);
    PLANT(rmsnorm, rmsnorm_sums_in_order);
    PLANT(rmsnorm, rmsnorm_other_association);
    PLANT(layernorm, k_layernorm_ref); /* correct: must pass */
    PLANT(layernorm, layernorm_by_squares);
    PLANT(gelu_erf, gelu_erf_for_tanh);
    PLANT(vision_attn_block, k_vision_attn_block_ref); /* correct: must pass */
    PLANT(vision_attn_block, vision_attn_sees_one_key_less);
    PLANT(vision_attn_block, vision_attn_ignores_first);
    PLANT(conv_silu, conv_without_fma);
    PLANT(conv_silu, conv_newest_first);
    PLANT(rope, rope_fused);
    PLANT(low_rank_add, k_low_rank_add_ref); /* correct: must pass */
    PLANT(low_rank_add, low_rank_adds_last);
    PLANT(low_rank_add, low_rank_takes_pairs);
    PLANT(low_rank_add, low_rank_flushes_halves);
    PLANT(silu_mul, silu_by_libm);
    PLANT(max, max_takes_last_zero);
    PLANT(max, max_stops_at_nan);
    PLANT(sum_exp, sum_exp_counts_tail_twice);
    PLANT(sum_exp, sum_exp_keeps_subnormals);
    PLANT(delta_rows, delta_rounds_decay_early);
    PLANT(delta_rows, delta_forgets_own_row);
    PLANT(delta_rows, delta_writes_stride_gap);
    PLANT(delta_fold, fold_reversed);
    PLANT(attn_block_f16, k_attn_block_f16_ref); /* correct: must pass */
    PLANT(attn_block_f16, attn_sees_one_key_more);
    PLANT(attn_block_f16, attn_ignores_first);
    PLANT(attn_block_f16, attn_scales_query);
    PLANT(attn_block_q8_0, k_attn_block_q8_0_ref); /* correct: must pass */
    PLANT(attn_block_q8_0, attn_through_halves);
    PLANT(attn_block_q4_0, k_attn_block_q4_0_ref); /* correct: must pass */
    PLANT(attn_block_q4_0, attn_pairs_values_as_keys);
    PLANT(attn_block_q4_0, attn_ends_groups_early);
    PLANT(attn_merge, merge_swaps);
    PLANT(attn_finish, finish_by_reciprocal);
    check_free(&c);
    printf("%d kernels, %d with a wrong verdict\n", n_run, n_missed);
    return n_missed > 0;
}
