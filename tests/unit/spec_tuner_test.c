/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_tuner_test.c - the tuner in invented worlds: step costs, draft costs and acceptance are given,
 * so the best possible speed is known.
 *
 * A world has some streams. Draft token RIGHT is accepted if all before it are. Times are in plain
 * steps of one stream. Every run also checks the limits that each plan must respect.
 */
#include "base/mem.h"
#include "spec/spec_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_STREAMS = 8, ROOM = 60000, RIGHT = 1, WRONG = 2 };

typedef struct world {
    size_t streams;
    double row;    /* cost of each row beyond one per stream */
    double round;  /* cost of one round of model drafts */
    double right;  /* share of right draft tokens */
    double noise;  /* times vary by up to this share */
    double slow;   /* factor of all times; 0: 1 */
    double cold;   /* cost of the first call of the model, besides its rounds */
    size_t forced; /* tokens that a grammar inserts: certain ones, in every step of a stream */
    float says;    /* probability that the source claims */
    int mode;
    size_t max_rows;
    /* state */
    spec *spec;
    spec_seq *seqs[MAX_STREAMS];
    size_t n[MAX_STREAMS];
    mote_token *tokens;
    uint64_t random;
    uint64_t rounds; /* of the model, in the current step */
    uint64_t calls;  /* of the model, in all */
    /* result since world_reset() */
    double seconds, plain;
    uint64_t made, steps, drafted;
} world;

static double world_random(world *w)
{
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(w->random >> 11) / 9007199254740992.0;
}

static mote_status world_draft(void *with, spec_request *requests, size_t n, mote_error *err)
{
    world *w = with;
    (void)err;
    w->calls++;
    for (size_t i = 0; i < n; i++) {
        spec_request *r = &requests[i];
        assert_true(r->n_given > 0 && r->n > 0 && r->n <= SPEC_MAX_DRAFT);
        for (size_t k = 0; k < r->n; k++) {
            r->tokens[k] = world_random(w) < w->right ? RIGHT : WRONG;
            r->probabilities[k] = w->says;
        }
        r->n_drafted = r->n;
        w->rounds = r->n > w->rounds ? r->n : w->rounds;
    }
    return MOTE_OK;
}

/* `model`: with a source of drafts; otherwise lookup alone. */
static void world_open(world *w, bool model)
{
    mote_error err;
    if (w->max_rows == 0)
        w->max_rows = 1000;
    if (w->random == 0)
        w->random = 42;
    const spec_options options = {
        .max_items = MAX_STREAMS, .draft = model ? world_draft : NULL, .with = w};
    assert_int_equal(spec_new(&w->spec, &options, &err), MOTE_OK);
    w->tokens = mem_new(ROOM, sizeof *w->tokens);
    assert_non_null(w->tokens);
    for (size_t i = 0; i < ROOM; i++) /* no two are equal: lookup finds nothing */
        w->tokens[i] = (mote_token)(100 + i);
    for (size_t i = 0; i < w->streams; i++) {
        assert_int_equal(spec_seq_new(&w->seqs[i], 4096, &err), MOTE_OK);
        w->n[i] = 100 + 7 * i;
    }
}

static void world_close(world *w)
{
    for (size_t i = 0; i < w->streams; i++)
        spec_seq_free(w->seqs[i]);
    mem_free(w->tokens);
    spec_free(w->spec);
}

static void world_reset(world *w)
{
    w->seconds = w->plain = 0;
    w->made = w->steps = w->drafted = 0;
}

static double world_plain(const world *w)
{
    return 1 + 0.05 * (double)(w->streams - 1);
}

/* Accepted draft tokens of an item. */
static size_t world_verify(const spec_item *it)
{
    size_t a = 0;
    while (a < it->n_draft && it->step[it->n - it->held + a] == RIGHT)
        a++;
    return a;
}

