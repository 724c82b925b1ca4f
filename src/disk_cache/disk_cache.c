/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_cache.c - see disk_cache.h.
 *
 * Three mutexes: `puts` is held while a record is written; `files` by the thread that has the lock
 * of the directory, also while it uses files; `lock` protects index and stats and is held for
 * memory accesses only. In this order.
 */
#include "disk_cache/disk_cache.h"

#include "base/mem.h"
#include "base/os.h"
#include "disk_cache/answer_file.h"
#include "disk_cache/disk_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct disk_cache {
    pthread_mutex_t puts;
    pthread_mutex_t files;
    disk_directory directory; /* files */
    bool read_only;
    uint64_t cap;
    const disk_cipher *cipher;       /* NULL: none */
    atomic_uint_fast64_t generation; /* of the index; changed under `files` */

    pthread_mutex_t lock;
    disk_index index;  /* lock */
    disk_stats stats;  /* lock */
    uint64_t n_chains; /* lock */
};

/* ---- scan ---- */

static bool scan_known(void *with, disk_key key, uint64_t bytes)
{
    disk_cache *c = with;
    pthread_mutex_lock(&c->lock);
    disk_entry *e = disk_index_find(&c->index, key);
    const bool same = e != NULL && e->bytes == disk_whole_blocks(bytes);
    if (same)
        e->seen = true;
    pthread_mutex_unlock(&c->lock);
    return same;
}

static void scan_found(void *with, const disk_entry *e)
{
    disk_cache *c = with;
    disk_entry seen = *e;
    seen.seen = true;
    pthread_mutex_lock(&c->lock);
    disk_index_remove(&c->index, e->key);
    disk_index_add(&c->index, &seen); /* without memory it is a record that is not found */
    pthread_mutex_unlock(&c->lock);
}

/* Under `files`, with the lock of the directory unless it is read only. */
static mote_status cache_scan(disk_cache *c, mote_error *err)
{
    const disk_scan scan = {c->cipher, scan_known, scan_found, c};
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < c->index.n; i++)
        c->index.entries[i].seen = false;
    pthread_mutex_unlock(&c->lock);
    TRY(disk_directory_scan(&c->directory, &scan, err));
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = c->index.n; i > 0; i--)
        if (!c->index.entries[i - 1].seen)
            disk_index_remove(&c->index, c->index.entries[i - 1].key);
    pthread_mutex_unlock(&c->lock);
    atomic_store(&c->generation, c->directory.counters.generation);
    return MOTE_OK;
}

/* Takes `files` and the lock of the directory, and brings the index up to date. After a failure
 * neither is held. */
static mote_status cache_enter(disk_cache *c, mote_error *err)
{
    if (c->read_only)
        return err_set(err, MOTE_E_IO, "the disk cache is opened for reading only");
    pthread_mutex_lock(&c->files);
    mote_status status = disk_directory_lock(&c->directory, err);
    if (status == MOTE_OK && c->directory.counters.generation != atomic_load(&c->generation)) {
        status = cache_scan(c, err);
        if (status != MOTE_OK)
            disk_directory_unlock(&c->directory, false);
    }
    if (status != MOTE_OK)
        pthread_mutex_unlock(&c->files);
    return status;
}

static void cache_leave(disk_cache *c, bool changed)
{
    disk_directory_unlock(&c->directory, changed);
    atomic_store(&c->generation, c->directory.counters.generation);
    pthread_mutex_unlock(&c->files);
}

static bool cache_make_room(disk_cache *c, uint64_t more, uint64_t chain);

/* ---- open ---- */

/* Under `files` and the lock: the cap may be lower than when the records were written. Returns true
 * if something was removed. */
static bool cache_shrink(disk_cache *c)
{
    const uint64_t no_chain = UINT64_MAX;
    pthread_mutex_lock(&c->lock);
    const bool fits = c->index.bytes <= c->cap;
    pthread_mutex_unlock(&c->lock);
    if (fits)
        return false;
    disk_directory_begin_change(&c->directory);
    cache_make_room(c, 0, no_chain);
    return true;
}

