/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_weights.c - finds and checks the tensors of an mmproj file; see vision_encoder.h.
 *
 * Matrices stay in the file. Biases, norms, the position table and the patch embedding are decoded
 * to float32. The file stores the patch embedding as two tensors, one per frame of a frame pair;
 * they are interleaved to rows in the order of a patch.
 *
 * Model files of Ollama up to May 2026 have the vision encoder inside: keys ARCH.vision.*, tensors
 * with other names, the projections of queries, keys and values as three tensors, and the patch
 * embedding as one tensor in the order of a patch.
 */
#include "base/mem.h"
#include "kernels/dmath.h"
#include "model/vision_encoder.h"
#include "model/weights.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 64, TABLE_SIDE = 48, MAX_DEPTH = 64, MAX_HIDDEN = 1 << 14 };

static bool has_architecture(const gguf *g, const char *name)
{
    str architecture = {0};
    bool found = false;
    return gguf_get_str(g, "general.architecture", &architecture, &found, NULL) == MOTE_OK &&
           found && str_is(architecture, name);
}

bool vision_encoder_is_mmproj(const gguf *g)
{
    return has_architecture(g, "clip");
}

bool vision_encoder_is_inside(const gguf *g)
{
    char key[GGUF_MAX_KEY];
    return (has_architecture(g, "qwen35") || has_architecture(g, "qwen35moe")) &&
           gguf_find(g, gguf_arch_key(g, "vision.block_count", key)) != NULL;
}

/* ---- metadata ---- */

static mote_status vision_check_kind(const gguf *g, mote_error *err)
{
    str projector = {0};
    uint32_t patch = VISION_PATCH, merge = VISION_MERGE;
    bool found;
    TRY(gguf_get_str(g, "clip.projector_type", &projector, NULL, err));
    TRY(gguf_get_u32(g, "clip.vision.patch_size", &patch, NULL, err));
    TRY(gguf_get_u32(g, "clip.vision.spatial_merge_size", &merge, &found, err));
    if (!str_is(projector, "qwen3vl_merger") || patch != VISION_PATCH || merge != VISION_MERGE)
        return err_set(
            err, MOTE_E_UNSUPPORTED,
            "vision encoder '%.*s' with patch size %u and merge size %u is not supported; "
            "supported: qwen3vl_merger, %d, %d",
            STR_ARG(projector), patch, merge, VISION_PATCH, VISION_MERGE);
    const gguf_kv *deep = gguf_find(g, "clip.vision.is_deepstack_layers");
    for (uint64_t i = 0; deep != NULL && i < deep->n_bytes; i++)
        if (deep->bytes[i] != 0)
            return err_set(err, MOTE_E_UNSUPPORTED,
                           "vision encoders with deepstack layers are not supported");
    return MOTE_OK;
}

/* A vision encoder inside a model file has no kind; what differs in other models is checked. */
static mote_status vision_check_inside(const gguf *g, mote_error *err)
{
    static const struct {
        const char *name;
        uint32_t want;
    } expected[] = {{"vision.patch_size", VISION_PATCH},
                    {"vision.spatial_merge_size", VISION_MERGE},
                    {"vision.temporal_patch_size", 2},
                    {"vision.num_channels", 3}};
    char key[GGUF_MAX_KEY];
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        uint32_t value = expected[i].want;
        bool found;
        TRY(gguf_get_u32(g, gguf_arch_key(g, expected[i].name, key), &value, &found, err));
        if (value != expected[i].want)
            return err_set(err, MOTE_E_UNSUPPORTED, "%s is %u; supported: %u", key, value,
                           expected[i].want);
    }
    const gguf_kv *deep = gguf_find(g, gguf_arch_key(g, "vision.deepstack_visual_indexes", key));
    if (deep != NULL && deep->is_array && deep->count > 0)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "vision encoders with deepstack layers are not supported");
    return MOTE_OK;
}

static mote_status vision_read_inside(vision_shape *s, const gguf *g, uint32_t n_embd,
                                      mote_error *err)
{
    const gguf_tensor *up = gguf_find_tensor(g, "v.blk.0.mlp.linear_fc1.weight");
    char key[GGUF_MAX_KEY];
    bool found;
    TRY(vision_check_inside(g, err));
    TRY(gguf_get_u32(g, gguf_arch_key(g, "vision.block_count", key), &s->depth, NULL, err));
    TRY(gguf_get_u32(g, gguf_arch_key(g, "vision.embedding_length", key), &s->hidden, NULL, err));
    TRY(gguf_get_u32(g, gguf_arch_key(g, "vision.attention.head_count", key), &s->heads, NULL,
                     err));
    s->eps = 1e-6f;
    TRY(gguf_get_f32(g, gguf_arch_key(g, "vision.attention.layer_norm_epsilon", key), &s->eps,
                     &found, err));
    s->ffn = up != NULL && up->dims[1] <= UINT32_MAX ? (uint32_t)up->dims[1] : 0;
    TRY(gguf_get_u32(g, gguf_arch_key(g, "vision.feed_forward_length", key), &s->ffn, &found, err));
    s->out = n_embd;
    return MOTE_OK;
}

