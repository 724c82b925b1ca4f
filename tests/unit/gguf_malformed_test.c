/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf_malformed_test.c - malformed GGUF files, each with the expected error.
 *
 * Covers the known ways to break a GGUF reader: counts and lengths that are absent or overflow,
 * shapes with an overflowing product, data outside the file, duplicate names, nested arrays. Each
 * case also limits the number of allocations: the reader must not allocate for entries before it
 * has checked that their bytes are present.
 */
#include "unit/gguf_hostile.h"
#include "support/gguf_build.h"

static const uint64_t one_value[] = {1};

static void kv_head(test_gguf *b, uint64_t key_bytes, const char *key, uint32_t type)
{
    test_gguf_raw_u64(b, key_bytes);
    test_gguf_raw(b, key, strlen(key));
    test_gguf_raw_u32(b, type);
    b->n_kv++;
}

static void array_head(test_gguf *b, uint32_t type, uint64_t count)
{
    kv_head(b, 1, "a", GGUF_ARRAY);
    test_gguf_raw_u32(b, type);
    test_gguf_raw_u64(b, count);
}

static void wrong_magic(test_gguf *b)
{
    b->bytes[3] = 'G';
}
static void version_0(test_gguf *b)
{
    b->bytes[4] = 0;
}
static void version_1(test_gguf *b)
{
    b->bytes[4] = 1;
}
static void version_4(test_gguf *b)
{
    b->bytes[4] = 4;
}
static void big_endian(test_gguf *b)
{
    memcpy(b->bytes + 4, "\0\0\0\3", 4);
}
static void many_tensors(test_gguf *b)
{
    b->n_tensors = GGUF_MAX_TENSORS + 1;
}
static void max_u64_tensors(test_gguf *b)
{
    b->n_tensors = UINT64_MAX;
}
static void absent_tensors(test_gguf *b)
{
    b->n_tensors = 3;
}
static void many_entries(test_gguf *b)
{
    b->n_kv = GGUF_MAX_KV + 1;
}
static void wrapping_entries(test_gguf *b)
{
    b->n_kv = UINT64_MAX / 48 + 1;
}
static void absent_entries(test_gguf *b)
{
    b->n_kv = 300;
}
static void empty_key(test_gguf *b)
{
    test_gguf_u32(b, "", 1);
}
static void control_in_key(test_gguf *b)
{
    test_gguf_u32(b, "a\nb", 1);
}
static void delete_in_key(test_gguf *b)
{
    test_gguf_u32(b, "a\x7F", 1);
}
static void zero_in_key(test_gguf *b)
{
    kv_head(b, 3, "abc", GGUF_U8);
    b->bytes[b->n - 6] = 0;
    test_gguf_raw(b, "", 1);
}
static void long_key(test_gguf *b)
{
    char key[GGUF_MAX_KEY + 2];
    memset(key, 'k', GGUF_MAX_KEY + 1);
    key[GGUF_MAX_KEY + 1] = 0;
    test_gguf_u32(b, key, 1);
}
static void key_beyond_the_end(test_gguf *b)
{
    kv_head(b, 1 << 20, "key", GGUF_U32);
}
static void key_length_max_u64(test_gguf *b)
{
    kv_head(b, UINT64_MAX, "key", GGUF_U32);
}
static void type_13(test_gguf *b)
{
    kv_head(b, 1, "k", GGUF_N_TYPES);
    test_gguf_raw_u64(b, 0);
}
static void type_max_u32(test_gguf *b)
{
    kv_head(b, 1, "k", UINT32_MAX);
    test_gguf_raw_u64(b, 0);
}
static void string_length_1_tb(test_gguf *b)
{
    kv_head(b, 1, "k", GGUF_STRING);
    test_gguf_raw_u64(b, (uint64_t)1 << 40);
}
static void string_length_max_u64(test_gguf *b)
{
    kv_head(b, 1, "k", GGUF_STRING);
    test_gguf_raw_u64(b, UINT64_MAX);
}
static void bool_of_2(test_gguf *b)
{
    kv_head(b, 1, "k", GGUF_BOOL);
    test_gguf_raw(b, "\2", 1);
}
static void bools_of_2(test_gguf *b)
{
    array_head(b, GGUF_BOOL, 3);
    test_gguf_raw(b, "\1\0\2", 3);
}
static void array_of_arrays(test_gguf *b)
{
    array_head(b, GGUF_ARRAY, 1);
    test_gguf_raw_u32(b, GGUF_U8);
    test_gguf_raw_u64(b, 1);
    test_gguf_raw(b, "", 1);
}
static void array_of_type_13(test_gguf *b)
{
    array_head(b, GGUF_N_TYPES, 0);
}
static void array_of_2_40_bytes(test_gguf *b)
{
    array_head(b, GGUF_U8, (uint64_t)1 << 40);
}
static void wrapping_array(test_gguf *b)
{
    array_head(b, GGUF_U64, ((uint64_t)1 << 61) + 1);
    test_gguf_raw_u64(b, 0); /* enough for the overflowed product */
}
static void array_of_2_61_strings(test_gguf *b)
{
    array_head(b, GGUF_STRING, (uint64_t)1 << 61);
    test_gguf_raw_u64(b, 0);
}
static void one_string_too_few(test_gguf *b)
{
    array_head(b, GGUF_STRING, 2);
    test_gguf_raw_str(b, "a long string, so that two length fields would fit");
    test_gguf_raw_u32(b, UINT32_MAX); /* a length of 4 GB */
}
static void same_key_twice(test_gguf *b)
{
    test_gguf_u32(b, "same", 1);
    test_gguf_u32(b, "other", 1);
    test_gguf_bool(b, "same", true);
}
static void alignment_0(test_gguf *b)
{
    test_gguf_u32(b, "general.alignment", 0);
}
static void alignment_4(test_gguf *b)
{
    test_gguf_u32(b, "general.alignment", 4);
}
static void alignment_24(test_gguf *b)
{
    test_gguf_u32(b, "general.alignment", 24);
}
static void alignment_2_gb(test_gguf *b)
{
    test_gguf_u32(b, "general.alignment", 1u << 31);
}
static void alignment_as_text(test_gguf *b)
{
    test_gguf_str(b, "general.alignment", "32");
}
static void alignment_as_array(test_gguf *b)
{
    static const int32_t values[] = {32};
    test_gguf_i32s(b, "general.alignment", values, 1);
}

