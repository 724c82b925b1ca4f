/* SPDX-License-Identifier: Apache-2.0 */
/* vision_attn_avx2.c - attention of the vision encoder; see body_vision_attn.h. */
#include "kernels/variants.h"

#include "kernels/x86/vec_avx2.h"

#include "kernels/vec/body_vision_attn.h"

void k_vision_attn_block_avx2(const kern_vision_attn_args *a)
{
    body_vision_attn_block(a);
}
