/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_threads.c - an engine's threads: idle when there is nothing to do, where they
 * were asked to be, and never the caller's business.
 */
#define _GNU_SOURCE
#include "law/rig.h"

#include "base/cores.h"

#include <dirent.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static mote_model *model;
static mote_model_info info;

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void pause_for(double seconds)
{
    struct timespec left = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    while (nanosleep(&left, &left) != 0)
        continue;
}

/* After a step the workers spin for some microseconds and then sleep until the next one. */
static void an_idle_engine_uses_no_cpu(void **unused)
{
    (void)unused;
    mote_engine *engine = rig_engine(model, &(mote_engine_options){.threads = 4});
    mote_session *session = rig_session(engine);
    static const mote_token prompt[70] = {1, 2, 3};
    rig_feed(engine, session, prompt, 70, MOTE_LOGITS_LAST);
    pause_for(0.05);
    double before = cpu_seconds();
    pause_for(1);
    double used = cpu_seconds() - before;
    printf("idle for 1 s: %.6f s of CPU time\n", used);
    assert_true(used < 0.005); /* one spinning thread would take 1 */
    mote_session_free(session);
    mote_engine_free(engine);
}

enum { MAX_SEEN = 64 };

/* Threads that no engine has started: the first, and a sanitizer's own, which comes with the first
 * that is. */
static pid_t first_ones[MAX_SEEN];
static size_t n_first_ones;

static size_t all_threads(pid_t ids[MAX_SEEN])
{
    size_t n = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *one; (one = readdir(tasks)) != NULL;) {
        const pid_t id = (pid_t)strtol(one->d_name, NULL, 10);
        if (id > 0 && n < MAX_SEEN)
            ids[n++] = id;
    }
    closedir(tasks);
    return n;
}

static bool is_first_one(pid_t id)
{
    size_t i = 0;
    while (i < n_first_ones && first_ones[i] != id)
        i++;
    return i < n_first_ones;
}

/* The affinity of every thread that an engine has started. */
static size_t other_threads(cpu_set_t masks[MAX_SEEN])
{
    pid_t ids[MAX_SEEN];
    size_t n = 0;
    const size_t n_all = all_threads(ids);
    for (size_t i = 0; i < n_all; i++)
        if (!is_first_one(ids[i]))
            assert_int_equal(sched_getaffinity(ids[i], sizeof *masks, &masks[n++]), 0);
    return n;
}

/* Logits of a short text with this engine, and what its threads may use. */
static size_t run_with(const mote_engine_options *options, float *logits, cpu_set_t masks[MAX_SEEN])
{
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    mote_engine *engine = rig_engine(model, options);
    mote_session *session = rig_session(engine);
    static const mote_token prompt[40] = {4, 5, 6};
    rig_feed(engine, session, prompt, 40, MOTE_LOGITS_LAST);
    memcpy(logits, mote_session_logits(session, 0), info.vocabulary * sizeof *logits);
    size_t n = other_threads(masks);
    mote_session_free(session);
    mote_engine_free(engine);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after)); /* the caller is left alone */
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
    for (size_t i = 0; i < n; i++) /* only weak cores are kept out */
        assert_int_equal(CPU_EQUAL(&masks[i], &whole), !c.weaker);
    n = run_with(&(mote_engine_options){.pin = MOTE_PIN_CORES, .threads = c.n_strong}, got, masks);
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
    for (size_t i = 0; i < n; i++) /* more threads than cores: nobody is placed */
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
    mote_engine_free(rig_engine(model, &(mote_engine_options){.threads = 2}));
    n_first_ones = all_threads(first_ones);
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
