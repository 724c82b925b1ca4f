/* SPDX-License-Identifier: Apache-2.0 */
/* quant_mix.c - see quant_mix.h. */
#include "convert/quant_mix.h"

#include <strings.h>

/* Numbers of general.file_type. */
enum {
    MIX_F32 = 0,
    MIX_F16 = 1,
    MIX_Q4_0 = 2,
    MIX_Q4_1 = 3,
    MIX_Q8_0 = 7,
    MIX_Q5_0 = 8,
    MIX_Q5_1 = 9,
    MIX_Q2_K = 10,
    MIX_Q3_K_S = 11,
    MIX_Q3_K_M = 12,
    MIX_Q3_K_L = 13,
    MIX_Q4_K_S = 14,
    MIX_Q4_K_M = 15,
    MIX_Q5_K_S = 16,
    MIX_Q5_K_M = 17,
    MIX_Q6_K = 18,
    MIX_IQ2_XXS = 19,
    MIX_IQ2_XS = 20,
    MIX_Q2_K_S = 21,
    MIX_IQ3_XS = 22,
    MIX_IQ3_XXS = 23,
    MIX_IQ1_S = 24,
    MIX_IQ4_NL = 25,
    MIX_IQ3_S = 26,
    MIX_IQ3_M = 27,
    MIX_IQ2_S = 28,
    MIX_IQ2_M = 29,
    MIX_IQ4_XS = 30,
    MIX_IQ1_M = 31,
    MIX_BF16 = 32
};

static const quant_mix mixes[] = {
    {"Q4_0", MIX_Q4_0, QUANT_Q4_0, NULL},
    {"Q4_1", MIX_Q4_1, QUANT_Q4_1, NULL},
    {"Q5_0", MIX_Q5_0, QUANT_Q5_0, NULL},
    {"Q5_1", MIX_Q5_1, QUANT_Q5_1, NULL},
    {"Q8_0", MIX_Q8_0, QUANT_Q8_0, NULL},
    {"Q2_K", MIX_Q2_K, QUANT_Q2_K, NULL},
    {"Q3_K_S", MIX_Q3_K_S, QUANT_Q3_K, NULL},
    {"Q3_K_M", MIX_Q3_K_M, QUANT_Q3_K, NULL},
    {"Q3_K_L", MIX_Q3_K_L, QUANT_Q3_K, NULL},
    {"Q4_K_S", MIX_Q4_K_S, QUANT_Q4_K, NULL},
    {"Q4_K_M", MIX_Q4_K_M, QUANT_Q4_K, NULL},
    {"Q5_K_S", MIX_Q5_K_S, QUANT_Q5_K, NULL},
    {"Q5_K_M", MIX_Q5_K_M, QUANT_Q5_K, NULL},
    {"Q6_K", MIX_Q6_K, QUANT_Q6_K, NULL},
    {"F16", MIX_F16, QUANT_F16, NULL},
    {"BF16", MIX_BF16, QUANT_BF16, NULL},
    {"F32", MIX_F32, QUANT_F32, NULL},
    {"Q3_K", MIX_Q3_K_M, QUANT_Q3_K, NULL},
    {"Q4_K", MIX_Q4_K_M, QUANT_Q4_K, NULL},
    {"Q5_K", MIX_Q5_K_M, QUANT_Q5_K, NULL},
    {"Q2_K_S", MIX_Q2_K_S, QUANT_Q2_K, NULL},
    {"IQ4_NL", MIX_IQ4_NL, QUANT_IQ4_NL, NULL},
    {"IQ4_XS", MIX_IQ4_XS, QUANT_IQ4_XS, NULL},
    {"IQ3_M", MIX_IQ3_M, QUANT_IQ3_S, NULL},
    {"IQ3_S", MIX_IQ3_S, QUANT_IQ3_S, NULL},
    {"IQ3_XS", MIX_IQ3_XS, QUANT_IQ3_S, NULL},
    {"IQ3_XXS", MIX_IQ3_XXS, QUANT_IQ3_XXS, NULL},
    {"IQ2_M", MIX_IQ2_M, QUANT_IQ2_S, NULL},
    {"IQ2_S", MIX_IQ2_S, QUANT_IQ2_XS, NULL},
    {"IQ2_XS", MIX_IQ2_XS, QUANT_IQ2_XS, NULL},
    {"IQ2_XXS", MIX_IQ2_XXS, QUANT_IQ2_XXS, NULL},
    {"IQ1_M", MIX_IQ1_M, QUANT_IQ1_M, NULL},
    {"IQ1_S", MIX_IQ1_S, QUANT_IQ1_S, NULL},
    {"small", 0, QUANT_Q3_K, "Q3_K_M"},
    {"balanced", 0, QUANT_Q4_K, "Q4_K_M"},
    {"best", 0, QUANT_Q6_K, "Q6_K"},
};

