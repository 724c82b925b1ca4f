/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dialect_completions.c - POST /v1/completions: text that goes on, without a template.
 *
 * Prompts times n choices, numbered prompt by prompt. With echo and logprobs the tokens of the
 * prompt are scored by jobs of their own, whose results stand after those of the answers.
 */
#include "server/answer/dialect.h"
#include "server/answer/fim.h"
#include "server/answer/params.h"
#include "server/dialects/openai.h"
#include "server/handlers.h"

#include <stdlib.h>

enum { MAX_PROMPTS = 64, DEFAULT_TOKENS = 16 };

/* What is remembered of the request. */
typedef struct own {
    uint32_t returned; /* of each prompt; the others were only tried */
} own;

static uint32_t returned(const answering *w)
{
    return ((const own *)w->ask.own)->returned;
}

/* ---- reading ---- */

static bool small_number(const ask *a, const char *name, int64_t min, int64_t max, int64_t *out,
                         api_error *error)
{
    const json_node *node = json_node_get(a->root, name);
    if (node == NULL || json_node_is(node, JSON_IS_NULL))
        return true;
    if (!json_node_int64(node, out) || *out < min || *out > max)
        return ask_wrong(error, name, "must be an integer from %lld to %lld", (long long)min,
                         (long long)max);
    return true;
}

static bool read_numbers(ask *a, api_error *error)
{
    int64_t logprobs = -1, best = a->n;
    if (!small_number(a, "logprobs", 0, MOTE_TOP_LOGPROBS, &logprobs, error) ||
        !small_number(a, "best_of", a->n, ASK_MAX_CHOICES, &best, error))
        return false;
    if (best > a->n && a->stream)
        return ask_wrong(error, "best_of", "cannot be more than n in a stream");
    if (a->stream && a->echo && logprobs >= 0)
        return ask_wrong(error, "echo", "with logprobs cannot be streamed");
    own *o = ask_memory(a, 1, sizeof *o, error);
    if (o == NULL)
        return false;
    a->n_kept--; /* the ask's own, freed as such */
    a->own = o;
    o->returned = a->n;
    a->logprobs = logprobs >= 0 || best > a->n; /* the best are found by them */
    a->n = (uint32_t)best;
    a->answer.sampling.top_logprobs = logprobs > 0 ? (uint32_t)logprobs : 0;
    a->score_prompt = a->echo && logprobs >= 0;
    if (a->answer.max_tokens == 0 && !a->no_answer)
        a->answer.max_tokens = DEFAULT_TOKENS;
    return true;
}

static bool read_prompts(ask *a, api_error *error)
{
    const json_node *prompt = json_node_get(a->root, "prompt");
    const json_node *suffix = json_node_get(a->root, "suffix");
    if (!json_node_is(suffix, JSON_IS_STRING) || json_node_text(suffix).n == 0) {
        if (prompt == NULL || json_node_is(prompt, JSON_IS_NULL))
            return ask_add_prompt(a, (str){"", 0}, error);
        return ask_prompts(a, prompt, "prompt", MAX_PROMPTS, error);
    }
    if (prompt != NULL && !json_node_is(prompt, JSON_IS_STRING))
        return ask_wrong(error, "prompt", "must be one text if there is a suffix");
    return fim_add_prompt(a, json_node_text(prompt), json_node_text(suffix), NULL, error);
}

static bool read_completion(ask *a, api_error *error)
{
    str suffix;
    a->any_model = true;
    a->kind = ASK_COMPLETION;
    a->think = (chat_think_setting){.think = MOTE_THINK_OFF, .source = "completions"};
    a->answer.think = MOTE_THINK_OFF;
    return ask_model(a, &suffix, error) && read_numbers(a, error) &&
           ask_response_format(a, json_node_get(a->root, "response_format"), "response_format",
                               error) &&
           ask_extra_formats(a, error) && read_prompts(a, error);
}

/* ---- log-probabilities ---- */

