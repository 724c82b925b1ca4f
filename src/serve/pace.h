/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace.h - how many rows of prompts a step may carry.
 *
 * While somebody is writing, a step with a slice should take at most PACE_STRETCH times what
 * it takes without one. Both are measured: steps without a slice are remembered by the
 * number of rows they had, and repeated now and then; the slice grows and shrinks with how
 * far the last one was from the goal, so depth, company and other programs on the
 * machine need no model. While more are reading than writing, those who write wait
 * longer, up to PACE_CROWDED times: most of the company has not begun. While nobody writes, long
 * steps read faster (the 4B shape 35 tokens a second by 32, 47 by 256); they end where somebody
 * who comes now would wait too long, and a layer of them too long for a cancel.
 *
 * Nothing here can show in an answer, only in when it comes.
 */
#ifndef MOTE_SERVE_PACE_H
#define MOTE_SERVE_PACE_H

#include <stdint.h>

enum {
    PACE_WRITERS = 64, /* larger companies count as this one */
    PACE_LEAST = 8,    /* rows, so that reading goes on whatever it costs; */
    PACE_ALONE = 32,   /* while nobody writes */
    PACE_MOST = 256,
    PACE_FRESH = 64 /* slices after which a step without one is measured again */
};

#define PACE_STRETCH 1.7
#define PACE_CROWDED 4.0
#define PACE_SECONDS 2.0 /* of a step while nobody writes: 63 to 83 ms a layer */

/* All zero: nothing is known. */
typedef struct pace {
    double alone[PACE_WRITERS + 1]; /* seconds, by rows that are written; 0: not known */
    double slice[2];                /* rows; the second while more read than write */
    double row;                     /* seconds of one while nobody writes; 0: not known */
    uint32_t slices;                /* since the last step without */
} pace;

/* Rows of prompts for the next step beside so many that are written; so many wait to be read.
 * 0: measure without. */
uint32_t pace_rows(const pace *p, uint64_t written, uint64_t readers);
/* A step took so long. */
void pace_saw(pace *p, uint64_t written, uint64_t readers, uint64_t read, double seconds);

#endif
