/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_answer_tokens.c - the answer-token cache: an answer sent back as text gets its sampled
 * tokens, so each turn of a conversation prefills only its new tokens.
 */
#define _XOPEN_SOURCE 700
#include "base/mem.h"
#include "sched/answer_tokens.h"
#include "sched/sched_rig.h"
#include "support/scale.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

enum { CONTEXT = 4096 };

static rig tiny;

typedef struct conversation {
    json_doc *body;
    chat_parsed parsed;
} conversation;

static conversation read_body(const char *body)
{
    conversation c;
    mote_error err;
    must(json_doc_read(&c.body, str_of(body), &err), &err);
    must(chat_parsed_read(&c.parsed, json_doc_root(c.body), CHAT_STABLE, &err), &err);
    return c;
}

static void free_body(conversation *c)
{
    chat_parsed_fini(&c->parsed);
    json_doc_free(c->body);
}

static answer_tokens *new_answer_tokens(size_t bytes)
{
    answer_tokens *r;
    mote_error err;
    must(answer_tokens_new(&r, bytes, &err), &err);
    return r;
}

/* Stores the last message as the answer to the messages before it, with the tokens `token` and
 * `token` + 1. */
static void put_last(answer_tokens *r, uint64_t ns, const char *body, mote_token token)
{
    conversation c = read_body(body);
    chat_request before = c.parsed.request;
    const mote_token tokens[2] = {token, token + 1};
    before.n_messages--;
    chat_message last = c.parsed.messages[before.n_messages];
    last.tokens = tokens;
    last.n_tokens = 2;
    answer_tokens_put(r, answer_key_of(ns, &before), &last);
    free_body(&c);
}

/* The first token found for message `i`; -1: none. */
static mote_token found(answer_tokens *r, uint64_t ns, const char *body, size_t i)
{
    conversation c = read_body(body);
    answer_found all;
    answer_tokens_fill(r, ns, &c.parsed.request, c.parsed.messages, &all);
    const chat_message *m = &c.parsed.messages[i];
    if (m->tokens != NULL)
        assert_int_equal(m->n_tokens, 2);
    const mote_token token = m->tokens != NULL ? m->tokens[0] : -1;
    if (m->tokens != NULL)
        assert_int_equal(m->tokens[1], token + 1);
    mem_free(all.memory);
    free_body(&c);
    return token;
}

#define ASK           "{\"role\":\"user\",\"content\":\"Hello\"}"
#define RULE          "{\"role\":\"system\",\"content\":\"x\"}"
#define SAY(text)     "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define ALL(messages) "{\"messages\":[" messages "]}"

