/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_memory.c - the planned memory is the memory taken; many sessions in one engine.
 *
 * mote_engine_plan predicts the memory of an engine; mem_count reports what was taken. They must
 * agree to the byte, because servers size their engines by the plan.
 */
#include "law/rig.h"

#include "base/mem.h"
#include "support/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char path[1024];

static uint64_t private_of(const mote_memory *m)
{
    return m->model + m->kv_cache + m->recurrent_state + m->scratch;
}

/* The plan equals mem_count when all sessions exist. */
static void check_plan(const mote_engine_options *options)
{
    mem_stats before = mem_count();
    mote_model *model = rig_open(path, MOTE_ISA_BEST);
    mote_model_info info;
    mote_model_describe(model, &info);
    uint64_t opened = mem_count().bytes - before.bytes;
    mote_error err = {0};
    mote_memory plan, taken;
    MUST(mote_engine_plan(model, options, &plan, &err), &err);
    assert_int_equal(mem_count().bytes - before.bytes, opened); /* a plan allocates nothing */
    mote_engine *engine = rig_engine(model, options);
    mote_engine_memory(engine, &taken);
    assert_memory_equal(&plan, &taken, sizeof plan);
    assert_int_equal(plan.total, plan.weights + private_of(&plan));
    assert_int_equal(plan.weights, info.file_bytes);
    assert_int_equal(plan.model, info.private_bytes);
    uint32_t n = options->sessions > 0 ? options->sessions : 1;
    mote_session **sessions = calloc(n, sizeof *sessions);
    assert_non_null(sessions);
    for (uint32_t i = 0; i < n; i++)
        sessions[i] = rig_session(engine);
    uint64_t counted = mem_count().bytes - before.bytes;
    printf("%3u sessions: plan %llu, counted %llu, difference %lld\n", n,
           (unsigned long long)private_of(&plan), (unsigned long long)counted,
           (long long)(private_of(&plan) - counted));
    /* A session may end inside a page: the plan includes the ids and address of one more page each,
     * unless every session may come to hold all pages, which are then all in the plan. */
    const uint64_t book = 64 * sizeof(mote_token) + sizeof(void *);
    assert_true(counted <= private_of(&plan));
    assert_true(!options->shared_positions || counted == private_of(&plan));
    assert_true((private_of(&plan) - counted) % book == 0);
    assert_true((private_of(&plan) - counted) / book <= n);
    for (uint32_t i = 0; i < n; i++)
        mote_session_free(sessions[i]);
    free(sessions);
    mote_engine_free(engine);
    mote_model_close(model);
    assert_int_equal(mem_count().bytes, before.bytes);
}

static void plan_is_what_is_taken(void **unused)
{
    (void)unused;
    check_plan(&(mote_engine_options){0});
    check_plan(&(mote_engine_options){.threads = 3, .sessions = 7, .positions = 7 * 1000});
    check_plan(&(mote_engine_options){.sessions = 2, .kept_states = 5, .kv = MOTE_KV_F32});
    check_plan(&(mote_engine_options){.sessions = 3, .kv = MOTE_KV_Q8_0});
    check_plan(&(mote_engine_options){.sessions = 4, .kv = MOTE_KV_Q4_0});
    check_plan(&(mote_engine_options){.batch = 33, .logits_rows = 100, .positions = 100000});
    check_plan(&(mote_engine_options){.sessions = 9, .positions = 5000, .shared_positions = true});
    check_plan(&(mote_engine_options){.sessions = 3, .kept_states = 2, .drafts = true});
    check_plan(&(mote_engine_options){.sessions = 200, .batch = 2, .drafts = true});
}

