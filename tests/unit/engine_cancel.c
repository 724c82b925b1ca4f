/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_cancel.c - cancel and abort inside a pass have no effect on results.
 *
 * A tap cancels the step, so cancellation is tested before every layer. Afterwards each session has
 * the length that mote.h promises, all blocks are back in their pools, and appending the missing
 * tokens gives the bits of an undisturbed run. Sessions that remain in a pass while others are
 * aborted get the same bits, in that pass.
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

/* ---- cancel ---- */

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

/* Appends tokens up to `end` and compares the logits with those of `plain`, which got all tokens in
 * one step. */
static void continue_and_compare(mote_session *s, uint64_t end, const mote_session *plain)
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

/* A session with `before` tokens, with a kept state after `keep_at` of them unless 0. A pass of
 * LONG tokens is canceled. */
typedef struct one_case {
    uint32_t kept_states; /* one more than used: a spare state block */
    size_t before, keep_at;
    uint64_t stands; /* length after the cancel */
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
    continue_and_compare(s, c->before + LONG, plain);
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
        {1, 40, 0, 32},   {1, 64, 0, 64},  /* into a spare block */
        {0, 40, 0, 0},    {0, 64, 0, 0},   /* in place */
        {1, 70, 40, 32},  {2, 70, 40, 64}, /* in place with an earlier kept state; spare */
        {1, 100, 96, 96}, {1, 40, 40, 32}, /* the kept state is the current one */
    };
    mote_engine *alone = engine_of(1, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t layer = 0; layer < model->hp.n_layers; layer++)
            give_up_one(&cases[i], alone, layer);
    mote_engine_free(alone);
}

/* Several sessions in the pass: each goes back as little as possible, and shared blocks stay. */
static void other_sessions_rewind_as_little_as_possible(void **unused)
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
            continue_and_compare(s[i], before[i] + more[i], plain);
            if (i == 0)
                continue_and_compare(fork, before[i] + more[i], plain);
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

/* A pass of 16 tokens is not canceled; the cancel stops the next one. */
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

/* ---- abort ---- */

enum { MEMBERS = 5, NEVER = 1000, ROWS = MEMBERS + 50 };
/* Decode and prefill; the last session is a fork of the first, so they share pages and a state. */
static const size_t had[MEMBERS] = {40, 10, 0, 31, 40}, gets[MEMBERS] = {LONG, 3, 20, 1, 50};
static const mote_logits wants[MEMBERS] = {MOTE_LOGITS_LAST, MOTE_LOGITS_LAST, MOTE_HIDDEN_LAST,
                                           MOTE_LOGITS_LAST, MOTE_LOGITS_ALL};
/* The results of each session alone. */
static mote_engine *single_engine[MEMBERS];
static mote_session *single[MEMBERS];

/* Sessions in one step, and the hook call at which each is aborted. Counts calls, passes, rows. */
typedef struct batch_run {
    mote_engine *engine;
    mote_session *s[MEMBERS];
    uint32_t at[MEMBERS], cancel_at;
    bool frees;          /* inside the hook */
    bool whole[MEMBERS]; /* complete when aborted */
    uint32_t calls, passes;
    size_t rows; /* that passed all layers */
} batch_run;

static bool has_all(const batch_run *c, size_t i)
{
    return mote_session_length(c->s[i]) == had[i] + gets[i];
}

static void on_hook(void *with)
{
    batch_run *c = with;
    if (c->calls == c->cancel_at)
        mote_cancel(c->engine);
    for (size_t i = 0; i < MEMBERS; i++) {
        if (c->at[i] != c->calls)
            continue;
        c->whole[i] = has_all(c, i);
        mote_step_abort(c->s[i]);
        mote_step_abort(c->s[i]); /* a second call has no effect */
        if (!c->frees)
            continue;
        mote_session_free(c->s[i]);
        c->s[i] = NULL;
    }
    c->calls++;
}

