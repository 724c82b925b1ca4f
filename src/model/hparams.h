/* SPDX-License-Identifier: Apache-2.0 */
/* hparams.h - hyperparameters of a model, read from GGUF metadata and checked. */
#ifndef MOTE_MODEL_HPARAMS_H
#define MOTE_MODEL_HPARAMS_H

#include "gguf/gguf.h"
#include "nn/attention.h"
#include "nn/deltanet.h"
#include "nn/experts.h"

enum { HP_MAX_LAYERS = 256 };

typedef struct hparams {
    uint32_t n_layers; /* without the draft head */
    uint32_t n_draft;  /* draft (MTP) blocks after the layers: 0 or 1 */
    uint32_t n_embd;
    uint32_t n_ff;                   /* of a dense model; otherwise 0 */
    uint32_t n_experts, n_used;      /* routed experts of a layer, and those of a token; 0: dense */
    uint32_t expert_ff, shared_ff;   /* with experts: of a routed expert, of the shared expert */
    uint32_t n_heads, n_kv;          /* attention: query heads, KV heads */
    uint32_t key_heads, value_heads; /* DeltaNet */
    uint32_t n_vocab;                /* rows of the embedding table, padding included */
    uint32_t context;                /* trained context length */
    uint32_t n_attention;            /* attention layers */
    uint32_t n_delta;                /* DeltaNet layers */
    float eps;
    float rope_base;
    float yarn_factor; /* set by the file; 0: none */
    uint32_t yarn_original;
    bool is_attention[HP_MAX_LAYERS];
    uint16_t index[HP_MAX_LAYERS]; /* number of a layer among the layers of its kind */
} hparams;

/* MOTE_E_UNSUPPORTED: another architecture. MOTE_E_FORMAT: missing or invalid sizes. */
mote_status hparams_read(hparams *hp, const gguf *g, mote_error *err);

/* Checks a file with the MTP head of this model only. MOTE_E_UNSUPPORTED: it is another kind of
 * file. MOTE_E_MISMATCH: of another model. */
mote_status hparams_check_draft(const hparams *hp, const gguf *draft, mote_error *err);

delta_shape hparams_delta(const hparams *hp);
expert_shape hparams_experts(const hparams *hp);
attn_shape hparams_attention(const hparams *hp, mote_kv kv);

#endif
