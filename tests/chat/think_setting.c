/* SPDX-License-Identifier: Apache-2.0 */
/* think_setting.c - every request field that sets thinking: alone, in pairs, and with wrong values.
 */
#include "chat/turn/thinking.h"

#include "chat/chat_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka needs those before it */
#include <cmocka.h>

enum { OPENAI, RESPONSES, ANTHROPIC, OLLAMA, N_DIALECTS };

static chat_think_setting read_one(const char *body, int dialect, const char *suffix,
                                   const char *text)
{
    chat_think_setting got;
    mote_error err = {0};
    json_doc *doc = rig_json(body);
    if (chat_think_read(&got, json_doc_root(doc), (chat_dialect)dialect, CHAT_STABLE,
                        str_of(suffix), str_of(text), &err) != MOTE_OK)
        fail_msg("%s: %s", body, err.text);
    json_doc_free(doc);
    return got;
}

typedef struct row {
    const char *body;  /* a body; without a brace a model suffix or a user message */
    unsigned dialects; /* bits */
    mote_think think;
    uint32_t budget;
    const char *source;
} row;

enum { ALL = 15, O = 1 << OPENAI, R = 1 << RESPONSES, A = 1 << ANTHROPIC, L = 1 << OLLAMA };

/* In order of precedence; of each field a value for on and one for off. */
static const row rows[] = {
    {"\"chat_template_kwargs\":{\"enable_thinking\":true}", ALL, MOTE_THINK_ON, 0,
     "chat_template_kwargs.enable_thinking"},
    {"\"enable_thinking\":false", ALL, MOTE_THINK_OFF, 0, "enable_thinking"},
    {"\"extra_body\":{\"chat_template_kwargs\":{\"enable_thinking\":true}}", ALL, MOTE_THINK_ON, 0,
     "extra_body.chat_template_kwargs.enable_thinking"},
    {"\"extra_body\":{\"enable_thinking\":false}", ALL, MOTE_THINK_OFF, 0,
     "extra_body.enable_thinking"},
    {"\"reasoning_effort\":\"minimal\"", O, MOTE_THINK_ON, 256, "reasoning_effort"},
    {"\"reasoning\":{\"enabled\":false}", O, MOTE_THINK_OFF, 0, "reasoning.enabled"},
    {"\"reasoning\":{\"max_tokens\":77}", O, MOTE_THINK_ON, 77, "reasoning.max_tokens"},
    {"\"reasoning\":{\"effort\":\"none\"}", O | R, MOTE_THINK_OFF, 0, "reasoning.effort"},
    {"\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":5}", A | O, MOTE_THINK_ON, 5,
     "thinking.type"},
    {"\"think\":\"high\"", L | O, MOTE_THINK_ON, 16384, "think"},
    {"\"thinking_budget\":0", ALL, MOTE_THINK_OFF, 0, "thinking_budget"},
    {"\"chat_template_kwargs\":{\"thinking_budget\":9}", ALL, MOTE_THINK_ON, 9,
     "chat_template_kwargs.thinking_budget"},
    {"\"extra_body\":{\"thinking_budget\":0}", ALL, MOTE_THINK_OFF, 0,
     "extra_body.thinking_budget"},
    {"\"extra_body\":{\"chat_template_kwargs\":{\"thinking_budget\":9}}", ALL, MOTE_THINK_ON, 9,
     "extra_body.chat_template_kwargs.thinking_budget"},
    {"\"thinking_token_budget\":0", ALL, MOTE_THINK_OFF, 0, "thinking_token_budget"},
    {"\"chat_template_kwargs\":{\"thinking_token_budget\":9}", ALL, MOTE_THINK_ON, 9,
     "chat_template_kwargs.thinking_token_budget"},
    {"\"extra_body\":{\"thinking_token_budget\":0}", ALL, MOTE_THINK_OFF, 0,
     "extra_body.thinking_token_budget"},
    {"\"extra_body\":{\"chat_template_kwargs\":{\"thinking_token_budget\":9}}", ALL, MOTE_THINK_ON,
     9, "extra_body.chat_template_kwargs.thinking_token_budget"},
    {"\"thinking_budget_tokens\":0", ALL, MOTE_THINK_OFF, 0, "thinking_budget_tokens"},
    {"\"chat_template_kwargs\":{\"thinking_budget_tokens\":9}", ALL, MOTE_THINK_ON, 9,
     "chat_template_kwargs.thinking_budget_tokens"},
    {"\"extra_body\":{\"thinking_budget_tokens\":0}", ALL, MOTE_THINK_OFF, 0,
     "extra_body.thinking_budget_tokens"},
    {"\"extra_body\":{\"chat_template_kwargs\":{\"thinking_budget_tokens\":9}}", ALL, MOTE_THINK_ON,
     9, "extra_body.chat_template_kwargs.thinking_budget_tokens"},
    {"\"reasoning_budget\":0", ALL, MOTE_THINK_OFF, 0, "reasoning_budget"},
    {"\"chat_template_kwargs\":{\"reasoning_budget\":-1}", ALL, MOTE_THINK_ON, MOTE_THINK_MAX,
     "chat_template_kwargs.reasoning_budget"},
    {"\"extra_body\":{\"reasoning_budget\":0}", ALL, MOTE_THINK_OFF, 0,
     "extra_body.reasoning_budget"},
    {"\"extra_body\":{\"chat_template_kwargs\":{\"reasoning_budget\":9999999999}}", ALL,
     MOTE_THINK_ON, MOTE_THINK_MAX, "extra_body.chat_template_kwargs.reasoning_budget"},
    {"nothink", ALL, MOTE_THINK_OFF, 0, "model"},
    {"/think", ALL, MOTE_THINK_ON, 0, "soft_switch"},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* One request with the fields of several rows; members of one name are merged. */
