/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_end.c - the end of a session for a cache outside the engine: mote_session_end_bytes,
 * mote_session_read_end, mote_session_write_end.
 *
 * Blocks (session_blocks.c) restore a session at a multiple of 32. Its end is what comes after:
 *
 *   page     the last KV page; rows beyond the length are zero
 *   tail     per DeltaNet layer: rows since the last multiple of 32, and the convolution inputs that
 *            the next token needs
 *   hidden   with drafts: the hidden rows that the next draft needs
 *   logits   of the last token
 */
#include "engine/engine_int.h"

#include <string.h>

/* A position in the bytes of an end. */
typedef struct end_cursor {
    unsigned char *bytes;
    size_t n;
} end_cursor;

typedef void end_part_fn(end_cursor *c, void *data, size_t bytes);

static void part_count(end_cursor *c, void *data, size_t bytes)
{
    (void)data;
    c->n += bytes;
}

static void part_read(end_cursor *c, void *data, size_t bytes)
{
    memcpy(c->bytes + c->n, data, bytes);
    c->n += bytes;
}

static void part_write(end_cursor *c, void *data, size_t bytes)
{
    memcpy(data, c->bytes + c->n, bytes);
    c->n += bytes;
}

/* The session as if it had this length and no convolution inputs but the necessary ones. */
static mote_session end_view(const mote_session *s, uint64_t length)
{
    mote_session view = *s;
    view.length = length;
    view.ring_from = length > DELTA_HISTORY ? length - DELTA_HISTORY : 0;
    return view;
}

/* Calls fn for the parts of the tail, in file order. */
static void end_each_part(const mote_session *s, end_part_fn *fn, end_cursor *c)
{
    tail_part parts[TAIL_PARTS], hidden[HIDDEN_PARTS];
    for (uint32_t i = 0; i < s->engine->forward.layout.n_delta; i++) {
        session_tail_parts(s, i, parts);
        for (size_t j = 0; j < TAIL_PARTS; j++)
            if (parts[j].bytes > 0)
                fn(c, parts[j].data, parts[j].bytes);
    }
    if (!s->engine->options.drafts)
        return;
    session_hidden_parts(s, hidden);
    for (size_t j = 0; j < HIDDEN_PARTS; j++)
        if (hidden[j].bytes > 0)
            fn(c, hidden[j].data, hidden[j].bytes);
}

static size_t logits_bytes(const mote_engine *e)
{
    return e->model->hp.n_vocab * sizeof(float);
}

size_t mote_session_end_bytes(const mote_session *s, uint64_t length)
{
    end_cursor c = {0};
    const mote_session view = end_view(s, length);
    end_each_part(&view, part_count, &c);
    return s->engine->pages.bytes + c.n + logits_bytes(s->engine);
}

mote_status mote_session_read_end(const mote_session *s, void *out, mote_error *err)
{
    const mote_engine *e = s->engine;
    const float *logits = s->n_logits > 0 ? mote_session_logits(s, s->n_logits - 1) : NULL;
    if (logits == NULL)
        return err_set(err, MOTE_E_ARG, "mote_session_read_end: the last step had no logits");
    end_cursor c = {.bytes = out};
    const mote_session view = end_view(s, s->length);
    part_read(&c, s->pages[s->n_pages - 1], e->pages.bytes);
    mote_engine_clear_page(e, out, (size_t)((s->length - 1) % KERN_PAGE) + 1);
    end_each_part(&view, part_read, &c);
    part_read(&c, (void *)logits, logits_bytes(e));
    return MOTE_OK;
}

static mote_status end_check(mote_session *s, const mote_token *tokens, size_t n, mote_error *err)
{
    const mote_engine *e = s->engine;
    if (s->length % KERN_CHUNK != 0 || n == 0 || n >= KERN_CHUNK)
        return err_set(err, MOTE_E_ARG,
                       "mote_session_write_end: %zu tokens after %llu; the session must end at a "
                       "multiple of %d",
                       n, (unsigned long long)s->length, KERN_CHUNK);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= e->model->hp.n_vocab)
            return err_set(err, MOTE_E_ARG, "token %d is not in the vocabulary", tokens[i]);
    if (s->length + n > s->context)
        return err_set(err, MOTE_E_FULL, "%llu tokens, more than the context of %llu",
                       (unsigned long long)(s->length + n), (unsigned long long)s->context);
    const uint64_t pages = session_count_pages(s, s->length + n);
    session_count_pages_end(s);
    if (pages > e->pages.n_free)
        return err_set(err, MOTE_E_MEMORY, "KV cache full: no page is free");
    return MOTE_OK;
}

mote_status mote_session_write_end(mote_session *s, const mote_token *tokens, size_t n,
                                   const void *bytes, mote_error *err)
{
    TRY(end_check(s, tokens, n, err));
    mote_engine *e = s->engine;
    end_cursor c = {.bytes = (unsigned char *)bytes};
    session_add_pages(s, s->length + n);
    memcpy(s->tokens + s->length, tokens, n * sizeof *tokens);
    *s = end_view(s, s->length + n);
    part_write(&c, s->pages[s->n_pages - 1], e->pages.bytes);
    end_each_part(s, part_write, &c);
    e->step++; /* the logits of other sessions end */
    part_write(&c, e->logits, logits_bytes(e));
    s->logits_step = e->step;
    s->logits_row = 0;
    s->n_logits = 1;
    s->hidden_step = 0;
    return MOTE_OK;
}
