/* SPDX-License-Identifier: Apache-2.0 */
/* dialect_parts_test.c - JSON writer, text store, sealed reasoning, embeddings, tool input and the
 * parameter table, without a server. */
#include "base/mem.h"
#include "server/core/text_store.h"
#include "server/api/common/reply_json.h"
#include "server/request/params.h"
#include "server/api/openai/openai.h"
#include "json/json_writer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void check_output(strbuf *out, const char *wanted)
{
    assert_int_equal(out->n, strlen(wanted));
    assert_memory_equal(out->p, wanted, out->n);
    strbuf_fini(out);
}

static void values_are_printed(void **state)
{
    strbuf out = {0};
    (void)state;
    jw_open(&out, '{');
    jw_key_text(&out, "a", "x\"\\\n\t\x01");
    jw_key_null(&out, "b");
    jw_key(&out, "c");
    jw_open(&out, '[');
    jw_int(&out, -5);
    jw_double(&out, 0.1);
    jw_float(&out, 0.7f);
    jw_double(&out, INFINITY);
    jw_bool(&out, true);
    jw_open(&out, '{');
    jw_close(&out, '}');
    jw_bytes(&out, str_of("hi"));
    jw_close(&out, ']');
    jw_key_raw(&out, "d", "{\"e\":[]}");
    jw_close(&out, '}');
    check_output(
        &out,
        "{\"a\":\"x\\\"\\\\\\n\\t\\u0001\",\"b\":null,\"c\":[-5,0.1,0.7,null,true,{},[104,105]],"
        "\"d\":{\"e\":[]}}");
}

static void invalid_utf8_is_replaced(void **state)
{
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xAA", "\"\\u2028\\u2029\xE2\x80\xAA\""},
        {"a\xFFz", "\"a\xEF\xBF\xBDz\""},
        {"\xC3", "\"\xEF\xBF\xBD\""},
        {"\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xC0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xF4\x90\x80\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xF0\x9F\x98\x80\xE2\x82", "\"\xF0\x9F\x98\x80\xEF\xBF\xBD\xEF\xBF\xBD\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strbuf out = {0};
        jw_str(&out, str_of(cases[i].text));
        check_output(&out, cases[i].wanted);
    }
}

/* A reproducible sequence. */
static unsigned next_number(void)
{
    static uint32_t state = 7;
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* Random bytes give one line of JSON that can be parsed; valid UTF-8 is unchanged. */
static void random_bytes_are_json(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; round++) {
        char bytes[24];
        const size_t n = next_number() % sizeof bytes;
        for (size_t i = 0; i < n; i++)
            bytes[i] = next_number() % 4 == 0 ? (char)(next_number() % 256)
                                              : "a\"\\\n\xE2\x80\xA8\xC3\xA9"[next_number() % 9];
        strbuf out = {0};
        json_doc *doc = NULL;
        jw_str(&out, (str){bytes, n});
        assert_null(memchr(out.p, '\n', out.n));
        assert_int_equal(json_doc_read(&doc, strbuf_view(&out), NULL), MOTE_OK);
        strbuf again = {0};
        jw_node(&again, json_doc_root(doc));
        assert_true(str_eq(strbuf_view(&again), strbuf_view(&out)));
        json_doc_free(doc);
        strbuf_fini(&out);
        strbuf_fini(&again);
    }
}

/* ---- text store ---- */

static void store_put(text_store *s, uint64_t ns, const char *name, const char *text)
{
    const str texts[TEXT_STORE_TEXTS] = {str_of(text), {"", 0}, str_of("third")};
    assert_int_equal(text_store_put(s, ns, str_of(name), texts, NULL), MOTE_OK);
}

static bool store_has(text_store *s, uint64_t ns, const char *name, const char *text)
{
    strbuf out = {0};
    const bool found = text_store_get(s, ns, str_of(name), 0, &out) &&
                       (text == NULL || str_is(strbuf_view(&out), text));
    strbuf_fini(&out);
    return found;
}

static void text_store_evicts_the_oldest(void **state)
{
    text_store *s;
    strbuf out = {0};
    const text_store_options options = {.entries = 3, .bytes = 100, .seconds = 3600};
    (void)state;
    assert_int_equal(text_store_new(&s, &options, NULL), MOTE_OK);
    store_put(s, 1, "a", "one");
    store_put(s, 2, "a", "other");
    assert_true(store_has(s, 1, "a", "one") && store_has(s, 2, "a", "other") &&
                !store_has(s, 3, "a", NULL));
    assert_true(text_store_get(s, 1, str_of("a"), 2, &out));
    check_output(&out, "third");
    store_put(s, 1, "b", "x");
    store_put(s, 1, "a", "again"); /* now the most recent */
    store_put(s, 1, "c", "x");
    store_put(s, 1, "d", "x");
    assert_true(!store_has(s, 1, "b", NULL) && store_has(s, 1, "a", "again") &&
                store_has(s, 2, "a", "other"));
    store_put(s, 1, "e", "0123456789012345678901234567890123456789012345678901234567890123456789");
    assert_true(store_has(s, 1, "e", NULL) && !store_has(s, 1, "a", NULL));
    const str large[TEXT_STORE_TEXTS] = {
        {"", 0}, {"", 0}, {"", 0}, {"012345678901234567890123456789", 30}};
    assert_int_equal(text_store_put(s, 1, str_of(""), large, NULL), MOTE_E_ARG);
    assert_true(text_store_drop(s, 1, str_of("e")) && !text_store_drop(s, 1, str_of("e")));
    text_store_free(s);
}

