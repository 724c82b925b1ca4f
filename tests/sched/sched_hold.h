/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_hold.h - stops the engine thread of a service between two layers of a pass, so that a
 * test can do there what clients do by chance.
 */
#ifndef MOTE_TESTS_SCHED_SCHED_HOLD_H
#define MOTE_TESTS_SCHED_SCHED_HOLD_H

#include "sched/sched_int.h"
#include "sched/sched_rig.h"

#include <semaphore.h>

typedef struct gate {
    service *service;
    sem_t reached, opened;
    atomic_int layer;   /* after which the next pass that can be left stops; -1: none */
    atomic_bool closed; /* the engine thread stands at it */
    atomic_uint passes; /* that were begun */
    atomic_uint one_in; /* it also stops after one of so many layers; 0: it does not */
    /* engine thread */
    test_random random;
    bool is_long;
} gate;

/* While nobody has been asked. */
void gate_build(gate *g, service *s);
/* After the service has been closed. */
void gate_take_down(gate *g);
/* Waits for the engine thread to stand after this layer of a pass that can be left. */
void gate_stop_at(gate *g, int layer);
/* Lets it go; from another gate on it stops there. -1: nowhere. */
void gate_open(gate *g, int next_layer);
/* Whether it stands or not: it will not again. */
void gate_open_for_good(gate *g);

#endif
