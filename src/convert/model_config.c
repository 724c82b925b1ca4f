/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_config.c - see model_config.h. Keys, their types and their order are those of llama.cpp's
 * converter, so that a file of the same model has the same header.
 */
#include "convert/model_config.h"

#include <math.h>
#include <stdio.h>

enum { MAX_SIZE = 1 << 24, MAX_LAYERS = 512, MAX_MODALITY_BLOCKS = 256 };

/* A value of text_config, or of the root as text-only files have it. */
static const json_node *text_value(const json_node *config, const char *name)
{
    const json_node *value = json_node_get(json_node_get(config, "text_config"), name);
    return value != NULL ? value : json_node_get(config, name);
}

static const json_node *rope_value(const json_node *config, const char *name)
{
    const json_node *rope = text_value(config, "rope_parameters");
    if (!json_node_is(rope, JSON_IS_OBJECT))
        rope = text_value(config, "rope_scaling");
    const json_node *value = json_node_get(rope, name);
    return value != NULL ? value : text_value(config, name);
}

typedef struct field {
    const char *name;
    uint32_t *out;
    uint32_t max;
    uint32_t absent; /* value without the field; 0: it is required */
} field;

static mote_status field_read(const field *f, const json_node *value, mote_error *err)
{
    int64_t n = 0;
    if (value == NULL || json_node_is(value, JSON_IS_NULL)) {
        if (f->absent == 0)
            return err_set(err, MOTE_E_FORMAT, "config.json: %s is missing", f->name);
        *f->out = f->absent;
        return MOTE_OK;
    }
    if (!json_node_int64(value, &n) || n < 1 || n > f->max)
        return err_set(err, MOTE_E_FORMAT, "config.json: %s must be 1 to %u, got %.*s", f->name,
                       f->max, STR_ARG(json_node_text(value)));
    *f->out = (uint32_t)n;
    return MOTE_OK;
}

/* ---- architecture ---- */

static mote_status config_check_architecture(const json_node *config, bool *experts,
                                             mote_error *err)
{
    const str name = json_node_text(json_node_first(json_node_get(config, "architectures")));
    const bool dense =
        str_is(name, "Qwen3_5ForConditionalGeneration") || str_is(name, "Qwen3_5ForCausalLM");
    *experts =
        str_is(name, "Qwen3_5MoeForConditionalGeneration") || str_is(name, "Qwen3_5MoeForCausalLM");
    if (!dense && !*experts)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "config.json: architecture '%.*s' is not a Qwen 3.5 model; "
                       "convert_hf_to_gguf.py of llama.cpp converts other models",
                       STR_ARG(name));
    const json_node *quantised = json_node_get(config, "quantization_config");
    if (json_node_is(quantised, JSON_IS_OBJECT))
        return err_set(
            err, MOTE_E_UNSUPPORTED,
            "config.json: the weights are quantised (%.*s); convert the unquantised model",
            STR_ARG(json_node_text(json_node_get(quantised, "quant_method"))));
    return MOTE_OK;
}

/* ---- sizes ---- */

static mote_status config_read_feed_forward(model_config *m, const json_node *config, bool experts,
                                            mote_error *err)
{
    const field dense[] = {{"intermediate_size", &m->ff, MAX_SIZE, 0}};
    const field sparse[] = {
        {"num_experts", &m->experts, MAX_SIZE, 0},
        {"num_experts_per_tok", &m->experts_used, MAX_SIZE, 0},
        {"moe_intermediate_size", &m->expert_ff, MAX_SIZE, 0},
        {"shared_expert_intermediate_size", &m->shared_ff, MAX_SIZE, 0},
    };
    const field *fields = experts ? sparse : dense;
    const size_t n = experts ? sizeof sparse / sizeof *sparse : 1;
    for (size_t i = 0; i < n; i++)
        TRY(field_read(&fields[i], text_value(config, fields[i].name), err));
    return MOTE_OK;
}

