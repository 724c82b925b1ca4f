/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_config.h - config.json of a model of the Qwen 3.5 family: sizes, and the metadata that a
 * GGUF file has for them.
 */
#ifndef MOTE_CONVERT_MODEL_CONFIG_H
#define MOTE_CONVERT_MODEL_CONFIG_H

#include "gguf/gguf_writer.h"
#include "json/json.h"

typedef struct model_config {
    uint32_t layers;                /* without MTP */
    uint32_t mtp_layers;            /* 0 or 1; what config.json says */
    uint32_t ff;                    /* of a dense model; otherwise 0 */
    uint32_t experts, experts_used; /* 0: a dense model */
    uint32_t expert_ff, shared_ff;
    uint32_t embd, heads, kv_heads, head_dim, vocab;
    uint32_t key_heads, value_heads, state_dim, conv_kernel;
    uint32_t attention_interval;
    bool tied; /* no output matrix of its own */
    bool has_vision;
    uint32_t vision_blocks, vision_embd, vision_ff, vision_heads, vision_out;
    uint32_t vision_positions, vision_patch, vision_frames, vision_channels, vision_merge;
} model_config;

/* `config` is the root of config.json. MOTE_E_UNSUPPORTED: another architecture, with its name. */
mote_status model_config_read(model_config *out, const json_node *config, mote_error *err);

/* general.architecture: "qwen35", with experts "qwen35moe". It begins the keys of the text model. */
const char *model_config_architecture(const model_config *m);
/* True if layer i, from 0, is attention. */
bool model_config_is_attention(const model_config *m, uint32_t i);

/* Keys of the text model, from block_count to attention.value_length. */
mote_status model_config_put_text(const model_config *m, const json_node *config, uint32_t blocks,
                                  gguf_writer *w, mote_error *err);
/* The rest of them, which follow general.file_type: experts, MTP, DeltaNet, rotary dimensions. */
mote_status model_config_put_layers(const model_config *m, const json_node *config,
                                    uint32_t mtp_layers, gguf_writer *w, mote_error *err);
/* Keys of the vision encoder. `preprocessor` is the root of preprocessor_config.json. */
mote_status model_config_put_vision(const model_config *m, const json_node *config,
                                    const json_node *preprocessor, gguf_writer *w, mote_error *err);

#endif
