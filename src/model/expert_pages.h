/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expert_pages.h - keeps a part of the routed experts in memory if not all of them fit.
 *
 * The weights are mapped files. Without this, the kernel reads pages of an expert one after the
 * other when a product needs them, and frees room by evicting pages of any file and memory of any
 * program. With a limit, the pass tells the kernel which experts it needs as soon as the router has
 * chosen (read ahead, whole matrices), and returns the pages of experts that were not used for the
 * longest time. So the page cache of the experts stays within the limit.
 *
 * The limit changes when pages are read, never a result.
 */
#ifndef MOTE_MODEL_EXPERT_PAGES_H
#define MOTE_MODEL_EXPERT_PAGES_H

#include "base/mem.h"
#include "model/hparams.h"
#include "model/weights.h"

typedef struct expert_pages {
    uint64_t limit;      /* bytes of experts in memory; 0: all, and nothing is counted */
    uint64_t bytes;      /* of the experts that count as in memory */
    size_t n_experts, n; /* per layer; of all layers, draft block included */
    unsigned char
        *state;  /* [n]: 0: not in memory, 1: in memory, 2: and used since the last visit */
    size_t hand; /* next expert that is visited when room is needed */
} expert_pages;

/* Takes memory from the arena if `limit` is not 0. */
void expert_pages_take(expert_pages *p, arena *a, const hparams *hp, uint64_t limit);

/* The experts of a layer that the pass has chosen. */
void expert_pages_use(expert_pages *p, const weights *w, const hparams *hp, const model_layer *l,
                      const uint16_t *experts, size_t n);

#endif
