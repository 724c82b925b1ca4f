/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dispatch.c - the start of a request: headers, admission by the key's quota, parsing on a worker
 * thread. See dialect.h.
 *
 * The exchange may end while a worker reads, so the worker takes the body. Parsing is cheap and
 * tokenizing is not, so a request with a long text is prepared as separate work (generation_run).
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

enum { PARSE_SPEED = 16 }; /* compared with the slowest tokenization */

bool body_read(json_doc **doc, str text, http_error *error)
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

/* ---- quotas ---- */

/* Does the quota of the key allow another request? NULL: the key has none. */
static bool quota_admit(struct quota *q, http_error *error)
{
    enum { MAX_RETRY_MS = 24 * 3600 * 1000 };
    static const char *const units[QUOTA_KINDS] = {"requests per minute", "tokens per minute",
                                                   "concurrent requests"};
    quota_kind kind;
    uint64_t wait;
    if (q == NULL || quota_begin(q, (uint64_t)(1000 * os_now()), &kind, &wait))
        return true;
    http_error_set(error, HTTP_E_RATE, "rate_limit_exceeded", "rate limit of the API key: %u %s",
                   q->most[kind], units[kind]);
    error->retry_ms = (unsigned)(wait < MAX_RETRY_MS ? wait : MAX_RETRY_MS);
    return false;
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

static bool dispatch_admit(generation *w, http_error *error)
{
    quota *q = exchange_request(w->x)->quota;
    if (!quota_admit(q, error))
        return false;
    w->quota = q;
    return true;
}

static bool dialect_is_ollama(const dialect *d)
{
    return (d->fields & (PARAM_IN_OLLAMA | PARAM_IN_OLLAMA_EMBED)) != 0;
}

/* Finds the model of the body and takes a lease if it is loaded. */
static bool model_choose(request *a, str name, http_error *error)
{
    request_find_model(a, name);
    if (a->entry == NULL)
        return request_no_model(a, name, error);
    served_model *served = model_lease_try(a->entry);
    if (served != NULL)
        request_use_model(a, served);
    return true;
}

static bool dispatch_read_request(request *a, const dialect *d, http_error *error)
{
    const json_node *stream_options = NULL, *mote = NULL;
    const param_limits limits = param_limits_of(a->served);
    if (!params_read(a, a->root, d->fields, "", &limits, error))
        return false;
    if ((d->fields & PARAM_IN_OPENAI) != 0)
        stream_options = json_node_get(a->root, "stream_options");
    if ((d->fields & PARAM_IN_ANSWERS) != 0)
        mote = json_node_get(a->root, "mote");
    return params_read(a, stream_options, PARAM_IN_STREAM_OPTIONS, "stream_options", &limits,
                       error) &&
           params_read(a, mote, PARAM_IN_MOTE, "mote", &limits, error) &&
           request_keep_alive(a, error) && d->read(a, error) && params_settle(a, error);
}

/* Worker thread: reads the body up to the name of the model. */
static bool dispatch_read_body(dispatch_job *job)
{
    generation *w = job->w;
    request *a = &w->request;
    const bool read = body_read(&a->body, strbuf_view(&job->body), &w->error);
    strbuf_fini(&job->body);
    if (!read)
        return false;
    a->root = json_doc_root(a->body);
    if (json_doc_repeats(a->body))
        request_warn(a, "duplicate_key", "/");
    return model_choose(a, request_name_in(a->root, dialect_is_ollama(job->dialect)), &w->error);
}

/* Worker thread, called again after a load. A request with little text and without images is also
 * prepared here. */
static void dispatch_read(void *with)
{
    dispatch_job *job = with;
    generation *w = job->w;
    request *a = &w->request;
    if (atomic_load(&w->gone) || (a->body == NULL && !dispatch_read_body(job)))
        return;
    if (a->served == NULL && job->dialect->needs_no_model != NULL)
        w->prepared = job->dialect->needs_no_model(a);
    if (a->served == NULL || !dispatch_read_request(a, job->dialect, &w->error))
        return;
    const uint64_t most = served_model_context(a->served);
    w->context = a->context_limit > 0 && a->context_limit < most ? a->context_limit : most;
    if (a->n_media == 0 && !a->load &&
        (job->dialect->tokenizes || generation_text_bytes(w) <= WORK_SHORT))
        generation_prepare(w);
}

static void dispatch_done(void *with);

/* The model is loaded, or the wait has failed, or the client has disconnected. */
static void dispatch_loaded(void *with)
{
    dispatch_job *job = with;
    generation *w = job->w;
    const bool tokenizes = job->dialect->tokenizes;
    if (w->x != NULL && w->error.code == NULL) {
        w->work = job;
        if (event_loop_work(w->ctx->loop, tokenizes ? w->bytes : w->bytes / PARSE_SPEED,
                            dispatch_read, dispatch_done, job))
            return;
        w->work = NULL;
        http_error_no_memory(&w->error);
    }
    dispatch_free(job);
    generation_run(w);
}

static void dispatch_done(void *with)
{
    dispatch_job *job = with;
    generation *w = job->w;
    w->work = NULL;
    if (w->x != NULL && w->error.code == NULL && w->request.served == NULL && !w->prepared) {
        generation_wait_for_model(w, dispatch_loaded, job);
        return;
    }
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
    *job = (dispatch_job){.w = w, .dialect = d, .body = exchange_take_body(x)};
    w->bytes = job->body.n;
    w->streams_by_default = dialect_is_ollama(d);
    dispatch_read_headers(&w->request, x);
    w->work = job;
    if (dispatch_admit(w, &error) &&
        event_loop_work(w->ctx->loop, d->tokenizes ? w->bytes : w->bytes / PARSE_SPEED,
                        dispatch_read, dispatch_done, job))
        return;
    w->work = NULL;
    dispatch_free(job);
    generation_fail(w, &error);
    generation_release(w);
}

/* ---- background jobs ---- */

static void background_free(background_job *s)
{
    request_fini(&s->request);
    json_doc_free(s->doc);
    strbuf_fini(&s->text);
    strbuf_fini(&s->tail);
    strbuf_fini(&s->query);
    strbuf_fini(&s->out);
    mem_free(s);
}

/* Worker thread. */
static void background_run(void *with)
{
    background_job *s = with;
    if (!background_goes_on(s))
        return;
    if (!s->raw && s->body == NULL && s->text.n > 0 &&
        body_read(&s->doc, strbuf_view(&s->text), &s->error)) {
        s->body = json_doc_root(s->doc);
        if (s->with_model)
            model_choose(&s->request, request_name_in(s->body, false), &s->error);
    }
    if (s->error.code == NULL && (!s->with_model || s->request.served != NULL))
        s->run(s);
    if (s->out.failed)
        http_error_no_memory(&s->error);
}

static void background_done(void *with);

/* The `done` function of the wait for the model. */
static void background_loaded(void *with)
{
    background_job *s = with;
    s->waiting = false;
    if (s->wait.served != NULL)
        request_use_model(&s->request, s->wait.served);
    else
        generation_load_error(&s->wait, &s->error);
    if (s->error.code == NULL &&
        event_loop_work(s->ctx->loop, s->bytes, background_run, background_done, s))
        return;
    if (s->error.code == NULL)
        http_error_no_memory(&s->error);
    background_done(s);
}

static bool background_wait(background_job *s)
{
    s->wait = (model_wait){.entry = s->request.entry, .done = background_loaded, .with = s};
    s->waiting = model_wait_begin(&s->wait);
    if (!s->waiting)
        generation_load_queue_full(&s->error);
    return s->waiting;
}

/* The `done` function of the unload. */
static void background_unloaded(void *with)
{
    background_job *s = with;
    s->unloading = false;
    s->unload.entry = NULL;
    s->unloaded(s);
    background_done(s);
}

static void background_unload(background_job *s)
{
    s->unload.done = background_unloaded;
    s->unload.with = s;
    s->unloading = true;
    model_unload_begin(&s->unload);
}

static void background_done(void *with)
{
    background_job *s = with;
    exchange *x = s->x;
    if (x != NULL && s->error.code == NULL && s->with_model && s->request.served == NULL &&
        background_wait(s))
        return;
    if (x != NULL && s->error.code == NULL && s->unload.entry != NULL) {
        background_unload(s);
        return;
    }
    if (s->quota != NULL)
        quota_end(s->quota, (uint64_t)(1000 * os_now()), s->bytes / QUOTA_BYTES_PER_TOKEN);
    if (x != NULL && s->error.code != NULL)
        exchange_fail(x, &s->error);
    else if (x != NULL)
        exchange_reply(x, 200, s->content_type, strbuf_view(&s->out));
    background_free(s);
}

static void background_on_disconnect(void *with)
{
    background_job *s = with;
    s->x = NULL;
    atomic_store(&s->gone, true);
    if (s->waiting || s->unloading) {
        if (s->waiting)
            model_wait_cancel(&s->wait);
        else
            model_unload_cancel(&s->unload);
        background_done(s);
        return;
    }
    event_loop_cancel_work(s->ctx->loop, s);
}

bool background_goes_on(void *s)
{
    return !atomic_load(&((background_job *)s)->gone);
}

static void background_begin(exchange *x, void (*run)(background_job *s), bool with_body,
                             bool with_model, bool raw, struct quota *charged)
{
    background_job *s = mem_new(1, sizeof *s);
    http_error error;
    http_error_no_memory(&error);
    if (s == NULL || !quota_admit(charged, &error)) {
        mem_free(s);
        exchange_fail(x, &error);
        return;
    }
    s->quota = charged;
    s->ctx = exchange_context(x);
    s->ns = exchange_request(x)->ns;
    s->client = exchange_request(x)->client;
    s->admin = exchange_request(x)->admin;
    s->x = x;
    s->run = run;
    s->with_model = with_model;
    s->request = (request){.ctx = s->ctx, .hook = background_goes_on, .hook_ctx = s};
    s->content_type = EXCHANGE_JSON;
    s->raw = raw;
    strbuf_put(&s->tail, exchange_request(x)->tail);
    strbuf_put(&s->query, exchange_request(x)->query);
    if (with_body) {
        s->text = exchange_take_body(x);
        s->bytes = s->text.n;
        if (s->text.n == 0) /* an empty body is reported as invalid JSON */
            strbuf_byte(&s->text, ' ');
    }
    exchange_on_disconnect(x, background_on_disconnect, s);
    if (s->text.failed || s->tail.failed || s->query.failed ||
        !event_loop_work(s->ctx->loop, s->bytes, background_run, background_done, s)) {
        http_error_no_memory(&s->error);
        background_done(s);
    }
}

void background_start(exchange *x, void (*run)(background_job *s), bool with_body)
{
    background_begin(x, run, with_body, false, false, NULL);
}

void background_start_raw(exchange *x, void (*run)(background_job *s))
{
    background_begin(x, run, true, false, true, NULL);
}

void background_start_with_model(exchange *x, void (*run)(background_job *s))
{
    background_begin(x, run, true, true, false, exchange_request(x)->quota);
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
