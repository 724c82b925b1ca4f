/* SPDX-License-Identifier: Apache-2.0 */
/* prefill_budget.c - see pace.h. */
#include "sched/prefill_budget.h"

#define SLOWLY 0.25 /* share of the new in an average */

static uint64_t company(uint64_t written)
{
    return written < BUDGET_WRITERS ? written : BUDGET_WRITERS;
}

static double within(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double average(double old, double now)
{
    return old > 0 ? old + SLOWLY * (now - old) : now;
}

/* Seconds of a step with so many rows and no slice, or with a few less; 0: not known. To measure
 * each number apart would be a step in which nobody reads for everyone who begins to write. */
static double without_slice(const prefill_budget *p, uint64_t written)
{
    const uint64_t n = company(written);
    for (uint64_t near = n; near > 0 && 4 * near >= 3 * n; near--)
        if (p->alone[near] > 0)
            return p->alone[near];
    return 0;
}

/* Of a step beside so many who write, while so many wait to be read. */
static double longest(double alone, uint64_t written, uint64_t readers)
{
    const double most = within(BUDGET_GAP, BUDGET_CROWDED * alone, BUDGET_ENOUGH * alone);
    const double fair = alone * (1 + BUDGET_PER_READER * (double)readers / (double)written);
    return within(fair, BUDGET_STRETCH * alone, most);
}

/* What a row adds: as measured, or as it is while nobody writes, or as if it were a writer's. */
static double cost(const prefill_budget *p, double alone)
{
    return p->beside > 0 ? p->beside : p->row > 0 ? p->row : alone;
}

uint32_t prefill_budget_rows(const prefill_budget *p, uint64_t written, uint64_t readers)
{
    if (written == 0)
        return p->row > 0 ? (uint32_t)within(BUDGET_SECONDS / p->row, BUDGET_ALONE, BUDGET_MOST)
                          : BUDGET_MOST / 4;
    const double alone = without_slice(p, written);
    if (!(alone > 0) || p->slices >= BUDGET_FRESH)
        return 0;
    const double spare = longest(alone, written, readers) - alone;
    return (uint32_t)within(spare / cost(p, alone), BUDGET_LEAST, BUDGET_MOST);
}

size_t prefill_budget_shared(const prefill_budget *p, size_t rows)
{
    const double most = p->row > 0 ? BUDGET_SHARED / p->row : BUDGET_ALONE;
    return (size_t)within(most, rows < BUDGET_LEAST ? (double)rows : BUDGET_LEAST, (double)rows);
}

void prefill_budget_observe(prefill_budget *p, uint64_t written, uint64_t read, double seconds)
{
    if (written == 0) {
        if (read >= BUDGET_LEAST)
            p->row = average(p->row, seconds / (double)read);
        return;
    }
    if (read == 0) {
        double *known = &p->alone[company(written)];
        *known = average(*known, seconds);
        p->slices = 0;
        return;
    }
    p->slices++;
    const double alone = without_slice(p, written);
    if (!(alone > 0) || read < BUDGET_LEAST) /* too few rows to tell them from noise */
        return;
    /* One step that was disturbed, or that seems to cost nothing, is not believed at once. */
    const double known = cost(p, alone), now = (seconds - alone) / (double)read;
    p->beside = average(known, within(now, known / 4, known * 4));
}
