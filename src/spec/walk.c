/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.c - spec_walk: which row of a step is sampled next, and the rewind to the accepted tokens.
 * What a canceled step leaves of a draft.
 *
 * The wanted tokens of a turn are compared with those that the session holds. It does not matter
 * how the turn came to want them: a sampled token, several tokens inserted by a grammar, or fewer
 * tokens after a repetition loop was cut out. As long as the session holds all wanted tokens and has
 * logits of the last, the next row replaces a step.
 */
#include "spec/spec.h"

#include <assert.h>

/* ---- canceled steps ---- */

size_t spec_item_computed(spec_item *it)
{
    const size_t length = (size_t)mote_session_length(it->session);
    if (it->n_draft == 0)
        return 1;
    assert(length >= it->n && length <= it->n + it->n_draft);
    if (mote_session_logits(it->session, 0) == NULL) { /* a later pass was undone */
        mote_session_rewind(it->session, it->n - 1);
        it->n_draft = 0;
        return 0;
    }
    it->n_draft = length - it->n;
    return length - it->held; /* all tokens of the work have rows */
}

void spec_item_undo(const spec_item *it)
{
    if (it->n_draft > 0 && mote_session_length(it->session) > it->n)
        mote_session_rewind(it->session, it->n);
}

/* ---- the rows of a step ---- */

size_t spec_walk_begin(spec_walk *w, const mote_session *session, size_t n, size_t rows)
{
    const size_t length = (size_t)mote_session_length(session);
    assert(rows > 0 && rows <= length && n <= length && length - n < rows);
    *w = (spec_walk){.base = length - rows, .certain = n, .agreed = n, .most = n};
    return n - 1 - w->base;
}

static void walk_compare(spec_walk *w, const mote_session *session, const mote_token *tokens,
                         size_t n, size_t same)
{
    const mote_token *held = mote_session_tokens(session);
    const size_t length = (size_t)mote_session_length(session);
    if (w->agreed > same)
        w->agreed = same;
    if (w->agreed > n)
        w->agreed = n;
    while (w->agreed < n && w->agreed < length && held[w->agreed] == tokens[w->agreed])
        w->agreed++;
    if (w->agreed >= w->most) {
        w->most = w->agreed;
        w->refused = w->agreed < n && w->agreed < length;
    }
}

/* A rewind inside the draft is exact, because spec_plan() ends drafts before a multiple of 32. One
 * to earlier tokens need not be. */
static void walk_rewind(const spec_walk *w, mote_session *session, size_t keep)
{
    if (mote_session_length(session) <= keep)
        return;
    const bool exact = mote_session_rewind(session, keep) == keep;
    assert(exact || keep < w->certain);
    (void)exact;
    (void)w;
}

bool spec_walk_next(spec_walk *w, mote_session *session, const mote_token *tokens, size_t n,
                    size_t same, size_t *row)
{
    walk_compare(w, session, tokens, n, same);
    if (w->agreed == n && n > w->base) {
        *row = n - 1 - w->base;
        return true;
    }
    /* A rewind drops the logits, so at least one token is appended. */
    walk_rewind(w, session, w->agreed < n ? w->agreed : n - 1);
    return false;
}

void spec_walk_end(spec_walk *w, mote_session *session, const mote_token *tokens, size_t n,
                   size_t same)
{
    walk_compare(w, session, tokens, n, same);
    walk_rewind(w, session, w->agreed > w->certain ? w->agreed : w->certain);
}

void spec_walk_result(const spec_walk *w, spec_item *item)
{
    const size_t accepted = w->most - w->certain;
    item->accepted = accepted < item->n_draft ? accepted : item->n_draft;
    item->tried = item->accepted + (w->refused && item->accepted < item->n_draft);
}
