/* SPDX-License-Identifier: Apache-2.0 */
/* json_strict_test.c - the parser: valid and invalid JSON, duplicate names, limits. */
#include "json/json.h"
#include "support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static json_doc *read_ok(const char *text)
{
    json_doc *doc = NULL;
    mote_error err = {0};
    if (json_doc_read(&doc, str_of(text), &err) != MOTE_OK)
        fail_msg("%s: %s", text, err.text);
    return doc;
}

static mote_error expect_error(str text, mote_status status)
{
    json_doc *doc = (json_doc *)(uintptr_t)1;
    mote_error err = {0};
    assert_int_equal(json_doc_read(&doc, text, &err), status);
    assert_null(doc);
    return err;
}

static void expect_dump(const char *text, const char *expected)
{
    json_doc *doc = read_ok(text);
    strbuf out = {0};
    json_put_node(&out, json_doc_root(doc));
    strbuf_byte(&out, 0);
    assert_string_equal(out.p, expected);
    strbuf_fini(&out);
    json_doc_free(doc);
}

static void invalid_json_is_rejected(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        " ",
                                        "{",
                                        "[1,]",
                                        "[1 2]",
                                        "01",
                                        "1 2",
                                        "-",
                                        "+1",
                                        ".5",
                                        "1.",
                                        "1e",
                                        "1.e5",
                                        "0x10",
                                        "NaN",
                                        "Infinity",
                                        "nul",
                                        "True",
                                        "'a'",
                                        "\"a",
                                        "\"\\x\"",
                                        "[1]]",
                                        "{\"a\"}",
                                        "{\"a\":1,}",
                                        "{a:1}",
                                        "\"\t\"",
                                        "\"\n\"",
                                        "[1]x",
                                        "\"\x80\"",
                                        "\"\xC0\x80\"",
                                        "\"\xED\xA0\x80\"",
                                        "\"\xF4\x90\x80\x80\"",
                                        "\"\\u12\"",
                                        "// c\n1",
                                        "{\"a\\u0000b\": 1}",
                                        "1-1",
                                        "1.5.5",
                                        "-01",
                                        "[-]",
                                        "1e5e5",
                                        "--0",
                                        "[1, --0, 80]",
                                        "-x0",
                                        "+0",
                                        "-\"\"0",
                                        "00",
                                        "]",
                                        "}",
                                        ",",
                                        ":",
                                        "[",
                                        "[1",
                                        "[1,",
                                        "[,1]",
                                        "[1,,2]",
                                        "[1:2]",
                                        "[1}",
                                        "{\"a\":1]",
                                        "{,}",
                                        "{:1}",
                                        "{\"a\":}",
                                        "{\"a\"",
                                        "{\"a\":",
                                        "{\"a\":1",
                                        "{\"a\":1,",
                                        "{\"a\" 1}",
                                        "{\"a\":1 \"b\":2}",
                                        "{\"a\":1,,\"b\":2}",
                                        "{\"a\":\"b\":1}",
                                        "{1:1}",
                                        "{null:1}",
                                        "{'a':1}",
                                        "{\"a\":1}{}",
                                        "[][]",
                                        "[]]",
                                        "\"a\"\"b\"",
                                        "[\"a\"\"b\"]",
                                        "[\"a\" 1]",
                                        "truefalse",
                                        "[true false]",
                                        "tru",
                                        "fals",
                                        "TRUE",
                                        "nan",
                                        "-Infinity",
                                        "-NaN",
                                        "1.0e",
                                        "1.0e+",
                                        "1eE2",
                                        "0e",
                                        "0.3e",
                                        "2.e3",
                                        "-2.",
                                        "9.e+",
                                        "1 000",
                                        "1_000",
                                        "012",
                                        "-012",
                                        "1a",
                                        "0x1",
                                        "- 1",
                                        "\"",
                                        "\"\\",
                                        "\"\\\"",
                                        "\"\\u\"",
                                        "\"\\u00A\"",
                                        "\"\\u00G0\"",
                                        "\"\\U0041\"",
                                        "\"\\a\"",
                                        "\"\\'\"",
                                        "\"\\0\"",
                                        "\"\\\t\"",
                                        "\"\\ud800\\u\"",
                                        "\"\\ud800\\ud80\"",
                                        "\"\x1f\"",
                                        "\"\r\"",
                                        "\"\xC2\"",
                                        "\"\xC1\xBF\"",
                                        "\"\xE0\x80\x80\"",
                                        "\"\xE2\x82\"",
                                        "\"\xF0\x80\x80\x80\"",
                                        "\"\xF5\x80\x80\x80\"",
                                        "\"\xFF\"",
                                        "\xEF\xBB\xBF[]",
                                        "\xC2\xA0[]",
                                        "\f[]",
                                        "\v[]",
                                        "/* c */1",
                                        "[1] // c",
                                        "#\n1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mote_error err = expect_error(str_of(wrong[i]), MOTE_E_FORMAT);
        assert_non_null(strstr(err.text, "invalid JSON"));
    }
    expect_error((str){"1\0", 2}, MOTE_E_FORMAT);
    expect_error((str){"\"\0\"", 3}, MOTE_E_FORMAT);
    expect_error((str){NULL, 0}, MOTE_E_FORMAT);
}