static chat_think_setting read_rows(const row *const *which, size_t n, int dialect)
{
    static const char *const nests[] = {"\"extra_body\":{\"chat_template_kwargs\":{",
                                        "\"extra_body\":{", "\"chat_template_kwargs\":{",
                                        "\"reasoning\":{", ""};
    char parts[5][512] = {"", "", "", "", ""}, body[4096];
    const char *suffix = "", *text = "";
    for (size_t i = 0; i < n; i++) {
        const char *from = which[i]->body;
        if (strchr(from, ':') == NULL) {
            *(from[0] == '/' ? &text : &suffix) = from;
            continue;
        }
        size_t k = 0;
        while (strncmp(from, nests[k], strlen(nests[k])) != 0)
            k++;
        const size_t closing = k == 0 ? 2 : k < 4 ? 1 : 0;
        char *to = parts[k];
        snprintf(to + strlen(to), sizeof parts[k] - strlen(to), "%s%.*s", to[0] != 0 ? "," : "",
                 (int)(strlen(from) - strlen(nests[k]) - closing), from + strlen(nests[k]));
    }
    snprintf(body, sizeof body,
             "{\"extra_body\":{\"chat_template_kwargs\":{%s}%s%s},\"chat_template_kwargs\":{%s},"
             "\"reasoning\":{%s}%s%s}",
             parts[0], parts[1][0] != 0 ? "," : "", parts[1], parts[2], parts[3],
             parts[4][0] != 0 ? "," : "", parts[4]);
    return read_one(body, dialect, suffix, text);
}

static void every_row_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROWS; i++)
        for (int d = 0; d < N_DIALECTS; d++) {
            const row *r = &rows[i];
            const chat_think_setting got = read_rows(&r, 1, d);
            const bool counts = (r->dialects >> d & 1) != 0;
            assert_int_equal(got.think, counts ? r->think : MOTE_THINK_AUTO);
            assert_int_equal(got.budget, counts ? r->budget : 0);
            assert_string_equal(got.source, counts ? r->source : "default");
            assert_false(got.conflict);
            assert_int_equal(got.soft_switch, r->body[0] == '/');
        }
}

