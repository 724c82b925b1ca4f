/* SPDX-License-Identifier: Apache-2.0 */
/* quant_test.c - the format table, row sizes, f16 and bf16, the Q8_0 encoder. */
#include "quant/blocks.h"
#include "quant/quant.h"
#include "quant/half.h"
#include "quant/quant.h"
#include "support/random.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void the_table_is_complete(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t id, values, bytes;
    } expected[QUANT_N_FORMATS] = {
        {"F32", 0, 1, 4},        {"F16", 1, 1, 2},       {"BF16", 30, 1, 2},
        {"Q4_0", 2, 32, 18},     {"Q4_1", 3, 32, 20},    {"Q5_0", 6, 32, 22},
        {"Q5_1", 7, 32, 24},     {"Q8_0", 8, 32, 34},    {"Q2_K", 10, 256, 84},
        {"Q3_K", 11, 256, 110},  {"Q4_K", 12, 256, 144}, {"Q5_K", 13, 256, 176},
        {"Q6_K", 14, 256, 210},  {"IQ4_NL", 20, 32, 18}, {"IQ4_XS", 23, 256, 136},
        {"IQ1_S", 19, 256, 50},  {"IQ1_M", 29, 256, 56}, {"IQ2_XXS", 16, 256, 66},
        {"IQ2_XS", 17, 256, 74}, {"IQ2_S", 22, 256, 82}, {"IQ3_XXS", 18, 256, 98},
        {"IQ3_S", 21, 256, 110}, {"TQ1_0", 34, 256, 54}, {"TQ2_0", 35, 256, 66},
        {"MXFP4", 39, 32, 17},   {"NVFP4", 40, 64, 36},  {"Q1_0", 41, 128, 18},
        {"Q2_0", 42, 64, 18},
    };
    for (int i = 0; i < QUANT_N_FORMATS; i++) {
        const quant_info *info = quant_get((quant_format)i);
        assert_int_equal(info->format, i);
        assert_string_equal(info->name, expected[i].name);
        assert_int_equal(info->gguf_id, expected[i].id);
        assert_int_equal(info->block_values, expected[i].values);
        assert_int_equal(info->block_bytes, expected[i].bytes);
        assert_non_null(info->decode);
        const bool floats = info->block_values == 1 || i == QUANT_NVFP4;
        assert_int_equal(info->act, floats                      ? QUANT_ACT_F32
                                    : info->block_values == 256 ? QUANT_ACT_256
                                                                : QUANT_ACT_32);
        assert_ptr_equal(quant_from_gguf(info->gguf_id), info);
        assert_string_equal(quant_gguf_name(info->gguf_id), info->name);
    }
}

static void unsupported_types_have_names_but_no_entry(void **state)
{
    (void)state;
    assert_null(quant_from_gguf(15));
    assert_string_equal(quant_gguf_name(15), "Q8_K");
    assert_string_equal(quant_gguf_name(26), "I32");
    static const uint32_t nameless[] = {4, 5, 31, 99, UINT32_MAX}; /* 4, 5 and 31: removed types */
    for (int i = 0; i < 5; i++) {
        assert_null(quant_from_gguf(nameless[i]));
        assert_string_equal(quant_gguf_name(nameless[i]), "unknown");
    }
}

/* Random blocks with a scale decode to finite weights of its size. */
static void scales_make_finite_weights(void **state)
{
    (void)state;
    test_random random = {5};
    for (int f = QUANT_Q4_0; f < QUANT_N_FORMATS; f++) {
        const quant_info *info = quant_get((quant_format)f);
        float values[QUANT_SUPERBLOCK], largest = 0;
        unsigned char block[256];
        for (int i = 0; i < 50; i++) {
            for (size_t k = 0; k < sizeof block; k++)
                block[k] = (unsigned char)test_random_u64(&random);
            quant_set_scales((quant_format)f, block, 0x1400, 0x1400); /* 2^-10 */
            info->decode(block, 1, values);
            for (uint32_t k = 0; k < info->block_values; k++) {
                const float magnitude = values[k] < 0 ? -values[k] : values[k];
                assert_true(magnitude <= 0x1p-10f * 128 * 32);
                largest = magnitude > largest ? magnitude : largest;
            }
        }
        assert_true(largest >= 0x1p-10f);
    }
}

static void rows_are_whole_blocks(void **state)
{
    (void)state;
    uint64_t bytes;
    assert_true(quant_row_bytes(QUANT_Q4_K, 0, &bytes) && bytes == 0);
    assert_true(quant_row_bytes(QUANT_Q4_K, 1024, &bytes) && bytes == 576);
    assert_true(quant_row_bytes(QUANT_F32, 7, &bytes) && bytes == 28);
    assert_true(quant_row_bytes(QUANT_Q8_0, 32, &bytes) && bytes == 34);
    assert_false(quant_row_bytes(QUANT_Q8_0, 33, &bytes));
    assert_false(quant_row_bytes(QUANT_Q6_K, 128, &bytes));
    assert_true(quant_row_bytes(QUANT_Q6_K, (uint64_t)1 << 40, &bytes));
    assert_true(bytes == ((uint64_t)1 << 32) * 210);
    assert_false(quant_row_bytes(QUANT_F32, (uint64_t)1 << 62, &bytes));
    assert_false(quant_row_bytes(QUANT_Q8_0, UINT64_MAX / 32 * 32, &bytes));
}

