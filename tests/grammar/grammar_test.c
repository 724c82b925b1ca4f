/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grammar_test.c - masks, matchers and forced bytes, on JSON without a schema.
 *
 * A mask is compared with grammar_allows of every token, which uses none of the mask's shortcuts.
 */
#include "grammar/rules/rules.h"
#include "base/mem.h"
#include "grammar/grammar_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static grammar *json_grammar(bool compact)
{
    rules *r;
    assert_int_equal(rules_new(&r, NULL), MOTE_OK);
    r->compact = compact;
    const uint32_t any = json_rules_any(r);
    return rig_grammar(r, any);
}

static void test_json_values(void **state)
{
    static const char *const good[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "12",
        "-3.25",
        "1e9",
        "2.5E-10",
        "1e-07",
        "\"\"",
        "\"a b\"",
        "\"\\u00e9\\n\\\"\\\\\\/\"",
        "\"\\ud83d\\ude00\"",
        "\"\xE4\xB8\x96\"",
        "[]",
        "[1]",
        "[1,2]",
        "[1, 2]",
        "[\n  1,\n  2\n]",
        "{}",
        "{\"a\":1}",
        "{\"a\": 1, \"b\": [{}]}",
        "{\n    \"a\": {\n        \"b\": null\n    }\n}",
        "[[[[[[]]]]]]",
        "\"\x7F\"",
    };
    static const char *const bad[] = {
        "",
        "nul",
        "nulll",
        "01",
        "+1",
        "1.",
        ".5",
        "1e",
        "1e999",
        "\"",
        "\"\n\"",
        "\"\\x\"",
        "\"\\ud83d\"",
        "\"\\ude00\"",
        "\"\\ud83dx\"",
        "\"\xC0\x80\"",
        "\"\xED\xA0\x80\"",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{a:1}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        " 1",
        "1 ",
        "[ \n 1]",
        "[  1]",
        "[1 , 2]",
        "\"\xFF\"",
        "'a'",
        "NaN",
    };
    (void)state;
    grammar *g = json_grammar(false);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!rig_fits(g, good[i]))
            fail_msg("%s is rejected", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (rig_fits(g, bad[i]))
            fail_msg("%s is accepted", bad[i]);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        for (uint64_t seed = 0; seed < 4; seed++)
            rig_check_masks(g, str_of(good[i]), seed);
    grammar_free(g);
}

static void test_compact(void **state)
{
    (void)state;
    grammar *g = json_grammar(true);
    assert_true(rig_fits(g, "{\"a\":[1,2]}"));
    assert_false(rig_fits(g, "{\"a\": 1}"));
    assert_false(rig_fits(g, "[\n]"));
    grammar_free(g);
}

/* At the maximum depth no bracket can be opened, and all open ones can be closed. */
static void test_depth(void **state)
{
    (void)state;
    grammar *g = json_grammar(false);
    grammar_matcher *m;
    assert_int_equal(grammar_matcher_new(&m, g, NULL), MOTE_OK);
    int depth = 0;
    while (grammar_accept(m, '[', NULL) == MOTE_OK)
        depth++;
    assert_int_equal(depth, JSON_RULES_DEPTH);
    for (int i = 0; i < depth; i++)
        assert_int_equal(grammar_accept(m, ']', NULL), MOTE_OK);
    assert_true(grammar_is_complete(m));
    grammar_matcher_free(m);
    grammar_free(g);
}

/* Texts generated from the masks are accepted, and every mask on the way is exact. */
static void test_random_walks(void **state)
{
    (void)state;
    enum { ROOM = 4096 };
    static char text[ROOM];
    grammar *g = json_grammar(false);
    int ended = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        size_t n;
        if (!rig_random_text(g, seed, text, ROOM, &n))
            continue;
        bool fits;
        assert_int_equal(grammar_check(g, (str){text, n}, &fits, NULL), MOTE_OK);
        assert_true(fits);
        if (n < 300)
            rig_check_masks(g, (str){text, n}, seed);
        ended++;
    }
    assert_true(ended > 100);
    grammar_free(g);
}

