/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_basic.c - the scheduler's basic rules: drop, fair queue, limits, deadlines, chunked
 * prefill, preemption, memory plan.
 */
#include "base/os.h"
#include "sched/sched_int.h"
#include "sched/sched_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

/* In a context of ENDLESS tokens, an answer of WITHOUT_END tokens runs for many seconds on any
 * machine. */
enum { CONTEXT = 2048, ENDLESS = 16384, WITHOUT_END = 16000 };

static rig tiny;

/* ---- drop ---- */

/* Steps that ran between the drop and the release. */
static uint64_t steps_after_drop(service *s, test_job *a)
{
    sched_stats before, after;
    service_drop(s, a);
    sched_read_stats(s->sched, &before);
    const double until = os_now() + PATIENCE;
    while (!a->released && os_now() < until)
        service_collect(s);
    assert_true(a->released);
    sched_read_stats(s->sched, &after);
    return after.steps - before.steps;
}

static void drop_frees_the_slot_within_a_step(void **state)
{
    (void)state;
    service s;
    test_job first, second;
    sched_stats f;
    question writes = question_of_words(&tiny, 1, 0, 4, WITHOUT_END),
             reads = question_of_words(&tiny, 2, 0, 2000, 8);
    service_open(&s, &tiny, (sched_options){.parallel = 1, .context = ENDLESS, .threads = 1});
    service_send_as(&s, &first, &writes, 1);
    service_wait_phase(&s, &first, SCHED_DECODE);
    service_send_as(&s, &second, &reads, 1);
    sched_job_status where;
    sched_job_get_status(s.sched, second.job, &where);
    assert_int_equal(where.phase, SCHED_QUEUED);
    assert_int_equal(where.position, 1);
    service_drop(&s, &second); /* in the queue: at once */
    assert_true(second.released);
    assert_int_equal(sched_busy(s.sched), 1);
    assert_true(steps_after_drop(&s, &first) <= 2);
    test_job_fini(&first);
    /* during prefill */
    service_send_as(&s, &first, &reads, 1);
    service_wait_phase(&s, &first, SCHED_PREFILL);
    assert_true(steps_after_drop(&s, &first) <= 2);
    assert_int_equal(sched_busy(s.sched), 0);
    sched_read_stats(s.sched, &f);
    assert_int_equal(f.canceled_queued, 1);
    assert_int_equal(f.canceled_prefill, 1);
    assert_int_equal(f.canceled_decode, 1);
    test_job_fini(&first);
    service_close(&s);
    question_fini(&writes);
    question_fini(&reads);
}

/* ---- the queue ---- */

static void clients_take_turns(void **state)
{
    (void)state;
    enum { GREEDY = 12, MODEST = 3 };
    service s;
    test_job busy, greedy_jobs[GREEDY], modest[MODEST];
    question q = question_of_words(&tiny, 3, 0, 3, 2),
             hold = question_of_words(&tiny, 4, 0, 3, 1900);
    service_open_held(&s, &tiny, (sched_options){.parallel = 1, .context = CONTEXT, .threads = 1});
    service_send_as(&s, &busy, &hold, 9);
    service_step_to(&s, &busy, SCHED_DECODE);
    for (size_t i = 0; i < GREEDY; i++)
        service_send_as(&s, &greedy_jobs[i], &q, 1);
    for (size_t i = 0; i < MODEST; i++)
        service_send_as(&s, &modest[i], &q, 2 + i % 2);
    sched_job_status where;
    sched_job_get_status(s.sched, modest[0].job, &where);
    assert_int_equal(where.position, 2);
    sched_job_get_status(s.sched, greedy_jobs[GREEDY - 1].job, &where);
    assert_int_equal(where.position, GREEDY + MODEST);
    service_release(&s);
    service_drop(&s, &busy);
    while (sched_busy(s.sched) > 0)
        service_collect(&s);
    service_collect(&s);
    /* busy started first; then one job of each client in turn, until clients 2 and 3 have none */
    assert_int_equal(greedy_jobs[0].order, 1);
    assert_int_equal(modest[0].order, 2);
    assert_int_equal(modest[1].order, 3);
    assert_int_equal(greedy_jobs[1].order, 4);
    assert_int_equal(modest[2].order, 5);
    for (size_t i = 2; i < GREEDY; i++)
        assert_int_equal(greedy_jobs[i].order, 4 + i);
    for (size_t i = 0; i < GREEDY; i++) {
        service_drop(&s, &greedy_jobs[i]);
        test_job_fini(&greedy_jobs[i]);
    }
    for (size_t i = 0; i < MODEST; i++) {
        service_drop(&s, &modest[i]);
        test_job_fini(&modest[i]);
    }
    test_job_fini(&busy);
    service_close(&s);
    question_fini(&q);
    question_fini(&hold);
}

