/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_cancel.c - a pass that is given up between two layers leaves no trace.
 *
 * The cancel comes from a tap, so each of the layers is tried. Where the sessions stand
 * then is what mote.h says, blocks are back in their pools, and what is read again
 * has the bits of a run that nobody disturbed.
 */
#include "law/rig.h"

#include "base/mem.h"
#include "engine/engine_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

enum { LONG = 100, ALL = 256 };

static mote_model *model;
static mote_token tokens[ALL];

/* ---- giving up ---- */

typedef struct canceler {
    mote_engine *engine;
    uint32_t left; /* taps before the one that cancels */
} canceler;

static void cancel_at_tap(void *ctx, const char *what, int layer, const float *rows, size_t n_rows,
                          size_t n_cols)
{
    (void)what, (void)layer, (void)rows, (void)n_rows, (void)n_cols;
    canceler *c = ctx;
    if (c->left-- == 0)
        mote_cancel(c->engine);
}

/* The step is canceled before layer `layer` of its first pass. */
static mote_status step_until(mote_engine *engine, const mote_work *work, size_t n, uint32_t layer)
{
    canceler c = {engine, layer};
    engine_set_tap(engine, cancel_at_tap, &c);
    const mote_status status = mote_step(engine, work, n, NULL);
    engine_set_tap(engine, NULL, NULL);
    return status;
}

static mote_work next_tokens(mote_session *s, size_t n)
{
    return (mote_work){.session = s, .tokens = tokens + mote_session_length(s), .n = n};
}

/* Reads on up to `end` and compares the logits there with those of `plain`, which has read all of
 * it at once. */
static void goes_on_to(mote_session *s, uint64_t end, const mote_session *plain)
{
    const mote_work rest = next_tokens(s, (size_t)(end - mote_session_length(s)));
    assert_int_equal(mote_step(s->engine, &rest, 1, NULL), MOTE_OK);
    assert_memory_equal(mote_session_logits(s, 0), mote_session_logits(plain, 0),
                        model->hp.n_vocab * sizeof(float));
}

static mote_session *plain_session(mote_engine *alone, size_t n)
{
    mote_session *s = rig_session(alone);
    rig_feed(alone, s, tokens, n, MOTE_LOGITS_LAST);
    return s;
}

static mote_engine *engine_of(uint32_t sessions, uint32_t kept)
{
    return rig_engine(model, &(mote_engine_options){.threads = 2,
                                                    .sessions = sessions,
                                                    .positions = (uint64_t)sessions * ALL,
                                                    .kept_states = kept});
}

/* ---- tests ---- */

/* A session that has read `before` tokens, kept its state after `keep_at` of them if that is not
 * 0, and gives up a pass of LONG. */
typedef struct one_case {
    uint32_t kept_states; /* 1 more than is used: a block to spare */
    size_t before, keep_at;
    uint64_t stands; /* in the end */
} one_case;

static void give_up_one(const one_case *c, mote_engine *alone, uint32_t layer)
{
    mote_engine *engine = engine_of(1, c->kept_states);
    mote_session *s = rig_session(engine), *plain = plain_session(alone, c->before + LONG);
    if (c->keep_at > 0) {
        rig_feed(engine, s, tokens, c->keep_at, MOTE_LOGITS_LAST);
        MUST(mote_session_keep(s, NULL, NULL), NULL);
    }
    if (c->before > c->keep_at)
        rig_feed(engine, s, tokens + c->keep_at, c->before - c->keep_at, MOTE_LOGITS_LAST);
    const mote_work work = next_tokens(s, LONG);
    assert_int_equal(step_until(engine, &work, 1, layer), MOTE_E_CANCELED);
    assert_int_equal(mote_session_length(s), c->stands);
    assert_int_equal(engine->pages.n - engine->pages.n_free, pages_of(c->stands));
    assert_null(mote_session_logits(s, 0));
    goes_on_to(s, c->before + LONG, plain);
    mote_session_free(s);
    mote_session_free(plain);
    assert_int_equal(engine->states.n_free, engine->states.n - 1);
    mote_engine_free(engine);
}

