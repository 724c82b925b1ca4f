/* SPDX-License-Identifier: Apache-2.0 */
/* sched_scores.c - embeddings and scores equal the engine's, in a batch and with a filled cache. */
#include "sched/sched_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

enum { CONTEXT = 2048 };

static rig tiny;

static mote_session *engine_session(mote_engine **engine)
{
    mote_session *session;
    mote_error err;
    const mote_engine_options options = {
        .threads = 1, .positions = CONTEXT, .logits_rows = CONTEXT};
    must(mote_engine_new(engine, tiny.model, &options, &err), &err);
    must(mote_session_new(&session, *engine, NULL, &err), &err);
    return session;
}

/* A session with the logits of all positions of the prompt. */
static mote_session *scored_session(mote_engine **engine, const question *q)
{
    mote_error err;
    mote_session *session = engine_session(engine);
    const mote_work work = {
        .session = session, .tokens = q->prompt.ids, .n = q->prompt.n, .want = MOTE_LOGITS_ALL};
    must(mote_step(*engine, &work, 1, &err), &err);
    return session;
}

static void embeddings_equal_the_engine(void **state)
{
    (void)state;
    service s;
    test_job a, other_job;
    mote_error err;
    mote_engine *engine;
    question q = question_of_words(&tiny, 11, 30, 40, 1),
             other = question_of_words(&tiny, 12, 30, 10, 60);
    service_open(&s, &tiny, (sched_options){.parallel = 2, .context = CONTEXT, .threads = 2});
    mote_session *session = engine_session(&engine);
    const mote_work work = {
        .session = session, .tokens = q.prompt.ids, .n = q.prompt.n, .want = MOTE_HIDDEN_LAST};
    must(mote_step(engine, &work, 1, &err), &err);
    size_t n;
    const float *wanted = mote_session_hidden(session, &n);
    for (int round = 0; round < 2; round++) {
        service_send(&s, &other_job, &other);
        sched_job_options o = service_job(&s, &a, &q);
        o.kind = SCHED_EMBED;
        must(service_submit(&s, &a, &o, &err), &err);
        service_wait_finished(&s, &a);
        assert_int_equal(a.output.status, MOTE_OK);
        assert_int_equal(a.result.n_embedding, n);
        assert_memory_equal(a.result.embedding, wanted, n * sizeof *wanted);
        service_wait_finished(&s, &other_job);
        service_drop(&s, &a);
        service_drop(&s, &other_job);
        test_job_fini(&a);
        test_job_fini(&other_job);
    }
    mote_session_free(session);
    mote_engine_free(engine);
    service_close(&s);
    question_fini(&q);
    question_fini(&other);
}

/* A mean embedding equals the engine's sum, in a batch, in chunks, and with the same prompt in the
 * cache. */
static void mean_embeddings_equal_the_engine(void **state)
{
    (void)state;
    service s;
    test_job a, other_job;
    mote_error err;
    mote_engine *engine;
    mote_model_info info;
    mote_model_describe(tiny.model, &info);
    question q = question_of_words(&tiny, 14, 30, 300, 1),
             other = question_of_words(&tiny, 12, 30, 10, 60);
    service_open(&s, &tiny, (sched_options){.parallel = 2, .context = CONTEXT, .threads = 2});
    mote_session *session = engine_session(&engine);
    double *sum = calloc(info.embedding, sizeof *sum);
    const mote_work work = {.session = session,
                            .tokens = q.prompt.ids,
                            .n = q.prompt.n,
                            .want = MOTE_HIDDEN_SUM,
                            .sum = sum};
    must(mote_step(engine, &work, 1, &err), &err);
    for (int round = 0; round < 3; round++) {
        service_send(&s, &other_job, round == 1 ? &q : &other);
        sched_job_options o = service_job(&s, &a, &q);
        o.kind = SCHED_EMBED;
        o.mean = true;
        must(service_submit(&s, &a, &o, &err), &err);
        service_wait_finished(&s, &a);
        assert_int_equal(a.output.status, MOTE_OK);
        assert_int_equal(a.result.n_embedding, info.embedding);
        for (uint32_t i = 0; i < info.embedding; i++) {
            const float wanted = (float)(sum[i] / (double)q.prompt.n);
            assert_memory_equal(&a.result.embedding[i], &wanted, sizeof wanted);
        }
        service_wait_finished(&s, &other_job);
        service_drop(&s, &a);
        service_drop(&s, &other_job);
        test_job_fini(&a);
        test_job_fini(&other_job);
    }
    free(sum);
    mote_session_free(session);
    mote_engine_free(engine);
    service_close(&s);
    question_fini(&q);
    question_fini(&other);
}

