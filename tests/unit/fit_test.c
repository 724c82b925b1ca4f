/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fit_test.c - src/fit: the choice of a model, the stored measurement, and the measurement itself.
 * tests/cli/fit_test.py compares memory and speed with those of real files.
 */
#include "base/os.h"
#include "fit/fit.h"
#include "fit/shape_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the choice ---- */

/* On this machine kernels run at the bandwidth, so decode speed is bandwidth / bytes. */
static machine_speed machine_with(double bytes_per_second)
{
    machine_speed speed = {.threads = 2,
                           .streams = 1,
                           .read = bytes_per_second,
                           .decode_rest = 1e-6,
                           .decode_position = 1e-9,
                           .prefill_delta = 1e-6,
                           .prefill_attention = 1e-6,
                           .prefill_ffn = 1e-10,
                           .slowdown = 1};
    for (int f = 0; f < QUANT_N_FORMATS; f++)
        speed.formats[f] =
            (format_speed){.decode = bytes_per_second, .prefill = 100 * bytes_per_second};
    return speed;
}

static store *open_empty_store(void)
{
    store *s;
    mote_error err;
    const store_env env = {.home = "/nonexistent"};
    assert_int_equal(store_open(&s, &env, &err), MOTE_OK);
    return s;
}

/* The name that is recommended on a machine. */
static void expect_choice(store *s, double gigabytes, double gigabytes_per_second,
                          const char *expected)
{
    static const char *const sizes[] = {"qwen3.5:0.8b", "qwen3.5:2b", "qwen3.5:4b"};
    const fit_request q = {.budget = (uint64_t)(gigabytes * 1e9), .sessions = 1};
    const machine_speed speed = machine_with(gigabytes_per_second * 1e9);
    fit_table t = {0};
    mote_error err;
    for (size_t i = 0; i < 3; i++) {
        const known_model *known = known_models_find(store_known(s), str_of(sizes[i]));
        assert_non_null(known);
        assert_int_equal(fit_add_known(&t, s, known, NULL, &q, &err), MOTE_OK);
    }
    assert_int_equal(t.n, 18);
    fit_table_judge(&t, &speed, &q);
    const fit_row *row = fit_choose(&t, false);
    if (expected == NULL) {
        assert_null(row);
    } else {
        assert_non_null(row);
        assert_string_equal(row->name, expected);
        assert_int_equal(row->verdict, FIT_RECOMMENDED);
        assert_string_equal(fit_verdict_name(row->verdict), "recommended");
    }
    assert_null(fit_choose(&t, true)); /* nothing is installed */
    fit_table_fini(&t);
}

static void test_choice(void **state)
{
    (void)state;
    store *s = open_empty_store();
    expect_choice(s, 64, 20, "qwen3.5:4b");       /* 7 tokens/s: the default quantisation */
    expect_choice(s, 64, 200, "qwen3.5:4b-q8_0"); /* 44 tokens/s: the largest up to 8 bits */
    expect_choice(s, 64, 10, "qwen3.5:2b");       /* 4B is too slow */
    expect_choice(s, 3, 200, "qwen3.5:2b-q6_k");  /* 4B needs more; 2B in 8 bits is tight */
    expect_choice(s, 64, 0.1, "qwen3.5:0.8b");    /* nothing is fast: the fastest size */
    expect_choice(s, 0.5, 200, NULL);
    store_close(s);
}

/* ---- the prediction ---- */

