/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_gemm.c - checks of the GEMM kernels, all formats.
 *
 * Weights are random bytes, so every code and every packed scale occurs. Their f16 fields are then
 * overwritten by kind of data. Activations are generated directly as codes, scales and sums:
 * extreme codes (all -127, all 127) bring the integer sums to the bounds that the kernels rely on.
 * The rows of y have gaps, which must not be written.
 */
#define _GNU_SOURCE
#include "kernels/checks.h"

#include "quant/blocks.h"
#include "quant/quant.h"
#include "quant/unpack.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096, MAX_ROWS = 40, MAX_TOKENS = 70, GAP = 3 };

/* A shape with outputs that the L2 cache does not hold. */
enum { WIDE_TOKENS = 260, WIDE_STRIDE = 4096 };

typedef struct shape {
    size_t rows, cols, n;
} shape;

/* Matrix sizes of the 0.8B model. The first shapes have more weights than any cache holds, as in
 * decode. */
static const shape bench_shapes[] = {{131072, 1024, 1}, {131072, 1024, 2}, {131072, 1024, 4},
                                     {131072, 1024, 8}, {3584, 1024, 1},   {3584, 1024, 2},
                                     {3584, 1024, 4},   {3584, 1024, 8},   {3584, 1024, 16},
                                     {3584, 1024, 32},  {3584, 1024, 64},  {3584, 1024, 512}};

/* The layout of unpacked superblocks, which is not a format of files. */
static const quant_info i8_256 = {
    .format = QUANT_N_FORMATS,
    .name = "i8_256",
    .block_values = QUANT_SUPERBLOCK,
    .block_bytes = sizeof(quant_i8_256),
    .act = QUANT_ACT_256,
};

/* A finite f16, by kind of data. */
static uint16_t some_f16(check *c)
{
    static const uint16_t special[] = {0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF,
                                       0xFBFF, 0x3C00, 0xBC00, 0x0000, 0x8000};
    const uint16_t any = (uint16_t)check_random(c);
    switch (c->data) {
    case CHECK_WIDE: return (any & 0x7C00) == 0x7C00 ? any & 0x83FF : any;
    case CHECK_SPECIAL: return special[check_below(c, sizeof special / sizeof *special)];
    case CHECK_TINY: return any & 0x83FF;
    case CHECK_ZERO: return any & 0x8000;
    default: return (any & 0x83FF) | 0x2400; /* about 1/60 */
    }
}

/* Random bytes, or a block of equal bytes: all codes and scales at one end of their range. Q6_K has
 * signed byte scales, so their range has other ends. */
static void fill_block(check *c, quant_format format, unsigned char *block, size_t bytes)
{
    const uint32_t kind = c->bench ? 3 : check_below(c, 4);
    if (kind < 2 || c->data == CHECK_EQUAL) {
        memset(block, kind == 0 ? 0 : 0xFF, bytes);
        if (format == QUANT_Q6_K)
            memset(((quant_q6_k *)block)->scales, check_random(c) & 1 ? 0x80 : 0x7F,
                   sizeof(((quant_q6_k *)block)->scales));
        return;
    }
    size_t i = 0;
    for (; i + 4 <= bytes; i += 4) {
        const uint32_t four = check_random(c);
        memcpy(block + i, &four, 4);
    }
    for (; i < bytes; i++)
        block[i] = (unsigned char)check_random(c);
}

/* Scales that are no f16: MXFP4 must take another way, because it cannot be unpacked to Q8_0. */
static void fill_other_scale(check *c, const quant_info *info, unsigned char *block)
{
    static const uint8_t special[] = {0, 1, 2, 103, 104, 127, 143, 144, 254, 255};
    if (info == &i8_256) {
        const uint16_t half = some_f16(c);
        float d;
        quant_get(QUANT_F16)->decode(&half, 1, &d);
        d *= 0.125f;
        memcpy(block + offsetof(quant_i8_256, d), &d, sizeof d);
    }
    if (info->format == QUANT_MXFP4 && c->data == CHECK_WIDE)
        block[0] = (unsigned char)check_random(c);
    if (info->format == QUANT_MXFP4 && c->data == CHECK_SPECIAL)
        block[0] = special[check_below(c, sizeof special)];
    if (info->format == QUANT_NVFP4 && c->data == CHECK_WIDE)
        for (int i = 0; i < 4; i++)
            block[i] = (unsigned char)check_random(c);
}

