/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ollama_models.c - Ollama's routes about models: tags, ps, show, version, pull, delete.
 *
 * The set of served models is fixed at startup. Routes that would change it reply with an error
 * that names the alternative.
 */
#include "server/api/common/dialect.h"
#include "server/request/request.h"
#include "server/api/ollama/ollama.h"
#include "server/models/model_registry.h"

#include <stdio.h>
#include <time.h>

/* The emulated Ollama release; clients enable features by it. */
static const char ollama_version[] = "0.13.0";

/* ---- names ---- */

/* The served model named by `model` or `name` of the body. false: the error is set. */
static bool models_find_named(background_job *s, served_model **out)
{
    request a = {.model = request_name_in(s->body, true), .ctx = s->ctx};
    str suffix;
    request_choose(&a, a.model);
    *out = a.served;
    if (a.model.n > 0)
        return request_model(&a, &suffix, &s->error);
    return request_missing(&s->error, "model");
}

/* ---- lists ---- */

static void ollama_put_details(const model_details *f, strbuf *out)
{
    jw_key(out, "details");
    jw_open(out, '{');
    jw_key_text(out, "parent_model", "");
    jw_key_text(out, "format", "gguf");
    jw_key_text(out, "family", f->family);
    jw_key(out, "families");
    jw_open(out, '[');
    jw_text(out, f->family);
    jw_close(out, ']');
    jw_key_text(out, "parameter_size", f->parameters);
    jw_key_text(out, "quantization_level", f->format);
    jw_close(out, '}');
}

static void ollama_put_capabilities(const model_details *f, bool has_vision, strbuf *out)
{
    jw_key(out, "capabilities");
    jw_open(out, '[');
    jw_text(out, "completion");
    jw_text(out, "tools");
    jw_text(out, "thinking");
    if (f->insert)
        jw_text(out, "insert");
    jw_text(out, "embedding");
    if (has_vision)
        jw_text(out, "vision");
    jw_close(out, ']');
}

static void ollama_open_entry(const served_model *m, const model_details *f, strbuf *out)
{
    jw_open(out, '{');
    jw_key_text(out, "name", served_model_name(m));
    jw_key_text(out, "model", served_model_name(m));
    jw_key_uint(out, "size", f->info.file_bytes);
    jw_key_text(out, "digest", f->digest);
    ollama_put_details(f, out);
}

static void ollama_run_tags(background_job *s)
{
    strbuf_text(&s->out, "{\"models\":[");
    for (size_t i = 0; i < model_registry_count(s->ctx->models); i++) {
        const served_model *m = model_registry_at(s->ctx->models, i);
        model_details f;
        model_details_read(&f, m);
        ollama_open_entry(m, &f, &s->out);
        jw_key_text(&s->out, "modified_at", f.date);
        ollama_put_capabilities(&f, served_model_vision(m) != NULL, &s->out);
        jw_close(&s->out, '}');
        model_details_fini(&f);
    }
    strbuf_text(&s->out, "]}");
}

static void ps_put_expiry(double seconds, strbuf *out)
{
    char text[OLLAMA_TIME_BYTES] = "9999-12-31T23:59:59Z"; /* never */
    if (seconds < 1e9)
        ollama_time_of((int64_t)time(NULL) + (int64_t)seconds, 0, text);
    jw_key_text(out, "expires_at", text);
}

static void ollama_run_ps(background_job *s)
{
    strbuf_text(&s->out, "{\"models\":[");
    for (size_t i = 0; i < model_registry_count(s->ctx->models); i++) {
        served_model *m = model_registry_at(s->ctx->models, i);
        model_details f;
        if (!served_model_loaded(m))
            continue;
        model_details_read(&f, m);
        ollama_open_entry(m, &f, &s->out);
        ps_put_expiry(served_model_leaves_in(m), &s->out);
        jw_key_uint(&s->out, "size_vram", 0);
        jw_key_uint(&s->out, "context_length", served_model_context(m));
        jw_close(&s->out, '}');
        model_details_fini(&f);
    }
    strbuf_text(&s->out, "]}");
}

