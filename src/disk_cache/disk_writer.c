/* SPDX-License-Identifier: Apache-2.0 */
/* disk_writer.c - see disk_writer.h. */
#include "disk_cache/disk_writer.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef enum save_phase { SAVE_IDLE, SAVE_READY, SAVE_RUNNING } save_phase;

struct disk_writer {
    disk_cache *cache;
    disk_writer_calls calls;
    pthread_t thread;
    bool has_thread, has_lock, has_changed;
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t changed;
    bool stop, released; /* released: the session must not be read any more */
    save_phase phase;
    bool refresh;              /* the directory is to be read again */
    const mote_engine *engine; /* of the session; not freed before `released` is set */
    bool failed;               /* the last save */
    bool reported;
    disk_parts parts; /* of the thread while it runs */
    uint64_t chain;
};

static void writer_notify(const disk_writer *w)
{
    if (w->calls.done != NULL)
        w->calls.done(w->calls.with);
}

/* ---- the thread ---- */

typedef struct part_source {
    disk_writer *w;
    const disk_part *part;
    const mote_engine *engine;
    unsigned char *copy; /* of a page that is partly used */
} part_source;

/* disk_source_fn. The mutex is held for one piece, or for one page that is partly used. */
static bool source_read(void *with, void *to, uint64_t offset, size_t bytes)
{
    part_source *from = with;
    const disk_part *part = from->part;
    pthread_mutex_lock(&from->w->lock);
    bool ok = !from->w->released;
    if (ok && part->rows > 0 && from->copy == NULL) {
        from->copy = mem_new(1, (size_t)part->head.payload_bytes);
        ok = from->copy != NULL;
        if (ok) {
            memcpy(from->copy, part->data, (size_t)part->head.payload_bytes);
            mote_engine_clear_page(from->engine, from->copy, part->rows);
        }
    }
    const unsigned char *data = from->copy != NULL ? from->copy : part->data;
    if (ok)
        memcpy(to, data + offset, bytes);
    pthread_mutex_unlock(&from->w->lock);
    return ok;
}

static mote_status writer_save(disk_writer *w, const mote_engine *engine, mote_error *err)
{
    mote_status status = MOTE_OK;
    for (size_t i = 0; i < w->parts.n && status == MOTE_OK; i++) {
        disk_part *part = &w->parts.parts[i];
        part_source from = {.w = w, .part = part, .engine = engine};
        status = disk_cache_put(w->cache, &part->head, w->chain, source_read, &from, err);
        mem_free(from.copy);
    }
    disk_cache_end_chain(w->cache);
    return status;
}

/* Reports the first error of the disk. */
static void writer_report(disk_writer *w, mote_status status, const mote_error *err)
{
    char text[sizeof err->text + 64];
    pthread_mutex_lock(&w->lock);
    const bool bad = status != MOTE_OK && status != MOTE_E_CANCELED && status != MOTE_E_FULL;
    const bool first = bad && !w->reported;
    w->reported |= bad;
    w->failed = bad;
    pthread_mutex_unlock(&w->lock);
    if (!first)
        return;
    snprintf(text, sizeof text, "disk cache: %s; prefixes stay in memory only", err->text);
    w->calls.report(w->calls.with, text);
}

/* With the mutex, which it releases meanwhile. */
static void writer_refresh(disk_writer *w)
{
    mote_error ignored;
    pthread_mutex_unlock(&w->lock);
    disk_cache_refresh(w->cache, &ignored);
    pthread_mutex_lock(&w->lock);
    w->refresh = false;
    pthread_mutex_unlock(&w->lock);
    writer_notify(w);
    pthread_mutex_lock(&w->lock);
}

