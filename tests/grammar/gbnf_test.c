/* SPDX-License-Identifier: Apache-2.0 */
/* gbnf_test.c - GBNF grammars: texts they accept and reject, errors in grammars, limits. */
#include "grammar/rules/gbnf.h"
#include "grammar/grammar.h"
#include "grammar/grammar_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { WORDS = 10 };

typedef struct gbnf_case {
    const char *text;
    const char *in[WORDS], *out[WORDS]; /* to the first NULL */
} gbnf_case;

#define ARITHMETIC                                                                                 \
    "root  ::= (expr \"=\" ws term \"\\n\")+\n"                                                    \
    "expr  ::= term ([-+*/] term)*\n"                                                              \
    "term  ::= ident | num | \"(\" ws expr \")\" ws\n"                                             \
    "ident ::= [a-z] [a-z0-9_]* ws\n"                                                              \
    "num   ::= [0-9]+ ws\n"                                                                        \
    "ws    ::= [ \\t\\n]*\n"

#define JSON                                                                                       \
    "# values of every kind\n"                                                                     \
    "root   ::= value\n\n"                                                                         \
    "value  ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"              \
    "object ::=\n  \"{\" ws (\n    pair   # at least one\n    (\",\" ws pair)*\n  )? \"}\"\n"      \
    "pair   ::= string ws \":\" ws value ws\n"                                                     \
    "array  ::= \"[\" ws (value ws (\",\" ws value ws)*)? \"]\"\n"                                 \
    "string ::= \"\\\"\" (\n"                                                                      \
    "  [^\"\\\\\\x7F\\x00-\\x1F] |\n"                                                              \
    "  \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4})\n)* \"\\\"\"\n"                            \
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]+)? ([eE] [-+]? [0-9]{1,3})?\n"     \
    "ws     ::= | \" \" | \"\\n\" [ \\t]{0,20}\n"

#define CHESS                                                                                      \
    "root ::= \"1. \" move \" \" move \"\\n\" ([1-9] [0-9]? \". \" move \" \" move \"\\n\")+\n"    \
    "move ::= (pawn | piece | castle) [+#]?\n"                                                     \
    "piece ::= [NBKQR] [a-h]? [1-8]? \"x\"? [a-h] [1-8]\n"                                         \
    "pawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBQR])?\n"                                        \
    "castle ::= \"O-O\" \"-O\"?\n"

#define C_LIKE                                                                                     \
    "root ::= function+\n"                                                                         \
    "function ::= type \" \" name \"(\" (type \" \" name (\", \" type \" \" name)*)? \") \" "      \
    "block\n"                                                                                      \
    "type ::= \"int\" | \"float\" | \"char\"\n"                                                    \
    "name ::= [a-zA-Z_] [a-zA-Z_0-9]{0,30}\n"                                                      \
    "block ::= \"{\" statement* \"}\"\n"                                                           \
    "statement ::= \"return \" sum \";\"\n"                                                        \
    "  | name \" = \" sum \";\"\n"                                                                 \
    "  | \"if (\" sum \") \" block (\" else \" block)?\n"                                          \
    "sum ::= product ((\" + \" | \" - \") product)*\n"                                             \
    "product ::= atom (\" * \" atom)*\n"                                                           \
    "atom ::= name | [0-9]+ | \"(\" sum \")\"\n"

