/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - mote_step: work items into passes.
 *
 * Everything that could refuse is checked before anything changes. Then items
 * are laid into passes in their order, at most `batch` rows each; an item that
 * does not fit goes on in the next pass. Blocks come from pools that were
 * promised or counted beforehand, so a pass cannot fail half-way. It can be given
 * up half-way, though, if it is a long one and a cancel comes: then its sessions go
 * back to where they can go on from.
 *
 * And sessions can leave it half-way. To give the pass up for them would be simpler, but
 * would cost those who stay: their rows would be computed again, a writer that crosses a
 * boundary might even have to go back to the start of its prompt, and somebody who comes and
 * leaves all the time could keep others from ever getting on. Instead the leaver's rows
 * are taken out between two units, which rows of others cannot tell, and the pass is over for
 * them sooner than it would have been. (A layer has two units, the mixer and the feed-forward;
 * 256 rows of the 0.8B shape take 15 ms for each, the 4B shape 30 ms.)
 */
#include "base/mem.h"
#include "engine/engine_int.h"

#include <assert.h>
#include <string.h>

/* ---- checks ---- */

static bool known_want(mote_logits want)
{
    return want == MOTE_LOGITS_LAST || want == MOTE_LOGITS_NONE || want == MOTE_LOGITS_ALL ||
           want == MOTE_HIDDEN_LAST || want == MOTE_HIDDEN_SUM;
}

static size_t rows_wanted(const mote_work *w)
{
    return w->want == MOTE_LOGITS_ALL ? w->n : w->want == MOTE_LOGITS_LAST ? 1 : 0;
}

static mote_status check_tokens(const mote_engine *e, const mote_work *w, mote_error *err)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->tokens[i] >= 0 && (uint32_t)w->tokens[i] >= e->model->hp.n_vocab)
            return err_set(err, MOTE_E_ARG, "token %d is not in the vocabulary of %u", w->tokens[i],
                           e->model->hp.n_vocab);
    return MOTE_OK;
}

static mote_status check_item(mote_engine *e, const mote_work *w, mote_error *err)
{
    mote_session *s = w->session;
    if (s == NULL || s->engine != e)
        return err_set(err, MOTE_E_ARG, "a work item names no session of this engine");
    if (s->in_check == e->check)
        return err_set(err, MOTE_E_ARG, "a session appears twice in one step");
    s->in_check = e->check;
    if (w->n == 0 || w->tokens == NULL)
        return err_set(err, MOTE_E_ARG, "a work item has no tokens");
    if (!known_want(w->want))
        return err_set(err, MOTE_E_ARG, "a work item wants logits of kind %d", (int)w->want);
    if (w->want == MOTE_HIDDEN_SUM && w->sum == NULL)
        return err_set(err, MOTE_E_ARG, "a work item wants a sum and has no place for it");
    TRY(check_tokens(e, w, err));
    TRY(spans_check(s, w, err));
    if (w->n > s->context - s->length)
        return err_set(err, MOTE_E_FULL,
                       "%zu tokens do not fit: %llu of the context of %llu are used", w->n,
                       (unsigned long long)s->length, (unsigned long long)s->context);
    return MOTE_OK;
}

static mote_status check_all(mote_engine *e, const mote_work *work, size_t n, mote_error *err)
{
    size_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        TRY(check_item(e, &work[i], err));
        rows += rows_wanted(&work[i]);
    }
    if (rows > e->options.logits_rows)
        return err_set(err, MOTE_E_ARG, "the step asks for %zu rows of logits; the engine has %u",
                       rows, e->options.logits_rows);
    return MOTE_OK;
}

/*
 * Pages the step will take. Of the k sessions in it that share an unfinished page with r holders
 * each copies it, unless all others have done so before: min(k, r - 1) copies. They are counted
 * by letting go of the page as the step will, and then taking it back.
 */
