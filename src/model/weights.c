/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weights.c - finds the tensors of a model by name, checks their shapes, decodes the small ones.
 *
 * First the binder, which vision_weights.c uses too; then the tensor names of a Qwen 3.5 GGUF file.
 */
#include "model/weights.h"

#include "base/mem.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

/* ---- binder ---- */

/* Finds a tensor with exactly these dimensions, fastest first. */
static mote_status bind_find_3d(binder *b, const char *name, uint64_t d0, uint64_t d1, uint64_t d2,
                                const gguf_tensor **out)
{
    const gguf_tensor *t = gguf_find_tensor(b->g, name);
    if (t == NULL)
        return err_set(b->err, MOTE_E_FORMAT, "tensor '%s' is missing", name);
    if (t->format == NULL)
        return err_set(b->err, MOTE_E_UNSUPPORTED,
                       "tensor '%s' has format %s, which is not supported", name,
                       quant_gguf_name(t->gguf_type));
    if (t->dims[0] != d0 || t->dims[1] != d1 || t->dims[2] != d2 || t->dims[3] != 1)
        return err_set(b->err, MOTE_E_FORMAT,
                       "tensor '%s' is %llu x %llu x %llu, expected %llu x %llu x %llu", name,
                       (unsigned long long)t->dims[0], (unsigned long long)t->dims[1],
                       (unsigned long long)t->dims[2], (unsigned long long)d0,
                       (unsigned long long)d1, (unsigned long long)d2);
    b->parameters += d0 * d1 * d2;
    *out = t;
    return MOTE_OK;
}

mote_status bind_find(binder *b, const char *name, uint64_t d0, uint64_t d1,
                      const gguf_tensor **out)
{
    return bind_find_3d(b, name, d0, d1, 1, out);
}

/* Files made from NVFP4 checkpoints have a factor per matrix in a tensor of its own: X.scale for
 * X.weight; some converters name it X.weight.scale. */
static const gguf_tensor *bind_find_factor(const binder *b, const char *name)
{
    char scale[2 * GGUF_MAX_KEY];
    const size_t n = strlen(name), suffix = strlen("weight");
    if (n < suffix || n > GGUF_MAX_KEY || strcmp(name + n - suffix, "weight") != 0)
        return NULL;
    snprintf(scale, sizeof scale, "%.*sscale", (int)(n - suffix), name);
    const gguf_tensor *t = gguf_find_tensor(b->g, scale);
    snprintf(scale, sizeof scale, "%s.scale", name);
    return t != NULL ? t : gguf_find_tensor(b->g, scale);
}

/* Reads factor i of a tensor of factors. */
static mote_status factor_read(const binder *b, const gguf_tensor *t, uint64_t i, float *factor)
{
    memcpy(factor, t->data + i * sizeof *factor, sizeof *factor);
    if (!(*factor > 0 && *factor <= FLT_MAX))
        return err_set(b->err, MOTE_E_FORMAT,
                       "tensor '%.*s', the factor of a matrix, must be positive and finite, got %g",
                       STR_ARG(t->name), (double)*factor);
    return MOTE_OK;
}

mote_status bind_factor(binder *b, const char *name, float *factor)
{
    const gguf_tensor *t = bind_find_factor(b, name);
    *factor = 0;
    if (t == NULL)
        return MOTE_OK;
    if (t->format != quant_get(QUANT_F32) || t->bytes != sizeof *factor)
        return err_set(b->err, MOTE_E_UNSUPPORTED, "tensor '%.*s' must be one F32 value",
                       STR_ARG(t->name));
    return factor_read(b, t, 0, factor);
}

