/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokenize.c - small routes that clients of llama-server look for, and one of our own.
 *
 * What the server is and does (/props, /slots, /v1/requests/ID), and text to ids and back.
 */
#include "base/os.h"
#include "server/api/common/background.h"
#include "server/generation/dialect.h"
#include "server/request/params.h"
#include "server/core/context.h"
#include "server/api/openai/openai.h"
#include "server/api/handlers.h"

#include <stdio.h>

static void fail(exchange *x, api_error_kind kind, const char *code, const char *text)
{
    http_error error;
    api_error_set(&error, kind, code, "%s", text);
    exchange_fail(x, &error);
}

/* ---- /props ---- */

static void put_settings(const served_model *m, strbuf *out)
{
    const chat_context *chat_ctx = served_model_chat_context(m);
    const chat_preset *p =
        chat_preset_find(chat_ctx->size, chat_ctx->how.thinks, CHAT_TASK_GENERAL);
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
    const served_model *m = server_model(exchange_server(x), 0);
    mote_model_info info;
    strbuf out = {0};
    mote_model_describe(served_model_weights(m), &info);
    jw_open(&out, '{');
    put_settings(m, &out);
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
    const bool sees = served_model_vision(m) != NULL;
    jw_key_raw(&out, "modalities",
               sees ? "{\"vision\":true,\"video\":true,\"audio\":false}"
                    : "{\"vision\":false,\"video\":false,\"audio\":false}");
    jw_key_text(&out, "build_info", "mote-" MOTE_VERSION);
    jw_key_bool(&out, "is_sleeping", !served_model_loaded(m));
    jw_close(&out, '}');
    exchange_reply_built(x, EXCHANGE_JSON, &out);
}

void handle_props_change(exchange *x)
{
    fail(x, API_E_UNSUPPORTED, "unsupported", "settings are given when the server is started");
}

/* ---- /slots ---- */

static void put_slot(const generation *w, const choice *c, uint64_t id, strbuf *out)
{
    sched_job_status where;
    sched_job_get_status(served_model_sched(w->request.served), c->job, &where);
    jw_open(out, '{');
    jw_key_uint(out, "id", id);
    jw_key_uint(out, "n_ctx", w->context);
    jw_key_bool(out, "is_processing", where.phase != SCHED_QUEUED);
    jw_key_uint(out, "n_prompt_tokens", w->prompts[c->prompt].n);
    jw_key_uint(out, "n_decoded", where.written);
    jw_key_double(out, "age_s", (double)(int64_t)(1000 * (os_now() - w->began)) / 1000);
    jw_close(out, '}');
}

static uint32_t n_queued(const server *s)
{
    uint32_t n = 0;
    for (size_t i = 0; i < server_n_models(s); i++) {
        sched_stats stats;
        sched_read_stats(served_model_sched(server_model(s, i)), &stats);
        n += stats.queued;
    }
    return n;
}

void handle_slots(exchange *x)
{
    server *s = exchange_server(x);
    const str query = exchange_request(x)->query;
    strbuf out = {0};
    uint64_t id = 0;
    if (str_is(query, "fail_on_no_slot=1") && n_queued(s) > 0) {
        fail(x, API_E_UNAVAILABLE, "no_slot", "all slots are at work");
        return;
    }
    jw_open(&out, '[');
    for (const generation *w = *generation_list(server_api(s)); w != NULL; w = w->next)
        for (size_t i = 0; i < w->n_choices; i++)
            if (w->choices[i].submitted && !w->choices[i].over && w->choices[i].job != NULL)
                put_slot(w, &w->choices[i], id++, &out);
    jw_close(&out, ']');
    exchange_reply_built(x, EXCHANGE_JSON, &out);
}

/* ---- /v1/requests/ID ---- */

void handle_request_stats(exchange *x)
{
    const http_request *http = exchange_request(x);
    strbuf json = {0};
    if (!report_store_get(server_api(exchange_server(x)), http->tail, http->ns, &json))
        fail(x, API_E_NOT_FOUND, "not_found", "no http with this id is remembered");
    else
        exchange_reply_built(x, EXCHANGE_JSON, &json);
    strbuf_fini(&json);
}

void handle_not_offered(exchange *x)
{
    fail(x, API_E_UNSUPPORTED, "unsupported", "this route is known and not offered");
}

/* ---- text to ids ---- */

static bool is_text(const mote_model *model, mote_token id, str bytes)
{
    char text[MOTE_PIECE_BYTES];
    mote_text_stream stream = {0};
    const size_t n = mote_text_next(model, &stream, id, text, sizeof text);
    return stream.n_held == 0 && str_eq(bytes, (str){text, n});
}

