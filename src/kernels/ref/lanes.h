/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes.h - the "lanes" shape of a sum with one output.
 *
 * Sixteen partial sums: lane l takes the elements l, l + 16, l + 32, ... in
 * ascending order; at the end lane[l] += lane[l + s] for s = 8, 4, 2, 1. A vector
 * of 16 floats does this with one add per 16 elements, two vectors of 8 likewise,
 * and all give the same bits. A missing element adds nothing.
 */
#ifndef MOTE_KERNELS_REF_LANES_H
#define MOTE_KERNELS_REF_LANES_H

#include "kernels/kernels.h"

typedef struct lanes {
    float lane[KERN_LANES];
} lanes;

static inline float lanes_total(const lanes *sums)
{
    lanes s = *sums;
    for (int step = KERN_LANES / 2; step > 0; step /= 2)
        for (int l = 0; l < step; l++)
            s.lane[l] = s.lane[l] + s.lane[l + step];
    return s.lane[0];
}

#endif
