/* SPDX-License-Identifier: Apache-2.0 */
/* vision_service_int.h - between the files of sight: those who wait, what is kept, one look. */
#ifndef MOTE_SERVER_VISION_VISION_INT_H
#define MOTE_SERVER_VISION_VISION_INT_H

#include "server/core/digest.h"
#include "server/vision/vision_service.h"

#include <pthread.h>

enum { VISION_MAX_THREADS = 16 };

/* A file that was seen, or is being looked at. */
typedef struct image_cache_entry {
    vision_result seen; /* first: what others have of it */
    digest key;
    bool making; /* somebody looks at it just now */
    uint32_t holders;
    uint64_t bytes, used;
    struct image_cache_entry *next;
} image_cache_entry;

struct vision_service {
    vision_service_options options;
    uint64_t embedding; /* numbers in a row */
    pthread_t threads[VISION_MAX_THREADS];
    uint32_t n_threads;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t work_is;
    pthread_cond_t made; /* an entry is no longer being made */
    bool stop;
    vision_request *line, **line_end;
    vision_request *over, **over_end;
    image_cache_entry *entries;
    uint64_t clock;
    vision_stats stats;
};

/* ---- vision_service_keep.c ---- */

/* One of this key, held once more; if there was none, the caller's to be made (*mine). NULL: no
 * memory. */
image_cache_entry *image_cache_get(vision_service *s, const digest *key, bool *mine);
/* Room for an entry that is being made. false: others hold too much. */
bool image_cache_make_room(vision_service *s, image_cache_entry *e, uint64_t bytes);
/* It is made. */
void image_cache_ready(vision_service *s, image_cache_entry *e);
/* It will not be. */
void image_cache_fail(vision_service *s, image_cache_entry *e);
void image_cache_drop_all(vision_service *s);

/* ---- vision_encode_item.c ---- */

/* Looks at the next item of a request; what is wrong is in its error. */
void vision_encode_item(vision_service *s, vision_request *r);

#endif
