/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefix_cache_api.c - GET and DELETE /v1/cache, DELETE /v1/cache/ID, POST /v1/cache/pin.
 *
 * Lists, drops and pins the sequences in the prefix cache. A key sees the entries of its own
 * namespace; a key with scope admin sees all. Replies contain sizes and counts, never prompt text.
 */
#include "base/mem.h"
#include "base/os.h"
#include "server/api/common/dialect.h"
#include "server/request/request.h"
#include "server/api/native/native.h"

#include <stdio.h>
#include <stdlib.h>

enum { ID_DIGITS = 16, ID_BYTES = 4 + ID_DIGITS + 1 };

static void prefix_print_id(char out[ID_BYTES], uint64_t id)
{
    snprintf(out, ID_BYTES, "pfx_%016llx", (unsigned long long)id);
}

/* The entries of one model that the key may see. */
typedef struct prefix_view {
    served_model *model;
    sched_prefix *rows; /* [n] */
    size_t n;
} prefix_view;

static bool prefix_view_read(prefix_view *v, served_model *model, uint64_t ns, bool admin)
{
    const size_t room = sched_settings(served_model_sched(model))->idle_sessions;
    *v = (prefix_view){.model = model, .rows = mem_new(room, sizeof *v->rows)};
    if (v->rows == NULL)
        return false;
    const size_t n = sched_prefixes(served_model_sched(model), v->rows, room);
    for (size_t i = 0; i < n; i++)
        if (admin || v->rows[i].ns == ns)
            v->rows[v->n++] = v->rows[i];
    return true;
}

/* Finds an entry of the held models that the key may see by its id; NULL: none. */
static served_model *prefix_find(const model_set *set, str id, uint64_t ns, bool admin,
                                 uint64_t *number)
{
    char name[ID_BYTES];
    for (size_t m = 0; m < set->n; m++) {
        prefix_view v;
        served_model *found = NULL;
        if (!prefix_view_read(&v, set->models[m], ns, admin))
            return NULL;
        for (size_t i = 0; i < v.n && found == NULL; i++) {
            prefix_print_id(name, v.rows[i].id);
            *number = v.rows[i].id;
            found = str_is(id, name) ? v.model : NULL;
        }
        mem_free(v.rows);
        if (found != NULL)
            return found;
    }
    return NULL;
}

static void prefix_not_found(http_error *error)
{
    http_error_set(error, HTTP_E_NOT_FOUND, "not_found", "no cache entry with this id");
}

/* ---- list ---- */

static int prefix_compare_by_use(const void *a, const void *b)
{
    const sched_prefix *one = a, *other = b;
    return (one->used < other->used) - (one->used > other->used);
}

static void prefix_put(const sched_prefix *p, const char *model, double now, strbuf *out)
{
    char id[ID_BYTES];
    prefix_print_id(id, p->id);
    jw_open(out, '{');
    jw_key_text(out, "id", id);
    jw_key_text(out, "object", "cache.prefix");
    jw_key_text(out, "model", model);
    jw_key_uint(out, "tokens", p->tokens);
    jw_key_uint(out, "bytes", p->bytes);
    jw_key_uint(out, "hits", p->hits);
    jw_key_text(out, "tier", "ram");
    jw_key_double(out, "age", (double)(int64_t)(1000 * (now - p->used)) / 1000);
    jw_key_bool(out, "pinned", p->pinned);
    jw_close(out, '}');
}

static void prefix_list(exchange *x)
{
    const server_context *s = exchange_context(x);
    const http_request *http = exchange_request(x);
    strbuf out = {0};
    model_set set;
    model_registry_hold(s->models, &set);
    jw_open(&out, '{');
    jw_key_text(&out, "object", "list");
    jw_key(&out, "data");
    jw_open(&out, '[');
    for (size_t m = 0; m < set.n; m++) {
        prefix_view v;
        out.failed |= !prefix_view_read(&v, set.models[m], http->ns, http->admin);
        if (v.n > 0)
            qsort(v.rows, v.n, sizeof *v.rows, prefix_compare_by_use);
        for (size_t i = 0; i < v.n; i++)
            prefix_put(&v.rows[i], served_model_name(v.model), os_now(), &out);
        mem_free(v.rows);
    }
    model_set_release(&set);
    jw_close(&out, ']');
    jw_close(&out, '}');
    exchange_reply_built(x, EXCHANGE_JSON, &out);
}

/* ---- drop ---- */

static void prefix_drop_all(exchange *x)
{
    const server_context *s = exchange_context(x);
    const http_request *http = exchange_request(x);
    strbuf out = {0};
    uint64_t n = 0;
    model_set set;
    model_registry_hold(s->models, &set);
    for (size_t m = 0; m < set.n; m++) {
        prefix_view v;
        out.failed |= !prefix_view_read(&v, set.models[m], http->ns, http->admin);
        for (size_t i = 0; i < v.n; i++)
            n += sched_prefix_drop(served_model_sched(v.model), v.rows[i].id);
        mem_free(v.rows);
    }
    model_set_release(&set);
    jw_open(&out, '{');
    jw_key_uint(&out, "deleted", n);
    jw_close(&out, '}');
    exchange_reply_built(x, EXCHANGE_JSON, &out);
}

void handle_cache(exchange *x)
{
    if (exchange_request(x)->method == HTTP_DELETE)
        prefix_drop_all(x);
    else
        prefix_list(x);
}

void handle_cache_prefix(exchange *x)
{
    const server_context *s = exchange_context(x);
    const http_request *http = exchange_request(x);
    http_error error;
    strbuf out = {0};
    uint64_t number;
    model_set set;
    model_registry_hold(s->models, &set);
    served_model *m = prefix_find(&set, http->tail, http->ns, http->admin, &number);
    const bool dropped = m != NULL && sched_prefix_drop(served_model_sched(m), number);
    model_set_release(&set);
    if (!dropped) {
        prefix_not_found(&error);
        exchange_fail(x, &error);
        return;
    }
    jw_open(&out, '{');
    jw_key_str(&out, "id", http->tail);
    jw_key_bool(&out, "deleted", true);
    jw_close(&out, '}');
    exchange_reply_built(x, EXCHANGE_JSON, &out);
}

/* ---- pin ---- */

static void prefix_run_pin(background_job *s)
{
    const json_node *wanted = json_node_get(s->body, "pin");
    const bool pin = wanted == NULL || json_node_truth(wanted);
    mote_error err;
    str id;
    uint64_t number;
    if (!background_text(s, "id", &id))
        return;
    if (wanted != NULL && !json_node_is(wanted, JSON_IS_BOOL)) {
        http_error_invalid(&s->error, "pin", "must be a boolean");
        return;
    }
    model_set set;
    model_registry_hold(s->ctx->models, &set);
    served_model *m = prefix_find(&set, id, s->ns, s->admin, &number);
    const mote_status status =
        m != NULL ? sched_prefix_pin(served_model_sched(m), number, pin, &err) : MOTE_E_ARG;
    model_set_release(&set);
    if (status == MOTE_E_ARG)
        prefix_not_found(&s->error);
    else if (status == MOTE_E_FULL)
        http_error_set(&s->error, HTTP_E_CONFLICT, "too_much_pinned",
                       "at most half of the prefix cache can be pinned");
    jw_open(&s->out, '{');
    jw_key_str(&s->out, "id", id);
    jw_key_bool(&s->out, "pinned", pin);
    jw_close(&s->out, '}');
}

void handle_cache_pin(exchange *x)
{
    background_start(x, prefix_run_pin, true);
}
