/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_key_share.c - fair shares between keys. Shares are counted over a number of steps, which
 * the test runs one by one, so they do not depend on the speed of the machine.
 */
#include "base/os.h"
#include "sched/sched_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

enum {
    CONTEXT = 2048,
    MAX_KEYS = 5,
    MAX_JOBS = 64,
    SETTLE = 15, /* steps before the count: prefill, and the quantum of a job */
    COUNT = 80
};

static rig tiny;

/* Tokens of each key so far. */
static void count_tokens(service *s, test_job *jobs, const size_t *key_of, size_t n,
                         uint64_t tokens[MAX_KEYS])
{
    sched_job_status where;
    memset(tokens, 0, MAX_KEYS * sizeof *tokens);
    for (size_t i = 0; i < n; i++) {
        sched_job_get_status(s->sched, jobs[i].job, &where);
        tokens[key_of[i]] += where.generated;
    }
}

/* Runs n steps, or a few more: the core lock may let a scheduler run several steps at once. */
static void run_steps(service *s, const test_job *a, uint64_t n)
{
    sched_stats before, now;
    sched_read_stats(s->sched, &before);
    do {
        service_step(s, a);
        sched_read_stats(s->sched, &now);
    } while (now.steps < before.steps + n);
}

/* Lets the last job of the first key finish, which was paused most often, and compares its answer
 * with a solo run. Drops the others. */
static void finish_last_job(service *s, test_job *jobs, const size_t *key_of, size_t n,
                            const question *questions)
{
    for (size_t i = 0; i < n; i++)
        if (key_of[i] > 0 || (i + 1 < n && key_of[i + 1] == 0))
            service_drop(s, &jobs[i]);
    service_release(s);
    for (size_t i = 0; i < n; i++) {
        test_output solo;
        if (jobs[i].job != NULL) {
            service_wait_finished(s, &jobs[i]);
            rig_solo(&tiny, &questions[key_of[i]], CONTEXT, &solo);
            same_as_solo(&jobs[i], &solo);
            output_fini(&solo);
        }
        service_drop(s, &jobs[i]);
        test_job_fini(&jobs[i]);
    }
}

typedef struct load {
    uint32_t parallel, idle;
    size_t keys;
    size_t streams[MAX_KEYS];
    bool divides; /* the slots divide evenly: no job is paused while the tokens are counted */
} load;

/* Key 0 holds all slots, then the other keys arrive. Each gets at least 80 % of an equal share. */
static void share_tokens(const load *l)
{
    service s;
    test_job jobs[MAX_JOBS];
    question questions[MAX_KEYS];
    size_t key_of[MAX_JOBS], n = 0;
    uint64_t before[MAX_KEYS], after[MAX_KEYS], all = 0;
    sched_stats first, last;
    service_open_held(&s, &tiny,
                      (sched_options){.parallel = l->parallel,
                                      .idle_sessions = l->idle,
                                      .context = CONTEXT,
                                      .kv_tokens = 32768,
                                      .spec = SPEC_OFF, /* one token per step */
                                      .threads = 1});
    for (size_t key = 0; key < l->keys; key++) {
        questions[key] = question_of_words(&tiny, 40 + key, 0, 6, key == 0 ? 190 : 170);
        for (size_t i = 0; i < l->streams[key]; i++, n++) {
            key_of[n] = key;
            service_send_as(&s, &jobs[n], &questions[key], 100 + key);
        }
        if (key == 0) { /* it has been decoding for a while */
            service_step_to(&s, &jobs[0], SCHED_DECODE);
            run_steps(&s, &jobs[0], 10);
        }
    }
    run_steps(&s, &jobs[0], SETTLE);
    count_tokens(&s, jobs, key_of, n, before);
    sched_read_stats(s.sched, &first);
    run_steps(&s, &jobs[0], COUNT);
    count_tokens(&s, jobs, key_of, n, after);
    sched_read_stats(s.sched, &last);
    for (size_t i = 0; i < n; i++)
        assert_false(jobs[i].finished); /* else the tokens say nothing */
    for (size_t key = 0; key < l->keys; key++)
        all += after[key] - before[key];
    printf("%u slots, %zu keys:", l->parallel, l->keys);
    for (size_t key = 0; key < l->keys; key++)
        printf(" %zu: %.1f %%", l->streams[key],
               100.0 * (double)(after[key] - before[key]) / (double)all);
    printf("; %llu pauses\n", (unsigned long long)(last.paused - first.paused));
    for (size_t key = 0; key < l->keys; key++)
        assert_true(10 * l->keys * (after[key] - before[key]) >= 8 * all);
    const uint64_t pauses = last.paused - first.paused;
    assert_true(l->divides ? pauses == 0 : 6 * pauses <= all);
    finish_last_job(&s, jobs, key_of, n, questions);
    service_close(&s);
    for (size_t key = 0; key < l->keys; key++)
        question_fini(&questions[key]);
}

