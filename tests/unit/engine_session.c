/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_session.c - what mote.h says about sessions, sentence by sentence.
 *
 * tests/golden and tests/law check results; this file checks errors, limits, kept and dropped
 * state.
 */
#include "law/rig.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static mote_model *model;
static mote_model_info info;
static mote_token tokens[512];

static mote_engine *engine_of(uint32_t sessions, uint64_t context, uint32_t kept)
{
    return rig_engine(model, &(mote_engine_options){.threads = 1,
                                                    .sessions = sessions,
                                                    .positions = sessions * context,
                                                    .kept_states = kept,
                                                    .logits_rows = 32});
}

static mote_session *session_at(mote_engine *engine, size_t n)
{
    mote_session *session = rig_session(engine);
    if (n > 0)
        rig_feed(engine, session, tokens, n, MOTE_LOGITS_LAST);
    return session;
}

static mote_status feed(mote_engine *engine, mote_session *session, size_t n, mote_logits want)
{
    mote_work work = {.session = session, .tokens = tokens, .n = n, .want = want};
    return mote_step(engine, &work, 1, NULL);
}

/* ---- rewind and keep ---- */

static void rewind_says_where_it_stands(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_of(1, 256, 2);
    mote_session *s = session_at(engine, 50);
    assert_int_equal(mote_session_rewind(s, 60), 50); /* nothing to drop */
    assert_int_equal(mote_session_rewind(s, 50), 50);
    assert_int_equal(mote_session_rewind(s, 40), 40); /* no multiple of 32 crossed */
    assert_int_equal(mote_session_length(s), 40);
    assert_int_equal(mote_session_rewind(s, 33), 32); /* 17 back from 50: the boundary */
    assert_int_equal(mote_session_rewind(s, 31), 0);  /* nothing was kept before it */
    assert_int_equal(mote_session_length(s), 0);
    mote_session_free(s);
    mote_engine_free(engine);
}

static void rewind_returns_to_what_was_kept(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_of(1, 256, 2);
    mote_session *s = session_at(engine, 40);
    uint64_t pos;
    assert_int_equal(mote_session_keep(s, &pos, NULL), MOTE_OK);
    assert_int_equal(pos, 32);
    rig_feed(engine, s, tokens + 40, 100, MOTE_LOGITS_NONE); /* at 140 */
    assert_int_equal(mote_session_keep(s, &pos, NULL), MOTE_OK);
    assert_int_equal(pos, 128);
    assert_int_equal(mote_session_rewind(s, 127), 32);
    rig_feed(engine, s, tokens + 32, 70, MOTE_LOGITS_NONE); /* at 102: the mark at 128 is gone */
    assert_int_equal(mote_session_keep(s, &pos, NULL), MOTE_OK);
    assert_int_equal(pos, 96);
    mote_session_free(s);
    mote_engine_free(engine);
}

static void keep_runs_out_and_comes_back(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_of(2, 256, 2);
    mote_session *a = session_at(engine, 40), *b = session_at(engine, 33);
    mote_error err = {0};
    assert_int_equal(mote_session_keep(a, NULL, &err), MOTE_OK);
    assert_int_equal(mote_session_keep(a, NULL, &err), MOTE_OK); /* the same boundary again */
    assert_int_equal(mote_session_keep(b, NULL, &err), MOTE_OK);
    rig_feed(engine, a, tokens + 40, 30, MOTE_LOGITS_NONE);
    assert_int_equal(mote_session_keep(a, NULL, &err), MOTE_E_FULL);
    assert_int_equal(err.status, MOTE_E_FULL);
    assert_int_equal(mote_session_length(a), 70);
    mote_session_free(b);
    assert_int_equal(mote_session_keep(a, NULL, &err), MOTE_OK);
    mote_session_free(a);
    mote_engine_free(engine);
}

/* ---- forks ---- */

