/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - mote_session_*: new, free, fork, rewind, keep, and undo of a canceled pass.
 *
 * Nothing here runs the model. A rewind only changes references and counts, because the rows since
 * the last multiple of 32 (the boundary) and the kept states are still in memory. engine_int.h has
 * the ownership rules. Engine thread only.
 */
#include "base/mem.h"
#include "engine/engine_int.h"

#include <string.h>

static mote_session *engine_find_slot(mote_engine *e)
{
    for (uint32_t i = 0; i < e->options.sessions; i++)
        if (e->sessions[i].engine == NULL)
            return &e->sessions[i];
    return NULL;
}

/* The trained context, extended by YaRN. Beyond it RoPE angles are outside the training data. */
static uint64_t session_max_context(const mote_engine *e)
{
    const hparams *hp = &e->model->hp;
    const double original = hp->yarn_original != 0 ? hp->yarn_original : hp->context;
    const uint64_t extended = (uint64_t)(original * (double)e->yarn);
    return extended > hp->context ? extended : hp->context;
}

uint64_t session_default_context(const mote_engine *e)
{
    const mote_engine_options *o = &e->options;
    uint64_t share = o->shared_positions ? o->positions : o->positions / o->sessions;
    if (share > session_max_context(e))
        share = session_max_context(e);
    return share > 0 ? share : 1;
}

static uint64_t session_reserved_pages(const mote_session *s)
{
    return s->engine->options.shared_positions ? 0 : s->max_pages;
}

/* Reserves address space for page table and token ids of the whole context, so that no step
 * allocates. Memory is used only for what is written. */
static bool session_map_tables(mote_session *s)
{
    unsigned char *tables = mem_map(0, s->max_pages * PAGE_ENTRY_BYTES);
    if (tables == NULL)
        return false;
    s->pages = (void *)tables;
    s->tokens = (void *)(tables + s->max_pages * sizeof *s->pages);
    return true;
}

mote_status session_claim(mote_session **out, mote_engine *e, uint64_t context,
                          const mote_session_options *options, mote_error *err)
{
    if (context == 0)
        context = session_default_context(e);
    if (context > session_max_context(e))
        return err_set(
            err, MOTE_E_ARG,
            "context of %llu tokens exceeds the %llu that the model is trained for; lower "
            "it, or extend the model with YaRN (yarn, --yarn) of at most 4",
            (unsigned long long)context, (unsigned long long)session_max_context(e));
    TRY(adapters_check(e, options, err));
    mote_session *s = engine_find_slot(e);
    if (s == NULL)
        return err_set(
            err, MOTE_E_MEMORY,
            "no free session: all %u are in use (raise `sessions` in mote_engine_options)",
            e->options.sessions);
    if (context > e->options.positions)
        return err_set(err, MOTE_E_MEMORY,
                       "context of %llu tokens not available: the engine has %llu KV positions",
                       (unsigned long long)context, (unsigned long long)e->options.positions);
    if (!e->options.shared_positions && e->reserved + pages_of(context) > e->pages.n)
        return err_set(err, MOTE_E_MEMORY,
                       "context of %llu tokens not available: %llu of %llu KV positions are "
                       "reserved by other sessions; lower the context or raise `positions`",
                       (unsigned long long)context, (unsigned long long)e->reserved * KERN_PAGE,
                       (unsigned long long)e->options.positions);
    kept_mark *kept = s->kept;
    image_span *spans = s->spans;
    *s = (mote_session){
        .context = context, .max_pages = pages_of(context), .kept = kept, .spans = spans};
    if (!session_map_tables(s)) {
        *s = (mote_session){.kept = kept, .spans = spans};
        return err_set(err, MOTE_E_MEMORY,
                       "out of memory: page table of a session with context %llu",
                       (unsigned long long)context);
    }
    s->engine = e;
    s->tail = blocks_take(&e->tails);
    s->state = STATE_ZERO;
    blocks_share(&e->states, STATE_ZERO);
    adapters_set(s, options);
    e->reserved += session_reserved_pages(s);
    *out = s;
    return MOTE_OK;
}

