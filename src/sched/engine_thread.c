/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_thread.c - the engine thread: boundary, step, publishing, and again.
 *
 * The lock is taken to look at what the loop wants, and to publish; never while anything is
 * computed.
 *
 * A step with a slice takes a few tenths of a second, and whoever is dropped or late frees his
 * place sooner: the engine asks between layers, and he is taken out of the step, which
 * goes on for the others as if he had not been in it. So nobody can hold others up by
 * coming and going, and a step that nobody is left in ends. New ones sit down after the step; there
 * is nothing they could do before.
 */
#include "base/os.h"
#include "sched/sched_int.h"

#include <math.h>

/* ---- before a step ---- */

static void seat(sched *s, sched_job *job)
{
    job->place = JOB_RUNNING;
    s->slots[s->n_slots++] = job;
}

/* Under the lock. */
static void see_dropped(sched *s)
{
    atomic_store(&s->any_dropped, false);
    for (uint32_t i = 0; i < s->n_slots; i++)
        s->slots[i]->leaving = s->slots[i]->dropped;
}

/* Under the lock: who comes, and what the loop asked for meanwhile. Those whose time ran out in
 * the queue sit down for a moment too, to be told. */
static void look(sched *s)
{
    sched_job *job;
    uint32_t at_work = s->n_slots;
    see_dropped(s);
    prefix_cache_apply_orders(s);
    for (uint32_t i = 0; i < s->n_slots; i++) {
        job = s->slots[i];
        if (job->end_thinking && !job->leaving && job->turn != NULL)
            chat_turn_end_thinking(job->turn);
        job->end_thinking = false;
        at_work -= job->leaving;
    }
    const double now = os_now();
    while ((job = queue_take_late(s, now)) != NULL)
        seat(s, job);
    for (; at_work < s->options.parallel && (job = queue_take(s)) != NULL; at_work++)
        seat(s, job);
}

static void pass_boundary(sched *s)
{
    for (uint32_t i = s->n_slots; i > 0; i--)
        job_boundary(s, s->slots[i - 1]);
}

/* In order of arrival: nobody may take the room that an older one waits for. */
static void begin_standing(sched *s)
{
    for (uint32_t i = 0; i < s->n_slots; i++) {
        sched_job *job = s->slots[i];
        if (job->state != JOB_WAITING)
            continue;
        if (!prefix_cache_begin(s, job))
            return;
        i -= i < s->n_slots && s->slots[i] != job; /* it failed and left */
    }
}

/* ---- telling ---- */

static void tell_where(sched *s, sched_job *job, uint32_t readers)
{
    sched_job_status *w = &job->where;
    const uint64_t held = job->session != NULL ? mote_session_length(job->session) : 0;
    w->phase = !job->begun                  ? SCHED_QUEUED
               : job->result.prefilled == 0 ? SCHED_PREFILL
                                            : SCHED_DECODE;
    w->position = job->begun ? 0 : 1;
    w->done = job->result.prefilled > 0 || held > w->total ? w->total : held;
    w->reused = job->result.answer.reused_tokens;
    w->eta = s->rate > 0 ? (double)(w->total - w->done) * readers / s->rate : 0;
    w->generated = w->phase == SCHED_DECODE ? job->n - job->n_prompt : 0;
}

/* Under the lock. */
static bool publish_seat(sched *s, sched_job *job, uint32_t readers)
{
    const bool starts = job->begun && !job->announced;
    tell_where(s, job, readers);
    job->announced |= starts;
    job->news_started |= starts;
    if (job->dropped || (!starts && job->fresh.n == 0))
        return false;
    mailbox_post(s, job);
    return true;
}

static void publish_gone(sched *s, sched_job *job)
{
    job->place = JOB_DONE;
    job->where.phase = SCHED_FINISHED;
    job->where.reused = job->result.answer.reused_tokens;
    if (job->result.prefilled > 0)
        job->where.done = job->where.total;
    job->where.generated = job->result.answer.answer_tokens;
    job->news_started |= job->begun && !job->announced;
    job->news_over = true;
    s->busy -= !job->dropped;
    mailbox_post(s, job);
    if (job->lost && job->result.status == MOTE_OK)
        job->result.status =
            err_set(&job->result.error, MOTE_E_MEMORY, "no memory for what the answer says");
}

/* By what each of them is told, not by what a step makes of it: who lacks a few tokens of its
 * prompt is light work, but reads. */
static void count_phases(sched *s)
{
    s->stats.prefilling = s->stats.decoding = 0;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const bool writes = s->slots[i]->where.phase == SCHED_DECODE;
        s->stats.decoding += writes;
        s->stats.prefilling += !writes;
    }
}

/* Under the lock. */
static bool publish(sched *s, const mote_usage *use)
{
    sched_stats *f = &s->stats;
    uint32_t readers = 0;
    bool news = s->n_finished > 0;
    for (uint32_t i = 0; i < s->n_slots; i++)
        readers += s->slots[i]->state == JOB_PREFILL;
    if (s->since.prefill_rows > 0 && s->since.step_seconds > 0 && !s->aborted_inside) {
        const double now = (double)s->since.prefill_rows / s->since.step_seconds;
        s->rate = s->rate > 0 ? s->rate + 0.25 * (now - s->rate) : now;
    }
    for (uint32_t i = 0; i < s->n_slots; i++)
        news |= publish_seat(s, s->slots[i], readers);
    for (uint32_t i = 0; i < s->n_finished; i++)
        publish_gone(s, s->finished[i]);
    s->n_finished = 0;
    stats_merge(f, &s->since);
    count_phases(s);
    f->idle_sessions = s->n_idle;
    prefix_cache_publish(s);
    s->use = *use;
    return news;
}