static const gbnf_case cases[] = {
    {ARITHMETIC, {"a=1\n", "(x1 +2)*b= 7 \ny=y\n"}, {"", "a=1", "a+=1\n", "(a=1\n", "1a=b\n"}},
    {JSON,
     {"{}", "[1, -2.5e+3, null]", "{\"a\": {\"b\":[true,false]}, \"\xC3\xA9\": \"\\u00e9\\n\"}",
      "{\n \"name\": \"x\\\"y\"\n}"},
     {"", "{", "[1,]", "{\"a\" 1}", "01", "\"a\nb\"", "\"\\x\"", "{\"a\":1} "}},
    {CHESS,
     {"1. e4 e5\n2. Nf3 Nc6\n", "1. e4 d5\n2. exd5 Qxd5+\n10. O-O-O e8=Q#\n"},
     {"1. e4 e5\n", "1. e9 e5\n2. a1 a1\n", "2. e4 e5\n2. a1 a1\n"}},
    {C_LIKE,
     {"int f() {}", "int add(int a, float b) {return a + b * (2 - c);}",
      "char x() {if (1) {y = 2;} else {}}int g() {}"},
     {"int f()", "void f() {}", "int 1f() {}", "int f(int) {}", "int f() {return 1}"}},
    {"root ::= item+\nitem ::= \"- \" [^\\r\\n\\u2028\\x85]+ \"\\n\"",
     {"- a\n", "- foo bar\n- \xE4\xB8\x96\xE7\x95\x8C\n"},
     {"", "- \n", "- a", "-a\n", "- \xE2\x80\xA8\n", "- \xC2\x85\n"}},
    /* strings, classes, escapes */
    {"root ::= \"\\x41\\u00e9\\U0001F600\\t\\\"\\\\\\[\\]\"",
     {"A\xC3\xA9\xF0\x9F\x98\x80\t\"\\[]"},
     {"A"}},
    {"root ::= \"a\nb\"", {"a\nb"}, {"ab", "a"}},
    {"root ::= [\\-a\\]^.\\^]+", {"-a]^.", "^"}, {"b", "\\", ""}},
    {"root ::= [a-] [-a] [^a-c]", {"a-d", "--\xF0\x9F\x98\x80", "aa\n"}, {"b-d", "a-a", "aab"}},
    {"root ::= . . ", {"ab", "\n\n", "\xE4\xB8\x96\xF0\x9F\x98\x80"}, {"a", "abc", "\xE4\xB8"}},
    {"root ::= [\xC3\xA0-\xC3\xBC]{2}", {"\xC3\xA9\xC3\xA8"}, {"\xC3\xA9", "ee"}},
    {"root ::= [\\u4e00-\\u9fff]+ | [\\U0001F600-\\U0001F64F]",
     {"\xE4\xB8\x96", "\xF0\x9F\x98\x80"},
     {"a", "\xF0\x9F\x98\x80\xF0\x9F\x98\x80"}},
    /* repetitions */
    {"root ::= \"a\"{2} \"b\"{2,} \"c\"{1,3} \"d\"{0} \"e\" {0,1}",
     {"aabbc", "aabbbbccc", "aabbcce"},
     {"abbc", "aaabbc", "aabc", "aabb", "aabbcccc", "aabbcdd", "aabbcee"}},
    {"root ::= \"x\" *  \"y\" ? \"z\" +", {"z", "xxz", "yzzz", "xyz"}, {"", "x", "yyz"}},
    {"root ::= \"a\"{0,1000000} \"b\"", {"b", "aaaab"}, {"", "a"}},
    /* repetitions of nullable elements */
    {"root ::= (\"a\"?)* \"b\"", {"b", "aab"}, {"a", ""}},
    {"root ::= (\"a\"?)+ \"b\"", {"b", "aab"}, {"a", ""}},
    {"root ::= (\"a\"? \"b\"?){3,5}", {"", "ab", "ba", "aaaaa", "ababababab"}, {"aaaaaa", "c"}},
    {"root ::= (\"a\"? \"b\"*){200000,300000} \"c\"", {"c", "abbbaaac"}, {"", "abd"}},
    {"root ::= (x | y x?){2,4} \"!\"\nx ::= \"a\"? z\ny ::= \"\" | \"b\"\nz ::= \"c\"*",
     {"!", "aa!", "bacbaca!", "cccc!", "abacca!"},
     {"", "aaaaaaaaa!", "d!"}},
    {"root ::= ((\"a\"? \"b\"? \"c\"?){0,2}){2,3} | \"\"",
     {"", "abcabc", "cba", "cbacba"},
     {"ccccccc"}},
    {"root ::= x{0,900000} \"c\"\nx ::= \"a\"?", {"c", "aac"}, {"", "b"}},
    {"root ::= (\"\"){3,9} (\"\" | \"\")* ()", {""}, {"a"}},
    {"root ::= x{2,3}\nx ::= \"a\"{0,2}", {"", "aaaaaa", "aaa"}, {"aaaaaaa"}},
    {"root ::= (\"a\"{0,2} \"b\"{0}){3}", {"", "aaaaaa"}, {"b", "aaaaaaa"}},
    /* rules that call each other */
    {"root ::= \"a\" root \"b\" | \"\"", {"", "ab", "aaabbb"}, {"a", "aab", "ba"}},
    {"root ::= \"x\" root | \"y\"", {"y", "xxxxy"}, {"", "x"}},
    {"root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"c\"", {"c", "abcba"}, {"ab", "abcab"}},
    {"root ::= a\na ::= \"(\" b \")\" | \"x\"\nb ::= a \",\" b | a",
     {"x", "(x,(x),x)"},
     {"()", "(x,)"}},
    {"root ::= s\ns ::= \"a\" s s | \"a\"", {"a", "aaa", "aaaaa"}, {"", "aa", "aaaa"}},
    {"root ::= \"a\" never | \"b\"\nnever ::= \"x\" never", {"b"}, {"a", "ax"}},
    {"root ::= \"k\" | [^\\x00-\\U0010FFFF] \"x\" | [^\\x00-\\uD7FF\\uE000-\\U0010FFFF]",
     {"k"},
     {"x"}},
    {"root ::= \"a\" | unused{0}\nunused ::= \"b\"", {"a", ""}, {"b"}},
    /* lines */
    {"root ::=\n\n  \"a\" # \"b\"\n\n\n  \"c\"\n  | \"d\" |\n  \"e\"\n#x ::= y\n",
     {"ac", "d", "e"},
     {"a", "b"}},
    {"\r\n root::=A-1_b\r\nA-1_b\t::= \"x\"\r\n", {"x"}, {"", "X"}},
    {"root ::= (\"a\"\n|\n\"b\"\n)\n2 ::= \"c\"", {"a", "b"}, {"c"}},
    {"root ::= | \"a\" | ", {"", "a"}, {"b"}},
    {"root ::= x\"b\"\nx ::= ", {"b"}, {"", "xb"}},
};