void handle_ollama_tags(exchange *x)
{
    background_start(x, ollama_run_tags, false);
}

void handle_ollama_ps(exchange *x)
{
    background_start(x, ollama_run_ps, false);
}

void handle_ollama_version(exchange *x)
{
    char body[128];
    snprintf(body, sizeof body, "{\"version\":\"%s\",\"mote_version\":\"%s\"}", ollama_version,
             mote_version());
    exchange_reply(x, 200, EXCHANGE_JSON, str_of(body));
}

/* ---- show ---- */

static void gguf_put_array(const gguf_kv *kv, strbuf *out)
{
    jw_open(out, '[');
    str text;
    gguf_str_walk walk = {0};
    int64_t n;
    if (kv->type == GGUF_STRING)
        while (gguf_next_str(kv, &walk, &text))
            jw_str(out, text);
    else
        for (uint64_t i = 0; i < kv->count && gguf_int_at(kv, i, &n); i++)
            jw_int(out, n);
    jw_close(out, ']');
}

static void gguf_put_value(const gguf *file, const gguf_kv *kv, strbuf *out)
{
    char key[GGUF_MAX_KEY + 1];
    float real;
    bool truth, found;
    str text;
    int64_t n;
    snprintf(key, sizeof key, "%.*s", (int)(kv->key.n < GGUF_MAX_KEY ? kv->key.n : GGUF_MAX_KEY),
             kv->key.p);
    if (kv->type == GGUF_STRING && gguf_get_str(file, key, &text, &found, NULL) == MOTE_OK)
        jw_str(out, text);
    else if (kv->type == GGUF_BOOL && gguf_get_bool(file, key, &truth, &found, NULL) == MOTE_OK)
        jw_bool(out, truth);
    else if (gguf_int_at(kv, 0, &n))
        jw_int(out, n);
    else if (gguf_get_f32(file, key, &real, &found, NULL) == MOTE_OK)
        jw_float(out, real);
    else
        jw_null(out);
}

/* Long arrays (the vocabulary) are printed with `verbose` only. */
static bool gguf_is_long(const gguf_kv *kv)
{
    enum { SHORT = 64 };
    return kv->is_array && kv->count > SHORT;
}

static void show_put_model_info(const model_details *f, bool verbose, strbuf *out)
{
    jw_key(out, "model_info");
    jw_open(out, '{');
    if (f->file == NULL || gguf_find(f->file, "general.parameter_count") == NULL)
        jw_key_uint(out, "general.parameter_count", f->info.parameters);
    for (uint64_t i = 0; f->file != NULL && i < gguf_n_kv(f->file); i++) {
        const gguf_kv *kv = gguf_kv_at(f->file, i);
        if (str_is(kv->key, "tokenizer.chat_template"))
            continue; /* printed as `template` */
        jw_str(out, kv->key);
        strbuf_byte(out, ':');
        if (gguf_is_long(kv) && !verbose)
            strbuf_text(out, "[]");
        else if (kv->is_array)
            gguf_put_array(kv, out);
        else
            gguf_put_value(f->file, kv, out);
    }
    jw_close(out, '}');
}

static void show_put_preset(const chat_preset *p, strbuf *out)
{
    jw_key(out, p->name);
    jw_open(out, '{');
    jw_key_float(out, "temperature", p->temperature);
    jw_key_float(out, "top_p", p->top_p);
    jw_key_uint(out, "top_k", p->top_k);
    jw_key_float(out, "min_p", p->min_p);
    jw_key_float(out, "presence_penalty", p->presence);
    jw_key_float(out, "repetition_penalty", p->repetition);
    jw_close(out, '}');
}

static void show_put_mote(const served_model *m, strbuf *out)
{
    const chat_size size = served_model_chat_context(m)->size;
    const chat_preset *p;
    jw_key(out, "mote");
    jw_open(out, '{');
    jw_key_uint(out, "context_length", served_model_context(m));
    jw_key(out, "presets");
    jw_open(out, '{');
    for (size_t i = 0; (p = chat_preset_at(i)) != NULL; i++)
        if (p->size == size)
            show_put_preset(p, out);
    strbuf_text(out, "}}");
}

