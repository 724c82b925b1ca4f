/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ollama_chat.c - POST /api/chat and /api/generate: what is sent back, a line at a time.
 *
 * Every line is a whole object with a line end behind it, and nothing else is ever sent: readers
 * of lines take each for JSON. The last one says `done` and has the figures; a reply that is
 * not streamed is that line with all of the answer in it.
 */
#include "server/api/ollama/ollama.h"

#include "base/os.h"
#include "server/request/params.h"
#include "server/api/common/reply_json.h"
#include "server/api/openai/openai.h"
#include "server/api/handlers.h"

#include <stdio.h>
#include <time.h>

enum {
    SILENCE = 5,        /* seconds before an empty line says that all is well */
    MAX_CONTEXT = 65536 /* ids that a reply of generate carries */
};

static const ollama_state *state_of(const generation *w)
{
    return w->request.own;
}

/* ---- time ---- */

void ollama_time_of(int64_t seconds, long nanoseconds, char out[OLLAMA_TIME_BYTES])
{
    const time_t t = (time_t)seconds;
    struct tm tm = {0};
    char date[32];
    gmtime_r(&t, &tm);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, OLLAMA_TIME_BYTES, "%s.%09ldZ", date, nanoseconds);
}

void ollama_time_now(char out[OLLAMA_TIME_BYTES])
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    ollama_time_of(now.tv_sec, now.tv_nsec, out);
}

static void put_duration(strbuf *out, const char *name, double seconds)
{
    jw_key_uint(out, name, seconds > 0 ? (uint64_t)(seconds * 1e9) : 0);
}

/* ---- pieces ---- */

static strbuf *open_line(generation *w)
{
    char now[OLLAMA_TIME_BYTES];
    ollama_time_now(now);
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "model", served_model_name(w->request.served));
    jw_key_text(&w->out, "created_at", now);
    return &w->out;
}

static void put_call(const choice_call *call, size_t index, strbuf *out)
{
    jw_open(out, '{');
    jw_key_text(out, "id", call->id);
    jw_key(out, "function");
    jw_open(out, '{');
    jw_key_uint(out, "index", index);
    jw_key_str(out, "name", strbuf_view(&call->name));
    jw_key(out, "arguments");
    jw_raw(out, strbuf_view(&call->arguments));
    strbuf_text(out, "}}");
}

/* What one line says; thinking and calls only if there are any. */
typedef struct saying {
    str content, thinking;
    const choice_call *calls; /* [n_calls] */
    size_t n_calls, first_call;
} saying;

static void put_saying(const generation *w, const saying *s, strbuf *out)
{
    const bool chat = !state_of(w)->generate;
    if (chat) {
        jw_key(out, "message");
        jw_open(out, '{');
        jw_key_text(out, "role", "assistant");
    }
    jw_key_str(out, chat ? "content" : "response", s->content);
    if (s->thinking.n > 0)
        jw_key_str(out, "thinking", s->thinking);
    if (s->n_calls > 0) {
        jw_key(out, "tool_calls");
        jw_open(out, '[');
        for (size_t i = 0; i < s->n_calls; i++)
            put_call(&s->calls[i], s->first_call + i, out);
        jw_close(out, ']');
    }
    if (chat)
        jw_close(out, '}');
}

static void put_logprobs(const generation *w, const choice *c, size_t from, strbuf *out)
{
    if (!w->request.logprobs || from == c->n_tokens)
        return;
    jw_key(out, "logprobs");
    reply_put_logprobs(c, from, out);
}

static const char *done_reason(stop_cause cause)
{
    const bool by_itself = cause == STOP_EOS || cause == STOP_TEXT || cause == STOP_CALLS;
    return by_itself ? "stop" : "length";
}

static void put_context(const generation *w, const choice *c, strbuf *out)
{
    const sched_result *r = &c->result;
    if (!state_of(w)->generate || state_of(w)->plain || r->tokens == NULL ||
        r->n_tokens > MAX_CONTEXT || w->request.n_shown > 0) /* ids do not bring pictures back */
        return;
    jw_key(out, "context");
    jw_open(out, '[');
    for (size_t i = 0; i < r->n_tokens; i++)
        jw_int(out, r->tokens[i]);
    jw_close(out, ']');
}