/* Unusual but valid JSON. */
static void unusual_json_is_accepted(void **state)
{
    (void)state;
    static const char *const right[][2] = {
        {"\t\r\n [ \t1\r,\n2 ] \n", "[1, 2]"},
        {"{ \"a\" : 1 , \"b\" : 2 }", "{\"a\": 1, \"b\": 2}"},
        {"[[]   ]", "[[]]"},
        {"{\"\":0}", "{\"\": 0}"},
        {"\"\x7f\"", "\"\x7f\""},
        {"\"// c\"", "\"// c\""},
        {"\"\\u0000\"", "\"\\u0000\""},
        {"\"\\u0041\\u00e9\\u20AC\"", "\"A\xC3\xA9\xE2\x82\xAC\""},
        {"\"\\uFFFF\\ufdd0\"", "\"\xEF\xBF\xBF\xEF\xB7\x90\""},
        {"\"\\uDBFF\\uDFFF\"", "\"\xF4\x8F\xBF\xBF\""},
        {"\"\xF4\x8F\xBF\xBF\xED\x9F\xBF\xEE\x80\x80\"",
         "\"\xF4\x8F\xBF\xBF\xED\x9F\xBF\xEE\x80\x80\""},
        {"\"\\\\n\\\"\\/\"", "\"\\\\n\\\"/\""},
        {"[-0,0E0,0e+1,1E-2,-1.5e+3]", "[0, 0.0, 0.0, 0.01, -1500.0]"},
        {"[null,false,true,\"\"]", "[null, false, true, \"\"]"},
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        expect_dump(right[i][0], right[i][1]);
}

static void errors_have_line_and_column(void **state)
{
    (void)state;
    mote_error err =
        expect_error(str_of("{\"aaa\": 1.500000000000,\n \"b\": 123456 7}"), MOTE_E_FORMAT);
    assert_string_equal(err.text, "invalid JSON: expected ',' or '}' at line 2, column 14");
    err = expect_error(str_of("[12345678, 123456, x]"), MOTE_E_FORMAT);
    assert_string_equal(err.text, "invalid JSON: expected a value at line 1, column 20");
    err = expect_error(str_of("\n\n\"a\\x\""), MOTE_E_FORMAT);
    assert_string_equal(err.text, "invalid JSON: invalid escape at line 3, column 3");
    err = expect_error(str_of("[] ]"), MOTE_E_FORMAT);
    assert_string_equal(err.text,
                        "invalid JSON: unexpected text after the value at line 1, column 4");
}

static void lone_surrogate_is_u_fffd(void **state)
{
    (void)state;
    expect_dump("\"\\ud83d\\ude00\"", "\"\xF0\x9F\x98\x80\"");
    expect_dump("\"\\ud83d\"", "\"\xEF\xBF\xBD\"");
    expect_dump("\"\\ude00x\"", "\"\xEF\xBF\xBDx\"");
    expect_dump("\"\\ud83dx\\ude00\"", "\"\xEF\xBF\xBDx\xEF\xBF\xBD\"");
    expect_dump("\"\\ud83d\\ud83d\\uDE00\"", "\"\xEF\xBF\xBD\xF0\x9F\x98\x80\"");
    expect_dump("\"\\\\ud83d\"", "\"\\\\ud83d\"");
    expect_dump("{\"\\udfff\": \"\\ud800\\n\"}", "{\"\xEF\xBF\xBD\": \"\xEF\xBF\xBD\\n\"}");
}

static void last_duplicate_wins_at_the_first_position(void **state)
{
    (void)state;
    expect_dump("{\"a\":1,\"b\":2,\"a\":3}", "{\"a\": 3, \"b\": 2}");
    expect_dump(
        "{\"a\":{\"x\":1,\"x\":[2]},\"a\":{\"y\":{\"z\":1,\"z\":[3,4]},\"y2\":0},\"c\":[5]}",
        "{\"a\": {\"y\": {\"z\": [3, 4]}, \"y2\": 0}, \"c\": [5]}");
    expect_dump("[{\"a\":[1,2],\"a\":{}},{\"b\":[3],\"c\":4,\"b\":5,\"b\":[6,[7]]},8]",
                "[{\"a\": {}}, {\"b\": [6, [7]], \"c\": 4}, 8]");
    expect_dump("{\"\":1,\"\":2}", "{\"\": 2}");
    expect_dump("{\"\\u0061\":1,\"a\":2}", "{\"a\": 2}");
}

/* Compared with a table of the last value of each name. */
static void random_duplicates(void **state)
{
    (void)state;
    test_random r = {5};
    for (int round = 0; round < 300; round++) {
        enum { NAMES = 40, MOST = 120 };
        const uint32_t n = 1 + (uint32_t)(test_random_u64(&r) % MOST);
        const uint32_t names = 1 + (uint32_t)(test_random_u64(&r) % NAMES);
        uint32_t seen[NAMES], n_seen = 0, value[NAMES] = {0};
        char text[MOST * 24], *at = text;
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t name = (uint32_t)(test_random_u64(&r) % names);
            at += sprintf(at, "%c\"%.*s%u\":[%u,{}]", i > 0 ? ',' : '{', (int)(name % 5), "nnnnn",
                          name, i + 1);
            if (value[name] == 0)
                seen[n_seen++] = name;
            value[name] = i + 1;
        }
        strcpy(at, "}");
        json_doc *doc = read_ok(text);
        const json_node *member = json_node_first(json_doc_root(doc));
        assert_int_equal(json_doc_nodes(doc), 1 + 3 * n_seen);
        assert_int_equal(json_doc_repeats(doc), n_seen < n);
        for (uint32_t i = 0; i < n_seen; i++, member = json_node_next(member)) {
            int64_t held;
            assert_true(json_node_int64(json_node_first(member), &held));
            assert_int_equal(held, value[seen[i]]);
            assert_int_equal(json_node_size(member), 2);
        }
        assert_null(member);
        json_doc_free(doc);
    }
}

