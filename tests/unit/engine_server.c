/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_server.c - the parts of mote.h that servers use: many sessions on one engine.
 *
 * Shared positions, counted page by page; listing and removing kept marks; the target of a rewind;
 * hidden rows. tests/law checks that none of this changes a bit of a result.
 */
#include "law/rig.h"

#include "base/mem.h"
#include "engine/engine_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 64 };

static mote_model *model;
static mote_model_info info;
static mote_token tokens[1024];

/* An engine with n_pages pages, shared by `sessions` sessions. */
static mote_engine *sharing_engine(uint32_t sessions, uint64_t n_pages, uint32_t kept)
{
    return rig_engine(model, &(mote_engine_options){.threads = 1,
                                                    .sessions = sessions,
                                                    .positions = n_pages * PAGE,
                                                    .shared_positions = true,
                                                    .kept_states = kept});
}

static mote_session *session_at(mote_engine *engine, size_t n)
{
    mote_session *session = rig_session(engine);
    if (n > 0)
        rig_feed(engine, session, tokens, n, MOTE_LOGITS_NONE);
    return session;
}

static mote_session *fork_of(const mote_session *from)
{
    mote_error err = {0};
    mote_session *session;
    MUST(mote_session_fork(&session, from, &err), &err);
    return session;
}

/* One step: n[i] more tokens for session i. */
static mote_status feed_all(mote_engine *engine, mote_session **sessions, const size_t *n,
                            size_t count)
{
    mote_work work[8];
    for (size_t i = 0; i < count; i++)
        work[i] = (mote_work){.session = sessions[i], .tokens = tokens, .n = n[i]};
    return mote_step(engine, work, count, NULL);
}

static uint64_t free_pages(const mote_engine *engine)
{
    mote_usage use;
    mote_engine_usage(engine, &use);
    assert_int_equal(use.positions_free, mote_engine_positions_free(engine));
    assert_int_equal(use.positions_free % PAGE, 0);
    return use.positions_free / PAGE;
}

/* ---- shared positions ---- */

static void each_context_may_be_all_of_it(void **unused)
{
    (void)unused;
    mote_engine *engine = sharing_engine(3, 4, 0);
    mote_session *a = rig_session(engine), *b, *c, *d;
    assert_int_equal(mote_session_context(a), 4 * PAGE);
    mote_session_options whole = {.context = 4 * PAGE}, more = {.context = 4 * PAGE + 1};
    assert_int_equal(mote_session_new(&b, engine, &whole, NULL), MOTE_OK);
    assert_int_equal(mote_session_new(&c, engine, &more, NULL), MOTE_E_MEMORY);
    assert_null(c);
    assert_int_equal(mote_session_new(&c, engine, &(mote_session_options){.context = 10}, NULL),
                     MOTE_OK);
    assert_int_equal(mote_session_new(&d, engine, NULL, NULL), MOTE_E_MEMORY); /* no slot */
    assert_int_equal(feed_all(engine, &c, &(size_t){11}, 1), MOTE_E_FULL);     /* still a limit */
    assert_int_equal(feed_all(engine, &a, &(size_t){4 * PAGE}, 1), MOTE_OK);   /* to the last one */
    assert_int_equal(free_pages(engine), 0);
    mote_session_free(a);
    mote_session_free(b);
    mote_session_free(c);
    mote_engine_free(engine);
}

