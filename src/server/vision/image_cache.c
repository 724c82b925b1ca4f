/* SPDX-License-Identifier: Apache-2.0 */
/* image_cache.c - encoded images by digest, with LRU eviction. See vision_service.h. */
#include "base/mem.h"
#include "server/vision/vision_int.h"

#include <mote.h>

static void entry_free(image_cache_entry *e)
{
    for (size_t i = 0; e->result.media.images != NULL && i < e->result.media.n; i++)
        mote_image_free((mote_image *)e->result.media.images[i]);
    mem_free((void *)e->result.media.images);
    mem_free((void *)e->result.media.seconds);
    mem_free(e);
}

/* ---- called with the lock held ---- */

static image_cache_entry *image_cache_find(const vision_service *s, const digest *key)
{
    image_cache_entry *e = s->entries;
    while (e != NULL && memcmp(e->key.bytes, key->bytes, DIGEST_BYTES) != 0)
        e = e->next;
    return e;
}

static void image_cache_remove(vision_service *s, image_cache_entry *e)
{
    image_cache_entry **at = &s->entries;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    s->stats.bytes -= e->bytes;
    s->stats.cached--;
    entry_free(e);
}

static bool image_cache_evict_one(vision_service *s)
{
    image_cache_entry *oldest = NULL;
    for (image_cache_entry *e = s->entries; e != NULL; e = e->next)
        if (e->holders == 0 && (oldest == NULL || e->used < oldest->used))
            oldest = e;
    if (oldest != NULL)
        image_cache_remove(s, oldest);
    return oldest != NULL;
}

static image_cache_entry *image_cache_add(vision_service *s, const digest *key)
{
    image_cache_entry *e = mem_new(1, sizeof *e);
    if (e == NULL)
        return NULL;
    e->key = *key;
    e->making = true;
    e->next = s->entries;
    s->entries = e;
    s->stats.cached++;
    return e;
}

/* ---- interface ---- */

image_cache_entry *image_cache_get(vision_service *s, const digest *key, bool *mine)
{
    pthread_mutex_lock(&s->lock);
    image_cache_entry *e = image_cache_find(s, key);
    for (; e != NULL && e->making; e = image_cache_find(s, key)) /* it may fail: look again */
        pthread_cond_wait(&s->made, &s->lock);
    *mine = e == NULL;
    if (*mine)
        e = image_cache_add(s, key);
    else
        s->stats.cache_hits++;
    if (e != NULL) {
        e->holders++;
        e->used = ++s->clock;
    }
    pthread_mutex_unlock(&s->lock);
    return e;
}

bool image_cache_make_room(vision_service *s, image_cache_entry *e, uint64_t bytes)
{
    pthread_mutex_lock(&s->lock);
    while (s->stats.bytes + bytes > s->options.memory && image_cache_evict_one(s)) {
    }
    const bool fits = s->stats.bytes + bytes <= s->options.memory;
    if (fits) {
        e->bytes += bytes;
        s->stats.bytes += bytes;
    }
    pthread_mutex_unlock(&s->lock);
    return fits;
}

void image_cache_ready(vision_service *s, image_cache_entry *e)
{
    pthread_mutex_lock(&s->lock);
    e->making = false;
    s->stats.encoded++;
    pthread_cond_broadcast(&s->made);
    pthread_mutex_unlock(&s->lock);
}

void image_cache_fail(vision_service *s, image_cache_entry *e)
{
    pthread_mutex_lock(&s->lock);
    image_cache_remove(s, e);
    pthread_cond_broadcast(&s->made);
    pthread_mutex_unlock(&s->lock);
}

void image_cache_release(vision_service *s, const vision_result *result)
{
    image_cache_entry *e = (image_cache_entry *)result;
    pthread_mutex_lock(&s->lock);
    e->holders--;
    pthread_mutex_unlock(&s->lock);
}

void image_cache_drop_unused(vision_service *s)
{
    pthread_mutex_lock(&s->lock);
    while (image_cache_evict_one(s)) {
    }
    pthread_mutex_unlock(&s->lock);
}

void image_cache_drop_all(vision_service *s)
{
    while (s->entries != NULL)
        image_cache_remove(s, s->entries);
}