static mote_status config_read_text(model_config *m, const json_node *config, mote_error *err)
{
    uint32_t value_dim = 0;
    const field fields[] = {
        {"num_hidden_layers", &m->layers, MAX_LAYERS, 0},
        {"hidden_size", &m->embd, MAX_SIZE, 0},
        {"num_attention_heads", &m->heads, MAX_SIZE, 0},
        {"num_key_value_heads", &m->kv_heads, MAX_SIZE, 0},
        {"head_dim", &m->head_dim, MAX_SIZE, 0},
        {"vocab_size", &m->vocab, MAX_SIZE, 0},
        {"linear_num_key_heads", &m->key_heads, MAX_SIZE, 0},
        {"linear_num_value_heads", &m->value_heads, MAX_SIZE, 0},
        {"linear_key_head_dim", &m->state_dim, MAX_SIZE, 0},
        {"linear_value_head_dim", &value_dim, MAX_SIZE, 0},
        {"linear_conv_kernel_dim", &m->conv_kernel, MAX_SIZE, 0},
        {"full_attention_interval", &m->attention_interval, MAX_LAYERS, 4},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        TRY(field_read(&fields[i], text_value(config, fields[i].name), err));
    if (value_dim != m->state_dim || m->value_heads % m->key_heads != 0)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "config.json: linear heads of %u and %u values, %u key and %u value heads; "
                       "sizes must be equal and the second count a multiple of the first",
                       m->state_dim, value_dim, m->key_heads, m->value_heads);
    int64_t mtp = 0;
    json_node_int64(text_value(config, "mtp_num_hidden_layers"), &mtp);
    if (mtp < 0 || mtp > 1)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "config.json: mtp_num_hidden_layers is %lld; supported: 0 or 1",
                       (long long)mtp);
    m->mtp_layers = (uint32_t)mtp;
    const json_node *tied = json_node_get(config, "tie_word_embeddings");
    m->tied = json_node_truth(tied != NULL ? tied : text_value(config, "tie_word_embeddings"));
    return MOTE_OK;
}

static mote_status config_read_vision(model_config *m, const json_node *vision, mote_error *err)
{
    const field fields[] = {
        {"depth", &m->vision_blocks, MAX_MODALITY_BLOCKS, 0},
        {"hidden_size", &m->vision_embd, MAX_SIZE, 0},
        {"intermediate_size", &m->vision_ff, MAX_SIZE, 0},
        {"num_heads", &m->vision_heads, MAX_SIZE, 0},
        {"out_hidden_size", &m->vision_out, MAX_SIZE, 0},
        {"num_position_embeddings", &m->vision_positions, MAX_SIZE, 2304},
        {"patch_size", &m->vision_patch, 1024, 16},
        {"temporal_patch_size", &m->vision_frames, 64, 2},
        {"in_channels", &m->vision_channels, 64, 3},
        {"spatial_merge_size", &m->vision_merge, 64, 2},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        TRY(field_read(&fields[i], json_node_get(vision, fields[i].name), err));
    if (m->vision_frames != 2)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "config.json: temporal_patch_size is %u; supported: 2", m->vision_frames);
    if (json_node_size(json_node_get(vision, "deepstack_visual_indexes")) > 0)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "config.json: deepstack_visual_indexes is not empty; the Qwen 3.5 family "
                       "has no deepstack layers");
    m->has_vision = true;
    return MOTE_OK;
}

mote_status model_config_read(model_config *out, const json_node *config, mote_error *err)
{
    *out = (model_config){0};
    bool experts;
    TRY(config_check_architecture(config, &experts, err));
    TRY(config_read_text(out, config, err));
    TRY(config_read_feed_forward(out, config, experts, err));
    const json_node *vision = json_node_get(config, "vision_config");
    return json_node_is(vision, JSON_IS_OBJECT) ? config_read_vision(out, vision, err) : MOTE_OK;
}

const char *model_config_architecture(const model_config *m)
{
    return m->experts > 0 ? "qwen35moe" : "qwen35";
}

bool model_config_is_attention(const model_config *m, uint32_t i)
{
    return (i + 1) % m->attention_interval == 0;
}

/* ---- metadata ---- */

static float number_of(const json_node *node, double absent)
{
    return (float)(json_node_is(node, JSON_IS_NUMBER) ? json_node_double(node) : absent);
}

/* A key of the text model. */
static const char *text_key(const model_config *m, const char *name, char key[GGUF_MAX_KEY])
{
    snprintf(key, GGUF_MAX_KEY, "%s.%s", model_config_architecture(m), name);
    return key;
}

static void put_u32(const model_config *m, gguf_writer *w, const char *name, uint32_t value)
{
    char key[GGUF_MAX_KEY];
    gguf_writer_u32(w, text_key(m, name, key), value);
}

