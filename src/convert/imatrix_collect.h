/* SPDX-License-Identifier: Apache-2.0 */
/*
 * imatrix_collect.h - an importance matrix from the steps of an engine.
 *
 * imatrix_observe is the function for mote_engine_observe. Steps do not allocate, so the first step
 * only shows which matrices there are; imatrix_collector_start then reserves their sums, and all
 * later steps count.
 *
 * Each expert of a tensor has sums of its own, over the tokens that it computes. Sums are in double
 * and in the order of the tokens, so the file does not depend on threads or on the division into
 * steps. It has the format of llama-imatrix (GGUF) and the same matrices: those of
 * the blocks, not the output head. With drafts the MTP block is included, which llama-imatrix does
 * not compute.
 */
#ifndef MOTE_CONVERT_IMATRIX_COLLECT_H
#define MOTE_CONVERT_IMATRIX_COLLECT_H

#include "base/str.h"

#include <mote.h>

typedef struct imatrix_collector imatrix_collector;

mote_status imatrix_collector_new(imatrix_collector **out, mote_error *err);
void imatrix_collector_free(imatrix_collector *c);

/* For mote_engine_observe; ctx is the collector. */
mote_observe_fn imatrix_observe;

/* After the first step: sums are zero, and count from now on. */
mote_status imatrix_collector_start(imatrix_collector *c, mote_error *err);

/* What the file says about its source. */
typedef struct imatrix_source {
    const char *const *datasets; /* [n], names of files */
    size_t n;
    uint32_t chunk_size; /* tokens of a chunk */
} imatrix_source;

/* Writes the file. Experts without tokens have the count 0. MOTE_E_FORMAT: an activation was not
 * finite, so the weights are damaged. */
mote_status imatrix_collector_write(const imatrix_collector *c, const char *path,
                                    const imatrix_source *source, mote_error *err);
/* Matrices with sums, and tokens of all steps; drafts do not count. */
uint32_t imatrix_collector_n(const imatrix_collector *c);
uint64_t imatrix_collector_tokens(const imatrix_collector *c);
/* Matrices of experts that no token used, and all matrices of experts. */
uint64_t imatrix_collector_unused(const imatrix_collector *c, uint64_t *all);

#endif