static uint64_t count_pages(mote_engine *e, const mote_work *work, size_t n)
{
    uint64_t needed = 0;
    for (size_t i = 0; i < n; i++) {
        mote_session *s = work[i].session;
        needed += pages_of(s->length + work[i].n) - s->n_pages;
        s->copies_page = session_shares_last_page(s);
        if (s->copies_page)
            blocks_release(&e->pages, blocks_of(&e->pages, s->pages[s->n_pages - 1]));
        needed += s->copies_page;
    }
    for (size_t i = 0; i < n; i++) {
        const mote_session *s = work[i].session;
        if (s->copies_page)
            blocks_share(&e->pages, blocks_of(&e->pages, s->pages[s->n_pages - 1]));
    }
    return needed;
}

/* Where contexts are promised this cannot fail. */
static mote_status check_pages(mote_engine *e, const mote_work *work, size_t n, mote_error *err)
{
    uint64_t needed = count_pages(e, work, n);
    assert(e->options.shared_positions || needed <= e->pages.n_free);
    if (needed > e->pages.n_free)
        return err_set(err, MOTE_E_MEMORY, "the step needs %llu pages of %d positions; %u are free",
                       (unsigned long long)needed, KERN_PAGE, e->pages.n_free);
    return MOTE_OK;
}

/* ---- passes ---- */

/* Rows of a pass that is always brought to its end: it takes not much longer than one of one
 * row, and what goes back behind a written token would have to be read again. */
enum { SHORT_PASS = 16 };

/* Where the items stand. */
typedef struct progress {
    const mote_work *work;
    size_t n;
    void (*between)(void *with); /* NULL: nobody asks */
    void *with;
    size_t n_left;      /* items whose session has left */
    size_t item;        /* the first unfinished one */
    size_t done;        /* tokens of it that are appended */
    size_t n_segments;  /* of the pass being built or run */
    size_t n_runs;      /* so with pictures */
    size_t n_rows;      /* of it */
    bool is_long;       /* it may be given up; left it may be in any case */
    size_t logits_rows; /* written so far in the step */
} progress;

static bool crosses(const mote_session *s, size_t n)
{
    return s->length % KERN_CHUNK + n >= KERN_CHUNK;
}

/* A state that other sessions hold too and that no mark or rule keeps alive. */
static bool shared_unmarked(const mote_engine *e, uint32_t state)
{
    return state != STATE_ZERO && e->kept_counts[state] == 0 && e->states.refs[state] > 1;
}

static mote_session *session_of(const mote_engine *e, const progress *p, size_t segment)
{
    return p->work[e->items[segment]].session;
}

/* Does another segment of this pass give the same state up? (See engine_int.h.) */
static bool others_leave(const mote_engine *e, const progress *p, uint32_t state)
{
    for (size_t i = 0; i < p->n_segments; i++)
        if (session_of(e, p, i)->state == state && e->next_states[i] != state)
            return true;
    return false;
}

/* The state that this segment will hold after the pass. */
static uint32_t choose_next_state(mote_engine *e, const mote_session *s, size_t n)
{
    bool alone = s->state != STATE_ZERO && e->states.refs[s->state] == 1;
    return crosses(s, n) && !alone ? blocks_take(&e->states) : s->state;
}

static void add_segment(mote_engine *e, progress *p, size_t item, size_t from, size_t n)
{
    const mote_work *w = &p->work[item];
    mote_session *s = w->session;
    session_make_room(s, s->length + n);
    uint32_t next = choose_next_state(e, s, n);
    bool ends = from + n == w->n;
    int64_t shift = 0;
    pass_run *runs = e->runs != NULL ? e->runs + p->n_runs : NULL;
    const size_t n_runs = spans_lay(s, w, from, n, runs, &shift);
    p->n_runs += n_runs;
    e->items[p->n_segments] = (uint32_t)item;
    e->next_states[p->n_segments] = next;
    e->segments[p->n_segments++] = (pass_segment){
        .tokens = w->tokens + from,
        .n = n,
        .pos = s->length,
        .state = blocks_at(&e->states, s->state),
        .next_state = blocks_at(&e->states, next),
        .tail = blocks_at(&e->tails, s->tail),
        .pages = s->pages,
        .runs = runs,
        .n_runs = n_runs,
        .shift = shift,
        .n_logits = w->want == MOTE_LOGITS_ALL            ? n
                    : w->want == MOTE_LOGITS_LAST && ends ? 1
                                                          : 0,
        .hidden = w->want == MOTE_HIDDEN_LAST && ends ? session_hidden_row(s) : NULL,
        .sum = w->want == MOTE_HIDDEN_SUM ? w->sum : NULL,
    };
}

