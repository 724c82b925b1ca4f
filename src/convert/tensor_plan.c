/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_plan.c - see tensor_plan.h. */
#include "convert/tensor_plan.h"

#include "base/mem.h"
#include "kernels/dmath.h"
#include "quant/half.h"

#include <math.h>
#include <stdio.h>

/* ---- building ---- */

static uint32_t type_size(safetensors_type type)
{
    return type == SAFETENSORS_F32 ? 4 : 2;
}

static quant_format format_of(safetensors_type type)
{
    return type == SAFETENSORS_F32 ? QUANT_F32 : type == SAFETENSORS_F16 ? QUANT_F16 : QUANT_BF16;
}

static quant_format plan_format(const tensor_rule *rule, plan_dtype dtype, safetensors_type stored)
{
    static const quant_format chosen[] = {
        [PLAN_F32] = QUANT_F32, [PLAN_F16] = QUANT_F16, [PLAN_BF16] = QUANT_BF16};
    const quant_format format = dtype == PLAN_AS_STORED ? format_of(stored) : chosen[dtype];
    if (tensor_rule_is_f32(rule))
        return QUANT_F32;
    /* The patch embedding: llama.cpp convolves with f32 or f16 only. */
    if (rule->order == ORDER_FRAMES)
        return format == QUANT_F16 ? QUANT_F16 : QUANT_F32;
    return format;
}

/* The shape of the output and the view of the source as a matrix. */
static void plan_shape(plan_tensor *t, const model_config *m)
{
    const safetensor *s = t->source->tensor;
    uint32_t n = 0;
    uint64_t values = 1;
    for (uint32_t i = s->n_dims; i-- > 0;) {
        const bool dropped = (t->rule->order == ORDER_FRAMES && i == 2) ||
                             (s->n_dims == 3 && i == 1 && s->dims[i] == 1);
        if (dropped)
            continue;
        t->dims[n++] = s->dims[i];
        values *= s->dims[i];
    }
    if (t->rule->group == GROUP_EXPERT) {
        t->dims[n++] = m->experts;
        values *= m->experts;
    } else if (t->rule->order == ORDER_GATE_UP) {
        t->dims[1] /= 2;
        values /= 2;
    }
    t->n_dims = n;
    t->cols = t->dims[0];
    if (t->rule->order == ORDER_FRAMES)
        t->cols = t->dims[0] * t->dims[1];
    if (n == 1 && t->rule->order != ORDER_SAME)
        t->cols = 1; /* a vector with one value per head */
    t->rows = values / t->cols;
}

static mote_status plan_add(tensor_plan *plan, const checkpoint_tensor *source,
                            const tensor_match *match, quant_format format, uint32_t frame,
                            mote_error *err)
{
    if (!mem_grow(&plan->tensors, plan->n, &plan->room, sizeof *plan->tensors))
        return err_set(err, MOTE_E_MEMORY, "out of memory: list of tensors");
    plan_tensor *t = &plan->tensors[plan->n++];
    *t = (plan_tensor){.source = source, .rule = match->rule, .format = format, .frame = frame};
    tensor_rule_target(t->name, match);
    if (frame > 0 && match->rule->order == ORDER_GATE_UP) {
        snprintf(t->name, sizeof t->name, "blk.%u.ffn_up_exps.weight", match->index);
    } else if (frame > 0) {
        const size_t at = strlen(t->name);
        snprintf(t->name + at, sizeof t->name - at, ".%u", frame);
    }
    plan_shape(t, plan->config);
    return MOTE_OK;
}

static plan_tensor *plan_find(const tensor_plan *plan, const char *name)
{
    for (uint32_t i = 0; i < plan->n; i++)
        if (strcmp(plan->tensors[i].name, name) == 0)
            return &plan->tensors[i];
    return NULL;
}

