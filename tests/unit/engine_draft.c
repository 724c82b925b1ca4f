/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_draft.c - mote_draft: errors, the trimmed output head, shared pages, snapshots, rows that
 * decode steps leave out, and an MTP head in a file of its own. The laws and the golden test compare its numbers.
 */
#include "law/rig.h"

#include "engine/engine_int.h"
#include "support/data.h"
#include "support/gguf_split.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 100 };

static char source[TEST_PATH];
static mote_token tokens[N];
static mote_model *model;
static mote_model_info info;

/* A text that repeats itself, so that drafts are tokens that occurred before. */
static void tokens_from_text(void)
{
    static const char text[] = "The old king lived in a castle near the sea. His garden had seven "
                               "apple trees and a fountain. ";
    size_t n = 0, more;
    mote_error err = {0};
    while (n < N) {
        MUST(mote_tokenize(model, text, sizeof text - 1, 0, tokens + n, N - n, &more, &err), &err);
        n += more;
    }
}

static mote_engine *new_engine(uint32_t sessions)
{
    return rig_engine(model, &(mote_engine_options){.threads = 2,
                                                    .sessions = sessions,
                                                    .positions = (uint64_t)sessions * 128,
                                                    .drafts = true});
}

static mote_draft_item draft(mote_engine *engine, mote_session *s, size_t n)
{
    mote_draft_item item = {.session = s, .next = tokens[mote_session_length(s)], .n = n};
    mote_error err = {0};
    MUST(mote_draft(engine, &item, 1, &err), &err);
    assert_int_equal(item.n_drafts, n);
    return item;
}

static void assert_same_drafts(const mote_draft_item *a, const mote_draft_item *b)
{
    assert_int_equal(a->n_drafts, b->n_drafts);
    assert_memory_equal(a->tokens, b->tokens, a->n_drafts * sizeof *a->tokens);
    assert_memory_equal(a->probability, b->probability, a->n_drafts * sizeof *a->probability);
}

/* ---- errors ---- */

static void expect_error(mote_engine *engine, mote_draft_item *items, size_t n, mote_status status,
                         const char *text)
{
    mote_error err = {0};
    assert_int_equal(mote_draft(engine, items, n, &err), status);
    if (strstr(err.text, text) == NULL)
        rig_fail("'%s' does not contain '%s'", err.text, text);
}

static void errors(void **unused)
{
    (void)unused;
    mote_engine *engine = new_engine(2), *plain = rig_engine(model, NULL);
    mote_session *s = rig_session(engine), *other = rig_session(plain);
    mote_draft_item item = {.session = s, .n = 1};
    expect_error(plain, NULL, 0, MOTE_E_UNSUPPORTED, "created without `drafts`");
    expect_error(engine, &item, 1, MOTE_E_ARG, "is empty");
    rig_feed(engine, s, tokens, 5, MOTE_LOGITS_NONE);
    mote_draft_item two[] = {item, item};
    expect_error(engine, two, 2, MOTE_E_ARG, "appears twice");
    two[1].session = other;
    expect_error(engine, two, 2, MOTE_E_ARG, "another engine");
    item.n = MOTE_MAX_DRAFTS + 1;
    expect_error(engine, &item, 1, MOTE_E_ARG, "at most 8");
    item = (mote_draft_item){.session = s, .given = tokens, .n_given = 8, .n = 1};
    expect_error(engine, &item, 1, MOTE_E_ARG, "8 given tokens and 1 drafts");
    item = (mote_draft_item){.session = s, .next = (mote_token)info.vocabulary, .n = 1};
    expect_error(engine, &item, 1, MOTE_E_ARG, "the vocabulary has");
    item = (mote_draft_item){.session = s, .n_given = 1, .n = 1};
    expect_error(engine, &item, 1, MOTE_E_ARG, "must not be NULL");
    mote_session_free(s);
    mote_session_free(other);
    mote_engine_free(engine);
    mote_engine_free(plain);
}

