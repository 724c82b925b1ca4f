/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec.h - speculative decoding: drafts of the next tokens, and how many of them pay.
 *
 * A step that computes a few draft tokens besides the certain one reads the weights once. Each row
 * is sampled as without drafts, so drafts change the speed and never the output (law L7 in
 * docs/numerics.md). docs/speculative.md has the design. Nothing here reads a clock or runs a step.
 *
 *   spec       what is known of one engine: costs, acceptance, ledger
 *   spec_seq   what is known of one answer: suffix lookup over its tokens, its own acceptance
 *   spec_item  one decoding sequence in one step
 *   spec_walk  samples the rows of a step and returns the session to the accepted tokens
 *
 * One step of one or many sequences:
 *
 *     items[i] = {seq, session, tokens, n, held, mode, limit}     tokens: what the session must hold
 *     spec_plan(spec, items, n_items, max_rows, &err)             chooses and writes the drafts
 *     work[i] = spec_item_work(&items[i]); mote_step(...)
 *     row = spec_walk_begin(&walk, session, items[i].n, spec_item_rows(&items[i]))
 *     do
 *         chat_turn_next(turn, session, row, &want)
 *     while (!want.over && spec_walk_next(&walk, session, want.tokens, want.n, want.same, &row))
 *     if (want.over) spec_walk_end(&walk, session, want.tokens, want.n, want.same)
 *     spec_walk_result(&walk, &items[i])
 *     spec_observe(spec, items, n_items, plan_seconds, step_seconds)
 *
 * The thread that uses the engine uses its spec and the spec_seq of its sessions.
 */
#ifndef MOTE_SPEC_SPEC_H
#define MOTE_SPEC_SPEC_H

#include <mote.h>

enum {
    SPEC_MAX_DRAFT = 8,                 /* draft tokens of one sequence in a step */
    SPEC_MAX_ROWS = SPEC_MAX_DRAFT + 1, /* tokens of one sequence in a step with a draft */
    SPEC_AUTO = 0,                      /* spec_item.mode: the tuner decides */
    SPEC_OFF = -1                       /* no draft; 1 to SPEC_MAX_DRAFT: always this length */
};

typedef enum spec_source {
    SPEC_LOOKUP, /* the last tokens occurred before in the sequence */
    SPEC_MODEL,  /* spec_draft_fn: the MTP head */
    SPEC_SOURCES
} spec_source;

/* ---- a source of drafts besides suffix lookup ---- */

/* Continue one session: `given` are the tokens that follow those it holds, at least one. */
typedef struct spec_request {
    mote_session *session;
    const mote_token *given; /* [n_given] */
    size_t n_given;
    size_t n;           /* tokens to draft, 1 to SPEC_MAX_DRAFT */
    float stop_below;   /* end the draft where the product of all probabilities falls below this */
    mote_token *tokens; /* [n], out */
    float *probabilities; /* [n], out, as the source estimates them */
    size_t n_drafted;     /* out */
} spec_request;

/* Drafts for several sessions at once. It leaves their lengths, tokens and logits unchanged. */
typedef mote_status spec_draft_fn(void *with, spec_request *requests, size_t n, mote_error *err);

/* The MTP head: `with` is the engine, created with `drafts`. Without free KV pages it drafts
 * nothing. */
spec_draft_fn spec_draft_mtp;
/* spec_draft_mtp if the engine can draft, else NULL: for spec_options.draft. */
spec_draft_fn *spec_draft_of(const mote_engine *engine);

/* ---- an engine ---- */

typedef struct spec spec;

typedef struct spec_options {
    size_t max_items;     /* sequences in a step */
    spec_draft_fn *draft; /* NULL: suffix lookup alone */
    void *with;           /* first argument of draft */
} spec_options;

mote_status spec_new(spec **out, const spec_options *options, mote_error *err);
/* NULL is allowed. */
void spec_free(spec *s);
/* Replaces the source of drafts; NULL: none. */
void spec_set_draft(spec *s, spec_draft_fn *draft, void *with);

/* Bytes of a spec and of a spec_seq for each of max_items sequences of up to `room` tokens. */
uint64_t spec_bytes(size_t max_items, uint64_t room);

typedef struct spec_stats {
    uint64_t drafted[SPEC_SOURCES], accepted[SPEC_SOURCES]; /* tokens */
    uint64_t steps, drafted_steps; /* observed steps, and those with a draft */
    uint64_t pauses;               /* times the ledger stopped drafting */
    double seconds_saved;          /* steps with drafts that were faster than plain decoding ... */
    double seconds_lost;           /* ... and those that were slower */
} spec_stats;

