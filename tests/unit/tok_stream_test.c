/* SPDX-License-Identifier: Apache-2.0 */
/* tok_stream_test.c - streaming detokenizer: outputs only whole characters and loses none. */
#include "support/random.h"
#include "tok/unicode.h"
#include "unit/tok_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static tok_sample *sample;
static tok *t;

static int setup(void **state)
{
    (void)state;
    sample = tok_sample_new();
    /* Tokens that start and end inside characters. */
    sample->tokens[sample->first_added] = "\xC2\xA9\xC3\xA2\xC4\xA4"; /* A9 E2 82 */
    sample->types[sample->first_added] = 1;
    sample->tokens[sample->first_added + 1] = "\xC2\xAC\xC3\xB0\xC5\x81"; /* AC F0 9F */
    sample->types[sample->first_added + 1] = 1;
    return tok_sample_open(sample, &t, NULL) == MOTE_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tok_free(t);
    tok_sample_free(sample);
    return 0;
}

/* Adds a token and checks that the output is valid UTF-8. */
static size_t stream_next(mote_text_stream *s, mote_token id, char *out, size_t n)
{
    n += tok_stream_next(t, s, id, out + n, MOTE_PIECE_BYTES);
    tok_classes c;
    assert_int_equal(tok_classes_init(&c, NULL), MOTE_OK);
    assert_false(tok_text_scan(&c, (unsigned char *)out, n).ill_formed);
    tok_classes_fini(&c);
    assert_true(s->n_held <= 3);
    return n;
}

static void partial_characters_are_held_back(void **state)
{
    (void)state;
    static const char text[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
    static const size_t ready[] = {1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    mote_text_stream s = {0};
    char out[2 * MOTE_PIECE_BYTES];
    size_t n = 0;
    for (size_t i = 0; text[i] != 0; i++) {
        n = stream_next(&s, (unsigned char)text[i], out, n);
        assert_int_equal(n, ready[i]);
    }
    n = stream_next(&s, -1, out, n);
    assert_int_equal(n, sizeof text - 1);
    assert_memory_equal(out, text, n);
}

static void tokens_may_end_inside_a_character(void **state)
{
    (void)state;
    mote_token a = (mote_token)sample->first_added;
    mote_text_stream s = {0};
    char out[4 * MOTE_PIECE_BYTES];
    size_t n = stream_next(&s, 0xC3, out, 0);
    n = stream_next(&s, a, out, n);
    assert_int_equal(n, 2);
    n = stream_next(&s, a + 1, out, n);
    assert_int_equal(n, 5);
    n = stream_next(&s, 0x98, out, n);
    n = stream_next(&s, 0x80, out, n);
    assert_int_equal(n, 9);
    assert_memory_equal(out, "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 9);
}

static void invalid_bytes_are_replaced_at_once(void **state)
{
    (void)state;
    mote_text_stream s = {0};
    char out[8 * MOTE_PIECE_BYTES];
    size_t n = stream_next(&s, 0xE2, out, 0);
    n = stream_next(&s, 0x82, out, n);
    assert_int_equal(n, 0);
    n = stream_next(&s, 'x', out, n); /* one U+FFFD, then the letter */
    assert_int_equal(n, 4);
    n = stream_next(&s, 0x80, out, n);
    assert_int_equal(n, 7);
    n = stream_next(&s, 0xF0, out, n);
    n = stream_next(&s, 0x9F, out, n);
    n = stream_next(&s, -1, out, n);
    assert_int_equal(n, 10);
    n = stream_next(&s, -1, out, n); /* a second flush adds nothing */
    assert_int_equal(n, 10);
    assert_memory_equal(out, "\xEF\xBF\xBDx\xEF\xBF\xBD\xEF\xBF\xBD", n);
    n = stream_next(&s, INT32_MAX, out,
                    n); /* an id without text adds nothing and flushes nothing */
    assert_int_equal(n, 10);
}

/* Random bytes, one token each, give the same text as tok_repair of all bytes. */
static void stream_repairs_like_tok_repair(void **state)
{
    (void)state;
    static const unsigned char likely[] = {0xC3, 0xE2, 0xED, 0xF0, 0xF4, 0x80, 0x82,
                                           0x9F, 0xA9, 0xBF, 0xE0, 'a',  0xFF};
    test_random random = {9};
    char out[64 * 3 + MOTE_PIECE_BYTES];
    tok_buf wanted = {0};
    for (int round = 0; round < 3000; round++) {
        unsigned char text[64];
        mote_text_stream s = {0};
        size_t n = test_random_below(&random, 64), n_out = 0;
        for (size_t i = 0; i < n; i++) {
            text[i] = likely[test_random_below(&random, sizeof likely)];
            n_out += tok_stream_next(t, &s, text[i], out + n_out, MOTE_PIECE_BYTES);
        }
        n_out += tok_stream_next(t, &s, -1, out + n_out, MOTE_PIECE_BYTES);
        assert_int_equal(tok_repair(text, n, &wanted, NULL), MOTE_OK);
        assert_int_equal(n_out, wanted.n);
        assert_memory_equal(out, wanted.p, n_out);
    }
    tok_buf_fini(&wanted);
}

static void small_buffer_truncates_between_characters(void **state)
{
    (void)state;
    mote_token a = (mote_token)sample->first_added;
    mote_text_stream s = {{0xC3}, 1};
    char out[4] = "----";
    assert_int_equal(tok_stream_next(t, &s, a, out, 1), 0);
    s = (mote_text_stream){{0xE2, 0x82}, 2};
    assert_int_equal(tok_stream_next(t, &s, a + 1, out, 3), 3);
    assert_memory_equal(out, "\xE2\x82\xAC-", 4);
    assert_int_equal(s.n_held, 2);
    mote_token think = tok_find_added(t, "<think>");
    s = (mote_text_stream){{0xC3}, 1};
    assert_int_equal(tok_stream_next(t, &s, think, out, 4), 4); /* U+FFFD and "<" */
    assert_memory_equal(out, "\xEF\xBF\xBD<", 4);
    assert_int_equal(tok_stream_next(t, &s, think, NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partial_characters_are_held_back),
        cmocka_unit_test(tokens_may_end_inside_a_character),
        cmocka_unit_test(invalid_bytes_are_replaced_at_once),
        cmocka_unit_test(stream_repairs_like_tok_repair),
        cmocka_unit_test(small_buffer_truncates_between_characters),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
