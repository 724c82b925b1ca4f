/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub_url.h - URLs, origins and addresses: which redirect is followed and where the token may go.
 *
 * URLs are split by libcurl's own parser, the one that also connects, so both see the same host.
 */
#ifndef MOTE_PULL_HUB_URL_H
#define MOTE_PULL_HUB_URL_H

#include "pull/hub_text.h"

#include <sys/socket.h>

/* Redirects of one file, from the hub to the last server. */
enum { HUB_REDIRECTS_MAX = 20 };

typedef struct hub_url {
    char text[HUB_URL_BYTES];
    char host[256]; /* lower case */
    char port[8];
} hub_url;

/* Accepts https URLs without user name and password. The reason of a refusal is in `err`; the
 * query, which may be a signature, is not. */
mote_status hub_url_parse(hub_url *out, const char *text, mote_error *err);
/* The target of a redirect from `base`; `location` may be relative. Same checks. */
mote_status hub_url_follow(hub_url *out, const hub_url *base, const char *location,
                           mote_error *err);
/* Same host and port. The scheme is always https. */
bool hub_url_same_origin(const hub_url *a, const hub_url *b);
/* The endpoint and the hosts of the Hugging Face hub: their replies are those of a hub. */
bool hub_url_is_hub(const hub_url *url, const hub_url *endpoint);
/* The endpoint itself, under any of its names if it is the Hugging Face hub. The token of an
 * endpoint goes nowhere else. */
bool hub_url_gets_token(const hub_url *url, const hub_url *endpoint);

/* Loopback, private, link-local, multicast and reserved addresses. */
bool hub_address_private(const struct sockaddr *address);
/* The host of a URL is written as such an address, or is "localhost". */
bool hub_url_private(const hub_url *url);

#endif
