/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_thread.c - the engine thread: admit jobs, build a batch, run the step, publish; repeat.
 *
 * The mutex is held to admit jobs and to publish results, never while the engine computes.
 *
 * A step with prefill takes a few tenths of a second. A job that is dropped or out of time does
 * not wait for its end: the engine calls a hook between layers, which takes the job out of the
 * step. The other jobs of the batch continue unchanged. A step without jobs ends at once. So
 * clients that connect and disconnect quickly cannot delay other clients.
 */
#include "base/os.h"
#include "sched/sched_int.h"

#include <math.h>

/* ---- before a step ---- */

/* Under the mutex. */
static void copy_dropped(sched *s)
{
    atomic_store(&s->any_dropped, false);
    for (uint32_t i = 0; i < s->n_slots; i++)
        s->slots[i]->aborted = s->slots[i]->dropped;
}

void slot_add(sched *s, sched_job *job)
{
    job->stage = JOB_RUNNING;
    s->slots[s->n_slots++] = job;
}

/* Under the mutex: reads the requests of other threads and fills the slots. Jobs that ran out of
 * time in the queue get a slot too; job_boundary finishes them at once. */
static void admit_jobs(sched *s)
{
    sched_job *job;
    atomic_store(&s->any_foreground, false); /* the slots are filled now */
    s->disk_event = false;
    copy_dropped(s);
    prefix_table_apply_requests(s);
    for (uint32_t i = 0; i < s->n_slots; i++) {
        job = s->slots[i];
        if (job->end_thinking && !job->aborted && job->turn != NULL)
            chat_turn_end_thinking(job->turn);
        job->end_thinking = false;
    }
    share_fill_slots(s);
    const double now = os_now();
    while ((job = queue_take_expired(s, now)) != NULL)
        slot_add(s, job);
}

/* In order of arrival. If a job lacks KV pages, younger jobs of its key do not take them. */
static void begin_waiting_jobs_of(sched *s, const sched_key *key)
{
    uint32_t i = 0;
    while (i < s->n_slots) {
        sched_job *job = s->slots[i];
        if (job->state == JOB_WAITING && job->key == key) {
            mote_error err = {0};
            const prefix_begin begin = prefix_cache_begin(s, job, &err);
            if (begin == PREFIX_NO_ROOM)
                return;
            if (begin == PREFIX_FAILED)
                job_finish(s, job, err.status, &err);
            else if (begin == PREFIX_FULL)
                job_advance_full(s, job); /* may finish it */
        }
        i += i < s->n_slots && s->slots[i] == job; /* else the next job has moved to slot i */
    }
}

/* The key with the least service first. */
static void begin_waiting_jobs(sched *s)
{
    sched_key *key;
    for (uint32_t i = 0; i < s->n_active; i++)
        s->active[i]->open = s->active[i]->running > 0;
    do {
        key = NULL;
        for (uint32_t i = 0; i < s->n_active; i++)
            if (s->active[i]->open && (key == NULL || s->active[i]->service < key->service))
                key = s->active[i];
        if (key != NULL) {
            key->open = false;
            begin_waiting_jobs_of(s, key);
        }
    } while (key != NULL);
}

/* ---- publication ---- */

static void update_status(sched *s, sched_job *job, uint32_t n_prefilling)
{
    sched_job_status *w = &job->status;
    const uint64_t held = job->session != NULL ? mote_session_length(job->session) : 0;
    w->phase = !job->started                ? SCHED_QUEUED
               : job->result.prefilled == 0 ? SCHED_PREFILL
                                            : SCHED_DECODE;
    w->position = job->started ? 0 : 1;
    w->done = job->result.prefilled > 0 || held > w->total ? w->total : held;
    w->reused = job->result.answer.reused_tokens;
    w->eta =
        s->prefill_rate > 0 ? (double)(w->total - w->done) * n_prefilling / s->prefill_rate : 0;
    w->generated = w->phase == SCHED_DECODE ? job->n - job->n_prompt : 0;
}

/* Under the mutex. Returns true if the job has events to collect. */
static bool publish_running(sched *s, sched_job *job, uint32_t n_prefilling)
{
    const bool starts = job->started && !job->started_sent;
    update_status(s, job, n_prefilling);
    job->started_sent |= starts;
    job->pending_started |= starts;
    if (job->dropped || (!starts && job->new_events.n == 0))
        return false;
    mailbox_post(s, job);
    return true;
}

