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
    uint64_t tokens;
    double *sums; /* [cols], sums of squares; NULL before start */
} collected;

struct imatrix_collector {
    collected *list; /* [MAX_MATRICES] */
    uint32_t n;
    uint32_t next; /* where the next search starts: every pass has the same order */
    bool too_many, started;
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
    for (uint32_t i = 0; i < c->n; i++)
        mem_free(c->list[i].sums);
    mem_free(c->list);
    mem_free(c);
}

/* ---- collecting ---- */

static collected *collector_find(imatrix_collector *c, str name)
{
    for (uint32_t i = 0; i < c->n; i++) {
        collected *m = &c->list[(c->next + i) % c->n];
        if (str_eq(m->name, name)) {
            c->next = (uint32_t)(m - c->list) + 1;
            return m;
        }
    }
    return NULL;
}

static void collected_add(collected *m, const float *rows, size_t n_rows)
{
    for (size_t row = 0; row < n_rows; row++, rows += m->cols)
        for (size_t j = 0; j < m->cols; j++)
            m->sums[j] += (double)rows[j] * (double)rows[j];
    m->tokens += n_rows;
}

void imatrix_observe(void *ctx, const char *name, size_t name_bytes, const float *rows,
                     size_t n_rows, size_t n_cols)
{
    imatrix_collector *c = ctx;
    if (name_bytes < 4 || memcmp(name, "blk.", 4) != 0)
        return;
    collected *m = collector_find(c, (str){name, name_bytes});
    if (m != NULL && c->started)
        collected_add(m, rows, n_rows);
    if (m != NULL)
        return;
    c->too_many |= c->n == MAX_MATRICES || c->started;
    if (!c->too_many)
        c->list[c->n++] = (collected){.name = {name, name_bytes}, .cols = n_cols};
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
        c->list[i].sums = mem_new(c->list[i].cols, sizeof(double));
        if (c->list[i].sums == NULL)
            return err_set(err, MOTE_E_MEMORY, "out of memory: importance matrix");
    }
    c->started = true;
    return MOTE_OK;
}

/* ---- the file ---- */

static mote_status collected_write(gguf_writer *w, const collected *m, float *sums, mote_error *err)
{
    const float count = (float)m->tokens;
    for (size_t j = 0; j < m->cols; j++) {
        sums[j] = (float)m->sums[j];
        if (!isfinite(sums[j]))
            return err_set(err, MOTE_E_FORMAT,
                           "an input of '%.*s' is not a number, so the weights are damaged; "
                           "download the file again",
                           STR_ARG(m->name));
    }
    TRY(gguf_writer_data(w, sums, m->cols * sizeof *sums, err));
    return gguf_writer_data(w, &count, sizeof count, err);
}

static mote_status collected_declare(gguf_writer *w, const collected *m, mote_error *err)
{
    char name[IMATRIX_MAX_NAME + 16];
    const uint64_t sums = m->cols, counts = 1;
    int n = snprintf(name, sizeof name, "%.*s.in_sum2", STR_ARG(m->name));
    TRY(gguf_writer_tensor(w, (str){name, (size_t)n}, QUANT_F32, 1, &sums, err));
    n = snprintf(name, sizeof name, "%.*s.counts", STR_ARG(m->name));
    return gguf_writer_tensor(w, (str){name, (size_t)n}, QUANT_F32, 1, &counts, err);
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
    size_t cols = 1;
    gguf_writer *w = NULL;
    for (uint32_t i = 0; i < c->n; i++)
        cols = c->list[i].cols > cols ? c->list[i].cols : cols;
    float *sums = mem_new(cols, sizeof *sums);
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

uint64_t imatrix_collector_tokens(const imatrix_collector *c)
{
    return c->n > 0 ? c->list[0].tokens : 0; /* every step begins with this one */
}
