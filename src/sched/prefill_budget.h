/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefill_budget.h - how many prefill tokens (rows) the next step may process. Code: batch.c.
 *
 * A step that carries prefill rows delays the decode rows that share it. This module limits that
 * delay:
 *
 *   allowed step time = decode-only step time * (1 + BUDGET_PER_WAITING * waiting / decoding)
 *
 *   at least  BUDGET_SLOWDOWN * decode-only step time
 *   at most   BUDGET_MAX_GAP seconds, but not below BUDGET_CAP_SLOWDOWN and not above
 *             BUDGET_MAX_SLOWDOWN times the decode-only step time;
 *             n + 1 times if it delays n keys that have nothing to prefill, so that each of them
 *             keeps its share of the time
 *
 * With few waiting prompts the limit is small, so running streams stay smooth. With many it grows,
 * because every step reads all weights once and many short prefill chunks would repeat that read.
 *
 * If no session is decoding, chunks are as large as cancellation latency allows: larger chunks
 * prefill faster (4B: 35 tokens/s with 32 rows, 47 with 256).
 *
 * Both costs are measured, not modelled: the time of decode-only steps by batch size, repeated now
 * and then, and a moving average of the time that one prefill row adds. The budget affects latency
 * only, never output.
 */
#ifndef MOTE_SCHED_PREFILL_BUDGET_H
#define MOTE_SCHED_PREFILL_BUDGET_H

#include <stddef.h>
#include <stdint.h>

enum {
    BUDGET_MAX_DECODING = 64,   /* larger decode batches count as this one */
    BUDGET_MIN_ROWS = 8,        /* prefill always proceeds, whatever a row costs */
    BUDGET_MIN_ROWS_ALONE = 32, /* the same while no session decodes */
    BUDGET_MAX_ROWS = 256,
    BUDGET_REMEASURE = 64 /* steps with prefill after which a decode-only step is measured */
};

#define BUDGET_SLOWDOWN       1.7
#define BUDGET_PER_WAITING    5.0
#define BUDGET_CAP_SLOWDOWN   4.0
#define BUDGET_MAX_SLOWDOWN   10.0
#define BUDGET_MAX_GAP        0.4  /* seconds between two tokens of a stream */
#define BUDGET_ALONE_SECONDS  2.0  /* step time while no session decodes: 63 to 83 ms per layer */
#define BUDGET_SHARED_SECONDS 0.25 /* step time while another engine waits for the same cores */

/* All zero: nothing measured. A time of 0 is unknown. */
typedef struct prefill_budget {
    double decode_seconds[BUDGET_MAX_DECODING + 1]; /* of a decode-only step, by decode rows */
    double added_row_seconds; /* that a prefill row adds to a step with decode rows */
    double alone_row_seconds; /* of a prefill row in a step without decode rows */
    uint32_t mixed_steps;     /* steps with both kinds of rows since the last decode-only step */
} prefill_budget;

/* Prefill rows for the next step. `decode_rows`: in the same step; `waiting`: prefilling jobs;
 * `other_keys`: keys with decode rows and without prefilling jobs, 0 if there is one key only.
 * 0: run a decode-only step, to measure it. */
uint32_t prefill_budget_rows(const prefill_budget *p, uint64_t decode_rows, uint64_t waiting,
                             uint32_t other_keys);
/* Caps `rows` while another engine waits for the same cores. */
size_t prefill_budget_shared(const prefill_budget *p, size_t rows);
/* Records the time of a step. */
void prefill_budget_observe(prefill_budget *p, uint64_t decode_rows, uint64_t prefill_rows,
                            double seconds);

#endif
