/* SPDX-License-Identifier: Apache-2.0 */
/* slots.c - the list of slots with their checks, generated from kernels.def. */
#include "kernels/checks.h"

#include "kernels/gemm_unpacked.h"

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

bool check_is_unpacked(const check_slot *slot)
{
#define NAME(f, product, level) "gemm_" #f,
    static const char *const names[] = {UNPACKED_TO_I8_256(NAME, ) UNPACKED_TO_Q8_0(NAME, )
                                            UNPACKED_TO_F16(NAME, )};
#undef NAME
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(slot->name, names[i]) == 0)
            return true;
    return false;
}