static grammar *compiled(const char *text)
{
    mote_error err;
    grammar *g;
    if (grammar_of_gbnf(&g, rig_vocab(), str_of(text), &err) != MOTE_OK)
        fail_msg("%s\n%s", text, err.text);
    return g;
}

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        grammar *g = compiled(cases[i].text);
        for (size_t k = 0; k < WORDS && cases[i].in[k] != NULL; k++) {
            if (!rig_fits(g, cases[i].in[k]))
                fail_msg("'%s' is rejected by\n%s", cases[i].in[k], cases[i].text);
            rig_check_masks(g, str_of(cases[i].in[k]), i + k);
        }
        for (size_t k = 0; k < WORDS && cases[i].out[k] != NULL; k++)
            if (rig_fits(g, cases[i].out[k]))
                fail_msg("'%s' is accepted by\n%s", cases[i].out[k], cases[i].text);
        grammar_free(g);
    }
}

/* A text generated from the masks is accepted, and no mask on the way is empty. */
static void test_generated_texts(void **state)
{
    (void)state;
    char text[4096];
    size_t n, ended = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        grammar *g = compiled(cases[i].text);
        for (uint64_t seed = 0; seed < 4; seed++) {
            if (!rig_random_text(g, seed, text, 512, &n))
                continue;
            bool fits;
            assert_int_equal(grammar_check(g, (str){text, n}, &fits, NULL), MOTE_OK);
            assert_true(fits);
            ended++;
        }
        grammar_free(g);
    }
    assert_true(ended > sizeof cases / sizeof *cases);
}

