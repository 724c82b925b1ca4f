/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.c - mote_model_* and the text functions of mote.h.
 *
 * mote_model_open maps the file and checks everything except the weight values: GGUF structure
 * (gguf/), shapes (model/), vocabulary (tok/). Weights stay in the mapping; the kernel reads them
 * from disk on first use. A model is immutable once open, so all functions here are thread-safe.
 */
#include "base/cpu.h"
#include "base/mem.h"
#include "engine/engine_int.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <string.h>

enum { PREFAULT_BYTES = 32 << 20, MEMORY_PAGE = 4096, SAMPLE_BYTES = 256 };

/* Hash of the tensor table, the file length and the first 256 bytes of every tensor. Hashing the
 * whole file would read all of it from disk. */
static uint64_t model_fingerprint(const os_map *map, const gguf *g)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, &map->bytes, sizeof map->bytes);
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
    mote_isa best = cpu_best_isa();
    mote_isa cap = options != NULL ? options->isa : MOTE_ISA_BEST;
    return cap == MOTE_ISA_BEST || cap > best ? best : cap;
}

static mote_status model_open_text(mote_model *m, const char *path,
                                   const mote_model_options *options, mote_error *err)
{
    TRY(os_map_open(&m->map, path, err));
    TRY(gguf_read(&m->file, m->map.data, m->map.bytes, err));
    TRY(hparams_read(&m->hp, m->file, err));
    kern_table_init(&m->kernels, model_choose_isa(options));
    TRY(weights_bind(&m->w, &m->hp, m->file, &m->kernels, err));
    TRY(tok_new(&m->tok, m->file, err));
    if (tok_n_tokens(m->tok) > m->hp.n_vocab)
        return err_set(err, MOTE_E_FORMAT,
                       "the vocabulary has %u tokens but the embedding table has %u rows",
                       tok_n_tokens(m->tok), m->hp.n_vocab);
    str name = {"", 0};
    bool found;
    TRY(gguf_get_str(m->file, "general.name", &name, &found, err));
    snprintf(m->name, sizeof m->name, "%.*s", STR_ARG(name));
    m->fingerprint = model_fingerprint(&m->map, m->file);
    return MOTE_OK;
}

static mote_status model_open_vision(mote_model *m, const char *path, mote_error *err)
{
    TRY(os_map_open(&m->vision_map, path, err));
    TRY(gguf_read(&m->vision_file, m->vision_map.data, m->vision_map.bytes, err));
    if (!vision_encoder_is_mmproj(m->vision_file))
        return err_set(err, MOTE_E_UNSUPPORTED, "%s is not a vision encoder (mmproj) file", path);
    TRY(vision_encoder_bind(&m->vision, m->vision_file, &m->kernels, m->hp.n_embd, err));
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
    if (out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_model_open: out must not be NULL");
    *out = NULL;
    if (path == NULL)
        return err_set(err, MOTE_E_ARG, "mote_model_open: path must not be NULL");
    mote_model *m = mem_new(1, sizeof *m);
    if (m == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for a model", sizeof *m);
    mote_status status = model_open_text(m, path, options, err);
    if (status == MOTE_OK && options != NULL && options->mmproj != NULL)
        status = model_open_vision(m, options->mmproj, err);
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
    gguf_free(m->vision_file);
    os_map_close(&m->vision_map);
    tok_free(m->tok);
    weights_fini(&m->w);
    gguf_free(m->file);
    os_map_close(&m->map);
    mem_free(m);
}

bool mote_model_prefault(const mote_model *m, uint64_t *done, uint64_t *total)
{
    *total = m->map.bytes;
    uint64_t end = *total - *done < PREFAULT_BYTES ? *total : *done + PREFAULT_BYTES;
    unsigned char sink = 0;
    for (uint64_t at = *done; at < end; at += MEMORY_PAGE)
        sink ^= ((const volatile unsigned char *)m->map.data)[at];
    (void)sink;
    *done = end;
    return end < *total;
}

void mote_model_drop_pages(const mote_model *m)
{
    os_map_drop_pages(&m->map);
    os_map_drop_pages(&m->vision_map);
}

void mote_model_describe(const mote_model *m, mote_model_info *out)
{
    *out = (mote_model_info){
        .parameters = m->w.parameters,
        .file_bytes = m->map.bytes,
        .private_bytes = sizeof *m + gguf_private_bytes(m->file) + m->w.private_bytes +
                         tok_private_bytes(m->tok) + m->vision.private_bytes +
                         (m->has_vision ? gguf_private_bytes(m->vision_file) : 0),
        .layers = m->hp.n_layers,
        .attention_layers = m->hp.n_attention,
        .context = m->hp.context,
        .vocabulary = m->hp.n_vocab,
        .tokens = tok_n_tokens(m->tok),
        .embedding = m->hp.n_embd,
        .tied = m->w.tied,
        .draft_head = m->w.draft.present,
        .vision = m->has_vision,
        .vision_file_bytes = m->vision_map.bytes,
        .isa = m->kernels.level,
    };
    memcpy(out->name, m->name, sizeof out->name);
    str template = {NULL, 0};
    bool found;
    if (gguf_get_str(m->file, "tokenizer.chat_template", &template, &found, NULL) == MOTE_OK) {
        out->chat_template = template.p;
        out->chat_template_bytes = template.n;
    }
}

mote_status mote_tokenize(const mote_model *m, const char *text, size_t bytes, unsigned flags,
                          mote_token *ids, size_t capacity, size_t *n, mote_error *err)
{
    if (m == NULL || n == NULL || (text == NULL && bytes > 0) || (ids == NULL && capacity > 0))
        return err_set(err, MOTE_E_ARG, "mote_tokenize: model, text, ids and n must not be NULL");
    return tok_encode(m->tok, (str){text, bytes}, flags, ids, capacity, n, err);
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
