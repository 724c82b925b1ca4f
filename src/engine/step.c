/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - mote_step: work items to passes; then logits, hidden rows and mote_sample.
 *
 * All checks run before anything changes. Then the items are packed in order into passes of at most
 * `batch` rows; an item that does not fit continues in the next pass. Blocks were reserved or
 * counted beforehand, so a pass cannot run out of memory.
 *
 * A pass of more than SHORT_PASS rows can be canceled between two sublayers. Its sessions then
 * return to the latest position with an intact recurrent state.
 *
 * mote_step_abort removes one session from a running pass: its rows are taken out between two
 * sublayers. The rows of other sessions keep their bits, because rows depend on each other only
 * within a session. Canceling the whole pass instead would be simpler, but the other sessions would
 * have to compute their rows again. A decoding session at a multiple of 32 might even fall back to
 * the start of its prompt, and a client that connects and aborts in a loop could stop all progress.
 * (Each layer has two sublayers, mixer and feed-forward. For 256 rows one takes 15 ms in the 0.8B
 * shape and 30 ms in the 4B shape.)
 */
#include "base/fpmode.h"
#include "base/mem.h"
#include "engine/engine_int.h"
#include "sample/sample.h"

#include <assert.h>
#include <string.h>

/* ---- checks ---- */

static mote_status step_check_item(mote_engine *e, const mote_work *work, size_t item,
                                   mote_error *err)
{
    const mote_work *w = &work[item];
    mote_session *s = w->session;
    if (s == NULL || s->engine != e)
        return err_set(err, MOTE_E_ARG,
                       "work item %zu: session is NULL or belongs to another engine", item);
    if (s->in_check == e->check)
        return err_set(err, MOTE_E_ARG, "work item %zu: session appears twice in one step", item);
    s->in_check = e->check;
    if (w->n == 0 || w->tokens == NULL)
        return err_set(err, MOTE_E_ARG, "work item %zu has no tokens", item);
    if ((unsigned)w->want > MOTE_HIDDEN_SUM)
        return err_set(err, MOTE_E_ARG, "invalid logits mode %d in work item %zu", (int)w->want,
                       item);
    if (w->want == MOTE_HIDDEN_SUM && w->sum == NULL)
        return err_set(err, MOTE_E_ARG, "work item %zu: MOTE_HIDDEN_SUM needs `sum`", item);
    for (size_t i = 0; i < w->n; i++)
        if (w->tokens[i] >= 0 && (uint32_t)w->tokens[i] >= e->model->hp.n_vocab)
            return err_set(err, MOTE_E_ARG, "token %d in work item %zu: the vocabulary has %u",
                           w->tokens[i], item, e->model->hp.n_vocab);
    TRY(image_spans_check(s, w, err));
    if (w->n > s->context - s->length)
        return err_set(err, MOTE_E_FULL,
                       "context full: %zu more tokens exceed the context of %llu (%llu in use)",
                       w->n, (unsigned long long)s->context, (unsigned long long)s->length);
    return MOTE_OK;
}

static mote_status step_check_items(mote_engine *e, const mote_work *work, size_t n,
                                    mote_error *err)
{
    size_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        TRY(step_check_item(e, work, i, err));
        rows += work[i].want == MOTE_LOGITS_ALL    ? work[i].n
                : work[i].want == MOTE_LOGITS_LAST ? 1
                                                   : 0;
    }
    if (rows > e->options.logits_rows)
        return err_set(err, MOTE_E_ARG,
                       "the step requests %zu rows of logits; at most %u (raise logits_rows in "
                       "mote_engine_options)",
                       rows, e->options.logits_rows);
    return MOTE_OK;
}

static uint64_t step_count_pages(const mote_work *work, size_t n)
{
    uint64_t needed = 0;
    for (size_t i = 0; i < n; i++)
        needed += session_count_pages(work[i].session, work[i].session->length + work[i].n);
    for (size_t i = 0; i < n; i++)
        session_count_pages_end(work[i].session);
    return needed;
}

static mote_status step_check_pages(mote_engine *e, const mote_work *work, size_t n,
                                    mote_error *err)
{
    uint64_t needed = step_count_pages(work, n);
    assert(e->options.shared_positions || needed <= e->pages.n_free);
    if (needed > e->pages.n_free)
        return err_set(err, MOTE_E_MEMORY,
                       "KV cache full: the step needs %llu pages of %d positions, %u are free",
                       (unsigned long long)needed, KERN_PAGE, e->pages.n_free);
    return MOTE_OK;
}

/* ---- building a pass ---- */

/* A pass with at most this many rows is never canceled. It takes hardly longer than one row, and
 * undo could cost a decoding session the tokens since its last kept state. */
enum { SHORT_PASS = 16 };

