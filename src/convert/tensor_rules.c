/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_rules.c - the table, and the lookup by name; see tensor_rules.h. */
#include "convert/tensor_rules.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- sizes ---- */

enum {
    END,
    ONE,
    EMBD,
    EMBD_2,
    FF,
    EXPERTS,
    EXPERT_FF,
    EXPERT_FF_2,
    SHARED_FF,
    VOCAB,
    Q_AND_GATE,
    Q,
    KV,
    HEAD,
    CONV,
    VALUE,
    VALUE_HEADS,
    STATE,
    KERNEL,
    V_EMBD,
    V_EMBD_3,
    V_FF,
    V_MERGED,
    V_OUT,
    V_POSITIONS,
    V_PATCH,
    V_FRAMES,
    V_CHANNELS,
    N_SIZES
};

static uint64_t size_of(unsigned char code, const model_config *m)
{
    const uint64_t value = (uint64_t)m->value_heads * m->state_dim;
    const uint64_t key = (uint64_t)m->key_heads * m->state_dim;
    const uint64_t sizes[N_SIZES] = {
        [ONE] = 1,
        [EMBD] = m->embd,
        [EMBD_2] = 2 * (uint64_t)m->embd,
        [FF] = m->ff,
        [EXPERTS] = m->experts,
        [EXPERT_FF] = m->expert_ff,
        [EXPERT_FF_2] = 2 * (uint64_t)m->expert_ff,
        [SHARED_FF] = m->shared_ff,
        [VOCAB] = m->vocab,
        [Q_AND_GATE] = 2 * (uint64_t)m->heads * m->head_dim,
        [Q] = (uint64_t)m->heads * m->head_dim,
        [KV] = (uint64_t)m->kv_heads * m->head_dim,
        [HEAD] = m->head_dim,
        [CONV] = 2 * key + value,
        [VALUE] = value,
        [VALUE_HEADS] = m->value_heads,
        [STATE] = m->state_dim,
        [KERNEL] = m->conv_kernel,
        [V_EMBD] = m->vision_embd,
        [V_EMBD_3] = 3 * (uint64_t)m->vision_embd,
        [V_FF] = m->vision_ff,
        [V_MERGED] = (uint64_t)m->vision_embd * m->vision_merge * m->vision_merge,
        [V_OUT] = m->vision_out,
        [V_POSITIONS] = m->vision_positions,
        [V_PATCH] = m->vision_patch,
        [V_FRAMES] = m->vision_frames,
        [V_CHANNELS] = m->vision_channels,
    };
    return sizes[code];
}

/* ---- the table ---- */

#define TEXT      GROUP_TEXT
#define LAYER     GROUP_LAYER
#define DENSE     GROUP_DENSE
#define MOE       GROUP_EXPERTS
#define EXPERT    GROUP_EXPERT
#define ATTENTION GROUP_ATTENTION
#define DELTANET  GROUP_DELTANET
#define MTP       GROUP_MTP
#define VISION    GROUP_VISION
#define BLOCK     GROUP_VISION_BLOCK

