/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_threads.c - worker threads of an engine: idle between steps, pinned as configured, without
 * effect on the calling thread.
 */
#define _GNU_SOURCE
#include "law/rig.h"

#include "base/cpu.h"
#include "support/idle.h"

#include <dirent.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mote_model *model;
static mote_model_info info;

/* After a step the workers spin for a few microseconds, then sleep. */
static void an_idle_engine_uses_no_cpu(void **unused)
{
    (void)unused;
    mote_engine *engine = rig_engine(model, &(mote_engine_options){.threads = 4});
    mote_session *session = rig_session(engine);
    static const mote_token prompt[70] = {1, 2, 3};
    rig_feed(engine, session, prompt, 70, MOTE_LOGITS_LAST);
    assert_true(test_idle_cpu(0.005) < 0.005); /* one spinning thread would take 1 */
    mote_session_free(session);
    mote_engine_free(engine);
}

enum { MAX_SEEN = 64 };

/* The threads there are before an engine starts its own: the first, a sanitizer's, and those of
 * the engine before, which the system may list for a moment after they were joined. */
typedef struct thread_list {
    pid_t ids[MAX_SEEN];
    size_t n;
} thread_list;

static thread_list all_threads(void)
{
    thread_list all = {.n = 0};
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *one; (one = readdir(tasks)) != NULL;) {
        const pid_t id = (pid_t)strtol(one->d_name, NULL, 10);
        if (id > 0 && all.n < MAX_SEEN)
            all.ids[all.n++] = id;
    }
    closedir(tasks);
    return all;
}

static bool lists(const thread_list *list, pid_t id)
{
    size_t i = 0;
    while (i < list->n && list->ids[i] != id)
        i++;
    return i < list->n;
}

/* The affinity of every thread that was started since. */
static size_t new_threads(const thread_list *before, cpu_set_t masks[MAX_SEEN])
{
    size_t n = 0;
    const thread_list all = all_threads();
    for (size_t i = 0; i < all.n; i++)
        if (!lists(before, all.ids[i]))
            assert_int_equal(sched_getaffinity(all.ids[i], sizeof *masks, &masks[n++]), 0);
    return n;
}

/* Logits of a short text with this engine, and what its threads may use. */
static size_t run_with(const mote_engine_options *options, float *logits, cpu_set_t masks[MAX_SEEN])
{
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    const thread_list others = all_threads();
    mote_engine *engine = rig_engine(model, options);
    mote_session *session = rig_session(engine);
    static const mote_token prompt[40] = {4, 5, 6};
    rig_feed(engine, session, prompt, 40, MOTE_LOGITS_LAST);
    memcpy(logits, mote_session_logits(session, 0), info.vocabulary * sizeof *logits);
    const size_t n = new_threads(&others, masks);
    mote_session_free(session);
    mote_engine_free(engine);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after)); /* the caller is not pinned */
    return n;
}

static void placing_changes_no_bit_and_no_caller(void **unused)
{
    (void)unused;
    cores c;
    cores_find(&c);
    if (c.n_strong > MAX_SEEN || c.quota)
        skip();
    float *want = calloc(info.vocabulary, sizeof *want),
          *got = calloc(info.vocabulary, sizeof *got);
    cpu_set_t masks[MAX_SEEN], whole;
    sched_getaffinity(0, sizeof whole, &whole);
    size_t n = run_with(&(mote_engine_options){.pin = MOTE_PIN_OFF}, want, masks);
    for (size_t i = 0; i < n; i++)
        assert_true(CPU_EQUAL(&masks[i], &whole));
    n = run_with(&(mote_engine_options){0}, got, masks);
    assert_memory_equal(want, got, info.vocabulary * sizeof *want);
    for (size_t i = 0; i < n; i++) /* only efficiency cores are excluded */
        assert_int_equal(CPU_EQUAL(&masks[i], &whole), !c.weaker);
    n = run_with(&(mote_engine_options){.pin = MOTE_PIN_CORES, .threads = c.n_strong}, got, masks);
    assert_int_equal(n, c.n_strong - 1); /* the caller is one */
    assert_memory_equal(want, got, info.vocabulary * sizeof *want);
    cpu_set_t together;
    CPU_ZERO(&together);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(CPU_COUNT(&masks[i]), 1);
        CPU_OR(&together, &together, &masks[i]);
    }
    assert_int_equal(CPU_COUNT(&together), n); /* no two on one core */
    n = run_with(&(mote_engine_options){.pin = MOTE_PIN_CORES, .threads = c.n_strong + 1}, got,
                 masks);
    assert_memory_equal(want, got, info.vocabulary * sizeof *want);
    for (size_t i = 0; i < n; i++) /* more threads than cores: no thread is pinned */
        assert_true(CPU_EQUAL(&masks[i], &whole));
    free(want);
    free(got);
}

static int open_model(void **unused)
{
    (void)unused;
    const char *path = rig_model_path("r1-gqa4-tied");
    if (path == NULL)
        return -1;
    model = rig_open(path, MOTE_ISA_BEST);
    /* A sanitizer starts its thread with the first of ours. */
    mote_engine_free(rig_engine(model, &(mote_engine_options){.threads = 2}));
    mote_model_describe(model, &info);
    return 0;
}

static int close_model(void **unused)
{
    (void)unused;
    mote_model_close(model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_engine_uses_no_cpu),
        cmocka_unit_test(placing_changes_no_bit_and_no_caller),
    };
    return cmocka_run_group_tests_name("engine_threads", tests, open_model, close_model);
}
