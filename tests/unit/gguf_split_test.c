/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf_split_test.c - models in several files: valid ones, and sets of files that are not a model.
 *
 * The model has the tensors t0 to t5 and one metadata key. Each invalid set differs from the valid
 * one in one place; the error names the part.
 */
#include "base/mem.h"
#include "gguf/gguf_files.h"
#include "support/gguf_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PARTS = 3, EACH = 2, VALUES = 32 };

static char directory[] = "mote-split-XXXXXX";
static float values[PARTS * EACH][VALUES];

static int make_directory(void **state)
{
    (void)state;
    for (int i = 0; i < PARTS * EACH; i++)
        for (int k = 0; k < VALUES; k++)
            values[i][k] = (float)(100 * i + k);
    return mkdtemp(directory) != NULL ? 0 : -1;
}

static const char *part_path(uint32_t no)
{
    static char path[2][128];
    static int turn;
    turn = 1 - turn;
    snprintf(path[turn], sizeof path[turn], "%s/m-%05u-of-%05u.gguf", directory, no, PARTS);
    return path[turn];
}

static void remove_parts(void)
{
    for (uint32_t i = 1; i <= PARTS; i++)
        unlink(part_path(i));
}

static int remove_directory(void **state)
{
    (void)state;
    remove_parts();
    return rmdir(directory);
}

/* What one part of the set contains. */
typedef struct part_plan {
    uint32_t no, count;
    int32_t tensors_count;
    const char *architecture; /* NULL: no such key */
    int first, n;             /* tensors */
} part_plan;

static void write_part(const char *path, const part_plan *plan)
{
    static test_gguf b;
    const uint16_t no = (uint16_t)plan->no, count = (uint16_t)plan->count;
    const uint64_t dims[] = {VALUES};
    test_gguf_begin(&b);
    if (plan->architecture != NULL)
        test_gguf_str(&b, "general.architecture", plan->architecture);
    test_gguf_kv(&b, "split.no", GGUF_U16, &no, sizeof no);
    test_gguf_kv(&b, "split.count", GGUF_U16, &count, sizeof count);
    test_gguf_kv(&b, "split.tensors.count", GGUF_I32, &plan->tensors_count,
                 sizeof plan->tensors_count);
    for (int i = plan->first; i < plan->first + plan->n; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%d", i);
        test_gguf_tensor(&b, name, 0, 1, dims, values[i], sizeof values[i]);
    }
    test_gguf_finish(&b);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b.bytes, 1, b.n, f), b.n);
    assert_int_equal(fclose(f), 0);
    test_gguf_free(&b);
}

static void valid_plan(part_plan plan[PARTS])
{
    for (uint32_t i = 0; i < PARTS; i++)
        plan[i] = (part_plan){.no = i,
                              .count = PARTS,
                              .tensors_count = PARTS * EACH,
                              .architecture = i == 0 ? "qwen35" : NULL,
                              .first = (int)i * EACH,
                              .n = EACH};
}

static void write_parts(const part_plan plan[PARTS])
{
    remove_parts();
    for (uint32_t i = 0; i < PARTS; i++)
        write_part(part_path(i + 1), &plan[i]);
}

static void assert_whole(const gguf_files *f, const part_plan plan[PARTS])
{
    uint64_t bytes = 0;
    assert_int_equal(f->n_parts, PARTS);
    assert_int_equal(gguf_n_tensors(f->gguf), PARTS * EACH);
    assert_non_null(gguf_find(f->gguf, "general.architecture"));
    for (uint32_t i = 0; i < PARTS; i++) {
        assert_string_equal(f->paths[i], part_path(i + 1));
        bytes += f->maps[i].bytes;
        for (int k = plan[i].first; k < plan[i].first + plan[i].n; k++) {
            char name[8];
            snprintf(name, sizeof name, "t%d", k);
            const gguf_tensor *t = gguf_find_tensor(f->gguf, name);
            assert_non_null(t);
            assert_ptr_equal(t, gguf_tensor_at(f->gguf, (uint64_t)k));
            assert_int_equal(t->part, i);
            assert_ptr_equal(t->data, f->maps[i].data + t->offset);
            assert_memory_equal(t->data, values[k], sizeof values[k]);
        }
    }
    assert_int_equal(f->bytes, bytes);
}

