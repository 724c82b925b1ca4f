/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_books_avx512.c - one or two tokens with IQ2 and IQ3, along the weight rows. AVX-512 VNNI.
 *
 * A superblock is unpacked in registers: gathers read the magnitudes from the code book, which is in
 * the L1 cache, and sign bits become masks. vpdpbusd multiplies magnitudes by activations, negated
 * where the mask is set. A lane is a sum of four products of one group, at most 4 * 62 * 127 =
 * 31,496, so vpackssdw packs two sums and vpmaddwd multiplies them by their scales. Integers may be
 * added in any order; the result is that of the unpacked layout (quant/unpack.h).
 *
 * Superblocks are read in the order of memory and prefetched. Nothing outside a superblock is read.
 */
#include "kernels/book_signs.h"
#include "kernels/gemm_unpacked.h"
#include "kernels/x86/gemm_panel_avx512.h"

#include "quant/grids.h"
#include "quant/unpack.h"

enum {
    BOOK_TOKENS = 2,  /* most tokens of a call */
    BOOK_FAR = 16384, /* bytes ahead of a superblock: prefetched into L2 */
    BOOK_NEAR = 1024  /* into L1 */
};

/* A superblock: 64 columns per vector. */
typedef struct book_block {
    __m512i q[4];       /* magnitudes */
    __mmask64 minus[4]; /* negative values */
    __m128i scale;      /* one byte per 16 columns */
    float d;
} book_block;

typedef struct book_format {
    size_t block_bytes;
    void (*unpack)(const uint8_t *block, book_block *out);
} book_format;

/* ---- parts of formats ---- */

