/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf_build.h - builds GGUF files in memory, valid and invalid ones.
 *
 * Call order: metadata, tensors, finish. finish sets the counts in the header. A test can overwrite
 * bytes afterwards to make the file invalid.
 */
#ifndef MOTE_TESTS_SUPPORT_GGUF_BUILD_H
#define MOTE_TESTS_SUPPORT_GGUF_BUILD_H

#include "gguf/gguf.h"

enum { TEST_GGUF_MAX_TENSORS = 1024, TEST_GGUF_ALIGNMENT = 32 };

typedef struct test_gguf {
    unsigned char *bytes;
    size_t n, room;
    uint64_t n_kv, n_tensors;
    uint64_t data_bytes; /* of all tensors added so far */
    uint64_t alignment;
    struct {
        const void *data;
        uint64_t bytes, offset;
    } tensors[TEST_GGUF_MAX_TENSORS];
} test_gguf;

void test_gguf_begin(test_gguf *b);
void test_gguf_free(test_gguf *b);

/* Appends raw bytes. */
void test_gguf_raw(test_gguf *b, const void *bytes, size_t n);
void test_gguf_raw_u32(test_gguf *b, uint32_t value);
void test_gguf_raw_u64(test_gguf *b, uint64_t value);
void test_gguf_raw_str(test_gguf *b, const char *text);

void test_gguf_u32(test_gguf *b, const char *key, uint32_t value);
void test_gguf_f32(test_gguf *b, const char *key, float value);
void test_gguf_bool(test_gguf *b, const char *key, bool value);
void test_gguf_str(test_gguf *b, const char *key, const char *value);
void test_gguf_i32s(test_gguf *b, const char *key, const int32_t *values, uint64_t n);
void test_gguf_strs(test_gguf *b, const char *key, const char *const *values, uint64_t n);
/* An encoded value of any type. */
void test_gguf_kv(test_gguf *b, const char *key, gguf_type type, const void *bytes, size_t n);

/* `data` has `bytes` bytes and must be valid until finish; NULL: zeros. */
void test_gguf_tensor(test_gguf *b, const char *name, uint32_t type, uint32_t n_dims,
                      const uint64_t *dims, const void *data, uint64_t bytes);

/* Pads, appends the data and fills in the header. */
void test_gguf_finish(test_gguf *b);

#endif
