/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_32_ref.c - GEMM with weights in blocks of 32.
 *
 * A weight is d * q, or d * q + m in Q4_1 and Q5_1. If the activations of a block are dx * x, the
 * block adds to y[t][r]
 *
 *     isum = sum_i q_i x_i                   exact
 *     acc  = fma(d * dx, (float)isum, acc)
 *     acc  = fma(m * dx, (float)xsum, acc)   formats with m; xsum = sum_i x_i
 *
 * in ascending order of blocks, one chain per output. |q| <= 128 and |x| <= 127, so |isum| <= 32 *
 * 128 * 127 = 520,192: no partial sum overflows 32 bits, and the conversion to float is exact.
 */
#include "kernels/variants.h"

#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/unpack.h"

#include <math.h>

/* One unpacked block. q has the offset of the format subtracted. */
typedef struct weights {
    float d, m;
    int8_t q[QUANT_BLOCK];
} weights;

typedef struct format {
    void (*unpack)(const void *block, weights *w);
    size_t block_bytes;
    bool has_m;
} format;

/* 4-bit code i of 32. The low nibbles are the first sixteen. */
static int code_nibble(const uint8_t qs[16], int i)
{
    return qs[i % 16] >> (4 * (i / 16)) & 15;
}

static int code_high_bit(const uint8_t *bits, int i)
{
    return bits[i / 8] >> (i % 8) & 1;
}

static void unpack_q4_0(const void *block, weights *w)
{
    const quant_q4_0 *b = block;
    w->d = half_f16_to_f32(b->d);
    for (int i = 0; i < QUANT_BLOCK; i++)
        w->q[i] = (int8_t)(code_nibble(b->qs, i) - 8);
}

static void unpack_q4_1(const void *block, weights *w)
{
    const quant_q4_1 *b = block;
    w->d = half_f16_to_f32(b->d);
    w->m = half_f16_to_f32(b->m);
    for (int i = 0; i < QUANT_BLOCK; i++)
        w->q[i] = (int8_t)code_nibble(b->qs, i);
}

static void unpack_q5_0(const void *block, weights *w)
{
    const quant_q5_0 *b = block;
    w->d = half_f16_to_f32(b->d);
    for (int i = 0; i < QUANT_BLOCK; i++)
        w->q[i] = (int8_t)((code_nibble(b->qs, i) | code_high_bit(b->qh, i) << 4) - 16);
}

static void unpack_q5_1(const void *block, weights *w)
{
    const quant_q5_1 *b = block;
    w->d = half_f16_to_f32(b->d);
    w->m = half_f16_to_f32(b->m);
    for (int i = 0; i < QUANT_BLOCK; i++)
        w->q[i] = (int8_t)(code_nibble(b->qs, i) | code_high_bit(b->qh, i) << 4);
}

static void unpack_q8_0(const void *block, weights *w)
{
    const quant_q8_0 *b = block;
    w->d = half_f16_to_f32(b->d);
    for (int i = 0; i < QUANT_BLOCK; i++)
        w->q[i] = b->qs[i];
}

static void unpack_iq4_nl(const void *block, weights *w)
{
    const quant_iq4_nl *b = block;
    w->d = half_f16_to_f32(b->d);
    for (int i = 0; i < QUANT_BLOCK; i++)
        w->q[i] = quant_iq4_values[code_nibble(b->qs, i)];
}

static void unpack_mxfp4(const void *block, weights *w)
{
    const quant_mxfp4 *b = block;
    w->d = quant_mxfp4_scale(b->e);
    for (int i = 0; i < QUANT_BLOCK; i++)
        w->q[i] = quant_fp4_values[code_nibble(b->qs, i)];
}

static int32_t block_dot(const int8_t w[QUANT_BLOCK], const int8_t x[QUANT_BLOCK])
{
    int32_t isum = 0;
    for (int i = 0; i < QUANT_BLOCK; i++)
        isum += w[i] * x[i];
    return isum;
}

/* Adds block b of row r, for all tokens. y holds the accumulator between blocks. */
static void add_block_32(const kern_gemm_args *a, const format *f, const weights *w, size_t b,
                         size_t r)
{
    const kern_act *x = a->x;
    const size_t n_blocks = x->cols / QUANT_BLOCK;
    for (size_t t = 0; t < x->n; t++) {
        float acc = b == 0 ? 0.0f : a->y[t * a->y_stride + r];
        const float dx = x->d[t * n_blocks + b];
        const int32_t isum = block_dot(w->q, x->q + t * x->cols + b * QUANT_BLOCK);
        acc = fmaf(w->d * dx, (float)isum, acc);
        if (f->has_m)
            acc = fmaf(w->m * dx, (float)x->sum[t * n_blocks + b], acc);
        a->y[t * a->y_stride + r] = acc;
    }
}

static void gemm_32_ref(const kern_gemm_args *a, const format *f)
{
    weights w = {0};
    for (size_t r = 0; r < a->rows; r++) {
        const char *block = (const char *)a->w + r * a->row_bytes;
        for (size_t b = 0; b < a->x->cols / QUANT_BLOCK; b++, block += f->block_bytes) {
            f->unpack(block, &w);
            add_block_32(a, f, &w, b, r);
        }
    }
}

void k_gemm_q4_0_ref(const kern_gemm_args *a)
{
    gemm_32_ref(a, &(format){unpack_q4_0, sizeof(quant_q4_0), false});
}

void k_gemm_q4_1_ref(const kern_gemm_args *a)
{
    gemm_32_ref(a, &(format){unpack_q4_1, sizeof(quant_q4_1), true});
}

void k_gemm_q5_0_ref(const kern_gemm_args *a)
{
    gemm_32_ref(a, &(format){unpack_q5_0, sizeof(quant_q5_0), false});
}

void k_gemm_q5_1_ref(const kern_gemm_args *a)
{
    gemm_32_ref(a, &(format){unpack_q5_1, sizeof(quant_q5_1), true});
}

void k_gemm_q8_0_ref(const kern_gemm_args *a)
{
    gemm_32_ref(a, &(format){unpack_q8_0, sizeof(quant_q8_0), false});
}

void k_gemm_iq4_nl_ref(const kern_gemm_args *a)
{
    gemm_32_ref(a, &(format){unpack_iq4_nl, sizeof(quant_iq4_nl), false});
}

void k_gemm_mxfp4_ref(const kern_gemm_args *a)
{
    gemm_32_ref(a, &(format){unpack_mxfp4, sizeof(quant_mxfp4), false});
}
