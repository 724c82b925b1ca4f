/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shape_file.c - see shape_file.h.
 *
 * The file has no name and disappears with the process (os_memory_file). Its holes take no memory.
 * The chat template is a hole that makes the metadata as long as that of a
 * file with the vocabulary of the family, so that the file has the size of a published one.
 */
#include "fit/shape_file.h"

#include "base/mem.h"
#include "base/os.h"
#include "base/philox.h"
#include "base/str.h"
#include "gguf/gguf.h"
#include "quant/blocks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    HEAD_DIM = 256,
    STATE_DIM = 128,
    KEY_HEADS = 16,
    CONV_TAPS = 4,
    ATTENTION_EVERY = 4,
    ALIGNMENT = 32,
    NAME_BYTES = 64,
    POOL_BYTES = 1 << 20
};

/* Of the vocabulary of the family: bytes of its metadata entries in a file, and memory of the
 * tokenizer. tests/cli/fit.sh compares both with a file that has the vocabulary. */
static const uint64_t vocabulary_entries_bytes = 10941162;
const uint64_t shape_vocabulary_bytes = 8543272;

/* ---- mixes ---- */

/* The rules of llama-quantize for this architecture. */
static const fit_mix mixes[] = {
    {"F32", 0, QUANT_F32, QUANT_F32, QUANT_F32, MIX_PLAIN},
    {"F16", 1, QUANT_F16, QUANT_F16, QUANT_F16, MIX_PLAIN},
    {"BF16", 32, QUANT_BF16, QUANT_BF16, QUANT_BF16, MIX_PLAIN},
    {"Q8_0", 7, QUANT_Q8_0, QUANT_Q8_0, QUANT_Q8_0, MIX_PLAIN},
    {"Q6_K", 18, QUANT_Q6_K, QUANT_Q6_K, QUANT_Q6_K, MIX_PLAIN},
    {"Q5_K_M", 17, QUANT_Q5_K, QUANT_Q6_K, QUANT_Q6_K, MIX_SPREAD},
    {"Q5_K_S", 16, QUANT_Q5_K, QUANT_Q6_K, QUANT_Q5_K, MIX_PLAIN},
    {"Q5_1", 9, QUANT_Q5_1, QUANT_Q6_K, QUANT_Q5_1, MIX_PLAIN},
    {"Q5_0", 8, QUANT_Q5_0, QUANT_Q6_K, QUANT_Q5_0, MIX_PLAIN},
    {"Q4_K_M", 15, QUANT_Q4_K, QUANT_Q6_K, QUANT_Q6_K, MIX_SPREAD},
    {"Q4_K_S", 14, QUANT_Q4_K, QUANT_Q6_K, QUANT_Q5_K, MIX_FIRST},
    {"Q4_1", 3, QUANT_Q4_1, QUANT_Q6_K, QUANT_Q4_1, MIX_PLAIN},
    {"Q4_0", 2, QUANT_Q4_0, QUANT_Q6_K, QUANT_Q4_0, MIX_PLAIN},
    {"Q3_K_S", 11, QUANT_Q3_K, QUANT_Q6_K, QUANT_Q3_K, MIX_PLAIN},
};

const fit_mix *fit_mix_find(const char *name)
{
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++)
        if (strcasecmp(mixes[i].name, name) == 0)
            return &mixes[i];
    return NULL;
}

static bool mix_is_better(const fit_mix *mix, const char *tensor, uint32_t i, uint32_t n)
{
    const bool down = strncmp(tensor, "ffn_down", strlen("ffn_down")) == 0;
    if (!down && strcmp(tensor, "attn_qkv") != 0 && strcmp(tensor, "attn_v") != 0)
        return false;
    switch (mix->rule) {
    case MIX_PLAIN: break;
    case MIX_FIRST: return i < (down ? n / 8 : 4);
    case MIX_SPREAD: return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    }
    return false;
}

/* ---- the file ---- */

typedef struct shape_tensor {
    quant_format format;
    uint64_t offset, bytes; /* of the data, from the end of the tensor table */
    char name[NAME_BYTES];
} shape_tensor;

typedef struct shape_writer {
    const model_shape *shape;
    const fit_mix *mix;
    strbuf entries, table;
    uint32_t n_entries;
    shape_tensor *tensors; /* [room] */
    uint32_t n_tensors, room;
    uint64_t data_bytes;
    bool failed;
} shape_writer;

static void put_u32(strbuf *to, uint32_t value)
{
    strbuf_put(to, (str){(const char *)&value, sizeof value});
}

