/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_queue.c - the fair queue. All functions run under the mutex.
 *
 * The queue is round-robin between clients. Every job belongs to a round, and a client has at most
 * one job per round. queue_take returns the oldest job of the earliest round. A new client joins
 * the round after the current one, however many jobs other clients have queued.
 */
#include "sched/sched_int.h"

static bool queue_before(const sched_job *a, const sched_job *b)
{
    return a->round != b->round ? a->round < b->round : a->number < b->number;
}

bool queue_put(sched *s, sched_job *job)
{
    if (s->n_queue == s->options.queue)
        return false;
    job->round = s->round + 1;
    for (uint32_t i = 0; i < s->n_queue; i++)
        if (s->queue[i]->options.client == job->options.client && s->queue[i]->round >= job->round)
            job->round = s->queue[i]->round + 1;
    s->queue[s->n_queue++] = job;
    return true;
}

static sched_job *queue_remove_at(sched *s, uint32_t i)
{
    sched_job *job = s->queue[i];
    s->n_queue--;
    memmove(s->queue + i, s->queue + i + 1, (s->n_queue - i) * sizeof *s->queue);
    return job;
}

sched_job *queue_take(sched *s)
{
    uint32_t best = 0;
    if (s->n_queue == 0)
        return NULL;
    for (uint32_t i = 1; i < s->n_queue; i++)
        if (queue_before(s->queue[i], s->queue[best]))
            best = i;
    s->round = s->queue[best]->round;
    return queue_remove_at(s, best);
}

sched_job *queue_take_expired(sched *s, double now)
{
    for (uint32_t i = 0; i < s->n_queue; i++) {
        const sched_job *job = s->queue[i];
        if (job->options.seconds > 0 && now - job->submitted >= job->options.seconds)
            return queue_remove_at(s, i);
    }
    return NULL;
}

void queue_remove(sched *s, sched_job *job)
{
    for (uint32_t i = 0; i < s->n_queue; i++)
        if (s->queue[i] == job) {
            queue_remove_at(s, i);
            return;
        }
}

uint32_t queue_position(const sched *s, const sched_job *job)
{
    uint32_t ahead = 0;
    for (uint32_t i = 0; i < s->n_queue; i++)
        ahead += queue_before(s->queue[i], job);
    return ahead + 1;
}
