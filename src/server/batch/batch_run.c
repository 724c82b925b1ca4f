/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch_run.c - see batch_run.h.
 *
 * A slot is one running request, or one that waits to be repeated. Lines are taken in the order of
 * batch_lines. A line that is not a request gets its result at once; a few of them per turn, so that
 * a file of bad lines does not block the event loop.
 */
#include "server/batch/batch_run.h"

#include "base/mem.h"
#include "base/os.h"
#include "json/json_writer.h"
#include "server/api/openai/openai.h"
#include "server/batch/json_span.h"
#include "server/core/limits.h"
#include "server/http/local_exchange.h"

#include <stdio.h>

enum { DEFAULT_PARALLEL = 8, LINES_PER_TURN = 64, MAX_PAUSE = 16 };

static const struct {
    const char *url;
    void (*handler)(exchange *x);
} routes[] = {
    {"/v1/chat/completions", handle_chat_completions},
    {"/v1/completions", handle_completions},
    {"/v1/embeddings", handle_embeddings},
    {"/v1/responses", handle_responses},
};
enum { N_ROUTES = sizeof routes / sizeof *routes };

typedef struct batch_slot {
    batch_run *run;
    batch_line *line; /* NULL: free */
    exchange *x;      /* NULL: it waits until `again` */
    uint32_t attempts;
    double began, again;
} batch_slot;

struct batch_run {
    batch_run_options options;
    batch_slot *slots; /* [n_slots] */
    uint32_t n_slots, n_used;
    uint32_t next; /* in lines->order */
    bool stopped, over;
    mote_error error; /* status MOTE_OK: none */
    double began, synced;
    batch_progress progress; /* without `seconds` */
    strbuf out;
};

/* Of a JSON string; N_ROUTES: unknown. */
static size_t route_find(str url)
{
    size_t i = 0;
    while (i < N_ROUTES && !json_span_is_string(url, routes[i].url))
        i++;
    return i;
}

bool batch_url_is_known(str url)
{
    for (size_t i = 0; i < N_ROUTES; i++)
        if (str_is(url, routes[i].url))
            return true;
    return false;
}

/* ---- results ---- */

/* NULL: it is not a JSON string. */
static json_doc *custom_id_read(str text)
{
    json_doc *doc = NULL;
    if (text.n == 0 || json_doc_read(&doc, text, NULL) != MOTE_OK)
        return NULL;
    if (json_node_is(json_doc_root(doc), JSON_IS_STRING))
        return doc;
    json_doc_free(doc);
    return NULL;
}

/* The id and the custom_id of a result; the object stays open. */
static void result_begin(batch_run *r, const batch_line *line, str custom_id)
{
    char id[BATCH_ID_BYTES], made[32];
    json_doc *doc = custom_id_read(custom_id);
    batch_line_id(line, id);
    snprintf(made, sizeof made, "request-%u", (unsigned)line->number + 1);
    r->out.n = 0;
    jw_open(&r->out, '{');
    jw_key_text(&r->out, "id", id);
    jw_key_str(&r->out, "custom_id",
               doc != NULL ? json_node_text(json_doc_root(doc)) : str_of(made));
    json_doc_free(doc);
}

/* Appends the result to the journal. An error of the disk ends the run. */
static void result_end(batch_run *r, batch_line *line, bool failed)
{
    mote_error err;
    jw_close(&r->out, '}');
    strbuf_byte(&r->out, '\n');
    mote_status status = strbuf_check(&r->out, &err);
    if (status == MOTE_OK)
        status = batch_journal_add(r->options.journal, line, strbuf_view(&r->out), failed, &err);
    if (status != MOTE_OK) {
        r->error = err;
        r->stopped = true;
        return;
    }
    r->progress.done++;
    r->progress.finished++;
    r->progress.failed += failed;
    if (failed && r->options.fail_fast)
        r->stopped = true;
}

/* The line never became a request. */
static void line_refuse(batch_run *r, batch_line *line, const batch_request *q)
{
    result_begin(r, line, q->custom_id);
    jw_key_null(&r->out, "response");
    jw_key(&r->out, "error");
    jw_open(&r->out, '{');
    jw_key_text(&r->out, "code", q->code);
    jw_key_text(&r->out, "message", q->message);
    jw_close(&r->out, '}');
    result_end(r, line, true);
}

