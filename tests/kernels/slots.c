/* SPDX-License-Identifier: Apache-2.0 */
/* slots.c - the list of slots with their checks, generated from kernels.def. */
#include "kernels/checks.h"

#include <string.h>

const check_slot check_slots[] = {
#define KERNEL(slot, type) {#slot, check_##slot, offsetof(kern_table, slot)},
#include "kernels/kernels.def"
#undef KERNEL
};
const size_t n_check_slots = sizeof check_slots / sizeof *check_slots;

bool check_same_kernel(const check_slot *slot, const kern_table *a, const kern_table *b)
{
    typedef void any_fn(void);
    return memcmp((const char *)a + slot->offset, (const char *)b + slot->offset,
                  sizeof(any_fn *)) == 0;
}
