/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_info.c - GET /health, /props, /slots and /v1/requests/ID; OPTIONS of every path.
 *
 * /health, /props and /slots have the form of llama-server's. Event loop thread.
 */
#include "base/os.h"
#include "json/json.h"
#include "server/api/native/native.h"
#include "server/core/context.h"
#include "server/core/server_sandbox.h"
#include "server/generation/generation.h"
#include "server/models/model_registry.h"

#include <mote.h>

#include <stdio.h>

/* The state of the files of all models: "ok", "replaced" or "damaged". *all: every model is
 * damaged. */
static const char *health_files(const server_context *s, bool *all)
{
    size_t replaced = 0, damaged = 0;
    model_set set;
    model_registry_hold(s->models, &set);
    for (size_t i = 0; i < set.n; i++) {
        const mote_file_state state = served_model_file_state(set.models[i]);
        replaced += state == MOTE_FILE_REPLACED;
        damaged += state == MOTE_FILE_DAMAGED;
    }
    *all = damaged == set.n && !model_registry_has_catalog(s->models);
    model_set_release(&set);
    return damaged > 0 ? "damaged" : replaced > 0 ? "replaced" : "ok";
}

/* The version of Landlock or null, and why a part of the sandbox is missing. */
static void health_put_landlock(strbuf *out, const server_sandbox *sandbox)
{
    char version[16];
    snprintf(version, sizeof version, "%d", sandbox->landlock);
    strbuf_text(out, ",\"landlock\":");
    strbuf_text(out, sandbox->landlock > 0 ? version : "null");
    if (sandbox->reason[0] == '\0')
        return;
    strbuf_text(out, ",\"sandbox_reason\":");
    json_put_string(out, str_of(sandbox->reason));
}

/* The 503 reply has the format of llama-server, because its clients poll /health. */
void handle_health(exchange *x)
{
    const server_context *s = exchange_context(x);
    bool no_model;
    const char *files = health_files(s, &no_model);
    if (s->stopping || no_model) {
        exchange_add_header(x, "Retry-After", "1");
        exchange_reply(
            x, 503, EXCHANGE_JSON,
            str_of(s->stopping
                       ? "{\"error\":{\"code\":503,\"message\":\"The server is shutting down\","
                         "\"type\":\"unavailable_error\"}}"
                       : "{\"error\":{\"code\":503,\"message\":\"The model file is damaged\","
                         "\"type\":\"unavailable_error\"}}"));
        return;
    }
    strbuf body = {0};
    strbuf_text(&body, "{\"status\":\"ok\",\"model\":");
    if (model_registry_has_catalog(s->models))
        strbuf_text(&body, "null"); /* models are loaded on request */
    else
        json_put_string(&body, str_of(model_entry_name(model_registry_default(s->models))));
    strbuf_text(&body, ",\"sandbox\":\"");
    strbuf_text(&body, server_sandbox_name(s->sandbox));
    strbuf_text(&body, s->sandbox->seccomp ? "\",\"seccomp\":true" : "\",\"seccomp\":false");
    health_put_landlock(&body, s->sandbox);
    strbuf_text(&body, ",\"version\":\"");
    strbuf_text(&body, mote_version());
    strbuf_text(&body, "\",\"model_files\":\"");
    strbuf_text(&body, files);
    strbuf_text(&body, "\"}");
    exchange_reply_built(x, EXCHANGE_JSON, &body);
}

/* A list of header names, as in Access-Control-Request-Headers. */
static bool header_names_valid(str text)
{
    enum { MOST = 1024 };
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && strchr("!#$%&'*+-.^_`|~, ", c) == NULL)
            return false;
    }
    return text.n > 0 && text.n <= MOST;
}

/* The access check has rejected origins that are not allowed. Access-Control-Allow-Origin is added
 * to every reply by exchange.c. */
