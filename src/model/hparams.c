/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hparams.c - reads and checks the qwen35.* metadata.
 *
 * Guarantees for all later code: head sizes are those of the Qwen 3.5 family, counts are positive
 * and divide each other, and no product of sizes overflows. weights.c then checks every tensor
 * against these numbers, so wrong metadata cannot cause an out-of-bounds read.
 */
#include "model/hparams.h"

#include "kernels/kernels.h"

enum { MAX_EMBD = 1 << 16, MAX_FF = KERN_MAX_COLS, MAX_HEADS = 1024, MAX_VOCAB = 1 << 22 };

typedef struct bounded {
    const char *key;
    uint32_t *out;
    uint32_t min, max;
} bounded;

static mote_status read_bounded(const gguf *g, const bounded *b, mote_error *err)
{
    TRY(gguf_get_u32(g, b->key, b->out, NULL, err));
    if (*b->out < b->min || *b->out > b->max)
        return err_set(err, MOTE_E_FORMAT, "%s must be %u to %u, got %u", b->key, b->min, b->max,
                       *b->out);
    return MOTE_OK;
}

/* Values that all models of the family share. A missing key is accepted. */
static mote_status expect_u32(const gguf *g, const char *key, uint32_t want, mote_error *err)
{
    uint32_t value = want;
    bool found;
    TRY(gguf_get_u32(g, key, &value, &found, err));
    if (value != want)
        return err_set(err, MOTE_E_UNSUPPORTED, "%s is %u; supported: %u", key, value, want);
    return MOTE_OK;
}

/* A number, or (in some files) an array with one number per layer, 0 for DeltaNet layers. */
static mote_status read_kv_heads(const gguf *g, uint32_t *out, mote_error *err)
{
    const char *key = "qwen35.attention.head_count_kv";
    const gguf_kv *kv = gguf_find(g, key);
    if (kv == NULL)
        return err_set(err, MOTE_E_FORMAT, "%s is missing", key);
    int64_t largest = 0;
    for (uint64_t i = 0; i < kv->count; i++) {
        int64_t value;
        if (!gguf_int_at(kv, i, &value))
            return err_set(err, MOTE_E_FORMAT, "%s must be a number", key);
        largest = value > largest ? value : largest;
    }
    if (largest < 1 || largest > MAX_HEADS)
        return err_set(err, MOTE_E_FORMAT, "%s must be 1 to %d, got %lld", key, MAX_HEADS,
                       (long long)largest);
    *out = (uint32_t)largest;
    return MOTE_OK;
}

/* Every fourth layer is attention, unless the file has another interval or a list. */
static mote_status read_layer_kinds(hparams *hp, const gguf *g, mote_error *err)
{
    uint32_t interval = 4;
    bool found;
    TRY(gguf_get_u32(g, "qwen35.full_attention_interval", &interval, &found, err));
    if (interval == 0)
        return err_set(err, MOTE_E_FORMAT, "qwen35.full_attention_interval must not be 0");
    const gguf_kv *mask = gguf_find(g, "qwen35.attention.recurrent_layers");
    if (mask != NULL && (!mask->is_array || mask->type != GGUF_BOOL || mask->count < hp->n_layers))
        return err_set(err, MOTE_E_FORMAT,
                       "qwen35.attention.recurrent_layers must be an array of %u booleans",
                       hp->n_layers);
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        hp->is_attention[i] = mask != NULL ? mask->bytes[i] == 0 : (i + 1) % interval == 0;
        uint32_t *count = hp->is_attention[i] ? &hp->n_attention : &hp->n_delta;
        hp->index[i] = (uint16_t)(*count)++;
    }
    if (hp->n_attention == 0 || hp->n_delta == 0)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "model with %u attention and %u DeltaNet layers is not supported; both "
                       "kinds are required",
                       hp->n_attention, hp->n_delta);
    return MOTE_OK;
}