const quant_mix *quant_mix_find(const char *name)
{
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++)
        if (strcasecmp(name, mixes[i].name) == 0)
            return &mixes[i];
    return NULL;
}

const char *quant_mix_names(void)
{
    return "IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ2_M Q2_K_S Q2_K IQ3_XXS IQ3_XS IQ3_S IQ3_M Q3_K_S "
           "Q3_K_M Q3_K_L "
           "IQ4_XS IQ4_NL Q4_0 Q4_1 Q4_K_S Q4_K_M Q5_0 Q5_1 Q5_K_S Q5_K_M Q6_K Q8_0 F16 BF16 F32 "
           "small balanced best";
}

/* ---- names ---- */

static bool name_contains(str name, const char *part)
{
    const size_t n = strlen(part);
    for (size_t i = 0; i + n <= name.n; i++)
        if (memcmp(name.p + i, part, n) == 0)
            return true;
    return false;
}

static bool name_is_v(str name)
{
    return name_contains(name, "attn_v.weight") || name_contains(name, "attn_qkv.weight");
}

bool quant_mix_applies(const gguf_tensor *t)
{
    const size_t n = strlen("weight");
    const bool matrix = t->dims[1] > 1 || t->dims[2] > 1 || t->dims[3] > 1;
    return matrix && t->name.n >= n && memcmp(t->name.p + t->name.n - n, "weight", n) == 0 &&
           !name_contains(t->name, "_norm.weight") && !name_contains(t->name, "ssm_conv1d") &&
           !name_contains(t->name, ".position_embd") && !name_contains(t->name, ".patch_embd") &&
           !name_contains(t->name, "ffn_gate_inp");
}

/* ---- choices ---- */

mote_status quant_mix_begin(quant_mix_state *s, const quant_mix *mix, const gguf *g,
                            mote_error *err)
{
    uint32_t heads = 0;
    int64_t kv = 0;
    bool found;
    *s = (quant_mix_state){.mix = mix, .tied = true, .heads_per_kv = 1};
    char key[GGUF_MAX_KEY];
    if (gguf_find(g, "clip.has_vision_encoder") ==
        NULL) { /* of clip llama-quantize reads no sizes */
        TRY(gguf_get_u32(g, gguf_arch_key(g, "block_count", key), &s->layers, NULL, err));
        TRY(gguf_get_u32(g, gguf_arch_key(g, "attention.head_count", key), &heads, NULL, err));
        TRY(gguf_get_u32(g, gguf_arch_key(g, "expert_count", key), &s->experts, &found, err));
    }
    const gguf_kv *kv_heads = gguf_find(g, gguf_arch_key(g, "attention.head_count_kv", key));
    if (kv_heads != NULL && gguf_int_at(kv_heads, 0, &kv) && kv > 0 && kv <= heads)
        s->heads_per_kv = heads / (uint32_t)kv;
    for (uint64_t i = 0; i < gguf_n_tensors(g); i++) {
        const str name = gguf_tensor_at(g, i)->name;
        s->n_v += name_is_v(name);
        s->tied = s->tied && !str_is(name, "output.weight");
    }
    return MOTE_OK;
}