static void put_stats(const generation *w, strbuf *out)
{
    const choice *c = &w->choices[0];
    const usage u = generation_usage(w);
    jw_key_bool(out, "done", true);
    jw_key_text(out, "done_reason", done_reason(c->cause));
    put_context(w, c, out);
    put_duration(out, "total_duration", os_now() - w->began);
    put_duration(out, "load_duration", c->result.load_wait);
    jw_key_uint(out, "prompt_eval_count", u.prompt);
    put_duration(out, "prompt_eval_duration", c->result.prefilled - c->result.started);
    jw_key_uint(out, "eval_count", u.out);
    put_duration(out, "eval_duration", c->result.ended - c->result.prefilled);
    generation_put_mote(w, out);
}

static void send_line(generation *w)
{
    strbuf_text(&w->out, "}\n");
    generation_send(w);
}

/* ---- the stream ---- */

static void tell(generation *w, choice *c, const saying *s)
{
    strbuf *out = open_line(w);
    put_saying(w, s, out);
    jw_key_bool(out, "done", false);
    if (c != NULL && s->content.n > 0) {
        put_logprobs(w, c, c->told, out);
        c->told = c->n_tokens;
    }
    send_line(w);
}

static void event(generation *w, choice *c, const chat_event *e)
{
    saying s = {.content = {"", 0}};
    if (e->kind == CHAT_EVENT_REASONING)
        s.thinking = e->text;
    else if (e->kind == CHAT_EVENT_CONTENT)
        s.content = e->text;
    else if (e->kind == CHAT_EVENT_CALL_END) { /* whole: clients of lines know no other way */
        s.first_call = c->n_calls - 1;
        s.calls = &c->calls[s.first_call];
        s.n_calls = 1;
    } else
        return;
    tell(w, c, &s);
}

static void waiting(generation *w, const sched_job_status *where, double silent)
{
    (void)where;
    if (silent >= SILENCE)
        tell(w, NULL, &(saying){.content = {"", 0}});
}

/* ---- the end ---- */

static void end(generation *w)
{
    choice *c = &w->choices[0];
    saying s = {.content = {"", 0}};
    if (!w->streaming) {
        s.content = strbuf_view(&c->content);
        s.thinking = strbuf_view(&c->reasoning);
        s.calls = c->calls;
        s.n_calls = c->n_calls;
    }
    strbuf *out = open_line(w);
    put_saying(w, &s, out);
    put_logprobs(w, c, w->streaming ? c->told : 0, out);
    put_stats(w, out);
    if (w->streaming) {
        send_line(w);
        return;
    }
    jw_close(out, '}');
    generation_reply(w, 200);
}

static void broken(generation *w, const http_error *error)
{
    api_error_print(error, API_OLLAMA, w->request_id, &w->out);
    strbuf_byte(&w->out, '\n');
    generation_send(w);
}

/* Nothing is answered: the model was to be loaded, or the prompt to be shown. */
static void rendered(generation *w)
{
    const ollama_state *state = state_of(w);
    strbuf *out = open_line(w);
    if (state->loaded != NULL) {
        put_saying(w, &(saying){.content = {"", 0}}, out);
        jw_key_bool(out, "done", true);
        jw_key_text(out, "done_reason", state->loaded);
    } else {
        const strbuf *text = &w->prompts[0].text;
        jw_key(out, "_debug_info");
        jw_open(out, '{');
        jw_key_str(out, "rendered_template",
                   state->plain ? w->request.prompts[0] : strbuf_view(text));
        jw_key_uint(out, "image_count", 0);
        jw_close(out, '}');
    }
    jw_close(out, '}');
    generation_reply(w, 200);
}

static const dialect chat = {
    .label = "ollama",
    .content_type = "application/x-ndjson",
    .call_prefix = "call_",
    .place = PARAM_IN_OLLAMA_CHAT,
    .read = ollama_read_chat,
    .rendered = rendered,
    .event = event,
    .waiting = waiting,
    .end = end,
    .broken = broken,
};

static const dialect generate = {
    .label = "ollama",
    .content_type = "application/x-ndjson",
    .call_prefix = "call_",
    .place = PARAM_IN_OLLAMA_GENERATE,
    .read = ollama_read_generate,
    .rendered = rendered,
    .event = event,
    .waiting = waiting,
    .end = end,
    .broken = broken,
};

void handle_ollama_chat(exchange *x)
{
    generation_start(x, &chat);
}

void handle_ollama_generate(exchange *x)
{
    generation_start(x, &generate);
}