static void count_rows(void *ctx, const char *what, int layer, const float *rows, size_t n_rows,
                       size_t n_cols)
{
    (void)rows, (void)n_cols;
    batch_run *c = ctx;
    c->passes += strcmp(what, "embed") == 0;
    if (strcmp(what, "layer") == 0 && layer + 1 == (int)model->hp.n_layers)
        c->rows += n_rows;
}

static void batch_start(batch_run *c, mote_engine *engine)
{
    *c = (batch_run){.engine = engine, .cancel_at = NEVER};
    for (size_t i = 0; i < MEMBERS; i++) {
        c->at[i] = NEVER;
        if (i + 1 == MEMBERS) {
            MUST(mote_session_fork(&c->s[i], c->s[0], NULL), NULL);
            continue;
        }
        c->s[i] = rig_session(engine);
        if (had[i] > 0)
            rig_feed(engine, c->s[i], tokens, had[i], MOTE_LOGITS_LAST);
    }
}

static mote_status batch_step(batch_run *c)
{
    mote_work work[MEMBERS];
    for (size_t i = 0; i < MEMBERS; i++) {
        work[i] = next_tokens(c->s[i], gets[i]);
        work[i].want = wants[i];
    }
    engine_set_tap(c->engine, count_rows, c);
    const mote_status status = mote_step_with_hook(c->engine, work, MEMBERS, on_hook, c, NULL);
    engine_set_tap(c->engine, NULL, NULL);
    return status;
}

static void batch_free(batch_run *c)
{
    for (size_t i = 0; i < MEMBERS; i++)
        mote_session_free(c->s[i]);
    assert_int_equal(c->engine->states.n_free, c->engine->states.n - 1);
    assert_int_equal(c->engine->pages.n_free, c->engine->pages.n);
    assert_int_equal(c->engine->tails.n_free, c->engine->tails.n);
}

static void check_remaining(const batch_run *c, size_t i)
{
    const size_t last = wants[i] == MOTE_LOGITS_ALL ? gets[i] - 1 : 0;
    assert_true(has_all(c, i));
    if (wants[i] == MOTE_HIDDEN_LAST) {
        assert_memory_equal(mote_session_hidden(c->s[i], NULL),
                            mote_session_hidden(single[i], NULL), model->hp.n_embd * sizeof(float));
        return;
    }
    assert_memory_equal(mote_session_logits(c->s[i], last), mote_session_logits(single[i], 0),
                        model->hp.n_vocab * sizeof(float));
    assert_null(mote_session_logits(c->s[i], last + 1));
}

/* The length is not complete; an earlier pass may have appended a part. */
static void check_incomplete(const batch_run *c, size_t i)
{
    const uint64_t length = mote_session_length(c->s[i]);
    assert_true(length < had[i] + gets[i]);
    assert_true(length == had[i] || length % KERN_CHUNK == 0 || length > had[i]);
}

/* A session with an abort after the end of the step counts as remaining. */
static void check_batch(batch_run *c)
{
    size_t rows = 0;
    for (size_t i = 0; i < MEMBERS; i++) {
        const bool remained = c->at[i] >= c->calls || c->whole[i];
        if (remained)
            rows += gets[i];
        if (remained && c->s[i] != NULL)
            check_remaining(c, i);
        else if (c->s[i] != NULL)
            check_incomplete(c, i);
    }
    assert_true(rows <= c->rows);
    for (size_t i = 0; i < MEMBERS; i++)
        if (c->s[i] != NULL && !has_all(c, i) && wants[i] != MOTE_HIDDEN_LAST)
            continue_and_compare(c->s[i], had[i] + gets[i], single[i]);
}

static mote_engine *engine_for_batch(uint32_t kept, uint32_t batch)
{
    return rig_engine(model, &(mote_engine_options){.threads = 2,
                                                    .sessions = MEMBERS,
                                                    .positions = (uint64_t)MEMBERS * ALL,
                                                    .kept_states = kept,
                                                    .batch = batch,
                                                    .logits_rows = ROWS});
}

