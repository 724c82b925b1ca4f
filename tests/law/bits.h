/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bits.h - fingerprints of the logits of numerics version MOTE_NUMERICS.
 *
 * Every compiler, level and machine must give these values. When MOTE_NUMERICS changes, copy the
 * new values from the output of law_fixed.
 */
#ifndef MOTE_TESTS_LAW_BITS_H
#define MOTE_TESTS_LAW_BITS_H

#include <mote.h>

#include <string.h>

enum { LAW_BITS_LENGTH = 112 }; /* positions of each stream in the hash */

typedef struct law_bits {
    const char *model;
    mote_kv kv;
    uint64_t bits;
} law_bits;

static const law_bits law_bits_known[] = {
    {"r1-gqa4-tied", MOTE_KV_F16, 0xdc0012f072cf41f7},
    {"r1-gqa6-untied", MOTE_KV_F16, 0x32216b3b7eb76900},
    {"r2-gqa4-kv2-tied", MOTE_KV_F16, 0x38b23845900b7dfa},
    {"r2-gqa4-kv2-tied", MOTE_KV_F32, 0xbe2f64a776f42339},
    {"r2-gqa4-kv2-tied", MOTE_KV_Q8_0, 0xb3dfc9d55c67f564},
    {"r2-gqa4-kv2-tied", MOTE_KV_Q4_0, 0xde94ff987437b252},
    {"r3-gqa4-untied", MOTE_KV_F16, 0x7d0b4c7e478a3b5a},
    {"mote-tiny-Q8_0", MOTE_KV_F16, 0xddaec8e138d3d000},
    {"mote-tiny-Q4_K_M", MOTE_KV_F16, 0xd8a0db6f822aba5a},
    {"mote-tiny-Q4_K_M", MOTE_KV_Q8_0, 0xa152099f53087351},
    {"mote-tiny-Q4_K_M", MOTE_KV_Q4_0, 0x04dad11320320461},
    {"mote-tiny-BF16", MOTE_KV_F16, 0x538fbfa483a7ad7b},
    {"moe-bf16", MOTE_KV_F16, 0x97efa87a57b73e87},
    {"moe-q8_0", MOTE_KV_F16, 0x87b7ca215c0f78ee},
    {"moe-q4_k_m", MOTE_KV_F16, 0x2bb881687cae193a},
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
