/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - JSON parser and access to parsed documents.
 *
 * The parser is strict: valid UTF-8, no raw control characters in strings, no NUL in names, no
 * trailing text, no NaN. Depth and number of values are limited, so memory is a small multiple of
 * the input. A lone surrogate escape is U+FFFD. Of members with the same name the last value
 * counts, at the position of the first. Members keep their order, numbers their spelling.
 *
 * A document is immutable and thread-safe. Its nodes are one array in document order: a container
 * is followed by its contents.
 */
#ifndef MOTE_JSON_JSON_H
#define MOTE_JSON_JSON_H

#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

enum {
    JSON_MAX_DEPTH = 64,     /* containers inside each other */
    JSON_MAX_NODES = 100000, /* values including containers, without names */
    JSON_MAX_NUMBER = 4096   /* bytes of one number */
};

typedef enum json_kind {
    JSON_IS_ABSENT = 0, /* a NULL node */
    JSON_IS_NULL,
    JSON_IS_BOOL,
    JSON_IS_NUMBER,
    JSON_IS_STRING,
    JSON_IS_ARRAY,
    JSON_IS_OBJECT
} json_kind;

typedef struct json_doc json_doc;
typedef struct json_node json_node;

/* Any value may be the root. MOTE_E_FORMAT: invalid JSON, with line and column. MOTE_E_ARG: a limit
 * above is exceeded. `text` is not used after the call. */
mote_status json_doc_read(json_doc **out, str text, mote_error *err);
/* The same with another limit of values, for files that the user names, such as tokenizer.json. */
mote_status json_doc_read_large(json_doc **out, str text, uint32_t max_nodes, mote_error *err);
/* NULL is allowed. */
void json_doc_free(json_doc *doc);
const json_node *json_doc_root(const json_doc *doc);
/* True if an object had duplicate names. */
bool json_doc_repeats(const json_doc *doc);
/* Number of nodes. Nodes are numbered in document order; the root is 0. */
uint32_t json_doc_nodes(const json_doc *doc);
uint32_t json_node_number(const json_doc *doc, const json_node *node);

/* All of these accept NULL for an absent value. */
json_kind json_node_kind(const json_node *node);
bool json_node_is(const json_node *node, json_kind kind);
/* True only for `true`. */
bool json_node_truth(const json_node *node);
/* A decoded string (may contain NUL) or the spelling of a number; else empty. The bytes of this and
 * of json_node_name are followed by a NUL. */
str json_node_text(const json_node *node);
/* The member name; empty outside objects. */
str json_node_name(const json_node *node);
/* Number of children; 0 for scalars. */
uint32_t json_node_size(const json_node *node);
/* Iterates over the children of a container; NULL at the end. */
const json_node *json_node_first(const json_node *container);
const json_node *json_node_next(const json_node *child);
/* A member by name; NULL: absent, or not an object. O(members). */
const json_node *json_node_get(const json_node *object, const char *name);
const json_node *json_node_member(const json_node *object, str name);

/* False unless the number has no fraction and no exponent, and fits. */
bool json_node_int64(const json_node *node, int64_t *out);
/* The nearest double; infinity on overflow; 0 if not a number. */
double json_node_double(const json_node *node);

/* ---- parsed nodes to text (json_dump.c); json_writer.h writes new documents ---- */

/* Appends a value like Python's json.dumps(value, ensure_ascii=False): separators ", " and ": ",
 * numbers in Python's spelling. The `tojson` filter of the reference template does this. */
void json_put_node(strbuf *out, const json_node *node);
/* The same, but numbers keep their spelling. */
void json_put_as_spelt(strbuf *out, const json_node *node);
/* The same for an object, without its member `name`. */
void json_put_without(strbuf *out, const json_node *object, const char *name);
/* Appends a string with quotes. */
void json_put_string(strbuf *out, str text);
/* Appends the escaped text without quotes. */
void json_put_escaped(strbuf *out, str text);
/* Appends a number in Python's spelling: integers unchanged, others as repr(float). */
void json_put_number(strbuf *out, str spelling);

/* ---- numbers (json_number.c) ---- */

/* Length of the JSON number at the start of the text; 0: none. */
size_t json_number_length(str text);
/* True if the number has no fraction and no exponent. */
bool json_number_is_integer(str spelling);
double json_number_double(str spelling);

#endif
