/* SPDX-License-Identifier: Apache-2.0 */
/* base_mem_test.c - the allocator: zeroed, aligned, counted, injected failures; the arena. */
#include "base/mem.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static bool all_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0)
            return false;
    return true;
}

static void blocks_are_zeroed_aligned_and_counted(void **state)
{
    (void)state;
    const mem_stats before = mem_count();
    for (size_t n = 0; n < 300; n += 7) {
        unsigned char *block = mem_new(n, 3);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % MEM_ALIGN, 0);
        assert_true(all_zero(block, 3 * n));
        assert_int_equal(mem_count().bytes - before.bytes, 3 * n);
        assert_int_equal(mem_count().blocks - before.blocks, 1);
        mem_free(block);
    }
    mem_free(NULL);
    assert_int_equal(mem_count().bytes, before.bytes);
    assert_int_equal(mem_count().blocks, before.blocks);
    assert_int_equal(mem_count().requests - before.requests, 43);
}

/* Enough blocks of one size that malloc reuses freed ones. */
static void reused_blocks_are_zeroed(void **state)
{
    (void)state;
    enum { N = 64, BYTES = 500 };
    unsigned char *blocks[N];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            blocks[i] = mem_new(BYTES, 1);
            assert_non_null(blocks[i]);
            assert_true(all_zero(blocks[i], BYTES));
            memset(blocks[i], 0xAB, BYTES);
        }
        for (int i = 0; i < N; i++)
            mem_free(blocks[i]);
    }
}

static void overflowing_sizes_are_rejected(void **state)
{
    (void)state;
    const mem_stats before = mem_count();
    assert_null(mem_new(SIZE_MAX, 1));
    assert_null(mem_new(SIZE_MAX / 2, 3));
    assert_null(mem_new((size_t)1 << 32, (size_t)1 << 32));
    assert_null(mem_map(0, 0));
    assert_int_equal(mem_count().bytes, before.bytes);
}

static void resizing_keeps_and_zeroes(void **state)
{
    (void)state;
    const mem_stats before = mem_count();
    unsigned char *p = mem_new(10, 4);
    memset(p, 7, 40);
    p = mem_resize(p, 10, 100, 4);
    assert_non_null(p);
    for (int i = 0; i < 40; i++)
        assert_int_equal(p[i], 7);
    assert_true(all_zero(p + 40, 360));
    p = mem_resize(p, 100, 5, 4);
    assert_int_equal(p[19], 7);
    assert_int_equal(mem_count().bytes - before.bytes, 20);
    assert_null(mem_resize(p, 5, SIZE_MAX, 4));
    assert_int_equal(p[19], 7); /* a failed resize keeps the block */
    mem_free(p);
    assert_int_equal(mem_count().bytes, before.bytes);
}

/* realloc may change the alignment of a block; the contents must move with it. */
static void resizing_moves_blocks_of_all_sizes(void **state)
{
    (void)state;
    enum { BLOCKS = 64, ROUNDS = 4000, MOST = 300000 };
    unsigned char *p[BLOCKS] = {0};
    size_t n[BLOCKS] = {0};
    uint64_t random = 1;
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const size_t i = (size_t)(random >> 40) % BLOCKS;
        const size_t wanted = (size_t)(random >> 33) % (round % 50 == 0 ? MOST : 900);
        const size_t kept = n[i] < wanted ? n[i] : wanted;
        p[i] = mem_resize(p[i], n[i], wanted, 1);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % MEM_ALIGN, 0);
        for (size_t j = 0; j < kept; j++)
            assert_int_equal(p[i][j], i + 1);
        assert_true(all_zero(p[i] + kept, wanted - kept));
        memset(p[i], (int)i + 1, wanted);
        n[i] = wanted;
    }
    for (int i = 0; i < BLOCKS; i++)
        mem_free(p[i]);
}

static void mapped_memory_is_zeroed_and_counted(void **state)
{
    (void)state;
    const mem_stats before = mem_count();
    const size_t bytes = (size_t)1 << 40; /* address space, not memory */
    unsigned char *p = mem_map(0, bytes);
    if (p != NULL) { /* with a sanitizer less address space may be free */
        assert_int_equal(p[bytes - 1], 0);
        assert_int_equal(mem_count().bytes - before.bytes, bytes);
        mem_unmap(p, 0, bytes);
    }
    p = mem_map(0, 1 << 20);
    assert_non_null(p);
    assert_true(all_zero(p, 1 << 20));
    mem_unmap(p, 0, 1 << 20);
    mem_unmap(NULL, 0, 0);
    assert_int_equal(mem_count().bytes, before.bytes);
}

