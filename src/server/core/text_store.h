/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_store.h - texts kept for a while under names, for those who come back for them.
 *
 * Bounded in number, bytes and age for each realm; the oldest goes first. Nobody sees what
 * another realm has put there. Any thread.
 */
#ifndef MOTE_SERVER_CORE_TEXT_STORE_H
#define MOTE_SERVER_CORE_TEXT_STORE_H

#include "base/strbuf.h"

#include <stdint.h>

enum { TEXT_STORE_TEXTS = 4, TEXT_STORE_NAME = 64 };

typedef struct text_store text_store;

/* What one realm may have. */
typedef struct text_store_options {
    size_t entries;
    size_t bytes;
    double seconds;
} text_store_options;

mote_status text_store_new(text_store **out, const text_store_options *options, mote_error *err);
/* NULL is allowed. */
void text_store_free(text_store *s);

/* Copies the texts. A name that is there already is replaced. MOTE_E_FULL: it is larger than
 * all a realm may have. */
mote_status text_store_put(text_store *s, uint64_t ns, str name, const str texts[TEXT_STORE_TEXTS],
                           mote_error *err);
/* Appends text `which` to *out; false: there is no such name. */
bool text_store_get(text_store *s, uint64_t ns, str name, size_t which, strbuf *out);
/* Likewise of what was put last. false: the realm has nothing. */
bool text_store_get_last(text_store *s, uint64_t ns, size_t which, strbuf *out);
/* false: there was none. */
bool text_store_drop(text_store *s, uint64_t ns, str name);

#endif