static void too_few_pages_change_nothing(void **unused)
{
    (void)unused;
    mote_engine *engine = sharing_engine(3, 4, 0);
    mote_session *s[] = {session_at(engine, 60), session_at(engine, 64), rig_session(engine)};
    assert_int_equal(free_pages(engine), 2);
    float *before = calloc(info.vocabulary, sizeof *before);
    assert_non_null(before);
    rig_feed(engine, s[0], tokens, 1, MOTE_LOGITS_LAST);
    memcpy(before, mote_session_logits(s[0], 0), info.vocabulary * sizeof *before);
    /* 1 + 1 + 1 pages, and two are free. */
    mote_work work[] = {{.session = s[0], .tokens = tokens, .n = 4},
                        {.session = s[1], .tokens = tokens, .n = 1},
                        {.session = s[2], .tokens = tokens, .n = 1}};
    mote_error err = {0};
    assert_int_equal(mote_step(engine, work, 3, &err), MOTE_E_MEMORY);
    assert_int_equal(err.status, MOTE_E_MEMORY);
    assert_int_equal(mote_session_length(s[0]), 61);
    assert_int_equal(mote_session_length(s[1]), 64);
    assert_int_equal(mote_session_length(s[2]), 0);
    assert_int_equal(free_pages(engine), 2);
    assert_memory_equal(mote_session_logits(s[0], 0), before, info.vocabulary * sizeof *before);
    work[0].n = 3; /* up to the end of its page, and it fits */
    assert_int_equal(mote_step(engine, work, 3, &err), MOTE_OK);
    assert_int_equal(free_pages(engine), 0);
    assert_int_equal(mote_step(engine, work, 1, &err), MOTE_E_MEMORY);
    assert_int_equal(mote_session_rewind(s[1], 64), 64); /* releases the pages beyond */
    assert_int_equal(free_pages(engine), 1);
    assert_int_equal(mote_step(engine, work, 1, &err), MOTE_OK);
    mote_session_free(s[1]);
    assert_int_equal(free_pages(engine), 1);
    mote_session_free(s[0]);
    mote_session_free(s[2]);
    assert_int_equal(free_pages(engine), 4);
    free(before);
    mote_engine_free(engine);
}

/* Three sessions share a partial page: two copies if all append, two if two append. */
static void copies_of_shared_pages_count(void **unused)
{
    (void)unused;
    const size_t one[] = {1, 1, 1};
    for (size_t writers = 1; writers <= 3; writers++) {
        const uint64_t copies = writers < 3 ? writers : 2;
        for (uint64_t spare = 0; spare <= 2; spare++) {
            mote_engine *engine = sharing_engine(3, 2 + spare, 0);
            mote_session *a = session_at(engine, 100);
            mote_session *s[] = {a, fork_of(a), fork_of(a)};
            assert_int_equal(free_pages(engine), spare); /* a fork takes none */
            bool fits = copies <= spare;
            assert_int_equal(feed_all(engine, s, one, writers), fits ? MOTE_OK : MOTE_E_MEMORY);
            assert_int_equal(free_pages(engine), fits ? spare - copies : spare);
            for (size_t i = 0; i < 3; i++) {
                assert_int_equal(mote_session_length(s[i]), 100 + (fits && i < writers));
                mote_session_free(s[i]);
            }
            assert_int_equal(free_pages(engine), 2 + spare);
            mote_engine_free(engine);
        }
    }
}

/* Neither a full page nor a private page is copied. */
static void full_pages_are_not_copied(void **unused)
{
    (void)unused;
    mote_engine *engine = sharing_engine(2, 3, 0);
    mote_session *a = session_at(engine, 64);
    mote_session *s[] = {a, fork_of(a)};
    const size_t n[] = {64, 64}, more[] = {65, 64};
    assert_int_equal(feed_all(engine, s, more, 2), MOTE_E_MEMORY);
    assert_int_equal(feed_all(engine, s, n, 2), MOTE_OK);
    assert_int_equal(free_pages(engine), 0);
    mote_session_free(s[1]);
    assert_int_equal(free_pages(engine), 1);
    mote_session_free(a);
    mote_engine_free(engine);
}