static mote_status vision_read_mmproj(vision_shape *s, const gguf *g, mote_error *err)
{
    TRY(vision_check_kind(g, err));
    TRY(gguf_get_u32(g, "clip.vision.block_count", &s->depth, NULL, err));
    TRY(gguf_get_u32(g, "clip.vision.embedding_length", &s->hidden, NULL, err));
    TRY(gguf_get_u32(g, "clip.vision.feed_forward_length", &s->ffn, NULL, err));
    TRY(gguf_get_u32(g, "clip.vision.attention.head_count", &s->heads, NULL, err));
    TRY(gguf_get_u32(g, "clip.vision.projection_dim", &s->out, NULL, err));
    return gguf_get_f32(g, "clip.vision.attention.layer_norm_epsilon", &s->eps, NULL, err);
}

static mote_status vision_read_shape(vision_shape *s, const gguf *g, uint32_t n_embd,
                                     mote_error *err)
{
    TRY(vision_encoder_is_inside(g) ? vision_read_inside(s, g, n_embd, err)
                                    : vision_read_mmproj(s, g, err));
    if (s->depth == 0 || s->depth > MAX_DEPTH || s->hidden == 0 || s->hidden > MAX_HIDDEN ||
        s->ffn == 0 || s->ffn > 4 * MAX_HIDDEN || s->heads == 0 || s->hidden % s->heads != 0)
        return err_set(
            err, MOTE_E_FORMAT,
            "vision encoder has invalid dimensions: %u blocks, hidden %u, feed-forward %u, "
            "heads %u",
            s->depth, s->hidden, s->ffn, s->heads);
    s->attn = (vision_attn_shape){.heads = s->heads, .head_dim = s->hidden / s->heads};
    s->attn.dim = (s->attn.head_dim + 15) / 16 * 16;
    if (s->attn.head_dim % 4 != 0 || s->attn.dim > KERN_VISION_ATTN_DIM)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "vision encoder heads of %zu values are not supported", s->attn.head_dim);
    if (s->out != n_embd)
        return err_set(
            err, MOTE_E_MISMATCH,
            "vision encoder belongs to another model: its output has %u values, the model's "
            "embedding %u",
            s->out, n_embd);
    return MOTE_OK;
}

/* ---- tensors ---- */

/* The name of a tensor without ".weight" or ".bias", in the file of the binder. */
static const char *vision_name(const binder *b, const char *name)
{
    static const char *const inside[][2] = {
        {"v.position_embd", "v.pos_embed"},
        {"v.patch_embd", "v.patch_embed"},
        {"v.post_ln", "v.merger.norm"},
        {"mm.0", "v.merger.linear_fc1"},
        {"mm.2", "v.merger.linear_fc2"},
        {"ln1", "norm1"},
        {"ln2", "norm2"},
        {"ffn_up", "mlp.linear_fc1"},
        {"ffn_down", "mlp.linear_fc2"},
    };
    for (size_t i = 0; vision_encoder_is_inside(b->g) && i < sizeof inside / sizeof *inside; i++)
        if (strcmp(name, inside[i][0]) == 0)
            return inside[i][1];
    return name;
}

static const char *vision_block_name(const binder *b, char *out, uint32_t block, const char *suffix)
{
    snprintf(out, NAME_BYTES, "v.blk.%u.%s", block, vision_name(b, suffix));
    return out;
}

static mote_status bind_vision_linear(binder *b, const char *stem, uint64_t rows, uint64_t cols,
                                      vision_linear *l)
{
    char n[NAME_BYTES + 8];
    snprintf(n, sizeof n, "%s.weight", stem);
    TRY(bind_matrix(b, n, rows, cols, &l->w));
    snprintf(n, sizeof n, "%s.bias", stem);
    return bind_vector(b, n, rows, &l->b);
}

static mote_status bind_vision_norm(binder *b, const char *stem, uint64_t n, vision_norm *out)
{
    char name[NAME_BYTES + 8];
    snprintf(name, sizeof name, "%s.weight", stem);
    TRY(bind_vector(b, name, n, &out->w));
    snprintf(name, sizeof name, "%s.bias", stem);
    return bind_vector(b, name, n, &out->b);
}

