/* SPDX-License-Identifier: Apache-2.0 */
/* cache_layout.c - offsets and addresses; see cache_layout.h. */
#include "model/cache_layout.h"

enum { BLOCK_ALIGN = 4096 };

static size_t block_round(size_t bytes)
{
    return (bytes + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
}

static size_t state_matrix_floats(const cache_layout *l)
{
    return l->delta.value_heads * KERN_STATE_DIM * KERN_STATE_DIM;
}

void cache_layout_init(cache_layout *l, const hparams *hp, mote_kv kv, bool drafts)
{
    *l = (cache_layout){.attention = hparams_attention(hp, kv),
                        .delta = hparams_delta(hp),
                        .n_delta = hp->n_delta,
                        .drafts = drafts,
                        .hidden_floats = drafts ? hp->n_embd + 2 * (size_t)ROPE_PAIRS : 0};
    l->draft_layer = l->attention.layers;
    l->attention.layers += drafts;
    const size_t f32 = sizeof(float), n = l->n_delta;
    size_t conv_dim = delta_conv_dim(&l->delta);
    l->page_bytes = block_round(attn_page_bytes(&l->attention));
    l->inputs_at = n * state_matrix_floats(l) * f32;
    l->hidden_at = l->inputs_at + n * DELTA_HISTORY * conv_dim * f32;
    l->state_bytes = block_round(l->hidden_at + l->hidden_floats * f32);
    l->u_at = n * KERN_CHUNK * delta_key_dim(&l->delta) * f32;
    l->g_at = l->u_at + n * KERN_CHUNK * delta_value_dim(&l->delta) * f32;
    l->ring_at = l->g_at + n * KERN_CHUNK * l->delta.value_heads * sizeof(double);
    l->hidden_ring_at = l->ring_at + n * DELTA_RING * conv_dim * f32;
    l->tail_bytes = block_round(l->hidden_ring_at + HIDDEN_RING * l->hidden_floats * f32);
}

float *cache_layout_hidden(const cache_layout *l, unsigned char *state)
{
    return (float *)(void *)(state + l->hidden_at);
}

float *cache_layout_hidden_at(const cache_layout *l, unsigned char *tail, uint64_t pos)
{
    return (float *)(void *)(tail + l->hidden_ring_at) + pos % HIDDEN_RING * l->hidden_floats;
}

delta_memory cache_layout_delta(const cache_layout *l, uint32_t i, const unsigned char *state,
                                unsigned char *next, unsigned char *tail)
{
    size_t conv_dim = delta_conv_dim(&l->delta);
    return (delta_memory){
        .state = (const float *)(const void *)state + i * state_matrix_floats(l),
        .next_state = (float *)(void *)next + i * state_matrix_floats(l),
        .next_inputs = (float *)(void *)(next + l->inputs_at) + i * DELTA_HISTORY * conv_dim,
        .k_rows = (float *)(void *)tail + i * KERN_CHUNK * delta_key_dim(&l->delta),
        .u_rows = (float *)(void *)(tail + l->u_at) + i * KERN_CHUNK * delta_value_dim(&l->delta),
        .g_rows = (double *)(void *)(tail + l->g_at) + i * KERN_CHUNK * l->delta.value_heads,
        .ring = (float *)(void *)(tail + l->ring_at) + i * DELTA_RING * conv_dim,
    };
}
