/* SPDX-License-Identifier: Apache-2.0 */
/* json_int.h - representation of a document, for the files of json/. */
#ifndef MOTE_JSON_JSON_INT_H
#define MOTE_JSON_JSON_INT_H

#include "json/json.h"

struct json_node {
    uint8_t kind;
    bool truth;
    bool last;      /* last child of its container */
    uint32_t n;     /* children */
    uint32_t whole; /* nodes of the subtree, including this one */
    str name;
    str text;
};

struct json_doc {
    json_node *nodes; /* [n_nodes] */
    uint32_t n_nodes;
    bool repeats; /* an object had duplicate names */
    char *bytes;  /* all names, strings and numbers, zero-terminated */
};

#endif
