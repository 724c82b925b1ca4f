/* SPDX-License-Identifier: Apache-2.0 */
/* core_lock.c - see core_lock.h. */
#include "sched/core_lock.h"

#include "base/mem.h"
#include "base/os.h"
#include "base/os_process.h"

#include <pthread.h>

static const double poll_seconds = 0.01;

struct core_lock {
    pthread_mutex_t mutex; /* protects all other fields */
    pthread_cond_t released;
    uint64_t tickets; /* given so far */
    uint64_t serving; /* the ticket of the holder */
    double entered, step_started;
    double step, previous_step; /* seconds of the last step; of the last step of the last turn */
};

mote_status core_lock_new(core_lock **out, mote_error *err)
{
    core_lock *lock = mem_new(1, sizeof *lock);
    *out = lock;
    if (lock == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for a lock", sizeof *lock);
    pthread_mutex_init(&lock->mutex, NULL);
    os_condition_init(&lock->released);
    return MOTE_OK;
}

void core_lock_free(core_lock *lock)
{
    if (lock == NULL)
        return;
    pthread_cond_destroy(&lock->released);
    pthread_mutex_destroy(&lock->mutex);
    mem_free(lock);
}

/* Under the mutex: until the holder leaves, at most poll_seconds. */
static void wait_for_release(core_lock *lock)
{
    os_condition_wait(&lock->released, &lock->mutex, poll_seconds);
}

uint64_t core_lock_enter(core_lock *lock, void (*poll)(void *with), void *with)
{
    if (lock == NULL)
        return 0;
    pthread_mutex_lock(&lock->mutex);
    const uint64_t ticket = lock->tickets++;
    while (lock->serving != ticket) {
        wait_for_release(lock);
        if (lock->serving == ticket || poll == NULL)
            continue;
        pthread_mutex_unlock(&lock->mutex);
        poll(with);
        pthread_mutex_lock(&lock->mutex);
    }
    lock->entered = lock->step_started = os_now();
    lock->previous_step = lock->step;
    pthread_mutex_unlock(&lock->mutex);
    return ticket;
}

bool core_lock_stay(core_lock *lock)
{
    if (lock == NULL)
        return false;
    const double now = os_now();
    pthread_mutex_lock(&lock->mutex);
    lock->step = now - lock->step_started;
    lock->step_started = now;
    const bool others_wait = lock->tickets - lock->serving > 1;
    const bool stays = others_wait && now - lock->entered + lock->step <= lock->previous_step;
    pthread_mutex_unlock(&lock->mutex);
    return stays;
}

void core_lock_leave(core_lock *lock)
{
    if (lock == NULL)
        return;
    pthread_mutex_lock(&lock->mutex);
    lock->serving++;
    pthread_cond_broadcast(&lock->released); /* only the owner of the next ticket proceeds */
    pthread_mutex_unlock(&lock->mutex);
}

void core_lock_pass(core_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    const uint64_t ticket = lock->tickets++;
    lock->step = 0;
    lock->serving++;
    pthread_cond_broadcast(&lock->released);
    while (lock->serving != ticket)
        wait_for_release(lock);
    lock->entered = lock->step_started = os_now();
    pthread_mutex_unlock(&lock->mutex);
}

uint64_t core_lock_contenders(core_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    const uint64_t n = lock->tickets - lock->serving;
    pthread_mutex_unlock(&lock->mutex);
    return n;
}
