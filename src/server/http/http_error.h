/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request_error.h - what is wrong with a request, as an error of the API (exchange.h).
 *
 * For whoever reads a part of one: those who make an ask of it, and those who look at its pictures.
 * What returns something returns false, so that a reader can end with them.
 */
#ifndef MOTE_SERVER_HTTP_HTTP_ERROR_H
#define MOTE_SERVER_HTTP_HTTP_ERROR_H

#include "server/http/exchange.h"

/* What the scheduler, the renderer or the turn refused, as an error of the API. */
void http_error_from(http_error *error, const mote_error *from);
bool http_error_no_memory(http_error *error);
/* A field is wrong: `at` as messages[2].content. */
bool http_error_invalid(http_error *error, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with a code of its own. */
bool http_error_refused(http_error *error, const char *at, const char *code, const char *why);
bool http_error_unsupported(http_error *error, const char *at, const char *what);

#endif
