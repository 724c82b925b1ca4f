/* SPDX-License-Identifier: Apache-2.0 */
/* kv_page.c - see kv_page.h. */
#include "nn/kv_page.h"

#include "quant/half.h"

#include <string.h>

enum { DIM = KERN_HEAD_DIM, PAGE = KERN_PAGE };

/* `rows` rows of PAGE things of `bytes` bytes: zeroes the columns from `used` on. */
static void clear_columns(void *table, size_t rows, size_t bytes, size_t used)
{
    for (size_t r = 0; r < rows; r++)
        memset((unsigned char *)table + (r * PAGE + used) * bytes, 0, (PAGE - used) * bytes);
}

void kv_clear_from(mote_kv kv, unsigned char *cell, size_t used)
{
    const size_t half = kv_half_bytes(kv);
    if (kv == MOTE_KV_Q8_0) {
        kern_q8_keys *k = (void *)cell;
        kern_q8_values *v = (void *)(cell + half);
        clear_columns(k->code, DIM, sizeof k->code[0][0], used);
        clear_columns(k->d, KERN_KV_GROUPS, sizeof k->d[0][0], used);
        memset(v->code[used], 0, (PAGE - used) * sizeof v->code[0]);
        memset(v->d[used], 0, (PAGE - used) * sizeof v->d[0]);
        return;
    }
    const size_t value = half / (PAGE * DIM);
    clear_columns(cell, DIM, value, used);
    memset(cell + half + used * DIM * value, 0, (PAGE - used) * DIM * value);
}

static float element(const unsigned char *half, mote_kv kv, size_t i)
{
    if (kv == MOTE_KV_F32)
        return ((const float *)(const void *)half)[i];
    return half_f16_to_f32(((const uint16_t *)(const void *)half)[i]);
}

void kv_read(mote_kv kv, const unsigned char *cell, size_t slot, float *k, float *v)
{
    const unsigned char *second = cell + kv_half_bytes(kv);
    const kern_q8_keys *keys = (const void *)cell;
    const kern_q8_values *values = (const void *)second;
    for (size_t i = 0; i < DIM; i++) {
        const size_t group = i / KERN_KV_GROUP;
        if (kv == MOTE_KV_Q8_0) {
            k[i] = (float)keys->code[i][slot] * half_f16_to_f32(keys->d[group][slot]);
            v[i] = (float)values->code[slot][i] * half_f16_to_f32(values->d[slot][group]);
        } else {
            k[i] = element(cell, kv, i * PAGE + slot);
            v[i] = element(second, kv, slot * DIM + i);
        }
    }
}