/* A factor for each expert. */
static mote_status bind_factors(binder *b, const char *name, uint64_t n, const float **out)
{
    const gguf_tensor *t = bind_find_factor(b, name);
    *out = NULL;
    if (t == NULL)
        return MOTE_OK;
    if (t->format != quant_get(QUANT_F32) || t->bytes != n * sizeof(float))
        return err_set(b->err, MOTE_E_UNSUPPORTED,
                       "tensor '%.*s' must be %llu F32 values, one per expert", STR_ARG(t->name),
                       (unsigned long long)n);
    float *factors = arena_take(&b->memory, (size_t)n, sizeof *factors), factor;
    for (uint64_t i = 0; i < n; i++)
        TRY(factor_read(b, t, i, factors != NULL ? &factors[i] : &factor));
    *out = factors;
    return MOTE_OK;
}

/* The matrix of a tensor with rows of `cols` values, without its factor. */
static mote_status bind_rows(binder *b, const char *name, const gguf_tensor *t, uint64_t rows,
                             uint64_t cols, nn_matrix *m)
{
    uint64_t row_bytes;
    uint32_t act_block = t->format->act == QUANT_ACT_256 ? 256 : 32;
    if (!quant_row_bytes(t->format->format, cols, &row_bytes) ||
        (t->format->act != QUANT_ACT_F32 && cols % act_block != 0))
        return err_set(b->err, MOTE_E_FORMAT,
                       "tensor '%s' has rows of %llu values, not a multiple of the %s block", name,
                       (unsigned long long)cols, t->format->name);
    b->kinds |= nn_kind(t->format);
    *m = (nn_matrix){.data = t->data,
                     .format = t->format,
                     .gemm = nn_gemm_for(b->k, t->format->format),
                     .rows = (size_t)rows,
                     .cols = (size_t)cols,
                     .row_bytes = (size_t)row_bytes,
                     .name = t->name,
                     .id = ++b->n_matrices};
    return MOTE_OK;
}

mote_status bind_matrix(binder *b, const char *name, uint64_t rows, uint64_t cols, nn_matrix *m)
{
    const gguf_tensor *t = NULL;
    TRY(bind_find(b, name, cols, rows, &t));
    TRY(bind_rows(b, name, t, rows, cols, m));
    return bind_factor(b, name, &m->factor);
}

mote_status bind_plain_matrix(binder *b, const char *name, uint64_t rows, uint64_t cols,
                              nn_matrix *m)
{
    TRY(bind_matrix(b, name, rows, cols, m));
    if (m->format->block_values != 1)
        return err_set(b->err, MOTE_E_UNSUPPORTED,
                       "tensor '%s' has format %s; supported: unquantised floats", name,
                       m->format->name);
    return MOTE_OK;
}

/* A matrix of each expert. */
static mote_status bind_experts(binder *b, const char *name, uint64_t rows, uint64_t cols,
                                uint64_t n_experts, expert_matrix *m)
{
    const gguf_tensor *t = NULL;
    TRY(bind_find_3d(b, name, cols, rows, n_experts, &t));
    TRY(bind_rows(b, name, t, rows, cols, &m->first));
    TRY(bind_factors(b, name, n_experts, &m->factors));
    m->stride = m->first.rows * m->first.row_bytes;
    b->expert_kinds |= nn_kind(t->format);
    b->kinds |= NN_EXPERTS;
    b->expert_bytes += t->bytes;
    b->expert_parameters += rows * cols * n_experts;
    return MOTE_OK;
}

mote_status bind_floats(binder *b, const char *name, uint64_t d0, uint64_t d1, float **out)
{
    const gguf_tensor *t = NULL;
    TRY(bind_find(b, name, d0, d1, &t));
    *out = arena_take(&b->memory, (size_t)(d0 * d1), sizeof **out);
    if (*out != NULL)
        t->format->decode(t->data, (size_t)(d0 * d1 / t->format->block_values), *out);
    return MOTE_OK;
}

mote_status bind_vector(binder *b, const char *name, uint64_t n, const float **out)
{
    float *values;
    TRY(bind_floats(b, name, n, 1, &values));
    *out = values;
    return MOTE_OK;
}

