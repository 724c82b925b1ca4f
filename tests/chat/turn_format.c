/* SPDX-License-Identifier: Apache-2.0 */
/* turn_format.c - response formats: JSON, schemas, regex, choices, GBNF, required tool calls. */
#include "chat/chat_rig.h"
#include "chat/turn_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka needs those before it */
#include <cmocka.h>

enum { SEEDS = 10 };

static mote_engine *engine;

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"set_timer\",\"description\":\"Set a timer\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"minutes\":{\"type\":\"integer\","
    "\"minimum\":1,\"maximum\":90},\"label\":{\"type\":\"string\"}},\"required\":[\"minutes\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":\"Weather\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},"
    "\"required\":[\"city\"]}}}]";

/* One answer in this format; its events are recorded in *h. */
static mote_answer answer_in_format(mote_format format, const char *text, uint64_t seed, bool think,
                                    answer_record *h)
{
    mote_chat *chat = turn_chat(engine, NULL);
    const mote_answer_options how = {.format = format,
                                     .format_text = text,
                                     .format_bytes = text != NULL ? strlen(text) : 0,
                                     .think = think ? MOTE_THINK_ON : MOTE_THINK_OFF,
                                     .think_budget = 16,
                                     .max_tokens = 400,
                                     .sampling.seed = seed};
    turn_add(chat, "Who is the mayor of Keldon?");
    const mote_answer answer = turn_answer(chat, how, h);
    mote_chat_free(chat);
    return answer;
}

static void json_schema_answers(void **state)
{
    (void)state;
    const char *schema =
        "{\"type\":\"object\",\"properties\":{\"the_name_of_the_person\":{\"type\":\"string\","
        "\"maxLength\":12},\"the_age_in_years\":{\"type\":\"integer\",\"minimum\":7,\"maximum\":11}"
        "},"
        "\"required\":[\"the_name_of_the_person\",\"the_age_in_years\"],"
        "\"additionalProperties\":false}";
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        answer_record h = {0};
        json_doc *doc;
        const mote_answer a = answer_in_format(MOTE_FORMAT_JSON_SCHEMA, schema, seed, seed % 2, &h);
        assert_int_equal(a.finish, MOTE_FINISH_STOP);
        assert_true(a.forced_tokens > 10); /* the names of the members */
        assert_int_equal(json_doc_read(&doc, strbuf_view(&h.content), NULL), MOTE_OK);
        const json_node *root = json_doc_root(doc);
        int64_t age;
        assert_int_equal(json_node_size(root), 2);
        assert_true(json_node_is(json_node_get(root, "the_name_of_the_person"), JSON_IS_STRING));
        assert_true(json_node_int64(json_node_get(root, "the_age_in_years"), &age));
        assert_in_range(age, 7, 11);
        json_doc_free(doc);
        record_clear(&h);
    }
}

/* Forced tokens count, also if they use up max_tokens before the first sample. */
static void a_format_longer_than_max_tokens(void **state)
{
    (void)state;
    const char *schema =
        "{\"type\":\"object\",\"properties\":{\"the_name_of_the_person\":{\"type\":"
        "\"string\"}},\"required\":[\"the_name_of_the_person\"]}";
    for (uint32_t most = 1; most <= 24; most++) {
        answer_record h = {0};
        mote_chat *chat = turn_chat(engine, NULL);
        const mote_answer_options how = {.format = MOTE_FORMAT_JSON_SCHEMA,
                                         .format_text = schema,
                                         .format_bytes = strlen(schema),
                                         .think = MOTE_THINK_OFF,
                                         .max_tokens = most};
        turn_add(chat, "Who is the mayor of Keldon?");
        const mote_answer a = turn_answer(chat, how, &h);
        assert_in_range(a.answer_tokens, 1, most);
        assert_true(most > 4 || (a.finish == MOTE_FINISH_LENGTH && h.content.n > 0));
        mote_chat_free(chat);
        record_clear(&h);
    }
}

