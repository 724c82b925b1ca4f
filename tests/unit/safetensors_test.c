/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_test.c - headers of Safetensors files: a valid one, and malformed ones with their
 * errors. */
#include "safetensors/safetensors.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROOM = 4096 };

/* Reads a file with this JSON text and `data` bytes after it. */
static mote_status read_text(safetensors **out, const char *text, uint64_t data, mote_error *err)
{
    unsigned char header[ROOM];
    const uint64_t n = strlen(text);
    assert_true(n + 8 <= sizeof header);
    memcpy(header, &n, 8);
    memcpy(header + 8, text, n);
    return safetensors_read(out, header, n + 8, n + 8 + data, err);
}

static void valid_header(void **state)
{
    (void)state;
    safetensors *s;
    mote_error err = {0};
    const mem_stats before = mem_count();
    assert_int_equal(
        read_text(&s,
                  "{\"__metadata__\":{\"format\":\"pt\"},"
                  "\"b\":{\"dtype\":\"BF16\",\"shape\":[3,2],\"data_offsets\":[0,12]},"
                  "\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[12,12]},"
                  "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[12,16]},"
                  "\"c\":{\"dtype\":\"F4\",\"shape\":[10],\"data_offsets\":[16,21]}}  ",
                  21, &err),
        MOTE_OK);
    assert_int_equal(safetensors_count(s), 4);
    const safetensor *a = safetensors_at(s, 0), *b = safetensors_at(s, 1);
    assert_true(str_is(a->name, "a") && a->type == SAFETENSORS_F32 && a->n_dims == 0);
    assert_true(a->values == 1 && a->bytes == 4);
    assert_true(str_is(b->name, "b") && b->type == SAFETENSORS_BF16 && b->n_dims == 2);
    assert_true(b->dims[0] == 3 && b->dims[1] == 2 && b->bytes == 12);
    assert_int_equal(a->offset - b->offset, 12);
    assert_int_equal(safetensors_at(s, 2)->type, SAFETENSORS_OTHER);
    safetensors_free(s);
    assert_int_equal(mem_count().blocks, before.blocks);
}

typedef struct wrong {
    const char *text;
    uint64_t data;
    const char *message;
} wrong;

#define TENSOR(name, type, shape, offsets)                                                         \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const wrong cases[] = {
    {"", 0, "invalid JSON"},
    {"[]", 0, "must be a JSON object"},
    {"{} x", 0, "invalid JSON"},
    {"{}", 4, "end at byte"},
    {"{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("a", "F32", "[1]", "[4,8]") "}", 8, "twice"},
    {"{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("b", "F32", "[1]", "[2,6]") "}", 6,
     "'b' overlaps another tensor"},
    {"{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("b", "F32", "[1]", "[0,4]") "}", 4,
     "overlaps another tensor"},
    {"{" TENSOR("a", "F32", "[1]", "[4,8]") "}", 8, "has a gap before its data"},
    {"{" TENSOR("a", "F32", "[1]", "[0,4]") "}", 3, "the file is incomplete"},
    {"{" TENSOR("a", "F32", "[2]", "[0,4]") "}", 4, "has 4 bytes, but 2 values of type F32"},
    {"{" TENSOR("a", "F32", "[1]", "[4,0]") "}", 4, "two numbers, begin and end"},
    {"{" TENSOR("a", "F32", "[1]", "[-4,0]") "}", 4, "two numbers, begin and end"},
    {"{" TENSOR("a", "F32", "[1]", "[0,4,8]") "}", 4, "two numbers, begin and end"},
    {"{" TENSOR("a", "F32", "[1]", "[0,4.0]") "}", 4, "two numbers, begin and end"},
    {"{" TENSOR("a", "F32", "[1]", "[0,18446744073709551615]") "}", 4, "begin and end"},
    {"{" TENSOR("a", "F32", "[1]", "[0,9223372036854775807]") "}", 4, "the file is incomplete"},
    {"{" TENSOR("a", "F32", "[-1]", "[0,4]") "}", 4, "no size"},
    {"{" TENSOR("a", "F32", "[4294967296,4294967296]", "[0,4]") "}", 4, "overflows"},
    {"{" TENSOR("a", "F32", "[9223372036854775807]", "[0,4]") "}", 4, "has 4 bytes"},
    {"{" TENSOR("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "at most 8 dimensions"},
    {"{" TENSOR("a", "F32", "1", "[0,4]") "}", 4, "at most 8 dimensions"},
    {"{" TENSOR("", "F32", "[1]", "[0,4]") "}", 4, "must be 1 to 256 bytes, got 0"},
    {"{" TENSOR("a\\n", "F32", "[1]", "[0,4]") "}", 4, "control characters"},
    {"{\"a\":7}", 0, "must be an object"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "must be an object with dtype"},
};

static void malformed_headers(void **state)
{
    (void)state;
    const mem_stats before = mem_count();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        safetensors *s = (safetensors *)(uintptr_t)1;
        mote_error err = {0};
        const mote_status status = read_text(&s, cases[i].text, cases[i].data, &err);
        if (status != MOTE_E_FORMAT || s != NULL || strstr(err.text, cases[i].message) == NULL)
            fail_msg("%s: status %d, '%s', expected '%s'", cases[i].text, (int)status, err.text,
                     cases[i].message);
    }
    assert_int_equal(mem_count().blocks, before.blocks);
}

/* The length is checked before memory for the header is allocated. */
static void lengths(void **state)
{
    (void)state;
    static const struct {
        uint64_t length, file;
        bool ok;
    } rows[] = {{2, 10, true},
                {3, 10, false},
                {UINT64_MAX, 10, false},
                {UINT64_MAX - 7, UINT64_MAX, false},
                {SAFETENSORS_MAX_HEADER, UINT64_MAX, true},
                {(uint64_t)SAFETENSORS_MAX_HEADER + 1, UINT64_MAX, false},
                {0, 7, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned char first[8];
        uint64_t n = 0;
        mote_error err = {0};
        memcpy(first, &rows[i].length, 8);
        const mote_status status = safetensors_header_bytes(first, rows[i].file, &n, &err);
        assert_int_equal(status == MOTE_OK, rows[i].ok);
        if (rows[i].ok)
            assert_true(n == rows[i].length + 8);
    }
}

static void failed_allocations(void **state)
{
    (void)state;
    const mem_stats before = mem_count();
    for (uint64_t i = 1;; i++) {
        safetensors *s;
        mote_error err = {0};
        mem_fail_at(i);
        const mote_status status =
            read_text(&s, "{" TENSOR("a", "F32", "[1]", "[0,4]") "}", 4, &err);
        const bool failed = mem_failed();
        mem_fail_at(0);
        safetensors_free(s);
        if (!failed)
            break;
        assert_int_equal(status, MOTE_E_MEMORY);
    }
    assert_int_equal(mem_count().blocks, before.blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_header),
        cmocka_unit_test(malformed_headers),
        cmocka_unit_test(lengths),
        cmocka_unit_test(failed_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
