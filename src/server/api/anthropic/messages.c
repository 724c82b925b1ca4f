/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages.c - POST /v1/messages and /v1/messages/count_tokens: replies and streams.
 *
 * A stream is a sequence of content blocks: thinking, text, tool_use. Blocks do not nest. A block
 * starts with its first piece and ends when a piece of another kind arrives.
 *
 * Keys without a value are left out: some clients accept an absent key but reject null. The
 * exceptions are stop_reason and stop_sequence, which every Messages API sends as null.
 */
#include "server/api/common/error_format.h"
#include "server/api/anthropic/anthropic.h"

#include "server/request/params.h"

static anthropic_state *messages_state(const generation *w)
{
    return w->request.own;
}

/* ---- JSON of streams and replies ---- */

static const char *messages_stop_reason(stop_cause cause)
{
    switch (cause) {
    case STOP_EOS: return "end_turn";
    case STOP_TEXT: return "stop_sequence";
    case STOP_CALLS: return "tool_use";
    case STOP_CONTEXT: return "model_context_window_exceeded";
    case STOP_MAX_TOKENS:
    case STOP_DEADLINE:
    case STOP_LOOP: break;
    }
    return "max_tokens";
}

/* Clients require a signature and send it back unchanged; the server ignores it. */
static void messages_put_signature(const generation *w, strbuf *out)
{
    jw_key(out, "signature");
    strbuf_text(out, "\"mote.");
    jw_escaped(out, str_of(w->id + strlen("msg_")));
    strbuf_byte(out, '"');
}

/* Prefilled and cached prompt tokens. */
static void usage_put_input(strbuf *out, uint64_t read, uint64_t cached)
{
    jw_key_uint(out, "input_tokens", read);
    jw_key_uint(out, "cache_creation_input_tokens", 0);
    jw_key_uint(out, "cache_read_input_tokens", cached);
}

static void usage_put_output(strbuf *out, const usage *u)
{
    jw_key_uint(out, "output_tokens", u->out);
    jw_key(out, "output_tokens_details");
    jw_open(out, '{');
    jw_key_uint(out, "thinking_tokens", u->think);
    jw_close(out, '}');
}

static void messages_put_stop(const generation *w, strbuf *out)
{
    const choice *c = &w->choices[0];
    jw_key_text(out, "stop_reason", messages_stop_reason(c->cause));
    jw_key_text(out, "stop_sequence", c->cause == STOP_TEXT ? generation_stop_text(c) : NULL);
}

static void messages_put_head(generation *w, strbuf *out)
{
    if (w->id[0] == 0)
        generation_random_id(w->id, sizeof w->id, "msg_");
    jw_key_text(out, "id", w->id);
    jw_key_text(out, "type", "message");
    jw_key_text(out, "role", "assistant");
    jw_key_text(out, "model", request_model_name(&w->request));
}

/* ---- reply without stream ---- */

static void block_put_thinking(const generation *w, str text, strbuf *out)
{
    jw_open(out, '{');
    jw_key_text(out, "type", "thinking");
    jw_key_str(out, "thinking", messages_state(w)->omit_thinking ? (str){"", 0} : text);
    messages_put_signature(w, out);
    jw_close(out, '}');
}

static void block_put_text(str text, strbuf *out)
{
    jw_open(out, '{');
    jw_key_text(out, "type", "text");
    jw_key_str(out, "text", text);
    jw_close(out, '}');
}

static void block_put_call(const choice_call *call, strbuf *out)
{
    jw_open(out, '{');
    jw_key_text(out, "type", "tool_use");
    jw_key_text(out, "id", call->id);
    jw_key_str(out, "name", strbuf_view(&call->name));
    jw_key(out, "input");
    jw_raw(out, strbuf_view(&call->arguments));
    jw_key_raw(out, "caller", "{\"type\":\"direct\"}");
    jw_close(out, '}');
}

