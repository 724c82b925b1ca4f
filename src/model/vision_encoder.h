/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_encoder.h - the vision encoder (ViT, file: mmproj): pixels to rows that replace token
 * embeddings.
 *
 * Input is an image, or two consecutive frames of a video, as 8-bit RGB with sides that are
 * multiples of 32. It is cut into patches of 16 x 16 pixels. The 2 x 2 patches of a square of 32 x
 * 32 pixels are merged into one output row, one token. Attention does not cross images or frame
 * pairs.
 *
 * Scratch: residual stream, keys and values of all patches, and buffers of a fixed number of
 * patches (a slice) for everything else. The encoder is immutable; runs with separate scratch can
 * overlap.
 */
#ifndef MOTE_MODEL_VISION_ENCODER_H
#define MOTE_MODEL_VISION_ENCODER_H

#include "base/mem.h"
#include "gguf/gguf.h"
#include "nn/nn.h"
#include "nn/vision_attention.h"

enum {
    VISION_PATCH = 16,                                        /* pixels per side */
    VISION_MERGE = 2,                                         /* patches per side of a token */
    VISION_PATCH_VALUES = 3 * 2 * VISION_PATCH * VISION_PATCH /* channel, frame, y, x */
};

typedef struct vision_shape {
    uint32_t depth, hidden, heads, ffn;
    uint32_t out; /* n_embd of the language model */
    float eps;
    vision_attn_shape attn;
} vision_shape;

/* A matrix with its bias. */
typedef struct vision_linear {
    nn_matrix w;
    const float *b; /* [w.rows] */
} vision_linear;

/* LayerNorm. */
typedef struct vision_norm {
    const float *w, *b; /* [hidden] */
} vision_norm;

typedef struct vision_block {
    vision_norm attn_norm, ffn_norm;
    vision_linear q, k, v;
    const float *kv_bias; /* [2 hidden]: keys, then values */
    vision_linear out;    /* [hidden][hidden], as q, k and v */
    vision_linear up;     /* [ffn][hidden] */
    vision_linear down;   /* [hidden][ffn] */
} vision_block;

typedef struct vision_encoder {
    vision_shape shape;
    vision_linear patch;    /* [hidden][1536], float32 */
    const float *positions; /* [48][48][hidden]: learned position embeddings */
    vision_block *blocks;   /* [depth] */
    vision_norm merge_norm;
    vision_linear merge_in;                   /* [4 hidden][4 hidden] */
    vision_linear merge_out;                  /* [out][4 hidden] */
    float inv_freq[KERN_VISION_ATTN_DIM / 4]; /* rotary frequencies of one axis */
    nn_kinds kinds;
    uint64_t parameters;
    uint64_t private_bytes;
    void *memory; /* holds all decoded tensors */
} vision_encoder;

/* Is this file a vision encoder (mmproj), or a model file with a vision encoder inside? */
bool vision_encoder_is_mmproj(const gguf *g);
bool vision_encoder_is_inside(const gguf *g);
/* Finds, checks and decodes all tensors. The mapping behind `g` must outlive the encoder. n_embd:
 * of the language model. */
mote_status vision_encoder_bind(vision_encoder *v, const gguf *g, const kern_table *k,
                                uint32_t n_embd, mote_error *err);
void vision_encoder_fini(vision_encoder *v);

typedef struct vision_frame {
    const uint8_t *first, *second; /* [16 rows][16 cols][3]; equal for a still image */
    uint32_t rows, cols;           /* patches, both even */
} vision_frame;

static inline size_t vision_patches(uint32_t rows, uint32_t cols)
{
    return (size_t)rows * cols;
}

/* Number of output rows. */
static inline size_t vision_tokens(uint32_t rows, uint32_t cols)
{
    return vision_patches(rows, cols) / (VISION_MERGE * VISION_MERGE);
}

/* Scratch for one frame, allocated from an arena. */
typedef struct vision_scratch {
    float *x;                   /* [patches][hidden]: residual stream */
    vision_attn_memory attn;    /* keys and values of all patches */
    float *axis_cos, *axis_sin; /* [longer side][head_dim / 4]: rotary angles along one axis */
    float *cos, *sin;           /* [slice][head_dim / 2]: rotary angles of patches */
    nn_acts in, mid;            /* [slice]: inputs of matrices */
    float *wide;                /* [slice][widest output]: outputs of matrices */
    float *branch;              /* [slice][hidden]: to be added to x */
} vision_scratch;

/* Allocates the scratch for a frame of rows x cols patches, or counts it. */
void vision_scratch_take(vision_scratch *s, arena *a, const vision_encoder *v, uint32_t rows,
                         uint32_t cols);

/* For tests: gets intermediate rows. `what` is "patch_embed" (without positions), "block" or
 * "last".
 */
typedef void vision_tap_fn(void *ctx, const char *what, int block, size_t first, const float *rows,
                           size_t n_rows, size_t n_cols);

/* Encodes one frame: out [vision_tokens][shape.out]. tap may be NULL. */
void vision_encoder_run(const vision_encoder *v, const nn *n, const vision_scratch *s,
                        const vision_frame *frame, float *out, vision_tap_fn *tap, void *tap_ctx);

#endif