const tensor_rule tensor_rules[] = {
    {TEXT, "model.embed_tokens.weight", "token_embd.weight", {VOCAB, EMBD}, 0, 0},
    {TEXT, "model.norm.weight", "output_norm.weight", {EMBD}, CHANGE_ADD_ONE, 0},
    {TEXT, "lm_head.weight", "output.weight", {VOCAB, EMBD}, 0, 0},

    {LAYER, "input_layernorm.weight", "attn_norm.weight", {EMBD}, CHANGE_ADD_ONE, 0},
    {LAYER,
     "post_attention_layernorm.weight",
     "post_attention_norm.weight",
     {EMBD},
     CHANGE_ADD_ONE,
     0},
    {DENSE, "mlp.gate_proj.weight", "ffn_gate.weight", {FF, EMBD}, 0, 0},
    {DENSE, "mlp.up_proj.weight", "ffn_up.weight", {FF, EMBD}, 0, 0},
    {DENSE, "mlp.down_proj.weight", "ffn_down.weight", {EMBD, FF}, 0, 0},

    {MOE, "mlp.gate.weight", "ffn_gate_inp.weight", {EXPERTS, EMBD}, 0, 0},
    {MOE,
     "mlp.experts.gate_up_proj",
     "ffn_gate_exps.weight",
     {EXPERTS, EXPERT_FF_2, EMBD},
     0,
     ORDER_GATE_UP},
    {MOE, "mlp.experts.down_proj", "ffn_down_exps.weight", {EXPERTS, EMBD, EXPERT_FF}, 0, 0},
    {MOE, "mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight", {SHARED_FF, EMBD}, 0, 0},
    {MOE, "mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight", {SHARED_FF, EMBD}, 0, 0},
    {MOE, "mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight", {EMBD, SHARED_FF}, 0, 0},
    {MOE, "mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight", {ONE, EMBD}, 0, 0},

    {EXPERT, "down_proj.weight", "ffn_down_exps.weight", {EMBD, EXPERT_FF}, 0, 0},
    {EXPERT, "gate_proj.weight", "ffn_gate_exps.weight", {EXPERT_FF, EMBD}, 0, 0},
    {EXPERT, "up_proj.weight", "ffn_up_exps.weight", {EXPERT_FF, EMBD}, 0, 0},

    {ATTENTION, "self_attn.q_proj.weight", "attn_q.weight", {Q_AND_GATE, EMBD}, 0, 0},
    {ATTENTION, "self_attn.k_proj.weight", "attn_k.weight", {KV, EMBD}, 0, 0},
    {ATTENTION, "self_attn.v_proj.weight", "attn_v.weight", {KV, EMBD}, 0, 0},
    {ATTENTION, "self_attn.o_proj.weight", "attn_output.weight", {EMBD, Q}, 0, 0},
    {ATTENTION, "self_attn.q_norm.weight", "attn_q_norm.weight", {HEAD}, CHANGE_ADD_ONE, 0},
    {ATTENTION, "self_attn.k_norm.weight", "attn_k_norm.weight", {HEAD}, CHANGE_ADD_ONE, 0},

    {DELTANET, "linear_attn.in_proj_qkv.weight", "attn_qkv.weight", {CONV, EMBD}, 0, ORDER_V_ROWS},
    {DELTANET,
     "linear_attn.in_proj_z.weight",
     "attn_gate.weight",
     {VALUE, EMBD},
     0,
     ORDER_HEAD_ROWS},
    {DELTANET,
     "linear_attn.in_proj_b.weight",
     "ssm_beta.weight",
     {VALUE_HEADS, EMBD},
     0,
     ORDER_HEADS},
    {DELTANET,
     "linear_attn.in_proj_a.weight",
     "ssm_alpha.weight",
     {VALUE_HEADS, EMBD},
     0,
     ORDER_HEADS},
    {DELTANET,
     "linear_attn.conv1d.weight",
     "ssm_conv1d.weight",
     {CONV, ONE, KERNEL},
     0,
     ORDER_V_ROWS},
    {DELTANET, "linear_attn.A_log", "ssm_a", {VALUE_HEADS}, CHANGE_DECAY, ORDER_HEADS},
    {DELTANET, "linear_attn.dt_bias", "ssm_dt.bias", {VALUE_HEADS}, 0, ORDER_HEADS},
    {DELTANET, "linear_attn.norm.weight", "ssm_norm.weight", {STATE}, 0, 0},
    {DELTANET, "linear_attn.out_proj.weight", "ssm_out.weight", {EMBD, VALUE}, 0, ORDER_COLUMNS},

    {MTP, "fc.weight", "nextn.eh_proj.weight", {EMBD, EMBD_2}, 0, 0},
    {MTP, "pre_fc_norm_embedding.weight", "nextn.enorm.weight", {EMBD}, CHANGE_ADD_ONE, 0},
    {MTP, "pre_fc_norm_hidden.weight", "nextn.hnorm.weight", {EMBD}, CHANGE_ADD_ONE, 0},
    {MTP, "norm.weight", "nextn.shared_head_norm.weight", {EMBD}, CHANGE_ADD_ONE, 0},

    {VISION,
     "patch_embed.proj.weight",
     "v.patch_embd.weight",
     {V_EMBD, V_CHANNELS, V_FRAMES, V_PATCH, V_PATCH},
     0,
     ORDER_FRAMES},
    {VISION, "patch_embed.proj.bias", "v.patch_embd.bias", {V_EMBD}, 0, 0},
    {VISION, "pos_embed.weight", "v.position_embd.weight", {V_POSITIONS, V_EMBD}, 0, 0},
    {VISION, "merger.norm.weight", "v.post_ln.weight", {V_EMBD}, 0, 0},
    {VISION, "merger.norm.bias", "v.post_ln.bias", {V_EMBD}, 0, 0},
    {VISION, "merger.linear_fc1.weight", "mm.0.weight", {V_MERGED, V_MERGED}, 0, 0},
    {VISION, "merger.linear_fc1.bias", "mm.0.bias", {V_MERGED}, 0, 0},
    {VISION, "merger.linear_fc2.weight", "mm.2.weight", {V_OUT, V_MERGED}, 0, 0},
    {VISION, "merger.linear_fc2.bias", "mm.2.bias", {V_OUT}, 0, 0},

    {BLOCK, "norm1.weight", "ln1.weight", {V_EMBD}, 0, 0},
    {BLOCK, "norm1.bias", "ln1.bias", {V_EMBD}, 0, 0},
    {BLOCK, "norm2.weight", "ln2.weight", {V_EMBD}, 0, 0},
    {BLOCK, "norm2.bias", "ln2.bias", {V_EMBD}, 0, 0},
    {BLOCK, "attn.qkv.weight", "attn_qkv.weight", {V_EMBD_3, V_EMBD}, 0, 0},
    {BLOCK, "attn.qkv.bias", "attn_qkv.bias", {V_EMBD_3}, 0, 0},
    {BLOCK, "attn.proj.weight", "attn_out.weight", {V_EMBD, V_EMBD}, 0, 0},
    {BLOCK, "attn.proj.bias", "attn_out.bias", {V_EMBD}, 0, 0},
    {BLOCK, "mlp.linear_fc1.weight", "ffn_up.weight", {V_FF, V_EMBD}, 0, 0},
    {BLOCK, "mlp.linear_fc1.bias", "ffn_up.bias", {V_FF}, 0, 0},
    {BLOCK, "mlp.linear_fc2.weight", "ffn_down.weight", {V_EMBD, V_FF}, 0, 0},
    {BLOCK, "mlp.linear_fc2.bias", "ffn_down.bias", {V_EMBD}, 0, 0},
};
const uint32_t n_tensor_rules = sizeof tensor_rules / sizeof *tensor_rules;

