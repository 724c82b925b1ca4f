/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selftest_model.h - the built-in models of `mote selftest`: small GGUF files made in memory.
 *
 * Two layers, one DeltaNet and one attention layer, 320 rows of vocabulary, tied head. All weights
 * come from Philox, so a model is the same on every machine, and its logits can be stored. The
 * formats of its matrices and the layers that contribute to the result are options: a difference in
 * one model and not in another tells which kernels are wrong.
 */
#ifndef MOTE_CLI_MACHINE_SELFTEST_MODEL_H
#define MOTE_CLI_MACHINE_SELFTEST_MODEL_H

#include "base/err.h"
#include "quant/quant.h"

#include <mote.h>

enum {
    SELFTEST_VOCABULARY = 320, /* rows of logits */
    SELFTEST_TOKENS = 256,     /* ids that the tests use: one per byte */
    SELFTEST_MIXED = QUANT_N_FORMATS
};

typedef struct selftest_shape {
    unsigned format; /* quant_format of all matrices; SELFTEST_MIXED: another one for each */
    /* False: the output matrix of the layer is zero, so the layer adds nothing. */
    bool attention, deltanet;
} selftest_shape;

/* Writes the model to a file without a name and opens it. */
mote_status selftest_model_open(mote_model **out, const selftest_shape *shape, mote_isa level,
                                mote_error *err);

#endif
