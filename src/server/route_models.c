/* SPDX-License-Identifier: Apache-2.0 */
/* route_models.c - GET /v1/models and one of them, for clients of OpenAI and of Anthropic. */
#include "server/aside.h"
#include "server/ask.h"
#include "server/handlers.h"
#include "server/model_facts.h"

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

static void put_model(aside *s)
{
    strbuf *out = &s->out;
    model_facts facts;
    char shown[160];
    const uint64_t context = sched_settings(server_sched(s->server))->context;
    const char *name = server_model_name(s->server);
    model_facts_read(&facts, s->server);
    snprintf(shown, sizeof shown, "%s (%s)", facts.info.name[0] != 0 ? facts.info.name : name,
             facts.format);
    jp_open(out, '{');
    jp_key_text(out, "id", name);
    jp_key_text(out, "object", "model");
    jp_key_text(out, "type", "model");
    jp_key_int(out, "created", server_model_date(s->server));
    put_date(out, server_model_date(s->server));
    jp_key_text(out, "owned_by", "mote");
    jp_key_text(out, "display_name", shown);
    jp_key_uint(out, "context_length", context);
    jp_key_uint(out, "max_model_len", context);
    jp_key_uint(out, "max_output_tokens", context < MAX_OUTPUT ? context : MAX_OUTPUT);
    put_abilities(out, facts.insert, server_sight(s->server) != NULL);
    put_meta(out, &facts, context);
    jp_key_text(out, "status", "loaded");
    jp_close(out, '}');
    model_facts_fini(&facts);
}

static void list(aside *s)
{
    const char *name = server_model_name(s->server);
    jp_open(&s->out, '{');
    jp_key_text(&s->out, "object", "list");
    jp_key_bool(&s->out, "has_more", false);
    jp_key_text(&s->out, "first_id", name);
    jp_key_text(&s->out, "last_id", name);
    jp_key(&s->out, "data");
    jp_open(&s->out, '[');
    put_model(s);
    jp_close(&s->out, ']');
    jp_close(&s->out, '}');
}

void handle_models(exchange *x)
{
    aside_start(x, list, false);
}

void handle_model(exchange *x)
{
    const str name = exchange_request(x)->tail;
    api_error error = {0};
    if (ask_is_served(exchange_server(x), name)) {
        aside_start(x, put_model, false);
        return;
    }
    api_error_set(&error, API_E_NOT_FOUND, "model_not_found", "model '%.*s' not found",
                  STR_ARG(name));
    exchange_fail(x, &error);
}
