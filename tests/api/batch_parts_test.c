/* SPDX-License-Identifier: Apache-2.0 */
/* batch_parts_test.c - members of JSON texts, forms, the order of lines, the journal. */
#define _DEFAULT_SOURCE
#include "base/os.h"
#include "server/batch/batch_api.h"
#include "server/batch/batch_journal.h"
#include "server/batch/batch_run.h"
#include "server/batch/file_store.h"
#include "server/batch/json_span.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- json_span ---- */

static void members_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *object, *name, *value; /* NULL: none */
    } cases[] = {
        {"{\"a\":1}", "a", "1"},
        {" { \"a\" : 1 , \"b\" : [1, {\"a\": 2}] } ", "b", "[1, {\"a\": 2}]"},
        {"{\"x\":{\"a\":1}}", "a", NULL},
        {"{\"a\":1,\"a\":2}", "a", "2"},
        {"{\"s\":\"}{\\\"],\",\"a\":true}", "a", "true"},
        {"{\"a\":\"\\\\\",\"b\":3}", "b", "3"},
        {"{\"a\":", "a", NULL},
        {"{\"a\":\"x", "a", NULL},
        {"{\"a\":[1,2", "a", NULL},
        {"{\"a\"", "a", NULL},
        {"{", "a", NULL},
        {"", "a", NULL},
        {"[\"a\",1]", "a", NULL},
        {"{\"a\" 1}", "a", NULL},
        {"{\"a\":1 \"b\":2}", "b", NULL},
        {"{\"str\\u0065am\":true}", "stream", "true"},
        {"{\"\\u0061\":1,\"a\\u0000\":2}", "a", "1"},
        {"{\"\\u006\":1}", "a", NULL},
        {"{\"a\\q\":1}", "a", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        str value = {NULL, 0};
        const bool found = json_span_member(str_of(cases[i].object), cases[i].name, &value);
        if (found != (cases[i].value != NULL) || (found && !str_is(value, cases[i].value)))
            fail_msg("%s: %s is %.*s", cases[i].object, cases[i].name, STR_ARG(value));
    }
    assert_true(json_span_is_object(str_of(" {} \r")));
    assert_false(json_span_is_object(str_of("{} x")));
    assert_false(json_span_is_object(str_of("{\"}")));
    assert_false(json_span_is_object(str_of("[]")));
    assert_true(json_span_is_string(str_of("\"\\/v1\\/chat\""), "/v1/chat"));
    assert_true(json_span_is_string(str_of("\"P\\u004fST\""), "POST"));
    assert_false(json_span_is_string(str_of("\"POS\""), "POST"));
    assert_false(json_span_is_string(str_of("\"POSTS\""), "POST"));
    assert_false(json_span_is_string(str_of("\"POS\\u1054\""), "POST"));
    assert_false(json_span_is_string(str_of("POST"), "POST"));
    assert_int_equal(json_span_count(str_of("{\"n\":120}"), "n"), 120);
    assert_int_equal(json_span_count(str_of("{\"n\":-1}"), "n"), 0);
    assert_int_equal(json_span_count(str_of("{\"n\":1.5}"), "n"), 0);
}

/* ---- forms ---- */

static void forms_are_split(void **state)
{
    (void)state;
    static const char form[] =
        "--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
        "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n"
        "Content-Type: text/plain\r\n\r\n--B\n\r\n--\r\nx--B\r\n\r\n--B--\r\n";
    str rest = {form, sizeof form - 1}, boundary = {"", 0};
    form_part part;
    assert_true(form_next(&rest, &boundary, &part));
    assert_true(str_is(part.name, "purpose") && str_is(part.contents, "batch"));
    assert_int_equal(part.filename.n, 0);
    assert_true(form_next(&rest, &boundary, &part));
    assert_true(str_is(part.name, "file") && str_is(part.filename, "a.jsonl"));
    assert_true(str_is(part.contents, "--B\n\r\n--\r\nx--B\r\n"));
    assert_false(form_next(&rest, &boundary, &part));
    assert_non_null(rest.p);
}