/* A mote_step call in progress. */
typedef struct step_run {
    const mote_work *work;
    size_t n;
    void (*hook)(void *ctx); /* of mote_step_with_hook; NULL: none */
    void *hook_ctx;
    fpmode caller;      /* floating-point mode of the caller, in which the hook runs */
    size_t n_aborted;   /* items removed by mote_step_abort */
    size_t item;        /* first unfinished item */
    size_t done;        /* its tokens that are appended */
    size_t n_segments;  /* of the current pass */
    size_t n_images;    /* of the current pass */
    size_t n_rows;      /* of the current pass */
    size_t sublayers;   /* of the current pass, complete */
    bool cancelable;    /* the current pass has more than SHORT_PASS rows */
    bool damaged;       /* the weights could not be read in the last pass */
    size_t logits_rows; /* written so far in the step */
} step_run;

/* Do n more tokens reach the next multiple of 32, where a new state is written? */
static bool session_crosses_boundary(const mote_session *s, size_t n)
{
    return s->length % KERN_CHUNK + n >= KERN_CHUNK;
}

static mote_session *segment_session(const mote_engine *e, const step_run *r, size_t segment)
{
    return r->work[e->items[segment]].session;
}

/*
 * Does the pass have to end before this session's segment? It does if the segment and an earlier
 * one would both replace the same shared, unmarked state (see engine_int.h).
 */
static bool pass_state_conflict(const mote_engine *e, const step_run *r, const mote_session *s,
                                size_t n)
{
    const uint32_t state = s->state;
    const bool shared_unmarked =
        state != STATE_ZERO && e->kept_counts[state] == 0 && e->states.refs[state] > 1;
    if (!shared_unmarked || !session_crosses_boundary(s, n))
        return false;
    for (size_t i = 0; i < r->n_segments; i++)
        if (segment_session(e, r, i)->state == state && e->next_states[i] != state)
            return true;
    return false;
}

/* Adds n tokens of a work item, from index `from` on, to the pass. Copy-on-write: if the state of
 * the session is shared and the segment crosses a boundary, the pass writes to a new state block.
 */
static void pass_add_segment(mote_engine *e, step_run *r, size_t item, size_t from, size_t n)
{
    const mote_work *w = &r->work[item];
    mote_session *s = w->session;
    session_add_pages(s, s->length + n);
    const bool only_holder = s->state != STATE_ZERO && e->states.refs[s->state] == 1;
    const uint32_t next =
        session_crosses_boundary(s, n) && !only_holder ? blocks_take(&e->states) : s->state;
    const bool ends = from + n == w->n;
    int64_t rope_offset = 0;
    pass_image *images = e->images != NULL ? e->images + r->n_images : NULL;
    const size_t n_images = image_spans_append(s, w, from, n, images, &rope_offset);
    r->n_images += n_images;
    e->items[r->n_segments] = (uint32_t)item;
    e->next_states[r->n_segments] = next;
    e->segments[r->n_segments++] = (pass_segment){
        .tokens = w->tokens + from,
        .n = n,
        .pos = s->length,
        .state = blocks_at(&e->states, s->state),
        .next_state = blocks_at(&e->states, next),
        .tail = blocks_at(&e->tails, s->tail),
        .pages = s->pages,
        .images = images,
        .n_images = n_images,
        .rope_offset = rope_offset,
        .lora = &s->lora,
        .n_logits = w->want == MOTE_LOGITS_ALL            ? n
                    : w->want == MOTE_LOGITS_LAST && ends ? 1
                                                          : 0,
        .hidden = w->want == MOTE_HIDDEN_LAST && ends ? session_hidden_row(s) : NULL,
        .sum = w->want == MOTE_HIDDEN_SUM ? w->sum : NULL,
    };
}

/* Packs as many items as fit into the next pass, at least one row. */
static void pass_build(mote_engine *e, step_run *r)
{
    size_t capacity = e->options.batch, from = r->done;
    r->n_images = 0;
    r->n_rows = 0;
    for (size_t i = r->item; i < r->n && capacity > 0; i++, from = 0) {
        if (e->aborted[i])
            continue;
        const mote_work *w = &r->work[i];
        size_t n = w->n - from < capacity ? w->n - from : capacity;
        if (pass_state_conflict(e, r, w->session, n))
            return;
        pass_add_segment(e, r, i, from, n);
        r->n_rows += n;
        capacity -= n;
    }
}

/* Copy-on-write: segments that would write their state in place get a spare state block, as long as
 * blocks are free, so that undo keeps the old state. */
static void pass_use_spare_states(mote_engine *e, const step_run *r)
{
    for (size_t i = 0; i < r->n_segments && e->states.n_free > 0; i++) {
        const mote_session *s = segment_session(e, r, i);
        if (e->next_states[i] != s->state || !session_crosses_boundary(s, e->segments[i].n))
            continue;
        e->next_states[i] = blocks_take(&e->states);
        e->segments[i].next_state = blocks_at(&e->states, e->next_states[i]);
    }
}

