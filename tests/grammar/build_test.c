/* SPDX-License-Identifier: Apache-2.0 */
/* build_test.c - grammars of patterns and choices, the grammar builder, tool calls. */
#include "grammar/grammar.h"
#include "grammar/grammar_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void accepts(grammar *g, const char *text)
{
    if (!rig_fits(g, text))
        fail_msg("'%s' is rejected", text);
    rig_check_masks(g, str_of(text), strlen(text));
}

static void rejects(grammar *g, const char *text)
{
    if (rig_fits(g, text))
        fail_msg("'%s' is accepted", text);
}

static void test_single_part(void **state)
{
    (void)state;
    mote_error err = {0};
    grammar *g;
    assert_int_equal(grammar_of_json(&g, rig_vocab(), false, &err), MOTE_OK);
    accepts(g, "[1, null]");
    grammar_free(g);
    assert_int_equal(grammar_of_json(&g, rig_vocab(), true, &err), MOTE_OK);
    accepts(g, "{\"a\": 1}");
    rejects(g, "[1]");
    grammar_free(g);
    assert_int_equal(grammar_of_regex(&g, rig_vocab(), str_of("(foo|bar)+[0-9]{2}"), &err),
                     MOTE_OK);
    accepts(g, "foobar12");
    rejects(g, "xfoo12");
    rejects(g, "foo123");
    grammar_free(g);
    const str choices[] = {str_of("yes"), str_of("no"), str_of("not sure"), str_of("\xE4\xB8\x96")};
    assert_int_equal(grammar_of_choices(&g, rig_vocab(), choices, 4, &err), MOTE_OK);
    accepts(g, "yes");
    accepts(g, "no");
    accepts(g, "not sure");
    accepts(g, "\xE4\xB8\x96");
    rejects(g, "not");
    rejects(g, "");
    grammar_free(g);
    assert_int_equal(grammar_of_regex(&g, rig_vocab(), str_of("("), &err), MOTE_E_ARG);
    assert_null(g);
    assert_int_equal(grammar_of_choices(&g, rig_vocab(), choices, 0, &err), MOTE_E_ARG);
    assert_null(g);
}

static void test_parts(void **state)
{
    (void)state;
    mote_error err = {0};
    grammar_builder b;
    grammar *g;
    grammar_begin(&b, &err);
    grammar_compact(&b);
    grammar_add_text(&b, str_of("<a>"));
    grammar_either(&b);
    grammar_add_schema_text(&b, str_of("{\"type\":\"array\",\"items\":{\"type\":\"null\"}}"), NULL);
    grammar_or(&b);
    grammar_add_regex(&b, str_of("x*"));
    grammar_end_either(&b);
    grammar_add_text_until(&b, str_of("</a>"));
    assert_int_equal(grammar_finish(&b, rig_vocab(), &g), MOTE_OK);
    accepts(g, "<a>[null,null]</a>");
    accepts(g, "<a>xxfoo < </ bar</a>");
    accepts(g, "<a></a>");
    accepts(g, "<a>\xE4\xB8\x96<<</a>");
    rejects(g, "<a></a></a>");
    rejects(g, "<a>\xE4\xB8</a>");
    rejects(g, "<a>");
    grammar_free(g);
}

static void test_text_until(void **state)
{
    (void)state;
    static const char *const ends[] = {"aab", "aaa", "abab", "\n\n", "x"};
    static const char *const before[] = {"", "a", "aa", "ab", "aba", "b", "\n", "abb", "aabb"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        mote_error err = {0};
        grammar_builder b;
        grammar *g;
        grammar_begin(&b, &err);
        grammar_add_text_until(&b, str_of(ends[i]));
        assert_int_equal(grammar_finish(&b, rig_vocab(), &g), MOTE_OK);
        for (size_t k = 0; k < sizeof before / sizeof *before; k++) {
            char text[32];
            strcpy(text, before[k]);
            strcat(text, ends[i]);
            /* The text ends with the first occurrence of `end`. */
            const char *first = strstr(text, ends[i]);
            if (first[strlen(ends[i])] == 0)
                accepts(g, text);
            else
                rejects(g, text);
            rejects(g, before[k]);
        }
        grammar_free(g);
    }
}