/* Four lists side by side, filled one after another. */
typedef struct lists {
    strbuf tokens, logprobs, top, offsets;
    size_t offset;
} lists;

static void put_top(const answering *w, const mote_choice *m, strbuf *out)
{
    jp_open(out, '{');
    for (uint32_t i = 0; i < m->n_top; i++) {
        if (i > 0)
            strbuf_byte(out, ',');
        strbuf_byte(out, '"');
        jp_escaped(out, openai_token_text(w, m->top[i].token));
        strbuf_text(out, "\":");
        jp_float(out, m->top[i].logprob);
    }
    jp_close(out, '}');
}

/* Characters, as clients count offsets. */
static size_t characters(str text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += (text.p[i] & 0xC0) != 0x80;
    return n;
}

static void add_token(const answering *w, lists *l, str text, const mote_choice *m)
{
    jp_str(&l->tokens, text);
    jp_uint(&l->offsets, l->offset);
    l->offset += characters(text);
    if (m == NULL) { /* the first one of a prompt: nothing stood before it */
        jp_null(&l->logprobs);
        jp_null(&l->top);
        return;
    }
    jp_float(&l->logprobs, m->logprob >= -9999 ? m->logprob : -9999);
    if (w->ask.answer.sampling.top_logprobs > 0)
        put_top(w, m, &l->top);
    else
        jp_null(&l->top);
}

static void add_prompt(const answering *w, const choice *c, lists *l)
{
    const chat_prompt *p = &w->prompts[c->prompt];
    const sched_result *r = &w->choices[w->n_answers + c->prompt].result;
    for (size_t i = 0; i < p->n; i++)
        add_token(w, l, openai_token_text(w, p->ids[i]),
                  i > 0 && i - 1 < r->n_scores ? &r->scores[i - 1] : NULL);
}

/* `"logprobs":`, of the tokens from `from` on; with those of the prompt in front, if wanted. */
static void put_logprobs(answering *w, const choice *c, size_t from, bool prompt, strbuf *out)
{
    lists l = {0};
    strbuf *const parts[] = {&l.tokens, &l.logprobs, &l.top, &l.offsets};
    static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    if (json_node_get(w->ask.root, "logprobs") == NULL) {
        jp_key_null(out, "logprobs");
        return;
    }
    for (size_t i = 0; i < 4; i++)
        jp_open(parts[i], '[');
    if (prompt)
        add_prompt(w, c, &l);
    for (size_t i = 0; i < c->n_tokens; i++) {
        const str text = answering_token_text(c, &c->tokens[i]);
        if (i >= from)
            add_token(w, &l, text, &c->tokens[i].choice);
        else
            l.offset += characters(text);
    }
    jp_key(out, "logprobs");
    jp_open(out, '{');
    for (size_t i = 0; i < 4; i++) {
        jp_close(parts[i], ']');
        jp_key(out, names[i]);
        jp_raw(out, strbuf_view(parts[i]));
        out->failed |= parts[i]->failed;
        strbuf_fini(parts[i]);
    }
    jp_close(out, '}');
}

/* ---- printing ---- */

static void put_prompt_text(const answering *w, const choice *c, strbuf *out)
{
    const chat_prompt *p = &w->prompts[c->prompt];
    for (size_t i = 0; i < p->n; i++)
        strbuf_put(out, openai_token_text(w, p->ids[i]));
}

static void open_choice(answering *w, uint32_t index, str text)
{
    jp_open(&w->out, '{');
    jp_key_uint(&w->out, "index", index);
    jp_key_str(&w->out, "text", text);
}

static void put_figures(answering *w)
{
    answering_put_openai_usage(w, &w->out);
    answering_put_timings(w, &w->out);
    answering_put_mote(w, &w->out);
}