/* A client that submits a new job whenever one starts gets its fair share only. */
enum { FOLLOWERS = 8 };

static void submit_follower(service *s, test_job *a)
{
    test_job *all = s->with;
    const size_t next = (size_t)(a - all) + 1;
    if (a >= all && next < FOLLOWERS && a->n_events == 1)
        service_send_as(s, &all[next], a->question, 2);
}

static void steady_client_does_not_starve_others(void **state)
{
    (void)state;
    enum { LINE = 6 };
    service s;
    test_job all[FOLLOWERS + LINE + 1];
    test_job *line = all + FOLLOWERS, *busy = line + LINE;
    question q = question_of_words(&tiny, 22, 0, 3, 2),
             hold = question_of_words(&tiny, 23, 0, 3, 1900);
    service_open_held(&s, &tiny, (sched_options){.parallel = 1, .context = CONTEXT, .threads = 1});
    service_send_as(&s, busy, &hold, 9);
    service_step_to(&s, busy, SCHED_DECODE);
    s.after_event = submit_follower;
    s.with = all;
    for (size_t i = 0; i < LINE; i++)
        service_send_as(&s, &line[i], &q, 1);
    service_send_as(&s, &all[0], &q, 2);
    service_release(&s);
    service_drop(&s, busy);
    while (sched_busy(s.sched) > 0)
        service_collect(&s);
    service_collect(&s);
    for (size_t i = 0; i < LINE; i++)
        assert_true(line[i].order <
                    all[i + 1].order); /* never two jobs of the other client before it */
    for (size_t i = 0; i < FOLLOWERS + LINE; i++) {
        service_drop(&s, &all[i]);
        test_job_fini(&all[i]);
    }
    test_job_fini(busy);
    service_close(&s);
    question_fini(&q);
    question_fini(&hold);
}

static void full_queue_rejects(void **state)
{
    (void)state;
    enum { QUEUE = 3 };
    service s;
    mote_error err;
    test_job busy, waiting[QUEUE], late;
    sched_stats f;
    question q = question_of_words(&tiny, 5, 0, 3, 300),
             hold = question_of_words(&tiny, 19, 0, 3, 1900);
    service_open_held(
        &s, &tiny,
        (sched_options){.parallel = 1, .queue = QUEUE, .context = CONTEXT, .threads = 1});
    service_send_as(&s, &busy, &hold, 1);
    service_step_to(&s, &busy, SCHED_DECODE);
    for (size_t i = 0; i < QUEUE; i++)
        service_send_as(&s, &waiting[i], &q, i);
    sched_job_options o = service_job(&s, &late, &q);
    assert_int_equal(service_submit(&s, &late, &o, &err), MOTE_E_FULL);
    assert_false(late.released);
    sched_read_stats(s.sched, &f);
    assert_int_equal(f.refused_full, 1);
    assert_int_equal(f.queued, QUEUE);
    service_drop(&s, &waiting[0]);
    service_send_as(&s, &waiting[0], &q, 1); /* the queue has room again */
    assert_int_equal(sched_busy(s.sched), 1 + QUEUE);
    service_release(&s);
    service_drop(&s, &busy);
    for (size_t i = 1; i < QUEUE; i++)
        service_drop(&s, &waiting[i]);
    service_wait_finished(&s, &waiting[0]);
    assert_int_equal(waiting[0].output.answer.answer_tokens, 300);
    assert_int_equal(sched_busy(s.sched), 0);
    service_drop(&s, &waiting[0]);
    test_job_fini(&busy);
    for (size_t i = 0; i < QUEUE; i++)
        test_job_fini(&waiting[i]);
    service_close(&s);
    question_fini(&q);
    question_fini(&hold);
}

/* ---- time ---- */

/* Runs a job with a time limit. */
static void run_with_time_limit(service *s, test_job *a, const question *q, double seconds)
{
    mote_error err;
    sched_job_options o = service_job(s, a, q);
    o.seconds = seconds;
    must(service_submit(s, a, &o, &err), &err);
    service_wait_finished(s, a);
    assert_int_equal(a->output.status, MOTE_OK);
    assert_int_equal(a->output.answer.finish, MOTE_FINISH_LENGTH);
    assert_true(a->output.answer.answer_tokens < WITHOUT_END);
    assert_true(a->result.ended >= seconds && a->result.ended < PATIENCE);
}

static void deadline_ends_an_answer(void **state)
{
    (void)state;
    service s;
    test_job busy, queued, late;
    question q = question_of_words(&tiny, 6, 0, 3, WITHOUT_END);
    service_open(&s, &tiny, (sched_options){.parallel = 1, .context = ENDLESS, .threads = 1});
    service_send(&s, &busy, &q);
    run_with_time_limit(&s, &queued, &q, 0.2);
    assert_false(queued.started); /* it did not wait for a slot */
    assert_false(busy.finished);  /* the slot was still in use */
    service_drop(&s, &busy);
    run_with_time_limit(&s, &late, &q, 0.5);
    assert_true(late.started);
    service_drop(&s, &queued);
    service_drop(&s, &late);
    test_job_fini(&busy);
    test_job_fini(&queued);
    test_job_fini(&late);
    service_close(&s);
    question_fini(&q);
}

