/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_pace.c - slices on machines that exist on paper only: whatever a row costs, those who
 * write keep their pace, and reading goes on.
 */
#include "serve/pace.h"
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
        pace p = {0};
        double times[MOST];
        size_t n = 0, done = 0;
        while (done < PROMPT && n < MOST) {
            const uint32_t rows = pace_rows(&p, WRITERS, 1);
            assert_true(rows == 0 || (rows >= PACE_LEAST && rows <= PACE_MOST));
            times[n] = took(m, WRITERS, rows, 1 + (double)done / PROMPT, &random);
            pace_saw(&p, WRITERS, 1, rows, times[n++]);
            done += rows;
        }
        assert_true(done >= PROMPT); /* it is read, and in not too many pieces */
        qsort(times, n, sizeof *times, compare);
        const double alone = took(m, WRITERS, 0, 1, &(test_random){.state = 1});
        assert_true(times[n * 99 / 100] <= 2.0 * alone * (1 + m->noise));
        assert_true(times[n / 2] >= 1.2 * alone); /* what they can spare is used */
    }
}

/* One writes, seven have not begun: they are read in larger pieces, but the one is not forgotten.
 */
static void a_crowd_is_read_faster(void **state)
{
    (void)state;
    const machine m = {0.05, 0.002, 0};
    test_random random = {.state = 3};
    pace p = {0};
    double last = 0;
    uint32_t rows = 0;
    for (int i = 0; i < 40; i++) {
        rows = pace_rows(&p, 1, 7);
        last = took(&m, 1, rows, 1, &random);
        pace_saw(&p, 1, 7, rows, last);
    }
    const double alone = took(&m, 1, 0, 1, &random);
    assert_true(last >= 2.5 * alone && last <= 1.1 * PACE_CROWDED * alone);
    assert_true(pace_rows(&p, 1, 1) < rows); /* the pace of before comes back at once */
}

static void reading_goes_on_whatever_it_costs(void **state)
{
    (void)state;
    pace p = {0};
    size_t slices = 0;
    for (int i = 0; i < 200; i++) {
        const uint32_t rows = pace_rows(&p, 3, 1);
        pace_saw(&p, 3, 1, rows, rows > 0 ? 10.0 : 0.01); /* a thousand times slower */
        slices += rows > 0;
        assert_true(rows == 0 || rows == PACE_LEAST);
    }
    assert_true(slices > 190);
}

static void alone_a_step_stays_short(void **state)
{
    (void)state;
    static const double rows[] = {0.00001, 0.005, 0.02, 0.2};
    static const uint32_t wanted[] = {PACE_MOST, PACE_MOST, 100, PACE_ALONE};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pace p = {0};
        assert_true(pace_rows(&p, 0, 1) < PACE_MOST);
        for (int step = 0; step < 50; step++)
            pace_saw(&p, 0, 1, pace_rows(&p, 0, 1), rows[i] * pace_rows(&p, 0, 1));
        assert_in_range(pace_rows(&p, 0, 1), wanted[i] - 1, wanted[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_who_write_keep_their_pace),
        cmocka_unit_test(a_crowd_is_read_faster),
        cmocka_unit_test(reading_goes_on_whatever_it_costs),
        cmocka_unit_test(alone_a_step_stays_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
