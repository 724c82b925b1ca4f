/* SPDX-License-Identifier: Apache-2.0 */
/* own_mix.c - see own_mix.h. */
#include "convert/own_mix.h"

#include "base/mem.h"
#include "convert/divergence.h"
#include "convert/encode.h"
#include "convert/mix_search.h"
#include "convert/model_copy.h"
#include "convert/quant_mix.h"

#include <stdio.h>

/* Formats to choose from. Those without an encoder do not take part. */
static const quant_format candidates[] = {QUANT_Q2_K, QUANT_Q3_K, QUANT_IQ4_XS, QUANT_Q4_K,
                                          QUANT_Q5_K, QUANT_Q6_K, QUANT_Q8_0};
enum { N_CANDIDATES = sizeof candidates / sizeof *candidates };

/* The format of measurements: its error is large enough to stand out and small enough for the
 * divergence to grow with its square. */
static const quant_format PROBE = QUANT_Q3_K;

enum {
    ALONE_MAX = 8,     /* so many tensors of a kind are measured one by one, */
    GROUPS = 4,        /* more of them in groups */
    TOKENS = 2048,     /* of the text */
    SAMPLE_ROWS = 512, /* of a tensor, for the error of its weights */
    CHUNK_ROWS = 32,
    CHUNK_BYTES = 16 << 20,
    ALIGNMENT = 32 /* of tensors in the file */
};

typedef struct mix_row {
    uint32_t tensor; /* in own_mix_options.list */
    uint32_t group;
    double errors[N_CANDIDATES]; /* squared, relative to the squares of the weights */
    double probe_error;
} mix_row;

typedef struct mix_group {
    double divergence;
    double error;         /* sum of the tensors' errors in the probe format */
    uint32_t first, last; /* rows of it are between these */
    char what[GGUF_MAX_KEY + 32];
} mix_group;

typedef struct own_mix {
    const own_mix_options *o;
    mix_row *rows; /* matrices that are not fixed */
    uint32_t n_rows;
    mix_group *groups;
    uint32_t n_groups;
    quant_format formats[N_CANDIDATES]; /* candidates with an encoder */
    uint32_t n_formats;
    model_copy *copy;
    divergence *meter;
    const char *what;     /* the measurement at work */
    uint64_t done, all;   /* windows */
    unsigned char *chunk; /* encoded rows */
} own_mix;

