/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_encoder.c - the vision encoder, top to bottom.
 *
 *     x = W patch + b + P(row, col)                 P: 48 x 48 table, bilinear interpolation
 *     for each block:
 *         x = x + W_out attention(q, k, v)          q, k, v of LayerNorm(x); 2D RoPE on q and k
 *         x = x + W_down gelu(W_up LayerNorm(x))
 *     y = W_2 gelu(W_1 m)                           m: LayerNorm(x) of 2 x 2 patches, concatenated
 *
 * All steps run on slices of 256 patches. A block computes keys and values of the whole frame
 * first. Then each slice runs from its queries to the end of the block. So only the residual
 * stream, keys and values grow with the image.
 */
#include "model/vision_encoder.h"

#include "kernels/dmath.h"
#include "nn/nn.h"

#include <string.h>

enum {
    SLICE = 256,                          /* patches; a multiple of a key block and of MERGED */
    MERGED = VISION_MERGE * VISION_MERGE, /* patches per output row */
    TABLE_SIDE = 48                       /* of the position embeddings */
};

/* ---- scratch ---- */

void vision_scratch_take(vision_scratch *s, arena *a, const vision_encoder *v, uint32_t rows,
                         uint32_t cols)
{
    const vision_shape *shape = &v->shape;
    const size_t patches = vision_patches(rows, cols), side = rows > cols ? rows : cols;
    const size_t kv = 2 * (size_t)shape->hidden, wide = shape->ffn > kv ? shape->ffn : kv;
    const size_t in = shape->hidden > VISION_PATCH_VALUES ? shape->hidden : VISION_PATCH_VALUES;
    s->x = arena_take(a, patches * shape->hidden, sizeof *s->x);
    s->attn.blocks = vision_attn_blocks(patches);
    s->attn.k = arena_take(a, vision_attn_floats(&shape->attn, patches), sizeof *s->attn.k);
    s->attn.v = arena_take(a, vision_attn_floats(&shape->attn, patches), sizeof *s->attn.v);
    s->axis_cos = arena_take(a, side * shape->attn.head_dim / 4, sizeof *s->axis_cos);
    s->axis_sin = arena_take(a, side * shape->attn.head_dim / 4, sizeof *s->axis_sin);
    s->cos = arena_take(a, SLICE * shape->attn.head_dim / 2, sizeof *s->cos);
    s->sin = arena_take(a, SLICE * shape->attn.head_dim / 2, sizeof *s->sin);
    s->in.x = arena_take(a, SLICE * in, sizeof *s->in.x);
    nn_acts_take(&s->in, a, v->kinds, SLICE, in);
    s->mid.x = arena_take(a, SLICE * wide, sizeof *s->mid.x);
    nn_acts_take(&s->mid, a, v->kinds, SLICE, wide);
    s->wide = arena_take(a, SLICE * wide, sizeof *s->wide);
    s->branch = arena_take(a, SLICE * (size_t)shape->hidden, sizeof *s->branch);
}

/* ---- a frame ---- */

typedef struct vision_pass {
    const vision_encoder *v;
    const nn *n;
    const vision_scratch *s;
    const vision_frame *frame;
    size_t patches;
    vision_tap_fn *tap;
    void *tap_ctx;
} vision_pass;

/* Patches first .. first + n - 1. Patches are ordered so that the 2 x 2 patches of an output row
 * are consecutive. */
typedef struct slice {
    size_t first, n;
    float *x; /* their rows of the residual stream */
} slice;

static slice vision_pass_slice(const vision_pass *f, size_t first)
{
    const size_t left = f->patches - first;
    return (slice){.first = first,
                   .n = left < SLICE ? left : SLICE,
                   .x = f->s->x + first * f->v->shape.hidden};
}

/* Row and column of a patch in the frame. */
static void vision_pass_patch_position(const vision_pass *f, size_t patch, uint32_t *row,
                                       uint32_t *col)
{
    const uint32_t per_row = f->frame->cols / VISION_MERGE;
    const uint32_t square = (uint32_t)(patch / MERGED), inside = (uint32_t)(patch % MERGED);
    *row = square / per_row * VISION_MERGE + inside / VISION_MERGE;
    *col = square % per_row * VISION_MERGE + inside % VISION_MERGE;
}