/* ---- ending a pass ---- */

static void segment_undo(mote_engine *e, mote_session *s, size_t n, uint32_t next)
{
    const bool in_place = next == s->state;
    if (!in_place)
        blocks_release(&e->states, next);
    session_undo(s, n, in_place && session_crosses_boundary(s, n));
}

static void pass_undo(mote_engine *e, const step_run *r)
{
    for (size_t i = 0; i < r->n_segments; i++)
        if (!e->segments[i].aborted)
            segment_undo(e, segment_session(e, r, i), e->segments[i].n, e->next_states[i]);
}

/* Appends the segment's tokens to its session. */
static void segment_commit(mote_engine *e, mote_session *s, const pass_segment *seg, uint32_t next)
{
    memcpy(s->tokens + s->length, seg->tokens, seg->n * sizeof *s->tokens);
    s->length += seg->n;
    uint64_t ring_start = s->length > DELTA_RING ? s->length - DELTA_RING : 0;
    if (s->ring_from < ring_start)
        s->ring_from = ring_start;
    if (!seg->defers)
        s->draft_done = s->length - 1;
    if (next != s->state) {
        blocks_release(&e->states, s->state);
        s->state = next;
    }
    if (seg->hidden != NULL)
        s->hidden_step = e->step;
}

/* Adds n rows of logits, from `row` of the engine's buffer on, to those of the session in this
 * step. The rows of one item are contiguous, also if it spans several passes. */
static void segment_commit_logits(const mote_engine *e, mote_session *s, size_t n, size_t row)
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

/* Counts n appended tokens of `item`. All items before it are finished or aborted. */
static void step_advance(step_run *r, size_t item, size_t n)
{
    if (item > r->item) {
        r->item = item;
        r->done = 0;
    }
    r->done += n;
    if (r->done == r->work[item].n) {
        r->item++;
        r->done = 0;
    }
}

static void pass_commit(mote_engine *e, step_run *r)
{
    for (size_t i = 0; i < r->n_segments; i++) {
        const pass_segment *seg = &e->segments[i];
        if (seg->aborted)
            continue;
        mote_session *s = segment_session(e, r, i);
        segment_commit(e, s, seg, e->next_states[i]);
        segment_commit_logits(e, s, seg->n_logits, r->logits_rows);
        r->logits_rows += seg->n_logits;
        step_advance(r, e->items[i], seg->n);
    }
}

/* ---- hook and abort ---- */

/* The hook may allocate; the rest of a step may not. */
static void step_call_hook(const step_run *r)
{
    if (r->hook == NULL)
        return;
    mem_guard_end();
    fpmode_set(&r->caller);
    r->hook(r->hook_ctx);
    fpmode_enter();
    mem_guard_begin();
}

/* Called by forward_pass before every sublayer. false: canceled. */
static bool pass_on_sublayer(void *ctx)
{
    const mote_engine *e = ctx;
    step_call_hook(e->running);
    e->running->sublayers++;
    return !e->running->cancelable || !atomic_load_explicit(&e->cancel, memory_order_relaxed);
}

void mote_step_abort(mote_session *s)
{
    mote_engine *e = s->engine;
    step_run *r = e->running;
    size_t item = 0;
    while (r != NULL && item < r->n && (e->aborted[item] || r->work[item].session != s))
        item++;
    if (r == NULL || item == r->n)
        return;
    e->aborted[item] = true;
    r->n_aborted++;
    for (size_t i = 0; i < r->n_segments; i++)
        if (e->items[i] == item) {
            e->segments[i].aborted = true;
            segment_undo(e, s, e->segments[i].n, e->next_states[i]);
        }
}

uint64_t mote_step_progress(const mote_session *s)
{
    const mote_engine *e = s->engine;
    const step_run *r = e->running;
    for (size_t i = 0; r != NULL && i < r->n_segments; i++)
        if (segment_session(e, r, i) == s && !e->segments[i].aborted)
            return s->length + e->segments[i].n * r->sublayers / (2 * e->model->hp.n_layers);
    return s->length;
}

/* ---- running ---- */

static bool pass_all_aborted(const mote_engine *e, const step_run *r)
{
    size_t i = 0;
    while (i < r->n_segments && e->segments[i].aborted)
        i++;
    return i == r->n_segments;
}

/* Which segments leave their row of the MTP block out; the others need the rows before them. */
static void pass_prepare_drafts(mote_engine *e, const step_run *r)
{
    for (size_t i = 0; i < r->n_segments; i++) {
        e->segments[i].defers = draft_defers(&e->segments[i]);
        if (!e->segments[i].defers)
            draft_complete(segment_session(e, r, i));
    }
    draft_flush(e);
}

