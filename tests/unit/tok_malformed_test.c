/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tok_malformed_test.c - invalid vocabularies are rejected with a specific error; failed
 * allocations leak nothing.
 */
#include "base/mem.h"
#include "support/data.h"
#include "unit/tok_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char long_token[2100];

static void no_model(tok_sample *s)
{
    s->model = NULL;
}
static void other_model(tok_sample *s)
{
    s->model = "llama";
}
static void no_pre(tok_sample *s)
{
    s->pre = NULL;
}
static void other_pre(tok_sample *s)
{
    s->pre = "qwen2";
}
static void no_tokens(tok_sample *s)
{
    s->n_tokens = 0;
}
static void no_types(tok_sample *s)
{
    s->n_types = 0;
}
static void no_merges(tok_sample *s)
{
    s->no_merges = true;
}
static void few_types(tok_sample *s)
{
    s->n_types--;
}
static void unknown_type(tok_sample *s)
{
    s->types[40] = 6;
}
static void negative_type(tok_sample *s)
{
    s->types[40] = -1;
}
static void empty_token(tok_sample *s)
{
    s->tokens[260] = "";
}
static void raw_space(tok_sample *s)
{
    s->tokens[260] = "a b";
}
static void raw_control(tok_sample *s)
{
    s->tokens[260] = "a\x01";
}
static void high_character(tok_sample *s)
{
    s->tokens[260] = "\xC5\x84"; /* U+0144 */
}
static void soft_hyphen(tok_sample *s)
{
    s->tokens[260] = "\xC2\xAD";
}
static void long_character(tok_sample *s)
{
    s->tokens[260] = "\xE4\xB8\xAD";
}
static void truncated_character(tok_sample *s)
{
    s->tokens[260] = "a\xC3";
}
static void overlong_character(tok_sample *s)
{
    s->tokens[260] = "\xC1\x81";
}
static void same_token(tok_sample *s)
{
    s->tokens[260] = "ll";
}
static void missing_byte(tok_sample *s)
{
    s->types[0x41] = 5;
}
static void empty_added(tok_sample *s)
{
    s->tokens[s->first_added] = "";
}
static void ill_formed_added(tok_sample *s)
{
    s->tokens[s->first_added] = "<\xFF>";
}
static void same_added(tok_sample *s)
{
    s->tokens[s->first_added] = "<think>";
}
static void merge_without_space(tok_sample *s)
{
    s->merges[3] = "ll";
}
static void empty_merge(tok_sample *s)
{
    s->merges[3] = "";
}
static void half_merge(tok_sample *s)
{
    s->merges[3] = "l ";
}
static void merge_of_three(tok_sample *s)
{
    s->merges[3] = "l l l";
}
static void merge_of_unknown(tok_sample *s)
{
    s->merges[3] = "lx l";
}
static void merge_to_unknown(tok_sample *s)
{
    s->merges[3] = "x y";
}
static void merge_of_added(tok_sample *s)
{
    s->merges[3] = "<think> a";
}
static void merge_to_added(tok_sample *s)
{
    s->tokens[s->first_added] = "xy"; /* the result of the next merge, but an added token */
    s->merges[s->n_merges++] = "x y";
}
static void merge_twice(tok_sample *s)
{
    s->merges[s->n_merges++] = "l l";
}
static void eos_outside(tok_sample *s)
{
    s->eos = 100000;
}
static void eos_in_tail(tok_sample *s)
{
    s->eos = (int64_t)s->n_tokens - 1;
}

static void long_normal(tok_sample *s)
{
    memset(long_token, 'x', 1025);
    long_token[1025] = 0;
    s->tokens[260] = long_token;
}

static void long_added(tok_sample *s)
{
    memset(long_token, 'x', sizeof long_token - 1);
    s->tokens[s->first_added] = long_token;
}

static void long_merge(tok_sample *s)
{
    static char merge[5000];
    memset(merge, 'l', sizeof merge - 1);
    merge[1] = ' ';
    s->merges[3] = merge;
}

static void many_added(tok_sample *s)
{
    static char names[1030][16];
    for (int i = 0; i < 1030; i++) {
        snprintf(names[i], sizeof names[i], "<%d>", i);
        s->tokens[s->n_tokens] = names[i];
        s->types[s->n_tokens++] = 4;
    }
    s->n_types = s->n_tokens;
}

