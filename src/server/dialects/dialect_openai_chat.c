/* SPDX-License-Identifier: Apache-2.0 */
/* dialect_openai_chat.c - POST /v1/chat/completions, and what belongs to it. */
#include "base/os.h"
#include "server/answer/dialect.h"
#include "server/answer/params.h"
#include "server/dialects/openai.h"
#include "server/handlers.h"

enum { QUIET = 15 }; /* seconds after which some readers want to see an event */

/* ---- reading ---- */

static bool given(const json_node *node)
{
    return node != NULL && !json_node_is(node, JSON_IS_NULL);
}

/* `functions` is what tools were called once: the body is written anew with them. */
static const json_node *with_tools(ask *a, api_error *error)
{
    const json_node *functions = json_node_get(a->root, "functions");
    strbuf json = {0};
    if (!given(functions) || given(json_node_get(a->root, "tools")))
        return a->root;
    a->names = (ask_names){"messages", "functions", "name", "parameters"};
    jp_open(&json, '{');
    jp_key(&json, "messages");
    jp_node(&json, json_node_get(a->root, "messages"));
    jp_key(&json, "tools");
    jp_open(&json, '[');
    for (const json_node *f = json_node_first(functions); f != NULL; f = json_node_next(f)) {
        jp_open(&json, '{');
        jp_key_text(&json, "type", "function");
        jp_key(&json, "function");
        jp_node(&json, f);
        jp_close(&json, '}');
    }
    jp_close(&json, ']');
    jp_close(&json, '}');
    return ask_made(a, &json, error);
}

static bool read_reply_form(ask *a, api_error *error)
{
    const json_node *modalities = json_node_get(a->root, "modalities");
    const json_node *reasoning = json_node_get(a->root, "reasoning_format");
    for (const json_node *m = json_node_first(modalities); m != NULL; m = json_node_next(m))
        if (!str_is(json_node_text(m), "text"))
            return ask_unsupported(error, "modalities", "an answer in another form than text");
    if (given(json_node_get(a->root, "top_logprobs")) && !a->logprobs)
        return ask_wrong(error, "top_logprobs", "needs logprobs to be true");
    if (given(reasoning) && str_is(json_node_text(reasoning), "none"))
        a->keep_reasoning_inline = true;
    else if (given(reasoning) && !str_is(json_node_text(reasoning), "auto") &&
             !str_is(json_node_text(reasoning), "deepseek"))
        return ask_wrong(error, "reasoning_format", "must be auto or none");
    a->show_ids = json_node_truth(json_node_get(a->root, "tokens"));
    return true;
}

bool openai_read_chat(ask *a, api_error *error)
{
    str suffix;
    a->any_model = true;
    const json_node *body = with_tools(a, error);
    if (body == NULL || !ask_model(a, &suffix, error) || !read_reply_form(a, error) ||
        !ask_conversation(a, body, 1, error))
        return false;
    const json_node *tool = json_node_get(a->root, "tool_choice");
    const bool old = !given(tool);
    if (old)
        tool = json_node_get(a->root, "function_call");
    return ask_tool_choice(a, tool, old ? "function_call" : "tool_choice", error) &&
           ask_response_format(a, json_node_get(a->root, "response_format"), "response_format",
                               error) &&
           ask_extra_formats(a, error) && ask_thinking(a, CHAT_DIALECT_OPENAI, suffix, error);
}

/* ---- a stream ---- */

/* Up to the inside of `delta`. */
static void open_chunk(answering *w, uint32_t index)
{
    openai_put_head(w, "chat.completion.chunk", &w->out);
    jp_key(&w->out, "choices");
    jp_open(&w->out, '[');
    jp_open(&w->out, '{');
    jp_key_uint(&w->out, "index", index);
    jp_key(&w->out, "delta");
    jp_open(&w->out, '{');
}

/* From the end of `delta` to the end of `choices`; tokens of `c` that were not told of yet. */
static void close_choice(answering *w, choice *c, const char *finish)
{
    strbuf *out = &w->out;
    jp_close(out, '}');
    jp_key(out, "logprobs");
    if (c != NULL && w->ask.logprobs && c->told < c->n_tokens) {
        jp_open(out, '{');
        jp_key(out, "content");
        openai_put_logprobs(c, c->told, out);
        jp_key_null(out, "refusal");
        jp_close(out, '}');
        c->told = c->n_tokens;
    } else {
        jp_null(out);
    }
    jp_key_text(out, "finish_reason", finish);
    jp_close(out, '}');
    jp_close(out, ']');
}