static void accept_text(grammar_matcher *m, const char *text)
{
    mote_error err;
    for (const char *p = text; *p != 0; p++)
        if (grammar_accept(m, (unsigned char)*p, &err) != MOTE_OK)
            fail_msg("%s: %s", text, err.text);
}

static void test_rewind_and_fork(void **state)
{
    (void)state;
    grammar *g = json_grammar(false);
    grammar_matcher *m, *other;
    assert_int_equal(grammar_matcher_new(&m, g, NULL), MOTE_OK);
    accept_text(m, "{\"a\": [1");
    assert_int_equal(grammar_length(m), 8);
    assert_int_equal(grammar_matcher_fork(&other, m, NULL), MOTE_OK);
    accept_text(other, "]}");
    assert_true(grammar_is_complete(other));
    assert_false(grammar_is_complete(m));
    grammar_rewind(other, 1);
    assert_int_equal(grammar_length(other), 1);
    accept_text(other, "}");
    assert_true(grammar_is_complete(other));
    grammar_rewind(other, 100);
    assert_int_equal(grammar_length(other), 2);
    accept_text(m, ", 2]}");
    assert_true(grammar_is_complete(m));
    grammar_matcher_free(m);
    grammar_matcher_free(other);
    grammar_free(g);
}

static void test_rejected_token_changes_nothing(void **state)
{
    (void)state;
    grammar *g = json_grammar(false);
    grammar_matcher *m;
    mote_error err;
    uint32_t bits[32];
    assert_int_equal(grammar_matcher_new(&m, g, NULL), MOTE_OK);
    static const mote_token refused[] = {'x', -1, 1000000};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(grammar_accept(m, refused[i], &err), MOTE_E_ARG);
    assert_int_equal(grammar_accept(m, (mote_token)rig_control_token(), &err), MOTE_E_ARG);
    assert_int_equal(grammar_accept(m, (mote_token)rig_end_token(), &err), MOTE_E_ARG);
    assert_int_equal(grammar_length(m), 0);
    accept_text(m, "null");
    assert_int_equal(grammar_accept(m, (mote_token)rig_end_token(), &err), MOTE_OK);
    assert_true(grammar_is_over(m));
    assert_int_equal(grammar_accept(m, (mote_token)rig_end_token(), &err), MOTE_E_ARG);
    bits[0] = 1;
    assert_int_equal(grammar_mask(m, bits, &err), MOTE_E_ARG);
    assert_int_equal(bits[0], 0);
    grammar_rewind(m, 4);
    assert_false(grammar_is_over(m));
    grammar_matcher_free(m);
    grammar_free(g);
}

/* ---- forced bytes ---- */

static grammar *literal_grammar(const char *first, const char *second)
{
    rules *r;
    assert_int_equal(rules_new(&r, NULL), MOTE_OK);
    const uint32_t rule = rules_add(r);
    rules_literal_to(r, rules_start_of(r, rule), str_of(first), rules_end_of(r, rule));
    rules_literal_to(r, rules_start_of(r, rule), str_of(second), rules_end_of(r, rule));
    return rig_grammar(r, rule);
}

/* final: nothing can follow the forced bytes. */
static void check_forced(const char *first, const char *second, const char *before,
                         const char *forced, bool final)
{
    grammar *g = literal_grammar(first, second);
    grammar_matcher *m;
    char out[64];
    bool ends;
    assert_int_equal(grammar_matcher_new(&m, g, NULL), MOTE_OK);
    accept_text(m, before);
    const size_t n = grammar_forced(m, out, sizeof out, &ends);
    assert_int_equal(n, strlen(forced));
    assert_int_equal(ends, final);
    assert_memory_equal(out, forced, n);
    assert_true(grammar_forced(m, out, 2, &ends) <= 2);
    grammar_matcher_free(m);
    grammar_free(g);
}

