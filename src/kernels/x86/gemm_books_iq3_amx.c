/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_books_iq3_amx.c - one or two tokens with IQ3_XXS and IQ3_S; see gemm_books_amx.h.
 *
 * An entry of the code book has four magnitudes of three bits (IQ3_S: four). Its two bytes have two
 * each, so vector j is value j of the 64 indices of a superblock: byte i is column 4 i + j. A lane is
 * four indices, which is a group of 16 columns, and the four vectors are added to one sum.
 */
#include "kernels/x86/gemm_books_amx.h"

/* A superblock. */
typedef struct book_block {
    __m512i q[4];       /* magnitudes */
    __mmask64 minus[4]; /* negative values */
    __m512i scale;      /* one per 16 columns */
} book_block;

/* ---- tables ---- */

/* 16 entries of four bytes to 16 bytes of each table. `codes`: low bits of the bytes of the entries. */
ALWAYS_INLINE void tables_put(book_tables *t, int i, __m512i codes)
{
    const __m512i two = _mm512_or_si512(codes, _mm512_srli_epi32(codes, 4));
    _mm_storeu_si128((__m128i *)t->first + i, _mm512_cvtepi32_epi8(two));
    _mm_storeu_si128((__m128i *)t->second + i, _mm512_cvtepi32_epi8(_mm512_srli_epi32(two, 16)));
}

/* Magnitudes 4, 12, ..., 52, 62: codes 0 to 7. */
static void tables_iq3_xxs(book_tables *out)
{
    for (int i = 0; i < 16; i++) {
        const __m512i v = _mm512_loadu_si512(quant_grid_iq3_xxs + 16 * i);
        tables_put(out, i,
                   _mm512_and_si512(_mm512_srli_epi32(v, 3), _mm512_set1_epi32(0x07070707)));
    }
}

/* Magnitudes 1, 3, ..., 15 are their own codes. */
static void tables_iq3_s(book_tables *out)
{
    for (int i = 0; i < 32; i++)
        tables_put(out, i, _mm512_loadu_si512(quant_grid_iq3_s + 16 * i));
}

/* ---- formats ---- */

/* Signs: bit k of byte i is that of column 8 i + k. */
ALWAYS_INLINE void set_signs(__m256i signs, book_block *out)
{
    const __m512i half = _mm512_set_epi64(
        0x1F1F1E1E1D1D1C1C, 0x1B1B1A1A19191818, 0x1717161615151414, 0x1313121211111010,
        0x0F0F0E0E0D0D0C0C, 0x0B0B0A0A09090808, 0x0707060605050404, 0x0303020201010000);
    const __m512i each = _mm512_permutexvar_epi8(half, _mm512_castsi256_si512(signs));
    EACH(j, 4)
    {
        out->minus[j] = sign_mask(each, j);
    }
}

/* One scale per 32 columns, in dwords, to one per 16 columns. */
ALWAYS_INLINE __m512i scales_twice(__m256i eight)
{
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_epi32(twice, _mm512_castsi256_si512(eight));
}

/* 2 s + 1 */
ALWAYS_INLINE __m256i odd_scales(__m256i s)
{
    return _mm256_or_si256(_mm256_slli_epi32(s, 1), _mm256_set1_epi32(1));
}

ALWAYS_INLINE void unpack_iq3_xxs(const uint8_t *block, const book_tables *t, book_block *out)
{
    const quant_iq3_xxs *b = (const quant_iq3_xxs *)block;
    const __m512i values = _mm512_broadcast_i32x4(
        _mm_setr_epi8(4, 12, 20, 28, 36, 44, 52, 62, 4, 12, 20, 28, 36, 44, 52, 62));
    const __m512i index = _mm512_loadu_si512(b->qs);
    const __mmask64 eighth = _mm512_movepi8_mask(index);
    const __m512i first = look_up(t->first, index, eighth);
    const __m512i second = look_up(t->second, index, eighth);
    /* Bit 7 of an index of vpshufb is 0: codes have three bits, also those of the next byte. */
    out->q[0] = _mm512_shuffle_epi8(values, first);
    out->q[1] = _mm512_shuffle_epi8(values, _mm512_srli_epi16(first, 4));
    out->q[2] = _mm512_shuffle_epi8(values, second);
    out->q[3] = _mm512_shuffle_epi8(values, _mm512_srli_epi16(second, 4));
    /* Seven bits from bits 0, 7, 14 and 21 of every dword. The affine map keeps them, and bit 7 is their
     * parity. */
    const __m256i v = _mm256_loadu_si256((const __m256i *)b->signs);
    const __m256i sevens =
        _mm256_multishift_epi64_epi8(_mm256_set1_epi64x((long long)0x352E2720150E0700), v);
    const __m256i even =
        _mm256_gf2p8affine_epi64_epi8(sevens, _mm256_set1_epi64x((long long)0x010204081020407F), 0);
    set_signs(even, out);
    out->scale = scales_twice(odd_scales(_mm256_srli_epi32(v, 28)));
}

