/* SPDX-License-Identifier: Apache-2.0 */
/* json_doc.h - what a document is made of; for the files of json/ only. */
#ifndef MOTE_JSON_JSON_DOC_H
#define MOTE_JSON_JSON_DOC_H

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
    char *bytes; /* all names, strings and numbers, each with a zero behind it */
};

/* A number of the text and where it was put. */
typedef struct json_scan_number {
    size_t source; /* offset in the text */
    size_t placed; /* offset in the rewritten text */
    uint32_t n;    /* bytes in the text */
} json_scan_number;

/* The text made ready for the parser: every number replaced by its index in `numbers`
 * between spaces, and every lone surrogate by U+FFFD. */
typedef struct json_scan {
    strbuf rewritten;
    json_scan_number *numbers; /* [n_numbers] */
    uint32_t n_numbers;
    uint32_t n_values;
} json_scan;

/* Checks the limits. What is wrong in other ways is left for the parser to find. */
mote_status json_scan_text(json_scan *scan, str text, mote_error *err);
void json_scan_fini(json_scan *scan);
/* Where a byte of the rewritten text comes from. */
size_t json_scan_source(const json_scan *scan, size_t placed);

#endif
