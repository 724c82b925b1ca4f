/* SPDX-License-Identifier: Apache-2.0 */
/* json_test.c - reading: what is accepted, refused and kept; writing: Python's spelling. */
#include "base/mem.h"
#include "json/json.h"
#include "support/random.h"

#include <errno.h>
#include <jansson.h>
#include <locale.h>
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

static mote_error refused(str text, mote_status status)
{
    json_doc *doc = (json_doc *)(uintptr_t)1;
    mote_error err = {0};
    assert_int_equal(json_doc_read(&doc, text, &err), status);
    assert_null(doc);
    return err;
}

static void written(const char *text, const char *expected)
{
    json_doc *doc = read_ok(text);
    strbuf out = {0};
    json_put_node(&out, json_doc_root(doc));
    strbuf_byte(&out, 0);
    assert_string_equal(out.p, expected);
    strbuf_fini(&out);
    json_doc_free(doc);
}

static void a_document_is_walked_in_order(void **state)
{
    (void)state;
    json_doc *doc =
        read_ok(" {\"z\": [1, 2.50, \"a\\u0000b\", []], \"a\": {\"t\": true, \"f\": false},"
                " \"\": null}\n");
    const json_node *root = json_doc_root(doc), *z = json_node_first(root);
    assert_int_equal(json_doc_nodes(doc), 10);
    assert_int_equal(json_node_kind(root), JSON_IS_OBJECT);
    assert_int_equal(json_node_size(root), 3);
    assert_true(str_is(json_node_name(z), "z"));
    const json_node *item = json_node_first(z);
    assert_int_equal(json_node_size(z), 4);
    assert_true(str_is(json_node_text(item), "1"));
    item = json_node_next(item);
    assert_true(str_is(json_node_text(item), "2.50"));
    assert_true(json_node_double(item) == 2.5);
    item = json_node_next(item);
    assert_true(str_eq(json_node_text(item), (str){"a\0b", 3}));
    item = json_node_next(item);
    assert_true(json_node_is(item, JSON_IS_ARRAY) && json_node_first(item) == NULL);
    assert_null(json_node_next(item));
    const json_node *a = json_node_next(z);
    assert_ptr_equal(a, json_node_get(root, "a"));
    assert_int_equal(json_node_number(doc, a), 6);
    assert_true(json_node_truth(json_node_get(a, "t")));
    assert_false(json_node_truth(json_node_get(a, "f")));
    assert_int_equal(json_node_kind(json_node_get(root, "")), JSON_IS_NULL);
    assert_null(json_node_get(root, "nobody"));
    assert_null(json_node_get(z, "z"));
    assert_int_equal(json_node_kind(NULL), JSON_IS_ABSENT);
    json_doc_free(doc);
}

static void any_value_may_be_the_root(void **state)
{
    (void)state;
    static const char *const roots[] = {"0", "-1.5e3", "\"\"", "true", "false", "null", "[]", "{}"};
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        json_doc *doc = read_ok(roots[i]);
        assert_int_equal(json_doc_nodes(doc), 1);
        json_doc_free(doc);
    }
}

static void what_is_not_json_is_refused(void **state)
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
                                        "00"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mote_error err = refused(str_of(wrong[i]), MOTE_E_FORMAT);
        assert_non_null(strstr(err.text, "not JSON"));
    }
    refused((str){"1\0", 2}, MOTE_E_FORMAT);
}

static void an_error_names_its_place(void **state)
{
    (void)state;
    mote_error err = refused(str_of("{\"aaa\": 1.500000000000,\n \"b\": 123456 7}"), MOTE_E_FORMAT);
    assert_non_null(strstr(err.text, "line 2, column 1"));
    err = refused(str_of("[12345678, 123456, x]"), MOTE_E_FORMAT);
    assert_non_null(strstr(err.text, "line 1, column 2"));
}

static void half_a_surrogate_pair_is_a_replacement_character(void **state)
{
    (void)state;
    written("\"\\ud83d\\ude00\"", "\"\xF0\x9F\x98\x80\"");
    written("\"\\ud83d\"", "\"\xEF\xBF\xBD\"");
    written("\"\\ude00x\"", "\"\xEF\xBF\xBDx\"");
    written("\"\\ud83dx\\ude00\"", "\"\xEF\xBF\xBDx\xEF\xBF\xBD\"");
    written("\"\\ud83d\\ud83d\\uDE00\"", "\"\xEF\xBF\xBD\xF0\x9F\x98\x80\"");
    written("\"\\\\ud83d\"", "\"\\\\ud83d\"");
    written("{\"\\udfff\": \"\\ud800\\n\"}", "{\"\xEF\xBF\xBD\": \"\xEF\xBF\xBD\\n\"}");
}

