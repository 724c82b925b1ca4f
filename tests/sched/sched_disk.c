/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_disk.c - the prefix cache on disk: prompts after a restart, namespaces, damage, errors.
 *
 * Every answer is compared with a run without a scheduler, byte for byte. MOTE_DISK_CASES sets the
 * number of random splits, MOTE_DISK_SEED the seed.
 */
#define _XOPEN_SOURCE 700
#include "base/mem.h"
#include "sched/core_lock.h"
#include "sched/sched_rig.h"
#include "support/scale.h"
#include "support/test_files.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

enum { CONTEXT = 2048 };

static rig tiny;
static char directory[] = "/tmp/mote-sched-disk-XXXXXX";
static char path[64];
static char warning[512];
static _Atomic unsigned n_warnings;

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
    n_warnings = 0;
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

static void warn(void *with, const char *text)
{
    (void)with;
    snprintf(warning, sizeof warning, "%s", text);
    n_warnings++;
}

static sched_options options_of(const char *where)
{
    return (sched_options){.parallel = 2,
                           .idle_sessions = 6,
                           .context = CONTEXT,
                           .threads = 1,
                           .disk_directory = where,
                           .disk_bytes = 64 << 20,
                           .warn = warn};
}

static uint64_t reused(service *s, const question *q, uint64_t ns, sched_reuse *from)
{
    return service_reused(s, &tiny, q, CONTEXT, ns, from);
}

/* One job in a scheduler of its own: everything it reuses comes from disk. */
static uint64_t reused_after_restart(const question *q, uint64_t ns, sched_reuse *from,
                                     sched_disk_stats *stats)
{
    service s;
    service_open(&s, &tiny, options_of(path));
    const uint64_t n = reused(&s, q, ns, from);
    if (stats != NULL)
        assert_true(sched_read_disk_stats(s.sched, stats));
    service_close(&s);
    return n;
}

static void prefixes_survive_a_restart(void **state)
{
    (void)state;
    sched_reuse from;
    sched_disk_stats stats;
    question first = question_of_words(&tiny, 7, 120, 40, 12),
             second = question_of_words(&tiny, 8, 120, 40, 12);
    const size_t head = first.prompt.marks[0].position;
    assert_int_equal(reused_after_restart(&first, 1, &from, NULL), 0);
    assert_int_equal(from, SCHED_REUSE_NONE);
    assert_true(reused_after_restart(&second, 1, &from, &stats) + 32 > head);
    assert_int_equal(from, SCHED_REUSE_DISK);
    assert_int_equal(stats.restores, 1);
    assert_true(reused_after_restart(&first, 1, &from, NULL) + 64 > first.prompt.n);
    assert_int_equal(from, SCHED_REUSE_DISK);
    question_fini(&first);
    question_fini(&second);
}

/* The next turn of a conversation: its prompt, an answer and `more` tokens. The prompt is freed
 * with mem_free by next_turn_fini. */
static question next_turn(const question *q, const sched_result *r, size_t more)
{
    question next = *q;
    const size_t n = r->n_tokens + more;
    mote_token *ids = mem_new(n, sizeof *ids);
    chat_mark *marks = mem_new(q->prompt.n_marks, sizeof *marks);
    memcpy(ids, r->tokens, r->n_tokens * sizeof *ids);
    for (size_t i = r->n_tokens; i < n; i++)
        ids[i] = (mote_token)(300 + i % 1000);
    memcpy(marks, q->prompt.marks, q->prompt.n_marks * sizeof *marks);
    marks[q->prompt.n_marks - 1].position = n - 5;
    next.prompt.ids = ids;
    next.prompt.n = n;
    next.prompt.marks = marks;
    return next;
}

static void next_turn_fini(question *q)
{
    mem_free((void *)q->prompt.ids);
    mem_free((void *)q->prompt.marks);
}

/* After a restart a turn prefills its new tokens and at most 64 others, wherever prompts and
 * answers end. The last token of an answer is in no session. */
