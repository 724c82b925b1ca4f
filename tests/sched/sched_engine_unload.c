/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_engine_unload.c - an engine that goes while nobody asks and comes back for the next one:
 * its memory is really free, what is said is the same, and if it cannot come back, that is said.
 */
#include "base/mem.h"
#include "sched/sched_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs those before it */
#include <cmocka.h>

enum { CONTEXT = 1024 };

static rig tiny;
static question asks;
static said alone;

static const sched_options usual = {.context = CONTEXT, .threads = 2};

/* Asks and compares; what it waited for the engine, and how much of the prompt it did not read. */
static double ask_once(service *s, uint64_t *reused)
{
    asked a;
    service_ask(s, &a, &asks);
    service_until_over(s, &a);
    const double waited = a.result.load_wait;
    assert_true(waited <= a.result.started);
    if (reused != NULL)
        *reused = a.result.answer.reused_tokens;
    service_drop(s, &a);
    same_as_solo(&a, &alone);
    asked_fini(&a);
    return waited;
}

static void it_goes_and_comes_back(void **state)
{
    (void)state;
    service s;
    mote_memory loaded, gone;
    sched_stats f;
    uint64_t reused;
    service_open(&s, &tiny, usual);
    assert_true(sched_loaded(s.sched));
    assert_true(ask_once(&s, NULL) == 0);
    ask_once(&s, &reused);
    assert_true(reused > 0);
    sched_memory(s.sched, &loaded);
    const uint64_t before = mem_count().bytes;
    assert_true(sched_unload(s.sched, true));
    assert_false(sched_loaded(s.sched));
    assert_true(sched_unload(s.sched, true)); /* there is nothing to do */
    sched_memory(s.sched, &gone);
    assert_int_equal(gone.total, gone.model);
    assert_int_equal(gone.model, loaded.model);
    assert_true(before - mem_count().bytes >=
                loaded.kv_cache + loaded.recurrent_state + loaded.scratch / 2);
    sched_read_stats(s.sched, &f);
    assert_int_equal(f.finished, 2);
    assert_int_equal(f.idle_sessions, 0);
    assert_int_equal(f.positions_free, f.positions_total);
    assert_int_equal(sched_prefixes(s.sched, NULL, 0), 0);
    assert_true(ask_once(&s, &reused) > 0); /* it waited */
    assert_int_equal(reused, 0);
    assert_true(sched_loaded(s.sched));
    assert_true(ask_once(&s, &reused) == 0);
    assert_true(reused > 0);
    assert_int_equal(mem_count().bytes, before);
    service_close(&s);
}

static void it_comes_when_it_is_called(void **state)
{
    (void)state;
    service s;
    mote_error err;
    service_open(&s, &tiny, usual);
    must(sched_load(s.sched, &err), &err); /* it is there */
    assert_true(sched_unload(s.sched, true));
    must(sched_load(s.sched, &err), &err);
    assert_true(sched_loaded(s.sched));
    assert_true(ask_once(&s, NULL) == 0);
    service_close(&s);
}

static void it_stays_while_somebody_is_at_work(void **state)
{
    (void)state;
    service s;
    asked a;
    question writes = question_of_words(&tiny, 1, 0, 4, 600);
    service_open_held(&s, &tiny, usual);
    service_ask(&s, &a, &writes);
    assert_false(sched_unload(s.sched, true));
    service_step_to(&s, &a, SCHED_DECODE);
    assert_false(sched_unload(s.sched, true));
    assert_true(sched_loaded(s.sched));
    service_go_on(&s);
    service_drop(&s, &a);
    assert_true(sched_unload(s.sched, true)); /* after the step that the other was in */
    asked_fini(&a);
    service_close(&s);
    question_fini(&writes);
}

static void if_it_cannot_come_that_is_said(void **state)
{
    (void)state;
    service s;
    asked a;
    mote_error err;
    service_open(&s, &tiny, usual);
    assert_true(sched_unload(s.sched, true));
    const sched_job_options o = service_job(&s, &a, &asks);
    must(sched_job_new(&a.job, s.sched, &o, &err), &err);
    mem_fail_at(1);
    must(sched_submit(s.sched, a.job, &err), &err);
    service_until_over(&s, &a);
    assert_true(mem_failed());
    assert_int_equal(a.result.status, MOTE_E_MEMORY);
    service_drop(&s, &a);
    asked_fini(&a);
    mem_fail_at(1);
    assert_int_equal(sched_load(s.sched, &err), MOTE_E_MEMORY);
    mem_fail_at(0);
    assert_false(sched_loaded(s.sched));
    ask_once(&s, NULL);
    assert_true(sched_loaded(s.sched));
    service_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_goes_and_comes_back),
        cmocka_unit_test(it_comes_when_it_is_called),
        cmocka_unit_test(it_stays_while_somebody_is_at_work),
        cmocka_unit_test(if_it_cannot_come_that_is_said),
    };
    rig_open(&tiny);
    asks = question_of_words(&tiny, 7, 60, 60, 24);
    rig_solo(&tiny, &asks, CONTEXT, &alone);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    said_fini(&alone);
    question_fini(&asks);
    rig_close(&tiny);
    return failed;
}
