/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_lora.c - adapter files: which are refused, with the error texts; scales of PEFT, limits of
 * sessions. The golden test and the laws compare the numbers of real adapters.
 */
#include "law/lora_build.h"
#include "law/rig.h"

#include "engine/engine_int.h"
#include "quant/half.h"
#include "support/data.h"
#include "support/gguf_build.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { RANK = 4, N = 40, EMBD = 256, FF = 768 };

static mote_model *model;
static mote_token tokens[N];
static float a[RANK * EMBD], b[FF * RANK];

/* ---- files ---- */

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
        rig_fail("cannot write %s", path);
}

/* A GGUF adapter of ffn_gate in layer 0. */
typedef struct gguf_fault {
    const char *type, *adapter, *architecture, *tensor;
    uint32_t rank_b;
    uint64_t cols;
    bool no_b, no_alpha;
    float alpha;
} gguf_fault;

static const gguf_fault sound = {"adapter", "lora", "qwen35", "blk.0.ffn_gate.weight", RANK, EMBD,
                                 false,     false,  8};

static mote_status open_gguf(mote_lora **out, const gguf_fault *f, mote_error *err)
{
    char path[256], name[128];
    static test_gguf file;
    rig_temp_path(path, sizeof path, "one.gguf");
    test_gguf_begin(&file);
    test_gguf_str(&file, "general.architecture", f->architecture);
    test_gguf_str(&file, "general.type", f->type);
    test_gguf_str(&file, "adapter.type", f->adapter);
    if (!f->no_alpha)
        test_gguf_f32(&file, "adapter.lora.alpha", f->alpha);
    const uint64_t down[2] = {f->cols, RANK}, up[2] = {f->rank_b, FF};
    snprintf(name, sizeof name, "%s.lora_a", f->tensor);
    test_gguf_tensor(&file, name, 0, 2, down, f->cols == EMBD ? a : NULL, f->cols * RANK * 4);
    snprintf(name, sizeof name, "%s.lora_b", f->tensor);
    if (!f->no_b)
        test_gguf_tensor(&file, name, 0, 2, up, f->rank_b == RANK ? b : NULL,
                         (uint64_t)f->rank_b * FF * 4);
    test_gguf_finish(&file);
    write_file(path, file.bytes, file.n);
    test_gguf_free(&file);
    return mote_lora_open(out, model, path, err);
}

/* A directory of PEFT with two tensors, shaped like A and B of one module. */
static mote_status open_peft_as(mote_lora **out, const char *config, const char *name_a,
                                const char *name_b, mote_error *err)
{
    char directory[256], path[300], header[600];
    rig_temp_path(directory, sizeof directory, "peft");
    mkdir(directory, 0700);
    snprintf(path, sizeof path, "%s/adapter_config.json", directory);
    write_file(path, config, strlen(config));
    const int n =
        snprintf(header, sizeof header,
                 "{\"base_model.model.%s.weight\":{\"dtype\":\"F32\",\"shape\":[%d,%d],"
                 "\"data_offsets\":[0,%zu]},\"base_model.model.%s.weight\":{\"dtype\":"
                 "\"F32\",\"shape\":[%d,%d],\"data_offsets\":[%zu,%zu]}}",
                 name_a, RANK, EMBD, sizeof a, name_b, FF, RANK, sizeof a, sizeof a + sizeof b);
    const uint64_t length = (uint64_t)n;
    unsigned char *bytes = malloc(8 + (size_t)n + sizeof a + sizeof b);
    assert_non_null(bytes);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, (size_t)n);
    memcpy(bytes + 8 + n, a, sizeof a);
    memcpy(bytes + 8 + n + sizeof a, b, sizeof b);
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", directory);
    write_file(path, bytes, 8 + (size_t)n + sizeof a + sizeof b);
    free(bytes);
    return mote_lora_open(out, model, directory, err);
}

static mote_status open_peft(mote_lora **out, const char *config, const char *module,
                             mote_error *err)
{
    char name_a[128], name_b[128];
    snprintf(name_a, sizeof name_a, "%s.lora_A", module);
    snprintf(name_b, sizeof name_b, "%s.lora_B", module);
    return open_peft_as(out, config, name_a, name_b, err);
}

/* ---- refusals ---- */