mote_status mote_session_new(mote_session **out, mote_engine *engine,
                             const mote_session_options *options, mote_error *err)
{
    if (out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_session_new: out must not be NULL");
    *out = NULL;
    if (engine == NULL)
        return err_set(err, MOTE_E_ARG, "mote_session_new: engine must not be NULL");
    return session_claim(out, engine, options != NULL ? options->context : 0, options, err);
}

/* ---- kept states ---- */

static void engine_mark_state(mote_engine *e, uint32_t state)
{
    if (e->kept_counts[state]++ == 0)
        e->n_kept++;
    blocks_share(&e->states, state);
}

static void engine_unmark_state(mote_engine *e, uint32_t state)
{
    if (--e->kept_counts[state] == 0)
        e->n_kept--;
    blocks_release(&e->states, state);
}

mote_status mote_session_keep(mote_session *s, uint64_t *pos, mote_error *err)
{
    if (s == NULL)
        return err_set(err, MOTE_E_ARG, "mote_session_keep: session must not be NULL");
    mote_engine *e = s->engine;
    uint64_t boundary = session_boundary(s);
    bool already_kept = boundary == 0 || (s->n_kept > 0 && s->kept[s->n_kept - 1].pos == boundary);
    if (!already_kept) {
        bool full = s->n_kept == e->options.kept_states ||
                    (e->kept_counts[s->state] == 0 && e->n_kept == e->options.kept_states);
        if (full)
            return err_set(
                err, MOTE_E_FULL,
                "no free kept state: all %u are in use (raise kept_states in mote_engine_options)",
                e->options.kept_states);
        engine_mark_state(e, s->state);
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
        engine_unmark_state(s->engine, s->kept[i].state);
        memmove(s->kept + i, s->kept + i + 1, (--s->n_kept - i) * sizeof *s->kept);
        return true;
    }
    return false;
}

size_t mote_session_kept(const mote_session *s, uint64_t *pos, size_t capacity)
{
    for (size_t i = 0; i < s->n_kept && i < capacity; i++)
        pos[i] = s->kept[i].pos;
    return s->n_kept;
}

const void *mote_session_kept_state(const mote_session *s, uint64_t pos)
{
    for (uint32_t i = 0; i < s->n_kept; i++)
        if (s->kept[i].pos == pos)
            return blocks_at(&s->engine->states, s->kept[i].state);
    return NULL;
}

/* ---- pages ---- */

void session_trim(mote_session *s)
{
    while (s->n_pages > pages_of(s->length))
        blocks_release(&s->engine->pages, blocks_of(&s->engine->pages, s->pages[--s->n_pages]));
    image_spans_trim(s);
    if (s->draft_done >= s->length)
        s->draft_done = s->length > 0 ? s->length - 1 : 0;
}

/* Will the next append write to the last page? With drafts always: position length - 1 of the MTP
 * block is written when the next token is known. */
static bool session_writes_last_page(const mote_session *s)
{
    return s->engine->options.drafts ? s->length > 0 : s->length % KERN_PAGE != 0;
}

/* Is the last page still to be written to, and also held by another session? */
static bool session_shares_last_page(const mote_session *s)
{
    const block_pool *pages = &s->engine->pages;
    return session_writes_last_page(s) &&
           pages->refs[blocks_of(pages, s->pages[s->n_pages - 1])] > 1;
}

uint64_t session_count_pages(mote_session *s, uint64_t end)
{
    block_pool *pages = &s->engine->pages;
    s->copies_page = session_shares_last_page(s);
    if (s->copies_page)
        blocks_release(pages, blocks_of(pages, s->pages[s->n_pages - 1]));
    return pages_of(end) - s->n_pages + s->copies_page;
}

void session_count_pages_end(mote_session *s)
{
    block_pool *pages = &s->engine->pages;
    if (s->copies_page)
        blocks_share(pages, blocks_of(pages, s->pages[s->n_pages - 1]));
}

/* Copy-on-write of the partial page before the session writes to it. */
static void session_copy_last_page(mote_session *s)
{
    block_pool *pages = &s->engine->pages;
    unsigned char *shared = s->pages[s->n_pages - 1];
    unsigned char *copy = blocks_at(pages, blocks_take(pages));
    memcpy(copy, shared, pages->bytes);
    blocks_release(pages, blocks_of(pages, shared));
    s->pages[s->n_pages - 1] = copy;
}

void session_add_pages(mote_session *s, uint64_t end)
{
    if (session_shares_last_page(s))
        session_copy_last_page(s);
    while (s->n_pages < pages_of(end))
        s->pages[s->n_pages++] = blocks_at(&s->engine->pages, blocks_take(&s->engine->pages));
}

/* ---- free, fork ---- */

void mote_session_free(mote_session *s)
{
    if (s == NULL)
        return;
    mote_engine *e = s->engine;
    s->length = 0;
    session_trim(s);
    while (s->n_kept > 0)
        engine_unmark_state(e, s->kept[--s->n_kept].state);
    blocks_release(&e->states, s->state);
    blocks_release(&e->tails, s->tail);
    e->reserved -= session_reserved_pages(s);
    mem_unmap(s->pages, 0, s->max_pages * PAGE_ENTRY_BYTES);
    kept_mark *kept = s->kept;
    image_span *spans = s->spans;
    *s = (mote_session){.kept = kept, .spans = spans};
}

/* The rows of a ring from first_pos on: up to its end, and wrapped to its start. */
static void tail_ring_parts(const mote_session *s, uint64_t first_pos, float *ring,
                            size_t ring_rows, size_t row_bytes, tail_part parts[2])
{
    size_t n = (size_t)(s->length - first_pos), from = (size_t)(first_pos % ring_rows);
    size_t first = n < ring_rows - from ? n : ring_rows - from;
    parts[0] = (tail_part){(unsigned char *)ring + from * row_bytes, first * row_bytes};
    parts[1] = (tail_part){ring, (n - first) * row_bytes};
}

void session_tail_parts(const mote_session *s, uint32_t layer, tail_part parts[TAIL_PARTS])
{
    const mote_engine *e = s->engine;
    const cache_layout *l = &e->forward.layout;
    const delta_shape *d = &l->delta;
    const size_t f32 = sizeof(float), rows = (size_t)(s->length % KERN_CHUNK);
    unsigned char *state = blocks_at(&e->states, s->state);
    delta_memory m = cache_layout_delta(l, layer, state, state, blocks_at(&e->tails, s->tail));
    parts[0] = (tail_part){m.k_rows, rows * delta_key_dim(d) * f32};
    parts[1] = (tail_part){m.u_rows, rows * delta_value_dim(d) * f32};
    parts[2] = (tail_part){m.g_rows, rows * d->value_heads * sizeof(double)};
    tail_ring_parts(s, s->ring_from, m.ring, DELTA_RING, delta_conv_dim(d) * f32, parts + 3);
}

void session_hidden_parts(const mote_session *s, tail_part parts[HIDDEN_PARTS])
{
    const cache_layout *l = &s->engine->forward.layout;
    const uint64_t boundary = session_boundary(s);
    tail_ring_parts(s, boundary > 0 ? boundary - 1 : 0,
                    cache_layout_hidden_at(l, blocks_at(&s->engine->tails, s->tail), 0),
                    HIDDEN_RING, l->hidden_floats * sizeof(float), parts);
}

/* Both sessions have the same length. Copies only the used parts of the tail: the rows since the
 * boundary, and the convolution inputs and hidden rows that they or a rewind to the boundary need.
 */
static void session_copy_tail(mote_session *to, const mote_session *from)
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
    if (from->engine->options.drafts) {
        tail_part source[HIDDEN_PARTS], target[HIDDEN_PARTS];
        session_hidden_parts(&view, source);
        session_hidden_parts(to, target);
        for (size_t j = 0; j < HIDDEN_PARTS; j++)
            memcpy(target[j].data, source[j].data, source[j].bytes);
    }
}

