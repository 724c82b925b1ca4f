/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.h - the allocator and arenas.
 *
 * Blocks are zeroed, aligned to 64 bytes (a cache line, a vector register) and counted. Size
 * products are checked for overflow. Two features serve the tests: allocation number N can be made
 * to fail, and in debug builds a guard aborts on any allocation of the current thread, which proves
 * that a step never allocates.
 */
#ifndef MOTE_BASE_MEM_H
#define MOTE_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEM_ALIGN = 64 };

/* Allocates n * each zeroed bytes. NULL: out of memory or overflow. n * each may be 0. */
void *mem_new(size_t n, size_t each);

/* Resizes a block from old_n to new_n items; new items are zero. NULL: out of memory, and the old
 * block is unchanged. */
void *mem_resize(void *block, size_t old_n, size_t new_n, size_t each);

/* Makes space for item number n of the array at *items, which has space for *room items: doubles
 * the array if needed. False: out of memory, and the array is unchanged. */
static inline bool mem_grow(void *items, uint32_t n, uint32_t *room, size_t each)
{
    if (n < *room)
        return true;
    uint32_t more = *room < 16 ? 32 : *room * 2;
    if (more <= n)
        more = n + 1;
    void *old;
    __builtin_memcpy(&old, items, sizeof old);
    void *moved = mem_resize(old, *room, more, each);
    if (moved == NULL)
        return false;
    __builtin_memcpy(items, &moved, sizeof moved);
    *room = more;
    return true;
}

void mem_free(void *block);

/* Reserves zeroed address space (mmap) for pools that fill up over time. The first `zeros` bytes
 * are read-only: the kernel maps them to its zero page, so they take no memory and are not counted.
 */
void *mem_map(size_t zeros, size_t bytes);
void mem_unmap(void *block, size_t zeros, size_t bytes);

/* Current totals of mem_new and mem_map, process-wide. */
typedef struct mem_stats {
    uint64_t blocks;
    uint64_t bytes;
    uint64_t requests; /* since the start */
} mem_stats;
mem_stats mem_count(void);

/* For tests: allocation number n from now (1: the next) fails, once. 0 turns it off. */
void mem_fail_at(uint64_t n);
/* True if the failure set by mem_fail_at has happened. */
bool mem_failed(void);

/* Debug builds: between begin and end, an allocation on this thread aborts. */
void mem_guard_begin(void);
void mem_guard_end(void);

/* ---- arenas ----
 *
 * A bump allocator over one block; all allocations are freed together. With base == NULL the arena
 * only counts. A layout function runs twice with the same calls: first to measure, then to assign.
 * So a memory plan always equals the allocation. Allocations are aligned to 64 bytes, with a gap of
 * 64 bytes that AddressSanitizer builds poison. */

typedef struct arena {
    unsigned char *base; /* NULL: count only */
    size_t used;
    bool overflow; /* a size did not fit size_t */
} arena;

/* Allocates n * each bytes. Returns NULL while counting. */
void *arena_take(arena *a, size_t n, size_t each);

/* Removes the poison. Call it before the block is freed. */
void arena_release(arena *a);

#endif
