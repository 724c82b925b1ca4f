/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor_rules.h - what becomes of each tensor of a checkpoint: its name in a GGUF file, its
 * expected shape, and how its values and their order change.
 *
 * One table has all of it. docs/convert.md explains the changes.
 */
#ifndef MOTE_CONVERT_TENSOR_RULES_H
#define MOTE_CONVERT_TENSOR_RULES_H

#include "convert/model_config.h"
#include "safetensors/safetensors.h"

typedef enum tensor_group {
    GROUP_TEXT,      /* once in the model */
    GROUP_LAYER,     /* in each layer, and in the MTP block */
    GROUP_DENSE,     /* the same of a dense model */
    GROUP_EXPERTS,   /* the same of a model with experts */
    GROUP_EXPERT,    /* the same, one tensor per expert: they become one tensor */
    GROUP_ATTENTION, /* in each attention layer, and in the MTP block */
    GROUP_DELTANET,  /* in each DeltaNet layer */
    GROUP_MTP,       /* once in the MTP block */
    GROUP_VISION,    /* once in the vision encoder */
    GROUP_VISION_BLOCK
} tensor_group;

typedef enum tensor_change {
    CHANGE_NONE,
    CHANGE_ADD_ONE, /* RMSNorm weights are stored as w, used as 1 + w */
    CHANGE_DECAY    /* A_log is used as -exp(A_log) */
} tensor_change;

/* Value heads are grouped by key head in a checkpoint and tiled in GGUF. */
typedef enum tensor_order {
    ORDER_SAME,
    ORDER_V_ROWS,    /* the rows of V after those of Q and K; state_dim rows per head */
    ORDER_HEAD_ROWS, /* all rows; state_dim rows per head */
    ORDER_HEADS,     /* all rows; one row per head */
    ORDER_COLUMNS,   /* all columns; state_dim columns per head */
    ORDER_FRAMES,    /* [n][2][k] to two tensors [n][k] */
    ORDER_GATE_UP    /* [experts][2 n][k] to two tensors [experts][n][k] */
} tensor_order;

typedef struct tensor_rule {
    tensor_group group;
    const char *source;                        /* without the prefix of the group */
    const char *target;                        /* likewise */
    unsigned char shape[SAFETENSORS_MAX_DIMS]; /* of the source; codes of tensor_rules.c, 0 ends */
    tensor_change change;
    tensor_order order;
} tensor_rule;

/* A tensor of the checkpoint and its rule. */
typedef struct tensor_match {
    const tensor_rule *rule;
    uint32_t index;  /* of the block of the GGUF file */
    uint32_t expert; /* of GROUP_EXPERT */
} tensor_match;

extern const tensor_rule tensor_rules[];
extern const uint32_t n_tensor_rules;

/* False: no rule knows the name. */
bool tensor_rule_find(tensor_match *out, const model_config *m, str name);
/* True if a complete model has the tensor in block `index` (a layer, or a vision block). Of experts
 * it is one of two forms, with the same targets. */
bool tensor_rule_applies(const tensor_rule *rule, const model_config *m, uint32_t index);
/* MOTE_E_FORMAT: the tensor has another shape than config.json says. */
mote_status tensor_rule_check_shape(const tensor_match *match, const model_config *m,
                                    const safetensor *t, mote_error *err);
/* The name in a GGUF file; `out` has GGUF_MAX_KEY bytes. */
void tensor_rule_target(char *out, const tensor_match *match);
/* The name in a checkpoint, for messages. */
void tensor_rule_source(char *out, const tensor_rule *rule, const model_config *m, uint32_t index);
bool tensor_rule_is_vision(const tensor_rule *rule);
/* True if the values are float32 in every GGUF file. */
bool tensor_rule_is_f32(const tensor_rule *rule);

#endif
