/* SPDX-License-Identifier: Apache-2.0 */
/* quantize.c - see quantize.h. */
#include "convert/quantize.h"

#include "base/mem.h"
#include "base/pool.h"
#include "convert/encode.h"
#include "gguf/gguf_files.h"
#include "quant/half.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { QUANTIZATION_VERSION = 2, ROWS_PER_TASK = 8, OWN_CHOICE_BYTES = GGUF_MAX_KEY + 32 };

/* Keys that mote adds. */
#define OWN_KEY "mote.quantize."

/* Every format holds values up to this: the largest f16, the type of scales. */
#define HELD_BY_ALL HALF_F16_MAX

/* What the file says about the importance matrix; the keys of llama-quantize. */
#define IMATRIX_KEYS "quantize.imatrix."

typedef struct quant_tensor {
    const gguf_tensor *source;
    quant_format format;
    const float *weights; /* [experts][columns] of the importance matrix; NULL: none */
    char name[GGUF_MAX_KEY + 1];
    uint64_t rows, row_bytes;
    bool measured; /* the choice is that of an own mix, with this cost: */
    float cost;    /* own_mix_tensor.cost */
} quant_tensor;

typedef struct quantization {
    const quantize_options *options;
    gguf_files files;
    gguf_writer *writer;
    quant_tensor *tensors;
    uint32_t n;
    pool *threads;
    float *scratch;           /* [pool_size][cols], one row for each thread */
    uint64_t cols;            /* of the longest row */
    uint64_t reference_bytes; /* of all tensors with the formats of llama-quantize */
} quantization;

