/* SPDX-License-Identifier: Apache-2.0 */
/* spec_lookup_test.c - suffix lookup: what it finds, after edits, after cuts, in long sequences. */
#include "base/mem.h"
#include "spec/lookup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROOM = 200000, DRAFT = 8 };

typedef struct text {
    lookup l;
    mote_token *tokens;
    size_t n;
} text;

static text text_new(size_t room)
{
    text t = {.tokens = mem_new(ROOM, sizeof *t.tokens)};
    mote_error err;
    assert_non_null(t.tokens);
    assert_int_equal(lookup_init(&t.l, room, &err), MOTE_OK);
    return t;
}

static void text_free(text *t)
{
    lookup_fini(&t->l);
    mem_free(t->tokens);
}

/* Distinct tokens from `from` on. */
static void text_count(text *t, mote_token from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        t->tokens[t->n++] = from + (mote_token)i;
}

static void text_add(text *t, mote_token token)
{
    t->tokens[t->n++] = token;
}

/* The draft must be `from`, from + 1, ... */
static void expect_count(text *t, mote_token from, size_t at_least)
{
    mote_token draft[DRAFT];
    const lookup_match m = lookup_find(&t->l, t->tokens, t->n, draft, DRAFT);
    assert_true(m.n >= at_least);
    for (size_t i = 0; i < at_least; i++)
        assert_int_equal(draft[i], from + (mote_token)i);
}

static void expect_nothing(text *t)
{
    mote_token draft[DRAFT];
    assert_int_equal(lookup_find(&t->l, t->tokens, t->n, draft, DRAFT).n, 0);
}

static void finds_what_followed(void **state)
{
    (void)state;
    text t = text_new(ROOM);
    text_count(&t, 1000, 100);
    expect_nothing(&t);
    text_count(&t, 1050, 1);
    expect_nothing(&t); /* one token is not enough */
    text_count(&t, 1051, 1);
    expect_count(&t, 1052, DRAFT);
    text_free(&t);
}

static void longest_match_wins(void **state)
{
    (void)state;
    mote_token draft[DRAFT];
    text t = text_new(ROOM);
    text_count(&t, 10, 12); /* 10 .. 21, then 500 */
    text_add(&t, 500);
    text_count(&t, 90, 5);
    text_count(&t, 18, 4); /* 18 19 20 21, then 600: more recent, but a shorter match */
    text_add(&t, 600);
    text_count(&t, 190, 5);
    text_count(&t, 10, 12);
    const lookup_match m = lookup_find(&t.l, t.tokens, t.n, draft, DRAFT);
    assert_int_equal(m.length, 12);
    assert_int_equal(draft[0], 500);
    /* With the last four alone the recent one counts. */
    text_add(&t, 7777);
    text_count(&t, 18, 4);
    assert_true(lookup_find(&t.l, t.tokens, t.n, draft, DRAFT).n > 0);
    text_free(&t);
}

static void copy_is_followed(void **state)
{
    (void)state;
    mote_token draft[DRAFT];
    text t = text_new(ROOM);
    text_count(&t, 1000, 200);
    text_count(&t, 1000, 2);
    for (mote_token i = 2; i < 150; i++) {
        const lookup_match m = lookup_find(&t.l, t.tokens, t.n, draft, DRAFT);
        assert_int_equal(m.n, DRAFT);
        assert_int_equal(m.length, i < 64 ? i : 64);
        assert_int_equal(draft[0], 1000 + i);
        assert_false(m.resumed);
        text_add(&t, 1000 + i);
    }
    text_free(&t);
}

/* After a replaced, an inserted and a removed token the copy goes on where it has to. */
static void copy_resumes_after_edit(void **state)
{
    (void)state;
    mote_token draft[DRAFT];
    text t = text_new(ROOM);
    text_count(&t, 1000, 200);
    text_add(&t, 1);
    text_count(&t, 1000, 20);
    expect_count(&t, 1020, DRAFT);
    text_add(&t, 2); /* in place of 1020 */
    expect_nothing(&t);
    text_add(&t, 1021);
    lookup_match m = lookup_find(&t.l, t.tokens, t.n, draft, DRAFT);
    assert_true(m.resumed);
    assert_int_equal(draft[0], 1022);
    text_count(&t, 1022, 20);
    expect_count(&t, 1042, DRAFT);
    text_add(&t, 3); /* inserted before 1042 */
    expect_nothing(&t);
    text_count(&t, 1042, 2);
    expect_count(&t, 1044, DRAFT);
    text_count(&t, 1044, 20); /* up to 1063; 1064 to 1066 are removed */
    expect_count(&t, 1064, DRAFT);
    text_count(&t, 1067, 2);
    expect_count(&t, 1069, DRAFT);
    text_free(&t);
}

