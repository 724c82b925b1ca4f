/* SPDX-License-Identifier: Apache-2.0 */
/*
 * score.c - POST /v1/score and /v1/rerank: log-probabilities of given texts; nothing is generated.
 *
 * Each choice becomes a prompt: the common prefix followed by the tokens of the choice. Only the
 * latter are scored. The prefix cache prefills the common prefix once. Rerank asks the model
 * whether the document answers the query and compares the scores of "yes" and "no".
 */
#include "base/mem.h"
#include "server/api/common/dialect.h"
#include "server/request/params.h"
#include "server/api/common/reply_json.h"
#include "server/api/openai/openai.h"
#include "server/api/native/native.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_CHOICES = 64, MAX_CHOICE_TOKENS = 256, MAX_DOCUMENTS = 256 };

/* request.own */
typedef struct score_state {
    size_t n;          /* number of texts; 0: score the prompt itself */
    size_t top_n;      /* number of documents in the reply */
    const char *scale; /* "sum", "mean" or "softmax" */
    const str *texts;  /* [n], views of the body */
} score_state;

/* exp(x) for x <= 0, with a relative error of about 1e-15; independent of libm. */
static double exp_negative(double x)
{
    double sum = 1, term = 1;
    if (x < -700)
        return 0;
    const int halves = x < -0.5 ? (int)(-x * 2) + 1 : 1;
    for (int i = 1; i < 20; i++)
        sum += term *= x / halves / i;
    double out = 1;
    for (int n = halves; n > 0; n /= 2, sum *= sum)
        if (n % 2 == 1)
            out *= sum;
    return out;
}

/* ---- prompts ---- */

/* Adds the prompt `before` + `text`, of which the tokens of `text` are scored. */
static bool score_add_choice(request *a, const chat_prompt *before, str text, http_error *error)
{
    size_t n = 0;
    mote_token *end = NULL;
    if (!request_tokenize(a, text, 0, &end, &n, error))
        return false;
    if (n == 0 || n > MAX_CHOICE_TOKENS) {
        mem_free(end);
        return http_error_invalid(error, "choices", "must have 1 to %d tokens each, got %zu",
                                  MAX_CHOICE_TOKENS, n);
    }
    mote_token *ids = mem_new(before->n + n, sizeof *ids);
    if (ids != NULL) {
        memcpy(ids, before->ids, before->n * sizeof *ids);
        memcpy(ids + before->n, end, n * sizeof *ids);
    }
    mem_free(end);
    if (ids == NULL || !request_add_prompt(a, (str){"", 0}, error)) {
        mem_free(ids);
        return http_error_no_memory(error);
    }
    const size_t at = a->n_prompts - 1;
    a->prompt_ids[at] = ids;
    a->n_prompt_ids[at] = before->n + n;
    a->score_from[at] = before->n;
    return true;
}

static bool score_too_long(const request *a, size_t n, http_error *error)
{
    const unsigned long long context = served_model_context(a->served);
    http_error_set(error, HTTP_E_INVALID, "context_length_exceeded",
                   "prompt is too long: %zu tokens > %llu maximum; the number of tokens is a "
                   "lower bound",
                   n, context);
    return false;
}

static bool score_encode(const request *a, str text, chat_prompt *out, http_error *error)
{
    const mote_model *model = served_model_chat_context(a->served)->model;
    const size_t least = mote_tokens_at_least(model, text.p, text.n);
    if (least > served_model_context(a->served))
        return score_too_long(a, least, error);
    /* an empty prompt is the beginning of a document */
    return text.n > 0 ? request_tokenize(a, text, 0, &out->ids, &out->n, error)
                      : request_tokenize(a, str_of("<|endoftext|>"), MOTE_TEXT_CONTROL, &out->ids,
                                         &out->n, error);
}

static bool score_render(request *a, chat_prompt *out, http_error *error)
{
    mote_error err;
    const chat_context *chat_ctx = served_model_chat_context(a->served);
    chat_request *q = &a->parsed.request;
    q->thinking = CHAT_THINK_OFF;
    q->max_tokens = (size_t)served_model_context(a->served);
    q->hook = a->hook;
    q->hook_ctx = a->hook_ctx;
    const mote_status status = chat_render(chat_ctx->model, &chat_ctx->template, q, out, &err);
    if (status == MOTE_E_FULL)
        return score_too_long(a, out->n, error);
    if (status != MOTE_OK)
        http_error_from(error, &err);
    return status == MOTE_OK;
}