static void put_f32(const model_config *m, gguf_writer *w, const char *name, float value)
{
    char key[GGUF_MAX_KEY];
    gguf_writer_f32(w, text_key(m, name, key), value);
}

static void put_number(const model_config *m, gguf_writer *w, const char *name,
                       const json_node *node)
{
    if (json_node_is(node, JSON_IS_NUMBER))
        put_f32(m, w, name, number_of(node, 0));
}

/* YaRN, if config.json has it. */
static mote_status put_rope_scaling(const model_config *m, const json_node *config, gguf_writer *w,
                                    mote_error *err)
{
    const str type = json_node_text(rope_value(config, "rope_type"));
    const json_node *factor = rope_value(config, "factor");
    int64_t original = 0;
    char key[GGUF_MAX_KEY];
    if (type.n == 0 || str_is(type, "default") || !json_node_is(factor, JSON_IS_NUMBER))
        return MOTE_OK;
    if (!str_is(type, "yarn"))
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "config.json: rope_type '%.*s' is not supported; supported: default, yarn",
                       STR_ARG(type));
    if (!json_node_int64(rope_value(config, "original_max_position_embeddings"), &original) ||
        original < 1 || original > UINT32_MAX)
        return err_set(err, MOTE_E_FORMAT,
                       "config.json: rope_type yarn needs original_max_position_embeddings");
    gguf_writer_str(w, text_key(m, "rope.scaling.type", key), type);
    put_number(m, w, "rope.scaling.factor", factor);
    put_u32(m, w, "rope.scaling.original_context_length", (uint32_t)original);
    put_number(m, w, "rope.scaling.yarn_ext_factor", rope_value(config, "extrapolation_factor"));
    const json_node *attention = rope_value(config, "attention_factor");
    put_number(m, w, "rope.scaling.yarn_attn_factor",
               attention != NULL ? attention : rope_value(config, "attn_factor"));
    put_number(m, w, "rope.scaling.yarn_beta_fast", rope_value(config, "beta_fast"));
    put_number(m, w, "rope.scaling.yarn_beta_slow", rope_value(config, "beta_slow"));
    return MOTE_OK;
}

/* The three sections of the rotary dimensions and a zero. False: not three or four sizes. */
static bool read_sections(const json_node *config, int32_t out[4])
{
    const json_node *sections = rope_value(config, "mrope_section");
    const json_node *s = json_node_first(sections);
    if (sections == NULL || json_node_is(sections, JSON_IS_NULL))
        return true;
    if (!json_node_is(sections, JSON_IS_ARRAY) || json_node_size(sections) < 3 ||
        json_node_size(sections) > 4)
        return false;
    for (size_t i = 0; i < 4; i++) {
        int64_t n = 0;
        if (s != NULL && (!json_node_int64(s, &n) || n < 0 || n > 1024))
            return false;
        out[i] = (int32_t)n;
        s = s != NULL ? json_node_next(s) : NULL;
    }
    return true;
}

mote_status model_config_put_text(const model_config *m, const json_node *config, uint32_t blocks,
                                  gguf_writer *w, mote_error *err)
{
    uint32_t context = 0;
    char key[GGUF_MAX_KEY];
    int32_t sections[4] = {11, 11, 10, 0};
    const field limit = {"max_position_embeddings", &context, INT32_MAX, 0};
    TRY(field_read(&limit, text_value(config, limit.name), err));
    put_u32(m, w, "block_count", blocks);
    put_u32(m, w, "context_length", context);
    put_u32(m, w, "embedding_length", m->embd);
    if (m->experts == 0)
        put_u32(m, w, "feed_forward_length", m->ff);
    put_u32(m, w, "attention.head_count", m->heads);
    put_u32(m, w, "attention.head_count_kv", m->kv_heads);
    TRY(put_rope_scaling(m, config, w, err));
    if (!read_sections(config, sections))
        return err_set(err, MOTE_E_FORMAT, "config.json: mrope_section must be three sizes");
    gguf_writer_array(w, text_key(m, "rope.dimension_sections", key), GGUF_I32, sections, 4);
    put_f32(m, w, "rope.freq_base", number_of(rope_value(config, "rope_theta"), 1e7));
    put_f32(m, w, "attention.layer_norm_rms_epsilon",
            number_of(text_value(config, "rms_norm_eps"), 1e-6));
    if (m->experts > 0) {
        put_u32(m, w, "expert_count", m->experts);
        put_u32(m, w, "expert_used_count", m->experts_used);
    }
    put_u32(m, w, "attention.key_length", m->head_dim);
    put_u32(m, w, "attention.value_length", m->head_dim);
    return MOTE_OK;
}

