/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks.h - byte layout of the quantised block formats.
 *
 * Formats with 32-value blocks: value = d * q (+ m). Formats with 256-value superblocks add small
 * integer scales per 16 or 32 values. d, m and dmin are f16 (half.h). Codes narrower than a byte
 * are packed low nibble first; the decoders in quant.c and unpack.c define the exact order.
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

/* ---- code books of several values: IQ1, IQ2, IQ3 (grids.h) ----
 *
 * An index selects eight values (IQ3: four). IQ2 and IQ3 have magnitudes and a sign bit per value.
 * Where only seven of eight sign bits are stored, the eighth makes their number even. */

/* Per 32 values, eight bytes: four indices, then four times 7 sign bits and a 4-bit scale. */
typedef struct quant_iq2_xxs {
    uint16_t d;
    uint8_t qs[64];
} quant_iq2_xxs;
_Static_assert(sizeof(quant_iq2_xxs) == 66, "layout of IQ2_XXS");

/* Per 8 values, two bytes: 9 bits of index, 7 of signs. A nibble of scale per 16 values. */
typedef struct quant_iq2_xs {
    uint16_t d;
    uint16_t qs[32];
    uint8_t scales[8];
} quant_iq2_xs;
_Static_assert(sizeof(quant_iq2_xs) == 74, "layout of IQ2_XS");

/* 10 bits of index: a byte of qs, two bits of qh. All sign bits. A nibble of scale per 16 values. */
typedef struct quant_iq2_s {
    uint16_t d;
    uint8_t qs[32], signs[32], qh[8], scales[8];
} quant_iq2_s;
_Static_assert(sizeof(quant_iq2_s) == 82, "layout of IQ2_S");

/* Per 32 values: eight indices; four times 7 sign bits and a 4-bit scale. */
typedef struct quant_iq3_xxs {
    uint16_t d;
    uint8_t qs[64], signs[32];
} quant_iq3_xxs;
_Static_assert(sizeof(quant_iq3_xxs) == 98, "layout of IQ3_XXS");

/* 9 bits of index: a byte of qs, a bit of qh. All sign bits. A nibble of scale per 32 values. */
typedef struct quant_iq3_s {
    uint16_t d;
    uint8_t qs[64], qh[8], signs[32], scales[4];
} quant_iq3_s;
_Static_assert(sizeof(quant_iq3_s) == 110, "layout of IQ3_S");

/* 11 bits of index: a byte of qs, three bits of qh. The rest of qh, per 32 values: a 3-bit scale and
 * the sign of the 1/8 that is added to each value. */
typedef struct quant_iq1_s {
    uint16_t d;
    uint8_t qs[32];
    uint16_t qh[8];
} quant_iq1_s;
_Static_assert(sizeof(quant_iq1_s) == 50, "layout of IQ1_S");

/* 11 bits of index; a nibble of qh has three of them and the sign of 1/8, per 8 values. `scales` are
 * four little-endian words: four 3-bit scales of 16 values each, and four bits of d. */
typedef struct quant_iq1_m {
    uint8_t qs[32], qh[16], scales[8];
} quant_iq1_m;
_Static_assert(sizeof(quant_iq1_m) == 56, "layout of IQ1_M");

/* ---- ternary ---- */

/* d * (q - 1). A byte is a fraction in units of 1/256; its digits in base 3 are five values. The last
 * 16 values are four of each byte of qh. */
typedef struct quant_tq1_0 {
    uint8_t qs[48], qh[4];
    uint16_t d;
} quant_tq1_0;
_Static_assert(sizeof(quant_tq1_0) == 54, "layout of TQ1_0");

/* d * (q - 1), 2-bit codes as in Q2_K. */
typedef struct quant_tq2_0 {
    uint8_t qs[64];
    uint16_t d;
} quant_tq2_0;
_Static_assert(sizeof(quant_tq2_0) == 66, "layout of TQ2_0");

/* ---- 4-bit floats, 1 and 2 bits ---- */

/* 2^(e - 128) * quant_fp4_values[q]; nibbles as in Q4_0. */
typedef struct quant_mxfp4 {
    uint8_t e;
    uint8_t qs[16];
} quant_mxfp4;
_Static_assert(sizeof(quant_mxfp4) == 17, "layout of MXFP4");

/* 64 values in four groups of 16: a float of 8 bits times quant_fp4_values[q] / 2. Eight bytes of
 * a group: its first values in the low nibbles. */
typedef struct quant_nvfp4 {
    uint8_t d[4];
    uint8_t qs[32];
} quant_nvfp4;
_Static_assert(sizeof(quant_nvfp4) == 36, "layout of NVFP4");

/* 128 values: d, or -d where the bit is 0. */
typedef struct quant_q1_0 {
    uint16_t d;
    uint8_t qs[16];
} quant_q1_0;
_Static_assert(sizeof(quant_q1_0) == 18, "layout of Q1_0");

/* 64 values: d * (q - 1), four consecutive values per byte. */
typedef struct quant_q2_0 {
    uint16_t d;
    uint8_t qs[16];
} quant_q2_0;
_Static_assert(sizeof(quant_q2_0) == 18, "layout of Q2_0");

/* Code book of IQ4_NL and IQ4_XS. */
extern const int8_t quant_iq4_values[16];
/* Twice the 4-bit floats of MXFP4 and NVFP4. */
extern const int8_t quant_fp4_values[16];

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
