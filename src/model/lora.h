/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lora.h - LoRA adapters: two small matrices A and B for some of the matrices of a model.
 *
 * Two kinds of files are read: GGUF adapters as llama.cpp's converter writes them (lora_gguf.c),
 * and directories of PEFT (lora_peft.c). Both are untrusted input. Both become a list of
 * lora_source, and lora_bind checks each one against the matrix of the model that it names. The
 * result has its own memory; the files are not needed afterwards.
 */
#ifndef MOTE_MODEL_LORA_H
#define MOTE_MODEL_LORA_H

#include "gguf/gguf.h"
#include "model/weights.h"
#include "safetensors/safetensors.h"

enum { LORA_MAX_RANK = 1024, LORA_NAME_BYTES = 96, LORA_MODULE_BYTES = SAFETENSORS_MAX_NAME + 1 };

/* ---- the matrices that an adapter may change ---- */

typedef enum lora_place {
    LORA_FFN,       /* in every layer of a model without experts */
    LORA_ATTENTION, /* in attention layers */
    LORA_DELTANET,  /* in DeltaNet layers */
    LORA_MTP,       /* once, in the block after the layers */
    LORA_MODEL      /* once */
} lora_place;

/* Value heads are grouped by key head in a checkpoint and tiled in GGUF. PEFT has the order of the
 * checkpoint. */
typedef enum lora_order {
    LORA_SAME,
    LORA_V_ROWS,    /* the outputs of V after those of Q and K, one head at a time */
    LORA_HEAD_ROWS, /* all outputs, one head at a time */
    LORA_HEADS,     /* one output per head */
    LORA_COLUMNS    /* all inputs, one head at a time */
} lora_order;

typedef struct lora_rule {
    const char *gguf, *peft; /* names without the prefix of the layer and ".weight" */
    lora_place place;
    lora_order order;
    size_t offset; /* of the nn_matrix: in model_layer, draft_head or weights, as `place` says */
} lora_rule;

extern const lora_rule lora_rules[];
extern const size_t n_lora_rules;

/* The matrix that a rule means in block `block` (n_layers: the MTP block); NULL: the model has none
 * there. */
const nn_matrix *lora_find_matrix(const weights *w, const hparams *hp, const lora_rule *rule,
                                  uint32_t block);

/* The rule and block of a tensor name of GGUF without ".weight", such as "blk.3.attn_q"; NULL: no
 * rule. */
const lora_rule *lora_rule_of_tensor(str name, const hparams *hp, uint32_t *block);

/* ---- sources ---- */

typedef struct lora_values {
    const unsigned char *data; /* [rows][cols] */
    const quant_info *format;
    uint64_t rows, cols;
} lora_values;

/* The adapter of one matrix, in a file. */
typedef struct lora_source {
    char name[LORA_MODULE_BYTES]; /* in the file, for messages */
    const lora_rule *rule;
    uint32_t block;
    bool has_a, has_b;
    lora_values a, b;
    bool reorder; /* apply rule->order */
    bool halves;  /* B is stored in f16, times 2^shift: decided once, because the file may change */
    int shift;
    double alpha; /* s = alpha / rank, or alpha / sqrt(rank) */
    bool root;
} lora_source;

typedef struct lora_sources {
    lora_source *at;
    uint32_t n, room;
    char name[LORA_NAME_BYTES]; /* of the adapter; may be empty */
} lora_sources;

/* The entry of a matrix: an existing one, or a new one. */
mote_status lora_sources_entry(lora_sources *s, const char *name, const lora_rule *rule,
                               uint32_t block, lora_source **out, mote_error *err);
void lora_sources_fini(lora_sources *s);

/* Views of the tensors of a GGUF adapter. MOTE_E_UNSUPPORTED, MOTE_E_FORMAT, MOTE_E_MISMATCH: with
 * the name of the tensor or key. */
mote_status lora_read_gguf(lora_sources *out, const gguf *g, const hparams *hp, mote_error *err);
/* The same for PEFT: the text of adapter_config.json, and adapter_model.safetensors. */
mote_status lora_read_peft(lora_sources *out, str config, const unsigned char *tensors,
                           uint64_t n_tensors, const hparams *hp, mote_error *err);

/* ---- adapters ---- */

typedef struct lora {
    nn_lora_pair *pairs; /* [n_pairs], by nn_matrix.id */
    uint32_t n_pairs;
    uint32_t n_adapted; /* matrices */
    uint32_t rank;      /* the largest */
    uint64_t parameters;
    uint64_t bytes; /* of `memory` */
    void *memory;
} lora;

/* Checks all shapes and copies all values. */
mote_status lora_bind(lora *out, const lora_sources *s, const weights *w, const hparams *hp,
                      const kern_table *k, mote_error *err);
void lora_fini(lora *l);

/* Adds s B A to rows first .. first + n - 1 of a matrix with this pair: [n][cols]. */
void lora_pair_merge(const nn_lora_pair *pair, float scale, size_t first, size_t n, size_t rows,
                     float *values);

#endif