/* Aborts the sessions in `mask` at this hook call or the next. */
static void abort_at(batch_run *c, mote_engine *engine, uint32_t mask, uint32_t call)
{
    batch_start(c, engine);
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (mask >> i & 1)
            c->at[i] = call + i % 2;
    c->frees = call % 2 == 1;
    assert_int_equal(batch_step(c), MOTE_OK);
    check_batch(c);
    batch_free(c);
}

static void abort_at_every_call(mote_engine *engine, uint32_t mask)
{
    batch_run whole, c;
    abort_at(&whole, engine, 0, NEVER);
    assert_true(whole.calls > 2 * model->hp.n_layers);
    for (uint32_t call = mask % 3; call < whole.calls; call += 1 + (mask + call) % 5) {
        abort_at(&c, engine, mask, call);
        assert_true(c.passes <= whole.passes); /* nothing is computed again */
    }
}

/* Any subset aborted before any sublayer: the others get their bits in the same passes. With and
 * without spare state blocks, in passes with all sessions and with some. */
static void remaining_sessions_are_unaffected(void **unused)
{
    (void)unused;
    static const struct {
        uint32_t kept, batch;
    } engines[] = {{0, 0}, {MEMBERS, 0}, {0, 48}};
    static const uint32_t mask[] = {1, 2, 4, 8, 16, 17, 21, 30, 15};
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        mote_engine *engine = engine_for_batch(engines[i].kept, engines[i].batch);
        for (size_t j = 0; j < sizeof mask / sizeof *mask; j++)
            abort_at_every_call(engine, mask[j]);
        mote_engine_free(engine);
    }
}

/* Rows of aborted sessions are no longer computed. */
static void rows_of_aborted_sessions_are_not_computed(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_for_batch(0, 0);
    batch_run c;
    batch_start(&c, engine);
    c.at[0] = 2;
    assert_int_equal(batch_step(&c), MOTE_OK);
    assert_int_equal(c.rows, gets[1] + gets[2] + gets[3] + gets[4]);
    check_batch(&c);
    batch_free(&c);
    mote_engine_free(engine);
}

static void a_step_without_sessions_ends(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_for_batch(0, 0);
    for (uint32_t call = 0; call <= 2 * model->hp.n_layers; call++) {
        batch_run c;
        batch_start(&c, engine);
        for (uint32_t i = 0; i < MEMBERS; i++)
            c.at[i] = i % 2 == 0 ? call : call / 2;
        c.frees = call % 2 == 0;
        assert_int_equal(batch_step(&c), MOTE_E_CANCELED);
        assert_int_equal(c.calls, call + 1);
        assert_int_equal(c.rows, 0);
        check_batch(&c);
        batch_free(&c);
    }
    mote_engine_free(engine);
}

/* mote_cancel after an abort stops the remaining sessions. */
static void some_leave_and_then_all_is_canceled(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_for_batch(MEMBERS, 0);
    for (uint32_t call = 1; call < 2 * model->hp.n_layers; call++) {
        batch_run c;
        batch_start(&c, engine);
        c.at[0] = c.at[3] = call;
        c.cancel_at = call + 1;
        c.frees = call % 2 == 0;
        assert_int_equal(batch_step(&c), MOTE_E_CANCELED);
        for (size_t i = 0; i < MEMBERS; i++)
            if (c.s[i] != NULL)
                check_incomplete(&c, i);
        batch_free(&c);
    }
    mote_engine_free(engine);
}

/* A pass too short to be canceled can still be left by an abort. */
static void a_short_pass_can_be_left(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_for_batch(0, 0);
    batch_run c;
    batch_start(&c, engine);
    c.at[1] = 4;
    c.cancel_at = 5;
    const mote_work work[] = {next_tokens(c.s[1], gets[1]), next_tokens(c.s[3], gets[3])};
    assert_int_equal(mote_step_with_hook(engine, work, 2, on_hook, &c, NULL), MOTE_OK);
    assert_int_equal(c.calls, 1 + 2 * model->hp.n_layers);
    assert_int_equal(mote_session_length(c.s[1]), had[1]);
    check_remaining(&c, 3);
    mote_step_abort(c.s[3]); /* no step is running */
    check_remaining(&c, 3);
    batch_free(&c);
    mote_engine_free(engine);
}

