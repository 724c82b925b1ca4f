/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits.h - the table of `--limit NAME=VALUE`: resource limits of requests and connections.
 *
 * A row has the name, the default, the allowed range and the HTTP status of a request over the
 * limit. Sizes are bytes, times are seconds.
 */
#ifndef MOTE_SERVER_CORE_LIMITS_H
#define MOTE_SERVER_CORE_LIMITS_H

#include "base/err.h"

/* Upper bounds of head limits: struct http_head has arrays and 16-bit offsets for them. */
enum { LIMIT_MOST_FIELDS = 64, LIMIT_MOST_TARGET = 4096, LIMIT_MOST_FIELD_BYTES = 16384 };

#define LIMIT_TABLE(ROW)                                                                           \
    ROW(FIELD_BYTES, "header-bytes", LIMIT_MOST_FIELD_BYTES, 256, LIMIT_MOST_FIELD_BYTES, 431)     \
    ROW(FIELDS, "header-fields", LIMIT_MOST_FIELDS, 4, LIMIT_MOST_FIELDS, 431)                     \
    ROW(TARGET, "target-bytes", LIMIT_MOST_TARGET, 16, LIMIT_MOST_TARGET, 414)                     \
    ROW(BODY, "body-bytes", 4194304, 1024, 268435456, 413)                                         \
    ROW(FILE, "file-bytes", 67108864, 1024, 268435456, 413)                                        \
    ROW(FILES, "files", 1000, 1, 1000000, 400)                                                     \
    ROW(FILES_BYTES, "total-file-bytes", 4294967296.0, 1048576, 1099511627776.0, 400)              \
    ROW(BODIES, "total-body-bytes", 268435456, 1024, 17179869184.0, 503)                           \
    ROW(REPLIES, "total-reply-bytes", 268435456, 1048576, 17179869184.0, 503)                      \
    ROW(HEAD_SECONDS, "header-seconds", 10, 0.1, 3600, 408)                                        \
    ROW(BODY_SECONDS, "body-seconds", 5, 0.1, 3600, 408)                                           \
    ROW(BODY_RATE, "body-bytes-per-second", 1024, 0, 1048576, 408)                                 \
    ROW(STALL_SECONDS, "stall-seconds", 30, 0.1, 3600, 0)                                          \
    ROW(IDLE_SECONDS, "idle-seconds", 60, 0.1, 86400, 0)                                           \
    ROW(LINGER_SECONDS, "linger-seconds", 2, 0.1, 60, 0)                                           \
    ROW(OUTPUT, "output-buffer-bytes", 262144, 4096, 67108864, 0)                                  \
    ROW(CONNECTIONS, "connections", 1024, 1, 1000000, 503)                                         \
    ROW(PER_IP, "connections-per-ip", 64, 1, 1000000, 429)                                         \
    ROW(FAILURES, "key-failures", 10, 1, 1000000, 429)                                             \
    ROW(PULLS, "pulls", 2, 1, 16, 429)                                                             \
    ROW(IMAGES, "images", 16, 1, 16, 400)                                                          \
    ROW(IMAGE_BYTES, "image-bytes", 20971520, 1024, 20971520, 400)                                 \
    ROW(IMAGE_PIXELS, "image-pixels", 40000000, 1024, 40000000, 400)                               \
    ROW(IMAGE_TOKENS, "image-tokens", 2048, 64, 16384, 0)                                          \
    ROW(IMAGES_IN_PARALLEL, "images-in-parallel", 2, 1, 16, 0)                                     \
    ROW(IMAGE_MEMORY, "image-cache-bytes", 268435456, 1048576, 17179869184.0, 503)

typedef enum limit_name {
#define LIMIT_NAME(name, text, initial, min, max, status) LIMIT_##name,
    LIMIT_TABLE(LIMIT_NAME)
#undef LIMIT_NAME
        LIMIT_COUNT
} limit_name;

typedef struct limits {
    double at[LIMIT_COUNT];
} limits;

typedef struct limit_row {
    const char *name;
    double initial, min, max;
    int status; /* 0: the connection is closed without a reply, or the value is capped */
} limit_row;

extern const limit_row limit_rows[LIMIT_COUNT];

void limits_init(limits *l);
/* Applies "NAME=VALUE". The error text lists the names or the range. */
mote_status limits_set(limits *l, const char *assignment, mote_error *err);

#endif