static void turn_after_a_restart(void **state)
{
    (void)state;
    const uint64_t cases = test_setting("MOTE_DISK_CASES", 12);
    test_random random = {test_setting("MOTE_DISK_SEED", 3)};
    for (uint64_t i = 0; i < cases; i++) {
        service s;
        test_job a, b;
        sched_options o = options_of(path);
        o.spec = i % 2 == 0 ? SPEC_OFF : 4;
        question q = question_of_words(&tiny, 1000 + i, 50, 20 + test_random_below(&random, 20),
                                       1 + (uint32_t)test_random_below(&random, 150));
        if (i % 3 == 0) /* the session ends with a page */
            q.answer.max_tokens += 64 - (uint32_t)((q.prompt.n + q.answer.max_tokens - 1) % 64);
        const size_t more = 8 + test_random_below(&random, 100);
        service_open(&s, &tiny, o);
        service_send(&s, &a, &q);
        service_wait_finished(&s, &a);
        question next = next_turn(&q, &a.result, more);
        service_drop(&s, &a);
        test_job_fini(&a);
        service_close(&s);
        service_open(&s, &tiny, o);
        service_send(&s, &b, &next);
        service_wait_finished(&s, &b);
        const mote_answer *got = &b.output.answer;
        assert_int_equal(b.result.reuse, SCHED_REUSE_DISK);
        if (got->prefilled_tokens > more + 64)
            fail_msg("%llu tokens prefilled, %zu new; prompt %zu, answer %u",
                     (unsigned long long)got->prefilled_tokens, more, q.prompt.n,
                     q.answer.max_tokens);
        test_output solo;
        rig_solo(&tiny, &next, CONTEXT, &solo);
        same_as_solo(&b, &solo);
        output_fini(&solo);
        service_drop(&s, &b);
        test_job_fini(&b);
        service_close(&s);
        next_turn_fini(&next);
        question_fini(&q);
        empty_directory(NULL);
    }
}

static void add_size(const char *name, void *with)
{
    struct stat info;
    if (stat(name, &info) == 0 && strstr(name, "/lock") == NULL)
        *(uint64_t *)with += (uint64_t)info.st_size;
}

static void hit_writes_nothing(void **state)
{
    (void)state;
    sched_reuse from;
    sched_disk_stats stats;
    uint64_t before = 0, after = 0;
    question q = question_of_words(&tiny, 11, 150, 30, 12);
    reused_after_restart(&q, 1, &from, NULL);
    test_files(path, "", add_size, &before);
    assert_true(before > 0);
    for (int i = 0; i < 3; i++) {
        assert_true(reused_after_restart(&q, 1, &from, &stats) > 0);
        assert_int_equal(from, SCHED_REUSE_DISK);
        assert_int_equal(stats.written_bytes, 0);
    }
    test_files(path, "", add_size, &after);
    assert_int_equal(before, after);
    question_fini(&q);
}

static void namespaces_share_nothing(void **state)
{
    (void)state;
    sched_reuse from;
    question q = question_of_words(&tiny, 9, 120, 10, 12);
    assert_int_equal(reused_after_restart(&q, 1, &from, NULL), 0);
    for (uint64_t ns = 2; ns < 6; ns++) {
        assert_int_equal(reused_after_restart(&q, ns, &from, NULL), 0);
        assert_int_equal(from, SCHED_REUSE_NONE);
    }
    assert_true(reused_after_restart(&q, 1, &from, NULL) > 0);
    question_fini(&q);
}

/* Other numerics, KV format or context extension: nothing is reused. */
static void other_settings_share_nothing(void **state)
{
    (void)state;
    sched_reuse from;
    service s;
    question q = question_of_words(&tiny, 12, 120, 10, 12);
    assert_int_equal(reused_after_restart(&q, 1, &from, NULL), 0);
    sched_options o = options_of(path);
    o.kv = MOTE_KV_F32;
    service_open(&s, &tiny, o);
    test_job a;
    service_send(&s, &a, &q);
    service_wait_finished(&s, &a);
    assert_int_equal(a.result.reuse, SCHED_REUSE_NONE);
    service_drop(&s, &a);
    test_job_fini(&a);
    service_close(&s);
    question_fini(&q);
}