/* Under the mutex. */
static void publish_finished(sched *s, sched_job *job)
{
    job->stage = JOB_DONE;
    job->status.phase = SCHED_FINISHED;
    job->status.reused = job->result.answer.reused_tokens;
    if (job->result.prefilled > 0)
        job->status.done = job->status.total;
    job->status.generated = job->result.answer.answer_tokens;
    job->pending_started |= job->started && !job->started_sent;
    job->pending_finished = true;
    s->busy -= !job->dropped;
    job->key->jobs--;
    draft_forget(job);
    mailbox_post(s, job);
    if (job->events_lost && job->result.status == MOTE_OK)
        job->result.status =
            err_set(&job->result.error, MOTE_E_MEMORY, "out of memory for the events of an answer");
}

/* Counts by published phase, not by job_state: a job that lacks a few prompt tokens is JOB_DECODE
 * for the batch, but its phase is prefill. */
static void count_phases(sched *s)
{
    s->stats.prefilling = s->stats.decoding = 0;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const bool decodes = s->slots[i]->status.phase == SCHED_DECODE;
        s->stats.decoding += decodes;
        s->stats.prefilling += !decodes;
    }
}

/* After a step, under the mutex: makes the events, status and stats of all jobs visible to other
 * threads and updates the prefill rate (rows per second). Returns true if there are events to
 * collect. */
static bool publish_all(sched *s, const mote_usage *usage)
{
    const sched_stats *delta = &s->stats_delta;
    uint32_t n_prefilling = 0;
    bool has_events = s->n_finished > 0;
    for (uint32_t i = 0; i < s->n_slots; i++)
        n_prefilling += s->slots[i]->state == JOB_PREFILL;
    if (delta->prefill_rows > 0 && delta->step_seconds > 0 && !s->aborted_inside) {
        const double now = (double)delta->prefill_rows / delta->step_seconds;
        s->prefill_rate =
            s->prefill_rate > 0 ? s->prefill_rate + 0.25 * (now - s->prefill_rate) : now;
    }
    for (uint32_t i = 0; i < s->n_slots; i++)
        has_events |= publish_running(s, s->slots[i], n_prefilling);
    for (uint32_t i = 0; i < s->n_finished; i++)
        publish_finished(s, s->finished[i]);
    s->n_finished = 0;
    stats_merge(&s->stats, &s->stats_delta);
    count_phases(s);
    s->stats.idle_sessions = s->n_idle;
    s->stats.idle_bytes = 0;
    for (uint32_t i = 0; i < s->n_idle; i++)
        s->stats.idle_bytes += s->idle[i].info.bytes;
    prefix_table_publish(s);
    s->usage = *usage;
    spec_read_stats(s->spec, &s->stats.spec);
    return has_events;
}

static void publish_and_wake(sched *s)
{
    mote_usage usage;
    if (s->engine != NULL)
        mote_engine_usage(s->engine, &usage);
    pthread_mutex_lock(&s->lock);
    if (s->engine == NULL)
        usage = s->usage;
    const bool has_events = publish_all(s, &usage);
    pthread_mutex_unlock(&s->lock);
    if (has_events && s->options.wake != NULL)
        s->options.wake(s->options.with);
}

/* ---- the step ---- */

static double earliest_deadline(const sched *s)
{
    double earliest = (double)INFINITY;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const double deadline = job_deadline(s->slots[i]);
        earliest = deadline < earliest ? deadline : earliest;
    }
    return earliest;
}

/* Takes the job out of the running step, if it is part of it. */
static void step_remove_job(sched *s, const sched_job *job)
{
    size_t i = 0;
    while (i < s->n_work && s->work_job[i] != job)
        i++;
    if (i == s->n_work)
        return;
    mote_step_abort(job->session);
    draft_leave(s, i);
    s->work_job[i] = NULL;
    *(job->state == JOB_DECODE ? &s->n_decode_rows : &s->n_prefill_rows) -= s->work[i].n;
    s->aborted_inside = true;
    s->stats_delta.aborted_inside++;
}

/* The jobs continue with the next step that has background jobs. Scores and sums of a prompt are
 * written by the step, so those jobs stay in it. */
static void step_remove_background(sched *s)
{
    for (size_t i = 0; i < s->n_work; i++)
        if (s->work_job[i] != NULL && s->work_job[i]->key->background &&
            s->work_job[i]->options.kind == SCHED_ANSWER)
            step_remove_job(s, s->work_job[i]);
}

/* Ends jobs that must stop. Called between two layers of a step, and while this thread waits for
 * the core lock. */
