/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refusal_test.c - an unsupported keyword is an error that names it, or a warning in lenient mode;
 * invalid schemas; limits.
 */
#include "grammar/grammar.h"
#include "grammar/grammar_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct refusal {
    const char *schema;
    mote_status status;
    const char *says; /* part of the message */
} refusal;

static const refusal refusals[] = {
    {"{\"if\":{\"type\":\"array\",\"items\":{\"type\":\"null\"}},\"then\":{\"maxItems\":2}}",
     MOTE_E_UNSUPPORTED, "'if'"},
    {"{\"properties\":{\"a\":{\"items\":{\"contains\":{}}}}}", MOTE_E_UNSUPPORTED,
     "'contains' at '#/properties/a/items/contains' is not supported"},
    {"{\"properties\":{\"a/b\":{\"items\":[{\"$ref\":\"#\"},{\"minLength\":\"x\"}],\"x\":1}}}",
     MOTE_E_FORMAT, "invalid value of 'minLength' at '#/properties/a~1b/items/1/minLength'"},
    {"{\"properties\":{\"a\":{\"pattern\":\"(b\"}}}", MOTE_E_ARG,
     "#/properties/a/pattern: invalid pattern '(b'"},
    {"{\"patternProperties\":{\"(?=b)\":{}}}", MOTE_E_UNSUPPORTED,
     "#/patternProperties/(?=b): pattern"},
    {"{\"dependentRequired\":5}", MOTE_E_FORMAT, "'dependentRequired'"},
    {"{\"not\":{\"dependentRequired\":{\"a\":[]}}}", MOTE_E_UNSUPPORTED, "'dependentRequired'"},
    {"{\"unevaluatedProperties\":false}", MOTE_E_UNSUPPORTED, "'unevaluatedProperties'"},
    {"{\"$dynamicRef\":\"#a\"}", MOTE_E_UNSUPPORTED, "'$dynamicRef'"},
    /* A schema under evaluation also applies to the values inside it. */
    {"{\"$ref\":\"#/$defs/"
     "n\",\"$defs\":{\"n\":{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{"
     "\"$ref\":\"#/$defs/"
     "n\"}},\"required\":[\"k\"]},{\"type\":\"object\",\"properties\":{\"k\":{\"type\":"
     "\"object\"}},\"required\":[\"k\"]},{\"type\":\"string\"}]}}}",
     MOTE_E_UNSUPPORTED, "cannot separate"},
    {"{\"type\":\"array\",\"uniqueItems\":true}", MOTE_E_UNSUPPORTED, "at '#/uniqueItems'"},
    {"{\"type\":\"object\",\"minProperties\":2}", MOTE_E_UNSUPPORTED, "'minProperties'"},
    {"{\"pattern\":\"(?=a)\"}", MOTE_E_UNSUPPORTED, "lookaround"},
    {"{\"multipleOf\":123456789}", MOTE_E_UNSUPPORTED, "'multipleOf'"},
    {"{\"$ref\":\"http://example.com/elsewhere\"}", MOTE_E_UNSUPPORTED, "elsewhere"},
    {"{\"$ref\":\"#/nothing\"}", MOTE_E_UNSUPPORTED, "#/nothing"},
    {"{\"oneOf\":[{\"type\":\"array\",\"items\":{}},{\"type\":\"array\",\"items\":{\"type\":"
     "\"null\"}}]}",
     MOTE_E_UNSUPPORTED, "'oneOf'"},
    {"{\"not\":{\"type\":\"array\",\"items\":{\"type\":\"null\"}}}", MOTE_E_UNSUPPORTED, "'not'"},
    {"false", MOTE_E_ARG, "no text satisfies"},
    {"{\"$ref\":\"#\"}", MOTE_E_ARG, "no text satisfies"},
    {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", MOTE_E_ARG, "no text satisfies"},
    {"{\"type\":\"integer\",\"minimum\":3,\"exclusiveMaximum\":4,\"not\":{\"const\":3}}",
     MOTE_E_ARG, "no text satisfies"},
    {"{\"type\":\"object\",\"properties\":{\"a\":false},\"required\":[\"a\"]}", MOTE_E_ARG,
     "no text satisfies"},
    {"{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#\"}},\"required\":[\"n\"]}",
     MOTE_E_ARG, "no text satisfies"},
    {"{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", MOTE_E_ARG, "no text satisfies"},
    {"{\"type\":\"strnig\"}", MOTE_E_FORMAT, "'type'"},
    {"{\"type\":[\"string\",5]}", MOTE_E_FORMAT, "'type'"},
    {"{\"properties\":[]}", MOTE_E_FORMAT, "'properties'"},
    {"{\"properties\":{\"a\":5}}", MOTE_E_FORMAT, "'properties'"},
    {"{\"minLength\":-1}", MOTE_E_FORMAT, "'minLength'"},
    {"{\"minLength\":1.5}", MOTE_E_FORMAT, "'minLength'"},
    {"{\"minimum\":\"1\"}", MOTE_E_FORMAT, "'minimum'"},
    {"{\"multipleOf\":0}", MOTE_E_FORMAT, "'multipleOf'"},
    {"{\"enum\":5}", MOTE_E_FORMAT, "'enum'"},
    {"{\"required\":[1]}", MOTE_E_FORMAT, "'required'"},
    {"{\"anyOf\":[]}", MOTE_E_FORMAT, "'anyOf'"},
    {"{\"items\":5}", MOTE_E_FORMAT, "'items'"},
    {"{\"$ref\":5}", MOTE_E_FORMAT, "'$ref'"},
    {"{\"pattern\":\"[\"}", MOTE_E_ARG, "class"},
    {"5", MOTE_E_FORMAT, "must be an object"},
    {"{\"allOf\":[null]}", MOTE_E_FORMAT, "must be an object"},
    {"{\"a\":", MOTE_E_FORMAT, ""},
    {"", MOTE_E_FORMAT, ""},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        mote_error err = {0};
        grammar *g;
        const mote_status status =
            grammar_of_schema(&g, rig_vocab(), str_of(refusals[i].schema), NULL, &err);
        if (status != refusals[i].status || strstr(err.text, refusals[i].says) == NULL)
            fail_msg("%s: %s: %s", refusals[i].schema, mote_status_name(status), err.text);
        assert_null(g);
    }
}

