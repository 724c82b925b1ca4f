/* SPDX-License-Identifier: Apache-2.0 */
/* idle.c - see idle.h. */
#include "support/idle.h"

#include <stdio.h>
#include <time.h>

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double test_idle_cpu(double enough)
{
    enum { TRIES = 5 };
    double used = 0;
    for (int i = 0; i < TRIES; i++) {
        struct timespec left = {.tv_sec = 1};
        const double before = cpu_seconds();
        while (nanosleep(&left, &left) != 0)
            continue;
        used = cpu_seconds() - before;
        printf("idle for 1 s: %.6f s of CPU time\n", used);
        if (used < enough)
            break;
    }
    return used;
}
