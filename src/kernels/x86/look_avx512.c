/* SPDX-License-Identifier: Apache-2.0 */
/* look_avx512.c - attention inside a picture: see body_look.h. */
#include "kernels/variants.h"

#include "kernels/x86/vec_avx512.h"

#include "kernels/x86/body_look.h"

void k_look_block_avx512(const kern_look_args *a)
{
    body_look_block(a);
}
