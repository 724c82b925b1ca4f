/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_corrupted_test.c - a sound file, cut at every length and changed at every byte. */
#include "unit/gguf_hostile.h"
#include "unit/gguf_sample.h"

static void every_truncation_is_an_error(void **state)
{
    (void)state;
    test_gguf b;
    mote_error err;
    sample_file(&b);
    /* The data of the last tensor are of an unknown size: up to their start all is needed. */
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

/* Where the tensor data begin: everything before is header. */
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

static void every_corrupted_byte_is_survived(void **state)
{
    (void)state;
    test_gguf b;
    mote_error err;
    sample_file(&b);
    unsigned char *file = place_guarded(b.bytes, b.n);
    unsigned refused = 0;
    for (size_t at = 0; at < header_bytes(&b); at++) {
        const unsigned char original = file[at];
        for (int change = 0; change < N_CHANGES; change++) {
            file[at] = changed(original, change);
            refused += read_and_check(file, b.n, &err) != MOTE_OK;
        }
        file[at] = original;
    }
    assert_true(refused > header_bytes(&b)); /* and not because nothing was looked at */
    test_gguf_free(&b);
}

static void every_length_field_is_survived(void **state)
{
    (void)state;
    static const uint64_t lies[] = {0,
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
    /* At every offset: that covers every field, and every field half read. */
    for (size_t at = 0; at + 8 <= header_bytes(&b); at++) {
        unsigned char original[8];
        memcpy(original, file + at, 8);
        for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
            memcpy(file + at, &lies[i], 8);
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
        cmocka_unit_test(every_corrupted_byte_is_survived),
        cmocka_unit_test(every_length_field_is_survived),
    };
    return cmocka_run_group_tests(tests, make_guarded, NULL);
}
