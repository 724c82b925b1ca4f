/* SPDX-License-Identifier: Apache-2.0 */
/* parts_test.c - arguments, text, JSON output, stop strings, progress line: no model, no terminal.
 */
#include "cli/args/command.h"
#include "cli/term/output.h"
#include "json/json_writer.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "cli/run/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- args ---- */

typedef struct sample_options {
    bool on;
    uint64_t count;
    double number;
    const char *text;
    uint64_t choice;
    flag_list list;
} sample_options;

static const cli_flag sample_flags[] = {
    {.name = "on", .letter = 'o', .kind = FLAG_SWITCH, .at = offsetof(sample_options, on)},
    {.name = "count",
     .letter = 'c',
     .kind = FLAG_COUNT,
     .value = "N",
     .initial = "7",
     .env = "MOTE_PARTS_TEST",
     .min = 1,
     .max = 99,
     .at = offsetof(sample_options, count)},
    {.name = "number",
     .letter = 'x',
     .kind = FLAG_NUMBER,
     .value = "X",
     .min = -1,
     .max = 1,
     .at = offsetof(sample_options, number)},
    {.name = "text", .kind = FLAG_TEXT, .value = "T", .at = offsetof(sample_options, text)},
    {.name = "choice",
     .kind = FLAG_CHOICE,
     .value = "one|two|three",
     .initial = "two",
     .at = offsetof(sample_options, choice)},
    {.name = "item",
     .kind = FLAG_LIST,
     .value = "T",
     .env = "MOTE_PARTS_ITEM",
     .at = offsetof(sample_options, list)},
};
static const flag_group sample_groups[] = {FLAG_GROUP("Sample", sample_flags, 0)};
static const cli_command sample = {
    .name = "sample",
    .usage = "A [B]",
    .min_words = 1,
    .max_words = 2,
    .groups = sample_groups,
    .n_groups = 1,
    .options_bytes = sizeof(sample_options),
};

enum { WORDS = 40 };
static const config no_config;

typedef struct parsed {
    mote_status status;
    mote_error err;
    cli_call call;
    sample_options options;
    const char *words[WORDS];
} parsed;

/* Parses words separated by single spaces; the result points into static memory. */
static const parsed *parse(const char *line)
{
    static parsed p;
    static char copy[512];
    char *argv[WORDS];
    int n = 0;
    p = (parsed){0};
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = copy; *word != '\0';) {
        argv[n++] = word;
        word += strcspn(word, " ");
        if (*word == ' ')
            *word++ = '\0';
    }
    p.status = args_parse(&p.call, &sample, n, argv, &p.options, p.words, &p.err);
    if (p.status == MOTE_OK && !p.call.common.help)
        p.status = args_set_defaults(&p.call, &p.options, &no_config, &p.err);
    return &p;
}

static void test_args_forms(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "a --count 12 --number -0.5 --on",
        "--count=12 --number=-0.5 --on a",
        "-o -c 12 -x -0.5 a",
        "-oc12 a -x-0.5",
        "-c12 -ox -0.5 -- a",
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const parsed *p = parse(forms[i]);
        assert_int_equal(p->status, MOTE_OK);
        assert_true(p->options.on);
        assert_int_equal(p->options.count, 12);
        assert_true(p->options.number == -0.5);
        assert_int_equal(p->call.n_words, 1);
        assert_string_equal(p->call.words[0], "a");
    }
}

static void test_args_defaults(void **state)
{
    (void)state;
    const parsed *p = parse("a");
    assert_int_equal(p->options.count, 7);
    assert_int_equal(p->options.choice, 1);
    assert_null(p->options.text);
    setenv("MOTE_PARTS_TEST", "42", 1);
    assert_int_equal(parse("a")->options.count, 42);
    assert_int_equal(parse("a -c 3")->options.count, 3);
    setenv("MOTE_PARTS_TEST", "100", 1);
    p = parse("a");
    assert_int_equal(p->status, MOTE_E_ARG);
    assert_non_null(strstr(p->err.text, "MOTE_PARTS_TEST must be a whole number from 1 to 99"));
    /* A flag replaces its variable, which may then hold anything. */
    assert_int_equal(parse("a --count=3")->status, MOTE_OK);
    assert_int_equal(parse("a --count=3")->options.count, 3);
    assert_int_equal(parse("a --help")->status, MOTE_OK);
    setenv("MOTE_PARTS_TEST", "", 1);
    setenv("MOTE_PARTS_ITEM", "e", 1);
    p = parse("a");
    assert_int_equal(p->options.list.n, 1);
    assert_string_equal(p->options.list.items[0], "e");
    p = parse("a --item x --item y");
    assert_int_equal(p->options.list.n, 2);
    assert_string_equal(p->options.list.items[0], "x");
    unsetenv("MOTE_PARTS_ITEM");
    assert_int_equal(parse("a")->options.count, 7);
    unsetenv("MOTE_PARTS_TEST");
}