static void thinking_ends_when_asked(void **state)
{
    (void)state;
    service s;
    test_job a;
    question q;
    question_init(&q, &tiny,
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"What is 3 + 4?\"}],"
                  "\"enable_thinking\":true}",
                  answer_greedy(1800));
    q.answer.think_budget = 1500;
    q.answer.sampling.bias = &(mote_bias){tiny.chat_ctx.template.tags[CHAT_TAG_THINK_END], -50};
    q.answer.sampling.n_bias = 1;
    service_open_held(&s, &tiny, (sched_options){.parallel = 1, .context = CONTEXT, .threads = 1});
    service_send(&s, &a, &q);
    service_step_to(&s, &a, SCHED_DECODE);
    sched_end_thinking(s.sched, a.job);
    service_release(&s);
    service_wait_finished(&s, &a);
    assert_int_equal(a.output.status, MOTE_OK);
    assert_int_equal(a.output.answer.think_end, MOTE_THINK_END_CLIENT);
    assert_true(a.output.answer.think_tokens < 1500);
    service_drop(&s, &a);
    test_job_fini(&a);
    service_close(&s);
    question_fini(&q);
}

/* ---- chunked prefill and preemption ---- */

/* Many short prompts; the long prompt is prefilled all the same. */
enum { SHORTS = 40 };

static void count_before(service *s, test_job *a)
{
    size_t *n = s->with; /* n[0]: finished jobs; n[1]: those before the long one */
    if (a->finished && a->question->prompt.n > 1000)
        n[1] = n[0];
    n[0] += a->finished;
}

static void long_prompt_is_not_starved(void **state)
{
    (void)state;
    service s;
    size_t n[2] = {0};
    test_job slow, quick[SHORTS];
    question long_one = question_of_words(&tiny, 17, 0, 300, 1), asks[SHORTS];
    assert_true(long_one.prompt.n > 1000 && long_one.prompt.n < CONTEXT);
    service_open_held(
        &s, &tiny,
        (sched_options){.parallel = 3, .context = CONTEXT, .kv_tokens = 16384, .threads = 1});
    s.after_event = count_before;
    s.with = n;
    for (size_t i = 0; i < SHORTS; i++)
        asks[i] = question_of_words(&tiny, 100 + i, 0, 60, 1);
    service_send_as(&s, &slow, &long_one, 1);
    for (size_t i = 0; i < SHORTS; i++)
        service_send_as(&s, &quick[i], &asks[i], 1);
    service_release(&s);
    while (sched_busy(s.sched) > 0)
        service_collect(&s);
    service_collect(&s);
    assert_int_equal(n[0], SHORTS + 1);
    printf("the long prompt finished after %zu of %d short ones\n", n[1], SHORTS);
    assert_true(n[1] < SHORTS * 3 / 4); /* it was not starved */
    assert_true(n[1] > 2);              /* and did not delay all of them */
    service_drop(&s, &slow);
    test_job_fini(&slow);
    for (size_t i = 0; i < SHORTS; i++) {
        service_drop(&s, &quick[i]);
        test_job_fini(&quick[i]);
    }
    service_close(&s);
    for (size_t i = 0; i < SHORTS; i++)
        question_fini(&asks[i]);
    question_fini(&long_one);
}

/* KV positions for one and a half jobs: the younger one is preempted. Both outputs are unchanged.
 */
static void younger_job_is_preempted(void **state)
{
    (void)state;
    enum { ROOM = 1024 };
    service s;
    test_job older, younger;
    test_output alone[2];
    sched_stats f;
    question first = question_of_words(&tiny, 20, 0, 10, 700),
             second = question_of_words(&tiny, 21, 0, 10, 700);
    rig_solo(&tiny, &first, ROOM, &alone[0]);
    rig_solo(&tiny, &second, ROOM, &alone[1]);
    service_open_held(&s, &tiny, (sched_options){.parallel = 2, .kv_tokens = ROOM, .threads = 1});
    service_send(&s, &older, &first);
    service_send(&s, &younger, &second);
    service_release(&s);
    service_wait_finished(&s, &older);
    service_wait_finished(&s, &younger);
    same_as_solo(&older, &alone[0]);
    same_as_solo(&younger, &alone[1]);
    assert_int_equal(older.result.preempted, 0);
    assert_true(younger.result.preempted > 0);
    sched_read_stats(s.sched, &f);
    assert_int_equal(f.preempted, younger.result.preempted);
    service_drop(&s, &older);
    service_drop(&s, &younger);
    test_job_fini(&older);
    test_job_fini(&younger);
    output_fini(&alone[0]);
    output_fini(&alone[1]);
    service_close(&s);
    question_fini(&first);
    question_fini(&second);
}

