/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shelf.h - texts kept for a while under names, for those who come back for them.
 *
 * Bounded in number, bytes and age for each realm; the oldest goes first. Nobody sees what
 * another realm has put there. Any thread.
 */
#ifndef MOTE_SERVE_SHELF_H
#define MOTE_SERVE_SHELF_H

#include "base/strbuf.h"

#include <stdint.h>

enum { SHELF_TEXTS = 4, SHELF_NAME = 64 };

typedef struct shelf shelf;

/* What one realm may have. */
typedef struct shelf_options {
    size_t entries;
    size_t bytes;
    double seconds;
} shelf_options;

mote_status shelf_new(shelf **out, const shelf_options *options, mote_error *err);
/* NULL is allowed. */
void shelf_free(shelf *s);

/* Copies the texts. A name that is there already is replaced. MOTE_E_FULL: it is larger than
 * all a realm may have. */
mote_status shelf_put(shelf *s, uint64_t realm, str name, const str texts[SHELF_TEXTS],
                      mote_error *err);
/* Appends text `which` to *out; false: there is no such name. */
bool shelf_get(shelf *s, uint64_t realm, str name, size_t which, strbuf *out);
/* Likewise of what was put last. false: the realm has nothing. */
bool shelf_get_last(shelf *s, uint64_t realm, size_t which, strbuf *out);
/* false: there was none. */
bool shelf_drop(shelf *s, uint64_t realm, str name);

#endif
