/* SPDX-License-Identifier: Apache-2.0 */
/* forward_int.h - a pass in progress. Shared by forward.c, moe_block.c and draft_block.c. */
#ifndef MOTE_MODEL_FORWARD_INT_H
#define MOTE_MODEL_FORWARD_INT_H

#include "model/forward.h"

typedef struct pass {
    const forward *f;
    const forward_scratch *s;
    pass_segment *segments;
    size_t n_segments;
    size_t n_placed; /* segments with rows */
    size_t n_rows;
    float *logits;        /* [requested rows][n_vocab] */
    const float *pending; /* sublayer output not yet added to x, or NULL */
} pass;

/* For tests; see forward_tap_fn. */
void pass_tap(const pass *p, const char *what, int layer, const float *rows);
void pass_tap_wide(const pass *p, const char *what, const float *rows, size_t cols);

/* The input embedding of token `at` of a segment: E[token], or the features of an image token. */
void segment_embed(const forward *f, const pass_segment *seg, size_t at, float *x);

/* x = x + pending; returns RMSNorm(x), quantised to the formats `kinds` that its readers need. */
nn_acts pass_norm(pass *p, const float *w, nn_kinds kinds);

/* The sublayers of a decoder block; the output is `pending`. `index`: attention layer in a page. */
void attention_mixer(pass *p, const model_layer *l, size_t index);
void feed_forward(pass *p, const model_layer *l);

/* The feed-forward sublayer of a model with experts (moe_block.c). */
void feed_forward_experts(pass *p, const model_layer *l);
/* Floats per row of forward_scratch.wide that it needs. */
size_t experts_wide_floats(const hparams *hp);

/* With drafts, after the last layer: K and V of the MTP block for the rows of the pass, and the
 * hidden rows of its last positions (draft_block.c). Adds `pending` to x. */
void pass_keep_draft_rows(pass *p);

#endif
