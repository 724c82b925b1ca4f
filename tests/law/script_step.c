/* SPDX-License-Identifier: Apache-2.0 */
/*
 * script_step.c - the steps of a script: of one or many sessions, with and without logits; one that
 * does not fit, one that is canceled, one with aborted sessions.
 */
#include "law/script_step.h"

#include "base/mem.h"

#include <string.h>

enum { MAX_EMBEDDING = 1024 };

uint32_t script_any_engine(script *s)
{
    return s->engines[1].engine != NULL ? rig_below(&s->random, SCRIPT_ENGINES) : 0;
}

void script_free(script *s, script_live *live)
{
    script_note(s, "free session %d\n", (int)(live - s->live));
    mote_session_free(live->session);
    *live = (script_live){0};
}

/* A session may leave its stream for any other that has not parted from it yet. */
static void change_stream(script *s, script_live *live)
{
    uint32_t other = rig_below(&s->random, LAW_STREAMS);
    if (live->pos <= law_common(s->table, live->stream, other))
        live->stream = other;
}

static uint64_t positions_left(const script *s, const script_live *live)
{
    uint64_t context = s->engines[live->engine].context;
    uint64_t end = context < s->table->setup.length ? context : s->table->setup.length;
    return end - live->pos;
}

typedef struct batch {
    mote_work work[SCRIPT_SESSIONS];
    script_live *live[SCRIPT_SESSIONS];
    size_t n;
    uint32_t engine;
} batch;

static uint32_t draw_length(script *s, uint64_t most)
{
    static const uint32_t reach[] = {1, 1, 1, 2, 5, 17, 33, 40, 70, 100};
    uint32_t upto = reach[rig_below(&s->random, sizeof reach / sizeof *reach)];
    uint32_t n = 1 + rig_below(&s->random, upto);
    return n < most ? n : (uint32_t)most;
}

/* Where hidden rows of the batch at hand are added up. */
static double sums[SCRIPT_SESSIONS][MAX_EMBEDDING];

static void draw_batch(script *s, batch *b)
{
    *b = (batch){.engine = script_any_engine(s)};
    if (s->table->embedding > MAX_EMBEDDING)
        script_broken(s, "a row has %u numbers", s->table->embedding);
    memset(sums, 0, sizeof sums);
    uint32_t one_in = 1 + rig_below(&s->random, 3);
    uint32_t rows = 0;
    for (uint32_t i = 0; i < SCRIPT_SESSIONS; i++) {
        script_live *live = &s->live[i];
        if (live->session == NULL || live->engine != b->engine || positions_left(s, live) == 0 ||
            !rig_once_in(&s->random, one_in))
            continue;
        change_stream(s, live);
        uint32_t n = draw_length(s, positions_left(s, live));
        /* With drafts the last position of a page or chunk is completed by the next token: stop at
         * such positions often. */
        const uint32_t to_chunk = 32 - live->pos % 32;
        if (s->table->setup.drafts && to_chunk <= positions_left(s, live) &&
            rig_once_in(&s->random, 3))
            n = to_chunk;
        mote_logits want = rig_once_in(&s->random, 4)   ? MOTE_LOGITS_NONE
                           : rig_once_in(&s->random, 3) ? MOTE_LOGITS_ALL
                           : rig_once_in(&s->random, 4) ? MOTE_HIDDEN_LAST
                           : rig_once_in(&s->random, 6) ? MOTE_HIDDEN_SUM
                                                        : MOTE_LOGITS_LAST;
        uint32_t costs = want == MOTE_LOGITS_ALL ? n : want == MOTE_LOGITS_LAST ? 1 : 0;
        if (rows + costs > SCRIPT_ROWS) {
            want = MOTE_LOGITS_NONE;
            costs = 0;
        }
        rows += costs;
        b->live[b->n] = live;
        b->work[b->n] = (mote_work){.session = live->session,
                                    .tokens = s->table->tokens[live->stream] + live->pos,
                                    .n = n,
                                    .want = want,
                                    .sum = sums[b->n]};
        b->n++;
    }
}

static void note_batch(script *s, const batch *b, const char *verb)
{
    static const char *const names[] = {"last", "none", "all", "hidden", "sum"};
    script_note(s, "%s on engine %u:", verb, b->engine);
    for (size_t i = 0; i < b->n; i++)
        script_note(s, " [session %d: stream %u from %llu, %zu, %s]", (int)(b->live[i] - s->live),
                    b->live[i]->stream, (unsigned long long)b->live[i]->pos, b->work[i].n,
                    names[b->work[i].want]);
    script_note(s, "\n");
}

static void check_row(script *s, const script_live *live, uint64_t pos, size_t row)
{
    if (!law_same(s->table, live->stream, pos, mote_session_logits(live->session, row)))
        script_broken(s, "session %d: the logits of stream %u at position %llu are other bits",
                      (int)(live - s->live), live->stream, (unsigned long long)pos);
}

static void check_logits(script *s, const script_live *live, const mote_work *work)
{
    size_t rows = work->want == MOTE_LOGITS_ALL ? work->n : work->want == MOTE_LOGITS_LAST ? 1 : 0;
    for (size_t row = 0; row < rows; row++)
        check_row(s, live, live->pos - rows + row, row);
    if (mote_session_logits(live->session, rows) != NULL)
        script_broken(s, "session %d has an unexpected row of logits", (int)(live - s->live));
    const float *hidden = mote_session_hidden(live->session, NULL);
    bool right = work->want != MOTE_HIDDEN_LAST
                     ? hidden == NULL
                     : law_same_hidden(s->table, live->stream, live->pos - 1, hidden);
    if (work->want == MOTE_HIDDEN_SUM)
        right =
            right && law_same_sum(s->table, live->stream, live->pos - work->n, work->n, work->sum);
    if (!right)
        script_broken(s, "session %d: the hidden row at position %llu is other bits",
                      (int)(live - s->live), (unsigned long long)live->pos - 1);
}

