/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tok_text_test.c - text processing before merging: UTF-8 repair, NFC, splitting, Unicode classes.
 */
#include "tok/unicode.h"
#include "tok/tok_int.h"
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static tok_classes classes;

static int setup(void **state)
{
    (void)state;
    return tok_classes_init(&classes, NULL) == MOTE_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tok_classes_fini(&classes);
    return 0;
}

static void class_counts_match_the_reference(void **state)
{
    (void)state;
    uint32_t n[8] = {0};
    for (uint32_t c = 0; c < CLASS_CODE_POINTS; c++)
        n[tok_class(&classes, c) & CLASS_KIND]++;
    assert_int_equal(n[CLASS_LETTER], 141028);
    assert_int_equal(n[CLASS_MARK], 2501);
    assert_int_equal(n[CLASS_NUMBER], 1911);
    assert_int_equal(n[CLASS_SPACE], 25);
    assert_int_equal(n[5] + n[6] + n[7], 0);
}

static void some_classes(void **state)
{
    (void)state;
    static const struct {
        uint32_t c;
        unsigned class;
    } cases[] = {
        {'a', CLASS_LETTER},
        {'7', CLASS_NUMBER},
        {' ', CLASS_SPACE},
        {'\n', CLASS_SPACE},
        {0x1C, CLASS_OTHER},
        {0x85, CLASS_SPACE},
        {0xB2, CLASS_NUMBER},
        {0x17F, CLASS_LETTER},
        {0x301, CLASS_MARK | CLASS_NFC_ACTIVE},
        {0x180E, CLASS_OTHER},
        {0x200B, CLASS_OTHER},
        {0x3000, CLASS_SPACE},
        {0x4E2D, CLASS_LETTER},
        {0xFEFF, CLASS_OTHER},
        {0x0897, CLASS_MARK | CLASS_NFC_UNKNOWN},    /* Unicode 16.0 */
        {0x07FD, CLASS_MARK | CLASS_NFC_UNKNOWN},    /* Unicode 11.0 */
        {0x105C9, CLASS_LETTER | CLASS_NFC_UNKNOWN}, /* a composition of 16.0 */
        {0x323AF, CLASS_LETTER | CLASS_NFC_UNKNOWN},
        {0x323B0, CLASS_OTHER | CLASS_NFC_UNKNOWN}, /* Unicode 17.0: not in the table */
        {0xE0100, CLASS_MARK},
        {0x10FFFF, CLASS_OTHER | CLASS_NFC_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (tok_class(&classes, cases[i].c) != cases[i].class)
            fail_msg("U+%04X: class %u, expected %u", cases[i].c, tok_class(&classes, cases[i].c),
                     cases[i].class);
}

/* Writes a bar after each word. */
static void split(const char *text, char *out)
{
    size_t n = strlen(text);
    for (size_t at = 0; at < n;) {
        size_t end = tok_word_end(&classes, (const unsigned char *)text, n, at);
        assert_true(end > at && end <= n);
        memcpy(out, text + at, end - at);
        out += end - at;
        *out++ = '|';
        at = end;
    }
    *out = 0;
}

static void splitting_matches_the_pattern(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "Hello| world|!|",
        "a|  | b|",
        "a|  |\tb|", /* any space except a line end can start a word */
        "x|'s|y|",
        "x|'S|y|",
        "don|'t|",
        "I|'LL| we|'Re| they|'vE|",
        "'l|",
        "'re|d|",
        "'|",
        "!'|s|",
        " '|s|",
        "x|'\xC5\xBF|y|", /* the long s matches s */
        "x|'\xC5\xBE|",   /* U+017E does not */
        "'\xE2\x84\xAA|", /* the Kelvin sign is a letter */
        "1|2|3|a|",
        " |1|",
        "(word| (|word|))\n\n|",
        "!!\n|x|",
        " !!\r\n\n|x|",
        " \n|",
        "\n\n| | x|",
        "   |",
        " \n \n|  | x|",
        "a| \n|",
        "\r\n|a|",
        "_a| __|b|",
        "e\xCC\x81x|",  /* a mark joins the letters */
        "\xCC\x81|!|",  /* or is a word */
        "!\xCC\x81|",   /* or joins a symbol */
        "1|\xCC\x81|",  /* but not a number */
        "\n|\xCC\x81|", /* nor a line end */
        " \xCC\x81|",
        "\xC2\xA0x|",  /* any space can start a word */
        "\xC2\xA0|!|", /* only U+0020 can start a symbol */
        "\xE2\x80\xA8\n| a|",
        "\xE3\x80\x80|\xE3\x80\x80\xE4\xB8\xAD|",
        "\xE4\xB8\xAD\xE6\x96\x87|\xEF\xBC\x8C\xE5\xA5\xBD|",
        "\xEF\xBC\x91|\xE2\x85\xA0|",
        "\xF0\x9F\x98\x80\xF0\x9F\x98\x80| a|",
        "\x1C\x1D|",
        "\xE1\xA0\x8E|",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[200], got[400];
        size_t n = 0;
        for (const char *p = cases[i]; *p != 0; p++)
            if (*p != '|')
                text[n++] = *p;
        text[n] = 0;
        split(text, got);
        assert_string_equal(got, cases[i]);
    }
}

static str nfc(const char *text, tok_buf *out)
{
    assert_int_equal(tok_nfc(&classes, (const unsigned char *)text, strlen(text), out, NULL),
                     MOTE_OK);
    return (str){(const char *)out->p, out->n};
}

static void nfc_is_that_of_unicode_9(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"e\xCC\x81", "\xC3\xA9"},
        {"xe\xCC\x81y e\xCC\x81", "x\xC3\xA9y \xC3\xA9"},
        {"\xC3\xA9", "\xC3\xA9"},
        {"e\xCC\x81\xCC\xA3", "\xE1\xBA\xB9\xCC\x81"}, /* the dot below is sorted first */
        {"\xC3\xA9\xCC\xA3", "\xE1\xBA\xB9\xCC\x81"},  /* also before a composed mark */
        {"\xCC\x81\xCC\xA3", "\xCC\xA3\xCC\x81"},      /* also without a letter */
        {"a\xCC\x88\xCC\x88", "\xC3\xA4\xCC\x88"},     /* the second mark of a class stays */
        {"\xE2\x84\xAB", "\xC3\x85"},                  /* the Angstrom sign */
        {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC"},  /* composition exclusion */
        {"\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81"},
        {"\xEA\xB0\x80\xE1\x86\xA8", "\xEA\xB0\x81"},
        {"\xEA\xB0\x80\xE1\x86\xA7", "\xEA\xB0\x80\xE1\x86\xA7"}, /* U+11A7 is not a Hangul final */
        {"\xCE\x90", "\xCE\x90"}, /* two bytes decompose to three characters */
        {"\xCD\x84", "\xCC\x88\xCC\x81"},
        {"\xF0\x9D\x85\x9E", "\xF0\x9D\x85\x97\xF0\x9D\x85\xA5"},
        {"\xEF\xA4\x80", "\xE8\xB1\x88"},
        /* U+07FD is a mark of class 220 since Unicode 11.0. Here it is not reordered and blocks
           others. */
        {"a\xCC\x81\xDF\xBD", "\xC3\xA1\xDF\xBD"},
        {"a\xDF\xBD\xCC\x81\xCC\xA3", "a\xDF\xBD\xCC\xA3\xCC\x81"},
        {"\xDF\xBD\xCC\xA3", "\xDF\xBD\xCC\xA3"},
        /* U+11935 U+11930 compose since 13.0, U+105D2 U+0307 since 16.0. */
        {"\xF0\x91\xA4\xB5\xF0\x91\xA4\xB0", "\xF0\x91\xA4\xB5\xF0\x91\xA4\xB0"},
        {"\xF0\x91\xA4\xB8", "\xF0\x91\xA4\xB8"},
        {"\xF0\x90\x97\x92\xCC\x87", "\xF0\x90\x97\x92\xCC\x87"},
    };
    tok_buf out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        str got = nfc(cases[i].text, &out);
        if (!str_is(got, cases[i].wanted))
            fail_msg("case %zu: '%.*s'", i, STR_ARG(got));
    }
    tok_buf_fini(&out);
}