static void send_chunk(answering *w, choice *c, str text, const char *finish)
{
    openai_put_head(w, "text_completion", &w->out);
    jp_key(&w->out, "choices");
    jp_open(&w->out, '[');
    open_choice(w, c->index, text);
    if (c->told < c->n_tokens)
        put_logprobs(w, c, c->told, false, &w->out);
    else
        jp_key_null(&w->out, "logprobs");
    c->told = c->n_tokens;
    jp_key_text(&w->out, "finish_reason", finish);
    jp_close(&w->out, '}');
    jp_close(&w->out, ']');
    if (finish != NULL && w->n_over == w->n_choices)
        put_figures(w);
    else if (w->ask.include_usage && finish == NULL)
        jp_key_null(&w->out, "usage");
    jp_close(&w->out, '}');
    answering_sse(w, NULL);
}

static void begin(answering *w)
{
    answering_random_id(w->id, sizeof w->id, "cmpl-");
    for (size_t i = 0; w->ask.echo && i < w->n_answers; i++) {
        strbuf text = {0};
        put_prompt_text(w, &w->choices[i], &text);
        send_chunk(w, &w->choices[i], strbuf_view(&text), NULL);
        strbuf_fini(&text);
    }
}

static void event(answering *w, choice *c, const chat_event *e)
{
    if (e->kind == CHAT_EVENT_CONTENT)
        send_chunk(w, c, e->text, NULL);
}

static void waiting(answering *w, const sched_where *where, double silent)
{
    (void)silent;
    answering_put_where(w, where);
}

static void choice_over(answering *w, choice *c)
{
    send_chunk(w, c, (str){"", 0}, openai_finish(c->cause));
}

/* ---- a whole reply ---- */

static double likelihood(const choice *c)
{
    double sum = 0;
    for (size_t i = 0; i < c->n_tokens; i++)
        sum += (double)c->tokens[i].choice.logprob;
    return c->n_tokens > 0 ? sum / (double)c->n_tokens : 0;
}

static int by_likelihood(const void *a, const void *b)
{
    const choice *x = *(choice *const *)a, *y = *(choice *const *)b;
    const double lx = likelihood(x), ly = likelihood(y);
    if (lx != ly)
        return lx > ly ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static void put_choice(answering *w, const choice *c, uint32_t index)
{
    strbuf text = {0};
    if (w->ask.echo)
        put_prompt_text(w, c, &text);
    strbuf_put(&text, strbuf_view(&c->content));
    open_choice(w, index, strbuf_view(&text));
    w->out.failed |= text.failed;
    strbuf_fini(&text);
    put_logprobs(w, c, 0, w->ask.score_prompt, &w->out);
    jp_key_text(&w->out, "finish_reason", openai_finish(c->cause));
    jp_close(&w->out, '}');
}

static void reply(answering *w)
{
    uint32_t index = 0;
    answering_random_id(w->id, sizeof w->id, "cmpl-");
    openai_put_head(w, "text_completion", &w->out);
    jp_key(&w->out, "choices");
    jp_open(&w->out, '[');
    for (size_t p = 0; p < w->n_prompts; p++) {
        choice *tried[ASK_MAX_CHOICES];
        for (uint32_t i = 0; i < w->ask.n; i++)
            tried[i] = &w->choices[p * w->ask.n + i];
        if (returned(w) < w->ask.n)
            qsort(tried, w->ask.n, sizeof *tried, by_likelihood);
        for (uint32_t i = 0; i < returned(w); i++)
            put_choice(w, tried[i], index++);
    }
    jp_close(&w->out, ']');
    put_figures(w);
    jp_close(&w->out, '}');
    answering_reply(w, 200);
}

static void end(answering *w)
{
    if (w->streaming)
        openai_end_stream(w, "text_completion");
    else
        reply(w);
}

void handle_completions(exchange *x)
{
    static const dialect completions = {
        .label = "openai",
        .content_type = "text/event-stream; charset=utf-8",
        .call_prefix = "call_",
        .place = PARAM_IN_COMPLETIONS,
        .read = read_completion,
        .begin = begin,
        .event = event,
        .waiting = waiting,
        .choice_over = choice_over,
        .end = end,
        .broken = openai_broken,
    };
    answering_start(x, &completions);
}
