/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn_loop.c - loops inside response formats. A bias keeps the model from ending an array, a
 * string or a call, so it repeats. Sampling must recover, or mote completes the format itself.
 */
#include "base/mem.h"
#include "chat/chat_rig.h"
#include "chat/turn_drive.h"
#include "chat/turn_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka needs those before it */
#include <cmocka.h>

enum { MAX_TOKENS = 1800, WORDS = 25 };

static turn_host host;
static mote_bias *bias; /* [n_tokens] */

/* Biases tokens with an unwanted character down and one token up. */
static size_t make_bias(const char *unwanted, mote_token wanted)
{
    size_t n = 0;
    for (mote_token id = 0; id < (mote_token)host.chat_ctx.n_tokens; id++) {
        size_t bytes;
        const char *text = mote_token_bytes(host.chat_ctx.model, id, &bytes);
        bool bad = false;
        for (size_t i = 0; i < bytes; i++)
            bad |= strchr(unwanted, text[i]) != NULL;
        if (bad || id == wanted)
            bias[n++] = (mote_bias){id, id == wanted ? 40.0f : -1000.0f};
    }
    return n;
}

static mote_token word(const char *text)
{
    mote_token ids[8];
    size_t n;
    assert_int_equal(mote_tokenize(host.chat_ctx.model, text, strlen(text), 0, ids, 8, &n, NULL),
                     MOTE_OK);
    return n == 1 ? ids[0] : -1;
}

static void content_of(const turn_job *g, strbuf *out)
{
    const char *at = g->log.p, *end = g->log.p + g->log.n;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (strncmp(at, "content  ", 9) == 0)
            strbuf_put(out, (str){at + 9, (size_t)(line_end - at) - 9});
        at = line_end + 1;
    }
}

typedef struct tally {
    int loops, left, completed;
} tally;

static void run_loop(const char *schema, const char *unwanted, const char *wanted, uint64_t seed,
                     tally *sum)
{
    turn_job g = {.request = "{\"messages\":[{\"role\":\"user\",\"content\":\"Count\"}],"
                             "\"enable_thinking\":false}"};
    g.how = turn_greedy();
    g.how.sampling.seed = seed;
    g.how.max_tokens = MAX_TOKENS;
    g.how.format = MOTE_FORMAT_JSON_SCHEMA;
    g.how.format_text = schema;
    g.how.format_bytes = strlen(schema);
    g.how.sampling.bias = bias;
    g.how.sampling.n_bias = make_bias(unwanted, word(wanted));
    turn_jobs_run(&host, &g, 1);
    const mote_answer *a = chat_turn_result(g.turn);
    strbuf content = {0}, whole = {0};
    json_doc *doc;
    content_of(&g, &content);
    assert_int_equal(a->finish, MOTE_FINISH_STOP);
    assert_true(a->answer_tokens < MAX_TOKENS);
    /* the log is escaped: read it as a JSON string first */
    strbuf_byte(&whole, '"');
    strbuf_put(&whole, strbuf_view(&content));
    strbuf_byte(&whole, '"');
    assert_int_equal(json_doc_read(&doc, strbuf_view(&whole), NULL), MOTE_OK);
    json_doc *inner;
    assert_int_equal(json_doc_read(&inner, json_node_text(json_doc_root(doc)), NULL), MOTE_OK);
    json_doc_free(inner);
    json_doc_free(doc);
    sum->loops += (int)a->loops_detected;
    sum->left += (int)a->loops_recovered;
    sum->completed += a->loops_detected > a->loops_recovered;
    strbuf_fini(&content);
    strbuf_fini(&whole);
    turn_job_free(&g);
}

static void arrays_strings_and_objects_end(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *unwanted, *wanted;
    } cases[] = {
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", "]", "1"},
        {"{\"type\":\"array\",\"items\":{\"type\":\"boolean\"}}", "]", ","},
        {"{\"type\":\"string\"}", "\"", "a"},
        {"{\"type\":\"object\",\"properties\":{\"list\":{\"type\":\"array\",\"items\":{\"type\":"
         "\"object\",\"properties\":{\"name_of_it\":{\"type\":\"boolean\"}},\"required\":["
         "\"name_of_it\"],\"additionalProperties\":false}},\"last_one\":{\"type\":\"integer\","
         "\"minimum\":5}},\"required\":[\"list\",\"last_one\"],\"additionalProperties\":false}",
         "]", "true"},
        {"{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"},\"kind\":{\"enum\":["
         "\"x\",\"y\"]}},\"required\":[\"text\",\"kind\"],\"additionalProperties\":false}",
         "\"", "a"},
    };
    tally sum = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_loop(cases[i].schema, cases[i].unwanted, cases[i].wanted, i, &sum);
    printf("%d loops, %d recovered, %d formats completed\n", sum.loops, sum.left, sum.completed);
    assert_true(sum.loops > 3 && sum.left > 0 && sum.completed > 1);
}

static void calls_end(void **state)
{
    (void)state;
    static const char request[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Write\"}],\"enable_thinking\":false,"
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"write\",\"parameters\":{"
        "\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"},\"count\":{\"type\":"
        "\"integer\"}},\"required\":[\"text\",\"count\"]}}}]}";
    turn_job g = {.request = request, .how = turn_greedy()};
    g.how.tool_choice = MOTE_TOOLS_REQUIRED;
    g.how.max_tokens = MAX_TOKENS;
    g.how.sampling.bias = bias;
    g.how.sampling.n_bias = make_bias("<", word("a"));
    turn_jobs_run(&host, &g, 1);
    const mote_answer *a = chat_turn_result(g.turn);
    assert_int_equal(a->finish, MOTE_FINISH_TOOL_CALLS);
    assert_true(a->calls == 1 && a->answer_tokens < MAX_TOKENS && a->loops_detected > 0);
    assert_true(turn_job_logged(&g, "call write {"));
    assert_true(turn_job_logged(&g, "count"));
    turn_job_free(&g);
}

/* If the completion does not fit max_tokens, the answer ends with LOOP or LENGTH. */
static void a_completion_that_does_not_fit_is_cut(void **state)
{
    (void)state;
    turn_job g = {.request = "{\"messages\":[{\"role\":\"user\",\"content\":\"Count\"}],"
                             "\"enable_thinking\":false}",
                  .how = turn_greedy()};
    g.how.max_tokens = 160;
    g.how.format = MOTE_FORMAT_REGEX;
    g.how.format_text = "a*(bcdefghijklmnopqrstuvwxyz0123456789){200}";
    g.how.format_bytes = strlen(g.how.format_text);
    g.how.sampling.bias = bias;
    g.how.sampling.n_bias = make_bias("b", word("a"));
    turn_jobs_run(&host, &g, 1);
    const mote_answer *a = chat_turn_result(g.turn);
    assert_true(a->finish == MOTE_FINISH_LOOP || a->finish == MOTE_FINISH_LENGTH);
    assert_true(a->loops_detected > 0);
    turn_job_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_strings_and_objects_end),
        cmocka_unit_test(calls_end),
        cmocka_unit_test(a_completion_that_does_not_fit_is_cut),
    };
    mote_engine *engine = turn_engine("mote-tiny-Q4_K_M.gguf", 1, 4);
    turn_host_open(&host, engine);
    bias = mem_new(host.chat_ctx.n_tokens, sizeof *bias);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mem_free(bias);
    turn_host_close(&host);
    turn_engine_close(engine);
    return failed;
}