/* ---- lookup ---- */

static const tensor_rule *rule_named(uint32_t groups, str name)
{
    for (uint32_t i = 0; i < n_tensor_rules; i++)
        if ((groups >> tensor_rules[i].group & 1) != 0 && str_is(name, tensor_rules[i].source))
            return &tensor_rules[i];
    return NULL;
}

static bool match_vision(tensor_match *out, str name)
{
    if (str_take_prefix(&name, "blocks."))
        return str_take_index(&name, &out->index) &&
               (out->rule = rule_named(1u << GROUP_VISION_BLOCK, name)) != NULL;
    return (out->rule = rule_named(1u << GROUP_VISION, name)) != NULL;
}

/* Groups of the feed-forward network. */
static uint32_t ffn_groups(const model_config *m)
{
    return m->experts > 0 ? 1u << GROUP_EXPERTS : 1u << GROUP_DENSE;
}

/* A tensor of a layer with these mixers, after the number of the layer. */
static bool match_block(tensor_match *out, const model_config *m, uint32_t mixers, str name)
{
    str rest = name;
    if (m->experts > 0 && str_take_prefix(&rest, "mlp.experts.") &&
        str_take_index(&rest, &out->expert))
        return out->expert < m->experts &&
               (out->rule = rule_named(1u << GROUP_EXPERT, rest)) != NULL;
    out->expert = 0;
    return (out->rule = rule_named(1u << GROUP_LAYER | ffn_groups(m) | mixers, name)) != NULL;
}

