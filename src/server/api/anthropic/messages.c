/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages.c - POST /v1/messages and /v1/messages/count_tokens: what is sent back.
 *
 * A stream is a row of blocks, one after another and never one inside another: thinking, text,
 * calls. A block begins when its first piece comes, and ends when one of another kind does.
 */
#include "server/api/anthropic/anthropic.h"

#include "server/request/params.h"
#include "server/api/handlers.h"

static anthropic_state *state_of(const generation *w)
{
    return w->request.own;
}

/* ---- pieces that both forms have ---- */

static const char *stop_reason(stop_cause cause)
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

/* Clients send it back unread; it only has to be there. */
static void put_signature(const generation *w, strbuf *out)
{
    jw_key(out, "signature");
    strbuf_text(out, "\"mote.");
    jw_escaped(out, str_of(w->id + strlen("msg_")));
    strbuf_byte(out, '"');
}

/* What was read and what was there already; both come before the answer. */
static void put_input_usage(strbuf *out, uint64_t read, uint64_t cached)
{
    jw_key_uint(out, "input_tokens", read);
    jw_key_uint(out, "cache_creation_input_tokens", 0);
    jw_key_uint(out, "cache_read_input_tokens", cached);
}

static void put_output_usage(strbuf *out, const usage *u)
{
    jw_key_uint(out, "output_tokens", u->out);
    jw_key(out, "output_tokens_details");
    jw_open(out, '{');
    jw_key_uint(out, "thinking_tokens", u->think);
    jw_close(out, '}');
}

static void put_usage_rest(strbuf *out)
{
    jw_key_null(out, "server_tool_use");
    jw_key_text(out, "service_tier", "standard");
    jw_key_null(out, "inference_geo");
    jw_key_null(out, "speed");
}

static void put_stop(const generation *w, strbuf *out)
{
    const choice *c = &w->choices[0];
    jw_key_text(out, "stop_reason", stop_reason(c->cause));
    jw_key_text(out, "stop_sequence", c->cause == STOP_TEXT ? generation_stop_text(c) : NULL);
    jw_key_null(out, "stop_details");
    jw_key_null(out, "container");
}

static void put_head(generation *w, strbuf *out)
{
    if (w->id[0] == 0)
        generation_random_id(w->id, sizeof w->id, "msg_");
    jw_key_text(out, "id", w->id);
    jw_key_text(out, "type", "message");
    jw_key_text(out, "role", "assistant");
    jw_key_text(out, "model", served_model_name(w->request.served));
}

/* ---- the whole message ---- */

static void put_thinking_block(const generation *w, str text, strbuf *out)
{
    jw_open(out, '{');
    jw_key_text(out, "type", "thinking");
    jw_key_str(out, "thinking", state_of(w)->omit_thinking ? (str){"", 0} : text);
    put_signature(w, out);
    jw_close(out, '}');
}

static void put_text_block(str text, strbuf *out)
{
    jw_open(out, '{');
    jw_key_text(out, "type", "text");
    jw_key_str(out, "text", text);
    jw_key_null(out, "citations");
    jw_close(out, '}');
}

static void put_call_block(const choice_call *call, strbuf *out)
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

static void reply_whole(generation *w)
{
    const choice *c = &w->choices[0];
    const usage u = generation_usage(w);
    strbuf *out = &w->out;
    jw_open(out, '{');
    put_head(w, out);
    jw_key(out, "content");
    jw_open(out, '[');
    if (c->reasoning.n > 0)
        put_thinking_block(w, strbuf_view(&c->reasoning), out);
    if (c->content.n > 0 || (c->reasoning.n == 0 && c->n_calls == 0))
        put_text_block(strbuf_view(&c->content), out);
    for (size_t i = 0; i < c->n_calls; i++)
        put_call_block(&c->calls[i], out);
    jw_close(out, ']');
    put_stop(w, out);
    jw_key_null(out, "diagnostics");
    jw_key(out, "usage");
    jw_open(out, '{');
    put_input_usage(out, u.prompt - u.cached, u.cached);
    jw_key_null(out, "cache_creation");
    put_output_usage(out, &u);
    put_usage_rest(out);
    jw_close(out, '}');
    generation_put_mote(w, out);
    jw_close(out, '}');
    generation_reply(w, 200);
}

/* ---- the stream ---- */

/* `{"type":NAME` in w->out, to be continued and sent. */
static strbuf *open_event(generation *w, const char *name)
{
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "type", name);
    return &w->out;
}

static void send_event(generation *w, const char *name)
{
    jw_close(&w->out, '}');
    generation_sse(w, name);
}

static void ping(generation *w)
{
    open_event(w, "ping");
    send_event(w, "ping");
}

static void begin(generation *w)
{
    strbuf *out = open_event(w, "message_start");
    jw_key(out, "message");
    jw_open(out, '{');
    put_head(w, out);
    jw_key_raw(out, "content", "[]");
    jw_key_null(out, "stop_reason");
    jw_key_null(out, "stop_sequence");
    jw_key_null(out, "stop_details");
    jw_key_null(out, "container");
    jw_key_null(out, "diagnostics");
    jw_key(out, "usage");
    jw_open(out, '{');
    put_input_usage(out, w->prompts[0].n, 0);
    jw_key_null(out, "cache_creation");
    jw_key_uint(out, "output_tokens", 1);
    put_usage_rest(out);
    strbuf_text(out, "}}");
    send_event(w, "message_start");
    ping(w);
}

