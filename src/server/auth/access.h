/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access.h - who may ask: Host, Origin, keys and what they are good for.
 *
 * Everything is decided from one parse of the request, the one the router uses too, and
 * before a byte of the body is read. Browsers are strangers that carry other people's requests:
 * a page may ask only if its origin is on the list.
 */
#ifndef MOTE_SERVER_AUTH_ACCESS_H
#define MOTE_SERVER_AUTH_ACCESS_H

#include "server/http/peers.h"
#include "server/auth/quota.h"
#include "server/api/routes.h"

typedef struct access_rules access_rules;
struct api_keys;
struct api_keys_change;
struct server_options;

/* Keeps digests of the keys, and the lists. MOTE_E_ARG: a key, host or origin is malformed. */
mote_status access_new(access_rules **out, const struct server_options *options, mote_error *err);
/* NULL is allowed. */
void access_free(access_rules *a);
const struct api_keys *access_keys(const access_rules *a);
/* Once a second: looks whether the file of the keys has changed; see api_keys_look. */
mote_status access_look(access_rules *a, struct api_keys_change *change, mote_error *err);
/* A name that Host may have, beside those of the options: of an address we listen on. */
mote_status access_allow_host(access_rules *a, str name, mote_error *err);

/* What is asked about a request. Fields that did not come have p NULL. */
typedef struct access_question {
    http_method method;
    bool has_body;
    str host, origin, fetch_site, content_type, authorization, api_key;
    bool any_fetch_field; /* some Sec-Fetch-* came */
    peer *who;
    double now;
    uint32_t most_failures;
} access_question;

typedef struct access_answer {
    bool cors;       /* the origin is on the list: tell the browser */
    uint64_t client; /* who it is, for fairness */
    uint64_t ns;     /* whose memory it may share */
    unsigned scopes; /* 1 << privilege */
    const char *key; /* what the key is called; "": it has no name */
    quota *quota;    /* NULL: there are no keys */
} access_answer;

/* Host and Origin: of every request. false: *error says why. */
bool access_check_browser(const access_rules *a, const access_question *q, access_answer *out,
                          http_error *error);
/* The key: of every request that is not for everybody. */
bool access_check_key(access_rules *a, const access_question *q, access_answer *out,
                      http_error *error);
/* What the key is good for; then the type of the body. */
bool access_check_scope(const access_answer *answer, privilege needed, http_error *error);
bool access_check_type(const access_question *q, http_error *error);

#endif