static void fork_is_a_second_sequence(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_of(3, 256, 0);
    mote_session *a = session_at(engine, 70), *b, *c, *d;
    assert_int_equal(mote_session_fork(&b, a, NULL), MOTE_OK);
    assert_int_equal(mote_session_length(b), 70);
    assert_int_equal(mote_session_context(b), mote_session_context(a));
    assert_memory_equal(mote_session_tokens(b), tokens, 70 * sizeof *tokens);
    assert_null(mote_session_logits(b, 0));
    assert_int_equal(mote_session_rewind(b, 66), 66);
    assert_int_equal(mote_session_length(a), 70);
    assert_int_equal(mote_session_fork(&c, b, NULL), MOTE_OK);
    mote_error err = {0};
    assert_int_equal(mote_session_fork(&d, a, &err), MOTE_E_MEMORY); /* the engine has three */
    assert_null(d);
    mote_session_free(a);
    mote_session_free(b);
    assert_int_equal(mote_session_length(c), 66);
    assert_int_equal(feed(engine, c, 9, MOTE_LOGITS_LAST), MOTE_OK);
    mote_session_free(c);
    mote_engine_free(engine);
}

/* ---- limits ---- */

static void full_leaves_everything_as_it_was(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_of(2, 100, 0);
    mote_session *a = session_at(engine, 60), *b = session_at(engine, 90);
    float *before = calloc(info.vocabulary, sizeof *before);
    assert_non_null(before);
    mote_work ok = {.session = a, .tokens = tokens, .n = 5};
    assert_int_equal(mote_step(engine, &ok, 1, NULL), MOTE_OK);
    memcpy(before, mote_session_logits(a, 0), info.vocabulary * sizeof *before);
    mote_error err = {0};
    mote_work work[] = {{.session = a, .tokens = tokens, .n = 1},
                        {.session = b, .tokens = tokens, .n = 11}};
    assert_int_equal(mote_step(engine, work, 2, &err), MOTE_E_FULL);
    assert_int_equal(mote_session_length(a), 65);
    assert_int_equal(mote_session_length(b), 90);
    /* A rejected step keeps the logits of the last one. */
    assert_non_null(mote_session_logits(a, 0));
    assert_memory_equal(mote_session_logits(a, 0), before, info.vocabulary * sizeof *before);
    work[1].n = 10;
    assert_int_equal(mote_step(engine, work, 2, &err), MOTE_OK);
    assert_int_equal(mote_session_length(b), 100);
    mote_session_free(a);
    mote_session_free(b);
    free(before);
    mote_engine_free(engine);
}

static void sessions_and_positions_run_out(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_of(2, 128, 0);
    mote_session *a, *b, *c;
    mote_error err = {0};
    assert_int_equal(mote_session_context(a = rig_session(engine)), 128);
    assert_int_equal(mote_session_new(&b, engine, &(mote_session_options){.context = 1024}, &err),
                     MOTE_E_MEMORY);
    assert_null(b);
    assert_int_equal(mote_session_new(&b, engine, &(mote_session_options){.context = 100}, &err),
                     MOTE_OK);
    assert_int_equal(mote_session_context(b), 100);
    assert_int_equal(mote_session_new(&c, engine, NULL, &err), MOTE_E_MEMORY);
    assert_null(c);
    mote_session_free(a);
    mote_session_free(b);
    mote_session_free(NULL);
    /* One session may have all positions. */
    assert_int_equal(mote_session_new(&a, engine, &(mote_session_options){.context = 256}, &err),
                     MOTE_OK);
    mote_session_free(a);
    mote_engine_free(engine);
}

/* ---- cancel and logits ---- */

/* Beyond the trained context RoPE angles have no meaning; YaRN extends it. */
static void context_is_at_most_the_trained_one(void **unused)
{
    (void)unused;
    const uint64_t trained = info.context;
    mote_error err;
    mote_session *session;
    for (int yarn = 0; yarn <= 4; yarn += 4) {
        const uint64_t most = trained * (yarn > 0 ? 4 : 1);
        mote_engine *engine = rig_engine(
            model, &(mote_engine_options){
                       .threads = 1, .sessions = 1, .positions = 5 * trained, .yarn = (float)yarn});
        assert_int_equal(
            mote_session_new(&session, engine, &(mote_session_options){.context = most + 1}, &err),
            MOTE_E_ARG);
        assert_non_null(strstr(err.text, "YaRN"));
        MUST(mote_session_new(&session, engine, &(mote_session_options){.context = most}, &err),
             &err);
        mote_session_free(session);
        MUST(mote_session_new(&session, engine, NULL, &err), &err);
        assert_int_equal(mote_session_context(session), most);
        mote_session_free(session);
        mote_engine_free(engine);
    }
}

