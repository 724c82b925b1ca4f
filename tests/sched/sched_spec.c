/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_spec.c - law L7 in the scheduler: with drafts of any length, alone and in batches, under
 * preemption and with drops inside steps, the output of every job equals its solo run without
 * drafts, log-probabilities included.
 */
#include "engine/engine_int.h"
#include "sched/sched_hold.h"
#include "support/scale.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

enum { RANDOM = 24, QUESTIONS = 36, CONTEXT = 1024 };

static rig tiny;
static question questions[QUESTIONS];
static test_output alone[QUESTIONS];

static uint64_t drafted(const sched_stats *f)
{
    return f->spec.drafted[SPEC_LOOKUP] + f->spec.drafted[SPEC_MODEL];
}

static uint64_t accepted(const sched_stats *f)
{
    return f->spec.accepted[SPEC_LOOKUP] + f->spec.accepted[SPEC_MODEL];
}

/* Runs all questions at once; job i has the limit own[i % n_own]. */
static void run_all(sched_options options, const int *own, size_t n_own, sched_stats *stats)
{
    service s;
    mote_error err;
    test_job *all = calloc(QUESTIONS, sizeof *all);
    uint64_t in_results[2] = {0, 0};
    options.context = CONTEXT;
    service_open(&s, &tiny, options);
    for (size_t i = 0; i < QUESTIONS; i++) {
        sched_job_options o = service_job(&s, &all[i], &questions[i]);
        o.client = i % 3;
        questions[i].answer.spec = own[i % n_own];
        must(service_submit(&s, &all[i], &o, &err), &err);
    }
    while (sched_busy(s.sched) > 0)
        service_collect(&s);
    service_collect(&s);
    for (size_t i = 0; i < QUESTIONS; i++) {
        assert_true(all[i].finished);
        same_as_solo(&all[i], &alone[i]);
        in_results[0] += all[i].result.answer.drafted_tokens;
        in_results[1] += all[i].result.answer.accepted_tokens;
        if (own[i % n_own] == SPEC_OFF)
            assert_int_equal(all[i].result.answer.drafted_tokens, 0);
        service_drop(&s, &all[i]);
        test_job_fini(&all[i]);
    }
    sched_read_stats(s.sched, stats);
    assert_int_equal(in_results[0], drafted(stats));
    assert_int_equal(in_results[1], accepted(stats));
    service_close(&s);
    free(all);
}

static void every_length_alone_and_in_batches(void **state)
{
    const int automatic = SPEC_AUTO;
    sched_stats f;
    (void)state;
    const int apart = test_is_short() ? 3 : 1; /* short: off, 2, 5, 8 */
    for (int length = SPEC_OFF; length <= SPEC_MAX_DRAFT; length += apart)
        for (uint32_t parallel = length % 3 == 1 ? 4 : 1; parallel <= 4; parallel += 3) {
            run_all((sched_options){.parallel = parallel, .spec = length, .threads = 1}, &automatic,
                    1, &f);
            printf("spec %d, %u streams: %llu drafted, %llu accepted, %llu steps\n", length,
                   parallel, (unsigned long long)drafted(&f), (unsigned long long)accepted(&f),
                   (unsigned long long)f.steps);
            if (length == SPEC_OFF)
                assert_int_equal(drafted(&f), 0);
            if (length > 0)
                assert_true(drafted(&f) > 50 && accepted(&f) > 5);
        }
}

/* The limits of requests count in a batch of jobs with different limits. */
static void every_job_has_its_own_limit(void **state)
{
    static const int own[] = {SPEC_OFF, 1, 8, SPEC_AUTO, 3};
    sched_stats f;
    (void)state;
    run_all((sched_options){.parallel = 5, .spec = 6, .threads = 2}, own, sizeof own / sizeof *own,
            &f);
    assert_true(drafted(&f) > 50);
}

