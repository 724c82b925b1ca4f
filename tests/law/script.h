/* SPDX-License-Identifier: Apache-2.0 */
/*
 * script.h - one random case: engines, sessions and a list of random acts.
 *
 * A case draws everything from one random stream, so (seed, number) is the whole
 * of it. Each act checks itself against the table; the first difference prints
 * the script that led to it and ends the program.
 */
#ifndef MOTE_TESTS_LAW_SCRIPT_H
#define MOTE_TESTS_LAW_SCRIPT_H

#include "law/table.h"

enum {
    SCRIPT_ENGINES = 2, /* the second loads snapshots of the first */
    SCRIPT_SESSIONS = 17,
    SCRIPT_MARKS = 16,
    SCRIPT_PAGES = 64, /* of a session, at most */
    SCRIPT_ROWS = 64   /* rows of logits of a step */
};

/* A session and its expected length. */
typedef struct script_live {
    mote_session *session; /* NULL: the slot is free */
    uint32_t engine;
    uint32_t stream;
    uint64_t pos;
    uint64_t ring_from;          /* the convolution's inputs from here on can be gone back to */
    uint64_t kept[SCRIPT_MARKS]; /* boundaries marked by it or by what it was forked from */
    uint32_t n_kept;
    uint32_t pages[SCRIPT_PAGES]; /* names of the pages it holds, those up to pos count */
} script_live;

typedef struct script_engine {
    mote_engine *engine; /* NULL: the case has only one */
    uint64_t context;    /* of each session */
    uint32_t kept_states;
    uint32_t n_keeps; /* marks ever made on it */
} script_engine;

typedef struct script {
    const law_table *table;
    rig_random random;
    uint64_t number;
    script_engine engines[SCRIPT_ENGINES];
    script_live live[SCRIPT_SESSIONS];
    uint32_t n_pages; /* names given to pages so far */
    int64_t budget;   /* tokens left to spend */
    char text[32768];
    size_t text_bytes;
} script;

/* The models a script may use: the same file at each level of the machine. */
typedef struct script_models {
    mote_model *at[RIG_MAX_LEVELS];
    size_t n;
    uint32_t lowest_once_in; /* the reference level is slow: how often the lowest one is drawn */
} script_models;

void script_run(script *s, const law_table *table, const script_models *models, uint64_t seed,
                uint64_t number);

#endif