/* Prompts that share random numbers of words with earlier ones, with and without a restart. */
static void random_splits(void **state)
{
    (void)state;
    const uint64_t cases = test_setting("MOTE_DISK_CASES", 12);
    test_random random = {test_setting("MOTE_DISK_SEED", 3)};
    uint64_t hits = 0;
    service s;
    printf("MOTE_DISK_SEED=%llu\n", (unsigned long long)random.state);
    service_open(&s, &tiny, options_of(path));
    for (uint64_t i = 0; i < cases; i++) {
        sched_reuse from;
        const uint64_t seed = 30 + test_random_below(&random, 3);
        question q = question_of_words(&tiny, seed, 60 + 20 * test_random_below(&random, 5),
                                       10 + test_random_below(&random, 60),
                                       1 + (uint32_t)test_random_below(&random, 70));
        reused(&s, &q, test_random_below(&random, 2), &from);
        hits += from == SCHED_REUSE_DISK;
        question_fini(&q);
        if (test_random_below(&random, 2) == 0) {
            service_close(&s);
            service_open(&s, &tiny, options_of(path));
        }
    }
    service_close(&s);
    printf("%llu of %llu from disk\n", (unsigned long long)hits, (unsigned long long)cases);
    assert_true(hits > 0);
    assert_int_equal(n_warnings, 0);
}

static void flip_bit(const char *name, void *with)
{
    test_random *random = with;
    const int fd = open(name, O_RDWR);
    struct stat info;
    unsigned char byte;
    if (fd < 0 || fstat(fd, &info) != 0 || strstr(name, "/lock") != NULL) {
        close(fd);
        return;
    }
    const off_t at = (off_t)test_random_below(random, (uint64_t)info.st_size);
    if (test_random_below(random, 3) == 0 && pread(fd, &byte, 1, at) == 1) {
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    close(fd);
}

/* Damaged records: the answer stays the same, and the records are removed. */
static void damage_is_a_miss(void **state)
{
    (void)state;
    sched_reuse from;
    sched_disk_stats stats;
    test_random random = {5};
    question q = question_of_words(&tiny, 13, 150, 60, 12);
    uint64_t failed = 0;
    for (int i = 0; i < 6; i++) {
        reused_after_restart(&q, 1, &from, &stats);
        failed += stats.failed_restores;
        test_files(path, "", flip_bit, &random);
    }
    assert_true(failed > 0);
    reused_after_restart(&q, 1, &from, NULL);
    assert_int_equal(n_warnings, 0);
    question_fini(&q);
}

/* Neither a directory that cannot be made nor a full disk changes an answer; one warning each. */
static void errors_of_the_disk(void **state)
{
    (void)state;
    sched_reuse from;
    service s;
    sched_disk_stats stats;
    struct rlimit old, small;
    question q = question_of_words(&tiny, 14, 120, 40, 12);
    service_open(&s, &tiny, options_of("/dev/null/prefix"));
    assert_int_equal(n_warnings, 1);
    assert_int_equal(reused(&s, &q, 1, &from), 0);
    assert_true(reused(&s, &q, 1, &from) > 0);
    assert_int_equal(from, SCHED_REUSE_IDLE);
    assert_false(sched_read_disk_stats(s.sched, &stats));
    service_close(&s);
    assert_int_equal(n_warnings, 1);

    service_open(&s, &tiny, options_of(path));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &small);
    for (uint64_t i = 0; i < 3; i++) {
        question more = question_of_words(&tiny, 40 + i, 120, 40, 12);
        reused(&s, &more, 1, &from);
        assert_int_not_equal(from, SCHED_REUSE_DISK);
        question_fini(&more);
    }
    service_close(&s);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(n_warnings, 2);
    question_fini(&q);
}