static void test_builder_errors(void **state)
{
    (void)state;
    mote_error err = {0};
    grammar_builder b;
    grammar *g;
    grammar_begin(&b, &err);
    grammar_either(&b);
    assert_int_equal(grammar_finish(&b, rig_vocab(), &g), MOTE_E_ARG);
    grammar_begin(&b, &err);
    grammar_end_either(&b);
    grammar_add_text(&b, str_of("a"));
    assert_int_equal(grammar_finish(&b, rig_vocab(), &g), MOTE_E_ARG);
    assert_null(g);
    grammar_begin(&b, &err);
    grammar_add_text_until(&b, str_of(""));
    assert_int_equal(grammar_finish(&b, rig_vocab(), &g), MOTE_E_ARG);
    grammar_begin(&b, &err);
    for (int i = 0; i < GRAMMAR_MAX_NESTING + 1; i++)
        grammar_either(&b);
    assert_int_equal(grammar_finish(&b, rig_vocab(), &g), MOTE_E_ARG);
    grammar_begin(&b, &err);
    grammar_add_schema_text(&b, str_of("{\"contains\":{}}"), NULL);
    grammar_add_text(&b, str_of("more"));
    assert_int_equal(grammar_finish(&b, rig_vocab(), &g), MOTE_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "'contains'"));
    grammar_begin(&b, &err);
    grammar_add_json(&b);
    grammar_abandon(&b);
}

/* ---- tools ---- */

static const char tools_text[] =
    "[{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},"
    "\"unit\":{\"enum\":[\"C\",\"F\"]},\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":9},"
    "\"detail\":{\"type\":\"boolean\"},\"at\":{\"$ref\":\"#/$defs/at\"}},"
    "\"required\":[\"city\",\"days\"],\"$defs\":{\"at\":{\"type\":\"array\",\"items\":{\"type\":"
    "\"number\"}}}},"
    "{\"type\":\"object\"},"
    "{\"type\":\"object\",\"properties\":{\"x\":{\"type\":[\"string\",\"null\"],\"maxLength\":3}},"
    "\"contains\":{}}]";

static void test_tool_calls(void **state)
{
    (void)state;
    mote_error err = {0};
    json_doc *doc;
    assert_int_equal(json_doc_read(&doc, str_of(tools_text), &err), MOTE_OK);
    const json_node *weather = json_node_first(json_doc_root(doc));
    const json_node *any = json_node_next(weather), *third = json_node_next(any);
    const grammar_tool tools[] = {{.name = str_of("get_weather"), .parameters = weather},
                                  {.name = str_of("get_any"), .parameters = any},
                                  {.name = str_of("get"), .parameters = NULL},
                                  {.name = str_of("x"), .parameters = third}};
    strbuf warnings = {0};
    grammar_builder b;
    grammar *g;
    grammar_begin(&b, &err);
    grammar_add_tool_call(&b, tools, 4, &warnings);
    if (grammar_finish(&b, rig_vocab(), &g) != MOTE_OK)
        fail_msg("%s", err.text);
    assert_true(warnings.n > 0);
    strbuf_fini(&warnings);
    json_doc_free(doc);

    accepts(g, "\n<function=get>\n</function>\n");
    accepts(g, "\n<function=get_any>\n<parameter=foo>\nbar\n</parameter>\n</function>\n");
    accepts(g, "\n<function=get_any>\n</function>\n");
    accepts(g, "\n<function=get_weather>\n<parameter=city>\nS\xC3\xA3o "
               "\"Paulo\"\n</param\n\n</parameter>\n"
               "<parameter=days>\n3\n</parameter>\n</function>\n");
    accepts(g,
            "\n<function=get_weather>\n<parameter=days>\n9\n</parameter>\n<parameter=unit>\nC\n</"
            "parameter>\n"
            "<parameter=detail>\nTrue\n</parameter>\n<parameter=at>\n[1, 2.5]\n</parameter>\n"
            "<parameter=city>\n\n</parameter>\n</function>\n");
    accepts(g, "\n<function=x>\n<parameter=x>\nabc\n</parameter>\n</function>\n");
    accepts(g, "\n<function=x>\n<parameter=x>\nNone\n</parameter>\n</function>\n");
    rejects(g, "\n<function=other>\n</function>\n");
    rejects(g, "\n<function=get_weather>\n</function>\n");
    rejects(g, "\n<function=get_weather>\n<parameter=city>\na\n</parameter>\n</function>\n");
    rejects(g, "\n<function=get_weather>\n<parameter=city>\na\n</"
               "parameter>\n<parameter=city>\na\n</parameter>\n"
               "<parameter=days>\n3\n</parameter>\n</function>\n");
    rejects(g, "\n<function=get_weather>\n<parameter=city>\na\n</"
               "parameter>\n<parameter=days>\n0\n</parameter>\n</function>\n");
    rejects(g, "\n<function=get_weather>\n<parameter=city>\na\n</"
               "parameter>\n<parameter=days>\n3\n</parameter>\n"
               "<parameter=unit>\nK\n</parameter>\n</function>\n");
    rejects(g, "\n<function=get_weather>\n<parameter=days>\n3\n</parameter>\n<parameter=zip>\n1\n</"
               "parameter>\n</function>\n");
    rejects(g, "\n<function=x>\n<parameter=x>\nabcd\n</parameter>\n</function>\n");
    grammar_free(g);
}