/* Lenient mode: an unsupported keyword is ignored with a warning. Other errors stay errors. */
static void test_lenient(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        mote_error err = {0};
        strbuf warnings = {0};
        grammar *g;
        const schema_options options = {.lenient = true, .warnings = &warnings};
        const mote_status status =
            grammar_of_schema(&g, rig_vocab(), str_of(refusals[i].schema), &options, &err);
        if (refusals[i].status == MOTE_E_UNSUPPORTED) {
            if (status != MOTE_OK || warnings.n == 0)
                fail_msg("%s: %s: %s", refusals[i].schema, mote_status_name(status), err.text);
        } else {
            assert_int_equal(status, refusals[i].status);
        }
        grammar_free(g);
        strbuf_fini(&warnings);
    }
}

static void test_lenient_keeps_other_keywords(void **state)
{
    (void)state;
    strbuf warnings = {0};
    grammar *g;
    const schema_options options = {.lenient = true, .warnings = &warnings};
    assert_int_equal(
        grammar_of_schema(
            &g, rig_vocab(),
            str_of("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"contains\":{},"
                   "\"maxItems\":1}},\"additionalProperties\":false}"),
            &options, NULL),
        MOTE_OK);
    assert_true(rig_fits(g, "{\"a\":[1]}"));
    assert_false(rig_fits(g, "{\"a\":[1,2]}"));
    assert_false(rig_fits(g, "{\"b\":1}"));
    assert_int_equal(warnings.n,
                     strlen("'contains' at '#/properties/a' is not supported and is ignored\n"));
    grammar_free(g);
    strbuf_fini(&warnings);
}

/* The JSON pointer in an error about a tool is that of the parameter, not of the root. */
static void test_pointers_in_tools(void **state)
{
    (void)state;
    mote_error err = {0};
    json_doc *doc;
    grammar_builder b;
    grammar *g;
    assert_int_equal(json_doc_read(&doc,
                                   str_of("{\"properties\":{\"a\":{\"type\":\"array\",\"items\":"
                                          "{\"type\":\"string\"},\"uniqueItems\":true}}}"),
                                   &err),
                     MOTE_OK);
    const grammar_tool tool = {
        .name = str_of("f"), .parameters = json_doc_root(doc), .strict = true};
    grammar_begin(&b, &err);
    grammar_add_tool_call(&b, &tool, 1, NULL);
    assert_int_equal(grammar_finish(&b, rig_vocab(), &g), MOTE_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "at '#/properties/a/uniqueItems'"));
    json_doc_free(doc);
}

