/* SPDX-License-Identifier: Apache-2.0 */
/* hub_listing.h - the files of a repository at one commit, as the hub lists them. */
#ifndef MOTE_PULL_HUB_LISTING_H
#define MOTE_PULL_HUB_LISTING_H

#include "json/json.h"
#include "pull/hub_text.h"

/* Limits of what a hub may send. */
enum {
    LISTING_ENTRIES_MAX = 100000,
    LISTING_PAGES_MAX = 200,
    LISTING_PAGE_BYTES = 8 << 20,
};

typedef struct listing_entry {
    char *path;
    char hash[HUB_HASH_BYTES]; /* "": the listing has none */
    uint64_t size;
} listing_entry;

/* Zero-initialised: empty, for GGUF files. */
typedef struct listing {
    listing_entry *entries; /* wanted files with a valid path only */
    uint32_t n, room;
    uint32_t seen;    /* entries of any kind */
    bool checkpoint;  /* wanted are the files of hub_is_checkpoint, not GGUF files */
    uint32_t invalid; /* entries with a path or a size that is not valid */
} listing;

void listing_fini(listing *l);
/* Adds a file; one that is not wanted or has an invalid path is ignored. `hash` may be "". */
mote_status listing_add_file(listing *l, str path, uint64_t size, const char *hash,
                             mote_error *err);
/* Adds one page: a JSON array of the `tree` request. MOTE_E_FORMAT: not such an array. MOTE_E_FULL:
 * more than LISTING_ENTRIES_MAX entries. */
mote_status listing_add_page(listing *l, str json, mote_error *err);

#endif