static void running_streams_make_room_for_another_key(void **state)
{
    (void)state;
    static const load loads[] = {
        {.parallel = 4, .keys = 2, .streams = {6, 4}, .divides = true},
        {.parallel = 4, .keys = 2, .streams = {4, 1}, .divides = true},
    };
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
        share_tokens(&loads[i]);
}

/* The rest of the slots rotates; with fewer slots than keys, all slots. */
static void undivided_slots_rotate(void **state)
{
    (void)state;
    static const load loads[] = {
        {.parallel = 8, .keys = 5, .streams = {8, 2, 2, 2, 2}},
        {.parallel = 3, .keys = 4, .streams = {3, 1, 1, 2}, .idle = 8},
        {.parallel = 1, .keys = 2, .streams = {1, 1}},
    };
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
        share_tokens(&loads[i]);
}

/* A single key is never paused, however many requests wait, and fills every batch. */
static void single_key_is_not_limited(void **state)
{
    (void)state;
    enum { P = 3, N = 7 };
    service s;
    test_job jobs[N];
    sched_stats before, f;
    question q = question_of_words(&tiny, 50, 0, 6, 100);
    service_open_held(&s, &tiny, (sched_options){.parallel = P, .context = CONTEXT, .threads = 1});
    for (size_t i = 0; i < N; i++)
        service_send_as(&s, &jobs[i], &q, 7);
    service_step_to(&s, &jobs[P - 1], SCHED_DECODE);
    sched_read_stats(s.sched, &before);
    run_steps(&s, &jobs[0], 10);
    sched_read_stats(s.sched, &f);
    assert_true(f.steps > before.steps);
    const uint64_t drafted = f.spec.drafted[SPEC_LOOKUP] + f.spec.drafted[SPEC_MODEL] -
                             before.spec.drafted[SPEC_LOOKUP] - before.spec.drafted[SPEC_MODEL];
    assert_int_equal(f.step_rows - before.step_rows, (f.steps - before.steps) * P + drafted);
    service_release(&s);
    for (size_t i = 0; i < N; i++) {
        if (i < P)
            service_wait_finished(&s, &jobs[i]);
        service_drop(&s, &jobs[i]);
        test_job_fini(&jobs[i]);
    }
    sched_read_stats(s.sched, &f);
    assert_int_equal(f.paused, 0);
    service_close(&s);
    question_fini(&q);
}

/* A hundred requests of one key are in the queue. A request of another key starts at once. */
static void long_queue_does_not_delay_another_key(void **state)
{
    (void)state;
    enum { P = 2, QUEUE = 50 };
    service s;
    test_job jobs[P + QUEUE], other;
    question q = question_of_words(&tiny, 51, 0, 6, 1000);
    service_open_held(&s, &tiny, (sched_options){.parallel = P, .context = CONTEXT, .threads = 1});
    for (size_t i = 0; i < P + QUEUE; i++)
        service_send_as(&s, &jobs[i], &q, 7);
    service_step_to(&s, &jobs[P - 1], SCHED_DECODE);
    run_steps(&s, &jobs[0], 10);
    service_send_as(&s, &other, &q, 8);
    run_steps(&s, &jobs[0], 6);
    assert_true(other.started);
    for (size_t i = 0; i < P + QUEUE; i++) {
        service_drop(&s, &jobs[i]);
        test_job_fini(&jobs[i]);
    }
    service_release(&s);
    service_drop(&s, &other);
    test_job_fini(&other);
    service_close(&s);
    question_fini(&q);
}

/* One key holds nearly all KV positions. Another key gets its part: the youngest job of the first
 * one is preempted, prefilled again later, and its answer is unchanged. */
