/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched.h - continuous batching on one engine.
 *
 *   submit -> queue -> prefill (the prompt, in chunks) -> decode (one token per step) -> finished
 *
 * Every step carries the next token of each decoding job. Prefill chunks of other jobs fill the
 * remaining time budget (prefill_budget.h), so running streams stay smooth. The output of a job
 * does not depend on the batch, on chunk sizes or on cache reuse.
 *
 * Finished sessions stay in the prefix cache, and on disk if options.disk_directory is set. A new
 * job starts from the longest usable prefix of a running or idle session of its cache namespace, or
 * on disk. When KV pages run out, idle sessions of the least value are evicted, pinned ones last.
 * After that a running job is preempted: it is prefilled again later, which affects its latency
 * only.
 *
 * Slots, prefill rows and KV pages are divided equally between clients (API keys). A client with
 * more than its share is preempted: its youngest job pauses and keeps its session if memory allows
 * (key_share.c).
 *
 * Background jobs get the slots and the time that other jobs leave: see key_share.c.
 *
 * Threads: the engine thread, started by sched_new, owns the engine, its sessions and the turns of
 * running jobs. The loop thread submits, drops and collects. Both share one mutex, which is never
 * held during a step. Events arrive in batches: one wake() per step at most.
 */
#ifndef MOTE_SCHED_SCHED_H
#define MOTE_SCHED_SCHED_H

#include "chat/prompt/render.h"
#include "chat/turn/turn.h"
#include "sched/core_lock.h"
#include "spec/spec.h"

typedef struct sched sched;
typedef struct sched_job sched_job;

enum { SCHED_DEFAULT_QUEUE = 256, SCHED_DEFAULT_KV_TOKENS = 32768 };

typedef struct sched_options {
    const mote_model *model;
    uint32_t parallel;      /* slots: jobs in a batch; 0: 8 */
    uint32_t idle_sessions; /* finished sessions in the prefix cache; 0: as many as parallel */
    uint32_t queue;         /* waiting jobs; 0: SCHED_DEFAULT_QUEUE */
    uint64_t context;       /* tokens per session; 0: the model's context, at most kv_tokens */
    uint64_t kv_tokens;     /* KV positions of all sessions; 0: SCHED_DEFAULT_KV_TOKENS, or what
                             * fits `memory` */
    uint64_t memory;        /* bytes for everything; 0: no limit */
    /* NULL: the user chose `memory`, and an open kv_tokens grows to fill it. Otherwise the name of
     * the limit that the machine sets; an open kv_tokens stays at its default or is reduced. */
    const char *memory_source;
    uint64_t expert_memory; /* this, threads, kv, yarn, pin: as in mote_engine_options */
    uint32_t threads;
    mote_kv kv;
    float yarn;
    mote_pin pin;
    uint32_t lora_rank;         /* as in mote_engine_options; 0: no adapters */
    int spec;                   /* drafts: SPEC_AUTO (off if `memory` is short), SPEC_OFF, or always
                                 * so many tokens per step */
    core_lock *core_lock;       /* shared by the schedulers on the same cores; NULL: the only one */
    uint64_t salt;              /* seed of the prefix ids; must differ between schedulers */
    const char *disk_directory; /* of the prefix cache on disk; must stay valid; NULL: none */
    uint64_t disk_bytes;        /* most bytes in it; 0: none */
    const struct disk_cipher *disk_cipher; /* encrypts it; must stay valid; NULL: none */
    /* Called on any thread with a message about the disk cache, rarely; NULL: none. */
    void (*warn)(void *with, const char *text);
    void *warn_with;
    /* Called on the engine thread when events are ready to collect, and on any thread when an
     * unload has ended. The scheduler's mutex is not held. Must not block. */
    void (*wake)(void *with);
    void *with;
} sched_options;

/* Creates the engine and starts the engine thread. The text of MOTE_E_MEMORY says which option to
 * lower. */
