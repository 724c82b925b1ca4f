/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_encoder.c - the picture tower, top to bottom.
 *
 *     x = W patch + b + P(row, col)            P: a table of 48 x 48, stretched over the frame
 *     for each block:
 *         x = x + out(look(q, k, v)),          q, k, v of norm(x); q and k turned by row and col
 *         x = x + down(gelu(up(norm(x))))
 *     y = W2 gelu(W1 m),                       m: norm(x) of the four patches of a square
 *
 * Everything but `look` is done in slices of patches. A block makes keys and values of the
 * whole frame first; then each slice goes from its queries to the end of the block, so only
 * the stream, the keys and the values are as long as the frame.
 */
#include "model/vision_encoder.h"

#include "kernels/dmath.h"
#include "nn/nn.h"

#include <string.h>

enum {
    SLICE = 256, /* patches; whole blocks of keys and whole squares */
    SQUARE = VISION_SQUARE * VISION_SQUARE,
    TABLE_SIDE = 48
};

/* ---- working memory ---- */

static size_t widest(const vision_shape *s)
{
    const size_t hidden = s->hidden, ffn = s->ffn, two = 2 * hidden;
    return ffn > two ? ffn : two;
}

void vision_scratch_take(vision_scratch *s, arena *a, const vision *v, uint32_t rows, uint32_t cols)
{
    const vision_shape *shape = &v->shape;
    const size_t patches = vision_patches(rows, cols), side = rows > cols ? rows : cols;
    const size_t wide = widest(shape);
    const size_t in = shape->hidden > VISION_PATCH_VALUES ? shape->hidden : VISION_PATCH_VALUES;
    s->x = arena_take(a, patches * shape->hidden, sizeof *s->x);
    s->look.blocks = vision_attn_blocks(patches);
    s->look.k = arena_take(a, vision_attn_floats(&shape->look, patches), sizeof *s->look.k);
    s->look.v = arena_take(a, vision_attn_floats(&shape->look, patches), sizeof *s->look.v);
    s->turn_cos = arena_take(a, side * shape->look.head_dim / 4, sizeof *s->turn_cos);
    s->turn_sin = arena_take(a, side * shape->look.head_dim / 4, sizeof *s->turn_sin);
    s->cos = arena_take(a, SLICE * shape->look.head_dim / 2, sizeof *s->cos);
    s->sin = arena_take(a, SLICE * shape->look.head_dim / 2, sizeof *s->sin);
    s->in.x = arena_take(a, SLICE * in, sizeof *s->in.x);
    nn_acts_take(&s->in, a, v->kinds, SLICE, in);
    s->mid.x = arena_take(a, SLICE * wide, sizeof *s->mid.x);
    nn_acts_take(&s->mid, a, v->kinds, SLICE, wide);
    s->wide = arena_take(a, SLICE * wide, sizeof *s->wide);
    s->branch = arena_take(a, SLICE * (size_t)shape->hidden, sizeof *s->branch);
}

/* ---- a frame ---- */

typedef struct look_at {
    const vision *v;
    const nn *n;
    const vision_scratch *s;
    const vision_frame *frame;
    size_t patches;
    vision_tap_fn *tap;
    void *tap_ctx;
} look_at;

/* Patches first .. first + n - 1, in their order: square by square, two by two in a square. */
typedef struct slice {
    size_t first, n;
    float *x; /* their rows of the stream */
} slice;

static slice slice_at(const look_at *f, size_t first)
{
    const size_t left = f->patches - first;
    return (slice){.first = first,
                   .n = left < SLICE ? left : SLICE,
                   .x = f->s->x + first * f->v->shape.hidden};
}

static void place_of(const look_at *f, size_t patch, uint32_t *row, uint32_t *col)
{
    const uint32_t squares = f->frame->cols / VISION_SQUARE;
    const uint32_t square = (uint32_t)(patch / SQUARE), inside = (uint32_t)(patch % SQUARE);
    *row = square / squares * VISION_SQUARE + inside / VISION_SQUARE;
    *col = square % squares * VISION_SQUARE + inside % VISION_SQUARE;
}

static void tap(const look_at *f, const char *what, int block, const slice *sl)
{
    if (f->tap != NULL)
        f->tap(f->tap_ctx, what, block, sl->first, sl->x, sl->n, f->v->shape.hidden);
}

/* ---- patches ---- */

