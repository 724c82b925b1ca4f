/* SPDX-License-Identifier: Apache-2.0 */
/*
 * philox.h - counter-based random numbers: Philox 4x32 with 10 rounds.
 *
 * Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011. A draw is a pure
 * function of the seed, the position and the number of the draw. There is no generator state, so
 * batching, replay and speculative decoding give the same draws.
 */
#ifndef MOTE_BASE_PHILOX_H
#define MOTE_BASE_PHILOX_H

#include <stdint.h>

typedef struct philox_block {
    uint32_t word[4];
} philox_block;

static inline philox_block philox(uint64_t seed, uint64_t counter_lo, uint64_t counter_hi)
{
    uint32_t c0 = (uint32_t)counter_lo, c1 = (uint32_t)(counter_lo >> 32);
    uint32_t c2 = (uint32_t)counter_hi, c3 = (uint32_t)(counter_hi >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0;
        uint64_t b = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (philox_block){{c0, c1, c2, c3}};
}

/* A draw for a position: a multiple of 2^-24 in [0, 1). */
static inline float philox_unit(uint64_t seed, uint64_t position, uint32_t draw)
{
    return (float)(philox(seed, position, draw).word[0] >> 8) * 0x1p-24f;
}

#endif
