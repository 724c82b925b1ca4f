/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant_mix.h - mixes of weight formats, such as Q4_K_M: which format each tensor gets.
 *
 * Except for own mixes, the choices are those of llama-quantize. They depend on the names and shapes
 * of all tensors, so a mix is asked in the order of the output.
 */
#ifndef MOTE_CONVERT_QUANT_MIX_H
#define MOTE_CONVERT_QUANT_MIX_H

#include "gguf/gguf.h"

typedef struct quant_mix {
    const char *name;
    uint32_t file_type; /* general.file_type */
    quant_format base;  /* of a tensor without a rule */
    /* NULL: the rules of llama-quantize. Else the choices are measured (own_mix.h), and this is the
     * mix of the same size. */
    const char *reference;
} quant_mix;

/* By name, in any case; NULL: unknown. */
const quant_mix *quant_mix_find(const char *name);
/* All names, separated by blanks. */
const char *quant_mix_names(void);

/* What the choices depend on. */
typedef struct quant_mix_state {
    const quant_mix *mix;
    uint32_t layers; /* with MTP; 0: a vision encoder */
    uint32_t heads_per_kv;
    uint32_t experts;              /* 0: a dense model */
    bool tied;                     /* no output matrix */
    bool weighted;                 /* with an importance matrix; set it after quant_mix_begin */
    uint32_t n_v, i_v;             /* tensors like attn_v: all, and so far */
    uint32_t i_down, i_up, i_gate; /* ffn_* so far */
} quant_mix_state;

/* Reads what the choices depend on, of a text model or a vision encoder. */
mote_status quant_mix_begin(quant_mix_state *s, const quant_mix *mix, const gguf *g,
                            mote_error *err);
/* True: the tensor is a matrix that is quantised. Others keep their format. */
bool quant_mix_applies(const gguf_tensor *t);
/* The format of the next tensor. Call it for tensors with quant_mix_applies, in order. */
quant_format quant_mix_choose(quant_mix_state *s, const gguf_tensor *t);
/* True: some tensors of a usual model need weights of an importance matrix. */
bool quant_mix_needs_imatrix(const quant_mix *mix);
/* True: the format is too coarse for this tensor without weights of an importance matrix. */
bool quant_mix_needs_weights(const quant_mix *mix, const gguf_tensor *t, quant_format format);
/* The format itself, or another one if rows of `cols` values are not a whole number of its blocks. */
quant_format quant_mix_fit(quant_format format, uint64_t cols);

#endif
