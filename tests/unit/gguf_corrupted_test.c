/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_corrupted_test.c - a valid file, truncated at every length and changed at every byte. */
#include "unit/gguf_hostile.h"
#include "unit/gguf_sample.h"

static void every_truncation_is_an_error(void **state)
{
    (void)state;
    test_gguf b;
    mote_error err;
    sample_file(&b);
    /* The last tensor has an unsupported type and so no size: its data may be missing. */
    gguf *g;
    assert_int_equal(gguf_read(&g, b.bytes, b.n, &err), MOTE_OK);
    const uint64_t needed = gguf_find_tensor(g, "foreign")->offset;
    gguf_free(g);
    for (size_t n = 0; n <= b.n; n++) {
        const mote_status status = read_and_check(place_guarded(b.bytes, n), n, &err);
        assert_true((status == MOTE_OK) == (n >= needed));
    }
    test_gguf_free(&b);
}

/* Bytes before the tensor data. */
static size_t header_bytes(const test_gguf *b)
{
    return b->n - (size_t)b->data_bytes;
}

enum { N_CHANGES = 12 };

static unsigned char changed(unsigned char byte, int change)
{
    switch (change) {
    case 8: return 0x00;
    case 9: return 0xFF;
    case 10: return (unsigned char)(byte + 1);
    case 11: return (unsigned char)(byte - 1);
    default: return (unsigned char)(byte ^ 1 << change);
    }
}

static void corrupted_bytes_do_no_harm(void **state)
{
    (void)state;
    test_gguf b;
    mote_error err;
    sample_file(&b);
    unsigned char *file = place_guarded(b.bytes, b.n);
    unsigned rejected = 0;
    for (size_t at = 0; at < header_bytes(&b); at++) {
        const unsigned char original = file[at];
        for (int change = 0; change < N_CHANGES; change++) {
            file[at] = changed(original, change);
            rejected += read_and_check(file, b.n, &err) != MOTE_OK;
        }
        file[at] = original;
    }
    assert_true(rejected > header_bytes(&b)); /* the changed bytes were checked */
    test_gguf_free(&b);
}

static void corrupted_length_fields_do_no_harm(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {0,
                                       1,
                                       255,
                                       (uint64_t)1 << 31,
                                       (uint64_t)1 << 32,
                                       (uint64_t)1 << 61,
                                       (uint64_t)1 << 63,
                                       UINT64_MAX / 48 + 1,
                                       UINT64_MAX - 7,
                                       UINT64_MAX};
    test_gguf b;
    mote_error err;
    sample_file(&b);
    unsigned char *file = place_guarded(b.bytes, b.n);
    /* Every offset, so every field is overwritten completely and in part. */
    for (size_t at = 0; at + 8 <= header_bytes(&b); at++) {
        unsigned char original[8];
        memcpy(original, file + at, 8);
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            memcpy(file + at, &lengths[i], 8);
            read_and_check(file, b.n, &err);
        }
        memcpy(file + at, original, 8);
    }
    test_gguf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_truncation_is_an_error),
        cmocka_unit_test(corrupted_bytes_do_no_harm),
        cmocka_unit_test(corrupted_length_fields_do_no_harm),
    };
    return cmocka_run_group_tests(tests, make_guarded, NULL);
}
