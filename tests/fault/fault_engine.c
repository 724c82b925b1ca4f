/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault_engine.c - every allocation and every write of every call fails once.
 *
 * For each act: allocation 1 fails, then allocation 2, and so on until the act succeeds. Each
 * failure must return an error and a NULL out pointer, leak nothing, and leave the session
 * unchanged, which its next logits prove.
 */
#define _GNU_SOURCE
#include "law/rig.h"

#include "base/mem.h"
#include "base/os.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROMPT = 75, NEXT = 6, MAX_FAULTS = 100000 };

/* What the acts work on. */
typedef struct stage {
    char path[1024];
    char snapshot[128];
    mote_model *model;
    mote_engine *engine;
    mote_session *session; /* PROMPT tokens long */
    mote_token tokens[PROMPT + NEXT];
    float *expected; /* [vocabulary], after PROMPT + NEXT tokens */
    uint32_t vocabulary;
} stage;

static const mote_engine_options options = {
    .threads = 2, .sessions = 3, .positions = 3 * 192, .kept_states = 2};

/* Checks the next logits of the session, then rewinds it. */
static void check_unharmed(stage *s, const char *after)
{
    if (mote_session_length(s->session) != PROMPT)
        rig_fail("%s moved the session", after);
    mote_error err = {0};
    mote_session *probe;
    MUST(mote_session_fork(&probe, s->session, &err), &err);
    rig_feed(s->engine, probe, s->tokens + PROMPT, NEXT, MOTE_LOGITS_LAST);
    if (memcmp(mote_session_logits(probe, 0), s->expected, s->vocabulary * sizeof(float)) != 0)
        rig_fail("after %s the session gives other logits", after);
    mote_session_free(probe);
}

/* ---- acts: each makes something, and undoes it when it worked ---- */

static mote_status act_open(stage *s, mote_error *err)
{
    mote_model *model;
    mote_status status = mote_model_open(&model, s->path, NULL, err);
    if (status != MOTE_OK && model != NULL)
        rig_fail("a failed open left a model");
    mote_model_close(model);
    return status;
}

static mote_status act_engine(stage *s, mote_error *err)
{
    mote_engine *engine;
    mote_status status = mote_engine_new(&engine, s->model, &options, err);
    if (status != MOTE_OK && engine != NULL)
        rig_fail("a failed call left an engine");
    mote_engine_free(engine);
    return status;
}

static mote_status finish_session(mote_session *session, mote_status status)
{
    if (status != MOTE_OK && session != NULL)
        rig_fail("a failed call left a session");
    if (session != NULL)
        mote_session_free(session);
    return status;
}

static mote_status act_session(stage *s, mote_error *err)
{
    mote_session *session;
    mote_status status = mote_session_new(&session, s->engine, NULL, err);
    return finish_session(session, status);
}

static mote_status act_fork(stage *s, mote_error *err)
{
    mote_session *session;
    mote_status status = mote_session_fork(&session, s->session, err);
    return finish_session(session, status);
}

static mote_status act_load(stage *s, mote_error *err)
{
    mote_session *session;
    mote_status status = mote_session_load(&session, s->engine, s->snapshot, NULL, err);
    return finish_session(session, status);
}

static mote_status act_save(stage *s, mote_error *err)
{
    char path[128];
    rig_temp_path(path, sizeof path, "again.snapshot");
    mote_status status = mote_session_save(s->session, path, err);
    if (status != MOTE_OK && access(path, F_OK) == 0 && strstr(err->text, "fsync") == NULL)
        rig_fail("a failed save left %s", path);
    unlink(path);
    return status;
}

static mote_status act_keep(stage *s, mote_error *err)
{
    mote_session *probe;
    mote_status status = mote_session_fork(&probe, s->session, err);
    if (status != MOTE_OK)
        return status;
    status = mote_session_keep(probe, NULL, err);
    mote_session_free(probe);
    return status;
}

static mote_status act_step(stage *s, mote_error *err)
{
    mote_session *probe = NULL;
    mote_status status = mote_session_fork(&probe, s->session, err);
    if (status != MOTE_OK)
        return status;
    mote_work work = {.session = probe, .tokens = s->tokens + PROMPT, .n = NEXT};
    status = mote_step(s->engine, &work, 1, err);
    mote_session_free(probe);
    return status;
}

/* ---- the loops ---- */

typedef mote_status act_fn(stage *s, mote_error *err);

typedef struct fault_switch {
    const char *what;
    void (*fail_at)(uint64_t n);
    bool (*failed)(void);
} fault_switch;

static const fault_switch memory = {"allocation", mem_fail_at, mem_failed};
static const fault_switch disk = {"write", os_fail_at, os_failed};

