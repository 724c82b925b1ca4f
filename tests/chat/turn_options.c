/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn_options.c - turn options that only the server uses: raw completions, logprobs, min_tokens,
 * tool_allowed, thinking closed by a client, schema warnings.
 */
#include "chat/chat_rig.h"
#include "chat/turn_drive.h"
#include "chat/turn_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka needs those before it */
#include <cmocka.h>

enum { SESSIONS = 2 };

static turn_host host;

#define SAY(text) "{\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}],"
#define DIRECT    "\"enable_thinking\":false}"

static const mote_answer *run_job(turn_job *g)
{
    turn_jobs_run(&host, g, 1);
    return chat_turn_result(g->turn);
}

/* The events of one kind, joined. */
static void log_of_kind(const turn_job *g, const char *kind, strbuf *out)
{
    const char *at = g->log.p, *end = g->log.p + g->log.n;
    out->n = 0;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        const size_t n = strlen(kind);
        if (strncmp(at, kind, n) == 0 && at[n] == ' ')
            strbuf_put(out, (str){at + n + 2, (size_t)(line_end - at) - n - 2});
        at = line_end + 1;
    }
}

static void raw_completion(void **state)
{
    (void)state;
    turn_job g = {.request = "<think>The mayor of Keldon is", .raw = true, .how = turn_greedy()};
    g.how.max_tokens = 12;
    const mote_answer *a = run_job(&g);
    strbuf said = {0}, spelt = {0};
    size_t n;
    const mote_token *tokens = turn_job_answer(&g, &n);
    mote_text_stream stream = {0};
    for (size_t i = 0; i <= n; i++) {
        char piece[MOTE_PIECE_BYTES];
        const mote_token id = i < n ? tokens[i] : -1;
        if (id >= 0 && mote_token_is_control(host.chat_ctx.model, id))
            continue;
        const size_t bytes = mote_text_next(host.chat_ctx.model, &stream, id, piece, sizeof piece);
        json_put_escaped(&spelt, (str){piece, bytes});
    }
    log_of_kind(&g, "content", &said);
    assert_true(n > 0 && str_eq(strbuf_view(&said), strbuf_view(&spelt)));
    assert_false(a->thinking);
    assert_int_equal(a->answer_tokens, n);
    turn_job_free(&g);
    /* response formats work too */
    g = (turn_job){.request = "Yes or no? ", .raw = true, .how = turn_greedy()};
    g.how.format = MOTE_FORMAT_REGEX;
    g.how.format_text = "(yes|no) [0-9]{3}";
    g.how.format_bytes = strlen(g.how.format_text);
    a = run_job(&g);
    log_of_kind(&g, "content", &said);
    assert_int_equal(a->finish, MOTE_FINISH_STOP);
    assert_true(said.n == 6 || said.n == 7);
    turn_job_free(&g);
    strbuf_fini(&said);
    strbuf_fini(&spelt);
}

static void raw_completion_excludes_tools(void **state)
{
    (void)state;
    mote_error err;
    turn_job g = {.request = "x", .raw = true, .how = {.tool_choice = MOTE_TOOLS_REQUIRED}};
    assert_int_equal(turn_job_new(&g, &host, &err), MOTE_E_ARG);
    turn_job_free(&g);
}

/* Token events match the content and have the sampler's values. */
static void logprobs_match_the_content(void **state)
{
    (void)state;
    static const char *const stop[] = {"zzz", "Keld"};
    for (int round = 0; round < 4; round++) {
        turn_job g = {.request = round % 2
                                     ? SAY("Who is the mayor of Keldon?") "\"enable_thinking\":"
                                                                          "true}"
                                     : SAY("Who is the mayor of Keldon?") DIRECT,
                      .logprobs = true,
                      .how = turn_greedy()};
        g.how.sampling.top_logprobs = 3;
        g.how.max_tokens = 200;
        g.how.think_budget = 16;
        g.how.stop = stop;
        g.how.n_stop = round / 2;
        const mote_answer *a = run_job(&g);
        strbuf content = {0}, tokens = {0};
        log_of_kind(&g, "content", &content);
        log_of_kind(&g, "token", &tokens);
        const size_t n = g.chosen.n / sizeof(mote_choice);
        assert_true(n > 3 && n < a->answer_tokens + 1);
        if (a->thinking)
            assert_true(n + a->think_tokens <= a->answer_tokens + 1);
        /* leading and trailing blanks are in tokens, but not in the content */
        assert_true(text_has(strbuf_view(&tokens), strbuf_view(&content)));
        assert_true(tokens.n <= content.n + 8);
        for (size_t i = 0; i < n; i++) {
            mote_choice c;
            memcpy(&c, g.chosen.p + i * sizeof c, sizeof c);
            assert_int_equal(c.n_top, 3);
            assert_true(c.logprob < 0 && c.top[0].logprob >= c.logprob);
            assert_int_equal(c.top[0].token, c.token); /* greedy */
        }
        strbuf_fini(&content);
        strbuf_fini(&tokens);
        turn_job_free(&g);
    }
}

