/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks.h - byte layout of the quantised block formats.
 *
 * Formats with 32-value blocks: value = d * q (+ m). Formats with 256-value superblocks add small
 * integer scales per 16 or 32 values. d, m and dmin are f16 (half.h). Codes narrower than a byte
 * are packed low nibble first; the decoders in quant.c define the exact order.
 */
#ifndef MOTE_QUANT_BLOCKS_H
#define MOTE_QUANT_BLOCKS_H

#include <stdint.h>

enum {
    QUANT_BLOCK = 32,       /* values per block */
    QUANT_SUPERBLOCK = 256, /* values per superblock */
};

/* d * (q - 8). Byte j: value j in the low nibble, value j + 16 in the high nibble. */
typedef struct quant_q4_0 {
    uint16_t d;
    uint8_t qs[16];
} quant_q4_0;
_Static_assert(sizeof(quant_q4_0) == 18, "layout of Q4_0");

/* d * q + m */
typedef struct quant_q4_1 {
    uint16_t d, m;
    uint8_t qs[16];
} quant_q4_1;
_Static_assert(sizeof(quant_q4_1) == 20, "layout of Q4_1");

/* d * (q - 16); bit j of the little-endian qh is the fifth bit of value j. */
typedef struct quant_q5_0 {
    uint16_t d;
    uint8_t qh[4];
    uint8_t qs[16];
} quant_q5_0;
_Static_assert(sizeof(quant_q5_0) == 22, "layout of Q5_0");

/* d * q + m */
typedef struct quant_q5_1 {
    uint16_t d, m;
    uint8_t qh[4];
    uint8_t qs[16];
} quant_q5_1;
_Static_assert(sizeof(quant_q5_1) == 24, "layout of Q5_1");

/* d * q */
typedef struct quant_q8_0 {
    uint16_t d;
    int8_t qs[32];
} quant_q8_0;
_Static_assert(sizeof(quant_q8_0) == 34, "layout of Q8_0");

/* d * quant_iq4_values[q]; nibbles as in Q4_0. */
typedef struct quant_iq4_nl {
    uint16_t d;
    uint8_t qs[16];
} quant_iq4_nl;
_Static_assert(sizeof(quant_iq4_nl) == 18, "layout of IQ4_NL");

/* d * scale * q - dmin * min. Per 16 values: scale in the low nibble, min in the high nibble. 2-bit
 * codes: byte j of a 32-byte half holds values j, j + 32, j + 64, j + 96 of its 128. */
typedef struct quant_q2_k {
    uint8_t scales[16];
    uint8_t qs[64];
    uint16_t d, dmin;
} quant_q2_k;
_Static_assert(sizeof(quant_q2_k) == 84, "layout of Q2_K");

/* d * scale * q, with a 6-bit scale per 16 values (quant_q3_k_scale). Low 2 bits of q as in Q2_K.
 * If bit b of hmask[j] is clear, 4 is subtracted from q of value j + 32 b. */
typedef struct quant_q3_k {
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[12];
    uint16_t d;
} quant_q3_k;
_Static_assert(sizeof(quant_q3_k) == 110, "layout of Q3_K");

/* d * scale * q - dmin * min, with a 6-bit scale and min per 32 values (quant_q4_k_scale). Byte j
 * of a 32-byte quarter holds values j and j + 32 of its 64. */
typedef struct quant_q4_k {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t qs[128];
} quant_q4_k;
_Static_assert(sizeof(quant_q4_k) == 144, "layout of Q4_K");

/* Like Q4_K; bit b of qh[j] is the fifth bit of value j + 32 b. */
typedef struct quant_q5_k {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
} quant_q5_k;
_Static_assert(sizeof(quant_q5_k) == 176, "layout of Q5_K");

/* d * scale * (q - 32), with a scale per 16 values. In each half of 128 values, the low nibble of
 * ql[j] (j < 64) is value j, the high nibble value j + 64; bit pair p of qh[j] belongs to value
 * j + 32 p. */
typedef struct quant_q6_k {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d;
} quant_q6_k;
_Static_assert(sizeof(quant_q6_k) == 210, "layout of Q6_K");

/* d * (scale - 32) * quant_iq4_values[q], with a 6-bit scale per 32 values: low four bits in
 * scales_l (nibbles), high two in scales_h. Nibbles of each 32 values as in Q4_0. */
typedef struct quant_iq4_xs {
    uint16_t d;
    uint16_t scales_h;
    uint8_t scales_l[4];
    uint8_t qs[128];
} quant_iq4_xs;
_Static_assert(sizeof(quant_iq4_xs) == 136, "layout of IQ4_XS");

/* Code book of IQ4_NL and IQ4_XS. */
extern const int8_t quant_iq4_values[16];

/* Scale and min of 32-value group `i` (0 to 7) of Q4_K and Q5_K. Groups 0 to 3 use the low six bits
 * of a byte. The high two bits of those bytes belong to groups 4 to 7. */
static inline void quant_q4_k_scale(const uint8_t scales[12], int i, uint8_t *scale, uint8_t *min)
{
    if (i < 4) {
        *scale = scales[i] & 63;
        *min = scales[i + 4] & 63;
    } else {
        *scale = (uint8_t)((scales[i + 4] & 15) | (scales[i - 4] >> 6) << 4);
        *min = (uint8_t)((scales[i + 4] >> 4) | (scales[i] >> 6) << 4);
    }
}

/* Scale of 16-value group `i` (0 to 15) of Q3_K, -32 to 31: four bits from the nibbles of the first
 * eight bytes, two from the last four bytes. */
static inline int8_t quant_q3_k_scale(const uint8_t scales[12], int i)
{
    const int low = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
    const int high = scales[8 + i % 4] >> (2 * (i / 4)) & 3;
    return (int8_t)((low | high << 4) - 32);
}

/* Scale of 32-value group `i` (0 to 7) of IQ4_XS, -32 to 31. */
static inline int8_t quant_iq4_xs_scale(const quant_iq4_xs *block, int i)
{
    const int low = block->scales_l[i / 2] >> (4 * (i % 2)) & 15;
    const int high = block->scales_h >> (2 * i) & 3;
    return (int8_t)((low | high << 4) - 32);
}

#endif