static void run_count_tokens(batch_run *r, str reply)
{
    str counts, details;
    if (!json_span_member(reply, "usage", &counts))
        return;
    r->progress.prompt_tokens +=
        json_span_count(counts, "prompt_tokens") + json_span_count(counts, "input_tokens");
    r->progress.answer_tokens +=
        json_span_count(counts, "completion_tokens") + json_span_count(counts, "output_tokens");
    if (json_span_member(counts, "prompt_tokens_details", &details) ||
        json_span_member(counts, "input_tokens_details", &details))
        r->progress.cached_tokens += json_span_count(details, "cached_tokens");
}

static void slot_reply(batch_slot *s, const exchange *x)
{
    batch_run *r = s->run;
    const int status = local_exchange_status(x);
    const batch_request q = batch_line_read(s->line, r->options.bare);
    const str body = local_exchange_body(x);
    if (status == 0 || !json_span_is_object(body)) {
        batch_request failed = q;
        failed.code = status == 0 ? "out_of_memory" : "invalid_value";
        failed.message =
            status == 0 ? "out of memory for the reply" : "the reply is not one JSON object";
        line_refuse(r, s->line, &failed);
        return;
    }
    result_begin(r, s->line, q.custom_id);
    jw_key(&r->out, "response");
    jw_open(&r->out, '{');
    jw_key_int(&r->out, "status_code", status);
    jw_key_text(&r->out, "request_id", exchange_id(x));
    jw_key(&r->out, "body");
    jw_raw(&r->out, body);
    jw_close(&r->out, '}');
    jw_key_null(&r->out, "error");
    result_end(r, s->line, status != 200);
    run_count_tokens(r, body);
}

/* ---- requests ---- */

static void slot_free(batch_slot *s)
{
    s->line = NULL;
    s->x = NULL;
    s->run->n_used--;
}

double batch_retry_pause(uint32_t attempts)
{
    const double pause = 0.25 * (double)(1u << (attempts < 16 ? attempts : 16));
    return pause < MAX_PAUSE ? pause : MAX_PAUSE;
}

/* Memory or the queue of the server was full. */
static void slot_wait(batch_slot *s)
{
    s->again = os_now() + batch_retry_pause(s->attempts);
    s->attempts++;
}

static void run_turn(batch_run *r);

static void slot_on_reply(void *with, exchange *x)
{
    batch_slot *s = with;
    batch_run *r = s->run;
    const int status = local_exchange_status(x);
    const bool later = status == 0 || status == 429 || status == 503 || status == 529;
    s->x = NULL;
    if (later && os_now() - s->began < r->options.patience) {
        slot_wait(s);
        return;
    }
    slot_reply(s, x);
    slot_free(s);
    run_turn(r);
}

static void slot_start(batch_slot *s)
{
    batch_run *r = s->run;
    const batch_request q = batch_line_read(s->line, r->options.bare);
    const size_t route = route_find(q.url); /* line_check() has found it */
    strbuf body = {0};
    const local_request call = {.path = routes[route].url,
                                .handler = routes[route].handler,
                                .client = r->options.client,
                                .ns = r->options.ns,
                                .background = r->options.background,
                                .replied = slot_on_reply,
                                .with = s};
    strbuf_put(&body, q.body);
    const bool copied = !body.failed;
    if (!copied)
        strbuf_fini(&body);
    s->x = copied ? local_exchange_start(r->options.ctx->http, &call, &body) : NULL;
    if (s->x == NULL)
        slot_wait(s);
}

/* What the parser of the line does not know: routes, limits, streams. */
static void line_check(const batch_run *r, batch_request *q)
{
    const char *only = r->options.endpoint;
    str value;
    if (q->code != NULL)
        return;
    if (q->custom_id.n > 0) {
        json_doc *doc = custom_id_read(q->custom_id);
        const bool valid = doc != NULL;
        json_doc_free(doc);
        if (!valid) {
            q->code = "invalid_json_line";
            q->message = "custom_id is not a valid JSON string";
            return;
        }
    }
    if (route_find(q->url) == N_ROUTES) {
        q->code = "invalid_url";
        q->message = "url must be /v1/chat/completions, /v1/completions, /v1/embeddings or "
                     "/v1/responses";
    } else if (only != NULL && !json_span_is_string(q->url, only)) {
        q->code = "mismatched_url";
        q->message = "url differs from the endpoint of the batch";
    } else if ((double)q->body.n > r->options.ctx->limits->at[LIMIT_BODY]) {
        q->code = "request_too_large";
        q->message = "the body has too many bytes (--limit body-bytes)";
    } else if (json_span_member(q->body, "stream", &value) && str_is(value, "true")) {
        q->code = "invalid_value";
        q->message = "stream must be false: the result of a line is one object";
    }
}