static void end_stopped_jobs(void *with)
{
    sched *s = with;
    if (atomic_exchange_explicit(&s->any_foreground, false, memory_order_relaxed))
        step_remove_background(s);
    if (!atomic_load_explicit(&s->any_dropped, memory_order_relaxed) && os_now() < s->next_deadline)
        return;
    pthread_mutex_lock(&s->lock);
    copy_dropped(s);
    pthread_mutex_unlock(&s->lock);
    for (uint32_t i = s->n_slots; i > 0; i--) {
        sched_job *job = s->slots[i - 1];
        if (!job_must_stop(job))
            continue;
        step_remove_job(s, job);
        job_boundary(s, job);
    }
    s->next_deadline = earliest_deadline(s);
    publish_and_wake(s);
}

/* A step that lost jobs while it ran says nothing about row costs: the budget ignores it. */
static void measure_step(sched *s, double seconds)
{
    s->stats_delta.steps++;
    s->stats_delta.step_rows += s->n_decode_rows + s->n_prefill_rows;
    s->stats_delta.prefill_rows += s->n_prefill_rows;
    s->stats_delta.prefill_tokens += s->n_prefill_rows;
    s->stats_delta.step_seconds += seconds;
    if (!s->aborted_inside)
        prefill_budget_observe(&s->budget, s->n_decode_rows, s->n_prefill_rows, seconds);
}

static void run_batch(sched *s)
{
    mote_error err;
    batch_build(s);
    s->aborted_inside = false;
    if (s->n_work == 0)
        return;
    draft_plan(s);
    s->next_deadline = earliest_deadline(s);
    const double started = os_now();
    const mote_status status =
        mote_step_with_hook(s->engine, s->work, s->n_work, end_stopped_jobs, s, &err);
    if (status == MOTE_E_MEMORY && prefix_cache_make_room(s))
        return; /* no job has advanced: the next step tries again */
    if (status == MOTE_E_IO) {
        pthread_mutex_lock(&s->lock);
        s->load_error = err;
        s->damaged = true;
        pthread_mutex_unlock(&s->lock);
    }
    if (status != MOTE_OK && status != MOTE_E_CANCELED) {
        for (size_t i = 0; i < s->n_work; i++)
            if (s->work_job[i] != NULL)
                job_finish(s, s->work_job[i], status, &err);
        return;
    }
    const double seconds = os_now() - started;
    if (status == MOTE_OK)
        measure_step(s, seconds);
    for (size_t i = 0; i < s->n_work; i++) {
        sched_job *job = s->work_job[i];
        if (job == NULL)
            continue;
        job_advance(s, job, i);
    }
    draft_observe(s, status == MOTE_OK && !s->aborted_inside ? seconds : 0);
}

static void run_step(sched *s)
{
    pthread_mutex_lock(&s->lock);
    admit_jobs(s);
    pthread_mutex_unlock(&s->lock);
    prefix_cache_sweep(s);
    for (uint32_t i = s->n_slots; i > 0; i--)
        job_boundary(s, s->slots[i - 1]);
    begin_waiting_jobs(s);
    run_batch(s);
    prefix_disk_save(s);
}

/* Runs one or more steps under the core lock. Jobs that arrive while it waits for the lock are
 * admitted afterwards; dropped jobs end at once. */
static void run_steps_locked(sched *s)
{
    core_lock *lock = s->options.core_lock;
    s->n_work = 0;
    s->next_deadline = earliest_deadline(s);
    const uint64_t ticket = core_lock_enter(lock, end_stopped_jobs, s);
    s->other_engine_ran = lock != NULL && ticket != s->next_ticket;
    s->next_ticket = ticket + 1;
    run_step(s);
    while (s->n_work > 0 && !s->damaged && core_lock_stay(lock) && s->n_slots > 0) {
        publish_and_wake(s);
        run_step(s);
    }
    core_lock_leave(lock);
    if (s->n_work == 0)
        prefix_disk_wait(s);
}

/* Under the mutex. Returns false if the thread must end. */
static bool wait_for_work(sched *s)
{
    while (s->n_slots == 0 && s->n_queue == 0 && !s->prefix_requests && !s->idle_dropped &&
           !(s->disk_event && s->engine != NULL) && !s->stop)
        if (!engine_unload_step(s))
            pthread_cond_wait(&s->work_ready, &s->lock);
    return s->n_slots > 0 || s->n_queue > 0 || !s->stop;
}

void *engine_thread_run(void *with)
{
    sched *s = with;
    pthread_mutex_lock(&s->lock);
    while (wait_for_work(s)) {
        const bool loaded = s->engine != NULL || engine_reload(s);
        if (!loaded)
            admit_jobs(s);
        pthread_mutex_unlock(&s->lock);
        if (loaded)
            run_steps_locked(s);
        else
            engine_reload_fail(s);
        if (s->damaged)
            engine_fail(s);
        publish_and_wake(s);
        pthread_mutex_lock(&s->lock);
    }
    engine_unload_end(s);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}
