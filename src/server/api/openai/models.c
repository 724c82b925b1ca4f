/* SPDX-License-Identifier: Apache-2.0 */
/*
 * models.c - GET /v1/models, GET /v1/models/NAME and POST /v1/unload.
 *
 * Entries have the members of both the OpenAI and the Anthropic API. `capabilities` is a list here
 * and an object of other contents in the Anthropic API, so clients of that API do not get it.
 */
#include "server/api/common/dialect.h"
#include "base/mem.h"
#include "server/models/model_details.h"
#include "server/request/request.h"
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
}

static void model_put_architecture(strbuf *out, bool has_vision)
{
    jw_key_raw(out, "architecture",
               has_vision ? "{\"input_modalities\":[\"text\",\"image\",\"video\"],"
                            "\"output_modalities\":[\"text\"]}"
                          : "{\"input_modalities\":[\"text\"],\"output_modalities\":[\"text\"]}");
}

/* `lora`: the model with this adapter; NULL: without. */
static void model_put(model_entry *e, const served_lora *lora, bool anthropic, strbuf *out)
{
    model_details facts;
    char shown[160], id[MODEL_NAME_BYTES + 64];
    model_details_read(&facts, e);
    const uint64_t context = facts.context;
    snprintf(shown, sizeof shown, "%s (%s)", facts.info.name[0] != 0 ? facts.info.name : facts.name,
             facts.format);
    snprintf(id, sizeof id, "%s%s%s", facts.name, lora != NULL ? ":" : "",
             lora != NULL ? lora->name : "");
    jw_open(out, '{');
    jw_key_text(out, "id", id);
    jw_key_text(out, "object", "model");
    jw_key_text(out, "type", "model");
    jw_key_int(out, "created", facts.modified);
    model_put_date(out, facts.modified);
    jw_key_text(out, "owned_by", "mote");
    if (lora != NULL)
        jw_key_text(out, "parent", facts.name);
    jw_key_text(out, "display_name", shown);
    jw_key_uint(out, "context_length", context);
    jw_key_uint(out, "max_model_len", context);
    jw_key_uint(out, "max_output_tokens", context < MAX_OUTPUT ? context : MAX_OUTPUT);
    jw_key_text(out, "lifecycle", "active");
    jw_key_uint(out, "max_input_tokens", context);
    jw_key_uint(out, "max_tokens", context < MAX_OUTPUT ? context : MAX_OUTPUT);
    if (!anthropic)
        model_put_capabilities(out, facts.insert, facts.vision);
    model_put_architecture(out, facts.vision);
    model_put_meta(out, &facts, context);
    jw_key_text(out, "status", facts.loaded ? "loaded" : "unloaded");
    jw_close(out, '}');
    model_details_fini(&facts);
}

/* A model, and the model with each of its adapters. */
static void model_put_all(model_entry *e, bool anthropic, strbuf *out)
{
    size_t n;
    const served_lora *loras = model_entry_loras(e, &n);
    model_put(e, NULL, anthropic, out);
    for (size_t i = 0; i < n; i++)
        model_put(e, &loras[i], anthropic, out);
}

static void models_put_list(background_job *s, bool anthropic)
{
    model_entry **list;
    size_t n;
    if (model_registry_list(s->ctx->models, true, &list, &n, NULL) != MOTE_OK) {
        http_error_no_memory(&s->error);
        return;
    }
    jw_open(&s->out, '{');
    jw_key_text(&s->out, "object", "list");
    jw_key_bool(&s->out, "has_more", false);
    if (n > 0) {
        jw_key_text(&s->out, "first_id", model_entry_name(list[0]));
        jw_key_text(&s->out, "last_id", model_entry_name(list[n - 1]));
    }
    jw_key(&s->out, "data");
    jw_open(&s->out, '[');
    for (size_t i = 0; i < n; i++)
        model_put_all(list[i], anthropic, &s->out);
    jw_close(&s->out, ']');
    jw_close(&s->out, '}');
    mem_free(list);
}

static void models_run_list(background_job *s)
{
    models_put_list(s, false);
}

static void models_run_anthropic_list(background_job *s)
{
    models_put_list(s, true);
}

/* Every client of the Anthropic API sends this header. */
static bool models_client_is_anthropic(const exchange *x)
{
    return exchange_header(x, "anthropic-version").n > 0;
}

void handle_models(exchange *x)
{
    background_start(x, models_client_is_anthropic(x) ? models_run_anthropic_list : models_run_list,
                     false);
}

static void models_put_one(background_job *s, bool anthropic)
{
    const str name = strbuf_view(&s->tail);
    model_entry *e = model_registry_find(s->ctx->models, name);
    const served_lora *lora = NULL;
    if (e != NULL || model_registry_find_lora(s->ctx->models, name, &e, &lora))
        model_put(e, lora, anthropic, &s->out);
    else
        http_error_set(&s->error, HTTP_E_NOT_FOUND, "model_not_found", "model '%.*s' not found",
                       STR_ARG(name));
}

static void models_run_one(background_job *s)
{
    models_put_one(s, false);
}

static void models_run_anthropic_one(background_job *s)
{
    models_put_one(s, true);
}

void handle_model(exchange *x)
{
    background_start(x, models_client_is_anthropic(x) ? models_run_anthropic_one : models_run_one,
                     false);
}

/* ---- /v1/unload ---- */

static void models_print_unloaded(background_job *s)
{
    const char *name = model_entry_name(s->request.entry);
    if (!s->unload.unloaded) {
        http_error_set(&s->error, HTTP_E_CONFLICT, "model_busy",
                       "model '%s' has running requests; try again later", name);
        return;
    }
    jw_open(&s->out, '{');
    jw_key_text(&s->out, "model", name);
    jw_key_text(&s->out, "status", "unloaded");
    jw_close(&s->out, '}');
}

static void models_run_unload(background_job *s)
{
    str name;
    if (!background_text(s, "model", &name))
        return;
    model_entry *e = model_registry_find(s->ctx->models, name);
    if (e == NULL) {
        http_error_set(&s->error, HTTP_E_NOT_FOUND, "model_not_found", "model '%.*s' not found",
                       STR_ARG(name));
        return;
    }
    s->request.entry = s->unload.entry = e;
    s->unloaded = models_print_unloaded;
}

void handle_unload(exchange *x)
{
    background_start(x, models_run_unload, true);
}