/* Adds the tensor of one expert to the tensor of all, which is complete after the last. */
static mote_status plan_add_expert(tensor_plan *plan, checkpoint_tensor *source,
                                   const tensor_match *match, quant_format format, mote_error *err)
{
    char name[GGUF_MAX_KEY];
    tensor_rule_target(name, match);
    plan_tensor *t = plan_find(plan, name);
    if (t == NULL) {
        TRY(plan_add(plan, source, match, format, 0, err));
        t = &plan->tensors[plan->n - 1];
        t->experts = mem_new(plan->config->experts, sizeof(*t->experts));
        if (t->experts == NULL)
            return err_set(err, MOTE_E_MEMORY, "out of memory: list of experts");
    }
    if (t->experts == NULL || t->source->tensor->type != source->tensor->type)
        return err_set(err, MOTE_E_FORMAT,
                       "tensor '%.*s': the experts of a layer must have one type and one form",
                       STR_ARG(source->tensor->name));
    t->experts[match->expert] = source;
    source->used = true;
    return MOTE_OK;
}

static mote_status plan_add_matched(tensor_plan *plan, checkpoint_tensor *source,
                                    const tensor_match *match, plan_dtype dtype, mote_error *err)
{
    const safetensor *t = source->tensor;
    if (t->type == SAFETENSORS_OTHER)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "tensor '%.*s' has type %.*s; mote convert reads BF16, F16 and F32: "
                       "convert the unquantised model",
                       STR_ARG(t->name), STR_ARG(t->type_name));
    TRY(tensor_rule_check_shape(match, plan->config, t, err));
    const quant_format format = plan_format(match->rule, dtype, t->type);
    const bool two = match->rule->order == ORDER_FRAMES || match->rule->order == ORDER_GATE_UP;
    const uint32_t outputs = two ? 2 : 1;
    if (match->rule->group == GROUP_EXPERT)
        return plan_add_expert(plan, source, match, format, err);
    for (uint32_t i = 0; i < outputs; i++)
        TRY(plan_add(plan, source, match, format, i, err));
    source->used = true;
    return MOTE_OK;
}

/* Every expert is there. */
static mote_status plan_check_experts(const tensor_plan *plan, mote_error *err)
{
    for (uint32_t i = 0; i < plan->n; i++)
        for (uint32_t e = 0; plan->tensors[i].experts != NULL && e < plan->config->experts; e++)
            if (plan->tensors[i].experts[e] == NULL)
                return err_set(err, MOTE_E_FORMAT,
                               "expert %u of '%s' is missing; download all files of the model", e,
                               plan->tensors[i].name);
    return MOTE_OK;
}

/* Every tensor that the model must have is there. */
static mote_status plan_check_complete(const tensor_plan *plan, bool vision, mote_error *err)
{
    const model_config *m = plan->config;
    const uint32_t blocks = vision ? m->vision_blocks : m->layers + m->mtp_layers;
    for (uint32_t i = 0; i < n_tensor_rules; i++)
        for (uint32_t block = 0; block < blocks; block++) {
            const tensor_rule *rule = &tensor_rules[i];
            if (tensor_rule_is_vision(rule) != vision || !tensor_rule_applies(rule, m, block))
                continue;
            char name[GGUF_MAX_KEY];
            tensor_rule_target(name, &(tensor_match){.rule = rule, .index = block});
            if (plan_find(plan, name) != NULL)
                continue;
            tensor_rule_source(name, rule, m, block);
            return err_set(err, MOTE_E_FORMAT,
                           "tensor '%s' is missing; download all files of the model", name);
        }
    return MOTE_OK;
}

mote_status tensor_plan_build(tensor_plan *plan, checkpoint *c, const model_config *m, bool vision,
                              plan_dtype dtype, mote_error *err)
{
    *plan = (tensor_plan){.checkpoint = c, .config = m};
    for (uint32_t i = 0; i < checkpoint_count(c); i++) {
        tensor_match match;
        checkpoint_tensor *t = checkpoint_at(c, i);
        if (!tensor_rule_find(&match, m, t->tensor->name) ||
            tensor_rule_is_vision(match.rule) != vision)
            continue;
        /* A tied model may store its output matrix a second time. */
        if (m->tied && strcmp(match.rule->source, "lm_head.weight") == 0)
            continue;
        TRY(plan_add_matched(plan, t, &match, dtype, err));
    }
    TRY(plan_check_experts(plan, err));
    return plan_check_complete(plan, vision, err);
}

void tensor_plan_fini(tensor_plan *plan)
{
    for (uint32_t i = 0; i < plan->n; i++)
        mem_free(plan->tensors[i].experts);
    mem_free(plan->tensors);
    mem_free(plan->raw);
    mem_free(plan->wide);
    *plan = (tensor_plan){0};
}