static void put_u64(strbuf *to, uint64_t value)
{
    strbuf_put(to, (str){(const char *)&value, sizeof value});
}

static void put_string(strbuf *to, const char *text)
{
    put_u64(to, strlen(text));
    strbuf_text(to, text);
}

static void entry_begin(shape_writer *w, const char *key, gguf_type type)
{
    put_string(&w->entries, key);
    put_u32(&w->entries, type);
    w->n_entries++;
}

static void entry_u32(shape_writer *w, const char *key, uint32_t value)
{
    entry_begin(w, key, GGUF_U32);
    put_u32(&w->entries, value);
}

static void entry_f32(shape_writer *w, const char *key, float value)
{
    entry_begin(w, key, GGUF_F32);
    strbuf_put(&w->entries, (str){(const char *)&value, sizeof value});
}

static void entry_text(shape_writer *w, const char *key, const char *value)
{
    entry_begin(w, key, GGUF_STRING);
    put_string(&w->entries, value);
}

static void entry_array(shape_writer *w, const char *key, gguf_type type, uint64_t n)
{
    entry_begin(w, key, GGUF_ARRAY);
    put_u32(&w->entries, type);
    put_u64(&w->entries, n);
}

/* "qwen35.name", or "qwen35moe.name" of a model with experts. */
static const char *shape_key(const shape_writer *w, const char *name, char key[NAME_BYTES])
{
    snprintf(key, NAME_BYTES, "%s.%s", w->shape->experts > 0 ? "qwen35moe" : "qwen35", name);
    return key;
}

/* A zero is not written. */
static void shape_add_hparams(shape_writer *w)
{
    const model_shape *s = w->shape;
    const bool dense = s->experts == 0;
    char key[NAME_BYTES];
    const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {
        {"block_count", s->layers},
        {"context_length", s->context},
        {"embedding_length", s->embedding},
        {"feed_forward_length", dense ? s->feed_forward : 0},
        {"expert_count", s->experts},
        {"expert_used_count", s->experts_used},
        {"expert_feed_forward_length", dense ? 0 : s->feed_forward},
        {"expert_shared_feed_forward_length", s->shared_feed_forward},
        {"attention.head_count", s->heads},
        {"attention.head_count_kv", s->kv_heads},
        {"attention.key_length", HEAD_DIM},
        {"attention.value_length", HEAD_DIM},
        {"rope.dimension_count", 64},
        {"full_attention_interval", ATTENTION_EVERY},
        {"ssm.conv_kernel", CONV_TAPS},
        {"ssm.state_size", STATE_DIM},
        {"ssm.group_count", KEY_HEADS},
        {"ssm.time_step_rank", s->value_heads},
        {"ssm.inner_size", s->value_heads * STATE_DIM},
        {"vocab_size", s->vocabulary},
    };
    entry_text(w, "general.architecture", dense ? "qwen35" : "qwen35moe");
    entry_text(w, "general.name", "qwen3.5-of-this-shape");
    entry_u32(w, "general.file_type", w->mix->file_type);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value != 0)
            entry_u32(w, shape_key(w, numbers[i].name, key), numbers[i].value);
    entry_f32(w, shape_key(w, "attention.layer_norm_rms_epsilon", key), 1e-6f);
    entry_f32(w, shape_key(w, "rope.freq_base", key), 1e7f);
    entry_array(w, shape_key(w, "rope.dimension_sections", key), GGUF_I32, 4);
    for (size_t i = 0; i < 4; i++)
        put_u32(&w->entries, (const uint32_t[]){11, 11, 10, 0}[i]);
}

/* One token per byte, in the byte alphabet of GPT-2: printable characters of Latin-1 represent
 * themselves, the others start at U+0100. */
static void shape_add_byte_tokens(shape_writer *w)
{
    unsigned next = 256;
    entry_array(w, "tokenizer.ggml.tokens", GGUF_STRING, 256);
    for (unsigned byte = 0; byte < 256; byte++) {
        const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
        const unsigned code = printable ? byte : next++;
        put_u64(&w->entries, code < 0x80 ? 1 : 2);
        if (code >= 0x80)
            strbuf_byte(&w->entries, (char)(0xC0 | code >> 6));
        strbuf_byte(&w->entries, (char)(code < 0x80 ? code : 0x80 | (code & 0x3F)));
    }
    entry_array(w, "tokenizer.ggml.token_type", GGUF_I32, 256);
    for (int i = 0; i < 256; i++)
        put_u32(&w->entries, 1);
    entry_array(w, "tokenizer.ggml.merges", GGUF_STRING, 0);
}

