/* SPDX-License-Identifier: Apache-2.0 */
/* random.h - pseudo-random numbers with a fixed seed (splitmix64). */
#ifndef MOTE_TESTS_SUPPORT_RANDOM_H
#define MOTE_TESTS_SUPPORT_RANDOM_H

#include <stdint.h>

typedef struct test_random {
    uint64_t state; /* the seed */
} test_random;

static inline uint64_t test_random_u64(test_random *r)
{
    uint64_t z = r->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* 0 to n - 1; n > 0. */
static inline uint64_t test_random_below(test_random *r, uint64_t n)
{
    return test_random_u64(r) % n;
}

/* In [-1, 1), a multiple of 2^-23. */
static inline float test_random_float(test_random *r)
{
    return (float)((int32_t)(test_random_u64(r) >> 40) - (1 << 23)) * 0x1p-23f;
}

/* Approximately normal with standard deviation 1, within +-6: a sum of twelve uniform numbers. */
static inline float test_random_normal(test_random *r)
{
    float sum = 0.0f;
    for (int i = 0; i < 12; i++)
        sum += test_random_float(r) * 0.5f;
    return sum;
}

#endif
