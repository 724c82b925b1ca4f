/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selftest_model.c - implements selftest_model.h.
 *
 * The bytes of quantised blocks are random: every byte is a valid code or a valid sub-scale. Only
 * the f16 scales of a block are set, so that weights have a standard deviation of about 0.05.
 */
#include "cli/machine/selftest_model.h"

#include "base/os.h"
#include "base/philox.h"
#include "base/str.h"
#include "gguf/gguf.h"
#include "quant/blocks.h"
#include "quant/half.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Sizes that every block format divides; two query heads per KV head, two value heads per key head.
 */
enum {
    EMBEDDING = 256,
    FEED_FORWARD = 256,
    HEAD = 256, /* fixed by the model family, like STATE */
    HEADS = 2,
    KV_HEADS = 1,
    STATE = 128,
    KEY_HEADS = 1,
    VALUE_HEADS = 2,
    VALUE_DIM = VALUE_HEADS * STATE,
    CONV_DIM = 2 * KEY_HEADS * STATE + VALUE_DIM,
    TAPS = 4,
    LAYERS = 2, /* with an attention interval of 2: DeltaNet, attention */
    CONTEXT = 2048,
    ALIGNMENT = 32
};

typedef struct builder {
    const selftest_shape *shape;
    strbuf metadata, infos, data;
    uint64_t n_metadata, n_tensors;
    unsigned n_matrices; /* so far; chooses the format of a mixed model */
} builder;

/* ---- bytes ---- */

static void put_u32(strbuf *b, uint32_t value)
{
    strbuf_put(b, (str){(const char *)&value, sizeof value});
}

static void put_u64(strbuf *b, uint64_t value)
{
    strbuf_put(b, (str){(const char *)&value, sizeof value});
}

static void put_string(strbuf *b, const char *text)
{
    put_u64(b, strlen(text));
    strbuf_text(b, text);
}

static void put_padding(strbuf *b)
{
    while (b->n % ALIGNMENT != 0 && !b->failed)
        strbuf_byte(b, 0);
}

/* ---- metadata ---- */

static void builder_add_key(builder *b, const char *key, gguf_type type)
{
    put_string(&b->metadata, key);
    put_u32(&b->metadata, type);
    b->n_metadata++;
}

static void builder_add_text(builder *b, const char *key, const char *value)
{
    builder_add_key(b, key, GGUF_STRING);
    put_string(&b->metadata, value);
}

static void builder_add_sizes(builder *b)
{
    static const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {
        {"qwen35.block_count", LAYERS},
        {"qwen35.embedding_length", EMBEDDING},
        {"qwen35.feed_forward_length", FEED_FORWARD},
        {"qwen35.attention.head_count", HEADS},
        {"qwen35.attention.head_count_kv", KV_HEADS},
        {"qwen35.context_length", CONTEXT},
        {"qwen35.ssm.group_count", KEY_HEADS},
        {"qwen35.ssm.time_step_rank", VALUE_HEADS},
        {"qwen35.ssm.inner_size", VALUE_DIM},
        {"qwen35.full_attention_interval", LAYERS},
        {"tokenizer.ggml.eos_token_id", SELFTEST_TOKENS},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        builder_add_key(b, sizes[i].key, GGUF_U32);
        put_u32(&b->metadata, sizes[i].value);
    }
}

/* One token per byte, in the byte alphabet of GPT-2: printable Latin-1 characters stand for
 * themselves, the others for U+0100 and up. Then one control token. No merges. */
