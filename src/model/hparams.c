/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hparams.c - reads and checks the metadata qwen35.* (dense) or qwen35moe.* (with experts).
 *
 * Guarantees for all later code: head sizes are those of the Qwen 3.5 family, counts are positive
 * and divide each other, and no product of sizes overflows. weights.c then checks every tensor
 * against these numbers, so wrong metadata cannot cause an out-of-bounds read.
 */
#include "model/hparams.h"

#include "kernels/kernels.h"

enum { MAX_EMBD = 1 << 16, MAX_FF = KERN_MAX_COLS, MAX_HEADS = 1024, MAX_VOCAB = 1 << 22 };
enum { MAX_GROUP = 16 }; /* query heads per KV head */

typedef struct bounded {
    const char *name; /* of the key, after the architecture */
    uint32_t *out;
    uint32_t min, max;
} bounded;

static mote_status read_bounded(const gguf *g, const bounded *b, mote_error *err)
{
    char key[GGUF_MAX_KEY];
    TRY(gguf_get_u32(g, gguf_arch_key(g, b->name, key), b->out, NULL, err));
    if (*b->out < b->min || *b->out > b->max)
        return err_set(err, MOTE_E_FORMAT, "%s must be %u to %u, got %u", key, b->min, b->max,
                       *b->out);
    return MOTE_OK;
}

/* Values that all models of the family share. A missing key is accepted. */
static mote_status expect_u32(const gguf *g, const char *name, uint32_t want, mote_error *err)
{
    char key[GGUF_MAX_KEY];
    uint32_t value = want;
    bool found;
    TRY(gguf_get_u32(g, gguf_arch_key(g, name, key), &value, &found, err));
    if (value != want)
        return err_set(err, MOTE_E_UNSUPPORTED, "%s is %u; supported: %u", key, value, want);
    return MOTE_OK;
}

/* A number, or (in some files) an array with one number per layer, 0 for DeltaNet layers. */
static mote_status read_kv_heads(const gguf *g, uint32_t *out, mote_error *err)
{
    char key[GGUF_MAX_KEY];
    const gguf_kv *kv = gguf_find(g, gguf_arch_key(g, "attention.head_count_kv", key));
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
    char key[GGUF_MAX_KEY];
    TRY(gguf_get_u32(g, gguf_arch_key(g, "full_attention_interval", key), &interval, &found, err));
    if (interval == 0)
        return err_set(err, MOTE_E_FORMAT, "%s must not be 0", key);
    const gguf_kv *mask = gguf_find(g, gguf_arch_key(g, "attention.recurrent_layers", key));
    if (mask != NULL && (!mask->is_array || mask->type != GGUF_BOOL || mask->count < hp->n_layers))
        return err_set(err, MOTE_E_FORMAT, "%s must be an array of %u booleans", key, hp->n_layers);
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
    char key[GGUF_MAX_KEY];
    TRY(gguf_get_str(g, gguf_arch_key(g, "rope.scaling.type", key), &type, &found, err));
    if (!found || str_is(type, "none"))
        return MOTE_OK;
    if (!str_is(type, "yarn"))
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "rope scaling '%.*s' is not supported; supported: yarn", STR_ARG(type));
    TRY(gguf_get_f32(g, gguf_arch_key(g, "rope.scaling.factor", key), &hp->yarn_factor, NULL, err));
    TRY(gguf_get_u32(g, gguf_arch_key(g, "rope.scaling.original_context_length", key),
                     &hp->yarn_original, NULL, err));
    if (!(hp->yarn_factor >= 1 && hp->yarn_factor <= 64) || hp->yarn_original == 0)
        return err_set(err, MOTE_E_FORMAT,
                       "rope.scaling: the factor must be 1 to 64 and the original context above 0, "
                       "got %g and %u",
                       (double)hp->yarn_factor, hp->yarn_original);
    return MOTE_OK;
}

/* Sizes of the feed-forward network. Files without the lengths of experts derive them from the
 * length of a dense network, as llama.cpp does. */