/* Work of one call of fill. */
typedef struct encode_job {
    const quantization *q;
    const quant_tensor *tensor;
    const quant_info *format; /* of the output */
    uint64_t row_bytes;       /* likewise */
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
    if (!str_is(name, "qwen35") && !str_is(name, "qwen35moe") && !str_is(name, "clip"))
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "architecture '%.*s' is neither a Qwen 3.5 model nor a vision encoder; "
                       "llama-quantize of llama.cpp quantises it",
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

static mote_status tensor_choose(quant_tensor *t, quant_mix_state *state, tensor_types *types,
                                 mote_error *err)
{
    const gguf_tensor *source = t->source;
    if (source->format == NULL)
        return err_set(err, MOTE_E_UNSUPPORTED, "tensor '%s' has type %s, which mote cannot read",
                       t->name, quant_gguf_name(source->gguf_type));
    if (!quant_mix_applies(source))
        t->format = source->format->format;
    else if (tensor_types_find(types, t->name, &t->format))
        t->format = quant_mix_fit(t->format, source->dims[0]);
    else
        t->format = quant_mix_choose(state, source);
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

/* Without dimensions of 1 at the end, as ggml counts. */
static uint32_t tensor_n_dims(const gguf_tensor *t)
{
    uint32_t n = t->n_dims;
    while (n > 1 && t->dims[n - 1] == 1)
        n--;
    return n;
}

/* Weights of the importance matrix for a tensor that may be quantised. */
static mote_status tensor_find_weights(quant_tensor *t, const imatrix *m, mote_error *err)
{
    const gguf_tensor *source = t->source;
    const imatrix_entry *e = quant_mix_applies(source) ? imatrix_find(m, source->name) : NULL;
    const uint64_t n = source->dims[0] * source->dims[2]; /* each expert has its own */
    if (e != NULL && e->n == n)
        t->weights = e->weights;
    /* Rows of the embedding are no inputs; llama.cpp ignores an entry of another size for it. */
    if (e == NULL || t->weights != NULL || str_is(source->name, "token_embd.weight"))
        return MOTE_OK;
    return err_set(err, MOTE_E_MISMATCH,
                   "the importance matrix has %llu values for '%s', which has %llu inputs; use one "
                   "made with this model",
                   (unsigned long long)e->n, t->name, (unsigned long long)n);
}

/* True: the tensor is quantised without weights. */
static bool tensor_is_unweighted(const quant_tensor *t)
{
    return t->format != t->source->format->format && quant_get(t->format)->block_values > 1 &&
           t->weights == NULL;
}

static mote_status tensor_check_weights(const quant_tensor *t, const quantize_options *o,
                                        mote_error *err)
{
    if (!tensor_is_unweighted(t) || !quant_mix_needs_weights(o->mix, t->source, t->format))
        return MOTE_OK;
    return err_set(err, MOTE_E_MISMATCH,
                   "%s needs an importance matrix with '%s' (--imatrix FILE); make one with mote "
                   "imatrix, or choose Q3_K_S",
                   quant_mix_needs_imatrix(o->mix) ? o->mix->name : quant_get(t->format)->name,
                   t->name);
}

/* All tensors, in the order of the output, and memory for their rows. */
static mote_status quantization_list(quantization *q, mote_error *err)
{
    const gguf *g = q->files.gguf;
    q->n = (uint32_t)gguf_n_tensors(g);
    q->tensors = mem_new(q->n, sizeof *q->tensors);
    if (q->tensors == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %u tensors", q->n);
    for (uint32_t i = 0; i < q->n; i++) {
        q->tensors[i].source = gguf_tensor_at(g, i);
        snprintf(q->tensors[i].name, sizeof q->tensors[i].name, "%.*s",
                 (int)q->tensors[i].source->name.n, q->tensors[i].source->name.p);
        if (q->tensors[i].source->dims[0] > q->cols)
            q->cols = q->tensors[i].source->dims[0];
    }
    qsort(q->tensors, q->n, sizeof *q->tensors, by_block_and_name);
    for (uint32_t i = 0; q->options->imatrix != NULL && i < q->n; i++)
        TRY(tensor_find_weights(&q->tensors[i], q->options->imatrix, err));
    TRY(pool_new(&q->threads, q->options->threads, err));
    q->scratch = mem_new((size_t)(pool_size(q->threads) * q->cols), sizeof *q->scratch);
    return q->scratch != NULL ? MOTE_OK
                              : err_set(err, MOTE_E_MEMORY, "out of memory: rows of %u threads",
                                        pool_size(q->threads));
}

/* By the rules of llama-quantize. */
static mote_status quantization_choose(quantization *q, mote_error *err)
{
    const quant_mix *mix = q->options->mix;
    quant_mix_state state;
    if (mix->reference != NULL)
        mix = quant_mix_find(mix->reference);
    TRY(quant_mix_begin(&state, mix, q->files.gguf, err));
    state.weighted = q->options->imatrix != NULL;
    for (uint32_t i = 0; i < q->n; i++) {
        quant_tensor *t = &q->tensors[i];
        TRY(tensor_choose(t, &state, q->options->types, err));
        TRY(tensor_check_weights(t, q->options, err));
        q->reference_bytes += own_mix_tensor_bytes(t->source, t->format);
    }
    const char *unused = tensor_types_unused(q->options->types);
    return unused == NULL ? MOTE_OK
                          : err_set(err, MOTE_E_ARG,
                                    "%.200s: no matrix is left that matches; --dry-run lists their "
                                    "names",
                                    unused);
}

static mote_status quantization_declare(quantization *q, mote_error *err)
{
    for (uint32_t i = 0; i < q->n; i++) {
        quant_tensor *t = &q->tensors[i];
        if (q->options->imatrix != NULL && q->options->unweighted != NULL &&
            tensor_is_unweighted(t))
            q->options->unweighted(q->options->ctx, t->source);
        TRY(gguf_writer_tensor(q->writer, t->source->name, t->format, tensor_n_dims(t->source),
                               t->source->dims, err));
        t->row_bytes = gguf_writer_tensor_bytes(q->writer, i) / t->rows;
        if (q->options->chosen != NULL)
            q->options->chosen(q->options->ctx, t->source, t->format,
                               gguf_writer_tensor_bytes(q->writer, i));
    }
    return MOTE_OK;
}

/* ---- metadata ---- */

/* The key exists only if types were given: without them the file is that of llama-quantize. */
static void put_tensor_types(gguf_writer *w, const tensor_types *types)
{
    uint64_t n = 0;
    while (tensor_types_text(types, n) != NULL)
        n++;
    if (n > 0)
        gguf_writer_strs(w, OWN_KEY "tensor_types", n);
    for (uint64_t i = 0; i < n; i++)
        gguf_writer_item(w, str_of(tensor_types_text(types, i)));
}

/* The choices of an earlier run, which do not hold for this file. */
static bool is_own_key(str key)
{
    static const char own[] = OWN_KEY;
    return key.n > sizeof own - 1 && memcmp(key.p, own, sizeof own - 1) == 0;
}

/* The choices of an own mix, and the divergence that is expected from each. */
static void put_own_mix(const quantization *q)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < q->n; i++)
        n += q->tensors[i].measured;
    gguf_writer_str(q->writer, OWN_KEY "mix", str_of(q->options->mix->name));
    gguf_writer_u32(q->writer, OWN_KEY "version", OWN_MIX_VERSION);
    gguf_writer_str(q->writer, OWN_KEY "text", str_of(q->options->text_name));
    gguf_writer_strs(q->writer, OWN_KEY "choices", n);
    for (uint32_t i = 0; i < q->n; i++)
        if (q->tensors[i].measured) {
            char text[OWN_CHOICE_BYTES];
            snprintf(text, sizeof text, "%s=%s %.3g", q->tensors[i].name,
                     quant_get(q->tensors[i].format)->name, (double)q->tensors[i].cost);
            gguf_writer_item(q->writer, str_of(text));
        }
}

/* The first 127 bytes, as llama-quantize stores texts. */
static str text_head(str text)
{
    return (str){text.p, text.n < 127 ? text.n : 127};
}

static void put_imatrix(gguf_writer *w, const imatrix *m, const char *path)
{
    gguf_writer_str(w, IMATRIX_KEYS "file", text_head(str_of(path)));
    if (imatrix_dataset(m).n > 0)
        gguf_writer_str(w, IMATRIX_KEYS "dataset", text_head(imatrix_dataset(m)));
    gguf_writer_u32(w, IMATRIX_KEYS "entries_count", imatrix_n(m));
    if (imatrix_chunks(m) > 0)
        gguf_writer_u32(w, IMATRIX_KEYS "chunks_count", imatrix_chunks(m));
}

static bool is_imatrix_key(str key)
{
    const size_t n = strlen(IMATRIX_KEYS);
    return key.n > n && memcmp(key.p, IMATRIX_KEYS, n) == 0;
}

static void put_metadata(const quantization *q)
{
    static const char version[] = "general.quantization_version", type[] = "general.file_type";
    const gguf *g = q->files.gguf;
    for (uint64_t i = 0; i < gguf_n_kv(g); i++) {
        const gguf_kv *kv = gguf_kv_at(g, i);
        const bool split = kv->key.n > 6 && memcmp(kv->key.p, "split.", 6) == 0;
        if (!split && !str_is(kv->key, version) && !str_is(kv->key, type) &&
            !str_is(kv->key, "general.alignment") && !is_own_key(kv->key) &&
            !(q->options->imatrix != NULL && is_imatrix_key(kv->key)))
            gguf_writer_copy(q->writer, kv);
    }
    gguf_writer_u32(q->writer, version, QUANTIZATION_VERSION);
    if (q->options->mix->reference == NULL) /* own mixes have no number */
        gguf_writer_u32(q->writer, type, q->options->mix->file_type);
    else
        put_own_mix(q);
    if (q->options->imatrix != NULL)
        put_imatrix(q->writer, q->options->imatrix, q->options->imatrix_path);
    put_tensor_types(q->writer, q->options->types);
}

/* ---- data ---- */

/* Weights of a row, those of its expert. */
static const float *tensor_row_weights(const quant_tensor *t, uint64_t row)
{
    const gguf_tensor *s = t->source;
    return t->weights != NULL ? t->weights + row / s->dims[1] % s->dims[2] * s->dims[0] : NULL;
}

static bool row_within(const float *row, size_t n, float largest)
{
    bool within = true;
    for (size_t i = 0; i < n; i++)
        within &= fabsf(row[i]) <= largest; /* false for NaN */
    return within;
}

/* Encodes a row. False: a value is not finite, or becomes so. */
static bool row_encode(const encode_job *j, const float *weights, float *row, size_t n,
                       unsigned char *out)
{
    const quant_info *info = j->format;
    /* Large weights make sums that are not finite. */
    const bool usual = weights == NULL && row_within(row, n, HELD_BY_ALL);
    if (!usual && !row_within(row, n, FLT_MAX))
        return false;
    j->encode(row, weights, n / info->block_values, out);
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
        const float *weights = tensor_row_weights(j->tensor, j->first + i);
        if (row_encode(j, weights, row, (size_t)s->dims[0], j->out + i * j->row_bytes))
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
    if (fabsf(worst) <= HELD_BY_ALL)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "tensor '%s': the values of the importance matrix are too large for row "
                       "%llu; make the importance matrix again",
                       j->tensor->name, (unsigned long long)row);
    return err_set(err, MOTE_E_UNSUPPORTED,
                   "tensor '%s' has the value %g in row %llu, which %s cannot hold; choose BF16 or "
                   "F32",
                   j->tensor->name, (double)worst, (unsigned long long)row, j->format->name);
}

