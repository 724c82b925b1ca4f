/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_books_avx2.c - one to four tokens with IQ2 and IQ3, along the weight rows. AVX2, also for
 * AVX-VNNI.
 *
 * A superblock is unpacked in registers: magnitudes are loaded from the code book, which is in the L1
 * cache, and sign bits become bytes of 1 and -1. Gathers are not used: many CPUs of this level have
 * slow ones. vpmaddubsw multiplies magnitudes by activations with the signs of the weights, at most
 * 2 * 62 * 127 = 15,748 per pair, and vpmaddwd multiplies by the scale. Integers may be added in any
 * order; the result is that of the unpacked layout (quant/unpack.h).
 *
 * Superblocks are read in the order of memory and prefetched. Nothing outside a superblock is read.
 */
#include "kernels/book_signs.h"
#include "kernels/gemm_unpacked.h"
#include "kernels/x86/gemm_rows_avx2.h"

#include "quant/grids.h"
#include "quant/unpack.h"

#include <math.h>

enum { BOOK_TOKENS = 4 /* most tokens of a call */ };

/* A superblock: 32 columns per vector. */
typedef struct book_block {
    __m256i q[8];     /* magnitudes */
    __m256i sign[8];  /* 1 or -1 */
    __m256i scale[8]; /* words */
    float d;
} book_block;

typedef struct book_format {
    size_t block_bytes;
    void (*unpack)(const uint8_t *block, book_block *out);
} book_format;

/* ---- parts of formats ---- */

/* Bytes of -1 where a bit is set, else of 1. */
ALWAYS_INLINE __m256i book_sign_bytes(uint32_t bits)
{
    const __m256i each = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                          2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    const __m256i byte = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), each);
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(byte, bit), bit);
    return _mm256_or_si256(set, _mm256_set1_epi8(1));
}

/* Signs of 64 columns: vectors 2p and 2p + 1. */
ALWAYS_INLINE void book_set_signs(uint64_t bits, int p, book_block *out)
{
    out->sign[2 * p] = book_sign_bytes((uint32_t)bits);
    out->sign[2 * p + 1] = book_sign_bytes((uint32_t)(bits >> 32));
}

/* One byte s per 16 columns: the scale is 2 s + 1. */
ALWAYS_INLINE void book_set_scales(__m128i s, book_block *out)
{
    const __m128i odd = _mm_or_si128(_mm_add_epi8(s, s), _mm_set1_epi8(1));
    const __m256i bytes = _mm256_broadcastsi128_si256(odd);
    EACH(k, 8)
    {
        const __m256i from = _mm256_setr_m128i(_mm_set1_epi16((short)(0x8000 | 2 * k)),
                                               _mm_set1_epi16((short)(0x8001 | 2 * k)));
        out->scale[k] = _mm256_shuffle_epi8(bytes, from);
    }
}

/* Nibbles of eight bytes, the low one first. */
ALWAYS_INLINE __m128i book_nibbles(__m128i v)
{
    const __m128i mask = _mm_set1_epi8(15);
    return _mm_unpacklo_epi8(_mm_and_si128(v, mask), _mm_and_si128(_mm_srli_epi16(v, 4), mask));
}

/* Two dwords: the scales of 64 columns, as four bytes at `scale`. */
ALWAYS_INLINE void book_put_scales(uint64_t two, uint8_t scale[4])
{
    scale[0] = scale[1] = (uint8_t)(two >> 28 & 15);
    scale[2] = scale[3] = (uint8_t)(two >> 60);
}

ALWAYS_INLINE long long book_8(const uint64_t *grid, size_t index)
{
    return (long long)grid[index];
}

ALWAYS_INLINE int book_4(const uint32_t *grid, size_t index)
{
    return (int)grid[index];
}

/* ---- formats ---- */

ALWAYS_INLINE void book_iq2_xxs(const uint8_t *block, book_block *out)
{
    const quant_iq2_xxs *b = (const quant_iq2_xxs *)block;
    uint8_t scale[16];
    out->d = _cvtsh_ss(b->d) * 0.125f;
    EACH(p, 4)
    {
        const uint64_t first = load_u64(b->qs + 16 * p), second = load_u64(b->qs + 16 * p + 8);
        const uint64_t signs = first >> 32 | (second >> 32 << 32);
        book_put_scales(signs, scale + 4 * p);
        book_set_signs(even_signs(spread_sevens(signs)), p, out);
    }
    EACH(k, 8)
    {
        const uint8_t *i = b->qs + 8 * k;
        const uint64_t *grid = quant_grid_iq2_xxs;
        out->q[k] = _mm256_setr_epi64x(book_8(grid, i[0]), book_8(grid, i[1]), book_8(grid, i[2]),
                                       book_8(grid, i[3]));
    }
    book_set_scales(_mm_loadu_si128((const __m128i *)scale), out);
}

ALWAYS_INLINE void book_iq2_xs(const uint8_t *block, book_block *out)
{
    const quant_iq2_xs *b = (const quant_iq2_xs *)block;
    out->d = _cvtsh_ss(b->d) * 0.125f;
    book_set_scales(book_nibbles(_mm_loadl_epi64((const __m128i *)b->scales)), out);
    EACH(p, 4)
    {
        const __m128i v = _mm_loadu_si128((const __m128i *)(b->qs + 8 * p));
        const __m128i sevens = _mm_packus_epi16(_mm_srli_epi16(v, 9), _mm_setzero_si128());
        book_set_signs(even_signs((uint64_t)_mm_cvtsi128_si64(sevens)), p, out);
    }
    EACH(k, 8)
    {
        const uint64_t four = load_u64(b->qs + 4 * k), *grid = quant_grid_iq2_xs;
        out->q[k] =
            _mm256_setr_epi64x(book_8(grid, four & 511), book_8(grid, four >> 16 & 511),
                               book_8(grid, four >> 32 & 511), book_8(grid, four >> 48 & 511));
    }
}

