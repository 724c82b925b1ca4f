/* SPDX-License-Identifier: Apache-2.0 */
/* sched_stats.c - counting: on the engine thread into its own, then merged under the lock. */
#include "sched/sched_int.h"

void stats_time(sched_histogram *h, double seconds)
{
    unsigned bucket = 0;
    for (double most = SCHED_BUCKET_FIRST; seconds > most && bucket + 1 < SCHED_BUCKETS; most *= 2)
        bucket++;
    h->count[bucket]++;
    h->n++;
    h->sum += seconds;
}

void stats_over(sched *s, const sched_job *job)
{
    sched_stats *f = &s->since;
    const sched_result *r = &job->result;
    const mote_answer *a = &r->answer;
    f->finished++;
    f->prompt_tokens += job->n_prompt;
    stats_time(&f->request_seconds, r->ended);
    if (r->started > 0)
        stats_time(&f->queue_seconds, r->started);
    if (r->prefilled > 0)
        stats_time(&f->prefill_seconds, r->prefilled - r->started);
    if (r->first_token > 0)
        stats_time(&f->first_token_seconds, r->first_token);
    f->generated_tokens += a->answer_tokens;
    f->think_tokens += a->think_tokens;
    f->loops_detected += a->loops_detected;
    f->loops_recovered += a->loops_recovered;
    f->calls += a->calls;
}

static void add_histogram(sched_histogram *into, const sched_histogram *h)
{
    for (unsigned i = 0; i < SCHED_BUCKETS; i++)
        into->count[i] += h->count[i];
    into->n += h->n;
    into->sum += h->sum;
}

void stats_merge(sched_stats *into, sched_stats *since)
{
    into->finished += since->finished;
    into->canceled_prefill += since->canceled_prefill;
    into->canceled_decode += since->canceled_decode;
    into->prompt_tokens += since->prompt_tokens;
    into->reused_live_tokens += since->reused_live_tokens;
    into->reused_idle_tokens += since->reused_idle_tokens;
    into->prefill_tokens += since->prefill_tokens;
    into->generated_tokens += since->generated_tokens;
    into->think_tokens += since->think_tokens;
    into->loops_detected += since->loops_detected;
    into->loops_recovered += since->loops_recovered;
    into->calls += since->calls;
    into->preempted += since->preempted;
    into->steps += since->steps;
    into->step_rows += since->step_rows;
    into->prefill_rows += since->prefill_rows;
    into->step_seconds += since->step_seconds;
    into->aborted_inside += since->aborted_inside;
    if (since->finished > 0) {
        add_histogram(&into->queue_seconds, &since->queue_seconds);
        add_histogram(&into->prefill_seconds, &since->prefill_seconds);
        add_histogram(&into->first_token_seconds, &since->first_token_seconds);
        add_histogram(&into->request_seconds, &since->request_seconds);
    }
    add_histogram(&into->inter_token_seconds, &since->inter_token_seconds);
    *since = (sched_stats){0};
}

void sched_read_stats(sched *s, sched_stats *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    out->queued = s->n_queue;
    out->parallel = s->options.parallel;
    out->positions_total = s->use.positions_total;
    out->positions_free = s->use.positions_free;
    out->states_total = s->use.kept_states_total;
    out->states_used = s->use.kept_states;
    pthread_mutex_unlock(&s->lock);
}