uint64_t own_mix_tensor_bytes(const gguf_tensor *t, quant_format format)
{
    uint64_t row;
    if (!quant_row_bytes(format, t->dims[0], &row))
        return 0;
    const uint64_t bytes = row * t->dims[1] * t->dims[2] * t->dims[3];
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static bool report(const own_mix *m, own_mix_phase phase, uint64_t done, uint64_t all)
{
    return m->o->progress == NULL || m->o->progress(m->o->ctx, phase, m->what, done, all);
}

/* ---- groups ---- */

/* The name without its block: "attn_q.weight" of "blk.3.attn_q.weight". */
static str kind_of(str name)
{
    if (gguf_block_of(name) < 0)
        return name;
    size_t at = 4; /* behind "blk." */
    while (name.p[at] != '.')
        at++;
    return (str){name.p + at + 1, name.n - at - 1};
}

static str row_name(const own_mix *m, uint32_t row)
{
    return m->o->list[m->rows[row].tensor].source->name;
}

/* All rows of the kind of `first`, which is its first one, in groups of consecutive layers. */
static void kind_group(own_mix *m, uint32_t first)
{
    const str kind = kind_of(row_name(m, first));
    uint32_t n = 0, i = 0;
    for (uint32_t r = first; r < m->n_rows; r++)
        n += str_eq(kind_of(row_name(m, r)), kind);
    const uint32_t groups = n <= ALONE_MAX ? n : GROUPS;
    for (uint32_t r = first; r < m->n_rows; r++)
        if (str_eq(kind_of(row_name(m, r)), kind)) {
            mix_group *g = &m->groups[m->n_groups + i * groups / n];
            if (g->what[0] == '\0') {
                g->first = r;
                snprintf(g->what, sizeof g->what, "%.*s", STR_ARG(row_name(m, r)));
            }
            g->last = r;
            m->rows[r].group = m->n_groups + i * groups / n;
            i++;
        }
    m->n_groups += groups;
}

static mote_status own_mix_group(own_mix *m, mote_error *err)
{
    const own_mix_options *o = m->o;
    m->rows = mem_new(o->n, sizeof *m->rows);
    m->groups = mem_new(o->n, sizeof *m->groups);
    m->chunk = mem_new(CHUNK_BYTES, 1);
    if (m->rows == NULL || m->groups == NULL || m->chunk == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %u tensors", o->n);
    for (uint32_t i = 0; i < o->n; i++) {
        const gguf_tensor *s = o->list[i].source;
        if (s->dims[0] > CHUNK_BYTES / CHUNK_ROWS / sizeof(uint16_t)) /* of F16, the largest */
            return err_set(err, MOTE_E_UNSUPPORTED, "tensor '%.*s' has rows of %llu values",
                           STR_ARG(s->name), (unsigned long long)s->dims[0]);
        if (!o->list[i].fixed)
            m->rows[m->n_rows++] = (mix_row){.tensor = i, .group = UINT32_MAX};
    }
    for (uint32_t r = 0; r < m->n_rows; r++)
        if (m->rows[r].group == UINT32_MAX)
            kind_group(m, r);
    for (uint32_t i = 0; i < N_CANDIDATES; i++)
        if (encode_find(candidates[i], MOTE_ISA_REF) != NULL)
            m->formats[m->n_formats++] = candidates[i];
    return MOTE_OK;
}

/* ---- errors of the weights ---- */

/* Adds squared errors and squares of the weights of one row. */
static void row_errors(const float *from, const float *to, const float *importance, uint64_t n,
                       double *error, double *square)
{
    for (uint64_t i = 0; i < n; i++) {
        const double w = importance != NULL ? (double)importance[i] : 1;
        const double x = (double)from[i], difference = x - (double)to[i];
        *error += w * difference * difference;
        *square += w * x * x;
    }
}

/* Of a sample of the rows, evenly distributed over the tensor. */
static mote_status tensor_error(const own_mix *m, uint32_t tensor, quant_format format,
                                double *relative, mote_error *err)
{
    const gguf_tensor *s = m->o->list[tensor].source;
    const quant_info *info = quant_get(format);
    const uint64_t rows = s->dims[1] * s->dims[2] * s->dims[3], cols = s->dims[0];
    const uint64_t chunks =
        rows <= SAMPLE_ROWS ? (rows + CHUNK_ROWS - 1) / CHUNK_ROWS : SAMPLE_ROWS / CHUNK_ROWS;
    double error = 0, square = 0;
    uint64_t row_bytes;
    float *from = mem_new((size_t)cols * 2, sizeof *from), *to = from + cols;
    if (from == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: rows of %llu values",
                       (unsigned long long)cols);
    mote_status status = MOTE_OK;
    quant_row_bytes(format, cols, &row_bytes);
    for (uint64_t c = 0; c < chunks && status == MOTE_OK; c++) {
        const uint64_t first = rows <= SAMPLE_ROWS ? c * CHUNK_ROWS : c * rows / chunks;
        const uint64_t n = rows - first < CHUNK_ROWS ? rows - first : CHUNK_ROWS;
        status = m->o->encode(m->o->ctx, tensor, format, first, n, m->chunk, err);
        for (uint64_t i = 0; i < n && status == MOTE_OK; i++) {
            s->format->decode(s->data + (first + i) * (s->bytes / rows), (size_t)cols, from);
            info->decode(m->chunk + i * row_bytes, (size_t)(cols / info->block_values), to);
            const float *importance =
                m->o->importance != NULL ? m->o->importance(m->o->ctx, tensor, first + i) : NULL;
            row_errors(from, to, importance, cols, &error, &square);
        }
    }
    mem_free(from);
    *relative = square > 0 ? error / square : 0;
    return status;
}

static mote_status own_mix_errors(own_mix *m, mote_error *err)
{
    uint64_t done = 0, all = 0;
    for (uint32_t r = 0; r < m->n_rows; r++)
        all += m->o->list[m->rows[r].tensor].source->bytes;
    for (uint32_t r = 0; r < m->n_rows; r++) {
        mix_row *row = &m->rows[r];
        const gguf_tensor *s = m->o->list[row->tensor].source;
        const uint64_t cols = s->dims[0];
        m->what = m->groups[row->group].what;
        if (!report(m, OWN_MIX_ERRORS, done, all))
            return err_set(err, MOTE_E_CANCELED, "interrupted while measuring");
        done += s->bytes;
        for (uint32_t f = 0; f < m->n_formats; f++)
            TRY(tensor_error(m, row->tensor, quant_mix_fit(m->formats[f], cols), &row->errors[f],
                             err));
        TRY(tensor_error(m, row->tensor, quant_mix_fit(PROBE, cols), &row->probe_error, err));
        m->groups[row->group].error += row->probe_error;
    }
    return MOTE_OK;
}

/* ---- measurements ---- */

static bool meter_go_on(void *ctx)
{
    own_mix *m = ctx;
    m->done += DIVERGENCE_WINDOW;
    return report(m, OWN_MIX_MEASURE, m->done - DIVERGENCE_WINDOW, m->all);
}

static bool copy_go_on(void *ctx, uint64_t done, uint64_t all)
{
    return report(ctx, OWN_MIX_COPY, done, all);
}

/* The tensor in the probe format. */
static mote_status probe_write(own_mix *m, uint32_t tensor, mote_error *err)
{
    const gguf_tensor *s = m->o->list[tensor].source;
    const quant_format format = quant_mix_fit(PROBE, s->dims[0]);
    const uint64_t rows = s->dims[1] * s->dims[2] * s->dims[3];
    uint64_t row_bytes;
    quant_row_bytes(format, s->dims[0], &row_bytes);
    const uint64_t each = CHUNK_BYTES / row_bytes;
    TRY(model_copy_set_format(m->copy, s, format, err));
    for (uint64_t first = 0; first < rows; first += each) {
        const uint64_t n = rows - first < each ? rows - first : each;
        TRY(m->o->encode(m->o->ctx, tensor, format, first, n, m->chunk, err));
        TRY(model_copy_write(m->copy, s, first * row_bytes, m->chunk, (size_t)(n * row_bytes),
                             err));
    }
    return MOTE_OK;
}

static mote_status group_measure(own_mix *m, uint32_t group, mote_error *err)
{
    mix_group *g = &m->groups[group];
    m->what = g->what;
    for (uint32_t r = g->first; r <= g->last; r++)
        if (m->rows[r].group == group)
            TRY(probe_write(m, m->rows[r].tensor, err));
    TRY(divergence_measure(m->meter, &g->divergence, err));
    for (uint32_t r = g->first; r <= g->last; r++)
        if (m->rows[r].group == group)
            TRY(model_copy_restore(m->copy, m->o->list[m->rows[r].tensor].source, err));
    return MOTE_OK;
}

static mote_status own_mix_measure(own_mix *m, mote_error *err)
{
    const own_mix_options *o = m->o;
    const divergence_options d = {.path = o->copy,
                                  .text = o->text,
                                  .tokens = TOKENS,
                                  .threads = o->threads,
                                  .isa = o->isa,
                                  .go_on = meter_go_on,
                                  .ctx = m};
    TRY(model_copy_new(&m->copy, o->gguf, o->copy, copy_go_on, m, err));
    m->what = "";
    TRY(divergence_new(&m->meter, &d, err));
    m->done = 0;
    m->all = m->n_groups * divergence_tokens(m->meter);
    for (uint32_t g = 0; g < m->n_groups; g++)
        TRY(group_measure(m, g, err));
    return MOTE_OK;
}

/* ---- the choice ---- */

static double row_cost(const own_mix *m, const mix_row *row, uint32_t format)
{
    const mix_group *g = &m->groups[row->group];
    return g->error > 0 ? g->divergence / g->error * row->errors[format] : 0;
}

static mote_status own_mix_search(own_mix *m, mote_error *err)
{
    const own_mix_options *o = m->o;
    const uint32_t n_options = m->n_formats;
    uint64_t fixed = 0;
    mix_option *options = mem_new((size_t)m->n_rows * n_options, sizeof *options);
    uint32_t *chosen = mem_new(m->n_rows, sizeof *chosen);
    mote_status status = MOTE_OK;
    for (uint32_t i = 0; i < o->n; i++)
        fixed += o->list[i].fixed ? own_mix_tensor_bytes(o->list[i].source, o->list[i].format) : 0;
    for (uint32_t i = 0; options != NULL && i < m->n_rows * n_options; i++) {
        const mix_row *row = &m->rows[i / n_options];
        const gguf_tensor *s = o->list[row->tensor].source;
        options[i].bytes =
            own_mix_tensor_bytes(s, quant_mix_fit(m->formats[i % n_options], s->dims[0]));
        options[i].cost = row_cost(m, row, i % n_options);
    }
    if (options == NULL || chosen == NULL)
        status = err_set(err, MOTE_E_MEMORY, "out of memory: formats of %u tensors", m->n_rows);
    else if (fixed > o->budget ||
             !mix_search(options, m->n_rows, n_options, o->budget - fixed, chosen))
        status = err_set(err, MOTE_E_ARG,
                         "the tensors need at least %llu bytes in any format and the mix allows "
                         "%llu; choose a larger one",
                         (unsigned long long)fixed, (unsigned long long)o->budget);
    for (uint32_t r = 0; status == MOTE_OK && r < m->n_rows; r++) {
        own_mix_tensor *t = &o->list[m->rows[r].tensor];
        t->format = quant_mix_fit(m->formats[chosen[r]], t->source->dims[0]);
        t->cost = (float)options[(size_t)r * n_options + chosen[r]].cost;
    }
    mem_free(options);
    mem_free(chosen);
    return status;
}

static mote_status own_mix_run(own_mix *m, mote_error *err)
{
    TRY(own_mix_group(m, err));
    TRY(own_mix_errors(m, err));
    TRY(own_mix_measure(m, err));
    return own_mix_search(m, err);
}

mote_status own_mix_choose(const own_mix_options *o, mote_error *err)
{
    own_mix m = {.o = o};
    const mote_status status = own_mix_run(&m, err);
    divergence_free(m.meter);
    model_copy_free(m.copy);
    mem_free(m.rows);
    mem_free(m.groups);
    mem_free(m.chunk);
    return status;
}
