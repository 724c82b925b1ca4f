/* SPDX-License-Identifier: Apache-2.0 */
/* sched.c - creates and frees a scheduler: plan, arrays, engine, thread. See sched.h. */
#include "sched/sched_int.h"

#include "base/mem.h"

static mote_status sched_alloc_arrays(sched *s, mote_error *err)
{
    const sched_options *o = &s->options;
    s->max_slots = o->queue + (2 + SHARE_PAUSED) * o->parallel;
    s->max_keys = o->queue + s->max_slots + SHARE_REMEMBERED;
    const size_t jobs = s->max_slots;
    s->keys = mem_new(s->max_keys, sizeof *s->keys);
    s->active = mem_new(s->max_keys, sizeof *s->active);
    s->queue = mem_new(o->queue, sizeof *s->queue);
    s->slots = mem_new(jobs, sizeof *s->slots);
    s->finished = mem_new(jobs, sizeof *s->finished);
    s->idle = mem_new(o->idle_sessions, sizeof *s->idle);
    s->prefixes = mem_new(o->idle_sessions, sizeof *s->prefixes);
    s->work = mem_new(o->parallel, sizeof *s->work);
    s->work_job = mem_new(o->parallel, sizeof *s->work_job);
    s->items = mem_new(o->parallel, sizeof *s->items);
    s->prefilling = mem_new(o->parallel, sizeof *s->prefilling);
    s->token_mask = mem_new(s->info.vocabulary / 32 + 1, sizeof *s->token_mask);
    if (s->keys == NULL || s->active == NULL || s->queue == NULL || s->slots == NULL ||
        s->finished == NULL || s->idle == NULL || s->prefixes == NULL || s->work == NULL ||
        s->work_job == NULL || s->items == NULL || s->prefilling == NULL || s->token_mask == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for a scheduler");
    return MOTE_OK;
}

static mote_status sched_make_locks(sched *s, mote_error *err)
{
    s->has_lock = pthread_mutex_init(&s->lock, NULL) == 0;
    s->has_work_ready = pthread_cond_init(&s->work_ready, NULL) == 0;
    s->has_load_changed = pthread_cond_init(&s->load_changed, NULL) == 0;
    if (!s->has_lock || !s->has_work_ready || !s->has_load_changed)
        return err_set(err, MOTE_E_MEMORY, "cannot create a mutex for the scheduler");
    return MOTE_OK;
}

static mote_status sched_init(sched *s, const sched_options *options, mote_error *err)
{
    TRY(sched_plan(s, options, &s->engine_options, err));
    TRY(sched_alloc_arrays(s, err));
    TRY(mote_engine_new(&s->engine, options->model, &s->engine_options, err));
    TRY(draft_init(s, err));
    draft_use_engine(s);
    s->loaded = true;
    mote_engine_memory(s->engine, &s->memory);
    sched_add_outside(s, &s->memory);
    mote_engine_usage(s->engine, &s->usage);
    s->options.threads = mote_engine_threads(s->engine);
    s->mailbox_end = &s->mailbox;
    TRY(sched_make_locks(s, err));
    prefix_disk_open(s);
    s->has_thread = pthread_create(&s->thread, NULL, engine_thread_run, s) == 0;
    return s->has_thread ? MOTE_OK : err_set(err, MOTE_E_MEMORY, "cannot start the engine thread");
}

mote_status sched_new(sched **out, const sched_options *options, mote_error *err)
{
    *out = NULL;
    sched *s = mem_new(1, sizeof *s);
    if (s == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for a scheduler");
    const mote_status status = sched_init(s, options, err);
    if (status != MOTE_OK) {
        sched_free(s);
        return status;
    }
    *out = s;
    return MOTE_OK;
}

static void ignore_event(void *with, sched_job *job, void *owner, const sched_event *event)
{
    (void)with, (void)job, (void)owner, (void)event;
}

static void sched_stop_thread(sched *s)
{
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    if (s->engine != NULL)
        mote_cancel(s->engine);
    pthread_cond_signal(&s->work_ready);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    sched_collect(s, ignore_event, NULL); /* releases the jobs that were dropped last */
    prefix_disk_flush(s, SCHED_FLUSH_SECONDS, NULL);
    prefix_cache_free_all(s);
}

void sched_free(sched *s)
{
    if (s == NULL)
        return;
    if (s->has_thread)
        sched_stop_thread(s);
    prefix_disk_close(s);
    if (s->has_load_changed)
        pthread_cond_destroy(&s->load_changed);
    if (s->has_work_ready)
        pthread_cond_destroy(&s->work_ready);
    if (s->has_lock)
        pthread_mutex_destroy(&s->lock);
    mote_engine_free(s->engine);
    mem_free(s->keys);
    mem_free(s->active);
    mem_free(s->queue);
    mem_free(s->slots);
    mem_free(s->finished);
    mem_free(s->idle);
    mem_free(s->prefixes);
    mem_free(s->work);
    mem_free(s->work_job);
    mem_free(s->items);
    spec_free(s->spec);
    mem_free(s->prefilling);
    mem_free(s->token_mask);
    mem_free(s);
}

const sched_options *sched_settings(const sched *s)
{
    return &s->options;
}
