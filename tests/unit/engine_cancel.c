/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_cancel.c - a pass that is given up between two layers leaves no trace, nor does a session
 * that leaves it there.
 *
 * The cancel comes from a tap, so each of the layers is tried. Where the sessions stand
 * then is what mote.h says, blocks are back in their pools, and what is read again
 * has the bits of a run that nobody disturbed. Those who stay in a pass that others leave get
 * these bits too, and get them in that pass.
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

/* ---- leaving ---- */

enum { CROWD = 5, NEVER = 1000, ROWS = CROWD + 50 };
/* Writers and readers; the last one is a fork of the first, so they share pages and a state. */
static const size_t had[CROWD] = {40, 10, 0, 31, 40}, gets[CROWD] = {LONG, 3, 20, 1, 50};
static const mote_logits wants[CROWD] = {MOTE_LOGITS_LAST, MOTE_LOGITS_LAST, MOTE_HIDDEN_LAST,
                                         MOTE_LOGITS_LAST, MOTE_LOGITS_ALL};
/* What each of them gets alone. */
static mote_engine *solo[CROWD];
static mote_session *lonely[CROWD];

/* Who leaves when, in calls of `between`, which are counted; so are passes and their rows. */
typedef struct crowd {
    mote_engine *engine;
    mote_session *s[CROWD];
    uint32_t at[CROWD], cancel_at;
    bool frees;        /* at once, from inside */
    bool whole[CROWD]; /* it had all it wanted when it left */
    uint32_t calls, passes;
    size_t rows; /* that went through all layers */
} crowd;

static bool has_all(const crowd *c, size_t i)
{
    return mote_session_length(c->s[i]) == had[i] + gets[i];
}

static void leave_now(void *with)
{
    crowd *c = with;
    if (c->calls == c->cancel_at)
        mote_cancel(c->engine);
    for (size_t i = 0; i < CROWD; i++) {
        if (c->at[i] != c->calls)
            continue;
        c->whole[i] = has_all(c, i);
        mote_step_abort(c->s[i]);
        mote_step_abort(c->s[i]); /* twice is once */
        if (!c->frees)
            continue;
        mote_session_free(c->s[i]);
        c->s[i] = NULL;
    }
    c->calls++;
}

static void count(void *ctx, const char *what, int layer, const float *rows, size_t n_rows,
                  size_t n_cols)
{
    (void)rows, (void)n_cols;
    crowd *c = ctx;
    c->passes += strcmp(what, "embed") == 0;
    if (strcmp(what, "layer") == 0 && layer + 1 == (int)model->hp.n_layers)
        c->rows += n_rows;
}

static void gather(crowd *c, mote_engine *engine)
{
    *c = (crowd){.engine = engine, .cancel_at = NEVER};
    for (size_t i = 0; i < CROWD; i++) {
        c->at[i] = NEVER;
        if (i + 1 == CROWD) {
            MUST(mote_session_fork(&c->s[i], c->s[0], NULL), NULL);
            continue;
        }
        c->s[i] = rig_session(engine);
        if (had[i] > 0)
            rig_feed(engine, c->s[i], tokens, had[i], MOTE_LOGITS_LAST);
    }
}

static mote_status step_of(crowd *c)
{
    mote_work work[CROWD];
    for (size_t i = 0; i < CROWD; i++) {
        work[i] = next_tokens(c->s[i], gets[i]);
        work[i].want = wants[i];
    }
    engine_set_tap(c->engine, count, c);
    const mote_status status = mote_step_with_hook(c->engine, work, CROWD, leave_now, c, NULL);
    engine_set_tap(c->engine, NULL, NULL);
    return status;
}

static void disperse(crowd *c)
{
    for (size_t i = 0; i < CROWD; i++)
        mote_session_free(c->s[i]);
    assert_int_equal(c->engine->states.n_free, c->engine->states.n - 1);
    assert_int_equal(c->engine->pages.n_free, c->engine->pages.n);
    assert_int_equal(c->engine->tails.n_free, c->engine->tails.n);
}

static void check_stayed(const crowd *c, size_t i)
{
    const size_t last = wants[i] == MOTE_LOGITS_ALL ? gets[i] - 1 : 0;
    assert_true(has_all(c, i));
    if (wants[i] == MOTE_HIDDEN_LAST) {
        assert_memory_equal(mote_session_hidden(c->s[i], NULL),
                            mote_session_hidden(lonely[i], NULL), model->hp.n_embd * sizeof(float));
        return;
    }
    assert_memory_equal(mote_session_logits(c->s[i], last), mote_session_logits(lonely[i], 0),
                        model->hp.n_vocab * sizeof(float));
    assert_null(mote_session_logits(c->s[i], last + 1));
}

/* It stands no later than it did, perhaps behind a part that an earlier pass brought. */
static void stands_before(const crowd *c, size_t i)
{
    const uint64_t length = mote_session_length(c->s[i]);
    assert_true(length < had[i] + gets[i]);
    assert_true(length == had[i] || length % KERN_CHUNK == 0 || length > had[i]);
}

/* Those who left later than the step took have stayed. */
static void check_all_of(crowd *c)
{
    size_t rows = 0;
    for (size_t i = 0; i < CROWD; i++) {
        const bool stayed = c->at[i] >= c->calls || c->whole[i];
        if (stayed)
            rows += gets[i];
        if (stayed && c->s[i] != NULL)
            check_stayed(c, i);
        else if (c->s[i] != NULL)
            stands_before(c, i);
    }
    assert_true(rows <= c->rows);
    for (size_t i = 0; i < CROWD; i++)
        if (c->s[i] != NULL && !has_all(c, i) && wants[i] != MOTE_HIDDEN_LAST)
            goes_on_to(c->s[i], had[i] + gets[i], lonely[i]);
}