/* The common prefix: a text, or a conversation up to the answer, without thinking. Every choice
 * copies it, so it must fit the context. */
static bool score_render_prefix(request *a, const json_node *body, chat_prompt *out,
                                http_error *error)
{
    const json_node *messages = json_node_get(body, "messages");
    const json_node *prompt = json_node_get(body, "prompt");
    if (!node_given(messages) && !node_given(prompt)) {
        http_error_invalid(error, "prompt", "or messages is required");
        error->code = "missing_field";
        return false;
    }
    if (node_given(messages) ? !request_conversation(a, body, 1, error) ||
                                   !request_no_media(a, error) || !score_render(a, out, error)
                             : !score_encode(a, json_node_text(prompt), out, error))
        return false;
    return out->n < served_model_context(a->served) || score_too_long(a, out->n, error);
}

/* Fields common to score and rerank. `most`: highest number of prompts. */
static bool score_read_common(request *a, size_t most, http_error *error)
{
    score_state *state = mem_new(1, sizeof *state);
    str suffix;
    a->own = state;
    if (state == NULL)
        return http_error_no_memory(error);
    state->scale = "sum";
    a->any_model = true;
    a->kind = REQUEST_COMPLETION;
    a->no_answer = true;
    a->score_prompt = true;
    a->think = (chat_think_setting){.think = MOTE_THINK_OFF, .source = "score"};
    a->answer.think = MOTE_THINK_OFF;
    a->score_from = request_memory(a, most, sizeof *a->score_from, error);
    return a->score_from != NULL && request_model(a, &suffix, error);
}

/* Reads an array of strings or of objects with `text` to state->texts. */
static bool score_read_texts(request *a, const json_node *array, const char *at, size_t most,
                             http_error *error)
{
    score_state *state = a->own;
    const size_t n = json_node_size(array);
    if (!json_node_is(array, JSON_IS_ARRAY) || n < 1 || n > most)
        return http_error_invalid(error, at, "must be an array of 1 to %zu strings", most);
    str *texts = request_memory(a, n, sizeof *texts, error);
    if (texts == NULL)
        return false;
    for (const json_node *e = json_node_first(array); e != NULL; e = json_node_next(e)) {
        const json_node *text = json_node_is(e, JSON_IS_OBJECT) ? json_node_get(e, "text") : e;
        if (!json_node_is(text, JSON_IS_STRING))
            return http_error_invalid(error, at, "must be an array of 1 to %zu strings", most);
        texts[state->n++] = json_node_text(text);
    }
    state->texts = texts;
    return true;
}

/* ---- /v1/score: request ---- */

static bool score_read_scale(request *a, http_error *error)
{
    static const char *const scales[] = {"sum", "mean", "softmax"};
    const json_node *node = json_node_get(a->root, "normalize");
    score_state *state = a->own;
    if (!node_given(node))
        return true;
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        if (str_is(json_node_text(node), scales[i])) {
            state->scale = scales[i];
            return true;
        }
    return http_error_invalid(error, "normalize", "must be sum, mean or softmax");
}

static bool score_read_prompt_logprobs(request *a, chat_prompt *before, http_error *error)
{
    const json_node *node = json_node_get(a->root, "prompt_logprobs");
    int64_t top = 0;
    if (!node_given(node))
        return http_error_invalid(error, "choices", "or prompt_logprobs is required");
    if (!json_node_int64(node, &top) || top < 0 || top > MOTE_TOP_LOGPROBS)
        return http_error_invalid(error, "prompt_logprobs", "must be an integer of 0 to 20");
    a->answer.sampling.top_logprobs = (uint32_t)top;
    if (!request_add_prompt(a, (str){"", 0}, error))
        return false;
    a->prompt_ids[0] = before->ids;
    a->n_prompt_ids[0] = before->n;
    a->score_from[0] = 1;
    before->ids = NULL;
    return true;
}

