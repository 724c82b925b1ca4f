/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ollama_pull.c - /api/pull: downloads a model, with the progress lines of Ollama.
 *
 * The body and the name are read on a worker thread. Then the request is a client of a pull
 * (model_pulls.h); its events become lines. A client that disconnects leaves the pull.
 */
#include "base/mem.h"
#include "server/api/common/dialect.h"
#include "server/api/ollama/ollama.h"
#include "server/http/event_loop.h"
#include "server/models/model_pulls.h"
#include "server/request/request.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN_DIGITS = 12, SHA256_DIGITS = 64 };

typedef struct ollama_pull {
    server_context *ctx;
    exchange *x;  /* NULL: the client has disconnected */
    bool reading; /* on a worker thread */
    strbuf body;
    char name[256];
    bool lines;     /* reply with a stream */
    bool installed; /* nothing to pull */
    strbuf request; /* for mote-pull */
    http_error error;
    model_pull_client client;
    bool verifying; /* the line was sent */
} ollama_pull;

static void pull_release(ollama_pull *p)
{
    strbuf_fini(&p->body);
    strbuf_fini(&p->request);
    mem_free(p);
}

/* ---- replies ---- */

static void pull_send_line(const ollama_pull *p, strbuf *line)
{
    jw_close(line, '}');
    strbuf_byte(line, '\n');
    if (!line->failed)
        exchange_write(p->x, strbuf_view(line));
    strbuf_fini(line);
}

static void pull_send_status(const ollama_pull *p, const char *status)
{
    strbuf line = {0};
    if (!p->lines)
        return;
    jw_open(&line, '{');
    jw_key_text(&line, "status", status);
    pull_send_line(p, &line);
}

/* "pulling 0123456789ab", with the digest of the file and its bytes. */
static void pull_send_file(const ollama_pull *p, str hash, uint64_t total, uint64_t completed)
{
    strbuf line = {0};
    char text[128];
    const bool sha256 = hash.n == SHA256_DIGITS;
    if (!p->lines || hash.n < SHOWN_DIGITS || hash.n > SHA256_DIGITS)
        return;
    jw_open(&line, '{');
    snprintf(text, sizeof text, "pulling %.*s", SHOWN_DIGITS, hash.p);
    jw_key_text(&line, "status", text);
    snprintf(text, sizeof text, "%s:%.*s", sha256 ? "sha256" : "sha1", (int)hash.n, hash.p);
    jw_key_text(&line, "digest", text);
    jw_key_uint(&line, "total", total);
    jw_key_uint(&line, "completed", completed);
    pull_send_line(p, &line);
}

static void pull_begin_reply(const ollama_pull *p)
{
    if (p->lines)
        exchange_begin(p->x, 200, "application/x-ndjson");
    pull_send_status(p, "pulling manifest");
}

static void pull_succeed(ollama_pull *p)
{
    static const char success[] = "{\"status\":\"success\"}";
    pull_send_status(p, "success");
    if (p->lines)
        exchange_end(p->x);
    else
        exchange_reply(p->x, 200, EXCHANGE_JSON, str_of(success));
    pull_release(p);
}

/* After the head of a stream an error is a line, as Ollama's clients expect. */
static void pull_fail_begun(ollama_pull *p)
{
    strbuf line = {0};
    log_message(&p->ctx->log, 0, "pull of %s: %s", p->name, p->error.text);
    if (p->lines) {
        jw_open(&line, '{');
        jw_key_text(&line, "error", p->error.text);
        pull_send_line(p, &line);
        exchange_end(p->x);
    } else {
        exchange_fail(p->x, &p->error);
    }
    pull_release(p);
}

/* ---- events of mote-pull ---- */

/* Codes of mote-pull that are not faults of the server or the network. */
static const struct {
    const char *code;
    http_error_kind kind;
} pull_error_kinds[] = {{"not_found", HTTP_E_NOT_FOUND},      {"bad_request", HTTP_E_INVALID},
                        {"gated", HTTP_E_PERMISSION},         {"forbidden", HTTP_E_PERMISSION},
                        {"token_refused", HTTP_E_PERMISSION}, {"disk_full", HTTP_E_INTERNAL},
                        {"not_writable", HTTP_E_INTERNAL}};

static void pull_error_of(http_error *error, const json_node *event, bool stopping)
{
    const str code = json_node_text(json_node_get(event, "code"));
    const str message = json_node_text(json_node_get(event, "message"));
    http_error_kind kind = HTTP_E_UNAVAILABLE;
    for (size_t i = 0; i < sizeof pull_error_kinds / sizeof *pull_error_kinds; i++)
        if (str_is(code, pull_error_kinds[i].code))
            kind = pull_error_kinds[i].kind;
    if (event == NULL && stopping)
        http_error_set(error, HTTP_E_UNAVAILABLE, "server_stops",
                       "the server stops; the next pull continues the download");
    else if (event == NULL)
        http_error_set(error, HTTP_E_INTERNAL, "pull_failed",
                       "the process mote-pull has ended unexpectedly");
    else
        http_error_set(error, kind, "pull_failed", "%.*s", (int)message.n, message.p);
}

static uint64_t event_number(const json_node *event, const char *name)
{
    int64_t n = 0;
    json_node_int64(json_node_get(event, name), &n);
    return n > 0 ? (uint64_t)n : 0;
}