static const struct {
    void (*spoil)(tok_sample *);
    mote_status status;
    const char *says;
} faults[] = {
    {no_model, MOTE_E_FORMAT, "tokenizer.ggml.model"},
    {other_model, MOTE_E_UNSUPPORTED, "'llama'"},
    {no_pre, MOTE_E_FORMAT, "tokenizer.ggml.pre"},
    {other_pre, MOTE_E_UNSUPPORTED, "'qwen2'"},
    {no_tokens, MOTE_E_FORMAT, "tokenizer.ggml.tokens is missing"},
    {no_types, MOTE_E_FORMAT, "tokenizer.ggml.token_type is missing"},
    {no_merges, MOTE_E_FORMAT, "tokenizer.ggml.merges is missing"},
    {few_types, MOTE_E_FORMAT, "293 tokens but 292 token types"},
    {unknown_type, MOTE_E_UNSUPPORTED, "token 40 has type 6"},
    {negative_type, MOTE_E_UNSUPPORTED, "token 40 has type -1"},
    {empty_token, MOTE_E_FORMAT, "token 260 has 0 bytes"},
    {raw_space, MOTE_E_FORMAT, "token 260 contains characters outside the byte alphabet"},
    {raw_control, MOTE_E_FORMAT, "token 260 contains characters outside the byte alphabet"},
    {high_character, MOTE_E_FORMAT, "token 260 contains characters outside the byte alphabet"},
    {soft_hyphen, MOTE_E_FORMAT, "token 260 contains characters outside the byte alphabet"},
    {long_character, MOTE_E_FORMAT, "token 260 contains characters outside the byte alphabet"},
    {truncated_character, MOTE_E_FORMAT, "token 260 contains characters outside the byte alphabet"},
    {overlong_character, MOTE_E_FORMAT, "token 260 contains characters outside the byte alphabet"},
    {long_normal, MOTE_E_FORMAT, "token 260 has 1025 bytes"},
    {same_token, MOTE_E_FORMAT, "token 260 is a duplicate"},
    {missing_byte, MOTE_E_FORMAT, "byte 0x41"},
    {empty_added, MOTE_E_FORMAT, "token 277 has 0 bytes"},
    {ill_formed_added, MOTE_E_FORMAT, "added token 277 is not valid UTF-8"},
    {long_added, MOTE_E_FORMAT, "token 277 has 2099 bytes"},
    {same_added, MOTE_E_FORMAT, "added tokens 277 and 280 have the same text"},
    {many_added, MOTE_E_UNSUPPORTED, "1037 added tokens"},
    {merge_without_space, MOTE_E_FORMAT, "merge 3 'll' is not a pair of tokens"},
    {empty_merge, MOTE_E_FORMAT, "merge 3 '' is not a pair of tokens"},
    {half_merge, MOTE_E_FORMAT, "merge 3 'l ' is not a pair of tokens"},
    {merge_of_three, MOTE_E_FORMAT, "merge 3 'l l l' is not a pair of tokens"},
    {merge_of_unknown, MOTE_E_FORMAT, "merge 3 'lx l'"},
    {merge_to_unknown, MOTE_E_FORMAT, "merge 3 'x y': the result is not a token"},
    {merge_to_added, MOTE_E_FORMAT, "merge 20 'x y': the result is not a token"},
    {merge_of_added, MOTE_E_FORMAT, "merge 3 '<think> a'"},
    {merge_twice, MOTE_E_FORMAT, "merge 20 'l l' is a duplicate"},
    {long_merge, MOTE_E_FORMAT, "merge 3 'l lll"},
    {eos_outside, MOTE_E_FORMAT, "eos_token_id is 100000; the vocabulary has 284 tokens"},
    {eos_in_tail, MOTE_E_FORMAT, "eos_token_id is 292; the vocabulary has 284 tokens"},
};

static void faults_have_specific_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        tok_sample *s = tok_sample_new();
        mote_error err = {0};
        tok *t = (tok *)s;
        faults[i].spoil(s);
        tok_sample_begin(s);
        tok_sample_finish(s);
        uint64_t before = mem_count().blocks;
        mote_status status = tok_new(&t, s->g, &err);
        if (status != faults[i].status || strstr(err.text, faults[i].says) == NULL)
            fail_msg("fault %zu, '%s': got '%s'", i, faults[i].says, err.text);
        assert_null(t);
        assert_int_equal(err.status, status);
        assert_int_equal(mem_count().blocks, before);
        tok_sample_free(s);
    }
}

/* Writes an entry of a type that `key` must not have. */
static void write_wrong_type(test_gguf *f, const char *key, bool strings_wanted, int kind)
{
    static const char *const words[] = {"a", "b"};
    static const int32_t numbers[] = {1, 1};
    if (kind == 0)
        test_gguf_u32(f, key, 1);
    else if (kind == 1)
        test_gguf_str(f, key, "a b");
    else if (strings_wanted)
        test_gguf_i32s(f, key, numbers, 2);
    else
        test_gguf_strs(f, key, words, 2);
}