static bool score_read(request *a, http_error *error)
{
    const json_node *choices = json_node_get(a->root, "choices");
    chat_prompt before = {0};
    score_state *state;
    if (!score_read_common(a, MAX_CHOICES, error) || !score_read_scale(a, error))
        return false;
    state = a->own;
    bool read = score_render_prefix(a, a->root, &before, error);
    if (read && !node_given(choices))
        read = score_read_prompt_logprobs(a, &before, error);
    else if (read)
        read = score_read_texts(a, choices, "choices", MAX_CHOICES, error);
    for (size_t i = 0; read && i < state->n; i++)
        read = score_add_choice(a, &before, state->texts[i], error);
    chat_prompt_fini(&before);
    return read;
}

/* ---- results ---- */

static const sched_result *score_result(const generation *w, size_t prompt)
{
    return &w->choices[w->n_answers + prompt].result;
}

static double score_sum(const generation *w, size_t prompt)
{
    const sched_result *r = score_result(w, prompt);
    double sum = 0;
    for (size_t i = 0; i < r->n_scores; i++)
        sum += (double)r->scores[i].logprob;
    return sum;
}

static void score_put_usage(const generation *w, strbuf *out)
{
    const usage u = generation_usage(w);
    jw_key(out, "usage");
    jw_open(out, '{');
    jw_key_uint(out, "prompt_tokens", u.prompt);
    jw_key_uint(out, "total_tokens", u.prompt);
    jw_close(out, '}');
}

/* ---- /v1/score: reply ---- */

/* Softmax over the sums of all choices. */
static double score_softmax(const generation *w, const score_state *state, size_t prompt)
{
    double most = score_sum(w, 0), all = 0;
    for (size_t i = 1; i < state->n; i++)
        most = score_sum(w, i) > most ? score_sum(w, i) : most;
    for (size_t i = 0; i < state->n; i++)
        all += exp_negative(score_sum(w, i) - most);
    return exp_negative(score_sum(w, prompt) - most) / all;
}

static void score_put_choice(const generation *w, const score_state *state, size_t i, strbuf *out)
{
    const size_t n = score_result(w, i)->n_scores;
    const bool mean = strcmp(state->scale, "mean") == 0;
    const double logprob = mean && n > 0 ? score_sum(w, i) / (double)n : score_sum(w, i);
    jw_open(out, '{');
    jw_key_uint(out, "index", i);
    jw_key_str(out, "text", state->texts[i]);
    jw_key_double(out, "logprob", logprob);
    jw_key_uint(out, "tokens", n);
    jw_key_double(out, "prob",
                  strcmp(state->scale, "softmax") == 0 ? score_softmax(w, state, i)
                                                       : exp_negative(logprob));
    jw_close(out, '}');
}

/* One entry per token as in chat completions; null for the first, which has no probability. */
static void score_put_prompt_logprobs(const generation *w, strbuf *out)
{
    const sched_result *r = score_result(w, 0);
    jw_key(out, "prompt_logprobs");
    jw_open(out, '[');
    jw_null(out);
    for (size_t i = 0; i < r->n_scores; i++) {
        const mote_choice *m = &r->scores[i];
        reply_put_token(w, reply_token_text(w, m->token), m, out);
    }
    jw_close(out, ']');
}

static void score_end(generation *w)
{
    const score_state *state = w->request.own;
    strbuf *out = &w->out;
    jw_open(out, '{');
    jw_key_text(out, "object", "score");
    jw_key_text(out, "model", request_model_name(&w->request));
    if (state->n == 0)
        score_put_prompt_logprobs(w, out);
    else {
        jw_key(out, "scores");
        jw_open(out, '[');
        for (size_t i = 0; i < state->n; i++)
            score_put_choice(w, state, i, out);
        jw_close(out, ']');
    }
    score_put_usage(w, out);
    generation_put_mote(w, out);
    jw_close(out, '}');
    generation_reply(w, 200);
}

void handle_score(exchange *x)
{
    static const dialect score = {
        .label = "openai",
        .fields = PARAM_IN_SCORE,
        .read = score_read,
        .tokenizes = true,
        .printer =
            {
                .call_prefix = "call_",
                .end = score_end,
            },
    };
    dispatch_start(x, &score);
}

/* ---- /v1/rerank ---- */

