/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_damage.c - a model file that is truncated while it is mapped: the step fails with
 * MOTE_E_IO and appends nothing, another model computes the same bits, and the model works again
 * when the file is back.
 */
#include "support/data.h"

#include <mote.h>

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 40 };

static char source[TEST_PATH], copy[64];
static unsigned char *bytes;
static size_t n_bytes;
static mote_token tokens[N];

/* In every test, because cmocka installs a handler of its own before each. */
static void must_guard(void)
{
    mote_error err;
    assert_int_equal(mote_guard_files(&err), MOTE_OK);
}

static void write_copy(size_t n)
{
    const int fd = open(copy, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

/* A model with an engine and one session. */
typedef struct user {
    mote_model *model;
    mote_engine *engine;
    mote_session *session;
} user;

static void user_open(user *u, const char *path)
{
    mote_error err;
    const mote_engine_options options = {.threads = 2, .positions = 256};
    assert_int_equal(mote_model_open(&u->model, path, NULL, &err), MOTE_OK);
    assert_int_equal(mote_engine_new(&u->engine, u->model, &options, &err), MOTE_OK);
    assert_int_equal(mote_session_new(&u->session, u->engine, NULL, &err), MOTE_OK);
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
    mote_model_info info;
    mote_model_describe(a->model, &info);
    assert_memory_equal(mote_session_logits(a->session, 0), mote_session_logits(b->session, 0),
                        info.vocabulary * sizeof(float));
}

static void truncated_file_fails_the_step(void **state)
{
    (void)state;
    user victim, canary;
    mote_error err;
    must_guard();
    write_copy(n_bytes);
    user_open(&victim, copy);
    user_open(&canary, source);
    assert_int_equal(user_append(&victim, 30, &err), MOTE_OK);
    assert_int_equal(mote_model_file_state(victim.model), MOTE_FILE_SAME);
    assert_int_equal(truncate(copy, (off_t)(n_bytes / 2)), 0);
    assert_int_equal(user_append(&victim, 1, &err), MOTE_E_IO);
    assert_non_null(strstr(err.text, copy));
    assert_int_equal(mote_session_length(victim.session), 30);
    assert_int_equal(mote_model_file_state(victim.model), MOTE_FILE_DAMAGED);
    assert_int_equal(mote_model_reopen(victim.model, &err), MOTE_E_MISMATCH);
    /* The other model is not affected. */
    assert_int_equal(user_append(&canary, N, &err), MOTE_OK);
    assert_int_equal(mote_model_file_state(canary.model), MOTE_FILE_SAME);
    /* The file is back: the same bits as without damage. */
    write_copy(n_bytes);
    assert_int_equal(mote_model_reopen(victim.model, &err), MOTE_OK);
    assert_int_equal(user_append(&victim, 10, &err), MOTE_OK);
    assert_same_logits(&victim, &canary);
    user_close(&victim);
    user_close(&canary);
}

/* The pass that meets the missing pages: the file shrinks between two layers. */
static void truncate_at_hook(void *ctx)
{
    int *calls = ctx;
    if (++*calls == 3)
        assert_int_equal(truncate(copy, 4096), 0);
}

static void truncation_inside_a_pass_appends_nothing(void **state)
{
    (void)state;
    user victim, canary;
    mote_error err;
    int calls = 0;
    must_guard();
    write_copy(n_bytes);
    user_open(&victim, copy);
    user_open(&canary, source);
    const mote_work work = {.session = victim.session, .tokens = tokens, .n = N};
    assert_int_equal(mote_step_with_hook(victim.engine, &work, 1, truncate_at_hook, &calls, &err),
                     MOTE_E_IO);
    assert_true(calls > 3);
    assert_int_equal(mote_session_length(victim.session), 0);
    write_copy(n_bytes);
    assert_int_equal(mote_model_reopen(victim.model, &err), MOTE_OK);
    assert_int_equal(user_append(&victim, N, &err), MOTE_OK);
    assert_int_equal(user_append(&canary, N, &err), MOTE_OK);
    assert_same_logits(&victim, &canary);
    user_close(&victim);
    user_close(&canary);
}

/* Another file of the same size, written in place: no fault, but other contents. */
static void overwritten_file_is_damaged(void **state)
{
    (void)state;
    user victim;
    mote_error err;
    write_copy(n_bytes);
    user_open(&victim, copy);
    for (size_t i = n_bytes / 2; i < n_bytes; i++)
        bytes[i] ^= 1;
    write_copy(n_bytes);
    for (size_t i = n_bytes / 2; i < n_bytes; i++)
        bytes[i] ^= 1;
    assert_int_equal(mote_model_file_state(victim.model), MOTE_FILE_DAMAGED);
    assert_int_equal(user_append(&victim, 1, &err), MOTE_E_IO);
    assert_int_equal(mote_model_reopen(victim.model, &err), MOTE_E_MISMATCH);
    assert_int_equal(user_append(&victim, 1, &err), MOTE_E_IO);
    user_close(&victim);
}

static int read_model(void **state)
{
    (void)state;
    snprintf(copy, sizeof copy, "mote-damage-%d.gguf", (int)getpid());
    for (size_t i = 0; i < N; i++)
        tokens[i] = (mote_token)(100 + 37 * i);
    if (!test_data_path(source, "mote-tiny-Q4_K_M.gguf"))
        return -1;
    bytes = test_file_read(source, &n_bytes);
    return bytes != NULL ? 0 : -1;
}

static int remove_copy(void **state)
{
    (void)state;
    free(bytes);
    return unlink(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncated_file_fails_the_step),
        cmocka_unit_test(truncation_inside_a_pass_appends_nothing),
        cmocka_unit_test(overwritten_file_is_damaged),
    };
    return cmocka_run_group_tests(tests, read_model, remove_copy);
}