/* For all 65,536 values, f16 to f32 and back gives the same bits; NaN becomes quiet. */
static void f16_round_trip(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const float wide = half_f16_to_f32((uint16_t)h);
        const bool is_nan = (h & 0x7C00) == 0x7C00 && (h & 0x3FF) != 0;
        assert_true((wide != wide) == is_nan);
        assert_int_equal(half_f32_to_f16(wide), is_nan ? h | 0x200 : h);
        if (is_nan)
            assert_true((half_bits_of(wide) & 0x400000) != 0); /* quiet, like F16C */
    }
    assert_true(half_f16_to_f32(0x3C00) == 1.0f);
    assert_true(half_f16_to_f32(0xC000) == -2.0f);
    assert_true(half_f16_to_f32(0x0001) == 0x1p-24f);
    assert_true(half_f16_to_f32(0x03FF) == 1023 * 0x1p-24f);
    assert_true(half_f16_to_f32(0x7BFF) == 65504.0f);
}

/* For all neighbours: their midpoint rounds to the even one, and the floats next to the midpoint
 * round to the nearer one. */
static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7C00; h++) {
        const float low = half_f16_to_f32((uint16_t)h);
        /* 65536 would be the f16 after the largest. */
        const float high = h == 0x7BFF ? 65536.0f : half_f16_to_f32((uint16_t)(h + 1));
        const float middle = low + (high - low) / 2;
        const uint16_t even = (uint16_t)(h % 2 == 0 ? h : h + 1);
        const uint32_t bits = half_bits_of(middle);
        assert_int_equal(half_f32_to_f16(middle), even);
        assert_int_equal(half_f32_to_f16(half_float_of(bits - 1)), h);
        assert_int_equal(half_f32_to_f16(half_float_of(bits + 1)), h + 1);
        assert_int_equal(half_f32_to_f16(-middle), even | 0x8000);
    }
    assert_int_equal(half_f32_to_f16(1e30f), 0x7C00);
    assert_int_equal(half_f32_to_f16(-1e30f), 0xFC00);
    assert_int_equal(half_f32_to_f16(1e-30f), 0);
    assert_int_equal(half_f32_to_f16(half_float_of(0x7F800000)), 0x7C00);
    assert_int_equal(half_f32_to_f16(half_float_of(0xFF800001)), 0xFE00);
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t b = 0; b < 65536; b++) {
        const bool is_nan = (b & 0x7F80) == 0x7F80 && (b & 0x7F) != 0;
        const uint32_t wide = b << 16;
        assert_int_equal(half_bits_of(half_bf16_to_f32((uint16_t)b)), wide);
        assert_int_equal(half_f32_to_bf16(half_float_of(wide)), is_nan ? b | 0x40 : b);
        if ((b & 0x7F80) == 0x7F80)
            continue;
        const uint32_t even = b % 2 == 0 ? b : b + 1;
        assert_int_equal(half_f32_to_bf16(half_float_of(wide | 0x7FFF)), b);
        assert_int_equal(half_f32_to_bf16(half_float_of(wide | 0x8000)), even);
        assert_int_equal(half_f32_to_bf16(half_float_of(wide | 0x8001)), b + 1);
    }
}

/* The error is at most half a step, plus the rounding of d to f16. */
static void q8_0_error_is_bounded(void **state)
{
    (void)state;
    enum { BLOCKS = 200 };
    float values[BLOCKS * 32], back[BLOCKS * 32];
    quant_q8_0 blocks[BLOCKS];
    test_random r = {8};
    for (int i = 0; i < BLOCKS * 32; i++)
        values[i] = test_random_normal(&r);
    quant_encode_q8_0(values, BLOCKS, blocks);
    quant_get(QUANT_Q8_0)->decode(blocks, BLOCKS, back);
    for (int i = 0; i < BLOCKS * 32; i++) {
        const float d = half_f16_to_f32(blocks[i / 32].d);
        const float error = values[i] > back[i] ? values[i] - back[i] : back[i] - values[i];
        assert_true(error <= 0.5f * d + 127 * d * 0x1p-11f);
    }
}

static void q8_0_special_rows(void **state)
{
    (void)state;
    float row[32] = {0};
    quant_q8_0 block;
    quant_encode_q8_0(row, 1, &block);
    assert_int_equal(block.d, 0);
    for (int i = 0; i < 32; i++)
        assert_int_equal(block.qs[i], 0);
    row[0] = 127.0f;
    row[1] = 0.5f; /* a tie rounds away from zero */
    row[2] = -0.5f;
    row[3] = 0.49999997f; /* adding 0.5 first would round it up */
    row[4] = -127.0f;
    quant_encode_q8_0(row, 1, &block);
    assert_int_equal(block.d, half_f32_to_f16(1.0f));
    assert_int_equal(block.qs[0], 127);
    assert_int_equal(block.qs[1], 1);
    assert_int_equal(block.qs[2], -1);
    assert_int_equal(block.qs[3], 0);
    assert_int_equal(block.qs[4], -127);
    row[5] = half_float_of(0x7F800000); /* meaningless, but no undefined behaviour */
    row[6] = half_float_of(0x7FC00000);
    quant_encode_q8_0(row, 1, &block);
    assert_int_equal(block.d, 0x7C00);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_complete),
        cmocka_unit_test(unsupported_types_have_names_but_no_entry),
        cmocka_unit_test(scales_make_finite_weights),
        cmocka_unit_test(rows_are_whole_blocks),
        cmocka_unit_test(f16_round_trip),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(q8_0_error_is_bounded),
        cmocka_unit_test(q8_0_special_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
