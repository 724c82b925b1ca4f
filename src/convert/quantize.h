/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantize.h - a GGUF file in BF16, F16 or F32 to one in other weight formats.
 *
 * A text model or a vision encoder (mmproj). The file equals the one of llama-quantize, byte for byte,
 * with any number of threads. Memory and interruption as in convert.h.
 */
#ifndef MOTE_CONVERT_QUANTIZE_H
#define MOTE_CONVERT_QUANTIZE_H

#include "convert/imatrix.h"
#include "convert/own_mix.h"
#include "convert/quant_mix.h"
#include "convert/tensor_stream.h"
#include "convert/tensor_types.h"

typedef struct quantize_options {
    const char *out; /* NULL: only report the choices */
    const quant_mix *mix;
    tensor_types *types;      /* formats of single tensors; NULL: none */
    const imatrix *imatrix;   /* NULL: none */
    const char *imatrix_path; /* its file; the output names it */
    uint32_t threads;
    mote_isa isa;                 /* as encode_find */
    stream_progress_fn *progress; /* may be NULL */
    /* Of a mix with measured choices: */
    const char *copy;               /* path of a copy of the model, which is removed afterwards */
    str text;                       /* to measure with */
    const char *text_name;          /* for the metadata */
    own_mix_progress_fn *measuring; /* may be NULL */
    /* The choice for a tensor, before any data are written. May be NULL. */
    void (*chosen)(void *ctx, const gguf_tensor *t, quant_format format, uint64_t bytes);
    /* A tensor that is quantised without weights, although there is an importance matrix. May be
     * NULL. */
    void (*unweighted)(void *ctx, const gguf_tensor *t);
    void *ctx;
} quantize_options;

/* MOTE_E_ARG: an expression of `types` matches no matrix. MOTE_E_UNSUPPORTED: another architecture, a
 * tensor that is quantised already, or a value that its format cannot hold. MOTE_E_FORMAT: also a
 * value that is not finite. MOTE_E_MISMATCH: the importance matrix is of another model, or a tensor
 * needs one and has none. */
mote_status quantize_file(const char *path, const quantize_options *o, mote_error *err);

#endif
