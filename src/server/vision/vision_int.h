/* SPDX-License-Identifier: Apache-2.0 */
/* vision_int.h - structures shared by vision_service.c and image_cache.c. */
#ifndef MOTE_SERVER_VISION_VISION_INT_H
#define MOTE_SERVER_VISION_VISION_INT_H

#include "store/digest.h"
#include "server/vision/vision_service.h"

#include <pthread.h>

enum { VISION_MAX_THREADS = 16 };

/* An encoded file, or one that a thread is encoding. */
typedef struct image_cache_entry {
    vision_result result; /* first member: image_cache_release() gets a pointer to it */
    digest key;
    bool making;      /* a thread is encoding it */
    uint32_t holders; /* users; it is not evicted while there are any */
    uint64_t bytes;
    uint64_t used; /* value of vision_service.clock at the last use */
    struct image_cache_entry *next;
} image_cache_entry;

struct vision_service {
    vision_service_options options;
    uint64_t embedding; /* floats per token */
    pthread_t threads[VISION_MAX_THREADS];
    uint32_t n_threads;
    pthread_mutex_t lock; /* of all following members */
    pthread_cond_t queue_filled;
    pthread_cond_t made; /* an entry is ready or has failed */
    bool stop;
    vision_request *queue, **queue_end;
    vision_request *finished, **finished_end; /* for vision_service_collect() */
    image_cache_entry *entries;
    uint64_t clock;
    vision_stats stats;
};

/* ---- image_cache.c ---- */

/* Returns the entry of this key with one more holder, and waits if another thread is encoding it.
 * *mine: it is new, and the caller must encode it. NULL: out of memory. */
image_cache_entry *image_cache_get(vision_service *s, const digest *key, bool *mine);
/* Reserves memory for a new entry and evicts others. false: too many entries are in use. */
bool image_cache_make_room(vision_service *s, image_cache_entry *e, uint64_t bytes);
/* The entry is encoded. */
void image_cache_ready(vision_service *s, image_cache_entry *e);
/* Encoding failed: removes the entry. */
void image_cache_fail(vision_service *s, image_cache_entry *e);
void image_cache_drop_all(vision_service *s);

#endif
