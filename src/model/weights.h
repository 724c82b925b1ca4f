/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weights.h - the tensors of a GGUF file as named fields, with checked shapes.
 *
 * Matrices are views of the mapped file. Small tensors are decoded to float32 once, into memory
 * that `weights` owns: norms, the convolution (transposed, so that the channels of a tap are
 * contiguous), the decay parameters, and the matrices alpha and beta, because their quantisation
 * error would enter an exponent.
 *
 * The binder is shared with vision_weights.c. A binding runs twice over the same code: first with
 * an arena that only counts, which also does all checks; then with memory, which it decodes into.
 */
#ifndef MOTE_MODEL_WEIGHTS_H
#define MOTE_MODEL_WEIGHTS_H

#include "base/mem.h"
#include "model/hparams.h"
#include "nn/experts.h"
#include "nn/nn.h"

/* ---- layers ---- */

/* Gated attention. */
typedef struct attention_layer {
    nn_matrix q; /* [n_heads * 512][n_embd]: per head 256 rows of the query, 256 of the gate */
    nn_matrix k; /* [n_kv * 256][n_embd] */
    nn_matrix v; /* [n_kv * 256][n_embd] */
    nn_matrix o; /* [n_embd][n_heads * 256] */
    attn_weights norms;
} attention_layer;

/* Gated DeltaNet. */
typedef struct delta_layer {
    nn_matrix qkv;   /* [conv_dim][n_embd]: q, k, v before the convolution */
    nn_matrix z;     /* [value_dim][n_embd]: output gate */
    nn_matrix alpha; /* [value_heads][n_embd], float32: decay */
    nn_matrix beta;  /* [value_heads][n_embd], float32: write strength */
    nn_matrix out;   /* [n_embd][value_dim] */
    delta_weights small;
} delta_layer;

/* Feed-forward network. With experts it is the shared expert. */
typedef struct ffn_layer {
    nn_matrix gate, up; /* [n_ff or shared_ff][n_embd] */
    nn_matrix down;     /* [n_embd][n_ff or shared_ff] */
} ffn_layer;

/* Mixture of experts. */
typedef struct moe_layer {
    nn_matrix router;       /* [n_experts][n_embd], floats */
    nn_matrix shared_gate;  /* [1][n_embd], floats */
    expert_matrix gate, up; /* [expert_ff][n_embd] of each expert */
    expert_matrix down;     /* [n_embd][expert_ff] of each expert */
} moe_layer;

typedef struct model_layer {
    const float *mixer_norm; /* [n_embd], RMSNorm before the mixer */
    const float *ffn_norm;   /* [n_embd], RMSNorm before the feed-forward network */
    bool is_attention;
    attention_layer attention; /* if is_attention */
    delta_layer delta;         /* otherwise */
    ffn_layer ffn;
    moe_layer moe; /* if the model has experts */
} model_layer;

/* Multi-token prediction (MTP) head; see draft_block.c. */
typedef struct draft_head {
    bool present;
    nn_matrix join; /* [n_embd][2 n_embd]: embedding, then hidden */
    const float *embd_norm, *hidden_norm, *out_norm; /* [n_embd] */
    model_layer block;
} draft_head;

typedef struct weights {
    nn_matrix embd; /* [n_vocab][n_embd] */
    nn_matrix head; /* [n_vocab][n_embd]; equal to embd if tied */
    bool tied;
    const float *out_norm; /* [n_embd] */
    model_layer *layers;   /* [n_layers] */
    draft_head draft;
    nn_kinds kinds;             /* input formats that the matrices read */
    nn_kinds expert_kinds;      /* those that the routed experts read */
    uint64_t expert_bytes;      /* of the routed experts in the file, draft head included */
    uint64_t expert_parameters; /* of the routed experts, without the draft head */
    uint64_t parameters;        /* without the draft head */
    uint32_t n_matrices;        /* nn_matrix.id is 1 to this */
    uint64_t private_bytes;
    void *memory; /* holds all decoded tensors */
} weights;

/* Finds, checks and decodes all tensors. `draft` is a file with the MTP head of a model without
 * one, or NULL. The mappings behind both must outlive the weights. */
mote_status weights_bind(weights *w, const hparams *hp, const gguf *g, const gguf *draft,
                         const kern_table *k, mote_error *err);
void weights_fini(weights *w);

/* ---- binder ---- */

typedef struct binder {
    const gguf *g;
    const kern_table *k;
    arena memory;   /* without a base: only counts */
    nn_kinds kinds; /* input formats of the matrices bound so far */
    nn_kinds expert_kinds;
    uint64_t expert_bytes, expert_parameters;
    uint32_t n_matrices; /* bound so far */
    uint64_t parameters; /* of the tensors bound so far */
    mote_error *err;
} binder;

/* Finds a tensor with exactly these dimensions, fastest first. */
mote_status bind_find(binder *b, const char *name, uint64_t d0, uint64_t d1,
                      const gguf_tensor **out);
/* The factor of a matrix, by the name of its tensor; 0: none. */
mote_status bind_factor(binder *b, const char *name, float *factor);
/* A matrix that stays in the file: y [rows] = m x [cols]. */
mote_status bind_matrix(binder *b, const char *name, uint64_t rows, uint64_t cols, nn_matrix *m);
/* A matrix of floats that stays in the file, for products with full precision. */
mote_status bind_plain_matrix(binder *b, const char *name, uint64_t rows, uint64_t cols,
                              nn_matrix *m);
/* A matrix decoded to float32, for products with full precision. */
mote_status bind_float_matrix(binder *b, const char *name, uint64_t rows, uint64_t cols,
                              nn_matrix *m);
/* A tensor decoded to float32, d0 fastest; *out is NULL while counting. */
mote_status bind_floats(binder *b, const char *name, uint64_t d0, uint64_t d1, float **out);
mote_status bind_vector(binder *b, const char *name, uint64_t n, const float **out);

#endif