static bool match_mtp(tensor_match *out, const model_config *m, str name)
{
    if (str_take_prefix(&name, "layers.")) {
        const bool ok = str_take_index(&name, &out->index) && out->index < m->mtp_layers;
        out->index += m->layers;
        return ok && match_block(out, m, 1u << GROUP_ATTENTION, name);
    }
    out->index = m->layers;
    return m->mtp_layers > 0 && (out->rule = rule_named(1u << GROUP_MTP, name)) != NULL;
}

static bool match_layer(tensor_match *out, const model_config *m, str name)
{
    if (!str_take_index(&name, &out->index) || out->index >= m->layers)
        return false;
    const uint32_t kind =
        model_config_is_attention(m, out->index) ? 1u << GROUP_ATTENTION : 1u << GROUP_DELTANET;
    return match_block(out, m, kind, name);
}

/* The prefixes are "model.language_model." and "model.visual." in published models, "model." in
 * files without vision, and "language_model.model." or "visual." in older exports. */
bool tensor_rule_find(tensor_match *out, const model_config *m, str name)
{
    char plain[SAFETENSORS_MAX_NAME + 8];
    *out = (tensor_match){0};
    if (str_take_prefix(&name, "model.visual.") || str_take_prefix(&name, "visual."))
        return m->has_vision && match_vision(out, name) &&
               (out->rule->group == GROUP_VISION || out->index < m->vision_blocks);
    if (str_take_prefix(&name, "model.mtp.") || str_take_prefix(&name, "mtp."))
        return match_mtp(out, m, name);
    if (str_take_prefix(&name, "language_model.lm_head."))
        snprintf(plain, sizeof plain, "lm_head.%.*s", STR_ARG(name));
    else if (str_take_prefix(&name, "model.language_model.") ||
             str_take_prefix(&name, "language_model.model.") || str_take_prefix(&name, "model."))
        snprintf(plain, sizeof plain, "model.%.*s", STR_ARG(name));
    else
        snprintf(plain, sizeof plain, "%.*s", STR_ARG(name));
    str rest = str_of(plain);
    if (str_take_prefix(&rest, "model.layers."))
        return match_layer(out, m, rest);
    return (out->rule = rule_named(1u << GROUP_TEXT, rest)) != NULL;
}

bool tensor_rule_applies(const tensor_rule *rule, const model_config *m, uint32_t index)
{
    const bool mtp = index >= m->layers;
    switch (rule->group) {
    case GROUP_TEXT: return index == 0 && !(m->tied && strcmp(rule->source, "lm_head.weight") == 0);
    case GROUP_LAYER: return index < m->layers + m->mtp_layers;
    case GROUP_DENSE: return m->experts == 0 && index < m->layers + m->mtp_layers;
    case GROUP_EXPERTS:
    case GROUP_EXPERT: return m->experts > 0 && index < m->layers + m->mtp_layers;
    case GROUP_ATTENTION:
        return mtp ? index < m->layers + m->mtp_layers : model_config_is_attention(m, index);
    case GROUP_DELTANET: return !mtp && !model_config_is_attention(m, index);
    case GROUP_MTP: return m->mtp_layers > 0 && index == m->layers;
    case GROUP_VISION: return m->has_vision && index == 0;
    case GROUP_VISION_BLOCK: return m->has_vision && index < m->vision_blocks;
    }
    return false;
}