static void cancel_stops_at_a_whole_pass(void **unused)
{
    (void)unused;
    mote_engine *engine = rig_engine(
        model, &(mote_engine_options){.threads = 1, .sessions = 1, .positions = 256, .batch = 16});
    mote_session *s = rig_session(engine);
    mote_cancel(engine);
    assert_int_equal(feed(engine, s, 50, MOTE_LOGITS_LAST), MOTE_E_CANCELED);
    assert_int_equal(mote_session_length(s) % 16, 0);
    assert_true(mote_session_length(s) < 50);
    assert_null(mote_session_logits(s, 0));
    assert_int_equal(feed(engine, s, 50, MOTE_LOGITS_LAST), MOTE_OK); /* the cancel is consumed */
    assert_non_null(mote_session_logits(s, 0));
    mote_session_free(s);
    mote_engine_free(engine);
}

static void *cancel_soon(void *ctx)
{
    struct timespec moment = {.tv_nsec = 5 * 1000 * 1000};
    nanosleep(&moment, NULL);
    mote_cancel(ctx);
    return NULL;
}

/* A session with a long step canceled by another thread. On a busy machine the cancel can arrive
 * after the step; then it stops the next step, and the test tries again. */
static mote_session *cancel_midway(mote_engine *engine, const mote_token *many, size_t n)
{
    for (int round = 0; round < 20; round++) {
        mote_session *s = rig_session(engine);
        const mote_work work = {.session = s, .tokens = many, .n = n},
                        last = {.session = s, .tokens = many, .n = 1};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, cancel_soon, engine), 0);
        const mote_status status = mote_step(engine, &work, 1, NULL);
        assert_int_equal(pthread_join(thread, NULL), 0);
        printf("%s after %llu of %zu tokens\n", mote_status_name(status),
               (unsigned long long)mote_session_length(s), n);
        if (status == MOTE_E_CANCELED)
            return s;
        assert_int_equal(status, MOTE_OK);
        assert_int_equal(mote_step(engine, &last, 1, NULL), MOTE_E_CANCELED);
        mote_session_free(s);
    }
    return NULL;
}

/* Cancel inside a long step: only whole passes were appended, and the session continues with the
 * same bits. */
static void cancel_from_another_thread(void **unused)
{
    (void)unused;
    enum { N = 3000 };
    mote_engine_options options = {
        .threads = 2, .sessions = 2, .positions = 2 * (N + 1), .batch = 16};
    mote_engine *engine = rig_engine(model, &options);
    static mote_token many[N];
    for (size_t i = 0; i < N; i++)
        many[i] = tokens[i % 512];
    mote_session *s = cancel_midway(engine, many, N), *plain = rig_session(engine);
    assert_non_null(s);
    const uint64_t length = mote_session_length(s);
    assert_true(length < N && length % 16 == 0);
    rig_feed(engine, plain, many, length + 1, MOTE_LOGITS_LAST);
    float *expected = calloc(info.vocabulary, sizeof *expected);
    assert_non_null(expected);
    memcpy(expected, mote_session_logits(plain, 0), info.vocabulary * sizeof *expected);
    rig_feed(engine, s, many + length, 1, MOTE_LOGITS_LAST);
    assert_memory_equal(mote_session_logits(s, 0), expected, info.vocabulary * sizeof *expected);
    free(expected);
    mote_session_free(s);
    mote_session_free(plain);
    mote_engine_free(engine);
}