mote_status model_config_put_layers(const model_config *m, const json_node *config,
                                    uint32_t mtp_layers, gguf_writer *w, mote_error *err)
{
    const json_node *part = rope_value(config, "partial_rotary_factor");
    const double factor = json_node_is(part, JSON_IS_NUMBER) ? json_node_double(part) : 0.25;
    if (!(factor > 0 && factor <= 1))
        return err_set(err, MOTE_E_FORMAT,
                       "config.json: partial_rotary_factor must be above 0 and at most 1, got %g",
                       factor);
    if (m->experts > 0) {
        put_u32(m, w, "expert_feed_forward_length", m->expert_ff);
        put_u32(m, w, "expert_shared_feed_forward_length", m->shared_ff);
    }
    if (mtp_layers > 0)
        put_u32(m, w, "nextn_predict_layers", mtp_layers);
    put_u32(m, w, "ssm.conv_kernel", m->conv_kernel);
    put_u32(m, w, "ssm.state_size", m->state_dim);
    put_u32(m, w, "ssm.group_count", m->key_heads);
    put_u32(m, w, "ssm.time_step_rank", m->value_heads);
    put_u32(m, w, "ssm.inner_size", m->value_heads * m->state_dim);
    put_u32(m, w, "full_attention_interval", m->attention_interval);
    put_u32(m, w, "rope.dimension_count", (uint32_t)(m->head_dim * factor));
    return MOTE_OK;
}

static mote_status put_three(gguf_writer *w, const char *key, const json_node *list,
                             const char *name, mote_error *err)
{
    float values[3];
    size_t n = 0;
    for (const json_node *v = json_node_first(list); v != NULL && n < 3; v = json_node_next(v))
        if (json_node_is(v, JSON_IS_NUMBER))
            values[n++] = (float)json_node_double(v);
    if (n != 3 || json_node_size(list) != 3)
        return err_set(err, MOTE_E_FORMAT,
                       "preprocessor_config.json: %s must be three numbers; without the file use "
                       "--no-vision",
                       name);
    gguf_writer_array(w, key, GGUF_F32, values, 3);
    return MOTE_OK;
}

mote_status model_config_put_vision(const model_config *m, const json_node *config,
                                    const json_node *preprocessor, gguf_writer *w, mote_error *err)
{
    static const unsigned char no_deepstack[MAX_MODALITY_BLOCKS];
    gguf_writer_bool(w, "clip.has_vision_encoder", true);
    gguf_writer_u32(w, "clip.vision.projection_dim", m->embd);
    gguf_writer_u32(w, "clip.vision.image_size",
                    (uint32_t)(sqrt((double)m->vision_positions) * m->vision_patch));
    gguf_writer_u32(w, "clip.vision.patch_size", m->vision_patch);
    gguf_writer_u32(w, "clip.vision.embedding_length", m->vision_embd);
    gguf_writer_u32(w, "clip.vision.feed_forward_length", m->vision_ff);
    gguf_writer_u32(w, "clip.vision.block_count", m->vision_blocks);
    gguf_writer_u32(w, "clip.vision.attention.head_count", m->vision_heads);
    TRY(put_three(w, "clip.vision.image_mean", json_node_get(preprocessor, "image_mean"),
                  "image_mean", err));
    TRY(put_three(w, "clip.vision.image_std", json_node_get(preprocessor, "image_std"), "image_std",
                  err));
    gguf_writer_str(w, "clip.projector_type", str_of("qwen3vl_merger"));
    gguf_writer_bool(w, "clip.use_gelu", true);
    gguf_writer_u32(w, "clip.vision.spatial_merge_size", m->vision_merge);
    gguf_writer_f32(w, "clip.vision.attention.layer_norm_epsilon",
                    number_of(text_value(config, "rms_norm_eps"), 1e-6));
    gguf_writer_array(w, "clip.vision.is_deepstack_layers", GGUF_BOOL, no_deepstack,
                      m->vision_blocks);
    return MOTE_OK;
}