/* Every cut of a form is malformed, and no byte behind the cut is read (with a sanitizer). */
static void cut_forms_are_refused(void **state)
{
    (void)state;
    static const char form[] =
        "--B\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--B--";
    for (size_t n = 0; n + 1 < sizeof form; n++) {
        char *copy = malloc(n + 1);
        assert_non_null(copy);
        memcpy(copy, form, n);
        str rest = {copy, n}, boundary = {"", 0};
        form_part part;
        while (form_next(&rest, &boundary, &part))
            ;
        assert_null(rest.p);
        free(copy);
    }
}

/* ---- lines and journal ---- */

static char directory[] = "/tmp/mote-batch-parts-XXXXXX";
static char input[64], output[64];

static int make_directory(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL)
        return 1;
    snprintf(input, sizeof input, "%s/in", directory);
    snprintf(output, sizeof output, "%s/out", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(input);
    unlink(output);
    return rmdir(directory);
}

static void write_file(const char *path, const char *text)
{
    unlink(path);
    assert_int_equal(os_file_replace(path, text, strlen(text), NULL), MOTE_OK);
}

#define LINE(id, messages)                                                                         \
    "{\"custom_id\":\"" id "\",\"url\":\"/v1/chat/completions\",\"body\":{\"messages\":" messages  \
    "}}\n"

static void lines_are_sorted_by_prompt(void **state)
{
    (void)state;
    batch_lines lines;
    batch_part part = {0};
    write_file(input, LINE("1", "[\"sys A\",\"q1\"]")
                          LINE("2", "[\"sys B\",\"q1\"]") "\n" LINE("3", "[\"sys A\",\"q0\"]")
                              LINE("4", "[\"sys B\",\"q0\"]") "no json\n" LINE("3", "[\"sys A\"]"));
    assert_int_equal(batch_lines_open(&lines, input, &part, NULL), MOTE_OK);
    assert_int_equal(lines.n, 6);
    assert_int_equal(lines.n_order, 6);
    uint32_t changes = 0; /* of the system prompt, from line to line */
    for (uint32_t i = 1; i < lines.n_order; i++) {
        const str a = lines.order[i - 1]->prompt, b = lines.order[i]->prompt;
        changes += a.n < 7 || b.n < 7 || memcmp(a.p, b.p, 7) != 0;
    }
    assert_true(changes <= 2);
    assert_int_equal(lines.lines[2].number, 3);
    assert_false(lines.lines[2].repeated);
    assert_true(lines.lines[5].repeated);
    assert_null(batch_lines_find(&lines, 2));
    assert_ptr_equal(batch_lines_find(&lines, 6), &lines.lines[5]);
    char id[BATCH_ID_BYTES];
    batch_line_id(&lines.lines[3], id);
    assert_ptr_equal(batch_lines_find_id(&lines, str_of(id)), &lines.lines[3]);
    id[BATCH_ID_BYTES - 2] ^= 1;
    assert_null(batch_lines_find_id(&lines, str_of(id)));
    batch_lines_close(&lines);
    uint32_t sum = 0;
    for (part.shards = 4, part.shard = 1; part.shard <= 4; part.shard++) {
        assert_int_equal(batch_lines_open(&lines, input, &part, NULL), MOTE_OK);
        sum += lines.n_order;
        batch_lines_close(&lines);
    }
    assert_int_equal(sum, 6);
    mote_error err;
    assert_int_equal(batch_lines_open(&lines, input, &(batch_part){.most = 6}, NULL), MOTE_OK);
    batch_lines_close(&lines);
    assert_int_equal(batch_lines_open(&lines, input, &(batch_part){.most = 5}, &err), MOTE_E_ARG);
    assert_non_null(strstr(err.text, "more than 5 lines"));
    write_file(input, "");
    assert_int_equal(batch_lines_open(&lines, input, &(batch_part){0}, NULL), MOTE_OK);
    assert_int_equal(lines.n, 0);
    batch_lines_close(&lines);
}

static void add_result(batch_journal *j, uint32_t i, bool failed)
{
    char id[BATCH_ID_BYTES], text[128];
    batch_line *line = &j->lines->lines[i];
    batch_line_id(line, id);
    snprintf(text, sizeof text, "{\"id\":\"%s\",\"response\":{\"status_code\":%d}}\n", id,
             failed ? 400 : 200);
    assert_int_equal(batch_journal_add(j, line, str_of(text), failed, NULL), MOTE_OK);
}

