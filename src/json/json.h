/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - a JSON text as a tree that can be trusted, and back to text.
 *
 * Reading is strict: UTF-8 without surrogates, no raw control characters in
 * strings, no zeros in names, no trailing text, no NaN. Depth and number of values are
 * bounded, so the memory of a document is a small multiple of its text. An escape that spells half
 * a surrogate pair means U+FFFD. Of two members with one name the last wins, at the place of the
 * first. Members keep their order, numbers their spelling.
 *
 * A document never changes; any number of threads may read it. Its nodes are
 * one array in the order of the text: a container, then all it holds.
 */
#ifndef MOTE_JSON_JSON_H
#define MOTE_JSON_JSON_H

#include "base/err.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <stdint.h>

enum {
    JSON_MAX_DEPTH = 64,     /* containers inside each other */
    JSON_MAX_NODES = 100000, /* values, the root and containers included, names not */
    JSON_MAX_NUMBER = 4096   /* bytes of one number */
};

typedef enum json_kind {
    JSON_IS_ABSENT = 0, /* only of a NULL node */
    JSON_IS_NULL,
    JSON_IS_BOOL,
    JSON_IS_NUMBER,
    JSON_IS_STRING,
    JSON_IS_ARRAY,
    JSON_IS_OBJECT
} json_kind;

typedef struct json_doc json_doc;
typedef struct json_node json_node;

/* Any value may be the root. MOTE_E_FORMAT: the text is not JSON, with line and
 * column; MOTE_E_ARG: it is beyond a limit above. `text` is not needed afterwards. */
mote_status json_doc_read(json_doc **out, str text, mote_error *err);
/* NULL is allowed. */
void json_doc_free(json_doc *doc);
const json_node *json_doc_root(const json_doc *doc);
/* Did an object of the text have a name twice? The last one counts, and is the only one here. */
bool json_doc_repeats(const json_doc *doc);
/* How many nodes: each has a number from 0, the root, in the order of the text. */
uint32_t json_doc_nodes(const json_doc *doc);
uint32_t json_node_number(const json_doc *doc, const json_node *node);

/* All of these take NULL for a value that is not there. */
json_kind json_node_kind(const json_node *node);
bool json_node_is(const json_node *node, json_kind kind);
/* false unless it is `true`. */
bool json_node_truth(const json_node *node);
/* A string decoded (it may hold zeros), a number as it is spelt; else empty. Both this and
 * json_node_name are followed by a zero that is not counted. */
str json_node_text(const json_node *node);
/* Its name inside its object; empty elsewhere. */
str json_node_name(const json_node *node);
/* Children of a container, else 0. */
uint32_t json_node_size(const json_node *node);
/* Walks the children of a container; NULL ends it. */
const json_node *json_node_first(const json_node *container);
const json_node *json_node_next(const json_node *child);
/* A member of an object; NULL: there is none, or it is no object. Linear in its size. */
const json_node *json_node_get(const json_node *object, const char *name);
const json_node *json_node_member(const json_node *object, str name);

/* The number is spelt as an integer (no point, no exponent) and fits. */
bool json_node_int64(const json_node *node, int64_t *out);
/* The nearest double; infinite beyond its range; 0 for what is no number. */
double json_node_double(const json_node *node);

/* ---- writing (json_write.c) ---- */

/* A value as Python's json.dumps(value, ensure_ascii=False) writes what it read from
 * the same text: ", " and ": " between, numbers in Python's spelling. This is what the
 * `tojson` filter of the reference templates gives. */
void json_put_node(strbuf *out, const json_node *node);
/* The same with every number as it is spelt: what it writes is JSON again, and means the same. */
void json_put_as_spelt(strbuf *out, const json_node *node);
/* A string with its quotes. */
void json_put_string(strbuf *out, str text);
/* What goes between the quotes; an escape or character is never split. */
void json_put_escaped(strbuf *out, str text);
/* A number in Python's spelling: integers digit by digit, others as repr(float). */
void json_put_number(strbuf *out, str spelling);

/* ---- numbers (json_number.c) ---- */

/* The length of the JSON number at the start of the text; 0: there is none. */
size_t json_number_length(str text);
/* No point and no exponent in this JSON number. */
bool json_number_is_integer(str spelling);
double json_number_double(str spelling);

#endif
