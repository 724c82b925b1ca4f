/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key_share.c - fair shares between API keys: counters, slots, preemption, decode rows.
 *
 * Every key has a counter of the tokens it was served (`service`): a decode token counts
 * SHARE_DECODE_UNITS, a prefill token 1, a cached or recomputed token 0. A key that becomes active
 * starts at the lowest counter of the active keys, so a key neither saves up service while it is
 * idle nor owes for what it used while it was alone.
 *
 * Slots. Before each step the slots are divided: every key gets an equal number, a key with fewer
 * requests leaves the rest to the others. Slots that do not divide evenly go to the keys with the
 * lowest counters. A key with more slots than that is preempted: its youngest job pauses and keeps
 * its session, so that it continues where it stopped. A job runs for SHARE_QUANTUM units at least
 * before it is paused, and the owner of an undivided slot keeps it until it is SHARE_QUANTUM ahead.
 *
 * Decode rows. A key with one stream decodes one token per step, a key with seven streams seven.
 * The rows of a key that is more than SHARE_LEAD ahead are left out of a step, so the key with one
 * stream is not limited to an eighth of the tokens. See docs/decisions/0010-fair-share.md.
 *
 * Background jobs (batches) have keys of their own, which get the slots that the other keys leave, and
 * never the last one: the next request must not wait until a job is paused. While another job
 * prefills or decodes, background jobs keep their sessions and are left out of the steps, except one in
 * SHARE_BACKGROUND_EVERY, so that a busy server finishes its batches too. A request that arrives takes
 * them out of the running step (engine_thread.c).
 *
 * All functions run on the engine thread except share_key_of. Those that read the queue need the
 * mutex.
 */
#include "sched/sched_int.h"

/* ---- the table of keys ---- */

sched_key *share_key_of(sched *s, uint64_t client, bool background)
{
    sched_key *free_key = NULL;
    for (uint32_t i = 0; i < s->n_keys; i++) {
        sched_key *key = &s->keys[i];
        if (key->client == client && key->background == background)
            return key;
        if (key->jobs == 0 && free_key == NULL)
            free_key = key;
    }
    /* Inactive keys are remembered: a key that returns must not be behind the others. The table has
     * room for one key per job, so there is always a free entry. */
    const bool reuse = free_key != NULL && s->n_keys >= SHARE_REMEMBERED;
    sched_key *key = reuse ? free_key : &s->keys[s->n_keys++];
    *key = (sched_key){.client = client, .background = background};
    return key;
}

/* Under the mutex: counts the jobs of each key and finds its next job: the oldest paused one, else
 * the first in the queue. Fills s->active. */
static void share_count(sched *s)
{
    s->n_active = 0;
    for (uint32_t i = 0; i < s->n_keys; i++) {
        sched_key *key = &s->keys[i];
        key->running = key->paused = key->queued = key->slots = 0;
        key->next = NULL;
    }
    for (uint32_t i = 0; i < s->n_slots; i++) {
        sched_job *job = s->slots[i];
        if (job->aborted)
            continue;
        const bool paused = job->state == JOB_PAUSED;
        job->key->paused += paused;
        job->key->running += !paused;
        if (paused && job->key->next == NULL)
            job->key->next = job;
    }
    for (uint32_t i = 0; i < s->n_queue; i++) {
        sched_job *job = s->queue[i];
        sched_key *key = job->key;
        key->queued++;
        if (key->next == NULL || (key->paused == 0 && queue_before(job, key->next)))
            key->next = job;
    }
    for (uint32_t i = 0; i < s->n_keys; i++)
        if (s->keys[i].running + s->keys[i].paused + s->keys[i].queued > 0)
            s->active[s->n_active++] = &s->keys[i];
        else
            s->keys[i].was_active = false;
}

/* Brings the counters of keys that have become active to those of the others, and forgets a
 * difference of more than SHARE_MAX_CREDIT. */
static void share_level_counters(sched *s)
{
    int64_t lowest = INT64_MAX, highest = 0;
    for (uint32_t i = 0; i < s->n_active; i++)
        if (s->active[i]->was_active && s->active[i]->service < lowest)
            lowest = s->active[i]->service;
    for (uint32_t i = 0; i < s->n_active; i++) {
        sched_key *key = s->active[i];
        if (!key->was_active && lowest != INT64_MAX && key->service < lowest)
            key->service = lowest;
        key->was_active = true;
        if (key->service > highest)
            highest = key->service;
    }
    for (uint32_t i = 0; i < s->n_active; i++)
        if (s->active[i]->service < highest - SHARE_MAX_CREDIT)
            s->active[i]->service = highest - SHARE_MAX_CREDIT;
}