static void the_last_of_two_members_wins_at_the_place_of_the_first(void **state)
{
    (void)state;
    written("{\"a\":1,\"b\":2,\"a\":3}", "{\"a\": 3, \"b\": 2}");
}

static void values_are_written_as_python_does(void **state)
{
    (void)state;
    written("[ ]", "[]");
    written("{\n}", "{}");
    written("[[],{},[[1]],{\"a\":[]}]", "[[], {}, [[1]], {\"a\": []}]");
    written("{\"b\":{\"c\":[1,2],\"d\":null},\"a\":true}",
            "{\"b\": {\"c\": [1, 2], \"d\": null}, \"a\": true}");
    written("\"\\u0001\\b\\f\\n\\r\\t\\\"\\\\\\/\\u007f\\u2028\\u00e9\"",
            "\"\\u0001\\b\\f\\n\\r\\t\\\"\\\\/\x7f\xE2\x80\xA8\xC3\xA9\"");
    strbuf out = {0};
    json_put_node(&out, NULL);
    assert_true(str_eq(strbuf_view(&out), str_of("null")));
    strbuf_fini(&out);
}

static void numbers_are_spelt_as_python_does(void **state)
{
    (void)state;
    /* from Python 3: json.dumps(json.loads(left)) == right */
    static const char *const spelt[][2] = {
        {"0", "0"},
        {"-0", "0"},
        {"-0.0", "-0.0"},
        {"0.0", "0.0"},
        {"0e5", "0.0"},
        {"1", "1"},
        {"-17", "-17"},
        {"123456789012345678901234567890", "123456789012345678901234567890"},
        {"1.0", "1.0"},
        {"1.50", "1.5"},
        {"1e2", "100.0"},
        {"1E+2", "100.0"},
        {"1e20", "1e+20"},
        {"1e16", "1e+16"},
        {"1e15", "1000000000000000.0"},
        {"123456789012345678.0", "1.2345678901234568e+17"},
        {"1234567890123456.7", "1234567890123456.8"},
        {"0.0001", "0.0001"},
        {"0.00001", "1e-05"},
        {"0.00012345", "0.00012345"},
        {"1.5e-7", "1.5e-07"},
        {"1e-100", "1e-100"},
        {"5e-324", "5e-324"},
        {"4.9406564584124654e-324", "5e-324"},
        {"2.2250738585072014e-308", "2.2250738585072014e-308"},
        {"1.7976931348623157e308", "1.7976931348623157e+308"},
        {"1e400", "Infinity"},
        {"-1e400", "-Infinity"},
        {"1e-400", "0.0"},
        {"0.1", "0.1"},
        {"0.30000000000000004", "0.30000000000000004"},
        {"618970019642690137449562112.0", "6.189700196426902e+26"},
        {"9007199254740993.0", "9007199254740992.0"},
        {"1e99999999999999999999", "Infinity"},
        {"1e-99999999999999999999", "0.0"},
        {"0.000000000000000000000000000000000000001e39", "1.0"},
        {"999999999999999999999.0", "1e+21"},
        {"9.5", "9.5"},
        {"99999.99999999999999999999", "100000.0"},
        {"1.2e3", "1200.0"}};
    for (size_t i = 0; i < sizeof spelt / sizeof *spelt; i++)
        written(spelt[i][0], spelt[i][1]);
}

static void numbers_keep_their_spelling_if_asked(void **state)
{
    (void)state;
    json_doc *doc = read_ok("{\"a\":[1.50,-0,1e400],\"b\":\"\\ud800\"}");
    strbuf out = {0};
    json_put_as_spelt(&out, json_doc_root(doc));
    assert_true(
        str_eq(strbuf_view(&out), str_of("{\"a\": [1.50, -0, 1e400], \"b\": \"\xEF\xBF\xBD\"}")));
    strbuf_fini(&out);
    json_doc_free(doc);
}

static void a_locale_with_a_comma_changes_nothing(void **state)
{
    (void)state;
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    for (size_t i = 0; i < sizeof locales / sizeof *locales; i++)
        if (setlocale(LC_ALL, locales[i]) != NULL)
            break;
    written("[1.25, 1e-7]", "[1.25, 1e-07]");
    setlocale(LC_ALL, "C");
}

