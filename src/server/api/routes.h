/* SPDX-License-Identifier: Apache-2.0 */
/*
 * routes.h - the route table: paths, methods, required privilege, handler.
 *
 * A path that is not in the table gets 404, in the error format of the API that its prefix
 * suggests. A known path with another method gets 405.
 */
#ifndef MOTE_SERVER_API_ROUTES_H
#define MOTE_SERVER_API_ROUTES_H

#include "server/auth/access.h"
#include "server/core/context.h"

typedef struct route {
    unsigned methods; /* http_method bits */
    const char *path; /* exact; or it ends with a slash and '*', which matches one or more bytes */
    privilege privilege;
    api_dialect dialect; /* format of errors */
    const char *label;   /* in metrics and logs; one of a fixed set */
    void (*handler)(exchange *x);
} route;

/* The row for a path and method. NULL: none; *allow has the methods of the path. *tail is the part
 * that matched the wildcard. */
const route *route_find(str path, http_method method, str *tail, unsigned *allow);
/* The body is a form with a file, instead of JSON. */
bool route_is_upload(const route *r);
/* Row i of the table; NULL: i is too large. */
const route *route_at(size_t i);
/* The API that the prefix of a path suggests. */
api_dialect route_dialect_of(str path);

#endif