static void tensor_with(test_gguf *b, const char *name, uint32_t type, uint32_t n_dims, uint64_t d0,
                        uint64_t d1, uint64_t d2, uint64_t d3)
{
    const uint64_t dims[] = {d0, d1, d2, d3, 1};
    test_gguf_tensor(b, name, type, n_dims, dims, NULL, 32);
}
static void tensor_without_name(test_gguf *b)
{
    tensor_with(b, "", 0, 1, 1, 1, 1, 1);
}
static void control_in_name(test_gguf *b)
{
    tensor_with(b, "a\033[2J", 0, 1, 1, 1, 1, 1);
}
static void no_dimensions(test_gguf *b)
{
    tensor_with(b, "t", 0, 0, 1, 1, 1, 1);
}
static void five_dimensions(test_gguf *b)
{
    tensor_with(b, "t", 0, 5, 1, 1, 1, 1);
}
static void empty_dimension(test_gguf *b)
{
    tensor_with(b, "t", 0, 2, 8, 0, 1, 1);
}
static void negative_dimension(test_gguf *b)
{
    tensor_with(b, "t", 0, 1, UINT64_MAX, 1, 1, 1);
}
static void wrapping_shape(test_gguf *b)
{
    tensor_with(b, "t", 0, 4, (uint64_t)1 << 32, (uint64_t)1 << 32, 1, 1);
}
static void shape_product_wraps_to_1(test_gguf *b)
{
    tensor_with(b, "t", 0, 2, 0xAAAAAAAAAAAAAAABu, 3, 1, 1);
}
static void wrapping_bytes(test_gguf *b)
{
    tensor_with(b, "t", 0, 2, (uint64_t)1 << 31, ((uint64_t)1 << 31) + 1, 1, 1);
}
static void wrapping_row(test_gguf *b)
{
    tensor_with(b, "t", 0, 1, (uint64_t)1 << 62, 1, 1, 1);
}
static void partial_block(test_gguf *b)
{
    tensor_with(b, "t", 12, 2, 128, 2, 1, 1);
}
static void exabyte_tensor(test_gguf *b)
{
    tensor_with(b, "t", 2, 4, (uint64_t)1 << 20, (uint64_t)1 << 20, (uint64_t)1 << 20, 1);
}
static void one_value_too_many(test_gguf *b)
{
    tensor_with(b, "t", 0, 1, 9, 1, 1, 1);
}
static void same_tensor_twice(test_gguf *b)
{
    tensor_with(b, "t", 0, 1, 1, 1, 1, 1);
    tensor_with(b, "u", 0, 1, 1, 1, 1, 1);
    tensor_with(b, "t", 8, 1, 32, 1, 1, 1);
}
static void at_offset(test_gguf *b, uint32_t type, uint64_t offset)
{
    test_gguf_tensor(b, "t", type, 1, one_value, NULL, 32);
    memcpy(b->bytes + b->n - 8, &offset, 8);
}
static void misaligned(test_gguf *b)
{
    at_offset(b, 0, 16);
}
static void offset_beyond_the_end(test_gguf *b)
{
    at_offset(b, 0, 64);
}
static void offset_wraps(test_gguf *b)
{
    at_offset(b, 0, UINT64_MAX - 31);
}
static void unknown_type_beyond_the_end(test_gguf *b)
{
    at_offset(b, 26, (uint64_t)1 << 40);
}
static void unknown_type_offset_wraps(test_gguf *b)
{
    at_offset(b, 26, UINT64_MAX - 31);
}

