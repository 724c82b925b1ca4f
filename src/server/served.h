/* SPDX-License-Identifier: Apache-2.0 */
/*
 * served.h - one model at work: its name and file, what renders for it, its scheduler, its eyes.
 *
 * The server owns all of them from its start to its end and hands out pointers; a request has one,
 * chosen by the name that it asks for (ask.h), and stays with it. What is asked with a view
 * of it never changes while the server runs and may be read on any thread: name, date, path,
 * fingerprint, kit, settings of the scheduler. The scheduler and sight say themselves which
 * threads may call what. The vocabulary is made under a lock of its own, on the pool.
 *
 * Token ids, states and pictures of one model mean nothing to another, so each has what
 * keeps them for itself: prefixes in its scheduler, pictures in its sight, ids of answers in its
 * recall.
 *
 * A model that is unloaded has given back its scheduler's engine and the pages of its file; all
 * that stands here stays as it is, and the next job brings the rest back (sched_unload).
 */
#ifndef MOTE_SERVER_SERVED_H
#define MOTE_SERVER_SERVED_H

#include "serve/recall.h"
#include "serve/sched.h"

typedef struct served served;
struct media_nursery;
struct limits;
struct sight;
struct vocab;

typedef struct served_options {
    const mote_model *model;
    const char *path; /* for its file name and date; never shown whole */
    const char *name; /* NULL: from the file */
    sched_options sched;
    struct media_nursery *nursery; /* NULL: it cannot see, or must not */
    uint32_t image_tokens;         /* of a picture, unless a request says otherwise; 0: 1,280 */
    const struct limits *limits;   /* of the server; read while it is made */
    uint64_t picture_memory;       /* for pictures that are held */
    size_t recall_bytes;
    double keep_alive; /* seconds without a request after which it is unloaded; negative: never */
} served_options;

/* Makes the scheduler, whose `memory` is for everything of this model. */
mote_status served_new(served **out, const served_options *options, mote_error *err);
/* Every job and every look must have been dropped. NULL is allowed. */
void served_free(served *m);
/* Will a model with these options see? */
bool served_sees(const served_options *options);
/* The least memory that it can work with, pictures included. */
mote_status served_least_memory(const served_options *options, uint64_t *out, mote_error *err);

/* Terminated; what it is called in replies. */
const char *served_name(const served *m);
const mote_model *served_model(const served *m);
const char *served_path(const served *m);
/* Of its file, in seconds since 1970. */
int64_t served_date(const served *m);
/* "mote-0.1.0-1a2b3c4d": the version and the model. */
const char *served_fingerprint(const served *m);
const chat_kit *served_kit(const served *m);
/* The vocabulary for grammars; made at the first call, which takes a while: off the loop. */
mote_status served_vocab(served *m, const struct vocab **out, mote_error *err);

sched *served_sched(const served *m);
/* Positions that one request may use. */
uint64_t served_context(const served *m);
/* Bytes of everything: what was planned for its engine, and for seeing. */
uint64_t served_memory(const served *m);
/* NULL: it cannot see. */
struct sight *served_sight(const served *m);
recall *served_recall(const served *m);

/* Loop thread: an answer had something in it that looks like a call and is none; how many did. */
void served_count_malformed(served *m);
uint64_t served_malformed(const served *m);

/* ---- how long it stays loaded ---- */

/* Loop thread: a request for it came; it is over. `keep`: the seconds that it said, or NULL. */
void served_begin(served *m);
void served_end(served *m, const double *keep);
/* Loop thread, once a second: unloads it if its time is over. */
void served_tick(served *m, double now);
/* Any thread from here on. */
bool served_loaded(const served *m);
/* Seconds until it is unloaded, if nobody asks; INFINITY: it stays. */
double served_leaves_in(served *m);
/* Unloads it and waits until that is done, so off the loop; false: somebody asks it something. */
bool served_unload(served *m);

#endif
