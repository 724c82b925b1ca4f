/* SPDX-License-Identifier: Apache-2.0 */
/*
 * completions.c - POST /v1/completions and POST /infill: text completion without a chat template.
 *
 * Each prompt gets n choices, numbered prompt by prompt. With echo and logprobs, extra jobs score
 * the prompt tokens; their choices follow those of the answers. The end token is then listed too,
 * so that the lists have one entry more than the prompt with max_tokens 1, whatever comes next.
 */
#include "server/api/common/reply_json.h"
#include "server/api/openai/openai.h"
#include "server/api/common/dialect.h"
#include "server/request/params.h"

#include <stdlib.h>

enum { MAX_PROMPTS = 64, DEFAULT_TOKENS = 16 };

/* request.own */
typedef struct completions_state {
    uint32_t returned; /* choices per prompt in the reply; best_of may generate more */
} completions_state;

static uint32_t completions_returned(const generation *w)
{
    return ((const completions_state *)w->request.own)->returned;
}

/* ---- request ---- */

static bool completions_read_number(const request *a, const char *name, int64_t min, int64_t max,
                                    int64_t *out, http_error *error)
{
    const json_node *node = json_node_get(a->root, name);
    if (node == NULL || json_node_is(node, JSON_IS_NULL))
        return true;
    if (!json_node_int64(node, out) || *out < min || *out > max)
        return http_error_invalid(error, name, "must be an integer of %lld to %lld", (long long)min,
                                  (long long)max);
    return true;
}

static bool completions_read_numbers(request *a, http_error *error)
{
    int64_t logprobs = -1, best = a->n;
    if (!completions_read_number(a, "logprobs", 0, MOTE_TOP_LOGPROBS, &logprobs, error) ||
        !completions_read_number(a, "best_of", a->n, REQUEST_MAX_CHOICES, &best, error))
        return false;
    if (best > a->n && a->stream)
        return http_error_invalid(error, "best_of", "must equal n if stream is set");
    if (a->stream && a->echo && logprobs >= 0)
        return http_error_invalid(error, "echo", "with logprobs and stream exclude each other");
    completions_state *o = request_memory(a, 1, sizeof *o, error);
    if (o == NULL)
        return false;
    a->n_kept--; /* freed as request.own instead */
    a->own = o;
    o->returned = a->n;
    a->logprobs = logprobs >= 0 || best > a->n; /* best_of compares by them */
    a->n = (uint32_t)best;
    a->answer.sampling.top_logprobs = logprobs > 0 ? (uint32_t)logprobs : 0;
    a->score_prompt = a->echo && logprobs >= 0;
    if (a->answer.max_tokens == 0 && !a->no_answer)
        a->answer.max_tokens = DEFAULT_TOKENS;
    return true;
}

static bool completions_read_prompts(request *a, http_error *error)
{
    const json_node *prompt = json_node_get(a->root, "prompt");
    const json_node *suffix = json_node_get(a->root, "suffix");
    if (!json_node_is(suffix, JSON_IS_STRING) || json_node_text(suffix).n == 0) {
        if (prompt == NULL || json_node_is(prompt, JSON_IS_NULL))
            return request_add_prompt(a, (str){"", 0}, error);
        return request_prompts(a, prompt, "prompt", MAX_PROMPTS, error);
    }
    if (prompt != NULL && !json_node_is(prompt, JSON_IS_STRING))
        return http_error_invalid(error, "prompt", "must be a string if suffix is set");
    return request_add_fim_prompt(a, json_node_text(prompt), json_node_text(suffix), NULL, error);
}

static bool completions_read(request *a, http_error *error)
{
    str suffix;
    a->any_model = true;
    a->kind = REQUEST_COMPLETION;
    a->think = (chat_think_setting){.think = MOTE_THINK_OFF, .source = "completions"};
    a->answer.think = MOTE_THINK_OFF;
    return request_model(a, &suffix, error) && completions_read_numbers(a, error) &&
           request_response_format(a, json_node_get(a->root, "response_format"), "response_format",
                                   error) &&
           request_extra_formats(a, error) && completions_read_prompts(a, error);
}