/* 0 .. 255 to -1 .. 1, [colour][moment][y][x]. */
static void cut_patch(const look_at *f, size_t patch, float *out)
{
    enum { SIDE = VISION_PATCH };
    uint32_t row, col;
    place_of(f, patch, &row, &col);
    const size_t width = (size_t)f->frame->cols * SIDE;
    const size_t corner = ((size_t)row * SIDE * width + (size_t)col * SIDE) * 3;
    for (size_t colour = 0; colour < 3; colour++)
        for (size_t moment = 0; moment < 2; moment++) {
            const uint8_t *pixels = (moment == 0 ? f->frame->first : f->frame->second) + corner;
            for (size_t y = 0; y < SIDE; y++)
                for (size_t x = 0; x < SIDE; x++)
                    *out++ = ((float)pixels[(y * width + x) * 3 + colour] - 127.5f) / 127.5f;
        }
}

/* The place of patch `i` of `n` on an axis of the table: between `low` and the next, so far. */
static float on_table(uint32_t i, uint32_t n, uint32_t *low, uint32_t *high)
{
    const double at = n > 1 ? (double)i * (TABLE_SIDE - 1) / (double)(n - 1) : 0.0;
    *low = (uint32_t)at;
    *high = *low + 1 < TABLE_SIDE ? *low + 1 : TABLE_SIDE - 1;
    return (float)(at - *low);
}

static void add_position(const look_at *f, size_t patch, float *x)
{
    const size_t hidden = f->v->shape.hidden;
    uint32_t row, col, y0, y1, x0, x1;
    place_of(f, patch, &row, &col);
    const float fy = on_table(row, f->frame->rows, &y0, &y1);
    const float fx = on_table(col, f->frame->cols, &x0, &x1);
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

typedef struct slice_run {
    const look_at *f;
    const slice *sl;
} slice_run;

static void cut_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    const slice_run *run = ctx;
    cut_patch(run->f, run->sl->first + task, run->f->s->in.x + (size_t)task * VISION_PATCH_VALUES);
}

static void position_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    const slice_run *run = ctx;
    add_position(run->f, run->sl->first + task, run->sl->x + task * run->f->v->shape.hidden);
}

/* x = W patch + b + P */
static void embed(const look_at *f, const slice *sl)
{
    const size_t hidden = f->v->shape.hidden;
    slice_run run = {f, sl};
    pool_run(f->n->pool, cut_task, &run, (uint32_t)sl->n);
    nn_acts in = {.x = f->s->in.x, .cols = VISION_PATCH_VALUES};
    const nn_product product = {&f->v->patch.w, sl->x, hidden};
    nn_linear(f->n, &in, sl->n, &product, 1);
    nn_bias_residual(f->n, sl->x, f->v->patch.b, sl->n, hidden, NULL);
    tap(f, "patch_embed", -1, sl);
    pool_run(f->n->pool, position_task, &run, (uint32_t)sl->n);
}

/* ---- blocks ---- */

/* Cosines and sines of every place on an axis; both axes have the same. */
static void make_turns(const look_at *f)
{
    const size_t n = f->v->shape.look.head_dim / 4;
    const uint32_t side = f->frame->rows > f->frame->cols ? f->frame->rows : f->frame->cols;
    for (uint32_t at = 0; at < side; at++)
        for (size_t i = 0; i < n; i++) {
            const float angle = (float)at * f->v->inv_freq[i];
            f->s->turn_cos[at * n + i] = (float)d_cos((double)angle);
            f->s->turn_sin[at * n + i] = (float)d_sin((double)angle);
        }
}

/* Angles of a slice: the first half of the pairs turn by the row, the second by the column. */
static void set_angles(const look_at *f, const slice *sl)
{
    const size_t n = f->v->shape.look.head_dim / 4, bytes = n * sizeof(float);
    for (size_t i = 0; i < sl->n; i++) {
        uint32_t at[2];
        place_of(f, sl->first + i, &at[0], &at[1]);
        for (size_t axis = 0; axis < 2; axis++) {
            memcpy(f->s->cos + (2 * i + axis) * n, f->s->turn_cos + at[axis] * n, bytes);
            memcpy(f->s->sin + (2 * i + axis) * n, f->s->turn_sin + at[axis] * n, bytes);
        }
    }
}

/* norm(x) of a slice, in the form that `next` reads. */
static nn_acts normed(const look_at *f, const slice *sl, const vision_norm *norm,
                      const vision_linear *next)
{
    nn_acts in = f->s->in;
    in.cols = f->v->shape.hidden;
    nn_layernorm(f->n, sl->x, norm->w, norm->b, f->v->shape.eps, sl->n, &in,
                 nn_kind(next->w.format));
    return in;
}

static void apply(const look_at *f, const nn_acts *in, size_t rows, const vision_linear *l,
                  float *y)
{
    const nn_product product = {&l->w, y, l->w.rows};
    nn_linear(f->n, in, rows, &product, 1);
}