static void finish_batch(script *s, batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        script_advance(s, b->live[i], b->work[i].n);
        script_check_standing(s, b->live[i], "a step");
        check_logits(s, b->live[i], &b->work[i]);
    }
}

static mote_status step(script *s, const batch *b)
{
    mote_error err = {0};
    uint64_t before = mem_count().requests;
    mote_status status = mote_step(s->engines[b->engine].engine, b->work, b->n, &err);
    if (mem_count().requests != before)
        script_broken(s, "the step allocated memory");
    if (status != MOTE_OK && status != MOTE_E_FULL && status != MOTE_E_CANCELED &&
        status != MOTE_E_MEMORY)
        script_broken(s, "the step failed: %s", err.text);
    return status;
}

/* Too few free pages: nothing changes. Then a session is freed. */
static void refused(script *s, const batch *b)
{
    if (step(s, b) != MOTE_E_MEMORY)
        script_broken(s, "the step has taken more pages than there are");
    for (size_t i = 0; i < b->n; i++)
        script_check_standing(s, b->live[i], "a rejected step");
    script_check_use(s);
    script_free(s, b->live[rig_below(&s->random, (uint32_t)b->n)]);
}

void script_step(script *s)
{
    batch b;
    draw_batch(s, &b);
    if (b.n == 0)
        return;
    note_batch(s, &b, "step");
    if (!script_fits(s, b.engine, b.live, b.work, b.n)) {
        refused(s, &b);
        return;
    }
    if (step(s, &b) != MOTE_OK)
        script_broken(s, "the step did not run");
    for (size_t i = 0; i < b.n; i++)
        s->budget -= (int64_t)b.work[i].n;
    finish_batch(s, &b);
}

/* One item too long among others: nothing may move. */
void script_step_overfull(script *s)
{
    static const mote_token filler[4096];
    batch b;
    draw_batch(s, &b);
    if (b.n == 0)
        return;
    size_t victim = rig_below(&s->random, (uint32_t)b.n);
    uint64_t left = s->engines[b.engine].context - b.live[victim]->pos;
    b.work[victim].tokens = filler;
    b.work[victim].n = (size_t)left + 1 + rig_below(&s->random, 3);
    b.work[victim].want = MOTE_LOGITS_NONE;
    if (b.work[victim].n > sizeof filler / sizeof *filler)
        return;
    note_batch(s, &b, "overfull step");
    if (step(s, &b) != MOTE_E_FULL)
        script_broken(s, "an item that does not fit was taken");
    for (size_t i = 0; i < b.n; i++)
        script_check_standing(s, b.live[i], "a step that did not fit");
}

void script_step_cancelled(script *s)
{
    batch b;
    draw_batch(s, &b);
    if (b.n == 0 || !script_fits(s, b.engine, b.live, b.work, b.n))
        return;
    note_batch(s, &b, "cancelled step");
    mote_cancel(s->engines[b.engine].engine);
    if (step(s, &b) == MOTE_OK) {
        finish_batch(s, &b);
        return;
    }
    for (size_t i = 0; i < b.n; i++) {
        script_live *live = b.live[i];
        uint64_t length = mote_session_length(live->session);
        if (length < live->pos || length > live->pos + b.work[i].n)
            script_broken(s, "after a cancelled step session %d stands at %llu",
                          (int)(live - s->live), (unsigned long long)length);
        s->budget -= (int64_t)(length - live->pos);
        script_advance(s, live, length - live->pos);
        script_check_standing(s, live, "a cancelled step");
    }
}

/* ---- abort ---- */

/* Aborts and frees some sessions of a batch at one call of the hook. */
typedef struct abort_plan {
    script *s;
    const batch *b;
    uint32_t mask; /* a bit for each item */
    uint32_t call; /* when */
    uint32_t calls;
    bool happened;
} abort_plan;

static void abort_on_hook(void *with)
{
    abort_plan *d = with;
    if (d->calls++ != d->call)
        return;
    d->happened = true;
    for (size_t i = 0; i < d->b->n; i++)
        if (d->mask >> i & 1) {
            mote_step_abort(d->b->live[i]->session);
            script_free(d->s, d->b->live[i]);
        }
}

/* The items that were not aborted. */
static batch remaining(const batch *b, const abort_plan *d)
{
    batch left = {.engine = b->engine};
    for (size_t i = 0; i < b->n; i++)
        if (!d->happened || !(d->mask >> i & 1)) {
            left.live[left.n] = b->live[i];
            left.work[left.n++] = b->work[i];
        }
    return left;
}

void script_step_aborted(script *s)
{
    batch b;
    draw_batch(s, &b);
    if (b.n == 0 || !script_fits(s, b.engine, b.live, b.work, b.n))
        return;
    note_batch(s, &b, "step with aborts");
    abort_plan d = {.s = s,
                    .b = &b,
                    .mask = 1 + rig_below(&s->random, (UINT32_C(1) << b.n) - 1),
                    .call = rig_below(&s->random, 12)};
    const mote_status status =
        mote_step_with_hook(s->engines[b.engine].engine, b.work, b.n, abort_on_hook, &d, NULL);
    batch left = remaining(&b, &d);
    if (status != (left.n > 0 ? MOTE_OK : MOTE_E_CANCELED))
        script_broken(s, "the step with aborts returned %d", (int)status);
    for (size_t i = 0; i < left.n; i++)
        s->budget -= (int64_t)left.work[i].n;
    finish_batch(s, &left);
}
