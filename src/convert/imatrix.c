/* SPDX-License-Identifier: Apache-2.0 */
/* imatrix.c - see imatrix.h. */
#include "convert/imatrix.h"

#include "base/cursor.h"
#include "base/mem.h"
#include "base/os_map.h"
#include "gguf/gguf.h"

#include <math.h>
#include <stdlib.h>

struct imatrix {
    imatrix_entry *entries;
    uint32_t n, room;
    char *dataset; /* NULL: not recorded */
    uint32_t chunks;
};

/* ---- entries ---- */

/* Adds an entry with space for n weights. */
static mote_status entry_add(imatrix *m, str name, uint64_t n, imatrix_entry **out, mote_error *err)
{
    if (name.n == 0 || name.n > IMATRIX_MAX_NAME || memchr(name.p, 0, name.n) != NULL)
        return err_set(err, MOTE_E_FORMAT, "importance matrix: entry %u has an invalid name", m->n);
    if (n == 0 || n > INT32_MAX || m->n == IMATRIX_MAX_ENTRIES)
        return err_set(err, MOTE_E_FORMAT, "importance matrix: %llu values in '%.*s'",
                       (unsigned long long)n, STR_ARG(name));
    if (!mem_grow(&m->entries, m->n, &m->room, sizeof *m->entries))
        return err_set(err, MOTE_E_MEMORY, "out of memory: importance matrix");
    char *copy = mem_new(name.n, 1);
    float *weights = mem_new((size_t)n, sizeof *weights);
    if (copy == NULL || weights == NULL) {
        mem_free(copy);
        mem_free(weights);
        return err_set(err, MOTE_E_MEMORY, "out of memory: importance matrix");
    }
    memcpy(copy, name.p, name.n);
    *out = &m->entries[m->n++];
    **out = (imatrix_entry){.name = {copy, name.n}, .n = n, .weights = weights};
    return MOTE_OK;
}

static mote_status entry_check(const imatrix_entry *e, mote_error *err)
{
    for (uint64_t i = 0; i < e->n; i++)
        if (!isfinite(e->weights[i]) || e->weights[i] < 0)
            return err_set(err, MOTE_E_FORMAT,
                           "importance matrix: '%.*s' has the value %g; make the file again",
                           STR_ARG(e->name), (double)e->weights[i]);
    return MOTE_OK;
}

static int by_name(const void *a, const void *b)
{
    const str x = ((const imatrix_entry *)a)->name, y = ((const imatrix_entry *)b)->name;
    const int order = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);
    return order != 0 ? order : (x.n > y.n) - (x.n < y.n);
}

/* Sorts the entries; a name must not occur twice. */
static mote_status entries_sort(imatrix *m, mote_error *err)
{
    qsort(m->entries, m->n, sizeof *m->entries, by_name);
    for (uint32_t i = 1; i < m->n; i++)
        if (str_eq(m->entries[i - 1].name, m->entries[i].name))
            return err_set(err, MOTE_E_FORMAT, "importance matrix: '%.*s' occurs twice",
                           STR_ARG(m->entries[i].name));
    return MOTE_OK;
}

