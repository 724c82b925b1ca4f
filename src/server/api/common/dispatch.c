/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dispatch.c - the start of a request: headers, admission by the key's quota, copy of the body,
 * parsing on a worker thread. See dialect.h.
 *
 * The exchange may end while a worker reads, so the worker gets a copy of the body.
 */
#include "server/api/common/dialect.h"

#include "base/mem.h"
#include "base/os.h"
#include "server/auth/quota.h"
#include "server/http/event_loop.h"
#include "server/request/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* Parses a JSON object. false: *error is set. */
static bool body_read(json_doc **doc, str text, http_error *error)
{
    mote_error err;
    const mote_status status = json_doc_read(doc, text, &err);
    if (status == MOTE_E_FORMAT)
        http_error_set(error, HTTP_E_INVALID, "invalid_json", "request body: %s", err.text);
    else if (status != MOTE_OK)
        http_error_from(error, &err);
    else if (!json_node_is(json_doc_root(*doc), JSON_IS_OBJECT))
        http_error_set(error, HTTP_E_INVALID, "invalid_json", "request body must be a JSON object");
    return error->code == NULL;
}

/* ---- generations ---- */

typedef struct dispatch_job {
    generation *w;
    const dialect *dialect;
    strbuf body;
} dispatch_job;

static void dispatch_free(dispatch_job *job)
{
    strbuf_fini(&job->body);
    mem_free(job);
}

static bool header_begins(str value, const char *with)
{
    const size_t n = strlen(with);
    return value.n >= n && strncasecmp(value.p, with, n) == 0;
}

/* Defaults of the server, and headers that change them. */
static void dispatch_read_headers(request *a, const exchange *x)
{
    const request_defaults *o = &a->ctx->defaults;
    const str limit = exchange_header(x, "mote-timeout-ms");
    a->settings = o;
    if (o->preset > 0) {
        a->answer.task = (mote_task)(o->preset - 1);
        a->has_task = true;
    }
    a->admin = exchange_request(x)->admin;
    a->strict = o->strict || str_is(exchange_header(x, "mote-strict"), "1");
    a->no_ext = o->no_ext || str_is(exchange_header(x, "mote-ext"), "0");
    a->codex = header_begins(exchange_header(x, "originator"), "codex") ||
               header_begins(exchange_header(x, "user-agent"), "codex");
    if (limit.n > 0 && limit.n < 10) {
        char digits[12] = {0};
        memcpy(digits, limit.p, limit.n);
        a->seconds = (double)strtoul(digits, NULL, 10) / 1000;
    }
}

/* Does the quota of the key allow another request? Routes that generate nothing are free. */
static bool dispatch_admit(generation *w, http_error *error)
{
    enum { MAX_RETRY_MS = 24 * 3600 * 1000 };
    static const char *const units[QUOTA_KINDS] = {"requests per minute", "tokens per minute",
                                                   "concurrent requests"};
    quota *q = exchange_request(w->x)->quota;
    quota_kind kind;
    uint64_t wait;
    if (q == NULL || w->printer->end == NULL)
        return true;
    if (quota_begin(q, (uint64_t)(1000 * os_now()), &kind, &wait)) {
        w->quota = q;
        return true;
    }
    http_error_set(error, HTTP_E_RATE, "rate_limit_exceeded", "rate limit of the API key: %u %s",
                   q->most[kind], units[kind]);
    error->retry_ms = (unsigned)(wait < MAX_RETRY_MS ? wait : MAX_RETRY_MS);
    return false;
}

static bool dispatch_read_request(request *a, const dialect *d, http_error *error)
{
    const bool ollama = (d->fields & (PARAM_IN_OLLAMA | PARAM_IN_OLLAMA_EMBED)) != 0;
    const json_node *stream_options = NULL;
    request_choose(a, request_name_in(a->root, ollama));
    const param_limits limits = param_limits_of(a->served);
    if (!params_read(a, a->root, d->fields, "", &limits, error))
        return false;
    if ((d->fields & PARAM_IN_OPENAI) != 0)
        stream_options = json_node_get(a->root, "stream_options");
    return params_read(a, stream_options, PARAM_IN_STREAM_OPTIONS, "stream_options", &limits,
                       error) &&
           request_keep_alive(a, error) && d->read(a, error) && params_settle(a, error);
}

