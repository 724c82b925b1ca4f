/* SPDX-License-Identifier: Apache-2.0 */
/*
 * law_drafts.c - drafts of fixed cases: after a rewind to every kept boundary, in forks that part
 * at a multiple of 64, and after verification with a rewind. They must equal those of a cold engine
 * at the same position.
 */
#include "law/fixture.h"

#include <string.h>

static void expect_drafts(const fixture *f, mote_engine *engine, mote_session *session,
                          uint32_t stream, const char *where)
{
    const uint64_t pos = mote_session_length(session);
    const law_draft *want = &f->table.drafts[stream][pos - 1];
    mote_draft_item item = {
        .session = session, .next = f->table.tokens[stream][pos], .n = LAW_DRAFTS};
    mote_error err = {0};
    MUST(mote_draft(engine, &item, 1, &err), &err);
    if (item.n_drafts != LAW_DRAFTS ||
        memcmp(item.tokens, want->tokens, sizeof want->tokens) != 0 ||
        memcmp(item.probability, want->probability, sizeof want->probability) != 0)
        rig_fail("%s: %s: other drafts of stream %u at position %llu", f->table.setup.name, where,
                 stream, (unsigned long long)pos);
}

static void append(const fixture *f, mote_engine *engine, mote_session *session, uint32_t stream,
                   size_t n)
{
    const uint64_t pos = mote_session_length(session);
    rig_feed(engine, session, f->table.tokens[stream] + pos, n, MOTE_LOGITS_NONE);
}

/* Boundaries that single tokens and larger steps have reached. */
static void kept_boundaries(const fixture *f)
{
    static const size_t steps[] = {1, 31, 32, 45};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        mote_engine *engine = fixture_engine(f, f->model, 1, 2);
        mote_session *session = rig_session(engine);
        mote_error err = {0};
        const uint64_t end = f->table.setup.length - 10;
        while (mote_session_length(session) + steps[i] <= end) {
            append(f, engine, session, 0, steps[i]);
            MUST(mote_session_keep(session, NULL, &err), &err);
        }
        for (uint64_t pos = mote_session_length(session) / 32 * 32; pos > 0; pos -= 32) {
            if (mote_session_rewind(session, pos) == 0)
                break;
            expect_drafts(f, engine, session, 0, "kept boundary");
            append(f, engine, session, 0, 3);
            expect_drafts(f, engine, session, 0, "after a kept boundary");
        }
        mote_session_free(session);
        mote_engine_free(engine);
    }
}

/* Streams 0 and 2 part at 64: both forks complete position 63 of the MTP block, in different ways. */
static void forks_at_a_page(const fixture *f)
{
    mote_engine *engine = fixture_engine(f, f->model, 2, 2);
    mote_session *first = rig_session(engine), *second;
    mote_error err = {0};
    append(f, engine, first, 0, law_common(&f->table, 0, 2));
    MUST(mote_session_fork(&second, first, &err), &err);
    for (int i = 0; i < 20; i++) {
        expect_drafts(f, engine, first, 0, "first of two forks");
        expect_drafts(f, engine, second, 2, "second of two forks");
        append(f, engine, first, 0, 1);
        append(f, engine, second, 2, 1);
    }
    mote_session_free(first);
    mote_session_free(second);
    mote_engine_free(engine);
}

/* Appends the next token and its drafts, as verification does, and returns to the next token. */
static void verification(const fixture *f)
{
    mote_engine *engine = fixture_engine(f, f->model, 1, 2);
    mote_session *session = rig_session(engine);
    append(f, engine, session, 0, 1);
    for (uint64_t pos = 1; pos + 8 < f->table.setup.length; pos++) {
        const law_draft *draft = &f->table.drafts[0][pos - 1];
        mote_token step[1 + LAW_DRAFTS] = {f->table.tokens[0][pos]};
        memcpy(step + 1, draft->tokens, sizeof draft->tokens);
        expect_drafts(f, engine, session, 0, "verification");
        const size_t place = pos % 32, room = place == 31 ? LAW_DRAFTS : 30 - place;
        rig_feed(engine, session, step, 1 + (room < LAW_DRAFTS ? room : LAW_DRAFTS),
                 MOTE_LOGITS_NONE);
        if (mote_session_rewind(session, pos + 1) != pos + 1)
            rig_fail("the rewind to %llu is not exact", (unsigned long long)pos + 1);
    }
    mote_session_free(session);
    mote_engine_free(engine);
}

void law_drafts(const fixture *f)
{
    if (!f->table.setup.drafts)
        return;
    kept_boundaries(f);
    forks_at_a_page(f);
    verification(f);
}
