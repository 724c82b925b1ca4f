/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tile_model.c - tests of the emulated tiles against known products.
 *
 * Small matrices computed from the definition, numbers at the ends of their ranges, shapes smaller
 * than a tile, and all operands that a CPU rejects.
 */
#include "kernels/tile_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef struct config {
    uint8_t bytes[MODEL_CONFIG_BYTES];
} config;

/* Tile 0 is m rows of n dwords, tile 1 m rows of k bytes, tile 2 k / 4 rows of n dwords. */
static config shapes(unsigned m, unsigned n, unsigned k)
{
    const unsigned rows[] = {m, m, k / 4}, row_bytes[] = {4 * n, k, 4 * n};
    config c = {{1}};
    for (int t = 0; t < 3; t++) {
        c.bytes[16 + 2 * t] = (uint8_t)row_bytes[t];
        c.bytes[48 + t] = (uint8_t)rows[t];
    }
    return c;
}

static void configure(tile_model *model, unsigned m, unsigned n, unsigned k)
{
    const config c = shapes(m, n, k);
    assert_true(tile_model_configure(model, &c));
}

static uint32_t random_state = 7;

static uint8_t any_byte(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (uint8_t)(random_state >> 24);
}

/* [1 2 3 4 5 6 7 8] times two columns. */
static void a_product_by_hand(void **state)
{
    static tile_model model;
    const int8_t a[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const int8_t b[2][8] = {{1, 0, 0, 0, -1, -1, -1, -1}, {0, 0, 0, 1, 10, 0, 0, -10}};
    int32_t c[2] = {100, 1000};
    (void)state;
    configure(&model, 1, 2, 8);
    assert_true(tile_model_load(&model, 0, c, sizeof c));
    assert_true(tile_model_load(&model, 1, a, sizeof a));
    assert_true(tile_model_load(&model, 2, b, sizeof b[0]));
    assert_true(tile_model_dp(&model, 0, 1, 2, true));
    assert_true(tile_model_store(&model, 0, c, sizeof c));
    assert_int_equal(c[0], 100 + 1 * 1 + 8 * 1);
    assert_int_equal(c[1], 1000 - (1 + 2 + 3 + 4) + 5 * 10 - 8 * 10);
}

/* c[m][n] + sum over k of a[m][k] * b(k, n), where b(k, n) is byte k % 4 of dword n of row k /
 * 4. */
static int32_t by_definition(int32_t c, const int8_t *a, const int8_t *b, unsigned n, unsigned k,
                             bool b_signed)
{
    int64_t sum = c;
    for (unsigned i = 0; i < k; i++) {
        const int8_t factor = b[i / 4 * MODEL_ROW_BYTES + 4 * n + i % 4];
        sum += a[i] * (b_signed || factor >= 0 ? factor : factor + 256);
    }
    return (int32_t)sum;
}

static void check_shape(tile_model *model, unsigned m, unsigned n, unsigned k, bool b_signed)
{
    static int8_t a[MODEL_ROWS][MODEL_ROW_BYTES], b[MODEL_ROWS][MODEL_ROW_BYTES];
    static int32_t c[MODEL_ROWS][MODEL_ROWS], out[MODEL_ROWS][MODEL_ROWS];
    for (unsigned r = 0; r < MODEL_ROWS; r++)
        for (unsigned i = 0; i < MODEL_ROW_BYTES; i++) {
            a[r][i] = (int8_t)any_byte();
            b[r][i] = (int8_t)any_byte();
            c[r][i / 4] = (int8_t)any_byte() * 100000;
        }
    memset(out, 0x55, sizeof out);
    configure(model, m, n, k);
    assert_true(tile_model_load(model, 0, c, sizeof c[0]));
    assert_true(tile_model_load(model, 1, a, sizeof a[0]));
    assert_true(tile_model_load(model, 2, b, sizeof b[0]));
    assert_true(tile_model_dp(model, 0, 1, 2, b_signed));
    assert_true(tile_model_store(model, 0, out, sizeof out[0]));
    for (unsigned r = 0; r < MODEL_ROWS; r++)
        for (unsigned i = 0; i < MODEL_ROWS; i++)
            assert_int_equal(out[r][i], r < m && i < n
                                            ? by_definition(c[r][i], a[r], b[0], i, k, b_signed)
                                            : 0x55555555);
}

static void products_of_every_shape(void **state)
{
    static tile_model model;
    (void)state;
    for (unsigned m = 1; m <= MODEL_ROWS; m++)
        for (unsigned n = 1; n <= MODEL_ROWS; n++)
            for (unsigned k = 4; k <= MODEL_ROW_BYTES; k += 4) {
                check_shape(&model, m, n, k, true);
                check_shape(&model, m, n, k, false);
            }
}

/* 64 times 128 * 128, then a 32-bit overflow. */
static void the_ends_of_the_ranges(void **state)
{
    static tile_model model;
    uint8_t ends[MODEL_ROWS][MODEL_ROW_BYTES];
    int32_t c[MODEL_ROWS][MODEL_ROWS];
    (void)state;
    memset(ends, 0x80, sizeof ends);
    configure(&model, 16, 16, 64);
    assert_true(tile_model_load(&model, 1, ends, sizeof ends[0]));
    assert_true(tile_model_load(&model, 2, ends, sizeof ends[0]));
    for (int i = 1; i <= 2048; i++) {
        assert_true(tile_model_dp(&model, 0, 1, 2, true));
        assert_true(tile_model_store(&model, 0, c, sizeof c[0]));
        assert_int_equal(c[15][15], (int32_t)((uint32_t)i << 20));
    }
    assert_int_equal(c[0][0], INT32_MIN);
}

/* Integers that bf16 and f32 represent exactly, so the order of the additions does not matter. */
static void bf16_products_by_hand(void **state)
{
    static tile_model model;
    /* bf16: 3f80 is 1, 4000 is 2, c040 is -3, 4580 is 4096, 0001 is subnormal. */
    const uint16_t a[4] = {0x3F80, 0x4580, 0xC040, 0x0001};
    const uint16_t b[2][4] = {{0x4000, 0x3F80, 0xC040, 0x4000}, {0x4000, 0x4580, 0x3F80, 0x4580}};
    float c[2] = {0.5f, -1.0f};
    (void)state;
    configure(&model, 1, 2, 8);
    assert_true(tile_model_load(&model, 0, c, sizeof c));
    assert_true(tile_model_load(&model, 1, a, sizeof a));
    assert_true(tile_model_load(&model, 2, b, sizeof b[0]));
    assert_true(tile_model_dp_bf16(&model, 0, 1, 2));
    assert_true(tile_model_store(&model, 0, c, sizeof c));
    assert_true(c[0] == 0.5f + 1 * 2 + 4096 * 1 - 3 * 2);
    assert_true(c[1] == -1.0f - 1 * 3 + 4096 * 2 - 3 * 1);
    assert_false(tile_model_dp_bf16(&model, 0, 2, 1) || tile_model_dp_bf16(&model, 0, 1, 1));
}

/* The old contents of a tile are cleared, also outside its shape. */
static void loading_and_zeroing_clear(void **state)
{
    static tile_model model;
    const uint8_t rows[3][100] = {{1, 2, 3, 4, 5, 6, 7, 8}, {9}, {17, 18}};
    static const uint8_t zeros[MODEL_ROWS][MODEL_ROW_BYTES];
    uint8_t want[MODEL_ROWS][MODEL_ROW_BYTES] = {{1, 2, 3, 4}, {9}, {17, 18}};
    (void)state;
    configure(&model, 3, 4, 4);
    memset(model.data, 0xFF, sizeof model.data);
    assert_true(tile_model_load(&model, 1, rows, sizeof rows[0]));
    assert_memory_equal(model.data[1], want, sizeof want);
    assert_true(tile_model_zero(&model, 1));
    assert_memory_equal(model.data[1], zeros, sizeof zeros);
    memset(model.data, 0xFF, sizeof model.data);
    configure(&model, 3, 4, 4);
    assert_memory_equal(model.data[2], zeros, sizeof zeros);
}

/* True if a valid configuration with one changed byte is accepted. */
static bool accepts(unsigned at, uint8_t value)
{
    tile_model model;
    config c = shapes(16, 16, 64);
    memset(&model, 0, sizeof model);
    c.bytes[at] = value;
    return tile_model_configure(&model, &c);
}

static void wrong_configurations_are_refused(void **state)
{
    (void)state;
    assert_true(accepts(0, 1) && accepts(0, 0));
    assert_false(accepts(0, 2));
    for (unsigned at = 1; at < 16; at++)
        assert_false(accepts(at, 1));
    for (unsigned at = 32; at < 48; at++)
        assert_false(accepts(at, 1));
    for (unsigned at = 56; at < 64; at++)
        assert_false(accepts(at, 1));
    assert_true(accepts(48, 15) && accepts(16, 60));
    assert_false(accepts(48, 17) || accepts(16, 65) || accepts(17, 1));
    assert_false(accepts(48, 0) || accepts(16, 0)); /* rows without bytes, bytes without rows */
    assert_false(accepts(51, 1) || accepts(22, 4)); /* the same for an unused tile */
}

static bool product_fits(unsigned row_bytes_c, unsigned rows_c, unsigned row_bytes_a,
                         unsigned rows_b)
{
    tile_model model;
    config c = shapes(8, 8, 32);
    memset(&model, 0, sizeof model);
    c.bytes[16] = (uint8_t)row_bytes_c;
    c.bytes[48] = (uint8_t)rows_c;
    c.bytes[18] = (uint8_t)row_bytes_a;
    c.bytes[50] = (uint8_t)rows_b;
    assert_true(tile_model_configure(&model, &c));
    return tile_model_dp(&model, 0, 1, 2, true);
}

static void what_does_not_fit_is_refused(void **state)
{
    static tile_model model;
    uint8_t rows[MODEL_ROWS][MODEL_ROW_BYTES] = {{0}};
    (void)state;
    assert_true(product_fits(32, 8, 32, 8));
    assert_false(product_fits(28, 8, 32, 8) || product_fits(32, 7, 32, 8));
    assert_false(product_fits(32, 8, 28, 8) || product_fits(32, 8, 32, 7));
    assert_false(product_fits(32, 8, 31, 8) || product_fits(32, 8, 33, 8));
    configure(&model, 8, 8, 32);
    assert_false(tile_model_dp(&model, 0, 0, 2, true) || tile_model_dp(&model, 0, 1, 1, true) ||
                 tile_model_dp(&model, 2, 1, 2, true) || tile_model_dp(&model, 3, 1, 2, true));
    assert_false(tile_model_zero(&model, 3) || tile_model_zero(&model, 8));
    assert_false(tile_model_load(&model, 3, rows, 64) || tile_model_store(&model, 3, rows, 64));
    tile_model_release(&model);
    assert_false(tile_model_zero(&model, 0) || tile_model_dp(&model, 0, 1, 2, true));
    assert_false(tile_model_load(&model, 0, rows, 64) || tile_model_store(&model, 0, rows, 64));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_by_hand),
        cmocka_unit_test(products_of_every_shape),
        cmocka_unit_test(bf16_products_by_hand),
        cmocka_unit_test(the_ends_of_the_ranges),
        cmocka_unit_test(loading_and_zeroing_clear),
        cmocka_unit_test(wrong_configurations_are_refused),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
