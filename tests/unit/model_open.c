/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_open.c - valid GGUF files that are not a supported model.
 *
 * Each case changes one metadata value or one tensor name of a small model and opens it. It must be
 * rejected with a message that names the key or tensor, and leak nothing. The same for a model with
 * experts.
 */
#include "law/rig.h"

#include "base/mem.h"
#include "gguf/gguf.h"
#include "support/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char *original, *bytes;
static size_t n_bytes;

static void write_changed(char *path, size_t capacity)
{
    rig_temp_path(path, capacity, "changed.gguf");
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, n_bytes, out), n_bytes);
    assert_int_equal(fclose(out), 0);
}

/* Opens the file in `bytes`; the error text must contain `word`. */
static mote_status open_changed(const char *word)
{
    char path[128];
    write_changed(path, sizeof path);
    mem_stats before = mem_count();
    mote_error err = {0};
    mote_model *model;
    mote_status status = mote_model_open(&model, path, NULL, &err);
    if (status != MOTE_OK) {
        assert_null(model);
        assert_int_equal(err.status, status);
        if (strstr(err.text, word) == NULL)
            rig_fail("the message '%s' does not contain '%s'", err.text, word);
    }
    mote_model_close(model);
    assert_int_equal(mem_count().blocks, before.blocks);
    return status;
}

/* Where a value of the original lies in its bytes. */
static size_t place_of(const char *key)
{
    gguf *g;
    mote_error err = {0};
    MUST(gguf_read(&g, original, n_bytes, &err), &err);
    const gguf_kv *kv = gguf_find(g, key);
    assert_non_null(kv);
    size_t at = (size_t)(kv->bytes - original);
    gguf_free(g);
    return at;
}

typedef struct changed_number {
    const char *key;
    uint32_t value;
    mote_status status;
    const char *word;
} changed_number;

static void change_numbers(const char *arch, const changed_number *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s.%s", arch, cases[i].key);
        memcpy(bytes, original, n_bytes);
        memcpy(bytes + place_of(key), &cases[i].value, sizeof cases[i].value);
        mote_status status = open_changed(cases[i].word);
        if (status != cases[i].status)
            rig_fail("%s = %u gives %s", key, cases[i].value, mote_status_name(status));
    }
}

static void numbers_that_cannot_be(void **unused)
{
    (void)unused;
    static const changed_number cases[] = {
        {"block_count", 0, MOTE_E_FORMAT, "block_count"},
        {"block_count", 1000, MOTE_E_FORMAT, "block_count"},
        {"block_count", 6, MOTE_E_FORMAT, "blk."},
        {"embedding_length", 0, MOTE_E_FORMAT, "embedding_length"},
        {"embedding_length", 96, MOTE_E_FORMAT, "token_embd.weight"},
        {"embedding_length", UINT32_MAX, MOTE_E_FORMAT, "embedding_length"},
        {"feed_forward_length", 0, MOTE_E_FORMAT, "feed_forward_length"},
        {"feed_forward_length", 96, MOTE_E_FORMAT, "ffn_gate"},
        {"attention.head_count", 0, MOTE_E_FORMAT, "head_count"},
        {"attention.head_count", 3, MOTE_E_FORMAT, "head counts"},
        {"attention.head_count", 4, MOTE_E_FORMAT, "attn_q.weight"},
        {"attention.head_count", 32, MOTE_E_FORMAT, "attn_q.weight"},
        {"attention.head_count", 64, MOTE_E_UNSUPPORTED, "query heads"},
        {"attention.head_count_kv", 0, MOTE_E_FORMAT, "head_count_kv"},
        {"attention.head_count_kv", 1, MOTE_E_FORMAT, "attn_k.weight"},
        {"attention.key_length", 128, MOTE_E_UNSUPPORTED, "key_length"},
        {"attention.value_length", 128, MOTE_E_UNSUPPORTED, "value_length"},
        {"rope.dimension_count", 32, MOTE_E_UNSUPPORTED, "dimension_count"},
        {"context_length", 0, MOTE_E_FORMAT, "context_length"},
        {"ssm.conv_kernel", 3, MOTE_E_UNSUPPORTED, "conv_kernel"},
        {"ssm.state_size", 64, MOTE_E_UNSUPPORTED, "state_size"},
        {"ssm.group_count", 0, MOTE_E_FORMAT, "group_count"},
        {"ssm.group_count", 3, MOTE_E_FORMAT, "head counts"},
        {"ssm.group_count", 4, MOTE_E_FORMAT, "attn_qkv"},
        {"ssm.time_step_rank", 6, MOTE_E_FORMAT, "inner_size"},
        {"ssm.inner_size", 500, MOTE_E_FORMAT, "inner_size"},
        {"full_attention_interval", 0, MOTE_E_FORMAT, "full_attention_interval"},
        {"full_attention_interval", 2, MOTE_E_FORMAT, "attn_q.weight"},
        {"full_attention_interval", 100, MOTE_E_UNSUPPORTED, "DeltaNet"},
        {"nextn_predict_layers", 2, MOTE_E_UNSUPPORTED, "draft"},
    };
    change_numbers("qwen35", cases, sizeof cases / sizeof *cases);
}

