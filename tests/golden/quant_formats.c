/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant_formats.c - every format decodes bit for bit as gguf-py does, the writers
 * give the same bytes, and the model made at build time is the one it should be.
 */
#include "quant/quant.h"
#include "quant/half.h"
#include "quant/quant.h"
#include "support/data.h"
#include "support/npy.h"
#include "support/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static test_npy load(const char *name, const char *what)
{
    char path[TEST_PATH];
    snprintf(path, sizeof path, "golden/quant/%s%s.npy", name, what);
    return test_npy_data(path);
}

static void formats_decode_bit_for_bit(void **state)
{
    (void)state;
    int n_formats = 0;
    for (int f = 0; f <= QUANT_IQ4_XS; f++) { /* the others: quant_blocks.c */
        const quant_info *info = quant_get((quant_format)f);
        if (f == QUANT_F32)
            continue; /* a copy; below */
        test_npy raw = load(info->name, ".raw"), values = load(info->name, ".values");
        const size_t n_blocks = raw.dims[0];
        assert_non_null(raw.u8);
        assert_non_null(values.f32);
        assert_int_equal(raw.dims[1], info->block_bytes);
        assert_int_equal(values.count, n_blocks * info->block_values);
        float *got = malloc(values.count * sizeof *got);
        assert_non_null(got);
        info->decode(raw.u8, n_blocks, got);
        if (memcmp(got, values.f32, values.count * sizeof *got) != 0)
            fail_msg("%s differs", info->name);
        free(got);
        test_npy_free(&raw);
        test_npy_free(&values);
        n_formats++;
    }
    assert_int_equal(n_formats, 14);
}

static void f32_is_a_copy(void **state)
{
    (void)state;
    test_npy rows = load("rows", "");
    float *got = malloc(rows.count * sizeof *got);
    assert_non_null(got);
    quant_get(QUANT_F32)->decode(rows.f32, rows.count, got);
    assert_memory_equal(got, rows.f32, rows.count * sizeof *got);
    quant_get(QUANT_F32)->decode(NULL, 0, got);
    free(got);
    test_npy_free(&rows);
}

static void q8_0_is_written_byte_for_byte(void **state)
{
    (void)state;
    test_npy rows = load("rows", ""), wanted = load("rows", ".Q8_0.raw");
    unsigned char *got = malloc(wanted.count);
    assert_non_null(got);
    assert_int_equal(wanted.count, rows.count / 32 * 34);
    quant_encode_q8_0(rows.f32, rows.count / 32, got);
    assert_memory_equal(got, wanted.u8, wanted.count);
    free(got);
    test_npy_free(&rows);
    test_npy_free(&wanted);
}

static void halves_are_written_byte_for_byte(void **state)
{
    (void)state;
    test_npy rows = load("rows", "");
    test_npy f16 = load("rows", ".F16.raw"), bf16 = load("rows", ".BF16.raw");
    for (size_t i = 0; i < rows.count; i++) {
        assert_int_equal(half_f32_to_f16(rows.f32[i]), f16.u8[2 * i] | f16.u8[2 * i + 1] << 8);
        assert_int_equal(half_f32_to_bf16(rows.f32[i]), bf16.u8[2 * i] | bf16.u8[2 * i + 1] << 8);
    }
    test_npy_free(&rows);
    test_npy_free(&f16);
    test_npy_free(&bf16);
}

/* tests/data/make_q8_0.c writes the file that llama-quantize wrote. */
static void the_q8_0_model_is_the_original(void **state)
{
    (void)state;
    char path[TEST_PATH], hex[65];
    size_t n;
    assert_true(test_data_path(path, "mote-tiny-Q8_0.gguf"));
    unsigned char *file = test_file_read(path, &n);
    assert_non_null(file);
    test_sha256 sum;
    test_sha256_begin(&sum);
    test_sha256_add(&sum, file, n);
    test_sha256_end(&sum, hex);
    assert_string_equal(hex, "fe6cdaf6d99fcfdefad874ca71888a4a757aee9e185a44e464272fa4d2569c0b");
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_decode_bit_for_bit),
        cmocka_unit_test(f32_is_a_copy),
        cmocka_unit_test(q8_0_is_written_byte_for_byte),
        cmocka_unit_test(halves_are_written_byte_for_byte),
        cmocka_unit_test(the_q8_0_model_is_the_original),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
