/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - implements arena.h. */
#include "base/arena.h"

#include "base/ckd.h"

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
