/* SPDX-License-Identifier: Apache-2.0 */
/* char_class.c - character classes as lists of code point ranges; see dfa.h. */
#include "grammar/rules/dfa.h"

#include "base/mem.h"

#include <string.h>

void char_class_fini(char_class *x)
{
    mem_free(x->all);
    *x = (char_class){0};
}

mote_status char_class_add(char_class *x, uint32_t lo, uint32_t hi, mote_error *err)
{
    if (!mem_grow(&x->all, x->n, &x->room, sizeof *x->all))
        return err_set(err, MOTE_E_MEMORY, "out of memory: character class");
    x->all[x->n++] = (char_range){lo, hi};
    return MOTE_OK;
}

/* Shell sort by lower end. In place, and fast enough for the longest class. */
static void ranges_sort(char_range *x, uint32_t n)
{
    for (uint32_t gap = n / 2; gap > 0; gap /= 2)
        for (uint32_t i = gap; i < n; i++) {
            const char_range moving = x[i];
            uint32_t k = i;
            for (; k >= gap && x[k - gap].lo > moving.lo; k -= gap)
                x[k] = x[k - gap];
            x[k] = moving;
        }
}

/* Replaces the ranges from index `from` on, sorted and disjoint, with their complement. */
static mote_status char_class_complement(char_class *x, uint32_t from, mote_error *err)
{
    const uint32_t n = x->n - from;
    uint32_t next = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char_range one = x->all[from + i];
        if (one.lo > next)
            TRY(char_class_add(x, next, one.lo - 1, err));
        next = one.hi + 1;
    }
    if (next <= DFA_LAST)
        TRY(char_class_add(x, next, DFA_LAST, err));
    const uint32_t made = x->n - from - n;
    memmove(x->all + from, x->all + from + n, made * sizeof *x->all);
    x->n = from + made;
    return MOTE_OK;
}

mote_status char_class_normalize(char_class *x, uint32_t from, bool negated, mote_error *err)
{
    if (x->n > from)
        ranges_sort(x->all + from, x->n - from);
    uint32_t n = from;
    for (uint32_t i = from; i < x->n; i++) {
        const char_range one = x->all[i];
        if (n > from && one.lo <= x->all[n - 1].hi + 1) {
            if (x->all[n - 1].hi < one.hi)
                x->all[n - 1].hi = one.hi;
        } else {
            x->all[n++] = one;
        }
    }
    x->n = n;
    return negated ? char_class_complement(x, from, err) : MOTE_OK;
}
