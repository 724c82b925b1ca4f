/* SPDX-License-Identifier: Apache-2.0 */
/* vision_attn_neon.c - attention of the vision encoder; see body_vision_attn.h. */
#include "kernels/variants.h"

#include "kernels/arm/vec_neon.h"

#include "kernels/vec/body_vision_attn.h"

void k_vision_attn_block_neon(const kern_vision_attn_args *a)
{
    body_vision_attn_block(a);
}
