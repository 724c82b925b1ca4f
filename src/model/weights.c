/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weights.c - binds tensor names to fields, checking each shape on the way.
 *
 * What a tensor must be to become a field is bind.c's; here is which field it becomes.
 */
#include "model/weights.h"

#include "base/mem.h"
#include "model/bind.h"

#include <stdio.h>
#include <string.h>

/* The file has [channels][4]; kernels want each tap's channels side by side. */
static mote_status conv_taps(binder *b, const char *name, size_t channels, const float **out)
{
    const gguf_tensor *t = NULL;
    TRY(bind_find(b, name, DELTA_TAPS, channels, &t));
    float *taps = arena_take(&b->memory, channels * DELTA_TAPS, sizeof *taps);
    if (t->format->block_values != 1)
        return err_set(b->err, MOTE_E_UNSUPPORTED, "tensor '%s' is quantised", name);
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

static const char *block_name(char *out, uint32_t block, const char *rest)
{
    snprintf(out, NAME_BYTES, "blk.%u.%s", block, rest);
    return out;
}

static mote_status bind_attention(binder *b, const hparams *hp, uint32_t i, attention_unit *a)
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

/* Some files call the bias 'ssm_dt', without a suffix. */
static mote_status bind_dt_bias(binder *b, const hparams *hp, uint32_t i, const float **out)
{
    char n[NAME_BYTES];
    block_name(n, i, "ssm_dt.bias");
    if (gguf_find_tensor(b->g, n) == NULL)
        block_name(n, i, "ssm_dt");
    return bind_vector(b, n, hp->value_heads, out);
}

static mote_status bind_delta(binder *b, const hparams *hp, uint32_t i, delta_unit *d)
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
    TRY(conv_taps(b, block_name(n, i, "ssm_conv1d.weight"), conv_dim, &d->small.conv));
    TRY(bind_vector(b, block_name(n, i, "ssm_a"), hp->value_heads, &d->small.a));
    TRY(bind_dt_bias(b, hp, i, &d->small.dt_bias));
    return bind_vector(b, block_name(n, i, "ssm_norm.weight"), KERN_STATE_DIM, &d->small.norm);
}

static mote_status bind_layer(binder *b, const hparams *hp, uint32_t i, bool is_attention,
                              model_layer *l)
{
    char n[NAME_BYTES];
    l->is_attention = is_attention;
    TRY(bind_vector(b, block_name(n, i, "attn_norm.weight"), hp->n_embd, &l->mix_norm));
    TRY(bind_vector(b, block_name(n, i, "post_attention_norm.weight"), hp->n_embd, &l->ffn_norm));
    if (is_attention)
        TRY(bind_attention(b, hp, i, &l->attention));
    else
        TRY(bind_delta(b, hp, i, &l->delta));
    TRY(bind_matrix(b, block_name(n, i, "ffn_gate.weight"), hp->n_ff, hp->n_embd, &l->gate));
    TRY(bind_matrix(b, block_name(n, i, "ffn_up.weight"), hp->n_ff, hp->n_embd, &l->up));
    return bind_matrix(b, block_name(n, i, "ffn_down.weight"), hp->n_embd, hp->n_ff, &l->down);
}

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

static mote_status bind_all(binder *b, const hparams *hp, weights *w)
{
    w->layers = arena_take(&b->memory, hp->n_layers, sizeof *w->layers);
    TRY(bind_matrix(b, "token_embd.weight", hp->n_vocab, hp->n_embd, &w->embd));
    w->tied = gguf_find_tensor(b->g, "output.weight") == NULL;
    w->head = w->embd;
    if (!w->tied)
        TRY(bind_matrix(b, "output.weight", hp->n_vocab, hp->n_embd, &w->head));
    TRY(bind_vector(b, "output_norm.weight", hp->n_embd, &w->out_norm));
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        model_layer counted;
        TRY(bind_layer(b, hp, i, hp->is_attention[i],
                       w->layers != NULL ? &w->layers[i] : &counted));
    }
    w->parameters = b->parameters;
    if (hp->n_draft > 0)
        TRY(bind_draft(b, hp, &w->draft));
    w->kinds = b->kinds;
    return MOTE_OK;
}

mote_status weights_bind(weights *w, const hparams *hp, const gguf *g, const kern_table *k,
                         mote_error *err)
{
    *w = (weights){0};
    binder counting = {.g = g, .k = k, .err = err};
    TRY(bind_all(&counting, hp, w));
    if (counting.memory.overflow)
        return err_set(err, MOTE_E_FORMAT, "the small tensors of the model are too large");
    w->private_bytes = counting.memory.used;
    w->memory = mem_new(counting.memory.used, 1);
    if (w->memory == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for %zu bytes of decoded weights",
                       counting.memory.used);
    binder b = {.g = g, .k = k, .memory = {.base = w->memory}, .err = err};
    return bind_all(&b, hp, w);
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
