/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_unpacked.c - GEMM with formats that have no kernels of their own.
 *
 * A few rows are unpacked to a simpler layout with the same values (quant/unpack.h). Then a kernel of
 * that layout multiplies them. So the kernels of every level serve these formats, and a product has
 * the bits of the simpler layout. Unpacked rows stay in the L1 or L2 cache; only the stored format is
 * read from memory.
 *
 * Built for the baseline CPU: the level is that of the product that is called.
 */
#include "kernels/gemm_unpacked.h"
#include "kernels/variants.h"

#include "quant/unpack.h"

enum {
    PANEL_ROWS = 32,         /* a multiple of the rows of a panel at every level */
    CACHED_BYTES = 128 << 10 /* several panels, if they fit in this */
};

typedef struct unpacked_format {
    quant_unpack_fn *unpack;
    size_t values, bytes, unpacked_bytes; /* of a block */
} unpacked_format;

#define I8_256(f) quant_unpack_##f, QUANT_SUPERBLOCK, sizeof(quant_##f), sizeof(quant_i8_256)
static const unpacked_format format_iq1_s = {I8_256(iq1_s)};
static const unpacked_format format_iq1_m = {I8_256(iq1_m)};
static const unpacked_format format_iq2_xxs = {I8_256(iq2_xxs)};
static const unpacked_format format_iq2_xs = {I8_256(iq2_xs)};
static const unpacked_format format_iq2_s = {I8_256(iq2_s)};
static const unpacked_format format_iq3_xxs = {I8_256(iq3_xxs)};
static const unpacked_format format_iq3_s = {I8_256(iq3_s)};
static const unpacked_format format_tq1_0 = {I8_256(tq1_0)};
static const unpacked_format format_tq2_0 = {I8_256(tq2_0)};
static const unpacked_format format_mxfp4 = {quant_unpack_mxfp4, QUANT_BLOCK, sizeof(quant_mxfp4),
                                             sizeof(quant_q8_0)};
static const unpacked_format format_q1_0 = {quant_unpack_q1_0, 128, sizeof(quant_q1_0),
                                            4 * sizeof(quant_q8_0)};
static const unpacked_format format_q2_0 = {quant_unpack_q2_0, 64, sizeof(quant_q2_0),
                                            2 * sizeof(quant_q8_0)};
static const unpacked_format format_nvfp4 = {quant_unpack_nvfp4, 64, sizeof(quant_nvfp4),
                                             64 * sizeof(uint16_t)};

/* Rows that are unpacked at a time. One always fits. */
static size_t rows_at_once(size_t row_bytes)
{
    const size_t panel = PANEL_ROWS * row_bytes;
    if (panel > KERN_UNPACKED_BYTES)
        return KERN_UNPACKED_BYTES / row_bytes;
    return panel > CACHED_BYTES ? PANEL_ROWS : CACHED_BYTES / panel * PANEL_ROWS;
}

static bool unpack_rows(const unpacked_format *f, const unsigned char *w, size_t n_blocks,
                        unsigned char *out)
{
    bool all = true;
    for (size_t i = 0; i < n_blocks; i++, w += f->bytes, out += f->unpacked_bytes)
        all &= f->unpack(w, out);
    return all;
}

/* `plain`: a product that reads the stored format, for rows that cannot be unpacked. */
static void gemm_unpacked(const kern_gemm_args *a, const unpacked_format *f, kern_gemm_fn *product,
                          kern_gemm_fn *plain)
{
    const size_t blocks = a->x->cols / f->values, row_bytes = blocks * f->unpacked_bytes;
    const size_t at_once = rows_at_once(row_bytes);
    unsigned char *unpacked = (unsigned char *)a->scratch + KERN_SCRATCH_BYTES;
    for (size_t r = 0; r < a->rows; r += at_once) {
        kern_gemm_args part = *a;
        part.w = (const unsigned char *)a->w + r * a->row_bytes;
        part.rows = a->rows - r < at_once ? a->rows - r : at_once;
        part.y = a->y + r;
        if (!unpack_rows(f, part.w, part.rows * blocks, unpacked)) {
            plain(&part);
            continue;
        }
        part.w = unpacked;
        part.row_bytes = row_bytes;
        product(&part);
    }
}

