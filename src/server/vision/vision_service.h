/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_service.h - what requests show, to pictures of the model: off the loop and beside the
 * engine.
 *
 * Threads of its own take what waits, one file of each request in turn: base64 becomes bytes,
 * these become pixels in the process of media/worker.h, and the tower looks at the pixels on
 * threads of its own, not those of the engine: a step that is not waited for must not grow longer
 * by somebody's picture than sharing the cores makes it.
 *
 * What was seen is kept under a digest of the file, the size it is wanted in and the realm; the
 * least recently used goes first, and what an answer still needs never does. Two who ask
 * for the same at once wait for one look.
 */
#ifndef MOTE_SERVER_VISION_VISION_SERVICE_H
#define MOTE_SERVER_VISION_VISION_SERVICE_H

#include "chat/prompt/message.h"
#include "server/http/exchange.h"

#include <stdatomic.h>

struct fork_server;

typedef struct vision_service vision_service;

enum { VISION_MAX_IMAGES = 768 }; /* of one request: frames of films in pairs */

typedef struct vision_service_options {
    const mote_model *model;
    struct fork_server *fork_server;
    uint32_t threads;     /* of the tower; 0: one per core */
    uint32_t at_once;     /* files that are worked on */
    uint32_t queue;       /* requests that may wait */
    uint32_t images;      /* of one request; films too */
    uint32_t tokens;      /* of a picture, unless a request says otherwise */
    uint32_t most_tokens; /* of a picture, whatever it says */
    uint64_t file_bytes;
    uint64_t pixels; /* of a file, as stored */
    uint64_t memory; /* bytes of all pictures that are held, needed or not */
    void (*wake)(void *with);
    void *with; /* from any thread: there is something to collect */
} vision_service_options;

mote_status vision_service_new(vision_service **out, const vision_service_options *options,
                               mote_error *err);
/* Loop thread. Requests that are not done yet are told so. NULL is allowed. */
void vision_service_free(vision_service *s);
const vision_service_options *vision_service_settings(const vision_service *s);
/* What seeing may take in bytes: pictures that are held, and the tower at work. */
uint64_t vision_service_plan(const vision_service_options *options);
uint64_t vision_service_memory(const vision_service *s);

/* ---- requests ---- */

/* What was seen of one file. */
typedef struct vision_result {
    chat_media media;
    uint32_t width, height; /* as it was given to the model */
    size_t tokens;
} vision_result;

typedef struct vision_item {
    str text;          /* base64 */
    const str *frames; /* [n_frames]: or of a film every frame; NULL: it is one file */
    size_t n_frames;
    bool video;
    double fps;                /* of a film; 0: as the file says */
    uint32_t tokens;           /* at most; of a film in all */
    char at[96];               /* where in the body it stands */
    chat_part *part;           /* of the conversation, for whoever asks */
    const vision_result *seen; /* once it was looked at: given back with image_cache_release */
} vision_item;

/* All of it stays where it is until `done`. */
typedef struct vision_request {
    vision_item *items; /* [n] */
    size_t n;
    uint64_t ns;
    size_t room;      /* tokens that all of them may have; 0: any number */
    size_t tokens;    /* that they have, so far */
    size_t images;    /* likewise */
    http_error error; /* code NULL: everything was seen */
    void (*done)(void *with);
    void *with; /* on the loop, once, also if it was dropped */

    size_t next_item; /* sight.c's own from here on */
    uint64_t bytes;
    atomic_bool dropped;
    struct vision_request *next;
} vision_request;

/* Loop thread. false: too many wait. */
bool vision_service_submit(vision_service *s, vision_request *r);
/* Loop thread: nobody wants it any more. `done` comes later. */
void vision_service_drop(vision_service *s, vision_request *r);
/* Loop thread: calls `done` of those that are. */
void vision_service_collect(vision_service *s);
/* Any thread: what no answer needs is not kept any longer. */
void image_cache_drop_unused(vision_service *s);
/* Any thread. */
void image_cache_release(vision_service *s, const vision_result *seen);

/* ---- figures ---- */

typedef struct vision_stats {
    uint64_t asked;  /* files */
    uint64_t found;  /* of them, seen before */
    uint64_t looked; /* the tower has looked at */
    uint64_t failed;
    double seconds; /* at work, of all threads */
    uint32_t waiting, kept;
    uint64_t bytes; /* held */
} vision_stats;

void vision_service_read_stats(vision_service *s, vision_stats *out);

#endif
