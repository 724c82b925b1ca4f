/* SPDX-License-Identifier: Apache-2.0 */
/* error_format.c - see error_format.h. The table has the error types of each API. */
#include "server/api/common/error_format.h"

#include "json/json_writer.h"

typedef struct error_types {
    const char *openai;
    const char *anthropic;
} error_types;

static const error_types error_table[] = {
    [HTTP_E_INVALID] = {"invalid_request_error", "invalid_request_error"},
    [HTTP_E_AUTH] = {"authentication_error", "authentication_error"},
    [HTTP_E_PERMISSION] = {"permission_error", "permission_error"},
    [HTTP_E_NOT_FOUND] = {"not_found_error", "not_found_error"},
    [HTTP_E_METHOD] = {"invalid_request_error", "invalid_request_error"},
    [HTTP_E_ACCEPT] = {"invalid_request_error", "invalid_request_error"},
    [HTTP_E_TIMEOUT] = {"timeout_error", "timeout_error"},
    [HTTP_E_CONFLICT] = {"conflict_error", "invalid_request_error"},
    [HTTP_E_TOO_LARGE] = {"invalid_request_error", "request_too_large"},
    [HTTP_E_TARGET] = {"invalid_request_error", "invalid_request_error"},
    [HTTP_E_TYPE] = {"invalid_request_error", "invalid_request_error"},
    [HTTP_E_RATE] = {"rate_limit_error", "rate_limit_error"},
    [HTTP_E_HEADERS] = {"invalid_request_error", "invalid_request_error"},
    [HTTP_E_QUEUE] = {"rate_limit_error", "overloaded_error"},
    [HTTP_E_INTERNAL] = {"server_error", "api_error"},
    [HTTP_E_UNSUPPORTED] = {"not_supported_error", "invalid_request_error"},
    [HTTP_E_UNAVAILABLE] = {"unavailable_error", "overloaded_error"},
};

static void put_openai(const http_error *e, const error_types *types, strbuf *out)
{
    strbuf_text(out, "{\"error\":{\"message\":");
    jw_str(out, str_of(e->text));
    strbuf_text(out, ",\"type\":\"");
    strbuf_text(out, types->openai);
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

static void put_anthropic(const http_error *e, const error_types *types, const char *id,
                          strbuf *out)
{
    strbuf_text(out, "{\"type\":\"error\",\"error\":{\"type\":\"");
    strbuf_text(out, types->anthropic);
    strbuf_text(out, "\",\"message\":");
    jw_str(out, str_of(e->text));
    strbuf_text(out, "},\"request_id\":\"");
    strbuf_text(out, id);
    strbuf_text(out, "\"}");
}

int error_format_print(const http_error *e, api_dialect dialect, const char *request_id,
                       strbuf *out)
{
    const error_types *types = &error_table[e->kind];
    switch (dialect) {
    case API_OPENAI: put_openai(e, types, out); break;
    case API_ANTHROPIC: put_anthropic(e, types, request_id, out); break;
    case API_OLLAMA:
        strbuf_text(out, "{\"error\":");
        jw_str(out, str_of(e->text));
        strbuf_text(out, "}");
        break;
    }
    if (dialect == API_ANTHROPIC && e->kind == HTTP_E_QUEUE)
        return 529;
    return http_error_status(e->kind);
}
