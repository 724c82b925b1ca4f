/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.h - one forward pass of a batch through all layers.
 *
 * A pass has up to `batch` rows (tokens) of any number of sessions; the tokens of one session are a
 * segment. The engine passes the addresses of each session's KV pages and recurrent state. The pass
 * reads and updates them and writes the requested logits. It allocates nothing.
 */
#ifndef MOTE_MODEL_FORWARD_H
#define MOTE_MODEL_FORWARD_H

#include "base/mem.h"
#include "model/cache_layout.h"
#include "model/expert_pages.h"
#include "model/weights.h"
#include "nn/nn.h"

/* Image tokens at .. at + n - 1 of a segment. Their features replace token embeddings, and their
 * rotary positions are (time, row, column) with a constant time (mrope). */
typedef struct pass_image {
    size_t at, n;
    const float *features; /* [n][n_embd] */
    uint64_t rope_base;    /* rotary position of the image's first token, all three components */
    uint32_t first;        /* number of token `at` in the image */
    uint32_t cols;         /* tokens per row of the image */
    int64_t rope_offset;   /* of the tokens after it: rotary position minus position */
} pass_image;

/* Consecutive tokens of one session. */
typedef struct pass_segment {
    const mote_token *tokens; /* [n] */
    size_t n;
    uint64_t pos;               /* of tokens[0] */
    const unsigned char *state; /* at the last multiple of 32 before pos */
    unsigned char *next_state;  /* for multiples of 32 inside the pass; may equal `state` */
    unsigned char *tail;
    unsigned char *const *pages; /* up to position pos + n - 1 */
    const pass_image *images;    /* [n_images], ascending */
    size_t n_images;
    int64_t rope_offset; /* of the tokens before the first image */
    size_t n_logits;     /* compute logits of the last n_logits tokens */
    float *hidden;       /* [n_embd]: output, the last token's row after the final norm; NULL: off.
                          * Excludes n_logits */
    double *sum;  /* [n_embd]: the rows of all tokens after the final norm are added in order;
                   * NULL: off. Excludes n_logits and hidden */
    bool aborted; /* set by the hook: the segment is removed and its memory not used again */
    bool defers; /* with drafts, n = 1: forward_keep_rows computes its row of the MTP block later */
    /* Adapters of the session; NULL: none. */
    const nn_lora_set *lora;
} pass_segment;

/* For tests: gets intermediate rows. `what` is "embed", "layer" (after each), "final_norm"; with
 * experts "moe_x" (input of the block), "experts" (their numbers), "expert_weights", "moe"
 * (output); with drafts also "hidden" (all rows after the final norm) and "draft" (outputs of the
 * MTP block). */
typedef void forward_tap_fn(void *ctx, const char *what, int layer, const float *rows,
                            size_t n_rows, size_t n_cols);

/* Scratch of a pass, allocated from the engine's arena. */
typedef struct forward_scratch {
    float *x;      /* [batch][n_embd]: residual stream */
    float *branch; /* [batch][n_embd]: output of a sublayer, to be added to x */
    nn_acts in;    /* normed input of a sublayer */
    nn_acts mid;   /* input of the output projection; x is used by mixers only */
    float *wide;   /* [batch][...]: outputs of the input projections of a sublayer */
    size_t wide_bytes;
    float *cos, *sin; /* [batch][32]: rotary angles */
    attn_parts parts;
    delta_segment *delta;    /* [sessions] */
    attn_segment *attention; /* [sessions] */
    expert_routes routes;    /* with experts */
    expert_slots slots;      /* with experts; gate and up are in `wide` */
    nn_lora_rows lora;       /* adapters of the rows; in.lora and mid.lora point to it */
} forward_scratch;

typedef struct forward {
    const hparams *hp;
    const weights *w;
    cache_layout layout;
    rope rope;
    nn nn;
    uint32_t batch;
    forward_scratch s;
    expert_pages *pages; /* with experts */
    /* Called before each sublayer; NULL: off. May set `aborted` of segments. false: cancel. */
    bool (*hook)(void *ctx);
    void *hook_ctx;
    forward_tap_fn *tap;
    void *tap_ctx;
} forward;

/* Allocates the scratch of passes of `batch` rows from the arena (or counts it). `drafts`: for
 * passes of the MTP block too. */
void forward_scratch_take(forward_scratch *s, arena *a, const hparams *hp, const weights *w,
                          uint32_t batch, uint32_t sessions, uint64_t positions, bool drafts,
                          uint32_t lora_rank);

/* Runs the segments, at most f->batch rows together. Writes the requested logits of all segments in
 * order, [sum of n_logits][n_vocab]. false: canceled, or all segments aborted; then some layers
 * have updated the sessions' memory and others have not. Aborted segments end with n = n_logits =
 * 0. */
bool forward_pass(const forward *f, pass_segment *segments, size_t n_segments, float *logits);

/* ---- drafts (draft_block.c) ---- */

/* One token of one session for the MTP block. */
typedef struct draft_row {
    mote_token token;    /* of position pos + 1 */
    const float *hidden; /* [n_embd]: hidden row of position `pos`, or the block's output for it */
    const float *angles; /* [64]: cos and sin of position `pos`; NULL: those of rope_pos */
    uint64_t rope_pos;   /* rotary position of a text token */
    uint64_t pos;
    unsigned char *const *pages; /* up to position `pos` */
    const nn_lora_set *lora;     /* adapters of the session; NULL: none */
} draft_row;

/* Runs the MTP block for n <= f->batch rows: writes K and V of `pos` and returns the outputs after
 * the norm of the block, quantised for the output head. They stay valid until the next pass and may
 * be the `hidden` of its rows. */
nn_acts forward_draft(const forward *f, const draft_row *rows, size_t n);
/* Writes K and V of `pos` alone, for 1 <= n <= f->batch rows of any sessions: the rows that passes
 * with `defers` left out. Rows of a session are consecutive, in order of their positions. */
void forward_keep_rows(const forward *f, const draft_row *rows, size_t n);

#endif
