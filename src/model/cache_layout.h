/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache_layout.h - how the memory of a timeline is laid out, in bytes.
 *
 * Three kinds of block, all cut on absolute positions:
 *
 *   page   keys and values of 64 positions, all attention layers
 *          [n_attention][n_kv][K [256][64], V [64][256]], the cells of nn/attention.h
 *   state  what DeltaNet layers know at a multiple of 32
 *          S      [n_delta][value_heads][128][128] f32
 *          inputs [n_delta][3][conv_dim] f32, the convolution's, oldest first
 *   tail   what a session owns alone since then
 *          k      [n_delta][32][key_dim] f32
 *          u      [n_delta][32][value_dim] f32
 *          G      [n_delta][32][value_heads] f64
 *          ring   [n_delta][19][conv_dim] f32, position p at p % 19
 *
 * Blocks start on a memory page, so that an untouched one costs nothing.
 */
#ifndef MOTE_MODEL_CACHE_LAYOUT_H
#define MOTE_MODEL_CACHE_LAYOUT_H

#include "model/hparams.h"

typedef struct layout {
    attn_shape attention;
    delta_shape delta;
    uint32_t n_delta;
    size_t page_bytes;
    size_t state_bytes, inputs_at;          /* S is at 0 */
    size_t tail_bytes, u_at, g_at, ring_at; /* k is at 0 */
} layout;

void layout_init(layout *l, const hparams *hp, mote_kv kv);

/* The memory of DeltaNet layer `i` (among its kind). `next` may be `state`. */
delta_memory layout_delta(const layout *l, uint32_t i, const unsigned char *state,
                          unsigned char *next, unsigned char *tail);

#endif