/* Arguments and the objects in them have no undeclared names. */
static void test_closed_arguments(void **state)
{
    static const char text[] =
        "{\"type\":\"object\",\"properties\":{\"o\":{\"type\":\"object\",\"properties\":{"
        "\"x\":{}}},\"m\":{\"type\":\"object\",\"properties\":{\"x\":{}},"
        "\"additionalProperties\":true}}}";
    (void)state;
    mote_error err = {0};
    json_doc *doc, *none;
    assert_int_equal(json_doc_read(&doc, str_of(text), &err), MOTE_OK);
    assert_int_equal(json_doc_read(&none, str_of("{\"properties\":{}}"), &err), MOTE_OK);
    const grammar_tool tools[] = {{.name = str_of("f"), .parameters = json_doc_root(doc)},
                                  {.name = str_of("none"), .parameters = json_doc_root(none)}};
    grammar_builder b;
    grammar *g;
    grammar_begin(&b, &err);
    grammar_add_tool_call(&b, tools, 2, NULL);
    assert_int_equal(grammar_finish(&b, rig_vocab(), &g), MOTE_OK);
    json_doc_free(doc);
    json_doc_free(none);
    accepts(g, "\n<function=f>\n<parameter=o>\n{\"x\": 1}\n</parameter>\n</function>\n");
    rejects(g, "\n<function=f>\n<parameter=o>\n{\"y\": 1}\n</parameter>\n</function>\n");
    accepts(g, "\n<function=f>\n<parameter=m>\n{\"y\": 1}\n</parameter>\n</function>\n");
    accepts(g, "\n<function=none>\n</function>\n");
    rejects(g, "\n<function=none>\n<parameter=a>\n1\n</parameter>\n</function>\n");
    grammar_free(g);
}

/* With one tool everything up to the name of its first parameter is forced. */
static void test_forced_call(void **state)
{
    (void)state;
    mote_error err = {0};
    json_doc *doc;
    grammar_builder b;
    grammar *g;
    grammar_matcher *m;
    char out[128];
    bool ends;
    assert_int_equal(
        json_doc_read(&doc,
                      str_of("{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},"
                             "\"required\":[\"city\"]}"),
                      &err),
        MOTE_OK);
    const grammar_tool tool = {
        .name = str_of("get_weather"), .parameters = json_doc_root(doc), .strict = true};
    grammar_begin(&b, &err);
    grammar_add_tool_call(&b, &tool, 1, NULL);
    assert_int_equal(grammar_finish(&b, rig_vocab(), &g), MOTE_OK);
    json_doc_free(doc);
    assert_int_equal(grammar_matcher_new(&m, g, NULL), MOTE_OK);
    static const char forced[] = "\n<function=get_weather>\n<parameter=city>\n";
    assert_int_equal(grammar_forced(m, out, sizeof out, &ends), sizeof forced - 1);
    assert_memory_equal(out, forced, sizeof forced - 1);
    grammar_matcher_free(m);
    grammar_free(g);
}

/* More parameters than RULES_MAX_MEMBERS are in the order of the schema. */
static void test_many_parameters(void **state)
{
    (void)state;
    mote_error err = {0};
    strbuf text = {0};
    json_doc *doc;
    grammar_builder b;
    grammar *g;
    strbuf_text(&text, "{\"properties\":{");
    for (char c = 'A'; c <= 'z'; c++)
        if ((c | 32) >= 'a' && (c | 32) <= 'z') {
            const char entry[] = {'"', c, '"', ':', '{', '}', c == 'z' ? ' ' : ',', 0};
            strbuf_text(&text, entry);
        }
    strbuf_text(&text, "},\"required\":[\"b\"]}");
    assert_int_equal(json_doc_read(&doc, strbuf_view(&text), &err), MOTE_OK);
    const grammar_tool tool = {.name = str_of("f"), .parameters = json_doc_root(doc)};
    grammar_begin(&b, &err);
    grammar_add_tool_call(&b, &tool, 1, NULL);
    assert_int_equal(grammar_finish(&b, rig_vocab(), &g), MOTE_OK);
    accepts(g, "\n<function=f>\n<parameter=A>\n1\n</parameter>\n<parameter=b>\n{\"x\": "
               "1}\n</parameter>\n</function>\n");
    rejects(g, "\n<function=f>\n<parameter=b>\n1\n</parameter>\n<parameter=A>\n1\n</parameter>\n</"
               "function>\n");
    rejects(g, "\n<function=f>\n</function>\n");
    grammar_free(g);
    json_doc_free(doc);
    strbuf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_part), cmocka_unit_test(test_parts),
        cmocka_unit_test(test_text_until),  cmocka_unit_test(test_builder_errors),
        cmocka_unit_test(test_tool_calls),  cmocka_unit_test(test_closed_arguments),
        cmocka_unit_test(test_forced_call), cmocka_unit_test(test_many_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
