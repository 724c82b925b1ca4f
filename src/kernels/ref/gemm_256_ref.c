/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_256_ref.c - GEMM with weights in superblocks of 256 (K-quants, IQ4_XS, quant_i8_256).
 *
 * A superblock has sixteen groups of 16 values. In some formats two neighbouring groups have the
 * same scale. A weight of group s is d * scale_s * q - dmin * min_s; only Q2_K, Q4_K and Q5_K have
 * the second term. If the activations of the superblock are dx * x, it adds to y[t][r]
 *
 *     isum = sum_s scale_s * sum_{i in s} q_i x_i     exact
 *     msum = sum_s min_s * sum_{i in s} x_i           exact
 *     acc  = fma(d * dx, (float)isum, acc)
 *     acc  = fma(-(dmin * dx), (float)msum, acc)      formats with a minimum
 *
 * in ascending order of superblocks, one chain per output. Conversions to float round to nearest
 * even. Bounds of every partial sum in any order, with |x| <= 127:
 *
 *     format   |scale|   |q|    256 * 127 * |scale| * |q|
 *     Q2_K        15       3        1,463,040
 *     Q3_K        32       4        4,161,536
 *     Q4_K        63      15       30,723,840
 *     Q5_K        63      31       63,495,936
 *     Q6_K       128      32      133,169,152
 *     IQ4_XS      32     127      132,128,768
 *     i8_256      31      62       62,492,672    (127 and 127: 524,386,048)
 *
 * and |msum| <= 63 * 256 * 127 = 2,048,256. All are far below 2^31.
 */
#include "kernels/variants.h"

#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/unpack.h"

#include <math.h>
#include <string.h>

enum { GROUP = 16, N_GROUPS = QUANT_SUPERBLOCK / GROUP };

/* One unpacked superblock. q has the offset of the format subtracted. */
typedef struct weights {
    float d, dmin;
    int8_t scale[N_GROUPS];
    uint8_t min[N_GROUPS];
    int8_t q[QUANT_SUPERBLOCK];
} weights;

typedef struct format {
    void (*unpack)(const void *block, weights *w);
    size_t block_bytes;
    bool has_min;
} format;