static mote_status read_yarn(hparams *hp, const gguf *g, mote_error *err)
{
    str type = {"", 0};
    bool found;
    TRY(gguf_get_str(g, "qwen35.rope.scaling.type", &type, &found, err));
    if (!found || str_is(type, "none"))
        return MOTE_OK;
    if (!str_is(type, "yarn"))
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "rope scaling '%.*s' is not supported; supported: yarn", STR_ARG(type));
    TRY(gguf_get_f32(g, "qwen35.rope.scaling.factor", &hp->yarn_factor, NULL, err));
    TRY(gguf_get_u32(g, "qwen35.rope.scaling.original_context_length", &hp->yarn_original, NULL,
                     err));
    if (!(hp->yarn_factor >= 1 && hp->yarn_factor <= 64) || hp->yarn_original == 0)
        return err_set(err, MOTE_E_FORMAT,
                       "qwen35.rope.scaling: the factor must be 1 to 64 and the original context "
                       "above 0, got %g and %u",
                       (double)hp->yarn_factor, hp->yarn_original);
    return MOTE_OK;
}

static mote_status read_sizes(hparams *hp, const gguf *g, mote_error *err)
{
    uint32_t blocks = 0, inner = 0;
    bool found;
    const bounded table[] = {
        {"qwen35.block_count", &blocks, 1, HP_MAX_LAYERS},
        {"qwen35.embedding_length", &hp->n_embd, 32, MAX_EMBD},
        {"qwen35.feed_forward_length", &hp->n_ff, 32, MAX_FF},
        {"qwen35.attention.head_count", &hp->n_heads, 1, MAX_HEADS},
        {"qwen35.context_length", &hp->context, 1, 1 << 30},
        {"qwen35.ssm.group_count", &hp->key_heads, 1, MAX_HEADS},
        {"qwen35.ssm.time_step_rank", &hp->value_heads, 1, MAX_HEADS},
        {"qwen35.ssm.inner_size", &inner, KERN_STATE_DIM, MAX_HEADS * KERN_STATE_DIM},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        TRY(read_bounded(g, &table[i], err));
    TRY(read_kv_heads(g, &hp->n_kv, err));
    TRY(gguf_get_u32(g, "qwen35.nextn_predict_layers", &hp->n_draft, &found, err));
    if (hp->n_draft > 1 || hp->n_draft >= blocks)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "%u draft blocks of %u blocks are not supported; supported: 0 or 1",
                       hp->n_draft, blocks);
    hp->n_layers = blocks - hp->n_draft;
    if (inner != hp->value_heads * KERN_STATE_DIM)
        return err_set(err, MOTE_E_FORMAT, "qwen35.ssm.inner_size is %u, expected %u heads of 128",
                       inner, hp->value_heads);
    if (hp->value_heads % hp->key_heads != 0 || hp->n_heads % hp->n_kv != 0)
        return err_set(err, MOTE_E_FORMAT,
                       "head counts must be multiples: value/key heads %u/%u, query/KV heads %u/%u",
                       hp->value_heads, hp->key_heads, hp->n_heads, hp->n_kv);
    if (hp->n_heads / hp->n_kv > 8)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "%u query heads per KV head are not supported; supported: 1 to 8",
                       hp->n_heads / hp->n_kv);
    return MOTE_OK;
}

