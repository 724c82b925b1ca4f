/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_weights.c - the tower's tensors by name: see vision.h.
 *
 * Matrices stay in the file. Vectors, the position table and the patch embedding are decoded:
 * the file has the latter as two pictures of weights, one for each moment of a pair of
 * frames, and it is wanted as rows in the order of a patch.
 */
#include "base/mem.h"
#include "kernels/dmath.h"
#include "model/bind.h"
#include "model/vision_encoder.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 64, TABLE_SIDE = 48, MAX_DEPTH = 64, MAX_HIDDEN = 1 << 14 };

bool vision_is(const gguf *g)
{
    str architecture = {0};
    bool found = false;
    return gguf_get_str(g, "general.architecture", &architecture, &found, NULL) == MOTE_OK &&
           found && str_is(architecture, "clip");
}

/* ---- shape ---- */

static mote_status check_kind(const gguf *g, mote_error *err)
{
    str projector = {0};
    uint32_t patch = VISION_PATCH, square = VISION_SQUARE;
    bool found;
    TRY(gguf_get_str(g, "clip.projector_type", &projector, NULL, err));
    TRY(gguf_get_u32(g, "clip.vision.patch_size", &patch, NULL, err));
    TRY(gguf_get_u32(g, "clip.vision.spatial_merge_size", &square, &found, err));
    if (!str_is(projector, "qwen3vl_merger") || patch != VISION_PATCH || square != VISION_SQUARE)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "the picture tower is of kind '%.*s' with patches of %u, not Qwen 3.5's",
                       STR_ARG(projector), patch);
    const gguf_kv *deep = gguf_find(g, "clip.vision.is_deepstack_layers");
    for (uint64_t i = 0; deep != NULL && i < deep->n_bytes; i++)
        if (deep->bytes[i] != 0)
            return err_set(err, MOTE_E_UNSUPPORTED, "the picture tower feeds several layers");
    return MOTE_OK;
}

static mote_status read_shape(vision_shape *s, const gguf *g, uint32_t n_embd, mote_error *err)
{
    TRY(check_kind(g, err));
    TRY(gguf_get_u32(g, "clip.vision.block_count", &s->depth, NULL, err));
    TRY(gguf_get_u32(g, "clip.vision.embedding_length", &s->hidden, NULL, err));
    TRY(gguf_get_u32(g, "clip.vision.feed_forward_length", &s->ffn, NULL, err));
    TRY(gguf_get_u32(g, "clip.vision.attention.head_count", &s->heads, NULL, err));
    TRY(gguf_get_u32(g, "clip.vision.projection_dim", &s->out, NULL, err));
    TRY(gguf_get_f32(g, "clip.vision.attention.layer_norm_epsilon", &s->eps, NULL, err));
    if (s->depth == 0 || s->depth > MAX_DEPTH || s->hidden == 0 || s->hidden > MAX_HIDDEN ||
        s->ffn == 0 || s->ffn > 4 * MAX_HIDDEN || s->heads == 0 || s->hidden % s->heads != 0)
        return err_set(err, MOTE_E_FORMAT, "the sizes of the picture tower cannot be");
    s->look = (vision_attn_shape){.heads = s->heads, .head_dim = s->hidden / s->heads};
    s->look.dim = (s->look.head_dim + 15) / 16 * 16;
    if (s->look.head_dim % 4 != 0 || s->look.dim > KERN_VISION_ATTN_DIM)
        return err_set(err, MOTE_E_UNSUPPORTED, "the picture tower has heads of %zu values",
                       s->look.head_dim);
    if (s->out != n_embd)
        return err_set(err, MOTE_E_MISMATCH,
                       "the picture tower is for a model of width %u; this one has %u", s->out,
                       n_embd);
    return MOTE_OK;
}

/* ---- tensors ---- */

static const char *name_of(char *out, uint32_t block, const char *rest)
{
    snprintf(out, NAME_BYTES, "v.blk.%u.%s", block, rest);
    return out;
}

static mote_status linear(binder *b, const char *stem, uint64_t rows, uint64_t cols,
                          vision_linear *l)
{
    char n[NAME_BYTES + 8];
    snprintf(n, sizeof n, "%s.weight", stem);
    TRY(bind_matrix(b, n, rows, cols, &l->w));
    snprintf(n, sizeof n, "%s.bias", stem);
    return bind_vector(b, n, rows, &l->b);
}

static mote_status norm(binder *b, const char *stem, uint64_t n, vision_norm *out)
{
    char name[NAME_BYTES + 8];
    snprintf(name, sizeof name, "%s.weight", stem);
    TRY(bind_vector(b, name, n, &out->w));
    snprintf(name, sizeof name, "%s.bias", stem);
    return bind_vector(b, name, n, &out->b);
}

/* Rows `first` .. of a product that was bound as a whole. */
static vision_linear part(const vision_linear *whole, size_t first, size_t rows)
{
    vision_linear l = *whole;
    l.w.data += first * l.w.row_bytes;
    l.w.rows = rows;
    l.b = whole->b != NULL ? whole->b + first : NULL; /* NULL while counting */
    return l;
}