static void a_snapshot_needs_its_pages(void **unused)
{
    (void)unused;
    char path[128];
    rig_temp_path(path, sizeof path, "shared.snapshot");
    mote_engine *engine = sharing_engine(3, 4, 0);
    mote_session *a = session_at(engine, 100), *loaded, *again;
    mote_error err = {0};
    MUST(mote_session_save(a, path, &err), &err);
    assert_int_equal(mote_session_load(&loaded, engine, path, NULL, &err), MOTE_OK);
    assert_int_equal(mote_session_context(loaded), 4 * PAGE);
    assert_int_equal(free_pages(engine), 0);
    mem_stats before = mem_count();
    assert_int_equal(mote_session_load(&again, engine, path, NULL, &err), MOTE_E_MEMORY);
    assert_null(again);
    assert_int_equal(mem_count().bytes, before.bytes);
    mote_session_free(a);
    assert_int_equal(mote_session_load(&again, engine, path, NULL, &err), MOTE_OK);
    mote_session_free(again);
    mote_session_free(loaded);
    unlink(path);
    mote_engine_free(engine);
}

static void use_is_counted(void **unused)
{
    (void)unused;
    mote_engine *engine = rig_engine(
        model,
        &(mote_engine_options){.threads = 1, .sessions = 3, .positions = 500, .kept_states = 2});
    mote_usage use;
    mote_engine_usage(engine, &use);
    assert_true(use.positions_total >= 500 && use.positions_total % PAGE == 0);
    assert_int_equal(use.positions_free, use.positions_total);
    assert_int_equal(use.sessions, 0);
    assert_int_equal(use.sessions_total, 3);
    assert_int_equal(use.kept_states, 0);
    assert_int_equal(use.kept_states_total, 2);
    mote_session *a = session_at(engine, 70);
    assert_int_equal(mote_session_keep(a, NULL, NULL), MOTE_OK);
    mote_session *b = fork_of(a);
    mote_engine_usage(engine, &use);
    assert_int_equal(use.positions_total - use.positions_free, 2 * PAGE); /* counted once */
    assert_int_equal(use.sessions, 2);
    assert_int_equal(use.kept_states, 1);
    mote_session_free(a);
    mote_session_free(b);
    mote_engine_usage(engine, &use);
    assert_int_equal(use.positions_free, use.positions_total);
    assert_int_equal(use.sessions + use.kept_states, 0);
    mote_engine_free(engine);
}

/* ---- marks ---- */

static void check_kept(const mote_session *s, size_t n, const uint64_t *expected)
{
    uint64_t pos[8] = {0};
    assert_int_equal(mote_session_kept(s, NULL, 0), n);
    assert_int_equal(mote_session_kept(s, pos, 8), n);
    assert_memory_equal(pos, expected, n * sizeof *pos);
}

static void marks_are_listed_and_forgotten(void **unused)
{
    (void)unused;
    mote_engine *engine = sharing_engine(2, 8, 3);
    mote_session *s = session_at(engine, 0);
    for (size_t i = 0; i < 3; i++) {
        rig_feed(engine, s, tokens, 40, MOTE_LOGITS_NONE);
        assert_int_equal(mote_session_keep(s, NULL, NULL), MOTE_OK);
    }
    check_kept(s, 3, (const uint64_t[]){32, 64, 96});
    uint64_t two[2], untouched = 7;
    assert_int_equal(mote_session_kept(s, two, 2), 3);
    assert_int_equal(two[1], 64);
    assert_int_equal(mote_session_kept(s, &untouched, 0), 3);
    assert_int_equal(untouched, 7);
    mote_session *other = fork_of(s);
    rig_feed(engine, s, tokens, 40, MOTE_LOGITS_NONE);
    assert_int_equal(mote_session_keep(s, NULL, NULL), MOTE_E_FULL);
    assert_false(mote_session_unkeep(s, 65));
    assert_false(mote_session_unkeep(s, 0));
    assert_true(mote_session_unkeep(s, 64));
    assert_false(mote_session_unkeep(s, 64));
    check_kept(s, 2, (const uint64_t[]){32, 96});
    check_kept(other, 3, (const uint64_t[]){32, 64, 96});
    assert_int_equal(mote_session_keep(s, NULL, NULL), MOTE_E_FULL); /* the fork still keeps it */
    assert_true(mote_session_unkeep(other, 64));
    assert_int_equal(mote_session_keep(s, NULL, NULL), MOTE_OK);
    check_kept(s, 3, (const uint64_t[]){32, 96, 160});
    assert_int_equal(mote_session_rewind(s, 95), 32);
    check_kept(s, 1, (const uint64_t[]){32});
    mote_session_free(other);
    mote_session_free(s);
    mote_usage use;
    mote_engine_usage(engine, &use);
    assert_int_equal(use.kept_states, 0);
    mote_engine_free(engine);
}

