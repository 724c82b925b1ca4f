/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_writer_test.c - what the writer writes the reader reads; partial files; wrong use. */
#include "gguf/gguf_writer.h"

#include "base/mem.h"
#include "gguf/gguf_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/mote-writer-XXXXXX";
static char path[64], partial[80], journal[96];

static const uint64_t vector[] = {5}, matrix[] = {64, 3}, large[] = {1 << 20, 5};
static const float values[] = {1, 2, 3, 4, 5};

static void put_metadata(gguf_writer *w)
{
    static const int32_t numbers[] = {11, -1};
    gguf_writer_str(w, "general.architecture", str_of("qwen35"));
    gguf_writer_u32(w, "a.u32", 4000000000u);
    gguf_writer_i32(w, "a.i32", -5);
    gguf_writer_f32(w, "a.f32", 1.5f);
    gguf_writer_bool(w, "a.bool", true);
    gguf_writer_array(w, "a.numbers", GGUF_I32, numbers, 2);
    gguf_writer_strs(w, "a.words", 2);
    gguf_writer_item(w, str_of("one"));
    gguf_writer_item(w, str_of(""));
}

static gguf_writer *new_writer(bool with_large)
{
    gguf_writer *w;
    mote_error err = {0};
    assert_int_equal(gguf_writer_new(&w, &err), MOTE_OK);
    put_metadata(w);
    assert_int_equal(gguf_writer_tensor(w, str_of("vector"), QUANT_F32, 1, vector, &err), MOTE_OK);
    if (with_large)
        assert_int_equal(gguf_writer_tensor(w, str_of("large"), QUANT_F32, 2, large, &err),
                         MOTE_OK);
    assert_int_equal(gguf_writer_tensor(w, str_of("matrix"), QUANT_Q8_0, 2, matrix, &err), MOTE_OK);
    return w;
}

/* Writes tensor data from tensor `first` of new_writer(true), at most `n` tensors. */
static void put_data(gguf_writer *w, uint32_t first, uint32_t n)
{
    mote_error err = {0};
    unsigned char *block = malloc(1 << 20);
    for (uint32_t i = first; i < 3 && i < first + n; i++) {
        uint64_t left = gguf_writer_tensor_bytes(w, i);
        while (left > 0) {
            const size_t some = left < 1 << 20 ? (size_t)left : 1 << 20;
            memset(block, (int)(i + left % 251), some);
            assert_int_equal(gguf_writer_data(w, block, some, &err), MOTE_OK);
            left -= some;
        }
    }
    free(block);
}