typedef struct malformed {
    const char *name;
    void (*build)(test_gguf *b);
    mote_status status;
    const char *says;    /* part of the error text */
    uint64_t max_memory; /* allocations */
} malformed;

#define CASE(function, status, says, max_memory)                                                   \
    {                                                                                              \
#function, function, status, says, max_memory                                              \
    }
static const malformed cases[] = {
    CASE(wrong_magic, MOTE_E_FORMAT, "not a GGUF", 1),
    CASE(version_0, MOTE_E_UNSUPPORTED, "version 0", 1),
    CASE(version_1, MOTE_E_UNSUPPORTED, "version 1", 1),
    CASE(version_4, MOTE_E_UNSUPPORTED, "version 4", 1),
    CASE(big_endian, MOTE_E_UNSUPPORTED, "big-endian", 1),
    CASE(many_tensors, MOTE_E_FORMAT, "65537 tensors", 1),
    CASE(max_u64_tensors, MOTE_E_FORMAT, "tensors", 1),
    CASE(absent_tensors, MOTE_E_FORMAT, "truncated", 3),
    CASE(many_entries, MOTE_E_FORMAT, "65537 metadata", 1),
    CASE(wrapping_entries, MOTE_E_FORMAT, "metadata", 1),
    CASE(absent_entries, MOTE_E_FORMAT, "truncated", 1),
    CASE(empty_key, MOTE_E_FORMAT, "got 0", 3),
    CASE(control_in_key, MOTE_E_FORMAT, "control characters", 3),
    CASE(delete_in_key, MOTE_E_FORMAT, "control characters", 3),
    CASE(zero_in_key, MOTE_E_FORMAT, "control characters", 3),
    CASE(long_key, MOTE_E_FORMAT, "got 257", 3),
    CASE(key_beyond_the_end, MOTE_E_FORMAT, "truncated", 3),
    CASE(key_length_max_u64, MOTE_E_FORMAT, "truncated", 3),
    CASE(type_13, MOTE_E_FORMAT, "type 13", 3),
    CASE(type_max_u32, MOTE_E_FORMAT, "type 4294967295", 3),
    CASE(string_length_1_tb, MOTE_E_FORMAT, "truncated", 3),
    CASE(string_length_max_u64, MOTE_E_FORMAT, "truncated", 3),
    CASE(bool_of_2, MOTE_E_FORMAT, "must be 0 or 1", 3),
    CASE(bools_of_2, MOTE_E_FORMAT, "must be 0 or 1", 3),
    CASE(array_of_arrays, MOTE_E_FORMAT, "type 9", 3),
    CASE(array_of_type_13, MOTE_E_FORMAT, "type 13", 3),
    CASE(array_of_2_40_bytes, MOTE_E_FORMAT, "truncated", 3),
    CASE(wrapping_array, MOTE_E_FORMAT, "truncated", 3),
    CASE(array_of_2_61_strings, MOTE_E_FORMAT, "truncated", 3),
    CASE(one_string_too_few, MOTE_E_FORMAT, "truncated", 3),
    CASE(same_key_twice, MOTE_E_FORMAT, "duplicate metadata key 'same'", 3),
    CASE(alignment_0, MOTE_E_FORMAT, "got 0", 3),
    CASE(alignment_4, MOTE_E_FORMAT, "got 4", 3),
    CASE(alignment_24, MOTE_E_FORMAT, "got 24", 3),
    CASE(alignment_2_gb, MOTE_E_FORMAT, "got 2147483648", 3),
    CASE(alignment_as_text, MOTE_E_FORMAT, "general.alignment", 3),
    CASE(alignment_as_array, MOTE_E_FORMAT, "general.alignment", 3),
    CASE(tensor_without_name, MOTE_E_FORMAT, "got 0", 5),
    CASE(control_in_name, MOTE_E_FORMAT, "control characters", 5),
    CASE(no_dimensions, MOTE_E_FORMAT, "dimensions, got 0", 5),
    CASE(five_dimensions, MOTE_E_FORMAT, "dimensions, got 5", 5),
    CASE(empty_dimension, MOTE_E_FORMAT, "is empty or overflows", 5),
    CASE(negative_dimension, MOTE_E_FORMAT, "is empty or overflows", 5),
    CASE(wrapping_shape, MOTE_E_FORMAT, "is empty or overflows", 5),
    CASE(shape_product_wraps_to_1, MOTE_E_FORMAT, "is empty or overflows", 5),
    CASE(wrapping_bytes, MOTE_E_FORMAT, "overflows", 5),
    CASE(wrapping_row, MOTE_E_FORMAT, "'t'", 5),
    CASE(partial_block, MOTE_E_FORMAT, "multiple of 256", 5),
    CASE(exabyte_tensor, MOTE_E_FORMAT, "beyond the end", 5),
    CASE(one_value_too_many, MOTE_E_FORMAT, "beyond the end", 5),
    CASE(same_tensor_twice, MOTE_E_FORMAT, "duplicate tensor 't'", 5),
    CASE(misaligned, MOTE_E_FORMAT, "not aligned", 5),
    CASE(offset_beyond_the_end, MOTE_E_FORMAT, "beyond the end", 5),
    CASE(offset_wraps, MOTE_E_FORMAT, "beyond the end", 5),
    CASE(unknown_type_beyond_the_end, MOTE_E_FORMAT, "beyond the end", 5),
    CASE(unknown_type_offset_wraps, MOTE_E_FORMAT, "beyond the end", 5),
};