static void test_args_values(void **state)
{
    (void)state;
    assert_int_equal(parse("a --choice three")->options.choice, 2);
    assert_int_equal(parse("a --choice thre")->status, MOTE_E_ARG);
    assert_int_equal(parse("a --choice one|two")->status, MOTE_E_ARG);
    assert_string_equal(parse("a --text --on")->options.text, "--on");
    assert_false(parse("a --text --on")->options.on);
    assert_string_equal(parse("a --text=b=c")->options.text, "b=c");
    const parsed *p = parse("a --item x --item=y --item z");
    assert_int_equal(p->options.list.n, 3);
    assert_string_equal(p->options.list.items[2], "z");
    assert_int_equal(parse("a -vv -v")->call.common.verbose, 3);
    static const char *const bad[] = {
        "a -c 0",      "a -c 100", "a -c 1e1", "a -c -1",      "a -c 99999999999999999999",
        "a -x 1.01",   "a -x inf", "a -x nan", "a -x 0x1",     "a -x 1,0",
        "a --count=",  "a -c",     "a --text", "a --on=maybe", "a --onn",
        "a --choice=", "a -x 1e",  "a -Q",     "a b c",        "--on",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (parse(bad[i])->status != MOTE_E_ARG)
            fail_msg("'%s' was accepted", bad[i]);
}

static void test_args_words(void **state)
{
    (void)state;
    const parsed *p = parse("- -- --on");
    assert_int_equal(p->status, MOTE_OK);
    assert_int_equal(p->call.n_words, 2);
    assert_string_equal(p->call.words[0], "-");
    assert_string_equal(p->call.words[1], "--on");
    assert_int_equal(parse("--help")->status, MOTE_OK);
    char line[512] = "a";
    for (int i = 0; i < FLAG_LIST_MAX; i++)
        strncat(line, " --item=x", sizeof line - strlen(line) - 1);
    assert_int_equal(parse(line)->status, MOTE_OK);
    strncat(line, " --item=x", sizeof line - strlen(line) - 1);
    assert_int_equal(parse(line)->status, MOTE_E_ARG);
}

static void test_spell(void **state)
{
    (void)state;
    static const char *const words[] = {"max-tokens", "min-p", "top-p", "top-k", "temp", "json"};
    static const struct {
        const char *typed, *meant;
    } cases[] = {
        {"max-token", "max-tokens"},
        {"maxtokens", "max-tokens"},
        {"tmep", "temp"},
        {"temperature", "temp"},
        {"top_p", "top-p"},
        {"jason", "json"},
        {"zzzz", NULL},
        {"", NULL},
        {"max", "max-tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spell s = {.word = cases[i].typed};
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            spell_offer(&s, words[k]);
        if (cases[i].meant == NULL)
            assert_null(s.best);
        else
            assert_string_equal(s.best, cases[i].meant);
    }
}

/* ---- text ---- */

static const char *shown(const char *text, size_t n, text_style style)
{
    static char line[256];
    size_t at = 0;
    while (n > 0) {
        size_t n_shown;
        size_t taken = text_show(text, n, style, line + at, &n_shown);
        assert_true(taken > 0 && taken <= n);
        at += n_shown;
        text += taken;
        n -= taken;
    }
    line[at] = '\0';
    return line;
}

#define SHOWN(text, style) shown(text, sizeof(text) - 1, style)

static void test_text_show(void **state)
{
    (void)state;
    assert_string_equal(SHOWN("a\tb\nc", TEXT_LINES), "a\tb\nc");
    assert_string_equal(SHOWN("a\tb\nc", TEXT_LINE), "a\\tb\\nc");
    assert_string_equal(SHOWN("\"\\\r", TEXT_QUOTED), "\\\"\\\\\\r");
    assert_string_equal(SHOWN("\x1b[2J\x7f\0!", TEXT_LINES), "\\x1b[2J\\x7f\\x00!");
    assert_string_equal(SHOWN("\xC2\x9B"
                              "31m",
                              TEXT_LINES),
                        "\\u009b31m");
    assert_string_equal(SHOWN("\xC2\xA0\xE4\xBD\xA0\xF0\x9F\xA6\x8A", TEXT_LINE),
                        "\xC2\xA0\xE4\xBD\xA0\xF0\x9F\xA6\x8A");
    /* Truncated, a lone continuation byte, overlong, a surrogate, above U+10FFFF. */
    assert_string_equal(SHOWN("\xE4\xBD", TEXT_LINES), "\\xe4\\xbd");
    assert_string_equal(SHOWN("\x80", TEXT_LINES), "\\x80");
    assert_string_equal(SHOWN("\xC0\xAF", TEXT_LINES), "\\xc0\\xaf");
    assert_string_equal(SHOWN("\xE0\x80\xAF", TEXT_LINES), "\\xe0\\x80\\xaf");
    assert_string_equal(SHOWN("\xED\xA0\x80", TEXT_LINES), "\\xed\\xa0\\x80");
    assert_string_equal(SHOWN("\xF4\x90\x80\x80", TEXT_LINES), "\\xf4\\x90\\x80\\x80");
}

static void test_text_fit(void **state)
{
    (void)state;
    char line[64];
    text_fit(line, sizeof line, "abcdef", 6, 6);
    assert_string_equal(line, "abcdef");
    text_fit(line, sizeof line, "abcdefg", 7, 6);
    assert_string_equal(line, "abc...");
    text_fit(line, sizeof line, "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", 10, 4);
    assert_string_equal(line, "\xC3\xA9...");
    text_fit(line, sizeof line, "ab\033cdefgh", 9, 6);
    assert_string_equal(line, "ab...");
    text_fit(line, 8, "abcdefghijkl", 12, 12);
    assert_true(strlen(line) < 8);
}

static void test_text_numbers(void **state)
{
    (void)state;
    char b[TEXT_NUMBER_BYTES];
    assert_string_equal(text_count(b, 0), "0");
    assert_string_equal(text_count(b, 999), "999");
    assert_string_equal(text_count(b, 3070), "3 070");
    assert_string_equal(text_count(b, UINT64_MAX), "18 446 744 073 709 551 615");
    assert_string_equal(text_counted(b, 1, "token"), "1 token");
    assert_string_equal(text_counted(b, 3070, "token"), "3 070 tokens");
    assert_string_equal(text_bytes(b, 999), "999 B");
    assert_string_equal(text_bytes(b, 1000), "1.0 kB");
    assert_string_equal(text_bytes(b, 9949999), "9.9 MB");
    assert_string_equal(text_bytes(b, 9950000), "10 MB");
    assert_string_equal(text_bytes(b, 999499999), "999 MB");
    assert_string_equal(text_bytes(b, 999500000), "1.0 GB");
    assert_string_equal(text_bytes(b, UINT64_MAX), "18 EB");
    assert_string_equal(text_seconds(b, 0.274), "0.27 s");
    assert_string_equal(text_seconds(b, 26.34), "26.3 s");
    assert_string_equal(text_seconds(b, 59.97), "1 m 0 s");
    assert_string_equal(text_seconds(b, 70), "1 m 10 s");
    assert_string_equal(text_seconds(b, 7500), "2 h 5 m");
    assert_string_equal(text_rate(b, 8), "8.0");
    assert_string_equal(text_rate(b, 99.96), "100");
    assert_string_equal(text_rate(b, 1900), "1 900");
    assert_string_equal(text_quantity(b, 4.2055e9), "4.21 B");
    assert_string_equal(text_quantity(b, 11.8e6), "11.8 M");
}

/* ---- out_json ---- */

/* fd -1 keeps the output in the buffer. */
static void write_document(cli_out *o, strbuf *j, bool parts)
{
    jw_open(j, '{');
    jw_key(j, "a");
    jw_open(j, '[');
    for (unsigned i = 0; i < 2; i++) {
        jw_uint(j, i);
        if (parts)
            out_json_part(o, j);
    }
    jw_open(j, '{');
    jw_close(j, '}');
    if (parts)
        out_json_part(o, j);
    jw_null(j);
    jw_close(j, ']');
    if (parts)
        out_json_part(o, j);
    jw_key_text(j, "b", "x");
    jw_close(j, '}');
}

static void test_json_parts(void **state)
{
    (void)state;
    for (int parts = 0; parts < 2; parts++) {
        static cli_out o;
        strbuf j = {0};
        out_open(&o, -1);
        write_document(&o, &j, parts != 0);
        assert_int_equal(out_json(&o, &j), CLI_DONE);
        o.buffer[o.n] = '\0';
        assert_string_equal(o.buffer, "{\"a\":[0,1,{},null],\"b\":\"x\"}\n");
    }
}

static void test_json_values(void **state)
{
    (void)state;
    static cli_out o;
    strbuf j = {0};
    out_open(&o, -1);
    jw_open(&j, '[');
    jw_uint(&j, UINT64_MAX);
    jw_int(&j, INT64_MIN);
    jw_double(&j, 0.1);
    jw_double(&j, 1.0 / 3);
    jw_float(&j, 0.8f);
    jw_float(&j, 16777217.0f);
    jw_double(&j, 1e300 * 1e300);
    jw_double(&j, -0.0);
    jw_close(&j, ']');
    assert_int_equal(out_json(&o, &j), CLI_DONE);
    o.buffer[o.n] = '\0';
    assert_string_equal(o.buffer,
                        "[18446744073709551615,-9223372036854775808,0.1,0.3333333333333333,0.8,"
                        "16777216,null,-0]\n");
}

/* DEL and C1 controls never reach a terminal; on a terminal direction marks are escaped too. */
static void test_json_controls(void **state)
{
    (void)state;
    static const char text[] = "\"\\\n\t\x01\x7f\xC2\x85\xC3\xA9\xE2\x80\xAE\xFF";
    for (int terminal = 0; terminal < 2; terminal++) {
        static cli_out o;
        strbuf j = {0};
        out_open(&o, -1);
        o.terminal = terminal != 0;
        jw_open(&j, '[');
        jw_str(&j, (str){text, sizeof text - 1});
        jw_close(&j, ']');
        assert_int_equal(out_json(&o, &j), CLI_DONE);
        o.buffer[o.n] = '\0';
        assert_string_equal(o.buffer, terminal ? "[\"\\\"\\\\\\n\\t\\u0001\\u007f\\u0085\xC3\xA9"
                                                 "\\u202e\xEF\xBF\xBD\"]\n"
                                               : "[\"\\\"\\\\\\n\\t\\u0001\\u007f\\u0085\xC3\xA9"
                                                 "\xE2\x80\xAE\xEF\xBF\xBD\"]\n");
    }
}

/* ---- out ---- */

static void test_out_errors(void **state)
{
    (void)state;
    static cli_out o;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    out_open(&o, ends[1]);
    out_text(&o, "abc\n");
    assert_false(o.line_open);
    out_text(&o, "d");
    assert_true(o.line_open);
    assert_true(out_flush(&o));
    char back[8];
    assert_int_equal(read(ends[0], back, sizeof back), 5);
    assert_memory_equal(back, "abc\nd", 5);
    close(ends[1]);
    out_text(&o, "lost");
    assert_false(out_flush(&o));
    int error = o.error;
    assert_int_not_equal(error, 0);
    static const char much[2 * OUT_BYTES];
    out_write(&o, much, sizeof much);
    assert_int_equal(o.error, error);
    close(ends[0]);
}

/* ---- stop_text ---- */

/* Adds `text` in pieces of `size` bytes. Returns the output; *stopped: a stop string was found. */
static const char *stopped_text(const flag_list *words, const char *text, size_t size,
                                bool *stopped)
{
    static char passed[256];
    size_t at = 0;
    stop_text s;
    assert_int_equal(stop_text_init(&s, words, NULL), MOTE_OK);
    *stopped = false;
    for (size_t i = 0; text[i] != '\0' && !*stopped;) {
        size_t left = strlen(text + i), n = left < size ? left : size;
        size_t ready = stop_text_add(&s, text + i, n, stopped);
        memcpy(passed + at, s.held, ready);
        at += ready;
        stop_text_drop(&s, ready);
        i += n;
    }
    if (!*stopped) {
        memcpy(passed + at, s.held, s.n_held);
        at += s.n_held;
    }
    passed[at] = '\0';
    stop_text_fini(&s);
    return passed;
}

static void test_stop_text(void **state)
{
    (void)state;
    static const flag_list words = {{"END", "aab", "</x>"}, 3};
    static const struct {
        const char *text, *passed;
        bool stopped;
    } cases[] = {
        {"no stop here", "no stop here", false},
        {"some END more", "some ", true},
        {"EEND", "E", true},
        {"aaaab!", "aa", true},
        {"EN", "EN", false},
        {"</x", "</x", false},
        {"</</x>", "</", true},
        {"x END aab", "x ", true},
        {"END", "", true},
        {"", "", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t size = 1; size < 16; size++) {
            bool stopped;
            const char *passed = stopped_text(&words, cases[i].text, size, &stopped);
            assert_string_equal(passed, cases[i].passed);
            assert_int_equal(stopped, cases[i].stopped);
        }
}

/* Text that cannot be the beginning of a stop string is not held back. */
static void test_stop_text_holds_little(void **state)
{
    (void)state;
    static const flag_list words = {{"END"}, 1};
    stop_text s;
    bool stopped;
    assert_int_equal(stop_text_init(&s, &words, NULL), MOTE_OK);
    assert_int_equal(stop_text_add(&s, "abcE", 4, &stopped), 3);
    stop_text_drop(&s, 3);
    assert_int_equal(stop_text_add(&s, "N", 1, &stopped), 0);
    assert_int_equal(stop_text_add(&s, "x", 1, &stopped), 3);
    assert_false(stopped);
    stop_text_fini(&s);
    static const flag_list empty_word = {{""}, 1};
    assert_int_equal(stop_text_init(&s, &empty_word, NULL), MOTE_E_ARG);
}

/* ---- progress ---- */

static void test_progress_line(void **state)
{
    (void)state;
    char line[512];
    progress p = {.label = "prefill", .unit = PROGRESS_TOKENS, .total = 3070};
    progress_line(line, sizeof line, &p, 1535, 3.7, 100, false);
    assert_string_equal(
        line, "prefill  [############------------]  1 535 / 3 070 tokens   415 t/s   4 s left");
    progress_line(line, sizeof line, &p, 1535, 3.7, 100, true);
    assert_string_equal(line, "prefill  ████████████░░░░░░░░░░░░  1 535 / 3 070 tokens   415 t/s"
                              "   4 s left");
    progress_line(line, sizeof line, &p, 1535, 3.7, 49, true);
    assert_string_equal(line, "prefill  1 535 / 3 070 tokens   415 t/s");
    for (unsigned columns = 1; columns < 120; columns++) {
        progress_line(line, sizeof line, &p, 1535, 3.7, columns, false);
        assert_true(strlen(line) <= columns);
    }
    /* Cached tokens count for the bar, not for the rate. */
    p.from = 1000;
    progress_line(line, sizeof line, &p, 1535, 3.7, 100, false);
    assert_string_equal(
        line, "prefill  [############------------]  1 535 / 3 070 tokens   145 t/s   11 s left");
    p.from = 0;
    /* Nothing done, and more done than the total. */
    progress_line(line, sizeof line, &p, 0, 0, 100, false);
    assert_string_equal(line, "prefill  [------------------------]  0 / 3 070 tokens");
    progress_line(line, sizeof line, &p, 4000, 1, 100, false);
    assert_non_null(strstr(line, "[########################]"));
    p = (progress){.label = "loading", .unit = PROGRESS_BYTES, .total = 2700000000};
    progress_line(line, sizeof line, &p, 1700000000, 70.5, 100, false);
    assert_string_equal(line, "loading  [###############---------]  1.7 GB / 2.7 GB   24 MB/s"
                              "   41 s left");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_args_forms),
        cmocka_unit_test(test_args_defaults),
        cmocka_unit_test(test_args_values),
        cmocka_unit_test(test_args_words),
        cmocka_unit_test(test_spell),
        cmocka_unit_test(test_text_show),
        cmocka_unit_test(test_text_fit),
        cmocka_unit_test(test_text_numbers),
        cmocka_unit_test(test_json_parts),
        cmocka_unit_test(test_json_controls),
        cmocka_unit_test(test_json_values),
        cmocka_unit_test(test_out_errors),
        cmocka_unit_test(test_stop_text),
        cmocka_unit_test(test_progress_line),
        cmocka_unit_test(test_stop_text_holds_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