static void experts_that_cannot_be(void **unused)
{
    (void)unused;
    static const changed_number cases[] = {
        {"expert_count", 0, MOTE_E_FORMAT, "expert_count"},
        {"expert_count", 8, MOTE_E_FORMAT, "ffn_gate_inp.weight"},
        {"expert_count", 2000, MOTE_E_FORMAT, "expert_count"},
        {"expert_used_count", 0, MOTE_E_FORMAT, "expert_used_count"},
        {"expert_used_count", 17, MOTE_E_FORMAT, "17 of 16 experts"},
        {"expert_used_count", 33, MOTE_E_FORMAT, "expert_used_count"},
        {"expert_feed_forward_length", 0, MOTE_E_FORMAT, "expert_feed_forward_length"},
        {"expert_feed_forward_length", 48, MOTE_E_UNSUPPORTED, "48 of experts"},
        {"expert_feed_forward_length", 64, MOTE_E_FORMAT, "ffn_gate_exps.weight"},
        {"expert_shared_feed_forward_length", 32, MOTE_E_FORMAT, "ffn_gate_shexp.weight"},
        {"nextn_predict_layers", 2, MOTE_E_UNSUPPORTED, "draft"},
        {"block_count", 8, MOTE_E_FORMAT, "blk.7."},
    };
    change_numbers("qwen35moe", cases, sizeof cases / sizeof *cases);
}

static void another_architecture(void **unused)
{
    (void)unused;
    memcpy(bytes, original, n_bytes);
    /* A string value is its length, then its bytes. */
    memcpy(bytes + place_of("general.architecture") + 8, "llama3", 6);
    assert_int_equal(open_changed("llama3"), MOTE_E_UNSUPPORTED);
}

/* NVFP4 files may have a factor per matrix, which must not be ignored. */
static void factor_of_a_matrix(void **unused)
{
    (void)unused;
    gguf *g;
    mote_error err = {0};
    MUST(gguf_read(&g, original, n_bytes, &err), &err);
    const gguf_tensor *t = gguf_find_tensor(g, "blk.3.attn_k.weight");
    assert_non_null(t);
    memcpy(bytes, original, n_bytes);
    memcpy(bytes + ((const unsigned char *)t->name.p - original), "blk.0.ssm_out.scale", 19);
    assert_int_equal(open_changed("blk.0.ssm_out.scale"), MOTE_E_UNSUPPORTED);
    gguf_free(g);
}

/* Optional tensors. */
static bool may_be_absent(const char *name)
{
    return strstr(name, "nextn.shared_head_norm") != NULL || strcmp(name, "output.weight") == 0;
}

static void every_tensor_is_needed(void **unused)
{
    (void)unused;
    gguf *g;
    mote_error err = {0};
    MUST(gguf_read(&g, original, n_bytes, &err), &err);
    uint64_t n = gguf_n_tensors(g);
    for (uint64_t i = 0; i < n; i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        char name[96];
        snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.p);
        memcpy(bytes, original, n_bytes);
        bytes[(size_t)((const unsigned char *)t->name.p - original) + t->name.n - 1] = '?';
        /* The bias has two accepted names. */
        char *bias = strstr(name, "ssm_dt.bias");
        if (bias != NULL)
            strcpy(bias, "ssm_dt");
        mote_status status = open_changed(name);
        if (status != (may_be_absent(name) ? MOTE_OK : MOTE_E_FORMAT))
            rig_fail("without %s the file gives %s", name, mote_status_name(status));
    }
    printf("%llu tensors\n", (unsigned long long)n);
    gguf_free(g);
}