static void malformed_files_are_rejected(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_gguf b;
        mote_error err;
        test_gguf_begin(&b);
        test_gguf_str(&b, "general.architecture", "qwen35");
        cases[i].build(&b);
        const uint64_t n_tensors = b.n_tensors, data_bytes = b.data_bytes;
        b.n_tensors = data_bytes / 32; /* the number of entries in the table */
        test_gguf_finish(&b);
        memcpy(b.bytes + 8, &n_tensors, 8);
        const mem_stats before = mem_count();
        const mote_status status = read_and_check(place_guarded(b.bytes, b.n), b.n, &err);
        if (status != cases[i].status || strstr(err.text, cases[i].says) == NULL)
            fail_msg("%s: %s, \"%s\"", cases[i].name, mote_status_name(status), err.text);
        if (mem_count().requests - before.requests > cases[i].max_memory)
            fail_msg("%s: allocated too early", cases[i].name);
        test_gguf_free(&b);
    }
}

/* The same file without a fault is accepted, so each case above fails because of its fault. */
static void file_without_fault_is_accepted(void **state)
{
    (void)state;
    test_gguf b;
    mote_error err;
    test_gguf_begin(&b);
    test_gguf_str(&b, "general.architecture", "qwen35");
    test_gguf_u32(&b, "general.alignment", 32);
    at_offset(&b, 0, 0);
    test_gguf_finish(&b);
    assert_int_equal(read_and_check(place_guarded(b.bytes, b.n), b.n, &err), MOTE_OK);
    test_gguf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_files_are_rejected),
        cmocka_unit_test(file_without_fault_is_accepted),
    };
    return cmocka_run_group_tests(tests, make_guarded, NULL);
}
