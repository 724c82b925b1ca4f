/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_prefill_budget.c - slices on machines that exist on paper only: whatever a row costs, those
 * who write keep their pace, and reading goes on.
 */
#include "sched/prefill_budget.h"
#include "support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka needs those before it */
#include <cmocka.h>

/* A pass over the weights, or the work of the rows, whichever is longer; rows cost more with
 * depth. */
typedef struct machine {
    double pass, row;
    double noise; /* up to so much of it more */
} machine;

static double took(const machine *m, uint64_t written, uint64_t read, double deeper,
                   test_random *random)
{
    const double rows = m->row * ((double)written + (double)read * deeper);
    const double exact = m->pass + (rows > 0.3 * m->pass ? rows - 0.3 * m->pass : 0);
    return exact * (1 + m->noise * (0.5 + 0.5 * (double)test_random_float(random)));
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void those_who_write_keep_their_pace(void **state)
{
    (void)state;
    static const machine machines[] = {
        {0.05, 0.001, 0}, {0.05, 0.002, 0.1}, {0.2, 0.008, 0.1}, {0.01, 0.0002, 0.2}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        enum { WRITERS = 7, PROMPT = 4096, MOST = 1000 };
        const machine *m = &machines[i];
        test_random random = {.state = i};
        prefill_budget p = {0};
        double times[MOST];
        size_t n = 0, done = 0;
        while (done < PROMPT && n < MOST) {
            const uint32_t rows = prefill_budget_rows(&p, WRITERS, 1);
            assert_true(rows == 0 || (rows >= BUDGET_MIN_ROWS && rows <= BUDGET_MAX_ROWS));
            times[n] = took(m, WRITERS, rows, 1 + (double)done / PROMPT, &random);
            prefill_budget_observe(&p, WRITERS, rows, times[n++]);
            done += rows;
        }
        assert_true(done >= PROMPT); /* it is read, and in not too many pieces */
        qsort(times, n, sizeof *times, compare);
        const double alone = took(m, WRITERS, 0, 1, &(test_random){.state = 1});
        assert_true(times[n * 99 / 100] <= 2.0 * alone * (1 + m->noise));
        assert_true(times[n / 2] >= 1.2 * alone); /* what they can spare is used */
    }
}

/* How long a step with a slice takes once the pace knows the machine. */
static double settled(const machine *m, prefill_budget *p, uint64_t writers, uint64_t readers)
{
    test_random random = {.state = 3};
    double last = 0;
    for (int i = 0; i < 40; i++) {
        const uint32_t rows = prefill_budget_rows(p, writers, readers);
        last = took(m, writers, rows, 1, &random);
        prefill_budget_observe(p, writers, rows, last);
    }
    return last;
}

/* The more wait for each who writes, the larger the pieces in which they are read; but he is not
 * forgotten: four times his step, or up to ten times while nobody minds the gap. */
static void a_crowd_is_read_faster(void **state)
{
    (void)state;
    static const machine machines[] = {{0.05, 0.002, 0}, {0.3, 0.02, 0}, {0.01, 0.0005, 0}};
    static const uint64_t companies[][2] = {{7, 1}, {6, 2}, {5, 3}, {4, 4}, {2, 6}, {1, 7}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        const machine *m = &machines[i];
        double before = 0;
        for (size_t k = 0; k < sizeof companies / sizeof *companies; k++) {
            const uint64_t writers = companies[k][0], readers = companies[k][1];
            prefill_budget p = {0};
            const double alone = took(m, writers, 0, 1, &(test_random){.state = 1});
            const double most =
                alone < BUDGET_MAX_GAP / BUDGET_MAX_SLOWDOWN   ? BUDGET_MAX_SLOWDOWN * alone
                : alone > BUDGET_MAX_GAP / BUDGET_CAP_SLOWDOWN ? BUDGET_CAP_SLOWDOWN * alone
                                                               : BUDGET_MAX_GAP;
            const double stretch = settled(m, &p, writers, readers) / alone;
            assert_true(stretch * alone <= 1.1 * most);
            assert_true(stretch >= 0.95 * before || stretch * alone >= 0.9 * most);
            assert_true(stretch > 3 || readers < writers); /* half of them have not begun */
            before = stretch;
        }
    }
}

/* Companies change from step to step: what was learnt beside one holds beside the next. */
static void the_pace_of_before_comes_back_at_once(void **state)
{
    (void)state;
    const machine m = {0.05, 0.002, 0};
    prefill_budget p = {0};
    settled(&m, &p, 1, 7);
    const uint32_t crowded = prefill_budget_rows(&p, 1, 7);
    assert_true(prefill_budget_rows(&p, 1, 1) < crowded);
    prefill_budget_observe(&p, 7, 0, took(&m, 7, 0, 1, &(test_random){.state = 1}));
    const uint32_t rows = prefill_budget_rows(&p, 7, 1);
    const double alone = took(&m, 7, 0, 1, &(test_random){.state = 1});
    const double step = took(&m, 7, rows, 1, &(test_random){.state = 1});
    assert_true(step <= 2 * alone && rows > BUDGET_MIN_ROWS);
}

/* As answers begin one by one, few steps go without a slice only to see how long they take. */
static void numbers_of_writers_are_not_measured_one_by_one(void **state)
{
    (void)state;
    enum { CLIENTS = 32 };
    const machine m = {0.05, 0.002, 0};
    prefill_budget p = {0};
    size_t without = 0;
    for (uint64_t writers = 1; writers < CLIENTS; writers++)
        for (int step = 0; step < 3; step++) {
            const uint32_t rows = prefill_budget_rows(&p, writers, CLIENTS - writers);
            prefill_budget_observe(&p, writers, rows,
                                   took(&m, writers, rows, 1, &(test_random){.state = 1}));
            without += rows == 0;
        }
    assert_in_range(without, 1, 12);
}

/* One step in which the machine did something else changes little. */
static void a_disturbed_step_is_not_believed(void **state)
{
    (void)state;
    const machine m = {0.05, 0.002, 0};
    prefill_budget p = {0};
    settled(&m, &p, 4, 4);
    const uint32_t rows = prefill_budget_rows(&p, 4, 4);
    prefill_budget_observe(&p, 4, rows, 30);
    assert_true(prefill_budget_rows(&p, 4, 4) > rows / 3);
    settled(&m, &p, 4, 4);
    assert_in_range(prefill_budget_rows(&p, 4, 4), rows * 9 / 10, rows * 11 / 10);
    prefill_budget_observe(&p, 4, rows, 0.0001); /* nor one that seems to have cost nothing */
    assert_true(prefill_budget_rows(&p, 4, 4) < 2 * rows);
}

static void reading_goes_on_whatever_it_costs(void **state)
{
    (void)state;
    prefill_budget p = {0};
    size_t slices = 0;
    for (int i = 0; i < 200; i++) {
        const uint32_t rows = prefill_budget_rows(&p, 3, 1);
        prefill_budget_observe(&p, 3, rows, rows > 0 ? 10.0 : 0.01); /* a thousand times slower */
        slices += rows > 0;
        assert_true(rows == 0 || rows == BUDGET_MIN_ROWS);
    }
    assert_true(slices > 190);
}

static void alone_a_step_stays_short(void **state)
{
    (void)state;
    static const double rows[] = {0.00001, 0.005, 0.02, 0.2};
    static const uint32_t wanted[] = {BUDGET_MAX_ROWS, BUDGET_MAX_ROWS, 100, BUDGET_MIN_ROWS_ALONE};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        prefill_budget p = {0};
        assert_true(prefill_budget_rows(&p, 0, 1) < BUDGET_MAX_ROWS);
        for (int step = 0; step < 50; step++)
            prefill_budget_observe(&p, 0, prefill_budget_rows(&p, 0, 1),
                                   rows[i] * prefill_budget_rows(&p, 0, 1));
        assert_in_range(prefill_budget_rows(&p, 0, 1), wanted[i] - 1, wanted[i]);
    }
}

