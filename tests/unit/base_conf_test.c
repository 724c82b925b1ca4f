/* SPDX-License-Identifier: Apache-2.0 */
/* base_conf_test.c - configuration files: sections, comments, quotes, errors with line numbers. */
#include "base/conf_file.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* All lines as "LINE|section|key|value;", a section line as "LINE|section;". */
static void parse(const char *text, size_t n, char *out, size_t room)
{
    conf_file f;
    mote_error err;
    char *exact = malloc(n + 1); /* so that a sanitizer sees reads behind the text */
    assert_non_null(exact);
    memcpy(exact, text, n);
    mote_status status = conf_file_parse(&f, "file", (str){exact, n}, &err);
    free(exact);
    if (status != MOTE_OK) {
        assert_int_equal(status, MOTE_E_ARG);
        assert_int_equal(f.n, 0);
        snprintf(out, room, "%s", err.text);
        return;
    }
    out[0] = '\0';
    for (uint32_t i = 0; i < f.n; i++) {
        const conf_line *l = &f.lines[i];
        size_t at = strlen(out);
        if (l->key == NULL)
            snprintf(out + at, room - at, "%u|%s;", (unsigned)l->number, l->section);
        else
            snprintf(out + at, room - at, "%u|%s|%s|%s;", (unsigned)l->number, l->section, l->key,
                     l->value);
    }
    conf_file_fini(&f);
}

static void texts_give_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text, *lines;
    } rows[] = {
        {"", ""},
        {"\n\n# only\n   # comments\n", ""},
        {"a=1", "1||a|1;"},
        {"  a  =  1  \n", "1||a|1;"},
        {"a = 1\r\nb = 2\r\n", "1||a|1;2||b|2;"},
        {"\xEF\xBB\xBFpi = 3\n", "1||pi|3;"},
        {"a = 1 # one\nb = 2# two\nc = #\nd =\n", "1||a|1;2||b|2# two;3||c|;4||d|;"},
        {"a = \" x # y \" # z\nb = \"\"\n", "1||a| x # y ;2||b|;"},
        {"a = x = y\n", "1||a|x = y;"},
        {"a = say \"hi\"\n", "1||a|say \"hi\";"},
        {"[s]\na = 1\n[ model qwen3.5:4b ] # both\nb = 2\n[s]\na = 3",
         "1|s;2|s|a|1;3|model qwen3.5:4b;4|model qwen3.5:4b|b|2;5|s;6|s|a|3;"},
        {"gpt-4o-mini = qwen3.5:4b:nothink", "1||gpt-4o-mini|qwen3.5:4b:nothink;"},
        {"\n[s\n", "file:2: a section must end with ], got '[s'"},
        {"[", "file:1: a section must end with ], got '['"},
        {"a = 1\nwhat\n", "file:2: a line must be key = value or [section], got 'what'"},
        {" = 1", "file:1: a line must be key = value or [section], got '= 1'"},
        {"a # b = 1", "file:1: a line must be key = value or [section], got 'a'"},
        {"a = \"b", "file:1: a quoted value must end with \", got 'a = \"b'"},
        {"a = \"b\" c", "file:1: a quoted value must end with \", got 'a = \"b\" c'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char got[512];
        parse(rows[i].text, strlen(rows[i].text), got, sizeof got);
        assert_string_equal(got, rows[i].lines);
    }
    char got[512];
    parse("a = 1\nb\0c = 2", 13, got, sizeof got);
    assert_string_equal(got, "file:2: the line contains a zero byte");
}

/* Every text of up to six of these bytes is parsed or rejected, without a bad access. */
static void no_text_breaks_the_parser(void **state)
{
    (void)state;
    static const char bytes[] = "[]=\"# \na";
    enum { N = sizeof bytes - 1 };
    for (unsigned code = 0; code < N * N * N * N * N * N; code++) {
        char text[6], got[512];
        for (unsigned i = 0, rest = code; i < sizeof text; i++, rest /= N)
            text[i] = bytes[rest % N];
        parse(text, code % (sizeof text + 1), got, sizeof got);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    uint64_t before = mem_count().blocks;
    for (uint64_t at = 1;; at++) {
        conf_file f;
        mote_error err;
        mem_fail_at(at);
        mote_status status = conf_file_parse(&f, "file", str_of("a = 1\n[s]\nb = 2\n"), &err);
        bool failed = mem_failed();
        mem_fail_at(0);
        assert_int_equal(status, failed ? MOTE_E_MEMORY : MOTE_OK);
        conf_file_fini(&f);
        assert_int_equal(mem_count().blocks, before);
        if (!failed)
            break;
    }
}

static void files_are_read(void **state)
{
    (void)state;
    char path[] = "mote-conf-XXXXXX", absent[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    snprintf(absent, sizeof absent, "%s/x", path);
    assert_int_equal(write(fd, "a = 1\n", 6), 6);
    conf_file f;
    mote_error err;
    bool found = false;
    assert_int_equal(conf_file_read(&f, path, &found, &err), MOTE_OK);
    assert_true(found && f.n == 1 && strcmp(f.lines[0].value, "1") == 0);
    assert_string_equal(f.name, path);
    conf_file_fini(&f);

    assert_int_equal(conf_file_read(&f, absent, &found, &err), MOTE_OK);
    assert_true(!found && f.n == 0);
    assert_int_equal(conf_file_read(&f, absent, NULL, &err), MOTE_E_IO);
    assert_int_equal(conf_file_read(&f, ".", &found, &err), MOTE_E_IO);
    assert_true(found);
    assert_int_equal(ftruncate(fd, CONF_FILE_MAX_BYTES + 1), 0);
    assert_int_equal(conf_file_read(&f, path, &found, &err), MOTE_E_IO);
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_give_lines),
        cmocka_unit_test(no_text_breaks_the_parser),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(files_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
