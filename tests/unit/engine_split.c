/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_split.c - a split model computes the bits of the whole one, reads its snapshots, and
 * notices damage of any part.
 */
#include "law/rig.h"
#include "support/data.h"
#include "support/gguf_split.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 40, PARTS = 4 };

static char source[TEST_PATH], stem[160];
static mote_token tokens[N];

/* A model with an engine and one session. */
typedef struct user {
    mote_model *model;
    mote_engine *engine;
    mote_session *session;
    mote_model_info info;
} user;

static void user_open(user *u, const char *path)
{
    const mote_engine_options options = {.threads = 2, .positions = 256};
    u->model = rig_open(path, MOTE_ISA_BEST);
    u->engine = rig_engine(u->model, &options);
    u->session = rig_session(u->engine);
    mote_model_describe(u->model, &u->info);
}

static void user_close(user *u)
{
    mote_session_free(u->session);
    mote_engine_free(u->engine);
    mote_model_close(u->model);
}

static mote_status user_append(user *u, size_t n, mote_error *err)
{
    const mote_work work = {
        .session = u->session, .tokens = tokens + mote_session_length(u->session), .n = n};
    return mote_step(u->engine, &work, 1, err);
}

static void assert_same_logits(const user *a, const user *b)
{
    assert_memory_equal(mote_session_logits(a->session, 0), mote_session_logits(b->session, 0),
                        a->info.vocabulary * sizeof(float));
}

static void part_path(char out[200], uint32_t no)
{
    snprintf(out, 200, "%s-%05u-of-%05u.gguf", stem, no, (unsigned)PARTS);
}

static uint64_t bytes_of_parts(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 1; i <= PARTS; i++) {
        char path[200];
        size_t n;
        part_path(path, i);
        free(test_file_read(path, &n));
        sum += n;
    }
    return sum;
}

static void the_same_bits(void **state)
{
    (void)state;
    for (int empty_first = 0; empty_first < 2; empty_first++) {
        char path[200];
        user whole, split;
        mote_error err;
        assert_true(test_gguf_split(source, stem, PARTS, empty_first == 1));
        part_path(path, empty_first == 1 ? 3 : 1);
        user_open(&whole, source);
        user_open(&split, path);
        assert_int_equal(split.info.file_bytes, bytes_of_parts());
        assert_int_equal(split.info.parameters, whole.info.parameters);
        assert_string_equal(split.info.name, whole.info.name);
        MUST(user_append(&whole, N, &err), &err);
        MUST(user_append(&split, N, &err), &err);
        assert_same_logits(&whole, &split);
        user_close(&whole);
        user_close(&split);
    }
}

static void snapshots_are_interchangeable(void **state)
{
    (void)state;
    char path[200], file[160];
    user whole, split;
    mote_session *loaded;
    mote_error err;
    assert_true(test_gguf_split(source, stem, PARTS, false));
    part_path(path, 1);
    user_open(&whole, source);
    user_open(&split, path);
    MUST(user_append(&whole, N - 1, &err), &err);
    rig_temp_path(file, sizeof file, "whole.snapshot");
    MUST(mote_session_save(whole.session, file, &err), &err);
    mote_session_free(split.session);
    MUST(mote_session_load(&loaded, split.engine, file, NULL, &err), &err);
    split.session = loaded;
    MUST(user_append(&whole, 1, &err), &err);
    MUST(user_append(&split, 1, &err), &err);
    assert_same_logits(&whole, &split);
    user_close(&whole);
    user_close(&split);
}

static void prefault_and_drop_cover_all_parts(void **state)
{
    (void)state;
    char path[200];
    user split;
    mote_error err;
    uint64_t done = 0, total = 0, steps = 0;
    assert_true(test_gguf_split(source, stem, PARTS, true));
    part_path(path, 1);
    user_open(&split, path);
    while (mote_model_prefault(split.model, &done, &total))
        steps++;
    assert_int_equal(total, bytes_of_parts());
    assert_int_equal(done, total);
    assert_true(steps <= total / (4 << 20));
    mote_model_drop_pages(split.model);
    MUST(user_append(&split, N, &err), &err);
    user_close(&split);
}

