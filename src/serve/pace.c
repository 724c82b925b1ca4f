/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c - see pace.h. */
#include "serve/pace.h"

#define SLOWLY 0.25 /* share of the new in an average */

static uint64_t company(uint64_t written)
{
    return written < PACE_WRITERS ? written : PACE_WRITERS;
}

static double within(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double average(double old, double now)
{
    return old > 0 ? old + SLOWLY * (now - old) : now;
}

static int crowded(uint64_t written, uint64_t readers)
{
    return readers > written;
}

uint32_t pace_rows(const pace *p, uint64_t written, uint64_t readers)
{
    if (written == 0)
        return p->row > 0 ? (uint32_t)within(PACE_SECONDS / p->row, PACE_ALONE, PACE_MOST)
                          : PACE_MOST / 4;
    if (!(p->alone[company(written)] > 0) || p->slices >= PACE_FRESH)
        return 0;
    return (uint32_t)within(p->slice[crowded(written, readers)], PACE_LEAST, PACE_MOST);
}

void pace_saw(pace *p, uint64_t written, uint64_t readers, uint64_t read, double seconds)
{
    if (written == 0) {
        if (read >= PACE_LEAST)
            p->row = average(p->row, seconds / (double)read);
        return;
    }
    double *alone = &p->alone[company(written)];
    if (read == 0) {
        *alone = average(*alone, seconds);
        p->slices = 0;
        return;
    }
    p->slices++;
    /* A slice smaller than allowed says nothing about larger ones. */
    const int crowd = crowded(written, readers);
    double *slice = &p->slice[crowd];
    if (!(*alone > 0) || !(seconds > 0) || (double)read < 0.9 * *slice)
        return;
    const double goal = crowd ? PACE_CROWDED : PACE_STRETCH;
    const double change = within(goal * *alone / seconds, 0.5, crowd ? 2.0 : 1.25);
    *slice = within(*slice * change, PACE_LEAST, PACE_MOST);
}
