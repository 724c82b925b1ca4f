/* SPDX-License-Identifier: Apache-2.0 */
/* error_format.h - errors as JSON in the format of each API. */
#ifndef MOTE_SERVER_API_COMMON_ERROR_FORMAT_H
#define MOTE_SERVER_API_COMMON_ERROR_FORMAT_H

#include "server/core/context.h"
#include "server/http/exchange.h"

/* Appends the error as a body of this API to `out`; returns the HTTP status. */
int error_format_print(const http_error *e, api_dialect dialect, const char *request_id,
                       strbuf *out);

#endif
