/* SPDX-License-Identifier: Apache-2.0 */
/* quantize.c - see quantize.h. */
#include "convert/quantize.h"

#include "base/mem.h"
#include "base/pool.h"
#include "convert/encode.h"
#include "gguf/gguf_files.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { QUANTIZATION_VERSION = 2, ROWS_PER_TASK = 8 };

/* Every format holds values up to this: the largest f16, the type of scales. */
#define HELD_BY_ALL 65504.0f

typedef struct quant_tensor {
    const gguf_tensor *source;
    quant_format format;
    char name[GGUF_MAX_KEY + 1];
    uint64_t rows, row_bytes;
} quant_tensor;

typedef struct quantization {
    const quantize_options *options;
    gguf_files files;
    gguf_writer *writer;
    quant_tensor *tensors;
    uint32_t n;
    pool *threads;
    float *scratch; /* [pool_size][cols], one row for each thread */
    uint64_t cols;  /* of the longest row */
} quantization;

/* Work of one call of fill. */
typedef struct encode_job {
    const quantization *q;
    const quant_tensor *tensor;
    encode_fn *encode;
    uint64_t first, n;
    unsigned char *out;
    _Atomic uint64_t bad_row; /* the first one that cannot be encoded; UINT64_MAX: none */
} encode_job;

/* ---- choices ---- */

static mote_status quantization_check(const gguf *g, mote_error *err)
{
    str name;
    TRY(gguf_get_str(g, "general.architecture", &name, NULL, err));
    if (!str_is(name, "qwen35"))
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "architecture '%.*s' is not a dense Qwen 3.5 model; llama-quantize of "
                       "llama.cpp quantises it",
                       STR_ARG(name));
    return MOTE_OK;
}

/* By block, then by name: the order of llama-quantize. */
static int by_block_and_name(const void *a, const void *b)
{
    const gguf_tensor *x = ((const quant_tensor *)a)->source;
    const gguf_tensor *y = ((const quant_tensor *)b)->source;
    const int64_t i = gguf_block_of(x->name), k = gguf_block_of(y->name);
    if (i != k)
        return i < k ? -1 : 1;
    return strcmp(((const quant_tensor *)a)->name, ((const quant_tensor *)b)->name);
}

static mote_status tensor_choose(quant_tensor *t, quant_mix_state *state, mote_error *err)
{
    const gguf_tensor *source = t->source;
    if (source->format == NULL)
        return err_set(err, MOTE_E_UNSUPPORTED, "tensor '%s' has type %s, which mote cannot read",
                       t->name, quant_gguf_name(source->gguf_type));
    t->format =
        quant_mix_applies(source) ? quant_mix_choose(state, source) : source->format->format;
    t->rows = source->dims[1] * source->dims[2] * source->dims[3];
    if (t->format == source->format->format)
        return MOTE_OK;
    if (source->format->block_values > 1)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "tensor '%s' is %s already; quantise the BF16, F16 or F32 file of the model",
                       t->name, source->format->name);
    if (encode_find(t->format, MOTE_ISA_BEST) == NULL)
        return err_set(err, MOTE_E_UNSUPPORTED, "tensor '%s' would be %s, which mote cannot write",
                       t->name, quant_get(t->format)->name);
    return MOTE_OK;
}

