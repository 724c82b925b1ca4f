/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - shared by the files of law_fixed: model, table, engine. */
#ifndef MOTE_TESTS_LAW_FIXTURE_H
#define MOTE_TESTS_LAW_FIXTURE_H

#include "law/table.h"

typedef struct fixture {
    law_table table;
    mote_model *model; /* at the best level */
    bool quick;        /* scaled down: every law with fewer cases */
} fixture;

/* An engine with enough context and rows of logits for the streams of the table. */
mote_engine *fixture_engine(const fixture *f, const mote_model *model, uint32_t sessions,
                            uint32_t threads);

void law_hidden_rows(const fixture *f);
/* Nothing if the table has no drafts. */
void law_drafts(const fixture *f);

#endif
