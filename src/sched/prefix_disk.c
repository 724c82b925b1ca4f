/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefix_disk.c - the prefix cache on disk: saves idle sessions, restores prefixes of new jobs.
 *
 * Saving. The engine thread chooses an idle session with blocks that are not on disk and gives their
 * addresses to the writer thread. The writer copies small pieces under the mutex of this file, so
 * the engine thread can take the session back at any time (prefix_disk_release) and waits for one
 * copy at most. A session that is being saved is forked instead of taken over; the shared blocks
 * are then copied on write. One session is saved at a time; the one used last comes first.
 *
 * Restoring. If the disk has a longer prefix of a job than the memory, the engine thread prepares a
 * session, and threads of the restore fill its blocks while other jobs run. The job waits without a
 * session. A damaged or missing record ends the restore; the job then starts from the next best
 * prefix.
 *
 * Errors. The first failed write is reported once; saving pauses for RETRY_SECONDS. Jobs never fail
 * because of the disk.
 */
#include "base/mem.h"
#include "base/os.h"
#include "disk_cache/disk_session.h"
#include "sched/sched_int.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    MIN_GAIN = 64,     /* tokens that a restore must save */
    GAIN_PART = 64,    /* and this part of the restored tokens */
    STATES_APART = 64, /* tokens between two saved states */
    MAX_RESTORES = 3,  /* of a job: after damaged records it starts without the disk */
    MAX_THREADS = 4,   /* of a restore */
    PARTS_PER_THREAD = 8,
    RETRY_SECONDS = 60,
    WAIT_NS = 5000000,
    FLUSH_POLL_NS = 100000000
};

typedef enum save_phase { SAVE_IDLE, SAVE_READY, SAVE_RUNNING } save_phase;

struct prefix_disk {
    sched *s;
    disk_cache *cache;
    pthread_t writer;
    bool has_writer, has_lock, has_changed;
    unsigned char identity[MOTE_IDENTITY_BYTES]; /* of the engine; constant */
    /* ---- engine thread ---- */
    const mote_session *saving; /* NULL: none; the idle session has is_saving set */
    double retry_at;            /* no saves before */
    uint32_t n_waiting;         /* jobs that wait for a restore or for the index */
    /* ---- mutex ---- */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop, released; /* released: the session must not be read any more */
    save_phase phase;
    bool refresh;              /* the writer is to read the directory again */
    const mote_engine *engine; /* of the session that is saved */
    bool failed;               /* the last save */
    bool warned;
    disk_parts parts; /* of the writer while it runs */
    uint64_t chain;
    uint64_t restores, restored_tokens, failed_restores;
    double restore_seconds;
};

struct prefix_restore {
    sched *s;
    disk_cache *cache;
    mote_session *session;
    disk_parts parts;
    size_t position;
    double started;
    pthread_t threads[MAX_THREADS];
    uint32_t n_threads;
    atomic_size_t next;  /* part */
    atomic_uint running; /* threads */
    atomic_bool cancel;  /* also after a failure */
};

/* Wakes the engine thread. Any thread. */
static void disk_notify(sched *s)
{
    pthread_mutex_lock(&s->lock);
    s->disk_event = true;
    pthread_cond_signal(&s->work_ready);
    pthread_mutex_unlock(&s->lock);
}

static void disk_warn(const sched *s, const char *text)
{
    if (s->options.warn != NULL)
        s->options.warn(s->options.warn_with, text);
}

static void disk_scope_of(const sched *s, uint64_t ns, disk_scope *scope)
{
    disk_scope_init(scope, s->engine, s->engine_options.drafts, ns, 0);
}

/* ---- the writer thread ---- */

typedef struct part_source {
    struct prefix_disk *d;
    const disk_part *part;
    const mote_engine *engine;
    unsigned char *copy; /* of a page that is partly used */
} part_source;