static void vision_pass_tap(const vision_pass *f, const char *what, int block, const slice *sl)
{
    if (f->tap != NULL)
        f->tap(f->tap_ctx, what, block, sl->first, sl->x, sl->n, f->v->shape.hidden);
}

/* ---- patch embedding ---- */

/* Pixels 0 .. 255 to -1 .. 1, [channel][frame][y][x]. */
static void patch_normalise(const vision_pass *f, size_t patch, float *out)
{
    enum { SIDE = VISION_PATCH };
    uint32_t row, col;
    vision_pass_patch_position(f, patch, &row, &col);
    const size_t width = (size_t)f->frame->cols * SIDE;
    const size_t corner = ((size_t)row * SIDE * width + (size_t)col * SIDE) * 3;
    for (size_t channel = 0; channel < 3; channel++)
        for (size_t time = 0; time < 2; time++) {
            const uint8_t *pixels = (time == 0 ? f->frame->first : f->frame->second) + corner;
            for (size_t y = 0; y < SIDE; y++)
                for (size_t x = 0; x < SIDE; x++)
                    *out++ = ((float)pixels[(y * width + x) * 3 + channel] - 127.5f) / 127.5f;
        }
}

/* Maps patch `i` of `n` to an axis of the position table: between entries low and high, with the
 * returned weight of high. */
static float position_interpolate(uint32_t i, uint32_t n, uint32_t *low, uint32_t *high)
{
    const double at = n > 1 ? (double)i * (TABLE_SIDE - 1) / (double)(n - 1) : 0.0;
    *low = (uint32_t)at;
    *high = *low + 1 < TABLE_SIDE ? *low + 1 : TABLE_SIDE - 1;
    return (float)(at - *low);
}

static void patch_add_position(const vision_pass *f, size_t patch, float *x)
{
    const size_t hidden = f->v->shape.hidden;
    uint32_t row, col, y0, y1, x0, x1;
    vision_pass_patch_position(f, patch, &row, &col);
    const float fy = position_interpolate(row, f->frame->rows, &y0, &y1);
    const float fx = position_interpolate(col, f->frame->cols, &x0, &x1);
    const float *p = f->v->positions;
    const float *p00 = p + (y0 * TABLE_SIDE + x0) * hidden,
                *p01 = p + (y0 * TABLE_SIDE + x1) * hidden;
    const float *p10 = p + (y1 * TABLE_SIDE + x0) * hidden,
                *p11 = p + (y1 * TABLE_SIDE + x1) * hidden;
    const float w00 = (1 - fy) * (1 - fx), w01 = (1 - fy) * fx, w10 = fy * (1 - fx), w11 = fy * fx;
    for (size_t i = 0; i < hidden; i++) {
        const float upper = w00 * p00[i] + w01 * p01[i], lower = w10 * p10[i] + w11 * p11[i];
        x[i] += upper + lower;
    }
}

typedef struct slice_task {
    const vision_pass *f;
    const slice *sl;
} slice_task;

static void patch_normalise_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    const slice_task *t = ctx;
    patch_normalise(t->f, t->sl->first + task, t->f->s->in.x + (size_t)task * VISION_PATCH_VALUES);
}

static void patch_position_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    const slice_task *t = ctx;
    patch_add_position(t->f, t->sl->first + task, t->sl->x + task * t->f->v->shape.hidden);
}

/* x = W patch + b + P */
static void slice_embed(const vision_pass *f, const slice *sl)
{
    const size_t hidden = f->v->shape.hidden;
    slice_task t = {f, sl};
    pool_run(f->n->pool, patch_normalise_task, &t, (uint32_t)sl->n);
    nn_acts in = {.x = f->s->in.x, .cols = VISION_PATCH_VALUES};
    const nn_product product = {&f->v->patch.w, sl->x, hidden};
    nn_linear(f->n, &in, sl->n, &product, 1);
    nn_bias_residual(f->n, sl->x, f->v->patch.b, sl->n, hidden, NULL);
    vision_pass_tap(f, "patch_embed", -1, sl);
    pool_run(f->n->pool, patch_position_task, &t, (uint32_t)sl->n);
}