/* The first and last eighth of n, and every third between them. */
static bool is_sensitive(uint32_t i, uint32_t n)
{
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

/* The first eighth of n. */
static bool is_first(uint32_t i, uint32_t n)
{
    return i < n / 8;
}

/* Mixes with fewer than three bits have rules of their own. */
static bool is_tiny(const quant_mix_state *s)
{
    switch (s->mix->file_type) {
    case MIX_IQ1_S:
    case MIX_IQ1_M:
    case MIX_IQ2_XXS:
    case MIX_IQ2_XS:
    case MIX_IQ2_S:
    case MIX_IQ2_M: return true;
    default: return false;
    }
}

/* llama-quantize has rules for Mixtral, which it recognises by the number of experts. */
static bool is_mixtral(const quant_mix_state *s)
{
    return s->experts == 8;
}

static quant_format choose_v(quant_mix_state *s)
{
    const uint32_t i = s->i_v++;
    const bool shared = s->heads_per_kv >= 4; /* K and V are small then */
    if (is_mixtral(s) && !is_tiny(s))
        return QUANT_Q8_0;
    switch (s->mix->file_type) {
    case MIX_IQ1_S:
    case MIX_IQ1_M:
    case MIX_IQ2_XXS:
    case MIX_IQ2_XS: return shared || s->experts >= 4 ? QUANT_Q4_K : QUANT_Q2_K;
    case MIX_IQ2_S:
    case MIX_IQ2_M: return shared || s->experts >= 4 ? QUANT_Q4_K : QUANT_IQ3_S;
    case MIX_IQ3_XXS: return shared ? QUANT_Q4_K : s->weighted ? QUANT_IQ3_XXS : QUANT_IQ3_S;
    case MIX_IQ3_XS:
    case MIX_IQ3_S: return shared ? QUANT_Q4_K : s->mix->base;
    case MIX_IQ3_M: return QUANT_Q4_K;
    case MIX_Q2_K: return shared ? QUANT_Q4_K : QUANT_Q3_K;
    case MIX_Q2_K_S: return shared ? QUANT_Q4_K : s->mix->base;
    case MIX_IQ4_NL:
    case MIX_IQ4_XS: return shared ? QUANT_Q5_K : s->mix->base;
    case MIX_Q3_K_M: return i < 2 ? QUANT_Q5_K : QUANT_Q4_K;
    case MIX_Q3_K_L: return QUANT_Q5_K;
    case MIX_Q4_K_S: return i < 4 ? QUANT_Q5_K : s->mix->base;
    case MIX_Q4_K_M:
    case MIX_Q5_K_M: return is_sensitive(i, s->n_v) ? QUANT_Q6_K : s->mix->base;
    default: return s->mix->base;
    }
}

/* The index of a tensor ffn_*, which *counted counts. A layer with experts has several such tensors;
 * they have the index of their layer. */
static uint32_t layer_of(const quant_mix_state *s, str name, uint32_t *counted)
{
    const uint32_t i = (*counted)++;
    return s->experts > 1 ? (uint32_t)gguf_block_of(name) : i;
}

static quant_format choose_down(quant_mix_state *s, str name)
{
    const uint32_t n = s->layers, counted = s->i_down, i = layer_of(s, name, &s->i_down);
    switch (s->mix->file_type) {
    case MIX_IQ1_S: /* these count the tensors also with experts */
    case MIX_IQ1_M:
    case MIX_IQ2_XXS:
    case MIX_IQ2_XS: return is_first(counted, n) ? QUANT_Q2_K : s->mix->base;
    case MIX_IQ2_S:
    case MIX_IQ2_M: return is_first(counted, n) ? QUANT_IQ3_S : s->mix->base;
    case MIX_IQ3_XXS:
        if (s->weighted)
            return s->mix->base;
        return is_first(i, n) ? QUANT_Q4_K : QUANT_Q3_K;
    case MIX_IQ3_M:
        return is_first(i, n) || (is_mixtral(s) && is_sensitive(i, n)) ? QUANT_Q4_K : s->mix->base;
    case MIX_Q2_K: return QUANT_Q3_K;
    case MIX_Q2_K_S: return is_first(i, n) ? QUANT_Q4_K : s->mix->base;
    case MIX_Q4_0: return s->weighted && is_first(i, n) ? QUANT_Q4_1 : s->mix->base;
    case MIX_Q5_0: return s->weighted && is_first(i, n) ? QUANT_Q5_1 : s->mix->base;
    case MIX_IQ4_NL:
    case MIX_IQ4_XS: return !s->weighted && is_first(i, n) ? QUANT_Q5_K : s->mix->base;
    case MIX_Q3_K_M: return i < n / 16 ? QUANT_Q5_K : QUANT_Q4_K;
    case MIX_Q3_K_L: return QUANT_Q5_K;
    case MIX_Q4_K_S: return is_first(i, n) ? QUANT_Q5_K : s->mix->base;
    case MIX_Q4_K_M:
    case MIX_Q5_K_M: return is_sensitive(i, n) ? QUANT_Q6_K : s->mix->base;
    default: return s->mix->base;
    }
}

/* attn_output of Mixtral. */
static quant_format choose_output_mixtral(const quant_mix_state *s)
{
    switch (s->mix->file_type) {
    case MIX_Q2_K:
    case MIX_IQ3_XS:
    case MIX_IQ3_XXS:
    case MIX_Q3_K_S:
    case MIX_Q3_K_M:
    case MIX_IQ4_NL:
    case MIX_Q4_K_S:
    case MIX_Q4_K_M:
    case MIX_IQ3_S:
    case MIX_IQ3_M:
    case MIX_IQ4_XS: return QUANT_Q5_K;
    default: return is_tiny(s) ? QUANT_Q5_K : s->mix->base;
    }
}

static quant_format choose_output(const quant_mix_state *s)
{
    if (is_mixtral(s))
        return choose_output_mixtral(s);
    switch (s->mix->file_type) {
    case MIX_IQ1_S:
    case MIX_IQ1_M: return QUANT_IQ2_XXS;
    case MIX_IQ2_S:
    case MIX_IQ2_M:
    case MIX_IQ3_XXS: return QUANT_IQ3_S;
    case MIX_IQ3_M: return QUANT_Q4_K;
    case MIX_Q2_K: return QUANT_Q3_K;
    case MIX_Q3_K_M: return QUANT_Q4_K;
    case MIX_Q3_K_L: return QUANT_Q5_K;
    default: return s->mix->base;
    }
}

/* attn_q and attn_k. */
static quant_format choose_q(const quant_mix_state *s, bool k)
{
    if (k && is_mixtral(s))
        return is_tiny(s) ? QUANT_Q4_K : QUANT_Q8_0;
    switch (s->mix->file_type) {
    case MIX_IQ3_XXS: return QUANT_IQ2_S;
    case MIX_IQ3_XS: return QUANT_IQ3_XXS;
    default: return s->mix->base;
    }
}

/* ffn_gate and ffn_up; *counted counts them. */
static quant_format choose_up(const quant_mix_state *s, str name, uint32_t *counted)
{
    const uint32_t n = s->layers, layer = layer_of(s, name, counted);
    const bool middle = layer >= n / 8 && layer < 7 * n / 8;
    return s->mix->file_type == MIX_IQ3_XS && middle ? QUANT_IQ3_XXS : s->mix->base;
}

/* The embedding of a model that also has an output matrix. */
static quant_format choose_embedding(const quant_mix_state *s)
{
    switch (s->mix->file_type) {
    case MIX_IQ1_S:
    case MIX_IQ1_M:
    case MIX_IQ2_XXS:
    case MIX_IQ2_XS: return QUANT_Q2_K;
    case MIX_IQ2_S:
    case MIX_IQ2_M:
    case MIX_IQ3_XXS: return QUANT_IQ3_S;
    default: return s->mix->base;
    }
}

/* The output matrix, or the embedding that takes its place. */
static quant_format choose_head(const quant_mix_state *s, uint64_t cols)
{
    const quant_format base = s->mix->base;
    if (base == QUANT_Q8_0 || cols % quant_get(base)->block_values != 0)
        return QUANT_Q8_0;
    switch (s->mix->file_type) {
    case MIX_IQ1_S:
    case MIX_IQ1_M:
    case MIX_IQ2_XXS:
    case MIX_IQ2_XS:
    case MIX_IQ2_S:
    case MIX_IQ2_M:
    case MIX_IQ3_XXS: return QUANT_Q5_K;
    default: return QUANT_Q6_K;
    }
}

quant_format quant_mix_fit(quant_format format, uint64_t cols)
{
    if (cols % quant_get(format)->block_values == 0)
        return format;
    quant_format other = QUANT_F16;
    switch (format) {
    case QUANT_Q2_K:
    case QUANT_Q3_K: other = QUANT_Q4_0; break;
    case QUANT_Q4_K: other = QUANT_Q5_0; break;
    case QUANT_Q5_K: other = QUANT_Q5_1; break;
    case QUANT_Q6_K: other = QUANT_Q8_0; break;
    case QUANT_IQ1_S:
    case QUANT_IQ1_M:
    case QUANT_IQ2_XXS:
    case QUANT_IQ2_XS:
    case QUANT_IQ2_S:
    case QUANT_IQ3_XXS:
    case QUANT_IQ3_S:
    case QUANT_IQ4_XS: other = QUANT_IQ4_NL; break;
    default: break;
    }
    return cols % quant_get(other)->block_values == 0 ? other : QUANT_F16;
}

quant_format quant_mix_choose(quant_mix_state *s, const gguf_tensor *t)
{
    const bool embedding = str_is(t->name, "token_embd.weight");
    quant_format format = s->mix->base;
    if (quant_get(format)->block_values == 1)
        return format;
    if (str_is(t->name, "output.weight") || (s->tied && embedding))
        format = choose_head(s, t->dims[0]);
    else if (embedding)
        format = choose_embedding(s);
    else if (name_is_v(t->name))
        format = choose_v(s);
    else if (name_contains(t->name, "attn_k.weight"))
        format = choose_q(s, true);
    else if (name_contains(t->name, "attn_q.weight"))
        format = choose_q(s, false);
    else if (name_contains(t->name, "attn_output.weight"))
        format = choose_output(s);
    else if (name_contains(t->name, "ffn_up"))
        format = choose_up(s, t->name, &s->i_up);
    else if (name_contains(t->name, "ffn_gate"))
        format = choose_up(s, t->name, &s->i_gate);
    else if (name_contains(t->name, "ffn_down"))
        format = choose_down(s, t->name);
    return quant_mix_fit(format, t->dims[0]);
}

bool quant_mix_needs_imatrix(const quant_mix *mix)
{
    switch (mix->base) {
    case QUANT_IQ1_S:
    case QUANT_IQ1_M:
    case QUANT_IQ2_XXS:
    case QUANT_IQ2_XS:
    case QUANT_IQ2_S:
    case QUANT_IQ3_XXS: return true;
    default: return mix->file_type == MIX_Q2_K_S || mix->file_type == MIX_IQ3_XS;
    }
}

bool quant_mix_needs_weights(const quant_mix *mix, const gguf_tensor *t, quant_format format)
{
    const bool spared = str_is(t->name, "token_embd.weight") || str_is(t->name, "output.weight");
    switch (format) {
    case QUANT_IQ1_S:
    case QUANT_IQ1_M:
    case QUANT_IQ2_XXS:
    case QUANT_IQ2_XS: return true; /* llama.cpp has no encoder without */
    case QUANT_IQ2_S:
    case QUANT_IQ3_XXS: return !spared;
    case QUANT_Q2_K: return mix->file_type == MIX_Q2_K_S && !spared;
    default: return false;
    }
}