static void reach_says_what_rewind_does(void **unused)
{
    (void)unused;
    mote_engine *engine = sharing_engine(2, 8, 3);
    mote_session *s = session_at(engine, 70);
    assert_int_equal(mote_session_keep(s, NULL, NULL), MOTE_OK); /* 64 */
    for (uint64_t length = 80; length <= 140; length += 20) {
        rig_feed(engine, s, tokens, (size_t)(length - mote_session_length(s)), MOTE_LOGITS_LAST);
        for (uint64_t pos = 0; pos < length + 3; pos++) {
            uint64_t said = mote_session_rewind_target(s, pos);
            mote_session *probe = fork_of(s);
            assert_int_equal(mote_session_rewind(probe, pos), said);
            mote_session_free(probe);
        }
        assert_int_equal(mote_session_length(s), length); /* const */
        assert_non_null(mote_session_logits(s, 0));
    }
    mote_session_free(s);
    mote_engine_free(engine);
}

/* ---- hidden rows ---- */

typedef struct seen_row {
    float *row;
    size_t n_rows;
} seen_row;

static void see_final_norm(void *ctx, const char *what, int layer, const float *rows, size_t n_rows,
                           size_t n_cols)
{
    (void)layer;
    seen_row *seen = ctx;
    if (strcmp(what, "final_norm") != 0)
        return;
    seen->n_rows = n_rows;
    memcpy(seen->row, rows + (n_rows - 1) * n_cols, n_cols * sizeof *rows);
}

/* The hidden row is the input of the output head. */
static void hidden_is_what_logits_are_made_from(void **unused)
{
    (void)unused;
    mote_engine *engine = sharing_engine(2, 8, 0);
    seen_row seen = {.row = calloc(info.embedding, sizeof(float))};
    assert_non_null(seen.row);
    mote_session *a = rig_session(engine), *b = rig_session(engine);
    engine_set_tap(engine, see_final_norm, &seen);
    rig_feed(engine, a, tokens, 50, MOTE_LOGITS_LAST);
    engine_set_tap(engine, NULL, NULL);
    assert_int_equal(seen.n_rows, 1);
    assert_null(mote_session_hidden(a, NULL));
    rig_feed(engine, b, tokens, 50, MOTE_HIDDEN_LAST);
    size_t n = 0;
    assert_non_null(mote_session_hidden(b, &n));
    assert_int_equal(n, info.embedding);
    assert_memory_equal(mote_session_hidden(b, NULL), seen.row, n * sizeof(float));
    assert_null(mote_session_logits(b, 0));
    assert_int_equal(mote_sample(b, 0, NULL, &(mote_choice){0}, NULL), MOTE_E_ARG);
    free(seen.row);
    mote_session_free(a);
    mote_session_free(b);
    mote_engine_free(engine);
}