/* After a failed save a session is saved later: here at the end. */
static void failed_save_is_repeated(void **state)
{
    (void)state;
    sched_reuse from;
    service s;
    struct rlimit old, small;
    question q = question_of_words(&tiny, 16, 120, 40, 12);
    service_open(&s, &tiny, options_of(path));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &small);
    reused(&s, &q, 1, &from);
    while (n_warnings == 0)
        sched_yield();
    setrlimit(RLIMIT_FSIZE, &old);
    service_close(&s);
    assert_true(reused_after_restart(&q, 1, &from, NULL) > 0);
    assert_int_equal(from, SCHED_REUSE_DISK);
    question_fini(&q);
}

/* Another process has the directory: everything that writes waits. */
typedef struct directory_hold {
    int fd;
    pthread_t thread;
} directory_hold;

static void hold_directory(directory_hold *h)
{
    char name[80];
    snprintf(name, sizeof name, "%s/lock", path);
    h->fd = open(name, O_RDWR);
    assert_true(h->fd >= 0 && flock(h->fd, LOCK_EX) == 0);
}

static void *end_hold(void *with)
{
    const directory_hold *h = with;
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    close(h->fd);
    return NULL;
}

/* A save is interrupted because its session is dropped, and the writer still waits for the disk.
 * The end of the scheduler waits for it, and saves the other session. */
static void interrupted_save_delays_no_other(void **state)
{
    (void)state;
    sched_reuse from;
    service s;
    directory_hold hold;
    sched_prefix prefix;
    question a = question_of_words(&tiny, 17, 120, 40, 12),
             b = question_of_words(&tiny, 18, 120, 40, 12);
    service_open(&s, &tiny, options_of(path));
    hold_directory(&hold);
    reused(&s, &a, 1, &from); /* its save begins */
    assert_int_equal(sched_prefixes(s.sched, &prefix, 1), 1);
    assert_true(sched_prefix_drop(s.sched, prefix.id));
    reused(&s, &b, 1, &from);
    assert_int_equal(pthread_create(&hold.thread, NULL, end_hold, &hold), 0);
    service_close(&s);
    pthread_join(hold.thread, NULL);
    assert_true(reused_after_restart(&b, 1, &from, NULL) > 0);
    assert_int_equal(from, SCHED_REUSE_DISK);
    question_fini(&a);
    question_fini(&b);
}

/* A job that arrives while the sessions are saved before an unload: the engine stays, with its
 * sessions. */
static void job_ends_an_unload(void **state)
{
    (void)state;
    sched_reuse from;
    service s;
    directory_hold hold;
    question q = question_of_words(&tiny, 19, 120, 40, 12);
    service_open(&s, &tiny, options_of(path));
    hold_directory(&hold);
    reused(&s, &q, 1, &from);
    assert_false(sched_unload(s.sched, false));
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); /* the engine thread saves */
    assert_true(reused(&s, &q, 1, &from) > 0);
    assert_int_equal(from, SCHED_REUSE_IDLE);
    close(hold.fd);
    service_close(&s);
    question_fini(&q);
}

/* A job that waits for the disk leaves the cores to other engines. */
static void waiting_job_leaves_the_cores(void **state)
{
    (void)state;
    enum { LOOKS = 200 };
    service s;
    mote_error err;
    directory_hold hold;
    test_job a;
    sched_options o = options_of(path);
    question q = question_of_words(&tiny, 20, 120, 40, 12);
    must(core_lock_new(&o.core_lock, &err), &err);
    service_open(&s, &tiny, o);
    service other;
    service_open(&other, &tiny, options_of(path));
    sched_reuse from;
    reused(&other, &q, 1, &from); /* changes the directory: the index must be read again */
    service_close(&other);
    hold_directory(&hold);
    service_send(&s, &a, &q);
    unsigned taken = 0;
    for (int i = 0; i < LOOKS; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        taken += core_lock_contenders(o.core_lock) > 0;
    }
    assert_false(a.finished); /* it waits */
    assert_true(taken < LOOKS / 2);
    close(hold.fd);
    service_wait_finished(&s, &a);
    service_drop(&s, &a);
    test_job_fini(&a);
    service_close(&s);
    core_lock_free(o.core_lock);
    question_fini(&q);
}

