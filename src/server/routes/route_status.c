/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route_status.c - how the server is doing: /metrics for Prometheus, /v1/status for `mote ps`
 * and `mote top`. Both tell figures only; no text of any request is in them.
 */
#include "base/os.h"
#include "server/answer/dialect.h"
#include "server/door/keyring.h"
#include "server/handlers.h"
#include "server/json_print.h"
#include "server/metrics.h"
#include "server/server_int.h"

#include <mote.h>

static void gather_model(metrics_model *v, const served *m)
{
    *v = (metrics_model){
        .name = served_name(m), .loaded = served_loaded(m), .sees = served_sight(m) != NULL};
    sched_read_figures(served_sched(m), &v->work);
    v->calls_malformed = served_malformed(m);
    sched_memory(served_sched(m), &v->memory);
    if (v->sees) {
        v->memory_vision = v->loaded ? sight_memory(served_sight(m)) : 0;
        v->memory.total += v->memory_vision;
        sight_read_figures(served_sight(m), &v->sight);
    }
}

void metrics_gather(metrics_view *v, server *s)
{
    mote_model_info info;
    mote_model_describe(served_model(server_model(s, 0)), &info);
    *v = (metrics_view){.version = mote_version(),
                        .isa = mote_isa_name(info.isa),
                        .counts = &s->counts,
                        .n_models = s->n_models,
                        .memory_limit = s->options.sched.memory,
                        .draining = server_draining(s),
                        .uptime = os_now() - s->started};
    for (size_t i = 0; i < s->n_models; i++)
        gather_model(&v->models[i], s->models[i]);
    server_read_figures(s, &v->door);
    for (quota_kind kind = 0; kind < QUOTA_KINDS; kind++)
        v->over_quota[kind] = keyring_refused(access_keys(s->access), kind);
}

void handle_metrics(exchange *x)
{
    metrics_view v;
    strbuf out = {0};
    metrics_gather(&v, exchange_server(x));
    metrics_print(&out, &v);
    exchange_reply_built(x, "text/plain; version=0.0.4; charset=utf-8", &out);
}

/* ---- /v1/status ---- */

static void put_stream(const answering *w, const choice *c, strbuf *out)
{
    static const char *const phases[] = {"queued", "reading", "writing", "over"};
    sched_where where;
    sched_look(served_sched(w->ask.served), c->job, &where);
    jp_open(out, '{');
    jp_key_text(out, "request_id", w->request_id);
    jp_key_text(out, "model", served_name(w->ask.served));
    jp_key_text(out, "dialect", w->how->label);
    jp_key_text(out, "phase", phases[where.phase]);
    jp_key_double(out, "age", os_now() - w->began);
    if (where.phase == SCHED_QUEUED)
        jp_key_uint(out, "position", where.position);
    jp_key_uint(out, "prompt", w->prompts[c->prompt].n);
    jp_key_uint(out, "read", where.done);
    jp_key_uint(out, "reused", c->reused);
    jp_key_uint(out, "written", where.written);
    jp_close(out, '}');
}

static void put_streams(const server *s, strbuf *out)
{
    jp_key(out, "streams");
    jp_open(out, '[');
    for (const answering *w = *api_at_work(server_api(s)); w != NULL; w = w->next)
        for (size_t i = 0; i < w->n_choices; i++)
            if (w->choices[i].submitted && !w->choices[i].over && w->choices[i].job != NULL)
                put_stream(w, &w->choices[i], out);
    jp_close(out, ']');
}

static void put_totals(const sched_figures *f, strbuf *out)
{
    jp_key(out, "totals");
    jp_open(out, '{');
    jp_key_uint(out, "answers", f->finished);
    jp_key_uint(out, "cancelled", f->canceled_queued + f->canceled_reading + f->canceled_writing);
    jp_key_uint(out, "refused", f->refused_full);
    jp_key_uint(out, "prompt_tokens", f->prompt_tokens);
    jp_key_uint(out, "reused_tokens", f->reused_live_tokens + f->reused_ended_tokens);
    jp_key_uint(out, "read_tokens", f->read_tokens);
    jp_key_uint(out, "written_tokens", f->written_tokens);
    jp_key_uint(out, "steps", f->steps);
    jp_key_uint(out, "step_rows", f->step_rows);
    jp_key_uint(out, "prompt_rows", f->prompt_rows);
    jp_key_double(out, "step_seconds", f->step_seconds);
    jp_close(out, '}');
}

static void put_memory(const metrics_model *m, uint64_t limit, strbuf *out)
{
    jp_key(out, "memory");
    jp_open(out, '{');
    jp_key_uint(out, "total", m->memory.total);
    jp_key_uint(out, "weights", m->memory.weights);
    jp_key_uint(out, "model", m->memory.model);
    jp_key_uint(out, "kv", m->memory.pages);
    jp_key_uint(out, "state", m->memory.states);
    jp_key_uint(out, "scratch", m->memory.scratch);
    jp_key_uint(out, "vision", m->memory_vision);
    jp_key_uint(out, "limit", limit);
    jp_close(out, '}');
}