/* A sequence that loses tokens and gets others: nothing is found that is not there. */
static void survives_cuts(void **state)
{
    (void)state;
    mote_token draft[DRAFT];
    text t = text_new(ROOM);
    uint32_t random = 1;
    for (int round = 0; round < 2000; round++) {
        random = random * 1664525 + 1013904223;
        if (random >> 24 < 20 && t.n > 50)
            t.n -= (random >> 16) % 40;
        for (uint32_t k = (random >> 8) % 5; k > 0; k--)
            text_add(&t, (mote_token)((random >> (k * 3)) % 12));
        if (t.n == 0)
            continue;
        const lookup_match m = lookup_find(&t.l, t.tokens, t.n, draft, DRAFT);
        if (m.n == 0)
            continue;
        /* the copy that it claims is there */
        assert_true(t.l.distance > 0 && t.l.distance < t.n);
        for (size_t i = 1; i <= m.length; i++)
            assert_int_equal(t.tokens[t.n - i], t.tokens[t.n - i - t.l.distance]);
        for (size_t i = 0; i < m.n && t.n - t.l.distance + i < t.n; i++)
            assert_int_equal(draft[i], t.tokens[t.n - t.l.distance + i]);
    }
    text_free(&t);
}

/* A period shorter than the draft. */
static void repeats_itself(void **state)
{
    (void)state;
    mote_token draft[DRAFT];
    text t = text_new(ROOM);
    text_count(&t, 50, 3);
    text_count(&t, 50, 3);
    assert_int_equal(lookup_find(&t.l, t.tokens, t.n, draft, DRAFT).n, DRAFT);
    for (mote_token i = 0; i < DRAFT; i++)
        assert_int_equal(draft[i], 50 + i % 3);
    text_free(&t);
}

/* Image tokens are negative; a draft ends before them. */
static void no_image_tokens(void **state)
{
    (void)state;
    mote_token draft[DRAFT];
    text t = text_new(ROOM);
    text_count(&t, 50, 4);
    for (mote_token i = 1; i <= 20; i++)
        text_add(&t, -i);
    text_count(&t, 50, 2);
    assert_int_equal(lookup_find(&t.l, t.tokens, t.n, draft, DRAFT).n, 2);
    text_free(&t);
}

static void memory_is_bounded(void **state)
{
    (void)state;
    const uint64_t before = mem_count().bytes;
    lookup l;
    mote_error err;
    assert_int_equal(lookup_init(&l, (size_t)1 << 40, &err), MOTE_OK);
    assert_true(mem_count().bytes - before <= 800000);
    lookup_fini(&l);
    assert_int_equal(mem_count().bytes, before);
    /* a small table and a long sequence: recent parts are still found */
    text t = text_new(256);
    text_count(&t, 10, 150000);
    text_count(&t, 149900, 8);
    expect_count(&t, 149908, DRAFT);
    text_free(&t);
}

static void missing_memory_is_an_error(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= LOOKUP_KEYS; i++) {
        const uint64_t before = mem_count().blocks;
        lookup l;
        mote_error err;
        mem_fail_at(i);
        assert_int_equal(lookup_init(&l, 1000, &err), MOTE_E_MEMORY);
        mem_fail_at(0);
        assert_int_equal(mem_count().blocks, before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_followed),
        cmocka_unit_test(longest_match_wins),
        cmocka_unit_test(copy_is_followed),
        cmocka_unit_test(copy_resumes_after_edit),
        cmocka_unit_test(survives_cuts),
        cmocka_unit_test(repeats_itself),
        cmocka_unit_test(no_image_tokens),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(missing_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
