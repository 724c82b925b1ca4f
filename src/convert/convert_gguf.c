/* SPDX-License-Identifier: Apache-2.0 */
/*
 * convert_gguf.c - GGUF files to one GGUF file: joins the parts of a split model, adds the MTP
 * block of a file of its own, leaves out tensors that are no part of the text model, and merges
 * adapters.
 */
#include "convert/convert.h"

#include "base/mem.h"
#include "gguf/gguf_files.h"
#include "quant/half.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

typedef struct gguf_copy {
    const convert_options *options;
    gguf_files files, mtp;
    const gguf_tensor **tensors; /* of the output */
    uint32_t n, room;
    uint32_t blocks, mtp_blocks; /* of the output; with MTP */
    gguf_writer *writer;
    char name[GGUF_MAX_KEY + 1]; /* for stream_tensor */
    float *wide;                 /* rows of a tensor that adapters change */
    size_t wide_bytes;
} gguf_copy;

/* ---- which tensors ---- */

static bool starts_with(str text, const char *prefix)
{
    const size_t n = strlen(prefix);
    return text.n >= n && memcmp(text.p, prefix, n) == 0;
}

static mote_status copy_add(gguf_copy *c, const gguf_tensor *t, mote_error *err)
{
    if (t->format == NULL)
        return err_set(err, MOTE_E_UNSUPPORTED, "tensor '%.*s' has type %s, which mote cannot read",
                       STR_ARG(t->name), quant_gguf_name(t->gguf_type));
    if (!mem_grow(&c->tensors, c->n, &c->room, sizeof *c->tensors))
        return err_set(err, MOTE_E_MEMORY, "out of memory: list of tensors");
    c->tensors[c->n++] = t;
    return gguf_writer_tensor(c->writer, t->name, t->format->format, t->n_dims, t->dims, err);
}

/* Why a tensor is left out; NULL: it is not. */
static const char *copy_reason(const gguf_copy *c, str name)
{
    const int64_t block = gguf_block_of(name);
    if (block >= c->blocks)
        return c->options->no_mtp ? "--no-mtp" : "its block is not in block_count";
    if (block >= 0)
        return NULL;
    if (starts_with(name, "token_embd.") || starts_with(name, "output.") ||
        starts_with(name, "output_norm.") || starts_with(name, "rope_freqs."))
        return NULL;
    if (starts_with(name, "v.") || starts_with(name, "mm."))
        return "a vision encoder needs an mmproj file of its own";
    return "no part of a Qwen 3.5 text model";
}

static bool copy_has(const gguf *g, str name)
{
    char text[GGUF_MAX_KEY + 1];
    snprintf(text, sizeof text, "%.*s", (int)name.n, name.p);
    return gguf_find_tensor(g, text) != NULL;
}

static mote_status copy_choose(gguf_copy *c, mote_error *err)
{
    const gguf *g = c->files.gguf, *mtp = c->mtp.gguf;
    for (uint64_t i = 0; i < gguf_n_tensors(g); i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        const char *why = copy_reason(c, t->name);
        if (why == NULL)
            TRY(copy_add(c, t, err));
        else if (c->options->unused != NULL)
            c->options->unused(c->options->ctx, t->name, why);
    }
    for (uint64_t i = 0; mtp != NULL && i < gguf_n_tensors(mtp); i++) {
        const gguf_tensor *t = gguf_tensor_at(mtp, i);
        if (gguf_block_of(t->name) + 1 == c->blocks)
            TRY(copy_add(c, t, err));
        else if (c->options->unused != NULL && !copy_has(g, t->name))
            c->options->unused(c->options->ctx, t->name, "no part of the MTP block");
    }
    return MOTE_OK;
}

/* ---- metadata ---- */

static mote_status copy_check_architecture(const gguf *g, mote_error *err)
{
    str name;
    TRY(gguf_get_str(g, "general.architecture", &name, NULL, err));
    if (!str_is(name, "qwen35") && !str_is(name, "qwen35moe"))
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "architecture '%.*s' is not a Qwen 3.5 model; llama.cpp runs it",
                       STR_ARG(name));
    return MOTE_OK;
}

