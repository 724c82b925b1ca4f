/* SPDX-License-Identifier: Apache-2.0 */
/*
 * automaton_test.c - DFAs, regular expressions, byte rules.
 */
#include "grammar/rules/rules.h"
#include "grammar/rules/regex.h"
#include "base/mem.h"
#include "grammar/grammar_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* ---- regular expressions ---- */

typedef struct regex_case {
    const char *pattern;
    const char *in, *out; /* words separated by '|', "" is the empty word */
} regex_case;

static const regex_case cases[] = {
    {"^abc$", "abc", "ab|abcd|xabc|"},
    {"abc", "abc|xabcx|aabc", "ab|acb|"},
    {"^a|b$", "a|ax|b|xb|ab", "xa|bx|"},
    {"^(a|b)*c+$", "c|abbac|ccc", "ab|a|"},
    {"^[a-c]{2,3}$", "ab|abc|ccc", "a|abcd|ad"},
    {"^x{0}$", "", "x|y"},
    {"^(?:ab){2}$", "abab", "ab|ababab"},
    {"^\\d{3}-\\d{4}$", "555-1234", "555-123|5555-1234|abc-defg"},
    {"^[^0-9]+$", "abc|\xC3\xA9", "a1|1|"},
    {"^\\w+\\s\\S+$", "ab c|x y_z", "ab|a  |"},
    {"^.$", "a|\xE4\xB8\x96|\xF0\x9F\x98\x80", "|ab|\n"},
    {"^[\\u4e00-\\u9fff]+$", "\xE4\xB8\x96\xE7\x95\x8C", "a|\xC3\xA9"},
    {"^\\uD83D\\uDE00$", "\xF0\x9F\x98\x80", "a"},
    {"^[\\-a\\]]+$", "-a]", "b|\\"},
    {"^[a-]$", "a|-", "b"},
    {"^a{2,}$", "aa|aaaaa", "a|"},
    {"^a{x$", "a{x", "a"},
    {"^(?<y>a)b$", "ab", "a|b"},
    {"^a+?b*?$", "a|aab", "b|"},
    {"^$", "", "a| "},
    {"", "|a|anything", "\xFF"},
    {"a^b", "", "ab|a^b"},
    {"^(|a)$", "|a", "b|aa"},
    {"^\\x41\\t\\cA$", "A\t\x01", "A"},
    {"^[\\s\\d]+$", " 1", "a|"},
    {"^\\$\\.\\*$", "$.*", "$ab"},
    {"(a$|b)", "a|xa|b|bx", "ax|"},
};

/* Calls `check` for each word of a list. */
static void for_words(const char *list, void (*check)(const dfa *, str, const char *), const dfa *c,
                      const char *pattern)
{
    for (;;) {
        const char *end = strchr(list, '|');
        const size_t n = end != NULL ? (size_t)(end - list) : strlen(list);
        check(c, (str){list, n}, pattern);
        if (end == NULL)
            return;
        list = end + 1;
    }
}

static void must_accept(const dfa *c, str word, const char *pattern)
{
    if (!dfa_accepts(c, word))
        fail_msg("/%s/ does not match '%.*s'", pattern, (int)word.n, word.p);
}

static void must_reject(const dfa *c, str word, const char *pattern)
{
    if (dfa_accepts(c, word))
        fail_msg("/%s/ matches '%.*s'", pattern, (int)word.n, word.p);
}

static dfa compiled(const char *pattern, regex_mode mode)
{
    dfa_fuel fuel = {RIG_FUEL};
    mote_error err;
    dfa c;
    if (regex_compile(&c, str_of(pattern), mode, &fuel, &err) != MOTE_OK)
        fail_msg("%s", err.text);
    return c;
}

static void test_regex_search(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dfa c = compiled(cases[i].pattern, REGEX_SEARCH);
        if (strcmp(cases[i].pattern, "a^b") != 0)
            for_words(cases[i].in, must_accept, &c, cases[i].pattern);
        for_words(cases[i].out, must_reject, &c, cases[i].pattern);
        dfa_fini(&c);
    }
}

