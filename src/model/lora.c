/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lora.c - the matrices that an adapter may change, and adapters in memory; see lora.h.
 *
 * A keeps its format if that is F32, F16 or BF16: the kernels widen it exactly, so the result is
 * that of f32 values and fewer bytes are read per step. All other values become f32.
 *
 * B is transposed and stored in panels, as nn.h says. If its values, times a power of two, are
 * halves, it is stored as halves and the scale is divided by that power. All products B a are the
 * same numbers then. This holds for F16, and in practice for BF16: training seldom leaves values of
 * a matrix that are 2^32 apart.
 */
#include "model/lora.h"

#include "base/ckd.h"
#include "base/mem.h"
#include "quant/half.h"

#include <math.h>
#include <stdio.h>

/* ---- rules ---- */

#define LAYER(field)  offsetof(model_layer, field)
#define DRAFT(field)  offsetof(draft_head, field)
#define WEIGHT(field) offsetof(weights, field)

const lora_rule lora_rules[] = {
    {"attn_q", "self_attn.q_proj", LORA_ATTENTION, LORA_SAME, LAYER(attention.q)},
    {"attn_k", "self_attn.k_proj", LORA_ATTENTION, LORA_SAME, LAYER(attention.k)},
    {"attn_v", "self_attn.v_proj", LORA_ATTENTION, LORA_SAME, LAYER(attention.v)},
    {"attn_output", "self_attn.o_proj", LORA_ATTENTION, LORA_SAME, LAYER(attention.o)},
    {"attn_qkv", "linear_attn.in_proj_qkv", LORA_DELTANET, LORA_V_ROWS, LAYER(delta.qkv)},
    {"attn_gate", "linear_attn.in_proj_z", LORA_DELTANET, LORA_HEAD_ROWS, LAYER(delta.z)},
    {"ssm_beta", "linear_attn.in_proj_b", LORA_DELTANET, LORA_HEADS, LAYER(delta.beta)},
    {"ssm_alpha", "linear_attn.in_proj_a", LORA_DELTANET, LORA_HEADS, LAYER(delta.alpha)},
    {"ssm_out", "linear_attn.out_proj", LORA_DELTANET, LORA_COLUMNS, LAYER(delta.out)},
    {"ffn_gate", "mlp.gate_proj", LORA_FFN, LORA_SAME, LAYER(ffn.gate)},
    {"ffn_up", "mlp.up_proj", LORA_FFN, LORA_SAME, LAYER(ffn.up)},
    {"ffn_down", "mlp.down_proj", LORA_FFN, LORA_SAME, LAYER(ffn.down)},
    {"nextn.eh_proj", "fc", LORA_MTP, LORA_SAME, DRAFT(join)},
    {"output", "lm_head", LORA_MODEL, LORA_SAME, WEIGHT(head)},
};
const size_t n_lora_rules = sizeof lora_rules / sizeof *lora_rules;

const nn_matrix *lora_find_matrix(const weights *w, const hparams *hp, const lora_rule *rule,
                                  uint32_t block)
{
    const void *base = NULL;
    const bool mtp = block == hp->n_layers && w->draft.present;
    if (rule->place == LORA_MODEL) {
        base = w;
    } else if (rule->place == LORA_MTP) {
        base = mtp ? &w->draft : NULL;
    } else if (mtp || block < hp->n_layers) {
        const model_layer *l = mtp ? &w->draft.block : &w->layers[block];
        const bool fits = rule->place == LORA_FFN
                              ? hp->n_experts == 0 /* else l->ffn is the shared expert */
                              : (rule->place == LORA_ATTENTION) == l->is_attention;
        base = fits ? l : NULL;
    }
    if (base == NULL)
        return NULL;
    const nn_matrix *m = (const void *)((const char *)base + rule->offset);
    return m->rows > 0 ? m : NULL;
}

/* ---- sources ---- */

mote_status lora_sources_entry(lora_sources *s, const char *name, const lora_rule *rule,
                               uint32_t block, lora_source **out, mote_error *err)
{
    for (uint32_t i = s->n; i > 0; i--)
        if (s->at[i - 1].rule == rule && s->at[i - 1].block == block) {
            *out = &s->at[i - 1];
            return MOTE_OK;
        }
    if (!mem_grow(&s->at, s->n, &s->room, sizeof *s->at))
        return err_set(err, MOTE_E_MEMORY, "out of memory: list of adapted matrices");
    *out = &s->at[s->n++];
    **out = (lora_source){.rule = rule, .block = block};
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
    return MOTE_OK;
}