/* ---- names and shapes ---- */

void tensor_rule_target(char *out, const tensor_match *match)
{
    switch (match->rule->group) {
    case GROUP_TEXT:
    case GROUP_VISION: snprintf(out, GGUF_MAX_KEY, "%s", match->rule->target); break;
    case GROUP_VISION_BLOCK:
        snprintf(out, GGUF_MAX_KEY, "v.blk.%u.%s", match->index, match->rule->target);
        break;
    default: snprintf(out, GGUF_MAX_KEY, "blk.%u.%s", match->index, match->rule->target); break;
    }
}

void tensor_rule_source(char *out, const tensor_rule *rule, const model_config *m, uint32_t index)
{
    const bool mtp = index >= m->layers;
    switch (rule->group) {
    case GROUP_TEXT: snprintf(out, GGUF_MAX_KEY, "%s", rule->source); break;
    case GROUP_VISION: snprintf(out, GGUF_MAX_KEY, "model.visual.%s", rule->source); break;
    case GROUP_VISION_BLOCK:
        snprintf(out, GGUF_MAX_KEY, "model.visual.blocks.%u.%s", index, rule->source);
        break;
    case GROUP_MTP: snprintf(out, GGUF_MAX_KEY, "mtp.%s", rule->source); break;
    case GROUP_EXPERT:
        snprintf(out, GGUF_MAX_KEY, "%s.%u.mlp.experts.0.%s", mtp ? "mtp.layers" : "model.layers",
                 mtp ? index - m->layers : index, rule->source);
        break;
    default:
        snprintf(out, GGUF_MAX_KEY, "%s.%u.%s", mtp ? "mtp.layers" : "model.layers",
                 mtp ? index - m->layers : index, rule->source);
        break;
    }
}

static void shape_put(char *out, size_t room, const uint64_t *dims, uint32_t n)
{
    size_t at = (size_t)snprintf(out, room, "[");
    for (uint32_t i = 0; i < n && at < room; i++)
        at += (size_t)snprintf(out + at, room - at, "%s%llu", i > 0 ? ", " : "",
                               (unsigned long long)dims[i]);
    if (at < room)
        snprintf(out + at, room - at, "]");
}

mote_status tensor_rule_check_shape(const tensor_match *match, const model_config *m,
                                    const safetensor *t, mote_error *err)
{
    uint64_t wanted[SAFETENSORS_MAX_DIMS];
    uint32_t n = 0;
    char has[256], needs[256];
    for (; n < SAFETENSORS_MAX_DIMS && match->rule->shape[n] != END; n++)
        wanted[n] = size_of(match->rule->shape[n], m);
    if (n == t->n_dims && memcmp(wanted, t->dims, n * sizeof *wanted) == 0)
        return MOTE_OK;
    shape_put(has, sizeof has, t->dims, t->n_dims);
    shape_put(needs, sizeof needs, wanted, n);
    return err_set(err, MOTE_E_FORMAT,
                   "tensor '%.*s' has shape %s, but config.json says %s: the files belong to "
                   "different models",
                   STR_ARG(t->name), has, needs);
}

bool tensor_rule_is_vision(const tensor_rule *rule)
{
    return rule->group == GROUP_VISION || rule->group == GROUP_VISION_BLOCK;
}

/* Vectors, biases, the convolution, the position table, routers. */
bool tensor_rule_is_f32(const tensor_rule *rule)
{
    return rule->shape[1] == END || rule->shape[1] == ONE || rule->shape[0] == V_POSITIONS ||
           strncmp(rule->target, "ffn_gate_inp", strlen("ffn_gate_inp")) == 0;
}