static void wrong_types_are_rejected(void **state)
{
    (void)state;
    static const char *const keys[] = {"tokenizer.ggml.tokens", "tokenizer.ggml.token_type",
                                       "tokenizer.ggml.merges"};
    for (int key = 0; key < 3; key++) {
        for (int kind = 0; kind < 3; kind++) {
            tok_sample *s = tok_sample_new();
            mote_error err = {0};
            tok *t;
            s->n_tokens = key == 0 ? 0 : s->n_tokens;
            s->n_types = key == 1 ? 0 : s->n_types;
            s->no_merges = key == 2;
            tok_sample_begin(s);
            write_wrong_type(&s->file, keys[key], key != 1, kind);
            tok_sample_finish(s);
            assert_int_equal(tok_new(&t, s->g, &err), MOTE_E_FORMAT);
            assert_non_null(strstr(err.text, "is not an array of "));
            assert_non_null(strstr(err.text, keys[key]));
            tok_sample_free(s);
        }
    }
}

/* ---- failed allocations ---- */

/* Fails allocation 1, 2, ... of tok_new until it succeeds. */
static void fail_every_allocation_of_tok_new(const gguf *g)
{
    for (uint64_t n = 1;; n++) {
        mote_error err = {0};
        tok *t = NULL;
        mem_stats before = mem_count();
        mem_fail_at(n);
        mote_status status = tok_new(&t, g, &err);
        bool failed = mem_failed();
        mem_fail_at(0);
        if (!failed) {
            assert_int_equal(status, MOTE_OK);
            assert_true(n > 5);
            tok_free(t);
            return;
        }
        assert_int_equal(status, MOTE_E_MEMORY);
        assert_true(err.text[0] != 0);
        assert_null(t);
        assert_int_equal(mem_count().blocks, before.blocks);
        assert_int_equal(mem_count().bytes, before.bytes);
    }
}

static void failed_allocations_in_tok_new(void **state)
{
    (void)state;
    tok_sample *s = tok_sample_new();
    tok_sample_begin(s);
    tok_sample_finish(s);
    fail_every_allocation_of_tok_new(s->g);
    tok_sample_free(s);
}

static void failed_allocations_with_a_model(void **state)
{
    (void)state;
    char path[TEST_PATH];
    size_t n;
    gguf *g;
    if (!test_data_path(path, "mote-tiny-Q4_K_M.gguf"))
        skip();
    unsigned char *bytes = test_file_read(path, &n);
    assert_non_null(bytes);
    assert_int_equal(gguf_read(&g, bytes, n, NULL), MOTE_OK);
    fail_every_allocation_of_tok_new(g);
    gguf_free(g);
    free(bytes);
}

/* A text that uses every buffer of the encoder: repair, NFC that doubles the size, cache, long
 * words. */
static char *demanding_text(size_t *n)
{
    enum { N = 6000 };
    char *text = malloc(N + 64);
    assert_non_null(text);
    memset(text, 'a', N);
    memcpy(text, "\xFF <think> e\xCC\x81", 12);
    for (int i = 0; i < 100; i++) /* U+0958 grows from three bytes to six */
        memcpy(text + 2000 + 3 * i, "\xE0\xA5\x98", 3);
    for (int i = 0; i < 1000; i++)
        memcpy(text + 3000 + 3 * i, "\xE0\xA5\x98", 3);
    *n = N;
    return text;
}

static void failed_allocations_in_tok_encode(void **state)
{
    (void)state;
    tok_sample *s = tok_sample_new();
    tok *t;
    assert_int_equal(tok_sample_open(s, &t, NULL), MOTE_OK);
    size_t bytes, count, wanted;
    char *text = demanding_text(&bytes);
    mem_stats before = mem_count();
    assert_int_equal(tok_encode(t, (str){text, bytes}, TOK_CONTROL, NULL, 0, &wanted, NULL),
                     MOTE_OK);
    for (uint64_t n = 1;; n++) {
        mote_error err = {0};
        mem_fail_at(n);
        mote_status status = tok_encode(t, (str){text, bytes}, TOK_CONTROL, NULL, 0, &count, &err);
        bool failed = mem_failed();
        mem_fail_at(0);
        assert_int_equal(mem_count().blocks, before.blocks);
        assert_int_equal(mem_count().bytes, before.bytes);
        if (!failed) {
            assert_int_equal(status, MOTE_OK);
            assert_int_equal(count, wanted);
            assert_true(n > 6);
            break;
        }
        assert_int_equal(status, MOTE_E_MEMORY);
        assert_true(err.text[0] != 0);
        assert_int_equal(count, 0);
    }
    free(text);
    tok_free(t);
    tok_sample_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_have_specific_errors),
        cmocka_unit_test(wrong_types_are_rejected),
        cmocka_unit_test(failed_allocations_in_tok_new),
        cmocka_unit_test(failed_allocations_with_a_model),
        cmocka_unit_test(failed_allocations_in_tok_encode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