/* While another engine waits, a step is as long as it can be asked to wait, and reading goes on. */
static void another_engine_waits_little(void **state)
{
    (void)state;
    static const double costs[] = {0.0001, 0.002, 0.008, 0.03, 0.2};
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        prefill_budget p = {0};
        assert_int_equal(prefill_budget_shared(&p, 0), 0);
        assert_int_equal(prefill_budget_shared(&p, BUDGET_MAX_ROWS), BUDGET_MIN_ROWS_ALONE);
        for (int step = 0; step < 40; step++)
            prefill_budget_observe(&p, 0, 100, 100 * costs[i]);
        const size_t rows = prefill_budget_shared(&p, BUDGET_MAX_ROWS);
        assert_true(rows >= BUDGET_MIN_ROWS && rows <= BUDGET_MAX_ROWS);
        assert_true((double)rows * costs[i] <= BUDGET_SHARED_SECONDS || rows == BUDGET_MIN_ROWS);
        assert_true((double)(rows + 1) * costs[i] > BUDGET_SHARED_SECONDS * 0.99 ||
                    rows == BUDGET_MAX_ROWS);
        assert_int_equal(prefill_budget_shared(&p, 3), 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_engine_waits_little),
        cmocka_unit_test(those_who_write_keep_their_pace),
        cmocka_unit_test(a_crowd_is_read_faster),
        cmocka_unit_test(the_pace_of_before_comes_back_at_once),
        cmocka_unit_test(numbers_of_writers_are_not_measured_one_by_one),
        cmocka_unit_test(a_disturbed_step_is_not_believed),
        cmocka_unit_test(reading_goes_on_whatever_it_costs),
        cmocka_unit_test(alone_a_step_stays_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
