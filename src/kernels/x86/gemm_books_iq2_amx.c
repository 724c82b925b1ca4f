/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_books_iq2_amx.c - one or two tokens with IQ2_XXS and IQ2_XS; see gemm_books_amx.h.
 *
 * An entry of the code book has eight magnitudes of two bits, four in each of its bytes. A superblock
 * has 32 indices, so two are unpacked together. The two bytes of an entry are put next to each other:
 * a lane has two entries, which is a group of 16 columns. Vector k is values k and 4 + k of the
 * entries; there are four vectors of the lower and four of the upper eight entries of every 16.
 *
 * The code book of IQ2_S has 1,024 entries; with it gathers (gemm_books_avx512.c) are faster.
 */
#include "kernels/x86/gemm_books_amx.h"

/* Two superblocks. */
typedef struct book_pair {
    __m512i q[2];     /* four 2-bit codes per byte; lower and upper entries */
    __m512i signs[2]; /* of the same entries, each byte twice */
    __m512i scale[2]; /* of their lanes */
} book_pair;

/* ---- tables ---- */

/* Magnitudes 8, 25 and 43: codes 0 to 2. n: entries. */
ALWAYS_INLINE void tables_put(book_tables *t, const uint64_t *grid, int n)
{
    for (int i = 0; i < n / 8; i++) {
        const __m512i v = _mm512_loadu_si512(grid + 8 * i);
        const __m512i code = _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(3));
        const __m512i two = _mm512_or_si512(code, _mm512_srli_epi32(code, 6));
        const __m512i four = _mm512_or_si512(two, _mm512_srli_epi32(two, 12));
        _mm_storel_epi64((__m128i *)((unsigned char *)t->first + 8 * i),
                         _mm512_cvtepi64_epi8(four));
        _mm_storel_epi64((__m128i *)((unsigned char *)t->second + 8 * i),
                         _mm512_cvtepi64_epi8(_mm512_srli_epi64(four, 32)));
    }
}

static void tables_iq2_xxs(book_tables *out)
{
    tables_put(out, quant_grid_iq2_xxs, 256);
}

static void tables_iq2_xs(book_tables *out)
{
    tables_put(out, quant_grid_iq2_xs, 512);
}

/* ---- formats ---- */

/* `first` and `second`: bytes of 64 entries; `signs`: theirs. */
ALWAYS_INLINE void set_codes(__m512i first, __m512i second, __m512i signs, book_pair *out)
{
    out->q[0] = _mm512_unpacklo_epi8(first, second);
    out->q[1] = _mm512_unpackhi_epi8(first, second);
    out->signs[0] = _mm512_unpacklo_epi8(signs, signs);
    out->signs[1] = _mm512_unpackhi_epi8(signs, signs);
}

/* 32 bytes of each of two superblocks. */
ALWAYS_INLINE __m512i load_halves(const void *a, const void *b)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)a)),
                              _mm256_loadu_si256((const __m256i *)b), 1);
}

/* 16 scales 2 s + 1 of one superblock, from nibbles. */
ALWAYS_INLINE __m128i nibble_scales(const uint8_t nibbles[8])
{
    const __m128i v = _mm_loadl_epi64((const __m128i *)nibbles), mask = _mm_set1_epi8(15);
    const __m128i s =
        _mm_unpacklo_epi8(_mm_and_si128(v, mask), _mm_and_si128(_mm_srli_epi16(v, 4), mask));
    return _mm_or_si128(_mm_add_epi8(s, s), _mm_set1_epi8(1));
}

/* Lanes of the lower entries have groups 0 .. 3 and 8 .. 11, those of the upper ones the others. */
ALWAYS_INLINE void set_nibble_scales(const uint8_t a[8], const uint8_t b[8], book_pair *out)
{
    const __m128 x = _mm_castsi128_ps(nibble_scales(a)), y = _mm_castsi128_ps(nibble_scales(b));
    out->scale[0] = _mm512_cvtepu8_epi32(_mm_castps_si128(_mm_shuffle_ps(x, y, 0x88)));
    out->scale[1] = _mm512_cvtepu8_epi32(_mm_castps_si128(_mm_shuffle_ps(x, y, 0xDD)));
}

ALWAYS_INLINE void unpack_iq2_xxs(const quant_iq2_xxs *b, const book_tables *t, book_pair *out)
{
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    const __m512i v = _mm512_loadu_si512(b[0].qs), w = _mm512_loadu_si512(b[1].qs);
    const __m512i index = _mm512_permutex2var_epi32(v, even, w);
    const __m512i signs = _mm512_permutex2var_epi32(v, odd, w); /* and scales */
    const __mmask64 eighth = _mm512_movepi8_mask(index);
    /* Seven bits from bits 0, 7, 14 and 21 of every dword. The affine map keeps them, and bit 7 is
     * their parity. */
    const __m512i sevens =
        _mm512_multishift_epi64_epi8(_mm512_set1_epi64((long long)0x352E2720150E0700), signs);
    set_codes(
        look_up(t->first, index, eighth), look_up(t->second, index, eighth),
        _mm512_gf2p8affine_epi64_epi8(sevens, _mm512_set1_epi64((long long)0x010204081020407F), 0),
        out);
    const __m512i scale =
        _mm512_or_si512(_mm512_slli_epi32(_mm512_srli_epi32(signs, 28), 1), _mm512_set1_epi32(1));
    const __m512i low = _mm512_setr_epi32(0, 0, 1, 1, 4, 4, 5, 5, 8, 8, 9, 9, 12, 12, 13, 13);
    out->scale[0] = _mm512_permutexvar_epi32(low, scale);
    out->scale[1] = _mm512_permutexvar_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(2)), scale);
}

