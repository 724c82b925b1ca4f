/* SPDX-License-Identifier: Apache-2.0 */
/* tok_long_test.c - words of thousands and millions of bytes: exact, with little memory, stoppable.
 */
#include "base/mem.h"
#include "support/random.h"
#include "unit/tok_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { N_PLAIN = 256 + SAMPLE_N_MERGES + 1 }; /* ids of bytes, merges and the unused one */

static tok_sample *sample;
static tok *t;
static struct {
    int rank, made;
} table[N_PLAIN][N_PLAIN]; /* rank -1: no merge */

static int id_of(const char *written, size_t n)
{
    for (int id = 0; id < N_PLAIN; id++)
        if (strlen(sample->tokens[id]) == n && memcmp(sample->tokens[id], written, n) == 0)
            return id;
    return -1;
}

static int setup(void **state)
{
    (void)state;
    sample = tok_sample_new();
    if (tok_sample_open(sample, &t, NULL) != MOTE_OK)
        return -1;
    for (int a = 0; a < N_PLAIN; a++)
        for (int b = 0; b < N_PLAIN; b++)
            table[a][b].rank = -1;
    for (int rank = 0; rank < SAMPLE_N_MERGES; rank++) {
        const char *text = sample->merges[rank], *space = strchr(text, ' ');
        int a = id_of(text, (size_t)(space - text)), b = id_of(space + 1, strlen(space + 1));
        table[a][b].rank = rank;
        table[a][b].made = id_of(sample->made[rank], strlen(sample->made[rank]));
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

/* Simple and slow: compares all pairs for each merge. */
static size_t merge_slowly(const char *word, size_t n, mote_token *ids)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (unsigned char)word[i];
    for (;;) {
        int best = -1;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            int rank = table[ids[i]][ids[i + 1]].rank;
            if (rank >= 0 && (best < 0 || rank < best)) {
                best = rank;
                at = i;
            }
        }
        if (best < 0)
            return n;
        ids[at] = table[ids[at]][ids[at + 1]].made;
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
    }
}

/* Lengths around those at which a word is cut; few different letters, so that merges overlap. */
static void long_words_equal_a_simple_implementation(void **state)
{
    (void)state;
    enum { MOST = 5000 };
    static mote_token got[MOST], wanted[MOST];
    static char word[MOST];
    test_random random = {11};
    for (int round = 0; round < 60; round++) {
        size_t n = 1000 + test_random_below(&random, round % 2 ? MOST - 1000 : 100), n_got;
        size_t letters = 1 + test_random_below(&random, 4);
        for (size_t i = 0; i < n; i++)
            word[i] =
                "abch"[round < 3 ? i % (size_t)(round + 1) : test_random_below(&random, letters)];
        assert_int_equal(tok_encode(t, (str){word, n}, 0, got, MOST, &n_got, NULL), MOTE_OK);
        size_t n_wanted = merge_slowly(word, n, wanted);
        assert_int_equal(n_got, n_wanted);
        assert_memory_equal(got, wanted, n_got * sizeof *got);
    }
}

/* ---- memory and stops ---- */

typedef struct watch {
    uint64_t most; /* allocated bytes */
    int calls, stop_at;
} watch;

static bool watch_hook(void *ctx)
{
    watch *w = ctx;
    uint64_t bytes = mem_count().bytes;
    w->most = bytes > w->most ? bytes : w->most;
    return ++w->calls != w->stop_at;
}

static void memory_does_not_depend_on_the_length(void **state)
{
    (void)state;
    enum { N = 4 << 20 };
    static const char *const kinds[] = {"a", "ab", "abc", "#"};
    char *text = malloc(N);
    assert_non_null(text);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (size_t i = 0; i < N; i++)
            text[i] = kinds[k][i % strlen(kinds[k])];
        uint64_t before = mem_count().bytes;
        watch w = {before, 0, -1};
        size_t n;
        assert_int_equal(
            tok_encode_with_hook(t, (str){text, N}, 0, NULL, 0, &n, watch_hook, &w, NULL), MOTE_OK);
        print_message("%d bytes of %s: %zu tokens, %d calls, %llu bytes\n", N, kinds[k], n, w.calls,
                      (unsigned long long)(w.most - before));
        assert_true(w.calls >= N / 65536 - 1);
        assert_true(w.most - before < 4 << 20);
        assert_int_equal(mem_count().bytes, before);
    }
    free(text);
}

static void the_hook_stops_long_words_and_long_texts(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    char *text = malloc(N);
    assert_non_null(text);
    for (int words = 0; words < 2; words++) {
        memset(text, 'a', N);
        for (size_t i = 0; words && i < N; i += 7)
            text[i] = ' ';
        uint64_t before = mem_count().blocks;
        watch w = {0, 0, 3};
        size_t n;
        mote_error err;
        assert_int_equal(
            tok_encode_with_hook(t, (str){text, N}, 0, NULL, 0, &n, watch_hook, &w, &err),
            MOTE_E_CANCELED);
        assert_int_equal(w.calls, 3);
        assert_int_equal(n, 0);
        assert_int_equal(mem_count().blocks, before);
    }
    free(text);
}

/* ---- a lower bound of the number of tokens ---- */

