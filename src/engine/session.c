/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - timelines: beginning, ending, forking, going back, keeping.
 *
 * engine_int.h says who owns what. Nothing here touches a weight; going back is
 * bookkeeping, because a chunk's rows and the states of boundaries are kept as
 * they were.
 */
#include "base/mem.h"
#include "engine/engine_int.h"

#include <string.h>

static mote_session *free_slot(mote_engine *e)
{
    for (uint32_t i = 0; i < e->options.sessions; i++)
        if (e->sessions[i].engine == NULL)
            return &e->sessions[i];
    return NULL;
}

uint64_t session_default_context(const mote_engine *e)
{
    const mote_engine_options *o = &e->options;
    uint64_t share = o->shared_positions ? o->positions : o->positions / o->sessions;
    return share > 0 ? share : 1;
}

static uint64_t promised_to(const mote_session *s)
{
    return s->engine->options.shared_positions ? 0 : s->max_pages;
}

/* Address space for the whole context, so that no step allocates; memory only as it is used. */
static bool take_books(mote_session *s)
{
    unsigned char *books = mem_map(0, s->max_pages * BOOK_BYTES);
    if (books == NULL)
        return false;
    s->pages = (void *)books;
    s->tokens = (void *)(books + s->max_pages * sizeof *s->pages);
    return true;
}

mote_status session_claim(mote_session **out, mote_engine *e, uint64_t context, mote_error *err)
{
    if (context == 0)
        context = session_default_context(e);
    mote_session *s = free_slot(e);
    if (s == NULL)
        return err_set(err, MOTE_E_MEMORY, "all %u sessions of the engine are in use",
                       e->options.sessions);
    bool promised = !e->options.shared_positions && e->promised + pages_of(context) > e->pages.n;
    if (context > e->options.positions || promised)
        return err_set(err, MOTE_E_MEMORY,
                       "a context of %llu does not fit: %llu of the engine's %llu positions are "
                       "promised",
                       (unsigned long long)context, (unsigned long long)e->promised * KERN_PAGE,
                       (unsigned long long)e->options.positions);
    kept_mark *kept = s->kept;
    image_span *spans = s->spans;
    *s = (mote_session){
        .context = context, .max_pages = pages_of(context), .kept = kept, .spans = spans};
    if (!take_books(s)) {
        *s = (mote_session){.kept = kept, .spans = spans};
        return err_set(err, MOTE_E_MEMORY, "no memory for a session of %llu positions",
                       (unsigned long long)context);
    }
    s->engine = e;
    s->tail = blocks_take(&e->tails);
    s->state = STATE_ZERO;
    blocks_share(&e->states, STATE_ZERO);
    e->promised += promised_to(s);
    *out = s;
    return MOTE_OK;
}