static void quantization_describe(void *ctx, uint32_t i, stream_tensor *out)
{
    const quantization *q = ctx;
    *out = (stream_tensor){.name = q->tensors[i].name,
                           .rows = q->tensors[i].rows,
                           .row_bytes = q->tensors[i].row_bytes};
}

/* Rows [first, first + n) of tensor i in a format. */
static mote_status quantization_encode(void *ctx, uint32_t i, quant_format format, uint64_t first,
                                       uint64_t n, void *out, mote_error *err)
{
    quantization *q = ctx;
    const quant_tensor *t = &q->tensors[i];
    uint64_t row_bytes = 0;
    quant_row_bytes(format, t->source->dims[0], &row_bytes);
    if (format == t->source->format->format) {
        memcpy(out, t->source->data + first * row_bytes, (size_t)(n * row_bytes));
        return gguf_files_check(&q->files, err);
    }
    encode_job job = {.q = q,
                      .tensor = t,
                      .format = quant_get(format),
                      .row_bytes = row_bytes,
                      .encode = encode_find(format, q->options->isa),
                      .first = first,
                      .n = n,
                      .out = out,
                      .bad_row = UINT64_MAX};
    pool_run(q->threads, encode_task, &job, (uint32_t)((n + ROWS_PER_TASK - 1) / ROWS_PER_TASK));
    TRY(gguf_files_check(&q->files, err)); /* the cause of any other error */
    return atomic_load(&job.bad_row) == UINT64_MAX ? MOTE_OK : report_bad_row(&job, err);
}