/* ---- slots ---- */

static uint32_t key_demand(const sched_key *key)
{
    return key->running + key->paused + key->queued;
}

/* Order in which keys get a slot beyond `share`: the lowest counter first. A key that has such a
 * slot keeps it until it is SHARE_QUANTUM ahead. */
static bool key_before(const sched_key *a, const sched_key *b, uint32_t share)
{
    const int64_t x = a->service - (a->running > share ? SHARE_QUANTUM : 0);
    const int64_t y = b->service - (b->running > share ? SHARE_QUANTUM : 0);
    if (x != y)
        return x < y;
    if (a->next == NULL || b->next == NULL)
        return b->next != NULL ? false : a->next != NULL;
    return queue_before(a->next, b->next);
}

static uint32_t share_count_keys(const sched *s, bool background)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_active; i++)
        n += s->active[i]->background == background;
    return n;
}

/* Sets key->slots of the active keys of one kind: equal numbers; a key that needs fewer leaves the
 * rest to the others. Returns the slots that are left. */
static uint32_t share_divide_slots_of(sched *s, bool background, uint32_t left)
{
    uint32_t open = share_count_keys(s, background), share = 0;
    bool changed = true;
    while (changed && open > 0) { /* keys that need no more than an equal share */
        changed = false;
        share = left / open;
        for (uint32_t i = 0; i < s->n_active; i++) {
            sched_key *key = s->active[i];
            if (key->background != background || key->slots > 0 || key_demand(key) > share)
                continue;
            key->slots = key_demand(key);
            left -= key->slots;
            open--;
            changed = true;
        }
    }
    if (open == 0)
        return left;
    for (uint32_t i = 0; i < s->n_active; i++) /* the others */
        s->active[i]->open = s->active[i]->background == background && s->active[i]->slots == 0;
    for (uint32_t i = 0; i < s->n_active; i++)
        if (s->active[i]->open)
            s->active[i]->slots = share;
    for (left -= share * open; left > 0; left--) {
        sched_key *best = NULL;
        for (uint32_t i = 0; i < s->n_active; i++)
            if (s->active[i]->open && (best == NULL || key_before(s->active[i], best, share)))
                best = s->active[i];
        best->slots++;
        best->open = false;
    }
    return 0;
}

static void share_divide_slots(sched *s)
{
    const uint32_t all = s->options.parallel;
    uint32_t left = share_divide_slots_of(s, false, all);
    if (left == all && all > 1)
        left--;
    share_divide_slots_of(s, true, left);
}

/* ---- preemption ---- */

/* A paused job that continues leaves the place of its session to the job that it replaces. */
static bool share_resumes_a_job(const sched *s)
{
    for (uint32_t i = 0; i < s->n_active; i++)
        if (s->active[i]->running < s->active[i]->slots && s->active[i]->paused > 0)
            return true;
    return false;
}

static bool job_may_pause(const sched *s, const sched_job *job)
{
    if (job->state == JOB_PAUSED || job->aborted || job->restore != NULL)
        return false; /* a prepared session belongs to the slot */
    if (job->session == NULL || job->key->background)
        return true;
    int64_t quantum = SHARE_QUANTUM;
    if (!share_resumes_a_job(s) && !prefix_cache_can_park(s))
        quantum += (int64_t)mote_session_length(job->session); /* it will be prefilled again */
    return job->run_units >= quantum;
}

static void share_pause(sched *s, sched_key *key)
{
    for (uint32_t i = s->n_slots; i > 0 && key->running > key->slots; i--) {
        sched_job *job = s->slots[i - 1];
        if (job->key != key || !job_may_pause(s, job))
            continue;
        job->paused_state = job->state;
        job->state = JOB_PAUSED;
        draft_forget(job);
        s->stats_delta.paused++;
        key->running--;
        key->paused++;
    }
}

static sched_job *key_oldest_paused(sched *s, const sched_key *key)
{
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slots[i]->key == key && s->slots[i]->state == JOB_PAUSED && !s->slots[i]->aborted)
            return s->slots[i];
    return NULL;
}

