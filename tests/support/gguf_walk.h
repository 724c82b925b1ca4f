/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_walk.h - checks a parsed GGUF file against the contract of gguf.h. */
#ifndef MOTE_TESTS_SUPPORT_GGUF_WALK_H
#define MOTE_TESTS_SUPPORT_GGUF_WALK_H

#include "gguf/gguf.h"

/* Reads every entry, string and tensor. Returns NULL, or what is wrong. */
const char *test_gguf_fault(const gguf *g, const unsigned char *bytes, uint64_t n);

typedef struct test_range {
    const unsigned char *bytes;
    uint64_t n;
} test_range;

/* The same for joined parts, each in its own bytes. */
const char *test_gguf_parts_fault(const gguf *g, const test_range *parts, uint32_t n_parts);

#endif