/* ---- limits ---- */

static char *repeated(const char *before, const char *part, int n, const char *middle,
                      const char *after, const char *end)
{
    const size_t room = strlen(before) + (size_t)n * (strlen(part) + strlen(after)) +
                        strlen(middle) + strlen(end) + 1;
    char *text = malloc(room);
    assert_non_null(text);
    strcpy(text, before);
    char *at = text + strlen(text);
    for (int i = 0; i < n; i++)
        at = stpcpy(at, part);
    at = stpcpy(at, middle);
    for (int i = 0; i < n; i++)
        at = stpcpy(at, after);
    strcpy(at, end);
    return text;
}

static void expect_status(char *schema, mote_status status, const char *says)
{
    mote_error err = {0};
    grammar *g;
    const mote_status got = grammar_of_schema(&g, rig_vocab(), str_of(schema), NULL, &err);
    if (got != status || (says != NULL && strstr(err.text, says) == NULL))
        fail_msg("%.80s: %s: %s", schema, mote_status_name(got), err.text);
    grammar_free(g);
    free(schema);
}

static void test_limits(void **state)
{
    (void)state;
    expect_status(repeated("", "{\"items\":", 30, "{}", "}", ""), MOTE_OK, NULL);
    expect_status(repeated("", "{\"items\":", 40, "{\"type\":\"null\"}", "}", ""), MOTE_OK, NULL);
    expect_status(repeated("", "{\"items\":", 70, "{\"type\":\"null\"}", "}", ""), MOTE_E_ARG,
                  "deep");
    expect_status(repeated("", "{\"items\":", 5000, "{}", "}", ""), MOTE_E_ARG, NULL);
    expect_status(repeated("", "{\"allOf\":[", 31, "{}", "]}", ""), MOTE_OK, NULL);
    expect_status(repeated("", "[", 100000, "", "]", ""), MOTE_E_ARG, NULL);
    expect_status(repeated("{\"enum\":[", "\"a\",", 80000, "1", "", "]}"), MOTE_E_ARG, "bytes");
    expect_status(repeated("{\"pattern\":\"^", "(a|b|", 60, "c", ")*", "$\"}"), MOTE_OK, NULL);
    expect_status(repeated("{\"pattern\":\"^(a|b)*a", "(a|b)", 30, "$", "", "\"}"), MOTE_E_ARG,
                  NULL);
    expect_status(repeated("{\"allOf\":[", "{\"anyOf\":[{\"minLength\":1},{\"maxLength\":9}]},", 12,
                           "{}", "", "]}"),
                  MOTE_E_ARG, "alternatives");
    expect_status(repeated("{\"type\":\"string\",\"maxLength\":100000", "", 0, "", "", "}"),
                  MOTE_OK, NULL);
    expect_status(repeated("{\"type\":\"string\",\"pattern\":\"^[a-z]+$\",\"maxLength\":4000", "",
                           0, "", "", "}"),
                  MOTE_OK, NULL);
    expect_status(repeated("{\"type\":\"string\",\"pattern\":\"^[a-z]+$\",\"maxLength\":400000", "",
                           0, "", "", "}"),
                  MOTE_E_ARG, "states");
    expect_status(repeated("{\"type\":\"array\",\"maxItems\":4000000000,\"minItems\":1000000", "",
                           0, "", "", "}"),
                  MOTE_OK, NULL);
    expect_status(repeated("{\"type\":\"number\",\"minimum\":1", "0", 300, "", "", "}"), MOTE_OK,
                  NULL);
    expect_status(
        repeated("{\"type\":\"number\",\"minimum\":-1", "0", 300, ",\"maximum\":1e400", "", "}"),
        MOTE_OK, NULL);
    expect_status(repeated("{\"type\":\"number\",\"minimum\":1", "0", 3000, "", "", "}"),
                  MOTE_E_ARG, "digits");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_lenient),
        cmocka_unit_test(test_lenient_keeps_other_keywords),
        cmocka_unit_test(test_pointers_in_tools),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