static mote_status quantization_fill(void *ctx, uint32_t i, uint64_t first, uint64_t n, void *out,
                                     mote_error *err)
{
    quantization *q = ctx;
    const mote_status status = quantization_encode(q, i, q->tensors[i].format, first, n, out, err);
    gguf_files_drop_pages(&q->files);
    return status;
}

/* ---- own mixes ---- */

/* Bytes of the keys of put_own_mix, at most. */
static uint64_t own_metadata_bytes(const quantization *q)
{
    uint64_t bytes = 512 + strlen(q->options->text_name);
    for (uint32_t i = 0; i < q->n; i++)
        bytes += strlen(q->tensors[i].name) + 32;
    return bytes;
}

/* Formats that are not chosen: of vectors, of tensors that the user has set, and of the MTP block,
 * which has no influence on predictions. */
static mote_status own_list(const quantization *q, own_mix_tensor *list, mote_error *err)
{
    uint32_t layers = 0, mtp = 0;
    bool found;
    char key[GGUF_MAX_KEY];
    quant_format given;
    TRY(gguf_get_u32(q->files.gguf, gguf_arch_key(q->files.gguf, "block_count", key), &layers, NULL,
                     err));
    TRY(gguf_get_u32(q->files.gguf, gguf_arch_key(q->files.gguf, "nextn_predict_layers", key), &mtp,
                     &found, err));
    for (uint32_t i = 0; i < q->n; i++) {
        const quant_tensor *t = &q->tensors[i];
        list[i] = (own_mix_tensor){.source = t->source,
                                   .format = t->format,
                                   .fixed = !quant_mix_applies(t->source) ||
                                            t->source->format->block_values > 1 ||
                                            gguf_block_of(t->source->name) + mtp >= layers ||
                                            tensor_types_find(q->options->types, t->name, &given)};
    }
    return MOTE_OK;
}