mote_status bind_float_matrix(binder *b, const char *name, uint64_t rows, uint64_t cols,
                              nn_matrix *m)
{
    float *values, factor;
    TRY(bind_floats(b, name, cols, rows, &values));
    TRY(bind_factor(b, name, &factor));
    *m = (nn_matrix){.data = (const unsigned char *)values,
                     .format = quant_get(QUANT_F32),
                     .gemm = b->k->gemm_f32,
                     .rows = (size_t)rows,
                     .cols = (size_t)cols,
                     .row_bytes = (size_t)cols * sizeof(float),
                     .factor = factor,
                     .name = gguf_find_tensor(b->g, name)->name,
                     .id = ++b->n_matrices};
    return MOTE_OK;
}

/* ---- tensor names ---- */

/* The file has [channels][4]; the kernels read [4][channels]. */
static mote_status bind_convolution(binder *b, const char *name, size_t channels, const float **out)
{
    const gguf_tensor *t = NULL;
    TRY(bind_find(b, name, DELTA_TAPS, channels, &t));
    float *taps = arena_take(&b->memory, channels * DELTA_TAPS, sizeof *taps);
    if (t->format->block_values != 1)
        return err_set(b->err, MOTE_E_UNSUPPORTED,
                       "tensor '%s' has format %s; supported: unquantised floats", name,
                       t->format->name);
    for (size_t c = 0; taps != NULL && c < channels; c++) {
        float one[DELTA_TAPS];
        t->format->decode(t->data + c * DELTA_TAPS * t->format->block_bytes, DELTA_TAPS, one);
        for (size_t j = 0; j < DELTA_TAPS; j++)
            taps[j * channels + c] = one[j];
    }
    *out = taps;
    return MOTE_OK;
}

enum { NAME_BYTES = 64 };

static const char *block_name(char *out, uint32_t block, const char *suffix)
{
    snprintf(out, NAME_BYTES, "blk.%u.%s", block, suffix);
    return out;
}

/* attn_q has two parts per head: the query and the output gate. */
static mote_status bind_attention(binder *b, const hparams *hp, uint32_t i, attention_layer *a)
{
    const uint64_t dim = KERN_HEAD_DIM;
    char n[NAME_BYTES];
    TRY(bind_matrix(b, block_name(n, i, "attn_q.weight"), 2 * dim * hp->n_heads, hp->n_embd,
                    &a->q));
    TRY(bind_matrix(b, block_name(n, i, "attn_k.weight"), dim * hp->n_kv, hp->n_embd, &a->k));
    TRY(bind_matrix(b, block_name(n, i, "attn_v.weight"), dim * hp->n_kv, hp->n_embd, &a->v));
    TRY(bind_matrix(b, block_name(n, i, "attn_output.weight"), hp->n_embd, dim * hp->n_heads,
                    &a->o));
    TRY(bind_vector(b, block_name(n, i, "attn_q_norm.weight"), dim, &a->norms.q_norm));
    return bind_vector(b, block_name(n, i, "attn_k_norm.weight"), dim, &a->norms.k_norm);
}

/* Some files name the bias 'ssm_dt', without a suffix. */
static mote_status bind_dt_bias(binder *b, const hparams *hp, uint32_t i, const float **out)
{
    char n[NAME_BYTES];
    block_name(n, i, "ssm_dt.bias");
    if (gguf_find_tensor(b->g, n) == NULL)
        block_name(n, i, "ssm_dt");
    return bind_vector(b, n, hp->value_heads, out);
}

