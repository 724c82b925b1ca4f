/* SPDX-License-Identifier: Apache-2.0 */
/* sched_hold.c - see sched_hold.h. */
#include "sched/sched_hold.h"

#include "engine/engine_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SHORT = 16 };

static void stand(gate *g)
{
    const sched_options *o = &g->service->sched->options;
    atomic_store(&g->closed, true);
    sem_post(&g->reached);
    o->wake(o->with);
    while (sem_wait(&g->opened) != 0) {
    }
}

static void tap(void *ctx, const char *what, int layer, const float *rows, size_t n_rows,
                size_t n_cols)
{
    (void)rows, (void)n_cols;
    gate *g = ctx;
    if (strcmp(what, "embed") == 0) {
        atomic_fetch_add(&g->passes, 1);
        g->is_long = n_rows > SHORT;
    }
    if (strcmp(what, "layer") != 0 || !g->is_long)
        return;
    const uint64_t one_in = atomic_load(&g->one_in);
    if (atomic_load(&g->layer) == layer ||
        (one_in > 0 && test_random_below(&g->random, one_in) == 0))
        stand(g);
}

void gate_build(gate *g, service *s)
{
    *g = (gate){.service = s, .layer = -1, .random = {.state = 1}};
    sem_init(&g->reached, 0, 0);
    sem_init(&g->opened, 0, 0);
    engine_set_tap(s->sched->engine, tap, g);
}

void gate_take_down(gate *g)
{
    sem_destroy(&g->reached);
    sem_destroy(&g->opened);
}

void gate_stop_at(gate *g, int layer)
{
    atomic_store(&g->layer, layer);
    for (int waited = 0;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++; /* one by one: while all of us stand still no more than one goes by */
        if (sem_timedwait(&g->reached, &until) == 0)
            return;
        waited += errno == ETIMEDOUT;
        if (waited == SILENCE) {
            fprintf(stderr, "no pass came to its layer %d\n", layer);
            abort();
        }
    }
}

void gate_open(gate *g, int next_layer)
{
    atomic_store(&g->layer, next_layer);
    atomic_store(&g->closed, false);
    sem_post(&g->opened);
}

void gate_open_for_good(gate *g)
{
    atomic_store(&g->one_in, 0);
    gate_open(g, -1);
}
