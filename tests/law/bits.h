/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bits.h - fingerprints of the logits of numerics version MOTE_NUMERICS.
 *
 * A build by another compiler, for another level, on another machine must show
 * the same ones. When the numerics version grows, take the new ones from the
 * output of law_fixed.
 */
#ifndef MOTE_TESTS_LAW_BITS_H
#define MOTE_TESTS_LAW_BITS_H

#include <mote.h>

#include <string.h>

enum { LAW_BITS_LENGTH = 112 }; /* positions of each stream that count */

typedef struct law_bits {
    const char *model;
    mote_kv kv;
    uint64_t bits;
} law_bits;

static const law_bits law_bits_known[] = {
    {"none", MOTE_KV_F16, 0},
};

/* NULL: this model has no entry. */
static inline const law_bits *law_bits_find(const char *model, mote_kv kv)
{
    for (size_t i = 0; i < sizeof law_bits_known / sizeof *law_bits_known; i++)
        if (strcmp(law_bits_known[i].model, model) == 0 && law_bits_known[i].kv == kv)
            return &law_bits_known[i];
    return NULL;
}

#endif