ALWAYS_INLINE __m256i book_load_256(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

ALWAYS_INLINE __m128i book_load_128(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

ALWAYS_INLINE float book_half(uint16_t d)
{
    return _cvtsh_ss(d);
}

/* Bytes of seven sign bits, with an eighth that makes their number even. */
ALWAYS_INLINE __m256i book_even_signs(__m256i s)
{
    __m256i t = _mm256_xor_si256(s, _mm256_srli_epi32(s, 4)); /* only low bits of a byte are used */
    t = _mm256_xor_si256(t, _mm256_srli_epi32(t, 2));
    t = _mm256_xor_si256(t, _mm256_srli_epi32(t, 1));
    t = _mm256_slli_epi32(_mm256_and_si256(t, _mm256_set1_epi8(1)), 7);
    return _mm256_or_si256(s, t);
}

ALWAYS_INLINE void book_set_signs(__m256i signs, book_block *out)
{
    const __m128i low = _mm256_castsi256_si128(signs), high = _mm256_extracti128_si256(signs, 1);
    out->minus[0] = (__mmask64)_mm_cvtsi128_si64(low);
    out->minus[1] = (__mmask64)_mm_extract_epi64(low, 1);
    out->minus[2] = (__mmask64)_mm_cvtsi128_si64(high);
    out->minus[3] = (__mmask64)_mm_extract_epi64(high, 1);
}

/* Signs that the file has in full. */
ALWAYS_INLINE void book_load_signs(const uint8_t signs[32], book_block *out)
{
    EACH(k, 4)
    {
        out->minus[k] = (__mmask64)load_u64(signs + 8 * k);
    }
}

/* 2 s + 1 */
ALWAYS_INLINE __m128i book_odd(__m128i s)
{
    return _mm_or_si128(_mm_add_epi8(s, s), _mm_set1_epi8(1));
}

/* Eight dwords: four times seven sign bits, and a scale of 32 columns in the top four bits. */
ALWAYS_INLINE void book_signs_and_scales(__m256i v, book_block *out)
{
    __m256i s = _mm256_and_si256(v, _mm256_set1_epi32(0x7F));
    EACH(i, 3)
    {
        const __m256i mask = _mm256_set1_epi32(0x7F << (8 * (i + 1)));
        s = _mm256_ternarylogic_epi32(_mm256_slli_epi32(v, (unsigned)i + 1), mask, s, 0xEA);
    }
    book_set_signs(book_even_signs(s), out);
    const __m128i eight = book_odd(_mm256_cvtepi32_epi8(_mm256_srli_epi32(v, 28)));
    out->scale = _mm_unpacklo_epi8(eight, eight);
}

/* Nibbles of eight bytes, the low one first. */
ALWAYS_INLINE __m128i book_nibbles(__m128i v)
{
    const __m128i mask = _mm_set1_epi8(15);
    return _mm_unpacklo_epi8(_mm_and_si128(v, mask), _mm_and_si128(_mm_srli_epi16(v, 4), mask));
}

ALWAYS_INLINE __m512i book_gather_4(const uint32_t *grid, __m512i index)
{
    return _mm512_i32gather_epi32(index, (const int *)grid, 4);
}

ALWAYS_INLINE __m512i book_gather_8(const uint64_t *grid, __m256i index)
{
    return _mm512_i32gather_epi64(index, (const long long *)grid, 8);
}

/* ---- formats ---- */

ALWAYS_INLINE void book_iq2_xxs(const uint8_t *block, book_block *out)
{
    const quant_iq2_xxs *b = (const quant_iq2_xxs *)block;
    const __m512i v = _mm512_loadu_si512(b->qs); /* qwords: four indices, then signs and scale */
    out->d = book_half(b->d) * 0.125f;
    book_signs_and_scales(_mm512_cvtepi64_epi32(_mm512_srli_epi64(v, 32)), out);
    const __m256i index = _mm512_cvtepi64_epi32(v);
    const __m128i half[2] = {_mm256_castsi256_si128(index), _mm256_extracti128_si256(index, 1)};
    EACH(k, 4)
    {
        const __m128i eight = k % 2 ? _mm_unpackhi_epi64(half[k / 2], half[k / 2]) : half[k / 2];
        out->q[k] = book_gather_8(quant_grid_iq2_xxs, _mm256_cvtepu8_epi32(eight));
    }
}

ALWAYS_INLINE void book_iq2_xs(const uint8_t *block, book_block *out)
{
    const quant_iq2_xs *b = (const quant_iq2_xs *)block;
    out->d = book_half(b->d) * 0.125f;
    out->scale = book_odd(book_nibbles(_mm_loadl_epi64((const __m128i *)b->scales)));
    const __m512i sevens = _mm512_srli_epi16(_mm512_loadu_si512(b->qs), 9);
    book_set_signs(book_even_signs(_mm512_cvtepi16_epi8(sevens)), out);
    EACH(k, 4)
    {
        const __m128i nine = _mm_and_si128(book_load_128(b->qs + 8 * k), _mm_set1_epi16(511));
        out->q[k] = book_gather_8(quant_grid_iq2_xs, _mm256_cvtepu16_epi32(nine));
    }
}

ALWAYS_INLINE void book_iq2_s(const uint8_t *block, book_block *out)
{
    const quant_iq2_s *b = (const quant_iq2_s *)block;
    const __m256i shift = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    out->d = book_half(b->d) * 0.125f;
    out->scale = book_odd(book_nibbles(_mm_loadl_epi64((const __m128i *)b->scales)));
    book_load_signs(b->signs, out);
    EACH(k, 4)
    {
        const __m256i two = _mm256_set1_epi32(load_u16(b->qh + 2 * k));
        const __m256i low = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(b->qs + 8 * k)));
        const __m256i high = _mm256_slli_epi32(_mm256_srlv_epi32(two, shift), 8);
        const __m256i index = _mm256_ternarylogic_epi32(high, _mm256_set1_epi32(0x300), low, 0xEA);
        out->q[k] = book_gather_8(quant_grid_iq2_s, index);
    }
}

ALWAYS_INLINE void book_iq3_xxs(const uint8_t *block, book_block *out)
{
    const quant_iq3_xxs *b = (const quant_iq3_xxs *)block;
    out->d = book_half(b->d) * 0.25f;
    book_signs_and_scales(book_load_256(b->signs), out);
    EACH(k, 4)
    {
        const __m512i index = _mm512_cvtepu8_epi32(book_load_128(b->qs + 16 * k));
        out->q[k] = book_gather_4(quant_grid_iq3_xxs, index);
    }
}

ALWAYS_INLINE void book_iq3_s(const uint8_t *block, book_block *out)
{
    const quant_iq3_s *b = (const quant_iq3_s *)block;
    const __m128i eight = book_odd(book_nibbles(_mm_cvtsi32_si128((int)load_u32(b->scales))));
    out->d = book_half(b->d);
    out->scale = _mm_unpacklo_epi8(eight, eight);
    book_load_signs(b->signs, out);
    EACH(k, 4)
    {
        const __mmask16 ninth = (__mmask16)load_u16(b->qh + 2 * k);
        const __m512i low = _mm512_cvtepu8_epi32(book_load_128(b->qs + 16 * k));
        const __m512i index = _mm512_mask_or_epi32(low, ninth, low, _mm512_set1_epi32(256));
        out->q[k] = book_gather_4(quant_grid_iq3_s, index);
    }
}