/* The keys of a published file with the smallest possible vocabulary. The last entry, the chat
 * template, is completed by a hole of *hole bytes. */
static void shape_add_tokenizer(shape_writer *w, uint64_t *hole)
{
    const size_t start = w->entries.n;
    entry_text(w, "tokenizer.ggml.model", "gpt2");
    entry_text(w, "tokenizer.ggml.pre", "qwen35");
    shape_add_byte_tokens(w);
    entry_u32(w, "tokenizer.ggml.eos_token_id", 0);
    entry_u32(w, "tokenizer.ggml.padding_token_id", 0);
    entry_begin(w, "tokenizer.ggml.add_bos_token", GGUF_BOOL);
    strbuf_byte(&w->entries, 0);
    entry_begin(w, "tokenizer.chat_template", GGUF_STRING);
    *hole = vocabulary_entries_bytes - (w->entries.n - start) - sizeof(uint64_t);
    put_u64(&w->entries, *hole);
}

static uint64_t shape_padded(uint64_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* d1 and d2 0: fewer dimensions. */
static void shape_add_tensor_3d(shape_writer *w, const char *name, quant_format format, uint64_t d0,
                                uint64_t d1, uint64_t d2)
{
    uint64_t row_bytes = 0;
    const uint64_t rows = (d1 != 0 ? d1 : 1) * (d2 != 0 ? d2 : 1);
    if (!mem_grow(&w->tensors, w->n_tensors, &w->room, sizeof *w->tensors) ||
        !quant_row_bytes(format, d0, &row_bytes)) {
        w->failed = true;
        return;
    }
    shape_tensor *t = &w->tensors[w->n_tensors++];
    *t = (shape_tensor){.format = format, .offset = w->data_bytes, .bytes = row_bytes * rows};
    snprintf(t->name, sizeof t->name, "%s", name);
    put_string(&w->table, name);
    put_u32(&w->table, d2 != 0 ? 3 : d1 != 0 ? 2 : 1);
    put_u64(&w->table, d0);
    if (d1 != 0)
        put_u64(&w->table, d1);
    if (d2 != 0)
        put_u64(&w->table, d2);
    put_u32(&w->table, quant_get(format)->gguf_id);
    put_u64(&w->table, t->offset);
    w->data_bytes += shape_padded(t->bytes);
}

static void shape_add_tensor(shape_writer *w, const char *name, quant_format format, uint64_t d0,
                             uint64_t d1)
{
    shape_add_tensor_3d(w, name, format, d0, d1, 0);
}

/* experts 0: a plain matrix. */
static void shape_add_matrices(shape_writer *w, uint32_t layer, const char *name, uint64_t columns,
                               uint64_t rows, uint64_t experts)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "blk.%u.%s.weight", layer, name);
    const bool better = mix_is_better(w->mix, name, layer, w->shape->layers);
    shape_add_tensor_3d(w, full, better ? w->mix->better : w->mix->most, columns, rows, experts);
}

static void shape_add_matrix(shape_writer *w, uint32_t layer, const char *name, uint64_t columns,
                             uint64_t rows)
{
    shape_add_matrices(w, layer, name, columns, rows, 0);
}

/* A tensor that is never quantised; d1 0: one dimension. */
static void shape_add_floats(shape_writer *w, uint32_t layer, const char *name, uint64_t d0,
                             uint64_t d1)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    shape_add_tensor(w, full, QUANT_F32, d0, d1);
}

static void shape_add_attention(shape_writer *w, uint32_t i)
{
    const model_shape *s = w->shape;
    shape_add_matrix(w, i, "attn_q", s->embedding, 2 * HEAD_DIM * (uint64_t)s->heads);
    shape_add_matrix(w, i, "attn_k", s->embedding, HEAD_DIM * (uint64_t)s->kv_heads);
    shape_add_matrix(w, i, "attn_v", s->embedding, HEAD_DIM * (uint64_t)s->kv_heads);
    shape_add_matrix(w, i, "attn_output", HEAD_DIM * (uint64_t)s->heads, s->embedding);
    shape_add_floats(w, i, "attn_q_norm.weight", HEAD_DIM, 0);
    shape_add_floats(w, i, "attn_k_norm.weight", HEAD_DIM, 0);
}

