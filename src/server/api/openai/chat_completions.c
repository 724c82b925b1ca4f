/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_completions.c - POST /v1/chat/completions with its routes input_tokens and control.
 *
 * openai_read_chat() runs on a worker thread; the printer functions run on the event loop, except
 * the reply without stream, which a worker prints.
 */
#include "base/os.h"
#include "server/api/common/dialect.h"
#include "server/request/params.h"
#include "server/api/common/reply_json.h"
#include "server/api/openai/openai.h"

/* Some clients close a stream without events; send an empty chunk after this many seconds. */
enum { KEEP_ALIVE_SECONDS = 15 };

/* ---- request ---- */

/* Rewrites a body with the deprecated `functions` to one with `tools`. */
static const json_node *chat_convert_functions(request *a, http_error *error)
{
    const json_node *functions = json_node_get(a->root, "functions");
    strbuf json = {0};
    if (!node_given(functions) || node_given(json_node_get(a->root, "tools")))
        return a->root;
    a->names = (request_names){"messages", "functions", "name", "parameters"};
    jw_open(&json, '{');
    jw_key(&json, "messages");
    jw_node(&json, json_node_get(a->root, "messages"));
    jw_key(&json, "tools");
    jw_open(&json, '[');
    for (const json_node *f = json_node_first(functions); f != NULL; f = json_node_next(f)) {
        jw_open(&json, '{');
        jw_key_text(&json, "type", "function");
        jw_key(&json, "function");
        jw_node(&json, f);
        jw_close(&json, '}');
    }
    jw_close(&json, ']');
    jw_close(&json, '}');
    return request_made(a, &json, error);
}

static bool chat_read_reply_options(request *a, http_error *error)
{
    const json_node *modalities = json_node_get(a->root, "modalities");
    const json_node *reasoning = json_node_get(a->root, "reasoning_format");
    for (const json_node *m = json_node_first(modalities); m != NULL; m = json_node_next(m))
        if (!str_is(json_node_text(m), "text"))
            return http_error_unsupported(error, "modalities", "output other than text");
    if (node_given(json_node_get(a->root, "top_logprobs")) && !a->logprobs)
        return http_error_invalid(error, "top_logprobs", "requires logprobs: true");
    if (node_given(reasoning) && str_is(json_node_text(reasoning), "none"))
        a->keep_reasoning_inline = true;
    else if (node_given(reasoning) && !str_is(json_node_text(reasoning), "auto") &&
             !str_is(json_node_text(reasoning), "deepseek"))
        return http_error_invalid(error, "reasoning_format", "must be auto or none");
    a->show_ids = json_node_truth(json_node_get(a->root, "tokens"));
    return true;
}

bool openai_read_chat(request *a, http_error *error)
{
    str suffix;
    a->any_model = true;
    const json_node *body = chat_convert_functions(a, error);
    if (body == NULL || !request_model(a, &suffix, error) || !chat_read_reply_options(a, error) ||
        !request_conversation(a, body, 1, error))
        return false;
    const json_node *tool = json_node_get(a->root, "tool_choice");
    const bool old = !node_given(tool);
    if (old)
        tool = json_node_get(a->root, "function_call");
    return request_tool_choice(a, tool, old ? "function_call" : "tool_choice", error) &&
           request_response_format(a, json_node_get(a->root, "response_format"), "response_format",
                                   error) &&
           request_extra_formats(a, error) &&
           request_thinking(a, CHAT_DIALECT_OPENAI, suffix, error);
}

/* ---- stream ---- */

/* Opens a chunk up to the inside of `delta`. */
static void chat_open_chunk(generation *w, uint32_t index)
{
    openai_put_head(w, "chat.completion.chunk", &w->out);
    jw_key(&w->out, "choices");
    jw_open(&w->out, '[');
    jw_open(&w->out, '{');
    jw_key_uint(&w->out, "index", index);
    jw_key(&w->out, "delta");
    jw_open(&w->out, '{');
}

/* Closes `delta` and `choices`; prints the tokens of `c` that were not sent yet. */
static void chat_close_choice(generation *w, choice *c, const char *finish)
{
    strbuf *out = &w->out;
    jw_close(out, '}');
    jw_key(out, "logprobs");
    if (c != NULL && w->request.logprobs && c->n_sent < c->n_tokens) {
        jw_open(out, '{');
        jw_key(out, "content");
        reply_put_logprobs(c, c->n_sent, out);
        jw_key_null(out, "refusal");
        jw_close(out, '}');
        c->n_sent = c->n_tokens;
    } else {
        jw_null(out);
    }
    jw_key_text(out, "finish_reason", finish);
    jw_close(out, '}');
    jw_close(out, ']');
}