/* ---- sums ---- */

/* Scales in the order of packed sums, as words: of vectors 2i and 2i + 1, quarter c has the groups
 * 8i + c and 8i + 4 + c. 0x80 gives a zero byte. */
#define WORDS(g)   g, 128, g, 128, g, 128, g, 128
#define QUARTER(g) WORDS(g), WORDS((g) + 4)
static const _Alignas(64) uint8_t book_spread[2][64] = {
    {QUARTER(0), QUARTER(1), QUARTER(2), QUARTER(3)},
    {QUARTER(8), QUARTER(9), QUARTER(10), QUARTER(11)}};

ALWAYS_INLINE void book_spread_scales(__m128i scale, __m512i out[2])
{
    const __m512i bytes = _mm512_broadcast_i32x4(scale);
    EACH(i, 2)
    {
        out[i] = _mm512_shuffle_epi8(bytes, _mm512_load_si512(book_spread[i]));
    }
}

/* scale * code * x of a superblock. */
ALWAYS_INLINE int32_t book_sum(const book_block *b, const __m512i scale[2], const int8_t *x)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i sum[4];
    EACH(k, 4)
    {
        const __m512i codes = _mm512_loadu_si512(x + 64 * k);
        sum[k] = _mm512_dpbusd_epi32(zero, b->q[k],
                                     _mm512_mask_sub_epi8(codes, b->minus[k], zero, codes));
    }
    const __m512i low = _mm512_madd_epi16(_mm512_packs_epi32(sum[0], sum[1]), scale[0]);
    return _mm512_reduce_add_epi32(
        _mm512_dpwssd_epi32(low, _mm512_packs_epi32(sum[2], sum[3]), scale[1]));
}

/* ---- rows ---- */

ALWAYS_INLINE void book_prefetch(const uint8_t *block, size_t bytes)
{
    EACH(line, (int)(bytes + 63) / 64)
    {
        _mm_prefetch((const char *)block + BOOK_FAR + 64 * line, _MM_HINT_T1);
        _mm_prefetch((const char *)block + BOOK_NEAR + 64 * line, _MM_HINT_T0);
    }
}

/* T tokens. */
ALWAYS_INLINE void book_rows(const book_format *f, int T, const kern_gemm_args *a)
{
    const size_t blocks = a->x->cols / QUANT_SUPERBLOCK;
    for (size_t r = 0; r < a->rows; r++) {
        const uint8_t *block = (const uint8_t *)a->w + r * a->row_bytes;
        __m128 acc[BOOK_TOKENS];
        EACH(t, T)
        {
            acc[t] = _mm_setzero_ps();
        }
        for (size_t i = 0; i < blocks; i++, block += f->block_bytes) {
            book_block b;
            __m512i scale[2];
            book_prefetch(block, f->block_bytes);
            f->unpack(block, &b);
            book_spread_scales(b.scale, scale);
            EACH(t, T)
            {
                const size_t at = (size_t)t * blocks + i;
                const int32_t isum = book_sum(&b, scale, a->x->q + at * QUANT_SUPERBLOCK);
                acc[t] =
                    _mm_fmadd_ss(_mm_set_ss(b.d * a->x->d[at]), _mm_set_ss((float)isum), acc[t]);
            }
        }
        EACH(t, T)
        {
            _mm_store_ss(a->y + (size_t)t * a->y_stride + r, acc[t]);
        }
    }
}

#define ROWS(f)                                                                                    \
    static void book_one_##f(const kern_gemm_args *a)                                              \
    {                                                                                              \
        static const book_format format = {sizeof(quant_##f), book_##f};                           \
        book_rows(&format, 1, a);                                                                  \
    }                                                                                              \
    static void book_two_##f(const kern_gemm_args *a)                                              \
    {                                                                                              \
        static const book_format format = {sizeof(quant_##f), book_##f};                           \
        book_rows(&format, 2, a);                                                                  \
    }                                                                                              \
    bool k_rows_##f##_avx512(const kern_gemm_args *a)                                              \
    {                                                                                              \
        if (a->x->n > BOOK_TOKENS)                                                                 \
            return false;                                                                          \
        if (a->x->n == 1)                                                                          \
            book_one_##f(a);                                                                       \
        else                                                                                       \
            book_two_##f(a);                                                                       \
        return true;                                                                               \
    }

ROWS(iq2_xxs)
ROWS(iq2_xs)
ROWS(iq2_s)
ROWS(iq3_xxs)
ROWS(iq3_s)