static void builder_add_vocabulary(builder *b)
{
    builder_add_text(b, "tokenizer.ggml.model", "gpt2");
    builder_add_text(b, "tokenizer.ggml.pre", "qwen35");
    builder_add_key(b, "tokenizer.ggml.tokens", GGUF_ARRAY);
    put_u32(&b->metadata, GGUF_STRING);
    put_u64(&b->metadata, SELFTEST_TOKENS + 1);
    unsigned next = 256;
    for (unsigned byte = 0; byte < SELFTEST_TOKENS; byte++) {
        const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
        const unsigned c = printable ? byte : next++;
        const char wide[] = {(char)(0xC0 | c >> 6), (char)(0x80 | (c & 63)), 0};
        const char narrow[] = {(char)c, 0};
        put_string(&b->metadata, c < 128 ? narrow : wide);
    }
    put_string(&b->metadata, "<|endoftext|>");
    builder_add_key(b, "tokenizer.ggml.token_type", GGUF_ARRAY);
    put_u32(&b->metadata, GGUF_I32);
    put_u64(&b->metadata, SELFTEST_TOKENS + 1);
    for (unsigned i = 0; i <= SELFTEST_TOKENS; i++)
        put_u32(&b->metadata, i < SELFTEST_TOKENS ? 1 : 3); /* normal, control */
    builder_add_key(b, "tokenizer.ggml.merges", GGUF_ARRAY);
    put_u32(&b->metadata, GGUF_STRING);
    put_u64(&b->metadata, 0);
}

/* ---- tensors ---- */

/* Scale and minimum of the blocks of a format: weights are between about -0.1 and 0.1. */
typedef struct block_scales {
    float d, min;
} block_scales;

static const block_scales scales_of[QUANT_N_FORMATS] = {
    [QUANT_Q4_0] = {0.0125f, 0},        [QUANT_Q4_1] = {0.0125f, -0.094f},
    [QUANT_Q5_0] = {0.006f, 0},         [QUANT_Q5_1] = {0.006f, -0.093f},
    [QUANT_Q8_0] = {0.0008f, 0},        [QUANT_Q2_K] = {0.006f, 0.009f},
    [QUANT_Q3_K] = {0.0014f, 0},        [QUANT_Q4_K] = {0.0003f, 0.00225f},
    [QUANT_Q5_K] = {0.00015f, 0.0023f}, [QUANT_Q6_K] = {0.00004f, 0},
    [QUANT_IQ4_NL] = {0.0008f, 0},      [QUANT_IQ4_XS] = {0.00004f, 0},
    [QUANT_IQ1_S] = {0.008f, 0},        [QUANT_IQ1_M] = {0.008f, 0},
    [QUANT_IQ2_XXS] = {0.0008f, 0},     [QUANT_IQ2_XS] = {0.0008f, 0},
    [QUANT_IQ2_S] = {0.0008f, 0},       [QUANT_IQ3_XXS] = {0.0003f, 0},
    [QUANT_IQ3_S] = {0.0003f, 0},       [QUANT_TQ1_0] = {0.06f, 0},
    [QUANT_TQ2_0] = {0.04f, 0},         [QUANT_MXFP4] = {0.008f, 0},
    [QUANT_NVFP4] = {0.016f, 0},        [QUANT_Q1_0] = {0.05f, 0},
    [QUANT_Q2_0] = {0.04f, 0},
};

/* An f16 near `value`: its low mantissa bits are random. */
static uint16_t block_scale(float value, uint32_t random)
{
    return (uint16_t)(half_f32_to_f16(value) ^ (random & 31));
}

/* Makes weights of the random bytes of a block. `last`: the last ones that were drawn. */
static void block_finish(unsigned char *block, const quant_info *format, const philox_block *last)
{
    const uint32_t *random = last->word;
    const block_scales *scales = &scales_of[format->format];
    switch (format->format) {
    case QUANT_F32: {
        const float value = ((float)(random[0] >> 8) * 0x1p-24f - 0.5f) * 0.2f;
        memcpy(block, &value, sizeof value);
        return;
    }
    case QUANT_F16: /* sign and mantissa are random, the exponent is 2^-6 or 2^-5 */
        block[1] = (unsigned char)((block[1] & 0x83) | 0x24 | (random[0] & 1) << 3);
        return;
    case QUANT_BF16:
        block[1] = (unsigned char)((block[1] & 0x80) | 0x3C);
        block[0] = (unsigned char)(block[0] | 0x80);
        return;
    default:
        quant_set_scales(format->format, block, block_scale(scales->d, random[1]),
                         block_scale(scales->min, random[2]));
    }
}

enum { BLOCK_BYTES_MAX = 256 };

