/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_test.c - the parser beyond the corpus: chat_parser_place, timing of events, limits, failing
 * allocations, Python literals, sampler presets.
 */
#include "base/mem.h"
#include "chat/parse/parse_int.h"
#include "chat/prompt/chat_limits.h"
#include "chat/parse_replay.h"
#include "chat/prompt/chat_context.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static mote_model *model;
static chat_template template;
static json_doc *tools_doc;
static const json_node *tools[1];

typedef struct watch {
    int events[CHAT_EVENT_END + 1];
    char arguments[256];
    chat_warning warning;
} watch;

static void on_event(void *with, const chat_event *e)
{
    watch *w = with;
    w->events[e->kind]++;
    if (e->kind == CHAT_EVENT_WARNING)
        w->warning = e->warning;
    if (e->kind == CHAT_EVENT_CALL_ARGUMENTS &&
        strlen(w->arguments) + e->text.n < sizeof w->arguments)
        strncat(w->arguments, e->text.p, e->text.n);
}

static chat_parser *make_parser(watch *w, bool thinking, bool constrained)
{
    const chat_parser_options options = {.model = model,
                                         .template = &template,
                                         .tools = tools,
                                         .n_tools = 1,
                                         .thinking = thinking,
                                         .constrained = constrained,
                                         .event = on_event,
                                         .with = w};
    chat_parser *p;
    *w = (watch){0};
    assert_int_equal(chat_parser_new(&p, &options, NULL), MOTE_OK);
    return p;
}

static chat_parser *new_parser(watch *w, bool thinking)
{
    return make_parser(w, thinking, true);
}

static mote_status feed(chat_parser *p, const char *text)
{
    mote_token ids[4096];
    size_t n;
    assert_int_equal(
        mote_tokenize(model, text, strlen(text), MOTE_TEXT_CONTROL, ids, 4096, &n, NULL), MOTE_OK);
    for (size_t i = 0; i < n; i++)
        TRY(chat_parser_token(p, ids[i], NULL));
    return MOTE_OK;
}

static void chat_parser_place_follows_the_state(void **state)
{
    (void)state;
    watch w;
    chat_parser *p = new_parser(&w, true);
    assert_int_equal(chat_parser_place(p), CHAT_PLACE_THINKING);
    feed(p, "hm\n</think>");
    assert_int_equal(chat_parser_place(p), CHAT_PLACE_CONTENT);
    feed(p, "\n\nx");
    assert_int_equal(chat_parser_place(p), CHAT_PLACE_CONTENT);
    feed(p, "<tool_call>");
    assert_int_equal(chat_parser_place(p), CHAT_PLACE_CALL);
    feed(p, "\n<function=f>\n<parameter=s>\nab");
    assert_int_equal(chat_parser_place(p), CHAT_PLACE_CALL);
    assert_int_equal(chat_parser_calls(p), 0);
    feed(p, "\n</parameter>\n</function>\n</tool_call>");
    assert_int_equal(chat_parser_place(p), CHAT_PLACE_CONTENT);
    assert_int_equal(chat_parser_calls(p), 1);
    chat_parser_free(p);
}

static void strings_stream_and_other_values_wait(void **state)
{
    (void)state;
    watch w;
    chat_parser *p = new_parser(&w, false);
    feed(p, "<tool_call>\n<function=f>\n");
    assert_int_equal(w.events[CHAT_EVENT_CALL_START], 0); /* JSON may follow */
    feed(p, "<parameter=s>\nfirst");
    assert_int_equal(w.events[CHAT_EVENT_CALL_START], 1);
    assert_string_equal(w.arguments, "{\"s\": \"first");
    feed(p, "\nsecond </par");
    assert_string_equal(w.arguments, "{\"s\": \"first\\nsecond ");
    feed(p, "ty\n</parameter>\n<parameter=i>\n12");
    assert_string_equal(w.arguments, "{\"s\": \"first\\nsecond </party\"");
    feed(p, "3\n</parameter>\n</function>");
    assert_string_equal(w.arguments, "{\"s\": \"first\\nsecond </party\", \"i\": 123}");
    assert_int_equal(w.events[CHAT_EVENT_CALL_END], 1);
    chat_parser_free(p);
}