/* kB in this process's memory; 0: the system does not say. Counted page by page: what
 * /proc/self/status says is late by so many pages for each processor. */
static uint64_t resident_kb(void)
{
    char line[128];
    unsigned long long kb = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL && kb == 0)
        (void)sscanf(line, "Rss: %llu", &kb);
    if (f != NULL)
        fclose(f);
    return kb;
}

/* A cap that no CPU of this architecture has is a mistake, not "no limit". */
static void level_of_another_architecture(void **unused)
{
    (void)unused;
    mote_model *model = NULL;
    mote_error err;
    const mote_isa isa =
        cpu_check_level(MOTE_ISA_NEON, NULL) == MOTE_OK ? MOTE_ISA_AVX2 : MOTE_ISA_NEON;
    assert_int_equal(mote_model_open(&model, rig_model_path("r2-gqa4-kv2-tied-mtp"),
                                     &(mote_model_options){.isa = isa}, &err),
                     MOTE_E_ARG);
    assert_null(model);
    assert_non_null(strstr(err.text, mote_isa_name(isa)));
}

static void what_it_says_of_itself(void **unused)
{
    (void)unused;
    mote_model *model = rig_open(rig_model_path("r2-gqa4-kv2-tied-mtp"), MOTE_ISA_REF);
    mote_model_info info;
    mote_model_describe(model, &info);
    assert_int_equal(info.layers, 4);
    assert_int_equal(info.attention_layers, 1);
    assert_int_equal(info.context, 262144);
    assert_int_equal(info.vocabulary, 512);
    assert_int_equal(info.tokens, 512);
    assert_true(info.tied && info.draft_head);
    assert_int_equal(info.isa, MOTE_ISA_REF);
    assert_int_equal(info.file_bytes, n_bytes);
    uint64_t done = 0, total = 0;
    while (mote_model_prefault(model, &done, &total))
        assert_true(done < total);
    assert_int_equal(done, n_bytes);
    const uint64_t held = resident_kb();
    mote_model_drop_pages(model);
    const uint64_t left = resident_kb();
    assert_true(held == 0 || held - left >= n_bytes / 1024 / 2); /* some lie in pages of others */
    for (done = 0; mote_model_prefault(model, &done, &total);)
        assert_true(done < total);
    mote_model_close(model);
}

static int read_model(const char *name)
{
    const char *path = rig_model_path(name);
    if (path == NULL)
        return -1;
    original = test_file_read(path, &n_bytes);
    bytes = malloc(n_bytes);
    return original != NULL && bytes != NULL ? 0 : -1;
}

static int read_original(void **unused)
{
    (void)unused;
    return read_model("r2-gqa4-kv2-tied-mtp");
}

static int read_experts(void **unused)
{
    (void)unused;
    return read_model("moe-bf16");
}

static int read_merged(void **unused)
{
    (void)unused;
    return read_model("moe-q8_0");
}

static int free_original(void **unused)
{
    (void)unused;
    free(original);
    free(bytes);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_cannot_be),
        cmocka_unit_test(another_architecture),
        cmocka_unit_test(factor_of_a_matrix),
        cmocka_unit_test(every_tensor_is_needed),
        cmocka_unit_test(level_of_another_architecture),
        cmocka_unit_test(what_it_says_of_itself),
    };
    const struct CMUnitTest experts[] = {
        cmocka_unit_test(experts_that_cannot_be),
        cmocka_unit_test(every_tensor_is_needed),
    };
    const struct CMUnitTest merged[] = {cmocka_unit_test(every_tensor_is_needed)};
    return cmocka_run_group_tests_name("model_open", tests, read_original, free_original) +
           cmocka_run_group_tests_name("model_open_experts", experts, read_experts, free_original) +
           cmocka_run_group_tests_name("model_open_merged", merged, read_merged, free_original);
}
