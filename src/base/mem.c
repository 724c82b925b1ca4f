/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.c - implements mem.h.
 *
 * A block starts on a cache line inside a larger system block. A header before it stores its size
 * and the address of the system block. It uses calloc and realloc rather than aligned_alloc: calloc
 * knows which pages are already zero, and realloc grows large blocks without copying. The counters
 * are process-wide atomics for tests and reports.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "base/mem.h"

#include "base/ckd.h"
#include "base/os.h"

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

/* Counts an allocation. False: a test has injected a failure. */
static bool mem_count_request(void)
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

static void mem_count_in(size_t bytes)
{
    atomic_fetch_add(&live_blocks, 1);
    atomic_fetch_add(&live_bytes, bytes);
}

static void mem_count_out(size_t bytes)
{
    atomic_fetch_sub(&live_blocks, 1);
    atomic_fetch_sub(&live_bytes, bytes);
}

typedef struct block_head {
    size_t bytes;
    unsigned char *given; /* block of the system allocator */
} block_head;

/* Size of the system block; the last cache line of a block is complete. */
static bool mem_system_size(size_t n, size_t each, size_t *bytes, size_t *whole)
{
    const size_t around = sizeof(block_head) + 2 * (MEM_ALIGN - 1);
    return ckd_mul_size(n, each, bytes) && ckd_add_size(*bytes, around, whole);
}

/* The first aligned address behind the header. */
static unsigned char *mem_place_in(unsigned char *given)
{
    const uintptr_t first = (uintptr_t)given + sizeof(block_head);
    return given + ((first + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN - (uintptr_t)given);
}

static block_head mem_head_of(const void *block)
{
    block_head head;
    memcpy(&head, (const unsigned char *)block - sizeof head, sizeof head);
    return head;
}

static void *mem_start_block(unsigned char *block, size_t bytes, unsigned char *given)
{
    const block_head head = {bytes, given};
    memcpy(block - sizeof head, &head, sizeof head);
    mem_count_in(bytes);
    return block;
}

void *mem_new(size_t n, size_t each)
{
    size_t bytes, whole;
    if (!mem_system_size(n, each, &bytes, &whole) || !mem_count_request())
        return NULL;
    unsigned char *given = calloc(1, whole);
    return given == NULL ? NULL : mem_start_block(mem_place_in(given), bytes, given);
}

void *mem_resize(void *block, size_t old_n, size_t new_n, size_t each)
{
    size_t bytes, whole;
    if (block == NULL)
        return mem_new(new_n, each);
    if (!mem_system_size(new_n, each, &bytes, &whole) || !mem_count_request())
        return NULL;
    const block_head old = mem_head_of(block);
    const size_t at = (size_t)((unsigned char *)block - old.given);
    const size_t keep = (old_n < new_n ? old_n : new_n) * each;
    unsigned char *given = realloc(old.given, whole);
    if (given == NULL)
        return NULL;
    unsigned char *fresh = mem_place_in(given);
    if (fresh != given + at)
        memmove(fresh, given + at, keep);
    memset(fresh + keep, 0, whole - (size_t)(fresh - given) - keep);
    mem_count_out(old.bytes);
    return mem_start_block(fresh, bytes, given);
}

void mem_free(void *block)
{
    if (block == NULL)
        return;
    const block_head head = mem_head_of(block);
    mem_count_out(head.bytes);
    free(head.given);
}

/* Makes whole pages read-only. Huge pages would be allocated instead of mapped to the zero page. */
static bool mem_protect_zeros(void *block, size_t zeros)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = zeros / page * page;
    if (whole == 0)
        return true;
    os_keep_small_pages(block, whole);
    return mprotect(block, whole, PROT_READ) == 0;
}

void *mem_map(size_t zeros, size_t bytes)
{
    size_t whole;
    if (bytes == 0 || !ckd_add_size(zeros, bytes, &whole) || !mem_count_request())
        return NULL;
    void *block = mmap(NULL, whole, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == MAP_FAILED)
        return NULL;
    if (!mem_protect_zeros(block, zeros)) {
        munmap(block, whole);
        return NULL;
    }
    mem_count_in(bytes);
    return block;
}

void mem_unmap(void *block, size_t zeros, size_t bytes)
{
    if (block == NULL)
        return;
    mem_count_out(bytes);
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

/* ---- arenas ---- */

enum { ARENA_ALIGN = 64, ARENA_GAP = 64 };

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISONS 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_POISONS 1
#endif

#ifdef ARENA_POISONS
#include <sanitizer/asan_interface.h>
static void arena_poison(const void *p, size_t n)
{
    ASAN_POISON_MEMORY_REGION(p, n);
}
static void arena_unpoison(const void *p, size_t n)
{
    ASAN_UNPOISON_MEMORY_REGION(p, n);
}
#else
static void arena_poison(const void *p, size_t n)
{
    (void)p;
    (void)n;
}
static void arena_unpoison(const void *p, size_t n)
{
    (void)p;
    (void)n;
}
#endif

void *arena_take(arena *a, size_t n, size_t each)
{
    size_t bytes, rounded, end;
    if (!ckd_mul_size(n, each, &bytes) || !ckd_add_size(bytes, ARENA_ALIGN - 1, &rounded)) {
        a->overflow = true;
        return NULL;
    }
    rounded &= ~(size_t)(ARENA_ALIGN - 1);
    if (!ckd_add_size(a->used, rounded, &end) || !ckd_add_size(end, ARENA_GAP, &end)) {
        a->overflow = true;
        return NULL;
    }
    void *piece = a->base == NULL ? NULL : a->base + a->used;
    if (a->base != NULL)
        arena_poison(a->base + a->used + bytes, end - a->used - bytes);
    a->used = end;
    return piece;
}

void arena_release(arena *a)
{
    if (a->base != NULL)
        arena_unpoison(a->base, a->used);
}