/* Every part of a model's work takes the time that its definition says. */
static void test_prediction(void **state)
{
    (void)state;
    machine_speed speed = {.threads = 2, .streams = 1, .read = 1e10};
    speed.formats[QUANT_Q4_K] = (format_speed){.decode = 1e10, .prefill = 1e12};
    speed.formats[QUANT_BF16] = (format_speed){.decode = 2e10, .row = 1e-8, .prefill = 1e12};
    model_work work = {.head = QUANT_Q4_K, .head_bytes = 0};
    work.bytes[QUANT_Q4_K] = 1000000000;    /* 0.1 s */
    work.products[QUANT_Q4_K] = 2000000000; /* 0.002 s per token */
    model_speed s = machine_speed_predict(&speed, &work, 8192, 0);
    assert_true(s.decode > 9.999 && s.decode < 10.001 && s.decode_full == s.decode);
    assert_true(s.prefill > 499.9 && s.prefill < 500.1);

    work.bytes[QUANT_BF16] = 1000000000; /* 0.05 s, and 0.05 s for the rows */
    work.rows[QUANT_BF16] = 5000000;
    s = machine_speed_predict(&speed, &work, 8192, 0);
    assert_true(s.decode > 4.999 && s.decode < 5.001);

    /* a context adds the read of its KV cache, 0.1 s, and attention, 0.1 s */
    work.attention_layers = 8;
    speed.decode_position = 0.1 / 8 / 8192;
    s = machine_speed_predict(&speed, &work, 8192, 1000000000);
    assert_true(s.decode > 4.999 && s.decode < 5.001);
    assert_true(s.decode_full > 2.499 && s.decode_full < 2.501);

    /* layers: 0.008 s per token of a prompt; 12 layers in groups of four add 0.3 s to a step */
    work = (model_work){.head = QUANT_Q4_K, .attention_layers = 4, .delta_layers = 8};
    work.bytes[QUANT_Q4_K] = 1000000000;
    work.feed_forward = 1000;
    speed.prefill_attention = 0.001, speed.prefill_delta = 0.0002, speed.prefill_ffn = 2.4e-6;
    speed.decode_rest = 0.1;
    s = machine_speed_predict(&speed, &work, 8192, 0);
    assert_true(s.prefill > 124.9 && s.prefill < 125.1);
    assert_true(s.decode > 2.499 && s.decode < 2.501);

    work.bytes[QUANT_Q5_K] = 1000000000; /* not measured */
    s = machine_speed_predict(&speed, &work, 8192, 0);
    assert_true(s.decode == 0 && s.prefill == 0 && s.decode_full == 0);
}

/* ---- the stored measurement ---- */

#define OTHER_VERSION                                                                              \
    "{\"version\":\"0.0.0\",\"cpu\":\"\",\"threads\":2,\"isa\":\"ref\",\"read\":1,"                \
    "\"decode_rest\":1,\"decode_position\":1,\"prefill_delta\":1,\"prefill_attention\":1,"         \
    "\"prefill_ffn\":1,\"slowdown\":1,\"formats\":{}}"

static void test_stored(void **state)
{
    (void)state;
    char directory[] = "/tmp/fit_test.XXXXXX", path[200];
    mote_error err;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/mote/machine-speed.json", directory);

    cores found;
    cores_find(&found);
    machine_speed speed = machine_with(1e10), read;
    cpu_name(speed.cpu);
    speed.threads = found.n;
    speed.isa = cpu_best_isa();
    speed.formats[QUANT_Q4_K].decode = 12345.678;
    speed.formats[QUANT_BF16].row = 1e-8;
    speed.formats[QUANT_Q5_K] = (format_speed){0};
    const speed_options q4 = {.formats = 1u << QUANT_Q4_K};
    assert_false(machine_speed_load(&read, path, &q4));
    assert_int_equal(machine_speed_save(&speed, path, &err), MOTE_OK);
    assert_true(machine_speed_load(&read, path, &q4));
    assert_memory_equal(read.formats, speed.formats, sizeof read.formats);
    assert_true(read.read == speed.read && read.decode_rest == speed.decode_rest);

    /* a format that was not measured, other threads, several streams, another level */
    assert_false(machine_speed_load(&read, path, &(speed_options){.formats = 1u << QUANT_Q5_K}));
    assert_false(machine_speed_load(&read, path, &(speed_options){.threads = found.n + 1}));
    assert_false(machine_speed_load(&read, path, &(speed_options){.streams = 2}));
    if (speed.isa != MOTE_ISA_REF)
        assert_false(machine_speed_load(&read, path, &(speed_options){.isa = MOTE_ISA_REF}));

    static const char *const damaged[] = {"",
                                          "{",
                                          "[]",
                                          "{}",
                                          "null",
                                          "{\"version\":\"0.1.0\",\"cpu\":\"\",\"threads\":-1}",
                                          (OTHER_VERSION)};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        assert_int_equal(os_file_replace(path, damaged[i], strlen(damaged[i]), &err), MOTE_OK);
        assert_false(machine_speed_load(&read, path, &(speed_options){0}));
    }
    unlink(path);
    snprintf(path, sizeof path, "%s/mote", directory);
    rmdir(path);
    rmdir(directory);

    assert_true(machine_speed_path(path, sizeof path, NULL, "relative", "/h/a"));
    assert_string_equal(path, "/h/a/.cache/mote/machine-speed.json");
    assert_true(machine_speed_path(path, sizeof path, NULL, "/cache", "/h/a"));
    assert_string_equal(path, "/cache/mote/machine-speed.json");
    assert_true(machine_speed_path(path, sizeof path, "/own", "/cache", NULL));
    assert_string_equal(path, "/own/machine-speed.json");
    assert_false(machine_speed_path(path, sizeof path, NULL, NULL, NULL));
}

