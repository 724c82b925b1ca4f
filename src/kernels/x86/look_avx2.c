/* SPDX-License-Identifier: Apache-2.0 */
/* look_avx2.c - attention inside a picture: see body_look.h. */
#include "kernels/variants.h"

#include "kernels/x86/vec_avx2.h"

#include "kernels/x86/body_look.h"

void k_look_block_avx2(const kern_look_args *a)
{
    body_look_block(a);
}
