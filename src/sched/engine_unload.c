/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_unload.c - a scheduler whose engine is gone for a while, and comes back when it is needed.
 *
 * The engine thread does both, when it has nothing else to do or nothing to do it with: so
 * nothing is ever taken from under a step, and nobody but those who wait for the model waits
 * for its file. What was counted, decided and queued stays.
 */
#include "base/os.h"
#include "sched/sched_int.h"

/* ---- engine thread ---- */

static void unload(sched *s)
{
    pthread_mutex_unlock(&s->lock);
    prefix_cache_free_all(s);
    pthread_mutex_lock(&s->lock);
    mote_engine *engine = s->engine;
    s->engine = NULL;
    s->idle_changed = true;
    prefix_cache_publish(s);
    s->to_sweep = false;
    s->stats.idle_sessions = 0;
    s->use.positions_free = s->use.positions_total;
    s->use.sessions = s->use.kept_states = 0;
    pthread_mutex_unlock(&s->lock);
    mote_engine_free(engine);
    mote_model_drop_pages(s->options.model);
    pthread_mutex_lock(&s->lock);
    s->loaded = s->rest = false;
    pthread_cond_broadcast(&s->rested);
}

/* The file is brought into memory first, so that the first step is as fast as others. */
static void warm(sched *s)
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
    s->load_began = os_now();
    pthread_mutex_unlock(&s->lock);
    warm(s);
    const mote_status status = mote_engine_new(&engine, s->options.model, &s->engine_options, &err);
    pthread_mutex_lock(&s->lock);
    s->load_ended = os_now();
    s->engine = engine;
    s->loaded = status == MOTE_OK;
    s->load_error = err;
    s->want = false;
    pthread_cond_broadcast(&s->rested);
    return s->loaded;
}

bool engine_unload_step(sched *s)
{
    const bool goes = s->rest && s->engine != NULL, comes = s->want && s->engine == NULL;
    if (goes)
        unload(s);
    else if (comes)
        engine_reload(s);
    return goes || comes;
}

/* It has no engine, and there is none to be had. */
void engine_reload_fail(sched *s)
{
    for (uint32_t i = s->n_slots; i > 0; i--) {
        sched_job *job = s->slots[i - 1];
        if (job->leaving)
            job_boundary(s, job);
        else
            job_finish(s, job, s->load_error.status, &s->load_error);
    }
}

void engine_unload_end(sched *s)
{
    s->rest = s->want = false;
    pthread_cond_broadcast(&s->rested);
}

double engine_reload_waited(const sched *s, const sched_job *job)
{
    const double from = job->submitted > s->load_began ? job->submitted : s->load_began;
    return s->load_ended > from ? s->load_ended - from : 0;
}

/* ---- any thread ---- */

bool sched_unload(sched *s, bool wait)
{
    pthread_mutex_lock(&s->lock);
    if (s->loaded && s->busy == 0 && !s->stop) {
        s->rest = true;
        pthread_cond_signal(&s->work_is);
    }
    while (wait && s->loaded && s->rest)
        pthread_cond_wait(&s->rested, &s->lock);
    const bool gone = !s->loaded;
    pthread_mutex_unlock(&s->lock);
    return gone;
}

mote_status sched_load(sched *s, mote_error *err)
{
    mote_status status = MOTE_OK;
    pthread_mutex_lock(&s->lock);
    engine_reload_request(s);
    if (!s->loaded && !s->stop) {
        s->want = true;
        pthread_cond_signal(&s->work_is);
    }
    while (s->want)
        pthread_cond_wait(&s->rested, &s->lock);
    if (!s->loaded) {
        *err = s->load_error;
        status = s->load_error.status;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

void engine_reload_request(sched *s)
{
    if (!s->rest)
        return;
    s->rest = false;
    pthread_cond_broadcast(&s->rested);
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