static float logprob_of(const mote_session *session, size_t row, mote_token token, uint32_t words)
{
    mote_choice choice;
    mote_error err;
    uint32_t *only = calloc(words, sizeof *only);
    only[token / 32] = UINT32_C(1) << token % 32;
    must(mote_sample(session, row, &(mote_sampling){.allowed = only}, &choice, &err), &err);
    free(only);
    return choice.logprob;
}

/* Compares the scores of the tokens from `from` on. */
static void expect_scores(const test_job *a, const question *q, const mote_session *session,
                          size_t from, uint32_t words)
{
    assert_int_equal(a->output.status, MOTE_OK);
    assert_int_equal(a->result.n_scores, q->prompt.n - from);
    for (size_t i = 0; i < a->result.n_scores; i++) {
        const mote_choice *score = &a->result.scores[i];
        const mote_token token = q->prompt.ids[from + i];
        const float wanted = logprob_of(session, from + i - 1, token, words);
        assert_int_equal(score->token, token);
        assert_memory_equal(&score->logprob, &wanted, sizeof wanted);
        assert_int_equal(score->n_top, 2);
    }
}

static void scores_equal_the_engine(void **state)
{
    (void)state;
    service s;
    test_job a;
    mote_error err;
    mote_engine *engine;
    mote_model_info info;
    mote_model_describe(tiny.model, &info);
    question q = question_of_words(&tiny, 13, 0, 30, 1);
    q.answer.sampling.top_logprobs = 2;
    const size_t n = q.prompt.n; /* the last two reuse as much as possible */
    const size_t froms[] = {0, 1, 2, 33, 40, n - 5, n - 1, n - 1};
    service_open(&s, &tiny, (sched_options){.parallel = 2, .context = CONTEXT, .threads = 1});
    mote_session *session = scored_session(&engine, &q);
    for (size_t i = 0; i < sizeof froms / sizeof *froms; i++) {
        sched_job_options o = service_job(&s, &a, &q);
        o.kind = SCHED_SCORE;
        o.score_from = froms[i];
        must(service_submit(&s, &a, &o, &err), &err);
        service_wait_finished(&s, &a);
        expect_scores(&a, &q, session, froms[i] > 0 ? froms[i] : 1, info.vocabulary / 32 + 1);
        service_drop(&s, &a);
        test_job_fini(&a);
    }
    sched_job_options o = service_job(&s, &a, &q);
    o.kind = SCHED_SCORE;
    o.score_from = q.prompt.n;
    assert_int_equal(service_submit(&s, &a, &o, &err), MOTE_E_ARG);
    mote_session_free(session);
    mote_engine_free(engine);
    service_close(&s);
    question_fini(&q);
}

/* A preempted job scores its tokens again and reports each once. */
static void preempted_scores_are_counted_once(void **state)
{
    (void)state;
    enum { ROOM = 1024 };
    service s;
    test_job older, younger;
    mote_error err;
    mote_engine *engine;
    mote_model_info info;
    mote_model_describe(tiny.model, &info);
    question first = question_of_words(&tiny, 20, 0, 10, 700),
             second = question_of_words(&tiny, 21, 0, 155, 1);
    second.answer.sampling.top_logprobs = 2;
    mote_session *session = scored_session(&engine, &second);
    service_open_held(&s, &tiny, (sched_options){.parallel = 2, .kv_tokens = ROOM, .threads = 1});
    service_send(&s, &older, &first);
    sched_job_options o = service_job(&s, &younger, &second);
    o.kind = SCHED_SCORE;
    must(service_submit(&s, &younger, &o, &err), &err);
    service_release(&s);
    service_wait_finished(&s, &older);
    service_wait_finished(&s, &younger);
    assert_true(younger.result.preempted > 0);
    expect_scores(&younger, &second, session, 1, info.vocabulary / 32 + 1);
    service_drop(&s, &older);
    service_drop(&s, &younger);
    test_job_fini(&older);
    test_job_fini(&younger);
    mote_session_free(session);
    mote_engine_free(engine);
    service_close(&s);
    question_fini(&first);
    question_fini(&second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeddings_equal_the_engine),
        cmocka_unit_test(mean_embeddings_equal_the_engine),
        cmocka_unit_test(scores_equal_the_engine),
        cmocka_unit_test(preempted_scores_are_counted_once),
    };
    rig_open(&tiny);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rig_close(&tiny);
    return failed;
}
