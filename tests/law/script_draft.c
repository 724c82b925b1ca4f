/* SPDX-License-Identifier: Apache-2.0 */
/*
 * script_draft.c - drafts of a script: of one or many sessions, with and without given tokens, and
 * some that do not fit. They must equal the table bit for bit, and change nothing.
 */
#include "law/script_step.h"

#include "base/mem.h"

#include <string.h>

typedef struct draft_batch {
    mote_draft_item items[SCRIPT_SESSIONS];
    script_live *live[SCRIPT_SESSIONS];
    uint64_t end[SCRIPT_SESSIONS]; /* first position that is not written; 0: no drafts */
    size_t n;
    uint32_t engine;
} draft_batch;

/* Drafts of the table after the session's last position. */
static const law_draft *expected(const script *s, const script_live *live)
{
    return &s->table->drafts[live->stream][live->pos - 1];
}

static void draw_item(script *s, draft_batch *b, script_live *live)
{
    const law_draft *want = expected(s, live);
    size_t all = 1 + rig_below(&s->random, LAW_DRAFTS);
    size_t given = rig_once_in(&s->random, 2) ? rig_below(&s->random, (uint32_t)all) : 0;
    uint64_t room = s->engines[b->engine].context - live->pos;
    room = room > 1 + given ? room - 1 - given : 0;
    size_t n = all - given < room ? all - given : (size_t)room;
    b->live[b->n] = live;
    b->end[b->n] = n > 0 ? live->pos - 1 + given + n : 0;
    b->items[b->n++] = (mote_draft_item){.session = live->session,
                                         .next = s->table->tokens[live->stream][live->pos],
                                         .given = want->tokens,
                                         .n_given = given,
                                         .n = all - given,
                                         .stop_below = rig_once_in(&s->random, 3) ? 0.01f : 0.0f};
    script_note(s, " [session %d: stream %u at %llu, %zu given, %zu]", (int)(live - s->live),
                live->stream, (unsigned long long)live->pos, given, all - given);
}

static void draw_drafts(script *s, draft_batch *b)
{
    *b = (draft_batch){.engine = script_any_engine(s)};
    script_note(s, "drafts on engine %u:", b->engine);
    uint32_t one_in = 1 + rig_below(&s->random, 3);
    for (uint32_t i = 0; i < SCRIPT_SESSIONS; i++) {
        script_live *live = &s->live[i];
        if (live->session != NULL && live->engine == b->engine && live->pos > 0 &&
            live->pos < s->table->setup.length && rig_once_in(&s->random, one_in))
            draw_item(s, b, live);
    }
    script_note(s, "\n");
}

static void check_item(script *s, const script_live *live, const mote_draft_item *item)
{
    const law_draft *want = expected(s, live);
    uint64_t left = s->engines[live->engine].context - live->pos;
    size_t at = item->n_given, n = 0;
    double product = 1;
    while (n < item->n && 1 + at + n < left && product >= (double)item->stop_below) {
        product *= (double)want->probability[at + n];
        n++;
    }
    if (item->n_drafts != n ||
        memcmp(item->tokens, want->tokens + at, n * sizeof *want->tokens) != 0 ||
        memcmp(item->probability, want->probability + at, n * sizeof *want->probability) != 0)
        script_broken(s, "session %d: the %zu drafts of stream %u at position %llu are others",
                      (int)(live - s->live), item->n_drafts, live->stream,
                      (unsigned long long)live->pos);
}

void script_draft(script *s)
{
    draft_batch b;
    draw_drafts(s, &b);
    bool fits = script_draft_fits(s, b.engine, b.live, b.end, b.n);
    mote_error err = {0};
    uint64_t before = mem_count().requests;
    mote_status status = mote_draft(s->engines[b.engine].engine, b.items, b.n, &err);
    if (mem_count().requests != before)
        script_broken(s, "the draft allocated memory");
    if (status != (fits ? MOTE_OK : MOTE_E_MEMORY))
        script_broken(s, "the draft says %s: %s", mote_status_name(status), err.text);
    for (size_t i = 0; i < b.n; i++) {
        script_check_standing(s, b.live[i], "a draft");
        if (fits)
            check_item(s, b.live[i], &b.items[i]);
    }
}