mote_status sched_new(sched **out, const sched_options *options, mote_error *err);
/* All jobs must have been dropped. Cancels the running step and joins the thread. NULL is
 * allowed. */
void sched_free(sched *s);
/* The options in effect: defaults are filled in. */
const sched_options *sched_settings(const sched *s);
/* Memory of the engine and of suffix lookup; of the model file only while the engine is unloaded.
 * Thread-safe. */
void sched_memory(sched *s, mote_memory *out);
/* Are the options valid for any model? `model` may be NULL. */
mote_status sched_check_options(const sched_options *options, mote_error *err);
/* The largest `context` of a model: what it is trained for, extended by YaRN. */
uint64_t sched_max_context(const mote_model *model, float yarn);
/* The memory that sched_new() would plan with these options. *too_large: it fails because `memory`
 * is not enough; other errors may not last. */
mote_status sched_plan_memory(const sched_options *options, uint64_t *out, bool *too_large,
                              mote_error *err);
/* The smallest `memory` that these options can run with, weights included. */
mote_status sched_min_memory(const sched_options *options, uint64_t *out, mote_error *err);

/* ---- jobs ---- */

typedef enum sched_kind {
    SCHED_ANSWER = 0, /* generates with a chat turn */
    SCHED_EMBED,      /* hidden state after the last prompt token, or the mean over all tokens */
    SCHED_SCORE       /* log-probabilities of the prompt's tokens from `score_from` on */
} sched_kind;

/* Pointers must stay valid until `release`. It is called on the loop thread, inside sched_collect,
 * sched_drop or sched_free, when nothing uses them any more. */
typedef struct sched_job_options {
    sched_kind kind;
    /* turn.prompt is the prompt. turn.event and turn.with are ignored. turn.context is capped to
     * the session's; 0 means the cap. turn.answer->spec lowers the `spec` of the scheduler: 1 to 8
     * is the most draft tokens per step. The other kinds use the prompt only; SCHED_SCORE also uses
     * answer->sampling.top_logprobs if answer is not NULL. */
    chat_turn_options turn;
    const chat_mark *marks; /* [n_marks]: positions where a recurrent state is worth keeping */
    size_t n_marks;
    const mote_image *const *images; /* [n_images]: the images of the prompt's image tokens */
    size_t n_images;
    const mote_lora_use *loras; /* [n_loras]: adapters; open as long as the scheduler */
    size_t n_loras;
    uint64_t client;   /* API key or address; every client gets an equal share */
    uint64_t ns;       /* cache namespace: prefixes are shared only inside it */
    double seconds;    /* time limit since submission; then it stops as by length; 0: none */
    bool background;   /* jobs of batches: all others come first */
    bool no_reuse;     /* do not use the prefix cache */
    bool mean;         /* SCHED_EMBED: mean over all tokens; implies no_reuse */
    size_t score_from; /* SCHED_SCORE: first token with a score; 0 counts as 1 */
    void *owner;
    void (*release)(void *owner);
} sched_job_options;

/* Creates the job and its turn. Compiling a grammar may take long. Thread-safe. The caller owns the
 * job until it is submitted. */
mote_status sched_job_new(sched_job **out, sched *s, const sched_job_options *options,
                          mote_error *err);
/* Frees a job that was never submitted. Does not call release. NULL is allowed. */
void sched_job_discard(sched_job *job);

/* All functions from here to sched_busy: loop thread only. */

/* MOTE_E_FULL: the queue is full; for a background job, half of it. On failure the caller still
 * owns the job. */
mote_status sched_submit(sched *s, sched_job *job, mote_error *err);

/* Gives up a submitted job in any phase. An unfinished job is aborted. It delivers no further
 * event. */
void sched_drop(sched *s, sched_job *job);

/* Closes the think block if one is open. */
void sched_end_thinking(sched *s, sched_job *job);

typedef enum sched_phase { SCHED_QUEUED, SCHED_PREFILL, SCHED_DECODE, SCHED_FINISHED } sched_phase;

