/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_service.h - images and videos of requests to embeddings, on separate threads, cached.
 *
 * Its threads process one file of each queued request in turn: base64 to bytes, bytes to pixels in
 * a decoder process (media/sandbox), pixels to embeddings with the vision encoder. The encoder does
 * not use the threads of the engine, so it delays decode steps only by sharing the cores.
 *
 * The image cache maps a digest of file, size parameters and cache namespace to embeddings. It
 * evicts the least recently used entries; entries in use by a generation stay. Concurrent requests
 * for the same image encode it once.
 */
#ifndef MOTE_SERVER_VISION_VISION_SERVICE_H
#define MOTE_SERVER_VISION_VISION_SERVICE_H

#include "chat/prompt/message.h"
#include "server/http/exchange.h"

#include <stdatomic.h>

struct fork_server;

typedef struct vision_service vision_service;

enum { VISION_MAX_IMAGES = 768 }; /* per request; video frames count in pairs */

typedef struct vision_service_options {
    const mote_model *model;
    struct fork_server *fork_server;
    uint32_t threads;    /* of the vision encoder; 0: one per core */
    uint32_t parallel;   /* files processed at the same time */
    uint32_t queue;      /* requests that may wait */
    uint32_t images;     /* images and videos per request */
    uint32_t tokens;     /* default maximum per image */
    uint32_t max_tokens; /* per image, whatever a request sets */
    uint64_t file_bytes; /* per file */
    uint64_t pixels;     /* per file, as stored */
    uint64_t memory;     /* bytes of the image cache, entries in use included */
    void (*wake)(void *with);
    void *with; /* wake is called on any thread: call vision_service_collect() */
} vision_service_options;

mote_status vision_service_new(vision_service **out, const vision_service_options *options,
                               mote_error *err);
/* Loop thread. Calls `done` of unfinished requests. NULL is allowed. */
void vision_service_free(vision_service *s);
const vision_service_options *vision_service_settings(const vision_service *s);
/* Memory in bytes: image cache and scratch of the vision encoder. */
uint64_t vision_service_plan(const vision_service_options *options);
uint64_t vision_service_memory(const vision_service *s);

/* ---- requests ---- */

/* Embeddings of one file. */
typedef struct vision_result {
    chat_media media;
    uint32_t width, height; /* after resizing */
    size_t tokens;
} vision_result;

typedef struct vision_item {
    str text;          /* base64 */
    const str *frames; /* [n_frames]: the frames of a video, each base64; NULL: one file */
    size_t n_frames;
    bool video;
    double fps;                  /* of a video; 0: from the file */
    uint32_t tokens;             /* maximum per image or per video */
    char at[96];                 /* field of the body, for errors */
    chat_part *part;             /* of the conversation; for the caller */
    const vision_result *result; /* release it with image_cache_release() */
} vision_item;

/* Bytes of its base64 text in the request. */
static inline size_t vision_item_bytes(const vision_item *item)
{
    size_t bytes = item->text.n;
    for (size_t i = 0; i < item->n_frames; i++)
        bytes += item->frames[i].n;
    return bytes;
}

/* Must stay valid until `done` is called. */
typedef struct vision_request {
    vision_item *items; /* [n] */
    size_t n;
    uint64_t ns;
    size_t room;      /* maximum tokens of all items; 0: unlimited */
    size_t tokens;    /* of the items encoded so far */
    size_t images;    /* the same; video frames in pairs */
    http_error error; /* code NULL: success */
    void (*done)(void *with);
    void *with; /* called once on the loop thread, also after vision_service_drop() */

    size_t next_item; /* this and the next ones: private to vision_service.c */
    uint64_t bytes;
    atomic_bool dropped;
    struct vision_request *next;
} vision_request;

/* Loop thread. false: the queue is full. */
bool vision_service_submit(vision_service *s, vision_request *r);
/* Loop thread: cancels. `done` is still called, later. */
void vision_service_drop(vision_service *s, vision_request *r);
/* Loop thread: calls `done` of finished requests. */
void vision_service_collect(vision_service *s);
/* Any thread: evicts all entries that are not in use. */
void image_cache_drop_unused(vision_service *s);
/* Any thread. */
void image_cache_release(vision_service *s, const vision_result *result);

/* ---- stats ---- */

typedef struct vision_stats {
    uint64_t total;      /* files processed */
    uint64_t cache_hits; /* cache hits */
    uint64_t encoded;    /* files encoded */
    uint64_t failed;
    double seconds;   /* of all threads together */
    uint32_t waiting; /* requests in the queue */
    uint32_t cached;  /* cache entries */
    uint64_t bytes;   /* of the cache */
} vision_stats;

void vision_service_read_stats(vision_service *s, vision_stats *out);

#endif
