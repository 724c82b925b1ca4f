/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_mix.c - random mixes: whoever else is there, whatever was read before, however prompts
 * are cut and however often an answer is put back, every job says what it says alone.
 */
#include "base/mem.h"
#include "sched/sched_hold.h"
#include "support/scale.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka needs those before it */
#include <cmocka.h>

enum { QUESTIONS = 24, CONTEXT = 1024 };

static rig tiny;
static question questions[QUESTIONS];
static said alone[QUESTIONS];

typedef struct mix {
    sched_options options;
    int jobs;
    int drops; /* one of so many is dropped; 0: none */
    uint64_t namespaces;
    bool patient;          /* waits for somebody now and then */
    unsigned leave_inside; /* after one of so many layers somebody may leave; 0: nobody does */
} mix;

/* What came before the drop is the beginning of what would have come. */
static void is_beginning(const asked *a, const said *solo)
{
    assert_true(a->said.events.n <= solo->events.n);
    if (a->said.events.n > 0)
        assert_memory_equal(a->said.events.p, solo->events.p, a->said.events.n);
}

static void check(const asked *a)
{
    const said *solo = &alone[a->question - questions];
    if (a->over)
        same_as_solo(a, solo);
    else
        is_beginning(a, solo);
}

/* Each job may be given up after so many events. */
static size_t patience[1 << 12];

static void lose_patience(service *s, asked *a)
{
    asked *first = s->with;
    const size_t i = (size_t)(a - first);
    if (a->n_events >= patience[i] && a->job != NULL && !a->over)
        service_drop(s, a);
    if (a->over && patience[i + 1] < SIZE_MAX && i % 2 == 0)
        service_drop(s, a + 1); /* another one, from inside */
}

/* Who may leave in the middle of a step. */
static struct {
    gate gate;
    asked *all;
    int n;
    test_random random;
} inside;

/* The engine thread stands between two layers: somebody goes, whatever he is doing. */
static void leave_inside(service *s)
{
    if (!atomic_load(&inside.gate.closed))
        return;
    asked *a = &inside.all[test_random_below(&inside.random, (uint64_t)inside.n)];
    while (a < inside.all + inside.n && (a->job == NULL || a->over))
        a++;
    if (a < inside.all + inside.n)
        service_drop(s, a);
    gate_open(&inside.gate, -1);
}

static void open_mix(service *s, const mix *m, asked *all)
{
    service_open(s, &tiny, m->options);
    gate_build(&inside.gate, s);
    atomic_store(&inside.gate.one_in, m->leave_inside);
    inside.all = all;
    inside.n = m->jobs;
    s->turned = leave_inside;
    s->heard = lose_patience;
    s->with = all;
}

static void ask_one(service *s, const mix *m, asked *all, int i, test_random *random)
{
    mote_error err;
    const question *q = &questions[test_random_below(random, QUESTIONS)];
    sched_job_options o = service_job(s, &all[i], q);
    o.client = test_random_below(random, 4);
    o.ns = m->namespaces > 0 ? test_random_below(random, m->namespaces) : 0;
    o.no_reuse = test_random_below(random, 8) == 0;
    if (m->drops > 0 && test_random_below(random, (uint64_t)m->drops) == 0)
        patience[i] = test_random_below(random, 12);
    must(service_submit(s, &all[i], &o, &err), &err);
    if (patience[i] == 0)
        service_drop(s, &all[i]);
    else if (m->patient && test_random_below(random, 3) == 0)
        service_until_over(s, &all[test_random_below(random, (uint64_t)i + 1)]);
    else if (test_random_below(random, 4) == 0)
        service_turn(s);
}