/* Rows first .. first + rows - 1 of a matrix with bias. */
static vision_linear linear_rows(const vision_linear *whole, size_t first, size_t rows)
{
    vision_linear l = *whole;
    l.w.data += first * l.w.row_bytes;
    l.w.rows = rows;
    l.b = whole->b != NULL ? whole->b + first : NULL; /* NULL while counting */
    return l;
}

/* One matrix with all rows. */
static mote_status bind_vision_qkv(binder *b, uint32_t i, uint64_t h, vision_block *l)
{
    char n[NAME_BYTES];
    vision_linear qkv = {0};
    TRY(bind_vision_linear(b, vision_block_name(b, n, i, "attn_qkv"), 3 * h, h, &qkv));
    l->q = linear_rows(&qkv, 0, h);
    l->k = linear_rows(&qkv, h, h);
    l->v = linear_rows(&qkv, 2 * h, h);
    l->kv_bias = l->k.b;
    return MOTE_OK;
}

/* Three matrices. The biases of keys and values are copied, because the kernel reads them as one. */
static mote_status bind_vision_three(binder *b, uint32_t i, uint64_t h, vision_block *l)
{
    char n[NAME_BYTES];
    float *bias = arena_take(&b->memory, 2 * (size_t)h, sizeof *bias);
    TRY(bind_vision_linear(b, vision_block_name(b, n, i, "attn_q"), h, h, &l->q));
    TRY(bind_vision_linear(b, vision_block_name(b, n, i, "attn_k"), h, h, &l->k));
    TRY(bind_vision_linear(b, vision_block_name(b, n, i, "attn_v"), h, h, &l->v));
    if (bias != NULL) {
        memcpy(bias, l->k.b, (size_t)h * sizeof *bias);
        memcpy(bias + h, l->v.b, (size_t)h * sizeof *bias);
    }
    l->kv_bias = bias;
    return MOTE_OK;
}

static mote_status bind_vision_block(binder *b, const vision_shape *s, uint32_t i, vision_block *l)
{
    const uint64_t h = s->hidden;
    char n[NAME_BYTES], qkv[NAME_BYTES];
    TRY(bind_vision_norm(b, vision_block_name(b, n, i, "ln1"), h, &l->attn_norm));
    TRY(bind_vision_norm(b, vision_block_name(b, n, i, "ln2"), h, &l->ffn_norm));
    const bool three =
        gguf_find_tensor(b->g, vision_block_name(b, qkv, i, "attn_q.weight")) != NULL;
    TRY(three ? bind_vision_three(b, i, h, l) : bind_vision_qkv(b, i, h, l));
    TRY(bind_vision_linear(b, vision_block_name(b, n, i, "attn_out"), h, h, &l->out));
    TRY(bind_vision_linear(b, vision_block_name(b, n, i, "ffn_up"), s->ffn, h, &l->up));
    return bind_vision_linear(b, vision_block_name(b, n, i, "ffn_down"), h, s->ffn, &l->down);
}

/* The weights of frame `time` of a pair; the file has [hidden][channel][y][x]. */
static mote_status bind_patch_frame(binder *b, const char *name, uint64_t hidden, size_t time,
                                    float *rows)
{
    enum { SIDE = VISION_PATCH, PLANE = SIDE * SIDE };
    const gguf_tensor *t = gguf_find_tensor(b->g, name);
    if (t == NULL || t->format == NULL || t->format->block_values != 1 || t->dims[0] != SIDE ||
        t->dims[1] != SIDE || t->dims[2] != 3 || t->dims[3] != hidden)
        return err_set(b->err, MOTE_E_FORMAT,
                       "tensor '%s' is missing or not 16 x 16 x 3 x %llu floats", name,
                       (unsigned long long)hidden);
    b->parameters += hidden * 3 * PLANE;
    for (size_t i = 0; rows != NULL && i < hidden * 3; i++) {
        float *to = rows + i / 3 * VISION_PATCH_VALUES + (i % 3 * 2 + time) * PLANE;
        t->format->decode(t->data + i * PLANE * t->format->block_bytes, PLANE, to);
    }
    return MOTE_OK;
}