static void every_layer_may_be_the_last(void **unused)
{
    (void)unused;
    static const one_case cases[] = {
        {0, 0, 0, 0},     {0, 5, 0, 0},    /* from the beginning */
        {1, 40, 0, 32},   {1, 64, 0, 64},  /* into a block to spare */
        {0, 40, 0, 0},    {0, 64, 0, 0},   /* in place */
        {1, 70, 40, 32},  {2, 70, 40, 64}, /* in place, but there is an earlier state; to spare */
        {1, 100, 96, 96}, {1, 40, 40, 32}, /* the kept state is the one it has */
    };
    mote_engine *alone = engine_of(1, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t layer = 0; layer < model->hp.n_layers; layer++)
            give_up_one(&cases[i], alone, layer);
    mote_engine_free(alone);
}

/* Others in the pass: each goes back no further than it must, and what they share stays. */
static void company_goes_back_as_little_as_it_can(void **unused)
{
    (void)unused;
    enum { N = 5 };
    static const size_t before[N] = {40, 10, 0, 31, 40}, more[N] = {LONG, 3, 20, 1, 50};
    static const uint64_t stands[N] = {32, 10, 0, 0, 32};
    mote_engine *alone = engine_of(1, 0), *engine = engine_of(N + 1, N);
    for (uint32_t layer = 0; layer < model->hp.n_layers; layer++) {
        mote_session *s[N], *fork;
        mote_work work[N];
        for (size_t i = 0; i < N; i++) {
            s[i] = rig_session(engine);
            if (before[i] > 0)
                rig_feed(engine, s[i], tokens, before[i], MOTE_LOGITS_LAST);
        }
        MUST(mote_session_fork(&fork, s[0], NULL), NULL);
        for (size_t i = 0; i < N; i++)
            work[i] = next_tokens(s[i], more[i]);
        assert_int_equal(step_until(engine, work, N, layer), MOTE_E_CANCELED);
        for (size_t i = 0; i < N; i++) {
            mote_session *plain = plain_session(alone, before[i] + more[i]);
            assert_int_equal(mote_session_length(s[i]), stands[i]);
            goes_on_to(s[i], before[i] + more[i], plain);
            if (i == 0)
                goes_on_to(fork, before[i] + more[i], plain);
            mote_session_free(plain);
            mote_session_free(s[i]);
        }
        mote_session_free(fork);
        assert_int_equal(engine->states.n_free, engine->states.n - 1);
        assert_int_equal(engine->pages.n_free, engine->pages.n);
    }
    mote_engine_free(engine);
    mote_engine_free(alone);
}

/* Sixteen tokens are not worth it: that pass is brought to its end, and the cancel is for the
 * next one. */
static void a_short_pass_is_not_given_up(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_of(1, 0);
    mote_session *s = rig_session(engine);
    mote_work work = next_tokens(s, 16);
    assert_int_equal(step_until(engine, &work, 1, 0), MOTE_OK);
    assert_int_equal(mote_session_length(s), 16);
    assert_non_null(mote_session_logits(s, 0));
    work = next_tokens(s, 1);
    assert_int_equal(mote_step(engine, &work, 1, NULL), MOTE_E_CANCELED);
    assert_int_equal(mote_session_length(s), 16);
    assert_int_equal(mote_step(engine, &work, 1, NULL), MOTE_OK);
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
    mote_model_info info;
    mote_model_describe(model, &info);
    rig_random r = {.seed = 9};
    rig_random_tokens(&r, info.tokens, tokens, ALL);
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
        cmocka_unit_test(every_layer_may_be_the_last),
        cmocka_unit_test(company_goes_back_as_little_as_it_can),
        cmocka_unit_test(a_short_pass_is_not_given_up),
    };
    return cmocka_run_group_tests_name("engine_cancel", tests, open_model, close_model);
}
