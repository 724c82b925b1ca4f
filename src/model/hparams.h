/* SPDX-License-Identifier: Apache-2.0 */
/* hparams.h - the shape of a model, read from a file's metadata and checked. */
#ifndef MOTE_MODEL_HPARAMS_H
#define MOTE_MODEL_HPARAMS_H

#include "gguf/gguf.h"
#include "nn/attention.h"
#include "nn/deltanet.h"

enum { HP_MAX_LAYERS = 256 };

typedef struct hparams {
    uint32_t n_layers; /* without the draft head */
    uint32_t n_draft;  /* draft (MTP) blocks after them: 0 or 1 */
    uint32_t n_embd, n_ff;
    uint32_t n_heads, n_kv;
    uint32_t key_heads, value_heads;
    uint32_t n_vocab;     /* rows of the output, padding included */
    uint32_t context;     /* positions it was trained for */
    uint32_t n_attention; /* layers of each kind */
    uint32_t n_delta;
    float eps;
    float rope_base;
    float yarn_factor; /* baked into the file; 0: none */
    uint32_t yarn_original;
    bool is_attention[HP_MAX_LAYERS];
    uint16_t index[HP_MAX_LAYERS]; /* of a layer among those of its kind */
} hparams;

/* MOTE_E_UNSUPPORTED: another architecture; MOTE_E_FORMAT: sizes that cannot be. */
mote_status hparams_read(hparams *hp, const gguf *g, mote_error *err);

delta_shape hparams_delta(const hparams *hp);
attn_shape hparams_attention(const hparams *hp, mote_kv kv);

#endif