static void shape_add_delta(shape_writer *w, uint32_t i)
{
    const model_shape *s = w->shape;
    const uint64_t value = (uint64_t)s->value_heads * STATE_DIM;
    const uint64_t conv = 2 * KEY_HEADS * STATE_DIM + value;
    shape_add_matrix(w, i, "attn_qkv", s->embedding, conv);
    shape_add_matrix(w, i, "attn_gate", s->embedding, value);
    shape_add_matrix(w, i, "ssm_beta", s->embedding, s->value_heads);
    shape_add_matrix(w, i, "ssm_alpha", s->embedding, s->value_heads);
    shape_add_matrix(w, i, "ssm_out", value, s->embedding);
    shape_add_floats(w, i, "ssm_conv1d.weight", CONV_TAPS, conv);
    shape_add_floats(w, i, "ssm_dt.bias", s->value_heads, 0);
    shape_add_floats(w, i, "ssm_a", s->value_heads, 0);
    shape_add_floats(w, i, "ssm_norm.weight", STATE_DIM, 0);
}

static void shape_add_feed_forward(shape_writer *w, uint32_t i)
{
    const model_shape *s = w->shape;
    if (s->experts == 0) {
        shape_add_matrix(w, i, "ffn_gate", s->embedding, s->feed_forward);
        shape_add_matrix(w, i, "ffn_up", s->embedding, s->feed_forward);
        shape_add_matrix(w, i, "ffn_down", s->feed_forward, s->embedding);
        return;
    }
    shape_add_matrices(w, i, "ffn_gate_exps", s->embedding, s->feed_forward, s->experts);
    shape_add_matrices(w, i, "ffn_up_exps", s->embedding, s->feed_forward, s->experts);
    shape_add_matrices(w, i, "ffn_down_exps", s->feed_forward, s->embedding, s->experts);
    shape_add_matrix(w, i, "ffn_gate_shexp", s->embedding, s->shared_feed_forward);
    shape_add_matrix(w, i, "ffn_up_shexp", s->embedding, s->shared_feed_forward);
    shape_add_matrix(w, i, "ffn_down_shexp", s->shared_feed_forward, s->embedding);
    shape_add_floats(w, i, "ffn_gate_inp.weight", s->embedding, s->experts);
    shape_add_floats(w, i, "ffn_gate_inp_shexp.weight", s->embedding, 0);
}

static void shape_add_tensors(shape_writer *w)
{
    const model_shape *s = w->shape;
    const quant_format table = s->tied ? w->mix->head : w->mix->most;
    shape_add_tensor(w, "token_embd.weight", table, s->embedding, s->vocabulary);
    shape_add_tensor(w, "output_norm.weight", QUANT_F32, s->embedding, 0);
    if (!s->tied)
        shape_add_tensor(w, "output.weight", w->mix->head, s->embedding, s->vocabulary);
    for (uint32_t i = 0; i < s->layers; i++) {
        shape_add_feed_forward(w, i);
        shape_add_floats(w, i, "attn_norm.weight", s->embedding, 0);
        shape_add_floats(w, i, "post_attention_norm.weight", s->embedding, 0);
        if ((i + 1) % ATTENTION_EVERY == 0)
            shape_add_attention(w, i);
        else
            shape_add_delta(w, i);
    }
}

/* ---- contents ---- */

/* Random blocks of about POOL_BYTES with small, finite weights that are never denormal. Returns
 * their number of bytes. */
static size_t pool_fill(unsigned char *pool, quant_format format)
{
    const quant_info *info = quant_get(format);
    const size_t n = POOL_BYTES / info->block_bytes * info->block_bytes;
    for (size_t i = 0; i + 16 <= POOL_BYTES; i += 16) {
        const philox_block random = philox(1, i, format);
        memcpy(pool + i, random.word, 16);
    }
    const uint16_t scale = 0x0c00; /* 2^-12 */
    for (size_t block = 0; block < n; block += info->block_bytes)
        quant_set_scales(format, pool + block, scale, scale);
    /* sign and mantissa are random, the exponent is that of 2^-7 */
    const uint16_t keep = format == QUANT_F16 ? 0x83ff : 0x807f;
    const uint16_t exponent = format == QUANT_F16 ? 0x2000 : 0x3c00;
    if (format == QUANT_F16 || format == QUANT_BF16 || format == QUANT_F32)
        for (size_t i = format == QUANT_F32 ? 2 : 0; i < n; i += format == QUANT_F32 ? 4 : 2) {
            uint16_t bits;
            memcpy(&bits, pool + i, sizeof bits);
            bits = (uint16_t)((bits & keep) | exponent);
            memcpy(pool + i, &bits, sizeof bits);
        }
    return n;
}

