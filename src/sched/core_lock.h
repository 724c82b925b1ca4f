/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core_lock.h - a fair ticket lock for engines that share the same cores.
 *
 * A step uses all cores. Two steps at once would wait for each other's threads at every layer, so
 * an engine holds this lock while it computes. Tickets are served in order, and an engine has at
 * most one. A turn is one step. An engine with short steps may run several in one turn, as long as
 * they take no longer than the last step of the previous turn: a small model is not slowed down to
 * one short step per long step of a large model.
 *
 * Thread-safe. All functions but core_lock_pass and core_lock_contenders accept NULL: the lock of a
 * single engine, which is always free.
 */
#ifndef MOTE_SCHED_CORE_LOCK_H
#define MOTE_SCHED_CORE_LOCK_H

#include "base/err.h"

typedef struct core_lock core_lock;

mote_status core_lock_new(core_lock **out, mote_error *err);
/* No thread may hold it or wait for it. */
void core_lock_free(core_lock *lock);

/* Waits for the lock. Meanwhile calls poll(with) every 10 ms if it is not NULL. Returns the ticket:
 * if it is not the successor of the caller's last ticket, another engine has run in between. */
uint64_t core_lock_enter(core_lock *lock, void (*poll)(void *with), void *with);
/* The holder calls this after every step. Returns true if it may run another step. */
bool core_lock_stay(core_lock *lock);
void core_lock_leave(core_lock *lock);
/* Leaves and enters again behind the threads that wait, as one action: exactly one turn of each is
 * between, of one step. For tests that let an engine advance step by step. */
void core_lock_pass(core_lock *lock);
/* Number of threads that hold the lock or wait for it. */
uint64_t core_lock_contenders(core_lock *lock);

#endif
