/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_bytes.c - see bench_bytes.h.
 *
 * Speaks about the file, not about a running model, and so reads it through
 * gguf/. A token reads every matrix of every layer and the output matrix once;
 * of an embedding table that is not also the output it reads one row, and of the
 * draft head nothing.
 */
#include "cli/inspect/bench_bytes.h"

#include "base/os.h"
#include "gguf/gguf.h"

#include <stdatomic.h>
#include <stdio.h>

enum { STRETCH_BYTES = 1 << 20 };

static bool starts_with(str s, const char *prefix)
{
    str p = str_of(prefix);
    return s.n >= p.n && memcmp(s.p, p.p, p.n) == 0;
}

static bool read_by_a_token(const gguf *g, const gguf_tensor *t, const char *draft_prefix)
{
    if (str_is(t->name, "token_embd.weight"))
        return gguf_find_tensor(g, "output.weight") == NULL;
    return t->data != NULL && !(draft_prefix[0] != '\0' && starts_with(t->name, draft_prefix));
}

/* "blk.24." for a file whose draft block is number 24, "" for one without. */
static mote_status find_draft(const gguf *g, char *prefix, size_t room, mote_error *err)
{
    uint32_t blocks = 0, drafts = 0;
    bool found;
    TRY(gguf_get_u32(g, "qwen35.block_count", &blocks, &found, err));
    TRY(gguf_get_u32(g, "qwen35.nextn_predict_layers", &drafts, &found, err));
    prefix[0] = '\0';
    if (drafts > 0)
        snprintf(prefix, room, "blk.%u.", blocks - drafts);
    return MOTE_OK;
}

typedef struct opened {
    os_map map;
    gguf *g;
    char draft[24];
} opened;

static void close_file(opened *o)
{
    gguf_free(o->g);
    os_map_close(&o->map);
}

static mote_status open_file(opened *o, const char *path, mote_error *err)
{
    *o = (opened){0};
    mote_status status = os_map_open(&o->map, path, err);
    if (status == MOTE_OK)
        status = gguf_read(&o->g, o->map.data, o->map.bytes, err);
    if (status == MOTE_OK)
        status = find_draft(o->g, o->draft, sizeof o->draft, err);
    if (status != MOTE_OK)
        close_file(o);
    return status;
}

mote_status bench_bytes_of(bench_bytes *out, const char *path, mote_error *err)
{
    opened o;
    TRY(open_file(&o, path, err));
    *out = (bench_bytes){.file_bytes = o.map.bytes};
    for (uint64_t i = 0; i < gguf_n_tensors(o.g); i++) {
        const gguf_tensor *t = gguf_tensor_at(o.g, i);
        if (read_by_a_token(o.g, t, o.draft))
            out->per_token += t->bytes;
    }
    close_file(&o);
    return MOTE_OK;
}

typedef struct read_run {
    const unsigned char *data;
    uint64_t bytes;
    _Atomic uint64_t sum; /* so that the reading cannot be left out */
} read_run;

static void read_stretch(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    read_run *run = ctx;
    uint64_t from = (uint64_t)task * STRETCH_BYTES;
    uint64_t end = run->bytes - from < STRETCH_BYTES ? run->bytes : from + STRETCH_BYTES;
    enum { LANES = 8 };
    uint64_t lane[LANES] = {0};
    for (uint64_t at = from; at + LANES * 8 <= end; at += LANES * 8)
        for (int i = 0; i < LANES; i++) {
            uint64_t word;
            memcpy(&word, run->data + at + 8 * i, 8);
            lane[i] += word;
        }
    uint64_t sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += lane[i];
    atomic_fetch_add(&run->sum, sum);
}

static double read_all(const opened *o, pool *threads)
{
    double start = os_now();
    for (uint64_t i = 0; i < gguf_n_tensors(o->g); i++) {
        const gguf_tensor *t = gguf_tensor_at(o->g, i);
        if (!read_by_a_token(o->g, t, o->draft))
            continue;
        read_run run = {.data = t->data, .bytes = t->bytes};
        pool_run(threads, read_stretch, &run,
                 (uint32_t)((t->bytes + STRETCH_BYTES - 1) / STRETCH_BYTES));
    }
    return os_now() - start;
}

mote_status bench_bare_read(const char *path, pool *threads, uint32_t repeats, double *seconds,
                            mote_error *err)
{
    opened o;
    TRY(open_file(&o, path, err));
    read_all(&o, threads); /* brings the file into memory */
    *seconds = read_all(&o, threads);
    for (uint32_t i = 1; i < repeats; i++) {
        double again = read_all(&o, threads);
        *seconds = again < *seconds ? again : *seconds;
    }
    close_file(&o);
    return MOTE_OK;
}
