/* SPDX-License-Identifier: Apache-2.0 */
/* check_low_rank.c - checks of low_rank_add. */
#include "kernels/checks.h"

typedef struct low_rank_shape {
    size_t n, rank, tokens;
    bool halves;
} low_rank_shape;

static const low_rank_shape bench_shapes[] = {{256, 16, 1, false},  {256, 16, 1, true},
                                              {256, 16, 8, false},  {256, 16, 8, true},
                                              {256, 16, 64, false}, {256, 16, 64, true}};

/* Any number of columns, as check_length says; ranks and tokens change with the case. */
static bool low_rank_shape_of(const check *c, uint32_t i, low_rank_shape *s)
{
    static const size_t ranks[] = {1, 8, 3, 16, 0, 5, 33};
    static const size_t tokens[] = {1, 2, 7, 4, 13, 6, 3, 5};
    if (c->bench) {
        if (i >= sizeof bench_shapes / sizeof *bench_shapes)
            return false;
        *s = bench_shapes[i];
        return true;
    }
    s->n = check_length(i);
    s->rank = ranks[i % 7];
    s->tokens = tokens[i % 8];
    s->halves = i % 3 == 1;
    return s->n != SIZE_MAX;
}

/* A buffer of `rows` rows: no gap behind the last one. */
static size_t floats_of(size_t rows, size_t stride, size_t n)
{
    return rows == 0 ? 0 : (rows - 1) * stride + n;
}

/* Any bits, without NaN. */
static uint16_t *in_halves(check *c, size_t n)
{
    uint16_t *halves = check_in_aligned(c, n * sizeof *halves, sizeof *halves);
    for (size_t i = 0; i < n; i++) {
        const uint16_t bits = (uint16_t)check_below(c, 1 << 16);
        halves[i] = (bits & 0x7C00) == 0x7C00 ? (uint16_t)(bits & 0xFC00) : bits;
    }
    return halves;
}

bool check_low_rank_add(check *c, uint32_t i)
{
    low_rank_shape s;
    if (!low_rank_shape_of(c, i, &s))
        return false;
    const size_t gap = c->bench ? 0 : check_below(c, 4);
    const size_t padded = (s.n + KERN_LOW_RANK_PAD - 1) / KERN_LOW_RANK_PAD * KERN_LOW_RANK_PAD;
    kern_low_rank_args a = {.halves = s.halves,
                            .b_stride = (s.halves ? padded : s.n) + gap,
                            .rank = s.rank,
                            .x_stride = s.rank + gap,
                            .y_stride = s.n + gap,
                            .tokens = s.tokens,
                            .n = s.n};
    a.b = s.halves ? (const void *)in_halves(c, floats_of(s.rank, a.b_stride, padded))
                   : (const void *)check_in_f32(c, floats_of(s.rank, a.b_stride, s.n));
    a.x = check_in_f32(c, floats_of(s.tokens, a.x_stride, s.rank));
    a.y = check_inout_f32(c, floats_of(s.tokens, a.y_stride, s.n));
    check_label(c, 2.0 * (double)(s.n * s.rank * s.tokens),
                (double)(s.n * s.rank) * (s.halves ? 2 : 4), "n=%zu rank=%zu tokens=%zu%s", s.n,
                s.rank, s.tokens, s.halves ? " halves" : "");
    CHECK_CALL(c)
    c->table->low_rank_add(&a);
    return true;
}