static mote_status read_feed_forward(hparams *hp, const gguf *g, mote_error *err)
{
    const bounded dense = {"feed_forward_length", &hp->n_ff, 32, MAX_FF};
    if (hp->n_experts == 0)
        return read_bounded(g, &dense, err);
    char key[GGUF_MAX_KEY];
    uint32_t whole = 0;
    bool found;
    TRY(gguf_get_u32(g, gguf_arch_key(g, dense.name, key), &whole, &found, err));
    hp->expert_ff = whole / hp->n_used;
    hp->shared_ff = whole;
    const bounded table[] = {
        {"expert_feed_forward_length", &hp->expert_ff, 32, MAX_FF},
        {"expert_shared_feed_forward_length", &hp->shared_ff, 32, MAX_FF},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!found || gguf_find(g, gguf_arch_key(g, table[i].name, key)) != NULL)
            TRY(read_bounded(g, &table[i], err));
    if (hp->expert_ff % 32 != 0 || hp->expert_ff == 0 || hp->expert_ff > MAX_FF ||
        hp->shared_ff % 32 != 0 || hp->shared_ff == 0 || hp->shared_ff > MAX_FF)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "feed-forward lengths %u of experts and %u of the shared expert are not "
                       "supported; supported: multiples of 32 up to %d",
                       hp->expert_ff, hp->shared_ff, MAX_FF);
    return MOTE_OK;
}

static mote_status read_experts(hparams *hp, const gguf *g, mote_error *err)
{
    const bounded count = {"expert_count", &hp->n_experts, 1, EXPERTS_MAX};
    const bounded used = {"expert_used_count", &hp->n_used, 1, EXPERTS_MAX_USED};
    TRY(read_bounded(g, &count, err));
    TRY(read_bounded(g, &used, err));
    if (hp->n_used > hp->n_experts)
        return err_set(err, MOTE_E_FORMAT, "%u of %u experts cannot be used", hp->n_used,
                       hp->n_experts);
    return MOTE_OK;
}

static mote_status read_blocks(hparams *hp, const gguf *g, mote_error *err)
{
    uint32_t blocks = 0;
    bool found;
    char key[GGUF_MAX_KEY];
    const bounded count = {"block_count", &blocks, 1, HP_MAX_LAYERS};
    TRY(read_bounded(g, &count, err));
    TRY(gguf_get_u32(g, gguf_arch_key(g, "nextn_predict_layers", key), &hp->n_draft, &found, err));
    if (hp->n_draft > 1 || hp->n_draft >= blocks)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "%u draft blocks of %u blocks are not supported; supported: 0 or 1",
                       hp->n_draft, blocks);
    hp->n_layers = blocks - hp->n_draft;
    return MOTE_OK;
}

static mote_status read_sizes(hparams *hp, const gguf *g, mote_error *err)
{
    uint32_t inner = 0;
    const bounded table[] = {
        {"embedding_length", &hp->n_embd, 32, MAX_EMBD},
        {"attention.head_count", &hp->n_heads, 1, MAX_HEADS},
        {"context_length", &hp->context, 1, 1 << 30},
        {"ssm.group_count", &hp->key_heads, 1, MAX_HEADS},
        {"ssm.time_step_rank", &hp->value_heads, 1, MAX_HEADS},
        {"ssm.inner_size", &inner, KERN_STATE_DIM, MAX_HEADS * KERN_STATE_DIM},
    };
    TRY(read_blocks(hp, g, err));
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        TRY(read_bounded(g, &table[i], err));
    TRY(read_feed_forward(hp, g, err));
    TRY(read_kv_heads(g, &hp->n_kv, err));
    if (inner != hp->value_heads * KERN_STATE_DIM)
        return err_set(err, MOTE_E_FORMAT, "ssm.inner_size is %u, expected %u heads of 128", inner,
                       hp->value_heads);
    if (hp->value_heads % hp->key_heads != 0 || hp->n_heads % hp->n_kv != 0)
        return err_set(err, MOTE_E_FORMAT,
                       "head counts must be multiples: value/key heads %u/%u, query/KV heads %u/%u",
                       hp->value_heads, hp->key_heads, hp->n_heads, hp->n_kv);
    if (hp->n_heads / hp->n_kv > MAX_GROUP)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "%u query heads per KV head are not supported; supported: 1 to %d",
                       hp->n_heads / hp->n_kv, MAX_GROUP);
    return MOTE_OK;
}

