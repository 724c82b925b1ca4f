/* SPDX-License-Identifier: Apache-2.0 */
/* ask_error.c - what is wrong with a request; see ask_error.h. */
#include "server/door/ask_error.h"

#include <stdarg.h>
#include <stdio.h>

bool ask_no_memory(api_error *error)
{
    api_error_no_memory(error);
    return false;
}

void ask_error_of(api_error *error, const mote_error *from)
{
    switch (from->status) {
    case MOTE_E_MEMORY: ask_no_memory(error); break;
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

bool ask_wrong(api_error *error, const char *at, const char *format, ...)
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

bool ask_refuse(api_error *error, const char *at, const char *code, const char *why)
{
    ask_wrong(error, at, "%s", why);
    error->code = code;
    return false;
}

bool ask_unsupported(api_error *error, const char *at, const char *what)
{
    api_error_set(error, API_E_INVALID, "unsupported", "%s is not supported", what);
    snprintf(error->param, sizeof error->param, "%s", at);
    return false;
}
