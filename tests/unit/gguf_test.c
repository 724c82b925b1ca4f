/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_test.c - valid GGUF files: entries, typed getters, tensors, sizes over 4 GB, the test
 * models. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "base/mem.h"
#include "base/os.h"
#include "support/data.h"
#include "support/gguf_walk.h"
#include "unit/gguf_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

#include <cmocka.h>

static test_gguf sample;
static gguf *g;

static int read_sample(void **state)
{
    (void)state;
    mote_error err;
    sample_file(&sample);
    return gguf_read(&g, sample.bytes, sample.n, &err) == MOTE_OK ? 0 : -1;
}

static int free_sample(void **state)
{
    (void)state;
    gguf_free(g);
    gguf_free(NULL);
    test_gguf_free(&sample);
    return mem_count().blocks == 0 ? 0 : -1;
}

static void all_entries_are_found(void **state)
{
    (void)state;
    assert_int_equal(gguf_n_kv(g), SAMPLE_N_KV);
    assert_int_equal(gguf_n_tensors(g), SAMPLE_N_TENSORS);
    assert_int_equal(gguf_alignment(g), 64);
    assert_true(str_is(gguf_kv_at(g, 0)->key, "general.architecture"));
    assert_true(str_is(gguf_kv_at(g, SAMPLE_N_KV - 1)->key, "a.none"));
    assert_null(gguf_find(g, "v.u3"));
    assert_null(gguf_find(g, ""));
    assert_null(gguf_find_tensor(g, "v.u32"));
    assert_null(test_gguf_fault(g, sample.bytes, sample.n));
}

static void integers_of_any_type_are_accepted_if_they_fit(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        bool fits;
        uint32_t value;
    } cases[] = {
        {"v.u8", true, 200}, {"v.i8", false, 0},   {"v.u16", true, 65535},
        {"v.i16", false, 0}, {"v.i32", false, 0},  {"v.u32", true, 4000000000u},
        {"v.u64", false, 0}, {"v.i64", false, 0},  {"v.small", true, 77},
        {"v.f32", false, 0}, {"v.true", false, 0}, {"v.str", false, 0},
        {"a.i32", false, 0}, {"a.str", false, 0},
    };
    mote_error err;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t value = 42;
        bool found = false;
        const mote_status status = gguf_get_u32(g, cases[i].key, &value, &found, &err);
        assert_int_equal(status, cases[i].fits ? MOTE_OK : MOTE_E_FORMAT);
        assert_int_equal(value, cases[i].fits ? cases[i].value : 42);
        assert_true(found);
        if (!cases[i].fits)
            assert_non_null(strstr(err.text, cases[i].key));
    }
}

static void floats_bools_and_strings(void **state)
{
    (void)state;
    mote_error err;
    float f = 0;
    bool b = false, found;
    str s;
    assert_int_equal(gguf_get_f32(g, "v.f32", &f, NULL, &err), MOTE_OK);
    assert_true(f == 1.5f);
    assert_int_equal(gguf_get_f32(g, "v.f64", &f, NULL, &err), MOTE_OK);
    assert_true(f == 0.5f);
    assert_int_equal(gguf_get_f32(g, "v.u32", &f, NULL, &err), MOTE_E_FORMAT);
    assert_int_equal(gguf_get_bool(g, "v.true", &b, &found, &err), MOTE_OK);
    assert_true(b && found);
    assert_int_equal(gguf_get_bool(g, "v.false", &b, NULL, &err), MOTE_OK);
    assert_false(b);
    assert_int_equal(gguf_get_bool(g, "v.u8", &b, NULL, &err), MOTE_E_FORMAT);
    assert_int_equal(gguf_get_str(g, "v.str", &s, NULL, &err), MOTE_OK);
    assert_true(str_is(s, "text"));
    assert_int_equal(gguf_get_str(g, "v.empty", &s, NULL, &err), MOTE_OK);
    assert_int_equal(s.n, 0);
    assert_int_equal(gguf_get_str(g, "v.f32", &s, NULL, &err), MOTE_E_FORMAT);
    assert_int_equal(gguf_get_str(g, "a.str", &s, NULL, &err), MOTE_E_FORMAT);
}

static void absent_key_is_an_error_only_if_required(void **state)
{
    (void)state;
    mote_error err;
    uint32_t u = 1;
    float f = 2;
    bool b = true, found = true;
    str s = {"kept", 4};
    assert_int_equal(gguf_get_u32(g, "absent", &u, &found, &err), MOTE_OK);
    assert_false(found);
    assert_int_equal(gguf_get_f32(g, "absent", &f, &found, &err), MOTE_OK);
    assert_int_equal(gguf_get_bool(g, "absent", &b, &found, &err), MOTE_OK);
    assert_int_equal(gguf_get_str(g, "absent", &s, &found, &err), MOTE_OK);
    assert_true(u == 1 && f == 2 && b && str_is(s, "kept"));
    assert_int_equal(gguf_get_u32(g, "absent", &u, NULL, &err), MOTE_E_FORMAT);
    assert_non_null(strstr(err.text, "'absent' is missing"));
    assert_int_equal(gguf_get_f32(g, "absent", &f, NULL, &err), MOTE_E_FORMAT);
    assert_int_equal(gguf_get_bool(g, "absent", &b, NULL, &err), MOTE_E_FORMAT);
    assert_int_equal(gguf_get_str(g, "absent", &s, NULL, &err), MOTE_E_FORMAT);
}