/* The hash is checked while a file is downloaded; a file that was there is read for it. */
static void pull_send_verifying(ollama_pull *p)
{
    if (!p->verifying)
        pull_send_status(p, "verifying sha256 digest");
    p->verifying = true;
}

static void pull_on_event(void *with, const json_node *event, bool over)
{
    ollama_pull *p = with;
    const str kind = json_node_text(json_node_get(event, "event"));
    const str hash = json_node_text(json_node_get(event, "hash"));
    if (str_is(kind, "progress")) {
        if (str_is(json_node_text(json_node_get(event, "action")), "verifying"))
            pull_send_verifying(p);
        else
            pull_send_file(p, hash, event_number(event, "total"), event_number(event, "completed"));
    } else if (str_is(kind, "file")) {
        const uint64_t size = event_number(event, "size");
        pull_send_file(p, hash, size, size);
    } else if (over && str_is(kind, "done")) {
        pull_send_verifying(p);
        pull_send_status(p, "writing manifest");
        log_message(&p->ctx->log, 1, "pulled %s: %llu bytes downloaded", p->name,
                    (unsigned long long)event_number(event, "downloaded"));
        pull_succeed(p);
    } else if (over) {
        pull_error_of(&p->error, event, p->ctx->stopping);
        pull_fail_begun(p);
    }
}

/* ---- request ---- */

static bool pull_read_body(ollama_pull *p, const json_node *body)
{
    const json_node *stream = json_node_get(body, "stream");
    const str name = request_name_in(body, true);
    p->lines = !json_node_is(stream, JSON_IS_BOOL) || json_node_truth(stream);
    if (json_node_truth(json_node_get(body, "insecure")))
        return http_error_invalid(&p->error, "insecure", "is not supported");
    if (name.n == 0)
        return request_missing(&p->error, "model");
    if (name.n >= sizeof p->name || memchr(name.p, '\0', name.n) != NULL)
        return http_error_invalid(&p->error, "model", "is not the name of a model");
    snprintf(p->name, sizeof p->name, "%.*s", (int)name.n, name.p);
    return true;
}

/* Is there nothing to pull, because the model is served already? */
static bool pull_is_served(const ollama_pull *p)
{
    request a = {.ctx = p->ctx};
    request_find_model(&a, str_of(p->name));
    return a.known_model;
}

/* Models that cannot be pulled, such as those of Ollama's directory, may be served. */
static void pull_find(ollama_pull *p)
{
    mote_error err = {0};
    if (p->ctx->pulls == NULL) {
        p->installed = pull_is_served(p);
        if (!p->installed)
            http_error_set(&p->error, HTTP_E_PERMISSION, "pull_is_off",
                           "model '%s' is not installed, and this server does not pull models; "
                           "start mote serve with --allow-pull, or use mote pull",
                           p->name);
        return;
    }
    const mote_status status = model_pulls_request(p->ctx->pulls, p->name, &p->request, &err);
    if (status == MOTE_OK)
        return;
    p->installed = status == MOTE_E_ARG && pull_is_served(p);
    if (!p->installed && status == MOTE_E_ARG)
        http_error_set(&p->error, HTTP_E_NOT_FOUND, "model_not_found", "%s", err.text);
    else if (!p->installed)
        http_error_from(&p->error, &err);
}

/* Worker thread. */
static void pull_read(void *with)
{
    ollama_pull *p = with;
    json_doc *doc = NULL;
    if (body_read(&doc, strbuf_view(&p->body), &p->error) && pull_read_body(p, json_doc_root(doc)))
        pull_find(p);
    json_doc_free(doc);
}

static void pull_start(ollama_pull *p)
{
    mote_error err;
    p->client = (model_pull_client){.event = pull_on_event, .with = p};
    const mote_status status =
        model_pulls_join(p->ctx->pulls, strbuf_view(&p->request), &p->client, &err);
    if (status == MOTE_OK) {
        pull_begin_reply(p);
        return;
    }
    if (status == MOTE_E_FULL)
        http_error_set(&p->error, HTTP_E_RATE, "too_many_pulls", "%s", err.text);
    else
        http_error_from(&p->error, &err);
    exchange_fail(p->x, &p->error);
    pull_release(p);
}

static void pull_read_done(void *with)
{
    ollama_pull *p = with;
    p->reading = false;
    if (p->x == NULL) {
        pull_release(p);
    } else if (p->error.code != NULL) {
        exchange_fail(p->x, &p->error);
        pull_release(p);
    } else if (p->installed) {
        pull_begin_reply(p);
        pull_succeed(p);
    } else {
        pull_start(p);
    }
}

static void pull_on_disconnect(void *with)
{
    ollama_pull *p = with;
    p->x = NULL;
    if (p->reading)
        return;
    model_pulls_leave(&p->client);
    pull_release(p);
}

void handle_ollama_pull(exchange *x)
{
    http_error error;
    ollama_pull *p = mem_new(1, sizeof *p);
    http_error_no_memory(&error);
    if (p == NULL) {
        exchange_fail(x, &error);
        return;
    }
    p->ctx = exchange_context(x);
    p->x = x;
    p->body = exchange_take_body(x);
    if (p->body.n == 0) /* reported as invalid JSON */
        strbuf_byte(&p->body, ' ');
    p->reading = event_loop_work(p->ctx->loop, p->body.n, pull_read, pull_read_done, p);
    if (p->reading) {
        exchange_on_disconnect(x, pull_on_disconnect, p);
        return;
    }
    exchange_fail(x, &error);
    pull_release(p);
}