static void put_room(const sched_figures *f, strbuf *out)
{
    jp_key_uint(out, "queued", f->queued);
    jp_key_uint(out, "reading", f->reading);
    jp_key_uint(out, "writing", f->writing);
    jp_key_uint(out, "parallel", f->parallel);
    jp_key_uint(out, "kept", f->ended_kept);
    jp_key_uint(out, "positions", f->positions_total);
    jp_key_uint(out, "positions_free", f->positions_free);
}

static void put_pictures(const sight_figures *f, strbuf *out)
{
    jp_key(out, "pictures");
    jp_open(out, '{');
    jp_key_uint(out, "asked", f->asked);
    jp_key_uint(out, "found", f->found);
    jp_key_uint(out, "looked", f->looked);
    jp_key_uint(out, "failed", f->failed);
    jp_key_uint(out, "waiting", f->waiting);
    jp_key_uint(out, "kept", f->kept);
    jp_key_uint(out, "bytes", f->bytes);
    jp_close(out, '}');
}

/* By its number and its name, never by what it is. */
static void put_key(quota *q, size_t number, const char *name, strbuf *out)
{
    static const char *const left[] = {"requests_left", "tokens_left"};
    const uint64_t now = (uint64_t)(1000 * os_now());
    uint64_t refused = 0;
    jp_open(out, '{');
    jp_key_uint(out, "key", number);
    if (name[0] != '\0')
        jp_key_text(out, "name", name);
    for (quota_kind kind = 0; kind < QUOTA_KINDS; kind++) {
        refused += q->refused[kind];
        if (q->most[kind] > 0)
            jp_key_uint(out, quota_name(kind), q->most[kind]);
        if (q->most[kind] > 0 && kind != QUOTA_PARALLEL)
            jp_key_int(out, left[kind], quota_left(q, kind, now));
    }
    jp_key_uint(out, "running", q->running);
    jp_key_uint(out, "requests", q->requests);
    jp_key_uint(out, "tokens", q->tokens);
    jp_key_uint(out, "refused", refused);
    jp_close(out, '}');
}

static void put_keys(const keyring *k, strbuf *out)
{
    jp_key(out, "keys");
    jp_open(out, '[');
    for (size_t i = 0; i < keyring_count(k); i++)
        put_key(&keyring_at(k, i)->quota, i + 1, keyring_at(k, i)->name, out);
    jp_close(out, ']');
}

static void put_figures(const metrics_model *m, uint64_t limit, strbuf *out)
{
    put_room(&m->work, out);
    put_memory(m, limit, out);
    put_totals(&m->work, out);
    if (m->sees)
        put_pictures(&m->sight, out);
}

static void put_models(const metrics_view *v, const server *s, strbuf *out)
{
    jp_key(out, "models");
    jp_open(out, '[');
    for (size_t i = 0; i < v->n_models; i++) {
        jp_open(out, '{');
        jp_key_text(out, "name", v->models[i].name);
        jp_key_uint(out, "context", served_context(s->models[i]));
        jp_key_bool(out, "loaded", v->models[i].loaded);
        const double left = served_leaves_in(s->models[i]);
        if (v->models[i].loaded && left < 1e9)
            jp_key_double(out, "leaves_in", left);
        put_figures(&v->models[i], 0, out);
        jp_close(out, '}');
    }
    jp_close(out, ']');
}

void handle_status(exchange *x)
{
    server *s = exchange_server(x);
    metrics_view v;
    metrics_model all;
    strbuf out = {0};
    metrics_gather(&v, s);
    metrics_sum(&all, &v);
    jp_open(&out, '{');
    jp_key_text(&out, "model", all.name);
    jp_key_text(&out, "version", v.version);
    jp_key_text(&out, "isa", v.isa);
    jp_key_uint(&out, "threads", sched_settings(served_sched(s->models[0]))->threads);
    jp_key_uint(&out, "context", served_context(s->models[0]));
    jp_key_bool(&out, "draining", v.draining);
    jp_key_double(&out, "uptime", v.uptime);
    jp_key_uint(&out, "connections", v.door.connections);
    jp_key_double(&out, "loop_lag", v.door.loop_longest_lately);
    put_figures(&all, v.memory_limit, &out);
    if (server_n_keys(s) > 0)
        put_keys(access_keys(s->access), &out);
    put_models(&v, s, &out);
    put_streams(s, &out);
    jp_close(&out, '}');
    exchange_reply_built(x, EXCHANGE_JSON, &out);
}
