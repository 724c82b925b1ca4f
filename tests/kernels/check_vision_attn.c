/* SPDX-License-Identifier: Apache-2.0 */
/* check_vision_attn.c - check of vision_attn_block: every number of keys, the head sizes of all
 * vision encoders, odd numbers of queries. */
#include "kernels/checks.h"

enum { BLOCK = KERN_PAGE };

/* Queries and keys of case i; false: no such case. The first 64 cases have i + 1 keys. */
static bool sizes(const check *c, uint32_t i, size_t *n, size_t *n_keys)
{
    static const uint8_t queries[] = {1, 2, 5, 6, 7, 31, 32, 33, 47, 48, 49, 64, 97};
    *n_keys = BLOCK;
    if (c->bench) {
        *n = 64;
        return i < 2;
    }
    *n = 3;
    if (i < BLOCK) {
        *n_keys = i + 1;
        return true;
    }
    if (i - BLOCK >= 3 * sizeof queries)
        return false;
    *n = queries[(i - BLOCK) / 3];
    *n_keys = (i - BLOCK) % 3 == 0 ? BLOCK : 1 + (i * 7) % BLOCK;
    return true;
}

bool check_vision_attn_block(check *c, uint32_t i)
{
    static const uint8_t widths[] = {64, 80, 16, 32, 48, 96, 112, 128};
    kern_vision_attn_args a = {.first = !c->bench && check_random(c) % 2 == 0};
    if (!sizes(c, i, &a.n, &a.n_keys))
        return false;
    a.dim = widths[c->bench ? i : i % sizeof widths];
    a.q_stride = c->bench ? a.dim : a.dim + check_below(c, 4) * 5;
    a.q = check_in_f32(c, (a.n - 1) * a.q_stride + a.dim);
    a.k = check_in_f32(c, a.dim * BLOCK);
    a.v = check_in_f32(c, BLOCK * a.dim);
    a.m = check_inout_f32(c, a.n);
    a.l = check_inout_f32(c, a.n);
    a.o = check_inout_f32(c, a.n * a.dim);
    check_label(c, 4.0 * (double)a.n * BLOCK * (double)a.dim, 0, "queries=%zu dim=%zu", a.n, a.dim);
    CHECK_CALL(c)
    c->table->vision_attn_block(&a);
    return true;
}
