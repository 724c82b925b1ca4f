/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - enough JSON to read the golden files. For tests only.
 *
 * A document is one array of nodes in the order of the text; a container is
 * followed by its children, and `next` jumps over them. Strings are decoded.
 * Depth and size are bounded; anything unexpected makes the parse fail.
 */
#ifndef MOTE_TESTS_SUPPORT_JSON_H
#define MOTE_TESTS_SUPPORT_JSON_H

#include "base/str.h"

#include <stdint.h>

typedef enum test_json_type {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
} test_json_type;

typedef struct test_json {
    test_json_type type;
    uint32_t n;    /* children of a container */
    uint32_t next; /* nodes from this one to the one after it and all it holds */
    bool truth;
    double number;
    str key;  /* inside an object; p is NULL elsewhere */
    str text; /* of a string */
} test_json;

/* The root, or NULL. Free the root with test_json_free. */
const test_json *test_json_parse(const char *text, size_t bytes);
/* A whole file of the data directory; prints why and exits if it cannot be read. */
const test_json *test_json_data(const char *name);
void test_json_free(const test_json *root);

/* Child i of a container; NULL: there is none. Linear in i: to visit all, start
 * at `parent + 1` and go on with `child + child->next`, parent->n times. */
const test_json *test_json_at(const test_json *parent, uint32_t i);
/* Member of an object; NULL: there is none, or `object` is NULL or no object. */
const test_json *test_json_get(const test_json *object, const char *key);

#endif