static void send_chunk(answering *w, choice *c)
{
    close_choice(w, c, NULL);
    if (w->ask.include_usage)
        jp_key_null(&w->out, "usage");
    jp_close(&w->out, '}');
    answering_sse(w, NULL);
}

static void begin(answering *w)
{
    answering_random_id(w->id, sizeof w->id, "chatcmpl-");
    for (size_t i = 0; i < w->n_answers; i++) {
        open_chunk(w, (uint32_t)i);
        jp_key_text(&w->out, "role", "assistant");
        jp_key_text(&w->out, "content", "");
        send_chunk(w, NULL);
    }
}

static void put_reasoning(strbuf *out, str text)
{
    jp_key_str(out, "reasoning_content", text);
    jp_key_str(out, "reasoning", text);
}

/* The first piece names the call and has no arguments: clients expect it so. Nothing says that it
 * ends, or that it was cut but the reason why the answer ended. */
static void put_call_piece(const choice *c, const chat_event *e, strbuf *out)
{
    const bool first = e->kind == CHAT_EVENT_CALL_START;
    jp_key(out, "tool_calls");
    jp_open(out, '[');
    jp_open(out, '{');
    jp_key_uint(out, "index", c->n_calls + c->n_lost);
    if (first) {
        jp_key_text(out, "id", c->open.id);
        jp_key_text(out, "type", "function");
    }
    jp_key(out, "function");
    jp_open(out, '{');
    if (first)
        jp_key_str(out, "name", e->name);
    jp_key_str(out, "arguments", first ? (str){"", 0} : e->text);
    jp_close(out, '}');
    jp_close(out, '}');
    jp_close(out, ']');
}

static void event(answering *w, choice *c, const chat_event *e)
{
    if (e->kind == CHAT_EVENT_CALL_END || e->kind == CHAT_EVENT_CALL_CANCEL)
        return;
    open_chunk(w, c->index);
    if (e->kind == CHAT_EVENT_REASONING)
        put_reasoning(&w->out, e->text);
    else if (e->kind == CHAT_EVENT_CONTENT)
        jp_key_str(&w->out, "content", e->text);
    else
        put_call_piece(c, e, &w->out);
    send_chunk(w, e->kind == CHAT_EVENT_CONTENT ? c : NULL);
}

static void put_progress(answering *w, const sched_where *where)
{
    strbuf *out = &w->out;
    jp_key(out, "prompt_progress");
    jp_open(out, '{');
    jp_key_uint(out, "total", where->total);
    jp_key_uint(out, "cache", w->choices[0].reused);
    jp_key_uint(out, "processed", where->done);
    jp_key_int(out, "time_ms", (int64_t)(1000 * (os_now() - w->began) + 0.5));
    jp_close(out, '}');
}

static void waiting(answering *w, const sched_where *where, double silent)
{
    const bool progress = w->ask.progress && where->phase == SCHED_READING;
    answering_put_where(w, where);
    if (!progress && silent < QUIET)
        return;
    open_chunk(w, 0);
    close_choice(w, NULL, NULL);
    if (progress)
        put_progress(w, where);
    if (w->ask.include_usage)
        jp_key_null(&w->out, "usage");
    jp_close(&w->out, '}');
    answering_sse(w, NULL);
}

/* The figures of all choices stand in the last one's. */
static void choice_over(answering *w, choice *c)
{
    open_chunk(w, c->index);
    close_choice(w, c, openai_finish(c->cause));
    if (w->n_over == w->n_choices) {
        answering_put_openai_usage(w, &w->out);
        answering_put_timings(w, &w->out);
        answering_put_mote(w, &w->out);
    }
    jp_close(&w->out, '}');
    answering_sse(w, NULL);
}

/* ---- a whole reply ---- */

void openai_put_calls(const choice *c, strbuf *out)
{
    jp_key(out, "tool_calls");
    jp_open(out, '[');
    for (size_t i = 0; i < c->n_calls; i++) {
        jp_open(out, '{');
        jp_key_text(out, "id", c->calls[i].id);
        jp_key_text(out, "type", "function");
        jp_key(out, "function");
        jp_open(out, '{');
        jp_key_str(out, "name", strbuf_view(&c->calls[i].name));
        jp_key_str(out, "arguments", strbuf_view(&c->calls[i].arguments));
        jp_close(out, '}');
        jp_close(out, '}');
    }
    jp_close(out, ']');
}