static bool own_progress(void *ctx, own_mix_phase phase, const char *tensor, uint64_t done,
                         uint64_t all)
{
    const quantize_options *o = ((const quantization *)ctx)->options;
    return o->measuring == NULL || o->measuring(o->ctx, phase, tensor, done, all);
}

static const float *own_importance(void *ctx, uint32_t tensor, uint64_t row)
{
    return tensor_row_weights(&((const quantization *)ctx)->tensors[tensor], row);
}

static mote_status own_choose(quantization *q, own_mix_tensor *list, mote_error *err)
{
    const quantize_options *options = q->options;
    const uint64_t keys = own_metadata_bytes(q);
    const own_mix_options o = {.gguf = q->files.gguf,
                               .list = list,
                               .n = q->n,
                               .budget = q->reference_bytes > keys ? q->reference_bytes - keys : 0,
                               .copy = options->copy,
                               .text = options->text,
                               .threads = options->threads,
                               .isa = options->isa,
                               .encode = quantization_encode,
                               .importance = own_importance,
                               .progress = own_progress,
                               .ctx = q};
    TRY(gguf_files_check_output(&q->files, options->copy, err));
    TRY(own_list(q, list, err));
    TRY(own_mix_choose(&o, err));
    for (uint32_t i = 0; i < q->n; i++) {
        q->tensors[i].format = list[i].format;
        q->tensors[i].measured = !list[i].fixed;
        q->tensors[i].cost = list[i].cost;
    }
    return MOTE_OK;
}

static mote_status quantization_choose_own(quantization *q, mote_error *err)
{
    str name;
    TRY(gguf_get_str(q->files.gguf, "general.architecture", &name, NULL, err));
    if (str_is(name, "clip"))
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "the mix %s is for text models; choose Q8_0 for a vision encoder",
                       q->options->mix->name);
    own_mix_tensor *list = mem_new(q->n, sizeof *list);
    if (list == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %u tensors", q->n);
    const mote_status status = own_choose(q, list, err);
    mem_free(list);
    return status;
}

/* ---- the file ---- */

/* All weights, so that a partial file is not continued with others. */
static void put_imatrix_source(const imatrix *m, strbuf *out)
{
    char line[64];
    uint64_t hash = 0xCBF29CE484222325; /* FNV-1a over 32-bit words */
    for (uint32_t i = 0; i < imatrix_n(m); i++) {
        const imatrix_entry *e = imatrix_at(m, i);
        for (uint64_t k = 0; k < e->n; k++) {
            uint32_t bits;
            memcpy(&bits, &e->weights[k], sizeof bits);
            hash = (hash ^ bits) * 0x100000001B3;
        }
    }
    snprintf(line, sizeof line, "imatrix %016llx\n", (unsigned long long)hash);
    strbuf_text(out, line);
}

static mote_status quantization_write(quantization *q, mote_error *err)
{
    strbuf sources = {0};
    uint32_t done = 0;
    TRY(gguf_files_check_output(&q->files, q->options->out, err));
    if (q->options->imatrix != NULL)
        TRY(gguf_writer_check_input(q->options->out, q->options->imatrix_path, err));
    gguf_files_put_sources(&q->files, &sources);
    if (q->options->imatrix != NULL)
        put_imatrix_source(q->options->imatrix, &sources);
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
    TRY(quantization_list(q, err));
    TRY(quantization_choose(q, err));
    if (q->options->mix->reference != NULL)
        TRY(quantization_choose_own(q, err));
    put_metadata(q);
    TRY(quantization_declare(q, err));
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