#define GEMM(f, product, level)                                                                    \
    void k_gemm_##f##_##level(const kern_gemm_args *a)                                             \
    {                                                                                              \
        gemm_unpacked(a, &format_##f, k_gemm_##product##_##level, k_gemm_##f##_ref);               \
    }

/* The same with a function that unpacks faster. */
#define GEMM_WITH(unpack_fn, f, product, level)                                                    \
    void k_gemm_##f##_##level(const kern_gemm_args *a)                                             \
    {                                                                                              \
        unpacked_format fast = format_##f;                                                         \
        fast.unpack = unpack_fn;                                                                   \
        gemm_unpacked(a, &fast, k_gemm_##product##_##level, k_gemm_##f##_ref);                     \
    }
#define GEMM_AVX512(f, product, level) GEMM_WITH(k_unpack_##f##_avx512, f, product, level)
#define GEMM_NEON(f, product, level)   GEMM_WITH(k_unpack_##f##_neon, f, product, level)

/* Few tokens along the rows; more with a function that unpacks. */
#define GEMM_ROWS_WITH(rows_fn, unpack_fn, f, product, level)                                      \
    void k_gemm_##f##_##level(const kern_gemm_args *a)                                             \
    {                                                                                              \
        unpacked_format fast = format_##f;                                                         \
        fast.unpack = unpack_fn;                                                                   \
        if (!rows_fn(a))                                                                           \
            gemm_unpacked(a, &fast, k_gemm_##product##_##level, k_gemm_##f##_ref);                 \
    }
#define GEMM_ROWS_AVX2(f, product, level)                                                          \
    GEMM_ROWS_WITH(k_rows_##f##_avx2, quant_unpack_##f, f, product, level)
#define GEMM_ROWS_AVX512(f, product, level)                                                        \
    GEMM_ROWS_WITH(k_rows_##f##_avx512, k_unpack_##f##_avx512, f, product, level)
#define GEMM_ROWS_AMX(f, product, level)                                                           \
    GEMM_ROWS_WITH(k_rows_##f##_amx, k_unpack_##f##_avx512, f, product, level)

/* Also the definition of these products. That of MXFP4 is in gemm_32_ref.c. */
UNPACKED_TO_I8_256(GEMM, ref)
GEMM(q1_0, q8_0, ref)
GEMM(q2_0, q8_0, ref)
UNPACKED_TO_F16(GEMM, ref)

#if defined(__x86_64__)
UNPACKED_IQ1(GEMM, avx2)
UNPACKED_IQ2_IQ3(GEMM_ROWS_AVX2, avx2)
UNPACKED_TERNARY(GEMM, avx2)
UNPACKED_TO_Q8_0(GEMM, avx2)
UNPACKED_TO_F16(GEMM, avx2)
UNPACKED_IQ1(GEMM, avxvnni)
UNPACKED_IQ2_IQ3(GEMM_ROWS_AVX2, avxvnni)
UNPACKED_TERNARY(GEMM, avxvnni)
UNPACKED_TO_Q8_0(GEMM, avxvnni)
UNPACKED_IQ1(GEMM_AVX512, avx512)
UNPACKED_IQ2_IQ3(GEMM_ROWS_AVX512, avx512)
UNPACKED_TERNARY(GEMM, avx512)
GEMM_AVX512(mxfp4, q8_0, avx512)
UNPACKED_BITS(GEMM, avx512)
UNPACKED_TO_F16(GEMM, avx512)
UNPACKED_IQ1(GEMM_AVX512, amx)
GEMM_ROWS_AMX(iq2_xxs, i8_256, amx)
GEMM_ROWS_AMX(iq2_xs, i8_256, amx)
GEMM_ROWS_AVX512(iq2_s, i8_256, amx)
GEMM_ROWS_AMX(iq3_xxs, i8_256, amx)
GEMM_ROWS_AMX(iq3_s, i8_256, amx)
UNPACKED_TERNARY(GEMM, amx)
#elif defined(__aarch64__)
UNPACKED_IQ1(GEMM, neon)
UNPACKED_IQ2_IQ3(GEMM_NEON, neon)
UNPACKED_TERNARY(GEMM, neon)
UNPACKED_TO_Q8_0(GEMM, neon)
UNPACKED_TO_F16(GEMM, neon)
UNPACKED_IQ1(GEMM, dotprod)
UNPACKED_IQ2_IQ3(GEMM_NEON, dotprod)
UNPACKED_TERNARY(GEMM, dotprod)
UNPACKED_TO_Q8_0(GEMM, dotprod)
UNPACKED_IQ1(GEMM, i8mm)
UNPACKED_IQ2_IQ3(GEMM_NEON, i8mm)
UNPACKED_TERNARY(GEMM, i8mm)
UNPACKED_TO_Q8_0(GEMM, i8mm)
#endif
