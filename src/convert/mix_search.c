/* SPDX-License-Identifier: Apache-2.0 */
/* mix_search.c - see mix_search.h. */
#include "convert/mix_search.h"

/* The smallest option; of two equally small ones the one that costs less. */
static uint32_t smallest_option(const mix_option *o, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (o[i].bytes < o[best].bytes || (o[i].bytes == o[best].bytes && o[i].cost < o[best].cost))
            best = i;
    return best;
}

/* The option with the largest gain per byte that adds at most `room` bytes; `from`: none. The next
 * corner of the convex hull is the one with the steepest descent, if it fits. */
static uint32_t steepest_option(const mix_option *o, uint32_t n, uint32_t from, uint64_t room,
                                double *gain)
{
    uint32_t best = from;
    *gain = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (o[i].bytes <= o[from].bytes || o[i].bytes - o[from].bytes > room)
            continue;
        const double slope = (o[from].cost - o[i].cost) / (double)(o[i].bytes - o[from].bytes);
        if (slope > *gain) {
            *gain = slope;
            best = i;
        }
    }
    return best;
}

bool mix_search(const mix_option *options, uint32_t n_tensors, uint32_t n_options, uint64_t budget,
                uint32_t *chosen)
{
    uint64_t bytes = 0;
    for (uint32_t t = 0; t < n_tensors; t++) {
        chosen[t] = smallest_option(options + (size_t)t * n_options, n_options);
        bytes += options[(size_t)t * n_options + chosen[t]].bytes;
    }
    if (bytes > budget)
        return false;
    for (;;) {
        uint32_t best = n_tensors, step = 0;
        double most = 0;
        for (uint32_t t = 0; t < n_tensors; t++) {
            double gain;
            const uint32_t to = steepest_option(options + (size_t)t * n_options, n_options,
                                                chosen[t], budget - bytes, &gain);
            if (gain > most) {
                most = gain;
                best = t;
                step = to;
            }
        }
        if (best == n_tensors)
            return true;
        const mix_option *o = options + (size_t)best * n_options;
        bytes += o[step].bytes - o[chosen[best]].bytes;
        chosen[best] = step;
    }
}
