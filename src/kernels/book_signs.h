/* SPDX-License-Identifier: Apache-2.0 */
/* book_signs.h - loads and sign bits of the IQ formats, 64 values at a time. */
#ifndef MOTE_KERNELS_BOOK_SIGNS_H
#define MOTE_KERNELS_BOOK_SIGNS_H

#include <stdint.h>
#include <string.h>

#define BOOK_INLINE static inline __attribute__((always_inline))

BOOK_INLINE uint64_t load_u64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

BOOK_INLINE uint32_t load_u32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

BOOK_INLINE uint16_t load_u16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Bytes of seven sign bits, with an eighth that makes their number even. */
BOOK_INLINE uint64_t even_signs(uint64_t sevens)
{
    uint64_t t = sevens ^ sevens >> 4; /* only the low bits of a byte are used */
    t ^= t >> 2;
    t ^= t >> 1;
    return sevens | (t & 0x0101010101010101u) << 7;
}

/* Two dwords of four times seven sign bits and a scale: the signs as bytes. */
BOOK_INLINE uint64_t spread_sevens(uint64_t two)
{
    return (two & 0x0000007F0000007Fu) | (two << 1 & 0x00007F0000007F00u) |
           (two << 2 & 0x007F0000007F0000u) | (two << 3 & 0x7F0000007F000000u);
}

#endif