/* ---- log-probabilities ---- */

/* The four arrays of OpenAI's logprobs object, filled in parallel. */
typedef struct logprob_lists {
    strbuf tokens, logprobs, top, offsets;
    size_t offset;
} logprob_lists;

static void logprob_put_top(const generation *w, const mote_choice *m, strbuf *out)
{
    jw_open(out, '{');
    for (uint32_t i = 0; i < m->n_top; i++) {
        if (i > 0)
            strbuf_byte(out, ',');
        strbuf_byte(out, '"');
        jw_escaped(out, reply_token_text(w, m->top[i].token));
        strbuf_text(out, "\":");
        jw_float(out, reply_finite_logprob(m->top[i].logprob));
    }
    jw_close(out, '}');
}

/* text_offset counts characters, not bytes. */
static size_t count_characters(str text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += (text.p[i] & 0xC0) != 0x80;
    return n;
}

static void logprobs_add_token(const generation *w, logprob_lists *l, str text,
                               const mote_choice *m)
{
    jw_str(&l->tokens, text);
    jw_uint(&l->offsets, l->offset);
    l->offset += count_characters(text);
    if (m == NULL) { /* the first token of a prompt has no probability */
        jw_null(&l->logprobs);
        jw_null(&l->top);
        return;
    }
    jw_float(&l->logprobs, reply_finite_logprob(m->logprob));
    logprob_put_top(w, m, &l->top);
}

static void logprobs_add_prompt(const generation *w, const choice *c, logprob_lists *l)
{
    const chat_prompt *p = &w->prompts[c->prompt];
    const sched_result *r = &w->choices[w->n_answers + c->prompt].result;
    for (size_t i = 0; i < p->n; i++)
        logprobs_add_token(w, l, reply_token_text(w, p->ids[i]),
                           i > 0 && i - 1 < r->n_scores ? &r->scores[i - 1] : NULL);
}

/* Member "logprobs" for the tokens from index `from`, after those of the prompt if `prompt`. */
static void completions_put_logprobs(generation *w, const choice *c, size_t from, bool prompt,
                                     strbuf *out)
{
    logprob_lists l = {0};
    strbuf *const parts[] = {&l.tokens, &l.logprobs, &l.top, &l.offsets};
    static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    if (!node_given(json_node_get(w->request.root, "logprobs"))) {
        jw_key_null(out, "logprobs");
        return;
    }
    for (size_t i = 0; i < 4; i++)
        jw_open(parts[i], '[');
    if (prompt)
        logprobs_add_prompt(w, c, &l);
    for (size_t i = 0; i < c->n_tokens; i++) {
        const str text = generation_token_text(c, &c->tokens[i]);
        if (i >= from)
            logprobs_add_token(w, &l, text, &c->tokens[i].choice);
        else
            l.offset += count_characters(text);
    }
    /* Clients that score a prompt with max_tokens 1 drop the last entry: there must be one. */
    if (prompt && c->result.end != NULL)
        logprobs_add_token(w, &l, reply_token_text(w, c->result.end->token), c->result.end);
    jw_key(out, "logprobs");
    jw_open(out, '{');
    for (size_t i = 0; i < 4; i++) {
        jw_close(parts[i], ']');
        jw_key(out, names[i]);
        jw_raw(out, strbuf_view(parts[i]));
        out->failed |= parts[i]->failed;
        strbuf_fini(parts[i]);
    }
    jw_close(out, '}');
}

/* ---- stream ---- */

static void completions_put_prompt(const generation *w, const choice *c, strbuf *out)
{
    const chat_prompt *p = &w->prompts[c->prompt];
    for (size_t i = 0; i < p->n; i++)
        strbuf_put(out, reply_token_text(w, p->ids[i]));
}

