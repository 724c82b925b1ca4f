/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_detector.h - does the model repeat itself? Asked after every token it wrote.
 *
 * Three kinds, all on token ids, each found by what it leaves behind:
 *
 *   exact cycle   the last stretch equals the one `period` tokens before it
 *   near cycle    almost: counters, dates or a word differ from round to round
 *   salad         no period, but the last window holds hardly anything new
 *
 * Periods are followed up to LOOP_PERIODS tokens. Text that repeats for a reason (a table, a
 * row of zeros) has a good part of a page before it counts.
 */
#ifndef MOTE_CHAT_TURN_LOOP_DETECTOR_H
#define MOTE_CHAT_TURN_LOOP_DETECTOR_H

#include <mote.h>

enum {
    LOOP_PERIODS = 1024,
    LOOP_WINDOW = 512, /* tokens that are searched for anything new ... */
    LOOP_EVERY = 32,   /* ... once in so many */
    LOOP_SUSPECT = 12  /* tokens of an exact cycle: nobody should see more of it yet */
};

typedef enum loop_detector_kind {
    LOOP_NONE = 0,
    LOOP_EXACT,
    LOOP_NEAR,
    LOOP_SALAD
} loop_detector_kind;

typedef struct loop_detector {
    size_t from;                        /* the first token that counts */
    uint32_t least;                     /* repeated tokens that are a loop, whatever the period */
    size_t begin;                       /* of the loop found: the end of what came once */
    uint32_t longest;                   /* of exact[], after the latest token */
    uint32_t exact[LOOP_PERIODS + 1];   /* tokens that equalled the one `period` before */
    int32_t near[LOOP_PERIODS + 1];     /* the same, a miss costs several */
    size_t near_from[LOOP_PERIODS + 1]; /* where near[] was last 0 */
} loop_detector;

/* A stretch of sampled tokens begins at `from`. Thinking is cut sooner than an answer. */
void loop_detector_start(loop_detector *loop, size_t from, bool thinking);

/* tokens[n - 1] was written. If it completes a loop, loop->begin is where to go back to. */
loop_detector_kind loop_detector_add(loop_detector *loop, const mote_token *tokens, size_t n);

/* How many of the last tokens may turn out to be one. */
size_t loop_detector_suspects(const loop_detector *loop);

#endif
