/* SPDX-License-Identifier: Apache-2.0 */
/* request_error.c - what is wrong with a request; see request_error.h. */
#include "server/http/http_error.h"

#include <stdarg.h>
#include <stdio.h>

bool http_error_no_memory(http_error *error)
{
    api_error_no_memory(error);
    return false;
}

void http_error_from(http_error *error, const mote_error *from)
{
    switch (from->status) {
    case MOTE_E_MEMORY: http_error_no_memory(error); break;
    case MOTE_E_ARG:
    case MOTE_E_FORMAT:
        api_error_set(error, API_E_INVALID, "invalid_value", "%s", from->text);
        break;
    case MOTE_E_UNSUPPORTED:
        api_error_set(error, API_E_INVALID, "unsupported_schema", "%s", from->text);
        break;
    case MOTE_E_FULL:
        api_error_set(error, API_E_INVALID, "context_length_exceeded", "%s", from->text);
        break;
    case MOTE_E_CANCELED:
        api_error_set(error, API_E_UNAVAILABLE, "draining", "the server is about to end");
        error->retry_ms = 1000;
        break;
    default: api_error_set(error, API_E_INTERNAL, "internal_error", "this answer failed"); break;
    }
}

bool http_error_invalid(http_error *error, const char *at, const char *format, ...)
{
    char text[400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    api_error_set(error, API_E_INVALID, "invalid_value", "%s %s", at, text);
    snprintf(error->param, sizeof error->param, "%s", at);
    return false;
}

bool http_error_refused(http_error *error, const char *at, const char *code, const char *why)
{
    http_error_invalid(error, at, "%s", why);
    error->code = code;
    return false;
}

bool http_error_unsupported(http_error *error, const char *at, const char *what)
{
    api_error_set(error, API_E_INVALID, "unsupported", "%s is not supported", what);
    snprintf(error->param, sizeof error->param, "%s", at);
    return false;
}
