/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core_lock.h - several engines on the same cores take turns.
 *
 * A step wants all cores: two at once would wait for each other's threads at every layer. So
 * whoever wants to compute takes a number and waits until it is called. Numbers are called in
 * order and everybody holds one at most. A turn is a step; whose steps are short makes as many as
 * fit into the last step of the one before, so that a small model is not as slow as a large
 * one beside it: nobody waits much longer for another than the other has waited for it. Who waits
 * can do small things meanwhile that need no core for long: let go of clients who leave, say. Any
 * thread; NULL is a gate that is always open, for an engine that is alone.
 */
#ifndef MOTE_SCHED_CORE_LOCK_H
#define MOTE_SCHED_CORE_LOCK_H

#include "base/err.h"

typedef struct core_lock core_lock;

mote_status core_lock_new(core_lock **out, mote_error *err);
/* Nobody may wait or be inside. NULL is allowed. */
void core_lock_free(core_lock *g);

/* Calls meanwhile(with), if it is not NULL, every hundredth of a second until it is inside. Returns
 * its number: if it is not the one after the caller's last, others have computed since. */
uint64_t core_lock_enter(core_lock *g, void (*meanwhile)(void *with), void *with);
/* Inside, after every step: may there be another one? */
bool core_lock_stay(core_lock *g);
void core_lock_leave(core_lock *g);
/* How many wait or are inside. */
uint64_t core_lock_contenders(core_lock *g);

#endif