static void answer_is_found(void **state)
{
    (void)state;
    answer_tokens *r = new_answer_tokens(100000);
    put_last(r, 1, ALL(ASK "," SAY("Hi there")), 10);
    assert_int_equal(found(r, 1, ALL(ASK "," SAY("Hi there")), 1), 10);
    assert_int_equal(found(r, 1, ALL(ASK "," SAY("\\n Hi there \\n\\n") "," ASK), 1), 10);
    assert_int_equal(found(r, 1, ALL(ASK "," SAY("hm</think>\\n\\nHi there") "," ASK), 1), 10);
    assert_int_equal(found(r, 1, ALL(ASK "," SAY("Hi  there")), 1), 10);
    assert_int_equal(found(r, 1, ALL(ASK "," SAY("Hi there \\r\\n")), 1), 10);
    assert_int_equal(found(r, 1, ALL(ASK "," SAY("Hithere")), 1), -1);
    assert_int_equal(found(r, 1, ALL(ASK "," SAY("Hi\\nthere")), 1), -1);
    assert_int_equal(found(r, 1, ALL(ASK "," SAY("Hi ther")), 1), -1);
    assert_int_equal(found(r, 1, ALL(ASK "," ASK "," SAY("Hi there")), 2), -1);
    /* a system message before it does not matter, unless it has an answer of its own */
    assert_int_equal(found(r, 1, ALL(RULE "," ASK "," SAY("Hi there")), 2), 10);
    assert_int_equal(found(r, 1, ALL(RULE "," ASK "," SAY("Hi")), 2), -1);
    put_last(r, 1, ALL(RULE "," ASK "," SAY("Hi there")), 12);
    assert_int_equal(found(r, 1, ALL(RULE "," ASK "," SAY("Hi there")), 2), 12);
    assert_int_equal(found(r, 1, ALL(ASK "," SAY("Hi there")), 1), 10);
    assert_int_equal(found(r, 2, ALL(ASK "," SAY("Hi there")), 1), -1); /* another namespace */
    /* later messages and returned reasoning do not matter */
    assert_int_equal(
        found(r, 1,
              ALL(ASK ",{\"role\":\"assistant\",\"content\":\"Hi there\",\"reasoning_content\":"
                      "\"quite\"}," ASK),
              1),
        10);
    /* the key of the second answer includes the text of the first */
    put_last(r, 1, ALL(ASK "," SAY("Hi there") "," ASK "," SAY("Again")), 20);
    assert_int_equal(found(r, 1, ALL(ASK "," SAY(" Hi there") "," ASK "," SAY("Again")), 3), 20);
    assert_int_equal(found(r, 1, ALL(ASK "," SAY("Hi you") "," ASK "," SAY("Again")), 3), -1);
    /* another answer to the same message is added; an equal one is replaced */
    put_last(r, 1, ALL(ASK "," SAY("Other")), 30);
    put_last(r, 1, ALL(ASK "," SAY("Hi there")), 40);
    assert_int_equal(found(r, 1, ALL(ASK "," SAY("Other")), 1), 30);
    assert_int_equal(found(r, 1, ALL(ASK "," SAY("Hi there")), 1), 40);
    put_last(r, 1, ALL(ASK "," SAY("")), 50); /* an empty answer is not stored */
    assert_int_equal(found(r, 1, ALL(ASK "," SAY("")), 1), -1);
    answer_tokens_free(r);
}

#define CALL(id, arguments)                                                                        \
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"" id                       \
    "\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":" arguments "}}]}"
#define NESTED        "{\"b\":{\"k\":[1,{\"z\":null,\"a\":true}],\"c\":\"t\"},\"a\":1e1}"
#define NESTED_SORTED "{\"a\":10,\"b\":{\"c\":\"t\",\"k\":[1,{\"a\":true,\"z\":null}]}}"
#define NESTED_OTHER  "{\"a\":10,\"b\":{\"c\":\"t\",\"k\":[1,{\"a\":false,\"z\":null}]}}"
#define WITH_TOOL(name, messages)                                                                  \
    "{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"" name                            \
    "\",\"parameters\":{\"type\":\"object\"}}}],\"messages\":[" messages "]}"

static void calls_are_found_by_content(void **state)
{
    (void)state;
    answer_tokens *r = new_answer_tokens(100000);
    put_last(r, 1, WITH_TOOL("f", ASK "," CALL("a", "\"{\\\"x\\\": 1}\"")), 10);
    assert_int_equal(found(r, 1, WITH_TOOL("f", ASK "," CALL("b", "{\"x\":1}")), 1), 10);
    assert_int_equal(found(r, 1, WITH_TOOL("f", ASK "," CALL("b", "{\"x\":1.0}")), 1), 10);
    assert_int_equal(found(r, 1, WITH_TOOL("f", ASK "," CALL("b", "{\"x\":2}")), 1), -1);
    assert_int_equal(found(r, 1, WITH_TOOL("g", ASK "," CALL("b", "{\"x\":1}")), 1), 10);
    assert_int_equal(found(r, 1, ALL(ASK "," ASK "," CALL("b", "{\"x\":1}")), 2), -1);
    put_last(r, 1, WITH_TOOL("f", ASK "," CALL("c", NESTED)), 20);
    assert_int_equal(found(r, 1, WITH_TOOL("f", ASK "," CALL("d", NESTED_SORTED)), 1), 20);
    assert_int_equal(found(r, 1, WITH_TOOL("f", ASK "," CALL("d", NESTED_OTHER)), 1), -1);
    answer_tokens_free(r);
}

/* An id names one answer: other tools, other messages before it and filled-in arguments do not
 * matter. Another value of an argument does. */
