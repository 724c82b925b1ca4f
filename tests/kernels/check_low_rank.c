/* SPDX-License-Identifier: Apache-2.0 */
/* check_low_rank.c - checks of low_rank_add. */
#include "kernels/checks.h"

typedef struct low_rank_shape {
    size_t n, rank, tokens;
} low_rank_shape;

static const low_rank_shape bench_shapes[] = {{256, 16, 1}, {256, 16, 8}, {256, 16, 64}};

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
    return s->n != SIZE_MAX;
}

/* A buffer of `rows` rows: no gap behind the last one. */
static size_t floats_of(size_t rows, size_t stride, size_t n)
{
    return rows == 0 ? 0 : (rows - 1) * stride + n;
}

bool check_low_rank_add(check *c, uint32_t i)
{
    low_rank_shape s;
    if (!low_rank_shape_of(c, i, &s))
        return false;
    const size_t gap = c->bench ? 0 : check_below(c, 4);
    kern_low_rank_args a = {.b_stride = s.n + gap,
                            .rank = s.rank,
                            .x_stride = s.rank + gap,
                            .y_stride = s.n + gap,
                            .tokens = s.tokens,
                            .n = s.n};
    a.b = check_in_f32(c, floats_of(s.rank, a.b_stride, s.n));
    a.x = check_in_f32(c, floats_of(s.tokens, a.x_stride, s.rank));
    a.y = check_inout_f32(c, floats_of(s.tokens, a.y_stride, s.n));
    check_label(c, 2.0 * (double)(s.n * s.rank * s.tokens), (double)(s.n * s.rank) * 4,
                "n=%zu rank=%zu tokens=%zu", s.n, s.rank, s.tokens);
    CHECK_CALL(c)
    c->table->low_rank_add(&a);
    return true;
}
