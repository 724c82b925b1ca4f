/* SPDX-License-Identifier: Apache-2.0 */
/* disk_restore.c - see disk_restore.h. */
#include "disk_cache/disk_restore.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MAX_THREADS = 4, PARTS_PER_THREAD = 8 };

struct disk_restore {
    disk_cache *cache;
    mote_session *session;
    disk_parts parts;
    disk_prefix prefix;
    disk_part end; /* of the prompt; data NULL: none */
    disk_done_fn *done;
    void *with;
    pthread_t threads[MAX_THREADS];
    uint32_t n_threads;
    atomic_size_t next;  /* part */
    atomic_uint running; /* threads */
    atomic_bool cancel;  /* also after a failure */
    atomic_bool end_lost;
};

/* The end comes after the parts. Without it there is still the session. */
static void *restore_run(void *argument)
{
    disk_restore *r = argument;
    mote_error err;
    for (;;) {
        const size_t i = atomic_fetch_add(&r->next, 1);
        const bool is_end = i == r->parts.n && r->end.data != NULL;
        if ((i >= r->parts.n && !is_end) || atomic_load(&r->cancel))
            break;
        const disk_part *part = is_end ? &r->end : &r->parts.parts[i];
        if (disk_cache_get(r->cache, &part->head, part->data, &r->cancel, &err) != MOTE_OK)
            atomic_store(is_end ? &r->end_lost : &r->cancel, true);
    }
    disk_done_fn *done = r->done; /* the last thread may not use r any more */
    void *with = r->with;
    if (atomic_fetch_sub(&r->running, 1) == 1 && done != NULL)
        done(with);
    return NULL;
}

static bool restore_start_threads(disk_restore *r)
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

static void restore_add_end(disk_restore *r, const disk_scope *scope)
{
    const disk_prefix *p = &r->prefix;
    const size_t bytes = mote_session_end_bytes(r->session, p->n);
    if (p->with_end && disk_session_end_head(&r->end.head, scope, p->tokens, p->n, bytes) &&
        r->end.head.n_tokens == p->n - p->position && disk_cache_has(r->cache, r->end.head.key))
        r->end.data = mem_new(1, bytes);
}

static mote_status restore_start(disk_restore *r, const disk_scope *scope, mote_engine *engine,
                                 const disk_prefix *prefix, mote_error *err)
{
    const mote_work work = {.tokens = prefix->tokens,
                            .n = prefix->position,
                            .images = (const struct mote_image *const *)prefix->images,
                            .n_images = prefix->n_images};
    TRY(mote_session_prepare(&r->session, engine,
                             &(mote_session_options){.context = prefix->context,
                                                     .loras = prefix->loras,
                                                     .n_loras = prefix->n_loras},
                             &work, err));
    TRY(disk_session_restore_parts(&r->parts, r->cache, scope, r->session, prefix->tokens,
                                   prefix->n, err));
    restore_add_end(r, scope);
    return restore_start_threads(r) ? MOTE_OK
                                    : err_set(err, MOTE_E_MEMORY, "cannot start a thread");
}

mote_status disk_restore_new(disk_restore **out, disk_cache *cache, const disk_scope *scope,
                             mote_engine *engine, const disk_prefix *prefix, disk_done_fn *done,
                             void *with, mote_error *err)
{
    *out = NULL;
    disk_restore *r = mem_new(1, sizeof *r);
    if (r == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for the disk cache");
    r->cache = cache;
    r->prefix = *prefix;
    r->done = done;
    r->with = with;
    const mote_status status = restore_start(r, scope, engine, prefix, err);
    if (status != MOTE_OK) {
        disk_restore_cancel(r);
        disk_restore_end(r);
        return status;
    }
    *out = r;
    return MOTE_OK;
}

bool disk_restore_is_running(const disk_restore *r)
{
    return atomic_load(&r->running) > 0;
}

void disk_restore_cancel(disk_restore *r)
{
    atomic_store(&r->cancel, true);
}

/* Completes the session, if the end was read. */
static void restore_use_end(disk_restore *r)
{
    const disk_prefix *p = &r->prefix;
    mote_error ignored;
    if (r->end.data != NULL && !atomic_load(&r->end_lost) &&
        mote_session_write_end(r->session, p->tokens + p->position, p->n - p->position, r->end.data,
                               &ignored) == MOTE_OK)
        disk_cache_use(r->cache, r->end.head.key, true);
}

mote_session *disk_restore_end(disk_restore *r)
{
    for (uint32_t i = 0; i < r->n_threads; i++)
        pthread_join(r->threads[i], NULL);
    mote_session *session = r->session;
    if (atomic_load(&r->cancel)) {
        mote_session_free(session); /* after the threads, which write to it */
        session = NULL;
    } else {
        mote_session_adopt(session);
        disk_cache_use(r->cache, r->parts.parts[r->parts.n - 1].head.key, true);
        restore_use_end(r);
    }
    disk_parts_fini(&r->parts);
    mem_free(r->end.data);
    mem_free(r);
    return session;
}
