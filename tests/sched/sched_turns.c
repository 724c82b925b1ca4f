/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_turns.c - engines on the same cores: numbers are called in order, a scheduler computes
 * only while its number is called, and what it writes is what it writes alone.
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
/* cmocka needs those before it */
#include <cmocka.h>

enum { CONTEXT = 1024, WAITERS = 5, EACH = 3 };

static rig tiny;

static void until_crowd(core_lock *g, uint64_t n)
{
    const double until = os_now() + PATIENCE;
    while (core_lock_contenders(g) < n && os_now() < until)
        sched_yield();
    assert_int_equal(core_lock_contenders(g), n);
}

/* ---- the gate ---- */

typedef struct waiter {
    pthread_t thread;
    core_lock *gate;
    int index;
} waiter;

/* Who came in, in order. Only those inside touch it, which is what the thread sanitizer checks. */
static int order[WAITERS + 1];
static int n_order;

static void *pass(void *with)
{
    waiter *w = with;
    core_lock_enter(w->gate, NULL, NULL);
    order[n_order++] = w->index;
    core_lock_leave(w->gate);
    return NULL;
}

static void numbers_are_called_in_order(void **state)
{
    (void)state;
    mote_error err;
    core_lock *g;
    waiter all[WAITERS];
    must(core_lock_new(&g, &err), &err);
    n_order = 0;
    core_lock_enter(g, NULL, NULL);
    for (int i = 0; i < WAITERS; i++) {
        all[i] = (waiter){.gate = g, .index = i};
        assert_int_equal(pthread_create(&all[i].thread, NULL, pass, &all[i]), 0);
        until_crowd(g, (uint64_t)i + 2); /* it has its number now */
    }
    assert_int_equal(n_order, 0);
    core_lock_leave(g);
    core_lock_enter(g, NULL, NULL); /* whoever was inside last comes after all who waited */
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

/* Steps of a millisecond for as long as it may stay. */
static void *step_quickly(void *with)
{
    waiter *w = with;
    core_lock_enter(w->gate, NULL, NULL);
    do {
        sleep_ms(1);
        w->index++;
    } while (core_lock_stay(w->gate));
    core_lock_leave(w->gate);
    return NULL;
}

/* Beside somebody whose step takes 300 ms. A machine that stands still may spoil a round. */
static void short_steps_come_in_groups(void **state)
{
    (void)state;
    mote_error err;
    core_lock *g;
    waiter quick = {0};
    must(core_lock_new(&g, &err), &err);
    for (int round = 0; round < 10 && quick.index < 3; round++) {
        quick = (waiter){.gate = g};
        core_lock_enter(g, NULL, NULL);
        assert_int_equal(pthread_create(&quick.thread, NULL, step_quickly, &quick), 0);
        until_crowd(g, 2);
        sleep_ms(300);
        assert_false(core_lock_stay(g)); /* a second one would be longer than what it waited */
        core_lock_leave(g);
        const double began = os_now();
        core_lock_enter(g, NULL, NULL);
        assert_true(os_now() - began < PATIENCE);
        assert_false(core_lock_stay(g)); /* nobody waits */
        core_lock_leave(g);
        pthread_join(quick.thread, NULL);
    }
    assert_true(quick.index >= 3);
    core_lock_free(g);
}

/* ---- schedulers ---- */

/* A scheduler that was asked something while the test is inside, and waits. */
typedef struct behind {
    core_lock *gate;
    service s;
    question q;
    asked a;
} behind;

static void behind_open(behind *b, size_t words)
{
    mote_error err;
    b->q = question_of_words(&tiny, 1, 0, words, 4);
    must(core_lock_new(&b->gate, &err), &err);
    service_open(&b->s, &tiny,
                 (sched_options){.context = CONTEXT, .threads = 1, .core_lock = b->gate});
    core_lock_enter(b->gate, NULL, NULL);
    service_ask(&b->s, &b->a, &b->q);
    until_crowd(b->gate, 2);
}

/* The test leaves, and the question is answered. */
static void behind_close(behind *b)
{
    core_lock_leave(b->gate);
    service_until_over(&b->s, &b->a);
    assert_int_equal(b->a.result.status, MOTE_OK);
    assert_int_equal(core_lock_contenders(b->gate), 0);
    service_drop(&b->s, &b->a);
    asked_fini(&b->a);
    service_close(&b->s);
    core_lock_free(b->gate);
    question_fini(&b->q);
}

static void a_scheduler_waits_for_its_turn(void **state)
{
    (void)state;
    behind b;
    sched_stats f;
    behind_open(&b, 8);
    for (const double until = os_now() + 0.1; os_now() < until;) {
        sched_read_stats(b.s.sched, &f);
        assert_int_equal(f.steps, 0);
        assert_int_equal(f.queued, 1); /* who is seated is decided when its turn has come */
    }
    behind_close(&b);
}

/* The first slice of a prompt, before anything was measured, is the shorter one. */
static void prompts_are_read_in_shorter_slices(void **state)
{
    (void)state;
    behind b;
    sched_stats f;
    behind_open(&b, 100);
    core_lock_leave(b.gate);
    core_lock_enter(b.gate, NULL, NULL); /* it has made one step */
    const double until = os_now() + PATIENCE;
    do
        sched_read_stats(b.s.sched, &f);
    while (f.steps == 0 && os_now() < until);
    assert_int_equal(f.steps, 1);
    assert_int_equal(f.prefill_rows, BUDGET_MIN_ROWS_ALONE);
    behind_close(&b);
}

/* Asks for an answer that ends after a while, which a slow machine needs more of to come to its
 * writing; there it stands. */
static void write_until_late(service *s, asked *a, const question *q)
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
        asked_fini(a);
    }
}