mote_status mote_session_fork(mote_session **out, const mote_session *from, mote_error *err)
{
    if (out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_session_fork: out must not be NULL");
    *out = NULL;
    if (from == NULL)
        return err_set(err, MOTE_E_ARG, "mote_session_fork: from must not be NULL");
    mote_engine *e = from->engine;
    mote_session *s;
    const mote_session_options same = {.loras = from->loras, .n_loras = from->lora.n};
    TRY(session_claim(&s, e, from->context, &same, err));
    s->length = from->length;
    s->draft_done = from->draft_done;
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
        engine_mark_state(e, s->kept[s->n_kept].state);
    }
    session_copy_tail(s, from);
    *out = s;
    return MOTE_OK;
}

/* ---- rewind, undo ---- */

void session_refill_ring(mote_session *s)
{
    mote_engine *e = s->engine;
    const cache_layout *l = &e->forward.layout;
    size_t conv_dim = delta_conv_dim(&l->delta);
    unsigned char *state = blocks_at(&e->states, s->state);
    for (uint32_t i = 0; i < l->n_delta; i++) {
        delta_memory m = cache_layout_delta(l, i, state, state, blocks_at(&e->tails, s->tail));
        for (uint64_t j = 0; j < DELTA_HISTORY && s->length > 0; j++)
            memcpy(m.ring + (s->length - DELTA_HISTORY + j) % DELTA_RING * conv_dim,
                   m.next_inputs + j * conv_dim, conv_dim * sizeof(float));
    }
    if (l->drafts && s->length > 0)
        memcpy(cache_layout_hidden_at(l, blocks_at(&e->tails, s->tail), s->length - 1),
               cache_layout_hidden(l, state), l->hidden_floats * sizeof(float));
    s->ring_from = s->length > DELTA_HISTORY ? s->length - DELTA_HISTORY : 0;
}