static void world_step(world *w)
{
    spec_item items[MAX_STREAMS];
    mote_error err;
    size_t extra = 0, rows = 0;
    const uint64_t calls = w->calls;
    for (size_t i = 0; i < w->streams; i++)
        items[i] = (spec_item){.seq = w->seqs[i],
                               .tokens = w->tokens,
                               .n = w->n[i],
                               .held = w->n[i] - 1 - w->forced,
                               .mode = w->mode,
                               .limit = 100};
    w->rounds = 0;
    assert_int_equal(spec_plan(w->spec, items, w->streams, w->max_rows, &err), MOTE_OK);
    for (size_t i = 0; i < w->streams; i++) {
        const spec_item *it = &items[i];
        assert_true(it->n_draft <= SPEC_MAX_DRAFT);
        assert_true(it->n / 32 == (it->n + it->n_draft) / 32); /* a rewind is exact */
        assert_true(w->mode == SPEC_AUTO || w->mode == SPEC_OFF || it->n_draft <= (size_t)w->mode);
        extra += it->n_draft;
        rows += spec_item_rows(it);
    }
    assert_true(rows <= w->max_rows);
    const double vary = 1 + w->noise * (2 * world_random(w) - 1);
    const double slow = w->slow > 0 ? w->slow : 1;
    const double base = world_plain(w) + w->row * (double)(w->forced * w->streams);
    const double plan =
                     slow * w->round * (double)w->rounds + w->cold * (calls == 0 && w->calls > 0),
                 step = slow * (base + w->row * (double)extra) * vary;
    for (size_t i = 0; i < w->streams; i++) {
        spec_item *it = &items[i];
        it->accepted = world_verify(it);
        it->tried = it->accepted + (it->accepted < it->n_draft);
        w->n[i] = (w->n[i] + 1 + w->forced + it->accepted) % (ROOM - 200);
        if (w->n[i] < 100)
            w->n[i] = 100;
        w->made += 1 + it->accepted;
        w->plain += slow * base * (double)(1 + it->accepted) / (double)w->streams;
    }
    w->drafted += extra > 0;
    w->seconds += plan + step;
    w->steps++;
    spec_observe(w->spec, items, w->streams, plan, step);
}

/* Speed relative to plain decoding. */
static double world_run(world *w, int steps)
{
    world_reset(w);
    for (int i = 0; i < steps; i++)
        world_step(w);
    return w->plain / w->seconds;
}

/* The best speed of a fixed length. */
static double world_best(world like)
{
    double best = 1;
    for (int mode = 1; mode <= SPEC_MAX_DRAFT; mode++) {
        world w = like;
        w.mode = mode;
        world_open(&w, true);
        const double speed = world_run(&w, 1500);
        best = speed > best ? speed : best;
        world_close(&w);
    }
    return best;
}

/* A source that is never right, at several costs. */
static void wrong_drafts_cost_little(void **state)
{
    (void)state;
    static const double rows[] = {0.02, 0.1, 0.3, 1, 3};
    static const float says[] = {0.1f, 0.6f, 0.99f};
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < 3; k++)
            for (size_t streams = 1; streams <= 4; streams += 3) {
                world w = {.streams = streams, .row = rows[i], .round = 0.1, .says = says[k]};
                world_open(&w, true);
                const double speed = world_run(&w, 2000);
                /* a source that doubts itself is not even called */
                if (speed < 0.99 || (says[k] < 0.2f && w.calls > 60))
                    fail_msg("row %g, says %g, %zu streams: %.4f of plain, %d calls", rows[i],
                             (double)says[k], streams, speed, (int)w.calls);
                world_close(&w);
            }
}

static void noise_does_not_mislead(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        world w = {
            .streams = 1, .row = 0.1, .round = 0.1, .says = 0.9f, .noise = 0.3, .random = seed};
        world_open(&w, true);
        const double speed = world_run(&w, 2000);
        if (speed < 0.985)
            fail_msg("seed %d: %.4f of plain", (int)seed, speed);
        world_close(&w);
    }
}

/* The tuner reaches the best fixed length, from the first steps on. */
static void good_drafts_pay(void **state)
{
    (void)state;
    static const double right[] = {0.6, 0.8, 0.9, 0.97};
    static const double rows[] = {0.03, 0.1, 0.3};
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 3; k++) {
            const world like = {.streams = 1,
                                .row = rows[k],
                                .round = 0.08,
                                .right = right[i],
                                .says = (float)right[i]};
            const double best = world_best(like);
            world w = like;
            world_open(&w, true);
            const double first = world_run(&w, 100), later = world_run(&w, 1000);
            if (first < 0.8 * best || later < 0.95 * best)
                fail_msg("right %g, row %g: %.3f, then %.3f; best %.3f", right[i], rows[k], first,
                         later, best);
            world_close(&w);
        }
}