static void expect_refused(mote_status got, const mote_lora *opened, const mote_error *err,
                           mote_status want, const char *words)
{
    if (got != want || opened != NULL || strstr(err->text, words) == NULL)
        rig_fail("expected %s and '%s', got %s: %s", mote_status_name(want), words,
                 mote_status_name(got), err->text);
}

static void gguf_faults_are_named(void **state)
{
    (void)state;
    const struct {
        gguf_fault fault;
        mote_status status;
        const char *words;
    } cases[] = {
        {{"model", "lora", "qwen35", sound.tensor, RANK, EMBD, false, false, 8},
         MOTE_E_UNSUPPORTED,
         "general.type is 'model'"},
        {{"adapter", "control", "qwen35", sound.tensor, RANK, EMBD, false, false, 8},
         MOTE_E_UNSUPPORTED,
         "adapter.type is 'control'"},
        {{"adapter", "lora", "llama", sound.tensor, RANK, EMBD, false, false, 8},
         MOTE_E_MISMATCH,
         "'llama'"},
        {{"adapter", "lora", "qwen35moe", sound.tensor, RANK, EMBD, false, false, 8},
         MOTE_E_MISMATCH,
         "'qwen35moe'; the model has qwen35"},
        {{"adapter", "lora", "qwen35", "blk.99.ffn_gate.weight", RANK, EMBD, false, false, 8},
         MOTE_E_UNSUPPORTED,
         "blk.99.ffn_gate"},
        {{"adapter", "lora", "qwen35", "token_embd.weight", RANK, EMBD, false, false, 8},
         MOTE_E_UNSUPPORTED,
         "token embedding"},
        {{"adapter", "lora", "qwen35", "blk.0.attn_q.weight", RANK, EMBD, false, false, 8},
         MOTE_E_MISMATCH,
         "no matrix attn_q in block 0"},
        {{"adapter", "lora", "qwen35", sound.tensor, RANK + 1, EMBD, false, false, 8},
         MOTE_E_FORMAT,
         "ranks 4 (A) and 5 (B)"},
        {{"adapter", "lora", "qwen35", sound.tensor, RANK, EMBD / 2, false, false, 8},
         MOTE_E_MISMATCH,
         "768 x 128"},
        {{"adapter", "lora", "qwen35", sound.tensor, RANK, EMBD, true, false, 8},
         MOTE_E_FORMAT,
         "no B matrix"},
        {{"adapter", "lora", "qwen35", sound.tensor, RANK, EMBD, false, true, 8},
         MOTE_E_FORMAT,
         "adapter.lora.alpha"},
        {{"adapter", "lora", "qwen35", sound.tensor, RANK, EMBD, false, false, INFINITY},
         MOTE_E_FORMAT,
         "alpha of inf"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mote_lora *opened;
        mote_error err = {0};
        const mote_status got = open_gguf(&opened, &cases[i].fault, &err);
        expect_refused(got, opened, &err, cases[i].status, cases[i].words);
    }
}

static void values_must_be_finite(void **state)
{
    static const float wrong[] = {NAN, INFINITY, -INFINITY};
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        float *at = i % 2 == 0 ? &a[RANK * EMBD - 1] : &b[FF * RANK - 1];
        const float was = *at;
        mote_lora *opened;
        mote_error err = {0};
        *at = wrong[i / 2];
        const mote_status got = open_gguf(&opened, &sound, &err);
        *at = was;
        expect_refused(got, opened, &err, MOTE_E_FORMAT, i / 2 == 0 ? "value nan" : "inf");
    }
}

#define MODULE "model.language_model.layers.0.mlp.gate_proj"