ALWAYS_INLINE void unpack_iq3_s(const uint8_t *block, const book_tables *t, book_block *out)
{
    const quant_iq3_s *b = (const quant_iq3_s *)block;
    const __m512i index = _mm512_loadu_si512(b->qs), mask = _mm512_set1_epi8(15);
    const __mmask64 eighth = _mm512_movepi8_mask(index), ninth = (__mmask64)load_u64(b->qh);
    const __m512i first = look_up_512(t->first, index, eighth, ninth);
    const __m512i second = look_up_512(t->second, index, eighth, ninth);
    out->q[0] = _mm512_and_si512(first, mask);
    out->q[1] = _mm512_and_si512(_mm512_srli_epi16(first, 4), mask);
    out->q[2] = _mm512_and_si512(second, mask);
    out->q[3] = _mm512_and_si512(_mm512_srli_epi16(second, 4), mask);
    set_signs(_mm256_loadu_si256((const __m256i *)b->signs), out);
    const __m256i nibble = _mm256_srlv_epi32(_mm256_set1_epi32((int)load_u32(b->scales)),
                                             _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    out->scale = scales_twice(odd_scales(_mm256_and_si256(nibble, _mm256_set1_epi32(15))));
}

/* ---- sums ---- */

/* scale * code * x of a superblock, in 16 lanes. */
ALWAYS_INLINE __m512i book_sum(const book_block *b, const int8_t *x)
{
    __m512i sum = _mm512_setzero_si512();
    EACH(j, 4)
    {
        sum = _mm512_dpbusd_epi32(sum, b->q[j], negate(_mm512_load_si512(x + 64 * j), b->minus[j]));
    }
    return _mm512_mullo_epi32(sum, b->scale);
}

/* Lane i: the sum of the lanes of v[i]. */
ALWAYS_INLINE __m128i reduce_batch(const __m512i v[BATCH])
{
    const __m512i a =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const __m512i b =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    const __m512i c = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    const __m256i d = _mm256_add_epi32(_mm512_castsi512_si256(c), _mm512_extracti64x4_epi64(c, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(d), _mm256_extracti128_si256(d, 1));
}

/* 256 codes: byte i of part j is column 4 i + j. */
ALWAYS_INLINE void copy_codes(const int8_t *q, int8_t *to)
{
    EACH(k, 4)
    {
        const __m512i v = _mm512_loadu_si512(q + 64 * k);
        EACH(j, 4)
        {
            _mm_store_si128((__m128i *)(to + 64 * j + 16 * k),
                            _mm512_cvtepi32_epi8(_mm512_srli_epi32(v, (unsigned)(8 * j))));
        }
    }
}

#define TOTALS(f)                                                                                  \
    ALWAYS_INLINE void totals_##f(int T, const uint8_t *batch, const book_tables *t,               \
                                  const book_x *x, size_t at, __m128i *total)                      \
    {                                                                                              \
        __m512i sum[BOOK_TOKENS][BATCH];                                                           \
        EACH(i, BATCH)                                                                             \
        {                                                                                          \
            book_block b;                                                                          \
            unpack_##f(batch + (size_t)i * sizeof(quant_##f), t, &b);                              \
            EACH(k, T)                                                                             \
            {                                                                                      \
                sum[k][i] = book_sum(&b, x[k].q + (at + (size_t)i) * QUANT_SUPERBLOCK);            \
            }                                                                                      \
        }                                                                                          \
        EACH(k, T)                                                                                 \
        {                                                                                          \
            total[k] = reduce_batch(sum[k]);                                                       \
        }                                                                                          \
    }

TOTALS(iq3_xxs)
TOTALS(iq3_s)
ROWS(iq3_xxs, 0.25f)
ROWS(iq3_s, 1.0f)
