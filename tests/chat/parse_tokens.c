/* SPDX-License-Identifier: Apache-2.0 */
/* parse_tokens.c - token events of the parser: which tokens, and when; raw mode. */
#include "chat/parse_replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka needs those before it */
#include <cmocka.h>

static mote_model *model;
static chat_template template;
static json_doc *tools_doc;
static const json_node *tools[2];

/* Events as text: (token) content [reasoning] {call}. */
static void on_event(void *with, const chat_event *e)
{
    static const char *const around[][2] = {[CHAT_EVENT_REASONING] = {"[", "]"},
                                            [CHAT_EVENT_CONTENT] = {"", ""},
                                            [CHAT_EVENT_CALL_END] = {"{", "}"},
                                            [CHAT_EVENT_TOKEN] = {"(", ")"},
                                            [CHAT_EVENT_END] = {".", ""}};
    strbuf *log = with;
    if ((size_t)e->kind >= sizeof around / sizeof *around || around[e->kind][0] == NULL)
        return;
    strbuf_text(log, around[e->kind][0]);
    strbuf_put(log, e->text);
    strbuf_text(log, around[e->kind][1]);
}

static mote_token of_byte(unsigned char byte)
{
    for (mote_token id = 0; id < 1024; id++) {
        size_t n;
        const char *bytes = mote_token_bytes(model, id, &n);
        if (n == 1 && (unsigned char)bytes[0] == byte)
            return id;
    }
    fail();
    return -1;
}

/* Each text is one token, or as many as it has bytes; tags and ends are control tokens. */
static void says(chat_parser_options options, const char *const *texts, size_t n, const char *want)
{
    strbuf log = {0};
    chat_parser *p;
    options.model = model;
    options.template = &template;
    options.tools = tools;
    options.n_tools = 2;
    options.event = on_event;
    options.with = &log;
    assert_int_equal(chat_parser_new(&p, &options, NULL), MOTE_OK);
    for (size_t i = 0; i < n; i++) {
        mote_token ids[64];
        size_t many;
        assert_int_equal(mote_tokenize(model, texts[i], strlen(texts[i]), MOTE_TEXT_CONTROL, ids,
                                       64, &many, NULL),
                         MOTE_OK);
        for (size_t k = 0; many > 1 && k < strlen(texts[i]); k++)
            assert_int_equal(chat_parser_token(p, of_byte((unsigned char)texts[i][k]), NULL),
                             MOTE_OK);
        if (many == 1)
            assert_int_equal(chat_parser_token(p, ids[0], NULL), MOTE_OK);
    }
    assert_int_equal(chat_parser_end(p, false, NULL), MOTE_OK);
    chat_parser_free(p);
    strbuf_byte(&log, 0);
    assert_string_equal(log.p, want);
    strbuf_fini(&log);
}

#define SAYS(options, want, ...)                                                                   \
    do {                                                                                           \
        static const char *const texts_[] = {__VA_ARGS__};                                         \
        says((chat_parser_options)options, texts_, sizeof texts_ / sizeof *texts_, want);          \
    } while (0)
#define WITH(...)                                                                                  \
    {                                                                                              \
        .tokens = true, __VA_ARGS__                                                                \
    }

static void a_token_comes_before_its_content(void **state)
{
    (void)state;
    SAYS(WITH(0), "(a)a(b)b.", "a", "b");
    SAYS({.tokens = false}, "ab.", "a", "b");
    /* an incomplete character waits */
    SAYS(WITH(0), "(x)x(\xF0)(\x9F)(\x98)(\x80)\xF0\x9F\x98\x80(y)y.", "x", "\xF0\x9F\x98\x80",
         "y");
    /* blanks are held back with their tokens */
    SAYS(WITH(0), "(a)a( ) (b)b.", "a", " ", "b");
}

static void thinking_and_calls_have_no_token_events(void **state)
{
    (void)state;
    SAYS(WITH(.thinking = true), "[a](b)b.", "a", "</think>", "\n", "b");
    SAYS(WITH(0), "(a)a{{}}(b)b.", "a", "\n", "<tool_call>", "<", "f", "u", "n", "c", "t", "i", "o",
         "n", "=", "f", ">", "</function>", "</tool_call>", "b");
}

static void a_rejected_call_has_token_events(void **state)
{
    (void)state;
    SAYS(WITH(0), "(a)a(<tool_call>)<tool_call>(\n)\n(x)x.", "a", "<tool_call>", "\n", "x");
    /* a tool that is not allowed is unknown */
    const bool allowed[] = {false, true};
    says((chat_parser_options){.tokens = true, .tool_allowed = allowed},
         (const char *const[]){"<tool_call>", "<function=f>", "</function>", "</tool_call>"}, 4,
         "(<tool_call>)<tool_call>(<)<(f)f(u)u(n)n(c)c(t)t(i)i(o)o(n)n(=)=(f)f(>)>(<)<(/)/(f)f(u)u("
         "n)n(c)c(t)t(i)i(o)o(n)n(>)>(</tool_call>)</tool_call>.");
}

static void raw_mode_makes_everything_content(void **state)
{
    (void)state;
    SAYS(WITH(.raw = true), "( ) (a)a(\n)\n.", " ", "a", "<|im_start|>", "\n", "<|im_end|>");
    SAYS({.raw = true}, " <think>a</think><tool_call><function=f></function></tool_call>\n.", " ",
         "<think>", "a", "</think>", "<tool_call>", "<function=f>", "</function>", "</tool_call>",
         "\n");
}

static int setup(void **state)
{
    (void)state;
    model = rig_tiny();
    tools_doc = rig_json("[{\"name\":\"f\"},{\"name\":\"g\"}]");
    tools[0] = json_node_first(json_doc_root(tools_doc));
    tools[1] = json_node_next(tools[0]);
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
        cmocka_unit_test(a_token_comes_before_its_content),
        cmocka_unit_test(thinking_and_calls_have_no_token_events),
        cmocka_unit_test(a_rejected_call_has_token_events),
        cmocka_unit_test(raw_mode_makes_everything_content),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