/* Sets how many blocks the output has, and checks that an MTP file belongs to the model. */
static mote_status copy_count_blocks(gguf_copy *c, mote_error *err)
{
    uint32_t own = 0, embd = 0, other = 0, blocks = 0, one = 0;
    bool found;
    char key[GGUF_MAX_KEY];
    TRY(gguf_get_u32(c->files.gguf, gguf_arch_key(c->files.gguf, "block_count", key), &c->blocks,
                     NULL, err));
    TRY(gguf_get_u32(c->files.gguf, gguf_arch_key(c->files.gguf, "nextn_predict_layers", key), &own,
                     &found, err));
    if (own >= c->blocks)
        return err_set(err, MOTE_E_FORMAT, "nextn_predict_layers is %u of %u blocks", own,
                       c->blocks);
    c->mtp_blocks = own;
    if (c->options->no_mtp) {
        c->blocks -= own;
        c->mtp_blocks = 0;
        return MOTE_OK;
    }
    if (c->options->mtp == NULL)
        return MOTE_OK;
    if (own > 0)
        return err_set(err, MOTE_E_ARG, "the model has an MTP block already; leave out --mtp");
    TRY(gguf_files_open(&c->mtp, c->options->mtp, err));
    TRY(copy_check_architecture(c->mtp.gguf, err));
    TRY(gguf_get_u32(c->files.gguf, gguf_arch_key(c->files.gguf, "embedding_length", key), &embd,
                     NULL, err));
    TRY(gguf_get_u32(c->mtp.gguf, gguf_arch_key(c->mtp.gguf, "embedding_length", key), &other, NULL,
                     err));
    TRY(gguf_get_u32(c->mtp.gguf, gguf_arch_key(c->mtp.gguf, "block_count", key), &blocks, NULL,
                     err));
    TRY(gguf_get_u32(c->mtp.gguf, gguf_arch_key(c->mtp.gguf, "nextn_predict_layers", key), &one,
                     &found, err));
    if (embd != other || one != 1 || blocks != c->blocks + 1)
        return err_set(err, MOTE_E_MISMATCH,
                       "%.800s belongs to another model: embedding %u and %u blocks with %u of "
                       "MTP, expected %u and %u with 1",
                       c->options->mtp, other, blocks, one, embd, c->blocks + 1);
    c->blocks = blocks;
    c->mtp_blocks = 1;
    return MOTE_OK;
}

static void copy_metadata(gguf_copy *c)
{
    static const char name_key[] = "general.name";
    const gguf *g = c->files.gguf;
    char mtp_key[GGUF_MAX_KEY], count_key[GGUF_MAX_KEY], vision_keys[GGUF_MAX_KEY];
    gguf_arch_key(g, "nextn_predict_layers", mtp_key);
    gguf_arch_key(g, "block_count", count_key);
    gguf_arch_key(g, "vision.", vision_keys);
    const bool adds_mtp = c->mtp.gguf != NULL;
    for (uint64_t i = 0; i < gguf_n_kv(g); i++) {
        const gguf_kv *kv = gguf_kv_at(g, i);
        if (starts_with(kv->key, "split.") || str_is(kv->key, "general.alignment") ||
            starts_with(kv->key, vision_keys)) /* its tensors are left out */
            continue;
        if (str_is(kv->key, count_key))
            gguf_writer_u32(c->writer, count_key, c->blocks);
        else if (str_is(kv->key, name_key) && c->options->name != NULL)
            gguf_writer_str(c->writer, name_key, str_of(c->options->name));
        else if (!str_is(kv->key, mtp_key) || (c->mtp_blocks > 0 && !adds_mtp))
            gguf_writer_copy(c->writer, kv);
    }
    if (c->options->name != NULL && gguf_find(g, name_key) == NULL)
        gguf_writer_str(c->writer, name_key, str_of(c->options->name));
    if (adds_mtp)
        gguf_writer_u32(c->writer, mtp_key, c->mtp_blocks);
}

/* ---- data ---- */

static void copy_describe(void *ctx, uint32_t i, stream_tensor *out)
{
    gguf_copy *c = ctx;
    const gguf_tensor *t = c->tensors[i];
    const uint64_t rows = t->dims[1] * t->dims[2] * t->dims[3];
    snprintf(c->name, sizeof c->name, "%.*s", STR_ARG(t->name));
    *out = (stream_tensor){.name = c->name, .rows = rows, .row_bytes = t->bytes / rows};
}

/* Does an adapter change the tensor? Checks that it can be merged. */
static mote_status merge_check(const gguf_copy *c, const gguf_tensor *t, bool *merged,
                               mote_error *err)
{
    char name[GGUF_MAX_KEY + 1];
    *merged = false;
    snprintf(name, sizeof name, "%.*s", STR_ARG(t->name));
    const char *asked = strcmp(name, "token_embd.weight") == 0 ? "output.weight" : name;
    for (size_t i = 0; i < c->options->n_loras; i++)
        *merged |= mote_lora_merge(c->options->loras[i].lora, 1, asked, 0, 0, NULL);
    if (*merged && asked != name) {
        *merged = false;
        if (!copy_has(c->files.gguf, str_of(asked)))
            return err_set(err, MOTE_E_UNSUPPORTED,
                           "the adapter changes the output head, which this model shares with its "
                           "token embedding: it cannot be merged; use it with --lora");
    }
    const quant_format f = t->format != NULL ? t->format->format : QUANT_N_FORMATS;
    if (*merged && f != QUANT_F32 && f != QUANT_F16 && f != QUANT_BF16)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "tensor '%s' has format %s; merge into a BF16, F16 or F32 file, then run "
                       "mote quantize",
                       name, t->format != NULL ? t->format->name : "unknown");
    return MOTE_OK;
}

