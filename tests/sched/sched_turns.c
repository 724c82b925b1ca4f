/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_turns.c - engines on the same cores: the core lock serves tickets in order, a scheduler
 * runs steps only while it holds the lock, and its output equals its solo run.
 */
#include "base/os.h"
#include "sched/prefill_budget.h"
#include "sched/sched_rig.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

enum { CONTEXT = 1024, WAITERS = 5, EACH = 3 };

static rig tiny;

static void wait_contenders(core_lock *g, uint64_t n)
{
    const double until = os_now() + PATIENCE;
    while (core_lock_contenders(g) < n && os_now() < until)
        sched_yield();
    assert_int_equal(core_lock_contenders(g), n);
}

/* ---- the core lock ---- */

typedef struct waiter {
    pthread_t thread;
    core_lock *lock;
    int index;
} waiter;

/* Order of entry. Only the holder of the lock writes it; the thread sanitizer checks that. */
static int order[WAITERS + 1];
static int n_order;

static void *pass(void *with)
{
    waiter *w = with;
    core_lock_enter(w->lock, NULL, NULL);
    order[n_order++] = w->index;
    core_lock_leave(w->lock);
    return NULL;
}

static void tickets_are_served_in_order(void **state)
{
    (void)state;
    mote_error err;
    core_lock *g;
    waiter all[WAITERS];
    must(core_lock_new(&g, &err), &err);
    n_order = 0;
    core_lock_enter(g, NULL, NULL);
    for (int i = 0; i < WAITERS; i++) {
        all[i] = (waiter){.lock = g, .index = i};
        assert_int_equal(pthread_create(&all[i].thread, NULL, pass, &all[i]), 0);
        wait_contenders(g, (uint64_t)i + 2); /* it has its ticket now */
    }
    assert_int_equal(n_order, 0);
    core_lock_leave(g);
    core_lock_enter(g, NULL, NULL); /* the last holder comes after all waiters */
    assert_int_equal(n_order, WAITERS);
    core_lock_leave(g);
    for (int i = 0; i < WAITERS; i++) {
        pthread_join(all[i].thread, NULL);
        assert_int_equal(order[i], i);
    }
    core_lock_free(g);
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* Runs steps of 1 ms as long as it may stay. */
static void *step_quickly(void *with)
{
    waiter *w = with;
    core_lock_enter(w->lock, NULL, NULL);
    do {
        sleep_ms(1);
        w->index++;
    } while (core_lock_stay(w->lock));
    core_lock_leave(w->lock);
    return NULL;
}

/* The other holder has steps of 300 ms. A suspended machine may spoil a round. */
static void short_steps_share_a_turn(void **state)
{
    (void)state;
    mote_error err;
    core_lock *g;
    waiter quick = {0};
    must(core_lock_new(&g, &err), &err);
    for (int round = 0; round < 10 && quick.index < 3; round++) {
        quick = (waiter){.lock = g};
        core_lock_enter(g, NULL, NULL);
        assert_int_equal(pthread_create(&quick.thread, NULL, step_quickly, &quick), 0);
        wait_contenders(g, 2);
        sleep_ms(300);
        assert_false(core_lock_stay(g)); /* a second step would take longer than it waited */
        core_lock_leave(g);
        const double began = os_now();
        core_lock_enter(g, NULL, NULL);
        assert_true(os_now() - began < PATIENCE);
        assert_false(core_lock_stay(g)); /* no thread waits */
        core_lock_leave(g);
        pthread_join(quick.thread, NULL);
    }
    assert_true(quick.index >= 3);
    core_lock_free(g);
}

/* ---- schedulers ---- */

/* A scheduler with a job that waits because the test holds the core lock. */
typedef struct blocked {
    core_lock *lock;
    service s;
    question q;
    test_job a;
} blocked;

static void blocked_open(blocked *b, size_t words)
{
    mote_error err;
    b->q = question_of_words(&tiny, 1, 0, words, 4);
    must(core_lock_new(&b->lock, &err), &err);
    service_open(&b->s, &tiny,
                 (sched_options){.context = CONTEXT, .threads = 1, .core_lock = b->lock});
    core_lock_enter(b->lock, NULL, NULL);
    service_send(&b->s, &b->a, &b->q);
    wait_contenders(b->lock, 2);
}

/* Releases the lock; the job finishes. */
static void blocked_close(blocked *b)
{
    core_lock_leave(b->lock);
    service_wait_finished(&b->s, &b->a);
    assert_int_equal(b->a.result.status, MOTE_OK);
    assert_int_equal(core_lock_contenders(b->lock), 0);
    service_drop(&b->s, &b->a);
    test_job_fini(&b->a);
    service_close(&b->s);
    core_lock_free(b->lock);
    question_fini(&b->q);
}

static void scheduler_waits_for_the_lock(void **state)
{
    (void)state;
    blocked b;
    sched_stats f;
    blocked_open(&b, 8);
    for (const double until = os_now() + 0.1; os_now() < until;) {
        sched_read_stats(b.s.sched, &f);
        assert_int_equal(f.steps, 0);
        assert_int_equal(f.queued, 1); /* jobs are admitted when the lock is held */
    }
    blocked_close(&b);
}

/* The first prefill chunk, before anything was measured, has the minimum size. */
static void chunks_are_small_on_shared_cores(void **state)
{
    (void)state;
    blocked b;
    sched_stats f;
    blocked_open(&b, 100);
    core_lock_leave(b.lock);
    core_lock_enter(b.lock, NULL, NULL); /* it has run one step */
    const double until = os_now() + PATIENCE;
    do
        sched_read_stats(b.s.sched, &f);
    while (f.steps == 0 && os_now() < until);
    assert_int_equal(f.steps, 1);
    assert_int_equal(f.prefill_rows, BUDGET_MIN_ROWS_ALONE);
    blocked_close(&b);
}

/* Submits a job with a time limit that is long enough to reach decode on this machine, and stops
 * there. */
static void decode_until_deadline(service *s, test_job *a, const question *q)
{
    mote_error err;
    sched_phase now = SCHED_FINISHED;
    for (double seconds = 0.5; now != SCHED_DECODE; seconds *= 2) {
        assert_true(seconds < 100);
        sched_job_options o = service_job(s, a, q);
        o.seconds = seconds;
        must(service_submit(s, a, &o, &err), &err);
        do
            now = service_step(s, a);
        while (now < SCHED_DECODE);
        if (now == SCHED_DECODE)
            continue;
        service_drop(s, a);
        test_job_fini(a);
    }
}

/* One job is dropped and one runs out of time while another engine computes. Neither waits for the
 * end of its step. */
static void drops_do_not_wait_for_the_lock(void **state)
{
    (void)state;
    service s;
    test_job gone, late;
    sched_stats f;
    question q = question_of_words(&tiny, 1, 0, 8, 900),
             other = question_of_words(&tiny, 2, 0, 8, 900);
    service_open_held(&s, &tiny, (sched_options){.context = CONTEXT, .threads = 1});
    service_send(&s, &gone, &q);
    service_step_to(&s, &gone, SCHED_DECODE);
    decode_until_deadline(&s, &late, &other);
    service_wait_finished(&s, &late);
    service_drop(&s, &gone);
    const double until = os_now() + PATIENCE;
    do {
        service_collect(&s);
        sched_read_stats(s.sched, &f);
    } while (f.canceled_decode == 0 && os_now() < until);
    assert_int_equal(f.canceled_decode, 1);
    assert_int_equal(f.decoding, 0);
    service_release(&s);
    service_drop(&s, &late);
    test_job_fini(&gone);
    test_job_fini(&late);
    service_close(&s);
    question_fini(&q);
    question_fini(&other);
}

static void two_schedulers_equal_solo_runs(void **state)
{
    (void)state;
    mote_error err;
    core_lock *g;
    service both[2];
    test_job asks[2][EACH];
    question questions[EACH];
    test_output alone[EACH] = {0};
    must(core_lock_new(&g, &err), &err);
    for (int i = 0; i < EACH; i++) {
        questions[i] = question_of_words(&tiny, (uint64_t)i + 3, 20, 40, 24);
        rig_solo(&tiny, &questions[i], CONTEXT, &alone[i]);
    }
    for (int k = 0; k < 2; k++)
        service_open(&both[k], &tiny,
                     (sched_options){.context = CONTEXT, .threads = 2, .core_lock = g});
    for (int i = 0; i < EACH; i++)
        for (int k = 0; k < 2; k++)
            service_send(&both[k], &asks[k][i], &questions[i]);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < EACH; i++)
            service_wait_finished(&both[k], &asks[k][i]);
        for (int i = 0; i < EACH; i++) {
            service_drop(&both[k], &asks[k][i]);
            same_as_solo(&asks[k][i], &alone[i]);
            test_job_fini(&asks[k][i]);
        }
        service_close(&both[k]);
    }
    for (int i = 0; i < EACH; i++) {
        output_fini(&alone[i]);
        question_fini(&questions[i]);
    }
    core_lock_free(g);
}

/* ---- memory ---- */

static void min_memory_is_enough(void **state)
{
    (void)state;
    mote_error err;
    uint64_t least = 0;
    sched *s;
    sched_options o = {.model = tiny.model, .threads = 1, .parallel = 2};
    must(sched_min_memory(&o, &least, &err), &err);
    o.memory = least;
    must(sched_new(&s, &o, &err), &err);
    mote_memory memory;
    sched_memory(s, &memory);
    assert_true(memory.total <= least);
    sched_free(s);
    o.memory = least / 2;
    assert_int_equal(sched_new(&s, &o, &err), MOTE_E_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tickets_are_served_in_order),
        cmocka_unit_test(short_steps_share_a_turn),
        cmocka_unit_test(scheduler_waits_for_the_lock),
        cmocka_unit_test(chunks_are_small_on_shared_cores),
        cmocka_unit_test(drops_do_not_wait_for_the_lock),
        cmocka_unit_test(two_schedulers_equal_solo_runs),
        cmocka_unit_test(min_memory_is_enough),
    };
    rig_open(&tiny);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rig_close(&tiny);
    return failed;
}