static void fill_weights(check *c, const quant_info *info, unsigned char *w, size_t bytes)
{
    if (info->format == QUANT_F32) {
        check_fill_f32(c, (float *)w, bytes / sizeof(float));
        return;
    }
    for (size_t at = 0; at < bytes; at += info->block_bytes) {
        fill_block(c, info->format, w + at, info->block_bytes);
        if (info->format == QUANT_BF16) /* finite: exponent not all ones */
            w[at + 1] &= 0xBF;
        if (info->format == QUANT_BF16 && c->bench) /* and no subnormals: 0.5 to 2 */
            w[at + 1] = (unsigned char)(0x3F | (w[at + 1] & 0x80));
        const uint16_t d = some_f16(c), min = some_f16(c);
        if (info->format == QUANT_F16)
            memcpy(w + at, &d, sizeof d);
        else if (info != &i8_256)
            quant_set_scales(info->format, w + at, d, min);
        fill_other_scale(c, info, w + at);
    }
}

/* A code, by kind of its group: random, either end of the range, or one end. */
static int8_t some_code(check *c, uint32_t kind)
{
    switch (kind) {
    case 0: return 127;
    case 1: return -127;
    case 2: return check_random(c) & 1 ? 127 : -127;
    case 3: return 0;
    default: return (int8_t)((int)check_below(c, 255) - 127);
    }
}

static void fill_codes(check *c, int8_t *q, int16_t *sum, size_t n, size_t group)
{
    memset(sum, 0, n / group * sizeof *sum);
    uint32_t kind = 0;
    for (size_t i = 0; i < n; i++) {
        if (i % 256 == 0)
            kind = check_below(c, 8);
        q[i] = some_code(c, kind);
        sum[i / group] = (int16_t)(sum[i / group] + q[i]);
    }
}

/* Allocates and fills only the activations that the format reads. */
static void make_activations(check *c, quant_act kind, kern_act *x)
{
    const size_t n = x->n * x->cols;
    if (kind == QUANT_ACT_F32) {
        x->x = check_in_f32(c, n);
        return;
    }
    const size_t block = kind == QUANT_ACT_32 ? 32 : 256, group = kind == QUANT_ACT_32 ? 32 : 16;
    int8_t *q = check_in_aligned(c, n, 32); /* row lengths are multiples of 32 */
    int16_t *sum = check_in_aligned(c, n / group * sizeof *sum, sizeof *sum);
    fill_codes(c, q, sum, n, group);
    x->q = q;
    x->sum = sum;
    x->d = check_in_f32(c, n / block);
}

/* Scratch memory between two guard pages: KERN_WORKER_BYTES for an unpacked format, otherwise
 * KERN_SCRATCH_BYTES. Shared by all cases. */
static void *guarded_scratch(bool unpacked)
{
    static unsigned char *memories[2];
    unsigned char **memory = &memories[unpacked];
    if (*memory == NULL) {
        const size_t bytes = unpacked ? KERN_WORKER_BYTES : KERN_SCRATCH_BYTES;
        unsigned char *base =
            mmap(NULL, bytes + 2 * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base == MAP_FAILED || mprotect(base + PAGE_BYTES, bytes, PROT_READ | PROT_WRITE) != 0)
            abort();
        *memory = base + PAGE_BYTES;
    }
    return *memory;
}

/* First every number of rows, then every number of tokens, then shapes that exceed the buffers of
 * the kernels. */
static bool case_shape(check *c, uint32_t i, const quant_info *info, shape *out)
{
    static const shape large[] = {{100, 2, 1},  {70, 3, 13},  {3, 1, 1900},         {96, 2, 48},
                                  {3, 3, 1900}, {33, 9, 150}, {40, 1, WIDE_TOKENS}, {7, 80, 26}};
    /* The longest rows, which need the most scratch memory. */
    static const shape longest[] = {
        {1, KERN_MAX_COLS, 1}, {1, KERN_MAX_COLS, 2}, {1, KERN_MAX_COLS, 9}};
    /* The last shape is for float formats only: rows longer than a piece. */
    const size_t n_large = sizeof large / sizeof *large - (info->block_values != 1);
    const size_t unit = info->block_values == 1 ? 24 : info->block_values;
    if (c->bench) {
        if (i >= sizeof bench_shapes / sizeof *bench_shapes)
            return false;
        *out = bench_shapes[i];
        return true;
    }
    if (info->unpacked)
        i *= 3; /* a product of another slot, which has all cases */
    if (i < MAX_ROWS)
        *out = (shape){i + 1, 1 + check_below(c, 3), 1 + check_below(c, 8)};
    else if (i < MAX_ROWS + MAX_TOKENS)
        *out = (shape){1 + check_below(c, MAX_ROWS), 1 + check_below(c, 3), i - MAX_ROWS + 1};
    else if (i - MAX_ROWS - MAX_TOKENS < n_large)
        *out = large[i - MAX_ROWS - MAX_TOKENS];
    else if (i - MAX_ROWS - MAX_TOKENS - n_large < sizeof longest / sizeof *longest) {
        *out = longest[i - MAX_ROWS - MAX_TOKENS - n_large];
        return true;
    } else
        return false;
    if (info->block_values == 32) /* a few times 256 columns, with tails */
        out->cols = out->cols * 6 - check_below(c, 6);
    if (info->block_values == 64 || info->block_values == 128)
        out->cols = out->cols * 3 - check_below(c, 3);
    out->cols *= unit;
    if (info->block_values == 1)
        out->cols -= check_below(c, 24);
    return true;
}

