/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stepgate.h - several engines on the same cores take turns.
 *
 * A step wants all cores: two at once would wait for each other's threads at every layer. So
 * whoever wants to compute takes a number and waits until it is called. Numbers are called in
 * order and everybody holds one at most. A turn is a step; whose steps are short makes as many as
 * fit into the last step of the one before, so that a small model is not as slow as a large
 * one beside it: nobody waits much longer for another than the other has waited for it. Who waits
 * can do small things meanwhile that need no core for long: let go of clients who leave, say. Any
 * thread; NULL is a gate that is always open, for an engine that is alone.
 */
#ifndef MOTE_SERVE_STEPGATE_H
#define MOTE_SERVE_STEPGATE_H

#include "base/err.h"

typedef struct stepgate stepgate;

mote_status stepgate_new(stepgate **out, mote_error *err);
/* Nobody may wait or be inside. NULL is allowed. */
void stepgate_free(stepgate *g);

/* Calls meanwhile(with), if it is not NULL, every hundredth of a second until it is inside. Returns
 * its number: if it is not the one after the caller's last, others have computed since. */
uint64_t stepgate_enter(stepgate *g, void (*meanwhile)(void *with), void *with);
/* Inside, after every step: may there be another one? */
bool stepgate_stay(stepgate *g);
void stepgate_leave(stepgate *g);
/* How many wait or are inside. */
uint64_t stepgate_crowd(stepgate *g);

#endif