static void every_fault(stage *s, const char *name, act_fn *act, const fault_switch *fault)
{
    uint64_t n = 1;
    for (; n < MAX_FAULTS; n++) {
        mem_stats before = mem_count();
        mote_error err = {0};
        fault->fail_at(n);
        mote_status status = act(s, &err);
        bool struck = fault->failed();
        fault->fail_at(0);
        mem_stats after = mem_count();
        if (before.blocks != after.blocks || before.bytes != after.bytes)
            rig_fail("%s leaks when %s %llu fails", name, fault->what, (unsigned long long)n);
        if (!struck) {
            MUST(status, &err);
            break;
        }
        if (status == MOTE_OK)
            rig_fail("%s does not notice that %s %llu failed", name, fault->what,
                     (unsigned long long)n);
        if (err.status != status || err.text[0] == '\0')
            rig_fail("%s says nothing when %s %llu fails", name, fault->what,
                     (unsigned long long)n);
        if (n <= 8 || n % 16 == 0)
            check_unharmed(s, name);
    }
    check_unharmed(s, name);
    printf("%-8s every %s of %llu failed once\n", name, fault->what, (unsigned long long)(n - 1));
}

/* A save over an older snapshot: after any failure one of the two files is complete. */
static void old_file_survives(stage *s)
{
    char path[128];
    rig_temp_path(path, sizeof path, "old.snapshot");
    for (uint64_t n = 1; n < MAX_FAULTS; n++) {
        mote_error err = {0};
        MUST(mote_session_save(s->session, path, &err), &err);
        os_fail_at(n);
        (void)mote_session_save(s->session, path, &err);
        bool struck = os_failed();
        os_fail_at(0);
        mote_session *session;
        MUST(mote_session_load(&session, s->engine, path, NULL, &err), &err);
        mote_session_free(session);
        if (!struck)
            break;
    }
    unlink(path);
}

static void no_temporary_file_is_left(void)
{
    DIR *dir = opendir(rig_temp_dir());
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        if (strstr(entry->d_name, ".part") != NULL)
            rig_fail("a failed save left %s", entry->d_name);
    closedir(dir);
}

static void no_allocation_in_a_step(stage *s)
{
    mote_error err = {0};
    mote_session *probe;
    MUST(mote_session_fork(&probe, s->session, &err), &err);
    uint64_t before = mem_count().requests;
    rig_feed(s->engine, probe, s->tokens, PROMPT, MOTE_LOGITS_LAST);
    for (uint32_t i = 0; i < 8; i++)
        rig_feed(s->engine, probe, s->tokens + i, 1, MOTE_LOGITS_LAST);
    (void)mote_session_rewind(probe, mote_session_length(probe) - 3);
    rig_feed(s->engine, probe, s->tokens, 9, MOTE_LOGITS_LAST);
    if (mem_count().requests != before)
        rig_fail("a step made %llu allocations",
                 (unsigned long long)(mem_count().requests - before));
    mote_session_free(probe);
    printf("step     no allocation\n");
}

static void prepare(stage *s, const char *path)
{
    snprintf(s->path, sizeof s->path, "%s", path);
    rig_temp_path(s->snapshot, sizeof s->snapshot, "fault.snapshot");
    s->model = rig_open(s->path, MOTE_ISA_BEST);
    mote_model_info info;
    mote_model_describe(s->model, &info);
    s->vocabulary = info.vocabulary;
    rig_random r = {.seed = 5};
    rig_random_tokens(&r, info.tokens, s->tokens, PROMPT + NEXT);
    s->engine = rig_engine(s->model, &options);
    s->session = rig_session(s->engine);
    rig_feed(s->engine, s->session, s->tokens, PROMPT + NEXT, MOTE_LOGITS_LAST);
    s->expected = calloc(s->vocabulary, sizeof(float));
    if (s->expected == NULL)
        rig_fail("no memory");
    memcpy(s->expected, mote_session_logits(s->session, 0), s->vocabulary * sizeof(float));
    mote_session_free(s->session);
    s->session = rig_session(s->engine);
    rig_feed(s->engine, s->session, s->tokens, PROMPT, MOTE_LOGITS_NONE);
    mote_error err = {0};
    MUST(mote_session_save(s->session, s->snapshot, &err), &err);
}

int main(void)
{
    const char *path = rig_model_path("r2-gqa4-kv2-tied");
    if (path == NULL)
        path = rig_model_path("mote-tiny-Q4_K_M");
    if (path == NULL) {
        printf("skipped: no model is there\n");
        return 77;
    }
    mem_stats before = mem_count();
    static stage s;
    prepare(&s, path);
    every_fault(&s, "open", act_open, &memory);
    every_fault(&s, "engine", act_engine, &memory);
    every_fault(&s, "session", act_session, &memory);
    every_fault(&s, "fork", act_fork, &memory);
    every_fault(&s, "keep", act_keep, &memory);
    every_fault(&s, "step", act_step, &memory);
    every_fault(&s, "save", act_save, &memory);
    every_fault(&s, "save", act_save, &disk);
    every_fault(&s, "load", act_load, &memory);
    old_file_survives(&s);
    no_temporary_file_is_left();
    no_allocation_in_a_step(&s);
    mote_session_free(s.session);
    mote_engine_free(s.engine);
    mote_model_close(s.model);
    free(s.expected);
    mem_stats after = mem_count();
    if (before.blocks != after.blocks || before.bytes != after.bytes)
        rig_fail("%lld blocks are left at the end", (long long)(after.blocks - before.blocks));
    return 0;
}
