/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate_test.c - statistics of rows of logits, with values computed by hand. */
#include "cli/evaluate/logit_stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * (fabs(a) + fabs(b)) + 1e-300;
}

static void test_rows(void **state)
{
    (void)state;
    /* exp: 1, 2, 4, 1 of 8. */
    const float p[] = {0, 0.6931471805599453f, 1.3862943611198906f, 0};
    const float q[] = {1, 1, 1, 1};
    const double zp = logit_log_sum(p, 4), zq = logit_log_sum(q, 4);
    assert_true(fabs(zp - log(8)) < 1e-7);
    assert_true(near(zq, 1 + log(4)));
    assert_true(logit_top(p, 4) == 2 && logit_top(q, 4) == 0);
    assert_true(logit_divergence(p, zp, p, zp, 4) == 0);
    /* log 4 minus the entropy of (1, 2, 4, 1) / 8, which is 1.75 bits. */
    assert_true(fabs(logit_divergence(p, zp, q, zq, 4) - 0.25 * log(2)) < 1e-7);
    /* Large logits do not overflow. */
    const float large[] = {1000, 1000};
    assert_true(near(logit_log_sum(large, 2), 1000 + log(2)));
}

static void test_means(void **state)
{
    (void)state;
    const double v[] = {1, 2, 3, 6};
    const stat_mean m = stat_mean_of(v, 4);
    assert_true(m.mean == 3 && near(m.error, sqrt(14.0 / 3 / 4)));
    assert_true(stat_mean_of(v, 1).mean == 1 && stat_mean_of(v, 1).error == 0);
    assert_true(stat_mean_of(v, 0).mean == 0);
    const stat_mean s = stat_share_of(3, 4);
    assert_true(s.mean == 0.75 && near(s.error, 0.25));
    assert_true(stat_share_of(0, 0).mean == 0 && stat_share_of(1, 1).error == 0);
}

static void test_quantiles(void **state)
{
    (void)state;
    double v[1000];
    for (int i = 0; i < 1000; i++)
        v[i] = (i * 619) % 1000 + 1; /* 1 to 1000 in another order */
    stat_sort(v, 1000);
    assert_true(v[0] == 1 && v[999] == 1000);
    assert_true(stat_quantile(v, 1000, 0.5).mean == 500);
    /* Ranks 500 +- 15.8: the values 516 and 485. */
    assert_true(stat_quantile(v, 1000, 0.5).error == 15.5);
    assert_true(stat_quantile(v, 1000, 0.999).mean == 999);
    assert_true(stat_quantile(v, 1, 0.5).mean == 1 && stat_quantile(v, 1, 0.999).error == 0);
    assert_true(stat_quantile(v, 3, 0.5).mean == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_means),
        cmocka_unit_test(test_quantiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
