/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - the logits and hidden rows every law compares with.
 *
 * A few token streams run once through a cold engine in the plainest way there
 * is: one session, one thread, one token a step. Every later run, however it is
 * cut, batched, rewound or restored, must show these bits again. Hidden rows are what
 * the pass shows a test just before it makes the logits (forward_tap_fn). The streams
 * share prefixes, so a session can leave one stream for another wherever they
 * have not parted yet; that is what makes stale memory visible.
 */
#ifndef MOTE_TESTS_LAW_TABLE_H
#define MOTE_TESTS_LAW_TABLE_H

#include "law/rig.h"

enum { LAW_STREAMS = 4, LAW_DRAFTS = 4 };

typedef struct law_setup {
    const char *name; /* of the model */
    mote_kv kv;
    float yarn;
    uint32_t length; /* tokens of a stream */
    uint64_t seed;   /* of the tokens */
    mote_isa isa;    /* that the table is computed with */
    bool drafts;     /* engines have drafts; the logits of the table are computed without */
} law_setup;

/* What mote_draft gives after one position. */
typedef struct law_draft {
    mote_token tokens[LAW_DRAFTS];
    float probability[LAW_DRAFTS];
} law_draft;

typedef struct law_table {
    law_setup setup;
    char path[1024];
    uint32_t vocabulary, embedding;
    mote_token *tokens[LAW_STREAMS]; /* [length] */
    float *logits[LAW_STREAMS];      /* [length][vocabulary] */
    float *hidden[LAW_STREAMS];      /* [length][embedding] */
    law_draft *drafts[LAW_STREAMS];  /* [length - 1]: with the stream's next token; NULL: off */
} law_table;

/* False: the model is not there. */
bool law_table_make(law_table *t, const law_setup *setup);
void law_table_free(law_table *t);

/* Tokens that two streams have in common before they part. */
uint32_t law_common(const law_table *t, uint32_t a, uint32_t b);

const float *law_row(const law_table *t, uint32_t stream, uint64_t pos);

/* Are the logits of `row` those that `stream` has at `pos`, bit for bit? */
bool law_same(const law_table *t, uint32_t stream, uint64_t pos, const float *row);

/* The same of a hidden row. */
bool law_same_hidden(const law_table *t, uint32_t stream, uint64_t pos, const float *row);

/* Is `sum` that of the hidden rows of `stream` from `pos` on, n of them, added in their order? */
bool law_same_sum(const law_table *t, uint32_t stream, uint64_t pos, size_t n, const double *sum);

/* Like law_same, but ends the program with a message that names the place. */
void law_expect(const law_table *t, uint32_t stream, uint64_t pos, const float *row,
                const char *where);

/* One number for the logits of the first n positions of each stream (FNV-1a over the bytes). */
uint64_t law_fingerprint(const law_table *t, uint32_t n);

/* Engine options that fit the table: its KV format, its YaRN factor, its drafts. */
mote_engine_options law_options(const law_table *t);

#endif