static void kv_positions_are_shared(void **state)
{
    (void)state;
    enum { HOLDERS = 3, ROOM = 1536 };
    service s;
    test_job jobs[HOLDERS + 1];
    size_t key_of[HOLDERS + 1] = {0, 0, 0, 1};
    sched_stats f;
    question questions[2] = {question_of_words(&tiny, 52, 0, 66, 300),
                             question_of_words(&tiny, 53, 0, 84, 100)};
    assert_true(HOLDERS * questions[0].prompt.n + questions[1].prompt.n > ROOM);
    service_open_held(
        &s, &tiny,
        (sched_options){
            .parallel = 4, .context = ROOM, .kv_tokens = ROOM, .idle_sessions = 4, .threads = 1});
    for (size_t i = 0; i < HOLDERS; i++) {
        mote_error err;
        sched_job_options o = service_job(&s, &jobs[i], &questions[0]);
        o.client = 7;
        o.no_reuse = true; /* its own pages */
        must(service_submit(&s, &jobs[i], &o, &err), &err);
    }
    for (size_t i = 0; i < HOLDERS; i++)
        service_step_to(&s, &jobs[i], SCHED_DECODE);
    service_send_as(&s, &jobs[HOLDERS], &questions[1], 8);
    run_steps(&s, &jobs[0], 10);
    assert_true(jobs[HOLDERS].started && !jobs[0].finished);
    finish_last_job(&s, jobs, key_of, HOLDERS + 1, questions);
    sched_read_stats(s.sched, &f);
    assert_true(f.preempted > 0);
    service_close(&s);
    question_fini(&questions[0]);
    question_fini(&questions[1]);
}

/* Prompts of two keys, 3 and 1: each key gets half of the prefill rows. */
static void prefill_rows_are_shared(void **state)
{
    (void)state;
    enum { N = 4 };
    service s;
    test_job jobs[N], stream;
    question asks[N], q = question_of_words(&tiny, 60, 0, 6, 1500);
    sched_job_status where[N];
    uint64_t all = 0;
    service_open_held(
        &s, &tiny,
        (sched_options){.parallel = N + 1, .context = CONTEXT, .kv_tokens = 16384, .threads = 1});
    service_send_as(&s, &stream, &q, 9); /* with decode rows in the step, chunks are short */
    service_step_to(&s, &stream, SCHED_DECODE);
    for (size_t i = 0; i < N; i++) {
        asks[i] = question_of_words(&tiny, 61 + i, 0, i < N - 1 ? 250 : 300, 4);
        service_send_as(&s, &jobs[i], &asks[i], i < N - 1 ? 7 : 8);
    }
    do {
        service_step(&s, &stream);
        all = 0;
        for (size_t i = 0; i < N; i++) {
            sched_job_get_status(s.sched, jobs[i].job, &where[i]);
            all += where[i].done;
        }
    } while (all < 600);
    assert_true(10 * 2 * where[N - 1].done >= 8 * all);
    assert_true(10 * 2 * where[N - 1].done <= 12 * all);
    for (size_t i = 0; i < N; i++) {
        service_drop(&s, &jobs[i]);
        test_job_fini(&jobs[i]);
    }
    service_release(&s);
    service_drop(&s, &stream);
    test_job_fini(&stream);
    service_close(&s);
    for (size_t i = 0; i < N; i++)
        question_fini(&asks[i]);
    question_fini(&q);
}

/* A key that was alone for long owes nothing: it is not stopped until the new key has as much. */
static void past_service_is_no_debt(void **state)
{
    (void)state;
    service s;
    test_job old, fresh;
    sched_job_status before, after;
    question q = question_of_words(&tiny, 54, 0, 6, 1500);
    service_open_held(&s, &tiny, (sched_options){.parallel = 1, .context = CONTEXT, .threads = 1});
    service_send_as(&s, &old, &q, 7);
    service_step_to(&s, &old, SCHED_DECODE);
    run_steps(&s, &old, 100);
    sched_job_get_status(s.sched, old.job, &before);
    service_send_as(&s, &fresh, &q, 8);
    run_steps(&s, &old, 80);
    sched_job_get_status(s.sched, old.job, &after);
    const uint64_t of_old = after.generated - before.generated;
    sched_job_get_status(s.sched, fresh.job, &after);
    const uint64_t all = of_old + after.generated;
    assert_false(old.finished);
    assert_true(10 * 2 * of_old >= 8 * all);
    assert_true(10 * 2 * after.generated >= 6 * all); /* and it has prefilled its prompt */
    service_release(&s);
    service_drop(&s, &old);
    service_drop(&s, &fresh);
    test_job_fini(&old);
    test_job_fini(&fresh);
    service_close(&s);
    question_fini(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_streams_make_room_for_another_key),
        cmocka_unit_test(undivided_slots_rotate),
        cmocka_unit_test(single_key_is_not_limited),
        cmocka_unit_test(long_queue_does_not_delay_another_key),
        cmocka_unit_test(kv_positions_are_shared),
        cmocka_unit_test(prefill_rows_are_shared),
        cmocka_unit_test(past_service_is_no_debt),
    };
    rig_open(&tiny);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rig_close(&tiny);
    return failed;
}