/* A draft ends with the context, and before that when it becomes unlikely. */
static void ends(void **unused)
{
    (void)unused;
    mote_engine *engine = new_engine(1);
    mote_session *s;
    mote_error err = {0};
    MUST(mote_session_new(&s, engine, &(mote_session_options){.context = 70}, &err), &err);
    for (uint64_t length = 60; length <= 70; length++) {
        rig_feed(engine, s, tokens + mote_session_length(s), length - mote_session_length(s),
                 MOTE_LOGITS_NONE);
        mote_draft_item item = {.session = s, .next = tokens[length], .n = 4};
        MUST(mote_draft(engine, &item, 1, &err), &err);
        const uint64_t room = length < 69 ? 69 - length : 0;
        assert_int_equal(item.n_drafts, room < 4 ? room : 4);
        item.stop_below = 1;
        MUST(mote_draft(engine, &item, 1, &err), &err);
        assert_int_equal(item.n_drafts, room > 0 ? 1 : 0);
        assert_int_equal(mote_session_length(s), length);
    }
    mote_session_free(s);
    mote_engine_free(engine);
}

/* Without free pages nothing changes; with one more page it works. */
static void full_cache(void **unused)
{
    (void)unused;
    mote_engine *engine = rig_engine(
        model, &(mote_engine_options){
                   .sessions = 2, .positions = 192, .shared_positions = true, .drafts = true});
    mote_session *s = rig_session(engine), *fork;
    mote_error err = {0};
    rig_feed(engine, s, tokens, 64, MOTE_LOGITS_NONE);
    const mote_draft_item alone = draft(engine, s, 3);
    assert_int_equal(mote_engine_positions_free(engine), 128);
    MUST(mote_session_fork(&fork, s, &err), &err);
    mote_session *third;
    assert_int_equal(mote_session_new(&third, engine, NULL, NULL), MOTE_E_MEMORY);
    assert_int_equal(mote_engine_positions_free(engine), 128);
    /* The page is full, but drafts write its last position: one copy, and one page beyond. */
    mote_draft_item items[] = {{.session = s, .next = tokens[64], .n = 3},
                               {.session = fork, .next = tokens[65], .n = 3}};
    expect_error(engine, items, 2, MOTE_E_MEMORY, "the drafts need 3 pages");
    assert_int_equal(mote_engine_positions_free(engine), 128);
    const mote_draft_item shared = draft(engine, s, 3);
    assert_same_drafts(&alone, &shared);
    assert_int_equal(mote_engine_positions_free(engine), 64); /* the copy stays */
    mote_session_free(s);
    mote_session_free(fork);
    mote_engine_free(engine);
}

/* ---- trimmed output head ---- */

/* Is the id among the first `common`, or in the session, or the next one? */
static bool is_computed(const mote_session *s, mote_token next, mote_token id, uint32_t common)
{
    bool there = (uint32_t)id < common || id == next;
    for (uint64_t i = 0; i < mote_session_length(s) && !there; i++)
        there = mote_session_tokens(s)[i] == id;
    return there && (uint32_t)id < info.tokens;
}

static void check_trimmed(mote_engine *engine, mote_session *s, uint32_t common, uint32_t *rare)
{
    float *logits = calloc(info.vocabulary, sizeof *logits);
    engine->draft.n_common = common;
    mote_draft_item item = {
        .session = s, .next = tokens[mote_session_length(s)], .n = 1, .logits = logits};
    mote_error err = {0};
    MUST(mote_draft(engine, &item, 1, &err), &err);
    mote_token best = -1;
    for (mote_token id = 0; id < (mote_token)info.vocabulary; id++)
        if (is_computed(s, item.next, id, common) && (best < 0 || logits[id] > logits[best]))
            best = id;
    double sum = 0;
    for (mote_token id = 0; id < (mote_token)info.vocabulary; id++)
        if (is_computed(s, item.next, id, common))
            sum += exp((double)logits[id] - (double)logits[best]);
    assert_int_equal(item.tokens[0], best);
    if (fabs((double)item.probability[0] - 1 / sum) > 1e-5)
        rig_fail("the probability is %g, not %g", (double)item.probability[0], 1 / sum);
    *rare += (uint32_t)best >= common;
    free(logits);
}

/* Chosen are the most likely of the computed tokens, also among rare ones. */
static void trimmed_head(void **unused)
{
    (void)unused;
    mote_engine *engine = new_engine(1);
    const uint32_t all = engine->draft.n_common;
    assert_int_equal(all, info.tokens); /* smaller than the part that is computed */
    mote_session *s = rig_session(engine);
    uint32_t rare = 0;
    for (size_t i = 0; i + 1 < N; i++) {
        rig_feed(engine, s, &tokens[i], 1, MOTE_LOGITS_NONE);
        check_trimmed(engine, s, 40, &rare);
        check_trimmed(engine, s, 1000, &rare);
        check_trimmed(engine, s, all, &rare);
    }
    printf("%u of %d drafts are rare tokens\n", rare, 3 * (N - 1));
    assert_true(rare > 20);
    mote_session_free(s);
    mote_engine_free(engine);
}