static mote_engine *engine_for_crowd(uint32_t kept, uint32_t batch)
{
    return rig_engine(model, &(mote_engine_options){.threads = 2,
                                                    .sessions = CROWD,
                                                    .positions = (uint64_t)CROWD * ALL,
                                                    .kept_states = kept,
                                                    .batch = batch,
                                                    .logits_rows = ROWS});
}

/* Those whose bits are in `who` leave at this call of `between` or the next. */
static void leave_at(crowd *c, mote_engine *engine, uint32_t who, uint32_t call)
{
    gather(c, engine);
    for (uint32_t i = 0; i < CROWD; i++)
        if (who >> i & 1)
            c->at[i] = call + i % 2;
    c->frees = call % 2 == 1;
    assert_int_equal(step_of(c), MOTE_OK);
    check_all_of(c);
    disperse(c);
}

static void leave_everywhere(mote_engine *engine, uint32_t who)
{
    crowd whole, c;
    leave_at(&whole, engine, 0, NEVER);
    assert_true(whole.calls > 2 * model->hp.n_layers);
    for (uint32_t call = who % 3; call < whole.calls; call += 1 + (who + call) % 5) {
        leave_at(&c, engine, who, call);
        assert_true(c.passes <= whole.passes); /* nothing is computed again */
    }
}

/* Whoever leaves, before whichever layer: the others get their bits in the same passes. Without
 * and with blocks to spare, in passes that hold everybody and in such as do not. */
static void those_who_stay_do_not_notice(void **unused)
{
    (void)unused;
    static const struct {
        uint32_t kept, batch;
    } engines[] = {{0, 0}, {CROWD, 0}, {0, 48}};
    static const uint32_t who[] = {1, 2, 4, 8, 16, 17, 21, 30, 15};
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        mote_engine *engine = engine_for_crowd(engines[i].kept, engines[i].batch);
        for (size_t j = 0; j < sizeof who / sizeof *who; j++)
            leave_everywhere(engine, who[j]);
        mote_engine_free(engine);
    }
}

/* The rows of those who left are not computed any more. */
static void what_nobody_wants_is_not_computed(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_for_crowd(0, 0);
    crowd c;
    gather(&c, engine);
    c.at[0] = 2;
    assert_int_equal(step_of(&c), MOTE_OK);
    assert_int_equal(c.rows, gets[1] + gets[2] + gets[3] + gets[4]);
    check_all_of(&c);
    disperse(&c);
    mote_engine_free(engine);
}

static void a_step_that_nobody_stays_in_ends(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_for_crowd(0, 0);
    for (uint32_t call = 0; call <= 2 * model->hp.n_layers; call++) {
        crowd c;
        gather(&c, engine);
        for (uint32_t i = 0; i < CROWD; i++)
            c.at[i] = i % 2 == 0 ? call : call / 2;
        c.frees = call % 2 == 0;
        assert_int_equal(step_of(&c), MOTE_E_CANCELED);
        assert_int_equal(c.calls, call + 1);
        assert_int_equal(c.rows, 0);
        check_all_of(&c);
        disperse(&c);
    }
    mote_engine_free(engine);
}

/* A cancel is for those who are still there. */
static void some_leave_and_then_all_is_canceled(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_for_crowd(CROWD, 0);
    for (uint32_t call = 1; call < 2 * model->hp.n_layers; call++) {
        crowd c;
        gather(&c, engine);
        c.at[0] = c.at[3] = call;
        c.cancel_at = call + 1;
        c.frees = call % 2 == 0;
        assert_int_equal(step_of(&c), MOTE_E_CANCELED);
        for (size_t i = 0; i < CROWD; i++)
            if (c.s[i] != NULL)
                stands_before(&c, i);
        disperse(&c);
    }
    mote_engine_free(engine);
}

/* What cannot be given up can be left. */
static void a_short_pass_can_be_left(void **unused)
{
    (void)unused;
    mote_engine *engine = engine_for_crowd(0, 0);
    crowd c;
    gather(&c, engine);
    c.at[1] = 4;
    c.cancel_at = 5;
    const mote_work work[] = {next_tokens(c.s[1], gets[1]), next_tokens(c.s[3], gets[3])};
    assert_int_equal(mote_step_with_hook(engine, work, 2, leave_now, &c, NULL), MOTE_OK);
    assert_int_equal(c.calls, 1 + 2 * model->hp.n_layers);
    assert_int_equal(mote_session_length(c.s[1]), had[1]);
    check_stayed(&c, 3);
    mote_step_abort(c.s[3]); /* no step is running */
    check_stayed(&c, 3);
    disperse(&c);
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
    for (size_t i = 0; i < CROWD; i++) {
        solo[i] = engine_of(1, 0);
        lonely[i] = rig_session(solo[i]);
        rig_feed(solo[i], lonely[i], tokens, had[i] + gets[i],
                 wants[i] == MOTE_HIDDEN_LAST ? MOTE_HIDDEN_LAST : MOTE_LOGITS_LAST);
    }
    return 0;
}

static int close_model(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < CROWD; i++) {
        mote_session_free(lonely[i]);
        mote_engine_free(solo[i]);
    }
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
        cmocka_unit_test(those_who_stay_do_not_notice),
        cmocka_unit_test(what_nobody_wants_is_not_computed),
        cmocka_unit_test(a_step_that_nobody_stays_in_ends),
        cmocka_unit_test(some_leave_and_then_all_is_canceled),
        cmocka_unit_test(a_short_pass_can_be_left),
    };
    return cmocka_run_group_tests_name("engine_cancel", tests, open_model, close_model);
}
