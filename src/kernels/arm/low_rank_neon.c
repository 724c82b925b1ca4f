/* SPDX-License-Identifier: Apache-2.0 */
/* low_rank_neon.c - products of low rank; see body_low_rank.h. */
#include "kernels/variants.h"

#include "kernels/arm/vec_neon.h"

#include "kernels/vec/body_low_rank.h"

void k_low_rank_add_neon(const kern_low_rank_args *a)
{
    body_low_rank_add(a);
}
