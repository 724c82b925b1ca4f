/* SPDX-License-Identifier: Apache-2.0 */
/* low_rank_avx2.c - products of low rank; see body_low_rank.h. */
#include "kernels/variants.h"

#include "kernels/x86/vec_avx2.h"

#include "kernels/vec/body_low_rank.h"

void k_low_rank_add_avx2(const kern_low_rank_args *a)
{
    body_low_rank_add(a);
}