static void completions_open_choice(generation *w, uint32_t index, str text)
{
    jw_open(&w->out, '{');
    jw_key_uint(&w->out, "index", index);
    jw_key_str(&w->out, "text", text);
}

static void completions_put_stats(generation *w)
{
    generation_put_openai_usage(w, &w->out);
    generation_put_timings(w, &w->out);
    generation_put_mote(w, &w->out);
}

static void completions_send_chunk(generation *w, choice *c, str text, const char *finish)
{
    openai_put_head(w, "text_completion", &w->out);
    jw_key(&w->out, "choices");
    jw_open(&w->out, '[');
    completions_open_choice(w, c->index, text);
    if (c->n_sent < c->n_tokens)
        completions_put_logprobs(w, c, c->n_sent, false, &w->out);
    else
        jw_key_null(&w->out, "logprobs");
    c->n_sent = c->n_tokens;
    jw_key_text(&w->out, "finish_reason", finish);
    jw_close(&w->out, '}');
    jw_close(&w->out, ']');
    if (finish != NULL && w->n_over == w->n_choices)
        completions_put_stats(w);
    else if (w->request.include_usage && finish == NULL)
        jw_key_null(&w->out, "usage");
    jw_close(&w->out, '}');
    generation_send_sse(w, NULL);
}

static void completions_begin(generation *w)
{
    generation_random_id(w->id, sizeof w->id, "cmpl-");
    for (size_t i = 0; w->request.echo && i < w->n_answers; i++) {
        strbuf text = {0};
        completions_put_prompt(w, &w->choices[i], &text);
        completions_send_chunk(w, &w->choices[i], strbuf_view(&text), NULL);
        strbuf_fini(&text);
    }
}

static void completions_event(generation *w, choice *c, const chat_event *e)
{
    if (e->kind == CHAT_EVENT_CONTENT)
        completions_send_chunk(w, c, e->text, NULL);
}

static void completions_waiting(generation *w, const sched_job_status *where, double silent)
{
    (void)silent;
    generation_send_status(w, where);
}

static void completions_choice_over(generation *w, choice *c)
{
    completions_send_chunk(w, c, (str){"", 0}, openai_finish(c->cause));
}

/* ---- reply without stream ---- */

static double choice_likelihood(const choice *c)
{
    double sum = 0;
    for (size_t i = 0; i < c->n_tokens; i++)
        sum += (double)c->tokens[i].choice.logprob;
    return c->n_tokens > 0 ? sum / (double)c->n_tokens : 0;
}