/* The progress of one session in a step of several passes, seen by the hook. */
typedef struct progress_seen {
    const mote_session *s;
    uint64_t last;
    size_t parts; /* values that are not the length of the session */
} progress_seen;

static void see_progress(void *with)
{
    progress_seen *p = with;
    const uint64_t now = mote_step_progress(p->s);
    assert_true(now >= p->last && now >= mote_session_length(p->s));
    p->parts += now != mote_session_length(p->s);
    p->last = now;
}

/* Progress grows with every sublayer of every pass, and never exceeds the tokens of the step. */
static void progress_counts_sublayers(void **unused)
{
    (void)unused;
    enum { PASSES = 3 };
    mote_engine *engine = engine_of(1, 0);
    mote_session *s = rig_session(engine);
    const size_t batch = engine->options.batch < LONG / PASSES ? engine->options.batch : LONG;
    progress_seen seen = {.s = s};
    const mote_work work = next_tokens(s, LONG);
    assert_int_equal(mote_step_progress(s), 0);
    assert_int_equal(mote_step_with_hook(engine, &work, 1, see_progress, &seen, NULL), MOTE_OK);
    assert_int_equal(mote_step_progress(s), LONG);
    assert_true(seen.last < LONG && seen.last > LONG - batch);
    assert_true(seen.parts >= 2 * model->hp.n_layers - 1);
    mote_session_free(s);
    mote_engine_free(engine);
}

/* An abort inside a short pass that crosses a multiple of 32 keeps the state before it. */
static void a_short_pass_keeps_its_last_state(void **unused)
{
    (void)unused;
    enum { HAD = 126, GETS = 8 };
    mote_engine *engine = engine_for_batch(0, 0);
    batch_run c = {.engine = engine, .cancel_at = NEVER};
    for (size_t i = 0; i < MEMBERS; i++)
        c.at[i] = NEVER;
    c.s[0] = rig_session(engine);
    rig_feed(engine, c.s[0], tokens, HAD, MOTE_LOGITS_LAST);
    c.at[0] = 4;
    const mote_work work = {.session = c.s[0], .tokens = tokens + HAD, .n = GETS};
    assert_int_equal(mote_step_with_hook(engine, &work, 1, on_hook, &c, NULL), MOTE_E_CANCELED);
    assert_int_equal(mote_session_length(c.s[0]), HAD / 32 * 32);
    mote_session_free(c.s[0]);
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
    for (size_t i = 0; i < MEMBERS; i++) {
        single_engine[i] = engine_of(1, 0);
        single[i] = rig_session(single_engine[i]);
        rig_feed(single_engine[i], single[i], tokens, had[i] + gets[i],
                 wants[i] == MOTE_HIDDEN_LAST ? MOTE_HIDDEN_LAST : MOTE_LOGITS_LAST);
    }
    return 0;
}

static int close_model(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < MEMBERS; i++) {
        mote_session_free(single[i]);
        mote_engine_free(single_engine[i]);
    }
    mote_model_close(model);
    mem_stats left = mem_count();
    return left.blocks == 0 && left.bytes == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layer_may_be_the_last),
        cmocka_unit_test(other_sessions_rewind_as_little_as_possible),
        cmocka_unit_test(a_short_pass_is_not_given_up),
        cmocka_unit_test(remaining_sessions_are_unaffected),
        cmocka_unit_test(rows_of_aborted_sessions_are_not_computed),
        cmocka_unit_test(a_step_without_sessions_ends),
        cmocka_unit_test(some_leave_and_then_all_is_canceled),
        cmocka_unit_test(a_short_pass_can_be_left),
        cmocka_unit_test(progress_counts_sublayers),
        cmocka_unit_test(a_short_pass_keeps_its_last_state),
    };
    return cmocka_run_group_tests_name("engine_cancel", tests, open_model, close_model);
}