static void change_is_followed(void **state)
{
    (void)state;
    world w = {.streams = 1, .row = 0.1, .round = 0.08, .right = 0.9, .says = 0.8f};
    const double best = world_best(w);
    world_open(&w, true);
    const double good = world_run(&w, 500);
    w.right = 0;
    const double bad = world_run(&w, 2000);
    w.right = 0.9;
    const double again = world_run(&w, 2000);
    if (good < 0.93 * best || bad < 0.985 || again < 0.8 * best)
        fail_msg("%.3f, %.3f, %.3f; best %.3f", good, bad, again, best);
    /* the machine gets slower at several rows: drafting ends */
    w.row = 2;
    const double steep = world_run(&w, 2000);
    if (steep < 0.98)
        fail_msg("steep rows: %.3f", steep);
    world_close(&w);
}

/* Plain steps that were measured when everything was slower: the first steps of a process, or a long
 * context before a short one. Then every draft seems to pay, until the tuner notices. */
static void slow_steps_do_not_mislead(void **state)
{
    (void)state;
    for (int began = 0; began <= 1; began++) {
        world w = {.streams = 1, .row = 0.1, .round = 0.1, .says = 0.9f, .slow = 3};
        world_open(&w, true);
        w.right = began ? 0.9 : 0;
        world_run(&w, began ? 300 : 2);
        w.right = 0;
        w.slow = 1;
        const double speed = world_run(&w, 600);
        if (speed < 0.97)
            fail_msg("%s: %.4f of plain", began ? "long context" : "first steps", speed);
        world_close(&w);
    }
}

/* The first draft reads the weights of the head from a slow disk. */
static void first_draft_may_be_slow(void **state)
{
    (void)state;
    const world like = {.streams = 1, .row = 0.1, .round = 0.08, .right = 0.9, .says = 0.9f};
    const double best = world_best(like);
    world w = like;
    w.cold = 20;
    world_open(&w, true);
    world_run(&w, 100);
    const double later = world_run(&w, 500);
    if (later < 0.9 * best)
        fail_msg("%.3f; best %.3f", later, best);
    world_close(&w);
}

/* Tokens of the lookup that the head was given do not count as tokens of the head. */
static void unused_lookup_tokens(void **state)
{
    (void)state;
    world w = {.streams = 1};
    world_open(&w, true);
    spec_item it = {.seq = w.seqs[0],
                    .tokens = w.tokens,
                    .n = 64,
                    .held = 63,
                    .n_draft = 1,
                    .n_given = 3,
                    .n_model = 1,
                    .tried = 1,
                    .accepted = 1,
                    .source = {SPEC_LOOKUP, SPEC_LOOKUP, SPEC_LOOKUP, SPEC_MODEL},
                    .chance = {0.5f, 0.5f, 0.5f, 0.5f}};
    spec_observe(w.spec, &it, 1, 0.1, 1);
    for (size_t place = 0; place < SPEC_MAX_DRAFT; place++) {
        const float tried = w.spec->places[place].tried;
        if (tried != (place == 3 ? 0.25f : 0))
            fail_msg("place %zu of the head: %g tokens", place, (double)tried);
    }
    world_close(&w);
}

/* Eight streams that already use the machine fully: no drafts. With cheap rows: drafts. */
static void many_streams_decide_together(void **state)
{
    (void)state;
    world steep = {.streams = 8, .row = 0.9, .round = 0.2, .right = 0.8, .says = 0.8f};
    world_open(&steep, true);
    const double speed = world_run(&steep, 1000);
    if (speed < 0.99 || steep.drafted > 20)
        fail_msg("steep: %.4f of plain, %d steps with drafts", speed, (int)steep.drafted);
    world_close(&steep);
    world cheap = {.streams = 4, .row = 0.05, .round = 0.1, .right = 0.85, .says = 0.85f};
    const double best = world_best(cheap);
    world_open(&cheap, true);
    world_run(&cheap, 100);
    const double gained = world_run(&cheap, 1000);
    if (gained < 0.95 * best)
        fail_msg("cheap: %.3f of %.3f", gained, best);
    world_close(&cheap);
}