void spec_read_stats(const spec *s, spec_stats *out);

/* ---- a sequence ---- */

typedef struct spec_seq spec_seq;

/* `room`: tokens that the sequence can have. Memory: 12 bytes for each, at most 800 KB. */
mote_status spec_seq_new(spec_seq **out, size_t room, mote_error *err);
/* NULL is allowed. */
void spec_seq_free(spec_seq *seq);

/* ---- one sequence in one step ---- */

typedef struct spec_item {
    /* set by the caller */
    spec_seq *seq;            /* NULL: no draft */
    mote_session *session;    /* for the draft function and spec_item_work() */
    const mote_token *tokens; /* [n], what the session must hold */
    size_t n;
    size_t held;  /* tokens that the session holds: mote_session_length(), less than n */
    int mode;     /* SPEC_AUTO, SPEC_OFF or a length */
    size_t limit; /* most draft tokens, for example the free context; 0: none */
    /* set by spec_plan() */
    size_t n_draft;
    mote_token step[SPEC_MAX_ROWS]; /* with a draft: tokens[held .. n) and then the draft */
    uint8_t source[SPEC_MAX_DRAFT]; /* spec_source of each draft token */
    uint8_t cell[SPEC_MAX_DRAFT];   /* acceptance statistics that it belongs to */
    float chance[SPEC_MAX_DRAFT];   /* that it is accepted if those before it are */
    size_t n_given;                 /* lookup tokens that were given to spec_draft_fn */
    size_t n_model;                 /* tokens drafted by spec_draft_fn, used or not */
    /* set by spec_walk_result(); a sequence that left the step has left = true instead */
    size_t tried, accepted;
    bool left;
} spec_item;

/*
 * Writes the drafts of all sequences that decode in the next step, so that the expected tokens per
 * second of the whole step are highest; no draft at all is a usual result. A draft ends before the
 * next multiple of 32, so that the rewind is exact.
 *
 * max_rows: rows of logits that the step may have for these items: one without a draft, n - held +
 * n_draft with one. Items with n - held of SPEC_MAX_ROWS or more, or with an image among these
 * tokens, get no draft. For a step that also prefills, do not call it, or pass SPEC_OFF.
 *
 * An error comes from spec_draft_fn; then no item has a draft.
 */
mote_status spec_plan(spec *s, spec_item *items, size_t n, size_t max_rows, mote_error *err);

/* The work of an item: the missing tokens and its draft. The caller adds images. */
mote_work spec_item_work(const spec_item *item);
/* Rows of logits that this work computes. */
size_t spec_item_rows(const spec_item *item);
/* After a step that may have been canceled, if the session holds all n tokens: the rows of logits
 * that it computed. The draft is shortened to the tokens of these rows. 0: the rows are lost; then
 * the session has been rewound, and at least one token has to be appended. */
size_t spec_item_computed(spec_item *item);
/* After a step that was canceled, if its rows are not sampled: removes the tokens of the draft. */
void spec_item_undo(const spec_item *item);

/*
 * Records a step: all items that decoded in it, with or without a draft. plan_seconds: spec_plan();
 * step_seconds: mote_step(), 0 if the step did other work too, so that its time says nothing.
 */
void spec_observe(spec *s, const spec_item *items, size_t n, double plan_seconds,
                  double step_seconds);

/* ---- the rows of a step ---- */

typedef struct spec_walk {
    size_t base;    /* row 0 belongs to token number `base` of the session */
    size_t certain; /* tokens that were wanted before the step */
    size_t agreed;  /* leading tokens of the session that are wanted */
    size_t most;    /* the largest `agreed` so far */
    bool refused;   /* a wanted token differed from the draft */
} spec_walk;

/* After a step that brought the session to the n wanted tokens and possibly a draft, with `rows`
 * rows of logits. Returns the row of the last wanted token. */
size_t spec_walk_begin(spec_walk *w, const mote_session *session, size_t n, size_t rows);
/* The turn wants tokens[0 .. n), the first `same` of them unchanged. true: the session holds them
 * all and *row has the logits of the last. false: the step is used up. The session has been rewound
 * to wanted tokens, and at least one has to be appended. */
bool spec_walk_next(spec_walk *w, mote_session *session, const mote_token *tokens, size_t n,
                    size_t same, size_t *row);
/* The turn is over: removes draft tokens that it does not want. */
void spec_walk_end(spec_walk *w, mote_session *session, const mote_token *tokens, size_t n,
                   size_t same);
/* Sets item->tried and item->accepted. */
void spec_walk_result(const spec_walk *w, spec_item *item);

#endif