/* Lays as many items into a pass as fit; at least one row goes in. */
static void build_pass(mote_engine *e, progress *p)
{
    size_t room = e->options.batch, from = p->done;
    p->n_runs = 0;
    p->n_rows = 0;
    for (size_t i = p->item; i < p->n && room > 0; i++, from = 0) {
        if (e->left[i])
            continue;
        const mote_work *w = &p->work[i];
        const mote_session *s = w->session;
        size_t n = w->n - from < room ? w->n - from : room;
        bool conflict =
            crosses(s, n) && shared_unmarked(e, s->state) && others_leave(e, p, s->state);
        if (conflict)
            return;
        add_segment(e, p, i, from, n);
        p->n_rows += n;
        room -= n;
    }
}

/* Lets the segments of a pass that may be given up leave their states as they are, as far as
 * blocks are free when everybody has those he needs. */
static void spare_states(mote_engine *e, const progress *p)
{
    for (size_t i = 0; i < p->n_segments && e->states.n_free > 0; i++) {
        const mote_session *s = session_of(e, p, i);
        if (e->next_states[i] != s->state || !crosses(s, e->segments[i].n))
            continue;
        e->next_states[i] = blocks_take(&e->states);
        e->segments[i].next_state = blocks_at(&e->states, e->next_states[i]);
    }
}

static void undo_segment(mote_engine *e, mote_session *s, size_t n, uint32_t next)
{
    const bool in_place = next == s->state;
    if (!in_place)
        blocks_release(&e->states, next);
    session_undo(s, n, in_place && crosses(s, n));
}

/* Of all that have not left. */
static void undo_pass(mote_engine *e, const progress *p)
{
    for (size_t i = 0; i < p->n_segments; i++)
        if (!e->segments[i].gone)
            undo_segment(e, session_of(e, p, i), e->segments[i].n, e->next_states[i]);
}

/* The pass has run: the segment's tokens are part of its session now. */
static void commit_segment(mote_engine *e, mote_session *s, const pass_segment *seg, uint32_t next)
{
    memcpy(s->tokens + s->length, seg->tokens, seg->n * sizeof *s->tokens);
    s->length += seg->n;
    uint64_t ring_start = s->length > DELTA_RING ? s->length - DELTA_RING : 0;
    if (s->ring_from < ring_start)
        s->ring_from = ring_start;
    if (next != s->state) {
        blocks_release(&e->states, s->state);
        s->state = next;
    }
}

static void commit_logits(mote_engine *e, mote_session *s, size_t n, size_t row)
{
    if (n == 0)
        return;
    if (s->logits_step != e->step) {
        s->logits_step = e->step;
        s->logits_row = row;
        s->n_logits = 0;
    }
    s->n_logits += n;
}

/* The segment's tokens are done; those of items before its own are, or have left. */
static void advance(progress *p, size_t item, size_t n)
{
    if (item > p->item) {
        p->item = item;
        p->done = 0;
    }
    p->done += n;
    if (p->done == p->work[item].n) {
        p->item++;
        p->done = 0;
    }
}

static void commit_pass(mote_engine *e, progress *p)
{
    for (size_t i = 0; i < p->n_segments; i++) {
        const pass_segment *seg = &e->segments[i];
        if (seg->gone)
            continue;
        mote_session *s = session_of(e, p, i);
        commit_segment(e, s, seg, e->next_states[i]);
        commit_logits(e, s, seg->n_logits, p->logits_rows);
        if (seg->hidden != NULL)
            s->hidden_step = e->step;
        p->logits_rows += seg->n_logits;
        advance(p, e->items[i], seg->n);
    }
}

