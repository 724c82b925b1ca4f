/* SPDX-License-Identifier: Apache-2.0 */
/* grow.h - arrays that grow by doubling. */
#ifndef MOTE_GRAMMAR_RULES_GROW_H
#define MOTE_GRAMMAR_RULES_GROW_H

#include "base/mem.h"

/* Makes room for item number n of the array at *items, which has room for *room.
 * False: there is no memory, and the array stays as it was. */
static inline bool grow_for(void *items, uint32_t n, uint32_t *room, size_t each)
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

#endif
