/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fmath.c - compares the elementary functions with the C library in higher precision.
 *
 * The default sweep tests every 1009th float of the range; the argument "all" tests every float
 * (takes minutes). Errors are in units of the last place (ulp) of the exact value. The bounds are
 * those in docs/numerics.md.
 */
#include "kernels/dmath.h"
#include "kernels/fmath.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static uint32_t sweep_step = 1009;

/* |got - want| in ulp of want; for subnormals the ulp of a subnormal. */
static double ulps(float got, double want)
{
    int exponent;
    frexp(want, &exponent);
    const double unit = fmax(ldexp(1.0, exponent - 24), 0x1p-149);
    return fabs((double)got - want) / unit;
}

typedef float float_fn(float x);
typedef double double_fn(double x);

/* Maximum error over the floats from lo to hi. Both have the same sign. */
static double max_error(float_fn *f, double_fn *truth, float lo, float hi)
{
    const uint32_t last = f_bits(fabsf(lo) > fabsf(hi) ? lo : hi);
    double bad = 0;
    for (uint32_t bits = f_bits(fabsf(lo) > fabsf(hi) ? hi : lo); bits <= last;) {
        const float x = f_from_bits(bits);
        const double error = ulps(f(x), truth((double)x));
        bad = error > bad ? error : bad;
        if (last - bits < sweep_step && bits != last)
            bits = last; /* always test both ends */
        else
            bits += sweep_step;
    }
    return bad;
}

static void assert_within(const char *what, double error, double bound)
{
    printf("%-28s %.3g (bound %.3g)\n", what, error, bound);
    assert_true(error <= bound);
}

static double true_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double true_softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static void exp_is_within_one_ulp(void **state)
{
    (void)state;
    assert_within("f_exp, x > 0", max_error(f_exp, exp, 0.0f, F_EXP_HI), 1.0);
    assert_within("f_exp, x < 0", max_error(f_exp, exp, -0.0f, F_EXP_LO), 1.0);
}

/* Floats outside the range give the defined results; NaN keeps its bits. */
static void exp_outside_its_range(void **state)
{
    (void)state;
    assert_true(f_exp(F_EXP_LO) >= FLT_MIN);
    assert_true(exp((double)nextafterf(F_EXP_LO, -100.0f)) < (double)FLT_MIN);
    assert_true(f_exp(F_EXP_HI) <= FLT_MAX && f_exp(F_EXP_HI) > 0x1.fffep127f);
    assert_true(exp((double)nextafterf(F_EXP_HI, 100.0f)) > (double)FLT_MAX);
    const float below[] = {nextafterf(F_EXP_LO, -100.0f), -88.0f, -104.0f, -FLT_MAX, -INFINITY};
    const float above[] = {nextafterf(F_EXP_HI, 100.0f), 89.0f, FLT_MAX, INFINITY};
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        assert_int_equal(f_bits(f_exp(below[i])), 0);
    for (size_t i = 0; i < sizeof above / sizeof *above; i++)
        assert_int_equal(f_bits(f_exp(above[i])), f_bits(INFINITY));
    assert_int_equal(f_bits(f_exp(f_from_bits(0x7fc12345u))), 0x7fc12345u);
    assert_int_equal(f_bits(f_exp(f_from_bits(0xffc00001u))), 0xffc00001u);
}

/* Values that must be exact: the maximum weight of a softmax is e^0. */
static void exact_values_are_exact(void **state)
{
    (void)state;
    assert_int_equal(f_bits(f_exp(0.0f)), f_bits(1.0f));
    assert_int_equal(f_bits(f_exp(-0.0f)), f_bits(1.0f));
    assert_int_equal(f_bits(f_sigmoid(0.0f)), f_bits(0.5f));
    assert_int_equal(f_bits(f_silu(0.0f)), 0);
    assert_int_equal(f_bits(f_log1p(0.0f)), 0);
    assert_int_equal(f_bits(f_tanh(-0.0f)), f_bits(-0.0f));
    assert_int_equal(f_bits(f_tanh(30.0f)), f_bits(1.0f));
    assert_int_equal(f_bits(f_tanh(-INFINITY)), f_bits(-1.0f));
    assert_int_equal(f_bits(f_gelu_tanh(0.0f)), 0);
    assert_true(d_sin(0.0) == 0.0 && d_cos(0.0) == 1.0 && d_exp(0.0) == 1.0 && d_log(1.0) == 0.0);
    assert_true(d_pow(10000.0, 0.0) == 1.0);
}

/* exp must be monotonic, also where one reduction interval ends and the next begins. */
static void exp_is_monotonic(void **state)
{
    (void)state;
    float before = 0.0f;
    for (float x = -90.0f; x < 90.0f; x += 0x1p-10f) {
        const float y = f_exp(x);
        assert_true(y >= before);
        before = y;
    }
}