/* The journal is cut at every byte, as a crash or a torn write may leave it. The lines that are whole
 * are done, the others not, and the file continues. */
static void cut_journals_continue(void **state)
{
    (void)state;
    enum { N = 3 };
    batch_lines lines;
    batch_journal j;
    char whole[512];
    size_t bytes = 0;
    const batch_part all = {0};
    write_file(input, LINE("1", "[1]") LINE("2", "[2]") LINE("3", "[3]"));
    unlink(output);
    assert_int_equal(batch_lines_open(&lines, input, &all, NULL), MOTE_OK);
    assert_int_equal(batch_journal_open(&j, output, &lines, JOURNAL_CONTINUE, 0600, NULL), MOTE_OK);
    for (uint32_t i = N; i > 0; i--)
        add_result(&j, i - 1, i == 2);
    assert_false(batch_journal_in_order(&j));
    bytes = (size_t)j.bytes;
    assert_true(pread(j.fd, whole, sizeof whole, 0) == (ssize_t)bytes);
    mote_error err;
    batch_journal other;
    assert_int_equal(batch_journal_open(&other, output, &lines, JOURNAL_CONTINUE, 0600, &err),
                     MOTE_E_IO);
    batch_journal_close(&j);
    batch_lines_close(&lines);
    for (size_t n = 0; n <= bytes; n++) {
        unlink(output);
        assert_int_equal(os_file_replace(output, whole, n, NULL), MOTE_OK);
        assert_int_equal(batch_lines_open(&lines, input, &all, NULL), MOTE_OK);
        assert_int_equal(batch_journal_open(&j, output, &lines, JOURNAL_CONTINUE, 0600, &err),
                         MOTE_OK);
        assert_int_equal(j.n_done, n / (bytes / N));
        for (uint32_t i = 0; i < N; i++)
            if (!lines.lines[i].done)
                add_result(&j, i, i == 1);
        assert_int_equal(j.bytes, bytes);
        assert_int_equal(j.n_failed, 1);
        assert_int_equal(batch_journal_export(&j, output, JOURNAL_ALL, &err), MOTE_OK);
        batch_journal_close(&j);
        assert_int_equal(batch_journal_open(&j, output, &lines, JOURNAL_CONTINUE, 0600, &err),
                         MOTE_OK);
        batch_journal_close(&j);
        batch_lines_close(&lines);
        assert_int_equal(batch_lines_open(&lines, input, &all, NULL), MOTE_OK);
        assert_int_equal(batch_journal_open(&j, output, &lines, JOURNAL_CONTINUE, 0600, &err),
                         MOTE_OK);
        assert_int_equal(j.n_done, N);
        assert_true(batch_journal_in_order(&j));
        batch_journal_close(&j);
        batch_lines_close(&lines);
    }
}

static void foreign_files_stay(void **state)
{
    (void)state;
    static const char *const texts[] = {"hello", "{\"id\":\"x\"}\n", "hello\n", "\n"};
    batch_lines lines;
    batch_journal j;
    char got[64];
    mote_error err;
    write_file(input, LINE("1", "[1]"));
    assert_int_equal(batch_lines_open(&lines, input, &(batch_part){0}, NULL), MOTE_OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_file(output, texts[i]);
        assert_int_equal(batch_journal_open(&j, output, &lines, JOURNAL_CONTINUE, 0600, &err),
                         MOTE_E_MISMATCH);
        FILE *f = fopen(output, "r");
        assert_non_null(f);
        const size_t n = fread(got, 1, sizeof got, f);
        fclose(f);
        assert_true(str_is((str){got, n}, texts[i]));
    }
    batch_lines_close(&lines);
}