static void text_store_expires_entries(void **state)
{
    text_store *s;
    const text_store_options options = {.entries = 3, .bytes = 100, .seconds = -1};
    (void)state;
    assert_int_equal(text_store_new(&s, &options, NULL), MOTE_OK);
    store_put(s, 1, "a", "one");
    assert_false(store_has(s, 1, "a", NULL));
    text_store_free(s);
}

/* ---- replies ---- */

static void sealed_reasoning_round_trip(void **state)
{
    static const char *const texts[] = {"", "a", "ab", "abc", "Thinking \xE2\x80\xA6 a little"};
    (void)state;
    for (size_t i = 1; i < sizeof texts / sizeof *texts; i++) {
        strbuf sealed = {0}, out = {0};
        responses_seal(str_of(texts[i]), &sealed);
        assert_true(responses_unseal(strbuf_view(&sealed), &out));
        check_output(&out, texts[i]);
        for (size_t k = 0; k < sealed.n; k++) { /* one byte changed: rejected */
            const char was = sealed.p[k];
            sealed.p[k] = was == 'A' ? 'Q' : 'A';
            assert_false(responses_unseal(strbuf_view(&sealed), &out) &&
                         !str_is(strbuf_view(&out), texts[i]));
            sealed.p[k] = was;
        }
        strbuf_fini(&sealed);
        strbuf_fini(&out);
    }
}

static void vectors_have_length_one(void **state)
{
    static const float from[3] = {3, 4, 12};
    strbuf out = {0};
    (void)state;
    float *unit = embedding_unit(from, 2);
    embedding_put(unit, 2, &out);
    check_output(&out, "[0.6,0.8]");
    embedding_put_base64(unit, 2, &out);
    check_output(&out, "\"mpkZP83MTD8=\"");
    mem_free(unit);
}

/* Splits the arguments at every position outside an escape: the pieces sent, and the remainder. */
static void check_custom_input(const char *arguments, const char *text, bool early)
{
    const size_t n = strlen(arguments);
    for (size_t cut = 0; cut <= n; cut++) {
        if (cut > 0 && arguments[cut - 1] == '\\')
            continue;
        choice_call call = {.id = ""};
        item it = {.kind = ITEM_CUSTOM_CALL};
        strbuf sent = {0}, all = {0}, part = {0};
        strbuf_put(&call.arguments, (str){arguments, cut});
        items_put_custom_piece(&call, cut, &it, &sent);
        items_put_custom_input(&call, &part);
        if (strstr(arguments, "more") == NULL) /* a cut call has the input sent so far */
            assert_true(str_eq(strbuf_view(&part), strbuf_view(&sent)));
        strbuf_put(&call.arguments, (str){arguments + cut, n - cut});
        items_put_custom_piece(&call, n - cut, &it, &sent);
        assert_int_equal(it.sent, sent.n);
        items_put_custom_input(&call, &all);
        assert_int_equal(sent.n, early ? strlen(text) : 0);
        assert_int_equal(memcmp(sent.n > 0 ? sent.p : "", text, sent.n), 0);
        check_output(&all, text);
        strbuf_fini(&sent);
        strbuf_fini(&part);
        strbuf_fini(&call.arguments);
    }
}

static void custom_tool_input_in_pieces(void **state)
{
    (void)state;
    check_custom_input("{\"input\": \"a\\\"b\\\\\\n c\"}", "a\"b\\\n c", true);
    check_custom_input("{\"input\": \"\"}", "", true);
    check_custom_input("{\"input\": \"a\", \"more\": \"x\\ny\"}", "a", true);
    check_custom_input("{\"more\": 1, \"input\": \"a\"}", "a", false);
}

/* Two rows with the same name and body would make one of them unreachable. */
static void parameter_table_is_consistent(void **state)
{
    const param *p, *q;
    (void)state;
    for (size_t i = 0; (p = param_at(i)) != NULL; i++) {
        assert_true(i < 256);
        assert_true(p->in != 0 && p->name[0] != 0 && p->about != NULL);
        assert_true(p->kind != PARAM_OTHER || p->types != 0);
        for (size_t k = 0; k < i && (q = param_at(k)) != NULL; k++)
            assert_false(strcmp(p->name, q->name) == 0 && (p->in & q->in) != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_printed),
        cmocka_unit_test(invalid_utf8_is_replaced),
        cmocka_unit_test(random_bytes_are_json),
        cmocka_unit_test(text_store_evicts_the_oldest),
        cmocka_unit_test(text_store_expires_entries),
        cmocka_unit_test(sealed_reasoning_round_trip),
        cmocka_unit_test(vectors_have_length_one),
        cmocka_unit_test(custom_tool_input_in_pieces),
        cmocka_unit_test(parameter_table_is_consistent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