/* Can the session return to `pos` by lowering its length? True if `pos` is not before the boundary
 * and the ring still has the convolution inputs before `pos`. */
static bool session_can_truncate(const mote_session *s, uint64_t pos)
{
    uint64_t first_input = pos > DELTA_HISTORY ? pos - DELTA_HISTORY : 0;
    return pos >= session_boundary(s) && first_input >= s->ring_from;
}

/* The latest multiple of 32 at or before `pos` that has a state: current, kept, or the start. */
static uint64_t session_boundary_before(const mote_session *s, uint64_t pos)
{
    if (session_boundary(s) <= pos)
        return session_boundary(s);
    uint32_t n = s->n_kept;
    while (n > 0 && s->kept[n - 1].pos > pos)
        n--;
    return n > 0 ? s->kept[n - 1].pos : 0;
}

/* Truncates the session to a boundary that has a state (session_boundary_before). */
static void session_return_to(mote_session *s, uint64_t boundary)
{
    mote_engine *e = s->engine;
    if (boundary < session_boundary(s)) {
        while (s->n_kept > 0 && s->kept[s->n_kept - 1].pos > boundary)
            engine_unmark_state(e, s->kept[--s->n_kept].state);
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
    return session_can_truncate(s, pos) ? pos : session_boundary_before(s, pos);
}

uint64_t mote_session_rewind(mote_session *s, uint64_t pos)
{
    s->logits_step = 0; /* in every case, so that the rule is simple */
    s->hidden_step = 0;
    if (pos >= s->length)
        return s->length;
    if (session_can_truncate(s, pos))
        s->length = pos;
    else
        session_return_to(s, session_boundary_before(s, pos));
    session_trim(s);
    return s->length;
}

/* The rows before the pass are intact if the pass did not cross a boundary and did not overwrite
 * the ring inputs they need. A state written in place is lost; marked states are never written in
 * place.
 */
void session_undo(mote_session *s, size_t n, bool state_lost)
{
    const uint64_t end = s->length + n, overwritten = end > DELTA_RING ? end - DELTA_RING : 0;
    const bool chunk_ended = s->length % KERN_CHUNK + n >= KERN_CHUNK;
    s->logits_step = 0;
    s->hidden_step = 0;
    if (s->ring_from < overwritten)
        s->ring_from = overwritten;
    if (state_lost)
        session_return_to(s, s->n_kept > 0 ? s->kept[s->n_kept - 1].pos : 0);
    else if (chunk_ended || !session_can_truncate(s, s->length))
        session_return_to(s, session_boundary(s));
    session_trim(s);
}

/* ---- getters ---- */

uint64_t mote_session_length(const mote_session *s)
{
    return s->length;
}

uint64_t mote_session_context(const mote_session *s)
{
    return s->context;
}

const mote_lora_use *mote_session_loras(const mote_session *s, size_t *n)
{
    *n = s->lora.n;
    return s->loras;
}

const mote_token *mote_session_tokens(const mote_session *s)
{
    return s->tokens;
}