/* True if writing one byte kills the process. */
static bool write_faults(unsigned char *at)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* the handler of a sanitizer would exit instead */
        *(volatile unsigned char *)at = 1;
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void zeros_are_read_only_and_free(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), zeros = 300 * page, rest = 7 * page;
    const mem_stats before = mem_count();
    unsigned char *p = mem_map(zeros, rest);
    assert_non_null(p);
    assert_int_equal(mem_count().bytes - before.bytes, rest);
    assert_true(all_zero(p, zeros + rest));
    assert_true(write_faults(p));
    assert_true(write_faults(p + zeros - 1));
    assert_false(write_faults(p + zeros));
    memset(p + zeros, 1, rest);
    assert_true(all_zero(p, zeros));
    mem_unmap(p, zeros, rest);
    assert_int_equal(mem_count().bytes, before.bytes);
    assert_int_equal(mem_count().blocks, before.blocks);
    assert_null(mem_map(SIZE_MAX, 2));
}

static void the_nth_request_fails_once(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 5; n++) {
        mem_fail_at(n);
        for (uint64_t i = 1; i <= 6; i++) {
            void *p = i % 2 ? mem_new(1, 1) : mem_map(0, 1);
            assert_true((p == NULL) == (i == n));
            assert_true(mem_failed() == (i >= n));
            if (i % 2)
                mem_free(p);
            else
                mem_unmap(p, 0, 1);
        }
    }
    mem_fail_at(2);
    mem_fail_at(0);
    assert_false(mem_failed());
    for (int i = 0; i < 4; i++) {
        void *p = mem_new(1, 1);
        assert_non_null(p);
        mem_free(p);
    }
}

/* Exit status of a child that allocates, or does not, inside a guard. Guards nest. */
static int guarded_child_status(bool allocate)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        mem_guard_begin();
        mem_guard_begin();
        mem_guard_end();
        if (allocate)
            mem_free(mem_new(1, 1));
        mem_guard_end();
        mem_free(mem_new(1, 1)); /* after the guard */
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static void the_guard_aborts_in_debug_builds(void **state)
{
    (void)state;
    const int without_alloc = guarded_child_status(false);
    assert_true(WIFEXITED(without_alloc) && WEXITSTATUS(without_alloc) == 0);
    const int with_alloc = guarded_child_status(true);
#ifdef NDEBUG
    assert_true(WIFEXITED(with_alloc) && WEXITSTATUS(with_alloc) == 0);
#else
    assert_true(WIFSIGNALED(with_alloc) && WTERMSIG(with_alloc) == SIGABRT);
#endif
}

static void arena_size_equals_what_it_returns(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 1000};
    arena counting = {0};
    for (size_t i = 0; i < 6; i++)
        assert_null(arena_take(&counting, sizes[i], 4));
    unsigned char *memory = mem_new(1, counting.used);
    arena a = {.base = memory};
    unsigned char *last_end = memory;
    for (size_t i = 0; i < 6; i++) {
        unsigned char *piece = arena_take(&a, sizes[i], 4);
        assert_int_equal((uintptr_t)piece % 64, 0);
        assert_true(piece >= last_end);
        memset(piece, 1, 4 * sizes[i]);
        last_end = piece + 4 * sizes[i];
    }
    assert_true(last_end <= memory + counting.used);
    assert_int_equal(a.used, counting.used);
    assert_false(a.overflow);
    arena_release(&a);
    mem_free(memory);
    assert_null(arena_take(&counting, SIZE_MAX / 2, 3));
    assert_true(counting.overflow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zeroed_aligned_and_counted),
        cmocka_unit_test(reused_blocks_are_zeroed),
        cmocka_unit_test(overflowing_sizes_are_rejected),
        cmocka_unit_test(resizing_keeps_and_zeroes),
        cmocka_unit_test(resizing_moves_blocks_of_all_sizes),
        cmocka_unit_test(mapped_memory_is_zeroed_and_counted),
        cmocka_unit_test(zeros_are_read_only_and_free),
        cmocka_unit_test(the_nth_request_fails_once),
        cmocka_unit_test(the_guard_aborts_in_debug_builds),
        cmocka_unit_test(arena_size_equals_what_it_returns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
