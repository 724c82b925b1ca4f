/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.c - GET /v1/status: models, memory, keys and running requests as JSON, for `mote ps` and
 * `mote top`. The reply contains no text of any request. Event loop thread.
 */
#include "base/os.h"
#include "server/api/common/dialect.h"
#include "server/auth/api_keys.h"
#include "json/json_writer.h"
#include "server/api/native/native.h"
#include "server/auth/access.h"

static void status_put_stream(const generation *w, const choice *c, strbuf *out)
{
    static const char *const phases[] = {"queued", "prefill", "decode", "finished"};
    sched_job_status job;
    sched_job_get_status(served_model_sched(w->request.served), c->job, &job);
    jw_open(out, '{');
    jw_key_text(out, "request_id", w->request_id);
    jw_key_text(out, "model", request_model_name(&w->request));
    jw_key_text(out, "dialect", w->api);
    jw_key_text(out, "phase", phases[job.phase]);
    jw_key_double(out, "age", os_now() - w->began);
    if (job.phase == SCHED_QUEUED)
        jw_key_uint(out, "position", job.position);
    jw_key_uint(out, "prompt", w->prompts[c->prompt].n);
    jw_key_uint(out, "prefilled", job.done);
    jw_key_uint(out, "reused", c->reused);
    jw_key_uint(out, "generated", job.generated);
    jw_close(out, '}');
}

static void status_put_streams(const server_context *s, strbuf *out)
{
    jw_key(out, "streams");
    jw_open(out, '[');
    for (const generation *w = s->generations; w != NULL; w = w->next)
        for (size_t i = 0; i < w->n_choices; i++)
            if (w->choices[i].submitted && !w->choices[i].over && w->choices[i].job != NULL)
                status_put_stream(w, &w->choices[i], out);
    jw_close(out, ']');
}

static void status_put_totals(const sched_stats *f, strbuf *out)
{
    jw_key(out, "totals");
    jw_open(out, '{');
    jw_key_uint(out, "answers", f->finished);
    jw_key_uint(out, "cancelled", f->canceled_queued + f->canceled_prefill + f->canceled_decode);
    jw_key_uint(out, "refused", f->refused_full);
    jw_key_uint(out, "prompt_tokens", f->prompt_tokens);
    jw_key_uint(out, "reused_tokens",
                f->reused_live_tokens + f->reused_idle_tokens + f->reused_disk_tokens);
    jw_key_uint(out, "prefill_tokens", f->prefill_tokens);
    jw_key_uint(out, "generated_tokens", f->generated_tokens);
    jw_key_uint(out, "draft_tokens", f->spec.drafted[SPEC_LOOKUP] + f->spec.drafted[SPEC_MODEL]);
    jw_key_uint(out, "draft_accepted",
                f->spec.accepted[SPEC_LOOKUP] + f->spec.accepted[SPEC_MODEL]);
    jw_key_uint(out, "steps", f->steps);
    jw_key_uint(out, "step_rows", f->step_rows);
    jw_key_uint(out, "prompt_rows", f->prefill_rows);
    jw_key_double(out, "step_seconds", f->step_seconds);
    jw_close(out, '}');
}

static void status_put_memory(const metrics_model *m, uint64_t limit, strbuf *out)
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

static void status_put_load(const sched_stats *f, strbuf *out)
{
    jw_key_uint(out, "queued", f->queued);
    jw_key_uint(out, "prefill", f->prefilling);
    jw_key_uint(out, "decode", f->decoding);
    jw_key_uint(out, "parallel", f->parallel);
    jw_key_uint(out, "kept", f->idle_sessions);
    jw_key_uint(out, "positions", f->positions_total);
    jw_key_uint(out, "positions_free", f->positions_free);
}

static void status_put_images(const vision_stats *f, strbuf *out)
{
    jw_key(out, "images");
    jw_open(out, '{');
    jw_key_uint(out, "total", f->total);
    jw_key_uint(out, "cache_hits", f->cache_hits);
    jw_key_uint(out, "encoded", f->encoded);
    jw_key_uint(out, "failed", f->failed);
    jw_key_uint(out, "waiting", f->waiting);
    jw_key_uint(out, "cached", f->cached);
    jw_key_uint(out, "bytes", f->bytes);
    jw_close(out, '}');
}

/* A key is shown by number and name, never by its value. */
static void status_put_key(quota *q, size_t number, const char *name, strbuf *out)
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

static void status_put_keys(const api_keys *k, strbuf *out)
{
    jw_key(out, "keys");
    jw_open(out, '[');
    for (size_t i = 0; i < api_keys_count(k); i++)
        status_put_key(&api_keys_at(k, i)->quota, i + 1, api_keys_at(k, i)->name, out);
    jw_close(out, ']');
}

static void status_put_stats(const metrics_model *m, uint64_t limit, strbuf *out)
{
    status_put_load(&m->work, out);
    status_put_memory(m, limit, out);
    status_put_totals(&m->work, out);
    if (m->has_vision)
        status_put_images(&m->vision, out);
}

static void status_put_models(const metrics_view *v, strbuf *out)
{
    jw_key(out, "models");
    jw_open(out, '[');
    for (size_t i = 0; i < v->n_models; i++) {
        jw_open(out, '{');
        jw_key_text(out, "name", v->models[i].name);
        jw_key_uint(out, "context", v->models[i].context);
        jw_key_bool(out, "loaded", v->models[i].loaded);
        if (v->models[i].loaded && v->models[i].leaves_in < 1e9)
            jw_key_double(out, "leaves_in", v->models[i].leaves_in);
        status_put_stats(&v->models[i], 0, out);
        jw_close(out, '}');
    }
    jw_close(out, ']');
}

static void status_put_registry(const model_registry_stats *r, strbuf *out)
{
    jw_key(out, "registry");
    jw_open(out, '{');
    jw_key_uint(out, "installed", r->installed);
    jw_key_uint(out, "loaded", r->loaded);
    jw_key_uint(out, "waiting", r->waiting);
    jw_key_uint(out, "memory", r->memory);
    jw_key_uint(out, "memory_peak", r->memory_peak);
    jw_key_uint(out, "limit", r->limit);
    jw_key_uint(out, "loads", r->loads);
    jw_key_double(out, "load_seconds", r->load_seconds);
    jw_close(out, '}');
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
    jw_key_uint(&out, "threads", v.n_models > 0 ? v.models[0].threads : 0);
    jw_key_uint(&out, "context", v.n_models > 0 ? v.models[0].context : 0);
    if (v.has_catalog)
        status_put_registry(&v.registry, &out);
    jw_key_bool(&out, "draining", v.draining);
    jw_key_double(&out, "uptime", v.uptime);
    jw_key_uint(&out, "connections", v.http.connections);
    jw_key_double(&out, "loop_lag", v.http.loop.longest_recent);
    status_put_stats(&all, v.memory_limit, &out);
    if (api_keys_count(access_keys(s->access)) > 0)
        status_put_keys(access_keys(s->access), &out);
    status_put_models(&v, &out);
    status_put_streams(s, &out);
    jw_close(&out, '}');
    exchange_reply_built(x, EXCHANGE_JSON, &out);
}