mote_status tensor_plan_declare(const tensor_plan *plan, gguf_writer *w, mote_error *err)
{
    for (uint32_t i = 0; i < plan->n; i++) {
        const plan_tensor *t = &plan->tensors[i];
        TRY(gguf_writer_tensor(w, str_of(t->name), t->format, t->n_dims, t->dims, err));
    }
    return MOTE_OK;
}

quant_format tensor_plan_format(const tensor_plan *plan)
{
    for (uint32_t i = 0; i < plan->n; i++)
        if (plan->tensors[i].n_dims >= 2 && !tensor_rule_is_f32(plan->tensors[i].rule) &&
            plan->tensors[i].rule->order != ORDER_FRAMES)
            return plan->tensors[i].format;
    return QUANT_F32;
}

/* ---- order ---- */

/* Head n of the output (tiled: n = j * key_heads + k) is head k * per_key + j of the source. */
static uint64_t source_head(const model_config *m, uint64_t n)
{
    return n % m->key_heads * (m->value_heads / m->key_heads) + n / m->key_heads;
}

static uint64_t source_unit(const model_config *m, uint64_t i, uint64_t per_head)
{
    return source_head(m, i / per_head) * per_head + i % per_head;
}

static uint64_t source_row(const plan_tensor *t, const model_config *m, uint64_t row)
{
    const uint64_t qk = 2 * (uint64_t)m->key_heads * m->state_dim;
    switch (t->rule->order) {
    case ORDER_V_ROWS: return row < qk ? row : qk + source_unit(m, row - qk, m->state_dim);
    case ORDER_HEAD_ROWS: return source_unit(m, row, m->state_dim);
    case ORDER_HEADS: return source_unit(m, row, 1);
    case ORDER_FRAMES: return 2 * row + t->frame;
    case ORDER_GATE_UP: {
        const uint64_t ff = t->dims[1];
        return (2 * (row / ff) + t->frame) * ff + row % ff;
    }
    default: return row;
    }
}

/* Reads output rows [first, first + n) in their new order. */
static mote_status plan_read_rows(const tensor_plan *plan, const plan_tensor *t, uint64_t first,
                                  uint64_t n, mote_error *err)
{
    const uint64_t row_bytes = t->cols * type_size(t->source->tensor->type);
    const uint64_t expert_rows = t->experts != NULL ? t->dims[1] : 0;
    for (uint64_t row = 0; row < n;) {
        const checkpoint_tensor *source = t->source;
        uint64_t from = source_row(t, plan->config, first + row);
        uint64_t run = 1;
        while (row + run < n && source_row(t, plan->config, first + row + run) == from + run)
            run++;
        if (expert_rows > 0) {
            source = t->experts[from / expert_rows];
            from %= expert_rows;
            run = run < expert_rows - from ? run : expert_rows - from;
        }
        TRY(checkpoint_read(plan->checkpoint, source, from * row_bytes,
                            (char *)plan->raw + row * row_bytes, (size_t)(run * row_bytes), err));
        row += run;
    }
    return MOTE_OK;
}

/* Columns of one row in their new order. */
static void reorder_columns(const model_config *m, const unsigned char *in, unsigned char *out,
                            uint32_t value_bytes)
{
    const size_t head_bytes = (size_t)m->state_dim * value_bytes;
    for (uint64_t i = 0; i < m->value_heads; i++)
        memcpy(out + i * head_bytes, in + source_head(m, i) * head_bytes, head_bytes);
}

/* ---- values ---- */

static void widen(float *out, const void *raw, size_t n, safetensors_type type)
{
    const uint16_t *halves = raw;
    if (type == SAFETENSORS_F32)
        memcpy(out, raw, n * sizeof *out);
    else if (type == SAFETENSORS_BF16)
        for (size_t i = 0; i < n; i++)
            out[i] = half_bf16_to_f32(halves[i]);
    else
        for (size_t i = 0; i < n; i++)
            out[i] = half_f16_to_f32(halves[i]);
}

