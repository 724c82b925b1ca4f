/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ollama_models.c - Ollama's routes about models: tags, ps, show, version, delete.
 *
 * Lists and descriptions do not load a model. Routes that would change models reply with an error
 * that names the alternative.
 */
#include "base/mem.h"
#include "server/api/common/dialect.h"
#include "server/api/ollama/ollama.h"
#include "server/models/model_details.h"
#include "server/request/request.h"

#include <stdio.h>
#include <time.h>

/* The emulated Ollama release; clients enable features by it. */
static const char ollama_version[] = "0.13.0";

/* ---- names ---- */

/* The model named by `model` or `name` of the body. false: the error is set. */
static bool models_find_named(background_job *s, model_entry **out)
{
    request a = {.model = request_name_in(s->body, true), .ctx = s->ctx};
    str suffix;
    if (a.model.n == 0)
        return request_missing(&s->error, "model");
    request_find_model(&a, a.model);
    *out = a.entry;
    if (a.entry == NULL)
        return request_no_model(&a, a.model, &s->error);
    return request_model(&a, &suffix, &s->error);
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

static void ollama_put_capabilities(const model_details *f, strbuf *out)
{
    jw_key(out, "capabilities");
    jw_open(out, '[');
    jw_text(out, "completion");
    jw_text(out, "tools");
    jw_text(out, "thinking");
    if (f->insert)
        jw_text(out, "insert");
    jw_text(out, "embedding");
    if (f->vision)
        jw_text(out, "vision");
    jw_close(out, ']');
}

static void ollama_open_entry(const model_details *f, strbuf *out)
{
    jw_open(out, '{');
    jw_key_text(out, "name", f->name);
    jw_key_text(out, "model", f->name);
    jw_key_uint(out, "size", f->info.file_bytes);
    jw_key_text(out, "digest", f->digest);
    ollama_put_details(f, out);
}

/* Calls `put` for each model. */
static void models_put_list(background_job *s, void (*put)(const model_details *f, strbuf *out))
{
    model_entry **list;
    size_t n;
    if (model_registry_list(s->ctx->models, true, &list, &n, NULL) != MOTE_OK) {
        http_error_no_memory(&s->error);
        return;
    }
    jw_open(&s->out, '{');
    jw_key(&s->out, "models");
    jw_open(&s->out, '[');
    for (size_t i = 0; i < n; i++) {
        model_details f;
        model_details_read(&f, list[i]);
        put(&f, &s->out);
        model_details_fini(&f);
    }
    jw_close(&s->out, ']');
    jw_close(&s->out, '}');
    mem_free(list);
}

static void tags_put(const model_details *f, strbuf *out)
{
    ollama_open_entry(f, out);
    jw_key_text(out, "modified_at", f->date);
    ollama_put_capabilities(f, out);
    jw_close(out, '}');
}

static void ollama_run_tags(background_job *s)
{
    models_put_list(s, tags_put);
}

static void ps_put_expiry(double seconds, strbuf *out)
{
    char text[OLLAMA_TIME_BYTES] = "9999-12-31T23:59:59Z"; /* never */
    if (seconds < 1e9)
        ollama_time_of((int64_t)time(NULL) + (int64_t)seconds, 0, text);
    jw_key_text(out, "expires_at", text);
}

static void ps_put(const model_details *f, strbuf *out)
{
    if (!f->loaded)
        return;
    ollama_open_entry(f, out);
    ps_put_expiry(f->leaves_in, out);
    jw_key_uint(out, "size_vram", 0);
    jw_key_uint(out, "context_length", f->context);
    jw_close(out, '}');
}

static void ollama_run_ps(background_job *s)
{
    models_put_list(s, ps_put);
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

static void show_put_mote(const model_details *f, strbuf *out)
{
    const chat_preset *p;
    jw_key(out, "mote");
    jw_open(out, '{');
    jw_key_uint(out, "context_length", f->context);
    jw_key(out, "presets");
    jw_open(out, '{');
    for (size_t i = 0; (p = chat_preset_at(i)) != NULL; i++)
        if (p->size == f->size)
            show_put_preset(p, out);
    strbuf_text(out, "}}");
}

/* The default sampling parameters, one per line. */
static void show_put_parameters(const model_details *f, strbuf *out)
{
    const chat_preset *p = chat_preset_find(f->size, f->thinks, CHAT_TASK_GENERAL);
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
    model_entry *e;
    if (!models_find_named(s, &e))
        return;
    model_details_read(&f, e);
    if (f.file != NULL)
        gguf_get_str(f.file, "general.license", &license, &found, NULL);
    snprintf(from, sizeof from, "FROM %s\n", f.name);
    jw_open(out, '{');
    jw_key_str(out, "license", license);
    jw_key_text(out, "modelfile", from);
    show_put_parameters(&f, out);
    jw_key_str(out, "template",
               (str){f.info.chat_template != NULL ? f.info.chat_template : "",
                     f.info.chat_template_bytes});
    jw_key_text(out, "system", "");
    ollama_put_details(&f, out);
    show_put_model_info(&f, json_node_truth(json_node_get(s->body, "verbose")), out);
    ollama_put_capabilities(&f, out);
    jw_key_text(out, "modified_at", f.date);
    show_put_mote(&f, out);
    jw_close(out, '}');
    model_details_fini(&f);
}

void handle_ollama_show(exchange *x)
{
    background_start(x, ollama_run_show, true);
}

/* ---- delete, create ---- */

static void ollama_run_delete(background_job *s)
{
    model_entry *e;
    if (models_find_named(s, &e))
        http_error_set(&s->error, HTTP_E_PERMISSION, "delete_is_off",
                       "models are not deleted over HTTP; on the machine of the server: mote rm "
                       "%.100s",
                       model_entry_name(e));
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
