/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_copy.h - a copy of a model as one GGUF file, in which tensors can be replaced.
 *
 * A replaced tensor stays at its place in the file, followed by a gap; only its type in the header
 * and its data change. GGUF files may have gaps.
 */
#ifndef MOTE_CONVERT_MODEL_COPY_H
#define MOTE_CONVERT_MODEL_COPY_H

#include "gguf/gguf.h"

typedef struct model_copy model_copy;

/* Writes the copy. `g` must outlive it. The file is removed by model_copy_free. `progress` returns
 * false to stop with MOTE_E_CANCELED; may be NULL. */
mote_status model_copy_new(model_copy **out, const gguf *g, const char *path,
                           bool (*progress)(void *ctx, uint64_t done, uint64_t all), void *ctx,
                           mote_error *err);
void model_copy_free(model_copy *c);

/* The tensor gets another format, which must not need more bytes than that of the model. Its data
 * follow with model_copy_write. The file must not be open elsewhere. */
mote_status model_copy_set_format(model_copy *c, const gguf_tensor *t, quant_format format,
                                  mote_error *err);
mote_status model_copy_write(model_copy *c, const gguf_tensor *t, uint64_t at, const void *bytes,
                             size_t n, mote_error *err);
/* Format and data as in the model. */
mote_status model_copy_restore(model_copy *c, const gguf_tensor *t, mote_error *err);

#endif
