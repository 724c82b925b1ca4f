/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - worker threads for the tasks of one step.
 *
 * pool_run divides outputs, never a sum: which thread takes which task must not
 * matter for a single bit of the result. Each thread begins with a stretch of
 * neighbouring tasks, in order, and then helps the others; without tasks it spins
 * briefly and then sleeps in the kernel, so an idle engine uses no CPU.
 */
#ifndef MOTE_BASE_POOL_H
#define MOTE_BASE_POOL_H

#include "base/cores.h"
#include "base/err.h"

#include <stdint.h>

typedef struct pool pool;

/* `worker` is below pool_size() and names scratch that no other running task uses. */
typedef void pool_task_fn(void *ctx, uint32_t task, uint32_t worker);

/* n_threads counts the caller, which works too. */
mote_status pool_new(pool **out, uint32_t n_threads, mote_error *err);
void pool_free(pool *p);
uint32_t pool_size(const pool *p);
/* Keeps worker `index` to these CPUs, 1 <= index < pool_size(); where the system refuses,
 * it stays free. Worker 0 is the caller's thread, which is not the pool's to place. */
void pool_hold(pool *p, uint32_t index, const cores_set *cpus);
/* What pool_new takes from base/mem. */
size_t pool_bytes(uint32_t n_threads);

/* Runs fn for task 0 .. n_tasks-1 and returns when all are done. One caller at
 * a time; never allocates. What a task wrote is visible afterwards. */
void pool_run(pool *p, pool_task_fn *fn, void *ctx, uint32_t n_tasks);

#endif