static void put_pieces(const mote_model *model, const mote_token *ids, size_t n, strbuf *out)
{
    for (size_t i = 0; i < n; i++) {
        str piece;
        piece.p = mote_token_bytes(model, ids[i], &piece.n);
        jw_open(out, '{');
        jw_key_int(out, "id", ids[i]);
        jw_key(out, "piece");
        if (is_text(model, ids[i], piece))
            jw_str(out, piece);
        else
            jw_bytes(out, piece);
        jw_close(out, '}');
    }
}

/* By the name in the body; the first if there is none, or nobody has it. */
static const served_model *asked_for(const background_job *s)
{
    request a = {.server = s->server};
    request_choose(&a, request_name_in(s->body, false));
    return a.served;
}

static void run_tokenize(background_job *s)
{
    const mote_model *model = served_model_weights(asked_for(s));
    const unsigned flags =
        json_node_truth(json_node_get(s->body, "parse_special")) ? MOTE_TEXT_CONTROL : 0;
    str text;
    size_t n = 0;
    mote_error err;
    if (!background_text(s, "content", &text))
        return;
    mote_status status = mote_tokenize(model, text.p, text.n, flags, NULL, 0, &n, &err);
    strbuf ids = {0};
    if (status == MOTE_OK && !strbuf_reserve(&ids, (n + 1) * sizeof(mote_token)))
        status = err_set(&err, MOTE_E_MEMORY, "no memory for tokens");
    mote_token *list = (mote_token *)(void *)ids.p;
    if (status == MOTE_OK)
        status = mote_tokenize(model, text.p, text.n, flags, list, n, &n, &err);
    if (status != MOTE_OK) {
        http_error_from(&s->error, &err);
        strbuf_fini(&ids);
        return;
    }
    strbuf_text(&s->out, "{\"tokens\":[");
    if (json_node_truth(json_node_get(s->body, "with_pieces")))
        put_pieces(model, list, n, &s->out);
    else
        for (size_t i = 0; i < n; i++)
            jw_int(&s->out, list[i]);
    strbuf_text(&s->out, "]}");
    strbuf_fini(&ids);
}

void handle_tokenize(exchange *x)
{
    background_start(x, run_tokenize, true);
}

/* ---- ids to text ---- */

static void run_detokenize(background_job *s)
{
    const chat_context *chat_ctx = served_model_chat_context(asked_for(s));
    const json_node *tokens = json_node_get(s->body, "tokens");
    char piece[MOTE_PIECE_BYTES];
    mote_text_stream stream = {0};
    if (!json_node_is(tokens, JSON_IS_ARRAY)) {
        http_error_invalid(&s->error, "tokens", "must be an array of ids");
        return;
    }
    strbuf_text(&s->out, "{\"content\":\"");
    for (const json_node *e = json_node_first(tokens); e != NULL; e = json_node_next(e)) {
        int64_t id;
        if (!json_node_int64(e, &id) || id < 0 || id >= (int64_t)chat_ctx->n_tokens) {
            http_error_invalid(&s->error, "tokens", "must hold ids from 0 to %u",
                               (unsigned)chat_ctx->n_tokens - 1);
            return;
        }
        const size_t n =
            mote_text_next(chat_ctx->model, &stream, (mote_token)id, piece, sizeof piece);
        jw_escaped(&s->out, (str){piece, n});
    }
    const size_t n = mote_text_next(chat_ctx->model, &stream, -1, piece, sizeof piece);
    jw_escaped(&s->out, (str){piece, n});
    strbuf_text(&s->out, "\"}");
}

void handle_detokenize(exchange *x)
{
    background_start(x, run_detokenize, true);
}

/* ---- a conversation to text ---- */

static void rendered(generation *w)
{
    const chat_prompt *p = &w->prompts[0];
    jw_open(&w->out, '{');
    jw_key_str(&w->out, "prompt", strbuf_view(&p->text));
    if (w->request.show_ids) {
        jw_key(&w->out, "tokens");
        jw_open(&w->out, '[');
        for (size_t i = 0; i < p->n; i++)
            jw_int(&w->out, p->ids[i]);
        jw_close(&w->out, ']');
    }
    jw_close(&w->out, '}');
    generation_reply(w, 200);
}

void handle_apply_template(exchange *x)
{
    static const dialect render = {.label = "openai",
                                   .call_prefix = "call_",
                                   .place = PARAM_IN_CHAT,
                                   .read = openai_read_chat,
                                   .rendered = rendered};
    generation_start(x, &render);
}
