/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - small JSON parser for the golden files. Tests only; shares no code with src/json.
 *
 * A document is an array of nodes in document order. A container is followed by its contents;
 * `next` skips them. Strings are decoded. Depth and size are limited.
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
    uint32_t n;    /* number of children */
    uint32_t next; /* nodes of this value including its contents */
    bool truth;
    double number;
    str key;  /* member name; p is NULL outside objects */
    str text; /* value of a string */
} test_json;

/* Returns the root, or NULL on invalid JSON. Free it with test_json_free. */
const test_json *test_json_parse(const char *text, size_t bytes);
/* Reads a file of the data directory. On failure prints an error and exits. */
const test_json *test_json_data(const char *name);
void test_json_free(const test_json *root);

/* Child i of a container; NULL: out of range. O(i). To visit all children, start at `parent + 1`
 * and continue with `child + child->next`, parent->n times. */
const test_json *test_json_at(const test_json *parent, uint32_t i);
/* Member of an object; NULL: absent, or `object` is NULL or not an object. */
const test_json *test_json_get(const test_json *object, const char *key);

#endif
