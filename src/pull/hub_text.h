/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub_text.h - the texts a hub sends: names, hashes, header fields. Pure functions without I/O.
 *
 * Everything a server sends is untrusted. Names of files, commits and hashes become paths in the
 * cache, so only what these functions and those of store/known_models.h accept is used.
 */
#ifndef MOTE_PULL_HUB_TEXT_H
#define MOTE_PULL_HUB_TEXT_H

#include "base/str.h"

#include <stdint.h>

enum {
    HUB_HASH_BYTES = 65,     /* 64 hex digits */
    HUB_COMMIT_BYTES = 41,   /* 40 hex digits */
    HUB_HEADER_BYTES = 1024, /* of one field */
    HUB_HEADERS_MAX = 65536, /* of all headers of one reply */
    HUB_URL_BYTES = 8192,
    HUB_NAME_BYTES = 1024 /* of a path in a repository */
};

/* The largest file that is accepted: 16 TiB. */
#define HUB_FILE_MAX ((uint64_t)1 << 44)

/* ---- names ---- */

/* 40 hex digits (git blob id) or 64 (SHA-256), lower case: the name of a blob. */
bool hub_blob_name_valid(str hash);
/* Printable ASCII without blanks. */
bool hub_token_valid(const char *token);
/* Appends a path with all but unreserved characters percent-encoded. `slashes` stay if true. */
void hub_put_encoded(strbuf *out, const char *path, bool slashes);

/* ---- header fields ---- */

typedef enum hub_header {
    HUB_LOCATION,
    HUB_LINK,
    HUB_ETAG,
    HUB_LINKED_ETAG,
    HUB_LINKED_SIZE,
    HUB_REPO_COMMIT,
    HUB_CONTENT_LENGTH,
    HUB_CONTENT_RANGE,
    HUB_CONTENT_ENCODING,
    HUB_ERROR_CODE,
    HUB_ERROR_MESSAGE,
    HUB_RETRY_AFTER,
    HUB_RATE_LIMIT,
    HUB_WARNING,
    HUB_HEADERS
} hub_header;

/* The header fields of one reply that matter, trimmed. */
typedef struct hub_headers {
    size_t bytes;                                        /* of all lines, including those of 1xx */
    unsigned count[HUB_HEADERS];                         /* how often a field was sent */
    char url[2][HUB_URL_BYTES];                          /* Location, Link */
    char text[HUB_HEADERS - HUB_ETAG][HUB_HEADER_BYTES]; /* the others */
    bool too_long;                                       /* a field did not fit */
} hub_headers;

/* Adds a line. A status line starts a new reply. False: more than HUB_HEADERS_MAX bytes. */
bool hub_headers_add(hub_headers *h, str line);
/* The value of a field, "" if it was not sent exactly once or is too long. */
const char *hub_headers_get(const hub_headers *h, hub_header which);

/* Decimal digits only; false on overflow. */
bool hub_number(const char *text, uint64_t *out);
/* The hash in an ETag: without W/ and quotes. False: it is not a hash. */
bool hub_etag_hash(const char *etag, char hash[HUB_HASH_BYTES]);

typedef struct hub_content_range {
    uint64_t first, last, total;
} hub_content_range;

/* "bytes 0-9/100". False: malformed, first > last or last >= total. */
bool hub_content_range_read(const char *text, hub_content_range *out);
/* The URL of rel="next" in a Link header. False: there is none. */
bool hub_next_link(const char *link, char *out, size_t room);
/* Seconds to wait after a 429, from RateLimit or Retry-After; -1: neither says. */
double hub_wait_seconds(const hub_headers *h);

#endif