/* Every double reads back as itself, and no shorter spelling of it is passed over. */
static void random_doubles_are_spelt_shortest(void **state)
{
    (void)state;
    test_random r = {11};
    for (int i = 0; i < 50000; i++) {
        uint64_t bits = test_random_u64(&r);
        if (i % 3 == 0)
            bits &= 0xFFF0000000000000u; /* powers of two, where the spacing changes */
        double x;
        memcpy(&x, &bits, sizeof x);
        char source[64], shorter[64];
        if (x != x || x - x != 0.0)
            continue;
        snprintf(source, sizeof source, "%.17e", x);
        strbuf out = {0};
        json_put_number(&out, str_of(source));
        strbuf_byte(&out, 0);
        assert_true(strtod(out.p, NULL) == x);
        int digits = 0;
        for (const char *at = out.p + strspn(out.p, "-0."); *at != 0 && *at != 'e'; at++)
            digits += *at >= '0' && *at <= '9';
        if (digits > 1 && digits < 17 && strchr(out.p, 'e') != NULL) {
            snprintf(shorter, sizeof shorter, "%.*e", digits - 2, x);
            assert_false(strtod(shorter, NULL) == x);
        }
        strbuf_fini(&out);
    }
}

static void integers_fit_or_do_not(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool fits;
        int64_t value;
    } cases[] = {{"0", true, 0},
                 {"-5", true, -5},
                 {"9223372036854775807", true, INT64_MAX},
                 {"9223372036854775808", false, 0},
                 {"-9223372036854775808", true, INT64_MIN},
                 {"-9223372036854775809", false, 0},
                 {"1.0", false, 0},
                 {"1e3", false, 0},
                 {"\"1\"", false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_doc *doc = read_ok(cases[i].text);
        int64_t value = 0;
        assert_int_equal(json_node_int64(json_doc_root(doc), &value), cases[i].fits);
        assert_true(value == cases[i].value);
        json_doc_free(doc);
    }
}

/* before, then `times` times `middle`, then after */
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
    refused(str_of(text), MOTE_E_ARG);
    free(text);
    text = repeat("[0", ",0", JSON_MAX_NODES - 2, "]");
    json_doc_free(read_ok(text));
    free(text);
    static const char *const values[] = {",0", ",\"\"", ",[]", ",{}", ",true", ",false", ",null"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        text = repeat("[0", values[i], JSON_MAX_NODES - 1, "]");
        refused(str_of(text), MOTE_E_ARG);
        free(text);
    }
    text = repeat("{\"a\":0", ",\"a\" \n:0", JSON_MAX_NODES - 2, "}"); /* names do not count */
    json_doc_free(read_ok(text));
    free(text);
    text = repeat("1", "0", JSON_MAX_NUMBER, "");
    refused(str_of(text), MOTE_E_ARG);
    text[JSON_MAX_NUMBER] = 0;
    json_doc_free(read_ok(text));
    free(text);
}

static int jansson_left; /* allocations before the next fails; -1: none does */

static void *jansson_malloc(size_t n)
{
    if (jansson_left == 0) {
        errno = ENOMEM; /* as malloc does */
        return NULL;
    }
    jansson_left -= jansson_left > 0;
    return malloc(n);
}

static const char *const whole =
    "{\"list\": [1, 2.5, \"x\\ud800\", null, true], \"o\": {\"k\": \"v\"}, \"s\": \"\"}";

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const uint64_t blocks = mem_count().blocks;
    mote_status status = MOTE_E_MEMORY;
    json_doc *doc = NULL;
    for (uint64_t n = 1; status != MOTE_OK; n++) {
        mem_fail_at(n);
        status = json_doc_read(&doc, str_of(whole), NULL);
        assert_true(status == MOTE_OK || status == MOTE_E_MEMORY);
        if (status != MOTE_OK)
            assert_int_equal(mem_count().blocks, blocks);
    }
    mem_fail_at(0);
    json_doc_free(doc);
    json_set_alloc_funcs(jansson_malloc, free);
    status = MOTE_E_MEMORY;
    for (int n = 0; status != MOTE_OK; n++) {
        jansson_left = n;
        status = json_doc_read(&doc, str_of(whole), NULL);
        assert_true(status == MOTE_OK || status == MOTE_E_MEMORY);
        assert_true(n < 1000);
    }
    json_set_alloc_funcs(malloc, free);
    json_doc_free(doc);
    assert_int_equal(mem_count().blocks, blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_is_walked_in_order),
        cmocka_unit_test(any_value_may_be_the_root),
        cmocka_unit_test(what_is_not_json_is_refused),
        cmocka_unit_test(an_error_names_its_place),
        cmocka_unit_test(half_a_surrogate_pair_is_a_replacement_character),
        cmocka_unit_test(the_last_of_two_members_wins_at_the_place_of_the_first),
        cmocka_unit_test(values_are_written_as_python_does),
        cmocka_unit_test(numbers_are_spelt_as_python_does),
        cmocka_unit_test(numbers_keep_their_spelling_if_asked),
        cmocka_unit_test(a_locale_with_a_comma_changes_nothing),
        cmocka_unit_test(random_doubles_are_spelt_shortest),
        cmocka_unit_test(integers_fit_or_do_not),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