/* Opens a journal that has `text` behind one good result. Returns the number of results. */
static uint32_t results_behind(const char *text, size_t n, journal_opening how, mote_status wanted)
{
    batch_lines lines;
    batch_journal j;
    mote_error err;
    uint32_t done = 0;
    write_file(input, LINE("1", "[1]") LINE("2", "[2]"));
    unlink(output);
    assert_int_equal(batch_lines_open(&lines, input, &(batch_part){0}, NULL), MOTE_OK);
    assert_int_equal(batch_journal_open(&j, output, &lines, how, 0600, NULL), MOTE_OK);
    add_result(&j, 0, false);
    assert_true(write(j.fd, text, n) == (ssize_t)n);
    const uint64_t bytes = j.bytes;
    batch_journal_close(&j);
    assert_int_equal(batch_journal_open(&j, output, &lines, how, 0600, &err), wanted);
    if (wanted == MOTE_OK) {
        done = j.n_done;
        assert_int_equal(j.bytes, bytes); /* and what was behind is gone */
        assert_int_equal(lseek(j.fd, 0, SEEK_END), bytes);
        batch_journal_close(&j);
    }
    batch_lines_close(&lines);
    return done;
}

/* What a power cut leaves behind the lines that were on the disk. */
static void damaged_journals_continue(void **state)
{
    (void)state;
    static const char zeros[] = "\0\0\0\0\0\n", half[] = "{\"id\":\"batch\0\0\0\0\n{}\n";
    static const char other[] = "{\"id\":\"x\"}\n";
    for (journal_opening how = JOURNAL_CONTINUE; how <= JOURNAL_OWN; how++) {
        if (how == JOURNAL_RESTART)
            continue;
        assert_int_equal(results_behind(zeros, sizeof zeros - 1, how, MOTE_OK), 1);
        assert_int_equal(results_behind(half, sizeof half - 1, how, MOTE_OK), 1);
    }
    assert_int_equal(results_behind(other, sizeof other - 1, JOURNAL_OWN, MOTE_OK), 1);
    results_behind(other, sizeof other - 1, JOURNAL_CONTINUE, MOTE_E_MISMATCH);
}

/* Instead of the C library's: a file system that does not shorten files. */
static bool keeps_length;

int ftruncate(int fd, off_t bytes)
{
    if (!keeps_length)
        return (int)syscall(SYS_ftruncate, fd, bytes);
    errno = EIO;
    return -1;
}

/* A result that does not fit on the disk leaves nothing that the next one continues. */
static void failed_result_is_overwritten(void **state)
{
    (void)state;
    batch_lines lines;
    batch_journal j;
    mote_error err;
    struct rlimit old, small;
    write_file(input, LINE("1", "[1]") LINE("2", "[2]"));
    unlink(output);
    assert_int_equal(batch_lines_open(&lines, input, &(batch_part){0}, NULL), MOTE_OK);
    assert_int_equal(batch_journal_open(&j, output, &lines, JOURNAL_OWN, 0600, NULL), MOTE_OK);
    add_result(&j, 0, false);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = j.bytes + 10;
    setrlimit(RLIMIT_FSIZE, &small);
    keeps_length = true;
    assert_int_equal(
        batch_journal_add(&j, &lines.lines[1], str_of("{\"id\":\"partly\"}\n"), false, &err),
        MOTE_E_IO);
    keeps_length = false;
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(lseek(j.fd, 0, SEEK_END), j.bytes + 10);
    add_result(&j, 1, false);
    batch_journal_close(&j);
    assert_int_equal(batch_journal_open(&j, output, &lines, JOURNAL_CONTINUE, 0600, &err), MOTE_OK);
    assert_int_equal(j.n_done, 2);
    batch_journal_close(&j);
    batch_lines_close(&lines);
}

static void pauses_grow_to_a_limit(void **state)
{
    (void)state;
    assert_true(batch_retry_pause(0) <= 0.25);
    assert_true(batch_retry_pause(3) > batch_retry_pause(2));
    assert_true(batch_retry_pause(8) <= 16);
    assert_true(batch_retry_pause(UINT32_MAX) <= 16); /* lines of the server wait for hours */
}

static void count_data(void *with, const char *name)
{
    (void)name;
    ++*(size_t *)with;
}

static file_store *store_open(const char *path)
{
    static const file_store_limits most = {.files = 10, .total_bytes = 1000};
    static const log_options quiet = {.level = -1};
    file_store *s;
    mote_error err;
    assert_int_equal(file_store_open(&s, path, &most, &quiet, &err), MOTE_OK);
    return s;
}

