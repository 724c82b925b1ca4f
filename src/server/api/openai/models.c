/* SPDX-License-Identifier: Apache-2.0 */
/* models.c - GET /v1/models, GET /v1/models/NAME and POST /v1/unload. Entries have the members of
 * both the OpenAI and the Anthropic API. */
#include "server/api/common/dialect.h"
#include "server/request/request.h"
#include "server/models/model_registry.h"
#include "server/api/openai/openai.h"

#include <stdio.h>
#include <time.h>

enum { MAX_OUTPUT = 32768 };

static void model_put_date(strbuf *out, int64_t date)
{
    char text[40] = "1970-01-01T00:00:00Z";
    struct tm parts;
    const time_t at = (time_t)date;
    if (gmtime_r(&at, &parts) != NULL)
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    jw_key_text(out, "created_at", text);
}

static void model_put_meta(strbuf *out, const model_details *facts, uint64_t context)
{
    jw_key(out, "meta");
    jw_open(out, '{');
    jw_key_uint(out, "n_ctx", context);
    jw_key_uint(out, "n_ctx_train", facts->info.context);
    jw_key_uint(out, "n_vocab", facts->info.vocabulary);
    jw_key_uint(out, "n_embd", facts->info.embedding);
    jw_key_uint(out, "n_params", facts->info.parameters);
    jw_key_uint(out, "size", facts->info.file_bytes);
    jw_close(out, '}');
}

static void model_put_capabilities(strbuf *out, bool inserts, bool has_vision)
{
    jw_key(out, "capabilities");
    strbuf_text(out, "[\"completion\",\"tools\",\"thinking\",\"embedding\"");
    strbuf_text(out, inserts ? ",\"insert\"" : "");
    strbuf_text(out, has_vision ? ",\"vision\"]" : "]");
    jw_key_raw(out, "architecture",
               has_vision ? "{\"input_modalities\":[\"text\",\"image\",\"video\"],"
                            "\"output_modalities\":[\"text\"]}"
                          : "{\"input_modalities\":[\"text\"],\"output_modalities\":[\"text\"]}");
}

static void model_put(const served_model *m, strbuf *out)
{
    model_details facts;
    char shown[160];
    const uint64_t context = served_model_context(m);
    const char *name = served_model_name(m);
    model_details_read(&facts, m);
    snprintf(shown, sizeof shown, "%s (%s)", facts.info.name[0] != 0 ? facts.info.name : name,
             facts.format);
    jw_open(out, '{');
    jw_key_text(out, "id", name);
    jw_key_text(out, "object", "model");
    jw_key_text(out, "type", "model");
    jw_key_int(out, "created", served_model_date(m));
    model_put_date(out, served_model_date(m));
    jw_key_text(out, "owned_by", "mote");
    jw_key_text(out, "display_name", shown);
    jw_key_uint(out, "context_length", context);
    jw_key_uint(out, "max_model_len", context);
    jw_key_uint(out, "max_output_tokens", context < MAX_OUTPUT ? context : MAX_OUTPUT);
    model_put_capabilities(out, facts.insert, served_model_vision(m) != NULL);
    model_put_meta(out, &facts, context);
    jw_key_text(out, "status", served_model_loaded(m) ? "loaded" : "unloaded");
    jw_close(out, '}');
    model_details_fini(&facts);
}

static void models_run_list(background_job *s)
{
    const size_t n = model_registry_count(s->ctx->models);
    jw_open(&s->out, '{');
    jw_key_text(&s->out, "object", "list");
    jw_key_bool(&s->out, "has_more", false);
    jw_key_text(&s->out, "first_id", served_model_name(model_registry_at(s->ctx->models, 0)));
    jw_key_text(&s->out, "last_id", served_model_name(model_registry_at(s->ctx->models, n - 1)));
    jw_key(&s->out, "data");
    jw_open(&s->out, '[');
    for (size_t i = 0; i < n; i++)
        model_put(model_registry_at(s->ctx->models, i), &s->out);
    jw_close(&s->out, ']');
    jw_close(&s->out, '}');
}

void handle_models(exchange *x)
{
    background_start(x, models_run_list, false);
}

static void models_run_one(background_job *s)
{
    const str name = strbuf_view(&s->tail);
    const served_model *m = model_registry_find(s->ctx->models, name);
    if (m != NULL)
        model_put(m, &s->out);
    else
        http_error_set(&s->error, HTTP_E_NOT_FOUND, "model_not_found", "model '%.*s' not found",
                       STR_ARG(name));
}

void handle_model(exchange *x)
{
    background_start(x, models_run_one, false);
}

/* ---- /v1/unload ---- */

static void models_run_unload(background_job *s)
{
    str name;
    if (!background_text(s, "model", &name))
        return;
    served_model *m = model_registry_find(s->ctx->models, name);
    if (m == NULL) {
        http_error_set(&s->error, HTTP_E_NOT_FOUND, "model_not_found", "model '%.*s' not found",
                       STR_ARG(name));
    } else if (!served_model_unload(m)) {
        http_error_set(&s->error, HTTP_E_CONFLICT, "model_busy",
                       "model '%s' has running requests; try again later", served_model_name(m));
    } else {
        jw_open(&s->out, '{');
        jw_key_text(&s->out, "model", served_model_name(m));
        jw_key_text(&s->out, "status", "unloaded");
        jw_close(&s->out, '}');
    }
}

void handle_unload(exchange *x)
{
    background_start(x, models_run_unload, true);
}
