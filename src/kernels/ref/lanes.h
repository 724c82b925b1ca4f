/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes.h - the "lanes" order of a sum with one output.
 *
 * Sixteen accumulators: lane l adds the elements l, l + 16, l + 32, ... in ascending order. The
 * horizontal sum is lane[l] += lane[l + s] for s = 8, 4, 2, 1. One vector of 16 floats or two of 8
 * compute exactly this. If the length is not a multiple of 16, missing elements add nothing.
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