ALWAYS_INLINE void unpack_iq2_xs(const quant_iq2_xs *b, const book_tables *t, book_pair *out)
{
    static const _Alignas(64) uint8_t even[64] = {
        0,  2,  4,   6,   8,   10,  12,  14,  16,  18,  20,  22,  24,  26,  28,  30,
        32, 34, 36,  38,  40,  42,  44,  46,  48,  50,  52,  54,  56,  58,  60,  62,
        64, 66, 68,  70,  72,  74,  76,  78,  80,  82,  84,  86,  88,  90,  92,  94,
        96, 98, 100, 102, 104, 106, 108, 110, 112, 114, 116, 118, 120, 122, 124, 126};
    const __m512i low = _mm512_load_si512(even), high = _mm512_or_si512(low, _mm512_set1_epi8(1));
    const __m512i v = _mm512_loadu_si512(b[0].qs), w = _mm512_loadu_si512(b[1].qs);
    const __m512i index = _mm512_permutex2var_epi8(v, low, w);
    const __m512i rest = _mm512_permutex2var_epi8(v, high, w); /* a ninth bit, seven signs */
    const __mmask64 eighth = _mm512_movepi8_mask(index);
    const __mmask64 ninth = _mm512_test_epi8_mask(rest, _mm512_set1_epi8(1));
    /* Bits 1 to 7 move to bits 0 to 6, and bit 7 is their parity. */
    set_codes(
        look_up_512(t->first, index, eighth, ninth), look_up_512(t->second, index, eighth, ninth),
        _mm512_gf2p8affine_epi64_epi8(rest, _mm512_set1_epi64((long long)0x02040810204080FE), 0),
        out);
    set_nibble_scales(b[0].scales, b[1].scales, out);
}

/* ---- sums ---- */

/* scale * code * x of two superblocks, in the two halves. */
ALWAYS_INLINE __m512i pair_sum(const book_pair *b, const int8_t *x)
{
    const __m512i values =
        _mm512_broadcast_i32x4(_mm_setr_epi8(8, 25, 43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    __m512i total = _mm512_setzero_si512();
    EACH(h, 2)
    {
        __m512i sum = _mm512_setzero_si512();
        EACH(k, 4)
        {
            const __m512i code = _mm512_and_si512(_mm512_srli_epi16(b->q[h], (unsigned)(2 * k)),
                                                  _mm512_set1_epi8(3));
            const int8_t *codes = x + 64 * k + 32 * h;
            sum = _mm512_dpbusd_epi32(
                sum, _mm512_shuffle_epi8(values, code),
                negate(load_halves(codes, codes + QUANT_SUPERBLOCK), sign_mask(b->signs[h], k)));
        }
        total = _mm512_add_epi32(total, _mm512_mullo_epi32(sum, b->scale[h]));
    }
    return total;
}

/* Lane i: the sum of half i % 2 of v[i / 2]. */
ALWAYS_INLINE __m128i reduce_pairs(__m512i a, __m512i b)
{
    __m512i v =
        _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xDD));
    v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, _MM_PERM_BADC));
    v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, _MM_PERM_CDAB));
    const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    return _mm512_castsi512_si128(_mm512_permutexvar_epi32(first, v));
}

/* Part k: bytes 4 n + k of columns 0 to 63, 128 to 191, then of the other two quarters. */
ALWAYS_INLINE void copy_codes(const int8_t *q, int8_t *to)
{
    EACH(s, 4)
    {
        const __m512i v = _mm512_loadu_si512(q + 64 * s);
        EACH(k, 4)
        {
            _mm_store_si128((__m128i *)(to + 64 * k + s % 2 * 32 + s / 2 * 16),
                            _mm512_cvtepi32_epi8(_mm512_srli_epi32(v, (unsigned)(8 * k))));
        }
    }
}

#define TOTALS(f)                                                                                  \
    ALWAYS_INLINE void totals_##f(int T, const uint8_t *batch, const book_tables *t,               \
                                  const book_x *x, size_t at, __m128i *total)                      \
    {                                                                                              \
        __m512i sum[BOOK_TOKENS][2];                                                               \
        EACH(i, 2)                                                                                 \
        {                                                                                          \
            book_pair b;                                                                           \
            unpack_##f((const quant_##f *)batch + 2 * i, t, &b);                                   \
            EACH(k, T)                                                                             \
            {                                                                                      \
                sum[k][i] = pair_sum(&b, x[k].q + (at + 2 * (size_t)i) * QUANT_SUPERBLOCK);        \
            }                                                                                      \
        }                                                                                          \
        EACH(k, T)                                                                                 \
        {                                                                                          \
            total[k] = reduce_pairs(sum[k][0], sum[k][1]);                                         \
        }                                                                                          \
    }

TOTALS(iq2_xxs)
TOTALS(iq2_xs)
ROWS(iq2_xxs, 0.125f)
ROWS(iq2_xs, 0.125f)
