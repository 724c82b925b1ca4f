/* SPDX-License-Identifier: Apache-2.0 */
/* json_test.c - parsed documents: access, numbers, output as in Python, failed allocations. */
#include "base/mem.h"
#include "json/json.h"
#include "support/random.h"

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

static void nodes_are_in_document_order(void **state)
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
    assert_null(json_node_get(root, "absent"));
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

static void values_are_dumped_like_python(void **state)
{
    (void)state;
    expect_dump("[ ]", "[]");
    expect_dump("{\n}", "{}");
    expect_dump("[[],{},[[1]],{\"a\":[]}]", "[[], {}, [[1]], {\"a\": []}]");
    expect_dump("{\"b\":{\"c\":[1,2],\"d\":null},\"a\":true}",
                "{\"b\": {\"c\": [1, 2], \"d\": null}, \"a\": true}");
    expect_dump("\"\\u0001\\b\\f\\n\\r\\t\\\"\\\\\\/\\u007f\\u2028\\u00e9\"",
                "\"\\u0001\\b\\f\\n\\r\\t\\\"\\\\/\x7f\xE2\x80\xA8\xC3\xA9\"");
    strbuf out = {0};
    json_put_node(&out, NULL);
    assert_true(str_eq(strbuf_view(&out), str_of("null")));
    strbuf_fini(&out);
}

static void numbers_are_spelt_like_python(void **state)
{
    (void)state;
    /* Python 3: json.dumps(json.loads(left)) == right */
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
        expect_dump(spelt[i][0], spelt[i][1]);
}

static void put_as_spelt_keeps_numbers(void **state)
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

static void decimal_comma_locale_changes_nothing(void **state)
{
    (void)state;
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    for (size_t i = 0; i < sizeof locales / sizeof *locales; i++)
        if (setlocale(LC_ALL, locales[i]) != NULL)
            break;
    expect_dump("[1.25, 1e-7]", "[1.25, 1e-07]");
    setlocale(LC_ALL, "C");
}

/* Each double converts back to itself, and there is no shorter spelling. */
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

static void int64_range(void **state)
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

static const char *const whole =
    "{\"list\": [1, 2.5, \"x\\ud800\", null, true], \"o\": {\"k\": \"v\", \"k\": \"w\"}, \"s\": "
    "\"\","
    "\"many\": [0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,"
    "0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9]}";

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
    assert_int_equal(mem_count().blocks, blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_in_document_order),
        cmocka_unit_test(any_value_may_be_the_root),
        cmocka_unit_test(values_are_dumped_like_python),
        cmocka_unit_test(numbers_are_spelt_like_python),
        cmocka_unit_test(put_as_spelt_keeps_numbers),
        cmocka_unit_test(decimal_comma_locale_changes_nothing),
        cmocka_unit_test(random_doubles_are_spelt_shortest),
        cmocka_unit_test(int64_range),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