static const struct {
    const char *text;
    mote_status status;
    const char *says;
} errors[] = {
    {"", MOTE_E_ARG, "no rule 'root'"},
    {"# nothing\n", MOTE_E_ARG, "no rule 'root'"},
    {"a ::= \"x\"", MOTE_E_ARG, "no rule 'root'"},
    {"root", MOTE_E_ARG, "line 1, column 5: expected '::='"},
    {"root = \"a\"", MOTE_E_ARG, "line 1, column 6: expected '::='"},
    {"\n  ::= \"a\"", MOTE_E_ARG, "line 2, column 3: expected a rule name"},
    {"root ::= \"a\n", MOTE_E_ARG, "line 1, column 10: string has no closing quote"},
    {"root ::= [a", MOTE_E_ARG, "line 1, column 10: class has no closing bracket"},
    {"root ::= [a-", MOTE_E_ARG, "line 1, column 10: class has no closing bracket"},
    {"root ::= []", MOTE_E_ARG, "empty class"},
    {"root ::= [^]", MOTE_E_ARG, "empty class"},
    {"root ::= [z-a]", MOTE_E_ARG, "column 11: reversed character range"},
    {"root ::= \"\xC3\xA9\" (\n(\"a\")\nx ::= \"b\"", MOTE_E_ARG,
     "line 1, column 14: group has no closing"},
    {"root ::= (\"a\"", MOTE_E_ARG, "line 1, column 10: group has no closing"},
    {"root ::= \"a\")", MOTE_E_ARG, "line 1, column 13: unmatched closing parenthesis"},
    {"root ::= *", MOTE_E_ARG, "line 1, column 10: repetition with nothing"},
    {"root ::= \"a\" | + \"b\"", MOTE_E_ARG, "line 1, column 16: repetition with nothing"},
    {"root ::= \"a\"*?", MOTE_E_ARG, "needs parentheses"},
    {"root ::= \"a\"{", MOTE_E_ARG, "column 14: expected a number"},
    {"root ::= \"a\"{,3}", MOTE_E_ARG, "column 14: expected a number"},
    {"root ::= \"a\"{1;2}", MOTE_E_ARG, "column 15: expected {n}"},
    {"root ::= \"a\"{3,2}", MOTE_E_ARG, "reversed"},
    {"root ::= \"a\"{1000001}", MOTE_E_ARG, "1,000,000"},
    {"root ::= \"a\"{99999999999999999999}", MOTE_E_ARG, "1,000,000"},
    {"root ::= \"\\q\"", MOTE_E_ARG, "line 1, column 11: unknown escape"},
    {"root ::= \"\\", MOTE_E_ARG, "unknown escape"},
    {"root ::= \"\\x4\"", MOTE_E_ARG, "two hexadecimal digits"},
    {"root ::= [\\u12]", MOTE_E_ARG, "four hexadecimal digits"},
    {"root ::= \"\\U1F600\"", MOTE_E_ARG, "eight hexadecimal digits"},
    {"root ::= \"\\uD83D\\uDE00\"", MOTE_E_ARG, "expected a code point"},
    {"root ::= \"\\U00110000\"", MOTE_E_ARG, "expected a code point"},
    {"root ::= \"\xFF\"", MOTE_E_ARG, "line 1, column 11: invalid UTF-8"},
    {"root ::= 'a'", MOTE_E_ARG, "column 10: expected a string in double quotes"},
    {"root ::= a; b", MOTE_E_ARG, "column 11: expected a string in double quotes"},
    {"root ::= \"a\" b ::= \"c\"", MOTE_E_ARG, "column 14: expected a new line"},
    {"root ::= \"a\"\nroot ::= \"b\"", MOTE_E_ARG,
     "line 2, column 1: rule 'root' is defined twice"},
    {"root ::= \"a\" |\n missing", MOTE_E_ARG, "line 2, column 2: rule 'missing' is not defined"},
    {"root ::= \"a\"\nx ::= y", MOTE_E_ARG, "line 2, column 7: rule 'y' is not defined"},
    /* left recursion: direct, indirect, after nullable elements, inside repetitions */
    {"root ::= root \"a\" | \"b\"", MOTE_E_ARG, "line 1, column 1: rule 'root' is left recursive"},
    {"root ::= root", MOTE_E_ARG, "left recursive"},
    {"root ::= \"x\" a\na ::= b \"y\" | \"z\"\nb ::= (a | \"c\") \"d\"", MOTE_E_ARG,
     "line 2, column 1: rule 'a' is left"},
    {"root ::= ws root \"a\" | \"b\"\nws ::= \" \"*", MOTE_E_ARG, "'root' is left recursive"},
    {"root ::= \"\" e (root \"a\"){2,3} | \"b\"\ne ::= e2 e2\ne2 ::= \"q\"? | e3\ne3 ::= ()",
     MOTE_E_ARG, "'root' is left recursive"},
    {"root ::= \"a\"\nu ::= (\"x\"? u)*", MOTE_E_ARG, "'u' is left recursive"},
    /* no text matches */
    {"root ::= \"a\" root", MOTE_E_ARG, "no text satisfies"},
    {"root ::= [^\\x00-\\U0010FFFF]", MOTE_E_ARG, "no text satisfies"},
    /* elements of other GBNF implementations */
    {"root ::= <[1234]>", MOTE_E_UNSUPPORTED,
     "line 1, column 10: token references are not supported"},
    {"root ::= !<think>", MOTE_E_UNSUPPORTED, "token references"},
    {"root ::= \"a\" (=\"b\")", MOTE_E_UNSUPPORTED, "column 14: lookahead is"},
    {"root ::= /a+/", MOTE_E_UNSUPPORTED, "slashes"},
};