static mote_status merge_reserve(gguf_copy *c, size_t bytes, mote_error *err)
{
    if (bytes > c->wide_bytes) {
        mem_free(c->wide);
        c->wide = mem_new(bytes, 1);
        c->wide_bytes = c->wide != NULL ? bytes : 0;
    }
    return c->wide_bytes >= bytes
               ? MOTE_OK
               : err_set(err, MOTE_E_MEMORY, "out of memory: buffer of %zu bytes", bytes);
}

/* Rows of W + s B A, rounded once to the format of the tensor. */
static mote_status merge_fill(gguf_copy *c, const gguf_tensor *t, uint64_t first, uint64_t n,
                              uint64_t row_bytes, void *out, mote_error *err)
{
    const size_t values = (size_t)(n * t->dims[0]);
    TRY(merge_reserve(c, values * sizeof *c->wide, err));
    t->format->decode(t->data + first * row_bytes, values, c->wide);
    for (size_t i = 0; i < c->options->n_loras; i++)
        mote_lora_merge(c->options->loras[i].lora, c->options->loras[i].scale, c->name, first, n,
                        c->wide);
    const quant_format format = t->format->format;
    for (size_t i = 0; i < values; i++)
        if (!(fabsf(c->wide[i]) <= (format == QUANT_F16 ? HALF_F16_MAX : FLT_MAX)))
            return err_set(err, MOTE_E_UNSUPPORTED,
                           "'%s' has the value %g after the merge, which %s cannot hold; use a "
                           "smaller scale",
                           c->name, (double)c->wide[i], t->format->name);
    tensor_narrow(out, c->wide, values, format);
    return MOTE_OK;
}

static mote_status copy_fill(void *ctx, uint32_t i, uint64_t first, uint64_t n, void *out,
                             mote_error *err)
{
    gguf_copy *c = ctx;
    stream_tensor t;
    bool merged;
    copy_describe(c, i, &t);
    TRY(merge_check(c, c->tensors[i], &merged, err));
    if (merged)
        TRY(merge_fill(c, c->tensors[i], first, n, t.row_bytes, out, err));
    else
        memcpy(out, c->tensors[i]->data + first * t.row_bytes, (size_t)(n * t.row_bytes));
    gguf_files_drop_pages(&c->files);
    gguf_files_drop_pages(&c->mtp);
    TRY(gguf_files_check(&c->files, err));
    return c->mtp.gguf != NULL ? gguf_files_check(&c->mtp, err) : MOTE_OK;
}

/* A partial file of other adapters is not continued. */
static void merge_put_sources(const gguf_copy *c, strbuf *out)
{
    for (size_t i = 0; i < c->options->n_loras; i++) {
        mote_lora_info info;
        char line[64];
        mote_lora_describe(c->options->loras[i].lora, &info);
        snprintf(line, sizeof line, "lora %016llx %a\n", (unsigned long long)info.fingerprint,
                 (double)c->options->loras[i].scale);
        strbuf_text(out, line);
    }
}

static mote_status copy_write(gguf_copy *c, mote_error *err)
{
    strbuf sources = {0};
    uint32_t done = 0;
    TRY(gguf_files_check_output(&c->files, c->options->out, err));
    TRY(gguf_files_check_output(&c->mtp, c->options->out, err));
    gguf_files_put_sources(&c->files, &sources);
    gguf_files_put_sources(&c->mtp, &sources);
    merge_put_sources(c, &sources);
    mote_status status = strbuf_check(&sources, err);
    if (status == MOTE_OK)
        status = gguf_writer_begin(c->writer, c->options->out, strbuf_view(&sources), &done, err);
    strbuf_fini(&sources);
    const stream_source source = {
        .ctx = c, .n = c->n, .describe = copy_describe, .fill = copy_fill};
    if (status == MOTE_OK)
        status = tensor_stream_write(c->writer, &source, done, c->options->progress,
                                     c->options->ctx, err);
    return status == MOTE_OK ? gguf_writer_commit(c->writer, err) : status;
}

static mote_status copy_run(gguf_copy *c, const char *path, mote_error *err)
{
    TRY(gguf_files_open(&c->files, path, err));
    TRY(copy_check_architecture(c->files.gguf, err));
    TRY(copy_count_blocks(c, err));
    TRY(gguf_writer_new(&c->writer, err));
    copy_metadata(c);
    TRY(copy_choose(c, err));
    for (uint32_t i = 0; i < c->n; i++) { /* before anything is written */
        bool merged;
        TRY(merge_check(c, c->tensors[i], &merged, err));
    }
    TRY(copy_write(c, err));
    if (c->options->written != NULL)
        c->options->written(c->options->ctx, c->options->out, c->n,
                            gguf_writer_data_bytes(c->writer));
    return MOTE_OK;
}

mote_status convert_gguf(const char *path, const convert_options *o, mote_error *err)
{
    gguf_copy *c = mem_new(1, sizeof *c);
    if (c == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: conversion");
    c->options = o;
    const mote_status status = copy_run(c, path, err);
    tensor_stream_end(c->writer, status);
    gguf_files_close(&c->files);
    gguf_files_close(&c->mtp);
    mem_free(c->tensors);
    mem_free(c->wide);
    mem_free(c);
    return status;
}