/* ---- leaving ---- */

/* What the caller does there may allocate. */
static void ask(const progress *p)
{
    if (p->between == NULL)
        return;
    mem_guard_end();
    p->between(p->with);
    mem_guard_begin();
}

/* Between two units of a pass. false: a cancel has come. */
static bool between_units(void *ctx)
{
    const mote_engine *e = ctx;
    ask(e->running);
    return !e->running->is_long || !atomic_load_explicit(&e->cancel, memory_order_relaxed);
}

void mote_step_abort(mote_session *s)
{
    mote_engine *e = s->engine;
    progress *p = e->running;
    size_t item = 0;
    while (p != NULL && item < p->n && (e->left[item] || p->work[item].session != s))
        item++;
    if (p == NULL || item == p->n)
        return;
    e->left[item] = true;
    p->n_left++;
    for (size_t i = 0; i < p->n_segments; i++)
        if (e->items[i] == item) {
            e->segments[i].gone = true;
            undo_segment(e, s, e->segments[i].n, e->next_states[i]);
        }
}

/* ---- the step ---- */

static bool all_gone(const mote_engine *e, const progress *p)
{
    size_t i = 0;
    while (i < p->n_segments && e->segments[i].gone)
        i++;
    return i == p->n_segments;
}

/* false: it was given up. */
static bool run_pass(mote_engine *e, progress *p)
{
    float *logits = e->logits + p->logits_rows * e->model->hp.n_vocab;
    p->is_long = p->n_rows > SHORT_PASS;
    if (p->is_long)
        spare_states(e, p);
    e->forward.between = p->is_long || p->between != NULL ? between_units : NULL;
    e->forward.between_ctx = e;
    const bool whole = forward_pass(&e->forward, e->segments, p->n_segments, logits);
    if (whole)
        commit_pass(e, p);
    else
        undo_pass(e, p);
    const bool given_up = !whole && !all_gone(e, p);
    p->n_segments = 0;
    return !given_up;
}

/* Passes over those who have left. */
static bool has_more(const mote_engine *e, progress *p)
{
    while (p->item < p->n && e->left[p->item]) {
        p->item++;
        p->done = 0;
    }
    return p->item < p->n;
}

/* false: a cancel came. */
static bool run_all(mote_engine *e, progress *p)
{
    while (has_more(e, p)) {
        if (atomic_exchange(&e->cancel, false))
            return false;
        ask(p);
        if (!has_more(e, p))
            break;
        build_pass(e, p);
        assert(p->n_segments > 0);
        if (!run_pass(e, p)) {
            atomic_store(&e->cancel, false);
            return false;
        }
    }
    return true;
}

mote_status mote_step_with_hook(mote_engine *e, const mote_work *work, size_t n,
                                void (*between)(void *with), void *with, mote_error *err)
{
    if (e == NULL || (work == NULL && n > 0))
        return err_set(err, MOTE_E_ARG, "mote_step needs an engine and its work");
    e->check++;
    TRY(check_all(e, work, n, err));
    TRY(check_pages(e, work, n, err));
    e->step++;
    memset(e->left, 0, n * sizeof *e->left);
    progress p = {.work = work, .n = n, .between = between, .with = with};
    mem_guard_begin();
    e->running = &p;
    const bool whole = run_all(e, &p);
    e->running = NULL;
    mem_guard_end();
    if (!whole)
        return err_set(err, MOTE_E_CANCELED, "the step was canceled");
    if (n > 0 && p.n_left == n)
        return err_set(err, MOTE_E_CANCELED, "everybody has left the step");
    return MOTE_OK;
}

mote_status mote_step(mote_engine *e, const mote_work *work, size_t n, mote_error *err)
{
    return mote_step_with_hook(e, work, n, NULL, NULL, err);
}

void mote_cancel(mote_engine *e)
{
    atomic_store(&e->cancel, true);
}
