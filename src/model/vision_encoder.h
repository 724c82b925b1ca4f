/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_encoder.h - the picture tower: pixels to rows that stand in the place of token embeddings.
 *
 * A frame is a picture, or two neighbouring frames of a film, as 8-bit RGB whose sides are
 * multiples of 32. It is cut into patches of 16 x 16, taken two by two, so that four patches in a
 * row are one square and become one output row. Frames do not see each other.
 *
 * Memory beyond weights: the stream, keys and values of all patches of a frame, and a slice of
 * fixed size for everything else.
 */
#ifndef MOTE_MODEL_VISION_ENCODER_H
#define MOTE_MODEL_VISION_ENCODER_H

#include "base/arena.h"
#include "gguf/gguf.h"
#include "nn/nn.h"
#include "nn/vision_attention.h"

enum {
    VISION_PATCH = 16,                                        /* pixels a side */
    VISION_SQUARE = 2,                                        /* patches a side of one output row */
    VISION_PATCH_VALUES = 3 * 2 * VISION_PATCH * VISION_PATCH /* colour, time, y, x */
};

typedef struct vision_shape {
    uint32_t depth, hidden, heads, ffn;
    uint32_t out; /* the text model's n_embd */
    float eps;
    vision_attn_shape look;
} vision_shape;

/* A product with its bias. */
typedef struct vision_linear {
    nn_matrix w;
    const float *b; /* [w.rows] */
} vision_linear;

typedef struct vision_norm {
    const float *w, *b; /* [hidden] */
} vision_norm;

typedef struct vision_block {
    vision_norm before_look, before_ffn;
    vision_linear q;    /* [hidden][hidden] */
    vision_linear kv;   /* [2 hidden][hidden]: keys, then values */
    vision_linear out;  /* [hidden][hidden] */
    vision_linear up;   /* [ffn][hidden] */
    vision_linear down; /* [hidden][ffn] */
} vision_block;

typedef struct vision {
    vision_shape shape;
    vision_linear patch;    /* [hidden][1536], floats */
    const float *positions; /* [48][48][hidden] */
    vision_block *blocks;   /* [depth] */
    vision_norm merge_norm;
    vision_linear merge_in;  /* [4 hidden][4 hidden] */
    vision_linear merge_out; /* [out][4 hidden] */
    float inv_freq[KERN_VISION_ATTN_DIM / 4];
    nn_kinds kinds;
    uint64_t parameters;
    uint64_t private_bytes;
    void *memory; /* owns what is decoded */
} vision;

/* Is this file a tower? */
bool vision_is(const gguf *g);
/* Finds, checks and decodes. The file must outlive the tower; n_embd: of the text model. */
mote_status vision_bind(vision *v, const gguf *g, const kern_table *k, uint32_t n_embd,
                        mote_error *err);
void vision_fini(vision *v);

typedef struct vision_frame {
    const uint8_t *first, *second; /* [16 rows][16 cols][3]; the same for a picture */
    uint32_t rows, cols;           /* patches, both even */
} vision_frame;

static inline size_t vision_patches(uint32_t rows, uint32_t cols)
{
    return (size_t)rows * cols;
}

/* Output rows. */
static inline size_t vision_tokens(uint32_t rows, uint32_t cols)
{
    return vision_patches(rows, cols) / (VISION_SQUARE * VISION_SQUARE);
}

/* Working memory of one frame, cut from an arena. */
typedef struct vision_scratch {
    float *x; /* [patches][hidden]: the stream */
    vision_attn_memory look;
    float *turn_cos, *turn_sin; /* [longer side][head_dim / 4]: of one axis */
    float *cos, *sin;           /* [slice][head_dim / 2] */
    nn_acts in, mid;            /* [slice], as wide as the widest input */
    float *wide;                /* [slice][widest product] */
    float *branch;              /* [slice][hidden] */
} vision_scratch;

/* Takes it for a frame of rows x cols patches (or counts it). */
void vision_scratch_take(vision_scratch *s, arena *a, const vision *v, uint32_t rows,
                         uint32_t cols);

/* Shows intermediate rows to a test: "patch_embed" (without positions), "block" i, "last" . */
typedef void vision_tap_fn(void *ctx, const char *what, int block, size_t first, const float *rows,
                           size_t n_rows, size_t n_cols);

/* One frame to its rows, out [vision_tokens][shape.out]. tap may be NULL. */
void vision_run(const vision *v, const nn *n, const vision_scratch *s, const vision_frame *frame,
                float *out, vision_tap_fn *tap, void *tap_ctx);

#endif
