/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_detector.h - detects that a model repeats itself. Called after every sampled token.
 *
 * Works on token ids and finds three kinds of repetition:
 *
 *   exact cycle   the last tokens equal those `period` tokens before
 *   near cycle    the same with a few differences: counters, dates, single words
 *   salad         no period, but the last LOOP_WINDOW tokens contain hardly any new 3-grams
 *
 * Periods up to LOOP_PERIODS tokens are tracked. The thresholds leave room for legitimate
 * repetition such as tables and rows of zeros: at least 64 repeated tokens in thinking, 128 in an
 * answer.
 */
#ifndef MOTE_CHAT_TURN_LOOP_DETECTOR_H
#define MOTE_CHAT_TURN_LOOP_DETECTOR_H

#include <mote.h>

enum {
    LOOP_PERIODS = 1024,
    LOOP_WINDOW = 512, /* tokens searched for new 3-grams ... */
    LOOP_EVERY = 32,   /* ... once in this many tokens */
    LOOP_SUSPECT = 12  /* tokens of an exact cycle from which on output is held back */
};

typedef enum loop_detector_kind {
    LOOP_NONE = 0,
    LOOP_EXACT,
    LOOP_NEAR,
    LOOP_SALAD
} loop_detector_kind;

typedef struct loop_detector {
    size_t from;                        /* index of the first token that counts */
    uint32_t least;                     /* minimum repeated tokens of a loop, for any period */
    size_t begin;                       /* of the loop found: index of its first repeated token */
    uint32_t longest;                   /* maximum of exact[] after the latest token */
    uint32_t exact[LOOP_PERIODS + 1];   /* consecutive tokens equal to the one `period` before */
    int32_t near[LOOP_PERIODS + 1];     /* the same as a score; a difference costs several points */
    size_t near_from[LOOP_PERIODS + 1]; /* where near[] was last 0 */
} loop_detector;

/* Resets the detector. Tokens from index `from` on count. Thinking has the lower threshold. */
void loop_detector_start(loop_detector *loop, size_t from, bool thinking);

/* tokens[n - 1] was sampled. If it completes a loop, loop->begin is the index to rewind to. */
loop_detector_kind loop_detector_add(loop_detector *loop, const mote_token *tokens, size_t n);

/* Number of last tokens that may turn out to be a loop. */
size_t loop_detector_suspects(const loop_detector *loop);

#endif