/* Forced tokens have token events too, without a choice. */
static void logprobs_of_a_response_format(void **state)
{
    (void)state;
    turn_job g = {.request = SAY("Who is the mayor of Keldon?") DIRECT, .logprobs = true};
    g.how = turn_greedy();
    g.how.sampling.top_logprobs = 2;
    g.how.format = MOTE_FORMAT_JSON_SCHEMA;
    g.how.format_text = "{\"type\":\"object\",\"properties\":{\"a_name_that_is_forced\":{\"enum\":["
                        "\"x\",\"y\"]}},\"required\":[\"a_name_that_is_forced\"],"
                        "\"additionalProperties\":false}";
    g.how.format_bytes = strlen(g.how.format_text);
    const mote_answer *a = run_job(&g);
    size_t completed = 0, n = g.chosen.n / sizeof(mote_choice);
    for (size_t i = 0; i < n; i++) {
        mote_choice c;
        memcpy(&c, g.chosen.p + i * sizeof c, sizeof c);
        completed += c.n_top == 0 && c.logprob == 0;
    }
    assert_int_equal(n, a->answer_tokens);
    assert_int_equal(completed, a->forced_tokens);
    assert_true(completed > 3);
    turn_job_free(&g);
}

static void length_options_apply(void **state)
{
    (void)state;
    turn_job g = {.request = SAY("Hello") DIRECT, .how = turn_greedy()};
    const mote_answer *a = run_job(&g);
    const uint64_t natural = a->answer_tokens;
    assert_int_equal(a->finish, MOTE_FINISH_STOP);
    turn_job_free(&g);
    g = (turn_job){.request = g.request, .how = g.how, .min_tokens = (uint32_t)natural + 20};
    a = run_job(&g);
    assert_true(a->answer_tokens >= natural + 20);
    turn_job_free(&g);
    g = (turn_job){.request = g.request, .how = g.how, .ignore_end = true};
    g.how.max_tokens = 150;
    g.how.no_loop_guard = true;
    a = run_job(&g);
    assert_int_equal(a->finish, MOTE_FINISH_LENGTH);
    assert_int_equal(a->answer_tokens, 150);
    turn_job_free(&g);
    /* an answer ends when its response format is complete */
    g = (turn_job){.request = g.request, .how = turn_greedy(), .ignore_end = true};
    g.how.format = MOTE_FORMAT_CHOICES;
    g.how.format_text = "[\"yes\",\"no\"]";
    g.how.format_bytes = strlen(g.how.format_text);
    a = run_job(&g);
    assert_int_equal(a->finish, MOTE_FINISH_STOP);
    turn_job_free(&g);
}

#define TOOL(name, more) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"" more "}}"

static void only_allowed_tools_are_called(void **state)
{
    (void)state;
    static const bool second[] = {false, true}, none[] = {false, false};
    static const char request[] =
        SAY("Hello") "\"tools\":[" TOOL("first", "") "," TOOL("second", "") "]," DIRECT;
    mote_error err;
    for (uint64_t seed = 0; seed < 5; seed++) {
        turn_job g = {.request = request, .tool_allowed = second};
        g.how.tool_choice = MOTE_TOOLS_REQUIRED;
        g.how.one_call = true;
        g.how.sampling.seed = seed;
        assert_int_equal(run_job(&g)->calls, 1);
        assert_true(turn_job_logged(&g, "call second {}"));
        turn_job_free(&g);
    }
    turn_job g = {.request = request, .tool_allowed = none};
    g.how.tool_choice = MOTE_TOOLS_REQUIRED;
    assert_int_equal(turn_job_new(&g, &host, &err), MOTE_E_ARG);
    turn_job_free(&g);
    /* calls are forbidden even with a large bias for <tool_call> */
    const mote_bias bias = {host.chat_ctx.template.tags[CHAT_TAG_CALL], 100};
    g = (turn_job){.request = request, .tool_allowed = none, .how = turn_greedy()};
    g.how.sampling.bias = &bias;
    g.how.sampling.n_bias = 1;
    g.how.max_tokens = 20;
    run_job(&g);
    assert_false(turn_job_logged(&g, "start"));
    assert_false(turn_job_logged(&g, "tool_call"));
    turn_job_free(&g);
}