static void test_regex_matches_whole(void **state)
{
    (void)state;
    dfa c = compiled("a|bc", REGEX_WHOLE);
    for_words("a|bc", must_accept, &c, "a|bc");
    for_words("|ab|abc|xa|bcx", must_reject, &c, "a|bc");
    dfa_fini(&c);
}

static void test_regex_rejects(void **state)
{
    static const struct {
        const char *pattern;
        mote_status status;
        const char *says;
    } rejected[] = {
        {"(a", MOTE_E_ARG, "unclosed group"},
        {"a)", MOTE_E_ARG, "closing parenthesis"},
        {"[a", MOTE_E_ARG, "unclosed class"},
        {"*a", MOTE_E_ARG, "quantifier"},
        {"a{3,2}", MOTE_E_ARG, "reversed"},
        {"[z-a]", MOTE_E_ARG, "reversed range"},
        {"a{20000}", MOTE_E_ARG, "10,000"},
        {"\\", MOTE_E_ARG, "backslash"},
        {"(a)\\1", MOTE_E_UNSUPPORTED, "backreferences"},
        {"(?=a)", MOTE_E_UNSUPPORTED, "lookaround"},
        {"(?<!a)", MOTE_E_UNSUPPORTED, "lookaround"},
        {"\\bword", MOTE_E_UNSUPPORTED, "word boundaries"},
        {"\\p{L}", MOTE_E_UNSUPPORTED, "properties"},
        {"\\u12", MOTE_E_ARG, "escape"},
        {"\xFF", MOTE_E_ARG, "UTF-8"},
        {"((a{100}){100}){100}", MOTE_E_ARG, "too large"},
        {"^(a|b)*a(a|b){20}$", MOTE_E_ARG, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rejected / sizeof *rejected; i++) {
        dfa_fuel fuel = {RIG_FUEL};
        mote_error err = {0};
        dfa c;
        assert_int_equal(regex_compile(&c, str_of(rejected[i].pattern), REGEX_SEARCH, &fuel, &err),
                         rejected[i].status);
        if (strstr(err.text, rejected[i].says) == NULL)
            fail_msg("/%s/: %s", rejected[i].pattern, err.text);
        assert_int_equal(c.n, 0);
    }
}

/* 100,000 opening parentheses are an error, not a crash. */
static void test_regex_depth(void **state)
{
    (void)state;
    char pattern[REGEX_MAX_BYTES];
    memset(pattern, '(', sizeof pattern);
    dfa_fuel fuel = {RIG_FUEL};
    dfa c;
    assert_int_equal(regex_compile(&c, (str){pattern, sizeof pattern}, REGEX_SEARCH, &fuel, NULL),
                     MOTE_E_ARG);
}

/* ---- DFAs ---- */

static dfa combined(const char *a, dfa_op op, const char *b)
{
    dfa x = compiled(a, REGEX_SEARCH), y = compiled(b, REGEX_SEARCH), out;
    dfa_fuel fuel = {RIG_FUEL};
    assert_int_equal(dfa_combine(&out, &x, op, &y, &fuel, NULL), MOTE_OK);
    dfa_fini(&x);
    dfa_fini(&y);
    return out;
}

static void test_dfa_combine(void **state)
{
    (void)state;
    dfa c = combined("^a", DFA_INTERSECT, "b$");
    for_words("ab|axxb", must_accept, &c, "both");
    for_words("a|b|ba|", must_reject, &c, "both");
    dfa_fini(&c);
    c = combined("^a", DFA_SUBTRACT, "b$");
    for_words("a|aba", must_accept, &c, "but not");
    for_words("ab|b|", must_reject, &c, "but not");
    dfa_fini(&c);
    c = combined("^a$", DFA_UNION, "^b$");
    for_words("a|b", must_accept, &c, "either");
    for_words("ab|", must_reject, &c, "either");
    dfa_fini(&c);
    c = combined("^a$", DFA_INTERSECT, "^b$");
    assert_true(dfa_empty(&c));
}

static void test_lengths_and_words(void **state)
{
    (void)state;
    dfa_fuel fuel = {RIG_FUEL};
    dfa c;
    assert_int_equal(dfa_length(&c, 2, 3, &fuel, NULL), MOTE_OK);
    for_words("ab|abc|\xE4\xB8\x96\xE7\x95\x8C", must_accept, &c, "2 to 3");
    for_words("|a|abcd", must_reject, &c, "2 to 3");
    dfa_fini(&c);
    assert_int_equal(dfa_length(&c, 3, 2, &fuel, NULL), MOTE_OK);
    assert_true(dfa_empty(&c));
    const str words[] = {str_of("b"), str_of("abc"), str_of("ab"), str_of("")};
    assert_int_equal(dfa_words(&c, words, 4, &fuel, NULL), MOTE_OK);
    for_words("b|abc|ab|", must_accept, &c, "words");
    for_words("a|abcd|c", must_reject, &c, "words");
    dfa_fini(&c);
}

static void test_fuel_limit(void **state)
{
    (void)state;
    dfa_fuel fuel = {100};
    mote_error err = {0};
    dfa c;
    assert_int_equal(regex_compile(&c, str_of("^[a-z]{500}$"), REGEX_SEARCH, &fuel, &err),
                     MOTE_E_ARG);
    assert_non_null(strstr(err.text, "work"));
}

/* ---- rules ---- */

/* A DFA converted to rules accepts the same strings. */
static void test_dfa_to_rules(void **state)
{
    (void)state;
    dfa c = compiled("^[^a-y\\n]{1,2}$", REGEX_SEARCH);
    rules *r;
    assert_int_equal(rules_new(&r, NULL), MOTE_OK);
    const uint32_t rule = rules_add(r);
    assert_int_equal(dfa_put_raw(r, &c, rules_start_of(r, rule), rules_end_of(r, rule), NULL),
                     MOTE_OK);
    grammar *g = rig_grammar(r, rule);
    assert_true(rig_fits(g, "z"));
    assert_true(rig_fits(g, "\xE4\xB8\x96\xF0\x9F\x98\x80"));
    assert_false(rig_fits(g, "a"));
    assert_false(rig_fits(g, "\xED\xA0\x80"));
    assert_false(rig_fits(g, "\xC0\x80"));
    assert_false(rig_fits(g, "zzz"));
    rig_check_masks(g, str_of("\xE4\xB8\x96z"), 1);
    grammar_free(g);
    dfa_fini(&c);
}

static void test_dfa_to_json_rules(void **state)
{
    (void)state;
    dfa c = compiled("^[a\"\\\\\\n\\x1f]*$", REGEX_SEARCH);
    rules *r;
    assert_int_equal(rules_new(&r, NULL), MOTE_OK);
    const uint32_t rule = rules_add(r), open = rules_state(r), close = rules_state(r);
    rules_read(r, rules_start_of(r, rule), '"', '"', open);
    assert_int_equal(dfa_put_json(r, &c, open, close, NULL), MOTE_OK);
    rules_read(r, close, '"', '"', rules_end_of(r, rule));
    grammar *g = rig_grammar(r, rule);
    assert_true(rig_fits(g, "\"a\\\"\\\\\\n\\u001f\\u001F\""));
    assert_false(rig_fits(g, "\"b\""));
    assert_false(rig_fits(g, "\"\n\""));
    assert_false(rig_fits(g, "\"\\t\""));
    rig_check_masks(g, str_of("\"a\\\"\\n\\u001fa\""), 2);
    grammar_free(g);
    dfa_fini(&c);
}

/* Dead ends are removed: no mask allows a byte that leads into one. */
static void test_rules_dead_ends(void **state)
{
    (void)state;
    rules *r;
    mote_error err = {0};
    assert_int_equal(rules_new(&r, NULL), MOTE_OK);
    const uint32_t rule = rules_add(r), endless = rules_add(r);
    rules_literal_to(r, rules_start_of(r, rule), str_of("ab"), rules_end_of(r, rule));
    rules_call(r, rules_literal(r, rules_start_of(r, rule), str_of("c")), endless,
               rules_end_of(r, rule));
    rules_call(r, rules_literal(r, rules_start_of(r, endless), str_of("x")), endless,
               rules_end_of(r, endless));
    grammar *g = rig_grammar(r, rule);
    grammar_matcher *m;
    assert_int_equal(grammar_matcher_new(&m, g, NULL), MOTE_OK);
    assert_true(grammar_allows(m, 'a'));
    assert_false(grammar_allows(m, 'c'));
    grammar_matcher_free(m);
    grammar_free(g);

    assert_int_equal(rules_new(&r, NULL), MOTE_OK);
    const uint32_t never = rules_add(r);
    rules_call(r, rules_literal(r, rules_start_of(r, never), str_of("x")), never,
               rules_end_of(r, never));
    assert_int_equal(rules_finish(r, never, &err), MOTE_E_ARG);
    rules_free(r);
}

static void test_rules_count(void **state)
{
    (void)state;
    rules *r;
    assert_int_equal(rules_new(&r, NULL), MOTE_OK);
    const uint32_t rule = rules_add(r), word = rules_add(r), extra = rules_add(r);
    rules_literal_to(r, rules_start_of(r, word), str_of("foo"), rules_end_of(r, word));
    rules_literal_to(r, rules_start_of(r, extra), str_of("bar"), rules_end_of(r, extra));
    const uint32_t between = rules_state(r);
    rules_loop(r, rules_start_of(r, rule), word, 2, 3, between);
    const rules_set_info set = {
        .member = {word, extra}, .n = 2, .required = 2, .max = 2, .exit = rules_end_of(r, rule)};
    rules_set(r, rules_literal(r, between, str_of(":")), &set);
    grammar *g = rig_grammar(r, rule);
    assert_true(rig_fits(g, "foofoo:bar"));
    assert_true(rig_fits(g, "foofoofoo:foobar"));
    assert_true(rig_fits(g, "foofoofoo:barfoo"));
    assert_false(rig_fits(g, "foo:bar"));
    assert_false(rig_fits(g, "foofoofoofoo:bar"));
    assert_false(rig_fits(g, "foofoo:foo"));
    assert_false(rig_fits(g, "foofoo:barbar"));
    rig_check_masks(g, str_of("foofoofoo:barfoo"), 3);
    grammar_free(g);
}

/* A set of three members: one is required, exactly two are present. */
static void test_rules_count_members(void **state)
{
    (void)state;
    rules *r;
    assert_int_equal(rules_new(&r, NULL), MOTE_OK);
    const uint32_t rule = rules_add(r);
    rules_set_info set = {.n = 3, .required = 4, .min = 2, .max = 2, .exit = rules_end_of(r, rule)};
    for (uint32_t i = 0; i < 3; i++) {
        const char letter[] = {(char)('a' + i), 0};
        set.member[i] = rules_add(r);
        rules_literal_to(r, rules_start_of(r, set.member[i]), str_of(letter),
                         rules_end_of(r, set.member[i]));
    }
    rules_set(r, rules_start_of(r, rule), &set);
    grammar *g = rig_grammar(r, rule);
    for (const char *word = "ac\0ca\0bc\0cb\0"; *word != 0; word += 3)
        assert_true(rig_fits(g, word));
    for (const char *word = "ab\0ba\0aa\0cc\0"; *word != 0; word += 3)
        assert_false(rig_fits(g, word));
    assert_false(rig_fits(g, "c"));
    assert_false(rig_fits(g, "cab"));
    rig_check_masks(g, str_of("bc"), 4);
    grammar_free(g);
}

static void test_rules_limit(void **state)
{
    (void)state;
    rules *r;
    mote_error err = {0};
    assert_int_equal(rules_new(&r, NULL), MOTE_OK);
    for (int i = 0; i < RULES_MAX_STATES + 10; i++)
        rules_state(r);
    assert_int_equal(rules_finish(r, 0, &err), MOTE_E_ARG);
    assert_non_null(strstr(err.text, "200,000"));
    rules_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regex_search),        cmocka_unit_test(test_regex_matches_whole),
        cmocka_unit_test(test_regex_rejects),       cmocka_unit_test(test_regex_depth),
        cmocka_unit_test(test_dfa_combine),         cmocka_unit_test(test_lengths_and_words),
        cmocka_unit_test(test_fuel_limit),          cmocka_unit_test(test_dfa_to_rules),
        cmocka_unit_test(test_dfa_to_json_rules),   cmocka_unit_test(test_rules_dead_ends),
        cmocka_unit_test(test_rules_count),         cmocka_unit_test(test_rules_limit),
        cmocka_unit_test(test_rules_count_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
