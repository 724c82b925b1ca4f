/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weights.h - every tensor of the model as a named field.
 *
 * Matrices are views of the mapped file. Everything small is decoded to floats
 * once, into memory the weights own: norms, the convolution (taps transposed so
 * that channels are neighbours), the decay parameters, and the two thin
 * matrices alpha and beta, whose error would enter an exponent.
 */
#ifndef MOTE_MODEL_WEIGHTS_H
#define MOTE_MODEL_WEIGHTS_H

#include "model/hparams.h"
#include "nn/nn.h"

typedef struct attention_unit {
    nn_matrix q; /* [n_heads * 512][n_embd]: query and gate of each head */
    nn_matrix k; /* [n_kv * 256][n_embd] */
    nn_matrix v; /* [n_kv * 256][n_embd] */
    nn_matrix o; /* [n_embd][n_heads * 256] */
    attn_weights norms;
} attention_unit;

typedef struct delta_unit {
    nn_matrix qkv;   /* [conv_dim][n_embd] */
    nn_matrix z;     /* [value_dim][n_embd] */
    nn_matrix alpha; /* [value_heads][n_embd], floats */
    nn_matrix beta;  /* [value_heads][n_embd], floats */
    nn_matrix out;   /* [n_embd][value_dim] */
    delta_weights small;
} delta_unit;

typedef struct model_layer {
    const float *mix_norm; /* [n_embd], before the mixer */
    const float *ffn_norm; /* [n_embd], before the feed-forward unit */
    bool is_attention;
    attention_unit attention;
    delta_unit delta;
    nn_matrix gate, up; /* [n_ff][n_embd] */
    nn_matrix down;     /* [n_embd][n_ff] */
} model_layer;

/* The multi-token-prediction block: bound and checked, not run yet. */
typedef struct draft_head {
    bool present;
    nn_matrix join;                                  /* [n_embd][2 n_embd]: embedding half first */
    const float *embd_norm, *hidden_norm, *out_norm; /* [n_embd] */
    model_layer block;
} draft_head;

typedef struct weights {
    nn_matrix embd; /* [n_vocab][n_embd] */
    nn_matrix head; /* [n_vocab][n_embd]; the same view if tied */
    bool tied;
    const float *out_norm; /* [n_embd] */
    model_layer *layers;   /* [n_layers] */
    draft_head draft;
    nn_kinds kinds;      /* forms of inputs that any of the matrices reads */
    uint64_t parameters; /* of the model without the draft head */
    uint64_t private_bytes;
    void *memory; /* owns everything decoded */
} weights;

/* Finds, checks and decodes. The file behind `g` must outlive the weights. */
mote_status weights_bind(weights *w, const hparams *hp, const gguf *g, const kern_table *k,
                         mote_error *err);
void weights_fini(weights *w);

#endif