static bool check_product(check *c, uint32_t i, const quant_info *info, kern_gemm_fn *gemm)
{
    shape s;
    if (!case_shape(c, i, info, &s))
        return false;
    kern_act x = {.n = s.n, .cols = s.cols};
    const size_t row_bytes = s.cols / info->block_values * info->block_bytes;
    unsigned char *w = check_in_aligned(
        c, s.rows * row_bytes, info->format == QUANT_F32 || info == &i8_256 ? sizeof(float) : 2);
    fill_weights(c, info, w, s.rows * row_bytes);
    make_activations(c, info->act, &x);
    const size_t gap = s.n == WIDE_TOKENS ? WIDE_STRIDE - s.rows : GAP;
    const size_t stride = s.rows + (c->bench ? 0 : gap);
    const kern_gemm_args args = {.w = w,
                                 .row_bytes = row_bytes,
                                 .rows = s.rows,
                                 .x = &x,
                                 .y = check_out_f32(c, (s.n - 1) * stride + s.rows),
                                 .y_stride = stride,
                                 .scratch = guarded_scratch(info->unpacked)};
    check_label(c, 2.0 * (double)(s.rows * s.cols * s.n), (double)(s.rows * row_bytes),
                "%zux%zu n=%zu", s.rows, s.cols, s.n);
    CHECK_CALL(c)
    gemm(&args);
    return true;
}

#define CHECK_GEMM(slot, format)                                                                   \
    bool check_gemm_##slot(check *c, uint32_t i)                                                   \
    {                                                                                              \
        return check_product(c, i, format, c->table->gemm_##slot);                                 \
    }

CHECK_GEMM(f32, quant_get(QUANT_F32))
CHECK_GEMM(f16, quant_get(QUANT_F16))
CHECK_GEMM(bf16, quant_get(QUANT_BF16))
CHECK_GEMM(q4_0, quant_get(QUANT_Q4_0))
CHECK_GEMM(q4_1, quant_get(QUANT_Q4_1))
CHECK_GEMM(q5_0, quant_get(QUANT_Q5_0))
CHECK_GEMM(q5_1, quant_get(QUANT_Q5_1))
CHECK_GEMM(q8_0, quant_get(QUANT_Q8_0))
CHECK_GEMM(q2_k, quant_get(QUANT_Q2_K))
CHECK_GEMM(q3_k, quant_get(QUANT_Q3_K))
CHECK_GEMM(q4_k, quant_get(QUANT_Q4_K))
CHECK_GEMM(q5_k, quant_get(QUANT_Q5_K))
CHECK_GEMM(q6_k, quant_get(QUANT_Q6_K))
CHECK_GEMM(iq4_nl, quant_get(QUANT_IQ4_NL))
CHECK_GEMM(iq4_xs, quant_get(QUANT_IQ4_XS))
CHECK_GEMM(i8_256, &i8_256)
CHECK_GEMM(iq1_s, quant_get(QUANT_IQ1_S))
CHECK_GEMM(iq1_m, quant_get(QUANT_IQ1_M))
CHECK_GEMM(iq2_xxs, quant_get(QUANT_IQ2_XXS))
CHECK_GEMM(iq2_xs, quant_get(QUANT_IQ2_XS))
CHECK_GEMM(iq2_s, quant_get(QUANT_IQ2_S))
CHECK_GEMM(iq3_xxs, quant_get(QUANT_IQ3_XXS))
CHECK_GEMM(iq3_s, quant_get(QUANT_IQ3_S))
CHECK_GEMM(tq1_0, quant_get(QUANT_TQ1_0))
CHECK_GEMM(tq2_0, quant_get(QUANT_TQ2_0))
CHECK_GEMM(mxfp4, quant_get(QUANT_MXFP4))
CHECK_GEMM(nvfp4, quant_get(QUANT_NVFP4))
CHECK_GEMM(q1_0, quant_get(QUANT_Q1_0))
CHECK_GEMM(q2_0, quant_get(QUANT_Q2_0))