/* Both frames in one tensor: [hidden * channel][frame][y][x]. */
static mote_status bind_patch_frames(binder *b, const char *name, uint64_t hidden, float *rows)
{
    const gguf_tensor *t = gguf_find_tensor(b->g, name);
    if (t == NULL || t->format == NULL || t->format->block_values != 1 ||
        t->dims[0] != VISION_PATCH || t->dims[1] != VISION_PATCH || t->dims[2] != 2 ||
        t->dims[3] != 3 * hidden)
        return err_set(b->err, MOTE_E_FORMAT,
                       "tensor '%s' is missing or not 16 x 16 x 2 x %llu floats", name,
                       (unsigned long long)(3 * hidden));
    b->parameters += hidden * VISION_PATCH_VALUES;
    if (rows != NULL)
        t->format->decode(t->data, (size_t)hidden * VISION_PATCH_VALUES, rows);
    return MOTE_OK;
}

static mote_status bind_patch(binder *b, const vision_shape *s, vision_linear *l)
{
    float *rows = arena_take(&b->memory, (size_t)s->hidden * VISION_PATCH_VALUES, sizeof *rows);
    const char *bias = "v.patch_embd.bias";
    if (vision_encoder_is_inside(b->g)) {
        TRY(bind_patch_frames(b, "v.patch_embed.weight", s->hidden, rows));
        bias = "v.patch_embed.bias";
    } else {
        TRY(bind_patch_frame(b, "v.patch_embd.weight", s->hidden, 0, rows));
        TRY(bind_patch_frame(b, "v.patch_embd.weight.1", s->hidden, 1, rows));
    }
    l->w = (nn_matrix){.data = (const unsigned char *)rows,
                       .format = quant_get(QUANT_F32),
                       .gemm = b->k->gemm_f32,
                       .rows = s->hidden,
                       .cols = VISION_PATCH_VALUES,
                       .row_bytes = VISION_PATCH_VALUES * sizeof(float)};
    return bind_vector(b, bias, s->hidden, &l->b);
}

static mote_status vision_bind_all(binder *b, vision_encoder *v)
{
    const vision_shape *s = &v->shape;
    const uint64_t merged = (uint64_t)VISION_MERGE * VISION_MERGE * s->hidden;
    float *positions;
    char table[NAME_BYTES];
    v->blocks = arena_take(&b->memory, s->depth, sizeof *v->blocks);
    TRY(bind_patch(b, s, &v->patch));
    snprintf(table, sizeof table, "%s.weight", vision_name(b, "v.position_embd"));
    TRY(bind_floats(b, table, s->hidden, TABLE_SIDE * TABLE_SIDE, &positions));
    v->positions = positions;
    for (uint32_t i = 0; i < s->depth; i++) {
        vision_block counted;
        TRY(bind_vision_block(b, s, i, v->blocks != NULL ? &v->blocks[i] : &counted));
    }
    TRY(bind_vision_norm(b, vision_name(b, "v.post_ln"), s->hidden, &v->merge_norm));
    TRY(bind_vision_linear(b, vision_name(b, "mm.0"), merged, merged, &v->merge_in));
    TRY(bind_vision_linear(b, vision_name(b, "mm.2"), s->out, merged, &v->merge_out));
    v->parameters = b->parameters;
    v->kinds = b->kinds;
    return MOTE_OK;
}

/* Rotary frequencies of one axis, head_dim / 4 of them: 10000^(-4i/head_dim). */
static void vision_set_frequencies(vision_encoder *v)
{
    const size_t n = v->shape.attn.head_dim / 4;
    for (size_t i = 0; i < n; i++)
        v->inv_freq[i] = (float)d_pow(10000.0, -(double)i / (double)n);
}

mote_status vision_encoder_bind(vision_encoder *v, const gguf *g, const kern_table *k,
                                uint32_t n_embd, mote_error *err)
{
    *v = (vision_encoder){0};
    TRY(vision_read_shape(&v->shape, g, n_embd, err));
    vision_set_frequencies(v);
    binder counting = {.g = g, .k = k, .err = err};
    TRY(vision_bind_all(&counting, v));
    if (counting.memory.overflow)
        return err_set(err, MOTE_E_FORMAT,
                       "invalid vision encoder: the small tensors exceed the address space");
    v->private_bytes = counting.memory.used;
    v->memory = mem_new(counting.memory.used, 1);
    if (v->memory == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for the vision encoder",
                       counting.memory.used);
    binder b = {.g = g, .k = k, .memory = {.base = v->memory}, .err = err};
    return vision_bind_all(&b, v);
}

void vision_encoder_fini(vision_encoder *v)
{
    if (v->memory != NULL) {
        arena whole = {.base = v->memory, .used = (size_t)v->private_bytes};
        arena_release(&whole);
    }
    mem_free(v->memory);
    *v = (vision_encoder){0};
}