static void written_file_is_read(void **state)
{
    (void)state;
    gguf_writer *w = new_writer(false);
    mote_error err = {0};
    uint32_t done = 7, u32 = 0;
    unsigned char q8[3 * 2 * 34];
    memset(q8, 7, sizeof q8);
    assert_int_equal(gguf_writer_begin(w, path, str_of("source"), &done, &err), MOTE_OK);
    assert_int_equal(done, 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(gguf_writer_data(w, values, 8, &err), MOTE_OK);
    assert_int_equal(gguf_writer_data(w, (const char *)values + 8, 12, &err), MOTE_OK);
    assert_int_equal(gguf_writer_commit(w, &err), MOTE_E_ARG);
    assert_int_equal(gguf_writer_data(w, q8, sizeof q8, &err), MOTE_OK);
    assert_int_equal(gguf_writer_data(w, q8, 1, &err), MOTE_E_ARG);
    assert_int_equal(gguf_writer_commit(w, &err), MOTE_OK);
    gguf_writer_free(w);
    assert_int_equal(access(partial, F_OK), -1);
    assert_int_equal(access(journal, F_OK), -1);

    gguf_files f;
    assert_int_equal(gguf_files_open(&f, path, &err), MOTE_OK);
    assert_int_equal(gguf_n_kv(f.gguf), 7);
    assert_int_equal(gguf_get_u32(f.gguf, "a.u32", &u32, NULL, &err), MOTE_OK);
    assert_true(u32 == 4000000000u);
    const gguf_kv *words = gguf_find(f.gguf, "a.words");
    gguf_str_walk walk = {0};
    str word;
    assert_true(gguf_next_str(words, &walk, &word) && str_is(word, "one"));
    const gguf_tensor *v = gguf_find_tensor(f.gguf, "vector"),
                      *m = gguf_find_tensor(f.gguf, "matrix");
    assert_memory_equal(v->data, values, sizeof values);
    assert_memory_equal(m->data, q8, sizeof q8);
    assert_int_equal(m->offset % 32, 0);
    gguf_files_close(&f);
    unlink(path);
}

static uint64_t file_hash(const char *name)
{
    FILE *f = fopen(name, "rb");
    uint64_t h = 1469598103934665603u;
    assert_non_null(f);
    for (int c = getc(f); c != EOF; c = getc(f))
        h = (h ^ (uint64_t)c) * 1099511628211u;
    fclose(f);
    return h;
}

/* Starts a file, stops after `tensors` tensors, and starts again; returns what is continued. */
static uint32_t interrupt(uint32_t tensors, const char *first, const char *second)
{
    mote_error err = {0};
    uint32_t done;
    gguf_writer *w = new_writer(true);
    assert_int_equal(gguf_writer_begin(w, path, str_of(first), &done, &err), MOTE_OK);
    assert_int_equal(done, 0);
    put_data(w, 0, tensors);
    gguf_writer_free(w);
    w = new_writer(true);
    assert_int_equal(gguf_writer_begin(w, path, str_of(second), &done, &err), MOTE_OK);
    put_data(w, done, 3);
    assert_int_equal(gguf_writer_commit(w, &err), MOTE_OK);
    gguf_writer_free(w);
    return done;
}

static void interrupted_file_continues(void **state)
{
    (void)state;
    assert_int_equal(interrupt(0, "s", "s"), 0);
    const uint64_t wanted = file_hash(path);
    unlink(path);
    assert_int_equal(interrupt(1, "s", "s"), 0); /* too little for a line of the journal */
    assert_true(file_hash(path) == wanted);
    unlink(path);
    assert_int_equal(interrupt(2, "s", "s"), 2);
    assert_true(file_hash(path) == wanted);
    unlink(path);
    assert_int_equal(interrupt(3, "s", "s"), 3);
    assert_true(file_hash(path) == wanted);
    unlink(path);
    assert_int_equal(interrupt(2, "s", "other"), 0); /* a change of the source */
    assert_true(file_hash(path) == wanted);
    unlink(path);
}

/* The journal of another version of mote starts again. */
static void other_version(void **state)
{
    (void)state;
    mote_error err = {0};
    uint32_t done;
    gguf_writer *w = new_writer(true);
    assert_int_equal(gguf_writer_begin(w, path, str_of("s"), &done, &err), MOTE_OK);
    put_data(w, 0, 2);
    gguf_writer_free(w);
    FILE *f = fopen(journal, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)strlen("mote-partial "), SEEK_SET), 0);
    assert_int_equal(getc(f), MOTE_VERSION[0]);
    assert_int_equal(fseek(f, -1, SEEK_CUR), 0);
    putc('9', f);
    fclose(f);
    w = new_writer(true);
    assert_int_equal(gguf_writer_begin(w, path, str_of("s"), &done, &err), MOTE_OK);
    assert_int_equal(done, 0);
    gguf_writer_free(w);
    unlink(partial);
    unlink(journal);
}

/* A partial file that is shorter than its journal says, or has another header, starts again. */
static void damaged_partial_file(void **state)
{
    (void)state;
    for (int damage = 0; damage < 3; damage++) {
        mote_error err = {0};
        uint32_t done;
        gguf_writer *w = new_writer(true);
        assert_int_equal(gguf_writer_begin(w, path, str_of("s"), &done, &err), MOTE_OK);
        put_data(w, 0, 2);
        gguf_writer_free(w);
        if (damage == 0)
            assert_int_equal(truncate(partial, 1 << 20), 0);
        FILE *f = fopen(damage == 2 ? journal : partial, "r+b");
        fseek(f, damage == 2 ? -2 : 100, damage == 2 ? SEEK_END : SEEK_SET);
        if (damage != 0)
            putc('x', f);
        fclose(f);
        w = new_writer(true);
        assert_int_equal(gguf_writer_begin(w, path, str_of("s"), &done, &err), MOTE_OK);
        assert_int_equal(done, 0);
        gguf_writer_free(w);
        unlink(partial);
        unlink(journal);
    }
}