/* ---- the measurement ---- */

static int stops_left;

static bool stop_after_some(void)
{
    return stops_left-- <= 0;
}

static void test_measurement(void **state)
{
    (void)state;
    machine_speed speed;
    mote_error err;
    speed_options options = {.formats = 1u << QUANT_Q8_0, .memory = 16 << 20, .threads = 1};
    assert_int_equal(machine_speed_measure(&speed, &options, &err), MOTE_OK);
    assert_true(speed.read > 0 && speed.decode_rest > 0 && speed.decode_position > 0);
    assert_true(speed.prefill_delta > 0 && speed.prefill_attention > 0 && speed.prefill_ffn > 0);
    assert_true(speed.slowdown >= 0.9); /* one thread cannot use more CPU time than time */
    assert_true(speed.formats[QUANT_Q8_0].decode > 0 && speed.formats[QUANT_Q8_0].prefill > 0);
    assert_true(speed.formats[QUANT_Q4_K].decode == 0);
    assert_int_equal(speed.threads, 1);

    options.stop = stop_after_some;
    for (int i = 0; i < 6; i++) {
        stops_left = i;
        assert_int_equal(machine_speed_measure(&speed, &options, &err), MOTE_E_CANCELED);
    }
}

/* Every mix is a file that mote opens, with every format that it should have. */
static void test_mixes(void **state)
{
    (void)state;
    static const char *const names[] = {"F16",    "bf16",   "Q8_0",  "Q6_K", "Q5_K_M",
                                        "Q5_K_S", "Q5_0",   "Q5_1",  "Q4_1", "Q4_0",
                                        "q4_k_m", "Q4_K_S", "Q3_K_S"};
    const model_shape shape = {.layers = 8,
                               .embedding = 256,
                               .feed_forward = 256,
                               .heads = 8,
                               .kv_heads = 2,
                               .value_heads = 16,
                               .vocabulary = 1024,
                               .context = 4096};
    assert_null(fit_mix_find("UD-Q4_K_XL"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const fit_mix *mix = fit_mix_find(names[i]);
        shape_file file;
        mote_model *model;
        mote_error err;
        model_work work;
        assert_non_null(mix);
        assert_int_equal(shape_file_create(&file, &shape, mix, SHAPE_FILLED, &err), MOTE_OK);
        assert_int_equal(mote_model_open(&model, file.path, NULL, &err), MOTE_OK);
        assert_int_equal(model_work_read(&work, file.path, &err), MOTE_OK);
        const uint32_t expected = 1u << mix->most | 1u << mix->head | 1u << mix->better;
        assert_int_equal(model_work_formats(&work), expected);
        assert_true(work.delta_layers == 6 && work.attention_layers == 2);
        assert_int_equal(work.feed_forward, 8 * shape.feed_forward);
        mote_model_close(model);
        shape_file_close(&file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice), cmocka_unit_test(test_prediction),
        cmocka_unit_test(test_stored), cmocka_unit_test(test_measurement),
        cmocka_unit_test(test_mixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
