/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - what the server says about itself, on standard error: one line per request.
 *
 * Nothing a client sent is printed but what stands here: a label from the route table, sizes
 * and times. Control characters cannot get through.
 */
#ifndef MOTE_SERVER_LOG_H
#define MOTE_SERVER_LOG_H

#include "server/server.h"

/* One request that is over. */
typedef struct log_request {
    const char *id;
    const char *method;
    const char *label; /* of its route; "-" for none */
    int status;        /* as sent; 499: the client went before the end */
    double seconds;    /* from the head to the end of the reply */
    uint64_t in, out;  /* bytes of the bodies */
} log_request;

void server_log_request(const server *s, const log_request *r);
/* Anything else, one line; level as in server_options. */
void server_log(const server *s, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
