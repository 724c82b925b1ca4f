/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route_status.c - how the server is doing: /metrics for Prometheus, /v1/status for `mote ps`
 * and `mote top`. Both tell figures only; no text of any request is in them.
 */
#include "base/os.h"
#include "server/dialect.h"
#include "server/handlers.h"
#include "server/json_print.h"
#include "server/metrics.h"
#include "server/server_int.h"

#include <mote.h>

void metrics_gather(metrics_view *v, server *s)
{
    mote_model_info info;
    mote_model_describe(server_settings(s)->model, &info);
    *v = (metrics_view){.model = server_model_name(s),
                        .version = mote_version(),
                        .isa = mote_isa_name(info.isa),
                        .counts = &s->counts,
                        .memory_limit = s->options.sched.memory,
                        .sees = s->sight != NULL,
                        .draining = server_draining(s),
                        .uptime = os_now() - s->started};
    sched_read_figures(server_sched(s), &v->work);
    sched_memory(server_sched(s), &v->memory);
    server_read_figures(s, &v->door);
    if (s->sight != NULL) {
        v->memory_vision = sight_memory(s->sight);
        v->memory.total += v->memory_vision;
        sight_read_figures(s->sight, &v->sight);
    }
}

static void reply(exchange *x, const char *type, strbuf *out)
{
    api_error error;
    if (out->failed) {
        ask_no_memory(&error);
        exchange_fail(x, &error);
    } else {
        exchange_reply(x, 200, type, strbuf_view(out));
    }
    strbuf_fini(out);
}

void handle_metrics(exchange *x)
{
    metrics_view v;
    strbuf out = {0};
    metrics_gather(&v, exchange_server(x));
    metrics_print(&out, &v);
    reply(x, "text/plain; version=0.0.4; charset=utf-8", &out);
}

/* ---- /v1/status ---- */

static void put_stream(const answering *w, const choice *c, strbuf *out)
{
    static const char *const phases[] = {"queued", "reading", "writing", "over"};
    sched_where where;
    sched_look(server_sched(w->server), c->job, &where);
    jp_open(out, '{');
    jp_key_text(out, "request_id", w->request_id);
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

static void put_memory(const metrics_view *v, strbuf *out)
{
    jp_key(out, "memory");
    jp_open(out, '{');
    jp_key_uint(out, "total", v->memory.total);
    jp_key_uint(out, "weights", v->memory.weights);
    jp_key_uint(out, "model", v->memory.model);
    jp_key_uint(out, "kv", v->memory.pages);
    jp_key_uint(out, "state", v->memory.states);
    jp_key_uint(out, "scratch", v->memory.scratch);
    jp_key_uint(out, "vision", v->memory_vision);
    jp_key_uint(out, "limit", v->memory_limit);
    jp_close(out, '}');
}

static void put_room(const metrics_view *v, strbuf *out)
{
    const sched_figures *f = &v->work;
    jp_key_uint(out, "queued", f->queued);
    jp_key_uint(out, "reading", f->reading);
    jp_key_uint(out, "writing", f->writing);
    jp_key_uint(out, "parallel", f->parallel);
    jp_key_uint(out, "kept", f->ended_kept);
    jp_key_uint(out, "positions", f->positions_total);
    jp_key_uint(out, "positions_free", f->positions_free);
    jp_key_uint(out, "connections", v->door.connections);
    jp_key_double(out, "loop_lag", v->door.loop_longest_lately);
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

void handle_status(exchange *x)
{
    server *s = exchange_server(x);
    metrics_view v;
    strbuf out = {0};
    metrics_gather(&v, s);
    jp_open(&out, '{');
    jp_key_text(&out, "model", v.model);
    jp_key_text(&out, "version", v.version);
    jp_key_text(&out, "isa", v.isa);
    jp_key_uint(&out, "threads", sched_settings(server_sched(s))->threads);
    jp_key_uint(&out, "context", sched_settings(server_sched(s))->context);
    jp_key_bool(&out, "draining", v.draining);
    jp_key_double(&out, "uptime", v.uptime);
    put_room(&v, &out);
    put_memory(&v, &out);
    put_totals(&v.work, &out);
    if (v.sees)
        put_pictures(&v.sight, &out);
    put_streams(s, &out);
    jp_close(&out, '}');
    reply(x, "application/json; charset=utf-8", &out);
}
