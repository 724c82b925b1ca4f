/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_unload.c - unloads the engine of an idle scheduler and reloads it for the next job.
 *
 * The engine thread does both, and only when no job runs, so no step loses its engine. While it
 * loads, only jobs of this model wait. Stats, options and the queue survive an unload; of the prefix
 * cache only what is on disk.
 */
#include "base/os.h"
#include "sched/sched_int.h"

/* An unload is over. Not under the mutex: the owner may hold a lock of its own when it calls the
 * scheduler. Threads that wait in sched_unload() see load_changed. */
static void unload_wake_owner(sched *s)
{
    if (s->options.wake != NULL)
        s->options.wake(s->options.with);
}

/* ---- engine thread ---- */

static bool unload_is_wanted(sched *s)
{
    pthread_mutex_lock(&s->lock);
    const bool wanted = s->unload_requested;
    pthread_mutex_unlock(&s->lock);
    return wanted;
}

/* Call with the mutex held. It is released while memory is freed and while the owner is woken. */
static void engine_unload(sched *s)
{
    pthread_mutex_unlock(&s->lock);
    prefix_cache_free_all(s);
    pthread_mutex_lock(&s->lock);
    mote_engine *engine = s->engine;
    s->engine = NULL;
    draft_use_engine(s);
    s->idle_changed = true;
    prefix_table_publish(s);
    s->idle_dropped = false;
    s->stats.idle_sessions = 0;
    s->usage.positions_free = s->usage.positions_total;
    s->usage.sessions = s->usage.kept_states = 0;
    pthread_mutex_unlock(&s->lock);
    mote_engine_free(engine);
    mote_model_drop_pages(s->options.model);
    pthread_mutex_lock(&s->lock);
    s->loaded = s->unload_requested = false;
    pthread_cond_broadcast(&s->load_changed);
    pthread_mutex_unlock(&s->lock);
    unload_wake_owner(s);
    pthread_mutex_lock(&s->lock);
}

/* Reads the model file into memory, so that the first step is as fast as later ones. */
static void model_prefault(sched *s)
{
    uint64_t done = 0, total = 0;
    bool stop = false;
    while (!stop && mote_model_prefault(s->options.model, &done, &total)) {
        pthread_mutex_lock(&s->lock);
        stop = s->stop;
        pthread_mutex_unlock(&s->lock);
    }
}

bool engine_reload(sched *s)
{
    mote_error err = {0};
    mote_engine *engine = NULL;
    s->load_started = os_now();
    pthread_mutex_unlock(&s->lock);
    mote_status status = mote_model_reopen(s->options.model, &err); /* nothing to do if intact */
    if (status == MOTE_OK) {
        model_prefault(s);
        status = mote_engine_new(&engine, s->options.model, &s->engine_options, &err);
    }
    pthread_mutex_lock(&s->lock);
    s->load_ended = os_now();
    s->engine = engine;
    draft_use_engine(s);
    s->loaded = status == MOTE_OK;
    s->load_error = err;
    s->load_requested = false;
    pthread_cond_broadcast(&s->load_changed);
    return s->loaded;
}

bool engine_unload_step(sched *s)
{
    const bool unload = s->unload_requested && s->engine != NULL;
    const bool load = s->load_requested && s->engine == NULL;
    if (unload) {
        pthread_mutex_unlock(&s->lock);
        prefix_disk_flush(s, SCHED_FLUSH_SECONDS, unload_is_wanted);
        pthread_mutex_lock(&s->lock);
        if (s->unload_requested) /* no job came meanwhile */
            engine_unload(s);
    } else if (load) {
        engine_reload(s);
    }
    return unload || load;
}

void engine_reload_fail(sched *s)
{
    for (uint32_t i = s->n_slots; i > 0; i--) {
        sched_job *job = s->slots[i - 1];
        if (job->aborted)
            job_boundary(s, job);
        else
            job_finish(s, job, s->load_error.status, &s->load_error);
    }
}

void engine_fail(sched *s)
{
    engine_reload_fail(s);
    prefix_cache_free_all(s); /* computed with damaged weights: must not reach the disk cache */
    pthread_mutex_lock(&s->lock);
    s->damaged = false;
    engine_unload(s);
    pthread_mutex_unlock(&s->lock);
}

void engine_unload_end(sched *s)
{
    s->unload_requested = s->load_requested = false;
    pthread_cond_broadcast(&s->load_changed);
}

/* ---- any thread ---- */

bool engine_unload_cancel(sched *s)
{
    const bool cancelled = s->unload_requested;
    s->unload_requested = false;
    if (cancelled)
        pthread_cond_broadcast(&s->load_changed);
    return cancelled;
}

void engine_unload_cancelled(sched *s, bool cancelled)
{
    if (cancelled)
        unload_wake_owner(s);
}

bool sched_unload(sched *s, bool wait)
{
    pthread_mutex_lock(&s->lock);
    if (s->loaded && s->busy == 0 && !s->stop) {
        s->unload_requested = true;
        pthread_cond_signal(&s->work_ready);
    }
    while (wait && s->loaded && s->unload_requested)
        pthread_cond_wait(&s->load_changed, &s->lock);
    const bool unloaded = !s->loaded;
    pthread_mutex_unlock(&s->lock);
    return unloaded;
}

bool sched_unloading(sched *s)
{
    pthread_mutex_lock(&s->lock);
    const bool unloading = s->loaded && s->unload_requested;
    pthread_mutex_unlock(&s->lock);
    return unloading;
}

mote_status sched_load(sched *s, mote_error *err)
{
    mote_status status = MOTE_OK;
    pthread_mutex_lock(&s->lock);
    const bool cancelled = engine_unload_cancel(s);
    if (!s->loaded && !s->stop) {
        s->load_requested = true;
        pthread_cond_signal(&s->work_ready);
    }
    pthread_mutex_unlock(&s->lock);
    engine_unload_cancelled(s, cancelled);
    pthread_mutex_lock(&s->lock);
    while (s->load_requested)
        pthread_cond_wait(&s->load_changed, &s->lock);
    if (!s->loaded) {
        *err = s->load_error;
        status = s->load_error.status;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

bool sched_loaded(sched *s)
{
    pthread_mutex_lock(&s->lock);
    const bool loaded = s->loaded;
    pthread_mutex_unlock(&s->lock);
    return loaded;
}

void sched_memory(sched *s, mote_memory *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->memory;
    if (!s->loaded)
        *out = (mote_memory){.model = s->memory.model, .total = s->memory.model};
    pthread_mutex_unlock(&s->lock);
}