/* Quadratic sorting would take minutes. */
static void one_million_marks_are_sorted_fast(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    char *text = malloc(2 * N + 1);
    assert_non_null(text);
    for (int i = 0; i < N; i++) { /* classes 230 and 220 alternate */
        text[2 * i] = (char)0xCC;
        text[2 * i + 1] = (char)(i % 2 ? 0xA3 : 0x81);
    }
    text[2 * N] = 0;
    tok_buf out = {0};
    clock_t start = clock();
    str got = nfc(text, &out);
    assert_true(clock() - start < 5 * CLOCKS_PER_SEC); /* milliseconds without sanitizers */
    assert_int_equal(got.n, 2 * N);
    for (int i = 0; i < N; i++)
        assert_int_equal((unsigned char)got.p[2 * i + 1], i < N / 2 ? 0xA3 : 0x81);
    tok_buf_fini(&out);
    free(text);
}

static void repair_follows_the_unicode_recommendation(void **state)
{
    (void)state;
#define FFFD "\xEF\xBF\xBD"
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"a\xFFz", "a" FFFD "z"},
        {"\x80\x80", FFFD FFFD},
        {"\xC0\xAF", FFFD FFFD},
        {"\xC3", FFFD},
        {"\xC3(", FFFD "("},
        {"\xE2\x82", FFFD},
        {"\xE2\x82z", FFFD "z"},
        {"\xE0\x80\x80", FFFD FFFD FFFD},
        {"\xED\xA0\x80", FFFD FFFD FFFD},
        {"\xF0\x9F\x98", FFFD},
        {"\xF0\x9F\x98\xF0\x9F\x98\x80", FFFD "\xF0\x9F\x98\x80"},
        {"\xF4\x90\x80\x80", FFFD FFFD FFFD FFFD},
        {"\xF5\x80", FFFD FFFD},
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
         "A",
         FFFD FFFD FFFD FFFD "A"},
        {"\xC3\xA9\xEF\xBF\xBD\xF4\x8F\xBF\xBF", "\xC3\xA9\xEF\xBF\xBD\xF4\x8F\xBF\xBF"},
    };
    tok_buf out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const unsigned char *text = (const unsigned char *)cases[i].text;
        size_t n = strlen(cases[i].text);
        assert_int_equal(tok_repair(text, n, &out, NULL), MOTE_OK);
        str got = {(const char *)out.p, out.n};
        if (!str_is(got, cases[i].wanted))
            fail_msg("case %zu: '%.*s'", i, STR_ARG(got));
        assert_int_equal(tok_text_scan(&classes, text, n).ill_formed,
                         strcmp(cases[i].text, cases[i].wanted) != 0);
    }
    tok_buf_fini(&out);
}

static void utf8_round_trip_of_all_code_points(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < CLASS_CODE_POINTS; c++) {
        unsigned char bytes[4];
        size_t n = utf8_put(bytes, c), length;
        assert_int_equal(utf8_get(bytes, &length), c);
        assert_int_equal(length, n);
        bool surrogate = c >= 0xD800 && c < 0xE000;
        assert_int_equal(utf8_check(bytes, n), surrogate ? -1 : (int)n);
        for (size_t cut = 1; cut < n && !surrogate; cut++)
            assert_int_equal(utf8_check(bytes, cut), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(class_counts_match_the_reference),
        cmocka_unit_test(some_classes),
        cmocka_unit_test(splitting_matches_the_pattern),
        cmocka_unit_test(nfc_is_that_of_unicode_9),
        cmocka_unit_test(one_million_marks_are_sorted_fast),
        cmocka_unit_test(repair_follows_the_unicode_recommendation),
        cmocka_unit_test(utf8_round_trip_of_all_code_points),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
