/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.c - see mem.h.
 *
 * Each block is preceded by one cache line that remembers its size, so that
 * freeing can count. The counters are process-wide atomics: they exist for
 * tests and for the memory figure, not for decisions.
 */
#define _GNU_SOURCE
#include "base/mem.h"

#include "base/ckd.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t live_blocks;
static _Atomic uint64_t live_bytes;
static _Atomic uint64_t n_requests;
static _Atomic uint64_t fail_countdown;
static _Atomic bool failure_happened;
#ifndef NDEBUG
static _Thread_local int guard_depth;
#endif

/* False when this request is the one that a test wants to fail. */
static bool request_allowed(void)
{
#ifndef NDEBUG
    if (guard_depth > 0)
        abort();
#endif
    atomic_fetch_add(&n_requests, 1);
    uint64_t left = atomic_load(&fail_countdown);
    while (left > 0) {
        if (!atomic_compare_exchange_weak(&fail_countdown, &left, left - 1))
            continue;
        if (left == 1) {
            atomic_store(&failure_happened, true);
            return false;
        }
        break;
    }
    return true;
}

static void count_in(size_t bytes)
{
    atomic_fetch_add(&live_blocks, 1);
    atomic_fetch_add(&live_bytes, bytes);
}

static void count_out(size_t bytes)
{
    atomic_fetch_sub(&live_blocks, 1);
    atomic_fetch_sub(&live_bytes, bytes);
}

void *mem_new(size_t n, size_t each)
{
    size_t bytes, whole;
    if (!ckd_mul_size(n, each, &bytes) || !ckd_add_size(bytes, 2 * MEM_ALIGN - 1, &whole))
        return NULL;
    whole &= ~(size_t)(MEM_ALIGN - 1);
    if (!request_allowed())
        return NULL;
    unsigned char *block = aligned_alloc(MEM_ALIGN, whole);
    if (block == NULL)
        return NULL;
    memset(block, 0, whole);
    memcpy(block, &bytes, sizeof bytes);
    count_in(bytes);
    return block + MEM_ALIGN;
}

static size_t size_of(const void *block)
{
    size_t bytes;
    memcpy(&bytes, (const unsigned char *)block - MEM_ALIGN, sizeof bytes);
    return bytes;
}

void *mem_resize(void *block, size_t old_n, size_t new_n, size_t each)
{
    void *fresh = mem_new(new_n, each);
    if (fresh == NULL)
        return NULL;
    size_t keep = (old_n < new_n ? old_n : new_n) * each;
    if (keep > 0)
        memcpy(fresh, block, keep);
    mem_free(block);
    return fresh;
}

void mem_free(void *block)
{
    if (block == NULL)
        return;
    count_out(size_of(block));
    free((unsigned char *)block - MEM_ALIGN);
}

/* As far as whole pages go. Large pages would be given, not shown. */
static bool protect_zeros(void *block, size_t zeros)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = zeros / page * page;
    if (whole == 0)
        return true;
    madvise(block, whole, MADV_NOHUGEPAGE);
    return mprotect(block, whole, PROT_READ) == 0;
}

void *mem_map(size_t zeros, size_t bytes)
{
    size_t whole;
    if (bytes == 0 || !ckd_add_size(zeros, bytes, &whole) || !request_allowed())
        return NULL;
    void *block = mmap(NULL, whole, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == MAP_FAILED)
        return NULL;
    if (!protect_zeros(block, zeros)) {
        munmap(block, whole);
        return NULL;
    }
    count_in(bytes);
    return block;
}

void mem_unmap(void *block, size_t zeros, size_t bytes)
{
    if (block == NULL)
        return;
    count_out(bytes);
    munmap(block, zeros + bytes);
}

mem_stats mem_count(void)
{
    return (mem_stats){atomic_load(&live_blocks), atomic_load(&live_bytes),
                       atomic_load(&n_requests)};
}

void mem_fail_at(uint64_t n)
{
    atomic_store(&failure_happened, false);
    atomic_store(&fail_countdown, n);
}

bool mem_failed(void)
{
    return atomic_load(&failure_happened);
}

void mem_guard_begin(void)
{
#ifndef NDEBUG
    guard_depth++;
#endif
}

void mem_guard_end(void)
{
#ifndef NDEBUG
    guard_depth--;
#endif
}
