/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.c - how the server is doing: /metrics for Prometheus, /v1/status for `mote ps`
 * and `mote top`. Both tell figures only; no text of any request is in them.
 */
#include "base/os.h"
#include "server/api/common/dialect.h"
#include "server/auth/api_keys.h"
#include "json/json_writer.h"
#include "server/api/native/native.h"
#include "server/auth/access.h"

#include <mote.h>

static void gather_model(metrics_model *v, const served_model *m)
{
    *v = (metrics_model){.name = served_model_name(m),
                         .loaded = served_model_loaded(m),
                         .sees = served_model_vision(m) != NULL};
    sched_read_stats(served_model_sched(m), &v->work);
    v->calls_malformed = served_model_malformed(m);
    sched_memory(served_model_sched(m), &v->memory);
    if (v->sees) {
        v->memory_vision = v->loaded ? vision_service_memory(served_model_vision(m)) : 0;
        v->memory.total += v->memory_vision;
        vision_service_read_stats(served_model_vision(m), &v->vision);
    }
}

void metrics_gather(metrics_view *v, server_context *s)
{
    mote_model_info info;
    mote_model_describe(served_model_weights(model_registry_at(s->models, 0)), &info);
    *v = (metrics_view){.version = mote_version(),
                        .isa = mote_isa_name(info.isa),
                        .counts = s->counts,
                        .n_models = model_registry_count(s->models),
                        .memory_limit = s->memory_limit,
                        .structured_outputs = s->structured_outputs,
                        .decoder_exits = s->decoder_exits,
                        .draining = s->draining,
                        .uptime = os_now() - s->started};
    for (size_t i = 0; i < v->n_models; i++)
        gather_model(&v->models[i], model_registry_at(s->models, i));
    http_server_read_stats(s->http, &v->http);
    for (quota_kind kind = 0; kind < QUOTA_KINDS; kind++)
        v->over_quota[kind] = api_keys_refused(access_keys(s->access), kind);
}

void handle_metrics(exchange *x)
{
    metrics_view v;
    strbuf out = {0};
    metrics_gather(&v, exchange_context(x));
    metrics_print(&out, &v);
    exchange_reply_built(x, "text/plain; version=0.0.4; charset=utf-8", &out);
}

/* ---- /v1/status ---- */

static void put_stream(const generation *w, const choice *c, strbuf *out)
{
    static const char *const phases[] = {"queued", "prefill", "decode", "finished"};
    sched_job_status where;
    sched_job_get_status(served_model_sched(w->request.served), c->job, &where);
    jw_open(out, '{');
    jw_key_text(out, "request_id", w->request_id);
    jw_key_text(out, "model", served_model_name(w->request.served));
    jw_key_text(out, "dialect", w->api);
    jw_key_text(out, "phase", phases[where.phase]);
    jw_key_double(out, "age", os_now() - w->began);
    if (where.phase == SCHED_QUEUED)
        jw_key_uint(out, "position", where.position);
    jw_key_uint(out, "prompt", w->prompts[c->prompt].n);
    jw_key_uint(out, "prefilled", where.done);
    jw_key_uint(out, "reused", c->reused);
    jw_key_uint(out, "generated", where.generated);
    jw_close(out, '}');
}

static void put_streams(const server_context *s, strbuf *out)
{
    jw_key(out, "streams");
    jw_open(out, '[');
    for (const generation *w = s->generations; w != NULL; w = w->next)
        for (size_t i = 0; i < w->n_choices; i++)
            if (w->choices[i].submitted && !w->choices[i].over && w->choices[i].job != NULL)
                put_stream(w, &w->choices[i], out);
    jw_close(out, ']');
}

static void put_totals(const sched_stats *f, strbuf *out)
{
    jw_key(out, "totals");
    jw_open(out, '{');
    jw_key_uint(out, "answers", f->finished);
    jw_key_uint(out, "cancelled", f->canceled_queued + f->canceled_prefill + f->canceled_decode);
    jw_key_uint(out, "refused", f->refused_full);
    jw_key_uint(out, "prompt_tokens", f->prompt_tokens);
    jw_key_uint(out, "reused_tokens", f->reused_live_tokens + f->reused_idle_tokens);
    jw_key_uint(out, "prefill_tokens", f->prefill_tokens);
    jw_key_uint(out, "generated_tokens", f->generated_tokens);
    jw_key_uint(out, "steps", f->steps);
    jw_key_uint(out, "step_rows", f->step_rows);
    jw_key_uint(out, "prompt_rows", f->prefill_rows);
    jw_key_double(out, "step_seconds", f->step_seconds);
    jw_close(out, '}');
}

