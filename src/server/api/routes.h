/* SPDX-License-Identifier: Apache-2.0 */
/*
 * routes.h - which paths exist, who may use them, and who answers.
 *
 * One table. Whoever is not in it gets 404, in the form of the dialect its path looks like;
 * a path with another method gets 405 and the list of those it has. Privilege is looked up
 * in the same row that is then called.
 */
#ifndef MOTE_SERVER_API_ROUTES_H
#define MOTE_SERVER_API_ROUTES_H

#include "server/http/exchange.h"

typedef enum privilege {
    PRIVILEGE_PUBLIC, /* no key is asked for */
    PRIVILEGE_INFER,
    PRIVILEGE_METRICS,
    PRIVILEGE_ADMIN,
    PRIVILEGE_OWN /* infer, for what is the key's own, or admin, for everybody's */
} privilege;

typedef struct route {
    unsigned methods; /* http_method bits */
    const char *path; /* exact; or ending with a slash and '*': one or more bytes follow */
    privilege privilege;
    api_dialect dialect; /* of its errors */
    const char *label;   /* in metrics and logs: one of a fixed set */
    void (*answer)(exchange *x);
} route;

/* The row for a path and method; NULL: there is none, and *allow has the methods of the path. */
const route *route_find(str path, http_method method, str *tail, unsigned *allow);
const route *route_at(size_t i);
/* The dialect an unknown path looks like. */
api_dialect route_dialect_of(str path);

#endif
