/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_books_amx.h - common parts of gemm_books_iq2_amx.c and gemm_books_iq3_amx.c: one or two tokens
 * along the weight rows, AVX-512 with VBMI and GFNI, which every CPU with AMX has.
 *
 * The code book is in registers and the L1 cache instead of memory behind gathers. Each entry is two
 * bytes with the small codes of its magnitudes, in two tables. vpermi2b looks up 64 indices in 128
 * entries at a time. Shifts separate the codes, so that all lanes of vpdpbusd have columns of one
 * group. Activations are copied into that order once per call, and negated where the weight is
 * negative.
 *
 * Four superblocks are a batch: their totals are reduced together. A batch crosses the ends of rows.
 * The copy of the activations repeats the first superblocks after the last. Integers may be added in
 * any order; the result is that of the unpacked layout (quant/unpack.h).
 */
#ifndef MOTE_KERNELS_X86_GEMM_BOOKS_AMX_H
#define MOTE_KERNELS_X86_GEMM_BOOKS_AMX_H

#include "kernels/book_signs.h"
#include "kernels/gemm_unpacked.h"
#include "kernels/x86/gemm_panel_avx512.h"

#include "quant/grids.h"
#include "quant/unpack.h"

enum {
    BATCH = 4,        /* superblocks */
    BOOK_TOKENS = 2,  /* most tokens of a call */
    BOOK_FAR = 16384, /* bytes ahead of a superblock: prefetched into L2 */
    BOOK_NEAR = 1024, /* into L1 */
    MAX_TABLES = 8    /* of 64 entries */
};

/* The bytes of all entries of the code book. */
typedef struct book_tables {
    __m512i first[MAX_TABLES], second[MAX_TABLES];
} book_tables;

/* Activations: superblocks of 4 x 64 bytes. */
typedef struct book_x {
    const int8_t *q; /* [blocks + BATCH - 1][256] */
    const float *d;  /* [blocks + BATCH - 1] */
} book_x;

typedef struct book_format {
    size_t block_bytes;
    float d_factor; /* of the scale in the file, which is the first field */
    void (*tables)(book_tables *out);
    void (*copy)(const int8_t *q, int8_t *to); /* 256 activations into the order of the codes */
    /* total[k], lane i: scale * code * x of superblock i of a batch and token k. */
    void (*totals)(int T, const uint8_t *batch, const book_tables *t, const book_x *x, size_t at,
                   __m128i *total);
} book_format;

/* ---- look-up ---- */

/* Entries `index` of a table of 256. */
ALWAYS_INLINE __m512i look_up(const __m512i t[4], __m512i index, __mmask64 eighth)
{
    const __m512i low = _mm512_permutex2var_epi8(t[0], index, t[1]);
    const __m512i high = _mm512_permutex2var_epi8(t[2], index, t[3]);
    return _mm512_mask_blend_epi8(eighth, low, high);
}

/* Of a table of 512. */
ALWAYS_INLINE __m512i look_up_512(const __m512i t[8], __m512i index, __mmask64 eighth,
                                  __mmask64 ninth)
{
    return _mm512_mask_blend_epi8(ninth, look_up(t, index, eighth), look_up(t + 4, index, eighth));
}

/* Activations, negated where the bit is set. */
ALWAYS_INLINE __m512i negate(__m512i codes, __mmask64 minus)
{
    return _mm512_mask_sub_epi8(codes, minus, _mm512_setzero_si512(), codes);
}

/* Signs of vector j: bits j and j + 4 of alternating bytes. */
ALWAYS_INLINE __mmask64 sign_mask(__m512i signs, int j)
{
    return _mm512_test_epi8_mask(signs, _mm512_set1_epi16((short)(0x1001 << j)));
}

/* ---- rows ---- */

/* The row that is summed. */
typedef struct row_chain {
    float *y;
    size_t at, blocks;
    float acc;
} row_chain;

/* Factors of the chain steps of a batch. */
typedef struct batch_steps {
    float d[BATCH], isum[BATCH];
} batch_steps;

ALWAYS_INLINE void chain_steps(const batch_steps *s, size_t n, row_chain *c)
{
    /* Without the barrier gcc replaces these loads by shuffles of the vectors that were stored. */
    __asm__("" : : "r"(s) : "memory");
    __m128 acc = _mm_set_ss(c->acc);
    for (size_t i = 0; i < n; i++) {
        acc = _mm_fmadd_ss(_mm_load_ss(s->d + i), _mm_load_ss(s->isum + i), acc);
        if (++c->at == c->blocks) {
            _mm_store_ss(c->y++, acc);
            acc = _mm_setzero_ps();
            c->at = 0;
        }
    }
    c->acc = _mm_cvtss_f32(acc);
}

ALWAYS_INLINE void book_prefetch(const uint8_t *batch, size_t bytes)
{
    EACH(line, (int)(BATCH * bytes + 63) / 64)
    {
        _mm_prefetch((const char *)batch + BOOK_FAR + 64 * line, _MM_HINT_T1);
        _mm_prefetch((const char *)batch + BOOK_NEAR + 64 * line, _MM_HINT_T0);
    }
}