mote_status hparams_read(hparams *hp, const gguf *g, mote_error *err)
{
    *hp = (hparams){.eps = 1e-6f, .rope_base = 1e7f};
    str arch;
    bool found;
    char key[GGUF_MAX_KEY];
    TRY(gguf_get_str(g, "general.architecture", &arch, NULL, err));
    if (str_is(arch, "clip"))
        return err_set(
            err, MOTE_E_UNSUPPORTED,
            "this file is a vision encoder (mmproj); open the model file and pass this one as its "
            "mmproj");
    str type = {"", 0};
    TRY(gguf_get_str(g, "general.type", &type, &found, err));
    if (str_is(type, "adapter"))
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "this file is an adapter; open its model and pass this one with --lora");
    if (str_is(arch, "qwen35moe"))
        TRY(read_experts(hp, g, err));
    else if (!str_is(arch, "qwen35"))
        return err_set(
            err, MOTE_E_UNSUPPORTED,
            "architecture '%.*s' is not supported: mote runs qwen35 and qwen35moe (Qwen 3.5, 3.6 "
            "and 3.8, dense and with experts) only; llama.cpp runs most others",
            STR_ARG(arch));
    TRY(read_sizes(hp, g, err));
    TRY(expect_u32(g, "attention.key_length", KERN_HEAD_DIM, err));
    TRY(expect_u32(g, "attention.value_length", KERN_HEAD_DIM, err));
    TRY(expect_u32(g, "rope.dimension_count", 64, err));
    TRY(expect_u32(g, "ssm.conv_kernel", DELTA_TAPS, err));
    TRY(expect_u32(g, "ssm.state_size", KERN_STATE_DIM, err));
    TRY(gguf_get_f32(g, gguf_arch_key(g, "attention.layer_norm_rms_epsilon", key), &hp->eps, &found,
                     err));
    TRY(gguf_get_f32(g, gguf_arch_key(g, "rope.freq_base", key), &hp->rope_base, &found, err));
    if (!(hp->eps > 0 && hp->eps < 1) || !(hp->rope_base > 1 && hp->rope_base < 1e12f))
        return err_set(err, MOTE_E_FORMAT, "RMSNorm epsilon %g or RoPE base %g is out of range",
                       (double)hp->eps, (double)hp->rope_base);
    TRY(read_yarn(hp, g, err));
    bool reordered = true; /* a key of Ollama */
    TRY(gguf_get_bool(g, gguf_arch_key(g, "ssm.v_head_reordered", key), &reordered, &found, err));
    if (!reordered && hp->value_heads != hp->key_heads)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "the value heads are in the order of Qwen3-Next (%s is false), which is not "
                       "supported; convert the model again",
                       key);
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
    const char *want = hp->n_experts > 0 ? "qwen35moe" : "qwen35";
    str arch = {"", 0};
    uint32_t blocks = 0, drafts = 0, n_embd = 0;
    bool found;
    char key[GGUF_MAX_KEY];
    TRY(gguf_get_str(draft, "general.architecture", &arch, &found, err));
    TRY(gguf_get_u32(draft, gguf_arch_key(draft, "nextn_predict_layers", key), &drafts, &found,
                     err));
    if (!str_is(arch, want) || drafts != 1)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "architecture '%.*s' with %u draft blocks is not an MTP head; expected: "
                       "%s with 1",
                       STR_ARG(arch), drafts, want);
    TRY(gguf_get_u32(draft, gguf_arch_key(draft, "block_count", key), &blocks, NULL, err));
    TRY(gguf_get_u32(draft, gguf_arch_key(draft, "embedding_length", key), &n_embd, NULL, err));
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

expert_shape hparams_experts(const hparams *hp)
{
    return (expert_shape){.n_experts = hp->n_experts,
                          .n_used = hp->n_used,
                          .n_embd = hp->n_embd,
                          .ff = hp->expert_ff};
}

attn_shape hparams_attention(const hparams *hp, mote_kv kv)
{
    return (attn_shape){.heads = hp->n_heads,
                        .kv_heads = hp->n_kv,
                        .layers = hp->n_attention,
                        .kv = kv,
                        .eps = hp->eps};
}
