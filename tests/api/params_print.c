/* SPDX-License-Identifier: Apache-2.0 */
/* params_print.c - prints the parameter table as Markdown and as JSON. */
#include "api/params_print.h"
#include "server/request/params.h"
#include "json/json_writer.h"

#include <stdio.h>

static const struct {
    unsigned place;
    const char *name;
} places[] = {
    {PARAM_IN_CHAT, "chat"},
    {PARAM_IN_COMPLETIONS, "completions"},
    {PARAM_IN_RESPONSES, "responses"},
    {PARAM_IN_EMBEDDINGS, "embeddings"},
    {PARAM_IN_MESSAGES, "messages"},
    {PARAM_IN_OLLAMA_CHAT, "ollama chat"},
    {PARAM_IN_OLLAMA_GENERATE, "ollama generate"},
    {PARAM_IN_OLLAMA_OPTIONS, "ollama options"},
    {PARAM_IN_OLLAMA_EMBED, "ollama embed"},
    {PARAM_IN_STREAM_OPTIONS, "stream_options"},
    {PARAM_IN_INFILL, "infill"},
    {PARAM_IN_SCORE, "score"},
    {PARAM_IN_RERANK, "rerank"},
    {PARAM_IN_VIDEO, "video part"},
    {PARAM_IN_MOTE, "mote"},
};
enum { N_PLACES = sizeof places / sizeof *places };

static const char *kind_name(param_kind kind)
{
    switch (kind) {
    case PARAM_REAL:
    case PARAM_DOUBLE: return "number";
    case PARAM_COUNT:
    case PARAM_SEED:
    case PARAM_MAX_TOKENS:
    case PARAM_CONTEXT:
    case PARAM_MS: return "integer";
    case PARAM_BOOL:
    case PARAM_NOT: return "boolean";
    case PARAM_TEXT:
    case PARAM_PRESET: return "string";
    case PARAM_STOP: return "string or strings";
    case PARAM_BIAS: return "object or pairs";
    case PARAM_WINDOW: return "integer";
    case PARAM_SPEC: return "number or string";
    case PARAM_UNUSED: return "number";
    case PARAM_IGNORED: return "ignored";
    case PARAM_WARNED: return "ignored, with a warning";
    case PARAM_REFUSED: return "refused";
    case PARAM_OTHER: break;
    }
    return "";
}

static void put_types(strbuf *out, const param *p)
{
    static const char *const names[] = {
        [JSON_IS_BOOL] = "boolean", [JSON_IS_NUMBER] = "number", [JSON_IS_STRING] = "string",
        [JSON_IS_ARRAY] = "array",  [JSON_IS_OBJECT] = "object",
    };
    bool any = false;
    if (p->kind != PARAM_OTHER)
        strbuf_text(out, kind_name(p->kind));
    for (size_t i = JSON_IS_BOOL; p->kind == PARAM_OTHER && i <= JSON_IS_OBJECT; i++)
        if ((p->types >> i & 1) != 0) {
            strbuf_text(out, any ? " or " : "");
            strbuf_text(out, names[i]);
            any = true;
        }
}

static bool has_range(const param *p)
{
    return p->max != 0;
}

static void put_limit_text(strbuf *out, double end)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.10g", end);
    strbuf_text(out, end == PARAM_VOCABULARY  ? "vocabulary"
                     : end == PARAM_POSITIONS ? "context"
                                              : digits);
}

static void put_range(strbuf *out, const param *p)
{
    if (!has_range(p))
        return;
    strbuf_text(out, p->above ? "above " : "");
    put_limit_text(out, p->min);
    strbuf_text(out, p->above ? " up to " : " to ");
    put_limit_text(out, p->max);
}

void params_print(strbuf *out)
{
    const param *p;
    strbuf_text(out, "| Field | In | Type | Range | Meaning |\n|---|---|---|---|---|\n");
    for (size_t i = 0; (p = param_at(i)) != NULL; i++) {
        bool any = false;
        strbuf_text(out, "| `");
        strbuf_text(out, p->name);
        strbuf_text(out, "` | ");
        for (size_t k = 0; k < N_PLACES; k++)
            if ((p->in & places[k].place) != 0) {
                strbuf_text(out, any ? ", " : "");
                strbuf_text(out, places[k].name);
                any = true;
            }
        strbuf_text(out, " | ");
        put_types(out, p);
        strbuf_text(out, " | ");
        put_range(out, p);
        strbuf_text(out, " | ");
        strbuf_text(out, p->about);
        strbuf_text(out, " |\n");
    }
}

static void put_limit_json(strbuf *out, const char *key, double end)
{
    jw_key(out, key);
    if (end == PARAM_VOCABULARY || end == PARAM_POSITIONS)
        jw_text(out, end == PARAM_VOCABULARY ? "vocabulary" : "context");
    else
        jw_double(out, end);
}

void params_print_json(strbuf *out)
{
    const param *p;
    jw_open(out, '[');
    for (size_t i = 0; (p = param_at(i)) != NULL; i++) {
        strbuf types = {0};
        jw_open(out, '{');
        jw_key_text(out, "name", p->name);
        jw_key(out, "in");
        jw_open(out, '[');
        for (size_t k = 0; k < N_PLACES; k++)
            if ((p->in & places[k].place) != 0)
                jw_text(out, places[k].name);
        jw_close(out, ']');
        put_types(&types, p);
        jw_key_str(out, "type", strbuf_view(&types));
        out->failed |= types.failed;
        strbuf_fini(&types);
        if (has_range(p)) {
            put_limit_json(out, "min", p->min);
            put_limit_json(out, "max", p->max);
            jw_key_bool(out, "above", p->above);
        }
        jw_close(out, '}');
    }
    jw_close(out, ']');
    strbuf_byte(out, '\n');
}