static void calls_are_found_by_id(void **state)
{
    (void)state;
    answer_tokens *r = new_answer_tokens(100000);
    put_last(r, 1, WITH_TOOL("f", ASK "," CALL("call_a1", "{\"x\":1,\"y\":[2]}")), 10);
    static const char *const same[] = {
        CALL("call_a1", "{\"x\":1,\"y\":[2]}"), CALL("toolu_a1", "{\"y\":[2.0],\"x\":1}"),
        CALL("call_a1", "{\"a\":0,\"x\":1,\"y\":[2],\"z\":false}"), CALL("call_a1", "{\"x\":1}")};
    static const char *const other[] = {
        CALL("call_a1", "{\"x\":2,\"y\":[2]}"), CALL("call_a2", "{\"x\":1,\"y\":[2]}"),
        CALL("call_a1", "{\"x\":1,\"y\":[2,3]}"),
        "{\"role\":\"assistant\",\"content\":\"Hm\",\"tool_calls\":[{\"id\":\"call_a1\",\"type\":"
        "\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1,\"y\":[2]}}}]}",
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call_a1\",\"type\":"
        "\"function\",\"function\":{\"name\":\"g\",\"arguments\":{\"x\":1,\"y\":[2]}}}]}"};
    char body[1024];
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        snprintf(body, sizeof body, ALL(RULE "," ASK "," ASK ",%s," ASK), same[i]);
        assert_int_equal(found(r, 1, body, 3), 10);
        assert_int_equal(found(r, 2, body, 3), -1); /* another namespace */
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        snprintf(body, sizeof body, ALL(RULE "," ASK "," ASK ",%s," ASK), other[i]);
        assert_int_equal(found(r, 1, body, 3), -1);
    }
    /* the answer after a changed call is found by its text */
    snprintf(body, sizeof body, WITH_TOOL("f", ASK ",%s," ASK "," SAY("Done")), same[0]);
    put_last(r, 1, body, 20);
    snprintf(body, sizeof body, WITH_TOOL("f", ASK ",%s," ASK "," SAY("Done")), same[2]);
    assert_int_equal(found(r, 1, body, 3), 20);
    answer_tokens_free(r);
}

