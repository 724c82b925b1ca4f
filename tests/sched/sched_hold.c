/* SPDX-License-Identifier: Apache-2.0 */
/* sched_hold.c - see sched_hold.h. */
#include "sched/sched_hold.h"

#include "engine/engine_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SHORT = 16 };

static void hold_stop(layer_hold *h)
{
    const sched_options *o = &h->service->sched->options;
    atomic_store(&h->stopped, true);
    sem_post(&h->reached);
    o->wake(o->with);
    while (sem_wait(&h->released) != 0) {
    }
}

static void hold_tap(void *ctx, const char *what, int layer, const float *rows, size_t n_rows,
                     size_t n_cols)
{
    (void)rows, (void)n_cols;
    layer_hold *h = ctx;
    if (strcmp(what, "embed") == 0) {
        atomic_fetch_add(&h->passes, 1);
        h->is_long = n_rows > SHORT;
    }
    if (strcmp(what, "layer") != 0 || !h->is_long)
        return;
    const uint64_t one_in = atomic_load(&h->one_in);
    if (atomic_load(&h->layer) == layer ||
        (one_in > 0 && test_random_below(&h->random, one_in) == 0))
        hold_stop(h);
}

void hold_init(layer_hold *h, service *s)
{
    *h = (layer_hold){.service = s, .layer = -1, .random = {.state = 1}};
    sem_init(&h->reached, 0, 0);
    sem_init(&h->released, 0, 0);
    engine_set_tap(s->sched->engine, hold_tap, h);
}

void hold_fini(layer_hold *h)
{
    sem_destroy(&h->reached);
    sem_destroy(&h->released);
}

void hold_wait_at(layer_hold *h, int layer)
{
    atomic_store(&h->layer, layer);
    for (int waited = 0;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++; /* second by second: if the machine is suspended, one second counts at most
                         */
        if (sem_timedwait(&h->reached, &until) == 0)
            return;
        waited += errno == ETIMEDOUT;
        if (waited == SILENCE) {
            fprintf(stderr, "no pass reached layer %d\n", layer);
            abort();
        }
    }
}

void hold_release(layer_hold *h, int next_layer)
{
    atomic_store(&h->layer, next_layer);
    atomic_store(&h->stopped, false);
    sem_post(&h->released);
}

void hold_release_for_good(layer_hold *h)
{
    atomic_store(&h->one_in, 0);
    hold_release(h, -1);
}
