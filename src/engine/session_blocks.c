/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_blocks.c - the blocks of a session for a cache outside the engine: mote_session_blocks,
 * mote_session_prepare, mote_session_adopt, mote_engine_identity.
 *
 * A block is read and written in place, so a copy to or from a file needs no second buffer. The
 * functions here never read or write the contents of a block, except mote_engine_clear_page and
 * mote_session_adopt.
 */
#include "engine/engine_int.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

/* ---- identity ---- */

void mote_engine_identity(const mote_engine *e, unsigned char *out)
{
    const mote_model *m = e->model;
    const struct {
        uint64_t numerics, fingerprint, vision, draft, drafts, kv, page_bytes, state_bytes;
        double yarn;
    } all = {
        .numerics = MOTE_NUMERICS,
        .fingerprint = m->fingerprint,
        .vision = m->has_vision ? m->vision_fingerprint : 0,
        .draft = e->options.drafts ? m->draft_fingerprint : 0,
        .drafts = e->options.drafts,
        .kv = (uint64_t)e->options.kv,
        .page_bytes = e->pages.bytes,
        .state_bytes = e->states.bytes,
        .yarn = (double)e->yarn,
    };
    const XXH128_hash_t hash = XXH3_128bits(&all, sizeof all);
    _Static_assert(sizeof hash == MOTE_IDENTITY_BYTES, "a 128-bit hash");
    memcpy(out, &hash, sizeof hash);
}

/* ---- reading ---- */

static void block_add(mote_block *out, size_t room, size_t *n, mote_block block)
{
    if (*n < room)
        out[*n] = block;
    ++*n;
}

size_t mote_session_blocks(const mote_session *s, mote_block *out, size_t room)
{
    const mote_engine *e = s->engine;
    const uint64_t boundary = session_boundary(s);
    size_t n = 0;
    for (size_t i = 0; i < s->n_pages; i++)
        block_add(out, room, &n,
                  (mote_block){.kind = MOTE_BLOCK_PAGE,
                               .position = i * KERN_PAGE,
                               .data = s->pages[i],
                               .bytes = e->pages.bytes});
    for (uint32_t i = 0; i < s->n_kept; i++)
        if (s->kept[i].pos != boundary)
            block_add(out, room, &n,
                      (mote_block){.kind = MOTE_BLOCK_STATE,
                                   .position = s->kept[i].pos,
                                   .data = blocks_at(&e->states, s->kept[i].state),
                                   .bytes = e->states.bytes});
    if (boundary > 0)
        block_add(out, room, &n,
                  (mote_block){.kind = MOTE_BLOCK_STATE,
                               .position = boundary,
                               .data = blocks_at(&e->states, s->state),
                               .bytes = e->states.bytes});
    return n;
}

void engine_clear_page(const mote_engine *e, unsigned char *page, size_t rows, size_t draft_rows)
{
    const cache_layout *l = &e->forward.layout;
    const attn_shape *shape = &l->attention;
    for (size_t cell = 0; cell < shape->layers * shape->kv_heads; cell++) {
        const bool draft = l->drafts && cell / shape->kv_heads == l->draft_layer;
        const size_t from = draft ? draft_rows : rows;
        if (from < KERN_PAGE)
            kv_clear_from(shape->kv, page + cell * 2 * kv_half_bytes(shape->kv), from);
    }
}

void mote_engine_clear_page(const mote_engine *e, void *page, size_t rows)
{
    engine_clear_page(e, page, rows, rows > 0 ? rows - 1 : 0);
}

/* ---- a session with blocks from elsewhere ---- */

static mote_status prefix_check(const mote_engine *e, const mote_work *prefix, mote_error *err)
{
    if (prefix->n == 0 || prefix->n % KERN_CHUNK != 0)
        return err_set(err, MOTE_E_ARG,
                       "mote_session_prepare: %zu tokens, must be a multiple of %d", prefix->n,
                       KERN_CHUNK);
    for (size_t i = 0; i < prefix->n; i++)
        if (prefix->tokens[i] >= 0 && (uint32_t)prefix->tokens[i] >= e->model->hp.n_vocab)
            return err_set(err, MOTE_E_ARG, "token %d at position %zu is not in the vocabulary",
                           prefix->tokens[i], i);
    if (pages_of(prefix->n) > e->pages.n_free)
        return err_set(err, MOTE_E_MEMORY,
                       "KV cache full: the prefix has %zu tokens, %llu positions are free",
                       prefix->n, (unsigned long long)mote_engine_positions_free(e));
    return MOTE_OK;
}

mote_status mote_session_prepare(mote_session **out, mote_engine *engine,
                                 const mote_session_options *options, const mote_work *prefix,
                                 mote_error *err)
{
    if (out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_session_prepare: out must not be NULL");
    *out = NULL;
    if (engine == NULL || prefix == NULL || prefix->tokens == NULL)
        return err_set(err, MOTE_E_ARG, "mote_session_prepare: engine and prefix must not be NULL");
    TRY(prefix_check(engine, prefix, err));
    mote_session *s;
    TRY(session_claim(&s, engine, options != NULL ? options->context : 0, options, err));
    mote_status status = MOTE_OK;
    if (prefix->n > s->context)
        status =
            err_set(err, MOTE_E_FULL, "the prefix has %zu tokens, more than the context of %llu",
                    prefix->n, (unsigned long long)s->context);
    else
        status = image_spans_check(s, prefix, err);
    if (status != MOTE_OK) {
        mote_session_free(s);
        return status;
    }
    image_spans_set(s, prefix);
    session_add_pages(s, prefix->n);
    memcpy(s->tokens, prefix->tokens, prefix->n * sizeof *s->tokens);
    s->length = prefix->n;
    s->draft_done = prefix->n - 1;
    blocks_release(&engine->states, s->state);
    s->state = blocks_take(&engine->states);
    *out = s;
    return MOTE_OK;
}

void mote_session_adopt(mote_session *s)
{
    session_refill_ring(s);
}