static void apply_change(float *values, size_t n, tensor_change change)
{
    for (size_t i = 0; change == CHANGE_ADD_ONE && i < n; i++)
        values[i] += 1.0f;
    for (size_t i = 0; change == CHANGE_DECAY && i < n; i++)
        values[i] = (float)-d_exp(values[i]);
}

size_t tensor_narrow(void *out, const float *values, size_t n, quant_format format)
{
    uint16_t *halves = out;
    size_t beyond = n;
    if (format == QUANT_F32)
        memcpy(out, values, n * sizeof *values);
    else if (format == QUANT_BF16)
        for (size_t i = 0; i < n; i++)
            halves[i] = half_f32_to_bf16(values[i]);
    else
        for (size_t i = 0; i < n; i++) {
            halves[i] = half_f32_to_f16(values[i]);
            if ((halves[i] & 0x7FFFu) == 0x7C00u && isfinite(values[i]) && beyond == n)
                beyond = i;
        }
    return beyond;
}

/* ---- the source ---- */

static mote_status plan_reserve(tensor_plan *plan, size_t raw_bytes, size_t wide_bytes,
                                mote_error *err)
{
    if (raw_bytes > plan->raw_bytes) {
        mem_free(plan->raw);
        plan->raw = mem_new(raw_bytes, 1);
        plan->raw_bytes = plan->raw != NULL ? raw_bytes : 0;
    }
    if (wide_bytes > plan->wide_bytes) {
        mem_free(plan->wide);
        plan->wide = mem_new(wide_bytes, 1);
        plan->wide_bytes = plan->wide != NULL ? wide_bytes : 0;
    }
    if (plan->raw_bytes < raw_bytes || plan->wide_bytes < wide_bytes)
        return err_set(err, MOTE_E_MEMORY, "out of memory: buffers of %zu bytes",
                       raw_bytes + wide_bytes);
    return MOTE_OK;
}

static void plan_describe(void *ctx, uint32_t i, stream_tensor *out)
{
    const tensor_plan *plan = ctx;
    const plan_tensor *t = &plan->tensors[i];
    *out = (stream_tensor){
        .name = t->name, .rows = t->rows, .row_bytes = t->cols * (t->format == QUANT_F32 ? 4 : 2)};
}

static mote_status plan_fill_changed(const tensor_plan *plan, const plan_tensor *t, uint64_t n,
                                     void *out, mote_error *err)
{
    const size_t values = (size_t)(n * t->cols);
    widen(plan->wide, plan->raw, values, t->source->tensor->type);
    apply_change(plan->wide, values, t->rule->change);
    const size_t beyond = tensor_narrow(out, plan->wide, values, t->format);
    if (beyond < values)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "tensor '%.*s' has the value %g, but the largest of f16 is 65504; use "
                       "--dtype bf16",
                       STR_ARG(t->source->tensor->name), (double)plan->wide[beyond]);
    return MOTE_OK;
}

static mote_status plan_fill(void *ctx, uint32_t i, uint64_t first, uint64_t n, void *out,
                             mote_error *err)
{
    tensor_plan *plan = ctx;
    const plan_tensor *t = &plan->tensors[i];
    const uint32_t each = type_size(t->source->tensor->type);
    const size_t row_bytes = (size_t)t->cols * each, raw_bytes = (size_t)n * row_bytes;
    const bool same =
        t->format == format_of(t->source->tensor->type) && t->rule->change == CHANGE_NONE;
    TRY(plan_reserve(plan, raw_bytes, same ? row_bytes : raw_bytes * (sizeof(float) / each), err));
    TRY(plan_read_rows(plan, t, first, n, err));
    if (t->rule->order == ORDER_COLUMNS)
        for (uint64_t row = 0; row < n; row++) {
            unsigned char *line = (unsigned char *)plan->raw + row * row_bytes;
            memcpy(plan->wide, line, row_bytes);
            reorder_columns(plan->config, (const unsigned char *)plan->wide, line, each);
        }
    if (!same)
        return plan_fill_changed(plan, t, n, out, err);
    memcpy(out, plan->raw, raw_bytes);
    return MOTE_OK;
}

stream_source tensor_plan_source(tensor_plan *plan)
{
    return (stream_source){.ctx = plan, .n = plan->n, .describe = plan_describe, .fill = plan_fill};
}