static void any_object(void **state)
{
    (void)state;
    int whole = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        answer_record h = {0};
        json_doc *doc;
        const mote_answer a = answer_in_format(MOTE_FORMAT_JSON, NULL, seed, false, &h);
        assert_true(h.content.n > 0 && h.content.p[0] == '{');
        if (a.finish == MOTE_FINISH_STOP) {
            assert_int_equal(json_doc_read(&doc, strbuf_view(&h.content), NULL), MOTE_OK);
            json_doc_free(doc);
            whole++;
        }
        record_clear(&h);
    }
    assert_true(whole > 0);
}

static void expressions_and_choices(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        answer_record h = {0};
        answer_in_format(MOTE_FORMAT_CHOICES, "[\"yes\", \"no\", \"perhaps not\"]", seed, seed % 2,
                         &h);
        const str said = strbuf_view(&h.content);
        assert_true(str_is(said, "yes") || str_is(said, "no") || str_is(said, "perhaps not"));
        record_clear(&h);
        answer_in_format(MOTE_FORMAT_REGEX, "[0-9]{3}-[a-c]", seed, false, &h);
        assert_int_equal(h.content.n, 5);
        for (size_t i = 0; i < 3; i++)
            assert_in_range(h.content.p[i], '0', '9');
        assert_int_equal(h.content.p[3], '-');
        assert_in_range(h.content.p[4], 'a', 'c');
        record_clear(&h);
    }
}

/* The first token decides; the rest and the end of the answer are not sampled. */
static void last_tokens_of_a_choice(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        answer_record h = {0};
        const mote_answer a = answer_in_format(
            MOTE_FORMAT_CHOICES, "[\"yellow bananas and oranges\", \"green apples and pears\"]",
            seed, false, &h);
        const str said = strbuf_view(&h.content);
        assert_true(str_is(said, "yellow bananas and oranges") ||
                    str_is(said, "green apples and pears"));
        assert_int_equal(a.finish, MOTE_FINISH_STOP);
        assert_int_equal(a.answer_tokens - a.forced_tokens, 1);
        record_clear(&h);
    }
}

/* A GBNF grammar applies after thinking, and its fixed text is not sampled. */
static void grammars(void **state)
{
    static const char text[] = "root ::= \"the pairs of brackets are \" pair{2} \";\"\n"
                               "pair ::= \"(\" pair? \")\" | \"[\" pair? \"]\"\n";
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        answer_record h = {0};
        char open[400];
        size_t depth = 0, pairs = 0;
        const mote_answer a = answer_in_format(MOTE_FORMAT_GRAMMAR, text, seed, seed % 2, &h);
        assert_int_equal(a.finish, MOTE_FINISH_STOP);
        assert_true(a.forced_tokens >= 4);
        assert_true(h.content.n > 30 && h.content.p[h.content.n - 1] == ';');
        assert_memory_equal(h.content.p, "the pairs of brackets are ", 26);
        for (size_t i = 26; i < h.content.n - 1; i++) {
            const char c = h.content.p[i];
            if (c == '(' || c == '[') {
                open[depth++] = c;
                continue;
            }
            assert_true(depth > 0 && c == (open[depth - 1] == '(' ? ')' : ']'));
            pairs += --depth == 0;
        }
        assert_int_equal(depth, 0);
        assert_int_equal(pairs, 2);
        record_clear(&h);
    }
}

/* The answer is a tool call with arguments that match the schema. */
static void calls_can_be_required(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        answer_record h = {0};
        mote_chat *chat = turn_chat(engine, NULL);
        mote_answer_options how = {.tool_choice = seed % 2 ? MOTE_TOOLS_NAMED : MOTE_TOOLS_REQUIRED,
                                   .tool_name = "set_timer",
                                   .one_call = true,
                                   .think = seed % 3 == 0 ? MOTE_THINK_ON : MOTE_THINK_OFF,
                                   .think_budget = 16,
                                   .max_tokens = 400,
                                   .sampling.seed = seed};
        assert_int_equal(mote_chat_set_tools(chat, tools, strlen(tools), NULL), MOTE_OK);
        turn_add(chat, "Hello");
        const mote_answer a = turn_answer(chat, how, &h);
        assert_int_equal(a.finish, MOTE_FINISH_TOOL_CALLS);
        assert_int_equal(a.calls, 1);
        assert_true(text_is_blank(&h.content));
        if (seed % 2)
            assert_memory_equal(h.calls.p, "set_timer {\"", 12);
        int minutes;
        if (sscanf(h.calls.p, "set_timer {\"minutes\": %d", &minutes) == 1)
            assert_in_range(minutes, 1, 90);
        record_clear(&h);
        mote_chat_free(chat);
    }
}