/* 2-bit code i: 128 values are 32 bytes; the four codes of a byte are 32 values apart. */
static int code_2bit(const uint8_t *qs, int i)
{
    return qs[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
}

/* 4-bit code i of Q4_K and Q5_K: 64 values are 32 bytes; both codes of a byte are 32 apart. */
static int code_4bit(const uint8_t *qs, int i)
{
    return qs[i / 64 * 32 + i % 32] >> (4 * (i / 32 % 2)) & 15;
}

static void unpack_q2_k(const void *block, weights *w)
{
    const quant_q2_k *b = block;
    w->d = half_f16_to_f32(b->d);
    w->dmin = half_f16_to_f32(b->dmin);
    for (int s = 0; s < N_GROUPS; s++) {
        w->scale[s] = b->scales[s] & 15;
        w->min[s] = b->scales[s] >> 4;
    }
    for (int i = 0; i < QUANT_SUPERBLOCK; i++)
        w->q[i] = (int8_t)code_2bit(b->qs, i);
}

static void unpack_q3_k(const void *block, weights *w)
{
    const quant_q3_k *b = block;
    w->d = half_f16_to_f32(b->d);
    for (int s = 0; s < N_GROUPS; s++)
        w->scale[s] = quant_q3_k_scale(b->scales, s);
    for (int i = 0; i < QUANT_SUPERBLOCK; i++) {
        const int high = b->hmask[i % 32] >> (i / 32) & 1;
        w->q[i] = (int8_t)(code_2bit(b->qs, i) - (high ? 0 : 4));
    }
}

/* Scales and minima of Q4_K and Q5_K: one pair per 32 values. */
static void unpack_scales(const uint8_t scales[12], weights *w)
{
    for (int s = 0; s < N_GROUPS; s++) {
        uint8_t scale;
        quant_q4_k_scale(scales, s / 2, &scale, &w->min[s]);
        w->scale[s] = (int8_t)scale;
    }
}

static void unpack_q4_k(const void *block, weights *w)
{
    const quant_q4_k *b = block;
    w->d = half_f16_to_f32(b->d);
    w->dmin = half_f16_to_f32(b->dmin);
    unpack_scales(b->scales, w);
    for (int i = 0; i < QUANT_SUPERBLOCK; i++)
        w->q[i] = (int8_t)code_4bit(b->qs, i);
}

static void unpack_q5_k(const void *block, weights *w)
{
    const quant_q5_k *b = block;
    w->d = half_f16_to_f32(b->d);
    w->dmin = half_f16_to_f32(b->dmin);
    unpack_scales(b->scales, w);
    for (int i = 0; i < QUANT_SUPERBLOCK; i++)
        w->q[i] = (int8_t)(code_4bit(b->qs, i) | (b->qh[i % 32] >> (i / 32) & 1) << 4);
}

static void unpack_q6_k(const void *block, weights *w)
{
    const quant_q6_k *b = block;
    w->d = half_f16_to_f32(b->d);
    for (int s = 0; s < N_GROUPS; s++)
        w->scale[s] = b->scales[s];
    for (int i = 0; i < QUANT_SUPERBLOCK; i++) {
        const int low = b->ql[i / 128 * 64 + i % 64] >> (4 * (i % 128 / 64)) & 15;
        w->q[i] = (int8_t)((low | code_2bit(b->qh, i) << 4) - 32);
    }
}

static void unpack_iq4_xs(const void *block, weights *w)
{
    const quant_iq4_xs *b = block;
    w->d = half_f16_to_f32(b->d);
    for (int s = 0; s < N_GROUPS; s++)
        w->scale[s] = quant_iq4_xs_scale(b, s / 2);
    for (int i = 0; i < QUANT_SUPERBLOCK; i++)
        w->q[i] = quant_iq4_values[b->qs[i / 32 * 16 + i % 16] >> (4 * (i % 32 / 16)) & 15];
}

static void unpack_i8_256(const void *block, weights *w)
{
    const quant_i8_256 *b = block;
    w->d = b->d;
    memcpy(w->scale, b->scale, sizeof w->scale);
    memcpy(w->q, b->q, sizeof w->q);
}

static int32_t superblock_dot(const weights *w, const int8_t x[QUANT_SUPERBLOCK])
{
    int32_t isum = 0;
    for (int s = 0; s < N_GROUPS; s++) {
        int32_t group = 0;
        for (int i = s * GROUP; i < (s + 1) * GROUP; i++)
            group += w->q[i] * x[i];
        isum += w->scale[s] * group;
    }
    return isum;
}

static int32_t superblock_dot_min(const weights *w, const int16_t sum[N_GROUPS])
{
    int32_t msum = 0;
    for (int s = 0; s < N_GROUPS; s++)
        msum += w->min[s] * sum[s];
    return msum;
}

/* Adds superblock b of row r, for all tokens. y holds the accumulator between blocks. */
static void add_superblock(const kern_gemm_args *a, const format *f, const weights *w, size_t b,
                           size_t r)
{
    const kern_act *x = a->x;
    const size_t n_blocks = x->cols / QUANT_SUPERBLOCK;
    for (size_t t = 0; t < x->n; t++) {
        const size_t xb = t * n_blocks + b; /* superblock of the activations */
        float acc = b == 0 ? 0.0f : a->y[t * a->y_stride + r];
        acc = fmaf(w->d * x->d[xb], (float)superblock_dot(w, x->q + xb * QUANT_SUPERBLOCK), acc);
        if (f->has_min)
            acc = fmaf(-(w->dmin * x->d[xb]), (float)superblock_dot_min(w, x->sum + xb * N_GROUPS),
                       acc);
        a->y[t * a->y_stride + r] = acc;
    }
}

static void gemm_256_ref(const kern_gemm_args *a, const format *f)
{
    weights w = {0};
    for (size_t r = 0; r < a->rows; r++) {
        const char *block = (const char *)a->w + r * a->row_bytes;
        for (size_t b = 0; b < a->x->cols / QUANT_SUPERBLOCK; b++, block += f->block_bytes) {
            f->unpack(block, &w);
            add_superblock(a, f, &w, b, r);
        }
    }
}

void k_gemm_q2_k_ref(const kern_gemm_args *a)
{
    gemm_256_ref(a, &(format){unpack_q2_k, sizeof(quant_q2_k), true});
}

void k_gemm_q3_k_ref(const kern_gemm_args *a)
{
    gemm_256_ref(a, &(format){unpack_q3_k, sizeof(quant_q3_k), false});
}

void k_gemm_q4_k_ref(const kern_gemm_args *a)
{
    gemm_256_ref(a, &(format){unpack_q4_k, sizeof(quant_q4_k), true});
}

void k_gemm_q5_k_ref(const kern_gemm_args *a)
{
    gemm_256_ref(a, &(format){unpack_q5_k, sizeof(quant_q5_k), true});
}

void k_gemm_q6_k_ref(const kern_gemm_args *a)
{
    gemm_256_ref(a, &(format){unpack_q6_k, sizeof(quant_q6_k), false});
}

void k_gemm_iq4_xs_ref(const kern_gemm_args *a)
{
    gemm_256_ref(a, &(format){unpack_iq4_xs, sizeof(quant_iq4_xs), false});
}

void k_gemm_i8_256_ref(const kern_gemm_args *a)
{
    gemm_256_ref(a, &(format){unpack_i8_256, sizeof(quant_i8_256), false});
}