/* Calls without a grammar, and calls repaired before their first parameter. */
static void uncertain_calls_are_sent_whole(void **state)
{
    (void)state;
    static const struct {
        bool constrained;
        const char *call;
    } cases[] = {
        {false, "<tool_call>\n<function=f>\n<parameter=s>\nab"},
        {true, "\n<function=f>\n<parameter=s>\nab"},
        {true, "<tool_call><tool_call>\n<function=f>\n<parameter=s>\nab"},
        {true, "<tool_call>\n<function=f>\nwell:\n<parameter=s>\nab"},
        {true, "<tool_call>\n<function=f>\n<parameter=s\nab"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        watch w;
        chat_parser *p = make_parser(&w, false, cases[i].constrained);
        feed(p, cases[i].call);
        assert_int_equal(chat_parser_place(p), CHAT_PLACE_CALL);
        assert_int_equal(w.events[CHAT_EVENT_CALL_START], 0);
        assert_int_equal(w.events[CHAT_EVENT_CALL_ARGUMENTS], 0);
        feed(p, "\n</parameter>\n</function>");
        assert_string_equal(w.arguments, "{\"s\": \"ab\"}");
        assert_int_equal(w.events[CHAT_EVENT_CALL_START], 1);
        assert_int_equal(w.events[CHAT_EVENT_CALL_ARGUMENTS], 1);
        assert_int_equal(w.events[CHAT_EVENT_CALL_END], 1);
        assert_int_equal(w.events[CHAT_EVENT_CONTENT], 0);
        chat_parser_free(p);
    }
}

/* Deltas that were sent are withdrawn with CALL_CANCEL. */
static void a_cut_call_is_canceled(void **state)
{
    (void)state;
    watch w;
    chat_parser *p = new_parser(&w, false);
    feed(p, "<tool_call>\n<function=f>\n<parameter=s>\nab \"c\" \n</para");
    assert_int_equal(chat_parser_end(p, true, NULL), MOTE_OK);
    assert_string_equal(w.arguments, "{\"s\": \"ab \\\"c\\\" ");
    assert_int_equal(w.events[CHAT_EVENT_CALL_CANCEL], 1);
    assert_int_equal(w.warning, CHAT_WARN_CUT);
    assert_int_equal(w.events[CHAT_EVENT_CALL_END] + w.events[CHAT_EVENT_CONTENT], 0);
    chat_parser_free(p);
}

/* Text is sent at once unless it may be the start of a tag or a call. */
static void content_is_held_back_only_where_necessary(void **state)
{
    (void)state;
    watch w;
    chat_parser *p = new_parser(&w, false);
    feed(p, "Hello");
    const int first = w.events[CHAT_EVENT_CONTENT];
    assert_true(first > 0);
    feed(p, " <b>");
    assert_true(w.events[CHAT_EVENT_CONTENT] > first);
    const int before = w.events[CHAT_EVENT_CONTENT];
    feed(p, "\n");
    feed(p, "<func");
    assert_int_equal(w.events[CHAT_EVENT_CONTENT], before);
    feed(p, "y");
    assert_true(w.events[CHAT_EVENT_CONTENT] > before);
    chat_parser_free(p);
}

static void control_tokens_without_meaning_are_left_out(void **state)
{
    (void)state;
    watch w;
    chat_parser *p = new_parser(&w, false);
    assert_int_equal(feed(p, "<|im_start|><tool_response><|vision_pad|>"), MOTE_OK);
    assert_int_equal(w.events[CHAT_EVENT_WARNING], 3);
    assert_int_equal(w.warning, CHAT_WARN_STRAY_TAG);
    assert_int_equal(w.events[CHAT_EVENT_CONTENT], 0);
    assert_int_equal(feed(p, "<|im_end|><|endoftext|>"), MOTE_OK);
    assert_int_equal(w.events[CHAT_EVENT_WARNING], 3);
    chat_parser_free(p);
}

static void a_call_too_long_is_content(void **state)
{
    (void)state;
    watch w;
    chat_parser *p = new_parser(&w, false);
    const uint64_t before = mem_count().bytes;
    mote_token line[512];
    size_t n;
    const char *text = "a line of a very long file, which is written again and again\n";
    assert_int_equal(mote_tokenize(model, text, strlen(text), 0, line, 512, &n, NULL), MOTE_OK);
    feed(p, "<tool_call>\n<function=f>\n<parameter=s>\n");
    for (size_t bytes = 0; bytes < 2 * (size_t)CHAT_MAX_CALL_BYTES; bytes += strlen(text))
        for (size_t i = 0; i < n; i++)
            assert_int_equal(chat_parser_token(p, line[i], NULL), MOTE_OK);
    assert_int_equal(w.events[CHAT_EVENT_CALL_CANCEL], 1);
    assert_int_equal(w.warning, CHAT_WARN_TOO_LONG);
    assert_true(mem_count().bytes - before < 8 * (size_t)CHAT_MAX_CALL_BYTES);
    assert_int_equal(chat_parser_end(p, false, NULL), MOTE_OK);
    assert_int_equal(w.events[CHAT_EVENT_CALL_END], 0);
    chat_parser_free(p);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const uint64_t blocks = mem_count().blocks;
    mote_status status = MOTE_E_MEMORY;
    for (uint64_t n = 1; status != MOTE_OK; n++) {
        watch w = {0};
        const chat_parser_options options = {.model = model,
                                             .template = &template,
                                             .tools = tools,
                                             .n_tools = 1,
                                             .tokens = true,
                                             .constrained = true,
                                             .event = on_event,
                                             .with = &w};
        chat_parser *p;
        mem_fail_at(n);
        status = chat_parser_new(&p, &options, NULL);
        if (status == MOTE_OK) {
            status =
                feed(p, "x\n<tool_call>\n<function=f>\n<parameter=i>\n'12'\n</parameter>\n"
                        "<parameter=o>\n{'a': [1,]}\n</parameter>\n<parameter=s>\nab\n</parameter>"
                        "\n</function>\n</tool_call>\n<tool_call>{\"name\": \"f\"}</tool_call>");
            if (status == MOTE_OK)
                status = chat_parser_end(p, false, NULL);
        }
        chat_parser_free(p);
        assert_true(status == MOTE_OK || status == MOTE_E_MEMORY);
        assert_int_equal(mem_count().blocks, blocks);
        assert_true(n < 10000);
        if (!mem_failed()) {
            assert_int_equal(status, MOTE_OK);
            break;
        }
        status = MOTE_E_MEMORY; /* a value that failed to parse may have stayed a string */
    }
    mem_fail_at(0);
}

static void python_becomes_json(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"['a', \"b\"]", "[\"a\", \"b\"]"},
        {"{'k': None, 'l': [True, False,],}", "{\"k\": null, \"l\": [true, false]}"},
        {"('a',)", "[\"a\"]"},
        {"['it\\'s', \"q\\\"q\", '\"']", "[\"it's\", \"q\\\"q\", \"\\\"\"]"},
        {"['\\n\\x41\\u00e9\\d']", "[\"\\nA\xC3\xA9\\\\d\"]"},
        {"['\\ud800']", "[\"\xEF\xBF\xBD\"]"},
        {"[1e5, -2.5]", "[1e5, -2.5]"},
    };
    static const char *const wrong[] = {"['a", "[a]", "['\\x4']", "[1, undefined]", "['\\"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        strbuf out = {0};
        assert_true(chat_python_to_json(&out, str_of(pairs[i][0])));
        strbuf_byte(&out, 0);
        assert_string_equal(out.p, pairs[i][1]);
        strbuf_fini(&out);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        strbuf out = {0};
        assert_false(chat_python_to_json(&out, str_of(wrong[i])));
        strbuf_fini(&out);
    }
}

