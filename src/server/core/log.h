/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - the log of the server on stderr: one line per request, and messages.
 *
 * A line contains only the fields declared here: a label from the route table, sizes and times.
 * It never contains prompt text, output text or a key. Control characters are escaped, so client
 * data cannot forge a log line. Lines are at most LOG_LINE_BYTES long and are written with a single
 * write(); if stderr is a full pipe, the line is dropped instead of blocking. Thread-safe.
 */
#ifndef MOTE_SERVER_CORE_LOG_H
#define MOTE_SERVER_CORE_LOG_H

#include "base/err.h"

typedef struct log_options {
    int level; /* 0: errors; 1: also a line per request; 2: more */
    bool json; /* one JSON object per line */
} log_options;

enum { LOG_MODEL_BYTES = 128 };

/* Stats of a request that ran on a model. The name is a copy: the model may be unloaded before the
 * line is written. */
typedef struct log_stats {
    char model[LOG_MODEL_BYTES];         /* "": the server has one model only */
    uint64_t prompt, cached, out, think; /* tokens */
    double queue, first_token;           /* seconds */
    double rate;                         /* decode tokens per second */
    const char *stop;                    /* stop cause; a string constant */
} log_stats;

/* A completed request. */
typedef struct log_request {
    const char *id;
    const char *method;
    const char *label;      /* of its route; "-": no route matched */
    int status;             /* as sent; 499: the client closed the connection early */
    double seconds;         /* from the end of the request head to the end of the reply */
    uint64_t in, out;       /* bytes of request body and reply body */
    const char *key;        /* name of its API key; NULL or "": none */
    const log_stats *stats; /* NULL: no model was involved */
} log_request;

/* Writes the line of a request if the level is at least 1. */
void log_write_request(const log_options *o, const log_request *r);
/* Writes a message if its level is at most o->level. */
void log_message(const log_options *o, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Format one line without its newline, zero-terminated; return its length. For tests. */
enum { LOG_LINE_BYTES = 1024 };
size_t log_request_line(char line[LOG_LINE_BYTES], const log_request *r, bool as_json);
size_t log_text_line(char line[LOG_LINE_BYTES], const char *text, bool as_json);

#endif