static void peft_faults_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *config, *module;
        mote_status status;
        const char *words;
    } cases[] = {
        {"{", MODULE, MOTE_E_FORMAT, "adapter_config.json"},
        {"{\"peft_type\":\"IA3\"}", MODULE, MOTE_E_UNSUPPORTED, "'IA3'"},
        {"{\"peft_type\":\"LORA\"}", MODULE, MOTE_E_FORMAT, "lora_alpha"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":8,\"use_dora\":true}", MODULE, MOTE_E_UNSUPPORTED,
         "use_dora"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":8,\"modules_to_save\":[\"lm_head\"]}", MODULE,
         MOTE_E_UNSUPPORTED, "modules_to_save"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":8,\"bias\":\"all\"}", MODULE, MOTE_E_UNSUPPORTED,
         "bias 'all'"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":8,\"init_lora_weights\":\"pissa_niter_16\"}",
         MODULE, MOTE_E_UNSUPPORTED, "'pissa_niter_16'"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":8,\"alpha_pattern\":{\".*gate\":4}}", MODULE,
         MOTE_E_UNSUPPORTED, "alpha_pattern"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":8}", "model.visual.blocks.0.attn.qkv",
         MOTE_E_UNSUPPORTED, "vision encoder"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":8}", "model.layers.0.mlp.experts",
         MOTE_E_UNSUPPORTED, "experts"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":8}", "model.layers.9.mlp.gate_proj",
         MOTE_E_UNSUPPORTED, "layers.9"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":8}", "model.layers.3.linear_attn.in_proj_z",
         MOTE_E_MISMATCH, "no matrix attn_gate in block 3"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":8}", "model.layers.0.mlp.down_proj",
         MOTE_E_MISMATCH, "768 x 256"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mote_lora *opened;
        mote_error err = {0};
        const mote_status got = open_peft(&opened, cases[i].config, cases[i].module, &err);
        expect_refused(got, opened, &err, cases[i].status, cases[i].words);
    }
}

/* Two names of the same module: which one would count? */
static void peft_tensors_are_there_once(void **state)
{
    mote_lora *opened;
    mote_error err = {0};
    (void)state;
    const mote_status got =
        open_peft_as(&opened, "{\"peft_type\":\"LORA\",\"lora_alpha\":8}",
                     "model.layers.0.mlp.gate_proj.lora_A", MODULE ".lora_A", &err);
    expect_refused(got, opened, &err, MOTE_E_FORMAT, "is there twice");
}

static void missing_files_are_named(void **state)
{
    mote_lora *opened;
    mote_error err = {0};
    (void)state;
    mote_status got = mote_lora_open(&opened, model, "/nowhere/adapter.gguf", &err);
    expect_refused(got, opened, &err, MOTE_E_IO, "/nowhere/adapter.gguf");
    got = mote_lora_open(&opened, model, rig_temp_dir(), &err);
    expect_refused(got, opened, &err, MOTE_E_IO, "adapter_config.json");
    got = mote_lora_open(&opened, NULL, "x", &err);
    expect_refused(got, opened, &err, MOTE_E_ARG, "model");
}

/* ---- scales ---- */

static float *logits_with(const mote_lora *opened, float scale)
{
    mote_engine *engine = rig_engine(model, &(mote_engine_options){.threads = 1, .lora_rank = 8});
    const mote_lora_use use = {opened, scale};
    mote_session *s;
    mote_error err = {0};
    mote_model_info info;
    mote_model_describe(model, &info);
    MUST(mote_session_new(&s, engine, &(mote_session_options){.loras = &use, .n_loras = 1}, &err),
         &err);
    rig_feed(engine, s, tokens, N, MOTE_LOGITS_LAST);
    float *row = malloc(info.vocabulary * sizeof *row);
    assert_non_null(row);
    memcpy(row, mote_session_logits(s, 0), info.vocabulary * sizeof *row);
    mote_session_free(s);
    mote_engine_free(engine);
    return row;
}

/* Both adapters, with their scales, give the same bits (or not). */
static void expect_same(mote_lora *x, float scale_x, mote_lora *y, float scale_y, bool same)
{
    mote_model_info info;
    mote_model_describe(model, &info);
    float *one = logits_with(x, scale_x), *other = logits_with(y, scale_y);
    assert_int_equal(memcmp(one, other, info.vocabulary * sizeof *one) == 0, same);
    free(one);
    free(other);
}

