/* SPDX-License-Identifier: Apache-2.0 */
/* low_rank_ref.c - the second product of a LoRA adapter, added to the product of the weights. */
#include "kernels/variants.h"

#include "quant/half.h"

#include <math.h>

static float b_at(const kern_low_rank_args *a, size_t i)
{
    return a->halves ? half_f16_to_f32(((const uint16_t *)a->b)[i]) : ((const float *)a->b)[i];
}

/* y[t][r] = chain over j of b[j][r] * x[t][j] that starts from y[t][r]. There are many outputs and
 * few terms, so the lanes of a vector are different outputs. */
void k_low_rank_add_ref(const kern_low_rank_args *a)
{
    for (size_t t = 0; t < a->tokens; t++)
        for (size_t r = 0; r < a->n; r++) {
            float sum = a->y[t * a->y_stride + r];
            for (size_t j = 0; j < a->rank; j++)
                sum = fmaf(b_at(a, j * a->b_stride + r), a->x[t * a->x_stride + j], sum);
            a->y[t * a->y_stride + r] = sum;
        }
}
