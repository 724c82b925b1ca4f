/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - implements pool.h.
 *
 * The tasks of a run are divided into one contiguous share per thread. So each thread walks through
 * memory in one direction, and hardware prefetch works. A thread that has finished its own share
 * steals from the others.
 *
 * A share has an atomic word (run number << 32 | next task) and an end. A thread claims a task by
 * compare-and-swap on the word. The run cannot end while a claimed task is unfinished, so `fn` and
 * `ctx` stay valid. Before the end of a share changes, its word is set to NO_TASK; otherwise a late
 * thread could claim a task of the old run with the new end. A worker that wakes late finds no task
 * and sleeps again; the caller never waits for it. A pool with more threads than cores is therefore
 * not slower than one with as many threads as cores.
 */
#include "base/pool.h"

#include "base/fpmode.h"
#include "base/mem.h"
#include "base/os_process.h"

#include <pthread.h>
#include <stdatomic.h>

/* About 20 microseconds: longer than the gap between two runs of a step, too short to matter for
 * power consumption. */
enum { SPINS = 1000 };

#define NO_TASK UINT32_MAX

/* A test names a function that a worker calls between two loads (tests/unit/base_pool_late_test.c). */
#ifdef POOL_BETWEEN_LOADS
void POOL_BETWEEN_LOADS(_Atomic uint32_t *run, _Atomic bool *stop);
#else
#define POOL_BETWEEN_LOADS(run, stop) ((void)0)
#endif

typedef struct share {
    _Alignas(64) _Atomic uint64_t claim; /* run << 32 | next task, or NO_TASK */
    _Atomic uint32_t end;
} share;

typedef struct worker {
    pool *pool;
    pthread_t thread;
    uint32_t index;
    bool started;
} worker;

struct pool {
    _Alignas(64) _Atomic uint32_t done; /* tasks finished in this run */
    _Alignas(64) _Atomic uint32_t run;  /* the word that workers sleep on */
    _Atomic uint32_t sleepers;
    _Atomic bool caller_sleeps;
    _Atomic bool stop;
    pool_task_fn *fn;
    void *ctx;
    uint32_t n_threads;
    uint32_t n_tasks;
    uint32_t n_runs; /* published so far */
    share *shares;   /* [n_threads] */
    worker *workers; /* [n_threads - 1] */
};

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Claims the next task of a share; NO_TASK: none left. */
static uint32_t share_claim(share *s)
{
    uint64_t seen = atomic_load_explicit(&s->claim, memory_order_acquire);
    for (;;) {
        const uint32_t task = (uint32_t)seen;
        if (task == NO_TASK || task >= atomic_load_explicit(&s->end, memory_order_acquire))
            return NO_TASK;
        if (atomic_compare_exchange_weak_explicit(&s->claim, &seen, seen + 1, memory_order_acq_rel,
                                                  memory_order_acquire))
            return task;
    }
}

/* Runs tasks until none is left: first those of its own share, then those of the others. */
static void pool_work(pool *p, uint32_t index)
{
    for (uint32_t i = 0; i < p->n_threads; i++) {
        share *s = &p->shares[(index + i) % p->n_threads];
        for (uint32_t task; (task = share_claim(s)) != NO_TASK;) {
            /* Read before the task is counted as done: afterwards the next run may change it. */
            const uint32_t n_tasks = p->n_tasks;
            p->fn(p->ctx, task, index);
            if (atomic_fetch_add(&p->done, 1) + 1 == n_tasks && atomic_load(&p->caller_sleeps))
                os_wake(&p->done, 1);
        }
    }
}

/* Sets the shares of a new run. */
static void pool_publish(pool *p, uint32_t n_tasks)
{
    const uint64_t run = (uint64_t)++p->n_runs << 32;
    for (uint32_t i = 0; i < p->n_threads; i++) {
        share *s = &p->shares[i];
        const uint64_t first = (uint64_t)n_tasks * i / p->n_threads;
        const uint64_t end = (uint64_t)n_tasks * (i + 1) / p->n_threads;
        atomic_store_explicit(&s->claim, run | NO_TASK, memory_order_relaxed);
        atomic_store_explicit(&s->end, (uint32_t)end, memory_order_release);
        atomic_store_explicit(&s->claim, run | first, memory_order_release);
    }
}