static void scales_follow_the_configuration(void **state)
{
    mote_lora *direct, *plain, *root, *pattern, *zero;
    mote_error err = {0};
    (void)state;
    MUST(open_gguf(&direct, &sound, &err), &err); /* s = 8 / 4 */
    gguf_fault unscaled = sound;
    unscaled.alpha = 0; /* s = 1 */
    MUST(open_gguf(&zero, &unscaled, &err), &err);
    MUST(open_peft(&plain, "{\"peft_type\":\"LORA\",\"lora_alpha\":8,\"r\":4}", MODULE, &err),
         &err);
    MUST(open_peft(&root, "{\"peft_type\":\"LORA\",\"lora_alpha\":8,\"use_rslora\":true}", MODULE,
                   &err),
         &err); /* s = 8 / 2 */
    MUST(
        open_peft(&pattern,
                  "{\"peft_type\":\"LORA\",\"lora_alpha\":8,\"bias\":\"none\",\"use_dora\":false,"
                  "\"init_lora_weights\":\"gaussian\","
                  "\"modules_to_save\":null,\"alpha_pattern\":{\"up_proj\":1,\"mlp.gate_proj\":2}}",
                  "model.layers.0.mlp.gate_proj", &err),
        &err); /* s = 2 / 4 */
    expect_same(direct, 1, plain, 0, true);
    expect_same(direct, 2, root, 1, true);
    expect_same(direct, 0.25f, pattern, 1, true);
    expect_same(direct, 0.5f, zero, 1, true);
    expect_same(direct, 1, root, 1, false);
    mote_lora_info info;
    mote_lora_describe(plain, &info);
    assert_string_equal(info.name, "peft");
    assert_int_equal(info.rank, RANK);
    assert_int_equal(info.matrices, 1);
    assert_int_equal(info.parameters, RANK * (EMBD + FF));
    mote_lora_close(direct);
    mote_lora_close(plain);
    mote_lora_close(root);
    mote_lora_close(pattern);
    mote_lora_close(zero);
    mote_lora_close(NULL);
}

/* B as halves gives the bits of B as floats. The last rank has no effect, because its row of A is
 * 0; only its values in B decide how B is stored. */
static void halves_are_the_same_numbers(void **state)
{
    static float saved_a[RANK * EMBD], saved_b[FF * RANK];
    mote_lora *halves, *floats;
    mote_lora_info short_info, long_info;
    mote_error err = {0};
    (void)state;
    memcpy(saved_a, a, sizeof a);
    memcpy(saved_b, b, sizeof b);
    memset(a + (RANK - 1) * EMBD, 0, EMBD * sizeof *a);
    for (size_t i = 0; i < FF * RANK; i++) /* bf16 values, too small for halves without a factor */
        b[i] = half_bf16_to_f32(half_f32_to_bf16(b[i] / 1024));
    MUST(open_gguf(&halves, &sound, &err), &err);
    b[RANK - 1] = 1.00001f;
    MUST(open_gguf(&floats, &sound, &err), &err);
    memcpy(a, saved_a, sizeof a);
    memcpy(b, saved_b, sizeof b);
    mote_lora_describe(halves, &short_info);
    mote_lora_describe(floats, &long_info);
    assert_true(short_info.bytes + FF * RANK * 2 == long_info.bytes);
    expect_same(halves, 100, floats, 100, true);
    expect_same(halves, 100, halves, 99, false);
    mote_lora_close(halves);
    mote_lora_close(floats);
}

/* ---- merging ---- */

static void merge_adds_the_product(void **state)
{
    mote_lora *opened;
    mote_error err = {0};
    static float rows[2][EMBD];
    (void)state;
    MUST(open_gguf(&opened, &sound, &err), &err);
    assert_false(mote_lora_merge(opened, 1, "blk.0.ffn_up.weight", 0, 0, NULL));
    assert_false(mote_lora_merge(opened, 1, "blk.0.ffn_gate", 0, 0, NULL));
    assert_true(mote_lora_merge(opened, 1, "blk.0.ffn_gate.weight", 0, 0, NULL));
    assert_true(mote_lora_merge(opened, 0.5f, "blk.0.ffn_gate.weight", 700, 2, rows[0]));
    for (size_t i = 0; i < 2; i++)
        for (size_t c = 0; c < EMBD; c++) {
            double want = 0; /* s = 0.5 * 8 / 4 */
            for (size_t j = 0; j < RANK; j++)
                want += (double)b[(700 + i) * RANK + j] * (double)a[j * EMBD + c];
            assert_true((double)rows[i][c] - want < 1e-6 && want - (double)rows[i][c] < 1e-6);
        }
    mote_lora_close(opened);
}

/* ---- sessions ---- */

