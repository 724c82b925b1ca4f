/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.c - mote_model_* and the text functions of mote.h.
 *
 * mote_model_open maps the file, or all parts of a split one, and checks everything except the
 * weight values: GGUF structure (gguf/), shapes (model/), vocabulary (tok/). Weights stay in the
 * mapping; the kernel reads them from disk on first use. A model is immutable once open, so all
 * functions here are thread-safe.
 */
#include "base/fpmode.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "engine/engine_int.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <string.h>

enum { PREFAULT_BYTES = 4 << 20, MEMORY_PAGE = 4096, SAMPLE_BYTES = 256 };

/* Hash of the hyperparameters, the tensor table and the first 256 bytes of every tensor. Hashing
 * whole files would read all of them from disk. A split model has the hash of the whole one. */
static uint64_t model_fingerprint(const gguf *g)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    str architecture = {"", 0};
    bool found;
    gguf_get_str(g, "general.architecture", &architecture, &found, NULL);
    for (uint64_t i = 0; i < gguf_n_kv(g); i++) {
        const gguf_kv *kv = gguf_kv_at(g, i);
        if (kv->key.n <= architecture.n || kv->key.p[architecture.n] != '.' ||
            memcmp(kv->key.p, architecture.p, architecture.n) != 0)
            continue;
        XXH3_64bits_update(&state, kv->key.p, kv->key.n);
        XXH3_64bits_update(&state, kv->bytes, kv->n_bytes);
    }
    for (uint64_t i = 0; i < gguf_n_tensors(g); i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        XXH3_64bits_update(&state, t->name.p, t->name.n);
        XXH3_64bits_update(&state, t->dims, sizeof t->dims);
        XXH3_64bits_update(&state, &t->gguf_type, sizeof t->gguf_type);
        if (t->data != NULL)
            XXH3_64bits_update(&state, t->data,
                               t->bytes < SAMPLE_BYTES ? t->bytes : (uint64_t)SAMPLE_BYTES);
    }
    return XXH3_64bits_digest(&state);
}

static mote_isa model_choose_isa(const mote_model_options *options)
{
    return cpu_best_isa_up_to(options != NULL ? options->isa : MOTE_ISA_BEST);
}

/* Opens the file with the MTP head, unless the model file has one. */
static mote_status model_open_draft(mote_model *m, const mote_model_options *options,
                                    mote_error *err)
{
    if (options == NULL || options->mtp == NULL || m->hp.n_draft > 0)
        return MOTE_OK;
    TRY(gguf_files_open(&m->draft_files, options->mtp, err));
    if (m->draft_files.n_parts > 1)
        return err_set(err, MOTE_E_UNSUPPORTED, "the MTP head %s is a split file", options->mtp);
    TRY(hparams_check_draft(&m->hp, m->draft_files.gguf, err));
    m->draft_fingerprint = model_fingerprint(m->draft_files.gguf);
    return MOTE_OK;
}

static mote_status model_open_text(mote_model *m, const char *path,
                                   const mote_model_options *options, mote_error *err)
{
    TRY(gguf_files_open(&m->files, path, err));
    const gguf *file = m->files.gguf;
    TRY(hparams_read(&m->hp, file, err));
    TRY(model_open_draft(m, options, err));
    kern_table_init(&m->kernels, model_choose_isa(options));
    TRY(weights_bind(&m->w, &m->hp, file, m->draft_files.gguf, &m->kernels, err));
    TRY(tok_new(&m->tok, file, err));
    if (tok_n_tokens(m->tok) > m->hp.n_vocab)
        return err_set(err, MOTE_E_FORMAT,
                       "the vocabulary has %u tokens but the embedding table has %u rows",
                       tok_n_tokens(m->tok), m->hp.n_vocab);
    str name = {"", 0};
    bool found;
    TRY(gguf_get_str(file, "general.name", &name, &found, err));
    snprintf(m->name, sizeof m->name, "%.*s", STR_ARG(name));
    m->fingerprint = model_fingerprint(file);
    return MOTE_OK;
}

/* `path` may be the model file itself, if it has the vision encoder inside. */
static mote_status model_open_vision(mote_model *m, const char *model, const char *path,
                                     mote_error *err)
{
    const bool inside = strcmp(path, model) == 0 && vision_encoder_is_inside(m->files.gguf);
    if (!inside)
        TRY(gguf_files_open(&m->vision_files, path, err));
    const gguf *file = inside ? m->files.gguf : m->vision_files.gguf;
    if (!inside && (!vision_encoder_is_mmproj(file) || m->vision_files.n_parts > 1))
        return err_set(err, MOTE_E_UNSUPPORTED, "%s is not a vision encoder (mmproj) file", path);
    TRY(vision_encoder_bind(&m->vision, file, &m->kernels, m->hp.n_embd, err));
    m->vision_fingerprint = model_fingerprint(file);
    m->has_vision = true;
    return MOTE_OK;
}

