/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route_cache.c - /v1/cache: which beginnings of conversations are kept, and letting go of them or
 * pinning them. A key sees what is its own; one with the scope admin sees all. Figures only: no
 * text of any prompt is in them, and what belongs to others is not there for those who ask.
 */
#include "base/mem.h"
#include "base/os.h"
#include "server/answer/aside.h"
#include "server/answer/ask.h"
#include "server/handlers.h"

#include <stdio.h>
#include <stdlib.h>

enum { ID_DIGITS = 16, ID_BYTES = 4 + ID_DIGITS + 1 };

static void print_id(char out[ID_BYTES], uint64_t id)
{
    snprintf(out, ID_BYTES, "pfx_%016llx", (unsigned long long)id);
}

/* The prefixes of one model that this one may see. */
typedef struct view {
    served *model;
    sched_prefix *rows; /* [n] */
    size_t n;
} view;

static bool look(view *v, served *model, uint64_t realm, bool admin)
{
    const size_t room = sched_settings(served_sched(model))->idle;
    *v = (view){.model = model, .rows = mem_new(room, sizeof *v->rows)};
    if (v->rows == NULL)
        return false;
    const size_t n = sched_prefixes(served_sched(model), v->rows, room);
    for (size_t i = 0; i < n; i++)
        if (admin || v->rows[i].realm == realm)
            v->rows[v->n++] = v->rows[i];
    return true;
}

/* What is called `id`, of those that this one may see; NULL: nothing is. */
static served *find(const server *s, str id, uint64_t realm, bool admin, uint64_t *number)
{
    char name[ID_BYTES];
    for (size_t m = 0; m < server_n_models(s); m++) {
        view v;
        served *found = NULL;
        if (!look(&v, server_model(s, m), realm, admin))
            return NULL;
        for (size_t i = 0; i < v.n && found == NULL; i++) {
            print_id(name, v.rows[i].id);
            *number = v.rows[i].id;
            found = str_is(id, name) ? v.model : NULL;
        }
        mem_free(v.rows);
        if (found != NULL)
            return found;
    }
    return NULL;
}

static void nothing(api_error *error)
{
    api_error_set(error, API_E_NOT_FOUND, "not_found", "nothing of this id is kept");
}

/* ---- the list ---- */

static int by_use(const void *a, const void *b)
{
    const sched_prefix *one = a, *other = b;
    return (one->used < other->used) - (one->used > other->used);
}

static void put_prefix(const sched_prefix *p, const char *model, double now, strbuf *out)
{
    char id[ID_BYTES];
    print_id(id, p->id);
    jp_open(out, '{');
    jp_key_text(out, "id", id);
    jp_key_text(out, "object", "cache.prefix");
    jp_key_text(out, "model", model);
    jp_key_uint(out, "tokens", p->tokens);
    jp_key_uint(out, "bytes", p->bytes);
    jp_key_uint(out, "hits", p->hits);
    jp_key_text(out, "tier", "ram");
    jp_key_double(out, "age", (double)(int64_t)(1000 * (now - p->used)) / 1000);
    jp_key_bool(out, "pinned", p->pinned);
    jp_close(out, '}');
}

static void list(exchange *x)
{
    const server *s = exchange_server(x);
    const http_request *request = exchange_request(x);
    strbuf out = {0};
    jp_open(&out, '{');
    jp_key_text(&out, "object", "list");
    jp_key(&out, "data");
    jp_open(&out, '[');
    for (size_t m = 0; m < server_n_models(s); m++) {
        view v;
        out.failed |= !look(&v, server_model(s, m), request->realm, request->admin);
        if (v.n > 0)
            qsort(v.rows, v.n, sizeof *v.rows, by_use);
        for (size_t i = 0; i < v.n; i++)
            put_prefix(&v.rows[i], served_name(v.model), os_now(), &out);
        mem_free(v.rows);
    }
    jp_close(&out, ']');
    jp_close(&out, '}');
    exchange_reply_built(x, EXCHANGE_JSON, &out);
}

/* ---- letting go ---- */

static void drop_all(exchange *x)
{
    const server *s = exchange_server(x);
    const http_request *request = exchange_request(x);
    strbuf out = {0};
    uint64_t n = 0;
    for (size_t m = 0; m < server_n_models(s); m++) {
        view v;
        out.failed |= !look(&v, server_model(s, m), request->realm, request->admin);
        for (size_t i = 0; i < v.n; i++)
            n += sched_prefix_drop(served_sched(v.model), v.rows[i].id);
        mem_free(v.rows);
    }
    jp_open(&out, '{');
    jp_key_uint(&out, "deleted", n);
    jp_close(&out, '}');
    exchange_reply_built(x, EXCHANGE_JSON, &out);
}

void handle_cache(exchange *x)
{
    if (exchange_request(x)->method == HTTP_DELETE)
        drop_all(x);
    else
        list(x);
}

void handle_cache_prefix(exchange *x)
{
    const http_request *request = exchange_request(x);
    api_error error;
    strbuf out = {0};
    uint64_t number;
    served *m = find(exchange_server(x), request->tail, request->realm, request->admin, &number);
    if (m == NULL || !sched_prefix_drop(served_sched(m), number)) {
        nothing(&error);
        exchange_fail(x, &error);
        return;
    }
    jp_open(&out, '{');
    jp_key_str(&out, "id", request->tail);
    jp_key_bool(&out, "deleted", true);
    jp_close(&out, '}');
    exchange_reply_built(x, EXCHANGE_JSON, &out);
}

/* ---- pinning ---- */

static void run_pin(aside *s)
{
    const json_node *wanted = json_node_get(s->body, "pin");
    const bool pin = wanted == NULL || json_node_truth(wanted);
    mote_error err;
    str id;
    uint64_t number;
    if (!aside_text(s, "id", &id))
        return;
    if (wanted != NULL && !json_node_is(wanted, JSON_IS_BOOL)) {
        ask_wrong(&s->error, "pin", "must be true or false");
        return;
    }
    served *m = find(s->server, id, s->realm, s->admin, &number);
    const mote_status status =
        m != NULL ? sched_prefix_pin(served_sched(m), number, pin, &err) : MOTE_E_ARG;
    if (status == MOTE_E_ARG)
        nothing(&s->error);
    else if (status == MOTE_E_FULL)
        api_error_set(&s->error, API_E_CONFLICT, "too_much_pinned",
                      "half of the room for prefixes may be pinned, and this would be more");
    jp_open(&s->out, '{');
    jp_key_str(&s->out, "id", id);
    jp_key_bool(&s->out, "pinned", pin);
    jp_close(&s->out, '}');
}

void handle_cache_pin(exchange *x)
{
    aside_start(x, run_pin, true);
}
