/* SPDX-License-Identifier: Apache-2.0 */
/* mix_search_test.c - choices of formats compared with all combinations, and ties. */
#include "convert/mix_search.h"
#include "support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { TENSORS = 6, OPTIONS = 4 };

typedef struct total {
    uint64_t bytes;
    double cost;
} total;

static total total_of(const mix_option *o, const uint32_t *chosen, uint32_t n, uint32_t m)
{
    total t = {0, 0};
    for (uint32_t i = 0; i < n; i++) {
        t.bytes += o[i * m + chosen[i]].bytes;
        t.cost += o[i * m + chosen[i]].cost;
    }
    return t;
}

/* The least cost of all combinations within the budget; -1: none fits. */
static double least_cost(const mix_option *o, uint64_t budget)
{
    double least = -1;
    uint32_t chosen[TENSORS] = {0};
    for (;;) {
        const total t = total_of(o, chosen, TENSORS, OPTIONS);
        if (t.bytes <= budget && (least < 0 || t.cost < least))
            least = t.cost;
        uint32_t i = 0;
        while (i < TENSORS && ++chosen[i] == OPTIONS)
            chosen[i++] = 0;
        if (i == TENSORS)
            return least;
    }
}

/* Larger options cost less, as formats do; the gain of a single step. */
static double make_options(test_random *r, mix_option *o)
{
    double largest = 0;
    for (uint32_t i = 0; i < TENSORS; i++) {
        const uint64_t size = 100 + test_random_below(r, 1000);
        double cost = 1 + (double)test_random_below(r, 1000);
        largest = cost > largest ? cost : largest;
        for (uint32_t k = 0; k < OPTIONS; k++) {
            o[i * OPTIONS + k] = (mix_option){size * (k + 2), cost};
            cost *= 0.1 + (double)test_random_below(r, 60) / 100;
        }
    }
    return largest;
}

/* Within the budget, and at most one step of the most costly tensor above the optimum. */
static void near_optimum(void **state)
{
    (void)state;
    test_random r = {1};
    mix_option o[TENSORS * OPTIONS];
    uint32_t chosen[TENSORS];
    for (int round = 0; round < 300; round++) {
        const double step = make_options(&r, o);
        uint64_t smallest = 0, largest = 0;
        for (uint32_t i = 0; i < TENSORS; i++) {
            smallest += o[i * OPTIONS].bytes;
            largest += o[i * OPTIONS + OPTIONS - 1].bytes;
        }
        const uint64_t budget = smallest + test_random_below(&r, largest - smallest + 1);
        assert_true(mix_search(o, TENSORS, OPTIONS, budget, chosen));
        const total t = total_of(o, chosen, TENSORS, OPTIONS);
        const double least = least_cost(o, budget);
        assert_true(t.bytes <= budget);
        assert_true(t.cost >= least * (1 - 1e-12) && t.cost <= least + step);
        assert_false(mix_search(o, TENSORS, OPTIONS, smallest - 1, chosen));
        assert_true(mix_search(o, TENSORS, OPTIONS, largest, chosen));
        for (uint32_t i = 0; i < TENSORS; i++)
            assert_int_equal(chosen[i], OPTIONS - 1);
    }
}

/* With a middle option above the hull, a tensor goes to the last one at once. */
static void convex_hull(void **state)
{
    (void)state;
    const mix_option o[] = {{10, 100}, {20, 99}, {30, 10}, {10, 50}, {20, 40}, {30, 35}};
    uint32_t chosen[2];
    assert_true(mix_search(o, 2, 3, 40, chosen));
    assert_int_equal(chosen[0], 2);
    assert_int_equal(chosen[1], 0);
    assert_true(
        mix_search(o, 2, 3, 30, chosen)); /* the last one does not fit: 10 per step, not 1 */
    assert_int_equal(chosen[0], 0);
    assert_int_equal(chosen[1], 1);
}

/* Of equal tensors the first ones get more; an option without a gain is not chosen. */
static void ties(void **state)
{
    (void)state;
    const mix_option o[] = {{10, 5}, {20, 1}, {10, 5}, {20, 1}, {10, 0}, {20, 0}};
    uint32_t chosen[3];
    assert_true(mix_search(o, 3, 2, 45, chosen));
    assert_int_equal(chosen[0], 1);
    assert_int_equal(chosen[1], 0);
    assert_int_equal(chosen[2], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_optimum),
        cmocka_unit_test(convex_hull),
        cmocka_unit_test(ties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
