/* SPDX-License-Identifier: Apache-2.0 */
/* imatrix_collect.c - see imatrix_collect.h. */
#include "convert/imatrix_collect.h"

#include "base/mem.h"
#include "base/os.h"
#include "convert/imatrix.h"
#include "gguf/gguf_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_MATRICES = 8192 };

typedef struct collected {
    str name;
    size_t cols;
    uint32_t experts; /* 0: one matrix */
    uint64_t tokens;  /* of all experts */
    uint64_t *counts; /* [matrices], tokens of each; NULL before start */
    double *sums;     /* [matrices][cols], sums of squares; likewise */
} collected;

/* Matrices of the tensor. */
static uint32_t collected_n(const collected *m)
{
    return m->experts > 0 ? m->experts : 1;
}

struct imatrix_collector {
    collected *list; /* [MAX_MATRICES] */
    uint32_t n;
    uint32_t last; /* where the next search starts: every pass has the same order */
    bool too_many, started;
    bool late; /* a matrix was first seen after the start */
};

mote_status imatrix_collector_new(imatrix_collector **out, mote_error *err)
{
    imatrix_collector *c = mem_new(1, sizeof *c);
    collected *list = mem_new(MAX_MATRICES, sizeof *list);
    if (c == NULL || list == NULL) {
        mem_free(c);
        mem_free(list);
        return err_set(err, MOTE_E_MEMORY, "out of memory: importance matrix");
    }
    c->list = list;
    *out = c;
    return MOTE_OK;
}

void imatrix_collector_free(imatrix_collector *c)
{
    if (c == NULL)
        return;
    for (uint32_t i = 0; i < c->n; i++) {
        mem_free(c->list[i].counts);
        mem_free(c->list[i].sums);
    }
    mem_free(c->list);
    mem_free(c);
}

/* ---- collecting ---- */

static collected *collector_find(imatrix_collector *c, str name)
{
    for (uint32_t i = 0; i < c->n; i++) {
        collected *m = &c->list[(c->last + i) % c->n];
        if (str_eq(m->name, name)) {
            c->last = (uint32_t)(m - c->list);
            return m;
        }
    }
    return NULL;
}

static void collected_add(collected *m, const mote_observed *o)
{
    double *sums = m->sums + o->expert * m->cols;
    const float *row = o->rows;
    for (size_t i = 0; i < o->n_rows; i++, row += m->cols)
        for (size_t j = 0; j < m->cols; j++)
            sums[j] += (double)row[j] * (double)row[j];
    m->counts[o->expert] += o->n_rows;
    m->tokens += o->n_rows;
}

void imatrix_observe(void *ctx, const mote_observed *o)
{
    imatrix_collector *c = ctx;
    const str name = {o->name, o->name_bytes};
    if (name.n < 4 || memcmp(name.p, "blk.", 4) != 0)
        return;
    collected *m = collector_find(c, name);
    if (m != NULL && c->started)
        collected_add(m, o);
    if (m != NULL)
        return;
    c->too_many |= c->n == MAX_MATRICES;
    c->late |= c->started;
    if (!c->too_many && !c->late)
        c->list[c->n++] = (collected){.name = name, .cols = o->n_cols, .experts = o->experts};
}

static int by_name(const void *a, const void *b)
{
    const str x = ((const collected *)a)->name, y = ((const collected *)b)->name;
    const int order = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);
    return order != 0 ? order : (x.n > y.n) - (x.n < y.n);
}

mote_status imatrix_collector_start(imatrix_collector *c, mote_error *err)
{
    if (c->too_many || c->n == 0)
        return err_set(err, MOTE_E_UNSUPPORTED, "the model has %s matrices",
                       c->n == 0 ? "no" : "too many");
    for (uint32_t i = 0; i < c->n; i++) {
        collected *m = &c->list[i];
        m->counts = mem_new(collected_n(m), sizeof *m->counts);
        m->sums = mem_new(collected_n(m) * m->cols, sizeof *m->sums);
        if (m->counts == NULL || m->sums == NULL)
            return err_set(err, MOTE_E_MEMORY, "out of memory: importance matrix");
    }
    c->started = true;
    return MOTE_OK;
}

/* ---- the file ---- */

