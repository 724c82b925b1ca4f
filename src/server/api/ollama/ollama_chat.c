/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ollama_chat.c - POST /api/chat and /api/generate: replies and streams of JSON lines.
 *
 * Every line is a complete JSON object; comments are not allowed in this format. The last line has
 * `done` and the usage. A reply without stream is that line with the whole answer.
 */
#include "server/api/common/error_format.h"
#include "server/api/ollama/ollama.h"

#include "base/os.h"
#include "server/request/params.h"
#include "server/api/common/reply_json.h"
#include "server/api/openai/openai.h"

#include <stdio.h>
#include <time.h>

enum {
    KEEP_ALIVE_SECONDS = 5, /* without an event, a line with empty content is sent */
    MAX_CONTEXT = 65536     /* a longer `context` is left out */
};

static const ollama_state *ollama_state_of(const generation *w)
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

static void line_put_duration(strbuf *out, const char *name, double seconds)
{
    jw_key_uint(out, name, seconds > 0 ? (uint64_t)(seconds * 1e9) : 0);
}

/* ---- lines ---- */

static strbuf *line_open(generation *w)
{
    char now[OLLAMA_TIME_BYTES];
    ollama_time_now(now);
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "model", model_entry_name(w->request.entry));
    jw_key_text(&w->out, "created_at", now);
    return &w->out;
}

static void line_put_call(const choice_call *call, size_t index, strbuf *out)
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

/* Content of one line; empty thinking and calls are not printed. */
typedef struct line_content {
    str content, thinking;
    const choice_call *calls; /* [n_calls] */
    size_t n_calls, first_call;
} line_content;

static void line_put_content(const generation *w, const line_content *s, strbuf *out)
{
    const bool chat = !ollama_state_of(w)->generate;
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
            line_put_call(&s->calls[i], s->first_call + i, out);
        jw_close(out, ']');
    }
    if (chat)
        jw_close(out, '}');
}

static void line_put_logprobs(const generation *w, const choice *c, size_t from, strbuf *out)
{
    if (!w->request.logprobs || from == c->n_tokens)
        return;
    jw_key(out, "logprobs");
    reply_put_logprobs(c, from, out);
}

static const char *ollama_done_reason(stop_cause cause)
{
    const bool by_itself = cause == STOP_EOS || cause == STOP_TEXT || cause == STOP_CALLS;
    return by_itself ? "stop" : "length";
}

static void line_put_context(const generation *w, const choice *c, strbuf *out)
{
    const sched_result *r = &c->result;
    if (!ollama_state_of(w)->generate || ollama_state_of(w)->plain || r->tokens == NULL ||
        r->n_tokens > MAX_CONTEXT || w->request.n_media > 0) /* ids cannot represent images */
        return;
    jw_key(out, "context");
    jw_open(out, '[');
    for (size_t i = 0; i < r->n_tokens; i++)
        jw_int(out, r->tokens[i]);
    jw_close(out, ']');
}

static void line_put_stats(const generation *w, strbuf *out)
{
    const choice *c = &w->choices[0];
    const usage u = generation_usage(w);
    jw_key_bool(out, "done", true);
    jw_key_text(out, "done_reason", ollama_done_reason(c->cause));
    line_put_context(w, c, out);
    line_put_duration(out, "total_duration", os_now() - w->began);
    line_put_duration(out, "load_duration", w->load_seconds + c->result.load_wait);
    jw_key_uint(out, "prompt_eval_count", u.prompt);
    line_put_duration(out, "prompt_eval_duration", c->result.answer.seconds_prefill);
    jw_key_uint(out, "eval_count", u.out);
    line_put_duration(out, "eval_duration", c->result.answer.seconds_decode);
    generation_put_mote(w, out);
}

static void line_send(generation *w)
{
    strbuf_text(&w->out, "}\n");
    generation_send(w);
}

/* ---- stream ---- */

static void ollama_send_piece(generation *w, choice *c, const line_content *s)
{
    strbuf *out = line_open(w);
    line_put_content(w, s, out);
    jw_key_bool(out, "done", false);
    if (c != NULL && s->content.n > 0) {
        line_put_logprobs(w, c, c->n_sent, out);
        c->n_sent = c->n_tokens;
    }
    line_send(w);
}

