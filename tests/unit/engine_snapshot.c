/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_snapshot.c - which snapshots are accepted, which are rejected, and with which status.
 *
 * Law L6 (tests/law): a restored session continues with the same bits. tests/fuzz: damaged bytes.
 */
#include "law/rig.h"

#include "base/mem.h"
#include "support/data.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH = 75 };

static mote_model *model, *other_model;
static mote_engine *engine;
static mote_token tokens[LENGTH];
static char path[128];

static mote_engine *engine_with(const mote_model *m, mote_kv kv, float yarn)
{
    return rig_engine(m, &(mote_engine_options){.threads = 1,
                                                .sessions = 2,
                                                .positions = 512,
                                                .kept_states = 1,
                                                .kv = kv,
                                                .yarn = yarn});
}

static mote_status load(mote_engine *e, uint64_t context, mote_session **out)
{
    mote_error err = {0};
    mem_stats before = mem_count();
    mote_status status =
        mote_session_load(out, e, path, &(mote_session_options){.context = context}, &err);
    if (status != MOTE_OK) {
        assert_null(*out);
        assert_int_equal(err.status, status);
        assert_int_equal(mem_count().blocks, before.blocks);
    }
    return status;
}

static void save_one(void)
{
    mote_session *session = rig_session(engine);
    rig_feed(engine, session, tokens, LENGTH, MOTE_LOGITS_NONE);
    mote_error err = {0};
    MUST(mote_session_save(session, path, &err), &err);
    mote_session_free(session);
}

static void comes_back_as_it_was(void **unused)
{
    (void)unused;
    save_one();
    mote_session *session;
    assert_int_equal(load(engine, 0, &session), MOTE_OK);
    assert_int_equal(mote_session_length(session), LENGTH);
    assert_int_equal(mote_session_context(session), 256); /* an even share */
    assert_memory_equal(mote_session_tokens(session), tokens, sizeof tokens);
    assert_null(mote_session_logits(session, 0));
    assert_int_equal(mote_session_rewind(session, LENGTH - 8), LENGTH - 8);
    mote_session_free(session);
    assert_int_equal(load(engine, LENGTH, &session), MOTE_OK); /* just enough */
    assert_int_equal(mote_session_context(session), LENGTH);
    mote_session_free(session);
}

static void must_fit(void **unused)
{
    (void)unused;
    save_one();
    mote_session *session, *a, *b;
    assert_int_equal(load(engine, LENGTH - 1, &session), MOTE_E_FULL);
    assert_int_equal(load(engine, 100000, &session), MOTE_E_MEMORY);
    a = rig_session(engine);
    b = rig_session(engine);
    assert_int_equal(load(engine, 0, &session), MOTE_E_MEMORY); /* no session is free */
    mote_session_free(a);
    mote_session_free(b);
}

static void belongs_to_its_model_and_engine(void **unused)
{
    (void)unused;
    save_one();
    mote_engine *others[] = {
        engine_with(model, MOTE_KV_F32, 0), engine_with(model, MOTE_KV_Q8_0, 0),
        engine_with(model, MOTE_KV_Q4_0, 0), engine_with(model, MOTE_KV_F16, 2),
        engine_with(other_model, MOTE_KV_F16, 0)};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        mote_session *session;
        assert_int_equal(load(others[i], 0, &session), MOTE_E_MISMATCH);
        mote_engine_free(others[i]);
    }
}

static void write_bytes(const void *bytes, size_t n)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

static void damage_is_seen(void **unused)
{
    (void)unused;
    save_one();
    size_t n;
    unsigned char *bytes = test_file_read(path, &n);
    assert_non_null(bytes);
    mote_session *session;
    for (size_t at = 0; at < n; at += n / 61) { /* one bit, all over the file */
        bytes[at] ^= 0x10;
        write_bytes(bytes, n);
        assert_int_equal(load(engine, 0, &session), MOTE_E_FORMAT);
        bytes[at] ^= 0x10;
    }
    for (size_t cut = 0; cut < n; cut += n / 61) {
        write_bytes(bytes, cut);
        assert_int_equal(load(engine, 0, &session), MOTE_E_FORMAT);
    }
    write_bytes(bytes, n);
    assert_int_equal(load(engine, 0, &session), MOTE_OK);
    mote_session_free(session);
    free(bytes);
    unlink(path);
    assert_int_equal(load(engine, 0, &session), MOTE_E_IO);
}

