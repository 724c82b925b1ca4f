/* SPDX-License-Identifier: Apache-2.0 */
/* check_norm.c - checks of rmsnorm, rmsnorm_gated, l2norm, layernorm: all tails, in place and
 * not. */
#include "kernels/checks.h"

/* Lengths met in the model: a head, a DeltaNet head, hidden sizes of 0.8B to 9B. */
static const size_t bench_lengths[] = {128, 256, 1024, 2560, 4096};
enum { N_BENCH = sizeof bench_lengths / sizeof *bench_lengths };

typedef struct norm_case {
    size_t n;
    const float *x, *w, *z;
    float *y; /* x if in place */
} norm_case;

static bool set_up(check *c, uint32_t i, norm_case *out)
{
    if (c->bench && i >= N_BENCH)
        return false;
    const size_t n = c->bench ? bench_lengths[i] : check_length(i / 2);
    if (n == SIZE_MAX)
        return false;
    out->n = n;
    out->w = check_in_f32(c, n);
    out->z = check_in_f32(c, n);
    if (i % 2 == 0 || c->bench) {
        out->x = check_in_f32(c, n);
        out->y = check_out_f32(c, n);
    } else {
        out->y = check_inout_f32(c, n);
        out->x = out->y;
    }
    check_label(c, 0, (double)n * 12, "n=%zu", n);
    return true;
}

bool check_rmsnorm(check *c, uint32_t i)
{
    norm_case k;
    if (!set_up(c, i, &k))
        return false;
    CHECK_CALL(c)
    c->table->rmsnorm(k.x, k.w, k.n, 1e-6f, k.y);
    return true;
}

bool check_rmsnorm_gated(check *c, uint32_t i)
{
    norm_case k;
    if (!set_up(c, i, &k))
        return false;
    CHECK_CALL(c)
    c->table->rmsnorm_gated(k.x, k.w, k.z, k.n, 1e-6f, k.y);
    return true;
}

bool check_l2norm(check *c, uint32_t i)
{
    norm_case k;
    if (!set_up(c, i, &k))
        return false;
    CHECK_CALL(c)
    c->table->l2norm(k.x, k.n, 1e-6f, 0.08838834764f, k.y);
    return true;
}

bool check_layernorm(check *c, uint32_t i)
{
    norm_case k;
    if (!set_up(c, i, &k))
        return false;
    CHECK_CALL(c)
    c->table->layernorm(k.x, k.w, k.z, k.n, 1e-6f, k.y);
    return true;
}
