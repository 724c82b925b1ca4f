/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_pool_late_test.c - a pool is freed while a worker stands between its loads of `run` and `stop`.
 *
 * The gap is a few nanoseconds wide, so pools that are freed at random moments do not hit it. This test
 * has its own copy of the pool (CMakeLists.txt), with workers that wait in the gap until pool_free has
 * set `stop` and announced the end. A worker that reads `stop` before `run` then takes the end for another run
 * and sleeps; pthread_join in pool_free never returns, and the alarm ends the test.
 */
#include "base/pool.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 4, PATIENCE = 60 };

static _Atomic uint32_t n_waiting;

void wait_for_end(_Atomic uint32_t *run, _Atomic bool *stop);

/* There is one run; the end increments `run` once more. */
void wait_for_end(_Atomic uint32_t *run, _Atomic bool *stop)
{
    atomic_fetch_add(&n_waiting, 1);
    while (!atomic_load(stop) || atomic_load(run) < 2)
        sched_yield();
}

static void count_task(void *ctx, uint32_t task, uint32_t index)
{
    (void)task, (void)index;
    atomic_fetch_add((_Atomic uint32_t *)ctx, 1);
}

static void late_workers_end(void **state)
{
    (void)state;
    pool *p;
    _Atomic uint32_t count = 0;
    assert_int_equal(pool_new(&p, THREADS, NULL), MOTE_OK);
    pool_run(p, count_task, &count, 2); /* the caller does it alone: the workers wait in the gap */
    while (atomic_load(&n_waiting) < THREADS - 1)
        sched_yield();
    alarm(PATIENCE);
    pool_free(p);
    alarm(0);
    assert_int_equal(count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(late_workers_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