/* The mapped file of a vision encoder is memory, too. */
static void the_plan_has_the_vision_encoder(void **unused)
{
    (void)unused;
    char mmproj[TEST_PATH];
    mote_model *model;
    mote_model_info info;
    mote_memory plan;
    mote_error err = {0};
    if (!test_data_path(mmproj, "mmproj-mote-tiny-BF16.gguf"))
        rig_fail("mmproj-mote-tiny-BF16.gguf is missing");
    MUST(mote_model_open(&model, path, &(mote_model_options){.mmproj = mmproj}, &err), &err);
    mote_model_describe(model, &info);
    MUST(mote_engine_plan(model, &(mote_engine_options){0}, &plan, &err), &err);
    assert_true(info.vision_file_bytes > 0);
    assert_int_equal(plan.weights, info.file_bytes + info.vision_file_bytes);
    assert_int_equal(plan.total, plan.weights + private_of(&plan));
    mote_model_close(model);
}

/* 256 sessions with different tokens in one step; then one token each. */
static void many_sessions_in_one_step(void **unused)
{
    (void)unused;
    enum { N = 256, LENGTH = 6 };
    mote_model *model = rig_open(path, MOTE_ISA_BEST);
    mote_model_info info;
    mote_model_describe(model, &info);
    mote_engine *engine =
        rig_engine(model, &(mote_engine_options){.sessions = N, .positions = N * 64});
    mote_engine *alone = rig_engine(model, &(mote_engine_options){.positions = 64});
    static mote_session *sessions[N];
    static mote_token tokens[N][LENGTH];
    static mote_work work[N];
    rig_random r = {.seed = 256};
    for (uint32_t i = 0; i < N; i++) {
        sessions[i] = rig_session(engine);
        rig_random_tokens(&r, info.tokens, tokens[i], LENGTH);
        work[i] = (mote_work){
            .session = sessions[i], .tokens = tokens[i], .n = LENGTH - 1, .want = MOTE_LOGITS_NONE};
    }
    mote_error err = {0};
    MUST(mote_step(engine, work, N, &err), &err);
    for (uint32_t i = 0; i < N; i++)
        work[i] = (mote_work){.session = sessions[i], .tokens = tokens[i] + LENGTH - 1, .n = 1};
    MUST(mote_step(engine, work, N, &err), &err);
    for (uint32_t i = 0; i < N; i += 37) {
        mote_session *one = rig_session(alone);
        rig_feed(alone, one, tokens[i], LENGTH, MOTE_LOGITS_LAST);
        assert_memory_equal(mote_session_logits(sessions[i], 0), mote_session_logits(one, 0),
                            info.vocabulary * sizeof(float));
        mote_session_free(one);
    }
    for (uint32_t i = 0; i < N; i++)
        mote_session_free(sessions[i]);
    mote_engine_free(engine);
    mote_engine_free(alone);
    mote_model_close(model);
}

/* The plan of a million positions is exact before any page is written. */
static void a_long_context_is_reserved_not_filled(void **unused)
{
    (void)unused;
    mote_model *model = rig_open(path, MOTE_ISA_BEST);
    mote_engine *engine =
        rig_engine(model, &(mote_engine_options){.positions = 1010000, .yarn = 4});
    mote_memory memory;
    mote_engine_memory(engine, &memory);
    mote_session *session = rig_session(engine);
    assert_int_equal(mote_session_context(session), 1010000);
    /* 2 attention layers, 1 kv head, K and V of 256 halves: 2 KiB a position. */
    uint64_t pages = (1010000 / 64 + 1) * 64ull;
    assert_true(memory.kv_cache >= pages * 2048);
    assert_true(memory.kv_cache < pages * 2048 + pages * 8);
    mote_session_free(session);
    mote_engine_free(engine);
    mote_model_close(model);
}

int main(void)
{
    const char *found = rig_model_path("mote-tiny-Q4_K_M");
    if (found == NULL)
        rig_fail("mote-tiny-Q4_K_M.gguf is missing");
    snprintf(path, sizeof path, "%s", found);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_is_what_is_taken),
        cmocka_unit_test(the_plan_has_the_vision_encoder),
        cmocka_unit_test(many_sessions_in_one_step),
        cmocka_unit_test(a_long_context_is_reserved_not_filled),
    };
    return cmocka_run_group_tests_name("engine_memory", tests, NULL, NULL);
}