/* Under the mutex: continues the oldest paused job of the key, or starts its next queued one. */
static void share_start(sched *s, sched_key *key)
{
    sched_job *job = key_oldest_paused(s, key);
    if (job != NULL) {
        job->state = job->session != NULL ? job->paused_state : JOB_WAITING;
        key->paused--;
    } else {
        job = queue_take(s, key);
        slot_add(s, job);
        key->queued--;
    }
    job->run_units = 0;
    key->running++;
}

static sched_key *share_next_key(sched *s)
{
    sched_key *best = NULL;
    for (uint32_t i = 0; i < s->n_active; i++) {
        sched_key *key = s->active[i];
        if (key->running < key->slots && key->paused + key->queued > 0 &&
            (best == NULL || key_before(key, best, UINT32_MAX)))
            best = key;
    }
    return best;
}

void share_fill_slots(sched *s)
{
    sched_key *key;
    uint32_t running = 0;
    share_count(s);
    share_level_counters(s);
    share_divide_slots(s);
    for (uint32_t i = 0; i < s->n_active; i++) {
        if (s->n_slots < s->max_slots - s->options.queue - s->options.parallel)
            share_pause(s, s->active[i]);
        running += s->active[i]->running;
    }
    for (; running < s->options.parallel && (key = share_next_key(s)) != NULL; running++)
        share_start(s, key);
    prefix_cache_limit_parked(s);
}

/* ---- service ---- */

void share_charge(sched_job *job, size_t from, size_t to)
{
    const bool decodes = job->state == JOB_DECODE;
    if (from < job->charged)
        from = job->charged; /* it was computed before a preemption or a rewind */
    if (to <= from)
        return;
    const int64_t units = (int64_t)(to - from) * (decodes ? SHARE_DECODE_UNITS : 1);
    job->charged = to;
    job->run_units += units;
    job->key->service += units;
}

/* ---- decode rows ---- */

/* Sets key->skip of the keys of one kind. */
static void share_limit_decode_of(sched *s, bool background)
{
    int64_t lowest = INT64_MAX;
    uint32_t keys = 0;
    for (uint32_t i = 0; i < s->n_active; i++) {
        const sched_key *key = s->active[i];
        if (key->background != background)
            continue;
        keys += key->decode_rows > 0;
        if (key->decode_rows > 0 && key->decodes && key->decoded < lowest)
            lowest = key->decoded;
    }
    if (lowest == INT64_MAX)
        lowest = 0;
    for (uint32_t i = 0; i < s->n_active; i++) {
        sched_key *key = s->active[i];
        if (key->background != background)
            continue;
        if (key->decode_rows > 0 && !key->decodes)
            key->decoded = lowest; /* it starts to decode */
        key->decodes = key->decode_rows > 0;
        key->skip = keys > 1 && key->decoded > lowest + SHARE_LEAD;
        key->behind = key->decoded <= lowest;
    }
}

/* Does a job that is not in the background prefill or decode? One that waits may wait for the
 * prefill of a background job. */
static bool share_has_foreground(const sched *s)
{
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const sched_job *job = s->slots[i];
        if (!job->key->background && (job->state == JOB_PREFILL || job->state == JOB_DECODE))
            return true;
    }
    return false;
}

void share_limit_decode(sched *s)
{
    for (uint32_t i = 0; i < s->n_active; i++)
        s->active[i]->decode_rows = 0;
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slots[i]->state == JOB_DECODE)
            s->slots[i]->key->decode_rows++;
    share_limit_decode_of(s, false);
    share_limit_decode_of(s, true);
    s->hold_background = share_has_foreground(s) && ++s->held_steps < SHARE_BACKGROUND_EVERY;
    if (!s->hold_background)
        s->held_steps = 0;
    for (uint32_t i = 0; i < s->n_active; i++)
        s->active[i]->skip |= s->hold_background && s->active[i]->background;
}

void share_count_decode(sched_key *key, size_t rows)
{
    key->decoded += (int64_t)rows * (key->behind ? SHARE_ROW : SHARE_ROW_AHEAD);
}

bool share_is_starved(const sched *s, const sched_key *key)
{
    for (uint32_t i = 0; i < s->n_active; i++)
        if (s->active[i]->background == key->background &&
            s->active[i]->service >= key->service + SHARE_MAX_CREDIT)
            return true;
    return false;
}
