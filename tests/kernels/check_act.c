/* SPDX-License-Identifier: Apache-2.0 */
/* check_act.c - checks of act_32 and act_256. */
#include "kernels/checks.h"

#include <math.h>

static const size_t bench_cols[] = {1024, 3584};
enum { N_BENCH = sizeof bench_cols / sizeof *bench_cols, N_CASES = 40 };

/* Plants values that test rounding and amax. */
static void plant(check *c, float *x, size_t n)
{
    static const float values[] = {NAN, INFINITY, -INFINITY, 1e-38f, -3e38f, 0x1p-149f};
    const uint32_t kind = check_below(c, 4);
    if (kind == 0) /* fractions of amax: products near a tie */
        for (size_t i = 0; i < n; i++)
            x[i] = (float)((int)check_below(c, 509) - 254) * 0.5f;
    if (kind == 1)
        x[check_below(c, (uint32_t)n)] = values[check_below(c, sizeof values / sizeof *values)];
}

static bool check_act(check *c, uint32_t i, size_t block, size_t group, kern_act_fn *act)
{
    if (i >= (c->bench ? N_BENCH : N_CASES))
        return false;
    const size_t cols = c->bench ? bench_cols[i] : block * (1 + i / 4);
    float *x = check_in_f32(c, cols);
    if (!c->bench)
        plant(c, x, cols);
    int8_t *q = check_out_aligned(c, cols, 32);
    float *d = check_out_f32(c, cols / block);
    int16_t *sum = check_out_aligned(c, cols / group * sizeof *sum, sizeof *sum);
    check_label(c, 0, (double)cols * 5, "cols=%zu", cols);
    CHECK_CALL(c)
    act(x, cols, q, d, sum);
    return true;
}

bool check_act_32(check *c, uint32_t i)
{
    return check_act(c, i, 32, 32, c->table->act_32);
}

bool check_act_256(check *c, uint32_t i)
{
    return check_act(c, i, 256, 16, c->table->act_256);
}