static void schemas_that_never_end_are_any(void **state)
{
    (void)state;
    json_doc *doc = rig_json(
        "{\"properties\":{\"a\":{\"$ref\":\"#/properties/b\"},\"b\":{\"anyOf\":[{\"$ref\":"
        "\"#/properties/a\"},{\"$ref\":\"#/properties/b\"}]},\"c\":{\"$ref\":\"#/nowhere\"},"
        "\"d\":{\"allOf\":[{\"$ref\":\"#/properties/e\"}]},\"e\":{\"type\":\"integer\","
        "\"nullable\":true},\"f\":{\"$ref\":\"http://"
        "elsewhere\"},\"g\":true,\"h\":{\"const\":1.5}},"
        "\"additionalProperties\":{\"type\":\"array\"}}");
    const json_node *schema = json_doc_root(doc);
    static const struct {
        const char *name;
        unsigned types;
    } expected[] = {{"a", CHAT_TYPE_ANY},
                    {"b", CHAT_TYPE_ANY},
                    {"c", CHAT_TYPE_ANY},
                    {"d", CHAT_TYPE_INTEGER | CHAT_TYPE_NULL},
                    {"e", CHAT_TYPE_INTEGER | CHAT_TYPE_NULL},
                    {"f", CHAT_TYPE_ANY},
                    {"g", CHAT_TYPE_ANY},
                    {"h", CHAT_TYPE_NUMBER},
                    {"other", CHAT_TYPE_ARRAY}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(chat_argument_types(schema, str_of(expected[i].name)), expected[i].types);
    assert_int_equal(chat_argument_types(NULL, str_of("x")), CHAT_TYPE_ANY);
    json_doc_free(doc);
}

static void presets_are_those_of_the_cards(void **state)
{
    (void)state;
    const chat_preset *p = chat_preset_find(CHAT_SIZE_SMALL, false, CHAT_TASK_GENERAL);
    mote_sampling sampling = {.seed = 5};
    chat_preset_apply(p, &sampling);
    assert_string_equal(p->name, "small/direct/general");
    assert_true(sampling.temperature == 1.0f && sampling.top_p == 1.0f && sampling.top_k == 20);
    assert_true(sampling.presence == 2.0f && sampling.repetition == 1.0f && sampling.seed == 5);
    p = chat_preset_find(CHAT_SIZE_LARGE, true, CHAT_TASK_CODING);
    assert_true(p->temperature == 0.6f && p->presence == 0.0f);
    p = chat_preset_find(CHAT_SIZE_LARGE, true, CHAT_TASK_REASONING); /* has no row */
    assert_string_equal(p->name, "large/thinking/general");
    for (size_t i = 0; chat_preset_at(i) != NULL; i++) {
        p = chat_preset_at(i);
        assert_ptr_equal(chat_preset_find(p->size, p->thinking, p->task), p);
    }
    assert_int_equal(chat_size_of(2000000000u), CHAT_SIZE_SMALL);
    assert_int_equal(chat_size_of(4000000000u), CHAT_SIZE_LARGE);
}

static int setup(void **state)
{
    (void)state;
    model = rig_tiny();
    tools_doc =
        rig_json("{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},"
                 "\"i\":{\"type\":\"integer\"},\"o\":{\"type\":\"object\"}}}}");
    tools[0] = json_doc_root(tools_doc);
    return chat_template_tags(&template, model, NULL) == MOTE_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    json_doc_free(tools_doc);
    mote_model_close(model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chat_parser_place_follows_the_state),
        cmocka_unit_test(strings_stream_and_other_values_wait),
        cmocka_unit_test(uncertain_calls_are_sent_whole),
        cmocka_unit_test(a_cut_call_is_canceled),
        cmocka_unit_test(content_is_held_back_only_where_necessary),
        cmocka_unit_test(control_tokens_without_meaning_are_left_out),
        cmocka_unit_test(a_call_too_long_is_content),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(python_becomes_json),
        cmocka_unit_test(schemas_that_never_end_are_any),
        cmocka_unit_test(presets_are_those_of_the_cards),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