/* Rows of logits and hidden rows in any order in one step, with fewer rows of logits than items. */
static void hidden_and_logits_mix(void **unused)
{
    (void)unused;
    mote_engine_options options = {
        .threads = 1, .sessions = 5, .positions = 5 * 128, .logits_rows = 4};
    mote_engine *engine = rig_engine(model, &options);
    mote_session *s[5], *plain;
    for (size_t i = 0; i < 5; i++)
        s[i] = rig_session(engine);
    mote_work work[] = {{.session = s[0], .tokens = tokens, .n = 9, .want = MOTE_HIDDEN_LAST},
                        {.session = s[1], .tokens = tokens + 1, .n = 3, .want = MOTE_LOGITS_ALL},
                        {.session = s[2], .tokens = tokens + 2, .n = 7, .want = MOTE_HIDDEN_LAST},
                        {.session = s[3], .tokens = tokens + 3, .n = 5, .want = MOTE_LOGITS_NONE},
                        {.session = s[4], .tokens = tokens + 4, .n = 1, .want = MOTE_LOGITS_LAST}};
    MUST(mote_step(engine, work, 5, NULL), NULL);
    mote_engine *alone = rig_engine(model, &options);
    for (size_t i = 0; i < 5; i++) {
        bool hidden = work[i].want == MOTE_HIDDEN_LAST;
        size_t row = work[i].want == MOTE_LOGITS_ALL ? work[i].n - 1 : 0;
        assert_true((mote_session_hidden(s[i], NULL) != NULL) == hidden);
        plain = rig_session(alone);
        rig_feed(alone, plain, work[i].tokens, work[i].n,
                 hidden ? MOTE_HIDDEN_LAST : MOTE_LOGITS_LAST);
        if (hidden)
            assert_memory_equal(mote_session_hidden(s[i], NULL), mote_session_hidden(plain, NULL),
                                info.embedding * sizeof(float));
        else if (work[i].want != MOTE_LOGITS_NONE)
            assert_memory_equal(mote_session_logits(s[i], row), mote_session_logits(plain, 0),
                                info.vocabulary * sizeof(float));
        mote_session_free(plain);
    }
    assert_int_equal(mote_session_rewind(s[0], 9), 9);
    assert_null(mote_session_hidden(s[0], NULL)); /* as with logits */
    rig_feed(engine, s[0], tokens, 1, MOTE_LOGITS_NONE);
    assert_null(mote_session_hidden(s[2], NULL)); /* valid until the next step only */
    for (size_t i = 0; i < 5; i++)
        mote_session_free(s[i]);
    mote_engine_free(engine);
    mote_engine_free(alone);
}

static void cancel_in_the_pass(void *ctx, const char *what, int layer, const float *rows,
                               size_t n_rows, size_t n_cols)
{
    (void)what, (void)layer, (void)rows, (void)n_rows, (void)n_cols;
    mote_cancel(ctx);
}

/* A canceled item has no last token and therefore no hidden row. */
static void hidden_needs_the_whole_item(void **unused)
{
    (void)unused;
    mote_engine *engine =
        rig_engine(model, &(mote_engine_options){.threads = 1, .positions = 128, .batch = 16});
    mote_session *s = rig_session(engine);
    mote_work work = {.session = s, .tokens = tokens, .n = 40, .want = MOTE_HIDDEN_LAST};
    engine_set_tap(engine, cancel_in_the_pass, engine);
    assert_int_equal(mote_step(engine, &work, 1, NULL), MOTE_E_CANCELED);
    engine_set_tap(engine, NULL, NULL);
    assert_int_equal(mote_session_length(s), 16);
    assert_null(mote_session_hidden(s, NULL));
    rig_feed(engine, s, tokens + 16, 24, MOTE_HIDDEN_LAST);
    assert_non_null(mote_session_hidden(s, NULL));
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
    rig_random r = {.seed = 8};
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
        cmocka_unit_test(each_context_may_be_all_of_it),
        cmocka_unit_test(too_few_pages_change_nothing),
        cmocka_unit_test(copies_of_shared_pages_count),
        cmocka_unit_test(full_pages_are_not_copied),
        cmocka_unit_test(a_snapshot_needs_its_pages),
        cmocka_unit_test(use_is_counted),
        cmocka_unit_test(marks_are_listed_and_forgotten),
        cmocka_unit_test(reach_says_what_rewind_does),
        cmocka_unit_test(hidden_is_what_logits_are_made_from),
        cmocka_unit_test(hidden_and_logits_mix),
        cmocka_unit_test(hidden_needs_the_whole_item),
    };
    return cmocka_run_group_tests_name("engine_server", tests, open_model, close_model);
}