static void a_client_ends_thinking(void **state)
{
    (void)state;
    for (size_t at = 0; at < 6; at += 5) {
        turn_job g = {.request = SAY("What is 245 + 178?") "\"enable_thinking\":true}",
                      .end_thinking_at = at,
                      .how = turn_greedy()};
        g.how.max_tokens = 200;
        if (at == 0) { /* before it starts */
            mote_error err;
            assert_int_equal(turn_job_new(&g, &host, &err), MOTE_OK);
            chat_turn_end_thinking(g.turn);
        }
        const mote_answer *a = run_job(&g);
        assert_int_equal(a->think_end, MOTE_THINK_END_CLIENT);
        assert_string_equal(mote_think_end_name(a->think_end), "client");
        if (at == 0) /* the closing does not count as answer tokens then */
            assert_true(a->think_tokens == 0 && a->forced_tokens == 0);
        else
            assert_in_range(a->think_tokens, at + 1, at + CHAT_MAX_CLOSING);
        assert_true(turn_job_logged(&g, "content"));
        turn_job_free(&g);
    }
    /* no effect without thinking */
    turn_job g = {.request = SAY("Hello") DIRECT, .end_thinking_at = 2, .how = turn_greedy()};
    assert_int_equal(run_job(&g)->think_end, MOTE_THINK_END_NONE);
    turn_job_free(&g);
}

static void schemas_of_tools(void **state)
{
    (void)state;
    static const char odd[] = ",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{"
                              "\"type\":\"string\",\"contentEncoding\":\"base64\"},\"b\":{"
                              "\"type\":\"array\",\"unevaluatedItems\":{\"type\":\"integer\"}}}}";
    char request[2048];
    mote_error err;
    /* not enforced, with a warning before other events */
    snprintf(request, sizeof request,
             SAY("Hello") "\"tools\":[" TOOL("good", "") "," TOOL("odd", "%s") "]," DIRECT, odd);
    turn_job g = {.request = request, .how = turn_greedy()};
    const mote_answer *a = run_job(&g);
    assert_true(g.log.n > 0 && strncmp(g.log.p, "warning schema_widened odd: ", 28) == 0);
    assert_true(turn_job_logged(&g, "unevaluatedItems"));
    assert_false(turn_job_logged(&g, "good"));
    assert_true(a->warnings > 0);
    turn_job_free(&g);
    /* strict: an error that names the tool */
    snprintf(request, sizeof request,
             SAY("Hello") "\"tools\":[" TOOL("good", "") "," TOOL("odd",
                                                                  ",\"strict\":true%s") "]," DIRECT,
             odd);
    g = (turn_job){.request = request};
    assert_int_equal(turn_job_new(&g, &host, &err), MOTE_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "odd"));
    assert_non_null(strstr(err.text, "unevaluatedItems"));
    turn_job_free(&g);
    /* invalid schema: any arguments, unless it is strict */
    g = (turn_job){.request = SAY("Hello") "\"tools\":[" TOOL(
                       "broken", ",\"parameters\":{\"type\":7}") "," TOOL("good", "") "]," DIRECT};
    g.how.tool_choice = MOTE_TOOLS_NAMED;
    g.how.tool_name = "broken";
    g.how.max_tokens = 100;
    run_job(&g);
    assert_true(turn_job_logged(&g, "warning schema_widened broken: "));
    assert_true(turn_job_logged(&g, "start broken"));
    turn_job_free(&g);
}

static void tools_of_other_types(void **state)
{
    (void)state;
    json_doc *doc = rig_json("{\"messages\":[],\"tools\":[{\"type\":\"web_search\"},"
                             "{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"
                             "{\"type\":\"computer\"}]}");
    chat_parsed parsed;
    assert_int_equal(chat_parsed_read(&parsed, json_doc_root(doc), CHAT_STABLE, NULL), MOTE_OK);
    assert_int_equal(parsed.request.n_tools, 1);
    assert_int_equal(parsed.tools_left_out, 2);
    assert_string_equal(rig_text(parsed.left_out[0], "type"), "web_search");
    assert_string_equal(rig_text(parsed.left_out[1], "type"), "computer");
    chat_parsed_fini(&parsed);
    json_doc_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raw_completion),
        cmocka_unit_test(raw_completion_excludes_tools),
        cmocka_unit_test(logprobs_match_the_content),
        cmocka_unit_test(logprobs_of_a_response_format),
        cmocka_unit_test(length_options_apply),
        cmocka_unit_test(only_allowed_tools_are_called),
        cmocka_unit_test(a_client_ends_thinking),
        cmocka_unit_test(schemas_of_tools),
        cmocka_unit_test(tools_of_other_types),
    };
    mote_engine *engine = turn_engine("mote-tiny-Q4_K_M.gguf", SESSIONS, 2);
    turn_host_open(&host, engine);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    turn_host_close(&host);
    turn_engine_close(engine);
    return failed;
}