/* Somebody leaves, and somebody's time is over, while another engine computes: neither waits for
 * the end of its step. */
static void who_goes_does_not_wait_for_it(void **state)
{
    (void)state;
    service s;
    asked gone, late;
    sched_stats f;
    question q = question_of_words(&tiny, 1, 0, 8, 900),
             other = question_of_words(&tiny, 2, 0, 8, 900);
    service_open_held(&s, &tiny, (sched_options){.context = CONTEXT, .threads = 1});
    service_ask(&s, &gone, &q);
    service_step_to(&s, &gone, SCHED_DECODE);
    write_until_late(&s, &late, &other);
    service_until_over(&s, &late);
    service_drop(&s, &gone);
    const double until = os_now() + PATIENCE;
    do {
        service_turn(&s);
        sched_read_stats(s.sched, &f);
    } while (f.canceled_decode == 0 && os_now() < until);
    assert_int_equal(f.canceled_decode, 1);
    assert_int_equal(f.decoding, 0);
    service_go_on(&s);
    service_drop(&s, &late);
    asked_fini(&gone);
    asked_fini(&late);
    service_close(&s);
    question_fini(&q);
    question_fini(&other);
}

static void two_at_once_say_what_they_say_alone(void **state)
{
    (void)state;
    mote_error err;
    core_lock *g;
    service both[2];
    asked asks[2][EACH];
    question questions[EACH];
    said alone[EACH] = {0};
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
            service_ask(&both[k], &asks[k][i], &questions[i]);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < EACH; i++)
            service_until_over(&both[k], &asks[k][i]);
        for (int i = 0; i < EACH; i++) {
            service_drop(&both[k], &asks[k][i]);
            same_as_solo(&asks[k][i], &alone[i]);
            asked_fini(&asks[k][i]);
        }
        service_close(&both[k]);
    }
    for (int i = 0; i < EACH; i++) {
        said_fini(&alone[i]);
        question_fini(&questions[i]);
    }
    core_lock_free(g);
}

/* ---- memory ---- */

static void the_least_is_enough_and_no_less(void **state)
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
        cmocka_unit_test(numbers_are_called_in_order),
        cmocka_unit_test(short_steps_come_in_groups),
        cmocka_unit_test(a_scheduler_waits_for_its_turn),
        cmocka_unit_test(prompts_are_read_in_shorter_slices),
        cmocka_unit_test(who_goes_does_not_wait_for_it),
        cmocka_unit_test(two_at_once_say_what_they_say_alone),
        cmocka_unit_test(the_least_is_enough_and_no_less),
    };
    rig_open(&tiny);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rig_close(&tiny);
    return failed;
}