static void logits_are_those_requested(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_of(3, 128, 0);
    mote_session *a = rig_session(engine), *b = rig_session(engine), *c = rig_session(engine);
    assert_null(mote_session_logits(a, 0));
    mote_work work[] = {{.session = a, .tokens = tokens, .n = 7, .want = MOTE_LOGITS_ALL},
                        {.session = b, .tokens = tokens, .n = 7, .want = MOTE_LOGITS_LAST},
                        {.session = c, .tokens = tokens, .n = 7, .want = MOTE_LOGITS_NONE}};
    assert_int_equal(mote_step(engine, work, 3, NULL), MOTE_OK);
    size_t bytes = info.vocabulary * sizeof(float);
    assert_memory_equal(mote_session_logits(a, 6), mote_session_logits(b, 0), bytes);
    assert_null(mote_session_logits(a, 7));
    assert_null(mote_session_logits(b, 1));
    assert_null(mote_session_logits(c, 0));
    assert_int_equal(feed(engine, c, 1, MOTE_LOGITS_LAST), MOTE_OK);
    assert_null(mote_session_logits(a, 0)); /* valid until the next step only */
    mote_session_free(a);
    mote_session_free(b);
    mote_session_free(c);
    mote_engine_free(engine);
}

/* ---- invalid arguments ---- */