static void any_part_opens_all(void **state)
{
    (void)state;
    part_plan plan[PARTS];
    valid_plan(plan);
    for (int empty_first = 0; empty_first < 2; empty_first++) {
        if (empty_first) { /* --no-tensor-first-split */
            plan[0].n = 0;
            plan[1] = (part_plan){1, PARTS, PARTS * EACH, NULL, 0, 3};
            plan[2] = (part_plan){2, PARTS, PARTS * EACH, NULL, 3, 3};
        }
        write_parts(plan);
        for (uint32_t no = 1; no <= PARTS; no++) {
            const mem_stats before = mem_count();
            gguf_files f;
            mote_error err = {0};
            assert_int_equal(gguf_files_open(&f, part_path(no), &err), MOTE_OK);
            assert_whole(&f, plan);
            assert_int_equal(gguf_files_private_bytes(&f), mem_count().bytes - before.bytes);
            gguf_files_close(&f);
            assert_int_equal(mem_count().blocks, before.blocks);
        }
    }
}

/* Opens part `no`, which must fail with a text that contains `word` and leak nothing. */
static void must_fail(uint32_t no, mote_status status, const char *word)
{
    const mem_stats before = mem_count();
    gguf_files f;
    mote_error err = {0};
    const mote_status got = gguf_files_open(&f, part_path(no), &err);
    if (got != status || strstr(err.text, word) == NULL)
        fail_msg("part %u: status %d, '%s'; expected status %d and '%s'", no, (int)got, err.text,
                 (int)status, word);
    assert_null(f.gguf);
    assert_int_equal(mem_count().blocks, before.blocks);
}

static void a_missing_part(void **state)
{
    (void)state;
    part_plan plan[PARTS];
    valid_plan(plan);
    write_parts(plan);
    unlink(part_path(2));
    must_fail(1, MOTE_E_IO, "part 2 of 3");
    must_fail(1, MOTE_E_IO, part_path(2));
    must_fail(3, MOTE_E_IO, "part 2 of 3");
    must_fail(2, MOTE_E_IO, part_path(2));
}