/* disk_source_fn. The mutex is held for one piece, or for one page that is partly used. */
static bool source_read(void *with, void *to, uint64_t offset, size_t bytes)
{
    part_source *from = with;
    const disk_part *part = from->part;
    pthread_mutex_lock(&from->d->lock);
    bool ok = !from->d->released;
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
    pthread_mutex_unlock(&from->d->lock);
    return ok;
}

static mote_status writer_save(struct prefix_disk *d, const mote_engine *engine, mote_error *err)
{
    mote_status status = MOTE_OK;
    for (size_t i = 0; i < d->parts.n && status == MOTE_OK; i++) {
        disk_part *part = &d->parts.parts[i];
        part_source from = {.d = d, .part = part, .engine = engine};
        status = disk_cache_put(d->cache, &part->head, d->chain, source_read, &from, err);
        mem_free(from.copy);
    }
    disk_cache_end_chain(d->cache);
    return status;
}

/* Reports the first error of the disk. */
static void writer_report(struct prefix_disk *d, mote_status status, const mote_error *err)
{
    char text[sizeof err->text + 64];
    pthread_mutex_lock(&d->lock);
    const bool bad = status != MOTE_OK && status != MOTE_E_CANCELED && status != MOTE_E_FULL;
    const bool first = bad && !d->warned;
    d->warned |= bad;
    d->failed = bad;
    pthread_mutex_unlock(&d->lock);
    if (!first)
        return;
    snprintf(text, sizeof text, "disk cache: %s; prefixes stay in memory only", err->text);
    disk_warn(d->s, text);
}

/* With the mutex, which it releases meanwhile. */
static void writer_refresh(struct prefix_disk *d)
{
    mote_error ignored;
    pthread_mutex_unlock(&d->lock);
    disk_cache_refresh(d->cache, &ignored);
    pthread_mutex_lock(&d->lock);
    d->refresh = false;
    pthread_mutex_unlock(&d->lock);
    disk_notify(d->s);
    pthread_mutex_lock(&d->lock);
}