/* Hardly more KV positions than one conversation needs. */
static void few_positions_preempt(void **state)
{
    const int automatic = SPEC_AUTO;
    sched_stats f;
    (void)state;
    run_all((sched_options){.parallel = 6, .spec = 8, .kv_tokens = CONTEXT, .threads = 1},
            &automatic, 1, &f);
    printf("%llu preempted, %llu drafted\n", (unsigned long long)f.preempted,
           (unsigned long long)drafted(&f));
}

/* Drafts of a fixed length: all steps of a stream but the last have one, so no step shows what
 * decoding costs alone. The prompt of another request is prefilled nevertheless. */
static void prefill_does_not_wait_for_drafts(void **state)
{
    service s;
    sched_stats f;
    test_job stream, prompt;
    (void)state;
    sched_options options = {.parallel = 1, .context = CONTEXT, .spec = 8, .threads = 1};
    question answers = question_of_words(&tiny, 3, 0, 4, 100);
    question asks = question_of_words(&tiny, 4, 0, 60, 2);
    service_open(&s, &tiny, options);
    service_send(&s, &stream, &answers);
    service_wait_finished(&s, &stream);
    sched_read_stats(s.sched, &f);
    assert_true(f.spec.steps - f.spec.drafted_steps <= 1);
    service_drop(&s, &stream);
    service_close(&s);
    test_job_fini(&stream);

    options.parallel = 2;
    service_open_held(&s, &tiny, options);
    service_send(&s, &stream, &answers);
    service_send(&s, &prompt, &asks);
    service_release(&s);
    service_wait_finished(&s, &prompt);
    service_wait_finished(&s, &stream);
    assert_true(prompt.result.ended < stream.result.ended);
    service_drop(&s, &stream);
    service_drop(&s, &prompt);
    service_close(&s);
    test_job_fini(&stream);
    test_job_fini(&prompt);
    question_fini(&answers);
    question_fini(&asks);
}

/* ---- drops inside steps ---- */

static struct {
    layer_hold hold;
    test_job *all;
    test_random random;
} inside;

/* The engine thread is stopped between two layers: drops a random job. */
static void drop_inside(service *s)
{
    if (!atomic_load(&inside.hold.stopped))
        return;
    test_job *a = &inside.all[test_random_below(&inside.random, QUESTIONS)];
    if (a->job != NULL && !a->finished)
        service_drop(s, a);
    hold_release(&inside.hold, -1);
}

static void drops_inside_steps(void **state)
{
    service s;
    sched_stats f;
    test_job *all = calloc(QUESTIONS, sizeof *all);
    (void)state;
    service_open(&s, &tiny,
                 (sched_options){.parallel = 6, .context = CONTEXT, .spec = 5, .threads = 2});
    hold_init(&inside.hold, &s);
    atomic_store(&inside.hold.one_in, 10);
    inside.all = all;
    s.after_collect = drop_inside;
    for (size_t i = 0; i < QUESTIONS; i++)
        service_send(&s, &all[i], &questions[i]);
    while (sched_busy(s.sched) > 0)
        service_collect(&s);
    service_collect(&s);
    hold_release_for_good(&inside.hold);
    sched_read_stats(s.sched, &f);
    for (size_t i = 0; i < QUESTIONS; i++) {
        service_drop(&s, &all[i]);
        if (all[i].finished)
            same_as_solo(&all[i], &alone[i]);
        else if (all[i].output.events.n > 0)
            assert_memory_equal(all[i].output.events.p, alone[i].events.p, all[i].output.events.n);
        test_job_fini(&all[i]);
    }
    service_close(&s);
    hold_fini(&inside.hold);
    free(all);
    printf("%llu jobs aborted inside a step\n", (unsigned long long)f.aborted_inside);
    assert_true(f.aborted_inside > 0 && drafted(&f) > 0);
}

/* ---- canceled steps ---- */

static struct {
    mote_engine *engine;
    test_random random;
    uint64_t canceled;
} passes;

