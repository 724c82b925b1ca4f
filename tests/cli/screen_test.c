/* SPDX-License-Identifier: Apache-2.0 */
/* screen_test.c - word wrap of answers, typed lines to messages, typed file names; needs no
 * terminal. */
#include "base/mem.h"
#include "cli/chat/conversation.h"
#include "cli/load/typed_paths.h"
#include "cli/term/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- wrap ---- */

static unsigned width = 20;

static unsigned columns_now(void)
{
    return width;
}

static cli_out out;

static void start(wrap *w, unsigned columns)
{
    width = columns;
    out_open(&out, -1);
    wrap_begin(w, &out, columns > 0 ? columns_now : NULL);
}

static void shows(const char *expected)
{
    out.buffer[out.n] = '\0';
    assert_string_equal(out.buffer, expected);
}

/* The result is the same for the whole text and for single characters. */
static void wraps(unsigned columns, const char *text, const char *expected)
{
    wrap w;
    start(&w, columns);
    wrap_text(&w, text, strlen(text));
    wrap_end(&w);
    shows(expected);
    start(&w, columns);
    for (size_t n = strlen(text), at = 0; at < n;) {
        uint32_t code;
        size_t bytes = text_char(text + at, n - at, &code);
        bytes += bytes == 0;
        wrap_text(&w, text + at, bytes);
        at += bytes;
    }
    wrap_end(&w);
    shows(expected);
}

static void test_words(void **state)
{
    (void)state;
    wraps(20, "the quick brown fox jumps over the lazy dog",
          "the quick brown fox\njumps over the lazy\ndog");
    wraps(20, "12345678901234567890 x", "12345678901234567890\nx");
    wraps(20, "one\n\n  two  three", "one\n\n  two  three");
    wraps(20, "ends with blanks   \nnext", "ends with blanks\nnext");
    wraps(0, "no width at all means no wrapping of a line",
          "no width at all means no wrapping of a line");
}

static void test_long_words(void **state)
{
    (void)state;
    wraps(20, "go aaaa/bbbb/cccc/dddd/a/b/c/d/e", "go\naaaa/bbbb/cccc/dddd/\na/b/c/d/e");
    char text[1001], expected[1100] = "";
    memset(text, 'x', 1000);
    text[1000] = '\0';
    for (int i = 0; i < 50; i++) {
        strcat(expected, "xxxxxxxxxxxxxxxxxxxx");
        strcat(expected, i < 49 ? "\n" : "");
    }
    wraps(20, text, expected);
}

static void test_wide_characters(void **state)
{
    (void)state;
    /* Ten wide characters fill twenty columns; a line may break between any two. */
    wraps(20, "天空是蓝色的因为散射强", "天空是蓝色的因为散射\n强");
    wraps(21, "天空是蓝色的因为散射强", "天空是蓝色的因为散射\n强");
    wraps(5, "ab天空", "ab天\n空");
    /* A combining mark has no width and stays with its letter. */
    wraps(4,
          "e\xCC\x81"
          "e\xCC\x81"
          "e\xCC\x81"
          "e\xCC\x81 x",
          "e\xCC\x81"
          "e\xCC\x81"
          "e\xCC\x81"
          "e\xCC\x81\nx");
    assert_int_equal(wrap_char_columns(0x1F600), 2);
    assert_int_equal(wrap_char_columns(0x0301), 0);
    assert_int_equal(wrap_char_columns('a'), 1);
    assert_int_equal(wrap_char_columns(0x0378), 1); /* unassigned */
}

static void test_code_is_left_alone(void **state)
{
    (void)state;
    wraps(20,
          "so:\n```c\nint main(int argc, char **argv)  \n{\n\treturn 0;\n}\n```\nand that is the "
          "end of it",
          "so:\n```c\nint main(int argc, char **argv)  \n{\n        return 0;\n}\n```\nand that is "
          "the end\nof it");
    wraps(20, "a ``` in the middle is no fence at all", "a ``` in the middle\nis no fence at all");
}

static void test_resize(void **state)
{
    (void)state;
    wrap w;
    start(&w, 40);
    wrap_text(&w, "aaaa bbbb cccc dddd eeee ", 25);
    width = 12; /* the line is now longer than the window: continue on the next one */
    wrap_text(&w, "ffff gggg hhhh ", 15);
    width = 30;
    wrap_text(&w, "iiii jjjj kkkk llll mmmm nnnn", 29);
    wrap_end(&w);
    shows("aaaa bbbb cccc dddd eeee\nffff gggg\nhhhh iiii jjjj kkkk llll mmmm\nnnnn");
}

static void test_hostile_text(void **state)
{
    (void)state;
    wraps(80, "a\033[2Jb", "a\\x1b[2Jb");
    wraps(80, "\033]0;title\007", "\\x1b]0;title\\x07");
    wraps(80, "\033]52;c;cm0gLXJmIH4=\033\\", "\\x1b]52;c;cm0gLXJmIH4=\\x1b\\");
    wraps(80, "safe\rhidden", "safe\\rhidden");
    wraps(80, "a\bb\177c", "a\\x08b\\x7fc");
    wraps(80,
          "\xC2\x9B"
          "31m \xC2\x90",
          "\\u009b31m \\u0090");
    wraps(80, "x\xE2\x80\xAEy\xE2\x81\xA6z\xE2\x80\xA8", "x\\u202ey\\u2066z\\u2028");
    wraps(80, "\xFF\xC0\x80", "\\xff\\xc0\\x80");
    /* Also in a code block; an escape is not split over two lines. */
    wraps(80, "```\n\033[31m\n```\n", "```\n\\x1b[31m\n```\n");
    wraps(6, "abc \033", "abc\n\\x1b");
}