static void *writer_run(void *with)
{
    struct prefix_disk *d = with;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        while (d->phase != SAVE_READY && !d->refresh && !d->stop)
            pthread_cond_wait(&d->changed, &d->lock);
        if (d->stop && d->phase != SAVE_READY)
            break;
        if (d->refresh) {
            writer_refresh(d);
            continue;
        }
        d->phase = SAVE_RUNNING;
        const mote_engine *engine = d->engine; /* not freed before `released` is set */
        pthread_mutex_unlock(&d->lock);
        mote_error err = {0};
        const mote_status status = writer_save(d, engine, &err);
        writer_report(d, status, &err);
        disk_parts_fini(&d->parts);
        pthread_mutex_lock(&d->lock);
        d->phase = SAVE_IDLE;
        pthread_cond_broadcast(&d->changed);
        pthread_mutex_unlock(&d->lock);
        disk_notify(d->s);
        pthread_mutex_lock(&d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* ---- open and close ---- */

static mote_status disk_open(struct prefix_disk *d, const sched_options *o, mote_error *err)
{
    TRY(disk_cache_open(&d->cache, o->disk_directory, o->disk_bytes, false, err));
    d->has_lock = pthread_mutex_init(&d->lock, NULL) == 0;
    d->has_changed = pthread_cond_init(&d->changed, NULL) == 0;
    d->has_writer =
        d->has_lock && d->has_changed && pthread_create(&d->writer, NULL, writer_run, d) == 0;
    return d->has_writer ? MOTE_OK : err_set(err, MOTE_E_MEMORY, "cannot start a thread");
}

void prefix_disk_open(sched *s)
{
    char text[sizeof(mote_error) + 64];
    mote_error err = {0};
    if (s->options.disk_directory == NULL || s->options.disk_bytes == 0)
        return;
    s->disk = mem_new(1, sizeof *s->disk);
    if (s->disk == NULL)
        return;
    s->disk->s = s;
    mote_engine_identity(s->engine, s->disk->identity);
    if (disk_open(s->disk, &s->options, &err) == MOTE_OK)
        return;
    snprintf(text, sizeof text, "disk cache off: %s", err.text);
    disk_warn(s, text);
    prefix_disk_close(s);
}

void prefix_disk_close(sched *s)
{
    struct prefix_disk *d = s->disk;
    if (d == NULL)
        return;
    if (d->has_writer) {
        pthread_mutex_lock(&d->lock);
        d->stop = true;
        pthread_cond_broadcast(&d->changed);
        pthread_mutex_unlock(&d->lock);
        pthread_join(d->writer, NULL);
    }
    if (d->has_changed)
        pthread_cond_destroy(&d->changed);
    if (d->has_lock)
        pthread_mutex_destroy(&d->lock);
    disk_cache_close(d->cache);
    mem_free(d);
    s->disk = NULL;
}

/* ---- saving; engine thread ---- */

static idle_session *idle_find_session(sched *s, const mote_session *session)
{
    for (uint32_t i = 0; i < s->n_idle; i++)
        if (s->idle[i].session == session)
            return &s->idle[i];
    return NULL;
}

/* The session that was used last and has not been saved since. */
static idle_session *idle_next_unsaved(sched *s)
{
    idle_session *found = NULL;
    for (uint32_t i = 0; i < s->n_idle; i++)
        if (s->idle[i].is_unsaved && !s->idle[i].dropped &&
            (found == NULL || s->idle[i].last_used > found->last_used))
            found = &s->idle[i];
    return found;
}

/* Returns false while the writer is busy. Clears the mark of the session it has saved; after a failure
 * it is to be saved again. */
static bool save_is_idle(sched *s)
{
    struct prefix_disk *d = s->disk;
    pthread_mutex_lock(&d->lock);
    const bool idle = d->phase == SAVE_IDLE;
    const bool failed = idle && d->failed;
    d->failed = idle ? false : d->failed;
    pthread_mutex_unlock(&d->lock);
    if (idle && d->saving != NULL) {
        idle_session *e = idle_find_session(s, d->saving);
        if (e != NULL) {
            e->is_saving = false;
            e->is_unsaved |= failed;
        }
        d->saving = NULL;
    }
    if (failed)
        d->retry_at = os_now() + RETRY_SECONDS;
    return idle;
}

/* Gives the session to the writer. Returns false if there is nothing to write. */
static bool save_start(sched *s, idle_session *e)
{
    struct prefix_disk *d = s->disk;
    disk_scope scope;
    disk_parts parts;
    mote_error err;
    disk_scope_of(s, e->info.ns, &scope);
    const uint64_t chain = disk_cache_begin_chain(d->cache);
    e->is_unsaved = false;
    if (disk_session_save_parts(&parts, d->cache, &scope, e->session, STATES_APART, chain, &err) !=
            MOTE_OK ||
        parts.n == 0) {
        disk_parts_fini(&parts);
        return false;
    }
    e->is_saving = true;
    d->saving = e->session;
    pthread_mutex_lock(&d->lock);
    d->parts = parts;
    d->chain = chain;
    d->engine = s->engine;
    d->released = false;
    d->phase = SAVE_READY;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    return true;
}

/* Returns false if nothing is being written, and nothing can be. */
static bool save_next(sched *s)
{
    if (!save_is_idle(s))
        return true;
    if (os_now() < s->disk->retry_at)
        return false;
    for (idle_session *e = idle_next_unsaved(s); e != NULL; e = idle_next_unsaved(s))
        if (save_start(s, e))
            return true;
    return false;
}

void prefix_disk_save(sched *s)
{
    if (s->disk != NULL && s->engine != NULL)
        save_next(s);
}

void prefix_disk_release(sched *s, idle_session *e)
{
    struct prefix_disk *d = s->disk;
    if (!e->is_saving)
        return;
    pthread_mutex_lock(&d->lock);
    d->released = true;
    pthread_mutex_unlock(&d->lock);
    e->is_saving = false;
    e->is_unsaved = true; /* if it stays */
    d->saving = NULL;
}

void prefix_disk_flush(sched *s, double seconds, bool (*goes_on)(sched *s))
{
    struct prefix_disk *d = s->disk;
    const double end = os_now() + seconds;
    if (d == NULL || s->engine == NULL)
        return;
    d->retry_at = 0; /* the last chance */
    while ((goes_on == NULL || goes_on(s)) && save_next(s) && os_now() < end) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += FLUSH_POLL_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&d->lock);
        if (d->phase != SAVE_IDLE)
            pthread_cond_timedwait(&d->changed, &d->lock, &until);
        pthread_mutex_unlock(&d->lock);
    }
}