static mote_status bind_delta(binder *b, const hparams *hp, uint32_t i, delta_layer *d)
{
    const delta_shape shape = hparams_delta(hp);
    size_t value_dim = delta_value_dim(&shape), conv_dim = delta_conv_dim(&shape);
    char n[NAME_BYTES];
    TRY(bind_matrix(b, block_name(n, i, "attn_qkv.weight"), conv_dim, hp->n_embd, &d->qkv));
    TRY(bind_matrix(b, block_name(n, i, "attn_gate.weight"), value_dim, hp->n_embd, &d->z));
    TRY(bind_float_matrix(b, block_name(n, i, "ssm_alpha.weight"), hp->value_heads, hp->n_embd,
                          &d->alpha));
    TRY(bind_float_matrix(b, block_name(n, i, "ssm_beta.weight"), hp->value_heads, hp->n_embd,
                          &d->beta));
    TRY(bind_matrix(b, block_name(n, i, "ssm_out.weight"), hp->n_embd, value_dim, &d->out));
    TRY(bind_convolution(b, block_name(n, i, "ssm_conv1d.weight"), conv_dim, &d->small.conv));
    TRY(bind_vector(b, block_name(n, i, "ssm_a"), hp->value_heads, &d->small.a));
    TRY(bind_dt_bias(b, hp, i, &d->small.dt_bias));
    return bind_vector(b, block_name(n, i, "ssm_norm.weight"), KERN_STATE_DIM, &d->small.norm);
}

/* The gate and up matrices of the experts are two tensors, or one with 2 * expert_ff rows per
 * expert, those of the gate first. */
static mote_status bind_gate_up(binder *b, const hparams *hp, uint32_t i, moe_layer *m)
{
    const uint64_t ff = hp->expert_ff, experts = hp->n_experts;
    char n[NAME_BYTES];
    if (gguf_find_tensor(b->g, block_name(n, i, "ffn_gate_up_exps.weight")) != NULL) {
        TRY(bind_experts(b, n, 2 * ff, hp->n_embd, experts, &m->gate));
        m->gate.first.rows = (size_t)ff;
        m->up = m->gate;
        m->up.first.data += (size_t)ff * m->gate.first.row_bytes;
        return MOTE_OK;
    }
    if (gguf_find_tensor(b->g, block_name(n, i, "ffn_gate_exps.weight")) == NULL)
        return err_set(b->err, MOTE_E_FORMAT,
                       "tensor '%s' is missing, and so is 'blk.%u.ffn_gate_up_exps.weight', which "
                       "may replace it",
                       n, i);
    TRY(bind_experts(b, n, ff, hp->n_embd, experts, &m->gate));
    return bind_experts(b, block_name(n, i, "ffn_up_exps.weight"), ff, hp->n_embd, experts, &m->up);
}

static mote_status bind_moe(binder *b, const hparams *hp, uint32_t i, moe_layer *m)
{
    char n[NAME_BYTES];
    TRY(bind_plain_matrix(b, block_name(n, i, "ffn_gate_inp.weight"), hp->n_experts, hp->n_embd,
                          &m->router));
    TRY(bind_plain_matrix(b, block_name(n, i, "ffn_gate_inp_shexp.weight"), 1, hp->n_embd,
                          &m->shared_gate));
    TRY(bind_gate_up(b, hp, i, m));
    return bind_experts(b, block_name(n, i, "ffn_down_exps.weight"), hp->n_embd, hp->expert_ff,
                        hp->n_experts, &m->down);
}

static mote_status bind_ffn(binder *b, const hparams *hp, uint32_t i, ffn_layer *f)
{
    const bool shared = hp->n_experts > 0;
    const uint32_t ff = shared ? hp->shared_ff : hp->n_ff;
    char n[NAME_BYTES];
    TRY(bind_matrix(b, block_name(n, i, shared ? "ffn_gate_shexp.weight" : "ffn_gate.weight"), ff,
                    hp->n_embd, &f->gate));
    TRY(bind_matrix(b, block_name(n, i, shared ? "ffn_up_shexp.weight" : "ffn_up.weight"), ff,
                    hp->n_embd, &f->up));
    return bind_matrix(b, block_name(n, i, shared ? "ffn_down_shexp.weight" : "ffn_down.weight"),
                       hp->n_embd, ff, &f->down);
}

