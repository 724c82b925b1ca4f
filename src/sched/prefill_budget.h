/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefill_budget.h - how many rows of prompts a step may carry.
 *
 * While somebody is writing, a step with a slice takes longer than one without. How much
 * longer it may take follows from how many wait for it: BUDGET_STRETCH times if hardly anybody
 * does, and each who reads for one who writes adds BUDGET_PER_READER. Many small slices cost a
 * crowd more than they spare its first writers, since every step reads all weights once, whoever is
 * in it; a step of BUDGET_ENOUGH times has hidden that. So it ends at BUDGET_GAP seconds, but
 * within BUDGET_CROWDED and BUDGET_ENOUGH times. Both lengths are measured: steps without a slice
 * are remembered by the number of rows they had, and repeated now and then; what a row of a slice
 * adds is an average over the last ones, so depth and other programs on the machine need no model.
 *
 * While nobody writes, long steps read faster (the 4B shape 35 tokens a second by 32, 47 by 256);
 * they end where somebody who comes now would wait too long, and a layer of them too long for a
 * cancel.
 *
 * Nothing here can show in an answer, only in when it comes.
 */
#ifndef MOTE_SCHED_PREFILL_BUDGET_H
#define MOTE_SCHED_PREFILL_BUDGET_H

#include <stddef.h>
#include <stdint.h>

enum {
    BUDGET_WRITERS = 64, /* larger companies count as this one */
    BUDGET_LEAST = 8,    /* rows, so that reading goes on whatever it costs; */
    BUDGET_ALONE = 32,   /* while nobody writes */
    BUDGET_MOST = 256,
    BUDGET_FRESH = 64 /* slices after which a step without one is measured again */
};

#define BUDGET_STRETCH    1.7
#define BUDGET_PER_READER 5.0
#define BUDGET_CROWDED    4.0
#define BUDGET_ENOUGH     10.0
#define BUDGET_GAP        0.4  /* seconds between two tokens that nobody minds for a while */
#define BUDGET_SECONDS    2.0  /* of a step while nobody writes: 63 to 83 ms a layer; */
#define BUDGET_SHARED     0.25 /* of one while another engine waits for the same cores */

/* All zero: nothing is known. */
typedef struct prefill_budget {
    double alone[BUDGET_WRITERS + 1]; /* seconds, by rows that are written; 0: not known */
    double beside;                    /* seconds that a row of a slice adds to them; 0: not known */
    double row;                       /* seconds of one while nobody writes; 0: not known */
    uint32_t slices;                  /* since the last step without */
} prefill_budget;

/* Rows of prompts for the next step beside so many that are written; so many wait to be read.
 * 0: measure without. */
uint32_t prefill_budget_rows(const prefill_budget *p, uint64_t written, uint64_t readers);
/* What of so many rows another engine can be asked to wait for. */
size_t prefill_budget_shared(const prefill_budget *p, size_t rows);
/* A step took so long. */
void prefill_budget_observe(prefill_budget *p, uint64_t written, uint64_t read, double seconds);

#endif