/* On the engine thread, at the start of a pass: cancels the step, as sched_free() does. */
static void cancel_pass(void *ctx, const char *what, int layer, const float *rows, size_t n_rows,
                        size_t n_cols)
{
    (void)ctx, (void)layer, (void)rows, (void)n_rows, (void)n_cols;
    if (strcmp(what, "embed") != 0 || test_random_below(&passes.random, 4) != 0)
        return;
    mote_cancel(passes.engine);
    passes.canceled++;
}

/* A step of more rows than the batch has several passes. If it is canceled, a session may hold a
 * part of its draft. Passes of up to 16 rows end before the step does, longer ones are undone. */
static void canceled_steps(void **state)
{
    static const uint32_t batches[] = {4, 24};
    (void)state;
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
        service s;
        sched_stats f;
        test_job *all = calloc(QUESTIONS, sizeof *all);
        service_open(&s, &tiny,
                     (sched_options){.parallel = 6, .context = CONTEXT, .spec = 8, .threads = 1});
        passes.engine = s.sched->engine;
        passes.canceled = 0;
        passes.engine->options.batch = batches[b];
        engine_set_tap(passes.engine, cancel_pass, NULL);
        for (size_t i = 0; i < QUESTIONS; i++)
            service_send(&s, &all[i], &questions[i]);
        while (sched_busy(s.sched) > 0)
            service_collect(&s);
        service_collect(&s);
        sched_read_stats(s.sched, &f);
        for (size_t i = 0; i < QUESTIONS; i++) {
            same_as_solo(&all[i], &alone[i]);
            service_drop(&s, &all[i]);
            test_job_fini(&all[i]);
        }
        printf("batch %u: %llu steps canceled, %llu drafted\n", batches[b],
               (unsigned long long)passes.canceled, (unsigned long long)drafted(&f));
        assert_true(passes.canceled > 20 && drafted(&f) > 50);
        service_close(&s);
        free(all);
    }
}

/* The clock of inter-token latency: one entry per token, and their sum is the time of decoding. */
static void every_token_is_counted(void **state)
{
    service s;
    sched_stats f;
    test_job job;
    (void)state;
    question q = question_of_words(&tiny, 3, 0, 30, 100);
    service_open(&s, &tiny,
                 (sched_options){.parallel = 1, .context = CONTEXT, .spec = 8, .threads = 1});
    service_send(&s, &job, &q);
    service_wait_finished(&s, &job);
    sched_read_stats(s.sched, &f);
    assert_int_equal(job.result.answer.answer_tokens, 100);
    assert_int_equal(f.inter_token_seconds.n, 99);
    assert_true(f.steps < 100 && accepted(&f) > 0);
    service_drop(&s, &job);
    service_close(&s);
    test_job_fini(&job);
    question_fini(&q);
}

/* Random requests, and long answers, which repeat themselves: greedy ones and sampled ones. */
static void make_questions(void)
{
    test_random random = {.state = 19};
    for (uint32_t i = 0; i < QUESTIONS; i++) {
        question *q = &questions[i];
        if (i < RANDOM) {
            question_random(q, &tiny, &random);
        } else {
            *q = question_of_words(&tiny, i, 4 * (i % 2), 12 + i, 70 + i);
            q->answer.sampling.temperature = (float)(i % 3) * 0.2f;
            q->answer.sampling.seed = i;
            q->logprobs = i % 4 == 0;
            q->answer.sampling.top_logprobs = i % 8 == 0 ? 5 : 0;
        }
        rig_solo(&tiny, q, CONTEXT, &alone[i]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_alone_and_in_batches),
        cmocka_unit_test(every_job_has_its_own_limit),
        cmocka_unit_test(few_positions_preempt),
        cmocka_unit_test(prefill_does_not_wait_for_drafts),
        cmocka_unit_test(drops_inside_steps),
        cmocka_unit_test(canceled_steps),
        cmocka_unit_test(every_token_is_counted),
    };
    if (argc > 1) /* one of the tests */
        cmocka_set_test_filter(argv[1]);
    rig_open(&tiny);
    make_questions();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < QUESTIONS; i++) {
        question_fini(&questions[i]);
        output_fini(&alone[i]);
    }
    rig_close(&tiny);
    return failed;
}