static mote_status bind_layer(binder *b, const hparams *hp, uint32_t i, bool is_attention,
                              model_layer *l)
{
    char n[NAME_BYTES];
    l->is_attention = is_attention;
    TRY(bind_vector(b, block_name(n, i, "attn_norm.weight"), hp->n_embd, &l->mixer_norm));
    TRY(bind_vector(b, block_name(n, i, "post_attention_norm.weight"), hp->n_embd, &l->ffn_norm));
    if (is_attention)
        TRY(bind_attention(b, hp, i, &l->attention));
    else
        TRY(bind_delta(b, hp, i, &l->delta));
    if (hp->n_experts > 0)
        TRY(bind_moe(b, hp, i, &l->moe));
    return bind_ffn(b, hp, i, &l->ffn);
}

/* The block is that after the layers, also in a file without the layers. */
static mote_status bind_draft(binder *b, const hparams *hp, draft_head *d)
{
    uint32_t i = hp->n_layers;
    char n[NAME_BYTES];
    d->present = true;
    TRY(bind_matrix(b, block_name(n, i, "nextn.eh_proj.weight"), hp->n_embd,
                    2 * (uint64_t)hp->n_embd, &d->join));
    TRY(bind_vector(b, block_name(n, i, "nextn.enorm.weight"), hp->n_embd, &d->embd_norm));
    TRY(bind_vector(b, block_name(n, i, "nextn.hnorm.weight"), hp->n_embd, &d->hidden_norm));
    block_name(n, i, "nextn.shared_head_norm.weight");
    if (gguf_find_tensor(b->g, n) == NULL)
        snprintf(n, sizeof n, "output_norm.weight");
    TRY(bind_vector(b, n, hp->n_embd, &d->out_norm));
    return bind_layer(b, hp, i, true, &d->block);
}

static mote_status weights_bind_all(binder *b, const hparams *hp, const gguf *draft, weights *w)
{
    w->layers = arena_take(&b->memory, hp->n_layers, sizeof *w->layers);
    TRY(bind_matrix(b, "token_embd.weight", hp->n_vocab, hp->n_embd, &w->embd));
    if (w->embd.factor != 0)
        return err_set(b->err, MOTE_E_UNSUPPORTED,
                       "an embedding table with a factor (token_embd.scale) is not supported");
    w->tied = gguf_find_tensor(b->g, "output.weight") == NULL;
    w->head = w->embd;
    if (w->tied)
        TRY(bind_factor(b, "output.weight", &w->head.factor));
    else
        TRY(bind_matrix(b, "output.weight", hp->n_vocab, hp->n_embd, &w->head));
    TRY(bind_vector(b, "output_norm.weight", hp->n_embd, &w->out_norm));
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        model_layer counted;
        TRY(bind_layer(b, hp, i, hp->is_attention[i],
                       w->layers != NULL ? &w->layers[i] : &counted));
    }
    w->parameters = b->parameters;
    w->expert_parameters = b->expert_parameters;
    if (draft != NULL)
        b->g = draft;
    if (hp->n_draft > 0 || draft != NULL)
        TRY(bind_draft(b, hp, &w->draft));
    w->kinds = b->kinds;
    w->expert_kinds = b->expert_kinds;
    w->expert_bytes = b->expert_bytes;
    w->n_matrices = b->n_matrices;
    return MOTE_OK;
}

mote_status weights_bind(weights *w, const hparams *hp, const gguf *g, const gguf *draft,
                         const kern_table *k, mote_error *err)
{
    *w = (weights){0};
    binder counting = {.g = g, .k = k, .err = err};
    TRY(weights_bind_all(&counting, hp, draft, w));
    if (counting.memory.overflow)
        return err_set(err, MOTE_E_FORMAT,
                       "invalid model: the small tensors exceed the address space");
    w->private_bytes = counting.memory.used;
    w->memory = mem_new(counting.memory.used, 1);
    if (w->memory == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes of decoded weights",
                       counting.memory.used);
    binder b = {.g = g, .k = k, .memory = {.base = w->memory}, .err = err};
    return weights_bind_all(&b, hp, draft, w);
}

void weights_fini(weights *w)
{
    if (w->memory != NULL) {
        arena whole = {.base = w->memory, .used = (size_t)w->private_bytes};
        arena_release(&whole);
    }
    mem_free(w->memory);
    *w = (weights){0};
}