/* ---- memory ---- */

/* Drafts are given up before the plan is refused; a length that was set is not. Their memory is in
 * the plan, with suffix lookup, which the engine does not know. */
static void drafts_are_part_of_the_plan(void **state)
{
    (void)state;
    sched *s;
    mote_error err;
    mote_memory memory;
    mote_memory plain;
    sched_options o = {.model = tiny.model, .threads = 1, .context = 512, .kv_tokens = 2048};
    must(sched_new(&s, &o, &err), &err);
    sched_memory(s, &memory);
    const uint64_t lookups = spec_bytes(8, 512);
    assert_true(lookups > 8 * 3 * 512 * 4);
    assert_true(memory.drafts > lookups);
    mote_engine_memory(s->engine, &plain);
    const uint64_t ends = (plain.total + lookups) / 32; /* of prompts */
    assert_int_equal(memory.total, plain.total + lookups + ends);
    sched_free(s);
    must(sched_min_memory(&o, &o.memory, &err), &err);
    must(sched_new(&s, &o, &err), &err);
    assert_int_equal(sched_settings(s)->spec, SPEC_OFF);
    sched_memory(s, &memory);
    assert_int_equal(memory.total, o.memory);
    assert_int_equal(memory.drafts, 0);
    sched_free(s);
    o.spec = 3;
    assert_int_equal(sched_new(&s, &o, &err), MOTE_E_MEMORY);
    assert_non_null(strstr(err.text, "; use --spec off"));
    o.spec = SPEC_AUTO;
    o.memory--;
    assert_int_equal(sched_new(&s, &o, &err), MOTE_E_MEMORY);
    assert_null(strstr(err.text, "--spec"));
}

static void memory_limit_sets_the_plan(void **state)
{
    (void)state;
    sched *s;
    mote_error err;
    mote_memory memory;
    const uint64_t mb = 1000 * 1000;
    sched_options o = {.model = tiny.model, .threads = 1, .memory = 60 * mb};
    must(sched_new(&s, &o, &err), &err);
    sched_memory(s, &memory);
    assert_true(memory.total <= o.memory);
    assert_true(sched_settings(s)->kv_tokens >= 1024);
    assert_int_equal(sched_settings(s)->parallel, 8);
    assert_true(sched_settings(s)->context <= sched_settings(s)->kv_tokens);
    sched_free(s);
    o.memory = 10 * mb; /* hardly more than the model file */
    assert_int_equal(sched_new(&s, &o, &err), MOTE_E_MEMORY);
    assert_null(s);
    assert_non_null(strstr(err.text, "raise --memory"));
    o.memory = 60 * mb;
    o.kv_tokens = 1 << 24;
    assert_int_equal(sched_new(&s, &o, &err), MOTE_E_MEMORY);
    assert_non_null(strstr(err.text, "lower --kv-tokens"));
    o.kv_tokens = 0;
    o.context = 1 << 18;
    assert_int_equal(sched_new(&s, &o, &err), MOTE_E_MEMORY);
    assert_non_null(strstr(err.text, "lower --context"));
    o.context = 1 << 20; /* four times the trained context */
    assert_int_equal(sched_new(&s, &o, &err), MOTE_E_ARG);
    assert_non_null(strstr(err.text, "--yarn"));
    o.yarn = 4;
    assert_int_equal(sched_new(&s, &o, &err), MOTE_E_MEMORY);
    o.yarn = 0;
    o.context = 0;
    o.parallel = 500;
    assert_int_equal(sched_new(&s, &o, &err), MOTE_E_MEMORY);
    assert_non_null(strstr(err.text, "lower --parallel"));
    o = (sched_options){.model = tiny.model, .context = 4096, .kv_tokens = 1024};
    assert_int_equal(sched_new(&s, &o, &err), MOTE_E_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drop_frees_the_slot_within_a_step),
        cmocka_unit_test(clients_take_turns),
        cmocka_unit_test(steady_client_does_not_starve_others),
        cmocka_unit_test(full_queue_rejects),
        cmocka_unit_test(deadline_ends_an_answer),
        cmocka_unit_test(thinking_ends_when_asked),
        cmocka_unit_test(long_prompt_is_not_starved),
        cmocka_unit_test(younger_job_is_preempted),
        cmocka_unit_test(memory_limit_sets_the_plan),
        cmocka_unit_test(drafts_are_part_of_the_plan),
    };
    rig_open(&tiny);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rig_close(&tiny);
    return failed;
}
