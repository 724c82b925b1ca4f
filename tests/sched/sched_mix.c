/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_mix.c - random mixes of jobs: whatever the batch, the prefix cache, the prefill chunks and
 * the preemptions are, the output of every job equals its solo run.
 */
#include "base/mem.h"
#include "sched/sched_hold.h"
#include "support/scale.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

enum { QUESTIONS = 24, CONTEXT = 1024 };

static rig tiny;
static question questions[QUESTIONS];
static test_output alone[QUESTIONS];

typedef struct mix {
    sched_options options;
    int jobs;
    int drops; /* one of `drops` jobs is dropped; 0: none */
    uint64_t namespaces;
    bool patient;         /* waits for a random job now and then */
    unsigned drop_inside; /* drop a job after one of this many layers; 0: never */
} mix;

/* The events before the drop are a prefix of the solo events. */
static void assert_is_prefix(const test_job *a, const test_output *solo)
{
    assert_true(a->output.events.n <= solo->events.n);
    if (a->output.events.n > 0)
        assert_memory_equal(a->output.events.p, solo->events.p, a->output.events.n);
}

static void check(const test_job *a)
{
    const test_output *solo = &alone[a->question - questions];
    if (a->finished)
        same_as_solo(a, solo);
    else
        assert_is_prefix(a, solo);
}

/* Job i is dropped after this many events. */
static size_t max_events[1 << 12];

static void drop_by_event_count(service *s, test_job *a)
{
    test_job *first = s->with;
    const size_t i = (size_t)(a - first);
    if (a->n_events >= max_events[i] && a->job != NULL && !a->finished)
        service_drop(s, a);
    if (a->finished && max_events[i + 1] < SIZE_MAX && i % 2 == 0)
        service_drop(s, a + 1); /* another one, inside the event function */
}

/* For drops during a step. */
static struct {
    layer_hold hold;
    test_job *all;
    int n;
    test_random random;
} inside;

/* The engine thread is stopped between two layers: drops a random job. */
static void drop_inside(service *s)
{
    if (!atomic_load(&inside.hold.stopped))
        return;
    test_job *a = &inside.all[test_random_below(&inside.random, (uint64_t)inside.n)];
    while (a < inside.all + inside.n && (a->job == NULL || a->finished))
        a++;
    if (a < inside.all + inside.n)
        service_drop(s, a);
    hold_release(&inside.hold, -1);
}

static void open_mix(service *s, const mix *m, test_job *all)
{
    service_open(s, &tiny, m->options);
    hold_init(&inside.hold, s);
    atomic_store(&inside.hold.one_in, m->drop_inside);
    inside.all = all;
    inside.n = m->jobs;
    s->after_collect = drop_inside;
    s->after_event = drop_by_event_count;
    s->with = all;
}

static void submit_random(service *s, const mix *m, test_job *all, int i, test_random *random)
{
    mote_error err;
    const question *q = &questions[test_random_below(random, QUESTIONS)];
    sched_job_options o = service_job(s, &all[i], q);
    o.client = test_random_below(random, 4);
    o.background = test_random_below(random, 3) == 0;
    o.ns = m->namespaces > 0 ? test_random_below(random, m->namespaces) : 0;
    o.no_reuse = test_random_below(random, 8) == 0;
    if (m->drops > 0 && test_random_below(random, (uint64_t)m->drops) == 0)
        max_events[i] = test_random_below(random, 12);
    must(service_submit(s, &all[i], &o, &err), &err);
    if (max_events[i] == 0)
        service_drop(s, &all[i]);
    else if (m->patient && test_random_below(random, 3) == 0)
        service_wait_finished(s, &all[test_random_below(random, (uint64_t)i + 1)]);
    else if (test_random_below(random, 4) == 0)
        service_collect(s);
}

static void run(const mix *m, uint64_t seed, sched_stats *stats)
{
    test_random random = {.state = seed};
    service s;
    test_job *all = calloc((size_t)m->jobs + 1, sizeof *all);
    for (int i = 0; i <= m->jobs; i++)
        max_events[i] = SIZE_MAX;
    open_mix(&s, m, all);
    for (int i = 0; i < m->jobs; i++)
        submit_random(&s, m, all, i, &random);
    while (sched_busy(s.sched) > 0)
        service_collect(&s);
    service_collect(&s);
    for (int i = 0; i < m->jobs; i++)
        service_drop(&s, &all[i]);
    hold_release_for_good(&inside.hold);
    sched_read_stats(s.sched, stats);
    service_close(&s);
    hold_fini(&inside.hold);
    for (int i = 0; i < m->jobs; i++) {
        assert_true(all[i].released);
        check(&all[i]);
        test_job_fini(&all[i]);
    }
    free(all);
}