static void chat_send_chunk(generation *w, choice *c)
{
    chat_close_choice(w, c, NULL);
    if (w->request.include_usage)
        jw_key_null(&w->out, "usage");
    jw_close(&w->out, '}');
    generation_send_sse(w, NULL);
}

static void chat_begin(generation *w)
{
    generation_random_id(w->id, sizeof w->id, "chatcmpl-");
    for (size_t i = 0; i < w->n_answers; i++) {
        chat_open_chunk(w, (uint32_t)i);
        jw_key_text(&w->out, "role", "assistant");
        jw_key_text(&w->out, "content", "");
        chat_send_chunk(w, NULL);
    }
}

static void chat_put_reasoning(strbuf *out, str text)
{
    jw_key_str(out, "reasoning_content", text);
    jw_key_str(out, "reasoning", text);
}

/* The first piece has the name and empty arguments, as clients expect. The API has no event for the
 * end of a call; finish_reason tells whether it was cut. */
static void chat_put_call_delta(const choice *c, const chat_event *e, strbuf *out)
{
    const bool first = e->kind == CHAT_EVENT_CALL_START;
    jw_key(out, "tool_calls");
    jw_open(out, '[');
    jw_open(out, '{');
    jw_key_uint(out, "index", c->n_calls + c->n_lost);
    if (first) {
        jw_key_text(out, "id", c->open.id);
        jw_key_text(out, "type", "function");
    }
    jw_key(out, "function");
    jw_open(out, '{');
    if (first)
        jw_key_str(out, "name", e->name);
    jw_key_str(out, "arguments", first ? (str){"", 0} : e->text);
    jw_close(out, '}');
    jw_close(out, '}');
    jw_close(out, ']');
}

static void chat_event_print(generation *w, choice *c, const chat_event *e)
{
    if (e->kind == CHAT_EVENT_CALL_END || e->kind == CHAT_EVENT_CALL_CANCEL)
        return;
    chat_open_chunk(w, c->index);
    if (e->kind == CHAT_EVENT_REASONING)
        chat_put_reasoning(&w->out, e->text);
    else if (e->kind == CHAT_EVENT_CONTENT)
        jw_key_str(&w->out, "content", e->text);
    else
        chat_put_call_delta(c, e, &w->out);
    chat_send_chunk(w, e->kind == CHAT_EVENT_CONTENT ? c : NULL);
}

static void chat_put_progress(generation *w, const sched_job_status *where)
{
    strbuf *out = &w->out;
    jw_key(out, "prompt_progress");
    jw_open(out, '{');
    jw_key_uint(out, "total", where->total);
    jw_key_uint(out, "cache", w->choices[0].reused);
    jw_key_uint(out, "processed", where->done);
    jw_key_int(out, "time_ms", (int64_t)(1000 * (os_now() - w->began) + 0.5));
    jw_close(out, '}');
}

/* generation_printer.waiting: a chunk with progress if requested, or an empty one after
 * KEEP_ALIVE_SECONDS without events. */
static void chat_waiting(generation *w, const sched_job_status *where, double silent)
{
    const bool progress = w->request.progress && where->phase == SCHED_PREFILL;
    generation_send_status(w, where);
    if (!progress && silent < KEEP_ALIVE_SECONDS)
        return;
    chat_open_chunk(w, 0);
    chat_close_choice(w, NULL, NULL);
    if (progress)
        chat_put_progress(w, where);
    if (w->request.include_usage)
        jw_key_null(&w->out, "usage");
    jw_close(&w->out, '}');
    generation_send_sse(w, NULL);
}

/* The last choice carries the usage of all choices. */
static void chat_choice_over(generation *w, choice *c)
{
    chat_open_chunk(w, c->index);
    chat_close_choice(w, c, openai_finish(c->cause));
    if (w->n_over == w->n_choices) {
        generation_put_openai_usage(w, &w->out);
        generation_put_timings(w, &w->out);
        generation_put_mote(w, &w->out);
    }
    jw_close(&w->out, '}');
    generation_send_sse(w, NULL);
}

/* ---- reply without stream ---- */

void openai_put_calls(const choice *c, strbuf *out)
{
    jw_key(out, "tool_calls");
    jw_open(out, '[');
    for (size_t i = 0; i < c->n_calls; i++) {
        jw_open(out, '{');
        jw_key_text(out, "id", c->calls[i].id);
        jw_key_text(out, "type", "function");
        jw_key(out, "function");
        jw_open(out, '{');
        jw_key_str(out, "name", strbuf_view(&c->calls[i].name));
        jw_key_str(out, "arguments", strbuf_view(&c->calls[i].arguments));
        jw_close(out, '}');
        jw_close(out, '}');
    }
    jw_close(out, ']');
}

