/* SPDX-License-Identifier: Apache-2.0 */
/* law_hidden.c - laws L1 to L4 for hidden rows and their sums. */
#include "law/fixture.h"

#include <stdlib.h>

/* Streams 0 and 1 with different chunk sizes, in a batch with a third session that gets logits. */
static void hidden_in_batch(const fixture *f, const mote_model *model, uint32_t n_threads,
                            uint32_t chunk)
{
    mote_engine *engine = fixture_engine(f, model, 3, n_threads);
    mote_session *sessions[3];
    for (uint32_t i = 0; i < 3; i++)
        sessions[i] = rig_session(engine);
    for (uint32_t pos = 0; pos + chunk <= 70; pos += chunk) {
        mote_work work[3];
        for (uint32_t i = 0; i < 3; i++)
            work[i] = (mote_work){.session = sessions[i],
                                  .tokens = f->table.tokens[i] + mote_session_length(sessions[i]),
                                  .n = i == 1 ? 1 : chunk,
                                  .want = i == 2 ? MOTE_LOGITS_LAST : MOTE_HIDDEN_LAST};
        mote_error err = {0};
        MUST(mote_step(engine, work, 3, &err), &err);
        for (uint32_t i = 0; i < 2; i++)
            if (!law_same_hidden(&f->table, i, mote_session_length(sessions[i]) - 1,
                                 mote_session_hidden(sessions[i], NULL)))
                rig_fail("%s: %u threads, chunks of %u: the hidden row at %llu is other bits",
                         f->table.setup.name, n_threads, chunk,
                         (unsigned long long)mote_session_length(sessions[i]) - 1);
        law_expect(&f->table, 2, mote_session_length(sessions[2]) - 1,
                   mote_session_logits(sessions[2], 0), "in a batch with hidden rows");
    }
    for (uint32_t i = 0; i < 3; i++)
        mote_session_free(sessions[i]);
    mote_engine_free(engine);
}

/* Sums over chunks, in a batch with logits and last rows of other sessions. */
static void sums_in_batch(const fixture *f, const mote_model *model, uint32_t n_threads,
                          uint32_t chunk)
{
    enum { LENGTH = 70 };
    static const mote_logits wants[3] = {MOTE_HIDDEN_SUM, MOTE_HIDDEN_LAST, MOTE_LOGITS_LAST};
    mote_engine *engine = fixture_engine(f, model, 3, n_threads);
    mote_session *sessions[3];
    double *sum = calloc(f->table.embedding, sizeof *sum);
    for (uint32_t i = 0; i < 3; i++)
        sessions[i] = rig_session(engine);
    for (uint32_t pos = 0; pos < LENGTH; pos += chunk) {
        mote_work work[3];
        for (uint32_t i = 0; i < 3; i++)
            work[i] = (mote_work){.session = sessions[i],
                                  .tokens = f->table.tokens[i] + pos,
                                  .n = pos + chunk < LENGTH ? chunk : LENGTH - pos,
                                  .want = wants[i],
                                  .sum = sum};
        mote_error err = {0};
        MUST(mote_step(engine, work, 3, &err), &err);
        const uint64_t end = mote_session_length(sessions[0]);
        if (!law_same_sum(&f->table, 0, 0, (size_t)end, sum) ||
            !law_same_hidden(&f->table, 1, end - 1, mote_session_hidden(sessions[1], NULL)))
            rig_fail("%s: %u threads, chunks of %u: the sum up to %llu is other bits",
                     f->table.setup.name, n_threads, chunk, (unsigned long long)end);
        law_expect(&f->table, 2, end - 1, mote_session_logits(sessions[2], 0),
                   "in a batch with sums");
    }
    for (uint32_t i = 0; i < 3; i++)
        mote_session_free(sessions[i]);
    free(sum);
    mote_engine_free(engine);
}

void law_hidden_rows(const fixture *f)
{
    mote_isa isa[RIG_MAX_LEVELS];
    size_t n = rig_levels(isa);
    for (size_t i = 0; i < n; i++) {
        mote_model *model = rig_open(f->table.path, isa[i]);
        hidden_in_batch(f, model, 2, 70);
        hidden_in_batch(f, model, 3, 33);
        sums_in_batch(f, model, 2, 70);
        sums_in_batch(f, model, 3, 23);
        if (isa[i] != MOTE_ISA_REF)
            hidden_in_batch(f, model, 1, 5);
        mote_model_close(model);
    }
}
