/* SPDX-License-Identifier: Apache-2.0 */
/* sched.c - the scheduler as a whole: begin and end. See sched.h. */
#include "sched/sched_int.h"

#include "base/mem.h"

static mote_status take_lists(sched *s, mote_error *err)
{
    const sched_options *o = &s->options;
    const size_t all = (size_t)o->parallel + o->queue;
    s->queue = mem_new(o->queue, sizeof *s->queue);
    s->slots = mem_new(all, sizeof *s->slots);
    s->finished = mem_new(all, sizeof *s->finished);
    s->idle = mem_new(o->idle_sessions, sizeof *s->idle);
    s->known = mem_new(o->idle_sessions, sizeof *s->known);
    s->work = mem_new(o->parallel, sizeof *s->work);
    s->work_for = mem_new(o->parallel, sizeof *s->work_for);
    s->readers = mem_new(o->parallel, sizeof *s->readers);
    s->one_token = mem_new(s->info.vocabulary / 32 + 1, sizeof *s->one_token);
    if (s->queue == NULL || s->slots == NULL || s->finished == NULL || s->idle == NULL ||
        s->known == NULL || s->work == NULL || s->work_for == NULL || s->readers == NULL ||
        s->one_token == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for a scheduler");
    return MOTE_OK;
}

static mote_status start(sched *s, mote_error *err)
{
    s->lock_made = pthread_mutex_init(&s->lock, NULL) == 0;
    s->cond_made = pthread_cond_init(&s->work_is, NULL) == 0;
    s->rested_made = pthread_cond_init(&s->rested, NULL) == 0;
    if (!s->lock_made || !s->cond_made || !s->rested_made)
        return err_set(err, MOTE_E_MEMORY, "the system has no room for a lock");
    s->thread_made = pthread_create(&s->thread, NULL, thread_run, s) == 0;
    return s->thread_made ? MOTE_OK
                          : err_set(err, MOTE_E_MEMORY, "the system has no room for a thread");
}

static mote_status set_up(sched *s, const sched_options *options, mote_error *err)
{
    TRY(sched_plan(s, options, &s->engine_options, err));
    TRY(take_lists(s, err));
    TRY(mote_engine_new(&s->engine, options->model, &s->engine_options, err));
    s->loaded = true;
    mote_engine_memory(s->engine, &s->memory);
    mote_engine_usage(s->engine, &s->use);
    s->options.threads = mote_engine_threads(s->engine);
    s->ready_end = &s->ready;
    return start(s, err);
}

mote_status sched_new(sched **out, const sched_options *options, mote_error *err)
{
    *out = NULL;
    sched *s = mem_new(1, sizeof *s);
    if (s == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for a scheduler");
    const mote_status status = set_up(s, options, err);
    if (status != MOTE_OK) {
        sched_free(s);
        return status;
    }
    *out = s;
    return MOTE_OK;
}

static void ignore(void *with, sched_job *job, void *owner, const sched_event *event)
{
    (void)with, (void)job, (void)owner, (void)event;
}

static void stop(sched *s)
{
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    if (s->engine != NULL)
        mote_cancel(s->engine);
    pthread_cond_signal(&s->work_is);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    sched_collect(s, ignore, NULL); /* lets go of what was dropped last */
    prefix_cache_free_all(s);
}

void sched_free(sched *s)
{
    if (s == NULL)
        return;
    if (s->thread_made)
        stop(s);
    if (s->rested_made)
        pthread_cond_destroy(&s->rested);
    if (s->cond_made)
        pthread_cond_destroy(&s->work_is);
    if (s->lock_made)
        pthread_mutex_destroy(&s->lock);
    mote_engine_free(s->engine);
    mem_free(s->queue);
    mem_free(s->slots);
    mem_free(s->finished);
    mem_free(s->idle);
    mem_free(s->known);
    mem_free(s->work);
    mem_free(s->work_for);
    mem_free(s->readers);
    mem_free(s->one_token);
    mem_free(s);
}

const sched_options *sched_settings(const sched *s)
{
    return &s->options;
}