static mote_status quantization_choose(quantization *q, mote_error *err)
{
    const gguf *g = q->files.gguf;
    quant_mix_state state;
    TRY(quant_mix_begin(&state, q->options->mix, g, err));
    q->n = (uint32_t)gguf_n_tensors(g);
    q->tensors = mem_new(q->n, sizeof *q->tensors);
    if (q->tensors == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %u tensors", q->n);
    for (uint32_t i = 0; i < q->n; i++) {
        q->tensors[i].source = gguf_tensor_at(g, i);
        snprintf(q->tensors[i].name, sizeof q->tensors[i].name, "%.*s",
                 (int)q->tensors[i].source->name.n, q->tensors[i].source->name.p);
    }
    qsort(q->tensors, q->n, sizeof *q->tensors, by_block_and_name);
    for (uint32_t i = 0; i < q->n; i++) {
        quant_tensor *t = &q->tensors[i];
        TRY(tensor_choose(t, &state, err));
        TRY(gguf_writer_tensor(q->writer, t->source->name, t->format, t->source->n_dims,
                               t->source->dims, err));
        t->row_bytes = gguf_writer_tensor_bytes(q->writer, i) / t->rows;
        q->cols = t->source->dims[0] > q->cols ? t->source->dims[0] : q->cols;
        if (q->options->chosen != NULL)
            q->options->chosen(q->options->ctx, t->source, t->format,
                               gguf_writer_tensor_bytes(q->writer, i));
    }
    return MOTE_OK;
}

static void put_metadata(const quantization *q)
{
    static const char version[] = "general.quantization_version", type[] = "general.file_type";
    const gguf *g = q->files.gguf;
    for (uint64_t i = 0; i < gguf_n_kv(g); i++) {
        const gguf_kv *kv = gguf_kv_at(g, i);
        const bool split = kv->key.n > 6 && memcmp(kv->key.p, "split.", 6) == 0;
        if (!split && !str_is(kv->key, version) && !str_is(kv->key, type) &&
            !str_is(kv->key, "general.alignment"))
            gguf_writer_copy(q->writer, kv);
    }
    gguf_writer_u32(q->writer, version, QUANTIZATION_VERSION);
    gguf_writer_u32(q->writer, type, q->options->mix->file_type);
}

/* ---- data ---- */

static bool row_within(const float *row, size_t n, float largest)
{
    bool within = true;
    for (size_t i = 0; i < n; i++)
        within &= fabsf(row[i]) <= largest; /* false for NaN */
    return within;
}

/* Encodes a row. False: a value is not finite, or becomes so. */
static bool row_encode(const encode_job *j, float *row, size_t n, unsigned char *out)
{
    const quant_info *info = quant_get(j->tensor->format);
    const bool usual = row_within(row, n, HELD_BY_ALL);
    if (!usual && !row_within(row, n, FLT_MAX))
        return false;
    j->encode(row, n / info->block_values, out);
    if (usual)
        return true;
    info->decode(out, n / info->block_values, row);
    return row_within(row, n, FLT_MAX);
}

static void encode_task(void *ctx, uint32_t task, uint32_t worker)
{
    encode_job *j = ctx;
    const gguf_tensor *s = j->tensor->source;
    const uint64_t in_bytes = s->bytes / j->tensor->rows;
    float *row = j->q->scratch + worker * j->q->cols;
    for (uint64_t i = (uint64_t)task * ROWS_PER_TASK; i < j->n && i < (task + 1ull) * ROWS_PER_TASK;
         i++) {
        s->format->decode(s->data + (j->first + i) * in_bytes, (size_t)s->dims[0], row);
        if (row_encode(j, row, (size_t)s->dims[0], j->out + i * j->tensor->row_bytes))
            continue;
        uint64_t known = atomic_load(&j->bad_row);
        while (i < known && !atomic_compare_exchange_weak(&j->bad_row, &known, i))
            ;
        return;
    }
}

/* Names the value with the largest magnitude, or one that is no number. */
static mote_status report_bad_row(const encode_job *j, mote_error *err)
{
    const gguf_tensor *s = j->tensor->source;
    const uint64_t row = j->first + atomic_load(&j->bad_row);
    float *values = j->q->scratch, worst = 0;
    s->format->decode(s->data + row * (s->bytes / j->tensor->rows), (size_t)s->dims[0], values);
    for (uint64_t i = 0; i < s->dims[0] && !isnan(worst); i++)
        worst = fabsf(values[i]) <= fabsf(worst) ? worst : values[i];
    if (!isfinite(worst))
        return err_set(err, MOTE_E_FORMAT,
                       "tensor '%s' has the value %g in row %llu: the file is damaged, download or "
                       "convert it again",
                       j->tensor->name, (double)worst, (unsigned long long)row);
    return err_set(err, MOTE_E_UNSUPPORTED,
                   "tensor '%s' has the value %g in row %llu, which %s cannot hold; choose BF16 or "
                   "F32",
                   j->tensor->name, (double)worst, (unsigned long long)row,
                   quant_get(j->tensor->format)->name);
}

static void quantization_describe(void *ctx, uint32_t i, stream_tensor *out)
{
    const quantization *q = ctx;
    *out = (stream_tensor){.name = q->tensors[i].name,
                           .rows = q->tensors[i].rows,
                           .row_bytes = q->tensors[i].row_bytes};
}

static mote_status quantization_fill(void *ctx, uint32_t i, uint64_t first, uint64_t n, void *out,
                                     mote_error *err)
{
    quantization *q = ctx;
    const quant_tensor *t = &q->tensors[i];
    if (t->format == t->source->format->format) {
        memcpy(out, t->source->data + first * t->row_bytes, (size_t)(n * t->row_bytes));
    } else {
        encode_job job = {.q = q,
                          .tensor = t,
                          .encode = encode_find(t->format, q->options->isa),
                          .first = first,
                          .n = n,
                          .out = out,
                          .bad_row = UINT64_MAX};
        pool_run(q->threads, encode_task, &job,
                 (uint32_t)((n + ROWS_PER_TASK - 1) / ROWS_PER_TASK));
        TRY(gguf_files_check(&q->files, err)); /* the cause of any other error */
        if (atomic_load(&job.bad_row) != UINT64_MAX)
            return report_bad_row(&job, err);
    }
    gguf_files_drop_pages(&q->files);
    return gguf_files_check(&q->files, err);
}

static mote_status quantization_write(quantization *q, mote_error *err)
{
    strbuf sources = {0};
    uint32_t done = 0;
    TRY(gguf_files_check_output(&q->files, q->options->out, err));
    TRY(pool_new(&q->threads, q->options->threads, err));
    q->scratch = mem_new((size_t)(pool_size(q->threads) * q->cols), sizeof *q->scratch);
    if (q->scratch == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: rows of %u threads",
                       pool_size(q->threads));
    gguf_files_put_sources(&q->files, &sources);
    mote_status status = strbuf_check(&sources, err);
    if (status == MOTE_OK)
        status = gguf_writer_begin(q->writer, q->options->out, strbuf_view(&sources), &done, err);
    strbuf_fini(&sources);
    const stream_source source = {
        .ctx = q, .n = q->n, .describe = quantization_describe, .fill = quantization_fill};
    if (status == MOTE_OK)
        status = tensor_stream_write(q->writer, &source, done, q->options->progress,
                                     q->options->ctx, err);
    return status == MOTE_OK ? gguf_writer_commit(q->writer, err) : status;
}

static mote_status quantization_run(quantization *q, const char *path, mote_error *err)
{
    TRY(gguf_files_open(&q->files, path, err));
    TRY(quantization_check(q->files.gguf, err));
    TRY(gguf_writer_new(&q->writer, err));
    put_metadata(q);
    TRY(quantization_choose(q, err));
    return q->options->out != NULL ? quantization_write(q, err) : MOTE_OK;
}

mote_status quantize_file(const char *path, const quantize_options *o, mote_error *err)
{
    quantization *q = mem_new(1, sizeof *q);
    if (q == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: quantisation");
    q->options = o;
    const mote_status status = quantization_run(q, path, err);
    pool_free(q->threads);
    mem_free(q->scratch);
    mem_free(q->tensors);
    tensor_stream_end(q->writer, status);
    gguf_files_close(&q->files);
    mem_free(q);
    return status;
}