void lora_sources_fini(lora_sources *s)
{
    mem_free(s->at);
    *s = (lora_sources){0};
}

/* ---- order of value heads ---- */

/* Head n of the model (tiled) is head source_head(n) of a checkpoint (grouped by key head). */
static uint64_t source_head(const hparams *hp, uint64_t n)
{
    return n % hp->key_heads * (hp->value_heads / hp->key_heads) + n / hp->key_heads;
}

static uint64_t source_unit(const hparams *hp, uint64_t i, uint64_t per_head)
{
    return source_head(hp, i / per_head) * per_head + i % per_head;
}

/* The row of the source's B that output `row` of the model has. */
static uint64_t source_row(const lora_source *s, const hparams *hp, uint64_t row)
{
    const uint64_t qk = 2 * (uint64_t)hp->key_heads * KERN_STATE_DIM;
    if (!s->reorder)
        return row;
    switch (s->rule->order) {
    case LORA_V_ROWS: return row < qk ? row : qk + source_unit(hp, row - qk, KERN_STATE_DIM);
    case LORA_HEAD_ROWS: return source_unit(hp, row, KERN_STATE_DIM);
    case LORA_HEADS: return source_unit(hp, row, 1);
    default: return row;
    }
}

/* ---- binding ---- */

typedef struct lora_binder {
    const weights *w;
    const hparams *hp;
    const kern_table *k;
    arena memory; /* without a base: only counts */
    mote_error *err;
} lora_binder;

/* The place of a matrix in a message: " in block 3", or nothing. */
static const char *place_text(char out[32], const lora_source *s)
{
    out[0] = '\0';
    if (s->rule->place != LORA_MODEL)
        snprintf(out, 32, " in block %u", s->block);
    return out;
}

static mote_status source_check(const lora_binder *b, const lora_source *s, const nn_matrix *m)
{
    char place[32];
    if (m == NULL)
        return err_set(b->err, MOTE_E_MISMATCH,
                       "adapter tensor '%s': the model has no matrix %s%s; the adapter belongs to "
                       "another model",
                       s->name, s->rule->gguf, place_text(place, s));
    if (!s->has_a || !s->has_b)
        return err_set(b->err, MOTE_E_FORMAT,
                       "adapter tensor '%s' has no %s matrix; the file is incomplete", s->name,
                       s->has_a ? "B" : "A");
    const unsigned long long rank = s->a.rows;
    if (rank < 1 || rank > LORA_MAX_RANK || s->b.cols != s->a.rows)
        return err_set(b->err, MOTE_E_FORMAT,
                       "adapter tensor '%s' has ranks %llu (A) and %llu (B); expected equal ranks "
                       "of 1 to %d",
                       s->name, rank, (unsigned long long)s->b.cols, LORA_MAX_RANK);
    if (s->a.cols != m->cols || s->b.rows != m->rows)
        return err_set(
            b->err, MOTE_E_MISMATCH,
            "adapter tensor '%s' is for a matrix of %llu x %llu, but %s%s has %zu x %zu; "
            "the adapter belongs to another model",
            s->name, (unsigned long long)s->b.rows, (unsigned long long)s->a.cols, s->rule->gguf,
            place_text(place, s), m->rows, m->cols);
    if (!isfinite(s->alpha))
        return err_set(b->err, MOTE_E_FORMAT, "adapter tensor '%s' has an alpha of %g", s->name,
                       s->alpha);
    return MOTE_OK;
}

static mote_status values_are_finite(const lora_binder *b, const lora_source *s,
                                     const lora_values *v)
{
    enum { STEP = 256 };
    float some[STEP];
    const uint64_t of_step = STEP / v->format->block_values;
    const uint64_t blocks = v->rows * (v->cols / v->format->block_values);
    for (uint64_t at = 0; at < blocks; at += of_step) {
        const size_t n = (size_t)(blocks - at < of_step ? blocks - at : of_step);
        v->format->decode(v->data + at * v->format->block_bytes, n, some);
        for (size_t i = 0; i < n * v->format->block_values; i++)
            if (!isfinite(some[i]))
                return err_set(b->err, MOTE_E_FORMAT,
                               "adapter tensor '%s' has the value %g; its training has diverged or "
                               "the file is damaged",
                               s->name, (double)some[i]);
    }
    return MOTE_OK;
}

