/* SPDX-License-Identifier: Apache-2.0 */
/* core_lock.c - see core_lock.h. */
#include "sched/core_lock.h"

#include "base/mem.h"
#include "base/os.h"

#include <pthread.h>
#include <time.h>

enum { MEANWHILE_NS = 10000000 };

struct core_lock {
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t called;
    uint64_t given;  /* numbers so far */
    uint64_t passed; /* of them, whose holders have left; the next one is inside */
    double entered, step_began;
    double step, step_before; /* seconds: the last one, and the last one of the turn before */
};

mote_status core_lock_new(core_lock **out, mote_error *err)
{
    *out = mem_new(1, sizeof **out);
    if (*out == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for a gate");
    pthread_condattr_t steady;
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_mutex_init(&(*out)->lock, NULL);
    pthread_cond_init(&(*out)->called, &steady);
    pthread_condattr_destroy(&steady);
    return MOTE_OK;
}

void core_lock_free(core_lock *g)
{
    if (g == NULL)
        return;
    pthread_cond_destroy(&g->called);
    pthread_mutex_destroy(&g->lock);
    mem_free(g);
}

/* Under the lock: until somebody leaves, or a little longer than a client notices. */
static void wait_a_little(core_lock *g)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += MEANWHILE_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&g->called, &g->lock, &until);
}

uint64_t core_lock_enter(core_lock *g, void (*meanwhile)(void *with), void *with)
{
    if (g == NULL)
        return 0;
    pthread_mutex_lock(&g->lock);
    const uint64_t mine = g->given++;
    while (g->passed != mine) {
        wait_a_little(g);
        if (g->passed == mine || meanwhile == NULL)
            continue;
        pthread_mutex_unlock(&g->lock);
        meanwhile(with);
        pthread_mutex_lock(&g->lock);
    }
    g->entered = g->step_began = os_now();
    g->step_before = g->step;
    pthread_mutex_unlock(&g->lock);
    return mine;
}

bool core_lock_stay(core_lock *g)
{
    if (g == NULL)
        return false;
    const double now = os_now();
    pthread_mutex_lock(&g->lock);
    g->step = now - g->step_began;
    g->step_began = now;
    const bool somebody_waits = g->given - g->passed > 1;
    const bool stays = somebody_waits && now - g->entered + g->step <= g->step_before;
    pthread_mutex_unlock(&g->lock);
    return stays;
}

void core_lock_leave(core_lock *g)
{
    if (g == NULL)
        return;
    pthread_mutex_lock(&g->lock);
    g->passed++;
    pthread_cond_broadcast(&g->called); /* only its holder knows the number */
    pthread_mutex_unlock(&g->lock);
}

uint64_t core_lock_contenders(core_lock *g)
{
    pthread_mutex_lock(&g->lock);
    const uint64_t n = g->given - g->passed;
    pthread_mutex_unlock(&g->lock);
    return n;
}
