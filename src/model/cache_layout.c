/* SPDX-License-Identifier: Apache-2.0 */
/* cache_layout.c - see layout.h. */
#include "model/cache_layout.h"

enum { BLOCK_UNIT = 4096 };

static size_t round_block(size_t bytes)
{
    return (bytes + BLOCK_UNIT - 1) / BLOCK_UNIT * BLOCK_UNIT;
}

static size_t matrix_floats(const layout *l)
{
    return l->delta.value_heads * KERN_STATE_DIM * KERN_STATE_DIM;
}

void layout_init(layout *l, const hparams *hp, mote_kv kv)
{
    *l = (layout){
        .attention = hparams_attention(hp, kv), .delta = hparams_delta(hp), .n_delta = hp->n_delta};
    const size_t f32 = sizeof(float), n = l->n_delta;
    size_t conv_dim = delta_conv_dim(&l->delta);
    l->page_bytes = round_block(attn_page_bytes(&l->attention));
    l->inputs_at = n * matrix_floats(l) * f32;
    l->state_bytes = round_block(l->inputs_at + n * DELTA_HISTORY * conv_dim * f32);
    l->u_at = n * KERN_CHUNK * delta_key_dim(&l->delta) * f32;
    l->g_at = l->u_at + n * KERN_CHUNK * delta_value_dim(&l->delta) * f32;
    l->ring_at = l->g_at + n * KERN_CHUNK * l->delta.value_heads * sizeof(double);
    l->tail_bytes = round_block(l->ring_at + n * DELTA_RING * conv_dim * f32);
}

delta_memory layout_delta(const layout *l, uint32_t i, const unsigned char *state,
                          unsigned char *next, unsigned char *tail)
{
    size_t conv_dim = delta_conv_dim(&l->delta);
    return (delta_memory){
        .state = (const float *)(const void *)state + i * matrix_floats(l),
        .next_state = (float *)(void *)next + i * matrix_floats(l),
        .next_inputs = (float *)(void *)(next + l->inputs_at) + i * DELTA_HISTORY * conv_dim,
        .k_rows = (float *)(void *)tail + i * KERN_CHUNK * delta_key_dim(&l->delta),
        .u_rows = (float *)(void *)(tail + l->u_at) + i * KERN_CHUNK * delta_value_dim(&l->delta),
        .g_rows = (double *)(void *)(tail + l->g_at) + i * KERN_CHUNK * l->delta.value_heads,
        .ring = (float *)(void *)(tail + l->ring_at) + i * DELTA_RING * conv_dim,
    };
}
