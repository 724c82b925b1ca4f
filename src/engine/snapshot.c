/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.c - a session as a file: mote_session_save and mote_session_load.
 *
 * Little-endian, no padding between parts:
 *
 *   header   snapshot_header, 64 bytes
 *   adapters with SNAPSHOT_ADAPTERS in the format: their number, u64; then a snapshot_adapter each
 *   tokens   [length] i32
 *   images   formats 2 and 4: their number, u64; then for each image its first position, u64, and
 *            its rows and columns of tokens, u32 each
 *   pages    KV pages, [ceil(length / 64)][page_bytes]; positions beyond length are zero, and from
 *            draft_saved() on in the MTP block
 *   state    recurrent state, [state_bytes]; only if length >= 32
 *   tail     per DeltaNet layer: k [rows][key_dim] f32, u [rows][value_dim] f32,
 *            G [rows][value_heads] f64 with rows = length % 32, then the convolution inputs of
 *            positions ring_from .. length-1, [conv_dim] f32 each
 *   hidden   format 4 only: hidden row, cos and sin, [n_embd + 64] f32, of the positions from
 *            length / 32 * 32 - 1 on, at least 0
 *   check    XXH3-64 of everything before it
 *
 * All sizes follow from the model, which the fingerprint identifies. A file with any other length
 * is rejected. Kept marks are not saved. A snapshot is untrusted input: all reads go through a
 * cursor.
 */
#include "base/cursor.h"
#include "base/mem.h"
#include "engine/engine_int.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <string.h>

/* Engines with drafts write format 4. The others write sessions without images in format 1, which
 * every version of mote reads. */
enum {
    SNAPSHOT_TEXT = 1,
    SNAPSHOT_IMAGES = 2,
    SNAPSHOT_DRAFTS = 4,
    SNAPSHOT_ADAPTERS = 16 /* added to a format: the session has adapters */
};
static const char snapshot_magic[8] = {'M', 'O', 'T', 'E', 'S', 'N', 'A', 'P'};

typedef struct snapshot_header {
    char magic[8];
    uint32_t version;
    uint32_t numerics;
    uint64_t fingerprint;
    uint64_t length;
    uint64_t ring_from;
    uint32_t kv;
    float yarn;
    uint64_t page_bytes;
    uint64_t state_bytes;
} snapshot_header;
_Static_assert(sizeof(snapshot_header) == 64, "written as it is in memory");

typedef struct snapshot_adapter {
    uint64_t fingerprint;
    float scale;
    uint32_t zero;
    char name[48]; /* for messages */
} snapshot_adapter;
_Static_assert(sizeof(snapshot_adapter) == 64, "written as it is in memory");

/* The format without SNAPSHOT_ADAPTERS. */
static uint32_t snapshot_kind(const snapshot_header *h)
{
    return h->version & ~(uint32_t)SNAPSHOT_ADAPTERS;
}

static snapshot_adapter adapter_entry(const mote_lora_use *use)
{
    snapshot_adapter a = {.fingerprint = use->lora->fingerprint, .scale = use->scale};
    snprintf(a.name, sizeof a.name, "%.47s", use->lora->name);
    return a;
}

/* Of the weights that a session depends on, with drafts or without. */
static uint64_t snapshot_fingerprint(const mote_model *m, bool drafts)
{
    return m->fingerprint ^ (drafts ? m->draft_fingerprint : 0);
}

/* ---- the parts of a tail, in file order ---- */

typedef mote_status tail_part_fn(void *ctx, void *data, size_t bytes, mote_error *err);

/* Calls fn for each used part of the tail. */
static mote_status snapshot_each_tail_part(const mote_session *s, tail_part_fn *fn, void *ctx,
                                           mote_error *err)
{
    for (uint32_t i = 0; i < s->engine->forward.layout.n_delta; i++) {
        tail_part parts[TAIL_PARTS];
        session_tail_parts(s, i, parts);
        for (size_t j = 0; j < TAIL_PARTS; j++)
            TRY(fn(ctx, parts[j].data, parts[j].bytes, err));
    }
    if (s->engine->options.drafts) {
        tail_part parts[HIDDEN_PARTS];
        session_hidden_parts(s, parts);
        for (size_t j = 0; j < HIDDEN_PARTS; j++)
            TRY(fn(ctx, parts[j].data, parts[j].bytes, err));
    }
    return MOTE_OK;
}