static void sessions_check_their_adapters(void **state)
{
    mote_lora *opened, *foreign;
    mote_error err = {0};
    mote_session *s;
    (void)state;
    MUST(open_gguf(&opened, &sound, &err), &err);
    char path[TEST_PATH];
    test_data_path(path, "mote-tiny-Q8_0.gguf");
    mote_model *other = rig_open(path, MOTE_ISA_BEST);
    rig_temp_path(path, sizeof path, "one.gguf");
    MUST(mote_lora_open(&foreign, other, path, &err), &err);
    mote_engine *without = rig_engine(model, NULL);
    mote_engine *narrow = rig_engine(model, &(mote_engine_options){.lora_rank = 7});
    const mote_lora_use uses[9] = {{opened, 1},           {opened, 1}, {opened, 1},
                                   {opened, 1},           {opened, 1}, {opened, 1},
                                   {opened, (float)-1e9}, {opened, 1}, {opened, 1}};
    const mote_lora_use wrong = {foreign, 1}, none = {NULL, 1}, bad = {opened, INFINITY};
    const struct {
        mote_engine *engine;
        mote_session_options options;
        const char *words;
    } cases[] = {
        {without, {.loras = uses, .n_loras = 1}, "lora_rank"},
        {narrow, {.loras = uses, .n_loras = 2}, "room for 7"},
        {narrow, {.loras = uses, .n_loras = 9}, "at most 8"},
        {narrow, {.loras = NULL, .n_loras = 1}, "at most 8"},
        {narrow, {.loras = &wrong, .n_loras = 1}, "another mote_model"},
        {narrow, {.loras = &none, .n_loras = 1}, "is NULL"},
        {narrow, {.loras = &bad, .n_loras = 1}, "scale of inf"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(mote_session_new(&s, cases[i].engine, &cases[i].options, &err),
                         MOTE_E_ARG);
        assert_null(s);
        assert_non_null(strstr(err.text, cases[i].words));
    }
    MUST(mote_session_new(&s, narrow, &(mote_session_options){.loras = uses, .n_loras = 1}, &err),
         &err);
    size_t n;
    const mote_lora_use *held = mote_session_loras(s, &n);
    assert_int_equal(n, 1);
    assert_ptr_equal(held[0].lora, opened);
    mote_session_free(s);
    mote_engine *refused;
    assert_int_equal(mote_engine_new(&refused, model,
                                     &(mote_engine_options){.lora_rank = MOTE_MAX_LORA_RANK + 1},
                                     &err),
                     MOTE_E_ARG);
    mote_engine_free(without);
    mote_engine_free(narrow);
    mote_lora_close(opened);
    mote_lora_close(foreign);
    mote_model_close(other);
}

/* Room for adapters is in the plan, and only if the options reserve it. */
static void memory_is_planned(void **state)
{
    mote_memory with, without;
    mote_error err = {0};
    (void)state;
    MUST(mote_engine_plan(model, &(mote_engine_options){.threads = 1, .batch = 64}, &without, &err),
         &err);
    MUST(mote_engine_plan(model, &(mote_engine_options){.threads = 1, .batch = 64, .lora_rank = 16},
                          &with, &err),
         &err);
    assert_true(with.scratch >= without.scratch + 4 * 64 * 16 * sizeof(float));
    assert_true(with.scratch < without.scratch + 4 * 64 * 16 * sizeof(float) + 4096);
}

static int setup(void **state)
{
    char path[TEST_PATH];
    rig_random r = {.seed = 9};
    (void)state;
    test_data_path(path, "mote-tiny-Q4_K_M.gguf");
    model = rig_open(path, MOTE_ISA_BEST);
    rig_random_tokens(&r, 7000, tokens, N);
    for (size_t i = 0; i < sizeof a / sizeof *a; i++)
        a[i] = (float)rig_below(&r, 2001) / 16000 - 0.0625f;
    for (size_t i = 0; i < sizeof b / sizeof *b; i++)
        b[i] = (float)rig_below(&r, 2001) / 1000 - 1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mote_model_close(model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_faults_are_named),
        cmocka_unit_test(values_must_be_finite),
        cmocka_unit_test(peft_faults_are_named),
        cmocka_unit_test(peft_tensors_are_there_once),
        cmocka_unit_test(missing_files_are_named),
        cmocka_unit_test(scales_follow_the_configuration),
        cmocka_unit_test(halves_are_the_same_numbers),
        cmocka_unit_test(merge_adds_the_product),
        cmocka_unit_test(sessions_check_their_adapters),
        cmocka_unit_test(memory_is_planned),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
