/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor_stream.h - writes tensors through a buffer of fixed size, whatever the size of the model.
 *
 * A source fills the rows of a tensor in the format of the output file. Converting and quantising
 * differ in their sources only.
 */
#ifndef MOTE_CONVERT_TENSOR_STREAM_H
#define MOTE_CONVERT_TENSOR_STREAM_H

#include "gguf/gguf_writer.h"

/* At least one row is in the buffer, so a longer row makes it larger. */
enum { STREAM_BUFFER_BYTES = 16 << 20 };

/* One tensor of the output. */
typedef struct stream_tensor {
    const char *name;
    uint64_t rows;
    uint64_t row_bytes; /* in the output */
} stream_tensor;

typedef struct stream_source {
    void *ctx;
    uint32_t n;
    void (*describe)(void *ctx, uint32_t i, stream_tensor *out);
    /* Writes rows [first, first + n) of tensor i to `out`. */
    mote_status (*fill)(void *ctx, uint32_t i, uint64_t first, uint64_t n, void *out,
                        mote_error *err);
} stream_source;

/* Called after each buffer. False: stop; the partial file stays. */
typedef bool stream_progress_fn(void *ctx, uint32_t tensor, const char *name, uint64_t done_bytes,
                                uint64_t all_bytes);

/* Writes tensors from number `first` to the end. MOTE_E_CANCELED: `progress` returned false. */
mote_status tensor_stream_write(gguf_writer *w, const stream_source *source, uint32_t first,
                                stream_progress_fn *progress, void *ctx, mote_error *err);

/* Frees a writer after a run that ended with `status`. Removes its partial file if the same run
 * would fail again: the source or the options are at fault. NULL is allowed. */
void tensor_stream_end(gguf_writer *w, mote_status status);

#endif