mote_status mote_session_new(mote_session **out, mote_engine *engine,
                             const mote_session_options *options, mote_error *err)
{
    if (out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_session_new needs a place for the session");
    *out = NULL;
    if (engine == NULL)
        return err_set(err, MOTE_E_ARG, "mote_session_new needs an engine");
    return session_claim(out, engine, options != NULL ? options->context : 0, err);
}

/* ---- kept states ---- */

static void mark_state(mote_engine *e, uint32_t state)
{
    if (e->kept_counts[state]++ == 0)
        e->n_kept++;
    blocks_share(&e->states, state);
}

static void unmark_state(mote_engine *e, uint32_t state)
{
    if (--e->kept_counts[state] == 0)
        e->n_kept--;
    blocks_release(&e->states, state);
}

static void drop_marks_after(mote_session *s, uint64_t pos)
{
    while (s->n_kept > 0 && s->kept[s->n_kept - 1].pos > pos)
        unmark_state(s->engine, s->kept[--s->n_kept].state);
}

mote_status mote_session_keep(mote_session *s, uint64_t *pos, mote_error *err)
{
    if (s == NULL)
        return err_set(err, MOTE_E_ARG, "mote_session_keep needs a session");
    mote_engine *e = s->engine;
    uint64_t boundary = session_boundary(s);
    bool there = boundary == 0 || (s->n_kept > 0 && s->kept[s->n_kept - 1].pos == boundary);
    if (!there) {
        bool no_room = s->n_kept == e->options.kept_states ||
                       (e->kept_counts[s->state] == 0 && e->n_kept == e->options.kept_states);
        if (no_room)
            return err_set(err, MOTE_E_FULL, "all %u kept states of the engine are in use",
                           e->options.kept_states);
        mark_state(e, s->state);
        s->kept[s->n_kept++] = (kept_mark){boundary, s->state};
    }
    if (pos != NULL)
        *pos = boundary;
    return MOTE_OK;
}

bool mote_session_unkeep(mote_session *s, uint64_t pos)
{
    for (uint32_t i = 0; i < s->n_kept; i++) {
        if (s->kept[i].pos != pos)
            continue;
        unmark_state(s->engine, s->kept[i].state);
        memmove(s->kept + i, s->kept + i + 1, (--s->n_kept - i) * sizeof *s->kept);
        return true;
    }
    return false;
}

size_t mote_session_kept(const mote_session *s, uint64_t *pos, size_t room)
{
    for (size_t i = 0; i < s->n_kept && i < room; i++)
        pos[i] = s->kept[i].pos;
    return s->n_kept;
}

/* ---- pages ---- */

void session_trim(mote_session *s)
{
    while (s->n_pages > pages_of(s->length))
        blocks_release(&s->engine->pages, blocks_of(&s->engine->pages, s->pages[--s->n_pages]));
    spans_trim(s);
}

bool session_shares_last_page(const mote_session *s)
{
    const block_pool *pages = &s->engine->pages;
    return s->length % KERN_PAGE != 0 &&
           pages->refs[blocks_of(pages, s->pages[s->n_pages - 1])] > 1;
}

/* The unfinished page is about to be written: it must be this session's alone. */
static void own_last_page(mote_session *s)
{
    block_pool *pages = &s->engine->pages;
    unsigned char *shared = s->pages[s->n_pages - 1];
    unsigned char *own = blocks_at(pages, blocks_take(pages));
    memcpy(own, shared, pages->bytes);
    blocks_release(pages, blocks_of(pages, shared));
    s->pages[s->n_pages - 1] = own;
}

void session_make_room(mote_session *s, uint64_t end)
{
    if (session_shares_last_page(s))
        own_last_page(s);
    while (s->n_pages < pages_of(end))
        s->pages[s->n_pages++] = blocks_at(&s->engine->pages, blocks_take(&s->engine->pages));
}

/* ---- ending, forking, going back ---- */

void mote_session_free(mote_session *s)
{
    if (s == NULL)
        return;
    mote_engine *e = s->engine;
    s->length = 0;
    session_trim(s);
    while (s->n_kept > 0)
        unmark_state(e, s->kept[--s->n_kept].state);
    blocks_release(&e->states, s->state);
    blocks_release(&e->tails, s->tail);
    e->promised -= promised_to(s);
    mem_unmap(s->pages, 0, s->max_pages * BOOK_BYTES);
    kept_mark *kept = s->kept;
    image_span *spans = s->spans;
    *s = (mote_session){.kept = kept, .spans = spans};
}

/* Two pieces of the ring: up to its end, and from its start. */
static void ring_parts(const mote_session *s, float *ring, size_t row_bytes, tail_part parts[2])
{
    size_t n = (size_t)(s->length - s->ring_from), from = (size_t)(s->ring_from % DELTA_RING);
    size_t first = n < DELTA_RING - from ? n : DELTA_RING - from;
    parts[0] = (tail_part){(unsigned char *)ring + from * row_bytes, first * row_bytes};
    parts[1] = (tail_part){ring, (n - first) * row_bytes};
}

void session_tail_parts(const mote_session *s, uint32_t delta_layer, tail_part parts[TAIL_PARTS])
{
    const mote_engine *e = s->engine;
    const layout *l = &e->forward.layout;
    const delta_shape *d = &l->delta;
    const size_t f32 = sizeof(float), rows = (size_t)(s->length % KERN_CHUNK);
    unsigned char *state = blocks_at(&e->states, s->state);
    delta_memory m = layout_delta(l, delta_layer, state, state, blocks_at(&e->tails, s->tail));
    parts[0] = (tail_part){m.k_rows, rows * delta_key_dim(d) * f32};
    parts[1] = (tail_part){m.u_rows, rows * delta_value_dim(d) * f32};
    parts[2] = (tail_part){m.g_rows, rows * d->value_heads * sizeof(double)};
    ring_parts(s, m.ring, delta_conv_dim(d) * f32, parts + 3);
}

/* Both stand at the same position. Of the tail's megabytes only those that mean something: inputs
 * that belong to positions before the boundary serve no rewind any more. */
static void copy_tail(mote_session *to, const mote_session *from)
{
    uint64_t boundary = session_boundary(from);
    uint64_t first_input = boundary > DELTA_HISTORY ? boundary - DELTA_HISTORY : 0;
    to->ring_from = first_input > from->ring_from ? first_input : from->ring_from;
    mote_session view = *from;
    view.ring_from = to->ring_from;
    for (uint32_t i = 0; i < from->engine->forward.layout.n_delta; i++) {
        tail_part source[TAIL_PARTS], target[TAIL_PARTS];
        session_tail_parts(&view, i, source);
        session_tail_parts(to, i, target);
        for (size_t j = 0; j < TAIL_PARTS; j++)
            memcpy(target[j].data, source[j].data, source[j].bytes);
    }
}

mote_status mote_session_fork(mote_session **out, const mote_session *from, mote_error *err)
{
    if (out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_session_fork needs a place for the session");
    *out = NULL;
    if (from == NULL)
        return err_set(err, MOTE_E_ARG, "mote_session_fork needs a session");
    mote_engine *e = from->engine;
    mote_session *s;
    TRY(session_claim(&s, e, from->context, err));
    s->length = from->length;
    memcpy(s->tokens, from->tokens, (size_t)from->length * sizeof *s->tokens);
    for (s->n_pages = 0; s->n_pages < from->n_pages; s->n_pages++) {
        s->pages[s->n_pages] = from->pages[s->n_pages];
        blocks_share(&e->pages, blocks_of(&e->pages, s->pages[s->n_pages]));
    }
    blocks_release(&e->states, s->state);
    s->state = from->state;
    blocks_share(&e->states, s->state);
    s->n_spans = from->n_spans;
    if (s->n_spans > 0)
        memcpy(s->spans, from->spans, s->n_spans * sizeof *s->spans);
    for (s->n_kept = 0; s->n_kept < from->n_kept; s->n_kept++) {
        s->kept[s->n_kept] = from->kept[s->n_kept];
        mark_state(e, s->kept[s->n_kept].state);
    }
    copy_tail(s, from);
    *out = s;
    return MOTE_OK;
}

void session_refill_ring(mote_session *s)
{
    mote_engine *e = s->engine;
    const layout *l = &e->forward.layout;
    size_t conv_dim = delta_conv_dim(&l->delta);
    unsigned char *state = blocks_at(&e->states, s->state);
    for (uint32_t i = 0; i < l->n_delta; i++) {
        delta_memory m = layout_delta(l, i, state, state, blocks_at(&e->tails, s->tail));
        for (uint64_t j = 0; j < DELTA_HISTORY && s->length > 0; j++)
            memcpy(m.ring + (s->length - DELTA_HISTORY + j) % DELTA_RING * conv_dim,
                   m.next_inputs + j * conv_dim, conv_dim * sizeof(float));
    }
    s->ring_from = s->length > DELTA_HISTORY ? s->length - DELTA_HISTORY : 0;
}

/* Is going back to `pos` a matter of not counting the rows after it any more? */
static bool can_forget_rows(const mote_session *s, uint64_t pos)
{
    uint64_t first_input = pos > DELTA_HISTORY ? pos - DELTA_HISTORY : 0;
    return pos >= session_boundary(s) && first_input >= s->ring_from;
}

/* The latest boundary at or before `pos` whose state still exists. */
static uint64_t boundary_before(const mote_session *s, uint64_t pos)
{
    if (session_boundary(s) <= pos)
        return session_boundary(s);
    uint32_t n = s->n_kept;
    while (n > 0 && s->kept[n - 1].pos > pos)
        n--;
    return n > 0 ? s->kept[n - 1].pos : 0;
}

static void return_to_boundary(mote_session *s, uint64_t boundary)
{
    mote_engine *e = s->engine;
    if (boundary < session_boundary(s)) {
        drop_marks_after(s, boundary);
        uint32_t state = s->n_kept > 0 ? s->kept[s->n_kept - 1].state : STATE_ZERO;
        blocks_share(&e->states, state);
        blocks_release(&e->states, s->state);
        s->state = state;
    }
    s->length = boundary;
    session_refill_ring(s);
}

uint64_t mote_session_rewind_target(const mote_session *s, uint64_t pos)
{
    if (pos >= s->length)
        return s->length;
    return can_forget_rows(s, pos) ? pos : boundary_before(s, pos);
}

uint64_t mote_session_rewind(mote_session *s, uint64_t pos)
{
    s->logits_step = 0; /* also when there is nothing to drop: one rule for every caller */
    s->hidden_step = 0;
    if (pos >= s->length)
        return s->length;
    if (can_forget_rows(s, pos))
        s->length = pos;
    else
        return_to_boundary(s, boundary_before(s, pos));
    session_trim(s);
    return s->length;
}

/* The rows before the pass are still there if it began no new chunk and the ring has not come
 * round. A state that was being written in place is none any more; those under marks never are. */
void session_undo(mote_session *s, size_t n, bool state_lost)
{
    const uint64_t end = s->length + n, overwritten = end > DELTA_RING ? end - DELTA_RING : 0;
    const bool chunk_ended = s->length % KERN_CHUNK + n >= KERN_CHUNK;
    s->logits_step = 0;
    s->hidden_step = 0;
    if (s->ring_from < overwritten)
        s->ring_from = overwritten;
    if (state_lost)
        return_to_boundary(s, s->n_kept > 0 ? s->kept[s->n_kept - 1].pos : 0);
    else if (chunk_ended || !can_forget_rows(s, s->length))
        return_to_boundary(s, session_boundary(s));
    session_trim(s);
}

/* ---- looking ---- */

uint64_t mote_session_length(const mote_session *s)
{
    return s->length;
}

uint64_t mote_session_context(const mote_session *s)
{
    return s->context;
}

const mote_token *mote_session_tokens(const mote_session *s)
{
    return s->tokens;
}