static void builder_add_info(builder *b, const char *name, uint64_t cols, uint64_t rows,
                             uint32_t gguf_id)
{
    put_string(&b->infos, name);
    put_u32(&b->infos, 2);
    put_u64(&b->infos, cols);
    put_u64(&b->infos, rows);
    put_u32(&b->infos, gguf_id);
    put_u64(&b->infos, b->data.n);
    b->n_tensors++;
}

/* A matrix of random blocks, or of zeros. */
static void builder_add_blocks(builder *b, const char *name, uint64_t rows, uint64_t cols,
                               quant_format f, bool zero)
{
    const quant_info *format = quant_get(f);
    builder_add_info(b, name, cols, rows, format->gguf_id);
    const uint64_t seed = b->n_tensors, n_blocks = rows * cols / format->block_values;
    strbuf_reserve(&b->data, (size_t)n_blocks * format->block_bytes + ALIGNMENT);
    for (uint64_t i = 0; i < n_blocks && !b->data.failed; i++) {
        unsigned char block[BLOCK_BYTES_MAX] = {0};
        philox_block random;
        for (uint32_t k = 0; !zero && k * sizeof random < format->block_bytes; k++) {
            random = philox(seed, i, k);
            memcpy(block + k * sizeof random, &random, sizeof random);
        }
        if (!zero)
            block_finish(block, format, &random);
        strbuf_put(&b->data, (str){(const char *)block, format->block_bytes});
    }
    put_padding(&b->data);
}

static void builder_add_matrix(builder *b, const char *name, uint64_t rows, uint64_t cols,
                               bool zero)
{
    const unsigned format =
        b->shape->format == SELFTEST_MIXED ? b->n_matrices % QUANT_N_FORMATS : b->shape->format;
    b->n_matrices++;
    builder_add_blocks(b, name, rows, cols, (quant_format)format, zero);
}

/* A small tensor of f32, uniform in [from, to). */
static void builder_add_floats(builder *b, const char *name, uint64_t cols, uint64_t rows,
                               float from, float to)
{
    builder_add_info(b, name, cols, rows, quant_get(QUANT_F32)->gguf_id);
    for (uint64_t i = 0; i < rows * cols; i++) {
        const float value = from + (to - from) * philox_unit(b->n_tensors, i, 0);
        strbuf_put(&b->data, (str){(const char *)&value, sizeof value});
    }
    put_padding(&b->data);
}

/* ---- layers ---- */

enum { NAME_BYTES = 64 };

static const char *tensor_name(char out[NAME_BYTES], unsigned layer, const char *suffix)
{
    snprintf(out, NAME_BYTES, "blk.%u.%s", layer, suffix);
    return out;
}

static void builder_add_deltanet(builder *b, unsigned i)
{
    char n[NAME_BYTES];
    builder_add_matrix(b, tensor_name(n, i, "attn_qkv.weight"), CONV_DIM, EMBEDDING, false);
    builder_add_matrix(b, tensor_name(n, i, "attn_gate.weight"), VALUE_DIM, EMBEDDING, false);
    builder_add_floats(b, tensor_name(n, i, "ssm_alpha.weight"), EMBEDDING, VALUE_HEADS, -.1f, .1f);
    builder_add_floats(b, tensor_name(n, i, "ssm_beta.weight"), EMBEDDING, VALUE_HEADS, -.1f, .1f);
    builder_add_matrix(b, tensor_name(n, i, "ssm_out.weight"), EMBEDDING, VALUE_DIM,
                       !b->shape->deltanet);
    builder_add_floats(b, tensor_name(n, i, "ssm_conv1d.weight"), TAPS, CONV_DIM, -.5f, .5f);
    builder_add_floats(b, tensor_name(n, i, "ssm_a"), VALUE_HEADS, 1, -.3f, -.05f);
    builder_add_floats(b, tensor_name(n, i, "ssm_dt.bias"), VALUE_HEADS, 1, -.5f, .5f);
    builder_add_floats(b, tensor_name(n, i, "ssm_norm.weight"), STATE, 1, .75f, 1.25f);
}

