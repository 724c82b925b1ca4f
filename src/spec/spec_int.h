/* SPDX-License-Identifier: Apache-2.0 */
/* spec_int.h - internals shared by plan.c and tuner.c. */
#ifndef MOTE_SPEC_SPEC_INT_H
#define MOTE_SPEC_SPEC_INT_H

#include "spec/lookup.h"
#include "spec/spec.h"

enum {
    /* Acceptance is counted in cells. Lookup: by length of the match, after an interrupted copy or
     * not; a token at place i of the draft has a match longer by i. Model: by place in the draft and
     * by the probability that the head gives. */
    SPEC_LENGTHS = 8,
    SPEC_CHANCES = 6,
    SPEC_LOOKUP_CELLS = 2 * SPEC_LENGTHS,
    SPEC_CELLS = SPEC_LOOKUP_CELLS + SPEC_MAX_DRAFT * SPEC_CHANCES,
    SPEC_STREAMS = 16, /* step costs by number of sequences; more sequences count as this many */
    SPEC_EXTRA = 64    /* most rows of a step beyond one per sequence */
};

/* Tokens tried and accepted; old ones count less. */
typedef struct spec_rate {
    float accepted, tried;
} spec_rate;

/* Seconds of a step with some rows more than sequences, relative to a plain step. */
typedef struct spec_cost {
    float ratio;
    uint32_t n;        /* measurements; 0: none */
    uint64_t measured; /* spec_stats.steps at the last one */
} spec_cost;

/* Costs with a certain number of sequences. */
typedef struct spec_costs {
    double plain; /* seconds of a step without drafts and one token per sequence, an average */
    uint32_t n_plain;
    uint64_t exact;       /* spec_stats.steps at the last such step; 0: none, `plain` is a guess */
    uint32_t since_plain; /* steps with drafts since the last one without */
    double usual;         /* seconds of the steps as they would be without drafts, an average */
    uint32_t n_usual;
    double draft; /* seconds of one call of the draft function, per round */
    uint32_t n_draft;
    spec_cost extra[SPEC_EXTRA + 1];   /* with drafts; [0] is not used */
    spec_cost certain[SPEC_EXTRA + 1]; /* without; the rows are tokens that a grammar inserted */
} spec_costs;

/* One draft token that could be computed. */
typedef struct spec_candidate {
    float reached; /* probability that it and all before it are accepted */
    uint32_t item;
    uint8_t place;
    bool guessed; /* the model would have to draft it first; `reached` is an average */
    bool forced;  /* of a sequence with a fixed length */
} spec_candidate;

struct spec {
    spec_options options;
    spec_rate cells[SPEC_CELLS];
    spec_rate places[SPEC_MAX_DRAFT]; /* of the model, whatever its probability */
    spec_costs costs[SPEC_STREAMS + 1];
    spec_stats stats;
    /* The ledger, in seconds. Drafting continues while it is positive. */
    double credit;
    bool has_credit;      /* the start allowance has been given */
    uint32_t pause;       /* steps without drafts that remain */
    uint32_t next_pause;  /* length of the next pause */
    uint32_t waited;      /* steps since the last draft */
    uint32_t explore_gap; /* steps between drafts that do not seem to pay */
    bool exploring;       /* the planned step explores */
    /* The model has drafted. Its first draft may read the weights from the disk, so the time of that
     * one is not used. */
    bool head_read;
    /* scratch of spec_plan() */
    spec_candidate *candidates; /* [max_items * SPEC_MAX_DRAFT] */
    spec_request *requests;     /* [max_items] */
    size_t *counts;             /* [max_items] */
};

struct spec_seq {
    lookup lookup;
    /* Accepted tokens, and how many the cells of the engine had predicted: by source. */
    spec_rate against[SPEC_SOURCES];
};

/* ---- tuner.c ---- */

uint8_t spec_cell_lookup(size_t length, bool resumed);
uint8_t spec_cell_model(size_t place, float probability);
/* Chance that a token is accepted if those before it are. */
float spec_chance(const spec *s, const spec_seq *seq, spec_source source, uint8_t cell);
/* The same for a model token before its probability is known. */
float spec_chance_of_place(const spec *s, const spec_seq *seq, size_t place);

/* Seconds of a step of n sequences with `extra` more rows, of which `certain` belong to certain
 * tokens; 0: no step without drafts was measured yet. */
double spec_step_seconds(const spec *s, size_t n, size_t certain, size_t extra);
/* Most extra rows that the tuner tries: unknown costs are approached in steps. */
size_t spec_extra_limit(const spec *s, size_t n, size_t certain);
/* Seconds of one round of model drafts for `drafting` of n sequences. */
double spec_round_seconds(const spec *s, size_t n, size_t drafting);
/* Rounds of a model draft: one per token; a token that it was given has no output head. */
double spec_rounds(size_t drafted, size_t given);

/* May a step of n sequences have drafts? Measures plain steps when due, and pauses. */
bool spec_may_draft(const spec *s, size_t n);
/* Is it time for a draft that is expected to lose `seconds`? */
bool spec_may_explore(const spec *s, double seconds);

#endif