mote_status hparams_read(hparams *hp, const gguf *g, mote_error *err)
{
    *hp = (hparams){.eps = 1e-6f, .rope_base = 1e7f};
    str arch;
    bool found;
    TRY(gguf_get_str(g, "general.architecture", &arch, NULL, err));
    if (str_is(arch, "clip"))
        return err_set(
            err, MOTE_E_UNSUPPORTED,
            "this file is a vision encoder (mmproj); open the model file and pass this one as its "
            "mmproj");
    if (!str_is(arch, "qwen35"))
        return err_set(
            err, MOTE_E_UNSUPPORTED,
            "architecture '%.*s' is not supported: mote runs qwen35 (dense Qwen 3.5, 3.6 and 3.8) "
            "only; llama.cpp runs most others",
            STR_ARG(arch));
    TRY(read_sizes(hp, g, err));
    TRY(expect_u32(g, "qwen35.attention.key_length", KERN_HEAD_DIM, err));
    TRY(expect_u32(g, "qwen35.attention.value_length", KERN_HEAD_DIM, err));
    TRY(expect_u32(g, "qwen35.rope.dimension_count", 64, err));
    TRY(expect_u32(g, "qwen35.ssm.conv_kernel", DELTA_TAPS, err));
    TRY(expect_u32(g, "qwen35.ssm.state_size", KERN_STATE_DIM, err));
    TRY(gguf_get_f32(g, "qwen35.attention.layer_norm_rms_epsilon", &hp->eps, &found, err));
    TRY(gguf_get_f32(g, "qwen35.rope.freq_base", &hp->rope_base, &found, err));
    if (!(hp->eps > 0 && hp->eps < 1) || !(hp->rope_base > 1 && hp->rope_base < 1e12f))
        return err_set(err, MOTE_E_FORMAT, "RMSNorm epsilon %g or RoPE base %g is out of range",
                       (double)hp->eps, (double)hp->rope_base);
    TRY(read_yarn(hp, g, err));
    bool reordered = true; /* a key of Ollama */
    TRY(gguf_get_bool(g, "qwen35.ssm.v_head_reordered", &reordered, &found, err));
    if (!reordered && hp->value_heads != hp->key_heads)
        return err_set(
            err, MOTE_E_UNSUPPORTED,
            "the value heads are in the order of Qwen3-Next (qwen35.ssm.v_head_reordered "
            "is false), which is not supported; convert the model again");
    const gguf_tensor *embd = gguf_find_tensor(g, "token_embd.weight");
    if (embd == NULL)
        return err_set(err, MOTE_E_FORMAT, "tensor 'token_embd.weight' is missing");
    if (embd->dims[1] < 1 || embd->dims[1] > MAX_VOCAB)
        return err_set(err, MOTE_E_FORMAT, "token_embd.weight must have 1 to %d rows, got %llu",
                       MAX_VOCAB, (unsigned long long)embd->dims[1]);
    hp->n_vocab = (uint32_t)embd->dims[1];
    return read_layer_kinds(hp, g, err);
}

mote_status hparams_check_draft(const hparams *hp, const gguf *draft, mote_error *err)
{
    str arch = {"", 0};
    uint32_t blocks = 0, drafts = 0, n_embd = 0;
    bool found;
    TRY(gguf_get_str(draft, "general.architecture", &arch, &found, err));
    TRY(gguf_get_u32(draft, "qwen35.nextn_predict_layers", &drafts, &found, err));
    if (!str_is(arch, "qwen35") || drafts != 1)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "architecture '%.*s' with %u draft blocks is not an MTP head; expected: "
                       "qwen35 with 1",
                       STR_ARG(arch), drafts);
    TRY(gguf_get_u32(draft, "qwen35.block_count", &blocks, NULL, err));
    TRY(gguf_get_u32(draft, "qwen35.embedding_length", &n_embd, NULL, err));
    if (blocks != hp->n_layers + 1 || n_embd != hp->n_embd)
        return err_set(err, MOTE_E_MISMATCH,
                       "the MTP head belongs to a model with %u layers and embedding length %u, "
                       "not %u and %u",
                       blocks - 1, n_embd, hp->n_layers, hp->n_embd);
    return MOTE_OK;
}

delta_shape hparams_delta(const hparams *hp)
{
    return (delta_shape){
        .key_heads = hp->key_heads, .value_heads = hp->value_heads, .eps = hp->eps};
}

attn_shape hparams_attention(const hparams *hp, mote_kv kv)
{
    return (attn_shape){.heads = hp->n_heads,
                        .kv_heads = hp->n_kv,
                        .layers = hp->n_attention,
                        .kv = kv,
                        .eps = hp->eps};
}