ALWAYS_INLINE void book_iq2_s(const uint8_t *block, book_block *out)
{
    const quant_iq2_s *b = (const quant_iq2_s *)block;
    out->d = _cvtsh_ss(b->d) * 0.125f;
    book_set_scales(book_nibbles(_mm_loadl_epi64((const __m128i *)b->scales)), out);
    EACH(k, 8)
    {
        const uint8_t *i = b->qs + 4 * k;
        const size_t high = (size_t)b->qh[k] << 8; /* two bits of each index, from bit 8 on */
        const uint64_t *grid = quant_grid_iq2_s;
        out->sign[k] = book_sign_bytes(load_u32(b->signs + 4 * k));
        out->q[k] = _mm256_setr_epi64x(
            book_8(grid, i[0] | (high & 0x300)), book_8(grid, i[1] | (high >> 2 & 0x300)),
            book_8(grid, i[2] | (high >> 4 & 0x300)), book_8(grid, i[3] | (high >> 6 & 0x300)));
    }
}

ALWAYS_INLINE void book_iq3_xxs(const uint8_t *block, book_block *out)
{
    const quant_iq3_xxs *b = (const quant_iq3_xxs *)block;
    uint8_t scale[16];
    out->d = _cvtsh_ss(b->d) * 0.25f;
    EACH(p, 4)
    {
        const uint64_t signs = load_u64(b->signs + 8 * p);
        book_put_scales(signs, scale + 4 * p);
        book_set_signs(even_signs(spread_sevens(signs)), p, out);
    }
    EACH(k, 8)
    {
        const uint8_t *i = b->qs + 8 * k;
        const uint32_t *grid = quant_grid_iq3_xxs;
        out->q[k] = _mm256_setr_epi32(book_4(grid, i[0]), book_4(grid, i[1]), book_4(grid, i[2]),
                                      book_4(grid, i[3]), book_4(grid, i[4]), book_4(grid, i[5]),
                                      book_4(grid, i[6]), book_4(grid, i[7]));
    }
    book_set_scales(_mm_loadu_si128((const __m128i *)scale), out);
}

ALWAYS_INLINE void book_iq3_s(const uint8_t *block, book_block *out)
{
    const quant_iq3_s *b = (const quant_iq3_s *)block;
    const __m128i eight = book_nibbles(_mm_cvtsi32_si128((int)load_u32(b->scales)));
    out->d = _cvtsh_ss(b->d);
    book_set_scales(_mm_unpacklo_epi8(eight, eight), out);
    EACH(k, 8)
    {
        const uint8_t *i = b->qs + 8 * k;
        const size_t high = (size_t)b->qh[k] << 8; /* one bit of each index, from bit 8 on */
        const uint32_t *grid = quant_grid_iq3_s;
        out->sign[k] = book_sign_bytes(load_u32(b->signs + 4 * k));
        out->q[k] = _mm256_setr_epi32(
            book_4(grid, i[0] | (high & 0x100)), book_4(grid, i[1] | (high >> 1 & 0x100)),
            book_4(grid, i[2] | (high >> 2 & 0x100)), book_4(grid, i[3] | (high >> 3 & 0x100)),
            book_4(grid, i[4] | (high >> 4 & 0x100)), book_4(grid, i[5] | (high >> 5 & 0x100)),
            book_4(grid, i[6] | (high >> 6 & 0x100)), book_4(grid, i[7] | (high >> 7 & 0x100)));
    }
}

/* ---- rows ---- */

/* scale * code * x of a superblock. */
ALWAYS_INLINE int32_t book_sum(const book_block *b, const int8_t *x)
{
    __m256i isum = _mm256_setzero_si256();
    EACH(k, 8)
    {
        const __m256i pairs =
            _mm256_maddubs_epi16(b->q[k], _mm256_sign_epi8(load_256(x + 32 * k), b->sign[k]));
        isum = _mm256_add_epi32(isum, _mm256_madd_epi16(pairs, b->scale[k]));
    }
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(isum), _mm256_extracti128_si256(isum, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1)));
}

ALWAYS_INLINE bool book_rows(const book_format *f, const kern_gemm_args *a)
{
    const size_t blocks = a->x->cols / QUANT_SUPERBLOCK, T = a->x->n;
    if (T > BOOK_TOKENS)
        return false;
    for (size_t r = 0; r < a->rows; r++) {
        const uint8_t *block = (const uint8_t *)a->w + r * a->row_bytes;
        float acc[BOOK_TOKENS] = {0};
        for (size_t i = 0; i < blocks; i++, block += f->block_bytes) {
            book_block b;
            rows_prefetch(block, f->block_bytes);
            f->unpack(block, &b);
            for (size_t t = 0; t < T; t++) {
                const size_t at = t * blocks + i;
                const float isum = (float)book_sum(&b, a->x->q + at * QUANT_SUPERBLOCK);
                acc[t] = fmaf(b.d * a->x->d[at], isum, acc[t]);
            }
        }
        for (size_t t = 0; t < T; t++)
            a->y[t * a->y_stride + r] = acc[t];
    }
    return true;
}

#define ROWS(f)                                                                                    \
    bool k_rows_##f##_avx2(const kern_gemm_args *a)                                                \
    {                                                                                              \
        static const book_format format = {sizeof(quant_##f), book_##f};                           \
        return book_rows(&format, a);                                                              \
    }

ROWS(iq2_xxs)
ROWS(iq2_xs)
ROWS(iq2_s)
ROWS(iq3_xxs)
ROWS(iq3_s)