static void messages_reply(generation *w)
{
    const choice *c = &w->choices[0];
    const usage u = generation_usage(w);
    strbuf *out = &w->out;
    jw_open(out, '{');
    messages_put_head(w, out);
    jw_key(out, "content");
    jw_open(out, '[');
    if (c->reasoning.n > 0)
        block_put_thinking(w, strbuf_view(&c->reasoning), out);
    if (c->content.n > 0 || (c->reasoning.n == 0 && c->n_calls == 0))
        block_put_text(strbuf_view(&c->content), out);
    for (size_t i = 0; i < c->n_calls; i++)
        block_put_call(&c->calls[i], out);
    jw_close(out, ']');
    messages_put_stop(w, out);
    jw_key(out, "usage");
    jw_open(out, '{');
    usage_put_input(out, u.prompt - u.cached, u.cached);
    usage_put_output(out, &u);
    jw_key_text(out, "service_tier", "standard");
    jw_close(out, '}');
    generation_put_mote(w, out);
    jw_close(out, '}');
    generation_reply(w, 200);
}

/* ---- stream ---- */

/* Opens {"type":NAME in w->out; messages_send_event() closes and sends it. */
static strbuf *messages_open_event(generation *w, const char *name)
{
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "type", name);
    return &w->out;
}

static void messages_send_event(generation *w, const char *name)
{
    jw_close(&w->out, '}');
    generation_send_sse(w, name);
}

static void messages_ping(generation *w)
{
    messages_open_event(w, "ping");
    messages_send_event(w, "ping");
}

static void messages_begin(generation *w)
{
    strbuf *out = messages_open_event(w, "message_start");
    jw_key(out, "message");
    jw_open(out, '{');
    messages_put_head(w, out);
    jw_key_raw(out, "content", "[]");
    jw_key_null(out, "stop_reason");
    jw_key_null(out, "stop_sequence");
    jw_key(out, "usage");
    jw_open(out, '{');
    usage_put_input(out, w->prompts[0].n, 0);
    jw_key_uint(out, "output_tokens", 1);
    jw_key_text(out, "service_tier", "standard");
    strbuf_text(out, "}}");
    messages_send_event(w, "message_start");
    messages_ping(w);
}

/* Opens the content_block_start event of the next block. */
static strbuf *block_open(generation *w, const char *type)
{
    strbuf *out = messages_open_event(w, "content_block_start");
    jw_key_uint(out, "index", messages_state(w)->blocks++);
    jw_key(out, "content_block");
    jw_open(out, '{');
    jw_key_text(out, "type", type);
    return out;
}

static void block_send_start(generation *w)
{
    jw_close(&w->out, '}');
    messages_send_event(w, "content_block_start");
}

/* Opens a content_block_delta event of the open block. */
static strbuf *block_open_delta(generation *w, const char *type)
{
    strbuf *out = messages_open_event(w, "content_block_delta");
    jw_key_uint(out, "index", messages_state(w)->blocks - 1);
    jw_key(out, "delta");
    jw_open(out, '{');
    jw_key_text(out, "type", type);
    return out;
}

static void block_send_delta(generation *w)
{
    jw_close(&w->out, '}');
    messages_send_event(w, "content_block_delta");
}

static void block_close(generation *w)
{
    anthropic_state *s = messages_state(w);
    if (s->open == BLOCK_NONE)
        return;
    if (s->open == BLOCK_THINKING) {
        messages_put_signature(w, block_open_delta(w, "signature_delta"));
        block_send_delta(w);
    }
    jw_key_uint(messages_open_event(w, "content_block_stop"), "index", s->blocks - 1);
    messages_send_event(w, "content_block_stop");
    s->open = BLOCK_NONE;
}

static void block_switch_to(generation *w, anthropic_block block)
{
    anthropic_state *s = messages_state(w);
    if (s->open == block)
        return;
    block_close(w);
    strbuf *out = block_open(w, block == BLOCK_THINKING ? "thinking" : "text");
    jw_key_text(out, block == BLOCK_THINKING ? "thinking" : "text", "");
    if (block == BLOCK_THINKING)
        jw_key_text(out, "signature", "");
    block_send_start(w);
    s->open = block;
}