/* With grammars every step may have certain tokens beyond one per stream. */
static void certain_tokens_do_not_stop_drafts(void **state)
{
    (void)state;
    static const double rows[] = {0.03, 0.1, 0.3};
    for (size_t streams = 1; streams <= 4; streams += 3)
        for (size_t forced = 1; forced <= 6; forced += 5)
            for (size_t k = 0; k < 3; k++) {
                const world like = {.streams = streams,
                                    .row = rows[k],
                                    .round = 0.05,
                                    .right = 0.9,
                                    .says = 0.9f,
                                    .forced = forced};
                const double best = world_best(like);
                world w = like;
                world_open(&w, true);
                const double first = world_run(&w, 100), later = world_run(&w, 1000);
                w.right = 0;
                const double wrong = world_run(&w, 2000);
                w.forced = 0; /* and now plain steps */
                const double plain = world_run(&w, 1000);
                w.right = 0.9;
                w.forced = forced;
                world_run(&w, 2000);
                const double again = world_run(&w, 1000);
                if (first < 0.75 * best || later < 0.93 * best || wrong < 0.985 || plain < 0.985 ||
                    again < 0.9 * best)
                    fail_msg("%zu streams, %zu forced, row %g: %.3f, %.3f; wrong %.3f, plain %.3f, "
                             "again %.3f; best %.3f",
                             streams, forced, rows[k], first, later, wrong, plain, again, best);
                world_close(&w);
            }
}

static void modes_and_limits(void **state)
{
    (void)state;
    for (int mode = SPEC_OFF; mode <= SPEC_MAX_DRAFT; mode++)
        for (size_t max_rows = 4; max_rows <= 20; max_rows += 8) {
            world w = {.streams = 2,
                       .row = 0.05,
                       .round = 0.05,
                       .right = 0.9,
                       .says = 0.9f,
                       .mode = mode,
                       .max_rows = max_rows};
            world_open(&w, true);
            world_run(&w, 300);
            if (mode == SPEC_OFF)
                assert_int_equal(w.drafted, 0);
            else
                assert_true(w.drafted > 200);
            world_close(&w);
        }
}

/* Without room in the context, with one row, and with many certain tokens there is no draft. */
static void no_room_no_draft(void **state)
{
    (void)state;
    world w = {.streams = 1, .right = 1, .says = 1, .mode = 4};
    mote_error err;
    world_open(&w, true);
    spec_item it = {.seq = w.seqs[0], .tokens = w.tokens, .n = 64, .held = 63, .mode = 4};
    assert_int_equal(spec_plan(w.spec, &it, 1, 9, &err), MOTE_OK);
    assert_int_equal(it.n_draft, 0); /* limit 0 */
    it.limit = 100;
    assert_int_equal(spec_plan(w.spec, &it, 1, 1, &err), MOTE_OK);
    assert_int_equal(it.n_draft, 0); /* one row */
    assert_int_equal(spec_plan(w.spec, &it, 1, 4, &err), MOTE_OK);
    assert_int_equal(it.n_draft, 3);
    it.held = 60; /* four certain tokens: their rows count */
    assert_int_equal(spec_plan(w.spec, &it, 1, 6, &err), MOTE_OK);
    assert_int_equal(it.n_draft, 2);
    assert_memory_equal(it.step, w.tokens + 60, 4 * sizeof *it.step);
    assert_int_equal(it.step[4], RIGHT);
    it.held = 64 - SPEC_MAX_ROWS;
    assert_int_equal(spec_plan(w.spec, &it, 1, 100, &err), MOTE_OK);
    assert_int_equal(it.n_draft, 0);
    const mote_work work = spec_item_work(&it);
    assert_true(work.n == SPEC_MAX_ROWS && work.want == MOTE_LOGITS_LAST);
    it.held = 60;
    w.tokens[61] = -5; /* a certain token belongs to an image */
    const uint64_t calls = w.calls;
    assert_int_equal(spec_plan(w.spec, &it, 1, 100, &err), MOTE_OK);
    assert_true(it.n_draft == 0 && w.calls == calls);
    w.tokens[61] = 161;
    it.held = 62;
    it.n = 63; /* the next token is at a multiple of 32 */
    assert_int_equal(spec_plan(w.spec, &it, 1, 100, &err), MOTE_OK);
    assert_int_equal(it.n_draft, 0);
    world_close(&w);
}

