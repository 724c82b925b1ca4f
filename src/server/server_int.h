/* SPDX-License-Identifier: Apache-2.0 */
/* server_int.h - the inside of a server, for the files of the door. */
#ifndef MOTE_SERVER_SERVER_INT_H
#define MOTE_SERVER_SERVER_INT_H

#include "media/sandbox/decoder.h"
#include "server/core/context.h"
#include "server/models/model_registry.h"
#include "server/server.h"
#include "server/auth/access.h"
#include "server/http/connection.h"
#include "server/core/limits.h"
#include "server/http/listen.h"
#include "server/core/log.h"
#include "server/api/native/metrics.h"
#include "server/vision/vision_service.h"

struct server {
    server_context context;
    request_counts counts;
    server_options options;
    limits limits;
    event_loop *loop;
    connection_set *connection_set;
    peers *peers;
    listen_set listening;
    bool finished;
    double drain_until;
    double last_second, last_watchdog; /* of the tick */
    double watchdog;                   /* how often systemd wants to hear of us; 0: never */
    uint64_t body_bytes;               /* of all requests that are being read or answered */
    uint64_t requests, refused_connections, refused_requests;
    fork_server_stats decoders; /* as they were last looked at */
};

#endif
