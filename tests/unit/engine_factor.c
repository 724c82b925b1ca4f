/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_factor.c - factors of matrices (tensors X.scale), as files from NVFP4 checkpoints have them.
 *
 * Every matrix of a model is divided by a power of two, and its factor multiplies by it again. This is
 * exact, so the logits and drafts have the same bits as without. Each expert has a factor of its own.
 * A factor of the tied output matrix doubles the logits. Factors that make no sense are refused.
 */
#include "law/rig.h"

#include "base/os_map.h"
#include "gguf/gguf_writer.h"
#include "support/data.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 40 };

static char source[TEST_PATH];
static mote_token tokens[N];

/* ---- a file with factors ---- */

/* What is added to the file besides the factors of its matrices. */
typedef struct extra {
    const char *name;
    quant_format format;
    uint64_t values;
    float value;
} extra;

static bool has_factor(const gguf_tensor *t)
{
    const char *end = ".weight";
    const size_t n = strlen(end);
    return t->dims[1] > 1 && t->name.n > n && memcmp(t->name.p + t->name.n - n, end, n) == 0 &&
           t->format->format == QUANT_BF16 && memcmp(t->name.p, "blk.", 4) == 0;
}

/* Factors differ, so that one matrix cannot have that of another: 1/4 to 8. */
static int factor_bits(uint64_t i)
{
    return (int)(i % 6) - 2;
}

static void put(gguf_writer *w, const void *bytes, size_t n)
{
    mote_error err = {0};
    MUST(gguf_writer_data(w, bytes, n, &err), &err);
}

/* A bf16 value times 2^-bits. */
static uint16_t divided(uint16_t v, int bits)
{
    const int exponent = v >> 7 & 255;
    assert_true(exponent == 0 ? (v & 127) == 0 : exponent > bits + 1);
    return exponent == 0 ? v : (uint16_t)(v - bits * 128);
}

/* Tensor i, each expert divided by its factor. */
static void put_divided(gguf_writer *w, const gguf_tensor *t, uint64_t i)
{
    const size_t each = (size_t)(t->dims[0] * t->dims[1]);
    uint16_t *v = malloc((size_t)t->bytes);
    assert_non_null(v);
    memcpy(v, t->data, (size_t)t->bytes);
    for (size_t j = 0; j < t->bytes / 2; j++)
        v[j] = divided(v[j], factor_bits(i + j / each));
    put(w, v, (size_t)t->bytes);
    free(v);
    for (uint64_t e = 0; e < t->dims[2]; e++) {
        const int bits = factor_bits(i + e);
        const float factor = bits < 0 ? 1.0f / (float)(1 << -bits) : (float)(1 << bits);
        put(w, &factor, sizeof factor);
    }
}

/* The name is X.scale, or for some X.weight.scale. */
static void declare_factor(gguf_writer *w, const gguf_tensor *t, uint64_t i)
{
    char name[GGUF_MAX_KEY + 16];
    mote_error err = {0};
    const int n = (int)t->name.n - (i % 4 != 0 ? (int)strlen(".weight") : 0);
    snprintf(name, sizeof name, "%.*s.scale", n, t->name.p);
    MUST(gguf_writer_tensor(w, str_of(name), QUANT_F32, 1, &t->dims[2], &err), &err);
}

static void declare(gguf_writer *w, const gguf *g, const extra *more)
{
    mote_error err = {0};
    for (uint64_t i = 0; i < gguf_n_kv(g); i++)
        gguf_writer_copy(w, gguf_kv_at(g, i));
    for (uint64_t i = 0; i < gguf_n_tensors(g); i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        MUST(gguf_writer_tensor(w, t->name, t->format->format, t->n_dims, t->dims, &err), &err);
        if (has_factor(t))
            declare_factor(w, t, i);
    }
    if (more != NULL)
        MUST(gguf_writer_tensor(w, str_of(more->name), more->format, 1, &more->values, &err), &err);
}

