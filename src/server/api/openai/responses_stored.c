/* SPDX-License-Identifier: Apache-2.0 */
/*
 * responses_stored.c - GET, DELETE and POST (cancel) of /v1/responses/ID.
 *
 * A response is found in the text store, or in the list of running generations for cancel and
 * delete. Both are searched in the cache namespace of the key only. Event loop thread.
 */
#include "server/core/context.h"
#include "server/api/openai/openai.h"
#include "json/json_writer.h"

static void stored_not_found(exchange *x, str id)
{
    http_error error = {0};
    http_error_set(&error, HTTP_E_NOT_FOUND, "not_found", "no stored response with id %.*s",
                   STR_ARG(id));
    exchange_fail(x, &error);
}

static bool stored_get(exchange *x, str id, size_t which, strbuf *out)
{
    const server_context *ctx = exchange_context(x);
    text_store *stored = ctx->responses;
    return text_store_get(stored, exchange_request(x)->ns, id, which, out);
}

/* ---- replay as a stream ---- */

static void stored_replay_event(exchange *x, const char *type, uint64_t *number, const char *key,
                                const json_node *value, int64_t index)
{
    strbuf out = {0};
    strbuf_text(&out, "event: ");
    strbuf_text(&out, type);
    strbuf_text(&out, "\ndata: ");
    jw_open(&out, '{');
    jw_key_text(&out, "type", type);
    jw_key_uint(&out, "sequence_number", (*number)++);
    if (index >= 0)
        jw_key_int(&out, "output_index", index);
    jw_key(&out, key);
    jw_node(&out, value);
    jw_close(&out, '}');
    strbuf_text(&out, "\n\n");
    exchange_write(x, strbuf_view(&out));
    strbuf_fini(&out);
}

/* The response as of response.created: clients add the items of the later events to it. */
static json_doc *stored_initial_response(const json_node *root)
{
    strbuf json = {0};
    json_doc *doc = NULL;
    jw_open(&json, '{');
    for (const json_node *m = json_node_first(root); m != NULL; m = json_node_next(m)) {
        const str name = json_node_name(m);
        if (str_is(name, "mote") || str_is(name, "usage"))
            continue;
        jw_key(&json, name.p);
        if (str_is(name, "completed_at") || str_is(name, "incomplete_details"))
            jw_null(&json);
        else if (str_is(name, "status"))
            jw_raw(&json, str_of("\"in_progress\""));
        else if (str_is(name, "output"))
            jw_raw(&json, str_of("[]"));
        else
            jw_node(&json, m);
    }
    jw_close(&json, '}');
    if (!json.failed)
        (void)json_doc_read(&doc, strbuf_view(&json), NULL);
    strbuf_fini(&json);
    return doc;
}

/* Replies with the events of a stored response: created, each item, completed. Frees `stored`. */
static void stored_replay(exchange *x, strbuf *stored)
{
    json_doc *doc = NULL;
    uint64_t number = 0;
    int64_t index = 0;
    if (json_doc_read(&doc, strbuf_view(stored), NULL) != MOTE_OK) {
        exchange_reply_built(x, EXCHANGE_JSON, stored);
        return;
    }
    const json_node *root = json_doc_root(doc);
    json_doc *began = stored_initial_response(root);
    if (began == NULL) {
        json_doc_free(doc);
        exchange_reply_built(x, EXCHANGE_JSON, stored);
        return;
    }
    const json_node *output = json_node_get(root, "output");
    const bool whole = str_is(json_node_text(json_node_get(root, "status")), "completed");
    exchange_begin(x, 200, "text/event-stream; charset=utf-8");
    stored_replay_event(x, "response.created", &number, "response", json_doc_root(began), -1);
    for (const json_node *i = json_node_first(output); i != NULL; i = json_node_next(i)) {
        stored_replay_event(x, "response.output_item.added", &number, "item", i, index);
        stored_replay_event(x, "response.output_item.done", &number, "item", i, index++);
    }
    stored_replay_event(x, whole ? "response.completed" : "response.incomplete", &number,
                        "response", root, -1);
    exchange_end(x);
    json_doc_free(began);
    json_doc_free(doc);
    strbuf_fini(stored);
}

/* ---- methods ---- */

