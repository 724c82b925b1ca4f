/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_page.h - a page's cell: keys and values of 64 positions of one kv head in one layer.
 *
 *   f16, f32   K [256][64], V [64][256]
 *   q8_0       kern_q8_keys, kern_q8_values: the same order of codes, scales behind them
 *
 * The kernels write and read cells; here is what others must know of them.
 */
#ifndef MOTE_NN_KV_PAGE_H
#define MOTE_NN_KV_PAGE_H

#include "kernels/kernels.h"

/* Bytes of a cell's keys, and of its values. */
static inline size_t kv_half_bytes(mote_kv kv)
{
    const size_t values = (size_t)KERN_PAGE * KERN_HEAD_DIM;
    switch (kv) {
    case MOTE_KV_F32: return values * sizeof(float);
    case MOTE_KV_Q8_0: return sizeof(kern_q8_keys);
    case MOTE_KV_F16: break;
    }
    return values * sizeof(uint16_t);
}

/* Zeroes positions from `used` on. */
void kv_clear_from(mote_kv kv, unsigned char *cell, size_t used);

/* One position as floats [256], for tests. */
void kv_read(mote_kv kv, const unsigned char *cell, size_t slot, float *k, float *v);

#endif