static void must_fail(str text, mote_status status, const char *says)
{
    mote_error err = {0};
    grammar *g;
    assert_int_equal(grammar_of_gbnf(&g, rig_vocab(), text, &err), status);
    assert_null(g);
    if (strstr(err.text, says) == NULL)
        fail_msg("%.*s\n%s", STR_ARG(text), err.text);
}

static void test_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        must_fail(str_of(errors[i].text), errors[i].status, errors[i].says);
}

/* `what` n times between two texts. */
static strbuf repeated(const char *before, const char *what, size_t n, const char *after)
{
    strbuf text = {0};
    strbuf_text(&text, before);
    for (size_t i = 0; i < n; i++)
        strbuf_text(&text, what);
    strbuf_text(&text, after);
    assert_false(text.failed);
    return text;
}

static void test_limits(void **state)
{
    static const struct {
        const char *before, *what;
        size_t n;
        const char *after, *says;
    } limits[] = {
        {"root ::= ", "(", GBNF_MAX_DEPTH + 1, "", "groups nested more than 64 deep"},
        {"root ::= \"a\"\n#", "x", GBNF_MAX_BYTES, "", "grammar of 262"},
        {"root ::= ", "\"\"", GBNF_MAX_PARTS, "", "more than 65,536 elements"},
        {"root ::= \"a\"\n", "n", GBNF_MAX_NAME + 1, " ::= \"b\"", "more than 64 bytes"},
        {"root ::= \"", "a", 200000, "\"", "more than 200,000 states"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        strbuf text = repeated(limits[i].before, limits[i].what, limits[i].n, limits[i].after);
        must_fail(strbuf_view(&text), MOTE_E_ARG, limits[i].says);
        strbuf_fini(&text);
    }
    strbuf many = {0};
    for (unsigned i = 0; i <= GBNF_MAX_RULES; i++) {
        const char digits[] = {(char)('a' + i % 26), (char)('a' + i / 26 % 26),
                               (char)('a' + i / 676), 0};
        strbuf_text(&many, digits);
        strbuf_text(&many, "::=\"\"\n");
    }
    must_fail(strbuf_view(&many), MOTE_E_ARG, "more than 8,192 rules");
    strbuf_fini(&many);
    strbuf deep = repeated("root ::= ", "(\"a\" (", GBNF_MAX_DEPTH / 2, "\"b\"");
    for (int i = 0; i < GBNF_MAX_DEPTH; i++)
        strbuf_text(&deep, ")?");
    strbuf_byte(&deep, 0);
    grammar *g = compiled(deep.p);
    assert_true(rig_fits(g, "aaaab") == false && rig_fits(g, "aaaaa") && rig_fits(g, ""));
    grammar_free(g);
    strbuf_fini(&deep);
}

/* A grammar as one part of a larger one: forced bytes before it, and the end. */
static void test_as_one_part(void **state)
{
    (void)state;
    mote_error err = {0};
    grammar_builder b;
    grammar *g;
    grammar_matcher *m;
    char out[64];
    bool ends;
    grammar_begin(&b, &err);
    grammar_add_text(&b, str_of("<"));
    grammar_add_gbnf(&b, str_of("root ::= \"move: \" [a-h] [1-8] (\"!\" | \"?\")"));
    grammar_add_text(&b, str_of(">"));
    assert_int_equal(grammar_finish(&b, rig_vocab(), &g), MOTE_OK);
    assert_int_equal(grammar_matcher_new(&m, g, NULL), MOTE_OK);
    assert_int_equal(grammar_forced(m, out, sizeof out, &ends), 7);
    assert_memory_equal(out, "<move: ", 7);
    assert_int_equal(grammar_shortest(m, out, sizeof out), 11);
    assert_memory_equal(out, "<move: a1!>", 11);
    grammar_matcher_free(m);
    grammar_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),       cmocka_unit_test(test_generated_texts),
        cmocka_unit_test(test_errors),      cmocka_unit_test(test_limits),
        cmocka_unit_test(test_as_one_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