/* ---- snapshots ---- */

static void snapshots(void **unused)
{
    (void)unused;
    static const size_t lengths[] = {1, 31, 32, 33, 63, 64, 65, 90};
    char path[128];
    rig_temp_path(path, sizeof path, "draft.snapshot");
    mote_engine *engine = new_engine(2), *plain = rig_engine(model, NULL);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        mote_session *s = rig_session(engine), *loaded;
        mote_error err = {0};
        rig_feed(engine, s, tokens, lengths[i], MOTE_LOGITS_NONE);
        const mote_draft_item before = draft(engine, s, 4);
        MUST(mote_session_save(s, path, &err), &err);
        MUST(mote_session_load(&loaded, engine, path, NULL, &err), &err);
        const mote_draft_item after = draft(engine, loaded, 4);
        assert_same_drafts(&before, &after);
        assert_int_equal(mote_session_load(&loaded, plain, path, NULL, &err), MOTE_E_MISMATCH);
        assert_non_null(strstr(err.text, "saved with drafts on"));
        mote_session_free(s);
        s = rig_session(plain);
        rig_feed(plain, s, tokens, lengths[i], MOTE_LOGITS_NONE);
        MUST(mote_session_save(s, path, &err), &err);
        mote_session_free(s);
        mote_session *none;
        assert_int_equal(mote_session_load(&none, engine, path, NULL, &err), MOTE_E_MISMATCH);
        assert_non_null(strstr(err.text, "saved with drafts off"));
        for (uint32_t j = 0; j < engine->options.sessions; j++)
            if (engine->sessions[j].engine != NULL)
                mote_session_free(&engine->sessions[j]);
    }
    unlink(path);
    mote_engine_free(engine);
    mote_engine_free(plain);
}

/* ---- rows that decode steps leave out ---- */

static void check_drafts(mote_engine *engine, mote_session *s)
{
    mote_session *fresh = rig_session(engine);
    rig_feed(engine, fresh, tokens, (size_t)mote_session_length(s), MOTE_LOGITS_NONE);
    const mote_draft_item expected = draft(engine, fresh, 3), got = draft(engine, s, 3);
    assert_same_drafts(&expected, &got);
    mote_session_free(fresh);
    mote_session_free(s);
}

/* Decodes one token at a time, so that the session leaves rows of the MTP block out. At some
 * lengths a fork, a fork that is rewound, and a loaded snapshot draft like a session that has
 * computed all tokens in one pass. */
static void rows_left_out(void **unused)
{
    (void)unused;
    char path[128];
    mote_error err = {0};
    rig_temp_path(path, sizeof path, "rows.snapshot");
    mote_engine *engine = new_engine(3);
    mote_session *s = rig_session(engine), *copy;
    uint64_t most = 0;
    for (size_t i = 0; i + 1 < N; i++) {
        rig_feed(engine, s, &tokens[i], 1, MOTE_LOGITS_NONE);
        const uint64_t missing = s->length - 1 - s->draft_done;
        most = missing > most ? missing : most;
        if (i % 8 != 0 && (i + 3) % 32 > 3) /* near multiples of 32 all of them */
            continue;
        MUST(mote_session_fork(&copy, s, &err), &err);
        check_drafts(engine, copy);
        MUST(mote_session_fork(&copy, s, &err), &err);
        if (mote_session_rewind(copy, s->length - i % 5) > 0)
            check_drafts(engine, copy);
        else
            mote_session_free(copy);
        MUST(mote_session_save(s, path, &err), &err);
        MUST(mote_session_load(&copy, engine, path, NULL, &err), &err);
        check_drafts(engine, copy);
        assert_true(s->length - 1 - s->draft_done == missing);
    }
    assert_int_equal(most, 31);
    unlink(path);
    mote_session_free(s);
    mote_engine_free(engine);
}

/* ---- a head in its own file ---- */