static void block_open_call(generation *w, const choice_call *call)
{
    block_close(w);
    strbuf *out = block_open(w, "tool_use");
    jw_key_text(out, "id", call->id);
    jw_key_str(out, "name", strbuf_view(&call->name));
    jw_key_raw(out, "input", "{}");
    block_send_start(w);
    messages_state(w)->open = BLOCK_CALL;
}

static void messages_event(generation *w, choice *c, const chat_event *e)
{
    switch (e->kind) {
    case CHAT_EVENT_REASONING:
        block_switch_to(w, BLOCK_THINKING);
        if (messages_state(w)->omit_thinking)
            return;
        jw_key_str(block_open_delta(w, "thinking_delta"), "thinking", e->text);
        block_send_delta(w);
        return;
    case CHAT_EVENT_CONTENT:
        block_switch_to(w, BLOCK_TEXT);
        jw_key_str(block_open_delta(w, "text_delta"), "text", e->text);
        block_send_delta(w);
        return;
    case CHAT_EVENT_CALL_START: block_open_call(w, &c->open); return;
    case CHAT_EVENT_CALL_ARGUMENTS:
        jw_key_str(block_open_delta(w, "input_json_delta"), "partial_json", e->text);
        block_send_delta(w);
        return;
    case CHAT_EVENT_CALL_END:
    case CHAT_EVENT_CALL_CANCEL: block_close(w); return;
    default: return;
    }
}

static void messages_waiting(generation *w, const sched_job_status *where, double silent)
{
    enum { PING_SECONDS = 5 };
    if (silent >= PING_SECONDS)
        messages_ping(w);
    else
        generation_send_status(w, where);
}

static void messages_end_stream(generation *w)
{
    const usage u = generation_usage(w);
    if (messages_state(w)->blocks == 0)
        block_switch_to(w, BLOCK_TEXT);
    block_close(w);
    strbuf *out = messages_open_event(w, "message_delta");
    jw_key(out, "delta");
    jw_open(out, '{');
    messages_put_stop(w, out);
    jw_close(out, '}');
    jw_key(out, "usage");
    jw_open(out, '{');
    usage_put_input(out, u.prompt - u.cached, u.cached);
    usage_put_output(out, &u);
    jw_close(out, '}');
    generation_put_mote(w, out);
    messages_send_event(w, "message_delta");
    messages_open_event(w, "message_stop");
    messages_send_event(w, "message_stop");
}

static void messages_end(generation *w)
{
    if (w->streaming)
        messages_end_stream(w);
    else
        messages_reply(w);
}

static void messages_failed(generation *w, const http_error *error)
{
    error_format_print(error, API_ANTHROPIC, w->request_id, &w->out);
    generation_send_sse(w, "error");
}

static const dialect messages = {
    .label = "anthropic",
    .fields = PARAM_IN_MESSAGES,
    .read = anthropic_read,
    .printer =
        {
            .content_type = "text/event-stream; charset=utf-8",
            .call_prefix = "toolu_",
            .begin = messages_begin,
            .event = messages_event,
            .waiting = messages_waiting,
            .end = messages_end,
            .failed = messages_failed,
        },
};

void handle_messages(exchange *x)
{
    dispatch_start(x, &messages);
}

/* ---- counting ---- */

static void messages_reply_token_count(generation *w)
{
    jw_open(&w->out, '{');
    jw_key_uint(&w->out, "input_tokens", w->prompts[0].n);
    jw_close(&w->out, '}');
    generation_reply(w, 200);
}

static const dialect count = {
    .label = "anthropic",
    .fields = PARAM_IN_MESSAGES,
    .read = anthropic_read_prompt,
    .printer =
        {
            .content_type = EXCHANGE_JSON,
            .call_prefix = "toolu_",
            .rendered = messages_reply_token_count,
        },
};

void handle_count_tokens(exchange *x)
{
    dispatch_start(x, &count);
}
