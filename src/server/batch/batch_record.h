/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch_record.h - one batch as the API shows it and as the disk keeps it. See batches.h.
 */
#ifndef MOTE_SERVER_BATCH_BATCH_RECORD_H
#define MOTE_SERVER_BATCH_BATCH_RECORD_H

#include "server/batch/batches.h"

enum { BATCH_RECORD_ID_BYTES = 48, BATCH_ENDPOINT_BYTES = 40, BATCH_MESSAGE_BYTES = 512 };

typedef struct batch_record {
    char id[BATCH_RECORD_ID_BYTES]; /* "batch_" and 32 hexadecimal digits */
    uint64_t ns, client;            /* of the key */
    batch_status status;
    char endpoint[BATCH_ENDPOINT_BYTES];
    char input[FILE_ID_BYTES];
    char output[FILE_ID_BYTES], errors[FILE_ID_BYTES]; /* "": none (yet) */
    /* seconds since 1970; 0: did not happen */
    int64_t created, began, finalizing, cancelling, ended;
    uint32_t total, done, failed;      /* lines */
    char message[BATCH_MESSAGE_BYTES]; /* why it has failed; "": it has not */
    char *metadata;                    /* a JSON object, terminated; NULL: none */
} batch_record;

/* "validating", "in_progress", ... */
const char *batch_status_name(batch_status status);
/* Completed, cancelled or failed. */
bool batch_status_is_final(batch_status status);
/* The `batch` object of OpenAI. */
void batch_record_print(const batch_record *r, strbuf *out);
mote_status batch_record_write(const batch_record *r, const char *path, mote_error *err);
/* false: the file is not a record. */
bool batch_record_read(batch_record *r, const char *path);

#endif