/* ---- writing ---- */

typedef struct snapshot_writer {
    os_file file;
    XXH3_state_t hash;
} snapshot_writer;

static mote_status writer_put(snapshot_writer *w, const void *data, size_t bytes, mote_error *err)
{
    if (bytes == 0)
        return MOTE_OK;
    XXH3_64bits_update(&w->hash, data, bytes);
    return os_file_write(&w->file, data, bytes, err);
}

static mote_status writer_put_part(void *ctx, void *data, size_t bytes, mote_error *err)
{
    return writer_put(ctx, data, bytes, err);
}

static mote_status writer_put_pages(snapshot_writer *w, const mote_session *s, mote_error *err)
{
    const size_t bytes = s->engine->pages.bytes;
    if (s->n_pages == 0)
        return MOTE_OK;
    for (size_t i = 0; i < s->n_pages - 1; i++)
        TRY(writer_put(w, s->pages[i], bytes, err));
    unsigned char *last = mem_new(1, bytes);
    if (last == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes to copy a KV page", bytes);
    memcpy(last, s->pages[s->n_pages - 1], bytes);
    /* What the session has not written, or may not have: it may be data of another one. */
    engine_clear_page(s->engine, last, (size_t)((s->length - 1) % KERN_PAGE) + 1,
                      (size_t)(draft_saved(s) % KERN_PAGE));
    mote_status status = writer_put(w, last, bytes, err);
    mem_free(last);
    return status;
}

_Static_assert(sizeof(image_span) == 16, "written as it is in memory");

static mote_status writer_put_adapters(snapshot_writer *w, const mote_session *s, mote_error *err)
{
    const uint64_t n = s->lora.n;
    if (n == 0)
        return MOTE_OK;
    TRY(writer_put(w, &n, sizeof n, err));
    for (uint64_t i = 0; i < n; i++) {
        const snapshot_adapter a = adapter_entry(&s->loras[i]);
        TRY(writer_put(w, &a, sizeof a, err));
    }
    return MOTE_OK;
}

static mote_status writer_put_session(snapshot_writer *w, const mote_session *s, mote_error *err)
{
    const mote_engine *e = s->engine;
    const uint32_t kind = e->options.drafts ? SNAPSHOT_DRAFTS
                          : s->n_spans > 0  ? SNAPSHOT_IMAGES
                                            : SNAPSHOT_TEXT;
    snapshot_header header = {
        .version = kind + (s->lora.n > 0 ? (uint32_t)SNAPSHOT_ADAPTERS : 0),
        .numerics = MOTE_NUMERICS,
        .fingerprint = snapshot_fingerprint(e->model, e->options.drafts),
        .length = s->length,
        .ring_from = s->ring_from,
        .kv = (uint32_t)e->options.kv,
        .yarn = e->yarn,
        .page_bytes = e->pages.bytes,
        .state_bytes = e->states.bytes,
    };
    memcpy(header.magic, snapshot_magic, sizeof snapshot_magic);
    TRY(writer_put(w, &header, sizeof header, err));
    TRY(writer_put_adapters(w, s, err));
    TRY(writer_put(w, s->tokens, (size_t)s->length * sizeof *s->tokens, err));
    const uint64_t n_spans = s->n_spans;
    if (kind != SNAPSHOT_TEXT) {
        TRY(writer_put(w, &n_spans, sizeof n_spans, err));
        TRY(writer_put(w, s->spans, s->n_spans * sizeof *s->spans, err));
    }
    TRY(writer_put_pages(w, s, err));
    if (session_boundary(s) > 0)
        TRY(writer_put(w, blocks_at(&e->states, s->state), e->states.bytes, err));
    TRY(snapshot_each_tail_part(s, writer_put_part, w, err));
    uint64_t check = XXH3_64bits_digest(&w->hash);
    return os_file_write(&w->file, &check, sizeof check, err);
}

mote_status mote_session_save(const mote_session *s, const char *path, mote_error *err)
{
    if (s == NULL || path == NULL)
        return err_set(err, MOTE_E_ARG, "mote_session_save: session and path must not be NULL");
    snapshot_writer w;
    XXH3_64bits_reset(&w.hash);
    TRY(os_file_create(&w.file, path, err));
    mote_status status = writer_put_session(&w, s, err);
    if (status == MOTE_OK)
        status = os_file_commit(&w.file, err);
    os_file_abandon(&w.file);
    return status;
}

/* ---- reading ---- */

static mote_status snapshot_truncated(mote_error *err)
{
    return err_set(err, MOTE_E_FORMAT, "invalid snapshot: file is truncated");
}

static mote_status reader_take_part(void *ctx, void *data, size_t bytes, mote_error *err)
{
    return cursor_copy(ctx, data, bytes) ? MOTE_OK : snapshot_truncated(err);
}

static mote_status snapshot_check_header(const mote_engine *e, const snapshot_header *h,
                                         mote_error *err)
{
    if (memcmp(h->magic, snapshot_magic, sizeof snapshot_magic) != 0)
        return err_set(err, MOTE_E_FORMAT, "not a mote snapshot");
    const uint32_t kind = snapshot_kind(h);
    const bool known = kind == SNAPSHOT_TEXT || kind == SNAPSHOT_IMAGES || kind == SNAPSHOT_DRAFTS;
    if (!known || h->numerics != MOTE_NUMERICS)
        return err_set(err, MOTE_E_MISMATCH,
                       "snapshot has format %u and numerics %u; supported: formats %d, %d and %d, "
                       "numerics %d",
                       h->version, h->numerics, SNAPSHOT_TEXT, SNAPSHOT_IMAGES, SNAPSHOT_DRAFTS,
                       MOTE_NUMERICS);
    if (h->fingerprint != snapshot_fingerprint(e->model, kind == SNAPSHOT_DRAFTS))
        return err_set(err, MOTE_E_MISMATCH, "snapshot belongs to another model file");
    if ((kind == SNAPSHOT_DRAFTS) != e->options.drafts)
        return err_set(err, MOTE_E_MISMATCH,
                       "snapshot was saved with drafts %s, the engine has them %s (`drafts` in "
                       "mote_engine_options)",
                       e->options.drafts ? "off" : "on", e->options.drafts ? "on" : "off");
    if (h->kv != (uint32_t)e->options.kv || !(h->yarn == e->yarn))
        return err_set(err, MOTE_E_MISMATCH,
                       "snapshot has KV format %u and YaRN factor %g; the engine has %d and %g",
                       h->kv, (double)h->yarn, (int)e->options.kv, (double)e->yarn);
    if (h->page_bytes != e->pages.bytes || h->state_bytes != e->states.bytes)
        return err_set(err, MOTE_E_FORMAT, "invalid snapshot: block sizes do not match the model");
    uint64_t oldest = h->length > DELTA_RING ? h->length - DELTA_RING : 0;
    uint64_t needed = h->length > DELTA_HISTORY ? h->length - DELTA_HISTORY : 0;
    if (h->ring_from < oldest || h->ring_from > needed)
        return err_set(err, MOTE_E_FORMAT,
                       "invalid snapshot: convolution inputs start at %llu, length %llu",
                       (unsigned long long)h->ring_from, (unsigned long long)h->length);
    return MOTE_OK;
}

/* Adapter i of the file must be adapter i of the session. */
static mote_status reader_take_adapter(cursor *c, const mote_session *s, uint64_t i,
                                       mote_error *err)
{
    snapshot_adapter stored;
    if (!cursor_copy(c, &stored, sizeof stored))
        return snapshot_truncated(err);
    stored.name[sizeof stored.name - 1] = '\0';
    for (char *at = stored.name; *at != '\0'; at++)
        *at = *at >= ' ' && *at < 0x7F ? *at : '?';
    if (i < s->lora.n && stored.fingerprint == s->loras[i].lora->fingerprint &&
        memcmp(&stored.scale, &s->loras[i].scale, sizeof stored.scale) == 0)
        return MOTE_OK;
    return err_set(err, MOTE_E_MISMATCH,
                   "snapshot was saved with the adapter '%s' and scale %g; load it with the same "
                   "adapters in mote_session_options",
                   stored.name, (double)stored.scale);
}

static mote_status reader_take_adapters(cursor *c, const mote_session *s, const snapshot_header *h,
                                        mote_error *err)
{
    uint64_t n = 0;
    if (h->version != snapshot_kind(h)) {
        if (!cursor_copy(c, &n, sizeof n))
            return snapshot_truncated(err);
        if (n == 0 || n > MOTE_MAX_LORAS)
            return err_set(err, MOTE_E_FORMAT, "invalid snapshot: %llu adapters",
                           (unsigned long long)n);
    }
    for (uint64_t i = 0; i < n; i++)
        TRY(reader_take_adapter(c, s, i, err));
    if (n != s->lora.n)
        return err_set(err, MOTE_E_MISMATCH,
                       "snapshot was saved with %llu adapters, mote_session_options have %u",
                       (unsigned long long)n, s->lora.n);
    return MOTE_OK;
}

/* The last 8 bytes are the hash of all others. */
static mote_status snapshot_check_hash(const unsigned char *bytes, size_t n, mote_error *err)
{
    uint64_t stored;
    if (n < sizeof(snapshot_header) + sizeof stored)
        return snapshot_truncated(err);
    memcpy(&stored, bytes + n - sizeof stored, sizeof stored);
    if (XXH3_64bits(bytes, n - sizeof stored) != stored)
        return err_set(err, MOTE_E_FORMAT, "invalid snapshot: checksum mismatch");
    return MOTE_OK;
}

/* Tokens are below 0 exactly inside image spans; all others are in the vocabulary. */
static mote_status snapshot_check_tokens(const mote_session *s, uint64_t length, mote_error *err)
{
    uint32_t at = 0;
    for (uint64_t i = 0; i < length; i++) {
        while (at < s->n_spans && i >= s->spans[at].start + span_tokens(&s->spans[at]))
            at++;
        const bool in_image = at < s->n_spans && i >= s->spans[at].start;
        if (in_image != (s->tokens[i] < 0) ||
            (!in_image && (uint32_t)s->tokens[i] >= s->engine->model->hp.n_vocab))
            return err_set(err, MOTE_E_FORMAT, "invalid snapshot: token %d at position %llu",
                           s->tokens[i], (unsigned long long)i);
    }
    return MOTE_OK;
}

static mote_status reader_take_spans(mote_session *s, cursor *c, const snapshot_header *h,
                                     mote_error *err)
{
    uint64_t n, end = 0;
    if (snapshot_kind(h) == SNAPSHOT_TEXT)
        return MOTE_OK;
    if (!cursor_copy(c, &n, sizeof n))
        return snapshot_truncated(err);
    if (n == 0 && snapshot_kind(h) == SNAPSHOT_DRAFTS)
        return MOTE_OK;
    if (n > 0 && !s->engine->model->has_vision)
        return err_set(err, MOTE_E_MISMATCH,
                       "snapshot contains images, but the model was opened without an mmproj file");
    if (n == 0 || n > SESSION_SPANS)
        return err_set(err, MOTE_E_FORMAT, "invalid snapshot: %llu images", (unsigned long long)n);
    if (!cursor_copy(c, s->spans, (size_t)n * sizeof *s->spans))
        return snapshot_truncated(err);
    for (uint64_t i = 0; i < n; i++) {
        const image_span *span = &s->spans[i];
        if (span->start < end || span->start >= h->length || span->rows == 0 || span->cols == 0 ||
            span_tokens(span) > MOTE_IMAGE_MAX_TOKENS)
            return err_set(err, MOTE_E_FORMAT, "invalid snapshot: position or size of an image");
        end = span->start + span_tokens(span);
    }
    s->n_spans = (uint32_t)n;
    return MOTE_OK;
}

static mote_status reader_take_tokens(mote_session *s, cursor *c, const snapshot_header *h,
                                      mote_error *err)
{
    if (!cursor_copy(c, s->tokens, (size_t)h->length * sizeof *s->tokens))
        return snapshot_truncated(err);
    TRY(reader_take_spans(s, c, h, err));
    return snapshot_check_tokens(s, h->length, err);
}

static mote_status reader_take_session(mote_session *s, cursor *c, const snapshot_header *h,
                                       mote_error *err)
{
    mote_engine *e = s->engine;
    TRY(reader_take_adapters(c, s, h, err));
    TRY(reader_take_tokens(s, c, h, err));
    if (pages_of(h->length) > e->pages.n_free)
        return err_set(err, MOTE_E_MEMORY,
                       "KV cache full: the snapshot has %llu tokens, %llu positions are free",
                       (unsigned long long)h->length,
                       (unsigned long long)mote_engine_positions_free(e));
    session_add_pages(s, h->length);
    s->length = h->length;
    s->ring_from = h->ring_from;
    s->draft_done = draft_saved(s);
    for (size_t i = 0; i < s->n_pages; i++)
        TRY(reader_take_part(c, s->pages[i], e->pages.bytes, err));
    if (session_boundary(s) > 0) {
        blocks_release(&e->states, s->state);
        s->state = blocks_take(&e->states);
        TRY(reader_take_part(c, blocks_at(&e->states, s->state), e->states.bytes, err));
    }
    TRY(snapshot_each_tail_part(s, reader_take_part, c, err));
    if (cursor_left(c) != 0)
        return err_set(err, MOTE_E_FORMAT, "invalid snapshot: %zu extra bytes at the end",
                       cursor_left(c));
    return MOTE_OK;
}

mote_status snapshot_read(mote_session **out, mote_engine *e, const unsigned char *bytes, size_t n,
                          const mote_session_options *options, mote_error *err)
{
    *out = NULL;
    TRY(snapshot_check_hash(bytes, n, err));
    cursor c = {.p = bytes, .n = n - sizeof(uint64_t)};
    snapshot_header h;
    if (!cursor_copy(&c, &h, sizeof h))
        return snapshot_truncated(err);
    TRY(snapshot_check_header(e, &h, err));
    uint64_t share = session_default_context(e);
    uint64_t context = options != NULL && options->context > 0 ? options->context
                       : share > h.length                      ? share
                                                               : h.length;
    if (h.length > context)
        return err_set(err, MOTE_E_FULL,
                       "the snapshot has %llu tokens, more than the context of %llu",
                       (unsigned long long)h.length, (unsigned long long)context);
    mote_session *s;
    TRY(session_claim(&s, e, context, options, err));
    mote_status status = reader_take_session(s, &c, &h, err);
    if (status != MOTE_OK) {
        mote_session_free(s);
        return status;
    }
    *out = s;
    return MOTE_OK;
}

mote_status mote_session_load(mote_session **out, mote_engine *engine, const char *path,
                              const mote_session_options *options, mote_error *err)
{
    if (out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_session_load: out must not be NULL");
    *out = NULL;
    if (engine == NULL || path == NULL)
        return err_set(err, MOTE_E_ARG, "mote_session_load: engine and path must not be NULL");
    os_map map;
    TRY(os_map_open(&map, path, err));
    mote_status status = snapshot_read(out, engine, map.data, (size_t)map.bytes, options, err);
    if (!os_map_intact(&map)) {
        if (status == MOTE_OK)
            mote_session_free(*out);
        *out = NULL;
        status = os_map_check(&map, err);
    }
    os_map_close(&map);
    return status;
}
