/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache_layout.h - byte layout of a session's KV cache and recurrent state.
 *
 * Three kinds of blocks, all aligned to absolute positions:
 *
 *   page   KV cache of 64 positions, all attention layers; with drafts the MTP block is the last
 *          [n_attention][n_kv][K [256][64], V [64][256]]
 *   state  recurrent state of the DeltaNet layers at a multiple of 32 positions
 *          S      [n_delta][value_heads][128][128] f32
 *          inputs [n_delta][3][conv_dim] f32: inputs of the convolution before it, oldest first
 *          hidden [n_embd + 64] f32: with drafts, hidden row, cos and sin of the position before it
 *   tail   rows since the last multiple of 32; private to a session
 *          k      [n_delta][32][key_dim] f32
 *          u      [n_delta][32][value_dim] f32
 *          G      [n_delta][32][value_heads] f64
 *          ring   [n_delta][19][conv_dim] f32: the convolution input of position p is at p % 19
 *          hidden [33][n_embd + 64] f32: with drafts, hidden row, cos and sin of position p at
 *          p % 33, from the position before the last multiple of 32 on
 *
 * docs/numerics.md defines S, k, u and G. Block sizes are multiples of 4096 bytes, so a block that
 * was never written uses no memory.
 */
#ifndef MOTE_MODEL_CACHE_LAYOUT_H
#define MOTE_MODEL_CACHE_LAYOUT_H

#include "model/hparams.h"

enum { HIDDEN_RING = KERN_CHUNK + 1 };

typedef struct cache_layout {
    attn_shape attention;
    delta_shape delta;
    uint32_t n_delta;
    bool drafts;
    size_t draft_layer;   /* with drafts: index of the MTP block among the layers of a page */
    size_t hidden_floats; /* hidden row, cos and sin of a position; 0 without drafts */
    size_t page_bytes;
    size_t state_bytes, inputs_at, hidden_at;               /* S is at 0 */
    size_t tail_bytes, u_at, g_at, ring_at, hidden_ring_at; /* k is at 0 */
} cache_layout;

void cache_layout_init(cache_layout *l, const hparams *hp, mote_kv kv, bool drafts);

/* Addresses of DeltaNet layer `i` (counting DeltaNet layers only). `next` may equal `state`. */
delta_memory cache_layout_delta(const cache_layout *l, uint32_t i, const unsigned char *state,
                                unsigned char *next, unsigned char *tail);

/* With drafts: hidden row, cos and sin in a state, and of position `pos` in a tail. */
float *cache_layout_hidden(const cache_layout *l, unsigned char *state);
float *cache_layout_hidden_at(const cache_layout *l, unsigned char *tail, uint64_t pos);

#endif
