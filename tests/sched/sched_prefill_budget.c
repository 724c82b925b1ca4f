/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_prefill_budget.c - the prefill budget on simulated machines: whatever a row costs, decoding
 * streams stay smooth and prefill proceeds.
 */
#include "sched/prefill_budget.h"
#include "support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

/* The time of a step is a pass over the weights or the work of its rows, whichever is longer. */
typedef struct machine {
    double pass, row;
    double noise; /* relative, at most */
} machine;

static double step_seconds(const machine *m, uint64_t written, uint64_t read, double deeper,
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

static void streams_stay_smooth(void **state)
{
    (void)state;
    static const machine machines[] = {
        {0.05, 0.001, 0}, {0.05, 0.002, 0.1}, {0.2, 0.008, 0.1}, {0.01, 0.0002, 0.2}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        enum { DECODING = 7, PROMPT = 4096, MOST = 1000 };
        const machine *m = &machines[i];
        test_random random = {.state = i};
        prefill_budget p = {0};
        double times[MOST];
        size_t n = 0, done = 0;
        while (done < PROMPT && n < MOST) {
            const uint32_t rows = prefill_budget_rows(&p, DECODING, 1, 0);
            assert_true(rows == 0 || (rows >= BUDGET_MIN_ROWS && rows <= BUDGET_MAX_ROWS));
            times[n] = step_seconds(m, DECODING, rows, 1 + (double)done / PROMPT, &random);
            prefill_budget_observe(&p, DECODING, rows, times[n++]);
            done += rows;
        }
        assert_true(done >= PROMPT); /* prefill ends, in not too many chunks */
        qsort(times, n, sizeof *times, compare);
        const double alone = step_seconds(m, DECODING, 0, 1, &(test_random){.state = 1});
        assert_true(times[n * 99 / 100] <= 2.0 * alone * (1 + m->noise));
        assert_true(times[n / 2] >= 1.2 * alone); /* the spare time is used */
    }
}

/* Time of a step with prefill once the budget has measured the machine. */
static double settled_step_seconds(const machine *m, prefill_budget *p, uint64_t decoding,
                                   uint64_t waiting)
{
    test_random random = {.state = 3};
    double last = 0;
    for (int i = 0; i < 40; i++) {
        const uint32_t rows = prefill_budget_rows(p, decoding, waiting, 0);
        last = step_seconds(m, decoding, rows, 1, &random);
        prefill_budget_observe(p, decoding, rows, last);
    }
    return last;
}

/* More waiting prompts per decoding stream give larger chunks, up to the cap: 4 times the
 * decode-only step, or up to 10 times while the gap stays below BUDGET_MAX_GAP. */
static void more_waiting_prompts_get_larger_chunks(void **state)
{
    (void)state;
    static const machine machines[] = {{0.05, 0.002, 0}, {0.3, 0.02, 0}, {0.01, 0.0005, 0}};
    static const uint64_t batches[][2] = {{7, 1}, {6, 2}, {5, 3}, {4, 4}, {2, 6}, {1, 7}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        const machine *m = &machines[i];
        double before = 0;
        for (size_t k = 0; k < sizeof batches / sizeof *batches; k++) {
            const uint64_t decoding = batches[k][0], waiting = batches[k][1];
            prefill_budget p = {0};
            const double alone = step_seconds(m, decoding, 0, 1, &(test_random){.state = 1});
            const double most =
                alone < BUDGET_MAX_GAP / BUDGET_MAX_SLOWDOWN   ? BUDGET_MAX_SLOWDOWN * alone
                : alone > BUDGET_MAX_GAP / BUDGET_CAP_SLOWDOWN ? BUDGET_CAP_SLOWDOWN * alone
                                                               : BUDGET_MAX_GAP;
            const double slowdown = settled_step_seconds(m, &p, decoding, waiting) / alone;
            assert_true(slowdown * alone <= 1.1 * most);
            assert_true(slowdown >= 0.95 * before || slowdown * alone >= 0.9 * most);
            assert_true(slowdown > 3 ||
                        waiting < decoding); /* at least half of the jobs are waiting */
            before = slowdown;
        }
    }
}

/* The batch changes from step to step: costs measured with one batch hold for the next. */
static void measured_costs_are_reused(void **state)
{
    (void)state;
    const machine m = {0.05, 0.002, 0};
    prefill_budget p = {0};
    settled_step_seconds(&m, &p, 1, 7);
    const uint32_t many_rows = prefill_budget_rows(&p, 1, 7, 0);
    assert_true(prefill_budget_rows(&p, 1, 1, 0) < many_rows);
    prefill_budget_observe(&p, 7, 0, step_seconds(&m, 7, 0, 1, &(test_random){.state = 1}));
    const uint32_t rows = prefill_budget_rows(&p, 7, 1, 0);
    const double alone = step_seconds(&m, 7, 0, 1, &(test_random){.state = 1});
    const double step = step_seconds(&m, 7, rows, 1, &(test_random){.state = 1});
    assert_true(step <= 2 * alone && rows > BUDGET_MIN_ROWS);
}

/* As jobs start decoding one by one, few steps run without prefill only to be measured. */
static void not_every_batch_size_is_measured(void **state)
{
    (void)state;
    enum { CLIENTS = 32 };
    const machine m = {0.05, 0.002, 0};
    prefill_budget p = {0};
    size_t without = 0;
    for (uint64_t decoding = 1; decoding < CLIENTS; decoding++)
        for (int step = 0; step < 3; step++) {
            const uint32_t rows = prefill_budget_rows(&p, decoding, CLIENTS - decoding, 0);
            prefill_budget_observe(&p, decoding, rows,
                                   step_seconds(&m, decoding, rows, 1, &(test_random){.state = 1}));
            without += rows == 0;
        }
    assert_in_range(without, 1, 12);
}

/* One slow step, disturbed by other programs, changes little. */
static void disturbed_step_changes_little(void **state)
{
    (void)state;
    const machine m = {0.05, 0.002, 0};
    prefill_budget p = {0};
    settled_step_seconds(&m, &p, 4, 4);
    const uint32_t rows = prefill_budget_rows(&p, 4, 4, 0);
    prefill_budget_observe(&p, 4, rows, 30);
    assert_true(prefill_budget_rows(&p, 4, 4, 0) > rows / 3);
    settled_step_seconds(&m, &p, 4, 4);
    assert_in_range(prefill_budget_rows(&p, 4, 4, 0), rows * 9 / 10, rows * 11 / 10);
    prefill_budget_observe(&p, 4, rows, 0.0001); /* nor does one that seems to cost nothing */
    assert_true(prefill_budget_rows(&p, 4, 4, 0) < 2 * rows);
}

static void prefill_always_proceeds(void **state)
{
    (void)state;
    prefill_budget p = {0};
    size_t slices = 0;
    for (int i = 0; i < 200; i++) {
        const uint32_t rows = prefill_budget_rows(&p, 3, 1, 0);
        prefill_budget_observe(&p, 3, rows, rows > 0 ? 10.0 : 0.01); /* a thousand times slower */
        slices += rows > 0;
        assert_true(rows == 0 || rows == BUDGET_MIN_ROWS);
    }
    assert_true(slices > 190);
}

static void prefill_alone_stays_short(void **state)
{
    (void)state;
    static const double rows[] = {0.00001, 0.005, 0.02, 0.2};
    static const uint32_t wanted[] = {BUDGET_MAX_ROWS, BUDGET_MAX_ROWS, 100, BUDGET_MIN_ROWS_ALONE};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        prefill_budget p = {0};
        assert_true(prefill_budget_rows(&p, 0, 1, 0) < BUDGET_MAX_ROWS);
        for (int step = 0; step < 50; step++)
            prefill_budget_observe(&p, 0, prefill_budget_rows(&p, 0, 1, 0),
                                   rows[i] * prefill_budget_rows(&p, 0, 1, 0));
        assert_in_range(prefill_budget_rows(&p, 0, 1, 0), wanted[i] - 1, wanted[i]);
    }
}

/* While another engine waits, a step takes BUDGET_SHARED_SECONDS at most, and prefill proceeds. */
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
        cmocka_unit_test(streams_stay_smooth),
        cmocka_unit_test(more_waiting_prompts_get_larger_chunks),
        cmocka_unit_test(measured_costs_are_reused),
        cmocka_unit_test(not_every_batch_size_is_measured),
        cmocka_unit_test(disturbed_step_changes_little),
        cmocka_unit_test(prefill_always_proceeds),
        cmocka_unit_test(prefill_alone_stays_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