/* With a response format, a required call comes, and nothing but calls. */
static void calls_can_be_required_with_a_format(void **state)
{
    static const char schema[] = "{\"type\":\"object\",\"properties\":{\"x\":{\"type\":"
                                 "\"integer\"}},\"required\":[\"x\"]}";
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        answer_record h = {0};
        mote_chat *chat = turn_chat(engine, NULL);
        const bool named = seed % 2;
        mote_answer_options how = {.tool_choice = named ? MOTE_TOOLS_NAMED : MOTE_TOOLS_REQUIRED,
                                   .tool_name = "set_timer",
                                   .format = MOTE_FORMAT_JSON_SCHEMA,
                                   .format_text = schema,
                                   .format_bytes = sizeof schema - 1,
                                   .one_call = seed % 4 < 2,
                                   .think = seed % 3 == 0 ? MOTE_THINK_ON : MOTE_THINK_OFF,
                                   .think_budget = 16,
                                   .max_tokens = 800,
                                   .sampling.seed = seed};
        assert_int_equal(mote_chat_set_tools(chat, tools, strlen(tools), NULL), MOTE_OK);
        turn_add(chat, "Give me the point 91, 26 as JSON.");
        const mote_answer a = turn_answer(chat, how, &h);
        if (how.one_call || a.finish != MOTE_FINISH_LENGTH)
            assert_int_equal(a.finish, MOTE_FINISH_TOOL_CALLS);
        assert_true(a.calls >= 1 && (!how.one_call || a.calls == 1));
        assert_true(text_is_blank(&h.content));
        if (named)
            assert_memory_equal(h.calls.p, "set_timer {\"", 12);
        record_clear(&h);
        mote_chat_free(chat);
    }
}

/* A bias that keeps the model from ending the answer wherever it may do something else. */
static size_t end_bias(mote_bias out[8])
{
    const mote_model *model = mote_engine_model(engine);
    mote_model_info info;
    size_t n = 0;
    mote_model_describe(model, &info);
    for (mote_token id = 0; id < (mote_token)info.vocabulary && n < 8; id++)
        if (mote_token_is_end(model, id))
            out[n++] = (mote_bias){id, -1000};
    assert_true(n > 0);
    return n;
}

/* A model that does not want to end writes further calls, but no text after a call. Repeated calls
 * are a loop: the answer is cut inside an earlier call and stays in the format. */
static void only_calls_follow_a_call(void **state)
{
    uint32_t several = 0, loops = 0;
    mote_bias ends[8];
    const size_t n_ends = end_bias(ends);
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        answer_record h = {0};
        mote_chat *chat = turn_chat(engine, NULL);
        mote_answer_options how = turn_greedy();
        how.format = MOTE_FORMAT_JSON;
        how.tool_choice = seed % 2 ? MOTE_TOOLS_AUTO : MOTE_TOOLS_REQUIRED;
        how.think = seed % 3 == 0 ? MOTE_THINK_ON : MOTE_THINK_OFF;
        how.think_budget = 16;
        how.max_tokens = 800;
        how.no_loop_guard = seed == 5;
        how.sampling.temperature = (float)seed / 16;
        how.sampling.seed = seed;
        how.sampling.bias = ends;
        how.sampling.n_bias = n_ends;
        assert_int_equal(mote_chat_set_tools(chat, tools, strlen(tools), NULL), MOTE_OK);
        turn_add(chat, "What is the weather in Haldon?");
        const mote_answer a = turn_answer(chat, how, &h);
        assert_true(a.calls > 0 || how.tool_choice == MOTE_TOOLS_AUTO);
        if (a.calls > 0)
            assert_true(text_is_blank(&h.content));
        several += a.calls > 1;
        loops += a.loops_detected > 0 && a.calls > 1;
        record_clear(&h);
        mote_chat_free(chat);
    }
    print_message("%u answers with several calls, %u with loops of calls\n", several, loops);
    assert_true(several > 0 && loops > 0);
}