static batch_slot *run_free_slot(batch_run *r)
{
    for (uint32_t i = 0; i < r->n_slots; i++)
        if (r->slots[i].line == NULL)
            return &r->slots[i];
    return NULL;
}

/* Skips lines with results. NULL: there is none left. */
static batch_line *run_next_line(batch_run *r)
{
    const batch_lines *lines = r->options.lines;
    while (r->next < lines->n_order && lines->order[r->next]->done)
        r->next++;
    return r->next < lines->n_order ? &lines->lines[lines->order[r->next] - lines->lines] : NULL;
}

/* Starts lines while slots are free, and ends the run after the last one. */
static void run_turn(batch_run *r)
{
    for (uint32_t i = 0; i < LINES_PER_TURN && !r->stopped; i++) {
        batch_slot *s = run_free_slot(r);
        batch_line *line = run_next_line(r);
        if (s == NULL || line == NULL)
            return;
        r->next++;
        batch_request q = batch_line_read(line, r->options.bare);
        line_check(r, &q);
        if (q.code != NULL) {
            line_refuse(r, line, &q);
            continue;
        }
        *s = (batch_slot){.run = r, .line = line, .began = os_now()};
        r->n_used++;
        slot_start(s);
    }
}

/* ---- life cycle ---- */

batch_run *batch_run_new(const batch_run_options *options)
{
    batch_run *r = mem_new(1, sizeof *r);
    const uint32_t parallel = options->parallel > 0 ? options->parallel : DEFAULT_PARALLEL;
    if (r == NULL)
        return NULL;
    r->options = *options;
    r->n_slots = 2 * parallel; /* answers may end together: the next ones are in the queue */
    r->slots = mem_new(r->n_slots, sizeof *r->slots);
    if (r->slots == NULL) {
        mem_free(r);
        return NULL;
    }
    r->progress.lines = options->lines->n_order;
    for (uint32_t i = 0; i < options->lines->n_order; i++) {
        const batch_line *line = options->lines->order[i];
        r->progress.done += line->done;
        r->progress.failed +=
            line->done && options->journal->entries[line - options->lines->lines].failed;
    }
    return r;
}

void batch_run_start(batch_run *r)
{
    r->began = r->synced = os_now();
    run_turn(r);
}

static void run_sync(batch_run *r, double now)
{
    mote_error err;
    if (r->options.sync_seconds <= 0 || now - r->synced < r->options.sync_seconds)
        return;
    r->synced = now;
    if (batch_journal_sync(r->options.journal, &err) != MOTE_OK && r->error.status == MOTE_OK) {
        r->error = err;
        r->stopped = true;
    }
}

void batch_run_tick(batch_run *r, double now)
{
    if (r->over)
        return;
    for (uint32_t i = 0; i < r->n_slots && !r->stopped; i++) {
        batch_slot *s = &r->slots[i];
        if (s->line != NULL && s->x == NULL && now >= s->again)
            slot_start(s);
    }
    run_turn(r);
    run_sync(r, now);
    if (r->stopped)
        batch_run_stop(r);
    else if (r->next < r->options.lines->n_order || r->n_used > 0)
        return;
    r->over = true;
    r->options.over(r->options.with);
}

void batch_run_stop(batch_run *r)
{
    r->stopped = true;
    for (uint32_t i = 0; i < r->n_slots; i++) {
        batch_slot *s = &r->slots[i];
        if (s->line == NULL)
            continue;
        if (s->x != NULL)
            local_exchange_cancel(s->x);
        slot_free(s);
    }
}

void batch_run_free(batch_run *r)
{
    if (r == NULL)
        return;
    batch_run_stop(r);
    strbuf_fini(&r->out);
    mem_free(r->slots);
    mem_free(r);
}

void batch_run_progress(const batch_run *r, batch_progress *out)
{
    *out = r->progress;
    out->seconds = r->began > 0 ? os_now() - r->began : 0;
}

mote_status batch_run_error(const batch_run *r, mote_error *err)
{
    if (r->error.status != MOTE_OK && err != NULL)
        *err = r->error;
    return r->error.status;
}