typedef struct sched_job_status {
    sched_phase phase;
    uint32_t position;    /* in the queue, from 1 */
    uint64_t done, total; /* prompt tokens in the session, reused ones included; of the prompt */
    uint64_t reused;      /* prompt tokens from the prefix cache, known once it has started */
    double eta;           /* seconds until prefill ends, at the current rate; 0: unknown */
    uint64_t generated;   /* tokens */
} sched_job_status;

void sched_job_get_status(sched *s, const sched_job *job, sched_job_status *out);

/* ---- events ---- */

typedef enum sched_reuse {
    SCHED_REUSE_NONE,
    SCHED_REUSE_LIVE, /* from a running session */
    SCHED_REUSE_IDLE, /* from an idle session */
    SCHED_REUSE_DISK, /* restored from disk */
    SCHED_REUSE_KINDS
} sched_reuse;

/* Where the prompt first differs from the best candidate: the cached prompt of its namespace that
 * shares most tokens with it, and of several that share equally many the one that is equal again
 * soonest after the difference, usually the same conversation. Set only if the difference costs at
 * least 64 tokens of prefill. */
enum { SCHED_MISS_TOKENS = 80 };
typedef struct sched_miss {
    size_t at;                         /* the first token of the prompt that differs */
    size_t n;                          /* 0: no miss to report */
    mote_token had[SCHED_MISS_TOKENS]; /* [n]: tokens of the cached prompt from `at` on */
    size_t usable; /* of the `at` common tokens: up to the last recurrent state that is kept */
    size_t length; /* of the cached prompt */
} sched_miss;

typedef struct sched_result {
    mote_status status; /* not MOTE_OK: see `error`; other fields may be empty */
    mote_error error;
    mote_answer answer; /* SCHED_ANSWER: complete, with reused_tokens and seconds */
    sched_reuse reuse;
    sched_miss miss;    /* SCHED_ANSWER */
    uint32_t compared;  /* cached prompts of its namespace when it started */
    uint32_t preempted; /* times it lost its session and was prefilled again */
    /* seconds since submission; 0: did not happen */
    double started, prefilled, first_token, ended;
    double load_wait;         /* seconds it waited for the engine to reload */
    double restore_wait;      /* seconds it waited for a prefix from disk */
    const mote_token *tokens; /* [n_tokens]: prompt and answer; valid until the job is dropped */
    size_t n_tokens;
    bool open_thinking;     /* it stopped inside a think block */
    const mote_choice *end; /* the end token of the answer; NULL: it ended in another way */
    const float *embedding; /* [n_embedding], not normalised */
    size_t n_embedding;
    const mote_choice *scores; /* [n_scores]: of token score_from + i, given the tokens before */
    size_t n_scores;
} sched_result;

typedef enum sched_event_kind {
    SCHED_EVENT_STARTED, /* left the queue; the status has the number of reused tokens */
    SCHED_EVENT_CHAT,    /* see `chat` */
    SCHED_EVENT_FINISHED /* see `result`; the last event of a job */
} sched_event_kind;

/* `chat` is valid until the event function returns, `result` until the job is dropped. */
typedef struct sched_event {
    sched_event_kind kind;
    const chat_event *chat;
    const sched_result *result;
} sched_event;

/* May drop this job and others, and submit new ones. `owner` is that of the job's options. */
typedef void sched_event_fn(void *with, sched_job *job, void *owner, const sched_event *event);

/* Delivers all events since the last call. Events of one job arrive in order. */
void sched_collect(sched *s, sched_event_fn *fn, void *with);

/* Number of queued and running jobs. */
uint32_t sched_busy(sched *s);

/* ---- unload and reload; thread-safe ---- */

/* Frees the engine with its prefix cache and drops the pages of the model file. Does nothing if a
 * job is queued or running, or arrives first. The next job reloads the engine and waits for it.
 * `wait`: return when done. Returns true if the engine is unloaded. */
