/* SPDX-License-Identifier: Apache-2.0 */
/* delta_neon.c - Gated DeltaNet; see body_delta.h. */
#include "kernels/variants.h"

#include "kernels/arm/vec_neon.h"

#include "kernels/vec/body_delta.h"

void k_delta_rows_neon(const kern_delta_args *a)
{
    body_delta_rows(a);
}

void k_delta_fold_neon(const kern_delta_args *a, float *s1)
{
    body_delta_fold(a, s1);
}
