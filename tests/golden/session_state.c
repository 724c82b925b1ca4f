/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_state.c - KV cache and recurrent state of a session as the model defines them.
 *
 * Not part of mote.h and not on any path of a step.
 */
#include "golden/session_state.h"
#include "kernels/fmath.h"
#include "kernels/variants.h"
#include "quant/half.h"

#include <string.h>

static delta_memory memory_of(const mote_session *s, uint32_t layer)
{
    const mote_engine *e = s->engine;
    unsigned char *state = blocks_at(&e->states, s->state);
    return cache_layout_delta(&e->forward.layout, layer, state, state,
                              blocks_at(&e->tails, s->tail));
}

/* S_t = e^{G_t} S0 + sum_j e^{G_t - G_j} k_j u_j^T over the rows since the boundary. */
void session_peek_state(const mote_session *s, uint32_t layer, uint32_t value_head, float *out)
{
    enum { DIM = KERN_STATE_DIM };
    const delta_shape *shape = &s->engine->forward.layout.delta;
    delta_memory m = memory_of(s, layer);
    size_t heads = shape->value_heads, rows = (size_t)(s->length % KERN_CHUNK);
    size_t key_head = value_head % shape->key_heads;
    memcpy(out, m.state + (size_t)value_head * DIM * DIM, sizeof(float) * DIM * DIM);
    if (rows == 0)
        return;
    double last = m.g_rows[(rows - 1) * heads + value_head];
    for (size_t i = 0; i < (size_t)DIM * DIM; i++)
        out[i] *= f_exp((float)last);
    for (size_t j = 0; j < rows; j++) {
        float decay = f_exp((float)(last - m.g_rows[j * heads + value_head]));
        const float *k = m.k_rows + j * delta_key_dim(shape) + key_head * DIM;
        const float *u = m.u_rows + j * delta_value_dim(shape) + (size_t)value_head * DIM;
        for (size_t a = 0; a < DIM; a++)
            for (size_t b = 0; b < DIM; b++)
                out[a * DIM + b] += decay * k[a] * u[b];
    }
}

void session_peek_conv(const mote_session *s, uint32_t layer, float *out)
{
    delta_memory m = memory_of(s, layer);
    size_t conv_dim = delta_conv_dim(&s->engine->forward.layout.delta);
    for (size_t i = 0; i < DELTA_HISTORY; i++) {
        int64_t pos = (int64_t)s->length - DELTA_HISTORY + (int64_t)i;
        if (pos < 0)
            memset(out + i * conv_dim, 0, conv_dim * sizeof *out);
        else
            memcpy(out + i * conv_dim, m.ring + (size_t)(pos % DELTA_RING) * conv_dim,
                   conv_dim * sizeof *out);
    }
}

/* A nibble, sign-extended. */
static float kv_nibble(uint8_t byte, bool high)
{
    return (float)((int8_t)(high ? byte & 0xf0 : byte << 4) / 16);
}

static void kv_read_f16(const unsigned char *cell, size_t slot, float *k, float *v)
{
    const uint16_t *keys = (const void *)cell, *values = keys + KERN_HEAD_DIM * KERN_PAGE;
    for (size_t i = 0; i < KERN_HEAD_DIM; i++) {
        k[i] = half_f16_to_f32(keys[i * KERN_PAGE + slot]);
        v[i] = half_f16_to_f32(values[slot * KERN_HEAD_DIM + i]);
    }
}

static void kv_read_f32(const unsigned char *cell, size_t slot, float *k, float *v)
{
    const float *keys = (const void *)cell, *values = keys + KERN_HEAD_DIM * KERN_PAGE;
    for (size_t i = 0; i < KERN_HEAD_DIM; i++) {
        k[i] = keys[i * KERN_PAGE + slot];
        v[i] = values[slot * KERN_HEAD_DIM + i];
    }
}

static void kv_read_q8_0(const unsigned char *cell, size_t slot, float *k, float *v)
{
    const kern_q8_keys *keys = (const void *)cell;
    const kern_q8_values *values = (const void *)(keys + 1);
    for (size_t i = 0; i < KERN_HEAD_DIM; i++) {
        const size_t group = i / KERN_KV_GROUP;
        k[i] = (float)keys->code[i][slot] * half_f16_to_f32(keys->d[group][slot]);
        v[i] = (float)values->code[slot][i] * half_f16_to_f32(values->d[slot][group]);
    }
}

static void kv_read_q4_0(const unsigned char *cell, size_t slot, float *k, float *v)
{
    const kern_q4_keys *keys = (const void *)cell;
    const kern_q4_values *values = (const void *)(keys + 1);
    for (size_t i = 0; i < KERN_HEAD_DIM; i++) {
        const size_t group = i / KERN_KV_GROUP, at = i % KERN_KV_GROUP;
        k[i] =
            kv_nibble(keys->code[i / 2][slot], i % 2 == 1) * half_f16_to_f32(keys->d[group][slot]);
        v[i] = kv_nibble(values->code[slot][group * 16 + at % 16], at >= 16) *
               half_f16_to_f32(values->d[slot][group]);
    }
}

/* One position of a page cell as f32 [256], rotated back. */
static void kv_read(mote_kv kv, const unsigned char *cell, size_t slot, float *k, float *v)
{
    switch (kv) {
    case MOTE_KV_F16: kv_read_f16(cell, slot, k, v); break;
    case MOTE_KV_F32: kv_read_f32(cell, slot, k, v); break;
    case MOTE_KV_Q8_0: kv_read_q8_0(cell, slot, k, v); break;
    case MOTE_KV_Q4_0: kv_read_q4_0(cell, slot, k, v); break;
    }
    if (kv_is_rotated(kv)) {
        k_hadamard_ref(k, KERN_HEAD_DIM, 1.0f / KERN_KV_GROUP);
        k_hadamard_ref(v, KERN_HEAD_DIM, 1.0f / KERN_KV_GROUP);
    }
}

void session_peek_kv(const mote_session *s, uint32_t layer, uint32_t kv_head, uint64_t pos,
                     float *k, float *v)
{
    const attn_shape *shape = &s->engine->forward.layout.attention;
    const unsigned char *cell = s->pages[pos / KERN_PAGE] +
                                (layer * shape->kv_heads + kv_head) * 2 * kv_half_bytes(shape->kv);
    kv_read(shape->kv, cell, (size_t)(pos % KERN_PAGE), k, v);
}