/* MOTE_DISK_FULL: a file system with room for a few records. scripts/disk_cache_long mounts one. */
static void full_file_system(void **state)
{
    (void)state;
    sched_reuse from;
    service s;
    char full[300];
    const char *root = getenv("MOTE_DISK_FULL");
    if (root == NULL)
        skip();
    snprintf(full, sizeof full, "%s/prefix", root);
    service_open(&s, &tiny, options_of(full));
    for (uint64_t i = 0; i < 8; i++) {
        question q = question_of_words(&tiny, 80 + i, 150, 40, 12);
        reused(&s, &q, 1, &from);
        assert_true(reused(&s, &q, 1, &from) > 0);
        question_fini(&q);
    }
    service_close(&s);
    assert_int_equal(n_warnings, 1);
}

/* A second scheduler, as of another process, uses what the first one has written meanwhile. */
static void two_schedulers_share_a_directory(void **state)
{
    (void)state;
    sched_reuse from;
    service a, b;
    question q = question_of_words(&tiny, 15, 150, 40, 12);
    service_open(&b, &tiny, options_of(path));
    service_open(&a, &tiny, options_of(path));
    assert_int_equal(reused(&a, &q, 1, &from), 0);
    service_close(&a);
    assert_true(reused(&b, &q, 1, &from) > 0);
    assert_int_equal(from, SCHED_REUSE_DISK);
    service_close(&b);
    question_fini(&q);
}

/* More jobs at once than slots, so that sessions are evicted, saved and restored together. */
static void many_at_once(void **state)
{
    (void)state;
    enum { N = 8, ROUNDS = 3 };
    question q[N];
    test_output solo[N];
    for (uint64_t i = 0; i < N; i++) {
        q[i] = question_of_words(&tiny, 60 + i, 100, 20 + 10 * i, 20);
        rig_solo(&tiny, &q[i], CONTEXT, &solo[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        service s;
        test_job jobs[N];
        sched_options o = options_of(path);
        o.kv_tokens = CONTEXT;
        o.disk_bytes = 3 << 20;
        service_open(&s, &tiny, o);
        for (size_t i = 0; i < N; i++)
            service_send(&s, &jobs[i], &q[i]);
        service_drop(&s, &jobs[N - 1]); /* perhaps while it is restored */
        for (size_t i = 0; i + 1 < N; i++) {
            service_wait_finished(&s, &jobs[i]);
            same_as_solo(&jobs[i], &solo[i]);
            service_drop(&s, &jobs[i]);
        }
        for (size_t i = 0; i < N; i++)
            test_job_fini(&jobs[i]);
        service_close(&s);
    }
    for (size_t i = 0; i < N; i++) {
        question_fini(&q[i]);
        output_fini(&solo[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(prefixes_survive_a_restart, empty_directory),
        cmocka_unit_test_teardown(turn_after_a_restart, empty_directory),
        cmocka_unit_test_teardown(hit_writes_nothing, empty_directory),
        cmocka_unit_test_teardown(namespaces_share_nothing, empty_directory),
        cmocka_unit_test_teardown(other_settings_share_nothing, empty_directory),
        cmocka_unit_test_teardown(random_splits, empty_directory),
        cmocka_unit_test_teardown(damage_is_a_miss, empty_directory),
        cmocka_unit_test_teardown(errors_of_the_disk, empty_directory),
        cmocka_unit_test_teardown(failed_save_is_repeated, empty_directory),
        cmocka_unit_test_teardown(interrupted_save_delays_no_other, empty_directory),
        cmocka_unit_test_teardown(job_ends_an_unload, empty_directory),
        cmocka_unit_test_teardown(waiting_job_leaves_the_cores, empty_directory),
        cmocka_unit_test_teardown(full_file_system, empty_directory),
        cmocka_unit_test_teardown(two_schedulers_share_a_directory, empty_directory),
        cmocka_unit_test_teardown(many_at_once, empty_directory),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