static int choice_by_likelihood(const void *a, const void *b)
{
    const choice *x = *(choice *const *)a, *y = *(choice *const *)b;
    const double lx = choice_likelihood(x), ly = choice_likelihood(y);
    if (lx != ly)
        return lx > ly ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static void completions_put_choice(generation *w, const choice *c, uint32_t index)
{
    strbuf text = {0};
    if (w->request.echo)
        completions_put_prompt(w, c, &text);
    strbuf_put(&text, strbuf_view(&c->content));
    completions_open_choice(w, index, strbuf_view(&text));
    w->out.failed |= text.failed;
    strbuf_fini(&text);
    completions_put_logprobs(w, c, 0, w->request.score_prompt, &w->out);
    jw_key_text(&w->out, "finish_reason", openai_finish(c->cause));
    jw_close(&w->out, '}');
}

static void completions_reply(generation *w)
{
    uint32_t index = 0;
    generation_random_id(w->id, sizeof w->id, "cmpl-");
    openai_put_head(w, "text_completion", &w->out);
    jw_key(&w->out, "choices");
    jw_open(&w->out, '[');
    for (size_t p = 0; p < w->n_prompts; p++) {
        choice *tried[REQUEST_MAX_CHOICES];
        for (uint32_t i = 0; i < w->request.n; i++)
            tried[i] = &w->choices[p * w->request.n + i];
        if (completions_returned(w) < w->request.n)
            qsort(tried, w->request.n, sizeof *tried, choice_by_likelihood);
        for (uint32_t i = 0; i < completions_returned(w); i++)
            completions_put_choice(w, tried[i], index++);
    }
    jw_close(&w->out, ']');
    completions_put_stats(w);
    jw_close(&w->out, '}');
    generation_reply(w, 200);
}

static void completions_end(generation *w)
{
    if (w->streaming)
        openai_end_stream(w, "text_completion");
    else
        completions_reply(w);
}

void handle_completions(exchange *x)
{
    static const dialect completions = {
        .label = "openai",
        .fields = PARAM_IN_COMPLETIONS,
        .read = completions_read,
        .tokenizes = true,
        .printer =
            {
                .content_type = "text/event-stream; charset=utf-8",
                .call_prefix = "call_",
                .begin = completions_begin,
                .event = completions_event,
                .waiting = completions_waiting,
                .choice_over = completions_choice_over,
                .end = completions_end,
                .failed = openai_failed,
            },
    };
    dispatch_start(x, &completions);
}

/* ---- POST /infill ---- */

static bool infill_read(request *a, http_error *error)
{
    const str before = json_node_text(json_node_get(a->root, "input_prefix"));
    const str after = json_node_text(json_node_get(a->root, "input_suffix"));
    const str typed = json_node_text(json_node_get(a->root, "prompt"));
    char *joined = request_memory(a, before.n + typed.n + 1, 1, error);
    str suffix;
    if (joined == NULL)
        return false;
    memcpy(joined, before.p, before.n);
    memcpy(joined + before.n, typed.p, typed.n);
    a->any_model = true;
    a->kind = REQUEST_COMPLETION;
    a->think = (chat_think_setting){.think = MOTE_THINK_OFF, .source = "infill"};
    a->answer.think = MOTE_THINK_OFF;
    return request_model(a, &suffix, error) && request_extra_formats(a, error) &&
           request_add_fim_prompt(a, (str){joined, before.n + typed.n}, after,
                                  json_node_get(a->root, "input_extra"), error);
}

static const char *infill_stop_type(stop_cause cause)
{
    return cause == STOP_EOS ? "eos" : cause == STOP_TEXT ? "word" : "limit";
}

static void infill_event(generation *w, choice *c, const chat_event *e)
{
    (void)c;
    if (e->kind != CHAT_EVENT_CONTENT)
        return;
    jw_open(&w->out, '{');
    jw_key_str(&w->out, "content", e->text);
    jw_key_bool(&w->out, "stop", false);
    jw_close(&w->out, '}');
    generation_send_sse(w, NULL);
}

/* In a stream the content was sent already. */
static void infill_end(generation *w)
{
    const choice *c = &w->choices[0];
    const usage u = generation_usage(w);
    strbuf *out = &w->out;
    const char *word = generation_stop_text(c);
    jw_open(out, '{');
    jw_key_str(out, "content", w->streaming ? (str){"", 0} : strbuf_view(&c->content));
    jw_key_bool(out, "stop", true);
    jw_key_text(out, "stop_type", infill_stop_type(c->cause));
    jw_key_text(out, "stopping_word", word != NULL ? word : "");
    jw_key_text(out, "model", request_model_name(&w->request));
    jw_key_uint(out, "tokens_predicted", u.out);
    jw_key_uint(out, "tokens_evaluated", u.prompt);
    jw_key_uint(out, "tokens_cached", u.cached);
    generation_put_timings(w, out);
    generation_put_mote(w, out);
    jw_close(out, '}');
    if (w->streaming)
        generation_send_sse(w, NULL);
    else
        generation_reply(w, 200);
}

void handle_infill(exchange *x)
{
    static const dialect infill = {
        .label = "openai",
        .fields = PARAM_IN_INFILL,
        .read = infill_read,
        .tokenizes = true,
        .printer =
            {
                .content_type = "text/event-stream; charset=utf-8",
                .call_prefix = "call_",
                .event = infill_event,
                .waiting = completions_waiting,
                .end = infill_end,
                .failed = openai_failed,
            },
    };
    dispatch_start(x, &infill);
}
