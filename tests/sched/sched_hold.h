/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_hold.h - stops the engine thread between two layers of a forward pass, so that a test can
 * drop jobs there.
 */
#ifndef MOTE_TESTS_SCHED_SCHED_HOLD_H
#define MOTE_TESTS_SCHED_SCHED_HOLD_H

#include "sched/sched_int.h"
#include "sched/sched_rig.h"

#include <semaphore.h>

typedef struct layer_hold {
    service *service;
    sem_t reached, released;
    atomic_int layer;    /* stop after this layer of a pass with more than 16 rows; -1: none */
    atomic_bool stopped; /* the engine thread is stopped */
    atomic_uint passes;  /* started so far */
    atomic_uint one_in;  /* also stop after a random layer, one of `one_in`; 0: never */
    /* engine thread */
    test_random random;
    bool is_long;
} layer_hold;

/* Before the first job. */
void hold_init(layer_hold *h, service *s);
/* After the service has been closed. */
void hold_fini(layer_hold *h);
/* Waits until the engine thread has stopped after this layer. */
void hold_wait_at(layer_hold *h, int layer);
/* Continues; the next stop is after next_layer. -1: no stop. */
void hold_release(layer_hold *h, int next_layer);
/* Continues, stopped or not, and never stops again. */
void hold_release_for_good(layer_hold *h);

#endif
