/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_build.c - see gguf_build.h. */
#include "support/gguf_build.h"

#include <stdlib.h>

enum { AT_N_TENSORS = 8, AT_N_KV = 16 };

/* Appends `n` zero bytes. */
static unsigned char *gguf_extend(test_gguf *b, size_t n)
{
    if (b->n + n > b->room) {
        b->room = 2 * (b->n + n);
        b->bytes = realloc(b->bytes, b->room);
        if (b->bytes == NULL)
            abort();
    }
    unsigned char *at = b->bytes + b->n;
    memset(at, 0, n);
    b->n += n;
    return at;
}

void test_gguf_raw(test_gguf *b, const void *bytes, size_t n)
{
    unsigned char *at = gguf_extend(b, n);
    if (bytes != NULL && n > 0)
        memcpy(at, bytes, n);
}

void test_gguf_raw_u32(test_gguf *b, uint32_t value)
{
    test_gguf_raw(b, &value, sizeof value);
}

void test_gguf_raw_u64(test_gguf *b, uint64_t value)
{
    test_gguf_raw(b, &value, sizeof value);
}

void test_gguf_raw_str(test_gguf *b, const char *text)
{
    test_gguf_raw_u64(b, strlen(text));
    test_gguf_raw(b, text, strlen(text));
}

void test_gguf_begin(test_gguf *b)
{
    *b = (test_gguf){.alignment = TEST_GGUF_ALIGNMENT};
    test_gguf_raw(b, "GGUF", 4);
    test_gguf_raw_u32(b, 3);
    test_gguf_raw_u64(b, 0);
    test_gguf_raw_u64(b, 0);
}

void test_gguf_free(test_gguf *b)
{
    free(b->bytes);
    *b = (test_gguf){0};
}

void test_gguf_kv(test_gguf *b, const char *key, gguf_type type, const void *bytes, size_t n)
{
    test_gguf_raw_str(b, key);
    test_gguf_raw_u32(b, type);
    test_gguf_raw(b, bytes, n);
    b->n_kv++;
}

void test_gguf_u32(test_gguf *b, const char *key, uint32_t value)
{
    test_gguf_kv(b, key, GGUF_U32, &value, sizeof value);
}

void test_gguf_f32(test_gguf *b, const char *key, float value)
{
    test_gguf_kv(b, key, GGUF_F32, &value, sizeof value);
}

void test_gguf_bool(test_gguf *b, const char *key, bool value)
{
    const unsigned char byte = value;
    test_gguf_kv(b, key, GGUF_BOOL, &byte, sizeof byte);
}

void test_gguf_str(test_gguf *b, const char *key, const char *value)
{
    test_gguf_kv(b, key, GGUF_STRING, NULL, 0);
    test_gguf_raw_str(b, value);
}

static void gguf_begin_array(test_gguf *b, const char *key, gguf_type type, uint64_t n)
{
    test_gguf_kv(b, key, GGUF_ARRAY, NULL, 0);
    test_gguf_raw_u32(b, type);
    test_gguf_raw_u64(b, n);
}

void test_gguf_i32s(test_gguf *b, const char *key, const int32_t *values, uint64_t n)
{
    gguf_begin_array(b, key, GGUF_I32, n);
    test_gguf_raw(b, values, (size_t)n * sizeof *values);
}

void test_gguf_strs(test_gguf *b, const char *key, const char *const *values, uint64_t n)
{
    gguf_begin_array(b, key, GGUF_STRING, n);
    for (uint64_t i = 0; i < n; i++)
        test_gguf_raw_str(b, values[i]);
}

static uint64_t gguf_padded(uint64_t n, uint64_t alignment)
{
    return (n + alignment - 1) / alignment * alignment;
}

void test_gguf_tensor(test_gguf *b, const char *name, uint32_t type, uint32_t n_dims,
                      const uint64_t *dims, const void *data, uint64_t bytes)
{
    if (b->n_tensors == TEST_GGUF_MAX_TENSORS)
        abort();
    test_gguf_raw_str(b, name);
    test_gguf_raw_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        test_gguf_raw_u64(b, dims[i]);
    test_gguf_raw_u32(b, type);
    test_gguf_raw_u64(b, b->data_bytes);
    b->tensors[b->n_tensors].data = data;
    b->tensors[b->n_tensors].bytes = bytes;
    b->tensors[b->n_tensors].offset = b->data_bytes;
    b->n_tensors++;
    b->data_bytes += gguf_padded(bytes, b->alignment);
}

void test_gguf_finish(test_gguf *b)
{
    memcpy(b->bytes + AT_N_TENSORS, &b->n_tensors, sizeof b->n_tensors);
    memcpy(b->bytes + AT_N_KV, &b->n_kv, sizeof b->n_kv);
    gguf_extend(b, (size_t)(gguf_padded(b->n, b->alignment) - b->n));
    unsigned char *data = gguf_extend(b, (size_t)b->data_bytes);
    for (uint64_t i = 0; i < b->n_tensors; i++)
        if (b->tensors[i].data != NULL)
            memcpy(data + b->tensors[i].offset, b->tensors[i].data, (size_t)b->tensors[i].bytes);
}