mote_status disk_cache_open(disk_cache **out, const char *directory, uint64_t cap, bool read_only,
                            const disk_cipher *cipher, mote_error *err)
{
    *out = NULL;
    disk_cache *c = mem_new(1, sizeof *c);
    if (c == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for the disk cache");
    pthread_mutex_init(&c->puts, NULL);
    pthread_mutex_init(&c->files, NULL);
    pthread_mutex_init(&c->lock, NULL);
    c->cap = cap;
    c->read_only = read_only;
    c->cipher = cipher;
    mote_status status = disk_directory_open(&c->directory, directory, read_only, err);
    if (status == MOTE_OK && read_only)
        status = cache_scan(c, err);
    if (status == MOTE_OK && !read_only) {
        status = cache_enter(c, err); /* a new object has generation 0: it scans */
        if (status == MOTE_OK)
            cache_leave(c, cache_shrink(c));
    }
    if (status != MOTE_OK) {
        disk_cache_close(c);
        return status;
    }
    *out = c;
    return MOTE_OK;
}

void disk_cache_close(disk_cache *c)
{
    if (c == NULL)
        return;
    disk_directory_close(&c->directory);
    disk_index_fini(&c->index);
    pthread_mutex_destroy(&c->puts);
    pthread_mutex_destroy(&c->files);
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

bool disk_cache_is_stale(const disk_cache *c)
{
    disk_counters now;
    disk_directory_peek(&c->directory, &now);
    return now.generation != atomic_load(&c->generation);
}

mote_status disk_cache_refresh(disk_cache *c, mote_error *err)
{
    if (!disk_cache_is_stale(c))
        return MOTE_OK;
    TRY(cache_enter(c, err));
    cache_leave(c, false);
    return MOTE_OK;
}

uint64_t disk_cache_cap(const disk_cache *c)
{
    return c->cap;
}

/* ---- the index ---- */

/* Under `lock`: a record that can be used. */
static disk_entry *cache_find(const disk_cache *c, disk_key key)
{
    disk_entry *e = disk_index_find(&c->index, key);
    return e != NULL && !e->is_foreign ? e : NULL;
}

bool disk_cache_has(disk_cache *c, disk_key key)
{
    pthread_mutex_lock(&c->lock);
    const bool has = cache_find(c, key) != NULL;
    pthread_mutex_unlock(&c->lock);
    return has;
}

bool disk_cache_has_children(disk_cache *c, disk_key key)
{
    bool has = false;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < c->index.n && !has; i++)
        has = disk_key_equal(c->index.entries[i].parent, key);
    pthread_mutex_unlock(&c->lock);
    return has;
}

void disk_cache_use(disk_cache *c, disk_key key, bool hit)
{
    pthread_mutex_lock(&c->lock);
    disk_entry *e = disk_index_find(&c->index, key);
    if (e != NULL) {
        e->used = disk_time();
        e->hits += hit;
    }
    pthread_mutex_unlock(&c->lock);
}

uint64_t disk_cache_begin_chain(disk_cache *c)
{
    pthread_mutex_lock(&c->lock);
    const uint64_t chain = ++c->n_chains;
    pthread_mutex_unlock(&c->lock);
    return chain;
}

bool disk_cache_keep(disk_cache *c, disk_key key, uint64_t chain)
{
    pthread_mutex_lock(&c->lock);
    disk_entry *e = cache_find(c, key);
    if (e != NULL) {
        e->chain = chain;
        e->used = disk_time();
    }
    pthread_mutex_unlock(&c->lock);
    return e != NULL;
}

/* ---- remove ---- */

/* Under `files` and the lock of the directory: removes the file and its entry. */
static void cache_drop(disk_cache *c, disk_key key, disk_kind kind)
{
    char name[DISK_NAME_BYTES];
    if (disk_file_name(name, c->cipher, key, kind))
        unlinkat(c->directory.fd, name, 0);
    pthread_mutex_lock(&c->lock);
    disk_index_remove(&c->index, key);
    pthread_mutex_unlock(&c->lock);
}

/* The kind of the record; false: none has the key. */
static bool cache_kind_of(disk_cache *c, disk_key key, disk_kind *kind)
{
    pthread_mutex_lock(&c->lock);
    const disk_entry *e = disk_index_find(&c->index, key);
    if (e != NULL)
        *kind = e->kind;
    pthread_mutex_unlock(&c->lock);
    return e != NULL;
}

mote_status disk_cache_remove(disk_cache *c, disk_key key, mote_error *err)
{
    disk_kind kind;
    TRY(cache_enter(c, err));
    const bool found = cache_kind_of(c, key, &kind);
    if (found) {
        disk_directory_begin_change(&c->directory);
        cache_drop(c, key, kind);
    }
    cache_leave(c, found);
    return found ? MOTE_OK : err_set(err, MOTE_E_ARG, "no such record");
}

mote_status disk_cache_remove_all(disk_cache *c, mote_error *err)
{
    TRY(cache_enter(c, err));
    disk_directory_begin_change(&c->directory);
    pthread_mutex_lock(&c->lock);
    while (c->index.n > 0) {
        const disk_entry e = c->index.entries[c->index.n - 1];
        pthread_mutex_unlock(&c->lock);
        cache_drop(c, e.key, e.kind);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    unlinkat(c->directory.fd, ANSWER_FILE_NAME, 0);
    cache_leave(c, true);
    return MOTE_OK;
}

/* ---- put ---- */

/* Under `files` and the lock: evicts until `more` bytes fit. False: they do not. */
static bool cache_make_room(disk_cache *c, uint64_t more, uint64_t chain)
{
    const uint64_t others = c->directory.temporary_bytes + 4096; /* the file `lock` */
    for (;;) {
        pthread_mutex_lock(&c->lock);
        const bool fits = c->index.bytes + others + more <= c->cap;
        const disk_entry *least = fits ? NULL : disk_index_least(&c->index, chain, disk_time());
        const disk_entry victim = least != NULL ? *least : (disk_entry){0};
        pthread_mutex_unlock(&c->lock);
        if (fits || least == NULL)
            return fits;
        cache_drop(c, victim.key, victim.kind);
        c->directory.counters.evicted++;
    }
}

static mote_status put_failed(mote_error *err)
{
    return err_set(err, MOTE_E_IO, "cannot write to the disk cache: %s", strerror(errno));
}

/* Reserves the space of the record with a temporary file. *fd -1: the record exists. */
static mote_status put_begin(disk_cache *c, const disk_head *head, uint64_t chain, int *fd,
                             mote_error *err)
{
    const bool sealed = c->cipher != NULL;
    const uint64_t bytes = disk_record_bytes(head->payload_bytes, sealed);
    mote_status status = MOTE_OK;
    *fd = -1;
    TRY(cache_enter(c, err));
    const bool exists = disk_cache_keep(c, head->key, chain);
    if (!exists && !disk_directory_begin_change(&c->directory)) {
        status = put_failed(err);
    } else if (!exists && !cache_make_room(c, bytes, chain)) {
        status = err_set(err, MOTE_E_FULL, "%llu bytes do not fit into the disk cache of %llu",
                         (unsigned long long)bytes, (unsigned long long)c->cap);
    } else if (!exists) {
        *fd = disk_directory_new_file(&c->directory,
                                      disk_record_file_bytes(head->payload_bytes, sealed));
        if (*fd < 0)
            status = put_failed(err);
    }
    cache_leave(c, !exists);
    return status;
}

/* Under `files` and the lock. */
static void put_count(disk_cache *c, const disk_head *head, uint64_t chain)
{
    disk_entry e = {.key = head->key,
                    .parent = head->parent,
                    .binding = head->binding,
                    .kind = (disk_kind)head->kind,
                    .ns = head->ns,
                    .position = head->position,
                    .bytes = disk_record_bytes(head->payload_bytes, c->cipher != NULL),
                    .created = head->created,
                    .used = head->created,
                    .chain = chain,
                    .is_sealed = c->cipher != NULL};
    memcpy(e.label, head->label, sizeof e.label);
    c->directory.counters.written++;
    c->directory.counters.write_bytes += e.bytes;
    pthread_mutex_lock(&c->lock);
    disk_index_remove(&c->index, e.key);
    disk_index_add(&c->index, &e);
    c->stats.own_written++;
    c->stats.own_write_bytes += e.bytes;
    pthread_mutex_unlock(&c->lock);
}

/* Gives the complete file its name, or removes it. */
static mote_status put_end(disk_cache *c, const disk_head *head, uint64_t chain, mote_status status,
                           mote_error *err)
{
    char name[DISK_NAME_BYTES];
    mote_error why;
    if (!disk_file_name(name, c->cipher, head->key, (disk_kind)head->kind) && status == MOTE_OK)
        status = err_set(err, MOTE_E_IO, "cannot encrypt the name of a record");
    if (cache_enter(c, &why) != MOTE_OK) { /* the next scan finds the file without a writer */
        c->directory.own[0] = '\0';
        return status != MOTE_OK ? status : err_set(err, MOTE_E_IO, "%s", why.text);
    }
    disk_directory_begin_change(&c->directory);
    const bool exists = disk_cache_keep(c, head->key, chain); /* another process was faster */
    const bool wanted = status == MOTE_OK && !exists;
    const bool named = disk_directory_end_file(&c->directory, wanted ? name : NULL);
    if (wanted && !named)
        status = put_failed(err);
    if (wanted && named)
        put_count(c, head, chain);
    cache_leave(c, true);
    return status;
}

mote_status disk_cache_put(disk_cache *c, disk_head *head, uint64_t chain, disk_source_fn *source,
                           void *with, mote_error *err)
{
    int fd;
    head->created = disk_time();
    pthread_mutex_lock(&c->puts);
    mote_status status = put_begin(c, head, chain, &fd, err);
    if (status == MOTE_OK && fd >= 0) {
        status = disk_record_write(fd, c->cipher, head, source, with, err);
        status = put_end(c, head, chain, status, err);
        close(fd); /* until here the lock of the file says that it has a writer */
    }
    pthread_mutex_unlock(&c->puts);
    return status;
}

void disk_cache_end_chain(disk_cache *c)
{
    os_sync(c->directory.fd);
}

/* ---- get ---- */

static int cache_open_record(disk_cache *c, disk_key key, disk_kind kind, mote_error *err)
{
    char name[DISK_NAME_BYTES];
    if (!disk_file_name(name, c->cipher, key, kind)) {
        err_set(err, MOTE_E_IO, "cannot encrypt the name of a record");
        return -1;
    }
    const int fd = openat(c->directory.fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    const int why = errno;
    if (fd < 0)
        err_set(err, MOTE_E_IO, "cannot open %s: %s", name, strerror(why));
    if (fd < 0 && why == ENOENT) { /* another process removed it */
        pthread_mutex_lock(&c->lock);
        disk_index_remove(&c->index, key);
        pthread_mutex_unlock(&c->lock);
    }
    return fd;
}

static void cache_drop_damaged(disk_cache *c, disk_key key, disk_kind kind)
{
    mote_error ignored;
    pthread_mutex_lock(&c->lock);
    c->stats.damaged++;
    disk_index_remove(&c->index, key);
    pthread_mutex_unlock(&c->lock);
    if (cache_enter(c, &ignored) != MOTE_OK)
        return;
    disk_directory_begin_change(&c->directory);
    cache_drop(c, key, kind);
    cache_leave(c, true);
}

mote_status disk_cache_get(disk_cache *c, const disk_head *wanted, void *to,
                           const atomic_bool *cancel, mote_error *err)
{
    const disk_kind kind = (disk_kind)wanted->kind;
    const int fd = cache_open_record(c, wanted->key, kind, err);
    if (fd < 0)
        return MOTE_E_IO;
    disk_record record;
    mote_status status = disk_record_read_head(fd, c->cipher, &record, err);
    if (status == MOTE_OK && (record.is_foreign || !disk_head_same(&record.head, wanted)))
        status = err_set(err, MOTE_E_MISMATCH, "the record has another content");
    if (status == MOTE_OK)
        status = disk_record_read_payload(fd, c->cipher, &record, to, cancel, err);
    close(fd);
    if (status == MOTE_E_FORMAT)
        cache_drop_damaged(c, wanted->key, kind);
    if (status == MOTE_OK) {
        pthread_mutex_lock(&c->lock);
        c->stats.read++;
        c->stats.read_bytes += wanted->payload_bytes;
        pthread_mutex_unlock(&c->lock);
    }
    return status;
}

mote_status disk_cache_read_head(disk_cache *c, disk_key key, disk_kind kind, disk_head *out,
                                 mote_error *err)
{
    const int fd = cache_open_record(c, key, kind, err);
    if (fd < 0)
        return MOTE_E_IO;
    disk_record record;
    mote_status status = disk_record_read_head(fd, c->cipher, &record, err);
    close(fd);
    if (status == MOTE_OK && record.is_foreign)
        status = err_set(err, MOTE_E_MISMATCH, "the record is sealed with another key");
    if (status == MOTE_OK)
        *out = record.head;
    return status;
}

/* ---- lists ---- */

static disk_item item_of(const disk_entry *e)
{
    disk_item item = {.key = e->key,
                      .binding = e->binding,
                      .kind = e->kind,
                      .ns = e->ns,
                      .position = e->position,
                      .bytes = e->bytes,
                      .created = e->created,
                      .used = e->used,
                      .hits = e->hits,
                      .is_sealed = e->is_sealed,
                      .is_foreign = e->is_foreign};
    memcpy(item.label, e->label, sizeof item.label);
    return item;
}

/* Inserts by time of use. A full list drops its last entry. */
static void items_insert(disk_item *out, size_t room, size_t *n, const disk_item *item)
{
    size_t at = *n < room ? (*n)++ : room;
    for (; at > 0 && out[at - 1].used < item->used; at--)
        if (at < room)
            out[at] = out[at - 1];
    if (at < room)
        out[at] = *item;
}

size_t disk_cache_next_pages(disk_cache *c, disk_key parent, disk_key binding, uint64_t ns,
                             disk_item *out, size_t room)
{
    size_t n = 0;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < c->index.n; i++) {
        const disk_entry *e = &c->index.entries[i];
        if ((e->kind != DISK_PAGE && e->kind != DISK_HALF) || e->is_foreign || e->ns != ns ||
            !disk_key_equal(e->parent, parent) || !disk_key_equal(e->binding, binding))
            continue;
        const disk_item item = item_of(e);
        items_insert(out, room, &n, &item);
    }
    pthread_mutex_unlock(&c->lock);
    return n;
}

size_t disk_cache_list(disk_cache *c, disk_item *out, size_t room)
{
    pthread_mutex_lock(&c->lock);
    const size_t n = c->index.n;
    for (size_t i = 0; i < n && i < room; i++)
        out[i] = item_of(&c->index.entries[i]);
    pthread_mutex_unlock(&c->lock);
    return n;
}

mote_status disk_cache_verify(disk_cache *c, disk_key key, mote_error *err)
{
    disk_kind kind;
    if (!cache_kind_of(c, key, &kind))
        return err_set(err, MOTE_E_ARG, "no such record");
    const int fd = cache_open_record(c, key, kind, err);
    if (fd < 0)
        return MOTE_E_IO;
    disk_record record;
    mote_status status = disk_record_read_head(fd, c->cipher, &record, err);
    if (status == MOTE_OK)
        status = disk_record_read_payload(fd, c->cipher, &record, NULL, NULL, err);
    close(fd);
    if (status == MOTE_E_FORMAT && !c->read_only)
        cache_drop_damaged(c, key, kind);
    return status;
}

void disk_cache_read_stats(disk_cache *c, disk_stats *out)
{
    disk_counters now;
    disk_directory_peek(&c->directory, &now);
    pthread_mutex_lock(&c->lock);
    *out = c->stats;
    out->cap = c->cap;
    out->bytes = c->index.bytes;
    for (uint32_t i = 0; i < c->index.n; i++) {
        const disk_entry *e = &c->index.entries[i];
        *(e->kind == DISK_STATE ? &out->states : &out->pages) += 1;
        *(e->is_sealed ? &out->sealed : &out->plain) += 1;
        out->foreign += e->is_sealed && e->is_foreign;
    }
    pthread_mutex_unlock(&c->lock);
    out->written = now.written;
    out->write_bytes = now.write_bytes;
    out->evicted = now.evicted;
    out->since = now.since;
}

bool disk_cache_directory(char *out, size_t room, const char *cache, const char *cache_home,
                          const char *home)
{
    int n = -1;
    if (cache != NULL && cache[0] != '\0')
        n = snprintf(out, room, "%s/prefix", cache);
    else if (cache_home != NULL && cache_home[0] == '/')
        n = snprintf(out, room, "%s/mote/prefix", cache_home);
    else if (home != NULL && home[0] == '/')
        n = snprintf(out, room, "%s/.cache/mote/prefix", home);
    return n > 0 && (size_t)n < room;
}
