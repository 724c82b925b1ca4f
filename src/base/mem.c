/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.c - see mem.h.
 *
 * Each block stands on a cache line inside what the system's allocator gave, after a few words
 * that remember its size and where that begins. calloc and realloc are asked, not an aligned
 * allocator: they know which pages are zero already, and grow large blocks without copying. The
 * counters are process-wide atomics: they exist for tests and for the memory figure, not
 * for decisions.
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

typedef struct block_head {
    size_t bytes;
    unsigned char *given; /* by the system's allocator */
} block_head;

/* What to ask for; the last line of a block is whole. */
static bool space_for(size_t n, size_t each, size_t *bytes, size_t *whole)
{
    const size_t around = sizeof(block_head) + 2 * (MEM_ALIGN - 1);
    return ckd_mul_size(n, each, bytes) && ckd_add_size(*bytes, around, whole);
}

static unsigned char *place_in(unsigned char *given)
{
    const uintptr_t first = (uintptr_t)given + sizeof(block_head);
    return given + ((first + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN - (uintptr_t)given);
}

static block_head head_of(const void *block)
{
    block_head head;
    memcpy(&head, (const unsigned char *)block - sizeof head, sizeof head);
    return head;
}

static void *begin(unsigned char *block, size_t bytes, unsigned char *given)
{
    const block_head head = {bytes, given};
    memcpy(block - sizeof head, &head, sizeof head);
    count_in(bytes);
    return block;
}

void *mem_new(size_t n, size_t each)
{
    size_t bytes, whole;
    if (!space_for(n, each, &bytes, &whole) || !request_allowed())
        return NULL;
    unsigned char *given = calloc(1, whole);
    return given == NULL ? NULL : begin(place_in(given), bytes, given);
}

void *mem_resize(void *block, size_t old_n, size_t new_n, size_t each)
{
    size_t bytes, whole;
    if (block == NULL)
        return mem_new(new_n, each);
    if (!space_for(new_n, each, &bytes, &whole) || !request_allowed())
        return NULL;
    const block_head old = head_of(block);
    const size_t at = (size_t)((unsigned char *)block - old.given);
    const size_t keep = (old_n < new_n ? old_n : new_n) * each;
    unsigned char *given = realloc(old.given, whole);
    if (given == NULL)
        return NULL;
    unsigned char *fresh = place_in(given);
    if (fresh != given + at)
        memmove(fresh, given + at, keep);
    memset(fresh + keep, 0, whole - (size_t)(fresh - given) - keep);
    count_out(old.bytes);
    return begin(fresh, bytes, given);
}

void mem_free(void *block)
{
    if (block == NULL)
        return;
    const block_head head = head_of(block);
    count_out(head.bytes);
    free(head.given);
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
