/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_end.c - an equal prompt prefills nothing: the end of the first one is kept in memory and on
 * disk. Every answer is compared with a run without a scheduler, byte for byte, with and without
 * drafts. MOTE_END_CASES sets the number of random questions, MOTE_END_SEED the seed.
 */
#define _XOPEN_SOURCE 700
#include "sched/sched_rig.h"
#include "support/scale.h"
#include "support/test_files.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

enum { CONTEXT = 2048 };

static rig tiny;
static char directory[] = "/tmp/mote-sched-end-XXXXXX";
static char path[64];

static int make_directory(void **state)
{
    (void)state;
    rig_open(&tiny);
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/prefix", directory);
    return 0;
}

static int empty_directory(void **state)
{
    (void)state;
    test_files(path, "", test_file_remove, NULL);
    return 0;
}

static int remove_directory(void **state)
{
    empty_directory(state);
    rig_close(&tiny);
    rmdir(path);
    return rmdir(directory);
}

static sched_options options_of(const char *where, int drafts)
{
    return (sched_options){.parallel = 2,
                           .idle_sessions = 4,
                           .context = CONTEXT,
                           .threads = 1,
                           .spec = drafts,
                           .disk_directory = where,
                           .disk_bytes = where != NULL ? 256 << 20 : 0};
}

/* A question and its answer without a scheduler. */
typedef struct asked {
    question q;
    test_output solo;
} asked;

static asked asked_of(question q)
{
    asked a = {.q = q};
    rig_solo(&tiny, &a.q, CONTEXT, &a.solo);
    return a;
}

static void asked_fini(asked *a)
{
    question_fini(&a->q);
    output_fini(&a->solo);
}

/* Sends it and compares the answer. Returns the number of reused tokens. */
static uint64_t reused(service *s, const asked *what, uint64_t ns, sched_reuse *from)
{
    mote_error err;
    test_job a;
    sched_job_options o = service_job(s, &a, &what->q);
    o.ns = ns;
    must(service_submit(s, &a, &o, &err), &err);
    service_wait_finished(s, &a);
    same_as_solo(&a, &what->solo);
    *from = a.result.reuse;
    const uint64_t n = a.output.answer.reused_tokens;
    service_drop(s, &a);
    test_job_fini(&a);
    return n;
}

/* With log-probabilities if the seed is even. */
static asked asked_of_words(uint64_t seed, size_t words)
{
    question q = question_of_words(&tiny, seed, 60, words, 1 + (uint32_t)seed % 9 * 8);
    q.logprobs = seed % 2 == 0;
    q.answer.sampling.top_logprobs = q.logprobs ? 4 : 0;
    return asked_of(q);
}

/* A prompt that ends at a multiple of 32 has no end: it computes its last tokens. */
static void assert_full(uint64_t n, const question *q)
{
    if (q->prompt.n % 32 != 0)
        assert_int_equal(n, q->prompt.n);
    else
        assert_true(n + 64 >= q->prompt.n);
}

/* Generation prompts of some cross a multiple of 32. */
static void equal_prompt_prefills_nothing(void **state)
{
    (void)state;
    for (int drafts = SPEC_OFF; drafts <= 4; drafts += 5) {
        service s;
        service_open(&s, &tiny, options_of(NULL, drafts));
        for (size_t words = 30; words < 38; words++) {
            sched_reuse from;
            asked a = asked_of_words(words, words);
            reused(&s, &a, 1, &from);
            for (int again = 0; again < 3; again++) {
                assert_full(reused(&s, &a, 1, &from), &a.q);
                assert_int_equal(from, SCHED_REUSE_IDLE);
            }
            assert_true(reused(&s, &a, 2, &from) < a.q.prompt.n); /* another namespace */
            asked_fini(&a);
        }
        service_close(&s);
    }
}

/* The same from disk, in a scheduler that has no session. */
static void equal_prompt_after_a_restart(void **state)
{
    (void)state;
    for (int drafts = SPEC_OFF; drafts <= 4; drafts += 5)
        for (size_t words = 60; words < 66; words++) {
            sched_reuse from;
            asked a = asked_of_words(words, words);
            assert_true(a.q.prompt.n > 256);
            for (int start = 0; start < 2; start++) {
                service s;
                sched_stats f;
                service_open(&s, &tiny, options_of(path, drafts));
                const uint64_t n = reused(&s, &a, 1, &from);
                if (start > 0) {
                    assert_full(n, &a.q);
                    assert_int_equal(from, SCHED_REUSE_DISK);
                    sched_read_stats(s.sched, &f);
                    assert_true(f.prefill_tokens == 0 || a.q.prompt.n % 32 == 0);
                    assert_full(reused(&s, &a, 1, &from), &a.q);
                    assert_int_equal(from, SCHED_REUSE_IDLE);
                }
                service_close(&s);
            }
            asked_fini(&a);
        }
}

