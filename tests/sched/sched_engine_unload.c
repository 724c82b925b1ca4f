/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_engine_unload.c - idle unload and reload: the memory is really freed, the output is the
 * same after a reload, and a failed reload is reported.
 */
#include "base/mem.h"
#include "sched/sched_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

enum { CONTEXT = 1024 };

static rig tiny;
static question request;
static test_output alone;

static const sched_options usual = {.context = CONTEXT, .threads = 2};

/* Runs the request and compares the output. Returns the seconds it waited for the engine. */
static double run_once(service *s, uint64_t *reused)
{
    test_job a;
    service_send(s, &a, &request);
    service_wait_finished(s, &a);
    const double waited = a.result.load_wait;
    assert_true(waited <= a.result.started);
    if (reused != NULL)
        *reused = a.result.answer.reused_tokens;
    service_drop(s, &a);
    same_as_solo(&a, &alone);
    test_job_fini(&a);
    return waited;
}

static void unload_and_reload(void **state)
{
    (void)state;
    service s;
    mote_memory loaded, gone;
    sched_stats f;
    uint64_t reused;
    service_open(&s, &tiny, usual);
    assert_true(sched_loaded(s.sched));
    assert_true(run_once(&s, NULL) == 0);
    run_once(&s, &reused);
    assert_true(reused > 0);
    sched_memory(s.sched, &loaded);
    const uint64_t before = mem_count().bytes;
    assert_true(sched_unload(s.sched, true));
    assert_false(sched_loaded(s.sched));
    assert_true(sched_unload(s.sched, true)); /* nothing to do */
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
    assert_true(run_once(&s, &reused) > 0); /* it waited for the reload */
    assert_int_equal(reused, 0);
    assert_true(sched_loaded(s.sched));
    assert_true(run_once(&s, &reused) == 0);
    assert_true(reused > 0);
    assert_int_equal(mem_count().bytes, before);
    service_close(&s);
}

static void load_without_a_job(void **state)
{
    (void)state;
    service s;
    mote_error err;
    service_open(&s, &tiny, usual);
    must(sched_load(s.sched, &err), &err); /* already loaded */
    assert_true(sched_unload(s.sched, true));
    must(sched_load(s.sched, &err), &err);
    assert_true(sched_loaded(s.sched));
    assert_true(run_once(&s, NULL) == 0);
    service_close(&s);
}

static void no_unload_while_jobs_run(void **state)
{
    (void)state;
    service s;
    test_job a;
    question writes = question_of_words(&tiny, 1, 0, 4, 600);
    service_open_held(&s, &tiny, usual);
    service_send(&s, &a, &writes);
    assert_false(sched_unload(s.sched, true));
    service_step_to(&s, &a, SCHED_DECODE);
    assert_false(sched_unload(s.sched, true));
    assert_true(sched_loaded(s.sched));
    service_release(&s);
    service_drop(&s, &a);
    assert_true(sched_unload(s.sched, true)); /* after the step of the dropped job */
    test_job_fini(&a);
    service_close(&s);
    question_fini(&writes);
}

static void failed_reload_is_reported(void **state)
{
    (void)state;
    service s;
    test_job a;
    mote_error err;
    service_open(&s, &tiny, usual);
    assert_true(sched_unload(s.sched, true));
    const sched_job_options o = service_job(&s, &a, &request);
    must(sched_job_new(&a.job, s.sched, &o, &err), &err);
    mem_fail_at(1);
    must(sched_submit(s.sched, a.job, &err), &err);
    service_wait_finished(&s, &a);
    assert_true(mem_failed());
    assert_int_equal(a.result.status, MOTE_E_MEMORY);
    service_drop(&s, &a);
    test_job_fini(&a);
    mem_fail_at(1);
    assert_int_equal(sched_load(s.sched, &err), MOTE_E_MEMORY);
    mem_fail_at(0);
    assert_false(sched_loaded(s.sched));
    run_once(&s, NULL);
    assert_true(sched_loaded(s.sched));
    service_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unload_and_reload),
        cmocka_unit_test(load_without_a_job),
        cmocka_unit_test(no_unload_while_jobs_run),
        cmocka_unit_test(failed_reload_is_reported),
    };
    rig_open(&tiny);
    request = question_of_words(&tiny, 7, 60, 60, 24);
    rig_solo(&tiny, &request, CONTEXT, &alone);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    output_fini(&alone);
    question_fini(&request);
    rig_close(&tiny);
    return failed;
}