/* With tools to choose from, the answer is text in the format or calls, never a mixture. */
static void a_format_or_calls(void **state)
{
    static const char text[] = "root ::= (\"a\" | \"b\")* \"!\"";
    static const char *const questions[] = {"Hello", "Set a timer of 5 minutes.",
                                            "What is the weather in Haldon?"};
    uint32_t called = 0, wrote = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 3 * SEEDS; seed++) {
        answer_record h = {0};
        mote_chat *chat = turn_chat(engine, NULL);
        mote_answer_options how = {.format = MOTE_FORMAT_GRAMMAR,
                                   .format_text = text,
                                   .format_bytes = sizeof text - 1,
                                   .think = seed % 2 ? MOTE_THINK_ON : MOTE_THINK_OFF,
                                   .think_budget = 16,
                                   .max_tokens = 300,
                                   .sampling.seed = seed};
        assert_int_equal(mote_chat_set_tools(chat, tools, strlen(tools), NULL), MOTE_OK);
        turn_add(chat, questions[seed % 3]);
        const mote_answer a = turn_answer(chat, how, &h);
        if (a.calls > 0) {
            assert_true(text_is_blank(&h.content));
            called++;
        } else if (a.finish == MOTE_FINISH_STOP) {
            assert_int_equal(strspn(h.content.p, "ab"), h.content.n - 1);
            assert_int_equal(h.content.p[h.content.n - 1], '!');
            wrote++;
        }
        record_clear(&h);
        mote_chat_free(chat);
    }
    print_message("%u answers with calls, %u with text\n", called, wrote);
    assert_true(called > 0 && wrote > 0);
}

static void invalid_formats_are_rejected(void **state)
{
    (void)state;
    static const struct {
        mote_answer_options how;
        mote_status status;
    } cases[] = {
        {{.format = MOTE_FORMAT_JSON_SCHEMA, .format_text = "{\"type\":7}", .format_bytes = 10},
         MOTE_E_FORMAT},
        {{.format = MOTE_FORMAT_REGEX, .format_text = "(a", .format_bytes = 2}, MOTE_E_ARG},
        {{.format = MOTE_FORMAT_GRAMMAR, .format_text = "a ::=", .format_bytes = 5}, MOTE_E_ARG},
        {{.format = MOTE_FORMAT_CHOICES, .format_text = "[]", .format_bytes = 2}, MOTE_E_ARG},
        {{.format = MOTE_FORMAT_CHOICES, .format_text = "[1]", .format_bytes = 3}, MOTE_E_ARG},
        {{.tool_choice = MOTE_TOOLS_REQUIRED}, MOTE_E_ARG},
        {{.tool_choice = MOTE_TOOLS_REQUIRED, .format = MOTE_FORMAT_JSON}, MOTE_E_ARG},
        {{.tool_choice = MOTE_TOOLS_NAMED, .tool_name = "nothing"}, MOTE_E_ARG},
    };
    mote_chat *chat = turn_chat(engine, NULL);
    mote_error err;
    turn_add(chat, "Hello");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mote_status status = mote_chat_answer(chat, &cases[i].how, NULL, &err);
        assert_int_equal(status, cases[i].status);
        assert_int_equal(mote_chat_count(chat), 1);
    }
    mote_chat_free(chat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_schema_answers),
        cmocka_unit_test(a_format_longer_than_max_tokens),
        cmocka_unit_test(any_object),
        cmocka_unit_test(expressions_and_choices),
        cmocka_unit_test(last_tokens_of_a_choice),
        cmocka_unit_test(grammars),
        cmocka_unit_test(calls_can_be_required),
        cmocka_unit_test(calls_can_be_required_with_a_format),
        cmocka_unit_test(only_calls_follow_a_call),
        cmocka_unit_test(a_format_or_calls),
        cmocka_unit_test(invalid_formats_are_rejected),
    };
    engine = turn_engine("mote-tiny-Q4_K_M.gguf", 1, 2);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    turn_engine_close(engine);
    return failed;
}
