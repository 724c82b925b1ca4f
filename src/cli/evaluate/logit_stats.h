/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logit_stats.h - what rows of logits say about a text, and statistics of many such values.
 *
 * All sums are in double and in the order of the array, so a result does not depend on threads.
 */
#ifndef MOTE_CLI_EVALUATE_LOGIT_STATS_H
#define MOTE_CLI_EVALUATE_LOGIT_STATS_H

#include <stddef.h>
#include <stdint.h>

/* ---- one row of n logits ---- */

/* The logarithm of the sum of exp(logit). */
double logit_log_sum(const float *row, uint32_t n);
/* The most likely token; of equal ones the lowest id. */
uint32_t logit_top(const float *row, uint32_t n);
/* KL(p || q) in nats; zp and zq are the log sums of the rows. */
double logit_divergence(const float *p, double zp, const float *q, double zq, uint32_t n);

/* ---- n values ---- */

typedef struct stat_mean {
    double mean;
    double error; /* standard error of the mean, with independent values; 0 for n < 2 */
} stat_mean;

stat_mean stat_mean_of(const double *values, size_t n);
/* A share of n with `hits` of them. */
stat_mean stat_share_of(size_t hits, size_t n);

/* Sorts values in place. */
void stat_sort(double *values, size_t n);
/* The quantile q of sorted values: the smallest value that at least the share q does not exceed.
 * `error`: half the distance of the values at ranks one standard deviation away. n > 0. */
stat_mean stat_quantile(const double *sorted, size_t n, double q);

#endif