/* Two prompts per document: the same question, answered "yes" and "no". */
static bool rerank_add_document(request *a, str query, str document, http_error *error)
{
    static const char rule[] = "Say whether the document answers the query. Say yes or no.";
    strbuf json = {0};
    chat_prompt before = {0};
    json_doc *doc = NULL;
    mote_error err;
    strbuf_text(&json, "{\"messages\":[{\"role\":\"system\",\"content\":\"");
    strbuf_text(&json, rule);
    strbuf_text(&json, "\"},{\"role\":\"user\",\"content\":\"Query: ");
    jw_escaped(&json, query);
    strbuf_text(&json, "\\n\\nDocument: ");
    jw_escaped(&json, document);
    strbuf_text(&json, "\"}]}");
    mote_status status = strbuf_check(&json, &err);
    if (status == MOTE_OK)
        status = json_doc_read(&doc, strbuf_view(&json), &err);
    strbuf_fini(&json);
    if (status != MOTE_OK) {
        http_error_from(error, &err);
        return false;
    }
    const bool read = score_render_prefix(a, json_doc_root(doc), &before, error) &&
                      score_add_choice(a, &before, str_of("yes"), error) &&
                      score_add_choice(a, &before, str_of("no"), error);
    chat_parsed_fini(&a->parsed); /* it points into the document freed below */
    chat_prompt_fini(&before);
    json_doc_free(doc);
    return read;
}

static bool rerank_read(request *a, http_error *error)
{
    const json_node *query = json_node_get(a->root, "query");
    const json_node *top = json_node_get(a->root, "top_n");
    int64_t wanted = MAX_DOCUMENTS;
    if (!score_read_common(a, 2 * MAX_DOCUMENTS, error))
        return false;
    if (!json_node_is(query, JSON_IS_STRING)) {
        http_error_invalid(error, "query", "must be a string");
        return false;
    }
    if (node_given(top) && (!json_node_int64(top, &wanted) || wanted < 1))
        return http_error_invalid(error, "top_n", "must be an integer of at least 1");
    if (!score_read_texts(a, json_node_get(a->root, "documents"), "documents", MAX_DOCUMENTS,
                          error))
        return false;
    score_state *state = a->own;
    state->top_n = wanted < (int64_t)state->n ? (size_t)wanted : state->n;
    for (size_t i = 0; i < state->n; i++)
        if (!rerank_add_document(a, json_node_text(query), state->texts[i], error))
            return false;
    return true;
}

typedef struct rerank_entry {
    size_t index;
    double score;
} rerank_entry;

static int rerank_compare(const void *a, const void *b)
{
    const rerank_entry *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* The score of a document is P(yes) / (P(yes) + P(no)); jobs 2i and 2i + 1 have scored them. */
static void rerank_end(generation *w)
{
    const score_state *state = w->request.own;
    strbuf *out = &w->out;
    rerank_entry list[MAX_DOCUMENTS] = {0};
    for (size_t i = 0; i < state->n; i++) {
        const double yes = score_sum(w, 2 * i), no = score_sum(w, 2 * i + 1);
        list[i].index = i;
        list[i].score = yes > no ? 1 / (1 + exp_negative(no - yes))
                                 : exp_negative(yes - no) / (1 + exp_negative(yes - no));
    }
    qsort(list, state->n, sizeof *list, rerank_compare);
    jw_open(out, '{');
    jw_key_text(out, "object", "list");
    jw_key_text(out, "model", request_model_name(&w->request));
    jw_key(out, "results");
    jw_open(out, '[');
    for (size_t i = 0; i < state->top_n; i++) {
        jw_open(out, '{');
        jw_key_uint(out, "index", list[i].index);
        jw_key_double(out, "relevance_score", list[i].score);
        jw_close(out, '}');
    }
    jw_close(out, ']');
    score_put_usage(w, out);
    generation_put_mote(w, out);
    jw_close(out, '}');
    generation_reply(w, 200);
}

void handle_rerank(exchange *x)
{
    static const dialect rerank = {
        .label = "openai",
        .fields = PARAM_IN_RERANK,
        .read = rerank_read,
        .tokenizes = true,
        .printer =
            {
                .call_prefix = "call_",
                .end = rerank_end,
            },
    };
    dispatch_start(x, &rerank);
}
