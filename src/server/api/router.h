/* SPDX-License-Identifier: Apache-2.0 */
/*
 * router.h - hooks of the HTTP server: access checks, route lookup, access log, request counters.
 *
 * The context of the hooks is a server_context.
 */
#ifndef MOTE_SERVER_API_ROUTER_H
#define MOTE_SERVER_API_ROUTER_H

#include "server/http/http_server.h"

/* Sets on_head, on_request, on_finished and print_error. */
void router_set_hooks(http_hooks *hooks);

#endif