static void test_forced(void **state)
{
    (void)state;
    check_forced("hello one", "hello two", "", "hello ", false);
    check_forced("hello one", "hello two", "hello o", "ne", true);
    check_forced("hello one", "hello two", "hello one", "", true);
    check_forced("hello", "hello two", "", "hello", false);
    check_forced("hello", "hello two", "hello", "", false);
    /* The second byte differs: half a character is not forced. */
    check_forced("a\xC3\xA9", "a\xC3\xA8", "", "a", false);
    check_forced("a\xC3\xA9", "a\xC3\xA9", "a", "\xC3\xA9", true);
    check_forced("a\xC3\xA9z", "a\xC3\xA9z", "a\xC3", "", false);
    check_forced("\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80x", "", "\xF0\x9F\x98\x80", false);
}

/* ---- long texts ---- */

/* A string with a length limit creates a new configuration with every character. Unused ones are
 * collected; the history of a matcher stays valid. */
static void test_collection(void **state)
{
    (void)state;
    rules *r;
    assert_int_equal(rules_new(&r, NULL), MOTE_OK);
    const uint32_t rule = rules_add(r);
    json_rules_put_string(r, rules_start_of(r, rule), 0, 100000, rules_end_of(r, rule));
    grammar *g = rig_grammar(r, rule);
    grammar_matcher *m;
    mote_error err;
    uint32_t bits[32];
    uint64_t largest = 0;
    for (int round = 0; round < 4; round++) {
        assert_int_equal(grammar_matcher_new(&m, g, NULL), MOTE_OK);
        accept_text(m, "\"");
        for (int i = 0; i < 30000; i++) {
            if (grammar_accept(m, 'a' + i % 26, &err) != MOTE_OK)
                fail_msg("%s", err.text);
            if (i % 997 == 0)
                assert_int_equal(grammar_mask(m, bits, &err), MOTE_OK);
        }
        grammar_rewind(m, 20000);
        accept_text(m, "xyz\"");
        assert_true(grammar_is_complete(m));
        grammar_matcher_free(m);
        if (round == 1)
            largest = grammar_bytes(g);
    }
    assert_true(grammar_bytes(g) <= largest);
    grammar_free(g);
}

/* The length limits of a string hold inside tokens, far from the limits and near them. */
static void test_counted_strings(void **state)
{
    static const uint32_t limits[][2] = {{0, 3},   {2, 2}, {5, RULES_NO_LIMIT}, {1, 20}, {30, 40},
                                         {0, 200}, {0, 0}, {100, 300}};
    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        rules *r;
        assert_int_equal(rules_new(&r, NULL), MOTE_OK);
        const uint32_t rule = rules_add(r);
        json_rules_put_string(r, rules_start_of(r, rule), limits[i][0], limits[i][1],
                              rules_end_of(r, rule));
        grammar *g = rig_grammar(r, rule);
        for (uint64_t seed = 0; seed < 10; seed++) {
            static char text[8192];
            size_t n, at = 1, dfa_seen = 0;
            uint32_t c;
            if (!rig_random_text(g, seed, text, sizeof text, &n))
                continue;
            while (at < n - 1) {
                /* An escape of six or twelve bytes, or of two, or a character. */
                if (text[at] == '\\' && text[at + 1] == 'u')
                    at += (text[at + 2] | 32) == 'd' && strchr("89abAB", text[at + 3]) ? 12 : 6;
                else if (text[at] == '\\')
                    at += 2;
                else
                    assert_true(dfa_decode((str){text, n}, &at, &c));
                dfa_seen++;
            }
            assert_in_range(dfa_seen, limits[i][0], limits[i][1]);
            rig_check_masks(g, (str){text, n}, seed);
        }
        grammar_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_values),
        cmocka_unit_test(test_compact),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_random_walks),
        cmocka_unit_test(test_rewind_and_fork),
        cmocka_unit_test(test_rejected_token_changes_nothing),
        cmocka_unit_test(test_forced),
        cmocka_unit_test(test_collection),
        cmocka_unit_test(test_counted_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
