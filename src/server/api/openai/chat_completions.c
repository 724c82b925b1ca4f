/* SPDX-License-Identifier: Apache-2.0 */
/* chat_completions.c - POST /v1/chat/completions, and what belongs to it. */
#include "base/os.h"
#include "server/generation/dialect.h"
#include "server/request/params.h"
#include "server/api/common/reply_json.h"
#include "server/api/openai/openai.h"
#include "server/api/handlers.h"

enum { QUIET = 15 }; /* seconds after which some readers want to see an event */

/* ---- reading ---- */

static bool given(const json_node *node)
{
    return node != NULL && !json_node_is(node, JSON_IS_NULL);
}

/* `functions` is what tools were called once: the body is written anew with them. */
static const json_node *with_tools(request *a, http_error *error)
{
    const json_node *functions = json_node_get(a->root, "functions");
    strbuf json = {0};
    if (!given(functions) || given(json_node_get(a->root, "tools")))
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

static bool read_reply_form(request *a, http_error *error)
{
    const json_node *modalities = json_node_get(a->root, "modalities");
    const json_node *reasoning = json_node_get(a->root, "reasoning_format");
    for (const json_node *m = json_node_first(modalities); m != NULL; m = json_node_next(m))
        if (!str_is(json_node_text(m), "text"))
            return http_error_unsupported(error, "modalities",
                                          "an answer in another form than text");
    if (given(json_node_get(a->root, "top_logprobs")) && !a->logprobs)
        return http_error_invalid(error, "top_logprobs", "needs logprobs to be true");
    if (given(reasoning) && str_is(json_node_text(reasoning), "none"))
        a->keep_reasoning_inline = true;
    else if (given(reasoning) && !str_is(json_node_text(reasoning), "auto") &&
             !str_is(json_node_text(reasoning), "deepseek"))
        return http_error_invalid(error, "reasoning_format", "must be auto or none");
    a->show_ids = json_node_truth(json_node_get(a->root, "tokens"));
    return true;
}

bool openai_read_chat(request *a, http_error *error)
{
    str suffix;
    a->any_model = true;
    const json_node *body = with_tools(a, error);
    if (body == NULL || !request_model(a, &suffix, error) || !read_reply_form(a, error) ||
        !request_conversation(a, body, 1, error))
        return false;
    const json_node *tool = json_node_get(a->root, "tool_choice");
    const bool old = !given(tool);
    if (old)
        tool = json_node_get(a->root, "function_call");
    return request_tool_choice(a, tool, old ? "function_call" : "tool_choice", error) &&
           request_response_format(a, json_node_get(a->root, "response_format"), "response_format",
                                   error) &&
           request_extra_formats(a, error) &&
           request_thinking(a, CHAT_DIALECT_OPENAI, suffix, error);
}

/* ---- a stream ---- */

/* Up to the inside of `delta`. */
static void open_chunk(generation *w, uint32_t index)
{
    openai_put_head(w, "chat.completion.chunk", &w->out);
    jw_key(&w->out, "choices");
    jw_open(&w->out, '[');
    jw_open(&w->out, '{');
    jw_key_uint(&w->out, "index", index);
    jw_key(&w->out, "delta");
    jw_open(&w->out, '{');
}

/* From the end of `delta` to the end of `choices`; tokens of `c` that were not told of yet. */
static void close_choice(generation *w, choice *c, const char *finish)
{
    strbuf *out = &w->out;
    jw_close(out, '}');
    jw_key(out, "logprobs");
    if (c != NULL && w->request.logprobs && c->told < c->n_tokens) {
        jw_open(out, '{');
        jw_key(out, "content");
        reply_put_logprobs(c, c->told, out);
        jw_key_null(out, "refusal");
        jw_close(out, '}');
        c->told = c->n_tokens;
    } else {
        jw_null(out);
    }
    jw_key_text(out, "finish_reason", finish);
    jw_close(out, '}');
    jw_close(out, ']');
}

static void send_chunk(generation *w, choice *c)
{
    close_choice(w, c, NULL);
    if (w->request.include_usage)
        jw_key_null(&w->out, "usage");
    jw_close(&w->out, '}');
    generation_sse(w, NULL);
}

static void begin(generation *w)
{
    generation_random_id(w->id, sizeof w->id, "chatcmpl-");
    for (size_t i = 0; i < w->n_answers; i++) {
        open_chunk(w, (uint32_t)i);
        jw_key_text(&w->out, "role", "assistant");
        jw_key_text(&w->out, "content", "");
        send_chunk(w, NULL);
    }
}

static void put_reasoning(strbuf *out, str text)
{
    jw_key_str(out, "reasoning_content", text);
    jw_key_str(out, "reasoning", text);
}

/* The first piece names the call and has no arguments: clients expect it so. Nothing says that it
 * ends, or that it was cut but the reason why the answer ended. */
static void put_call_piece(const choice *c, const chat_event *e, strbuf *out)
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

static void event(generation *w, choice *c, const chat_event *e)
{
    if (e->kind == CHAT_EVENT_CALL_END || e->kind == CHAT_EVENT_CALL_CANCEL)
        return;
    open_chunk(w, c->index);
    if (e->kind == CHAT_EVENT_REASONING)
        put_reasoning(&w->out, e->text);
    else if (e->kind == CHAT_EVENT_CONTENT)
        jw_key_str(&w->out, "content", e->text);
    else
        put_call_piece(c, e, &w->out);
    send_chunk(w, e->kind == CHAT_EVENT_CONTENT ? c : NULL);
}

static void put_progress(generation *w, const sched_job_status *where)
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

static void waiting(generation *w, const sched_job_status *where, double silent)
{
    const bool progress = w->request.progress && where->phase == SCHED_PREFILL;
    generation_put_where(w, where);
    if (!progress && silent < QUIET)
        return;
    open_chunk(w, 0);
    close_choice(w, NULL, NULL);
    if (progress)
        put_progress(w, where);
    if (w->request.include_usage)
        jw_key_null(&w->out, "usage");
    jw_close(&w->out, '}');
    generation_sse(w, NULL);
}

/* The figures of all choices stand in the last one's. */
static void choice_over(generation *w, choice *c)
{
    open_chunk(w, c->index);
    close_choice(w, c, openai_finish(c->cause));
    if (w->n_over == w->n_choices) {
        generation_put_openai_usage(w, &w->out);
        generation_put_timings(w, &w->out);
        generation_put_mote(w, &w->out);
    }
    jw_close(&w->out, '}');
    generation_sse(w, NULL);
}

/* ---- a whole reply ---- */

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

static void put_message(const choice *c, strbuf *out)
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
        put_reasoning(out, strbuf_view(&c->reasoning));
    if (c->n_calls > 0)
        openai_put_calls(c, out);
    jw_close(out, '}');
}