/* Worker thread. Without images and videos, one call parses and prepares. */
static void dispatch_read(void *with)
{
    dispatch_job *job = with;
    generation *w = job->w;
    request *a = &w->request;
    const bool read = body_read(&a->body, strbuf_view(&job->body), &w->error);
    strbuf_fini(&job->body);
    if (!read)
        return;
    a->root = json_doc_root(a->body);
    if (json_doc_repeats(a->body))
        request_warn(a, "duplicate_key", "/");
    if (!dispatch_read_request(a, job->dialect, &w->error))
        return;
    const uint64_t most = served_model_context(a->served);
    w->context = a->context_limit > 0 && a->context_limit < most ? a->context_limit : most;
    if (a->n_media == 0)
        generation_prepare(w);
}

static void dispatch_done(void *with)
{
    dispatch_job *job = with;
    generation *w = job->w;
    dispatch_free(job);
    generation_run(w);
}

void dispatch_start(exchange *x, const dialect *d)
{
    http_error error = {0};
    http_error_no_memory(&error);
    dispatch_job *job = mem_new(1, sizeof *job);
    generation *w = job != NULL ? generation_new(x, d->label, &d->printer) : NULL;
    if (w == NULL) {
        mem_free(job);
        exchange_fail(x, &error);
        return;
    }
    *job = (dispatch_job){.w = w, .dialect = d};
    strbuf_put(&job->body, exchange_request(x)->body);
    dispatch_read_headers(&w->request, x);
    if (!job->body.failed && dispatch_admit(w, &error) &&
        event_loop_work(w->ctx->loop, dispatch_read, dispatch_done, job))
        return;
    dispatch_free(job);
    generation_fail(w, &error);
    generation_release(w);
}

/* ---- background jobs ---- */

static void background_free(background_job *s)
{
    json_doc_free(s->doc);
    strbuf_fini(&s->text);
    strbuf_fini(&s->tail);
    strbuf_fini(&s->out);
    mem_free(s);
}

/* Worker thread. */
static void background_run(void *with)
{
    background_job *s = with;
    if (s->text.n > 0 && body_read(&s->doc, strbuf_view(&s->text), &s->error))
        s->body = json_doc_root(s->doc);
    if (s->error.code == NULL)
        s->run(s);
    if (s->out.failed)
        http_error_no_memory(&s->error);
}

static void background_done(void *with)
{
    background_job *s = with;
    exchange *x = s->x;
    if (x != NULL && s->error.code != NULL)
        exchange_fail(x, &s->error);
    else if (x != NULL)
        exchange_reply(x, 200, s->content_type, strbuf_view(&s->out));
    background_free(s);
}

static void background_on_gone(void *with)
{
    background_job *s = with;
    s->x = NULL;
}

void background_start(exchange *x, void (*run)(background_job *s), bool with_body)
{
    background_job *s = mem_new(1, sizeof *s);
    http_error error;
    http_error_no_memory(&error);
    if (s == NULL) {
        exchange_fail(x, &error);
        return;
    }
    s->ctx = exchange_context(x);
    s->ns = exchange_request(x)->ns;
    s->admin = exchange_request(x)->admin;
    s->x = x;
    s->run = run;
    s->content_type = EXCHANGE_JSON;
    strbuf_put(&s->tail, exchange_request(x)->tail);
    if (with_body) {
        strbuf_put(&s->text, exchange_request(x)->body);
        if (s->text.n == 0) /* an empty body is reported as invalid JSON */
            strbuf_byte(&s->text, ' ');
    }
    exchange_on_gone(x, background_on_gone, s);
    if (s->text.failed || s->tail.failed ||
        !event_loop_work(s->ctx->loop, background_run, background_done, s)) {
        exchange_fail(x, &error);
        background_free(s);
    }
}

bool background_text(background_job *s, const char *name, str *out)
{
    const json_node *node = json_node_get(s->body, name);
    *out = json_node_text(node);
    if (json_node_is(node, JSON_IS_STRING))
        return true;
    if (!node_given(node))
        return request_missing(&s->error, name);
    return http_error_invalid(&s->error, name, "must be a string");
}