static void write_file(char path[128], const extra *more)
{
    os_map map;
    gguf *g;
    gguf_writer *w;
    uint32_t done;
    mote_error err = {0};
    rig_temp_path(path, 128, "factors.gguf");
    remove(path);
    MUST(os_map_open(&map, source, &err), &err);
    MUST(gguf_read(&g, map.data, map.bytes, &err), &err);
    MUST(gguf_writer_new(&w, &err), &err);
    declare(w, g, more);
    MUST(gguf_writer_begin(w, path, str_of("s"), &done, &err), &err);
    for (uint64_t i = 0; i < gguf_n_tensors(g); i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        if (has_factor(t))
            put_divided(w, t, i);
        else
            put(w, t->data, (size_t)t->bytes);
    }
    for (uint64_t i = 0; more != NULL && i < more->values; i++)
        put(w, &more->value, more->format == QUANT_F32 ? 4 : 2);
    MUST(gguf_writer_commit(w, &err), &err);
    gguf_writer_free(w);
    gguf_free(g);
    os_map_close(&map);
}

/* ---- the same bits ---- */

/* Two rows: logits of the last token, and of the first draft after it. Returns the vocabulary. */
static size_t compute(const char *path, float **logits)
{
    const mote_engine_options options = {.threads = 2, .positions = 256, .drafts = true};
    mote_model_info info;
    mote_error err = {0};
    mote_model *model = rig_open(path, MOTE_ISA_BEST);
    mote_engine *engine = rig_engine(model, &options);
    mote_session *session = rig_session(engine);
    mote_model_describe(model, &info);
    rig_feed(engine, session, tokens, N, MOTE_LOGITS_LAST);
    *logits = malloc(2 * info.vocabulary * sizeof **logits);
    assert_non_null(*logits);
    memcpy(*logits, mote_session_logits(session, 0), info.vocabulary * sizeof **logits);
    mote_draft_item item = {
        .session = session, .next = tokens[0], .n = 1, .logits = *logits + info.vocabulary};
    MUST(mote_draft(engine, &item, 1, &err), &err);
    mote_session_free(session);
    mote_engine_free(engine);
    mote_model_close(model);
    return info.vocabulary;
}

static void same_bits_experts(void **state)
{
    (void)state;
    char path[128], dense[TEST_PATH];
    float *want, *got;
    memcpy(dense, source, sizeof dense);
    assert_true(test_data_path(source, "golden/moe/moe-bf16.gguf"));
    const size_t n = compute(source, &want);
    write_file(path, NULL);
    assert_int_equal(compute(path, &got), n);
    assert_memory_equal(got, want, 2 * n * sizeof *got);
    free(got);
    free(want);
    memcpy(source, dense, sizeof dense);
}

static void same_bits(void **state)
{
    (void)state;
    char path[128];
    float *want, *got;
    const size_t n = compute(source, &want);
    write_file(path, NULL);
    assert_int_equal(compute(path, &got), n);
    assert_memory_equal(got, want, 2 * n * sizeof *got);
    free(got);
    const extra output = {"output.scale", QUANT_F32, 1, 2.0f};
    write_file(path, &output);
    compute(path, &got);
    for (size_t i = 0; i < 2 * n; i++)
        assert_true(got[i] == 2 * want[i]);
    free(got);
    free(want);
}

/* ---- refused ---- */

static void refused(void **state)
{
    (void)state;
    static const struct {
        extra more;
        mote_status status;
        const char *word;
    } cases[] = {
        {{"token_embd.scale", QUANT_F32, 1, 2}, MOTE_E_UNSUPPORTED, "token_embd.scale"},
        {{"output.scale", QUANT_F32, 2, 2}, MOTE_E_UNSUPPORTED, "must be one F32 value"},
        {{"output.scale", QUANT_F16, 1, 2}, MOTE_E_UNSUPPORTED, "must be one F32 value"},
        {{"output.scale", QUANT_F32, 1, 0}, MOTE_E_FORMAT, "must be positive and finite, got 0"},
        {{"output.scale", QUANT_F32, 1, -1}, MOTE_E_FORMAT, "must be positive and finite, got -1"},
        {{"output.scale", QUANT_F32, 1, INFINITY},
         MOTE_E_FORMAT,
         "must be positive and finite, got inf"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[128];
        mote_model *model;
        mote_error err = {0};
        write_file(path, &cases[i].more);
        assert_int_equal(mote_model_open(&model, path, NULL, &err), cases[i].status);
        if (strstr(err.text, cases[i].word) == NULL)
            fail_msg("'%s' does not contain '%s'", err.text, cases[i].word);
    }
}

int main(void)
{
    if (!test_data_path(source, "mote-tiny-BF16.gguf"))
        return TEST_SKIPPED;
    rig_random r = {.seed = 11};
    rig_random_tokens(&r, 479, tokens, N); /* the vocabulary of the model with experts */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(same_bits_experts),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
