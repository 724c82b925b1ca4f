/* SPDX-License-Identifier: Apache-2.0 */
/* memory_read.c - see memory_read.h. */
#include "fit/memory_read.h"

#include <stdatomic.h>
#include <string.h>

enum { TASK_BYTES = 1 << 20 };

typedef struct read_run {
    const unsigned char *data;
    uint64_t bytes;
    _Atomic uint64_t sum; /* keeps the compiler from removing the reads */
} read_run;

static void read_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    read_run *run = ctx;
    const uint64_t from = (uint64_t)task * TASK_BYTES;
    const uint64_t end = run->bytes - from < TASK_BYTES ? run->bytes : from + TASK_BYTES;
    enum { LANES = 8 };
    uint64_t lane[LANES] = {0};
    for (uint64_t at = from; at + LANES * 8 <= end; at += LANES * 8)
        for (int i = 0; i < LANES; i++) {
            uint64_t word;
            memcpy(&word, run->data + at + 8 * i, 8);
            lane[i] += word;
        }
    uint64_t sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += lane[i];
    atomic_fetch_add(&run->sum, sum);
}

void memory_read(pool *threads, const unsigned char *data, uint64_t bytes)
{
    read_run run = {.data = data, .bytes = bytes};
    pool_run(threads, read_task, &run, (uint32_t)((bytes + TASK_BYTES - 1) / TASK_BYTES));
}
