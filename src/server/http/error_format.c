/* SPDX-License-Identifier: Apache-2.0 */
/* http_error.c - errors in the form of each dialect; the table of API kinds stands here once. */
#include "server/http/exchange.h"
#include "json/json_writer.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct error_row {
    int status;
    const char *openai;
    const char *anthropic;
} error_row;

static const error_row rows[] = {
    [API_E_INVALID] = {400, "invalid_request_error", "invalid_request_error"},
    [API_E_AUTH] = {401, "authentication_error", "authentication_error"},
    [API_E_PERMISSION] = {403, "permission_error", "permission_error"},
    [API_E_NOT_FOUND] = {404, "not_found_error", "not_found_error"},
    [API_E_METHOD] = {405, "invalid_request_error", "invalid_request_error"},
    [API_E_TIMEOUT] = {408, "timeout_error", "timeout_error"},
    [API_E_CONFLICT] = {409, "conflict_error", "invalid_request_error"},
    [API_E_TOO_LARGE] = {413, "invalid_request_error", "request_too_large"},
    [API_E_TARGET] = {414, "invalid_request_error", "invalid_request_error"},
    [API_E_TYPE] = {415, "invalid_request_error", "invalid_request_error"},
    [API_E_RATE] = {429, "rate_limit_error", "rate_limit_error"},
    [API_E_HEADERS] = {431, "invalid_request_error", "invalid_request_error"},
    [API_E_QUEUE] = {429, "rate_limit_error", "overloaded_error"},
    [API_E_INTERNAL] = {500, "server_error", "api_error"},
    [API_E_UNSUPPORTED] = {501, "not_supported_error", "invalid_request_error"},
    [API_E_UNAVAILABLE] = {503, "unavailable_error", "overloaded_error"},
};

enum { ANTHROPIC_OVERLOADED = 529 };

void api_error_set(http_error *e, api_error_kind kind, const char *code, const char *format, ...)
{
    *e = (http_error){.kind = kind, .code = code};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(e->text, sizeof e->text, format, arguments);
    va_end(arguments);
}

void api_error_no_memory(http_error *e)
{
    api_error_set(e, API_E_UNAVAILABLE, "out_of_memory", "no memory for this request");
    e->retry_ms = 1000;
}

static void put_openai(const http_error *e, const error_row *row, strbuf *out)
{
    strbuf_text(out, "{\"error\":{\"message\":");
    jw_str(out, str_of(e->text));
    strbuf_text(out, ",\"type\":\"");
    strbuf_text(out, row->openai);
    strbuf_text(out, "\",\"param\":");
    if (e->param[0] != '\0')
        jw_str(out, str_of(e->param));
    else
        strbuf_text(out, "null");
    strbuf_text(out, ",\"code\":\"");
    strbuf_text(out, e->code);
    strbuf_text(out, "\"");
    if (e->more != NULL)
        strbuf_text(out, e->more);
    strbuf_text(out, "}}");
}

static void put_anthropic(const http_error *e, const error_row *row, const char *id, strbuf *out)
{
    strbuf_text(out, "{\"type\":\"error\",\"error\":{\"type\":\"");
    strbuf_text(out, row->anthropic);
    strbuf_text(out, "\",\"message\":");
    jw_str(out, str_of(e->text));
    strbuf_text(out, "},\"request_id\":\"");
    strbuf_text(out, id);
    strbuf_text(out, "\"}");
}

int api_error_print(const http_error *e, api_dialect dialect, const char *request_id, strbuf *out)
{
    const error_row *row = &rows[e->kind];
    switch (dialect) {
    case API_OPENAI: put_openai(e, row, out); break;
    case API_ANTHROPIC: put_anthropic(e, row, request_id, out); break;
    case API_OLLAMA:
        strbuf_text(out, "{\"error\":");
        jw_str(out, str_of(e->text));
        strbuf_text(out, "}");
        break;
    }
    if (dialect == API_ANTHROPIC && e->kind == API_E_QUEUE)
        return ANTHROPIC_OVERLOADED;
    return row->status;
}