/* false: canceled, or the weights could not be read. */
static bool pass_run(mote_engine *e, step_run *r)
{
    float *logits = e->logits + r->logits_rows * e->model->hp.n_vocab;
    r->cancelable = r->n_rows > SHORT_PASS;
    r->sublayers = 0;
    if (r->cancelable || r->hook != NULL) /* the hook may abort a session in any pass */
        pass_use_spare_states(e, r);
    if (e->options.drafts)
        pass_prepare_drafts(e, r);
    e->forward.hook = r->cancelable || r->hook != NULL ? pass_on_sublayer : NULL;
    e->forward.hook_ctx = e;
    bool completed = forward_pass(&e->forward, e->segments, r->n_segments, logits);
    r->damaged = completed && model_check_text_files(e->model, NULL) != MOTE_OK;
    completed = completed && !r->damaged;
    if (completed)
        pass_commit(e, r);
    else
        pass_undo(e, r);
    const bool canceled = !completed && !pass_all_aborted(e, r);
    r->n_segments = 0;
    return !canceled;
}

/* Moves on to the next item that is not aborted; false: no more items. */
static bool step_has_more(const mote_engine *e, step_run *r)
{
    while (r->item < r->n && e->aborted[r->item]) {
        r->item++;
        r->done = 0;
    }
    return r->item < r->n;
}

/* false: canceled, or the weights could not be read. */
static bool step_run_passes(mote_engine *e, step_run *r)
{
    while (step_has_more(e, r)) {
        if (atomic_exchange(&e->cancel, false))
            return false;
        step_call_hook(r);
        if (!step_has_more(e, r))
            break;
        pass_build(e, r);
        assert(r->n_segments > 0);
        if (!pass_run(e, r)) {
            atomic_store(&e->cancel, false);
            return false;
        }
    }
    return true;
}

mote_status mote_step_with_hook(mote_engine *e, const mote_work *work, size_t n,
                                void (*hook)(void *ctx), void *ctx, mote_error *err)
{
    FPMODE_SCOPE;
    if (e == NULL || (work == NULL && n > 0))
        return err_set(err, MOTE_E_ARG, "mote_step: engine and work must not be NULL");
    e->check++;
    TRY(model_check_text_files(e->model, err));
    TRY(step_check_items(e, work, n, err));
    TRY(step_check_pages(e, work, n, err));
    e->step++;
    memset(e->aborted, 0, n * sizeof *e->aborted);
    step_run r = {.work = work, .n = n, .hook = hook, .hook_ctx = ctx, .caller = fpmode_caller};
    mem_guard_begin();
    e->running = &r;
    const bool completed = step_run_passes(e, &r);
    e->running = NULL;
    mem_guard_end();
    if (r.damaged)
        return model_check_text_files(e->model, err);
    if (!completed)
        return err_set(err, MOTE_E_CANCELED, "step canceled by mote_cancel");
    if (n > 0 && r.n_aborted == n)
        return err_set(err, MOTE_E_CANCELED, "all sessions of the step were aborted");
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

/* ---- results ---- */

const float *mote_session_logits(const mote_session *s, size_t row)
{
    const mote_engine *e = s->engine;
    if (s->logits_step == 0 || s->logits_step != e->step || row >= s->n_logits)
        return NULL;
    return e->logits + (s->logits_row + row) * e->model->hp.n_vocab;
}

const float *mote_session_hidden(const mote_session *s, size_t *n)
{
    const mote_engine *e = s->engine;
    if (s->hidden_step == 0 || s->hidden_step != e->step)
        return NULL;
    if (n != NULL)
        *n = e->model->hp.n_embd;
    return session_hidden_row(s);
}

mote_status mote_sample(const mote_session *s, size_t row, const mote_sampling *how,
                        mote_choice *out, mote_error *err)
{
    FPMODE_SCOPE;
    if (s == NULL || out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_sample: session and out must not be NULL");
    const float *logits = mote_session_logits(s, row);
    if (logits == NULL)
        return err_set(err, MOTE_E_ARG,
                       "no row %zu of logits: the last step computed %zu for this session", row,
                       s->logits_step != 0 && s->logits_step == s->engine->step ? s->n_logits : 0);
    const mote_sampling greedy = {0};
    how = how != NULL ? how : &greedy;
    /* Row i of n belongs to the token n - i places before the end of the session. */
    uint64_t position = s->length - (s->n_logits - 1 - row);
    uint64_t from = how->generated_from < position ? how->generated_from : position;
    sample_input in = {
        .kernels = &s->engine->model->kernels,
        .logits = logits,
        .vocabulary = s->engine->model->hp.n_vocab,
        .n_tokens = tok_n_tokens(s->engine->model->tok),
        .generated = s->tokens + from,
        .n_generated = (size_t)(position - from),
        .position = position,
    };
    return sample_pick(&in, how, s->engine->sample_scratch, out, err);
}