static void ollama_event(generation *w, choice *c, const chat_event *e)
{
    line_content s = {.content = {"", 0}};
    if (e->kind == CHAT_EVENT_REASONING)
        s.thinking = e->text;
    else if (e->kind == CHAT_EVENT_CONTENT)
        s.content = e->text;
    else if (e->kind == CHAT_EVENT_CALL_END) { /* the API sends complete calls only */
        s.first_call = c->n_calls - 1;
        s.calls = &c->calls[s.first_call];
        s.n_calls = 1;
    } else
        return;
    ollama_send_piece(w, c, &s);
}

static void ollama_waiting(generation *w, const sched_job_status *where, double silent)
{
    (void)where;
    if (silent >= KEEP_ALIVE_SECONDS)
        ollama_send_piece(w, NULL, &(line_content){.content = {"", 0}});
}

/* An empty piece: clients add it to the answer, and those that know `status` can show it. The state
 * of the dialect does not exist yet. */
static void ollama_put_loading(generation *w, const char *member, const char *progress)
{
    strbuf *out = line_open(w);
    strbuf_text(out, member);
    jw_key_text(out, "status", progress);
    jw_key_bool(out, "done", false);
    line_send(w);
}

static void ollama_chat_loading(generation *w, const char *progress)
{
    ollama_put_loading(w, ",\"message\":{\"role\":\"assistant\",\"content\":\"\"}", progress);
}

static void ollama_generate_loading(generation *w, const char *progress)
{
    ollama_put_loading(w, ",\"response\":\"\"", progress);
}

/* ---- end ---- */

static void ollama_end(generation *w)
{
    choice *c = &w->choices[0];
    line_content s = {.content = {"", 0}};
    if (!w->streaming) {
        s.content = strbuf_view(&c->content);
        s.thinking = strbuf_view(&c->reasoning);
        s.calls = c->calls;
        s.n_calls = c->n_calls;
    }
    strbuf *out = line_open(w);
    line_put_content(w, &s, out);
    line_put_logprobs(w, c, w->streaming ? c->n_sent : 0, out);
    line_put_stats(w, out);
    if (w->streaming) {
        line_send(w);
        return;
    }
    jw_close(out, '}');
    generation_reply(w, 200);
}

static void ollama_failed(generation *w, const http_error *error)
{
    error_format_print(error, API_OLLAMA, w->request_id, &w->out);
    strbuf_byte(&w->out, '\n');
    generation_send(w);
}

/* Reply without generation: the model was loaded, or the prompt is the reply. */
static void ollama_reply_rendered(generation *w)
{
    const ollama_state *state = ollama_state_of(w);
    strbuf *out = line_open(w);
    if (state->loaded != NULL) {
        line_put_content(w, &(line_content){.content = {"", 0}}, out);
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
    .fields = PARAM_IN_OLLAMA_CHAT,
    .read = ollama_read_chat,
    .needs_no_model = ollama_chat_unloads,
    .printer =
        {
            .content_type = "application/x-ndjson",
            .call_prefix = "call_",
            .rendered = ollama_reply_rendered,
            .event = ollama_event,
            .loading = ollama_chat_loading,
            .waiting = ollama_waiting,
            .end = ollama_end,
            .failed = ollama_failed,
        },
};

static const dialect generate = {
    .label = "ollama",
    .fields = PARAM_IN_OLLAMA_GENERATE,
    .read = ollama_read_generate,
    .needs_no_model = ollama_generate_unloads,
    .tokenizes = true,
    .printer =
        {
            .content_type = "application/x-ndjson",
            .call_prefix = "call_",
            .rendered = ollama_reply_rendered,
            .event = ollama_event,
            .loading = ollama_generate_loading,
            .waiting = ollama_waiting,
            .end = ollama_end,
            .failed = ollama_failed,
        },
};

void handle_ollama_chat(exchange *x)
{
    dispatch_start(x, &chat);
}

void handle_ollama_generate(exchange *x)
{
    dispatch_start(x, &generate);
}