static void tell(sched *s)
{
    mote_usage use;
    if (s->engine != NULL)
        mote_engine_usage(s->engine, &use);
    pthread_mutex_lock(&s->lock);
    if (s->engine == NULL)
        use = s->use;
    const bool news = publish(s, &use);
    pthread_mutex_unlock(&s->lock);
    if (news && s->options.wake != NULL)
        s->options.wake(s->options.with);
}

/* ---- the step ---- */

static double first_deadline(const sched *s)
{
    double first = (double)INFINITY;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const double one = job_deadline(s->slots[i]);
        first = one < first ? one : first;
    }
    return first;
}

static void leave_step(sched *s, const sched_job *job)
{
    size_t i = 0;
    while (i < s->n_work && s->work_for[i] != job)
        i++;
    if (i == s->n_work)
        return;
    mote_step_abort(job->session);
    s->work_for[i] = NULL;
    *(job->state == JOB_DECODE ? &s->n_light : &s->n_heavy) -= s->work[i].n;
    s->aborted_inside = true;
    s->since.aborted_inside++;
}

/* Between two layers, and while others compute. Who must go does, in the step or not. */
static void let_go(void *with)
{
    sched *s = with;
    if (!atomic_load_explicit(&s->any_dropped, memory_order_relaxed) && os_now() < s->deadline)
        return;
    pthread_mutex_lock(&s->lock);
    see_dropped(s);
    pthread_mutex_unlock(&s->lock);
    for (uint32_t i = s->n_slots; i > 0; i--) {
        sched_job *job = s->slots[i - 1];
        if (!job_must_stop(job))
            continue;
        leave_step(s, job);
        job_boundary(s, job);
    }
    s->deadline = first_deadline(s);
    tell(s);
}

static void fail_all(sched *s, mote_status status, const mote_error *err)
{
    for (size_t i = 0; i < s->n_work; i++)
        job_finish(s, s->work_for[i], status, err);
}

/* The pace learns nothing from a step that became smaller on its way. */
static void measure(sched *s, double seconds)
{
    s->since.steps++;
    s->since.step_rows += s->n_light + s->n_heavy;
    s->since.prefill_rows += s->n_heavy;
    s->since.prefill_tokens += s->n_heavy;
    s->since.step_seconds += seconds;
    if (!s->aborted_inside)
        prefill_budget_observe(&s->budget, s->n_light, s->n_heavy, seconds);
}

static void run_step(sched *s)
{
    mote_error err;
    batch_build(s);
    s->aborted_inside = false;
    if (s->n_work == 0)
        return;
    s->deadline = first_deadline(s);
    const double began = os_now();
    const mote_status status = mote_step_with_hook(s->engine, s->work, s->n_work, let_go, s, &err);
    if (status == MOTE_E_MEMORY && prefix_cache_make_room(s))
        return;
    if (status != MOTE_OK && status != MOTE_E_CANCELED) {
        fail_all(s, status, &err);
        return;
    }
    if (status == MOTE_OK)
        measure(s, os_now() - began);
    for (size_t i = 0; i < s->n_work; i++)
        if (s->work_for[i] != NULL)
            job_advance(s, s->work_for[i], &s->work[i]);
}

/* Under the lock. false: there is nothing to do any more, ever. */
static bool wait_for_work(sched *s)
{
    while (s->n_slots == 0 && s->n_queue == 0 && !s->orders && !s->to_sweep && !s->stop)
        if (!engine_unload_step(s))
            pthread_cond_wait(&s->work_is, &s->lock);
    return s->n_slots > 0 || s->n_queue > 0 || !s->stop;
}

static void one_step(sched *s)
{
    pthread_mutex_lock(&s->lock);
    look(s);
    pthread_mutex_unlock(&s->lock);
    prefix_cache_sweep(s);
    pass_boundary(s);
    begin_standing(s);
    run_step(s);
}

/* Everything that computes, while others on the same cores do not. Who comes while it waits for
 * its turn is seen afterwards; who goes, at once. */
static void take_turn(sched *s)
{
    s->n_work = 0;
    s->deadline = first_deadline(s);
    const uint64_t number = core_lock_enter(s->options.core_lock, let_go, s);
    s->beside = s->options.core_lock != NULL && number != s->next_number;
    s->next_number = number + 1;
    one_step(s);
    while (core_lock_stay(s->options.core_lock) && s->n_slots > 0) {
        tell(s);
        one_step(s);
    }
    core_lock_leave(s->options.core_lock);
}

void *thread_run(void *with)
{
    sched *s = with;
    pthread_mutex_lock(&s->lock);
    while (wait_for_work(s)) {
        const bool ready = s->engine != NULL || engine_reload(s);
        if (!ready)
            look(s);
        pthread_mutex_unlock(&s->lock);
        if (ready)
            take_turn(s);
        else
            engine_reload_fail(s);
        tell(s);
        pthread_mutex_lock(&s->lock);
    }
    engine_unload_end(s);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}