/* `before`, `times` copies of `middle`, `after` */
static char *repeat(const char *before, const char *middle, size_t times, const char *after)
{
    const size_t n = strlen(middle);
    char *text = malloc(strlen(before) + n * times + strlen(after) + 1);
    assert_non_null(text);
    char *at = text + sprintf(text, "%s", before);
    for (size_t i = 0; i < times; i++)
        at += sprintf(at, "%s", middle);
    strcpy(at, after);
    return text;
}

static void limits_hold(void **state)
{
    (void)state;
    char *text = repeat("", "[", JSON_MAX_DEPTH, "");
    char *closed = repeat(text, "]", JSON_MAX_DEPTH, "");
    json_doc_free(read_ok(closed));
    free(closed);
    free(text);
    text = repeat("", "{\"a\":", JSON_MAX_DEPTH, "[]");
    expect_error(str_of(text), MOTE_E_ARG);
    free(text);
    text = repeat("[0", ",0", JSON_MAX_NODES - 2, "]");
    json_doc_free(read_ok(text));
    free(text);
    static const char *const values[] = {",0", ",\"\"", ",[]", ",{}", ",true", ",false", ",null"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        text = repeat("[0", values[i], JSON_MAX_NODES - 1, "]");
        expect_error(str_of(text), MOTE_E_ARG);
        free(text);
    }
    text = repeat("{\"a\":0", ",\"a\" \n:0", JSON_MAX_NODES - 2, "}"); /* names are not counted */
    json_doc_free(read_ok(text));
    free(text);
    text = repeat("1", "0", JSON_MAX_NUMBER, "");
    expect_error(str_of(text), MOTE_E_ARG);
    text[JSON_MAX_NUMBER] = 0;
    json_doc_free(read_ok(text));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invalid_json_is_rejected),
        cmocka_unit_test(unusual_json_is_accepted),
        cmocka_unit_test(errors_have_line_and_column),
        cmocka_unit_test(lone_surrogate_is_u_fffd),
        cmocka_unit_test(last_duplicate_wins_at_the_first_position),
        cmocka_unit_test(random_duplicates),
        cmocka_unit_test(limits_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