static void other_functions_within_bounds(void **state)
{
    (void)state;
    assert_within("f_log1p, 0..1", max_error(f_log1p, log1p, 0.0f, 1.0f), 2.0);
    assert_within("f_sigmoid, x > 0", max_error(f_sigmoid, true_sigmoid, 0.0f, 80.0f), 2.0);
    assert_within("f_sigmoid, x < 0", max_error(f_sigmoid, true_sigmoid, -0.0f, -80.0f), 3.0);
    assert_within("f_softplus, x > 0", max_error(f_softplus, true_softplus, 0.0f, 1e4f), 3.0);
    assert_within("f_softplus, x < 0", max_error(f_softplus, true_softplus, -0.0f, -80.0f), 4.0);
    assert_within("f_tanh, x > 0", max_error(f_tanh, tanh, 0.0f, 20.0f), 2.0);
    assert_within("f_tanh, x < 0", max_error(f_tanh, tanh, -0.0f, -20.0f), 2.0);
}

/* Absolute error: for x < 0 the result is a small difference of large terms. */
static void gelu_is_close(void **state)
{
    (void)state;
    double bad = 0;
    for (float x = -20.0f; x < 20.0f; x += 0x1p-12f) {
        const double y = (double)x;
        const double truth = 0.5 * y * (1 + tanh(0.7978845608028654 * (y + 0.044715 * y * y * y)));
        bad = fmax(bad, fabs((double)f_gelu_tanh(x) - truth) / fmax(1.0, fabs(truth)));
    }
    assert_within("f_gelu_tanh, absolute", bad, 3e-7);
}

/* GELU with erf, as in the merger of the vision encoder. */
static void gelu_erf_is_close(void **state)
{
    (void)state;
    double bad = 0, bad_erf = 0;
    for (double y = -12; y <= 12; y += 1.0 / 4096) {
        const float x = (float)y;
        const double truth = 0.5 * (double)x * (1 + erf((double)x * 0.70710678118654752));
        bad = fmax(bad, fabs((double)f_gelu_erf(x) - truth) / fmax(1.0, fabs(truth)));
        bad_erf = fmax(bad_erf, fabs((double)f_erf(x) - erf((double)x)));
    }
    assert_within("f_erf, absolute", bad_erf, 1.5e-7);
    assert_within("f_gelu_erf, absolute", bad, 3e-7);
}

static uint64_t random_state = 12345;

static double uniform(double lo, double hi)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return lo + (hi - lo) * (double)(random_state >> 11) * 0x1p-53;
}

/* Compared with long double. The largest angle of a model is a position, about a million. */
static void doubles_are_good_to_1e12(void **state)
{
    (void)state;
    long double s = 0, c = 0, e = 0, l = 0, p = 0;
    for (int i = 0; i < 400000; i++) {
        const double angle = uniform(-2e6, 2e6), x = uniform(-700, 700), y = uniform(-1.0, 0.0);
        const double any = exp(x);
        s = fmaxl(s, fabsl((long double)d_sin(angle) - sinl(angle)));
        c = fmaxl(c, fabsl((long double)d_cos(angle) - cosl(angle)));
        e = fmaxl(e, fabsl(d_exp(x) / expl(x) - 1));
        l = fmaxl(l, fabsl(d_log(any) / logl(any) - 1));
        p = fmaxl(p, fabsl(d_pow(1e7, y) / powl(1e7L, y) - 1));
    }
    assert_within("d_sin, absolute", (double)s, 1e-15);
    assert_within("d_cos, absolute", (double)c, 1e-15);
    assert_within("d_exp, relative", (double)e, 1e-15);
    assert_within("d_log, relative", (double)l, 1e-15);
    assert_within("d_pow(1e7, y), relative", (double)p, 1e-14);
}

/* Worst cases of the argument reduction: doubles nearest to multiples of pi/2. */
static void reduction_survives_multiples_of_half_pi(void **state)
{
    (void)state;
    long double bad = 0;
    for (long n = -1273000; n < 1273000; n += 7) {
        const double x = (double)((long double)n * 1.57079632679489661923L);
        bad = fmaxl(bad, fabsl((long double)d_sin(x) - sinl(x)));
        bad = fmaxl(bad, fabsl((long double)d_cos(x) - cosl(x)));
    }
    assert_within("sin, cos near n pi/2", (double)bad, 1e-15);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "all") == 0)
        sweep_step = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_one_ulp),
        cmocka_unit_test(exp_outside_its_range),
        cmocka_unit_test(exact_values_are_exact),
        cmocka_unit_test(exp_is_monotonic),
        cmocka_unit_test(other_functions_within_bounds),
        cmocka_unit_test(gelu_is_close),
        cmocka_unit_test(gelu_erf_is_close),
        cmocka_unit_test(doubles_are_good_to_1e12),
        cmocka_unit_test(reduction_survives_multiples_of_half_pi),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