const char *mote_version(void)
{
    return MOTE_VERSION;
}

mote_status mote_model_open(mote_model **out, const char *path, const mote_model_options *options,
                            mote_error *err)
{
    FPMODE_SCOPE;
    if (out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_model_open: out must not be NULL");
    *out = NULL;
    if (path == NULL)
        return err_set(err, MOTE_E_ARG, "mote_model_open: path must not be NULL");
    if (options != NULL)
        TRY(cpu_check_level(options->isa, err));
    mote_model *m = mem_new(1, sizeof *m);
    if (m == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for a model", sizeof *m);
    mote_status status = model_open_text(m, path, options, err);
    if (status == MOTE_OK && options != NULL && options->mmproj != NULL)
        status = model_open_vision(m, path, options->mmproj, err);
    if (model_check_files(m, NULL) != MOTE_OK) /* the cause of any other error */
        status = model_check_files(m, err);
    if (status != MOTE_OK) {
        mote_model_close(m);
        return status;
    }
    *out = m;
    return MOTE_OK;
}

void mote_model_close(mote_model *m)
{
    if (m == NULL)
        return;
    vision_encoder_fini(&m->vision);
    gguf_files_close(&m->vision_files);
    tok_free(m->tok);
    weights_fini(&m->w);
    gguf_files_close(&m->draft_files);
    gguf_files_close(&m->files);
    mem_free(m);
}

/* ---- files that change while they are mapped ---- */

mote_status mote_guard_files(mote_error *err)
{
    return os_map_guard() ? MOTE_OK : err_set(err, MOTE_E_IO, "cannot install a SIGBUS handler");
}

mote_status model_check_text_files(const mote_model *m, mote_error *err)
{
    TRY(gguf_files_check(&m->files, err));
    return gguf_files_check(&m->draft_files, err);
}

mote_status model_check_files(const mote_model *m, mote_error *err)
{
    TRY(model_check_text_files(m, err));
    return gguf_files_check(&m->vision_files, err);
}

static void files_mark_damaged(const gguf_files *f, const bool marked[GGUF_MAX_PARTS])
{
    for (uint32_t i = 0; i < f->n_parts; i++)
        if (marked[i])
            os_map_mark_damaged(&f->maps[i]);
}

/* A file that was written to is damaged unless its samples are the same. */
static mote_file_state files_compare(const gguf_files *f, uint64_t fingerprint)
{
    bool modified[GGUF_MAX_PARTS] = {false}, any_modified = false;
    mote_file_state result = MOTE_FILE_SAME;
    for (uint32_t i = 0; i < f->n_parts; i++) {
        const os_map_state state = os_map_compare(&f->maps[i], f->paths[i]);
        modified[i] = state == OS_MAP_MODIFIED;
        any_modified |= modified[i];
        if (state == OS_MAP_DAMAGED)
            result = MOTE_FILE_DAMAGED;
        else if (state == OS_MAP_REPLACED && result == MOTE_FILE_SAME)
            result = MOTE_FILE_REPLACED;
    }
    if (result == MOTE_FILE_DAMAGED || !any_modified)
        return result;
    if (model_fingerprint(f->gguf) == fingerprint && gguf_files_intact(f))
        return result;
    files_mark_damaged(f, modified);
    return MOTE_FILE_DAMAGED;
}

mote_file_state mote_model_file_state(const mote_model *m)
{
    const mote_file_state text = files_compare(&m->files, m->fingerprint);
    const mote_file_state vision =
        m->has_vision ? files_compare(&m->vision_files, m->vision_fingerprint) : MOTE_FILE_SAME;
    const mote_file_state draft = m->draft_files.n_parts > 0
                                      ? files_compare(&m->draft_files, m->draft_fingerprint)
                                      : MOTE_FILE_SAME;
    const mote_file_state worst = text > vision ? text : vision;
    return worst > draft ? worst : draft;
}

static mote_status files_reopen(const gguf_files *f, uint64_t fingerprint, mote_error *err)
{
    bool reopened[GGUF_MAX_PARTS] = {false};
    const os_map *last = NULL;
    for (uint32_t i = 0; i < f->n_parts; i++) {
        if (os_map_intact(&f->maps[i]))
            continue;
        const mote_status status = os_map_reopen(&f->maps[i], f->paths[i], err);
        if (status != MOTE_OK) {
            files_mark_damaged(f, reopened); /* not compared with the fingerprint */
            return status;
        }
        reopened[i] = true;
        last = &f->maps[i];
    }
    if (last == NULL || (model_fingerprint(f->gguf) == fingerprint && gguf_files_intact(f)))
        return MOTE_OK;
    files_mark_damaged(f, reopened);
    return err_set(err, MOTE_E_MISMATCH, "the file %s has other contents than before", last->name);
}

mote_status mote_model_reopen(const mote_model *m, mote_error *err)
{
    TRY(files_reopen(&m->files, m->fingerprint, err));
    if (m->draft_files.n_parts > 0)
        TRY(files_reopen(&m->draft_files, m->draft_fingerprint, err));
    return m->has_vision ? files_reopen(&m->vision_files, m->vision_fingerprint, err) : MOTE_OK;
}

/* Reads one byte of each page of a range of one file. */
static void map_touch(const os_map *map, uint64_t from, uint64_t end)
{
    unsigned char sink = 0;
    for (uint64_t at = from; at < end; at += MEMORY_PAGE)
        sink ^= ((const volatile unsigned char *)map->data)[at];
    (void)sink;
}

/* The same for all parts; the first one begins at byte `start` of the range. */
static void files_touch(const gguf_files *f, uint64_t start, uint64_t from, uint64_t end)
{
    for (uint32_t i = 0; i < f->n_parts && start < end; i++) {
        const os_map *map = &f->maps[i];
        if (from < start + map->bytes)
            map_touch(map, from > start ? from - start : 0,
                      end - start < map->bytes ? end - start : map->bytes);
        start += map->bytes;
    }
}

bool mote_model_prefault(const mote_model *m, uint64_t *done, uint64_t *total)
{
    *total = m->files.bytes + m->draft_files.bytes;
    const uint64_t end = *total - *done < PREFAULT_BYTES ? *total : *done + PREFAULT_BYTES;
    files_touch(&m->files, 0, *done, end);
    files_touch(&m->draft_files, m->files.bytes, *done, end);
    *done = end;
    return end < *total;
}

void mote_model_drop_pages(const mote_model *m)
{
    gguf_files_drop_pages(&m->files);
    gguf_files_drop_pages(&m->draft_files);
    gguf_files_drop_pages(&m->vision_files);
}

void mote_model_describe(const mote_model *m, mote_model_info *out)
{
    *out = (mote_model_info){
        .parameters = m->w.parameters,
        .file_bytes = m->files.bytes,
        .private_bytes = sizeof *m + gguf_files_private_bytes(&m->files) + m->w.private_bytes +
                         tok_private_bytes(m->tok) + m->vision.private_bytes +
                         gguf_files_private_bytes(&m->vision_files) +
                         gguf_files_private_bytes(&m->draft_files),
        .layers = m->hp.n_layers,
        .attention_layers = m->hp.n_attention,
        .context = m->hp.context,
        .vocabulary = m->hp.n_vocab,
        .tokens = tok_n_tokens(m->tok),
        .embedding = m->hp.n_embd,
        .experts = m->hp.n_experts,
        .experts_used = m->hp.n_used,
        .expert_bytes = m->w.expert_bytes,
        .tied = m->w.tied,
        .draft_head = m->w.draft.present,
        .vision = m->has_vision,
        .vision_file_bytes = m->vision_files.bytes,
        .draft_file_bytes = m->draft_files.bytes,
        .isa = m->kernels.level,
    };
    memcpy(out->name, m->name, sizeof out->name);
    str template = {NULL, 0};
    bool found;
    if (gguf_get_str(m->files.gguf, "tokenizer.chat_template", &template, &found, NULL) ==
        MOTE_OK) {
        out->chat_template = template.p;
        out->chat_template_bytes = template.n;
    }
}

mote_status mote_tokenize(const mote_model *m, const char *text, size_t bytes, unsigned flags,
                          mote_token *ids, size_t capacity, size_t *n, mote_error *err)
{
    return mote_tokenize_with_hook(m, text, bytes, flags, ids, capacity, n, NULL, NULL, err);
}

mote_status mote_tokenize_with_hook(const mote_model *m, const char *text, size_t bytes,
                                    unsigned flags, mote_token *ids, size_t capacity, size_t *n,
                                    bool (*hook)(void *ctx), void *ctx, mote_error *err)
{
    if (m == NULL || n == NULL || (text == NULL && bytes > 0) || (ids == NULL && capacity > 0))
        return err_set(err, MOTE_E_ARG, "mote_tokenize: model, text, ids and n must not be NULL");
    return tok_encode_with_hook(m->tok, (str){text, bytes}, flags, ids, capacity, n, hook, ctx,
                                err);
}

size_t mote_tokens_at_least(const mote_model *m, const char *text, size_t bytes)
{
    return tok_least_tokens(m->tok, (str){text, bytes});
}

const char *mote_token_bytes(const mote_model *m, mote_token id, size_t *bytes)
{
    str text = tok_bytes(m->tok, id);
    *bytes = text.n;
    return text.p;
}

bool mote_token_is_control(const mote_model *m, mote_token id)
{
    return tok_is_control(m->tok, id);
}

bool mote_token_is_end(const mote_model *m, mote_token id)
{
    return tok_is_end(m->tok, id);
}

size_t mote_text_next(const mote_model *m, mote_text_stream *stream, mote_token id, char *text,
                      size_t capacity)
{
    return tok_stream_next(m->tok, stream, id, text, capacity);
}
