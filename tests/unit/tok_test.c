/* SPDX-License-Identifier: Apache-2.0 */
/* tok_test.c - encoding and decoding with the small vocabulary of tok_sample.h. */
#include "base/mem.h"
#include "support/random.h"
#include "unit/tok_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static tok_sample *sample;
static tok *t;

static int setup(void **state)
{
    (void)state;
    mote_error err;
    sample = tok_sample_new();
    if (tok_sample_open(sample, &t, &err) != MOTE_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tok_free(t);
    tok_sample_free(sample);
    return 0;
}

/* ---- merging, compared with a simple implementation ---- */

/* Rank of the merge of two tokens in the spelling of the file; -1: none. */
static int rank_of(const char *left, const char *right)
{
    char both[128];
    snprintf(both, sizeof both, "%s %s", left, right);
    for (int rank = 0; rank < SAMPLE_N_MERGES; rank++)
        if (strcmp(sample->merges[rank], both) == 0)
            return rank;
    return -1;
}

static mote_token id_of(const char *written)
{
    for (uint64_t id = 0; id < sample->first_added; id++)
        if (strcmp(sample->tokens[id], written) == 0)
            return (mote_token)id;
    return -1;
}

/* Simple and slow: compares all pairs for each merge. */
static size_t merge_slowly(const char *word, size_t n, mote_token *ids)
{
    char(*parts)[64] = calloc(n, sizeof *parts);
    assert_non_null(parts);
    for (size_t i = 0; i < n; i++)
        snprintf(parts[i], sizeof parts[i], "%s", sample->bytes[(unsigned char)word[i]]);
    for (;;) {
        int best = -1;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            int rank = rank_of(parts[i], parts[i + 1]);
            if (rank >= 0 && (best < 0 || rank < best)) {
                best = rank;
                at = i;
            }
        }
        if (best < 0)
            break;
        size_t length = strlen(parts[at]), more = strlen(parts[at + 1]);
        assert_true(length + more < sizeof parts[at]);
        memmove(parts[at] + length, parts[at + 1], more + 1);
        memmove(parts + at + 1, parts + at + 2, (n - at - 2) * sizeof *parts);
        n--;
    }
    for (size_t i = 0; i < n; i++)
        ids[i] = id_of(parts[i]);
    free(parts);
    return n;
}

static void words_of_all_lengths_merge_in_order(void **state)
{
    (void)state;
    test_random random = {7};
    static mote_token got[400], wanted[400];
    for (int round = 0; round < 400; round++) {
        char word[400];
        size_t letters = 1 + test_random_below(&random, 4);
        size_t n = round < 200 ? 1 + (size_t)round : 1 + test_random_below(&random, 20), n_got;
        for (size_t i = 0; i < n; i++)
            word[i] = "abch"[test_random_below(&random, letters)];
        assert_int_equal(tok_encode(t, (str){word, n}, 0, got, 400, &n_got, NULL), MOTE_OK);
        size_t n_wanted = merge_slowly(word, n, wanted);
        assert_int_equal(n_got, n_wanted);
        assert_memory_equal(got, wanted, n_got * sizeof *got);
    }
}

/* Repeated words come from the cache and give the same tokens as each word alone. */
static void cached_words_give_the_same_tokens(void **state)
{
    (void)state;
    enum { N_WORDS = 3000 };
    test_random random = {8};
    char *text = malloc(N_WORDS * 24);
    mote_token *got = malloc(N_WORDS * 24 * sizeof *got), *alone = malloc(24 * sizeof *alone);
    size_t n = 0, n_got, at = 0;
    size_t starts[N_WORDS + 1];
    assert_non_null(text);
    for (int w = 0; w < N_WORDS; w++) {
        starts[w] = n;
        text[n++] = '1'; /* a digit is always a separate word */
        size_t length = 1 + test_random_below(&random, w % 2 ? 4 : 18);
        for (size_t i = 0; i < length; i++)
            text[n++] = "abc"[test_random_below(&random, 3)];
    }
    starts[N_WORDS] = n;
    assert_int_equal(tok_encode(t, (str){text, n}, 0, got, N_WORDS * 24, &n_got, NULL), MOTE_OK);
    for (int w = 0; w < N_WORDS; w++) {
        size_t n_alone;
        str word = {text + starts[w], starts[w + 1] - starts[w]};
        assert_int_equal(tok_encode(t, word, 0, alone, 24, &n_alone, NULL), MOTE_OK);
        assert_true(at + n_alone <= n_got);
        assert_memory_equal(got + at, alone, n_alone * sizeof *alone);
        at += n_alone;
    }
    assert_int_equal(at, n_got);
    free(alone);
    free(got);
    free(text);
}