static void builder_add_attention(builder *b, unsigned i)
{
    char n[NAME_BYTES];
    builder_add_matrix(b, tensor_name(n, i, "attn_q.weight"), 2 * HEAD * HEADS, EMBEDDING, false);
    builder_add_matrix(b, tensor_name(n, i, "attn_k.weight"), HEAD * KV_HEADS, EMBEDDING, false);
    builder_add_matrix(b, tensor_name(n, i, "attn_v.weight"), HEAD * KV_HEADS, EMBEDDING, false);
    builder_add_matrix(b, tensor_name(n, i, "attn_output.weight"), EMBEDDING, HEAD * HEADS,
                       !b->shape->attention);
    builder_add_floats(b, tensor_name(n, i, "attn_q_norm.weight"), HEAD, 1, .75f, 1.25f);
    builder_add_floats(b, tensor_name(n, i, "attn_k_norm.weight"), HEAD, 1, .75f, 1.25f);
}

static void builder_add_layer(builder *b, unsigned i, bool attention)
{
    char n[NAME_BYTES];
    builder_add_floats(b, tensor_name(n, i, "attn_norm.weight"), EMBEDDING, 1, .75f, 1.25f);
    builder_add_floats(b, tensor_name(n, i, "post_attention_norm.weight"), EMBEDDING, 1, .75f,
                       1.25f);
    if (attention)
        builder_add_attention(b, i);
    else
        builder_add_deltanet(b, i);
    builder_add_matrix(b, tensor_name(n, i, "ffn_gate.weight"), FEED_FORWARD, EMBEDDING, false);
    builder_add_matrix(b, tensor_name(n, i, "ffn_up.weight"), FEED_FORWARD, EMBEDDING, false);
    builder_add_matrix(b, tensor_name(n, i, "ffn_down.weight"), EMBEDDING, FEED_FORWARD, false);
}

/* ---- the file ---- */

/* The whole file; .failed: out of memory. */
static strbuf builder_make_file(const selftest_shape *shape)
{
    builder b = {.shape = shape};
    builder_add_text(&b, "general.architecture", "qwen35");
    builder_add_text(&b, "general.name", "mote selftest");
    builder_add_sizes(&b);
    builder_add_vocabulary(&b);
    builder_add_matrix(&b, "token_embd.weight", SELFTEST_VOCABULARY, EMBEDDING, false);
    builder_add_floats(&b, "output_norm.weight", EMBEDDING, 1, .75f, 1.25f);
    for (unsigned i = 0; i < LAYERS; i++)
        builder_add_layer(&b, i, i + 1 == LAYERS);
    strbuf file = {0};
    strbuf_text(&file, "GGUF");
    put_u32(&file, 3);
    put_u64(&file, b.n_tensors);
    put_u64(&file, b.n_metadata);
    strbuf_put(&file, strbuf_view(&b.metadata));
    strbuf_put(&file, strbuf_view(&b.infos));
    put_padding(&file);
    strbuf_put(&file, strbuf_view(&b.data));
    file.failed = file.failed || b.metadata.failed || b.infos.failed || b.data.failed;
    strbuf_fini(&b.metadata);
    strbuf_fini(&b.infos);
    strbuf_fini(&b.data);
    return file;
}

static mote_status file_write(int fd, str bytes, mote_error *err)
{
    if (!os_write_all(fd, bytes.p, bytes.n))
        return err_set(err, MOTE_E_IO, "cannot write the built-in model to memory: %s",
                       strerror(errno));
    return MOTE_OK;
}

mote_status selftest_model_open(mote_model **out, const selftest_shape *shape, mote_isa level,
                                mote_error *err)
{
    *out = NULL;
    strbuf file = builder_make_file(shape);
    char path[OS_MEMORY_PATH_BYTES];
    const int fd = os_memory_file("mote-selftest", path);
    mote_status status = strbuf_check(&file, err);
    if (status == MOTE_OK && fd < 0)
        status = err_set(err, MOTE_E_IO, "cannot create a file in memory: %s", strerror(errno));
    if (status == MOTE_OK)
        status = file_write(fd, strbuf_view(&file), err);
    if (status == MOTE_OK)
        status = mote_model_open(out, path, &(mote_model_options){.isa = level}, err);
    if (fd >= 0)
        close(fd); /* the model has mapped it */
    strbuf_fini(&file);
    return status;
}
