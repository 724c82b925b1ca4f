/* SPDX-License-Identifier: Apache-2.0 */
/* delta_avx512.c - Gated DeltaNet; see body_delta.h. */
#include "kernels/variants.h"

#include "kernels/x86/vec_avx512.h"

#include "kernels/vec/body_delta.h"

void k_delta_rows_avx512(const kern_delta_args *a)
{
    body_delta_rows(a);
}

void k_delta_fold_avx512(const kern_delta_args *a, float *s1)
{
    body_delta_fold(a, s1);
}