/* For random bytes the only control character in the output is the newline. */
static void test_any_bytes(void **state)
{
    (void)state;
    unsigned seed = 7;
    for (int round = 0; round < 2000; round++) {
        char text[64];
        for (size_t i = 0; i < sizeof text; i++) {
            seed = seed * 1103515245 + 12345;
            text[i] = (char)(seed >> 16);
        }
        wrap w;
        start(&w, 20 + seed % 60);
        wrap_text(&w, text, sizeof text);
        wrap_end(&w);
        for (size_t i = 0; i < out.n;) {
            uint32_t code = 0;
            size_t n = text_char(out.buffer + i, out.n - i, &code);
            assert_true(n > 0);
            assert_true(code == '\n' || (code >= 0x20 && (code < 0x7F || code >= 0xA0)));
            i += n;
        }
    }
}

/* ---- typed lines ---- */

static void reads(const char *const *lines, const char *expected, bool quoted)
{
    chat_input in = {0};
    size_t i = 0;
    do {
        assert_non_null(lines[i]);
        assert_true(chat_input_add(&in, lines[i], strlen(lines[i])));
        i++;
    } while (in.continues);
    assert_null(lines[i]);
    assert_int_equal(in.text.n, strlen(expected));
    assert_memory_equal(in.text.p, expected, in.text.n);
    assert_int_equal(in.quoted, quoted);
    chat_input_free(&in);
}

static void test_lines(void **state)
{
    (void)state;
    reads((const char *const[]){"hello", NULL}, "hello", false);
    reads((const char *const[]){"one\\", "two\\", "three", NULL}, "one\ntwo\nthree", false);
    reads((const char *const[]){"\"\"\"", "/help is text here", "", "end", "\"\"\"", NULL},
          "/help is text here\n\nend", true);
    reads((const char *const[]){"\"\"\"one", "two\"\"\"", NULL}, "one\ntwo", true);
    reads((const char *const[]){"\"\"\"one line\"\"\"", NULL}, "one line", true);
    reads((const char *const[]){"\"\"\"a\\", "b\"\"\" c", NULL}, "a\\\nb c", true);
    reads((const char *const[]){"pasted\ntext", NULL}, "pasted\ntext", false);
}

/* ---- typed paths ---- */

static void write_file(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* The image named in `text` is at [begin, end) and has this path; NULL: none. */
static void names(const char *text, const char *path, size_t begin, size_t end)
{
    typed_image found;
    const bool any = typed_image_find(&found, text, strlen(text), 0);
    if (any != (path != NULL))
        fail_msg("'%s': %s", text, any ? found.path : "none");
    if (!any)
        return;
    assert_string_equal(found.path, path);
    assert_int_equal(found.begin, begin);
    assert_int_equal(found.end, end);
    mem_free(found.path);
}

static void test_typed_images(void **state)
{
    (void)state;
    static const char png[] = "\x89PNG\r\n\x1a\n----------------";
    char text[9000];
    write_file("typed a.png", png, sizeof png);
    write_file("typed.PNG", png, sizeof png);
    write_file("typed.txt.png", "text", 4);
    names("see typed.PNG", "typed.PNG", 4, 13);
    names("what is in typed.PNG?", "typed.PNG", 11, 20);
    names("'typed a.png' and more", "typed a.png", 0, 13);
    names("a \"typed a.png\"", "typed a.png", 2, 15);
    names("typed\\ a.png", "typed a.png", 0, 12);
    names("./typed a.png is here", "./typed a.png", 0, 13);
    names("typed.txt.png", NULL, 0, 0); /* not an image */
    names("typed.PNGs none.png", NULL, 0, 0);
    names("'typed.PNG", NULL, 0, 0); /* the quote is open */
    names("x-typed.PNG", NULL, 0, 0);
    names("file:///typed%2", NULL, 0, 0); /* a broken URL */
    names("", NULL, 0, 0);
    char here[4096];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(text, sizeof text, "file://localhost%s/typed%%20a.png", here);
    char path[4200];
    snprintf(path, sizeof path, "%s/typed a.png", here);
    names(text, path, 0, strlen(text));
    /* After a long text. */
    memset(text, ' ', sizeof text);
    memcpy(text + 8500, "typed.PNG", 10);
    names(text, "typed.PNG", 8500, 8509);
    remove("typed a.png");
    remove("typed.PNG");
    remove("typed.txt.png");
}

static void takes(const char *text, bool all, const char *path, const char *rest)
{
    char *taken = typed_path_take(&text, all);
    assert_string_equal(taken, path);
    assert_string_equal(text, rest);
    mem_free(taken);
}

static void test_typed_paths(void **state)
{
    (void)state;
    setenv("HOME", "/dev/shm/someone", 1);
    write_file("typed a b.png", "x", 1);
    takes("typed a b.png what is it?", false, "typed a b.png", "what is it?");
    takes("typed\\ a\\ b.png  what", false, "typed a b.png", "what");
    takes("none.png what is it?", false, "none.png", "what is it?");
    takes("\"no ne.png\" what", false, "no ne.png", "what");
    takes("~/x", false, "/dev/shm/someone/x", "");
    takes("new file.json", true, "new file.json", "");
    takes("'new file.json'", true, "new file.json", "");
    takes("new\\ file.json \n", true, "new file.json", "");
    remove("typed a b.png");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),           cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_wide_characters), cmocka_unit_test(test_code_is_left_alone),
        cmocka_unit_test(test_resize),          cmocka_unit_test(test_hostile_text),
        cmocka_unit_test(test_any_bytes),       cmocka_unit_test(test_lines),
        cmocka_unit_test(test_typed_images),    cmocka_unit_test(test_typed_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