static mote_status values_check(const lora_binder *b, const lora_source *s, const lora_values *v)
{
    uint64_t bytes;
    if (v->format == NULL || v->data == NULL ||
        !quant_row_bytes(v->format->format, v->cols, &bytes))
        return err_set(b->err, MOTE_E_UNSUPPORTED,
                       "adapter tensor '%s' has a type that mote cannot read; use F32, F16 or BF16",
                       s->name);
    return b->memory.base == NULL ? values_are_finite(b, s, v) : MOTE_OK;
}

static void values_row(const lora_values *v, uint64_t row, float *out)
{
    const size_t blocks = (size_t)(v->cols / v->format->block_values);
    v->format->decode(v->data + row * blocks * v->format->block_bytes, blocks, out);
}

/* Input column `col` of the model is column source_unit(col) of the source. `one` has a row. */
static void row_reorder(const lora_binder *b, const lora_source *s, float *values, float *one)
{
    if (!s->reorder || s->rule->order != LORA_COLUMNS)
        return;
    memcpy(one, values, (size_t)s->a.cols * sizeof *one);
    for (uint64_t i = 0; i < s->a.cols; i++)
        values[i] = one[source_unit(b->hp, i, KERN_STATE_DIM)];
}

/* True if the values of A can be copied as they are. */
static bool a_is_plain(const lora_source *s)
{
    const quant_format f = s->a.format->format;
    return (f == QUANT_F32 || f == QUANT_F16 || f == QUANT_BF16) &&
           !(s->reorder && s->rule->order == LORA_COLUMNS);
}

static void bind_a(lora_binder *b, const lora_source *s, nn_lora_pair *pair, float *one)
{
    const quant_info *format = a_is_plain(s) ? s->a.format : quant_get(QUANT_F32);
    const size_t cols = (size_t)s->a.cols, rank = (size_t)s->a.rows;
    const size_t row_bytes = cols * format->block_bytes;
    unsigned char *data = arena_take(&b->memory, rank, row_bytes);
    if (data == NULL)
        return;
    for (size_t i = 0; i < rank; i++) {
        if (a_is_plain(s)) {
            memcpy(data + i * row_bytes, s->a.data + i * row_bytes, row_bytes);
            continue;
        }
        values_row(&s->a, i, (float *)(void *)(data + i * row_bytes));
        row_reorder(b, s, (float *)(void *)(data + i * row_bytes), one);
    }
    pair->a = (nn_matrix){.data = data,
                          .format = format,
                          .gemm = nn_gemm_for(b->k, format->format),
                          .rows = rank,
                          .cols = cols,
                          .row_bytes = row_bytes};
}

/* The place of B[row][j] in its panels. */
static size_t panel_at(size_t rows, size_t rank, size_t row, size_t j)
{
    const size_t first = row / NN_LORA_PANEL * NN_LORA_PANEL;
    return first * rank + j * nn_lora_stride(rows, first) + (row - first);
}

static float pair_b(const nn_lora_pair *pair, size_t at)
{
    return pair->halves ? half_f16_to_f32(((const uint16_t *)pair->b)[at])
                        : ((const float *)pair->b)[at];
}

/* True if all values of B times 2^*shift are halves. The largest of them becomes less than 2^15. */
static bool b_fits_halves(const lora_source *s, int *shift)
{
    const size_t rank = (size_t)s->b.cols;
    float one[LORA_MAX_RANK], largest = 0;
    bool fits = true;
    for (uint64_t row = 0; row < s->b.rows; row++) {
        values_row(&s->b, row, one);
        for (size_t j = 0; j < rank; j++)
            largest = fabsf(one[j]) > largest ? fabsf(one[j]) : largest;
    }
    *shift = largest > 0 && largest < 1 ? 14 - ilogbf(largest) : 0;
    *shift = *shift > 40 ? 40 : *shift;
    const float factor = ldexpf(1, *shift);
    for (uint64_t row = 0; row < s->b.rows && fits; row++) {
        values_row(&s->b, row, one);
        for (size_t j = 0; j < rank && fits; j++) {
            const float value = one[j] * factor;
            fits = half_f16_to_f32(half_f32_to_f16(value)) == value;
        }
    }
    return fits;
}

