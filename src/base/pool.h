/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - thread pool for the tasks of one step.
 *
 * Tasks divide outputs and never a sum, so the assignment of tasks to threads cannot change a
 * result. Each thread starts with a contiguous range of tasks and then steals from the others. A
 * thread without tasks spins for about 20 microseconds and then sleeps on a futex; an idle engine
 * uses no CPU.
 */
#ifndef MOTE_BASE_POOL_H
#define MOTE_BASE_POOL_H

#include "base/cpu.h"
#include "base/err.h"

#include <stdint.h>

typedef struct pool pool;

/* `worker` < pool_size() identifies scratch memory that no other running task uses. */
typedef void pool_task_fn(void *ctx, uint32_t task, uint32_t worker);

/* n_threads includes the calling thread, which runs tasks too. */
mote_status pool_new(pool **out, uint32_t n_threads, mote_error *err);
void pool_free(pool *p);
uint32_t pool_size(const pool *p);
/* Sets the affinity of worker `index`, 1 <= index < pool_size(). A refusal of the system is
 * ignored. Worker 0 is the caller's thread; the pool does not change its affinity. */
void pool_hold(pool *p, uint32_t index, const cores_set *cpus);
/* Bytes that pool_new allocates. */
size_t pool_bytes(uint32_t n_threads);

/* Runs fn for tasks 0 to n_tasks-1 and returns when all are done; their writes are then visible.
 * One caller at a time. Never allocates. */
void pool_run(pool *p, pool_task_fn *fn, void *ctx, uint32_t n_tasks);

#endif