static void chat_put_message(const choice *c, strbuf *out)
{
    jw_key(out, "message");
    jw_open(out, '{');
    jw_key_text(out, "role", "assistant");
    if (c->content.n == 0 && c->n_calls > 0)
        jw_key_null(out, "content");
    else
        jw_key_str(out, "content", strbuf_view(&c->content));
    jw_key_null(out, "refusal");
    jw_key_raw(out, "annotations", "[]");
    if (c->reasoning.n > 0)
        chat_put_reasoning(out, strbuf_view(&c->reasoning));
    if (c->n_calls > 0)
        openai_put_calls(c, out);
    jw_close(out, '}');
}

static void chat_put_choice(const generation *w, const choice *c, strbuf *out)
{
    jw_open(out, '{');
    jw_key_uint(out, "index", c->index);
    chat_put_message(c, out);
    jw_key(out, "logprobs");
    if (w->request.logprobs) {
        jw_open(out, '{');
        jw_key(out, "content");
        reply_put_logprobs(c, 0, out);
        jw_key_null(out, "refusal");
        jw_close(out, '}');
    } else {
        jw_null(out);
    }
    jw_key_text(out, "finish_reason", openai_finish(c->cause));
    jw_close(out, '}');
}

static void chat_reply(generation *w)
{
    strbuf *out = &w->out;
    generation_random_id(w->id, sizeof w->id, "chatcmpl-");
    openai_put_head(w, "chat.completion", out);
    jw_key(out, "choices");
    jw_open(out, '[');
    for (size_t i = 0; i < w->n_answers; i++)
        chat_put_choice(w, &w->choices[i], out);
    jw_close(out, ']');
    generation_put_openai_usage(w, out);
    generation_put_timings(w, out);
    generation_put_mote(w, out);
    jw_close(out, '}');
    generation_reply(w, 200);
}

void openai_end_stream(generation *w, const char *object)
{
    if (w->request.include_usage) {
        openai_put_head(w, object, &w->out);
        jw_key_raw(&w->out, "choices", "[]");
        generation_put_openai_usage(w, &w->out);
        jw_close(&w->out, '}');
        generation_send_sse(w, NULL);
    }
    strbuf_text(&w->out, "[DONE]");
    generation_send_sse(w, NULL);
}

static void chat_end(generation *w)
{
    if (w->streaming)
        openai_end_stream(w, "chat.completion.chunk");
    else
        chat_reply(w);
}

static const dialect openai_chat = {
    .label = "openai",
    .fields = PARAM_IN_CHAT,
    .read = openai_read_chat,
    .printer =
        {
            .content_type = "text/event-stream; charset=utf-8",
            .call_prefix = "call_",
            .begin = chat_begin,
            .event = chat_event_print,
            .waiting = chat_waiting,
            .choice_over = chat_choice_over,
            .end = chat_end,
            .failed = openai_failed,
        },
};

void handle_chat_completions(exchange *x)
{
    dispatch_start(x, &openai_chat);
}

/* ---- input_tokens, control ---- */

static void chat_reply_token_count(generation *w)
{
    jw_open(&w->out, '{');
    jw_key_uint(&w->out, "input_tokens", w->prompts[0].n);
    jw_close(&w->out, '}');
    generation_reply(w, 200);
}

void handle_chat_input_tokens(exchange *x)
{
    static const dialect counting = {
        .label = "openai",
        .fields = PARAM_IN_CHAT,
        .read = openai_read_chat,
        .printer =
            {
                .call_prefix = "call_",
                .rendered = chat_reply_token_count,
            },
    };
    dispatch_start(x, &counting);
}

/* {"id": of a running reply, "action": "reasoning_end"} */
void handle_chat_control(exchange *x)
{
    const http_request *http = exchange_request(x);
    http_error error = {0};
    json_doc *doc = NULL;
    if (json_doc_read(&doc, http->body, NULL) != MOTE_OK) {
        http_error_set(&error, HTTP_E_INVALID, "invalid_json", "request body is not valid JSON");
        exchange_fail(x, &error);
        return;
    }
    const json_node *root = json_doc_root(doc);
    const str id = json_node_text(json_node_get(root, "id"));
    generation *w = id.n > 0 ? generation_find(exchange_context(x), id, http->ns) : NULL;
    if (!str_is(json_node_text(json_node_get(root, "action")), "reasoning_end"))
        http_error_invalid(&error, "action", "must be reasoning_end");
    else if (w == NULL)
        http_error_set(&error, HTTP_E_NOT_FOUND, "not_found", "no running generation with this id");
    else
        generation_end_thinking(w);
    json_doc_free(doc);
    if (error.code != NULL)
        exchange_fail(x, &error);
    else
        exchange_reply(x, 200, EXCHANGE_JSON, str_of("{\"success\":true}"));
}