/* ---- blocks ---- */

/* Rotary cosines and sines of every coordinate; both axes use the same table. */
static void vision_pass_fill_axis_angles(const vision_pass *f)
{
    const size_t n = f->v->shape.attn.head_dim / 4;
    const uint32_t side = f->frame->rows > f->frame->cols ? f->frame->rows : f->frame->cols;
    for (uint32_t at = 0; at < side; at++)
        for (size_t i = 0; i < n; i++) {
            const float angle = (float)at * f->v->inv_freq[i];
            f->s->axis_cos[at * n + i] = (float)d_cos((double)angle);
            f->s->axis_sin[at * n + i] = (float)d_sin((double)angle);
        }
}

/* Rotary angles of a slice: the first half of the pairs by row, the second half by column. */
static void slice_set_angles(const vision_pass *f, const slice *sl)
{
    const size_t n = f->v->shape.attn.head_dim / 4, bytes = n * sizeof(float);
    for (size_t i = 0; i < sl->n; i++) {
        uint32_t at[2];
        vision_pass_patch_position(f, sl->first + i, &at[0], &at[1]);
        for (size_t axis = 0; axis < 2; axis++) {
            memcpy(f->s->cos + (2 * i + axis) * n, f->s->axis_cos + at[axis] * n, bytes);
            memcpy(f->s->sin + (2 * i + axis) * n, f->s->axis_sin + at[axis] * n, bytes);
        }
    }
}

/* LayerNorm(x) of a slice, in the input formats that the next matrices read. */
static nn_acts slice_norm(const vision_pass *f, const slice *sl, const vision_norm *norm,
                          nn_kinds kinds)
{
    nn_acts in = f->s->in;
    in.cols = f->v->shape.hidden;
    nn_layernorm(f->n, sl->x, norm->w, norm->b, f->v->shape.eps, sl->n, &in, kinds);
    return in;
}

/* y = W in, without the bias. */
static void linear_apply(const vision_pass *f, const nn_acts *in, size_t rows,
                         const vision_linear *l, float *y)
{
    const nn_product product = {&l->w, y, l->w.rows};
    nn_linear(f->n, in, rows, &product, 1);
}

/* Keys and values of all patches. */
static void block_keys_values(const vision_pass *f, const vision_block *b)
{
    const size_t hidden = f->v->shape.hidden;
    for (size_t first = 0; first < f->patches; first += SLICE) {
        const slice sl = vision_pass_slice(f, first);
        const nn_acts in =
            slice_norm(f, &sl, &b->attn_norm, nn_kind(b->k.w.format) | nn_kind(b->v.w.format));
        const nn_product products[] = {{&b->k.w, f->s->wide, 2 * hidden},
                                       {&b->v.w, f->s->wide + hidden, 2 * hidden}};
        nn_linear(f->n, &in, sl.n, products, 2);
        slice_set_angles(f, &sl);
        const vision_attn_rows rows = {f->s->wide, b->kv_bias, f->s->cos, f->s->sin, sl.n};
        nn_vision_attn_put(f->n, &f->v->shape.attn, &rows, first, &f->s->attn);
    }
}

/* x = x + W_out attention(q, k, v) */
static void slice_attention(const vision_pass *f, const slice *sl, const vision_block *b)
{
    const size_t hidden = f->v->shape.hidden;
    const nn_acts in = slice_norm(f, sl, &b->attn_norm, nn_kind(b->q.w.format));
    linear_apply(f, &in, sl->n, &b->q, f->s->wide);
    slice_set_angles(f, sl);
    const vision_attn_rows rows = {f->s->wide, b->q.b, f->s->cos, f->s->sin, sl->n};
    nn_acts mid = f->s->mid;
    mid.cols = hidden;
    nn_vision_attn(f->n, &f->v->shape.attn, &rows, &f->s->attn, f->patches, mid.x);
    nn_quantise(f->n, &mid, sl->n, nn_kind(b->out.w.format));
    linear_apply(f, &mid, sl->n, &b->out, f->s->branch);
    nn_bias_residual(f->n, f->s->branch, b->out.b, sl->n, hidden, sl->x);
}