static void integers_of_any_width(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        int64_t value;
    } cases[] = {{"v.u8", 200},     {"v.i8", -3},          {"v.u16", 65535},     {"v.i16", -300},
                 {"v.i32", -70000}, {"v.u32", 4000000000}, {"v.i64", INT64_MIN}, {"v.small", 77}};
    int64_t value;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const gguf_kv *kv = gguf_find(g, cases[i].key);
        assert_true(gguf_int_at(kv, 0, &value) && value == cases[i].value);
        assert_false(gguf_int_at(kv, 1, &value));
    }
    const gguf_kv *numbers = gguf_find(g, "a.i32");
    assert_true(numbers->is_array && numbers->count == 4);
    assert_true(gguf_int_at(numbers, 2, &value) && value == 10);
    assert_false(gguf_int_at(numbers, 4, &value));
    assert_false(gguf_int_at(gguf_find(g, "v.u64"), 0, &value)); /* does not fit in int64 */
    assert_false(gguf_int_at(gguf_find(g, "v.f32"), 0, &value));
    assert_false(gguf_int_at(gguf_find(g, "v.true"), 0, &value));
    assert_false(gguf_int_at(gguf_find(g, "a.str"), 0, &value));
    assert_false(gguf_int_at(gguf_find(g, "a.none"), 0, &value));
}

static void strings_are_walked_in_order(void **state)
{
    (void)state;
    gguf_str_walk walk = {0};
    str s;
    const gguf_kv *words = gguf_find(g, "a.str");
    assert_true(gguf_next_str(words, &walk, &s) && str_is(s, "one"));
    assert_true(gguf_next_str(words, &walk, &s) && str_is(s, ""));
    assert_true(gguf_next_str(words, &walk, &s) && str_is(s, "three"));
    assert_false(gguf_next_str(words, &walk, &s));
    walk = (gguf_str_walk){0};
    assert_false(gguf_next_str(gguf_find(g, "a.i32"), &walk, &s));
}

static void tensors_have_shape_format_and_data(void **state)
{
    (void)state;
    const gguf_tensor *t = gguf_find_tensor(g, "vector");
    assert_int_equal(t->n_dims, 1);
    assert_int_equal(t->dims[0], 5);
    assert_int_equal(t->dims[1] * t->dims[2] * t->dims[3], 1);
    assert_ptr_equal(t->format, quant_get(QUANT_F32));
    assert_int_equal(t->bytes, 20);
    float value;
    memcpy(&value, t->data + 8, sizeof value);
    assert_true(value == 3.0f);
    t = gguf_find_tensor(g, "cube");
    assert_int_equal(t->bytes, 840);
    assert_int_equal(t->dims[3], 2);
    assert_int_equal(t->offset % 64, 0);
    t = gguf_find_tensor(g, "foreign");
    assert_null(t->format);
    assert_null(t->data);
    assert_int_equal(t->bytes, 0);
    assert_int_equal(t->gguf_type, 26);
}

static void version_2_and_no_alignment_key(void **state)
{
    (void)state;
    test_gguf b;
    gguf *other;
    mote_error err;
    const uint64_t dims[] = {3};
    test_gguf_begin(&b);
    b.bytes[4] = 2;
    test_gguf_tensor(&b, "t", 0, 1, dims, NULL, 12);
    test_gguf_tensor(&b, "u", 0, 1, dims, NULL, 12);
    test_gguf_finish(&b);
    assert_int_equal(gguf_read(&other, b.bytes, b.n, &err), MOTE_OK);
    assert_int_equal(gguf_alignment(other), 32);
    assert_int_equal(gguf_find_tensor(other, "u")->offset % 32, 0);
    gguf_free(other);
    test_gguf_free(&b);
}

static void empty_file_is_valid(void **state)
{
    (void)state;
    test_gguf b;
    gguf *other;
    mote_error err;
    test_gguf_begin(&b);
    assert_int_equal(gguf_read(&other, b.bytes, b.n, &err), MOTE_OK);
    assert_int_equal(gguf_n_kv(other) + gguf_n_tensors(other), 0);
    assert_null(gguf_find(other, "x"));
    gguf_free(other);
    test_gguf_free(&b);
}