/* Words that differ only in the number of NUL bytes. */
static void nul_bytes_count(void **state)
{
    (void)state;
    enum { N = 4096 };
    static char text[N];
    static mote_token ids[N];
    size_t n = 0, n_ids;
    for (size_t zeros = 1; n + zeros < N; zeros = zeros % 14 + 1) {
        n += zeros;
        text[n++] = '1';
    }
    assert_int_equal(tok_encode(t, (str){text, n}, 0, ids, N, &n_ids, NULL), MOTE_OK);
    assert_int_equal(n_ids, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(ids[i], text[i]);
}

static void one_mib_of_one_letter_takes_less_than_1_s(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    char *text = malloc(N);
    mote_token *ids = malloc(N * sizeof *ids);
    size_t n;
    assert_non_null(text);
    memset(text, 'a', N);
#ifdef NDEBUG /* sanitizers make debug builds slow */
    enum { TRIES = 5 };
#else
    enum { TRIES = 1 };
#endif
    double seconds = 1;
    for (int i = 0; i < TRIES && seconds >= 1; i++) { /* retries on a busy machine */
        clock_t start = clock();                      /* CPU time of this process */
        assert_int_equal(tok_encode(t, (str){text, N}, 0, ids, N, &n, NULL), MOTE_OK);
        seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        print_message("1 MiB of 'a': %.3f s\n", seconds);
    }
    assert_int_equal(n, N / 8);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(ids[i], id_of("aaaaaaaa"));
    assert_true(seconds < 1 || TRIES == 1);
    free(ids);
    free(text);
}

/* ---- edge cases of tok_encode ---- */

static size_t encode(const char *text, unsigned flags, mote_token *ids, size_t room)
{
    size_t n;
    assert_int_equal(tok_encode(t, str_of(text), flags, ids, room, &n, NULL), MOTE_OK);
    return n;
}

static void small_buffer_limits_output_not_the_count(void **state)
{
    (void)state;
    mote_token ids[8] = {-7, -7, -7, -7, -7, -7, -7, -7};
    assert_int_equal(encode("hello hello12", 0, NULL, 0), 4);
    assert_int_equal(encode("hello hello12", 0, ids, 3), 4);
    assert_int_equal(ids[0], id_of("hello"));
    assert_int_equal(ids[1], id_of("\xC4\xA0hello"));
    assert_int_equal(ids[2], '1');
    assert_int_equal(ids[3], -7);
    assert_int_equal(encode("", 0, ids, 8), 0);
    size_t n = 9;
    assert_int_equal(tok_encode(t, (str){NULL, 0}, TOK_CONTROL, NULL, 0, &n, NULL), MOTE_OK);
    assert_int_equal(n, 0);
}

static void oversized_text_is_rejected(void **state)
{
    (void)state;
    mote_error err;
    size_t n;
    assert_int_equal(tok_encode(t, (str){"", ((size_t)1 << 28) + 1}, 0, NULL, 0, &n, &err),
                     MOTE_E_ARG);
    assert_non_null(strstr(err.text, "too long"));
}

static void added_tokens_are_found_leftmost_and_longest(void **state)
{
    (void)state;
    mote_token ids[40], a = (mote_token)sample->first_added;
    assert_int_equal(encode("<|im_end|>", TOK_CONTROL, ids, 40), 1);
    assert_int_equal(ids[0], a + 2);
    assert_int_equal(encode("<|im_en", TOK_CONTROL, ids, 40), 4); /* the longest match is <|im */
    assert_int_equal(ids[0], a + 5);
    assert_int_equal(encode("<<think></think>a", TOK_CONTROL, ids, 40), 4);
    assert_int_equal(ids[0], '<');
    assert_int_equal(ids[1], a + 3);
    assert_int_equal(ids[2], a + 4);
    assert_int_equal(ids[3], id_of("a"));
    /* Merges do not cross an added token. */
    assert_int_equal(encode("hell<think>o", TOK_CONTROL, ids, 40), 3);
    assert_int_equal(ids[0], id_of("hell"));
    assert_int_equal(ids[2], id_of("o"));
    /* They are matched before NFC: this text equals one only after it. */
    assert_int_equal(encode("e\xCC\x81!e\xCC\x81", TOK_CONTROL, ids, 40), 3);
    assert_int_equal(encode("\xC3\xA9!\xC3\xA9", TOK_CONTROL, ids, 40), 1);
    assert_int_equal(ids[0], a + 6);
}

static void added_tokens_without_the_flag_are_text(void **state)
{
    (void)state;
    mote_token ids[40];
    size_t n = encode("<|im_end|><think>", 0, ids, 40);
    assert_int_equal(n, 17);
    for (size_t i = 0; i < n; i++)
        assert_true(ids[i] < (mote_token)sample->first_added);
}

static void invalid_utf8_becomes_replacement_characters(void **state)
{
    (void)state;
    mote_token got[40], wanted[40];
    size_t n = encode("a\xFF"
                      "b\xE2\x82",
                      0, got, 40);
    assert_int_equal(encode("a\xEF\xBF\xBD"
                            "b\xEF\xBF\xBD",
                            0, wanted, 40),
                     n);
    assert_memory_equal(got, wanted, n * sizeof *got);
}

/* ---- properties of tokens ---- */

static void tokens_have_their_bytes(void **state)
{
    (void)state;
    assert_int_equal(tok_n_tokens(t), sample->first_added + 7);
    for (int b = 0; b < 256; b++) {
        str bytes = tok_bytes(t, b);
        assert_int_equal(bytes.n, 1);
        assert_int_equal((unsigned char)bytes.p[0], b);
    }
    assert_true(str_is(tok_bytes(t, id_of("\xC4\xA0hello")), " hello"));
    assert_true(str_is(tok_bytes(t, id_of("\xC3\x83\xC2\xA9")), "\xC3\xA9"));
    assert_true(str_is(tok_bytes(t, (mote_token)sample->first_added), "<|endoftext|>"));
    assert_int_equal(tok_bytes(t, 262).n, 0); /* unused */
    assert_int_equal(tok_bytes(t, -1).n, 0);
    assert_int_equal(tok_bytes(t, (mote_token)tok_n_tokens(t)).n, 0);
    assert_int_equal(tok_bytes(t, INT32_MAX).n, 0);
}

static void control_and_end_tokens(void **state)
{
    (void)state;
    mote_token a = (mote_token)sample->first_added;
    for (mote_token id = -1; id < a + 20; id++) {
        assert_int_equal(tok_is_control(t, id), id >= a && id < a + 3);
        assert_int_equal(tok_is_end(t, id), id == a || id == a + 2);
    }
    assert_int_equal(tok_find_added(t, "<think>"), a + 3);
    assert_int_equal(tok_find_added(t, "<|im_end|>"), a + 2);
    assert_int_equal(tok_find_added(t, "<|im"), a + 5);
    assert_int_equal(tok_find_added(t, "<|im_"), -1);
    assert_int_equal(tok_find_added(t, "hello"), -1);
    assert_int_equal(tok_find_added(t, ""), -1);
}

static void private_bytes_equal_allocated_bytes(void **state)
{
    (void)state;
    tok *other;
    uint64_t before = mem_count().bytes;
    assert_int_equal(tok_new(&other, sample->g, NULL), MOTE_OK);
    assert_int_equal(tok_private_bytes(other), mem_count().bytes - before);
    tok_free(other);
    assert_int_equal(mem_count().bytes, before);
    tok_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_all_lengths_merge_in_order),
        cmocka_unit_test(cached_words_give_the_same_tokens),
        cmocka_unit_test(nul_bytes_count),
        cmocka_unit_test(one_mib_of_one_letter_takes_less_than_1_s),
        cmocka_unit_test(small_buffer_limits_output_not_the_count),
        cmocka_unit_test(oversized_text_is_rejected),
        cmocka_unit_test(added_tokens_are_found_leftmost_and_longest),
        cmocka_unit_test(added_tokens_without_the_flag_are_text),
        cmocka_unit_test(invalid_utf8_becomes_replacement_characters),
        cmocka_unit_test(tokens_have_their_bytes),
        cmocka_unit_test(control_and_end_tokens),
        cmocka_unit_test(private_bytes_equal_allocated_bytes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
