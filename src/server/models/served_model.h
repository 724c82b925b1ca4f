/* SPDX-License-Identifier: Apache-2.0 */
/*
 * served_model.h - one model of the server: name, file, scheduler, vision service, keep-alive.
 *
 * model_registry owns all models. A request gets one by name and keeps the pointer as long as it
 * has a lease (model_registry.h). Name, path, date, fingerprint, chat context and scheduler
 * settings never change; any thread may read them. sched.h and vision_service.h document the
 * threading of their functions.
 *
 * Prefix cache, image cache and answer tokens belong to one model, because token ids, states and
 * embeddings of one model are invalid for another.
 *
 * served_model_unload() and keep-alive serve models that were given on the command line: they free
 * the engine and drop the pages of the model file, and the next job loads them again
 * (sched_unload()). Installed models are freed completely by the registry instead.
 */
#ifndef MOTE_SERVER_MODELS_SERVED_MODEL_H
#define MOTE_SERVER_MODELS_SERVED_MODEL_H

#include "sched/answer_tokens.h"
#include "sched/sched.h"
#include "store/model_name.h"

typedef struct served_model served_model;
struct fork_server;
struct limits;
struct vision_service;
struct token_trie;

/* An adapter that requests select by name. */
typedef struct served_lora {
    const mote_lora *lora; /* of the model; open as long as the served_model */
    char name[64];
    float scale; /* of requests that give none */
} served_lora;

enum { SERVED_MAX_LORAS = 16 };

typedef struct served_model_options {
    const mote_model *model;
    const served_lora *loras; /* [n_loras], at most SERVED_MAX_LORAS; copied */
    size_t n_loras;
    const char *path;          /* for file name and date, copied; replies never contain it */
    const char *name;          /* NULL: derived from the file name */
    const char *chat_template; /* a name of mote_chat_template_name(); NULL: that of the file */
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
/* The memory in bytes that served_model_new() would plan, vision included. *too_large: the limit is
 * not enough for this model. */
mote_status served_model_plan_memory(const served_model_options *options, uint64_t *out,
                                     bool *too_large, mote_error *err);
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

/* The *n adapters of the model. */
const served_lora *served_model_loras(const served_model *m, size_t *n);
/* The adapter with this name; NULL: none. */
const served_lora *served_model_lora(const served_model *m, str name);

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
/* Loop thread: why prompts were not found in the prefix cache (miss_kind of cache_miss.h), and how
 * the tokens of earlier answers were found. */
enum { SERVED_MODEL_MISS_KINDS = 16 };
typedef struct served_model_cache_counts {
    uint64_t misses[SERVED_MODEL_MISS_KINDS];
    uint64_t answers_by_id, answers_by_text, answers_unknown;
} served_model_cache_counts;
void served_model_count_miss(served_model *m, uint32_t kind);
void served_model_count_answers(served_model *m, const answer_found *found);
const served_model_cache_counts *served_model_cache_stats(const served_model *m);

/* ---- keep-alive ---- */

/* Loop thread: start and end of a request. `keep`: keep_alive of the request, or NULL. */
void served_model_begin(served_model *m);
void served_model_end(served_model *m, const double *keep);
/* Loop thread, once per second: the state of the model's files; *changed: it is another one than at
 * the last call. */
mote_file_state served_model_check_files(served_model *m, bool *changed);
/* The result of the last check. */
mote_file_state served_model_file_state(const served_model *m);
/* Loop thread, once per second: unloads the model if it was idle long enough. */
void served_model_tick(served_model *m, double now);
/* The following: any thread. */
bool served_model_loaded(const served_model *m);
/* Seconds until it is unloaded without further requests; INFINITY: never. */
double served_model_leaves_in(served_model *m);
/* Begins to unload, unless there are requests. `wake` of the scheduler is called at the end. */
void served_model_unload(served_model *m);
/* Is it being unloaded? A new request ends that. */
bool served_model_unloading(const served_model *m);

#endif