/* `"content_block":{"type":TYPE` of the next block, to be continued. */
static strbuf *open_block(generation *w, const char *type)
{
    strbuf *out = open_event(w, "content_block_start");
    jw_key_uint(out, "index", state_of(w)->blocks++);
    jw_key(out, "content_block");
    jw_open(out, '{');
    jw_key_text(out, "type", type);
    return out;
}

static void send_block_start(generation *w)
{
    jw_close(&w->out, '}');
    send_event(w, "content_block_start");
}

/* `"delta":{"type":TYPE` of the block that is open, to be continued. */
static strbuf *open_delta(generation *w, const char *type)
{
    strbuf *out = open_event(w, "content_block_delta");
    jw_key_uint(out, "index", state_of(w)->blocks - 1);
    jw_key(out, "delta");
    jw_open(out, '{');
    jw_key_text(out, "type", type);
    return out;
}

static void send_delta(generation *w)
{
    jw_close(&w->out, '}');
    send_event(w, "content_block_delta");
}

static void close_block(generation *w)
{
    anthropic_state *s = state_of(w);
    if (s->open == BLOCK_NONE)
        return;
    if (s->open == BLOCK_THINKING) {
        put_signature(w, open_delta(w, "signature_delta"));
        send_delta(w);
    }
    jw_key_uint(open_event(w, "content_block_stop"), "index", s->blocks - 1);
    send_event(w, "content_block_stop");
    s->open = BLOCK_NONE;
}

static void be_in(generation *w, anthropic_block block)
{
    anthropic_state *s = state_of(w);
    if (s->open == block)
        return;
    close_block(w);
    strbuf *out = open_block(w, block == BLOCK_THINKING ? "thinking" : "text");
    jw_key_text(out, block == BLOCK_THINKING ? "thinking" : "text", "");
    if (block == BLOCK_THINKING)
        jw_key_text(out, "signature", "");
    send_block_start(w);
    s->open = block;
}

static void open_call(generation *w, const choice_call *call)
{
    close_block(w);
    strbuf *out = open_block(w, "tool_use");
    jw_key_text(out, "id", call->id);
    jw_key_str(out, "name", strbuf_view(&call->name));
    jw_key_raw(out, "input", "{}");
    send_block_start(w);
    state_of(w)->open = BLOCK_CALL;
}

static void event(generation *w, choice *c, const chat_event *e)
{
    switch (e->kind) {
    case CHAT_EVENT_REASONING:
        be_in(w, BLOCK_THINKING);
        if (state_of(w)->omit_thinking)
            return;
        jw_key_str(open_delta(w, "thinking_delta"), "thinking", e->text);
        send_delta(w);
        return;
    case CHAT_EVENT_CONTENT:
        be_in(w, BLOCK_TEXT);
        jw_key_str(open_delta(w, "text_delta"), "text", e->text);
        send_delta(w);
        return;
    case CHAT_EVENT_CALL_START: open_call(w, &c->open); return;
    case CHAT_EVENT_CALL_ARGUMENTS:
        jw_key_str(open_delta(w, "input_json_delta"), "partial_json", e->text);
        send_delta(w);
        return;
    case CHAT_EVENT_CALL_END:
    case CHAT_EVENT_CALL_CANCEL: close_block(w); return;
    default: return;
    }
}

static void waiting(generation *w, const sched_job_status *where, double silent)
{
    enum { PING_SECONDS = 5 };
    if (silent >= PING_SECONDS)
        ping(w);
    else
        generation_put_where(w, where);
}

static void end_stream(generation *w)
{
    const usage u = generation_usage(w);
    if (state_of(w)->blocks == 0)
        be_in(w, BLOCK_TEXT);
    close_block(w);
    strbuf *out = open_event(w, "message_delta");
    jw_key(out, "delta");
    jw_open(out, '{');
    put_stop(w, out);
    jw_close(out, '}');
    jw_key(out, "usage");
    jw_open(out, '{');
    put_input_usage(out, u.prompt - u.cached, u.cached);
    put_output_usage(out, &u);
    jw_close(out, '}');
    generation_put_mote(w, out);
    send_event(w, "message_delta");
    open_event(w, "message_stop");
    send_event(w, "message_stop");
}

static void end(generation *w)
{
    if (w->streaming)
        end_stream(w);
    else
        reply_whole(w);
}

static void broken(generation *w, const http_error *error)
{
    api_error_print(error, API_ANTHROPIC, w->request_id, &w->out);
    generation_sse(w, "error");
}

static const dialect messages = {
    .label = "anthropic",
    .content_type = "text/event-stream; charset=utf-8",
    .call_prefix = "toolu_",
    .place = PARAM_IN_MESSAGES,
    .read = anthropic_read,
    .begin = begin,
    .event = event,
    .waiting = waiting,
    .end = end,
    .broken = broken,
};

void handle_messages(exchange *x)
{
    generation_start(x, &messages);
}

/* ---- counting ---- */

static void counted(generation *w)
{
    jw_open(&w->out, '{');
    jw_key_uint(&w->out, "input_tokens", w->prompts[0].n);
    jw_close(&w->out, '}');
    generation_reply(w, 200);
}

static const dialect count = {
    .label = "anthropic",
    .content_type = EXCHANGE_JSON,
    .call_prefix = "toolu_",
    .place = PARAM_IN_MESSAGES,
    .read = anthropic_read_prompt,
    .rendered = counted,
};

void handle_count_tokens(exchange *x)
{
    generation_start(x, &count);
}
