/* SPDX-License-Identifier: Apache-2.0 */
/* server_int.h - the inside of a server, for the files of the door. */
#ifndef MOTE_SERVER_SERVER_INT_H
#define MOTE_SERVER_SERVER_INT_H

#include "media/sandbox/fork_server.h"
#include "server/core/context.h"
#include "server/auth/access.h"
#include "server/http/connection.h"
#include "server/core/limits.h"
#include "server/http/listen.h"
#include "server/core/log.h"
#include "server/api/native/metrics.h"
#include "server/vision/vision_service.h"

struct server {
    server_options options;
    limits limits;
    event_loop *loop;
    connection_set *connection_set;
    access_rules *access;
    peers *peers;
    listen_set listening;
    served_model *models[SERVER_MAX_MODELS]; /* [n_models], from start to end */
    size_t n_models;
    core_lock *core_lock; /* for their engines; NULL: there is one */
    api *api;
    bool draining, finished;
    double drain_until;
    double last_second, last_watchdog; /* of the tick */
    double watchdog;                   /* how often systemd wants to hear of us; 0: never */
    uint64_t image_memory;             /* for the pictures that one model holds */
    uint64_t body_bytes;               /* of all requests that are being read or answered */
    uint64_t requests, refused_connections, refused_requests, forms;
    fork_server_stats decoders; /* as they were last looked at */
    request_counts counts;      /* of requests that are over */
    double started;
};

#endif