static void wrong_use(void **state)
{
    (void)state;
    static const uint64_t odd[] = {33, 2}, empty[] = {0}, huge[] = {1ull << 40, 1ull << 40};
    mote_error err = {0};
    uint32_t done;
    gguf_writer *w = new_writer(false);
    assert_int_equal(gguf_writer_tensor(w, str_of("odd"), QUANT_Q8_0, 2, odd, &err), MOTE_E_ARG);
    assert_non_null(strstr(err.text, "rows of 33 values; Q8_0 needs a multiple of 32"));
    assert_int_equal(gguf_writer_tensor(w, str_of("e"), QUANT_F32, 1, empty, &err), MOTE_E_ARG);
    assert_int_equal(gguf_writer_tensor(w, str_of("h"), QUANT_F32, 2, huge, &err), MOTE_E_ARG);
    assert_int_equal(gguf_writer_tensor(w, str_of(""), QUANT_F32, 1, vector, &err), MOTE_E_ARG);
    gguf_writer_free(w);
    w = new_writer(false);
    assert_int_equal(gguf_writer_tensor(w, str_of("vector"), QUANT_F32, 1, vector, &err), MOTE_OK);
    assert_int_equal(gguf_writer_begin(w, path, str_of("s"), &done, &err), MOTE_E_ARG);
    assert_non_null(strstr(err.text, "'vector' would be written twice"));
    gguf_writer_free(w);
    w = new_writer(false);
    assert_int_equal(gguf_writer_begin(w, "/nowhere/x", str_of("s"), &done, &err), MOTE_E_IO);
    assert_int_equal(gguf_writer_begin(w, "/dev/null", str_of("s"), &done, &err), MOTE_E_IO);
    gguf_writer_free(w);
}

/* Writes a small file with a word in it. */
static void put_file(const char *name)
{
    FILE *f = fopen(name, "wb");
    assert_non_null(f);
    fputs("precious", f);
    fclose(f);
}

static void expect_precious(const char *name)
{
    char text[16] = "";
    FILE *f = fopen(name, "rb");
    assert_non_null(f);
    assert_int_equal(fread(text, 1, sizeof text, f), 8);
    assert_memory_equal(text, "precious", 8);
    fclose(f);
    unlink(name);
}

/* A link in the place of a partial file or of its journal is not followed. */
static void links_are_not_followed(void **state)
{
    (void)state;
    const char *const links[] = {partial, journal};
    char other[96];
    snprintf(other, sizeof other, "%s/other", directory);
    for (size_t i = 0; i < 2; i++) {
        mote_error err = {0};
        uint32_t done;
        gguf_writer *w = new_writer(false);
        put_file(other);
        assert_int_equal(symlink(other, links[i]), 0);
        assert_int_equal(gguf_writer_begin(w, path, str_of("s"), &done, &err), MOTE_E_IO);
        assert_non_null(strstr(err.text, "exists and is not a regular file; remove it"));
        gguf_writer_free(w);
        expect_precious(other);
        unlink(partial);
        unlink(journal);
    }
}

static void inputs_are_not_replaced(void **state)
{
    (void)state;
    const char *const inputs[] = {path, partial, journal};
    char other[96];
    mote_error err = {0};
    for (size_t i = 0; i < 3; i++) {
        put_file(inputs[i]);
        assert_int_equal(gguf_writer_check_input(path, inputs[i], &err), MOTE_E_ARG);
        assert_non_null(strstr(err.text, "would replace the source"));
        expect_precious(inputs[i]);
    }
    snprintf(other, sizeof other, "%s/other", directory);
    put_file(other);
    assert_int_equal(gguf_writer_check_input(path, other, &err), MOTE_OK);
    assert_int_equal(link(other, path), 0);
    assert_int_equal(gguf_writer_check_input(path, other, &err), MOTE_E_ARG);
    unlink(path);
    unlink(other);
}

static void failed_allocations(void **state)
{
    (void)state;
    const mem_stats before = mem_count();
    for (uint64_t i = 1;; i++) {
        mote_error err = {0};
        uint32_t done;
        gguf_writer *w = NULL;
        mem_fail_at(i);
        mote_status status = gguf_writer_new(&w, &err);
        if (status == MOTE_OK) {
            put_metadata(w);
            status = gguf_writer_tensor(w, str_of("vector"), QUANT_F32, 1, vector, &err);
        }
        if (status == MOTE_OK)
            status = gguf_writer_begin(w, path, str_of("s"), &done, &err);
        const bool failed = mem_failed();
        mem_fail_at(0);
        gguf_writer_free(w);
        unlink(partial);
        unlink(journal);
        if (!failed)
            break;
        assert_int_equal(status, MOTE_E_MEMORY);
    }
    assert_int_equal(mem_count().blocks, before.blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_file_is_read),    cmocka_unit_test(interrupted_file_continues),
        cmocka_unit_test(damaged_partial_file),    cmocka_unit_test(wrong_use),
        cmocka_unit_test(other_version),           cmocka_unit_test(links_are_not_followed),
        cmocka_unit_test(inputs_are_not_replaced), cmocka_unit_test(failed_allocations),
    };
    if (mkdtemp(directory) == NULL)
        return 1;
    snprintf(path, sizeof path, "%s/file.gguf", directory);
    snprintf(partial, sizeof partial, "%s.partial", path);
    snprintf(journal, sizeof journal, "%s.journal", partial);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(directory);
    return failures;
}
