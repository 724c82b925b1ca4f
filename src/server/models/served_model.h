/* SPDX-License-Identifier: Apache-2.0 */
/*
 * served_model.h - one model at work: its name and file, what renders for it, its scheduler, its
 * eyes.
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
#ifndef MOTE_SERVER_MODELS_SERVED_MODEL_H
#define MOTE_SERVER_MODELS_SERVED_MODEL_H

#include "sched/answer_tokens.h"
#include "sched/sched.h"

typedef struct served_model served_model;
struct fork_server;
struct limits;
struct vision_service;
struct vocab;

typedef struct served_model_options {
    const mote_model *model;
    const char *path; /* for its file name and date; never shown whole */
    const char *name; /* NULL: from the file */
    sched_options sched;
    struct fork_server *fork_server; /* NULL: it cannot see, or must not */
    uint32_t image_tokens;           /* of a picture, unless a request says otherwise; 0: 1,280 */
    const struct limits *limits;     /* of the server; read while it is made */
    uint64_t image_memory;           /* for pictures that are held */
    size_t answer_tokens_bytes;
    double keep_alive; /* seconds without a request after which it is unloaded; negative: never */
} served_model_options;

/* Makes the scheduler, whose `memory` is for everything of this model. */
mote_status served_model_new(served_model **out, const served_model_options *options,
                             mote_error *err);
/* Every job and every look must have been dropped. NULL is allowed. */
void served_model_free(served_model *m);
/* Will a model with these options see? */
bool served_model_has_vision(const served_model_options *options);
/* The least memory that it can work with, pictures included. */
mote_status served_model_least_memory(const served_model_options *options, uint64_t *out,
                                      mote_error *err);

/* Terminated; what it is called in replies. */
const char *served_model_name(const served_model *m);
const mote_model *served_model_weights(const served_model *m);
const char *served_model_path(const served_model *m);
/* Of its file, in seconds since 1970. */
int64_t served_model_date(const served_model *m);
/* "mote-0.1.0-1a2b3c4d": the version and the model. */
const char *served_model_fingerprint(const served_model *m);
const chat_context *served_model_chat_context(const served_model *m);
/* The vocabulary for grammars; made at the first call, which takes a while: off the loop. */
mote_status served_model_vocab(served_model *m, const struct token_trie **out, mote_error *err);

sched *served_model_sched(const served_model *m);
/* Positions that one request may use. */
uint64_t served_model_context(const served_model *m);
/* Bytes of everything: what was planned for its engine, and for seeing. */
uint64_t served_model_memory(const served_model *m);
/* NULL: it cannot see. */
struct vision_service *served_model_vision(const served_model *m);
answer_tokens *served_model_answer_tokens(const served_model *m);

/* Loop thread: an answer had something in it that looks like a call and is none; how many did. */
void served_model_count_malformed(served_model *m);
uint64_t served_model_malformed(const served_model *m);

/* ---- how long it stays loaded ---- */

/* Loop thread: a request for it came; it is over. `keep`: the seconds that it said, or NULL. */
void served_model_begin(served_model *m);
void served_model_end(served_model *m, const double *keep);
/* Loop thread, once a second: unloads it if its time is over. */
void served_model_tick(served_model *m, double now);
/* Any thread from here on. */
bool served_model_loaded(const served_model *m);
/* Seconds until it is unloaded, if nobody asks; INFINITY: it stays. */
double served_model_leaves_in(served_model *m);
/* Unloads it and waits until that is done, so off the loop; false: somebody asks it something. */
bool served_model_unload(served_model *m);

#endif
