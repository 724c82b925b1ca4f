/* SPDX-License-Identifier: Apache-2.0 */
/* server_int.h - the inside of a server, for the files of the door. */
#ifndef MOTE_SERVER_SERVER_INT_H
#define MOTE_SERVER_SERVER_INT_H

#include "server/access.h"
#include "server/api.h"
#include "server/conn.h"
#include "server/door_limits.h"
#include "server/listen.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/sight.h"

#include <pthread.h>

enum { SERVER_NAME_BYTES = 128 };

struct server {
    server_options options;
    limits limits;
    loop *loop;
    conns *conns;
    access_rules *access;
    peers *peers;
    listen_set listening;
    sched *sched;
    recall *recall;
    sight *sight; /* NULL: the model cannot see */
    api *api;
    chat_kit kit;
    struct vocab *vocab;
    pthread_mutex_t vocab_lock;
    char name[SERVER_NAME_BYTES];
    int64_t model_date;
    bool draining, finished;
    double drain_until;
    double last_second, last_watchdog; /* of the tick */
    double watchdog;                   /* how often systemd wants to hear of us; 0: never */
    uint64_t body_bytes;               /* of all requests that are being read or answered */
    uint64_t requests, refused_connections, refused_requests, forms;
    request_counts counts; /* of requests that are over */
    double started;
};

#endif
