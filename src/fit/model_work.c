/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_work.c - what a pass over a model costs, and how long it takes; see machine_speed.h.
 *
 * What is not a product grows with the heads of a layer, and of feed-forward layers with their
 * units.
 */
#include "fit/machine_speed.h"

#include "gguf/gguf_files.h"

#include <string.h>

enum { STATE_DIM = 128, GROUP = 4, VALUE_HEADS = 16, HEADS = 8 };

static bool name_contains(str name, const char *part)
{
    const size_t n = strlen(part);
    for (size_t at = 0; at + n <= name.n; at++)
        if (memcmp(name.p + at, part, n) == 0)
            return true;
    return false;
}

/* ssm_alpha, ssm_beta and ssm_conv1d are decoded to floats when the model is opened. */
static bool tensor_is_matrix(const gguf_tensor *t)
{
    static const char *const small[] = {"ssm_alpha", "ssm_beta", "ssm_conv1d"};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (name_contains(t->name, small[i]))
            return false;
    return t->format != NULL && (t->n_dims == 2 || t->n_dims == 3);
}

static bool tensor_is_gate(const gguf_tensor *t)
{
    static const char *const names[] = {".ffn_gate.weight", ".ffn_gate_shexp.weight",
                                        ".ffn_down_exps.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i]);
        if (t->name.n > n && memcmp(t->name.p + t->name.n - n, names[i], n) == 0)
            return true;
    }
    return false;
}

/* Feed-forward units of a tensor of tensor_is_gate. The gate of experts may be merged with another
 * tensor, so for these it is the columns of ffn_down_exps. */
static uint64_t tensor_units(const gguf_tensor *t)
{
    return t->n_dims == 3 ? t->dims[0] : t->dims[1];
}

static mote_status work_count(model_work *out, const gguf *file, mote_error *err)
{
    uint32_t blocks = 0, drafts = 0, value_heads = 0, heads = 0, interval = GROUP, used = 1;
    bool found;
    char key[GGUF_MAX_KEY];
    *out = (model_work){.quant = gguf_file_type(file)};
    TRY(gguf_get_u32(file, gguf_arch_key(file, "block_count", key), &blocks, NULL, err));
    TRY(gguf_get_u32(file, gguf_arch_key(file, "nextn_predict_layers", key), &drafts, &found, err));
    TRY(gguf_get_u32(file, gguf_arch_key(file, "ssm.time_step_rank", key), &value_heads, NULL,
                     err));
    TRY(gguf_get_u32(file, gguf_arch_key(file, "attention.head_count", key), &heads, NULL, err));
    TRY(gguf_get_u32(file, gguf_arch_key(file, "full_attention_interval", key), &interval, &found,
                     err));
    TRY(gguf_get_u32(file, gguf_arch_key(file, "expert_used_count", key), &used, &found, err));
    const uint32_t layers = blocks - (drafts < blocks ? drafts : 0);
    const gguf_tensor *head = gguf_find_tensor(file, "output.weight");
    if (head == NULL)
        head = gguf_find_tensor(file, "token_embd.weight");
    if (head == NULL || head->format == NULL)
        return err_set(err, MOTE_E_FORMAT, "the file has no output matrix in a supported format");
    out->head = head->format->format;
    out->head_bytes = head->bytes;
    out->bytes[out->head] = head->bytes;
    out->rows[out->head] = head->n_dims > 1 ? head->dims[1] : 1;
    for (uint64_t i = 0; i < gguf_n_tensors(file); i++) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        const int64_t layer = gguf_block_of(t->name);
        if (layer < 0 || layer >= layers || !tensor_is_matrix(t))
            continue;
        /* Of a tensor of experts a token reads `used` matrices. */
        const uint64_t matrices = t->n_dims == 3 && used < t->dims[2] ? used : t->dims[2];
        out->bytes[t->format->format] += t->bytes / t->dims[2] * matrices;
        out->rows[t->format->format] += t->dims[1] * matrices;
        out->products[t->format->format] += t->dims[0] * t->dims[1] * matrices;
        out->feed_forward += tensor_is_gate(t) ? tensor_units(t) * matrices : 0;
    }
    const uint32_t attentions = layers / (interval > 0 ? interval : GROUP);
    const uint64_t deltas = layers - attentions;
    out->state_bytes = deltas * value_heads * STATE_DIM * STATE_DIM * sizeof(float);
    out->delta_layers = (double)deltas * value_heads / VALUE_HEADS;
    out->attention_layers = (double)attentions * heads / HEADS;
    return MOTE_OK;
}

mote_status model_work_read(model_work *out, const char *path, mote_error *err)
{
    gguf_files files;
    TRY(gguf_files_open(&files, path, err));
    const mote_status status = work_count(out, files.gguf, err);
    gguf_files_close(&files);
    return status;
}

uint32_t model_work_formats(const model_work *work)
{
    uint64_t total = 0;
    uint32_t set = 0;
    for (int f = 0; f < QUANT_N_FORMATS; f++)
        total += work->bytes[f];
    for (int f = 0; f < QUANT_N_FORMATS; f++)
        if (work->bytes[f] > total / 100)
            set |= 1u << f;
    return set;
}

/* Seconds per token of a prompt without products. */
static double prefill_rest(const machine_speed *speed, const model_work *work)
{
    return speed->prefill_delta * work->delta_layers +
           speed->prefill_attention * work->attention_layers +
           speed->prefill_ffn * (double)work->feed_forward;
}

model_speed machine_speed_predict(const machine_speed *speed, const model_work *work,
                                  uint64_t context, uint64_t kv_bytes)
{
    const uint32_t needed = model_work_formats(work);
    const double layers = work->delta_layers + work->attention_layers;
    double decode = speed->decode_rest * layers / GROUP;
    double prefill = prefill_rest(speed, work) * SPEED_PROMPT;
    for (int f = 0; f < QUANT_N_FORMATS; f++) {
        if ((needed >> f & 1) == 0)
            continue;
        if (!(speed->formats[f].decode > 0) || !(speed->formats[f].prefill > 0))
            return (model_speed){0};
        decode += (double)work->bytes[f] / speed->formats[f].decode +
                  (double)work->rows[f] * speed->formats[f].row;
        prefill += (double)work->products[f] / speed->formats[f].prefill * SPEED_PROMPT;
    }
    if (!(speed->read > 0) || !(speed->formats[work->head].decode > 0))
        return (model_speed){0};
    decode += (double)work->state_bytes * speed->streams / speed->read;
    prefill += (double)work->head_bytes / speed->formats[work->head].decode;
    const double positions = (double)context * work->attention_layers * speed->streams;
    const double full =
        decode + positions * speed->decode_position + (double)kv_bytes / speed->read;
    return (model_speed){.prefill = SPEED_PROMPT / prefill,
                         .decode = speed->streams / decode,
                         .decode_full = speed->streams / full};
}