static void put_memory(const metrics_model *m, uint64_t limit, strbuf *out)
{
    jw_key(out, "memory");
    jw_open(out, '{');
    jw_key_uint(out, "total", m->memory.total);
    jw_key_uint(out, "weights", m->memory.weights);
    jw_key_uint(out, "model", m->memory.model);
    jw_key_uint(out, "kv_cache", m->memory.kv_cache);
    jw_key_uint(out, "recurrent_state", m->memory.recurrent_state);
    jw_key_uint(out, "scratch", m->memory.scratch);
    jw_key_uint(out, "vision", m->memory_vision);
    jw_key_uint(out, "limit", limit);
    jw_close(out, '}');
}

static void put_room(const sched_stats *f, strbuf *out)
{
    jw_key_uint(out, "queued", f->queued);
    jw_key_uint(out, "prefill", f->prefilling);
    jw_key_uint(out, "decode", f->decoding);
    jw_key_uint(out, "parallel", f->parallel);
    jw_key_uint(out, "kept", f->idle_sessions);
    jw_key_uint(out, "positions", f->positions_total);
    jw_key_uint(out, "positions_free", f->positions_free);
}

static void put_images(const vision_stats *f, strbuf *out)
{
    jw_key(out, "images");
    jw_open(out, '{');
    jw_key_uint(out, "total", f->asked);
    jw_key_uint(out, "cache_hits", f->found);
    jw_key_uint(out, "encoded", f->looked);
    jw_key_uint(out, "failed", f->failed);
    jw_key_uint(out, "waiting", f->waiting);
    jw_key_uint(out, "cached", f->kept);
    jw_key_uint(out, "bytes", f->bytes);
    jw_close(out, '}');
}

/* By its number and its name, never by what it is. */
static void put_key(quota *q, size_t number, const char *name, strbuf *out)
{
    static const char *const left[] = {"requests_left", "tokens_left"};
    const uint64_t now = (uint64_t)(1000 * os_now());
    uint64_t refused = 0;
    jw_open(out, '{');
    jw_key_uint(out, "key", number);
    if (name[0] != '\0')
        jw_key_text(out, "name", name);
    for (quota_kind kind = 0; kind < QUOTA_KINDS; kind++) {
        refused += q->refused[kind];
        if (q->most[kind] > 0)
            jw_key_uint(out, quota_name(kind), q->most[kind]);
        if (q->most[kind] > 0 && kind != QUOTA_PARALLEL)
            jw_key_int(out, left[kind], quota_left(q, kind, now));
    }
    jw_key_uint(out, "running", q->running);
    jw_key_uint(out, "requests", q->requests);
    jw_key_uint(out, "tokens", q->tokens);
    jw_key_uint(out, "refused", refused);
    jw_close(out, '}');
}

static void put_keys(const api_keys *k, strbuf *out)
{
    jw_key(out, "keys");
    jw_open(out, '[');
    for (size_t i = 0; i < api_keys_count(k); i++)
        put_key(&api_keys_at(k, i)->quota, i + 1, api_keys_at(k, i)->name, out);
    jw_close(out, ']');
}

static void put_stats(const metrics_model *m, uint64_t limit, strbuf *out)
{
    put_room(&m->work, out);
    put_memory(m, limit, out);
    put_totals(&m->work, out);
    if (m->sees)
        put_images(&m->vision, out);
}

static void put_models(const metrics_view *v, const server_context *s, strbuf *out)
{
    jw_key(out, "models");
    jw_open(out, '[');
    for (size_t i = 0; i < v->n_models; i++) {
        jw_open(out, '{');
        jw_key_text(out, "name", v->models[i].name);
        jw_key_uint(out, "context", served_model_context(model_registry_at(s->models, i)));
        jw_key_bool(out, "loaded", v->models[i].loaded);
        const double left = served_model_leaves_in(model_registry_at(s->models, i));
        if (v->models[i].loaded && left < 1e9)
            jw_key_double(out, "leaves_in", left);
        put_stats(&v->models[i], 0, out);
        jw_close(out, '}');
    }
    jw_close(out, ']');
}

void handle_status(exchange *x)
{
    server_context *s = exchange_context(x);
    metrics_view v;
    metrics_model all;
    strbuf out = {0};
    metrics_gather(&v, s);
    metrics_sum(&all, &v);
    jw_open(&out, '{');
    jw_key_text(&out, "model", all.name);
    jw_key_text(&out, "version", v.version);
    jw_key_text(&out, "isa", v.isa);
    jw_key_uint(&out, "threads",
                sched_settings(served_model_sched(model_registry_at(s->models, 0)))->threads);
    jw_key_uint(&out, "context", served_model_context(model_registry_at(s->models, 0)));
    jw_key_bool(&out, "draining", v.draining);
    jw_key_double(&out, "uptime", v.uptime);
    jw_key_uint(&out, "connections", v.http.connections);
    jw_key_double(&out, "loop_lag", v.http.loop.longest_recent);
    put_stats(&all, v.memory_limit, &out);
    if (api_keys_count(access_keys(s->access)) > 0)
        put_keys(access_keys(s->access), &out);
    put_models(&v, s, &out);
    put_streams(s, &out);
    jw_close(&out, '}');
    exchange_reply_built(x, EXCHANGE_JSON, &out);
}