/* The default sampling parameters, one per line. */
static void show_put_parameters(const served_model *m, strbuf *out)
{
    const chat_context *chat_ctx = served_model_chat_context(m);
    const chat_preset *p =
        chat_preset_find(chat_ctx->size, chat_ctx->template.thinks, CHAT_TASK_GENERAL);
    char text[256];
    snprintf(text, sizeof text,
             "temperature %g\ntop_p %g\ntop_k %u\nmin_p %g\npresence_penalty %g\n"
             "repeat_penalty %g",
             (double)p->temperature, (double)p->top_p, (unsigned)p->top_k, (double)p->min_p,
             (double)p->presence, p->repetition > 0 ? (double)p->repetition : 1.0);
    jw_key_text(out, "parameters", text);
}

static void ollama_run_show(background_job *s)
{
    model_details f;
    strbuf *out = &s->out;
    str license = {"", 0};
    bool found = false;
    char from[192];
    served_model *m;
    if (!models_find_named(s, &m))
        return;
    model_details_read(&f, m);
    if (f.file != NULL)
        gguf_get_str(f.file, "general.license", &license, &found, NULL);
    snprintf(from, sizeof from, "FROM %s\n", served_model_name(m));
    jw_open(out, '{');
    jw_key_str(out, "license", license);
    jw_key_text(out, "modelfile", from);
    show_put_parameters(m, out);
    jw_key_str(out, "template",
               (str){f.info.chat_template != NULL ? f.info.chat_template : "",
                     f.info.chat_template_bytes});
    jw_key_text(out, "system", "");
    ollama_put_details(&f, out);
    show_put_model_info(&f, json_node_truth(json_node_get(s->body, "verbose")), out);
    ollama_put_capabilities(&f, served_model_vision(m) != NULL, out);
    jw_key_text(out, "modified_at", f.date);
    show_put_mote(m, out);
    jw_close(out, '}');
    model_details_fini(&f);
}

void handle_ollama_show(exchange *x)
{
    background_start(x, ollama_run_show, true);
}

/* ---- pull, delete, create ---- */

static void ollama_run_pull(background_job *s)
{
    const json_node *stream = json_node_get(s->body, "stream");
    const bool lines = !json_node_is(stream, JSON_IS_BOOL) || json_node_truth(stream);
    served_model *m;
    if (json_node_truth(json_node_get(s->body, "insecure"))) {
        http_error_invalid(&s->error, "insecure", "is not supported");
        return;
    }
    if (!models_find_named(s, &m)) {
        if (s->error.kind == HTTP_E_NOT_FOUND)
            http_error_set(&s->error, HTTP_E_PERMISSION, "pull_is_off",
                           "pulling models is not supported; start mote serve with the model file");
        return;
    }
    if (lines) {
        s->content_type = "application/x-ndjson";
        strbuf_text(&s->out, "{\"status\":\"pulling manifest\"}\n");
    }
    strbuf_text(&s->out, "{\"status\":\"success\"}");
    if (lines)
        strbuf_byte(&s->out, '\n');
}

void handle_ollama_pull(exchange *x)
{
    background_start(x, ollama_run_pull, true);
}

static void ollama_run_delete(background_job *s)
{
    served_model *m;
    if (models_find_named(s, &m))
        http_error_set(&s->error, HTTP_E_PERMISSION, "delete_is_off",
                       "deleting models is not supported; stop mote serve and delete the file");
}

void handle_ollama_delete(exchange *x)
{
    background_start(x, ollama_run_delete, true);
}

void handle_ollama_unsupported(exchange *x)
{
    http_error error;
    http_error_set(&error, HTTP_E_UNSUPPORTED, "unsupported",
                   "not supported; supported: models in GGUF files, given to mote serve");
    exchange_fail(x, &error);
}