/* The scales d of a batch; the field is the first of a superblock. */
ALWAYS_INLINE __m128 load_d(const book_format *f, const uint8_t *batch)
{
    const size_t n = f->block_bytes;
    const __m128i halves =
        _mm_setr_epi16((short)load_u16(batch), (short)load_u16(batch + n),
                       (short)load_u16(batch + 2 * n), (short)load_u16(batch + 3 * n), 0, 0, 0, 0);
    return _mm_mul_ps(_mm_cvtph_ps(halves), _mm_set1_ps(f->d_factor));
}

ALWAYS_INLINE void batch_multiply(const book_format *f, int T, const uint8_t *batch,
                                  const book_tables *t, const book_x *x, size_t at,
                                  batch_steps *out)
{
    __m128i total[BOOK_TOKENS];
    const __m128 d = load_d(f, batch);
    book_prefetch(batch, f->block_bytes);
    f->totals(T, batch, t, x, at, total);
    EACH(k, T)
    {
        _mm_storeu_ps(out[k].d, _mm_mul_ps(d, _mm_loadu_ps(x[k].d + at)));
        _mm_storeu_ps(out[k].isum, _mm_cvtepi32_ps(total[k]));
    }
}

static inline size_t token_bytes(size_t blocks)
{
    return (blocks + BATCH - 1) * (QUANT_SUPERBLOCK + sizeof(float)) / 64 * 64 + 64;
}

/* Token t, at `room`. */
ALWAYS_INLINE book_x copy_token(const book_format *f, const kern_act *a, size_t t,
                                unsigned char *room)
{
    const size_t blocks = a->cols / QUANT_SUPERBLOCK, n = blocks + BATCH - 1;
    int8_t *q = (int8_t *)room;
    float *d = (float *)(room + n * QUANT_SUPERBLOCK);
    for (size_t b = 0; b < n; b++) {
        const size_t from = t * blocks + b % blocks;
        f->copy(a->q + from * QUANT_SUPERBLOCK, q + b * QUANT_SUPERBLOCK);
        d[b] = a->d[from];
    }
    return (book_x){q, d};
}

/* T tokens. The weight rows have no gaps. */
ALWAYS_INLINE void book_rows(const book_format *f, int T, const kern_gemm_args *a)
{
    const size_t blocks = a->x->cols / QUANT_SUPERBLOCK;
    book_tables *t = a->scratch;
    unsigned char *stage = (unsigned char *)(t + 1), *room = stage + BATCH * 128;
    book_x x[BOOK_TOKENS];
    row_chain c[BOOK_TOKENS];
    batch_steps steps[BOOK_TOKENS];
    f->tables(t);
    EACH(k, T)
    {
        x[k] = copy_token(f, a->x, (size_t)k, room + (size_t)k * token_bytes(blocks));
        c[k] = (row_chain){.y = a->y + (size_t)k * a->y_stride, .blocks = blocks};
    }
    const uint8_t *batch = a->w;
    size_t left = a->rows * blocks;
    for (; left >= BATCH; left -= BATCH, batch += BATCH * f->block_bytes) {
        batch_multiply(f, T, batch, t, x, c[0].at, steps);
        EACH(k, T)
        {
            chain_steps(&steps[k], BATCH, &c[k]);
        }
    }
    if (left == 0)
        return;
    /* The last superblocks are staged, so that nothing is read past them. */
    memset(stage, 0, BATCH * f->block_bytes);
    memcpy(stage, batch, left * f->block_bytes);
    batch_multiply(f, T, stage, t, x, c[0].at, steps);
    EACH(k, T)
    {
        chain_steps(&steps[k], left, &c[k]);
    }
}

static inline bool rows_fit(const kern_act *x)
{
    return x->n <= BOOK_TOKENS &&
           sizeof(book_tables) + BATCH * 128 + x->n * token_bytes(x->cols / QUANT_SUPERBLOCK) <=
               KERN_SCRATCH_BYTES;
}

/* The functions of a format. */
#define ROWS(f, factor)                                                                            \
    static const book_format format_##f = {sizeof(quant_##f), factor, tables_##f, copy_codes,      \
                                           totals_##f};                                            \
    static void one_##f(const kern_gemm_args *a)                                                   \
    {                                                                                              \
        book_rows(&format_##f, 1, a);                                                              \
    }                                                                                              \
    static void two_##f(const kern_gemm_args *a)                                                   \
    {                                                                                              \
        book_rows(&format_##f, 2, a);                                                              \
    }                                                                                              \
    bool k_rows_##f##_amx(const kern_gemm_args *a)                                                 \
    {                                                                                              \
        if (!rows_fit(a->x))                                                                       \
            return false;                                                                          \
        if (a->x->n == 1)                                                                          \
            one_##f(a);                                                                            \
        else                                                                                       \
            two_##f(a);                                                                            \
        return true;                                                                               \
    }

#endif