static mote_status collected_write(gguf_writer *w, const collected *m, float *sums, mote_error *err)
{
    const size_t n = collected_n(m) * m->cols;
    for (size_t j = 0; j < n; j++) {
        sums[j] = (float)m->sums[j];
        if (!isfinite(sums[j]))
            return err_set(err, MOTE_E_FORMAT,
                           "an input of '%.*s' is not a number, so the weights are damaged; "
                           "download the file again",
                           STR_ARG(m->name));
    }
    TRY(gguf_writer_data(w, sums, n * sizeof *sums, err));
    for (uint32_t i = 0; i < collected_n(m); i++)
        sums[i] = (float)m->counts[i];
    return gguf_writer_data(w, sums, collected_n(m) * sizeof *sums, err);
}

static mote_status collected_declare(gguf_writer *w, const collected *m, mote_error *err)
{
    char name[IMATRIX_MAX_NAME + 16];
    const uint64_t sums[2] = {m->cols, collected_n(m)}, counts[2] = {1, collected_n(m)};
    const uint32_t dims = collected_n(m) > 1 ? 2 : 1; /* as ggml counts */
    int n = snprintf(name, sizeof name, "%.*s.in_sum2", STR_ARG(m->name));
    TRY(gguf_writer_tensor(w, (str){name, (size_t)n}, QUANT_F32, dims, sums, err));
    n = snprintf(name, sizeof name, "%.*s.counts", STR_ARG(m->name));
    return gguf_writer_tensor(w, (str){name, (size_t)n}, QUANT_F32, dims, counts, err);
}

static void put_source(gguf_writer *w, const imatrix_collector *c, const imatrix_source *source)
{
    const uint64_t size = source->chunk_size;
    gguf_writer_str(w, "general.type", str_of("imatrix"));
    gguf_writer_strs(w, "imatrix.datasets", source->n);
    for (size_t i = 0; i < source->n; i++)
        gguf_writer_item(w, str_of(source->datasets[i]));
    gguf_writer_u32(w, "imatrix.chunk_count",
                    (uint32_t)((imatrix_collector_tokens(c) + size - 1) / size));
    gguf_writer_u32(w, "imatrix.chunk_size", source->chunk_size);
}

/* In the order of names. Matrices without tokens are left out. */
static mote_status collector_write(const collected *list, uint32_t n, gguf_writer *w,
                                   const char *path, float *sums, mote_error *err)
{
    char sources[64]; /* never those of another run: its sums are not known */
    uint32_t done;
    for (uint32_t i = 0; i < n; i++)
        if (list[i].tokens > 0)
            TRY(collected_declare(w, &list[i], err));
    snprintf(sources, sizeof sources, "%d %.9f", (int)getpid(), os_now());
    TRY(gguf_writer_begin(w, path, str_of(sources), &done, err));
    for (uint32_t i = 0; i < n; i++)
        if (list[i].tokens > 0)
            TRY(collected_write(w, &list[i], sums, err));
    return gguf_writer_commit(w, err);
}

mote_status imatrix_collector_write(const imatrix_collector *c, const char *path,
                                    const imatrix_source *source, mote_error *err)
{
    size_t most = 1;
    gguf_writer *w = NULL;
    if (c->late)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "a matrix was used that the first step did not show");
    for (uint32_t i = 0; i < c->n; i++) {
        const size_t n = collected_n(&c->list[i]) * c->list[i].cols;
        most = n > most ? n : most;
    }
    float *sums = mem_new(most, sizeof *sums);
    collected *sorted = mem_new(c->n, sizeof *sorted);
    mote_status status = gguf_writer_new(&w, err);
    if (status == MOTE_OK && (sums == NULL || sorted == NULL))
        status = err_set(err, MOTE_E_MEMORY, "out of memory: importance matrix");
    if (status == MOTE_OK) {
        memcpy(sorted, c->list, c->n * sizeof *sorted);
        qsort(sorted, c->n, sizeof *sorted, by_name);
        put_source(w, c, source);
        status = collector_write(sorted, c->n, w, path, sums, err);
    }
    if (status != MOTE_OK && w != NULL)
        gguf_writer_discard(w);
    gguf_writer_free(w);
    mem_free(sorted);
    mem_free(sums);
    return status;
}

uint32_t imatrix_collector_n(const imatrix_collector *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n; i++)
        n += c->list[i].tokens > 0;
    return n;
}

uint64_t imatrix_collector_unused(const imatrix_collector *c, uint64_t *all)
{
    uint64_t unused = 0;
    *all = 0;
    for (uint32_t i = 0; i < c->n; i++)
        for (uint32_t e = 0; e < c->list[i].experts; e++) {
            unused += c->list[i].counts[e] == 0;
            ++*all;
        }
    return unused;
}

uint64_t imatrix_collector_tokens(const imatrix_collector *c)
{
    return c->n > 0 ? c->list[0].tokens : 0; /* every step begins with this one */
}
