/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.h - bump allocator over one block; all allocations are freed together.
 *
 * With base == NULL the arena only counts. A layout function runs twice with the same calls: first
 * to measure, then to assign. So a memory plan always equals the allocation. Allocations are
 * aligned to 64 bytes, with a gap of 64 bytes that AddressSanitizer builds poison.
 */
#ifndef MOTE_BASE_ARENA_H
#define MOTE_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