void handle_options(exchange *x)
{
    str wanted = exchange_header(x, "access-control-request-headers");
    exchange_add_header(x, "Allow", "GET, HEAD, POST, DELETE, OPTIONS");
    if (exchange_header(x, "origin").n > 0) {
        exchange_add_header(x, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
        exchange_add_header(x, "Access-Control-Max-Age", "600");
        char names[1025];
        if (header_names_valid(wanted)) {
            memcpy(names, wanted.p, wanted.n);
            names[wanted.n] = '\0';
            exchange_add_header(x, "Access-Control-Allow-Headers", names);
        }
    }
    exchange_reply(x, 204, NULL, (str){"", 0});
}

static void info_fail(exchange *x, http_error_kind kind, const char *code, const char *text)
{
    http_error error;
    http_error_set(&error, kind, code, "%s", text);
    exchange_fail(x, &error);
}

/* ---- /props ---- */

static void props_put_settings(const served_model *m, strbuf *out)
{
    const chat_context *chat_ctx = served_model_chat_context(m);
    const chat_preset *p =
        chat_preset_find(chat_ctx->size, chat_ctx->template.thinks, CHAT_TASK_GENERAL);
    jw_key(out, "default_generation_settings");
    jw_open(out, '{');
    jw_key_uint(out, "n_ctx", served_model_context(m));
    jw_key(out, "params");
    jw_open(out, '{');
    jw_key_text(out, "preset", p->name);
    jw_key_float(out, "temperature", p->temperature);
    jw_key_float(out, "top_p", p->top_p);
    jw_key_uint(out, "top_k", p->top_k);
    jw_key_float(out, "min_p", p->min_p);
    jw_key_float(out, "presence_penalty", p->presence);
    jw_key_float(out, "frequency_penalty", 0);
    jw_key_float(out, "repeat_penalty", p->repetition > 0 ? p->repetition : 1);
    jw_key_int(out, "seed", -1);
    jw_key_int(out, "n_predict", -1);
    strbuf_text(out, "}}");
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

void handle_props(exchange *x)
{
    const server_context *ctx = exchange_context(x);
    mote_model_info info;
    strbuf out = {0};
    model_set set;
    model_registry_hold(ctx->models, &set);
    if (set.n == 0) {
        info_fail(x, HTTP_E_UNAVAILABLE, "no_model_loaded",
                  "no model is loaded; the first request loads one");
        return;
    }
    const served_model *m = set.models[0];
    mote_model_describe(served_model_weights(m), &info);
    jw_open(&out, '{');
    props_put_settings(m, &out);
    jw_key_uint(&out, "total_slots", sched_settings(served_model_sched(m))->parallel);
    jw_key_text(&out, "model_alias", served_model_name(m));
    jw_key_text(&out, "model_path", file_name(served_model_path(m)));
    jw_key_str(
        &out, "chat_template",
        (str){info.chat_template != NULL ? info.chat_template : "", info.chat_template_bytes});
    const chat_template *template = &served_model_chat_context(m)->template;
    char note[MOTE_TEMPLATE_NOTE];
    chat_template_note(template, note);
    jw_key_text(&out, "chat_template_used", template->style->name);
    jw_key_text(&out, "chat_template_origin", chat_origin_name(template->origin));
    jw_key_text(&out, "chat_template_note", note);
    jw_key_raw(&out, "chat_template_caps",
               "{\"supports_tools\":true,\"supports_tool_calls\":true,"
               "\"supports_parallel_tool_calls\":true,\"supports_system_role\":true,"
               "\"supports_preserve_reasoning\":true}");
    const bool has_vision = served_model_vision(m) != NULL;
    jw_key_raw(&out, "modalities",
               has_vision ? "{\"vision\":true,\"video\":true,\"audio\":false}"
                          : "{\"vision\":false,\"video\":false,\"audio\":false}");
    jw_key_text(&out, "build_info", "mote-" MOTE_VERSION);
    jw_key_bool(&out, "is_sleeping", !served_model_loaded(m));
    jw_close(&out, '}');
    model_set_release(&set);
    exchange_reply_built(x, EXCHANGE_JSON, &out);
}

void handle_props_change(exchange *x)
{
    info_fail(x, HTTP_E_UNSUPPORTED, "unsupported",
              "changing settings is not supported; restart the server with other flags");
}

/* ---- /slots ---- */

static void slots_put_one(const generation *w, const choice *c, uint64_t id, strbuf *out)
{
    sched_job_status where;
    sched_job_get_status(served_model_sched(w->request.served), c->job, &where);
    jw_open(out, '{');
    jw_key_uint(out, "id", id);
    jw_key_uint(out, "n_ctx", w->context);
    jw_key_bool(out, "is_processing", where.phase != SCHED_QUEUED);
    jw_key_uint(out, "n_prompt_tokens", w->prompts[c->prompt].n);
    jw_key_uint(out, "n_decoded", where.generated);
    jw_key_double(out, "age_s", (double)(int64_t)(1000 * (os_now() - w->began)) / 1000);
    jw_close(out, '}');
}

static uint32_t slots_queued(const server_context *s)
{
    uint32_t n = 0;
    model_set set;
    model_registry_hold(s->models, &set);
    for (size_t i = 0; i < set.n; i++) {
        sched_stats stats;
        sched_read_stats(served_model_sched(set.models[i]), &stats);
        n += stats.queued;
    }
    model_set_release(&set);
    return n;
}

void handle_slots(exchange *x)
{
    server_context *s = exchange_context(x);
    const str query = exchange_request(x)->query;
    strbuf out = {0};
    uint64_t id = 0;
    if (str_is(query, "fail_on_no_slot=1") && slots_queued(s) > 0) {
        info_fail(x, HTTP_E_UNAVAILABLE, "no_slot", "all slots are busy");
        return;
    }
    jw_open(&out, '[');
    for (const generation *w = s->generations; w != NULL; w = w->next)
        for (size_t i = 0; i < w->n_choices; i++)
            if (w->choices[i].submitted && !w->choices[i].over && w->choices[i].job != NULL)
                slots_put_one(w, &w->choices[i], id++, &out);
    jw_close(&out, ']');
    exchange_reply_built(x, EXCHANGE_JSON, &out);
}

/* ---- /v1/requests/ID ---- */

static void info_send_report(exchange *x, bool found, const char *absent, strbuf *json)
{
    if (!found)
        info_fail(x, HTTP_E_NOT_FOUND, "not_found", absent);
    else
        exchange_reply_built(x, EXCHANGE_JSON, json);
    strbuf_fini(json);
}

void handle_request_stats(exchange *x)
{
    const http_request *http = exchange_request(x);
    const server_context *ctx = exchange_context(x);
    strbuf json = {0};
    info_send_report(x, text_store_get(ctx->reports, http->ns, http->tail, 0, &json),
                     "no stored report for this request id", &json);
}

/* Needs more than the scope infer without keys: the report quotes prompts of any client. */
void handle_request_last(exchange *x)
{
    const http_request *http = exchange_request(x);
    const server_context *ctx = exchange_context(x);
    strbuf json = {0};
    info_send_report(x, text_store_get_last(ctx->reports, http->ns, 0, &json),
                     "no request has been answered yet: send one first", &json);
}

void handle_not_offered(exchange *x)
{
    info_fail(x, HTTP_E_UNSUPPORTED, "unsupported", "this route is not supported");
}