/* Of two fields, the earlier decides on or off; a number of tokens in either sets the budget. */
static void every_pair(void **state)
{
    (void)state;
    int pairs = 0;
    for (size_t i = 0; i < N_ROWS; i++)
        for (size_t k = i + 1; k < N_ROWS; k++)
            for (int d = 0; d < N_DIALECTS; d++) {
                const row *both[] = {&rows[i], &rows[k]};
                if ((rows[i].dialects & rows[k].dialects & 1u << d) == 0)
                    continue;
                const chat_think_setting got = read_rows(both, 2, d);
                assert_int_equal(got.think, rows[i].think);
                assert_string_equal(got.source, rows[i].source);
                if (rows[i].think != rows[k].think)
                    assert_true(got.conflict);
                if (rows[i].think == MOTE_THINK_OFF)
                    assert_int_equal(got.budget, 0);
                pairs++;
            }
    assert_true(pairs > 1000);
}

static void token_counts_override_effort_levels(void **state)
{
    (void)state;
    chat_think_setting s =
        read_one("{\"reasoning_effort\":\"low\",\"thinking_budget\":50}", OPENAI, "", "");
    assert_true(s.think == MOTE_THINK_ON && s.budget == 50 && !s.conflict);
    assert_string_equal(s.source, "reasoning_effort");
    s = read_one("{\"reasoning\":{\"effort\":\"high\",\"max_tokens\":50}}", OPENAI, "", "");
    assert_true(s.budget == 50 && !s.conflict);
    s = read_one("{\"enable_thinking\":true,\"reasoning_effort\":\"low\"}", OPENAI, "", "");
    assert_true(s.budget == 1024 && !s.conflict);
    assert_string_equal(s.source, "enable_thinking");
    s = read_one("{\"reasoning_effort\":\"low\"}", OPENAI, "high", "");
    assert_true(s.budget == 1024 && s.conflict);
    s = read_one("{\"enable_thinking\":true,\"thinking_budget\":0}", OPENAI, "", "");
    assert_true(s.think == MOTE_THINK_ON && s.budget == 0 && s.conflict);
}

static void words_of_each_dialect(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        mote_think think;
        uint32_t budget;
    } efforts[] = {{"none", MOTE_THINK_OFF, 0},       {"minimal", MOTE_THINK_ON, 256},
                   {"low", MOTE_THINK_ON, 1024},      {"medium", MOTE_THINK_ON, 4096},
                   {"high", MOTE_THINK_ON, 16384},    {"xhigh", MOTE_THINK_ON, 32768},
                   {"max", MOTE_THINK_ON, UINT32_MAX}};
    for (size_t i = 0; i < sizeof efforts / sizeof *efforts; i++) {
        static const char *const forms[] = {"{\"reasoning_effort\":\"%s\"}",
                                            "{\"reasoning\":{\"effort\":\"%s\"}}", NULL,
                                            "{\"think\":\"%s\"}"};
        for (int d = 0; d < N_DIALECTS; d++) {
            char body[128];
            if (forms[d] == NULL)
                continue;
            snprintf(body, sizeof body, forms[d], efforts[i].word);
            const chat_think_setting s = read_one(body, d, "", "");
            assert_true(s.think == efforts[i].think && s.budget == efforts[i].budget);
        }
        if (i == 0)
            continue;
        assert_true(chat_think_is_suffix(str_of(efforts[i].word)));
        const chat_think_setting s = read_one("{}", OPENAI, efforts[i].word, "");
        assert_true(s.think == efforts[i].think && s.budget == efforts[i].budget);
    }
    assert_true(read_one("{\"think\":true}", OLLAMA, "", "").think == MOTE_THINK_ON);
    assert_true(read_one("{\"think\":false}", OLLAMA, "", "").think == MOTE_THINK_OFF);
    assert_true(read_one("{\"think\":null}", OLLAMA, "4b", "").think == MOTE_THINK_AUTO);
    assert_false(chat_think_is_suffix(str_of("4b")));
}