static void few_jobs(void **state)
{
    (void)state;
    sched_stats f;
    const mix m = {.options = {.parallel = 3, .context = CONTEXT, .threads = 1},
                   .jobs = (int)test_scaled(24, 1)};
    run(&m, 1, &f);
    assert_int_equal(f.finished, m.jobs);
    assert_int_equal(f.preempted, 0);
}

static void many_jobs_with_drops(void **state)
{
    (void)state;
    sched_stats f;
    const mix m = {.options = {.parallel = 8, .context = CONTEXT, .threads = 2},
                   .jobs = (int)test_scaled(50, 12), /* enough for a drop and for reuse */
                   .drops = 3,
                   .patient = true};
    run(&m, 2, &f);
    assert_true(f.canceled_queued + f.canceled_prefill + f.canceled_decode > 0);
    assert_int_equal(f.finished + f.canceled_queued + f.canceled_prefill + f.canceled_decode,
                     m.jobs);
    assert_true(f.reused_idle_tokens + f.reused_live_tokens > 0);
    assert_int_equal(f.preempted, 0);
}

/* Drops during steps, which would rarely happen by chance. */
static void many_drops_inside_steps(void **state)
{
    (void)state;
    sched_stats f;
    const mix m = {.options = {.parallel = 6, .idle_sessions = 3, .context = CONTEXT, .threads = 2},
                   .jobs = (int)test_scaled(40, 10),
                   .drop_inside = 10};
    run(&m, 4, &f);
    printf("%llu of %d jobs aborted inside a step\n", (unsigned long long)f.aborted_inside, m.jobs);
    assert_true(f.aborted_inside > 0);
}

/* Hardly more KV positions than one conversation needs. */
static void few_positions_preempt(void **state)
{
    (void)state;
    sched_stats f;
    const mix m = {
        .options = {.parallel = 6, .context = CONTEXT, .kv_tokens = CONTEXT, .threads = 2},
        .jobs = (int)test_scaled(24, 1),
        .drops = 8};
    run(&m, 3, &f);
}

static void namespaces_and_threads(void **state)
{
    (void)state;
    sched_stats f;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        const mix m = {.options = {.parallel = 5,
                                   .idle_sessions = 2,
                                   .context = CONTEXT,
                                   .kv_tokens = 4 * CONTEXT,
                                   .threads = threads},
                       .jobs = (int)test_scaled(12, 1),
                       .drops = 6,
                       .namespaces = 3,
                       .patient = true};
        run(&m, 100 + threads, &f);
    }
}

/* Submits the next request inside the last event of the previous one. */
static void submit_next(service *s, test_job *a)
{
    test_job *all = s->with;
    const size_t next = (size_t)(a - all) + 1;
    if (!a->finished)
        return;
    service_drop(s, a);
    if (next < QUESTIONS)
        service_send(s, a + 1, &questions[next]);
}

static void submit_from_the_event_function(void **state)
{
    (void)state;
    service s;
    test_job *all = calloc(QUESTIONS, sizeof *all);
    service_open(&s, &tiny, (sched_options){.parallel = 2, .context = CONTEXT, .threads = 1});
    s.after_event = submit_next;
    s.with = all;
    service_send(&s, &all[0], &questions[0]);
    while (!all[QUESTIONS - 1].finished)
        service_collect(&s);
    service_close(&s);
    for (size_t i = 0; i < QUESTIONS; i++) {
        assert_true(all[i].released);
        same_as_solo(&all[i], &alone[i]);
        test_job_fini(&all[i]);
    }
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_jobs),
        cmocka_unit_test(submit_from_the_event_function),
        cmocka_unit_test(many_jobs_with_drops),
        cmocka_unit_test(few_positions_preempt),
        cmocka_unit_test(namespaces_and_threads),
        cmocka_unit_test(many_drops_inside_steps),
    };
    test_random random = {.state = 5};
    rig_open(&tiny);
    for (size_t i = 0; i < QUESTIONS; i++) {
        question_random(&questions[i], &tiny, &random);
        rig_solo(&tiny, &questions[i], CONTEXT, &alone[i]);
    }
    uint64_t loops = 0, calls = 0, thought = 0;
    for (size_t i = 0; i < QUESTIONS; i++) {
        loops += alone[i].answer.loops_detected;
        calls += alone[i].answer.calls;
        thought += alone[i].answer.think_tokens;
    }
    printf("%llu loops, %llu calls, %llu tokens of thinking\n", (unsigned long long)loops,
           (unsigned long long)calls, (unsigned long long)thought);
    if (loops == 0 || calls == 0 || thought == 0)
        return 1; /* the random requests must cover loops, calls and thinking */
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < QUESTIONS; i++) {
        question_fini(&questions[i]);
        output_fini(&alone[i]);
    }
    rig_close(&tiny);
    return failed;
}
