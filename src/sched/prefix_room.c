/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefix_room.c - eviction and preemption: memory for the session of a job.
 *
 * When KV pages run out, memory is freed in this order: unpinned idle sessions; pinned ones, if a
 * running job needs the pages; sessions of paused jobs; sessions that are being restored from disk;
 * then the youngest running job of the key that holds the most KV positions is preempted. A job
 * without a session may preempt jobs of other keys that hold more than an equal part of the KV
 * positions.
 *
 * All code here runs on the engine thread.
 */
#include "sched/sched_int.h"

enum {
    RETRY_POSITIONS = 4 * SCHED_PAGE /* spare positions for a preempted job, so that it is not
                                        preempted again at once */
};

static bool running_job_has_session(const sched *s)
{
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slots[i]->session != NULL && s->slots[i]->state != JOB_PAUSED)
            return true;
    return false;
}

/* Frees the session of a job, which will be prefilled again. pages: they ran out. */
static void job_lose_session(sched *s, sched_job *job, bool pages)
{
    mote_session_free(job->session);
    job->session = NULL;
    if (job->state != JOB_PAUSED)
        job->state = JOB_WAITING;
    job->preempted_at = pages ? s->n_ended : UINT64_MAX;
    job->result.preempted++;
    s->stats_delta.preempted++;
}

/* Frees the session of the youngest paused job that has one. */
static bool parked_free(sched *s, const mote_session *except, bool pages)
{
    for (uint32_t i = s->n_slots; i > 0; i--) {
        sched_job *job = s->slots[i - 1];
        if (job->state != JOB_PAUSED || job->session == NULL || job->session == except)
            continue;
        job_lose_session(s, job, pages);
        return true;
    }
    return false;
}

bool prefix_cache_can_park(const sched *s)
{
    return idle_parked(s) < s->options.idle_sessions || idle_least(s, NULL, false) != UINT32_MAX;
}

void prefix_cache_limit_parked(sched *s)
{
    while (idle_parked(s) > s->options.idle_sessions)
        if (!idle_evict(s, NULL, false) && !parked_free(s, NULL, false))
            return;
}

/* KV positions of all jobs of the key, counted as if no page were shared. */
static uint64_t key_positions(const sched *s, const sched_key *key)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slots[i]->key == key && s->slots[i]->session != NULL)
            n += mote_session_length(s->slots[i]->session);
    return n;
}

/* The key other than `except` that holds the most KV positions; NULL: no other key holds any. */
static const sched_key *key_with_most(const sched *s, const sched_key *except, uint64_t *held)
{
    const sched_key *found = NULL;
    *held = 0;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const sched_key *key = s->slots[i]->key;
        const uint64_t n = key != except && key != found ? key_positions(s, key) : 0;
        if (n > *held) {
            found = key;
            *held = n;
        }
    }
    return found;
}

/* The youngest running job of the key that has a session; NULL: none. A job that was preempted
 * before must have done as much since then as it costs to prefill it again, unless `any`. */
static sched_job *key_victim(const sched *s, const sched_key *key, const mote_session *except,
                             bool any)
{
    for (uint32_t i = s->n_slots; i > 0; i--) {
        sched_job *job = s->slots[i - 1];
        if (job->key == key && job->session != NULL && job->session != except &&
            (any || job->result.preempted == 0 ||
             job->run_units >= (int64_t)mote_session_length(job->session)))
            return job;
    }
    return NULL;
}

/* The youngest background job with a session; NULL: none. */
static sched_job *background_victim(const sched *s, const mote_session *except)
{
    for (uint32_t i = s->n_slots; i > 0; i--) {
        sched_job *job = s->slots[i - 1];
        if (job->key->background && job->session != NULL && job->session != except)
            return job;
    }
    return NULL;
}

/* A job without a session needs so many KV positions: preempts a job of the key that holds the
 * most. The job's own key must stay within an equal part, or be starved. */
static bool preempt_for(sched *s, const sched_job *job, uint64_t need, const mote_session *except)
{
    uint64_t held;
    const sched_key *most = key_with_most(s, job->key, &held);
    sched_job *background = job->key->background ? NULL : background_victim(s, except);
    uint32_t keys = 1;
    if (background != NULL) {
        job_lose_session(s, background, true);
        return true;
    }
    if (most != NULL && job->key->background && !most->background)
        return false;
    for (uint32_t i = 0; i < s->n_active; i++)
        keys += s->active[i] != job->key && s->active[i]->running > 0;
    const uint64_t part = s->usage.positions_total / keys;
    const bool is_entitled = key_positions(s, job->key) + need <= part && held > part;
    if (most == NULL || (!is_entitled && !share_is_starved(s, job->key)))
        return false;
    sched_job *victim = key_victim(s, most, except, false);
    if (victim != NULL)
        job_lose_session(s, victim, true);
    return victim != NULL;
}

bool prefix_room_for(sched *s, const sched_job *job, size_t reach, const mote_session *except)
{
    const uint64_t need = job->n - reach + SCHED_PAGE + (job->started ? RETRY_POSITIONS : 0);
    if (job->result.preempted > 0 && job->preempted_at == s->n_ended &&
        !share_is_starved(s, job->key) && running_job_has_session(s))
        return false;
    while (mote_engine_positions_free(s->engine) < need)
        if (!idle_evict(s, except, false) && !parked_free(s, except, true) &&
            !preempt_for(s, job, need, except))
            return !running_job_has_session(s);
    return true;
}

/* Ends the restore of the youngest job that waits for one. */
static bool restore_free(sched *s)
{
    for (uint32_t i = s->n_slots; i > 0; i--)
        if (prefix_disk_cancel(s, s->slots[i - 1]))
            return true;
    return false;
}

bool prefix_cache_make_room(sched *s)
{
    uint64_t held;
    uint32_t n = 0;
    if (idle_evict(s, NULL, true) || parked_free(s, NULL, true) || restore_free(s))
        return true;
    for (uint32_t i = 0; i < s->n_slots; i++)
        n += s->slots[i]->session != NULL;
    if (n < 2)
        return false;
    sched_job *victim = background_victim(s, NULL);
    if (victim == NULL)
        victim = key_victim(s, key_with_most(s, NULL, &held), NULL, true);
    job_lose_session(s, victim, true);
    return true;
}
