/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckd.h - checked arithmetic on sizes.
 *
 * Use it for every size that comes from a file or from a caller. All functions return true if the
 * result is exact and false on overflow.
 */
#ifndef MOTE_BASE_CKD_H
#define MOTE_BASE_CKD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool ckd_add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool ckd_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool ckd_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool ckd_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Rounds up to a multiple of `unit`, a power of two. */
static inline bool ckd_round_up_u64(uint64_t a, uint64_t unit, uint64_t *out)
{
    uint64_t sum;
    if (!ckd_add_u64(a, unit - 1, &sum))
        return false;
    *out = sum & ~(unit - 1);
    return true;
}

#endif