static void a_truncated_part_is_noticed(void **state)
{
    (void)state;
    user split, whole;
    mote_error err;
    for (uint32_t no = 1; no <= PARTS; no++) {
        char path[200], first[200];
        size_t n;
        MUST(mote_guard_files(&err), &err); /* cmocka replaces the handler before each test */
        assert_true(test_gguf_split(source, stem, PARTS, false));
        part_path(path, no);
        part_path(first, 1);
        unsigned char *bytes = test_file_read(path, &n);
        assert_non_null(bytes);
        user_open(&split, first);
        user_open(&whole, source);
        MUST(user_append(&split, 30, &err), &err);
        assert_int_equal(mote_model_file_state(split.model), MOTE_FILE_SAME);
        assert_int_equal(truncate(path, 4096), 0);
        assert_int_equal(user_append(&split, 1, &err), MOTE_E_IO);
        assert_non_null(strstr(err.text, strrchr(path, '/') + 1));
        assert_int_equal(mote_session_length(split.session), 30);
        assert_int_equal(mote_model_file_state(split.model), MOTE_FILE_DAMAGED);
        assert_int_equal(mote_model_reopen(split.model, &err), MOTE_E_MISMATCH);
        /* The part is back: the bits of the whole model. */
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, n, f), n);
        assert_int_equal(fclose(f), 0);
        free(bytes);
        MUST(mote_model_reopen(split.model, &err), &err);
        MUST(user_append(&split, N - 30, &err), &err);
        MUST(user_append(&whole, N, &err), &err);
        assert_same_logits(&split, &whole);
        user_close(&split);
        user_close(&whole);
    }
}

static void a_replaced_part_is_noticed(void **state)
{
    (void)state;
    char path[200], away[220];
    user split;
    assert_true(test_gguf_split(source, stem, PARTS, false));
    part_path(path, 3);
    user_open(&split, path);
    snprintf(away, sizeof away, "%s.away", path);
    assert_int_equal(rename(path, away), 0);
    assert_int_equal(mote_model_file_state(split.model), MOTE_FILE_REPLACED);
    assert_int_equal(rename(away, path), 0);
    assert_int_equal(mote_model_file_state(split.model), MOTE_FILE_SAME);
    user_close(&split);
}

static void a_vision_encoder_is_never_split(void **state)
{
    (void)state;
    char mmproj[TEST_PATH], model[TEST_PATH], path[200];
    mote_model *m;
    mote_error err;
    if (!test_data_path(mmproj, "mmproj-mote-tiny-BF16.gguf") ||
        !test_data_path(model, "mote-tiny-Q8_0.gguf"))
        skip();
    assert_true(test_gguf_split(mmproj, stem, PARTS, false));
    part_path(path, 1);
    const mote_model_options options = {.mmproj = path};
    assert_int_equal(mote_model_open(&m, model, &options, &err), MOTE_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "mmproj"));
}

static int find_source(void **state)
{
    (void)state;
    const char *path = rig_model_path("r1-gqa4-tied");
    if (path == NULL)
        return -1;
    snprintf(source, sizeof source, "%s", path);
    rig_temp_path(stem, sizeof stem, "part");
    rig_random random = {.seed = 5};
    rig_random_tokens(&random, 200, tokens, N);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits),
        cmocka_unit_test(snapshots_are_interchangeable),
        cmocka_unit_test(prefault_and_drop_cover_all_parts),
        cmocka_unit_test(a_truncated_part_is_noticed),
        cmocka_unit_test(a_replaced_part_is_noticed),
        cmocka_unit_test(a_vision_encoder_is_never_split),
    };
    return cmocka_run_group_tests(tests, find_source, NULL);
}
