/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_q8_0.c - converts mote-tiny-BF16.gguf and its mmproj file to Q8_0.
 *
 *     make_q8_0 IN.gguf OUT.gguf
 *
 * The output is byte for byte that of llama-quantize, so the repository need not contain 14 MB.
 * Matrices become Q8_0; other tensors are copied. The two quantisation entries move to the end of
 * the metadata. Tensors outside blocks come first, then block by block, sorted by name.
 */
#include "base/os.h"
#include "gguf/gguf.h"
#include "quant/quant.h"

#include <stdio.h>
#include <stdlib.h>

enum { FILE_TYPE_Q8_0 = 7, QUANTIZATION_VERSION = 2, MAX_TENSORS = 1024 };

typedef struct output {
    os_file file;
    uint64_t n; /* bytes written */
    mote_error err;
} output;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "make_q8_0: %s\n", what);
    exit(1);
}

static void out_write(output *o, const void *bytes, size_t n)
{
    if (os_file_write(&o->file, bytes, n, &o->err) != MOTE_OK)
        fail(o->err.text);
    o->n += n;
}

static void out_u32(output *o, uint32_t value)
{
    out_write(o, &value, sizeof value);
}

static void out_u64(output *o, uint64_t value)
{
    out_write(o, &value, sizeof value);
}

static void out_str(output *o, str s)
{
    out_u64(o, s.n);
    out_write(o, s.p, s.n);
}

static void out_pad(output *o, uint64_t alignment)
{
    while (o->n % alignment != 0)
        out_write(o, "", 1);
}

/* ---- metadata ---- */

static bool names_quantisation(str key)
{
    return str_is(key, "general.file_type") || str_is(key, "general.quantization_version");
}

static void put_metadata(output *o, const gguf *g)
{
    for (uint64_t i = 0; i < gguf_n_kv(g); i++) {
        const gguf_kv *kv = gguf_kv_at(g, i);
        if (names_quantisation(kv->key))
            continue;
        out_str(o, kv->key);
        if (kv->is_array)
            out_u32(o, GGUF_ARRAY);
        out_u32(o, kv->type);
        if (kv->is_array)
            out_u64(o, kv->count);
        out_write(o, kv->bytes, (size_t)kv->n_bytes);
    }
    out_str(o, str_of("general.quantization_version"));
    out_u32(o, GGUF_U32);
    out_u32(o, QUANTIZATION_VERSION);
    out_str(o, str_of("general.file_type"));
    out_u32(o, GGUF_U32);
    out_u32(o, FILE_TYPE_Q8_0);
}

/* ---- tensors ---- */

static bool becomes_q8_0(const gguf_tensor *t)
{
    return t->format->format == QUANT_BF16 && t->n_dims == 2;
}

static const quant_info *new_format(const gguf_tensor *t)
{
    return becomes_q8_0(t) ? quant_get(QUANT_Q8_0) : t->format;
}

static uint64_t new_bytes(const gguf_tensor *t)
{
    uint64_t row;
    if (!becomes_q8_0(t))
        return t->bytes;
    if (!quant_row_bytes(new_format(t)->format, t->dims[0], &row))
        fail("row size is not a multiple of the Q8_0 block size");
    return row * t->dims[1];
}

/* N of "blk.N.", or -1. */
static long block_of(const gguf_tensor *t)
{
    return t->name.n > 4 && memcmp(t->name.p, "blk.", 4) == 0 ? strtol(t->name.p + 4, NULL, 10)
                                                              : -1;
}

static int by_block_and_name(const void *a, const void *b)
{
    const gguf_tensor *s = *(const gguf_tensor *const *)a, *t = *(const gguf_tensor *const *)b;
    const long difference = block_of(s) - block_of(t);
    if (difference != 0)
        return difference < 0 ? -1 : 1;
    const size_t common = s->name.n < t->name.n ? s->name.n : t->name.n;
    const int order = memcmp(s->name.p, t->name.p, common);
    return order != 0 ? order : (s->name.n > t->name.n) - (s->name.n < t->name.n);
}

static void put_table(output *o, const gguf_tensor *const *sorted, uint64_t n, uint64_t alignment)
{
    uint64_t offset = 0;
    for (uint64_t i = 0; i < n; i++) {
        const gguf_tensor *t = sorted[i];
        out_str(o, t->name);
        out_u32(o, t->n_dims);
        for (uint32_t d = 0; d < t->n_dims; d++)
            out_u64(o, t->dims[d]);
        out_u32(o, new_format(t)->gguf_id);
        out_u64(o, offset);
        offset += (new_bytes(t) + alignment - 1) / alignment * alignment;
    }
}

static void put_tensor(output *o, const gguf_tensor *t)
{
    if (!becomes_q8_0(t)) {
        out_write(o, t->data, (size_t)t->bytes);
        return;
    }
    const size_t n_values = (size_t)(t->dims[0] * t->dims[1]);
    const size_t n_bytes = (size_t)new_bytes(t);
    float *values = malloc(n_values * sizeof *values);
    void *blocks = malloc(n_bytes);
    if (values == NULL || blocks == NULL)
        fail("out of memory");
    t->format->decode(t->data, n_values, values);
    quant_encode_q8_0(values, n_values / quant_get(QUANT_Q8_0)->block_values, blocks);
    out_write(o, blocks, n_bytes);
    free(values);
    free(blocks);
}

static void convert(output *o, const gguf *g)
{
    static const gguf_tensor *sorted[MAX_TENSORS];
    const uint64_t n = gguf_n_tensors(g);
    if (n > MAX_TENSORS)
        fail("too many tensors");
    uint64_t dropped = 0;
    for (uint64_t i = 0; i < gguf_n_kv(g); i++)
        dropped += names_quantisation(gguf_kv_at(g, i)->key);
    for (uint64_t i = 0; i < n; i++)
        sorted[i] = gguf_tensor_at(g, i);
    qsort(sorted, (size_t)n, sizeof sorted[0], by_block_and_name);
    out_write(o, "GGUF", 4);
    out_u32(o, 3);
    out_u64(o, n);
    out_u64(o, gguf_n_kv(g) - dropped + 2);
    put_metadata(o, g);
    put_table(o, sorted, n, gguf_alignment(g));
    out_pad(o, gguf_alignment(g));
    for (uint64_t i = 0; i < n; i++) {
        put_tensor(o, sorted[i]);
        out_pad(o, gguf_alignment(g));
    }
}

int main(int argc, char **argv)
{
    static output o;
    os_map map;
    gguf *g;
    if (argc != 3)
        fail("usage: make_q8_0 IN.gguf OUT.gguf");
    if (os_map_open(&map, argv[1], &o.err) != MOTE_OK ||
        gguf_read(&g, map.data, map.bytes, &o.err) != MOTE_OK ||
        os_file_create(&o.file, argv[2], &o.err) != MOTE_OK)
        fail(o.err.text);
    convert(&o, g);
    if (os_file_commit(&o.file, &o.err) != MOTE_OK)
        fail(o.err.text);
    gguf_free(g);
    os_map_close(&map);
    return 0;
}
