/* SPDX-License-Identifier: Apache-2.0 */
/* batch_api.h - handlers of /v1/files and /v1/batches. Without --files they reply with 501. */
#ifndef MOTE_SERVER_BATCH_BATCH_API_H
#define MOTE_SERVER_BATCH_BATCH_API_H

#include "server/http/exchange.h"

void handle_file_upload(exchange *x);  /* POST /v1/files */
void handle_files(exchange *x);        /* GET /v1/files */
void handle_file(exchange *x);         /* GET, DELETE /v1/files/ID, GET /v1/files/ID/content */
void handle_batch_create(exchange *x); /* POST /v1/batches */
void handle_batches(exchange *x);      /* GET /v1/batches */
void handle_batch(exchange *x);        /* GET /v1/batches/ID, POST /v1/batches/ID/cancel */

/* ---- for files_api.c and batches_api.c ---- */

/* Does the server store files? Otherwise replies. */
bool batch_api_is_on(exchange *x);
/* The value of a parameter, not decoded; empty: absent. */
str query_value(str query, const char *name);
/* The key has no such file. */
void file_missing(http_error *error, str id);
/* Replies to GET /v1/files/ID/content (file_download.c). */
void download_start(exchange *x);
/* The parameter `limit`: 1 to `most`, else `initial`. */
size_t query_limit(str query, size_t initial, size_t most);

/* ---- multipart/form-data (multipart.c) ---- */

typedef struct form_part {
    str name, filename; /* filename: empty if the part is a plain field */
    str contents;
} form_part;

/* The next part of a body; *rest is the whole body before the first call. false: there is none, or
 * the body is malformed, which *rest.p == NULL tells. */
bool form_next(str *rest, str *boundary, form_part *out);

#endif
