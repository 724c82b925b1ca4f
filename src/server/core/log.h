/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - what the server says about itself, on standard error: one line per request.
 *
 * Nothing a client sent is printed but what stands here: a label from the route table, sizes
 * and times; never the text of a prompt or an answer, never a key. Control characters cannot
 * get through, so nobody can write lines of his own into the log.
 */
#ifndef MOTE_SERVER_CORE_LOG_H
#define MOTE_SERVER_CORE_LOG_H

#include "server/server.h"

/* Of a request that was answered by the model. */
typedef struct log_stats {
    const char *model;                   /* that answered; NULL: there is only one */
    uint64_t prompt, cached, out, think; /* tokens */
    double queue, first_token;           /* seconds */
    double rate;                         /* tokens a second, once it wrote */
    const char *stop;                    /* why it ended: a constant */
} log_stats;

/* One request that is over. */
typedef struct log_request {
    const char *id;
    const char *method;
    const char *label;      /* of its route; "-" for none */
    int status;             /* as sent; 499: the client went before the end */
    double seconds;         /* from the head to the end of the reply */
    uint64_t in, out;       /* bytes of the bodies */
    const char *key;        /* what its key is called; NULL or "": nothing */
    const log_stats *stats; /* NULL: the model was not asked */
} log_request;

void server_log_request(const server *s, const log_request *r);
/* Anything else, one line; level as in server_options. */
void server_log(const server *s, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The lines, for those who want to look at them: without their end, terminated, never longer
 * than LOG_LINE_BYTES with the zero. */
enum { LOG_LINE_BYTES = 1024 };
size_t log_request_line(char line[LOG_LINE_BYTES], const log_request *r, bool as_json);
size_t log_text_line(char line[LOG_LINE_BYTES], const char *text, bool as_json);

#endif