/* Keys and values of every patch. */
static void lay_down(const look_at *f, const vision_block *b)
{
    for (size_t first = 0; first < f->patches; first += SLICE) {
        const slice sl = slice_at(f, first);
        const nn_acts in = normed(f, &sl, &b->before_look, &b->kv);
        apply(f, &in, sl.n, &b->kv, f->s->wide);
        set_angles(f, &sl);
        const vision_attn_rows rows = {f->s->wide, b->kv.b, f->s->cos, f->s->sin, sl.n};
        nn_vision_attn_put(f->n, &f->v->shape.look, &rows, first, &f->s->look);
    }
}

/* x = x + out(look) */
static void look(const look_at *f, const slice *sl, const vision_block *b)
{
    const size_t hidden = f->v->shape.hidden;
    const nn_acts in = normed(f, sl, &b->before_look, &b->q);
    apply(f, &in, sl->n, &b->q, f->s->wide);
    set_angles(f, sl);
    const vision_attn_rows rows = {f->s->wide, b->q.b, f->s->cos, f->s->sin, sl->n};
    nn_acts mid = f->s->mid;
    mid.cols = hidden;
    nn_vision_attn(f->n, &f->v->shape.look, &rows, &f->s->look, f->patches, mid.x);
    nn_quantise(f->n, &mid, sl->n, nn_kind(b->out.w.format));
    apply(f, &mid, sl->n, &b->out, f->s->branch);
    nn_bias_residual(f->n, f->s->branch, b->out.b, sl->n, hidden, sl->x);
}

/* x = x + down(gelu(up(norm(x)))) */
static void feed_forward(const look_at *f, const slice *sl, const vision_block *b)
{
    const nn_acts in = normed(f, sl, &b->before_ffn, &b->up);
    nn_acts mid = f->s->mid;
    mid.cols = f->v->shape.ffn;
    apply(f, &in, sl->n, &b->up, mid.x);
    nn_bias_gelu(f->n, f->n->k->gelu_tanh, b->up.b, sl->n, &mid, nn_kind(b->down.w.format));
    apply(f, &mid, sl->n, &b->down, f->s->branch);
    nn_bias_residual(f->n, f->s->branch, b->down.b, sl->n, f->v->shape.hidden, sl->x);
}

static void run_block(const look_at *f, uint32_t i)
{
    const vision_block *b = &f->v->blocks[i];
    lay_down(f, b);
    for (size_t first = 0; first < f->patches; first += SLICE) {
        const slice sl = slice_at(f, first);
        look(f, &sl, b);
        feed_forward(f, &sl, b);
        tap(f, "block", (int)i, &sl);
    }
}

/* ---- squares ---- */

/* y = W2 gelu(W1 m + b1) + b2; four rows of the norm, one after the other, are m. */
static void merge(const look_at *f, const slice *sl, float *out)
{
    const vision *v = f->v;
    const size_t squares = sl->n / SQUARE;
    nn_acts in = f->s->in;
    in.cols = v->shape.hidden;
    nn_layernorm(f->n, sl->x, v->merge_norm.w, v->merge_norm.b, v->shape.eps, sl->n, &in, 0);
    in.cols = SQUARE * v->shape.hidden;
    nn_quantise(f->n, &in, squares, nn_kind(v->merge_in.w.format));
    nn_acts mid = f->s->mid;
    mid.x = f->s->branch; /* a quarter of the rows, four times as wide */
    mid.cols = in.cols;
    apply(f, &in, squares, &v->merge_in, mid.x);
    nn_bias_gelu(f->n, f->n->k->gelu_erf, v->merge_in.b, squares, &mid,
                 nn_kind(v->merge_out.w.format));
    float *y = out + sl->first / SQUARE * v->shape.out;
    apply(f, &mid, squares, &v->merge_out, y);
    nn_bias_residual(f->n, y, v->merge_out.b, squares, v->shape.out, NULL);
}

void vision_run(const vision *v, const nn *n, const vision_scratch *s, const vision_frame *frame,
                float *out, vision_tap_fn *tap_fn, void *tap_ctx)
{
    const look_at f = {.v = v,
                       .n = n,
                       .s = s,
                       .frame = frame,
                       .patches = vision_patches(frame->rows, frame->cols),
                       .tap = tap_fn,
                       .tap_ctx = tap_ctx};
    make_turns(&f);
    for (size_t first = 0; first < f.patches; first += SLICE) {
        const slice sl = slice_at(&f, first);
        embed(&f, &sl);
    }
    for (uint32_t i = 0; i < v->shape.depth; i++)
        run_block(&f, i);
    for (size_t first = 0; first < f.patches; first += SLICE) {
        const slice sl = slice_at(&f, first);
        tap(&f, "last", -1, &sl);
        merge(&f, &sl, out);
    }
}