static void bind_b(lora_binder *b, lora_source *s, nn_lora_pair *pair)
{
    const size_t rows = (size_t)s->b.rows, rank = (size_t)s->b.cols;
    const size_t padded = rows / NN_LORA_PANEL * NN_LORA_PANEL +
                          nn_lora_stride(rows, rows / NN_LORA_PANEL * NN_LORA_PANEL);
    float one[LORA_MAX_RANK];
    if (b->memory.base == NULL)
        s->halves = b_fits_halves(s, &s->shift);
    pair->halves = s->halves;
    void *panels = arena_take(&b->memory, padded * rank, pair->halves ? 2 : sizeof(float));
    if (pair->halves)
        pair->scale = ldexp(pair->scale, -s->shift);
    if (panels == NULL)
        return;
    const float factor = ldexpf(1, s->shift);
    for (size_t row = 0; row < rows; row++) {
        values_row(&s->b, source_row(s, b->hp, row), one);
        for (size_t j = 0; j < rank; j++) {
            const size_t at = panel_at(rows, rank, row, j);
            if (pair->halves)
                ((uint16_t *)panels)[at] = half_f32_to_f16(one[j] * factor);
            else
                ((float *)panels)[at] = one[j];
        }
    }
    pair->b = panels;
}

/* Takes all memory; with memory, fills it. */
static mote_status bind_sources(lora_binder *b, const lora_sources *sources, lora *l)
{
    size_t widest = 0;
    for (uint32_t i = 0; i < sources->n; i++) {
        const lora_source *s = &sources->at[i];
        const nn_matrix *m = lora_find_matrix(b->w, b->hp, s->rule, s->block);
        TRY(source_check(b, s, m));
        TRY(values_check(b, s, &s->a));
        TRY(values_check(b, s, &s->b));
        widest = s->a.cols > widest ? (size_t)s->a.cols : widest;
        l->rank = s->a.rows > l->rank ? (uint32_t)s->a.rows : l->rank;
    }
    float *one = arena_take(&b->memory, widest, sizeof *one);
    l->pairs = arena_take(&b->memory, l->n_pairs, sizeof *l->pairs);
    l->n_adapted = 0;
    l->parameters = 0;
    for (uint32_t i = 0; i < sources->n; i++) {
        lora_source *s = &sources->at[i];
        const nn_matrix *m = lora_find_matrix(b->w, b->hp, s->rule, s->block);
        nn_lora_pair counted, *pair = l->pairs != NULL ? &l->pairs[m->id] : &counted;
        const double rank = (double)s->a.rows;
        pair->scale = s->root ? s->alpha / sqrt(rank) : s->alpha / rank;
        bind_a(b, s, pair, one);
        bind_b(b, s, pair);
        l->n_adapted++;
        l->parameters += s->a.rows * (s->a.cols + s->b.rows);
    }
    return MOTE_OK;
}

mote_status lora_bind(lora *out, const lora_sources *s, const weights *w, const hparams *hp,
                      const kern_table *k, mote_error *err)
{
    *out = (lora){.n_pairs = w->n_matrices + 1};
    if (s->n == 0)
        return err_set(err, MOTE_E_FORMAT, "the adapter has no tensors");
    lora_binder counting = {.w = w, .hp = hp, .k = k, .err = err};
    TRY(bind_sources(&counting, s, out));
    if (counting.memory.overflow)
        return err_set(err, MOTE_E_FORMAT, "invalid adapter: it exceeds the address space");
    out->bytes = counting.memory.used;
    out->memory = mem_new(counting.memory.used, 1);
    if (out->memory == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for an adapter",
                       counting.memory.used);
    lora_binder b = {.w = w, .hp = hp, .k = k, .memory = {.base = out->memory}, .err = err};
    return bind_sources(&b, s, out);
}

/* Row r of the matrix gets, for j ascending, (s * B[r][j]) * A[j]. */
void lora_pair_merge(const nn_lora_pair *pair, float scale, size_t first, size_t n, size_t rows,
                     float *values)
{
    enum { PART = 256 };
    const size_t rank = pair->a.rows, cols = pair->a.cols, each = pair->a.format->block_bytes;
    const float s = (float)(pair->scale * (double)scale);
    float part[PART];
    for (size_t at = 0; at < cols; at += PART) {
        const size_t width = cols - at < PART ? cols - at : PART;
        for (size_t j = 0; j < rank; j++) {
            pair->a.format->decode(pair->a.data + j * pair->a.row_bytes + at * each, width, part);
            for (size_t i = 0; i < n; i++) {
                const float b = s * pair_b(pair, panel_at(rows, rank, first + i, j));
                float *row = values + i * cols + at;
                for (size_t c = 0; c < width; c++)
                    row[c] += b * part[c];
            }
        }
    }
}

void lora_fini(lora *l)
{
    if (l->memory != NULL) {
        arena whole = {.base = l->memory, .used = (size_t)l->bytes};
        arena_release(&whole);
    }
    mem_free(l->memory);
    *l = (lora){0};
}