/* The snapshot names `drafts` as the difference, although it also depends on the file of the head. */
static void expect_drafts_mismatch(const mote_model *parts, const mote_session *s)
{
    char path[128];
    mote_error err = {0};
    mote_session *loaded;
    mote_engine *plain = rig_engine(parts, NULL);
    rig_temp_path(path, sizeof path, "head.snapshot");
    MUST(mote_session_save(s, path, &err), &err);
    assert_int_equal(mote_session_load(&loaded, plain, path, NULL, &err), MOTE_E_MISMATCH);
    assert_non_null(strstr(err.text, "saved with drafts on"));
    unlink(path);
    mote_engine_free(plain);
}

static void head_file(void **unused)
{
    (void)unused;
    char body[160], head[160];
    rig_temp_path(body, sizeof body, "body.gguf");
    rig_temp_path(head, sizeof head, "mtp-body.gguf");
    assert_true(test_gguf_split_head(source, body, head));
    mote_engine *whole = new_engine(1);
    mote_session *s = rig_session(whole);
    rig_feed(whole, s, tokens, 70, MOTE_LOGITS_NONE);
    const mote_draft_item want = draft(whole, s, 4);
    mote_session_free(s);
    mote_engine_free(whole);

    mote_model *parts;
    mote_error err = {0};
    MUST(mote_model_open(&parts, body, &(mote_model_options){.mtp = head}, &err), &err);
    mote_model_info found;
    mote_model_describe(parts, &found);
    assert_true(found.draft_head && found.draft_file_bytes > 0);
    uint64_t done = 0, total;
    while (mote_model_prefault(parts, &done, &total))
        assert_true(done < total);
    assert_int_equal(done, found.file_bytes + found.draft_file_bytes);
    mote_engine *engine = rig_engine(parts, &(mote_engine_options){.drafts = true});
    s = rig_session(engine);
    rig_feed(engine, s, tokens, 70, MOTE_LOGITS_NONE);
    const mote_draft_item got = draft(engine, s, 4);
    assert_same_drafts(&want, &got);
    expect_drafts_mismatch(parts, s);
    mote_memory memory;
    mote_engine_memory(engine, &memory);
    assert_int_equal(memory.weights, found.file_bytes + found.draft_file_bytes);
    assert_int_equal(mote_model_file_state(parts), MOTE_FILE_SAME);
    assert_int_equal(truncate(head, 4096), 0); /* damage of the head is damage of the model */
    assert_int_equal(mote_model_file_state(parts), MOTE_FILE_DAMAGED);
    mote_draft_item lost = {.session = s, .next = tokens[70], .n = 1};
    expect_error(engine, &lost, 1, MOTE_E_IO, "mtp-body.gguf");
    mote_session_free(s);
    mote_engine_free(engine);
    mote_model_close(parts);
    assert_true(test_gguf_split_head(source, body, head));

    MUST(mote_model_open(&parts, body, NULL, &err), &err); /* without the file: no head */
    engine = rig_engine(parts, &(mote_engine_options){.drafts = true});
    expect_error(engine, NULL, 0, MOTE_E_UNSUPPORTED, "no MTP head");
    mote_engine_memory(engine, &memory);
    assert_int_equal(memory.drafts, 0);
    mote_engine_free(engine);
    mote_model_close(parts);
    assert_int_equal(mote_model_open(&parts, body, &(mote_model_options){.mtp = body}, &err),
                     MOTE_E_UNSUPPORTED);
    char small[TEST_PATH];
    snprintf(small, sizeof small, "%s", rig_model_path("r1-gqa6-untied"));
    assert_int_equal(mote_model_open(&parts, small, &(mote_model_options){.mtp = head}, &err),
                     MOTE_E_MISMATCH);
    assert_non_null(strstr(err.text, "belongs to a model with"));
}

int main(void)
{
    const char *path = rig_model_path("mote-tiny-BF16");
    if (path == NULL)
        rig_fail("mote-tiny-BF16.gguf is missing");
    snprintf(source, sizeof source, "%s", path);
    model = rig_open(source, MOTE_ISA_BEST);
    mote_model_describe(model, &info);
    tokens_from_text();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors),        cmocka_unit_test(ends),      cmocka_unit_test(full_cache),
        cmocka_unit_test(trimmed_head),  cmocka_unit_test(snapshots), cmocka_unit_test(head_file),
        cmocka_unit_test(rows_left_out),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mote_model_close(model);
    return failed;
}
