/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_stream.c - see tensor_stream.h. */
#include "convert/tensor_stream.h"

#include "base/mem.h"

typedef struct stream {
    gguf_writer *writer;
    const stream_source *source;
    stream_progress_fn *progress;
    void *ctx;
    unsigned char *buffer;
    uint64_t room;
    uint64_t done, all;
} stream;

/* A buffer for the longest row, at least. */
static mote_status stream_reserve(stream *s, mote_error *err)
{
    s->room = STREAM_BUFFER_BYTES;
    for (uint32_t i = 0; i < s->source->n; i++) {
        stream_tensor t;
        s->source->describe(s->source->ctx, i, &t);
        s->room = t.row_bytes > s->room ? t.row_bytes : s->room;
    }
    s->buffer = mem_new((size_t)s->room, 1);
    return s->buffer != NULL ? MOTE_OK
                             : err_set(err, MOTE_E_MEMORY, "out of memory: buffer of %llu bytes",
                                       (unsigned long long)s->room);
}

static mote_status stream_tensor_write(stream *s, uint32_t i, mote_error *err)
{
    stream_tensor t;
    s->source->describe(s->source->ctx, i, &t);
    const uint64_t at_once = s->room / t.row_bytes;
    for (uint64_t row = 0; row < t.rows; row += at_once) {
        const uint64_t n = t.rows - row < at_once ? t.rows - row : at_once;
        TRY(s->source->fill(s->source->ctx, i, row, n, s->buffer, err));
        TRY(gguf_writer_data(s->writer, s->buffer, (size_t)(n * t.row_bytes), err));
        s->done += n * t.row_bytes;
        if (s->progress != NULL && !s->progress(s->ctx, i, t.name, s->done, s->all))
            return err_set(err, MOTE_E_CANCELED, "stopped at tensor %u of %u, '%.200s'", i + 1,
                           s->source->n, t.name);
    }
    return MOTE_OK;
}

mote_status tensor_stream_write(gguf_writer *w, const stream_source *source, uint32_t first,
                                stream_progress_fn *progress, void *ctx, mote_error *err)
{
    stream s = {.writer = w,
                .source = source,
                .progress = progress,
                .ctx = ctx,
                .all = gguf_writer_data_bytes(w)};
    for (uint32_t i = 0; i < first; i++)
        s.done += gguf_writer_tensor_bytes(w, i);
    mote_status status = stream_reserve(&s, err);
    for (uint32_t i = first; i < source->n && status == MOTE_OK; i++)
        status = stream_tensor_write(&s, i, err);
    mem_free(s.buffer);
    return status;
}

void tensor_stream_end(gguf_writer *w, mote_status status)
{
    if (w != NULL && (status == MOTE_E_FORMAT || status == MOTE_E_UNSUPPORTED))
        gguf_writer_discard(w);
    gguf_writer_free(w);
}