static void wrong_steps_are_refused(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_of(2, 128, 0), *other = engine_of(1, 128, 0);
    mote_session *a = session_at(engine, 3), *b = rig_session(engine), *x = rig_session(other);
    const mote_token beyond[] = {1, (mote_token)info.vocabulary}, negative[] = {-1};
    const mote_work bad[][2] = {
        {{.session = a, .tokens = tokens, .n = 1, .want = MOTE_LOGITS_LAST},
         {.session = a, .tokens = tokens, .n = 1, .want = MOTE_LOGITS_LAST}},
        {{.session = a, .tokens = tokens, .n = 1, .want = MOTE_LOGITS_LAST},
         {.session = x, .tokens = tokens, .n = 1, .want = MOTE_LOGITS_LAST}},
        {{.session = a, .tokens = tokens, .n = 1, .want = MOTE_LOGITS_LAST},
         {.session = NULL, .tokens = tokens, .n = 1, .want = MOTE_LOGITS_LAST}},
        {{.session = a, .tokens = tokens, .n = 1, .want = MOTE_LOGITS_LAST},
         {.session = b, .tokens = tokens, .n = 0, .want = MOTE_LOGITS_LAST}},
        {{.session = a, .tokens = tokens, .n = 1, .want = MOTE_LOGITS_LAST},
         {.session = b, .tokens = NULL, .n = 1, .want = MOTE_LOGITS_LAST}},
        {{.session = a, .tokens = tokens, .n = 1, .want = MOTE_LOGITS_LAST},
         {.session = b, .tokens = beyond, .n = 2, .want = MOTE_LOGITS_LAST}},
        {{.session = a, .tokens = tokens, .n = 1, .want = MOTE_LOGITS_LAST},
         {.session = b, .tokens = negative, .n = 1, .want = MOTE_LOGITS_LAST}},
        {{.session = a, .tokens = tokens, .n = 1, .want = MOTE_LOGITS_LAST},
         {.session = b, .tokens = tokens, .n = 1, .want = (mote_logits)9}},
        {{.session = a, .tokens = tokens, .n = 1, .want = MOTE_LOGITS_LAST},
         {.session = b, .tokens = tokens, .n = 40, .want = MOTE_LOGITS_ALL}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mote_error err = {0};
        assert_int_equal(mote_step(engine, bad[i], 2, &err), MOTE_E_ARG);
        assert_int_equal(err.status, MOTE_E_ARG);
        assert_int_equal(mote_session_length(a), 3);
        assert_int_equal(mote_session_length(b), 0);
    }
    assert_int_equal(mote_step(engine, NULL, 0, NULL), MOTE_OK); /* nothing to do */
    assert_int_equal(mote_step(engine, NULL, 1, NULL), MOTE_E_ARG);
    assert_int_equal(mote_step(NULL, NULL, 0, NULL), MOTE_E_ARG);
    mote_session_free(a);
    mote_session_free(b);
    mote_session_free(x);
    mote_engine_free(engine);
    mote_engine_free(other);
}

static void wrong_options_are_refused(void **unused)
{
    (void)unused;
    const mote_engine_options bad[] = {
        {.yarn = 0.5f},
        {.yarn = 4.5f},
        {.yarn = NAN},
        {.yarn = -2},
        {.kv = (mote_kv)7},
        {.pin = (mote_pin)3},
        {.threads = 1u << 20},
        {.sessions = 1u << 20},
        {.batch = 1u << 20},
        {.positions = 1ull << 40},
        {.logits_rows = 1u << 30},
        {.kept_states = 1u << 30},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mote_error err = {0};
        mote_engine *engine;
        mote_memory memory;
        assert_int_equal(mote_engine_new(&engine, model, &bad[i], &err), MOTE_E_ARG);
        assert_null(engine);
        assert_int_equal(mote_engine_plan(model, &bad[i], &memory, &err), MOTE_E_ARG);
    }
    mote_engine *engine;
    mote_model *none;
    mote_session *session;
    assert_int_equal(mote_engine_new(&engine, NULL, NULL, NULL), MOTE_E_ARG);
    assert_int_equal(mote_engine_new(NULL, model, NULL, NULL), MOTE_E_ARG);
    assert_int_equal(mote_model_open(&none, NULL, NULL, NULL), MOTE_E_ARG);
    assert_null(none);
    assert_int_equal(mote_model_open(&none, "/does/not/exist.gguf", NULL, NULL), MOTE_E_IO);
    assert_int_equal(mote_session_new(&session, NULL, NULL, NULL), MOTE_E_ARG);
    assert_int_equal(mote_session_fork(&session, NULL, NULL), MOTE_E_ARG);
    assert_null(session);
    mote_engine_free(NULL);
    mote_model_close(NULL);
}

static void sampling_needs_a_row(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_of(1, 128, 0);
    mote_session *s = rig_session(engine);
    mote_choice choice;
    mote_error err = {0};
    assert_int_equal(mote_sample(s, 0, NULL, &choice, &err), MOTE_E_ARG);
    rig_feed(engine, s, tokens, 4, MOTE_LOGITS_ALL);
    assert_int_equal(mote_sample(s, 4, NULL, &choice, &err), MOTE_E_ARG);
    assert_int_equal(mote_sample(s, 3, NULL, &choice, &err), MOTE_OK);
    assert_int_equal(choice.token, (int)rig_argmax(mote_session_logits(s, 3), info.tokens));
    mote_sampling hot = {.temperature = 1, .seed = 3};
    mote_choice first, second;
    assert_int_equal(mote_sample(s, 3, &hot, &first, &err), MOTE_OK);
    assert_int_equal(mote_sample(s, 3, &hot, &second, &err), MOTE_OK);
    assert_int_equal(first.token, second.token); /* a pure function of its inputs */
    mote_session_free(s);
    mote_engine_free(engine);
}

static int open_model(void **unused)
{
    (void)unused;
    const char *path = rig_model_path("r2-gqa4-kv2-tied");
    if (path == NULL)
        return -1;
    model = rig_open(path, MOTE_ISA_BEST);
    mote_model_describe(model, &info);
    rig_random r = {.seed = 2};
    rig_random_tokens(&r, info.tokens, tokens, sizeof tokens / sizeof *tokens);
    return 0;
}

static int close_model(void **unused)
{
    (void)unused;
    mote_model_close(model);
    mem_stats left = mem_count();
    return left.blocks == 0 && left.bytes == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rewind_says_where_it_stands),
        cmocka_unit_test(rewind_returns_to_what_was_kept),
        cmocka_unit_test(keep_runs_out_and_comes_back),
        cmocka_unit_test(fork_is_a_second_sequence),
        cmocka_unit_test(full_leaves_everything_as_it_was),
        cmocka_unit_test(sessions_and_positions_run_out),
        cmocka_unit_test(context_is_at_most_the_trained_one),
        cmocka_unit_test(cancel_stops_at_a_whole_pass),
        cmocka_unit_test(cancel_from_another_thread),
        cmocka_unit_test(logits_are_those_requested),
        cmocka_unit_test(wrong_steps_are_refused),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(sampling_needs_a_row),
    };
    return cmocka_run_group_tests_name("engine_session", tests, open_model, close_model);
}