/* Whatever step of an upload fails, no contents without a file stay. */
static void failed_uploads_leave_nothing(void **state)
{
    (void)state;
    char store[64], path[96];
    file_store *s;
    stored_file file = {.ns = 1, .name = "a", .purpose = "batch"};
    file_store_stats stats;
    snprintf(store, sizeof store, "%s/files", directory);
    s = store_open(store);
    for (uint64_t at = 1;; at++) {
        size_t n = 0;
        mote_error err;
        os_fail_at(at);
        const mote_status status = file_store_add(s, &file, str_of("contents"), &err);
        const bool failed = os_failed();
        os_fail_at(0);
        if (!failed)
            break;
        assert_int_equal(status, MOTE_E_IO);
        file_store_each(s, "file-", "", count_data, &n);
        assert_int_equal(n, 0);
        file_store_read_stats(s, &stats);
        assert_int_equal(stats.files + stats.bytes, 0);
    }
    file_store_read_stats(s, &stats);
    assert_int_equal(stats.files, 1);
    assert_true(file_store_remove(s, str_of(file.id), 1));
    file_store_close(s);
    snprintf(path, sizeof path, "%s/lock", store);
    unlink(path);
    rmdir(store);
}

static size_t store_entries(const file_store *s)
{
    size_t n = 0;
    file_store_each(s, "file-", "", count_data, &n);
    return n;
}

/* What cannot be read at a start is not removed by it; contents without metadata and files with damaged
 * metadata are. */
static void unreadable_files_stay(void **state)
{
    (void)state;
    enum { LISTED, UNREAD, SHORT, BAD, ORPHAN, N };
    char store[64], path[FILE_PATH_BYTES], aside[FILE_PATH_BYTES];
    stored_file f[N], found;
    file_store_stats stats;
    snprintf(store, sizeof store, "%s/files", directory);
    file_store *s = store_open(store);
    for (size_t i = 0; i < N; i++) {
        f[i] = (stored_file){.ns = 1, .name = "a", .purpose = "batch"};
        assert_int_equal(file_store_add(s, &f[i], str_of("contents"), NULL), MOTE_OK);
    }
    snprintf(aside, sizeof aside, "%s/aside", store);
    file_store_path(s, f[UNREAD].id, ".json", path);
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(mkdir(path, 0700), 0); /* open() or read() fails */
    file_store_path(s, f[SHORT].id, ".data", path);
    assert_int_equal(truncate(path, 3), 0);
    file_store_path(s, f[BAD].id, ".json", path);
    write_file(path, "{\"id\":");
    file_store_path(s, f[ORPHAN].id, ".json", path);
    assert_int_equal(unlink(path), 0);
    file_store_close(s);

    s = store_open(store);
    file_store_read_stats(s, &stats);
    assert_int_equal(stats.files, 1);
    assert_true(file_store_find(s, str_of(f[LISTED].id), 1, &found));
    assert_int_equal(store_entries(s), 6);
    assert_false(file_store_is_gone(s, f[UNREAD].id));
    assert_false(file_store_is_gone(s, f[SHORT].id));
    assert_true(file_store_is_gone(s, f[BAD].id));
    assert_true(file_store_is_gone(s, f[ORPHAN].id));
    file_store_path(s, f[UNREAD].id, ".json", path);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rename(aside, path), 0);
    file_store_path(s, f[SHORT].id, ".data", path);
    write_file(path, "contents");
    file_store_close(s);

    s = store_open(store); /* readable again */
    for (size_t i = LISTED; i <= SHORT; i++)
        assert_true(file_store_remove(s, str_of(f[i].id), 1));
    assert_int_equal(store_entries(s), 0);
    file_store_close(s);
    snprintf(path, sizeof path, "%s/lock", store);
    unlink(path);
    assert_int_equal(rmdir(store), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_found),         cmocka_unit_test(forms_are_split),
        cmocka_unit_test(cut_forms_are_refused),     cmocka_unit_test(lines_are_sorted_by_prompt),
        cmocka_unit_test(cut_journals_continue),     cmocka_unit_test(foreign_files_stay),
        cmocka_unit_test(damaged_journals_continue), cmocka_unit_test(failed_result_is_overwritten),
        cmocka_unit_test(pauses_grow_to_a_limit),    cmocka_unit_test(failed_uploads_leave_nothing),
        cmocka_unit_test(unreadable_files_stay),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
