/* SPDX-License-Identifier: Apache-2.0 */
/* logit_stats.c - see logit_stats.h. */
#include "cli/evaluate/logit_stats.h"

#include <math.h>
#include <stdlib.h>

uint32_t logit_top(const float *row, uint32_t n)
{
    uint32_t top = 0;
    for (uint32_t i = 1; i < n; i++)
        if (row[i] > row[top])
            top = i;
    return top;
}

double logit_log_sum(const float *row, uint32_t n)
{
    const double most = (double)row[logit_top(row, n)];
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)row[i] - most);
    return most + log(sum);
}

double logit_divergence(const float *p, double zp, const float *q, double zq, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double log_p = (double)p[i] - zp;
        sum += exp(log_p) * (log_p - ((double)q[i] - zq));
    }
    return sum;
}

stat_mean stat_mean_of(const double *values, size_t n)
{
    if (n == 0)
        return (stat_mean){0};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    const double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    return (stat_mean){mean, n < 2 ? 0 : sqrt(squares / (double)(n - 1) / (double)n)};
}

stat_mean stat_share_of(size_t hits, size_t n)
{
    if (n == 0)
        return (stat_mean){0};
    const double share = (double)hits / (double)n;
    return (stat_mean){share, n < 2 ? 0 : sqrt(share * (1 - share) / (double)(n - 1))};
}

static int stat_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void stat_sort(double *values, size_t n)
{
    qsort(values, n, sizeof *values, stat_order);
}

/* The value of rank `rank`, counted from 1; ranks outside are those of the ends. */
static double stat_rank(const double *sorted, size_t n, double rank)
{
    if (rank <= 1)
        return sorted[0];
    size_t at = (size_t)rank;
    if ((double)at < rank)
        at++;
    return sorted[at > n ? n - 1 : at - 1];
}

stat_mean stat_quantile(const double *sorted, size_t n, double q)
{
    const double rank = q * (double)n, deviation = sqrt((double)n * q * (1 - q));
    return (stat_mean){
        stat_rank(sorted, n, rank),
        (stat_rank(sorted, n, rank + deviation) - stat_rank(sorted, n, rank - deviation)) / 2,
    };
}
