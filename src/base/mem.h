/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.h - the one allocator.
 *
 * Blocks are zeroed, aligned to 64 bytes (a cache line, a vector register) and
 * counted. Products are checked. Two switches serve the tests: the Nth request
 * can be made to fail, and a guard makes any request on this thread abort, which
 * is how "a step never allocates" is held to its word in debug builds.
 */
#ifndef MOTE_BASE_MEM_H
#define MOTE_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEM_ALIGN = 64 };

/* n * each zeroed bytes; NULL when they cannot be had. n * each may be 0. */
void *mem_new(size_t n, size_t each);

/* Moves a block of old_n items to one of new_n; new items are zero. On failure
 * returns NULL and the old block stays. */
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

/* Zeroed address space straight from the system, for pools that are reserved
 * whole and filled as they are used. Its first `zeros` bytes are for reading only:
 * the system shows them as one page of zeros again and again, so they take
 * nothing and are not counted. */
void *mem_map(size_t zeros, size_t bytes);
void mem_unmap(void *block, size_t zeros, size_t bytes);

/* What mem_new and mem_map hold now, in the whole process. */
typedef struct mem_stats {
    uint64_t blocks;
    uint64_t bytes;
    uint64_t requests; /* ever made */
} mem_stats;
mem_stats mem_count(void);

/* For tests: request number n from now on (1 = the next) fails, once. 0 turns it off. */
void mem_fail_at(uint64_t n);
/* Did the failure armed by mem_fail_at happen? */
bool mem_failed(void);

/* Between begin and end a request on this thread aborts, in debug builds. */
void mem_guard_begin(void);
void mem_guard_end(void);

#endif
