/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.h - one block cut into pieces that live and die together.
 *
 * A piece is taken by the same call whether the arena has memory or only
 * counts: a layout function run with base NULL measures, run again it assigns,
 * so the plan and the fact cannot differ. Pieces start on 64 bytes with a gap
 * of 64 between them, which is poisoned in address-sanitizer builds.
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

/* n * each bytes; NULL while counting. */
void *arena_take(arena *a, size_t n, size_t each);

/* Before the block under `a` is given back: lifts the poison. */
void arena_release(arena *a);

#endif