static void sets_that_do_not_fit(void **state)
{
    (void)state;
    static const struct {
        uint32_t part; /* from 0 */
        part_plan plan;
        const char *word;
    } rows[] = {
        {1, {2, PARTS, 6, NULL, 2, 2}, "part 2 of 3 says that it is part 3 of 3"},
        {1, {1, 4, 6, NULL, 2, 2}, "part 2 of 3 says that it is part 2 of 4"},
        {1, {1, 1, 6, NULL, 2, 2}, "part 2 of 3 says that it is part 1 of 1"},
        {2, {2, PARTS, 7, NULL, 4, 2}, "part 3 of 3 has another split.tensors.count"},
        {2, {2, PARTS, 6, "llama", 4, 2}, "part 3 of 3 has another general.architecture"},
        {2, {2, PARTS, 6, NULL, 4, 1}, "5 tensors, but split.tensors.count is 6"},
        {2, {2, PARTS, 6, NULL, 3, 2}, "tensor 't3' of part 3 of 3"},
        {1, {3, PARTS, 6, NULL, 2, 2}, "split.no is 3, but split.count is 3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        part_plan plan[PARTS];
        valid_plan(plan);
        plan[rows[i].part] = rows[i].plan;
        write_parts(plan);
        must_fail(1, MOTE_E_FORMAT, rows[i].word);
    }
}

static void cut_and_garbled_parts(void **state)
{
    (void)state;
    part_plan plan[PARTS];
    valid_plan(plan);
    write_parts(plan);
    assert_int_equal(truncate(part_path(3), 200), 0);
    must_fail(1, MOTE_E_FORMAT, "m-00003-of-00003.gguf (part 3 of 3): ");
    write_parts(plan);
    assert_int_equal(truncate(part_path(2), 0), 0);
    must_fail(1, MOTE_E_FORMAT, "part 2 of 3 of the model");
    write_parts(plan);
    FILE *f = fopen(part_path(2), "r+b");
    assert_non_null(f);
    assert_int_equal(fwrite("XXXX", 1, 4, f), 4);
    assert_int_equal(fclose(f), 0);
    must_fail(1, MOTE_E_FORMAT, "part 2 of 3");
}

static void a_renamed_part(void **state)
{
    (void)state;
    part_plan plan[PARTS];
    gguf_files f;
    mote_error err = {0};
    char path[128];
    valid_plan(plan);
    write_parts(plan);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    assert_int_equal(rename(part_path(1), path), 0);
    assert_int_equal(gguf_files_open(&f, path, &err), MOTE_E_FORMAT);
    assert_non_null(strstr(err.text, "model.gguf is part 1 of 3"));
    assert_non_null(strstr(err.text, "-00001-of-00003.gguf"));
    unlink(path);
    /* Two parts with exchanged names. */
    valid_plan(plan);
    plan[0].no = 1;
    plan[1].no = 0;
    write_parts(plan);
    must_fail(1, MOTE_E_FORMAT, "-00002-of-00003.gguf");
    must_fail(3, MOTE_E_FORMAT, "part 1 of 3 says that it is part 2 of 3");
}

static void too_many_parts(void **state)
{
    (void)state;
    part_plan plan[PARTS];
    valid_plan(plan);
    plan[0].count = GGUF_MAX_PARTS + 1;
    write_parts(plan);
    must_fail(1, MOTE_E_UNSUPPORTED, "at most 128 parts");
}

/* A file with such a name that is not split. */
static void the_name_alone_means_nothing(void **state)
{
    (void)state;
    part_plan plan[PARTS];
    gguf_files f;
    mote_error err = {0};
    valid_plan(plan);
    plan[1] = (part_plan){0, 1, 2, "qwen35", 0, 2};
    write_parts(plan);
    assert_int_equal(gguf_files_open(&f, part_path(2), &err), MOTE_OK);
    assert_int_equal(f.n_parts, 1);
    assert_int_equal(gguf_n_tensors(f.gguf), 2);
    gguf_files_close(&f);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    part_plan plan[PARTS];
    valid_plan(plan);
    write_parts(plan);
    const mem_stats before = mem_count();
    for (uint64_t n = 1;; n++) {
        gguf_files f;
        mote_error err = {0};
        mem_fail_at(n);
        const mote_status status = gguf_files_open(&f, part_path(2), &err);
        const bool failed = mem_failed();
        mem_fail_at(0);
        gguf_files_close(&f);
        assert_int_equal(mem_count().blocks, before.blocks);
        if (!failed) {
            assert_int_equal(status, MOTE_OK);
            assert_true(n > 10);
            return;
        }
        assert_int_equal(status, MOTE_E_MEMORY);
    }
}

static void names_of_parts(void **state)
{
    (void)state;
    gguf_part_name name;
    char path[64];
    assert_true(gguf_part_name_parse(&name, str_of("/d/a-b-00002-of-00010.gguf")));
    assert_int_equal(name.no, 2);
    assert_int_equal(name.count, 10);
    assert_true(str_is(name.stem, "/d/a-b"));
    assert_true(gguf_part_name_print(path, sizeof path, &name, 10));
    assert_string_equal(path, "/d/a-b-00010-of-00010.gguf");
    assert_false(gguf_part_name_print(path, 10, &name, 10));
    static const char *const others[] = {
        "",
        "a.gguf",
        "-00001-of-00002.gguf",
        "/d/-00001-of-00002.gguf",
        "a-00000-of-00002.gguf",
        "a-00003-of-00002.gguf",
        "a-0001-of-0002.gguf",
        "a-00001-of-00002.GGUF",
        "a-00001-of-00002.gguf.part",
        "a-0000x-of-00002.gguf",
        "a_00001-of-00002.gguf",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(gguf_part_name_parse(&name, str_of(others[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_part_opens_all),
        cmocka_unit_test(a_missing_part),
        cmocka_unit_test(sets_that_do_not_fit),
        cmocka_unit_test(cut_and_garbled_parts),
        cmocka_unit_test(a_renamed_part),
        cmocka_unit_test(too_many_parts),
        cmocka_unit_test(the_name_alone_means_nothing),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(names_of_parts),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