/* Lookup alone: a text that repeats with the same continuation pays, one with another does not. */
static void lookup_is_judged(void **state)
{
    (void)state;
    for (int honest = 0; honest <= 1; honest++) {
        world w = {.streams = 1, .row = 0.15};
        mote_error err;
        world_open(&w, false);
        size_t n = 40;
        double seconds = 0, plain = 0;
        /* 9 of 10 tokens repeat; the tenth is new. Or: every third token is new. */
        for (size_t i = 0; i < ROOM; i++)
            w.tokens[i] = honest ? (i % 60 == 59 ? (mote_token)(1000 + i) : (mote_token)(i % 60))
                                 : (i % 3 == 2 ? (mote_token)(1000 + i) : (mote_token)(i % 3));
        while (n < 4000) {
            spec_item it = {
                .seq = w.seqs[0], .tokens = w.tokens, .n = n, .held = n - 1, .limit = 100};
            assert_int_equal(spec_plan(w.spec, &it, 1, 9, &err), MOTE_OK);
            while (it.accepted < it.n_draft &&
                   it.step[1 + it.accepted] == w.tokens[n + it.accepted])
                it.accepted++;
            it.tried = it.accepted + (it.accepted < it.n_draft);
            const double step = 1 + w.row * (double)it.n_draft;
            spec_observe(w.spec, &it, 1, 0, step);
            seconds += step;
            plain += 1 + (double)it.accepted;
            n += 1 + it.accepted;
        }
        if (honest && plain / seconds < 2)
            fail_msg("repeated text: %.3f", plain / seconds);
        if (!honest && plain / seconds < 0.99)
            fail_msg("misleading text: %.3f", plain / seconds);
        spec_stats stats;
        spec_read_stats(w.spec, &stats);
        assert_int_equal(stats.drafted[SPEC_MODEL], 0);
        assert_true(stats.accepted[SPEC_LOOKUP] <= stats.drafted[SPEC_LOOKUP]);
        if (honest)
            assert_true(stats.seconds_saved > 10 * stats.seconds_lost);
        world_close(&w);
    }
}

/* A failing source is an error, and the step has no draft. */
static mote_status failing_draft(void *with, spec_request *requests, size_t n, mote_error *err)
{
    (void)with;
    (void)requests;
    (void)n;
    (void)err;
    return MOTE_E_MEMORY;
}

static void error_of_source(void **state)
{
    (void)state;
    world w = {.streams = 1, .mode = 3};
    mote_error err;
    world_open(&w, true);
    spec_set_draft(w.spec, failing_draft, NULL);
    spec_item it = {
        .seq = w.seqs[0], .tokens = w.tokens, .n = 64, .held = 63, .mode = 3, .limit = 100};
    assert_int_equal(spec_plan(w.spec, &it, 1, 9, &err), MOTE_E_MEMORY);
    assert_int_equal(it.n_draft, 0);
    world_close(&w);
}

/* The same inputs give the same plans. */
static void deterministic(void **state)
{
    (void)state;
    double speed[2];
    for (int i = 0; i < 2; i++) {
        world w = {
            .streams = 3, .row = 0.1, .round = 0.1, .right = 0.7, .says = 0.7f, .noise = 0.2};
        world_open(&w, true);
        speed[i] = world_run(&w, 500);
        world_close(&w);
    }
    assert_memory_equal(&speed[0], &speed[1], sizeof speed[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_drafts_cost_little),
        cmocka_unit_test(noise_does_not_mislead),
        cmocka_unit_test(good_drafts_pay),
        cmocka_unit_test(change_is_followed),
        cmocka_unit_test(slow_steps_do_not_mislead),
        cmocka_unit_test(first_draft_may_be_slow),
        cmocka_unit_test(unused_lookup_tokens),
        cmocka_unit_test(many_streams_decide_together),
        cmocka_unit_test(certain_tokens_do_not_stop_drafts),
        cmocka_unit_test(modes_and_limits),
        cmocka_unit_test(no_room_no_draft),
        cmocka_unit_test(lookup_is_judged),
        cmocka_unit_test(error_of_source),
        cmocka_unit_test(deterministic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