/* A second cache with the same file has the answers of the first, and its later ones. */
static void answers_survive_in_a_file(void **state)
{
    (void)state;
    char directory[] = "/tmp/mote-answers-XXXXXX", path[64];
    const disk_key binding = {{1, 2}};
    answer_tokens *r[2];
    mote_error err;
    assert_non_null(mkdtemp(directory));
    for (int i = 0; i < 2; i++) {
        answer_file *file;
        r[i] = new_answer_tokens(100000);
        must(answer_file_open(&file, directory, 1 << 20, binding, NULL, &err), &err);
        answer_tokens_use_file(r[i], file);
    }
    put_last(r[0], 1, ALL(ASK "," SAY("Hi there")), 10);
    answer_tokens_free(r[0]); /* writes */
    assert_int_equal(found(r[1], 1, ALL(ASK "," SAY("Hi there")), 1), 10);
    assert_int_equal(found(r[1], 2, ALL(ASK "," SAY("Hi there")), 1), -1);
    put_last(r[1], 1, WITH_TOOL("f", ASK "," CALL("call_a1", "{\"x\":1}")), 20);
    answer_tokens_free(r[1]);
    answer_file *file;
    r[0] = new_answer_tokens(100000);
    must(answer_file_open(&file, directory, 1 << 20, binding, NULL, &err), &err);
    answer_tokens_use_file(r[0], file);
    assert_int_equal(found(r[0], 1, ALL(ASK "," CALL("call_a1", "{\"x\":1,\"y\":2}")), 1), 20);
    assert_int_equal(found(r[0], 1, ALL(ASK "," SAY("Hi there")), 1), 10);
    answer_tokens_free(r[0]);
    snprintf(path, sizeof path, "%s/" ANSWER_FILE_NAME, directory);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

static void lru_eviction_within_the_limit(void **state)
{
    (void)state;
    enum { N = 200, BYTES = 8192 };
    char body[256];
    const mem_stats before = mem_count();
    answer_tokens *r = new_answer_tokens(BYTES);
    const uint64_t empty = mem_count().bytes;
    for (int i = 0; i < N; i++) {
        snprintf(body, sizeof body, ALL(ASK "," SAY("answer %d")), i);
        put_last(r, 1, body, 100 + 2 * i);
        assert_true(mem_count().bytes <= empty + BYTES);
        /* number 0 is looked up every time, so it stays */
        assert_int_equal(found(r, 1, ALL(ASK "," SAY("answer 0")), 1), 100);
    }
    int known = 0;
    bool gap = false;
    for (int i = N - 1; i > 0; i--) {
        snprintf(body, sizeof body, ALL(ASK "," SAY("answer %d")), i);
        const mote_token token = found(r, 1, body, 1);
        assert_true(token == -1 || token == 100 + 2 * i);
        assert_false(token != -1 && gap); /* the entries left are the latest */
        gap |= token == -1;
        known += token != -1;
    }
    assert_true(known > 10 && known < N - 1);
    /* larger than the cache: not stored, and nothing is evicted for it */
    mote_token *large = calloc(BYTES, sizeof *large);
    conversation c = read_body(ALL(ASK "," SAY("large")));
    chat_message m = c.parsed.messages[1];
    m.tokens = large;
    m.n_tokens = BYTES;
    c.parsed.request.n_messages = 1;
    answer_tokens_put(r, answer_key_of(1, &c.parsed.request), &m);
    assert_int_equal(found(r, 1, ALL(ASK "," SAY("large")), 1), -1);
    assert_int_equal(found(r, 1, ALL(ASK "," SAY("answer 0")), 1), 100);
    free_body(&c);
    free(large);
    answer_tokens_free(r);
    assert_int_equal(mem_count().bytes, before.bytes);
}

static void failing_allocations_store_nothing(void **state)
{
    (void)state;
    const char *body = ALL(ASK "," SAY("Hi there"));
    answer_tokens *r = new_answer_tokens(100000);
    for (uint64_t n = 1; n < 20; n++) {
        conversation c = read_body(body);
        chat_request first = c.parsed.request;
        const mote_token tokens[2] = {5, 6};
        chat_message m = c.parsed.messages[1];
        answer_found all = {0};
        m.tokens = tokens;
        m.n_tokens = 2;
        first.n_messages = 1;
        mem_fail_at(n);
        answer_tokens_put(r, answer_key_of(1, &first), &m);
        answer_tokens_fill(r, 1, &c.parsed.request, c.parsed.messages, &all);
        mem_fail_at(0);
        const chat_message *filled = &c.parsed.messages[1];
        assert_true(filled->tokens == NULL || filled->tokens[1] == 6);
        mem_free(all.memory);
        free_body(&c);
    }
    put_last(r, 1, body, 10);
    assert_int_equal(found(r, 1, body, 1), 10);
    answer_tokens_free(r);
}

/* ---- a conversation of twenty turns ---- */

/* The messages, as a client sends them. */
typedef struct dialogue {
    strbuf messages;
} dialogue;

/* The visible text of an answer. */
static void collect_text(const test_output *output, strbuf *out)
{
    /* events as sched_rig.c writes them: kind, call, name, text, three numbers */
    for (size_t at = 0; at < output->events.n;) {
        uint64_t head[3], n;
        memcpy(head, output->events.p + at, sizeof head);
        at += sizeof head + head[2];
        memcpy(&n, output->events.p + at, sizeof n);
        at += sizeof n;
        if (head[0] == CHAT_EVENT_CONTENT)
            strbuf_put(out, (str){output->events.p + at, n});
        at += n + 3 * sizeof n;
    }
}

static void add_message(dialogue *t, const char *role, str text)
{
    strbuf_text(&t->messages, t->messages.n > 0 ? ",{\"role\":\"" : "{\"role\":\"");
    strbuf_text(&t->messages, role);
    strbuf_text(&t->messages, "\",\"content\":");
    json_put_string(&t->messages, text);
    strbuf_text(&t->messages, "}");
}

static void body_of(const dialogue *t, bool thinking, strbuf *out)
{
    strbuf_text(out, thinking ? "{\"enable_thinking\":true,\"messages\":[" : "{\"messages\":[");
    strbuf_put(out, strbuf_view(&t->messages));
    strbuf_text(out, "]}");
    strbuf_byte(out, 0);
}

/* One request as the server handles it. Returns the number of prefilled tokens. */
static uint64_t one_turn(service *s, answer_tokens *r, dialogue *t, bool thinking, bool again,
                         uint64_t *length)
{
    enum { NAMESPACE = 3 };
    strbuf body = {0}, text = {0};
    question q;
    test_job a;
    test_output solo;
    answer_found all;
    body_of(t, thinking, &body);
    question_init(
        &q, &tiny, body.p,
        (mote_answer_options){.max_tokens = 70, .think_budget = 30, .sampling = {.seed = 9}});
    const answer_key key = answer_key_of(NAMESPACE, &q.parsed.request);
    answer_tokens_fill(r, NAMESPACE, &q.parsed.request, q.parsed.messages, &all);
    assert_memory_equal(&all.key, &key, sizeof key);
    question_render(&q, &tiny);
    service_send(s, &a, &q);
    service_wait_finished(s, &a);
    rig_solo(&tiny, &q, CONTEXT, &solo);
    same_as_solo(&a, &solo);
    collect_text(&a.output, &text);
    /* tokens of the answer: those after "<|im_start|>assistant\n" */
    size_t from = q.prompt.marks[q.prompt.n_marks - 1].position;
    while (a.result.tokens[from] != tiny.chat_ctx.template.tags[CHAT_TAG_THINK])
        from++;
    const chat_part part = {.kind = CHAT_PART_TEXT, .text = strbuf_view(&text)};
    const chat_message answer = {.role = CHAT_ROLE_ASSISTANT,
                                 .parts = &part,
                                 .n_parts = 1,
                                 .tokens = a.result.tokens + from,
                                 .n_tokens = a.result.n_tokens - from};
    answer_tokens_put(r, key, &answer);
    add_message(t, "assistant", strbuf_view(&text));
    const uint64_t read = a.output.answer.prompt_tokens - a.output.answer.reused_tokens;
    const uint64_t new_tokens = q.prompt.n - *length;
    *length = a.result.n_tokens;
    service_drop(s, &a);
    test_job_fini(&a);
    if (again) { /* the same request again reuses all but the end of the prompt */
        service_send(s, &a, &q);
        service_wait_finished(s, &a);
        same_as_solo(&a, &solo);
        assert_true(a.output.answer.reused_tokens + 64 > a.output.answer.prompt_tokens);
        service_drop(s, &a);
        test_job_fini(&a);
    }
    output_fini(&solo);
    question_fini(&q);
    mem_free(all.memory);
    strbuf_fini(&body);
    strbuf_fini(&text);
    assert_true(read <= new_tokens + 64);
    return read;
}

static void twenty_turns(bool thinking)
{
    const int turns = (int)test_scaled(20, 1);
    service s;
    dialogue t = {0};
    answer_tokens *r = new_answer_tokens(1 << 20);
    char says[64];
    uint64_t length = 0;
    strbuf head = {0};
    for (int i = 0; i < 100; i++)
        strbuf_text(&head, "Always be kind. ");
    service_open(&s, &tiny, (sched_options){.parallel = 2, .context = CONTEXT, .threads = 1});
    add_message(&t, "system", strbuf_view(&head));
    for (int i = 0; i < turns; i++) {
        snprintf(says, sizeof says, "Question %d: what is %d + %d?", i, i, 3 * i);
        add_message(&t, "user", str_of(says));
        const uint64_t read = one_turn(&s, r, &t, thinking, i == turns - 1, &length);
        assert_true(i == 0 || read < 128);
    }
    sched_stats f;
    sched_read_stats(s.sched, &f);
    assert_true(f.idle_sessions <=
                2); /* one conversation is one session; one more for the repeated request */
    assert_true(f.states_used > 0 && f.states_used <= f.states_total);
    service_close(&s);
    answer_tokens_free(r);
    strbuf_fini(&head);
    strbuf_fini(&t.messages);
}

static void turn_prefills_only_new_tokens(void **state)
{
    (void)state;
    twenty_turns(false);
}

static void the_same_with_thinking(void **state)
{
    (void)state;
    twenty_turns(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer_is_found),
        cmocka_unit_test(calls_are_found_by_content),
        cmocka_unit_test(calls_are_found_by_id),
        cmocka_unit_test(answers_survive_in_a_file),
        cmocka_unit_test(lru_eviction_within_the_limit),
        cmocka_unit_test(failing_allocations_store_nothing),
        cmocka_unit_test(turn_prefills_only_new_tokens),
        cmocka_unit_test(the_same_with_thinking),
    };
    rig_open(&tiny);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rig_close(&tiny);
    return failed;
}