static void anthropic(void **state)
{
    (void)state;
    chat_think_setting s = read_one("{\"thinking\":{\"type\":\"disabled\"}}", ANTHROPIC, "", "");
    assert_int_equal(s.think, MOTE_THINK_OFF);
    s = read_one("{\"thinking\":{\"type\":\"adaptive\"}}", ANTHROPIC, "", "");
    assert_true(s.think == MOTE_THINK_ON && s.budget == 0);
    s = read_one("{\"thinking\":{\"type\":\"between_tools\"},\"output_config\":{\"effort\":"
                 "\"low\"}}",
                 ANTHROPIC, "", "");
    assert_true(s.think == MOTE_THINK_ON && s.budget == 1024);
    /* effort alone does not switch thinking on */
    s = read_one("{\"output_config\":{\"effort\":\"high\"}}", ANTHROPIC, "", "");
    assert_true(s.think == MOTE_THINK_AUTO && s.budget == 16384);
    assert_string_equal(s.source, "default");
    s = read_one("{\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":2000},\"output_config\":{"
                 "\"effort\":\"max\"}}",
                 ANTHROPIC, "", "");
    assert_true(s.budget == 2000 && !s.conflict);
}

static void the_soft_switch(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        mote_think think;
        const char *left;
    } cases[] = {
        {"Why? /think", MOTE_THINK_ON, "Why?"},
        {"Why?\n/no_think \n", MOTE_THINK_OFF, "Why?"},
        {"/no_think", MOTE_THINK_OFF, ""},
        {"Why?/think", MOTE_THINK_AUTO, "Why?/think"},
        {"/think about it", MOTE_THINK_AUTO, "/think about it"},
        {"path /no_think.", MOTE_THINK_AUTO, "path /no_think."},
        {"", MOTE_THINK_AUTO, ""},
        {"a ", MOTE_THINK_AUTO, "a "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const chat_think_setting s = read_one("{}", OPENAI, "", cases[i].text);
        assert_int_equal(s.think, cases[i].think);
        assert_int_equal(s.soft_switch, s.think != MOTE_THINK_AUTO);
        assert_true(str_is(chat_think_without_switch(str_of(cases[i].text)), cases[i].left));
    }
    const chat_think_setting s = read_one("{\"enable_thinking\":true}", OPENAI, "", "x /no_think");
    assert_true(s.think == MOTE_THINK_ON && s.conflict && s.soft_switch);
}

static void invalid_fields_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int dialect;
        const char *names;
    } cases[] = {
        {"{\"enable_thinking\":\"yes\"}", OPENAI, "enable_thinking"},
        {"{\"chat_template_kwargs\":{\"enable_thinking\":1}}", OLLAMA,
         "chat_template_kwargs.enable_thinking"},
        {"{\"reasoning_effort\":\"huge\"}", OPENAI, "reasoning_effort"},
        {"{\"reasoning_effort\":5}", OPENAI, "reasoning_effort"},
        {"{\"reasoning\":{\"effort\":true}}", RESPONSES, "reasoning.effort"},
        {"{\"thinking\":{\"type\":\"enabled\"}}", ANTHROPIC, "thinking.budget_tokens"},
        {"{\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":0}}", ANTHROPIC,
         "thinking.budget_tokens"},
        {"{\"thinking\":{\"type\":\"often\"}}", ANTHROPIC, "thinking.type"},
        {"{\"think\":3}", OLLAMA, "think"},
        {"{\"thinking_budget\":1.5}", OPENAI, "thinking_budget"},
        {"{\"extra_body\":{\"reasoning_budget\":\"9\"}}", OPENAI, "extra_body.reasoning_budget"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        chat_think_setting s;
        mote_error err;
        json_doc *doc = rig_json(cases[i].body);
        assert_int_equal(chat_think_read(&s, json_doc_root(doc), (chat_dialect)cases[i].dialect,
                                         CHAT_STABLE, str_of(""), str_of(""), &err),
                         MOTE_E_ARG);
        assert_non_null(strstr(err.text, cases[i].names));
        json_doc_free(doc);
    }
    /* fields of other dialects are ignored */
    assert_true(read_one("{\"think\":3,\"thinking\":7}", RESPONSES, "", "").think ==
                MOTE_THINK_AUTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_alone),
        cmocka_unit_test(every_pair),
        cmocka_unit_test(token_counts_override_effort_levels),
        cmocka_unit_test(words_of_each_dialect),
        cmocka_unit_test(anthropic),
        cmocka_unit_test(the_soft_switch),
        cmocka_unit_test(invalid_fields_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
