/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefix_disk.c - the prefix cache on disk: saves idle sessions, restores prefixes of new jobs.
 *
 * Saving. The engine thread chooses an idle session with blocks that are not on disk and gives it
 * to the writer thread (disk_writer.h). It can take the session back at any time
 * (prefix_disk_release). A session that is being saved is forked instead of taken over; the shared
 * blocks are then copied on write. One session is saved at a time; the one used last comes first.
 *
 * Restoring. If the disk has a longer prefix of a job than the memory, threads of the restore
 * (disk_restore.h) fill the blocks of a new session while other jobs run. The job waits without a
 * session. A damaged or missing record ends the restore; the job then starts from the next best
 * prefix.
 *
 * Errors. The first failed write is reported once; saving pauses for RETRY_SECONDS. Jobs never fail
 * because of the disk.
 */
#include "base/mem.h"
#include "base/os.h"
#include "disk_cache/disk_restore.h"
#include "disk_cache/disk_writer.h"
#include "sched/sched_int.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    STATES_APART = 64, /* tokens between two saved states */
    MIN_END = 256,     /* tokens of a prompt with an end that is saved */
    MAX_RESTORES = 3,  /* of a job: after damaged records it starts without the disk */
    RETRY_SECONDS = 60,
    WAIT_NS = 5000000
};

struct prefix_disk {
    sched *s;
    disk_cache *cache;
    unsigned char identity[MOTE_IDENTITY_BYTES]; /* of the engine; constant */
    /* ---- engine thread ---- */
    disk_writer *writer;
    const mote_session *saving; /* NULL: none; the idle session has is_saving set */
    prompt_end *saving_end;     /* NULL: none; the same */
    double retry_at;            /* no saves before */
    uint32_t n_waiting;         /* jobs that wait for a restore or for the index */
    /* ---- mutex ---- */
    bool has_lock;
    pthread_mutex_t lock;
    uint64_t restores, restored_tokens, failed_restores;
    double restore_seconds;
};

struct prefix_restore {
    disk_restore *threads;
    double started;
};

/* disk_done_fn: wakes the engine thread. Any thread. */
static void disk_notify(void *with)
{
    sched *s = with;
    pthread_mutex_lock(&s->lock);
    s->disk_event = true;
    pthread_cond_signal(&s->work_ready);
    pthread_mutex_unlock(&s->lock);
}

/* disk_report_fn */
static void disk_warn(void *with, const char *text)
{
    const sched *s = with;
    if (s->options.warn != NULL)
        s->options.warn(s->options.warn_with, text);
}

static void disk_scope_of(const sched *s, uint64_t ns, const mote_lora_use *loras, size_t n_loras,
                          disk_scope *scope)
{
    disk_scope_init(scope, s->engine, s->engine_options.drafts, ns, disk_adapters(loras, n_loras));
}

/* ---- open and close ---- */