static void run(const mix *m, uint64_t seed, sched_stats *stats)
{
    test_random random = {.state = seed};
    service s;
    asked *all = calloc((size_t)m->jobs + 1, sizeof *all);
    for (int i = 0; i <= m->jobs; i++)
        patience[i] = SIZE_MAX;
    open_mix(&s, m, all);
    for (int i = 0; i < m->jobs; i++)
        ask_one(&s, m, all, i, &random);
    while (sched_busy(s.sched) > 0)
        service_turn(&s);
    service_turn(&s);
    for (int i = 0; i < m->jobs; i++)
        service_drop(&s, &all[i]);
    gate_open_for_good(&inside.gate);
    sched_read_stats(s.sched, stats);
    service_close(&s);
    gate_take_down(&inside.gate);
    for (int i = 0; i < m->jobs; i++) {
        assert_true(all[i].released);
        check(&all[i]);
        asked_fini(&all[i]);
    }
    free(all);
}

static void a_few_at_once(void **state)
{
    (void)state;
    sched_stats f;
    const mix m = {.options = {.parallel = 3, .context = CONTEXT, .threads = 1},
                   .jobs = (int)test_scaled(24, 1)};
    run(&m, 1, &f);
    assert_int_equal(f.finished, m.jobs);
    assert_int_equal(f.preempted, 0);
}

static void many_come_and_go(void **state)
{
    (void)state;
    sched_stats f;
    const mix m = {.options = {.parallel = 8, .context = CONTEXT, .threads = 2},
                   .jobs = (int)test_scaled(50, 12), /* enough for a drop and a second time */
                   .drops = 3,
                   .patient = true};
    run(&m, 2, &f);
    assert_true(f.canceled_queued + f.canceled_prefill + f.canceled_decode > 0);
    assert_int_equal(f.finished + f.canceled_queued + f.canceled_prefill + f.canceled_decode,
                     m.jobs);
    assert_true(f.reused_idle_tokens + f.reused_live_tokens > 0);
    assert_int_equal(f.preempted, 0);
}

/* In the middle of steps, where chance alone would hardly take them. */
static void many_leave_inside(void **state)
{
    (void)state;
    sched_stats f;
    const mix m = {.options = {.parallel = 6, .idle_sessions = 3, .context = CONTEXT, .threads = 2},
                   .jobs = (int)test_scaled(40, 10),
                   .leave_inside = 10};
    run(&m, 4, &f);
    printf("%llu of %d left inside a step\n", (unsigned long long)f.aborted_inside, m.jobs);
    assert_true(f.aborted_inside > 0);
}

/* Hardly more positions than one conversation needs. */
static void without_room_they_give_way(void **state)
{
    (void)state;
    sched_stats f;
    const mix m = {
        .options = {.parallel = 6, .context = CONTEXT, .kv_tokens = CONTEXT, .threads = 2},
        .jobs = (int)test_scaled(24, 1),
        .drops = 8};
    run(&m, 3, &f);
}

static void realms_and_threads(void **state)
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

/* Each answer is followed by the next question, from inside of its last event. */
static void ask_next(service *s, asked *a)
{
    asked *all = s->with;
    const size_t next = (size_t)(a - all) + 1;
    if (!a->over)
        return;
    service_drop(s, a);
    if (next < QUESTIONS)
        service_ask(s, a + 1, &questions[next]);
}

static void one_leads_to_the_next(void **state)
{
    (void)state;
    service s;
    asked *all = calloc(QUESTIONS, sizeof *all);
    service_open(&s, &tiny, (sched_options){.parallel = 2, .context = CONTEXT, .threads = 1});
    s.heard = ask_next;
    s.with = all;
    service_ask(&s, &all[0], &questions[0]);
    while (!all[QUESTIONS - 1].over)
        service_turn(&s);
    service_close(&s);
    for (size_t i = 0; i < QUESTIONS; i++) {
        assert_true(all[i].released);
        same_as_solo(&all[i], &alone[i]);
        asked_fini(&all[i]);
    }
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_few_at_once),      cmocka_unit_test(one_leads_to_the_next),
        cmocka_unit_test(many_come_and_go),   cmocka_unit_test(without_room_they_give_way),
        cmocka_unit_test(realms_and_threads), cmocka_unit_test(many_leave_inside),
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
        return 1; /* the questions would not be worth asking */
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < QUESTIONS; i++) {
        question_fini(&questions[i]);
        said_fini(&alone[i]);
    }
    rig_close(&tiny);
    return failed;
}
