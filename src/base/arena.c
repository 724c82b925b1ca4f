/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - see arena.h. */
#include "base/arena.h"

#include "base/ckd.h"

enum { PIECE_ALIGN = 64, GAP = 64 };

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISONS 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_POISONS 1
#endif

#ifdef ARENA_POISONS
#include <sanitizer/asan_interface.h>
static void poison(const void *p, size_t n)
{
    ASAN_POISON_MEMORY_REGION(p, n);
}
static void unpoison(const void *p, size_t n)
{
    ASAN_UNPOISON_MEMORY_REGION(p, n);
}
#else
static void poison(const void *p, size_t n)
{
    (void)p;
    (void)n;
}
static void unpoison(const void *p, size_t n)
{
    (void)p;
    (void)n;
}
#endif

void *arena_take(arena *a, size_t n, size_t each)
{
    size_t bytes, rounded, end;
    if (!ckd_mul_size(n, each, &bytes) || !ckd_add_size(bytes, PIECE_ALIGN - 1, &rounded)) {
        a->overflow = true;
        return NULL;
    }
    rounded &= ~(size_t)(PIECE_ALIGN - 1);
    if (!ckd_add_size(a->used, rounded, &end) || !ckd_add_size(end, GAP, &end)) {
        a->overflow = true;
        return NULL;
    }
    void *piece = a->base == NULL ? NULL : a->base + a->used;
    if (a->base != NULL)
        poison(a->base + a->used + bytes, end - a->used - bytes);
    a->used = end;
    return piece;
}

void arena_release(arena *a)
{
    if (a->base != NULL)
        unpoison(a->base, a->used);
}
