/* SPDX-License-Identifier: Apache-2.0 */
/*
 * served_model.h - one model of the server: name, file, scheduler, vision service, keep-alive.
 *
 * model_registry owns all models from start to shutdown. A request picks one by name and keeps the
 * pointer. Name, path, date, fingerprint, chat context and scheduler settings never change; any
 * thread may read them. sched.h and vision_service.h document the threading of their functions.
 *
 * Prefix cache, image cache and answer tokens belong to one model, because token ids, states and
 * embeddings of one model are invalid for another.
 *
 * Unloading frees the engine and drops the pages of the model file. The next job loads them again
 * (sched_unload()); everything else stays.
 */
#ifndef MOTE_SERVER_MODELS_SERVED_MODEL_H
#define MOTE_SERVER_MODELS_SERVED_MODEL_H

#include "sched/answer_tokens.h"
#include "sched/sched.h"

typedef struct served_model served_model;
struct fork_server;
struct limits;
struct vision_service;
struct token_trie;

typedef struct served_model_options {
    const mote_model *model;
    const char *path; /* for file name and date; replies never contain it */
    const char *name; /* NULL: derived from the file name */
    sched_options sched;
    struct fork_server *fork_server; /* image decoder; NULL: no images */
    uint32_t image_tokens;           /* default maximum per image; 0: 1,280 */
    const struct limits *limits;     /* of the server; used by served_model_new() only */
    uint64_t image_memory;           /* bytes of the image cache */
    size_t answer_tokens_bytes;
    double keep_alive; /* seconds without requests before unloading; negative: never */
} served_model_options;

/* Creates the scheduler and the vision service. `sched.memory` is for both together. */
mote_status served_model_new(served_model **out, const served_model_options *options,
                             mote_error *err);
/* All jobs and vision requests must have ended. NULL is allowed. */
void served_model_free(served_model *m);
/* Does a model with these options accept images? */
bool served_model_has_vision(const served_model_options *options);
/* Minimum memory in bytes, vision included. */
mote_status served_model_least_memory(const served_model_options *options, uint64_t *out,
                                      mote_error *err);

/* Zero-terminated. */
const char *served_model_name(const served_model *m);
const mote_model *served_model_weights(const served_model *m);
const char *served_model_path(const served_model *m);
/* Modification time of the file, in seconds since 1970. */
int64_t served_model_date(const served_model *m);
/* "mote-0.1.0-1a2b3c4d": version and a hash of name and size. */
const char *served_model_fingerprint(const served_model *m);
const chat_context *served_model_chat_context(const served_model *m);
/* The token trie for grammars. The first call builds it, which is slow: call it on a worker thread.
 */
mote_status served_model_vocab(served_model *m, const struct token_trie **out, mote_error *err);

sched *served_model_sched(const served_model *m);
/* Context length of one request, in tokens. */
uint64_t served_model_context(const served_model *m);
/* Planned memory in bytes: engine and vision. */
uint64_t served_model_memory(const served_model *m);
/* NULL: no images. */
struct vision_service *served_model_vision(const served_model *m);
answer_tokens *served_model_answer_tokens(const served_model *m);

/* Loop thread: counts malformed tool calls, which are passed on as text. */
void served_model_count_malformed(served_model *m);
uint64_t served_model_malformed(const served_model *m);

/* ---- keep-alive ---- */

/* Loop thread: start and end of a request. `keep`: keep_alive of the request, or NULL. */
void served_model_begin(served_model *m);
void served_model_end(served_model *m, const double *keep);
/* Loop thread, once per second: unloads the model if it was idle long enough. */
void served_model_tick(served_model *m, double now);
/* The following: any thread. */
bool served_model_loaded(const served_model *m);
/* Seconds until it is unloaded without further requests; INFINITY: never. */
double served_model_leaves_in(served_model *m);
/* Unloads and waits for the end, so call it on a worker thread. false: there are requests. */
bool served_model_unload(served_model *m);

/* ---- names ---- */

enum { MODEL_NAME_BYTES = 128 };

/* "Qwen3.5-4B-Q4_K_M.gguf" becomes "qwen3.5-4b-q4_k_m". */
void model_name_of_file(char out[MODEL_NAME_BYTES], const char *path);
/* Does `wanted` mean this model? Ignores case, a publisher in front and ":latest". ':' and '_'
 * equal
 * '-'. Unless `whole`, a prefix up to a dash matches. */
bool model_name_is(const char *name, str wanted, bool whole);

#endif
