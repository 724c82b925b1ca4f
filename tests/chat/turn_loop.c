/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn_loop.c - loops inside forms: a model that may not write what would end an array, a string
 * or a call goes round in it for ever. It is brought off, or the rest is put in for it.
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

static house home;
static mote_bias *bias; /* [n_tokens] */

/* Tokens that hold one of these characters are hardly ever chosen, one token very much is. */
static size_t make_bias(const char *unwanted, mote_token wanted)
{
    size_t n = 0;
    for (mote_token id = 0; id < (mote_token)home.chat_ctx.n_tokens; id++) {
        size_t bytes;
        const char *text = mote_token_bytes(home.chat_ctx.model, id, &bytes);
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
    assert_int_equal(mote_tokenize(home.chat_ctx.model, text, strlen(text), 0, ids, 8, &n, NULL),
                     MOTE_OK);
    return n == 1 ? ids[0] : -1;
}

static void content_of(const guest *g, strbuf *out)
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
    int loops, left, put_in;
} tally;

static void go_round(const char *schema, const char *unwanted, const char *wanted, uint64_t seed,
                     tally *sum)
{
    guest g = {.request = "{\"messages\":[{\"role\":\"user\",\"content\":\"Count\"}],"
                          "\"enable_thinking\":false}"};
    g.how = turn_greedy();
    g.how.sampling.seed = seed;
    g.how.max_tokens = MAX_TOKENS;
    g.how.format = MOTE_FORMAT_JSON_SCHEMA;
    g.how.format_text = schema;
    g.how.format_bytes = strlen(schema);
    g.how.sampling.bias = bias;
    g.how.sampling.n_bias = make_bias(unwanted, word(wanted));
    guests_stay(&home, &g, 1);
    const mote_answer *a = chat_turn_result(g.turn);
    strbuf content = {0}, whole = {0};
    json_doc *doc;
    content_of(&g, &content);
    assert_int_equal(a->finish, MOTE_FINISH_STOP);
    assert_true(a->answer_tokens < MAX_TOKENS);
    /* the log is escaped once more: as a string of JSON it is the answer */
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
    sum->put_in += a->loops_detected > a->loops_recovered;
    strbuf_fini(&content);
    strbuf_fini(&whole);
    guest_leave(&g);
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
        go_round(cases[i].schema, cases[i].unwanted, cases[i].wanted, i, &sum);
    printf("%d loops, %d left, %d forms completed\n", sum.loops, sum.left, sum.put_in);
    assert_true(sum.loops > 3 && sum.left > 0 && sum.put_in > 1);
}

static void calls_end(void **state)
{
    (void)state;
    static const char request[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Write\"}],\"enable_thinking\":false,"
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"write\",\"parameters\":{"
        "\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"},\"count\":{\"type\":"
        "\"integer\"}},\"required\":[\"text\",\"count\"]}}}]}";
    guest g = {.request = request, .how = turn_greedy()};
    g.how.tool_choice = MOTE_TOOLS_REQUIRED;
    g.how.max_tokens = MAX_TOKENS;
    g.how.sampling.bias = bias;
    g.how.sampling.n_bias = make_bias("<", word("a"));
    guests_stay(&home, &g, 1);
    const mote_answer *a = chat_turn_result(g.turn);
    assert_int_equal(a->finish, MOTE_FINISH_TOOL_CALLS);
    assert_true(a->calls == 1 && a->answer_tokens < MAX_TOKENS && a->loops_detected > 0);
    assert_true(guest_said(&g, "call write {"));
    assert_true(guest_said(&g, "count"));
    guest_leave(&g);
}

/* Without room for the rest it is a loop, and the text is cut. */
static void what_has_no_room_is_cut(void **state)
{
    (void)state;
    guest g = {.request = "{\"messages\":[{\"role\":\"user\",\"content\":\"Count\"}],"
                          "\"enable_thinking\":false}",
               .how = turn_greedy()};
    g.how.max_tokens = 160;
    g.how.format = MOTE_FORMAT_REGEX;
    g.how.format_text = "a*(bcdefghijklmnopqrstuvwxyz0123456789){200}";
    g.how.format_bytes = strlen(g.how.format_text);
    g.how.sampling.bias = bias;
    g.how.sampling.n_bias = make_bias("b", word("a"));
    guests_stay(&home, &g, 1);
    const mote_answer *a = chat_turn_result(g.turn);
    assert_true(a->finish == MOTE_FINISH_LOOP || a->finish == MOTE_FINISH_LENGTH);
    assert_true(a->loops_detected > 0);
    guest_leave(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_strings_and_objects_end),
        cmocka_unit_test(calls_end),
        cmocka_unit_test(what_has_no_room_is_cut),
    };
    mote_engine *engine = turn_engine("mote-tiny-Q4_K_M.gguf", 1, 4);
    house_open(&home, engine);
    bias = mem_new(home.chat_ctx.n_tokens, sizeof *bias);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mem_free(bias);
    house_close(&home);
    turn_engine_close(engine);
    return failed;
}
