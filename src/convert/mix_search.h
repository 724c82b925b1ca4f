/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mix_search.h - one of several formats for each tensor: the least cost within a size.
 *
 * The costs of tensors add up. The search starts with the smallest option of each tensor and takes,
 * while it fits, the step with the largest gain per byte along the lower convex hull of the tensor's
 * options. Ties go to the tensor and the option with the lower number, so the result depends on the
 * numbers only.
 */
#ifndef MOTE_CONVERT_MIX_SEARCH_H
#define MOTE_CONVERT_MIX_SEARCH_H

#include "base/err.h"

#include <stdint.h>

/* One format for one tensor. */
typedef struct mix_option {
    uint64_t bytes;
    double cost; /* at least 0 */
} mix_option;

/* Chooses chosen[i] < n_options for each of n_tensors; options: [n_tensors][n_options]. False: even
 * the smallest options have more bytes than `budget`; then these are chosen. */
bool mix_search(const mix_option *options, uint32_t n_tensors, uint32_t n_options, uint64_t budget,
                uint32_t *chosen);

#endif