/* Searches the undecoded query string. */
static bool query_has_stream(str query)
{
    static const char wanted[] = "stream=true";
    const size_t n = sizeof wanted - 1;
    for (size_t i = 0; i + n <= query.n; i++)
        if ((i == 0 || query.p[i - 1] == '&') && memcmp(query.p + i, wanted, n) == 0)
            return true;
    return false;
}

static void stored_show(exchange *x, str id)
{
    strbuf body = {0};
    if (!stored_get(x, id, RESPONSES_REPLY, &body))
        stored_not_found(x, id);
    else if (query_has_stream(exchange_request(x)->query))
        stored_replay(x, &body);
    else
        exchange_reply_built(x, EXCHANGE_JSON, &body);
}

static void stored_show_items(exchange *x, str id)
{
    strbuf text = {0}, body = {0};
    json_doc *doc = NULL;
    strbuf_byte(&text, '[');
    if (!stored_get(x, id, RESPONSES_ITEMS, &text)) {
        strbuf_fini(&text);
        stored_not_found(x, id);
        return;
    }
    strbuf_byte(&text, ']');
    body.failed = text.failed || json_doc_read(&doc, strbuf_view(&text), NULL) != MOTE_OK;
    const json_node *list = doc != NULL ? json_doc_root(doc) : NULL, *last = NULL;
    for (const json_node *i = json_node_first(list); i != NULL; i = json_node_next(i))
        last = i;
    jw_open(&body, '{');
    jw_key_text(&body, "object", "list");
    jw_key(&body, "data");
    jw_raw(&body, strbuf_view(&text));
    jw_key_bool(&body, "has_more", false);
    jw_key(&body, "first_id");
    jw_node(&body, json_node_get(json_node_first(list), "id"));
    jw_key(&body, "last_id");
    jw_node(&body, json_node_get(last, "id"));
    jw_close(&body, '}');
    json_doc_free(doc);
    strbuf_fini(&text);
    exchange_reply_built(x, EXCHANGE_JSON, &body);
}

/* The client of the running stream gets response.failed. */
static void generation_cancel(generation *w)
{
    http_error error = {0};
    http_error_set(&error, HTTP_E_CONFLICT, "canceled", "the response was canceled");
    generation_fail(w, &error);
}

static void stored_cancel(exchange *x, str id)
{
    strbuf body = {0};
    generation *w = generation_find(exchange_context(x), id, exchange_request(x)->ns);
    if (w != NULL) {
        responses_put(w, "cancelled", NULL);
        body = w->out;
        w->out = (strbuf){0};
        generation_cancel(w);
        exchange_reply_built(x, EXCHANGE_JSON, &body);
    } else if (stored_get(x, id, RESPONSES_REPLY, &body)) {
        exchange_reply_built(x, EXCHANGE_JSON, &body); /* complete: nothing to cancel */
    } else {
        stored_not_found(x, id);
    }
}

static void stored_delete(exchange *x, str id)
{
    strbuf body = {0};
    const uint64_t ns = exchange_request(x)->ns;
    server_context *ctx = exchange_context(x);
    generation *w = generation_find(ctx, id, ns);
    const bool stored = text_store_drop(ctx->responses, ns, id);
    if (w == NULL && !stored) {
        stored_not_found(x, id);
        return;
    }
    if (w != NULL)
        generation_cancel(w);
    jw_open(&body, '{');
    jw_key_str(&body, "id", id);
    jw_key_text(&body, "object", "response");
    jw_key_bool(&body, "deleted", true);
    jw_close(&body, '}');
    exchange_reply_built(x, EXCHANGE_JSON, &body);
}

static bool path_cut_suffix(str *text, const char *tail)
{
    const size_t n = strlen(tail);
    if (text->n <= n || memcmp(text->p + text->n - n, tail, n) != 0)
        return false;
    text->n -= n;
    return true;
}

void handle_response(exchange *x)
{
    const http_request *http = exchange_request(x);
    str id = http->tail;
    const bool items_wanted = path_cut_suffix(&id, "/input_items");
    const bool to_cancel = !items_wanted && path_cut_suffix(&id, "/cancel");
    if (http->method == HTTP_POST && to_cancel)
        stored_cancel(x, id);
    else if (http->method == HTTP_GET && items_wanted)
        stored_show_items(x, id);
    else if (http->method == HTTP_GET && !to_cancel)
        stored_show(x, id);
    else if (http->method == HTTP_DELETE && !to_cancel && !items_wanted)
        stored_delete(x, id);
    else
        stored_not_found(x, http->tail);
}
