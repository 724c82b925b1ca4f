/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_queue.c - the fair queue. All functions run under the mutex.
 *
 * key_share.c decides which key is next; queue_take returns the oldest job of that key. Among keys
 * that are equal to it, and for the position that clients see, the queue is round-robin: every job
 * belongs to a round, and a key has at most one job per round. A new key joins the round after the
 * current one, however many jobs other keys have queued.
 */
#include "sched/sched_int.h"

bool queue_before(const sched_job *a, const sched_job *b)
{
    return a->round != b->round ? a->round < b->round : a->number < b->number;
}

bool queue_put(sched *s, sched_job *job)
{
    const uint32_t most = job->options.background ? (s->options.queue + 1) / 2 : s->options.queue;
    if (s->n_queue >= most)
        return false;
    job->round = s->round + 1;
    job->key = share_key_of(s, job->options.client, job->options.background);
    job->key->jobs++;
    for (uint32_t i = 0; i < s->n_queue; i++)
        if (s->queue[i]->key == job->key && s->queue[i]->round >= job->round)
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

sched_job *queue_take(sched *s, const sched_key *key)
{
    uint32_t i = 0; /* the queue is in order of arrival, so the first one is the oldest */
    while (s->queue[i]->key != key)
        i++;
    if (s->round < s->queue[i]->round)
        s->round = s->queue[i]->round;
    return queue_remove_at(s, i);
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
