/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access.h - access checks of a request: Host, Origin, API key, scope, content type.
 *
 * All checks use the parsed head that the router uses, and run before the body is read. A browser
 * may send requests for pages of other sites, so a request with an Origin, or with Sec-Fetch-Site:
 * cross-site, is refused unless its origin is on the list; a Host that is not on the list is
 * refused, too (DNS rebinding). Event loop thread only.
 */
#ifndef MOTE_SERVER_AUTH_ACCESS_H
#define MOTE_SERVER_AUTH_ACCESS_H

#include "server/auth/quota.h"
#include "server/http/exchange.h"
#include "server/http/peers.h"

/* What a route requires. */
typedef enum privilege {
    PRIVILEGE_PUBLIC, /* no key */
    PRIVILEGE_INFER,
    PRIVILEGE_METRICS,
    PRIVILEGE_ADMIN,
    PRIVILEGE_OWN /* a key with infer, for its own data; or admin, for data of all keys */
} privilege;

typedef struct access_rules access_rules;
struct api_keys;
struct api_keys_change;
struct digest;

enum { ACCESS_MAX_HOSTS = 64 };

typedef struct access_options {
    str keys;                 /* lines as in api_keys.h; only digests are kept */
    const char *key_file;     /* file of `keys`, read again when it changes; NULL: none */
    const char *const *hosts; /* [n_hosts] additional names allowed in Host */
    size_t n_hosts;
    const char *const *origins; /* [n_origins] allowed origins, exactly as browsers send them */
    size_t n_origins;
    bool own_page; /* allow the origin of the server itself, for its web page */
} access_options;

/* MOTE_E_ARG: a key, host or origin is malformed. */
mote_status access_new(access_rules **out, const access_options *options, mote_error *err);
/* NULL is allowed. */
void access_free(access_rules *a);
const struct api_keys *access_keys(const access_rules *a);
/* Once per second: reads the key file again if it has changed; see api_keys_reload(). */
mote_status access_reload_keys(access_rules *a, struct api_keys_change *change, mote_error *err);
/* A key with all scopes, if there are no other keys; see local_key.h. NULL: none. `local` must stay
 * valid. */
void access_set_local_key(access_rules *a, const struct digest *local);
/* Allows a further name in Host: that of an address the server listens on. */
mote_status access_allow_host(access_rules *a, str name, mote_error *err);

/* The parts of a request that the checks use. Absent headers have p == NULL. */
typedef struct access_request {
    http_method method;
    bool has_body;
    str host, origin, fetch_site, content_type, authorization, api_key;
    bool any_fetch_field; /* has a Sec-Fetch-* header */
    peer *peer;
    double now;
    uint32_t max_failures; /* wrong keys per address and minute */
} access_request;

typedef struct access_result {
    bool cors;       /* the Origin is on the list */
    uint64_t client; /* id of the key, or of the address; for fair queueing */
    uint64_t ns;     /* cache namespace: id of the key; 0 if there are no keys */
    bool keyless;    /* the server has no API keys */
    unsigned scopes; /* bits 1 << privilege */
    const char *key; /* name of the key; "": none */
    quota *quota;    /* of the key; NULL: there are no keys */
} access_result;

/* Checks Host and Origin; for every request. This function and the next ones return false and set
 * *error if the request is refused. */
bool access_check_browser(const access_rules *a, const access_request *q, access_result *out,
                          http_error *error);
/* Checks the key; for every route that is not public. */
bool access_check_key(access_rules *a, const access_request *q, access_result *out,
                      http_error *error);
bool access_check_scope(const access_result *result, privilege needed, http_error *error);
/* Checks the Content-Type. A page can send JSON to another site only after a CORS preflight. So
 * other types are refused unless the request cannot come from a browser. */
bool access_check_type(const access_request *q, http_error *error);
/* The same for a route that takes a form. `cors`: the Origin is allowed. */
bool access_check_form(const access_request *q, bool cors, http_error *error);

#endif