static void least_tokens_is_a_lower_bound(void **state)
{
    (void)state;
    /* U+1FBE U+0308 U+0301 becomes U+0390: NFC makes the text shorter by 3.5 */
    static const char *const texts[] = {"a", "hello hello", "aaaaaaaaaaaaaaaa",
                                        "\xE1\xBE\xBE\xCC\x88\xCC\x81", "\xFF\xFF<|im_start|>"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        strbuf text = {0};
        for (int k = 0; k < 1000; k++)
            strbuf_text(&text, texts[i]);
        size_t n;
        assert_int_equal(tok_encode(t, strbuf_view(&text), TOK_CONTROL, NULL, 0, &n, NULL),
                         MOTE_OK);
        size_t least = tok_least_tokens(t, strbuf_view(&text));
        assert_true(least >= 1 && least <= n);
        strbuf_fini(&text);
    }
    assert_int_equal(tok_least_tokens(t, (str){"", 0}), 0);
    static char long_text[100000];
    memset(long_text, 'a', sizeof long_text); /* the longest token has 13 bytes */
    assert_int_equal(tok_least_tokens(t, (str){long_text, sizeof long_text}), 100000 / 13 + 1);
}

/* ---- the last byte of a word decides its first token ---- */

enum { LETTERS = 200, TRAIL = LETTERS * LETTERS };

/* A trail over all pairs of letters in which no pair occurs twice. */
static void make_trail(uint16_t *trail)
{
    size_t n = 0;
    for (uint16_t i = 0; i < LETTERS; i++) {
        trail[n++] = i;
        for (uint16_t k = (uint16_t)(i + 1); k < LETTERS; k++) {
            trail[n++] = i;
            trail[n++] = k;
        }
    }
    assert_int_equal(n, TRAIL);
}

/* Cyrillic letters of two bytes, without the combining marks between them. */
static unsigned letter_code(unsigned i)
{
    return i < 0x82 ? 0x400 + i : 0x48A + i - 0x82;
}

static char *text_of(const char *format, const char *a, const char *b)
{
    char *out = malloc(32);
    assert_non_null(out);
    snprintf(out, 32, format, a, b);
    return out;
}

/* Merges: the bytes of each letter, then all pairs of the trail, the last pair first. So letters
 * are paired from the end of a word: whether it has an even or odd number of letters decides
 * everything before. No vocabulary of a real model is like this. */
static void tokens_that_depend_on_far_bytes_are_exact(void **state)
{
    (void)state;
    static uint16_t trail[TRAIL];
    static char *tokens[256 + LETTERS + TRAIL], *merges[LETTERS + TRAIL];
    static int32_t types[256 + LETTERS + TRAIL];
    static char bytes[2 * TRAIL];
    static mote_token got[TRAIL];
    size_t n_tokens = 0, n_merges = 0, n;
    make_trail(trail);
    for (int b = 0; b < 256; b++)
        tokens[n_tokens++] = text_of("%s%s", sample->bytes[b], "");
    for (unsigned i = 0; i < LETTERS; i++) {
        const unsigned c = letter_code(i);
        const char *lead = sample->bytes[0xC0 | c >> 6], *end = sample->bytes[0x80 | (c & 63)];
        tokens[n_tokens++] = text_of("%s%s", lead, end);
        merges[n_merges++] = text_of("%s %s", lead, end);
    }
    for (size_t i = TRAIL - 1; i-- > 0;) {
        const char *a = tokens[256 + trail[i]], *b = tokens[256 + trail[i + 1]];
        tokens[n_tokens++] = text_of("%s%s", a, b);
        merges[n_merges++] = text_of("%s %s", a, b);
    }
    for (size_t i = 0; i < n_tokens; i++)
        types[i] = 1;
    for (size_t i = 0; i < TRAIL; i++) {
        const unsigned c = letter_code(trail[i]);
        bytes[2 * i] = (char)(0xC0 | c >> 6);
        bytes[2 * i + 1] = (char)(0x80 | (c & 63));
    }
    test_gguf file = {0};
    gguf *g;
    tok *far;
    mote_error err;
    test_gguf_begin(&file);
    test_gguf_str(&file, "tokenizer.ggml.model", "gpt2");
    test_gguf_str(&file, "tokenizer.ggml.pre", "qwen35");
    test_gguf_strs(&file, "tokenizer.ggml.tokens", (const char *const *)tokens, n_tokens);
    test_gguf_i32s(&file, "tokenizer.ggml.token_type", types, n_tokens);
    test_gguf_strs(&file, "tokenizer.ggml.merges", (const char *const *)merges, n_merges);
    test_gguf_finish(&file);
    assert_int_equal(gguf_read(&g, file.bytes, file.n, &err), MOTE_OK);
    if (tok_new(&far, g, &err) != MOTE_OK)
        fail_msg("%s", err.text);
    for (size_t letters = TRAIL - 4; letters <= TRAIL; letters++) {
        assert_int_equal(tok_encode(far, (str){bytes, 2 * letters}, 0, got, TRAIL, &n, NULL),
                         MOTE_OK);
        assert_int_equal(n, letters / 2 + letters % 2);
        size_t at = letters % 2;
        assert_int_equal(tok_bytes(far, got[0]).n, at ? 2 : 4);
        for (size_t i = at; i < n; i++, at += 2)
            assert_memory_equal(tok_bytes(far, got[i]).p, bytes + 2 * at, 4);
    }
    tok_free(far);
    gguf_free(g);
    test_gguf_free(&file);
    for (size_t i = 0; i < n_tokens; i++)
        free(tokens[i]);
    for (size_t i = 0; i < n_merges; i++)
        free(merges[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_words_equal_a_simple_implementation),
        cmocka_unit_test(memory_does_not_depend_on_the_length),
        cmocka_unit_test(the_hook_stops_long_words_and_long_texts),
        cmocka_unit_test(least_tokens_is_a_lower_bound),
        cmocka_unit_test(tokens_that_depend_on_far_bytes_are_exact),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