static void put_message(const choice *c, strbuf *out)
{
    jp_key(out, "message");
    jp_open(out, '{');
    jp_key_text(out, "role", "assistant");
    if (c->content.n == 0 && c->n_calls > 0)
        jp_key_null(out, "content");
    else
        jp_key_str(out, "content", strbuf_view(&c->content));
    jp_key_null(out, "refusal");
    jp_key_raw(out, "annotations", "[]");
    if (c->reasoning.n > 0)
        put_reasoning(out, strbuf_view(&c->reasoning));
    if (c->n_calls > 0)
        openai_put_calls(c, out);
    jp_close(out, '}');
}

static void put_choice(const answering *w, const choice *c, strbuf *out)
{
    jp_open(out, '{');
    jp_key_uint(out, "index", c->index);
    put_message(c, out);
    jp_key(out, "logprobs");
    if (w->ask.logprobs) {
        jp_open(out, '{');
        jp_key(out, "content");
        openai_put_logprobs(c, 0, out);
        jp_key_null(out, "refusal");
        jp_close(out, '}');
    } else {
        jp_null(out);
    }
    jp_key_text(out, "finish_reason", openai_finish(c->cause));
    jp_close(out, '}');
}

static void reply(answering *w)
{
    strbuf *out = &w->out;
    answering_random_id(w->id, sizeof w->id, "chatcmpl-");
    openai_put_head(w, "chat.completion", out);
    jp_key(out, "choices");
    jp_open(out, '[');
    for (size_t i = 0; i < w->n_answers; i++)
        put_choice(w, &w->choices[i], out);
    jp_close(out, ']');
    answering_put_openai_usage(w, out);
    answering_put_timings(w, out);
    answering_put_mote(w, out);
    jp_close(out, '}');
    answering_reply(w, 200);
}

void openai_end_stream(answering *w, const char *object)
{
    if (w->ask.include_usage) {
        openai_put_head(w, object, &w->out);
        jp_key_raw(&w->out, "choices", "[]");
        answering_put_openai_usage(w, &w->out);
        jp_close(&w->out, '}');
        answering_sse(w, NULL);
    }
    strbuf_text(&w->out, "[DONE]");
    answering_sse(w, NULL);
}

static void end(answering *w)
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
    answering_start(x, &openai_chat);
}

/* ---- beside it ---- */

static void counted(answering *w)
{
    jp_open(&w->out, '{');
    jp_key_uint(&w->out, "input_tokens", w->prompts[0].n);
    jp_close(&w->out, '}');
    answering_reply(w, 200);
}

void handle_chat_input_tokens(exchange *x)
{
    static const dialect counting = {.label = "openai",
                                     .call_prefix = "call_",
                                     .place = PARAM_IN_CHAT,
                                     .read = openai_read_chat,
                                     .rendered = counted};
    answering_start(x, &counting);
}

/* {"id": of a running reply, "action": "reasoning_end"} */
void handle_chat_control(exchange *x)
{
    const http_request *request = exchange_request(x);
    api_error error = {0};
    json_doc *doc = NULL;
    if (json_doc_read(&doc, request->body, NULL) != MOTE_OK) {
        api_error_set(&error, API_E_INVALID, "invalid_json", "the body is not JSON");
        exchange_fail(x, &error);
        return;
    }
    const json_node *root = json_doc_root(doc);
    const str id = json_node_text(json_node_get(root, "id"));
    answering *w = id.n > 0 ? answering_find(exchange_server(x), id, request->realm) : NULL;
    if (!str_is(json_node_text(json_node_get(root, "action")), "reasoning_end"))
        ask_wrong(&error, "action", "must be reasoning_end");
    else if (w == NULL)
        api_error_set(&error, API_E_NOT_FOUND, "not_found", "no answer with this id is at work");
    else
        answering_end_thinking(w);
    json_doc_free(doc);
    if (error.code != NULL)
        exchange_fail(x, &error);
    else
        exchange_reply(x, 200, EXCHANGE_JSON, str_of("{\"success\":true}"));
}