static void put_choice(const generation *w, const choice *c, strbuf *out)
{
    jw_open(out, '{');
    jw_key_uint(out, "index", c->index);
    put_message(c, out);
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

static void reply(generation *w)
{
    strbuf *out = &w->out;
    generation_random_id(w->id, sizeof w->id, "chatcmpl-");
    openai_put_head(w, "chat.completion", out);
    jw_key(out, "choices");
    jw_open(out, '[');
    for (size_t i = 0; i < w->n_answers; i++)
        put_choice(w, &w->choices[i], out);
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
        generation_sse(w, NULL);
    }
    strbuf_text(&w->out, "[DONE]");
    generation_sse(w, NULL);
}

static void end(generation *w)
{
    if (w->streaming)
        openai_end_stream(w, "chat.completion.chunk");
    else
        reply(w);
}

static const dialect openai_chat = {
    .label = "openai",
    .content_type = "text/event-stream; charset=utf-8",
    .call_prefix = "call_",
    .place = PARAM_IN_CHAT,
    .read = openai_read_chat,
    .begin = begin,
    .event = event,
    .waiting = waiting,
    .choice_over = choice_over,
    .end = end,
    .broken = openai_broken,
};

void handle_chat_completions(exchange *x)
{
    generation_start(x, &openai_chat);
}

/* ---- beside it ---- */

static void counted(generation *w)
{
    jw_open(&w->out, '{');
    jw_key_uint(&w->out, "input_tokens", w->prompts[0].n);
    jw_close(&w->out, '}');
    generation_reply(w, 200);
}

void handle_chat_input_tokens(exchange *x)
{
    static const dialect counting = {.label = "openai",
                                     .call_prefix = "call_",
                                     .place = PARAM_IN_CHAT,
                                     .read = openai_read_chat,
                                     .rendered = counted};
    generation_start(x, &counting);
}

/* {"id": of a running reply, "action": "reasoning_end"} */
void handle_chat_control(exchange *x)
{
    const http_request *http = exchange_request(x);
    http_error error = {0};
    json_doc *doc = NULL;
    if (json_doc_read(&doc, http->body, NULL) != MOTE_OK) {
        api_error_set(&error, API_E_INVALID, "invalid_json", "the body is not JSON");
        exchange_fail(x, &error);
        return;
    }
    const json_node *root = json_doc_root(doc);
    const str id = json_node_text(json_node_get(root, "id"));
    generation *w = id.n > 0 ? generation_find(exchange_context(x), id, http->ns) : NULL;
    if (!str_is(json_node_text(json_node_get(root, "action")), "reasoning_end"))
        http_error_invalid(&error, "action", "must be reasoning_end");
    else if (w == NULL)
        api_error_set(&error, API_E_NOT_FOUND, "not_found", "no answer with this id is at work");
    else
        generation_end_thinking(w);
    json_doc_free(doc);
    if (error.code != NULL)
        exchange_fail(x, &error);
    else
        exchange_reply(x, 200, EXCHANGE_JSON, str_of("{\"success\":true}"));
}
