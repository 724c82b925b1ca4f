/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dialect_anthropic.c - POST /v1/messages and /v1/messages/count_tokens: what is sent back.
 *
 * A stream is a row of blocks, one after another and never one inside another: thinking, text,
 * calls. A block begins when its first piece comes, and ends when one of another kind does.
 */
#include "server/dialects/dialect_anthropic.h"

#include "server/answer/params.h"
#include "server/handlers.h"

static anthropic_state *state_of(const answering *w)
{
    return w->ask.own;
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
static void put_signature(const answering *w, strbuf *out)
{
    jp_key(out, "signature");
    strbuf_text(out, "\"mote.");
    jp_escaped(out, str_of(w->id + strlen("msg_")));
    strbuf_byte(out, '"');
}

/* What was read and what was there already; both come before the answer. */
static void put_input_usage(strbuf *out, uint64_t read, uint64_t cached)
{
    jp_key_uint(out, "input_tokens", read);
    jp_key_uint(out, "cache_creation_input_tokens", 0);
    jp_key_uint(out, "cache_read_input_tokens", cached);
}

static void put_output_usage(strbuf *out, const usage *u)
{
    jp_key_uint(out, "output_tokens", u->out);
    jp_key(out, "output_tokens_details");
    jp_open(out, '{');
    jp_key_uint(out, "thinking_tokens", u->think);
    jp_close(out, '}');
}

static void put_usage_rest(strbuf *out)
{
    jp_key_null(out, "server_tool_use");
    jp_key_text(out, "service_tier", "standard");
    jp_key_null(out, "inference_geo");
    jp_key_null(out, "speed");
}

static void put_stop(const answering *w, strbuf *out)
{
    const choice *c = &w->choices[0];
    jp_key_text(out, "stop_reason", stop_reason(c->cause));
    jp_key_text(out, "stop_sequence", c->cause == STOP_TEXT ? answering_stop_text(c) : NULL);
    jp_key_null(out, "stop_details");
    jp_key_null(out, "container");
}

static void put_head(answering *w, strbuf *out)
{
    if (w->id[0] == 0)
        answering_random_id(w->id, sizeof w->id, "msg_");
    jp_key_text(out, "id", w->id);
    jp_key_text(out, "type", "message");
    jp_key_text(out, "role", "assistant");
    jp_key_text(out, "model", served_name(w->ask.served));
}

/* ---- the whole message ---- */

static void put_thinking_block(const answering *w, str text, strbuf *out)
{
    jp_open(out, '{');
    jp_key_text(out, "type", "thinking");
    jp_key_str(out, "thinking", state_of(w)->omit_thinking ? (str){"", 0} : text);
    put_signature(w, out);
    jp_close(out, '}');
}

static void put_text_block(str text, strbuf *out)
{
    jp_open(out, '{');
    jp_key_text(out, "type", "text");
    jp_key_str(out, "text", text);
    jp_key_null(out, "citations");
    jp_close(out, '}');
}

static void put_call_block(const made_call *call, strbuf *out)
{
    jp_open(out, '{');
    jp_key_text(out, "type", "tool_use");
    jp_key_text(out, "id", call->id);
    jp_key_str(out, "name", strbuf_view(&call->name));
    jp_key(out, "input");
    jp_raw(out, strbuf_view(&call->arguments));
    jp_key_raw(out, "caller", "{\"type\":\"direct\"}");
    jp_close(out, '}');
}

static void reply_whole(answering *w)
{
    const choice *c = &w->choices[0];
    const usage u = answering_usage(w);
    strbuf *out = &w->out;
    jp_open(out, '{');
    put_head(w, out);
    jp_key(out, "content");
    jp_open(out, '[');
    if (c->reasoning.n > 0)
        put_thinking_block(w, strbuf_view(&c->reasoning), out);
    if (c->content.n > 0 || (c->reasoning.n == 0 && c->n_calls == 0))
        put_text_block(strbuf_view(&c->content), out);
    for (size_t i = 0; i < c->n_calls; i++)
        put_call_block(&c->calls[i], out);
    jp_close(out, ']');
    put_stop(w, out);
    jp_key_null(out, "diagnostics");
    jp_key(out, "usage");
    jp_open(out, '{');
    put_input_usage(out, u.prompt - u.cached, u.cached);
    jp_key_null(out, "cache_creation");
    put_output_usage(out, &u);
    put_usage_rest(out);
    jp_close(out, '}');
    answering_put_mote(w, out);
    jp_close(out, '}');
    answering_reply(w, 200);
}

/* ---- the stream ---- */

/* `{"type":NAME` in w->out, to be continued and sent. */
static strbuf *open_event(answering *w, const char *name)
{
    jp_open(&w->out, '{');
    jp_key_text(&w->out, "type", name);
    return &w->out;
}

static void send_event(answering *w, const char *name)
{
    jp_close(&w->out, '}');
    answering_sse(w, name);
}

static void ping(answering *w)
{
    open_event(w, "ping");
    send_event(w, "ping");
}

static void begin(answering *w)
{
    strbuf *out = open_event(w, "message_start");
    jp_key(out, "message");
    jp_open(out, '{');
    put_head(w, out);
    jp_key_raw(out, "content", "[]");
    jp_key_null(out, "stop_reason");
    jp_key_null(out, "stop_sequence");
    jp_key_null(out, "stop_details");
    jp_key_null(out, "container");
    jp_key_null(out, "diagnostics");
    jp_key(out, "usage");
    jp_open(out, '{');
    put_input_usage(out, w->prompts[0].n, 0);
    jp_key_null(out, "cache_creation");
    jp_key_uint(out, "output_tokens", 1);
    put_usage_rest(out);
    strbuf_text(out, "}}");
    send_event(w, "message_start");
    ping(w);
}

/* `"content_block":{"type":TYPE` of the next block, to be continued. */
static strbuf *open_block(answering *w, const char *type)
{
    strbuf *out = open_event(w, "content_block_start");
    jp_key_uint(out, "index", state_of(w)->blocks++);
    jp_key(out, "content_block");
    jp_open(out, '{');
    jp_key_text(out, "type", type);
    return out;
}

static void send_block_start(answering *w)
{
    jp_close(&w->out, '}');
    send_event(w, "content_block_start");
}

/* `"delta":{"type":TYPE` of the block that is open, to be continued. */
static strbuf *open_delta(answering *w, const char *type)
{
    strbuf *out = open_event(w, "content_block_delta");
    jp_key_uint(out, "index", state_of(w)->blocks - 1);
    jp_key(out, "delta");
    jp_open(out, '{');
    jp_key_text(out, "type", type);
    return out;
}

static void send_delta(answering *w)
{
    jp_close(&w->out, '}');
    send_event(w, "content_block_delta");
}

static void close_block(answering *w)
{
    anthropic_state *s = state_of(w);
    if (s->open == BLOCK_NONE)
        return;
    if (s->open == BLOCK_THINKING) {
        put_signature(w, open_delta(w, "signature_delta"));
        send_delta(w);
    }
    jp_key_uint(open_event(w, "content_block_stop"), "index", s->blocks - 1);
    send_event(w, "content_block_stop");
    s->open = BLOCK_NONE;
}

static void be_in(answering *w, anthropic_block block)
{
    anthropic_state *s = state_of(w);
    if (s->open == block)
        return;
    close_block(w);
    strbuf *out = open_block(w, block == BLOCK_THINKING ? "thinking" : "text");
    jp_key_text(out, block == BLOCK_THINKING ? "thinking" : "text", "");
    if (block == BLOCK_THINKING)
        jp_key_text(out, "signature", "");
    send_block_start(w);
    s->open = block;
}

static void open_call(answering *w, const made_call *call)
{
    close_block(w);
    strbuf *out = open_block(w, "tool_use");
    jp_key_text(out, "id", call->id);
    jp_key_str(out, "name", strbuf_view(&call->name));
    jp_key_raw(out, "input", "{}");
    send_block_start(w);
    state_of(w)->open = BLOCK_CALL;
}

static void event(answering *w, choice *c, const chat_event *e)
{
    switch (e->kind) {
    case CHAT_EVENT_REASONING:
        be_in(w, BLOCK_THINKING);
        if (state_of(w)->omit_thinking)
            return;
        jp_key_str(open_delta(w, "thinking_delta"), "thinking", e->text);
        send_delta(w);
        return;
    case CHAT_EVENT_CONTENT:
        be_in(w, BLOCK_TEXT);
        jp_key_str(open_delta(w, "text_delta"), "text", e->text);
        send_delta(w);
        return;
    case CHAT_EVENT_CALL_START: open_call(w, &c->open); return;
    case CHAT_EVENT_CALL_ARGUMENTS:
        jp_key_str(open_delta(w, "input_json_delta"), "partial_json", e->text);
        send_delta(w);
        return;
    case CHAT_EVENT_CALL_END:
    case CHAT_EVENT_CALL_CANCEL: close_block(w); return;
    default: return;
    }
}

static void waiting(answering *w, const sched_where *where, double silent)
{
    enum { PING_SECONDS = 5 };
    if (silent >= PING_SECONDS)
        ping(w);
    else
        answering_put_where(w, where);
}

static void end_stream(answering *w)
{
    const usage u = answering_usage(w);
    if (state_of(w)->blocks == 0)
        be_in(w, BLOCK_TEXT);
    close_block(w);
    strbuf *out = open_event(w, "message_delta");
    jp_key(out, "delta");
    jp_open(out, '{');
    put_stop(w, out);
    jp_close(out, '}');
    jp_key(out, "usage");
    jp_open(out, '{');
    put_input_usage(out, u.prompt - u.cached, u.cached);
    put_output_usage(out, &u);
    jp_close(out, '}');
    answering_put_mote(w, out);
    send_event(w, "message_delta");
    open_event(w, "message_stop");
    send_event(w, "message_stop");
}

static void end(answering *w)
{
    if (w->streaming)
        end_stream(w);
    else
        reply_whole(w);
}

static void broken(answering *w, const api_error *error)
{
    api_error_print(error, API_ANTHROPIC, w->request_id, &w->out);
    answering_sse(w, "error");
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
    answering_start(x, &messages);
}

/* ---- counting ---- */

static void counted(answering *w)
{
    jp_open(&w->out, '{');
    jp_key_uint(&w->out, "input_tokens", w->prompts[0].n);
    jp_close(&w->out, '}');
    answering_reply(w, 200);
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
    answering_start(x, &count);
}
