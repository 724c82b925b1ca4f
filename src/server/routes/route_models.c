/* SPDX-License-Identifier: Apache-2.0 */
/* route_models.c - GET /v1/models and one of them, for clients of OpenAI and of Anthropic; POST
 * /v1/unload. */
#include "server/answer/aside.h"
#include "server/answer/ask.h"
#include "server/dialects/model_facts.h"
#include "server/handlers.h"

#include <stdio.h>
#include <time.h>

enum { MAX_OUTPUT = 32768 };

static void put_date(strbuf *out, int64_t date)
{
    char text[40] = "1970-01-01T00:00:00Z";
    struct tm parts;
    const time_t at = (time_t)date;
    if (gmtime_r(&at, &parts) != NULL)
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    jp_key_text(out, "created_at", text);
}

static void put_meta(strbuf *out, const model_facts *facts, uint64_t context)
{
    jp_key(out, "meta");
    jp_open(out, '{');
    jp_key_uint(out, "n_ctx", context);
    jp_key_uint(out, "n_ctx_train", facts->info.context);
    jp_key_uint(out, "n_vocab", facts->info.vocabulary);
    jp_key_uint(out, "n_embd", facts->info.embedding);
    jp_key_uint(out, "n_params", facts->info.parameters);
    jp_key_uint(out, "size", facts->info.file_bytes);
    jp_close(out, '}');
}

static void put_abilities(strbuf *out, bool inserts, bool sees)
{
    jp_key(out, "capabilities");
    strbuf_text(out, "[\"completion\",\"tools\",\"thinking\",\"embedding\"");
    strbuf_text(out, inserts ? ",\"insert\"" : "");
    strbuf_text(out, sees ? ",\"vision\"]" : "]");
    jp_key_raw(out, "architecture",
               sees ? "{\"input_modalities\":[\"text\",\"image\",\"video\"],"
                      "\"output_modalities\":[\"text\"]}"
                    : "{\"input_modalities\":[\"text\"],\"output_modalities\":[\"text\"]}");
}

static void put_model(const served *m, strbuf *out)
{
    model_facts facts;
    char shown[160];
    const uint64_t context = served_context(m);
    const char *name = served_name(m);
    model_facts_read(&facts, m);
    snprintf(shown, sizeof shown, "%s (%s)", facts.info.name[0] != 0 ? facts.info.name : name,
             facts.format);
    jp_open(out, '{');
    jp_key_text(out, "id", name);
    jp_key_text(out, "object", "model");
    jp_key_text(out, "type", "model");
    jp_key_int(out, "created", served_date(m));
    put_date(out, served_date(m));
    jp_key_text(out, "owned_by", "mote");
    jp_key_text(out, "display_name", shown);
    jp_key_uint(out, "context_length", context);
    jp_key_uint(out, "max_model_len", context);
    jp_key_uint(out, "max_output_tokens", context < MAX_OUTPUT ? context : MAX_OUTPUT);
    put_abilities(out, facts.insert, served_sight(m) != NULL);
    put_meta(out, &facts, context);
    jp_key_text(out, "status", served_loaded(m) ? "loaded" : "unloaded");
    jp_close(out, '}');
    model_facts_fini(&facts);
}

static void list(aside *s)
{
    const size_t n = server_n_models(s->server);
    jp_open(&s->out, '{');
    jp_key_text(&s->out, "object", "list");
    jp_key_bool(&s->out, "has_more", false);
    jp_key_text(&s->out, "first_id", served_name(server_model(s->server, 0)));
    jp_key_text(&s->out, "last_id", served_name(server_model(s->server, n - 1)));
    jp_key(&s->out, "data");
    jp_open(&s->out, '[');
    for (size_t i = 0; i < n; i++)
        put_model(server_model(s->server, i), &s->out);
    jp_close(&s->out, ']');
    jp_close(&s->out, '}');
}

void handle_models(exchange *x)
{
    aside_start(x, list, false);
}

static void one(aside *s)
{
    const str name = strbuf_view(&s->tail);
    const served *m = ask_find_model(s->server, name);
    if (m != NULL)
        put_model(m, &s->out);
    else
        api_error_set(&s->error, API_E_NOT_FOUND, "model_not_found", "model '%.*s' not found",
                      STR_ARG(name));
}

void handle_model(exchange *x)
{
    aside_start(x, one, false);
}

/* ---- /v1/unload ---- */

static void unload(aside *s)
{
    str name;
    if (!aside_text(s, "model", &name))
        return;
    served *m = ask_find_model(s->server, name);
    if (m == NULL) {
        api_error_set(&s->error, API_E_NOT_FOUND, "model_not_found", "model '%.*s' not found",
                      STR_ARG(name));
    } else if (!served_unload(m)) {
        api_error_set(&s->error, API_E_CONFLICT, "model_busy",
                      "model '%s' is answering; ask again when it is not", served_name(m));
    } else {
        jp_open(&s->out, '{');
        jp_key_text(&s->out, "model", served_name(m));
        jp_key_text(&s->out, "status", "unloaded");
        jp_close(&s->out, '}');
    }
}

void handle_unload(exchange *x)
{
    aside_start(x, unload, true);
}
