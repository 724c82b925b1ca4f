/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.h - one pass of rows through all layers.
 *
 * A pass is up to `batch` rows of any number of timelines. The engine says where
 * each timeline's memory lies; forward reads it, advances it and writes the
 * logits that were asked for. Nothing is allocated.
 */
#ifndef MOTE_MODEL_FORWARD_H
#define MOTE_MODEL_FORWARD_H

#include "base/arena.h"
#include "model/cache_layout.h"
#include "model/weights.h"
#include "nn/nn.h"

/* Tokens of a segment that are a picture's: their rows take the place of embeddings, and they
 * stand in a plane: row and column count as positions, time stands still. */
typedef struct pass_run {
    size_t at, n;      /* tokens of the segment */
    const float *rows; /* [n][n_embd] */
    uint64_t base;     /* rotary position of the picture's corner */
    uint32_t first;    /* which of its tokens comes first here */
    uint32_t cols;
    int64_t shift; /* of the tokens after it: rotary position minus position */
} pass_run;

/* Consecutive tokens of one timeline. */
typedef struct pass_segment {
    const mote_token *tokens; /* [n] */
    size_t n;
    uint64_t pos;               /* of tokens[0] */
    const unsigned char *state; /* at the boundary before pos */
    unsigned char *next_state;  /* for boundaries inside the pass; may be `state` */
    unsigned char *tail;
    unsigned char *const *pages; /* up to position pos + n - 1 */
    const pass_run *runs;        /* [n_runs], ascending */
    size_t n_runs;
    int64_t shift;   /* of the tokens before the first run */
    size_t n_logits; /* logits are wanted of the last so many tokens */
    float *hidden;   /* [n_embd], receives the last token's row after the final norm; NULL: not
                      * wanted. Not together with logits */
    double *sum;     /* [n_embd], every token's such row is added to it in turn; NULL: not wanted.
                      * Not together with the others */
    bool gone;       /* set between units: it is taken out, its memory is not touched any more */
} pass_segment;

/* Shows intermediate rows to a test: "embed", "layer" (after each), "final_norm". */
typedef void forward_tap_fn(void *ctx, const char *what, int layer, const float *rows,
                            size_t n_rows, size_t n_cols);

/* Working memory of a pass, cut from the engine's arena. */
typedef struct forward_scratch {
    float *x;      /* [batch][n_embd]: the residual stream */
    float *branch; /* [batch][n_embd]: what a layer adds to it */
    nn_acts in;    /* input of products, up to the widest */
    nn_acts mid;   /* input of the second product of a unit; x: of a mixer */
    float *wide;   /* [batch][widest set of products] */
    size_t wide_bytes;
    float *cos, *sin; /* [batch][32] */
    attn_parts parts;
    delta_segment *delta;    /* [sessions] */
    attn_segment *attention; /* [sessions] */
} forward_scratch;

typedef struct forward {
    const hparams *hp;
    const weights *w;
    layout layout;
    rope rope;
    nn nn;
    uint32_t batch;
    forward_scratch s;
    /* before each unit, NULL: nothing. false: give the pass up. May set `gone` of segments */
    bool (*between)(void *ctx);
    void *between_ctx;
    forward_tap_fn *tap;
    void *tap_ctx;
} forward;

/* Takes the scratch of passes of `batch` rows from the arena (or counts it); `kinds` are the
 * forms of inputs that the model's matrices read. */
void forward_scratch_take(forward_scratch *s, arena *a, const hparams *hp, nn_kinds kinds,
                          uint32_t batch, uint32_t sessions, uint64_t positions);

/* The rows of all segments together are at most f->batch. logits receives the
 * wanted rows of all segments in order, [wanted][n_vocab]. false: it was given up, or all are gone;
 * some layers have advanced the memory of the timelines, others have not. A segment that is gone
 * has n and n_logits 0 in the end. */
bool forward_pass(const forward *f, pass_segment *segments, size_t n_segments, float *logits);

#endif