/* Waits until *word differs from `seen`: spins, then sleeps. */
static void pool_wait_change(pool *p, _Atomic uint32_t *word, uint32_t seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != seen)
            return;
        cpu_relax();
    }
    atomic_fetch_add(&p->sleepers, 1);
    while (atomic_load(word) == seen)
        os_wait(word, seen);
    atomic_fetch_sub(&p->sleepers, 1);
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    pool *p = w->pool;
    fpmode_enter(); /* a thread inherits the mode of its creator */
    mem_guard_begin();
    for (uint32_t seen = 0;;) {
        uint32_t now = atomic_load_explicit(&p->run, memory_order_acquire);
        if (now == seen)
            pool_wait_change(p, &p->run, seen);
        /* `run` before `stop`: pool_free sets `stop` and then increments `run`. In the other order a
         * worker that is late for the last run would take the increment for a run and sleep forever. */
        seen = atomic_load_explicit(&p->run, memory_order_acquire);
        POOL_BETWEEN_LOADS(&p->run, &p->stop);
        if (atomic_load(&p->stop))
            break;
        pool_work(p, w->index);
    }
    mem_guard_end();
    return NULL;
}

/* Starts a run and wakes sleeping workers. Needs sequential consistency: a worker increments
 * `sleepers` and then reads `run`; here `run` is incremented and then `sleepers` is read. One of
 * the two sees the other, so no wake-up is lost. */
static void pool_announce(pool *p)
{
    atomic_fetch_add(&p->run, 1);
    if (atomic_load(&p->sleepers) > 0)
        os_wake(&p->run, (int)p->n_threads);
}

/* Waits for the tasks of the other threads. The same pairing as in pool_announce: `caller_sleeps`
 * is set before `done` is read for the last time. */
static void pool_wait_done(pool *p, uint32_t n_tasks)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&p->done, memory_order_acquire) == n_tasks)
            return;
        cpu_relax();
    }
    atomic_store(&p->caller_sleeps, true);
    for (uint32_t seen; (seen = atomic_load(&p->done)) != n_tasks;)
        os_wait(&p->done, seen);
    atomic_store(&p->caller_sleeps, false);
}

void pool_run(pool *p, pool_task_fn *fn, void *ctx, uint32_t n_tasks)
{
    if (n_tasks == 0)
        return;
    if (p->n_threads == 1 || n_tasks == 1) {
        for (uint32_t i = 0; i < n_tasks; i++)
            fn(ctx, i, 0);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    p->n_tasks = n_tasks;
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    pool_publish(p, n_tasks);
    pool_announce(p);
    pool_work(p, 0);
    pool_wait_done(p, n_tasks);
}

void pool_hold(pool *p, uint32_t index, const cores_set *cpus)
{
    cores_hold(p->workers[index - 1].thread, cpus);
}

uint32_t pool_size(const pool *p)
{
    return p->n_threads;
}

size_t pool_bytes(uint32_t n_threads)
{
    return sizeof(pool) + n_threads * (sizeof(worker) + sizeof(share));
}

void pool_free(pool *p)
{
    if (p == NULL)
        return;
    atomic_store(&p->stop, true);
    pool_announce(p);
    for (uint32_t i = 0; p->workers != NULL && i + 1 < p->n_threads; i++)
        if (p->workers[i].started)
            pthread_join(p->workers[i].thread, NULL);
    mem_free(p->workers);
    mem_free(p->shares);
    mem_free(p);
}

mote_status pool_new(pool **out, uint32_t n_threads, mote_error *err)
{
    *out = NULL;
    pool *p = mem_new(1, sizeof *p);
    if (p == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: thread pool");
    p->n_threads = n_threads > 0 ? n_threads : 1;
    p->workers = mem_new(p->n_threads, sizeof *p->workers);
    p->shares = mem_new(p->n_threads, sizeof *p->shares);
    if (p->workers == NULL || p->shares == NULL) {
        pool_free(p);
        return err_set(err, MOTE_E_MEMORY, "out of memory: thread pool with %u threads", n_threads);
    }
    for (uint32_t i = 0; i + 1 < p->n_threads; i++) {
        worker *w = &p->workers[i];
        w->pool = p;
        w->index = i + 1;
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0) {
            pool_free(p);
            return err_set(err, MOTE_E_MEMORY,
                           "cannot create thread %u of %u; lower the number of threads", i + 2,
                           n_threads);
        }
        w->started = true;
    }
    *out = p;
    return MOTE_OK;
}
