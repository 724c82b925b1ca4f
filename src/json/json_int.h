/* SPDX-License-Identifier: Apache-2.0 */
/* json_int.h - what a document is made of; for the files of json/ only. */
#ifndef MOTE_JSON_JSON_INT_H
#define MOTE_JSON_JSON_INT_H

#include "json/json.h"

struct json_node {
    uint8_t kind;
    bool truth;
    bool last;      /* of its container */
    uint32_t n;     /* children */
    uint32_t whole; /* nodes from this one to the one after all it holds */
    str name;
    str text;
};

struct json_doc {
    json_node *nodes; /* [n_nodes] */
    uint32_t n_nodes;
    bool repeats; /* an object had a name twice */
    char *bytes;  /* all names, strings and numbers, each with a zero behind it */
};

/* Decodes a string from behind its opening quote on; *at ends behind the closing one. `out` has
 * room for as many bytes as the text has left. Returns NULL, or what is wrong, which is at *at
 * then. */
const char *json_string_read(str text, size_t *at, char *out, size_t *n);

/* Of members with one name only the last stays, at the place of the first. The object is closed and
 * is the end of the array. */
mote_status json_members_unite(json_doc *doc, uint32_t object, mote_error *err);

#endif
