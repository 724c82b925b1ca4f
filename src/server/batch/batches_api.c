/* SPDX-License-Identifier: Apache-2.0 */
/* batches_api.c - /v1/batches: create, list, retrieve, cancel. See batch_api.h. */
#include "server/api/common/dialect.h"
#include "server/batch/batch_api.h"
#include "server/batch/batch_run.h"
#include "server/batch/batches.h"

#include <stdio.h>

enum { LIST_INITIAL = 20, LIST_MOST = 100 };

static void batch_missing(background_job *s, str id)
{
    http_error_set(&s->error, HTTP_E_NOT_FOUND, "not_found", "there is no batch %.*s", STR_ARG(id));
    snprintf(s->error.param, sizeof s->error.param, "id");
}

/* ---- create ---- */

/* The text of the member metadata. false: s->error is set. */
static bool create_read_metadata(background_job *s, strbuf *out)
{
    const json_node *node = json_node_get(s->body, "metadata");
    if (node == NULL || json_node_is(node, JSON_IS_NULL))
        return true;
    if (!json_node_is(node, JSON_IS_OBJECT))
        return http_error_invalid(&s->error, "metadata", "must be an object");
    jw_node(out, node);
    if (out->failed)
        return http_error_no_memory(&s->error);
    if (out->n > BATCH_METADATA_BYTES)
        return http_error_invalid(&s->error, "metadata", "has %zu bytes; at most %d", out->n,
                                  BATCH_METADATA_BYTES);
    return true;
}

static void create_run(background_job *s)
{
    batch_order order = {.ns = s->ns, .client = s->client};
    str window;
    strbuf metadata = {0};
    mote_error err;
    if (!background_text(s, "input_file_id", &order.input) ||
        !background_text(s, "endpoint", &order.endpoint) ||
        !background_text(s, "completion_window", &window))
        return;
    if (!str_is(window, "24h")) {
        http_error_invalid(&s->error, "completion_window", "must be 24h, got %.*s",
                           STR_ARG(window));
        return;
    }
    if (!batch_url_is_known(order.endpoint)) {
        http_error_invalid(&s->error, "endpoint",
                           "must be /v1/chat/completions, /v1/completions, /v1/embeddings or "
                           "/v1/responses, got %.*s",
                           STR_ARG(order.endpoint));
        return;
    }
    if (create_read_metadata(s, &metadata)) {
        order.metadata = metadata.n > 0 ? strbuf_view(&metadata) : (str){"", 0};
        const mote_status status = batches_create(s->ctx->batches, &order, &s->out, &err);
        if (status == MOTE_E_ARG) {
            http_error_invalid(&s->error, "input_file_id", "names no file: %s", err.text);
        } else if (status == MOTE_E_FULL) {
            http_error_set(&s->error, HTTP_E_RATE, "too_many_batches", "%s", err.text);
        } else if (status != MOTE_OK) {
            http_error_set(&s->error, HTTP_E_UNAVAILABLE, "storage_failed",
                           "the batch could not be stored");
            log_message(&s->ctx->log, 0, "a batch could not be stored: %s", err.text);
        }
    }
    strbuf_fini(&metadata);
}

void handle_batch_create(exchange *x)
{
    if (batch_api_is_on(x))
        background_start(x, create_run, true);
}

/* ---- list, retrieve, cancel ---- */

static void list_run(background_job *s)
{
    const str query = strbuf_view(&s->query);
    batches_list(s->ctx->batches, s->ns, query_value(query, "after"),
                 query_limit(query, LIST_INITIAL, LIST_MOST), &s->out);
}

void handle_batches(exchange *x)
{
    if (batch_api_is_on(x))
        background_start(x, list_run, false);
}

static void retrieve_run(background_job *s)
{
    if (!batches_print(s->ctx->batches, strbuf_view(&s->tail), s->ns, &s->out))
        batch_missing(s, strbuf_view(&s->tail));
}

/* `tail` is ID/cancel. */
static void cancel_run(background_job *s)
{
    str id = strbuf_view(&s->tail);
    id.n -= strlen("/cancel");
    if (!batches_cancel(s->ctx->batches, id, s->ns, &s->out))
        batch_missing(s, id);
}

void handle_batch(exchange *x)
{
    const http_request *r = exchange_request(x);
    const size_t n = strlen("/cancel");
    const bool cancel = r->tail.n > n && memcmp(r->tail.p + r->tail.n - n, "/cancel", n) == 0;
    http_error error;
    if (!batch_api_is_on(x))
        return;
    if (cancel == (r->method == HTTP_POST)) {
        background_start(x, cancel ? cancel_run : retrieve_run, false);
        return;
    }
    http_error_set(&error, HTTP_E_METHOD, "method_not_allowed", "method not allowed");
    error.allow = cancel ? HTTP_POST : HTTP_GET | HTTP_HEAD;
    exchange_fail(x, &error);
}
