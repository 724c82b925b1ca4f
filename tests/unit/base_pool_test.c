/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_pool_test.c - the thread pool: each task runs once, a worker runs one task at a time,
 * results are visible to the caller, 100,000 short runs, no CPU use while idle.
 */
#include "base/mem.h"
#include "base/os.h"
#include "base/pool.h"
#include "support/idle.h"
#include "support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { MAX_TASKS = 64, MAX_WORKERS = 16, N_RUNS = 100000 };

/* Not atomic on purpose: the pool must order the accesses. */
typedef struct record {
    uint32_t run;
    uint32_t seen[MAX_TASKS];      /* the last run that had this task */
    uint32_t times[MAX_TASKS];     /* number of runs that had this task */
    uint32_t scratch[MAX_WORKERS]; /* not atomic: two tasks at once on one worker would race */
    _Atomic uint32_t errors;
    uint32_t n_workers;
} record;

static void record_task(void *ctx, uint32_t task, uint32_t worker)
{
    record *r = ctx;
    if (worker >= r->n_workers || task >= MAX_TASKS) {
        atomic_fetch_add(&r->errors, 1);
        return;
    }
    const uint32_t mine = task + 1;
    r->scratch[worker] = mine;
    r->seen[task] = r->run;
    r->times[task]++;
    if (r->scratch[worker] != mine)
        atomic_fetch_add(&r->errors, 1);
}

static void every_task_runs_once(uint32_t n_threads, uint32_t n_runs)
{
    mote_error err;
    pool *p;
    record r = {.n_workers = n_threads};
    test_random random = {n_threads};
    uint32_t expected[MAX_TASKS] = {0};
    assert_int_equal(pool_new(&p, n_threads, &err), MOTE_OK);
    assert_int_equal(pool_size(p), n_threads);
    for (r.run = 1; r.run <= n_runs; r.run++) {
        const uint32_t n =
            (uint32_t)test_random_below(&random, r.run % 64 == 0 ? MAX_TASKS + 1 : 9);
        pool_run(p, record_task, &r, n);
        for (uint32_t i = 0; i < n; i++) {
            expected[i]++;
            assert_int_equal(r.seen[i], r.run);
        }
    }
    assert_memory_equal(r.times, expected, sizeof expected);
    assert_int_equal(atomic_load(&r.errors), 0);
    pool_free(p);
}

static void one_thread(void **state)
{
    (void)state;
    every_task_runs_once(1, N_RUNS);
}

static void two_threads(void **state)
{
    (void)state;
    every_task_runs_once(2, N_RUNS);
}

static void three_threads(void **state)
{
    (void)state;
    every_task_runs_once(3, N_RUNS);
}

static void seven_threads(void **state)
{
    (void)state;
    every_task_runs_once(7, N_RUNS);
}

/* Pauses between the runs, so the workers sleep. */
static void sleeping_workers_are_woken(void **state)
{
    (void)state;
    mote_error err;
    pool *p;
    record r = {.n_workers = 3};
    const struct timespec pause = {0, 1000000};
    assert_int_equal(pool_new(&p, 3, &err), MOTE_OK);
    for (r.run = 1; r.run <= 100; r.run++) {
        nanosleep(&pause, NULL);
        pool_run(p, record_task, &r, MAX_TASKS);
        for (uint32_t i = 0; i < MAX_TASKS; i++)
            assert_int_equal(r.seen[i], r.run);
    }
    pool_free(p);
}

static void count_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)task;
    (void)worker;
    atomic_fetch_add((_Atomic uint32_t *)ctx, 1);
}

/* A pool is freed while its workers are still late for the last run. They must not take the end for
 * another run and sleep: then pthread_join in pool_free never returns. */
static void free_ends_late_workers(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) { /* base_pool_late_test.c holds workers in the gap */
        pool *p;
        _Atomic uint32_t count = 0;
        assert_int_equal(pool_new(&p, 4, NULL), MOTE_OK);
        pool_run(p, count_task, &count, 2);
        pool_free(p);
        assert_int_equal(count, 2);
    }
}

static void idle_pool_uses_no_cpu(void **state)
{
    (void)state;
    mote_error err;
    pool *p;
    record r = {.n_workers = 4};
    assert_int_equal(pool_new(&p, 4, &err), MOTE_OK);
    pool_run(p, record_task, &r, MAX_TASKS);
    assert_true(test_idle_cpu(0.01) < 0.01); /* three spinning workers would use 3 s */
    pool_free(p);
}

static void failed_start_leaks_nothing(void **state)
{
    (void)state;
    const mem_stats before = mem_count();
    for (uint64_t n = 1;; n++) {
        mote_error err;
        pool *p;
        mem_fail_at(n);
        const mote_status status = pool_new(&p, 3, &err);
        if (!mem_failed()) {
            assert_int_equal(status, MOTE_OK);
            assert_true(mem_count().bytes - before.bytes <= pool_bytes(3));
            pool_free(p);
            break;
        }
        assert_int_equal(status, MOTE_E_MEMORY);
        assert_null(p);
        assert_int_equal(mem_count().bytes, before.bytes);
    }
    mem_fail_at(0);
    pool_free(NULL);
    assert_int_equal(mem_count().bytes, before.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread),
        cmocka_unit_test(two_threads),
        cmocka_unit_test(three_threads),
        cmocka_unit_test(seven_threads),
        cmocka_unit_test(sleeping_workers_are_woken),
        cmocka_unit_test(free_ends_late_workers),
        cmocka_unit_test(idle_pool_uses_no_cpu),
        cmocka_unit_test(failed_start_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