/* ---- restoring ---- */

static void *restore_run(void *with)
{
    struct prefix_restore *r = with;
    mote_error err;
    for (;;) {
        const size_t i = atomic_fetch_add(&r->next, 1);
        if (i >= r->parts.n || atomic_load(&r->cancel))
            break;
        if (disk_cache_get(r->cache, &r->parts.parts[i].head, r->parts.parts[i].data, &r->cancel,
                           &err) != MOTE_OK)
            atomic_store(&r->cancel, true);
    }
    sched *s = r->s; /* the last thread may not use r any more */
    if (atomic_fetch_sub(&r->running, 1) == 1)
        disk_notify(s);
    return NULL;
}

/* Joins the threads and frees everything but the session. */
static void restore_end(struct prefix_restore *r)
{
    for (uint32_t i = 0; i < r->n_threads; i++)
        pthread_join(r->threads[i], NULL);
    r->s->disk->n_waiting--;
    disk_parts_fini(&r->parts);
    mem_free(r);
}

static bool restore_start_threads(struct prefix_restore *r)
{
    size_t wanted = r->parts.n / PARTS_PER_THREAD + 1;
    wanted = wanted < MAX_THREADS ? wanted : MAX_THREADS;
    atomic_store(&r->running, (unsigned)wanted);
    for (size_t i = 0; i < wanted; i++) {
        if (pthread_create(&r->threads[r->n_threads], NULL, restore_run, r) != 0) {
            atomic_fetch_sub(&r->running, (unsigned)(wanted - i));
            break;
        }
        r->n_threads++;
    }
    return r->n_threads > 0;
}

/* A busy writer is not waited for: the records of other processes can be used by the next job. */
bool prefix_disk_is_refreshing(sched *s, sched_job *job)
{
    struct prefix_disk *d = s->disk;
    if (d == NULL || job->index_checked)
        return false;
    pthread_mutex_lock(&d->lock);
    if (!job->waits_for_index && d->phase == SAVE_IDLE && disk_cache_is_stale(d->cache)) {
        d->refresh = true;
        pthread_cond_broadcast(&d->changed);
    }
    const bool waits = d->refresh;
    pthread_mutex_unlock(&d->lock);
    d->n_waiting += (uint32_t)waits - (uint32_t)job->waits_for_index;
    job->waits_for_index = waits;
    job->index_checked = !waits;
    return waits;
}

size_t prefix_disk_find(sched *s, const sched_job *job, size_t most, size_t have)
{
    disk_scope scope;
    if (s->disk == NULL || job->n_restores >= MAX_RESTORES || most < have + MIN_GAIN)
        return 0;
    disk_scope_of(s, job->options.ns, &scope);
    const size_t at = disk_session_find(s->disk->cache, &scope, job->tokens, job->n, most);
    return at >= have + MIN_GAIN && (at - have) * GAIN_PART >= at ? at : 0;
}

