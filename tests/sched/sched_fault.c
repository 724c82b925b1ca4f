/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_fault.c - every allocation between the submission and the end of a job fails once. At most
 * one job fails, with MOTE_E_MEMORY. Other jobs and later jobs produce their usual output.
 */
#include "base/mem.h"
#include "sched/sched_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

enum { CONTEXT = 512, PAIR = 2, MAX_FAULTS = 5000 };

static rig tiny;
static question questions[PAIR];
static test_output alone[PAIR];

/* Runs both requests with allocation number `fault` failing. Returns the number of failed jobs. */
static int run_both(service *s, uint64_t fault, bool *happened)
{
    test_job a[PAIR];
    mote_error err;
    sched_job_options o[PAIR];
    int failed = 0;
    for (size_t i = 0; i < PAIR; i++) {
        o[i] = service_job(s, &a[i], &questions[i]);
        assert_true(strbuf_reserve(&a[i].output.events, 1 << 16)); /* memory of the test itself */
        assert_true(strbuf_reserve(&a[i].output.tokens, 1 << 16));
    }
    mem_fail_at(fault);
    for (size_t i = 0; i < PAIR; i++) {
        const mote_status status = service_submit(s, &a[i], &o[i], &err);
        assert_true(status == MOTE_OK || status == MOTE_E_MEMORY);
        failed += status != MOTE_OK;
    }
    for (size_t i = 0; i < PAIR; i++)
        service_wait_finished(s, &a[i]);
    *happened = mem_failed();
    mem_fail_at(0);
    for (size_t i = 0; i < PAIR; i++) {
        if (a[i].finished && a[i].output.status != MOTE_OK) {
            assert_int_equal(a[i].output.status, MOTE_E_MEMORY);
            assert_int_equal(a[i].result.error.status, MOTE_E_MEMORY);
            failed++;
        } else if (a[i].finished) {
            same_as_solo(&a[i], &alone[i]);
        }
        service_drop(s, &a[i]);
        test_job_fini(&a[i]);
    }
    return failed;
}

static void every_allocation_fails_once(void **state)
{
    (void)state;
    service s;
    uint64_t fault = 1;
    bool happened = true;
    int failures = 0;
    const mem_stats before = mem_count();
    service_open(&s, &tiny, (sched_options){.parallel = 2, .context = CONTEXT, .threads = 1});
    for (; happened && fault < MAX_FAULTS; fault++) {
        const int failed = run_both(&s, fault, &happened);
        assert_true(failed <= 1);
        failures += failed;
        bool again;
        assert_int_equal(run_both(&s, 0, &again), 0);
    }
    assert_true(fault > 50 && fault < MAX_FAULTS);
    assert_true(failures > 20);
    service_close(&s);
    assert_int_equal(mem_count().bytes, before.bytes);
}

/* A failed sched_new leaks nothing. */
static void sched_new_with_failing_allocations(void **state)
{
    (void)state;
    const sched_options o = {
        .model = tiny.model, .parallel = 2, .context = CONTEXT, .threads = 1, .kv_tokens = CONTEXT};
    const mem_stats before = mem_count();
    mote_status status = MOTE_E_MEMORY;
    for (uint64_t fault = 1; status != MOTE_OK && fault < MAX_FAULTS; fault++) {
        sched *s;
        mote_error err;
        mem_fail_at(fault);
        status = sched_new(&s, &o, &err);
        mem_fail_at(0);
        assert_true(status == MOTE_OK ? s != NULL : s == NULL && status == MOTE_E_MEMORY);
        sched_free(s);
        assert_int_equal(mem_count().bytes, before.bytes);
    }
    assert_int_equal(status, MOTE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_fails_once),
        cmocka_unit_test(sched_new_with_failing_allocations),
    };
    rig_open(&tiny);
    const mote_answer_options how = {.max_tokens = 6, .sampling = {.seed = 4}};
    question_init(&questions[0], &tiny,
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"What is 3 + 4?\"}]}", how);
    question_init(&questions[1], &tiny,
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"Count to ten.\"}],"
                  "\"enable_thinking\":true}",
                  how);
    questions[0].logprobs = true;
    questions[0].answer.format = MOTE_FORMAT_REGEX;
    questions[0].answer.format_text = "[a-z0-9 ]{1,40}";
    questions[0].answer.format_bytes = strlen(questions[0].answer.format_text);
    for (size_t i = 0; i < PAIR; i++)
        rig_solo(&tiny, &questions[i], CONTEXT, &alone[i]);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < PAIR; i++) {
        question_fini(&questions[i]);
        output_fini(&alone[i]);
    }
    rig_close(&tiny);
    return failed;
}