/* x = x + W_down gelu(W_up LayerNorm(x)) */
static void slice_feed_forward(const vision_pass *f, const slice *sl, const vision_block *b)
{
    const nn_acts in = slice_norm(f, sl, &b->ffn_norm, nn_kind(b->up.w.format));
    nn_acts mid = f->s->mid;
    mid.cols = f->v->shape.ffn;
    linear_apply(f, &in, sl->n, &b->up, mid.x);
    nn_bias_gelu(f->n, f->n->k->gelu_tanh, b->up.b, sl->n, &mid, nn_kind(b->down.w.format));
    linear_apply(f, &mid, sl->n, &b->down, f->s->branch);
    nn_bias_residual(f->n, f->s->branch, b->down.b, sl->n, f->v->shape.hidden, sl->x);
}

static void block_run(const vision_pass *f, uint32_t i)
{
    const vision_block *b = &f->v->blocks[i];
    block_keys_values(f, b);
    for (size_t first = 0; first < f->patches; first += SLICE) {
        const slice sl = vision_pass_slice(f, first);
        slice_attention(f, &sl, b);
        slice_feed_forward(f, &sl, b);
        vision_pass_tap(f, "block", (int)i, &sl);
    }
}

/* ---- merger ---- */

/* y = W_2 gelu(W_1 m + b_1) + b_2; m: four consecutive rows after the norm. */
static void slice_merge(const vision_pass *f, const slice *sl, float *out)
{
    const vision_encoder *v = f->v;
    const size_t merged_rows = sl->n / MERGED;
    nn_acts in = f->s->in;
    in.cols = v->shape.hidden;
    nn_layernorm(f->n, sl->x, v->merge_norm.w, v->merge_norm.b, v->shape.eps, sl->n, &in, 0);
    in.cols = MERGED * v->shape.hidden;
    nn_quantise(f->n, &in, merged_rows, nn_kind(v->merge_in.w.format));
    nn_acts mid = f->s->mid;
    mid.x = f->s->branch; /* a quarter of the rows, four times as wide */
    mid.cols = in.cols;
    linear_apply(f, &in, merged_rows, &v->merge_in, mid.x);
    nn_bias_gelu(f->n, f->n->k->gelu_erf, v->merge_in.b, merged_rows, &mid,
                 nn_kind(v->merge_out.w.format));
    float *y = out + sl->first / MERGED * v->shape.out;
    linear_apply(f, &mid, merged_rows, &v->merge_out, y);
    nn_bias_residual(f->n, y, v->merge_out.b, merged_rows, v->shape.out, NULL);
}

void vision_encoder_run(const vision_encoder *v, const nn *n, const vision_scratch *s,
                        const vision_frame *frame, float *out, vision_tap_fn *tap_fn, void *tap_ctx)
{
    const vision_pass f = {.v = v,
                           .n = n,
                           .s = s,
                           .frame = frame,
                           .patches = vision_patches(frame->rows, frame->cols),
                           .tap = tap_fn,
                           .tap_ctx = tap_ctx};
    vision_pass_fill_axis_angles(&f);
    for (size_t first = 0; first < f.patches; first += SLICE) {
        const slice sl = vision_pass_slice(&f, first);
        slice_embed(&f, &sl);
    }
    for (uint32_t i = 0; i < v->shape.depth; i++)
        block_run(&f, i);
    for (size_t first = 0; first < f.patches; first += SLICE) {
        const slice sl = vision_pass_slice(&f, first);
        vision_pass_tap(&f, "last", -1, &sl);
        slice_merge(&f, &sl, out);
    }
}