static mote_status bind_block(binder *b, const vision_shape *s, uint32_t i, vision_block *l)
{
    const uint64_t h = s->hidden;
    char n[NAME_BYTES];
    vision_linear qkv = {0};
    TRY(norm(b, name_of(n, i, "ln1"), h, &l->before_look));
    TRY(norm(b, name_of(n, i, "ln2"), h, &l->before_ffn));
    TRY(linear(b, name_of(n, i, "attn_qkv"), 3 * h, h, &qkv));
    TRY(linear(b, name_of(n, i, "attn_out"), h, h, &l->out));
    TRY(linear(b, name_of(n, i, "ffn_up"), s->ffn, h, &l->up));
    TRY(linear(b, name_of(n, i, "ffn_down"), h, s->ffn, &l->down));
    l->q = part(&qkv, 0, h);
    l->kv = part(&qkv, h, 2 * h);
    return MOTE_OK;
}

/* One moment's weights: the file has [hidden][colour][y][x]. */
static mote_status patch_half(binder *b, const char *name, uint64_t hidden, size_t moment,
                              float *rows)
{
    enum { SIDE = VISION_PATCH, PLANE = SIDE * SIDE };
    const gguf_tensor *t = gguf_find_tensor(b->g, name);
    if (t == NULL || t->format == NULL || t->format->block_values != 1 || t->dims[0] != SIDE ||
        t->dims[1] != SIDE || t->dims[2] != 3 || t->dims[3] != hidden)
        return err_set(b->err, MOTE_E_FORMAT,
                       "tensor '%s' is missing, or not 16 x 16 x 3 x %llu floats", name,
                       (unsigned long long)hidden);
    b->parameters += hidden * 3 * PLANE;
    for (size_t i = 0; rows != NULL && i < hidden * 3; i++) {
        float *to = rows + i / 3 * VISION_PATCH_VALUES + (i % 3 * 2 + moment) * PLANE;
        t->format->decode(t->data + i * PLANE * t->format->block_bytes, PLANE, to);
    }
    return MOTE_OK;
}

static mote_status bind_patch(binder *b, const vision_shape *s, vision_linear *l)
{
    float *rows = arena_take(&b->memory, (size_t)s->hidden * VISION_PATCH_VALUES, sizeof *rows);
    TRY(patch_half(b, "v.patch_embd.weight", s->hidden, 0, rows));
    TRY(patch_half(b, "v.patch_embd.weight.1", s->hidden, 1, rows));
    l->w = (nn_matrix){.data = (const unsigned char *)rows,
                       .format = quant_get(QUANT_F32),
                       .gemm = b->k->gemm_f32,
                       .rows = s->hidden,
                       .cols = VISION_PATCH_VALUES,
                       .row_bytes = VISION_PATCH_VALUES * sizeof(float)};
    return bind_vector(b, "v.patch_embd.bias", s->hidden, &l->b);
}

static mote_status bind_all(binder *b, vision *v)
{
    const vision_shape *s = &v->shape;
    const uint64_t square = (uint64_t)VISION_SQUARE * VISION_SQUARE * s->hidden;
    float *positions;
    v->blocks = arena_take(&b->memory, s->depth, sizeof *v->blocks);
    TRY(bind_patch(b, s, &v->patch));
    TRY(bind_floats(b, "v.position_embd.weight", s->hidden, TABLE_SIDE * TABLE_SIDE, &positions));
    v->positions = positions;
    for (uint32_t i = 0; i < s->depth; i++) {
        vision_block counted;
        TRY(bind_block(b, s, i, v->blocks != NULL ? &v->blocks[i] : &counted));
    }
    TRY(norm(b, "v.post_ln", s->hidden, &v->merge_norm));
    TRY(linear(b, "mm.0", square, square, &v->merge_in));
    TRY(linear(b, "mm.2", s->out, square, &v->merge_out));
    v->parameters = b->parameters;
    v->kinds = b->kinds;
    return MOTE_OK;
}

/* Frequencies of one axis: a quarter of a head's values, 10000^(-4i/head_dim). */
static void set_frequencies(vision *v)
{
    const size_t n = v->shape.look.head_dim / 4;
    for (size_t i = 0; i < n; i++)
        v->inv_freq[i] = (float)d_pow(10000.0, -(double)i / (double)n);
}

mote_status vision_bind(vision *v, const gguf *g, const kern_table *k, uint32_t n_embd,
                        mote_error *err)
{
    *v = (vision){0};
    TRY(read_shape(&v->shape, g, n_embd, err));
    set_frequencies(v);
    binder counting = {.g = g, .k = k, .err = err};
    TRY(bind_all(&counting, v));
    if (counting.memory.overflow)
        return err_set(err, MOTE_E_FORMAT, "the small tensors of the picture tower are too large");
    v->private_bytes = counting.memory.used;
    v->memory = mem_new(counting.memory.used, 1);
    if (v->memory == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for %zu bytes of the picture tower",
                       counting.memory.used);
    binder b = {.g = g, .k = k, .memory = {.base = v->memory}, .err = err};
    return bind_all(&b, v);
}

void vision_fini(vision *v)
{
    if (v->memory != NULL) {
        arena whole = {.base = v->memory, .used = (size_t)v->private_bytes};
        arena_release(&whole);
    }
    mem_free(v->memory);
    *v = (vision){0};
}