bool sched_unload(sched *s, bool wait);
/* Has an unload begun that is not over? */
bool sched_unloading(sched *s);
/* Reloads the engine without a job and waits until it is loaded. */
mote_status sched_load(sched *s, mote_error *err);
bool sched_loaded(sched *s);

/* ---- the prefix cache; thread-safe ---- */

/* An idle session in the prefix cache. */
typedef struct sched_prefix {
    uint64_t id; /* not 0; stays the same while its conversation continues, unless pinned */
    uint64_t ns;
    uint64_t tokens;
    uint64_t bytes; /* pages and states, counted as if none were shared */
    uint64_t hits;  /* jobs that started from it */
    double used;    /* time of the last use, on the clock of os_now */
    bool pinned;
} sched_prefix;

/* Writes at most `room` entries in no order. Returns the number of entries, which is at most
 * options.idle_sessions. */
size_t sched_prefixes(sched *s, sched_prefix *out, size_t room);
/* Returns false if no entry has this id. */
bool sched_prefix_drop(sched *s, uint64_t id);
/* A pinned entry is evicted only if a running job needs its pages and no unpinned entry is left.
 * MOTE_E_ARG: no entry has this id. MOTE_E_FULL: half of the KV positions or half of the idle
 * sessions are pinned already. */
mote_status sched_prefix_pin(sched *s, uint64_t id, bool pin, mote_error *err);

/* ---- stats ---- */

/* Bucket 0 counts up to SCHED_BUCKET_FIRST seconds. Each further bound doubles. The last bucket
 * counts everything longer. */
enum { SCHED_BUCKETS = 20 };
#define SCHED_BUCKET_FIRST 0.001

typedef struct sched_histogram {
    uint64_t count[SCHED_BUCKETS];
    uint64_t n;
    double sum;
} sched_histogram;

typedef struct sched_stats {
    uint64_t jobs, finished, canceled_queued, canceled_prefill, canceled_decode, refused_full;
    uint64_t prompt_tokens, reused_live_tokens, reused_idle_tokens, reused_disk_tokens;
    uint64_t started[SCHED_REUSE_KINDS]; /* answers, by the tier of their prefix */
    uint64_t prefill_tokens;
    uint64_t generated_tokens, think_tokens, loops_detected, loops_recovered, calls;
    uint64_t preempted; /* times a job lost its session and was prefilled again */
    uint64_t paused;    /* times a job lost its slot to another client */
    uint64_t steps, step_rows, prefill_rows;
    spec_stats spec;
    /* times a job was taken out of a running step: dropped, out of time, or in the background */
    uint64_t aborted_inside;
    double step_seconds;
    uint32_t queued, prefilling, decoding, idle_sessions;
    uint64_t idle_bytes; /* pages and states of idle sessions, counted as if none were shared */
    uint32_t parallel;
    uint64_t positions_total, positions_free;
    uint64_t states_total, states_used;
    sched_histogram queue_seconds, prefill_seconds, first_token_seconds, inter_token_seconds,
        request_seconds;
} sched_stats;

void sched_read_stats(sched *s, sched_stats *out);

/* The disk cache; bytes and records of the whole directory, the others of this scheduler. */
typedef struct sched_disk_stats {
    uint64_t bytes, cap, records;
    uint64_t written_records, written_bytes, read_bytes;
    uint64_t damaged; /* records that were removed because of a checksum */
    uint64_t restores, restored_tokens, failed_restores;
    double restore_seconds;
} sched_disk_stats;

/* Writes MOTE_IDENTITY_BYTES bytes: mote_engine_identity. Returns false if there is no disk cache.
 * Thread-safe. */
bool sched_disk_identity(const sched *s, unsigned char *out);
/* Thread-safe. Returns false if there is no disk cache. */
bool sched_read_disk_stats(sched *s, sched_disk_stats *out);

#endif
