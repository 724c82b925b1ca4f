/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_info.c - GET /, /health, /props, /slots and /v1/requests/ID; OPTIONS of every path.
 *
 * /health, /props and /slots have the form of llama-server's. Event loop thread.
 */
#include "base/os.h"
#include "json/json.h"
#include "server/api/native/native.h"
#include "server/core/context.h"
#include "server/generation/generation.h"
#include "server/models/model_registry.h"

#include <mote.h>

/* Ollama's clients check for this text. */
void handle_root(exchange *x)
{
    exchange_reply(x, 200, "text/plain; charset=utf-8", str_of("Ollama is running"));
}

/* The 503 reply has the format of llama-server, because its clients poll /health. */
void handle_health(exchange *x)
{
    const server_context *s = exchange_context(x);
    if (s->draining) {
        exchange_add_header(x, "Retry-After", "1");
        exchange_reply(
            x, 503, EXCHANGE_JSON,
            str_of("{\"error\":{\"code\":503,\"message\":\"The server is shutting down\","
                   "\"type\":\"unavailable_error\"}}"));
        return;
    }
    strbuf body = {0};
    strbuf_text(&body, "{\"status\":\"ok\",\"model\":");
    json_put_string(&body, str_of(served_model_name(model_registry_at(s->models, 0))));
    strbuf_text(&body, ",\"sandbox\":\"off\",\"version\":\"");
    strbuf_text(&body, mote_version());
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
    const served_model *m = model_registry_at(ctx->models, 0);
    mote_model_info info;
    strbuf out = {0};
    mote_model_describe(served_model_weights(m), &info);
    jw_open(&out, '{');
    props_put_settings(m, &out);
    jw_key_uint(&out, "total_slots", sched_settings(served_model_sched(m))->parallel);
    jw_key_text(&out, "model_alias", served_model_name(m));
    jw_key_text(&out, "model_path", file_name(served_model_path(m)));
    jw_key_str(
        &out, "chat_template",
        (str){info.chat_template != NULL ? info.chat_template : "", info.chat_template_bytes});
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
    for (size_t i = 0; i < model_registry_count(s->models); i++) {
        sched_stats stats;
        sched_read_stats(served_model_sched(model_registry_at(s->models, i)), &stats);
        n += stats.queued;
    }
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

void handle_request_stats(exchange *x)
{
    const http_request *http = exchange_request(x);
    const server_context *ctx = exchange_context(x);
    const bool last = str_is(http->tail, "last");
    strbuf json = {0};
    if (!(last ? text_store_get_last(ctx->reports, http->ns, 0, &json)
               : text_store_get(ctx->reports, http->ns, http->tail, 0, &json)))
        info_fail(x, HTTP_E_NOT_FOUND, "not_found", "no stored report for this request id");
    else
        exchange_reply_built(x, EXCHANGE_JSON, &json);
    strbuf_fini(&json);
}

void handle_not_offered(exchange *x)
{
    info_fail(x, HTTP_E_UNSUPPORTED, "unsupported", "this route is not supported");
}