/* An attacker can compute the checksum: the length must be exact too. */
static void length_is_exact(void **unused)
{
    (void)unused;
    save_one();
    size_t n;
    unsigned char *bytes = test_file_read(path, &n);
    unsigned char *longer = calloc(n + 16, 1);
    assert_true(bytes != NULL && longer != NULL);
    memcpy(longer, bytes, n);
    static const int changes[] = {16, 4, 1, -1, -4, -16};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        size_t m = (size_t)((ptrdiff_t)n + changes[i]);
        uint64_t check = XXH3_64bits(longer, m - sizeof check);
        memcpy(longer + m - sizeof check, &check, sizeof check);
        write_bytes(longer, m);
        mote_session *session;
        assert_int_equal(load(engine, 0, &session), MOTE_E_FORMAT);
        memcpy(longer, bytes, n);
        memset(longer + n, 0, 16);
    }
    free(longer);
    free(bytes);
}

/* A snapshot of the first 70 tokens. Its last page held more tokens before, possibly of another
 * session. */
static unsigned char *file_of_70(mote_kv kv, bool other_past, size_t *n)
{
    mote_error err = {0};
    mote_engine *e = engine_with(model, kv, 0);
    mote_session *session = rig_session(e);
    if (other_past) {
        rig_feed(e, session, tokens + 9, LENGTH - 9, MOTE_LOGITS_NONE);
        rig_feed(e, session, tokens, 20, MOTE_LOGITS_NONE);
        assert_int_equal(mote_session_rewind(session, 0), 0);
    }
    rig_feed(e, session, tokens, other_past ? LENGTH : 75, MOTE_LOGITS_NONE);
    assert_int_equal(mote_session_rewind(session, 70), 70);
    MUST(mote_session_save(session, path, &err), &err);
    mote_session_free(session);
    mote_engine_free(e);
    unsigned char *bytes = test_file_read(path, n);
    assert_non_null(bytes);
    return bytes;
}

/* A snapshot must not leak what another session left in a page. */
static void holds_nothing_of_other_sequences(void **unused)
{
    (void)unused;
    for (int kv = MOTE_KV_F16; kv <= MOTE_KV_Q4_0; kv++) {
        size_t n, again;
        unsigned char *first = file_of_70((mote_kv)kv, false, &n);
        unsigned char *second = file_of_70((mote_kv)kv, true, &again);
        assert_int_equal(n, again);
        assert_memory_equal(first, second, n); /* equal sessions, equal files */
        free(first);
        free(second);
    }
}

static void wrong_calls(void **unused)
{
    (void)unused;
    mote_session *session = rig_session(engine), *none;
    assert_int_equal(mote_session_save(NULL, path, NULL), MOTE_E_ARG);
    assert_int_equal(mote_session_save(session, NULL, NULL), MOTE_E_ARG);
    assert_int_equal(mote_session_save(session, "/does/not/exist/file", NULL), MOTE_E_IO);
    assert_int_equal(mote_session_load(&none, NULL, path, NULL, NULL), MOTE_E_ARG);
    assert_null(none);
    assert_int_equal(mote_session_load(&none, engine, NULL, NULL, NULL), MOTE_E_ARG);
    assert_int_equal(mote_session_load(NULL, engine, path, NULL, NULL), MOTE_E_ARG);
    mote_session_free(session);
}

static int open_models(void **unused)
{
    (void)unused;
    rig_temp_path(path, sizeof path, "unit.snapshot");
    const char *file = rig_model_path("r2-gqa4-kv2-tied");
    if (file == NULL)
        return -1;
    model = rig_open(file, MOTE_ISA_BEST);
    other_model = rig_open(rig_model_path("r2-gqa4-kv2-tied-mtp"), MOTE_ISA_BEST);
    engine = engine_with(model, MOTE_KV_F16, 0);
    rig_random r = {.seed = 6};
    rig_random_tokens(&r, 512, tokens, LENGTH);
    return 0;
}

static int close_models(void **unused)
{
    (void)unused;
    mote_engine_free(engine);
    mote_model_close(model);
    mote_model_close(other_model);
    return mem_count().blocks == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back_as_it_was),
        cmocka_unit_test(must_fit),
        cmocka_unit_test(belongs_to_its_model_and_engine),
        cmocka_unit_test(damage_is_seen),
        cmocka_unit_test(length_is_exact),
        cmocka_unit_test(holds_nothing_of_other_sequences),
        cmocka_unit_test(wrong_calls),
    };
    return cmocka_run_group_tests_name("engine_snapshot", tests, open_models, close_models);
}