static mote_status dataset_set(imatrix *m, str text, mote_error *err)
{
    const char *end = text.n > 0 ? memchr(text.p, 0, text.n) : NULL;
    const size_t n = end != NULL ? (size_t)(end - text.p) : text.n;
    m->dataset = mem_new(n + 1, 1);
    if (m->dataset == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: importance matrix");
    if (n > 0)
        memcpy(m->dataset, text.p, n);
    return MOTE_OK;
}

/* ---- GGUF ---- */

static bool name_split(str name, const char *suffix, str *stem)
{
    *stem = name;
    return str_take_suffix(stem, suffix);
}

static const gguf_tensor *counts_of(const gguf *g, str stem)
{
    char name[GGUF_MAX_KEY + sizeof ".counts"];
    if (stem.n > GGUF_MAX_KEY)
        return NULL;
    memcpy(name, stem.p, stem.n);
    memcpy(name + stem.n, ".counts", sizeof ".counts");
    return gguf_find_tensor(g, name);
}

/* Divides the sums in `weights` by the number of tokens. A matrix that no token used has equal
 * weights. The alignment of a file can be less than that of a float. */
static mote_status entry_divide(imatrix_entry *e, const unsigned char *counts, uint64_t n_counts,
                                mote_error *err)
{
    const uint64_t n = e->n / n_counts;
    for (uint64_t k = 0; k < n_counts; k++) {
        float count;
        memcpy(&count, counts + k * sizeof count, sizeof count);
        if (!(count >= 0 && count < 0x1p62f))
            return err_set(err, MOTE_E_FORMAT, "importance matrix: '%.*s' counts %g tokens",
                           STR_ARG(e->name), (double)count);
        count = (float)llroundf(count);
        for (uint64_t i = k * n; i < (k + 1) * n; i++)
            e->weights[i] = count > 0 ? e->weights[i] / count : 1;
    }
    return entry_check(e, err);
}

static bool tensor_is_f32(const gguf_tensor *t)
{
    return t != NULL && t->format != NULL && t->format->format == QUANT_F32;
}

static mote_status gguf_entry(imatrix *m, const gguf *g, const gguf_tensor *sums, str stem,
                              mote_error *err)
{
    const gguf_tensor *counts = counts_of(g, stem);
    imatrix_entry *e;
    if (!tensor_is_f32(sums) || !tensor_is_f32(counts))
        return err_set(err, MOTE_E_FORMAT,
                       "importance matrix: '%.*s' needs F32 tensors .in_sum2 and .counts",
                       STR_ARG(stem));
    const uint64_t n = sums->bytes / sizeof(float), n_counts = counts->bytes / sizeof(float);
    if (n_counts == 0 || n % n_counts != 0)
        return err_set(err, MOTE_E_FORMAT, "importance matrix: '%.*s' has %llu values, %llu counts",
                       STR_ARG(stem), (unsigned long long)n, (unsigned long long)n_counts);
    TRY(entry_add(m, stem, n, &e, err));
    memcpy(e->weights, sums->data, (size_t)n * sizeof(float));
    return entry_divide(e, counts->data, n_counts, err);
}

static mote_status gguf_entries(imatrix *m, const gguf *g, mote_error *err)
{
    for (uint64_t i = 0; i < gguf_n_tensors(g); i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        str stem;
        if (name_split(t->name, ".in_sum2", &stem))
            TRY(gguf_entry(m, g, t, stem, err));
        else if (!name_split(t->name, ".counts", &stem))
            return err_set(err, MOTE_E_FORMAT,
                           "tensor '%.*s' is no part of an importance matrix; is this a model?",
                           STR_ARG(t->name));
    }
    if (m->n == 0 || gguf_n_tensors(g) != 2ull * m->n)
        return err_set(err, MOTE_E_FORMAT, "importance matrix: %llu tensors, %u with .in_sum2",
                       (unsigned long long)gguf_n_tensors(g), m->n);
    return MOTE_OK;
}

static mote_status gguf_contents(imatrix *m, const gguf *g, mote_error *err)
{
    const gguf_kv *datasets = gguf_find(g, "imatrix.datasets");
    gguf_str_walk walk = {0};
    str text;
    bool found;
    TRY(gguf_entries(m, g, err));
    TRY(gguf_get_u32(g, "imatrix.chunk_count", &m->chunks, &found, err));
    if (datasets != NULL && gguf_next_str(datasets, &walk, &text))
        TRY(dataset_set(m, text, err));
    return MOTE_OK;
}

/* ---- the older format ----
 *
 * Number of entries; for each: length and bytes of the name, number of calls, number of values,
 * values times calls. Then, if present: number of chunks, length and bytes of the name of the text.
 * Numbers have 32 bits. */

static mote_status binary_entry(imatrix *m, cursor *c, mote_error *err)
{
    uint32_t name_n, calls, n;
    const unsigned char *name, *values;
    imatrix_entry *e;
    if (!cursor_u32(c, &name_n) || !cursor_view(c, name_n, &name) || !cursor_u32(c, &calls) ||
        !cursor_u32(c, &n) || !cursor_view(c, (uint64_t)n * sizeof(float), &values))
        return err_set(
            err, MOTE_E_FORMAT,
            "not an importance matrix, or cut off in entry %u; make or download it again", m->n);
    TRY(entry_add(m, (str){(const char *)name, name_n}, n, &e, err));
    memcpy(e->weights, values, (size_t)n * sizeof(float));
    for (uint64_t i = 0; (int32_t)calls > 0 && i < n; i++)
        e->weights[i] /= (float)calls;
    return entry_check(e, err);
}

static mote_status binary_contents(imatrix *m, cursor *c, mote_error *err)
{
    uint32_t n, chunks, text_n;
    const unsigned char *text;
    if (!cursor_u32(c, &n) || n == 0 || n > IMATRIX_MAX_ENTRIES)
        return err_set(err, MOTE_E_FORMAT, "not an importance matrix; make one with mote imatrix");
    for (uint32_t i = 0; i < n; i++)
        TRY(binary_entry(m, c, err));
    if (!cursor_u32(c, &chunks))
        return MOTE_OK;
    m->chunks = (int32_t)chunks > 0 ? chunks : 0;
    if (cursor_u32(c, &text_n) && text_n > 0 && cursor_view(c, text_n, &text))
        TRY(dataset_set(m, (str){(const char *)text, text_n}, err));
    return MOTE_OK;
}

/* ---- files ---- */

static mote_status imatrix_parse(imatrix *m, const unsigned char *bytes, uint64_t n,
                                 mote_error *err)
{
    if (n >= 4 && memcmp(bytes, "GGUF", 4) == 0) {
        gguf *g;
        TRY(gguf_read(&g, bytes, n, err));
        const mote_status status = gguf_contents(m, g, err);
        gguf_free(g);
        TRY(status);
    } else {
        cursor c = {.p = bytes, .n = (size_t)n};
        TRY(binary_contents(m, &c, err));
    }
    return entries_sort(m, err);
}

mote_status imatrix_read(imatrix **out, const void *bytes, uint64_t n_bytes, mote_error *err)
{
    imatrix *m = mem_new(1, sizeof *m);
    *out = NULL;
    if (m == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: importance matrix");
    const mote_status status = imatrix_parse(m, bytes, n_bytes, err);
    if (status == MOTE_OK)
        *out = m;
    else
        imatrix_free(m);
    return status;
}

mote_status imatrix_open(imatrix **out, const char *path, mote_error *err)
{
    os_map map;
    *out = NULL;
    TRY(os_map_open(&map, path, err));
    mote_status status = imatrix_read(out, map.data, map.bytes, err);
    if (status == MOTE_OK && os_map_check(&map, err) != MOTE_OK) {
        status = MOTE_E_IO;
        imatrix_free(*out);
        *out = NULL;
    }
    os_map_close(&map);
    if (status == MOTE_E_FORMAT)
        err_prefix(err, path);
    return status;
}

void imatrix_free(imatrix *m)
{
    if (m == NULL)
        return;
    for (uint32_t i = 0; i < m->n; i++) {
        mem_free((char *)m->entries[i].name.p);
        mem_free(m->entries[i].weights);
    }
    mem_free(m->entries);
    mem_free(m->dataset);
    mem_free(m);
}

uint32_t imatrix_n(const imatrix *m)
{
    return m->n;
}

const imatrix_entry *imatrix_at(const imatrix *m, uint32_t i)
{
    return &m->entries[i];
}

const imatrix_entry *imatrix_find(const imatrix *m, str name)
{
    const imatrix_entry key = {.name = name};
    return bsearch(&key, m->entries, m->n, sizeof *m->entries, by_name);
}

str imatrix_dataset(const imatrix *m)
{
    return str_of(m->dataset != NULL ? m->dataset : "");
}

uint32_t imatrix_chunks(const imatrix *m)
{
    return m->chunks;
}