static mote_status disk_open(struct prefix_disk *d, const sched_options *o, mote_error *err)
{
    TRY(disk_cache_open(&d->cache, o->disk_directory, o->disk_bytes, false, o->disk_cipher, err));
    d->has_lock = pthread_mutex_init(&d->lock, NULL) == 0;
    if (!d->has_lock)
        return err_set(err, MOTE_E_MEMORY, "cannot make a mutex");
    return disk_writer_new(&d->writer, d->cache, &(disk_writer_calls){disk_notify, disk_warn, d->s},
                           err);
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
    disk_writer_free(d->writer);
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

/* The writer reads no session and no end any more. */
static void save_forget(struct prefix_disk *d)
{
    d->saving = NULL;
    if (d->saving_end != NULL)
        d->saving_end->is_saving = false;
    d->saving_end = NULL;
}

/* Returns false while the writer is busy. Clears the mark of the session it has saved; after a
 * failure it is to be saved again. */
static bool save_is_idle(sched *s)
{
    struct prefix_disk *d = s->disk;
    bool failed;
    const bool idle = disk_writer_is_idle(d->writer, &failed);
    if (idle && d->saving != NULL) {
        idle_session *e = idle_find_session(s, d->saving);
        if (e != NULL) {
            e->is_saving = false;
            e->is_unsaved |= failed;
        }
        save_forget(d);
    }
    if (failed)
        d->retry_at = os_now() + RETRY_SECONDS;
    return idle;
}

/* Gives the session to the writer. Returns false if there is nothing to write. */
static bool save_start(sched *s, idle_session *e)
{
    disk_scope scope;
    disk_part part;
    size_t n_loras;
    const mote_lora_use *loras = mote_session_loras(e->session, &n_loras);
    prompt_end *end = prompt_end_of(s, e->info.ns, e->session);
    disk_extent what = {
        .states = {.apart = STATES_APART,
                   .most = UINT64_MAX,
                   .head = e->head,
                   .tail = e->n_prompt > STATES_APART ? e->n_prompt - STATES_APART : 0}};
    disk_scope_of(s, e->info.ns, loras, n_loras, &scope);
    if (end != NULL && end->n >= MIN_END) {
        part = (disk_part){.data = end->data};
        if (disk_session_end_head(&part.head, &scope, end->tokens, end->n, end->bytes))
            what.end = &part;
    }
    e->is_unsaved = false;
    e->is_saving = disk_writer_save(s->disk->writer, &scope, s->engine, e->session, &what);
    if (!e->is_saving)
        return false;
    s->disk->saving = e->session;
    if (what.end != NULL) {
        s->disk->saving_end = end;
        end->is_saving = true;
    }
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
    disk_writer_release(d->writer);
    e->is_saving = false;
    e->is_unsaved = true; /* if it stays */
    save_forget(d);
}

void prefix_disk_release_end(sched *s, const prompt_end *end)
{
    idle_session *e = end->is_saving ? idle_find_session(s, s->disk->saving) : NULL;
    if (e != NULL)
        prefix_disk_release(s, e);
}

void prefix_disk_flush(sched *s, double seconds, bool (*goes_on)(sched *s))
{
    struct prefix_disk *d = s->disk;
    const double end = os_now() + seconds;
    if (d == NULL || s->engine == NULL)
        return;
    d->retry_at = 0; /* the last chance */
    while ((goes_on == NULL || goes_on(s)) && save_next(s) && os_now() < end)
        disk_writer_wait(d->writer, 0.1);
}

/* ---- restoring ---- */

bool prefix_disk_is_refreshing(sched *s, sched_job *job)
{
    struct prefix_disk *d = s->disk;
    if (d == NULL || job->index_checked)
        return false;
    const bool waits = disk_writer_refreshes(d->writer, !job->waits_for_index);
    d->n_waiting += (uint32_t)waits - (uint32_t)job->waits_for_index;
    job->waits_for_index = waits;
    job->index_checked = !waits;
    return waits;
}

size_t prefix_disk_find(sched *s, const sched_job *job, size_t most, size_t have)
{
    disk_scope scope;
    if (s->disk == NULL || job->n_restores >= MAX_RESTORES)
        return 0;
    disk_scope_of(s, job->options.ns, job->options.loras, job->options.n_loras, &scope);
    return disk_session_find_more(s->disk->cache, &scope, job->tokens, job->n, most, have);
}

bool prefix_disk_miss(sched *s, const sched_job *job, size_t least, sched_miss *out)
{
    disk_scope scope;
    disk_difference d;
    if (s->disk == NULL)
        return false;
    disk_scope_of(s, job->options.ns, job->options.loras, job->options.n_loras, &scope);
    disk_session_differs(s->disk->cache, &scope, job->tokens, job->n, least, &d);
    if (d.n == 0)
        return false;
    *out = (sched_miss){.at = d.at, .n = d.n, .length = d.length};
    _Static_assert((int)DISK_SHOWN_TOKENS <= (int)SCHED_MISS_TOKENS, "copied");
    memcpy(out->had, d.had, d.n * sizeof *out->had);
    out->usable = disk_session_find(s->disk->cache, &scope, job->tokens, job->n, d.at);
    return true;
}

bool prefix_disk_begin(sched *s, sched_job *job, size_t position)
{
    struct prefix_restore *r = mem_new(1, sizeof *r);
    disk_scope scope;
    mote_error err;
    if (r == NULL)
        return false;
    r->started = os_now();
    job->n_restores++;
    disk_scope_of(s, job->options.ns, job->options.loras, job->options.n_loras, &scope);
    const disk_prefix prefix = {.tokens = job->tokens,
                                .n = job->n,
                                .position = position,
                                .images = job->options.images,
                                .n_images = job->options.n_images,
                                .context = s->options.context,
                                .with_end = job->turn != NULL && job->result.prefilled <= 0,
                                .loras = job->options.loras,
                                .n_loras = job->options.n_loras};
    if (disk_restore_new(&r->threads, s->disk->cache, &scope, s->engine, &prefix, disk_notify, s,
                         &err) != MOTE_OK) {
        mem_free(r);
        return false;
    }
    s->disk->n_waiting++;
    job->restore = r;
    return true;
}

/* Ends the restore of the job. NULL: it failed or was canceled. */
static mote_session *job_end_restore(sched *s, sched_job *job)
{
    mote_session *session = disk_restore_end(job->restore->threads);
    s->disk->n_waiting--;
    mem_free(job->restore);
    job->restore = NULL;
    return session;
}

bool prefix_disk_poll(sched *s, sched_job *job, mote_session **out)
{
    const struct prefix_restore *r = job->restore;
    struct prefix_disk *d = s->disk;
    *out = NULL;
    if (disk_restore_is_running(r->threads))
        return false;
    const double seconds = os_now() - r->started;
    *out = job_end_restore(s, job);
    const bool ok = *out != NULL;
    job->result.restore_wait += seconds;
    pthread_mutex_lock(&d->lock);
    d->restores += ok;
    d->failed_restores += !ok;
    d->restored_tokens += ok ? mote_session_length(*out) : 0;
    d->restore_seconds += ok ? seconds : 0;
    pthread_mutex_unlock(&d->lock);
    return true;
}

bool prefix_disk_cancel(sched *s, sched_job *job)
{
    if (job->waits_for_index) {
        s->disk->n_waiting--;
        job->waits_for_index = false;
    }
    if (job->restore == NULL)
        return false;
    disk_restore_cancel(job->restore->threads);
    job_end_restore(s, job);
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