static void *writer_run(void *with)
{
    disk_writer *w = with;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (w->phase != SAVE_READY && !w->refresh && !w->stop)
            pthread_cond_wait(&w->changed, &w->lock);
        if (w->stop && w->phase != SAVE_READY)
            break;
        if (w->refresh) {
            writer_refresh(w);
            continue;
        }
        w->phase = SAVE_RUNNING;
        const mote_engine *engine = w->engine;
        pthread_mutex_unlock(&w->lock);
        mote_error err = {0};
        const mote_status status = writer_save(w, engine, &err);
        writer_report(w, status, &err);
        disk_parts_fini(&w->parts);
        pthread_mutex_lock(&w->lock);
        w->phase = SAVE_IDLE;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
        writer_notify(w);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- the owner of the sessions ---- */

mote_status disk_writer_new(disk_writer **out, disk_cache *cache, const disk_writer_calls *calls,
                            mote_error *err)
{
    disk_writer *w = mem_new(1, sizeof *w);
    *out = w;
    if (w == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for the disk cache");
    w->cache = cache;
    w->calls = *calls;
    w->has_lock = pthread_mutex_init(&w->lock, NULL) == 0;
    w->has_changed = pthread_cond_init(&w->changed, NULL) == 0;
    w->has_thread =
        w->has_lock && w->has_changed && pthread_create(&w->thread, NULL, writer_run, w) == 0;
    if (w->has_thread)
        return MOTE_OK;
    disk_writer_free(w);
    *out = NULL;
    return err_set(err, MOTE_E_MEMORY, "cannot start a thread");
}

void disk_writer_free(disk_writer *w)
{
    if (w == NULL)
        return;
    if (w->has_thread) {
        pthread_mutex_lock(&w->lock);
        w->stop = true;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
        pthread_join(w->thread, NULL);
    }
    if (w->has_changed)
        pthread_cond_destroy(&w->changed);
    if (w->has_lock)
        pthread_mutex_destroy(&w->lock);
    mem_free(w);
}

bool disk_writer_is_idle(disk_writer *w, bool *failed)
{
    pthread_mutex_lock(&w->lock);
    const bool idle = w->phase == SAVE_IDLE;
    *failed = idle && w->failed;
    w->failed = idle ? false : w->failed;
    pthread_mutex_unlock(&w->lock);
    return idle;
}

/* Adds the end of the prompt if its state is on disk or among the parts, which have room for it. */
static void parts_add_end(disk_parts *parts, disk_cache *cache, const disk_part *end)
{
    bool has_state = disk_cache_has(cache, end->head.parent);
    for (size_t i = 0; i < parts->n && !has_state; i++)
        has_state = disk_key_equal(parts->parts[i].head.key, end->head.parent);
    if (has_state && !disk_cache_has(cache, end->head.key))
        parts->parts[parts->n++] = *end;
}

bool disk_writer_save(disk_writer *w, const disk_scope *scope, const mote_engine *engine,
                      const mote_session *session, const disk_extent *what)
{
    disk_parts parts;
    mote_error err;
    const uint64_t chain = disk_cache_begin_chain(w->cache);
    disk_states states = what->states;
    states.also = what->end != NULL ? disk_end_state(&what->end->head) : 0;
    const mote_status status =
        disk_session_save_parts(&parts, w->cache, scope, session, &states, chain, &err);
    if (status == MOTE_OK && what->end != NULL)
        parts_add_end(&parts, w->cache, what->end);
    if (status != MOTE_OK || parts.n == 0) {
        disk_parts_fini(&parts);
        return false;
    }
    pthread_mutex_lock(&w->lock);
    w->parts = parts;
    w->chain = chain;
    w->engine = engine;
    w->released = false;
    w->phase = SAVE_READY;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return true;
}

void disk_writer_release(disk_writer *w)
{
    pthread_mutex_lock(&w->lock);
    w->released = true;
    pthread_mutex_unlock(&w->lock);
}

void disk_writer_wait(disk_writer *w, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    const double at = (double)until.tv_nsec + seconds * 1e9;
    until.tv_sec += (time_t)(at / 1e9);
    until.tv_nsec = (long)(at - (double)(time_t)(at / 1e9) * 1e9);
    pthread_mutex_lock(&w->lock);
    if (w->phase != SAVE_IDLE)
        pthread_cond_timedwait(&w->changed, &w->lock, &until);
    pthread_mutex_unlock(&w->lock);
}

/* A busy writer is not waited for: the records of other processes can be used by the next job. */
bool disk_writer_refreshes(disk_writer *w, bool begin)
{
    pthread_mutex_lock(&w->lock);
    if (begin && w->phase == SAVE_IDLE && disk_cache_is_stale(w->cache)) {
        w->refresh = true;
        pthread_cond_broadcast(&w->changed);
    }
    const bool waits = w->refresh;
    pthread_mutex_unlock(&w->lock);
    return waits;
}
