/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_store.h - a bounded in-memory store of texts by name: stored responses, request reports.
 *
 * Each cache namespace has its own entries and its own limits of number, bytes and age. When a
 * limit is reached, the oldest entries of that namespace are evicted. Thread-safe.
 */
#ifndef MOTE_SERVER_CORE_TEXT_STORE_H
#define MOTE_SERVER_CORE_TEXT_STORE_H

#include "base/str.h"

#include <stdint.h>

enum { TEXT_STORE_TEXTS = 4, TEXT_STORE_NAME = 64 };

typedef struct text_store text_store;

/* Limits of one namespace. */
typedef struct text_store_options {
    size_t entries;
    size_t bytes;
    double seconds;
} text_store_options;

mote_status text_store_new(text_store **out, const text_store_options *options, mote_error *err);
/* NULL is allowed. */
void text_store_free(text_store *s);

/* Copies the texts and replaces an entry of the same name. MOTE_E_FULL: they are larger than the
 * limit of a namespace. */
mote_status text_store_put(text_store *s, uint64_t ns, str name, const str texts[TEXT_STORE_TEXTS],
                           mote_error *err);
/* Appends text number `which` to *out; false: unknown name. */
bool text_store_get(text_store *s, uint64_t ns, str name, size_t which, strbuf *out);
/* The same for the newest entry; false: the namespace is empty. */
bool text_store_get_last(text_store *s, uint64_t ns, size_t which, strbuf *out);
/* false: unknown name. */
bool text_store_drop(text_store *s, uint64_t ns, str name);

#endif
