/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash_follow.c - the hash of a part file, in a thread of its own, while the file is written.
 *
 * The thread reads the file in order from the page cache, so the ranges may arrive in any order.
 * When the last range arrives, almost everything is hashed already.
 */
#include "pull/pull_int.h"

#include "base/mem.h"
#include "store/digest.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { READ_BYTES = 256 << 10 };

struct hash_follow {
    pthread_t thread;
    pthread_mutex_t mutex; /* protects ready, done, stop, failed */
    pthread_cond_t changed;
    uint64_t ready; /* bytes that may be read */
    uint64_t done;  /* bytes that are hashed */
    bool stop;
    int failed; /* errno of a read */
    int fd;
    uint64_t size;
    hasher hash;
    unsigned char buffer[READ_BYTES];
};

/* Waits for more bytes. Returns how many may be hashed; 0: the end. */
static uint64_t follow_next(hash_follow *h)
{
    pthread_mutex_lock(&h->mutex);
    while (!h->stop && h->ready == h->done && h->done < h->size)
        pthread_cond_wait(&h->changed, &h->mutex);
    const uint64_t n = h->stop || h->failed != 0 ? 0 : h->ready - h->done;
    pthread_mutex_unlock(&h->mutex);
    return n < READ_BYTES ? n : READ_BYTES;
}

static void *follow_run(void *with)
{
    hash_follow *h = with;
    uint64_t at = 0, n;
    while ((n = follow_next(h)) > 0) {
        const ssize_t got = pread(h->fd, h->buffer, (size_t)n, (off_t)at);
        if (got > 0)
            hasher_add(&h->hash, h->buffer, (size_t)got);
        pthread_mutex_lock(&h->mutex);
        if (got > 0)
            h->done = at += (uint64_t)got;
        else if (got == 0 || errno != EINTR)
            h->failed = got == 0 ? EIO : errno;
        pthread_mutex_unlock(&h->mutex);
    }
    return NULL;
}

mote_status hash_follow_start(hash_follow **out, int fd, uint64_t size, bool sha256,
                              mote_error *err)
{
    hash_follow *h = mem_new(1, sizeof *h);
    *out = NULL;
    if (h == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for a hash");
    h->fd = fd;
    h->size = size;
    mote_status status = hasher_begin(&h->hash, sha256 ? HASH_SHA256 : HASH_GIT_BLOB, size, err);
    pthread_mutex_init(&h->mutex, NULL);
    pthread_cond_init(&h->changed, NULL);
    if (status == MOTE_OK && pthread_create(&h->thread, NULL, follow_run, h) != 0)
        status = err_set(err, MOTE_E_MEMORY, "cannot start a thread for the hash");
    if (status == MOTE_OK) {
        *out = h;
        return MOTE_OK;
    }
    hasher_fini(&h->hash);
    mem_free(h);
    return status;
}

void hash_follow_advance(hash_follow *h, uint64_t bytes)
{
    pthread_mutex_lock(&h->mutex);
    if (bytes > h->ready) {
        h->ready = bytes;
        pthread_cond_signal(&h->changed);
    }
    pthread_mutex_unlock(&h->mutex);
}

uint64_t hash_follow_done(hash_follow *h)
{
    pthread_mutex_lock(&h->mutex);
    const uint64_t done = h->failed != 0 ? h->size : h->done;
    pthread_mutex_unlock(&h->mutex);
    return done;
}

static void follow_free(hash_follow *h)
{
    hasher_fini(&h->hash);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->mutex);
    mem_free(h);
}

mote_status hash_follow_end(hash_follow *h, char hash[HUB_HASH_BYTES], mote_error *err)
{
    pthread_join(h->thread, NULL);
    const mote_status status =
        h->failed != 0
            ? err_set(err, MOTE_E_IO, "cannot read the part file: %s", strerror(h->failed))
            : hasher_end(&h->hash, hash, err);
    follow_free(h);
    return status;
}

void hash_follow_cancel(hash_follow *h)
{
    if (h == NULL)
        return;
    pthread_mutex_lock(&h->mutex);
    h->stop = true;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->mutex);
    pthread_join(h->thread, NULL);
    follow_free(h);
}