/* Reserved address space without memory: the header at the start, a small tensor after 5 GB. */
static void tensors_may_be_beyond_4_gb(void **state)
{
    (void)state;
    const uint64_t values = 5ull << 28, large[] = {1 << 20, values >> 20}, small[] = {8};
    const uint64_t bytes = values * 4 + 4096;
    unsigned char *file = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(file, MAP_FAILED);
    test_gguf b;
    test_gguf_begin(&b);
    test_gguf_tensor(&b, "large", 0, 2, large, NULL, values * 4);
    test_gguf_tensor(&b, "small", 0, 1, small, NULL, 32);
    b.n_tensors = 2;
    memcpy(b.bytes + 8, &b.n_tensors, 8);
    memcpy(file, b.bytes, b.n);
    gguf *big;
    mote_error err;
    assert_int_equal(gguf_read(&big, file, bytes, &err), MOTE_OK);
    const gguf_tensor *t = gguf_find_tensor(big, "small");
    assert_true(t->offset > 5ull << 30);
    assert_int_equal(gguf_find_tensor(big, "large")->bytes, values * 4);
    file[t->offset + 31] = 9;
    assert_int_equal(t->data[31], 9);
    assert_null(test_gguf_fault(big, file, bytes));
    const uint64_t needed = t->offset + t->bytes;
    gguf_free(big);
    assert_int_equal(gguf_read(&big, file, needed - 1, &err), MOTE_E_FORMAT);
    assert_int_equal(gguf_read(&big, file, needed, &err), MOTE_OK);
    gguf_free(big);
    munmap(file, bytes);
    test_gguf_free(&b);
}

static void failed_allocations_leak_nothing(void **state)
{
    (void)state;
    const mem_stats before = mem_count();
    uint64_t n = 1;
    for (;; n++) {
        gguf *other;
        mote_error err;
        mem_fail_at(n);
        const mote_status status = gguf_read(&other, sample.bytes, sample.n, &err);
        if (!mem_failed()) {
            assert_int_equal(status, MOTE_OK);
            gguf_free(other);
            break;
        }
        assert_int_equal(status, MOTE_E_MEMORY);
        assert_null(other);
        assert_int_equal(mem_count().bytes, before.bytes);
    }
    mem_fail_at(0);
    assert_int_equal(n, 6); /* the gguf, two tables, two maps, then no failure */
}

static void test_models_are_valid(void **state)
{
    (void)state;
    static const char *const names[] = {"mote-tiny-BF16.gguf", "mote-tiny-Q8_0.gguf",
                                        "mote-tiny-Q4_K_M.gguf", "qwen35-vocab.gguf",
                                        "shapes/r2-gqa4-kv2-tied-mtp.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[TEST_PATH];
        os_map map;
        gguf *model;
        mote_error err;
        str s;
        assert_true(test_data_path(path, names[i]));
        assert_int_equal(os_map_open(&map, path, &err), MOTE_OK);
        assert_int_equal(gguf_read(&model, map.data, map.bytes, &err), MOTE_OK);
        assert_int_equal(gguf_get_str(model, "general.architecture", &s, NULL, &err), MOTE_OK);
        assert_true(str_is(s, "qwen35"));
        const char *fault = test_gguf_fault(model, map.data, map.bytes);
        if (fault != NULL)
            fail_msg("%s: %s", names[i], fault);
        gguf_free(model);
        os_map_close(&map);
    }
}

static void blocks_of_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t block;
    } cases[] = {
        {"blk.0.x", 0},
        {"blk.12.ffn_up.weight", 12},
        {"blk.99999999.x", 99999999},
        {"blk.", -1},
        {"blk..x", -1},
        {"blk.-1.x", -1},
        {"blk. 1.x", -1},
        {"blk.1", -1},
        {"blk.100000000.x", -1},
        {"v.blk.1.x", -1},
        {"blk.1x.y", -1},
        {"output.weight", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(gguf_block_of(str_of(cases[i].name)), cases[i].block);
    assert_int_equal(gguf_block_of((str){"blk.1.", 5}), -1); /* not beyond the end */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_tensors),
        cmocka_unit_test(all_entries_are_found),
        cmocka_unit_test(integers_of_any_type_are_accepted_if_they_fit),
        cmocka_unit_test(floats_bools_and_strings),
        cmocka_unit_test(absent_key_is_an_error_only_if_required),
        cmocka_unit_test(integers_of_any_width),
        cmocka_unit_test(strings_are_walked_in_order),
        cmocka_unit_test(tensors_have_shape_format_and_data),
        cmocka_unit_test(version_2_and_no_alignment_key),
        cmocka_unit_test(empty_file_is_valid),
        cmocka_unit_test(tensors_may_be_beyond_4_gb),
        cmocka_unit_test(failed_allocations_leak_nothing),
        cmocka_unit_test(test_models_are_valid),
    };
    return cmocka_run_group_tests(tests, read_sample, free_sample);
}