bool prefix_disk_begin(sched *s, sched_job *job, size_t position)
{
    struct prefix_restore *r = mem_new(1, sizeof *r);
    disk_scope scope;
    mote_error err;
    if (r == NULL)
        return false;
    disk_scope_of(s, job->options.ns, &scope);
    r->s = s;
    r->cache = s->disk->cache;
    r->position = position;
    r->started = os_now();
    job->n_restores++;
    const mote_work prefix = {.tokens = job->tokens,
                              .n = position,
                              .images = job->options.images,
                              .n_images = job->options.n_images};
    s->disk->n_waiting++;
    if (mote_session_prepare(&r->session, s->engine,
                             &(mote_session_options){.context = s->options.context}, &prefix,
                             &err) == MOTE_OK &&
        disk_session_restore_parts(&r->parts, &scope, r->session, job->tokens, job->n, &err) ==
            MOTE_OK &&
        restore_start_threads(r)) {
        job->restore = r;
        return true;
    }
    mote_session_free(r->session);
    restore_end(r);
    return false;
}

bool prefix_disk_poll(sched *s, sched_job *job, mote_session **out, size_t *position)
{
    struct prefix_restore *r = job->restore;
    struct prefix_disk *d = s->disk;
    *out = NULL;
    if (atomic_load(&r->running) > 0)
        return false;
    const bool ok = !atomic_load(&r->cancel);
    job->result.restore_wait += os_now() - r->started;
    pthread_mutex_lock(&d->lock);
    d->restores += ok;
    d->failed_restores += !ok;
    d->restored_tokens += ok ? r->position : 0;
    d->restore_seconds += ok ? os_now() - r->started : 0;
    pthread_mutex_unlock(&d->lock);
    if (ok) {
        mote_session_adopt(r->session);
        disk_cache_use(r->cache, r->parts.parts[r->parts.n - 1].head.key, true);
        *out = r->session;
        *position = r->position;
    } else {
        mote_session_free(r->session);
    }
    job->restore = NULL;
    restore_end(r);
    return true;
}

bool prefix_disk_cancel(sched *s, sched_job *job)
{
    struct prefix_restore *r = job->restore;
    if (job->waits_for_index) {
        s->disk->n_waiting--;
        job->waits_for_index = false;
    }
    if (r == NULL)
        return false;
    atomic_store(&r->cancel, true);
    job->restore = NULL;
    mote_session *session = r->session;
    restore_end(r); /* before the session: its threads write to it */
    mote_session_free(session);
    return true;
}

void prefix_disk_wait(sched *s)
{
    struct timespec until;
    if (s->disk == NULL || s->disk->n_waiting == 0)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += WAIT_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&s->lock);
    if (!s->disk_event && !s->stop)
        pthread_cond_timedwait(&s->work_ready, &s->lock, &until);
    s->disk_event = false;
    pthread_mutex_unlock(&s->lock);
}

/* ---- any thread ---- */

bool sched_disk_identity(const sched *s, unsigned char *out)
{
    if (s->disk != NULL)
        memcpy(out, s->disk->identity, sizeof s->disk->identity);
    return s->disk != NULL;
}

bool sched_read_disk_stats(sched *s, sched_disk_stats *out)
{
    struct prefix_disk *d = s->disk;
    *out = (sched_disk_stats){0};
    if (d == NULL)
        return false;
    disk_stats stats;
    disk_cache_read_stats(d->cache, &stats);
    pthread_mutex_lock(&d->lock);
    *out = (sched_disk_stats){.bytes = stats.bytes,
                              .cap = stats.cap,
                              .records = stats.pages + stats.states,
                              .written_records = stats.own_written,
                              .written_bytes = stats.own_write_bytes,
                              .read_bytes = stats.read_bytes,
                              .damaged = stats.damaged,
                              .restores = d->restores,
                              .restored_tokens = d->restored_tokens,
                              .failed_restores = d->failed_restores,
                              .restore_seconds = d->restore_seconds};
    pthread_mutex_unlock(&d->lock);
    return true;
}