static mote_status file_write_at(int fd, const void *data, size_t bytes, uint64_t at,
                                 mote_error *err)
{
    const char *p = data;
    while (bytes > 0) {
        const ssize_t n = pwrite(fd, p, bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_set(err, MOTE_E_MEMORY, "cannot write a model of random weights: %s",
                           strerror(errno));
        p += n, at += (uint64_t)n, bytes -= (size_t)n;
    }
    return MOTE_OK;
}

/* Norm weights are 1 and ssm_a, a negative rate, is -1, so that activations stay in range. */
static mote_status shape_fill_floats(int fd, const shape_tensor *t, uint64_t at, mote_error *err)
{
    const size_t n = (size_t)(t->bytes / sizeof(float));
    float *values = mem_new(n, sizeof *values);
    if (values == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu values", n);
    const float value = strstr(t->name, "norm") != NULL    ? 1.0f
                        : strstr(t->name, "ssm_a") != NULL ? -1.0f
                                                           : 0.125f;
    for (size_t i = 0; i < n; i++)
        values[i] = value;
    const mote_status status = file_write_at(fd, values, (size_t)t->bytes, at, err);
    mem_free(values);
    return status;
}

static mote_status shape_fill(const shape_writer *w, int fd, uint64_t data, mote_error *err)
{
    unsigned char *pool = mem_new(POOL_BYTES, 1);
    if (pool == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: random weights");
    mote_status status = MOTE_OK;
    quant_format filled = QUANT_N_FORMATS;
    size_t pool_bytes = 0;
    for (uint32_t i = 0; status == MOTE_OK && i < w->n_tensors; i++) {
        const shape_tensor *t = &w->tensors[i];
        const bool matrix = strstr(t->name, "norm") == NULL && strstr(t->name, "ssm_a") == NULL;
        if (t->format == QUANT_F32 && !(matrix && w->mix->most == QUANT_F32)) {
            status = shape_fill_floats(fd, t, data + t->offset, err);
            continue;
        }
        if (t->format != filled)
            pool_bytes = pool_fill(pool, filled = t->format);
        for (uint64_t done = 0; status == MOTE_OK && done < t->bytes;) {
            const uint64_t left = t->bytes - done;
            const size_t n = left < pool_bytes ? (size_t)left : pool_bytes;
            status = file_write_at(fd, pool, n, data + t->offset + done, err);
            done += n;
        }
    }
    mem_free(pool);
    return status;
}

static mote_status shape_write(const shape_writer *w, shape_file *out, uint64_t hole,
                               shape_content content, mote_error *err)
{
    strbuf head = {0};
    strbuf_text(&head, "GGUF");
    put_u32(&head, 3);
    put_u64(&head, w->n_tensors);
    put_u64(&head, w->n_entries);
    strbuf_put(&head, strbuf_view(&w->entries));
    const uint64_t table = head.n + hole;
    const uint64_t data = shape_padded(table + w->table.n);
    out->bytes = data + w->data_bytes;
    mote_status status = strbuf_check(&head, err);
    if (status == MOTE_OK && ftruncate(out->fd, (off_t)out->bytes) != 0)
        status = err_set(err, MOTE_E_MEMORY, "cannot make a file of %llu bytes in memory: %s",
                         (unsigned long long)out->bytes, strerror(errno));
    if (status == MOTE_OK)
        status = file_write_at(out->fd, head.p, head.n, 0, err);
    if (status == MOTE_OK)
        status = file_write_at(out->fd, w->table.p, w->table.n, table, err);
    if (status == MOTE_OK && content == SHAPE_FILLED)
        status = shape_fill(w, out->fd, data, err);
    strbuf_fini(&head);
    return status;
}

mote_status shape_file_create(shape_file *out, const model_shape *shape, const fit_mix *mix,
                              shape_content content, mote_error *err)
{
    shape_writer w = {.shape = shape, .mix = mix};
    uint64_t hole = 0;
    shape_add_hparams(&w);
    shape_add_tokenizer(&w, &hole);
    shape_add_tensors(&w);
    *out = (shape_file){0};
    out->fd = os_memory_file("mote-shape", out->path);
    mote_status status = MOTE_OK;
    if (out->fd < 0)
        status = err_set(err, MOTE_E_IO, "cannot make a file in memory: %s", strerror(errno));
    else if (w.failed || w.entries.failed || w.table.failed)
        status = err_set(err, MOTE_E_MEMORY, "out of memory: the tensor table of a model");
    if (status == MOTE_OK)
        status = shape_write(&w, out, hole, content, err);
    strbuf_fini(&w.entries);
    strbuf_fini(&w.table);
    mem_free(w.tensors);
    if (status != MOTE_OK)
        shape_file_close(out);
    return status;
}

void shape_file_close(shape_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    *file = (shape_file){.fd = -1};
}
