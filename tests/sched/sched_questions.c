/* SPDX-License-Identifier: Apache-2.0 */
/* sched_questions.c - the requests of the tests: given, of n words, and random. */
#include "sched/sched_rig.h"

#include <stdio.h>

void question_init(question *q, const rig *r, const char *body, mote_answer_options answer)
{
    mote_error err;
    *q = (question){.answer = answer};
    must(json_doc_read(&q->body, str_of(body), &err), &err);
    must(chat_parsed_read(&q->parsed, json_doc_root(q->body), CHAT_STABLE, &err), &err);
    question_render(q, r);
}

void question_render(question *q, const rig *r)
{
    mote_error err;
    chat_prompt_fini(&q->prompt);
    must(chat_render(r->model, &r->chat_ctx.template, &q->parsed.request, &q->prompt, &err), &err);
}

void question_fini(question *q)
{
    chat_prompt_fini(&q->prompt);
    chat_parsed_fini(&q->parsed);
    json_doc_free(q->body);
}

static const char *const tools =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":\"The weather "
    "of a city\",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":"
    "\"string\"}},\"required\":[\"city\"]}}}]";

static void put_words(strbuf *out, test_random *random, size_t n)
{
    static const char *const words[] = {"the",   "house", "Anna",  "3",     "plus",    "4",
                                        "what",  "is",    "green", "river", "name",    "of",
                                        "count", "to",    "ten",   "hello", "weather", "in",
                                        "Paris", "list",  "a",     "and",   "code",    "why"};
    for (size_t i = 0; i < n; i++) {
        strbuf_text(out, i > 0 ? " " : "");
        strbuf_text(out, words[test_random_below(random, sizeof words / sizeof *words)]);
    }
}

static void put_message(strbuf *out, const char *role, test_random *random, size_t words)
{
    strbuf_text(out, "{\"role\":\"");
    strbuf_text(out, role);
    strbuf_text(out, "\",\"content\":\"");
    put_words(out, random, words);
    strbuf_text(out, "\"}");
}

/* The system text is one of four, so prefixes repeat. User messages hardly ever do. */
static void put_messages(strbuf *out, test_random *random)
{
    const uint64_t head = test_random_below(random, 5);
    test_random same = {.state = 77 + head};
    strbuf_text(out, "\"messages\":[");
    if (head > 0) {
        put_message(out, "system", &same, 10 + 25 * head);
        strbuf_text(out, ",");
    }
    for (uint64_t turns = test_random_below(random, 3); turns > 0; turns--) {
        put_message(out, "user", random, 1 + test_random_below(random, 20));
        strbuf_text(out, ",");
        put_message(out, "assistant", random, 1 + test_random_below(random, 20));
        strbuf_text(out, ",");
    }
    put_message(out, "user", random, 1 + test_random_below(random, 40));
    strbuf_text(out, "]");
}

static mote_answer_options random_answer(test_random *random)
{
    static const char *const stops[] = {"e", " the"};
    static const char choices[] = "[\"yes, of course it is\", \"no\", \"perhaps\"]";
    mote_answer_options a = {.max_tokens = 1 + (uint32_t)test_random_below(random, 40),
                             .think_budget = 8 + (uint32_t)test_random_below(random, 24),
                             .sampling = {.seed = test_random_u64(random)}};
    static const mote_bias again = {300, 30};
    if (test_random_below(random, 3) == 0)
        a.set = MOTE_SET_TEMPERATURE | MOTE_SET_PRESENCE;
    if (test_random_below(random, 8) == 0) { /* a repetition loop that the loop guard ends */
        a.set = MOTE_SET_TEMPERATURE | MOTE_SET_PRESENCE;
        a.sampling.bias = &again;
        a.sampling.n_bias = 1;
        a.max_tokens = 160;
    }
    if (test_random_below(random, 5) == 0) {
        a.stop = stops;
        a.n_stop = 1 + test_random_below(random, 2);
    }
    if (test_random_below(random, 5) == 0) {
        a.format = MOTE_FORMAT_CHOICES;
        a.format_text = choices;
        a.format_bytes = sizeof choices - 1;
    }
    return a;
}

void question_random(question *q, const rig *r, test_random *random)
{
    strbuf body = {0};
    strbuf_text(&body, "{");
    put_messages(&body, random);
    mote_answer_options answer = random_answer(random);
    if (test_random_below(random, 4) == 0) {
        strbuf_text(&body, ",\"tools\":");
        strbuf_text(&body, tools);
        if (answer.format == MOTE_FORMAT_TEXT && test_random_below(random, 2) == 0) {
            answer.tool_choice = MOTE_TOOLS_REQUIRED;
            answer.max_tokens += 24;
        }
    }
    if (test_random_below(random, 3) == 0)
        strbuf_text(&body, ",\"enable_thinking\":true");
    strbuf_text(&body, "}");
    strbuf_byte(&body, 0);
    question_init(q, r, body.p, answer);
    q->logprobs = test_random_below(random, 4) == 0;
    q->answer.sampling.top_logprobs = q->logprobs ? 3 : 0;
    strbuf_fini(&body);
}

mote_answer_options answer_greedy(uint32_t max_tokens)
{
    return (mote_answer_options){.set = MOTE_SET_TEMPERATURE | MOTE_SET_TOP_K | MOTE_SET_TOP_P |
                                        MOTE_SET_PRESENCE,
                                 .max_tokens = max_tokens,
                                 .no_loop_guard = true};
}

question question_of_words(const rig *r, uint64_t seed, size_t system_words, size_t words,
                           uint32_t max_tokens)
{
    question q;
    strbuf body = {0};
    char word[32];
    strbuf_text(&body, "{\"messages\":[");
    if (system_words > 0)
        strbuf_text(&body, "{\"role\":\"system\",\"content\":\"");
    for (size_t i = 0; i < system_words; i++) {
        snprintf(word, sizeof word, "rule %zu ", i * 7 % 1000);
        strbuf_text(&body, word);
    }
    if (system_words > 0)
        strbuf_text(&body, "\"},");
    strbuf_text(&body, "{\"role\":\"user\",\"content\":\"");
    test_random random = {.state = seed};
    for (size_t i = 0; i < words; i++) {
        snprintf(word, sizeof word, "%llu ",
                 (unsigned long long)test_random_below(&random, 100000));
        strbuf_text(&body, word);
    }
    strbuf_text(&body, "\"}]}");
    strbuf_byte(&body, 0);
    question_init(&q, r, body.p, answer_greedy(max_tokens));
    q.ignore_end = true; /* only max_tokens ends it */
    strbuf_fini(&body);
    return q;
}

chat_turn_options question_turn(const question *q, const rig *r)
{
    return (chat_turn_options){.chat_ctx = &r->chat_ctx,
                               .prompt = q->prompt.ids,
                               .n_prompt = q->prompt.n,
                               .thinking = q->prompt.thinking,
                               .answer = &q->answer,
                               .tools = q->parsed.request.tools,
                               .n_tools = q->parsed.request.n_tools,
                               .vocab = r->words,
                               .logprobs = q->logprobs,
                               .ignore_end = q->ignore_end};
}