/* A question with a prompt that has an end. */
static asked asked_with_end(uint64_t seed)
{
    question q = question_of_words(&tiny, seed, 60, 60, 12);
    while (q.prompt.n % 32 == 0) {
        question_fini(&q);
        q = question_of_words(&tiny, ++seed, 60, 60, 12);
    }
    return asked_of(q);
}

/* Equal prompts at the same time: one is prefilled, the others take its end. */
static void equal_prompts_at_once(void **state)
{
    (void)state;
    enum { N = 5 };
    service s;
    test_job a[N];
    sched_stats f;
    asked one = asked_with_end(300);
    sched_options o = options_of(NULL, SPEC_OFF);
    o.parallel = N;
    service_open(&s, &tiny, o);
    for (size_t i = 0; i < N; i++)
        service_send(&s, &a[i], &one.q);
    for (size_t i = 0; i < N; i++)
        service_wait_finished(&s, &a[i]);
    for (size_t i = 0; i < N; i++) {
        same_as_solo(&a[i], &one.solo);
        service_drop(&s, &a[i]);
        test_job_fini(&a[i]);
    }
    sched_read_stats(s.sched, &f);
    assert_int_equal(f.prefill_tokens, one.q.prompt.n);
    service_close(&s);
    asked_fini(&one);
}

static void damage_file(const char *name, void *with)
{
    (void)with;
    const int fd = open(name, O_RDWR);
    char byte = 0;
    assert_true(fd >= 0 && pread(fd, &byte, 1, 2048) == 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 2048), 1);
    close(fd);
}

/* Without its end, or with a damaged one, a prompt computes its last tokens. */
static void damaged_end_is_a_miss(void **state)
{
    (void)state;
    asked a = asked_with_end(400);
    sched_reuse from;
    for (int start = 0; start < 3; start++) {
        service s;
        service_open(&s, &tiny, options_of(path, SPEC_OFF));
        const uint64_t n = reused(&s, &a, 1, &from);
        if (start > 0) {
            assert_true(n < a.q.prompt.n && n + 32 > a.q.prompt.n);
            assert_int_equal(from, SCHED_REUSE_DISK);
        }
        service_close(&s);
        test_file_fn *fn = start == 0 ? damage_file : test_file_remove;
        assert_int_equal(test_files(path, ".e", fn, NULL), 1);
    }
    asked_fini(&a);
}

/* A prefix that is dropped through the API leaves no end behind. */
static void dropped_prefix_has_no_end(void **state)
{
    (void)state;
    service s;
    sched_reuse from;
    sched_prefix prefix;
    asked a = asked_with_end(500);
    service_open(&s, &tiny, options_of(NULL, SPEC_OFF));
    reused(&s, &a, 1, &from);
    assert_int_equal(sched_prefixes(s.sched, &prefix, 1), 1);
    assert_true(sched_prefix_drop(s.sched, prefix.id));
    assert_int_equal(reused(&s, &a, 1, &from), 0);
    assert_int_equal(reused(&s, &a, 1, &from), a.q.prompt.n);
    service_close(&s);
    asked_fini(&a);
}

/* Random requests, each several times, in any order, with restarts. */
static void random_questions(void **state)
{
    (void)state;
    enum { QUESTIONS = 8 };
    const uint64_t cases = test_setting("MOTE_END_CASES", 40);
    test_random random = {test_setting("MOTE_END_SEED", 21)};
    asked a[QUESTIONS];
    uint64_t full = 0;
    service s;
    printf("MOTE_END_SEED=%llu\n", (unsigned long long)random.state);
    for (size_t i = 0; i < QUESTIONS; i++) {
        question q;
        question_random(&q, &tiny, &random);
        a[i] = asked_of(q);
    }
    service_open(&s, &tiny, options_of(path, 3));
    for (uint64_t i = 0; i < cases; i++) {
        sched_reuse from;
        const asked *one = &a[test_random_below(&random, QUESTIONS)];
        full += reused(&s, one, 1, &from) == one->q.prompt.n;
        if (test_random_below(&random, 12) == 0) {
            service_close(&s);
            service_open(&s, &tiny, options_of(path, 3));
        }
    }
    service_close(&s);
    for (size_t i = 0; i < QUESTIONS; i++)
        asked_fini(&a[i]);
    printf("%llu of %llu full hits\n", (unsigned long long)full, (unsigned long long)cases);
    assert_true(full > cases / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_prompt_prefills_nothing),
        cmocka_unit_test_teardown(equal_prompt_after_a_restart, empty_directory),
        cmocka_unit_test(equal_prompts_at_once),
        cmocka_unit_test_teardown(damaged_end_is_a_miss, empty_directory),
        cmocka_unit_test(dropped_prefix_has_no_end),
        cmocka_unit_test_teardown(random_questions, empty_directory),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
