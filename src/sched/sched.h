/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched.h - many answers at once on one engine.
 *
 * Two threads meet here. The engine thread, started by sched_new, owns the engine, its
 * sessions and the turns of running jobs. The loop thread submits, drops and collects. They
 * share one lock, held for moments and never during a step; events travel in batches, one
 * wake for all that a step brought.
 *
 *   submit -> queue -> reading (the prompt, in slices) -> writing (one token a step) -> over
 *
 * Every step carries one token of each answer that is being written, and with what time
 * is left a slice of the prompts that are being read; slices are measured so that those who
 * are writing keep their pace. What is written does not depend on company, slices or reuse.
 *
 * Sessions that ended stay a while for their prefixes. A new job begins with the longest
 * prefix that a live or an ended session of its realm has; states are kept at the marks of
 * the renderer. If pages run out, ended sessions go first, the least recently used one
 * before others and pinned ones last; then the youngest answer is put back and read again later,
 * which changes when it comes, not what it says.
 */
#ifndef MOTE_SCHED_SCHED_H
#define MOTE_SCHED_SCHED_H

#include "chat/prompt/render.h"
#include "chat/turn/turn.h"
#include "sched/core_lock.h"

typedef struct sched sched;
typedef struct sched_job sched_job;

enum { SCHED_USUAL_QUEUE = 256 };

typedef struct sched_options {
    const mote_model *model;
    uint32_t parallel;  /* answers at once; 0: 8 */
    uint32_t idle;      /* ended sessions kept for their prefixes; 0: as many as parallel */
    uint32_t queue;     /* jobs that may wait; 0: SCHED_USUAL_QUEUE */
    uint64_t context;   /* positions of one session; 0: the model's, as far as `positions` goes */
    uint64_t positions; /* of all sessions together; 0: 32,768 or what `memory` has room for */
    uint64_t memory;    /* bytes for everything; 0: no limit beside the other numbers */
    uint32_t threads;   /* as in mote_engine_options; so kv, yarn, pin */
    mote_kv kv;
    float yarn;
    mote_pin pin;
    core_lock *gate; /* shared with schedulers on the same cores; NULL: it is alone */
    uint64_t salt;   /* of the ids of prefixes: another one for every scheduler */
    /* From the engine thread: there is something to collect. Must not block. */
    void (*wake)(void *with);
    void *with;
} sched_options;

/* Makes the engine and starts its thread. MOTE_E_MEMORY says which number to lower. */
mote_status sched_new(sched **out, const sched_options *options, mote_error *err);
/* Every job must have been dropped. Cancels, waits for the step to end, joins. NULL is allowed. */
void sched_free(sched *s);
/* What was decided: no zero means "default" any more. */
const sched_options *sched_settings(const sched *s);
/* What its engine holds; without one, what the open model does. Any thread. */
void sched_memory(sched *s, mote_memory *out);
/* The least memory these options can work with, weights included: for those who divide it. */
mote_status sched_least_memory(const sched_options *options, uint64_t *out, mote_error *err);

/* ---- jobs ---- */

typedef enum sched_kind {
    SCHED_ANSWER = 0, /* drives a turn */
    SCHED_EMBED,      /* the hidden state after the last token of the prompt, or the mean of all */
    SCHED_SCORE       /* log-probabilities of the prompt's tokens from `score_from` on */
} sched_kind;

/* What pointers lead to must stay until `release`, which is called on the loop thread, from
 * inside sched_collect, sched_drop or sched_free, once nothing needs it any more. */
typedef struct sched_job_options {
    sched_kind kind;
    /* The prompt is turn.prompt; event and with are ours; a context of 0 or of more than a session
     * has is that of a session. For the other kinds only the prompt counts, for SCHED_SCORE also
     * answer->sampling.top_logprobs if there is an answer. */
    chat_turn_options turn;
    const chat_mark *marks; /* [n_marks], where states are worth keeping */
    size_t n_marks;
    const mote_image *const *images; /* [n_images], whose tokens are among the prompt's */
    size_t n_images;
    uint64_t client;   /* jobs of one client take turns with those of others */
    uint64_t ns;       /* prefixes are shared inside a realm only */
    double seconds;    /* it ends after so many, as if by length; 0: no limit */
    bool no_reuse;     /* begin from nothing */
    bool mean;         /* of SCHED_EMBED: of the states after all tokens; begins from nothing too */
    size_t score_from; /* 0 is 1: before the first token there is nothing */
    void *owner;
    void (*release)(void *owner);
} sched_job_options;

/* On any thread: makes the turn, which may take a while if there is a grammar. The job is the
 * caller's until it is submitted. */
mote_status sched_job_new(sched_job **out, sched *s, const sched_job_options *options,
                          mote_error *err);
/* Of a job that was not submitted. Does not call release. */
void sched_job_discard(sched_job *job);

/* Loop thread from here on. MOTE_E_FULL: the queue is full. MOTE_E_CANCELED: draining.
 * After a failure the job is still the caller's. */
mote_status sched_submit(sched *s, sched_job *job, mote_error *err);

/* The one way to let go of a job, whatever became of it: it is canceled if it is not over, and
 * no event of it comes any more. */
void sched_drop(sched *s, sched_job *job);

/* Closes its think block, if it has one open. */
void sched_end_thinking(sched *s, sched_job *job);

typedef enum sched_phase { SCHED_QUEUED, SCHED_PREFILL, SCHED_DECODE, SCHED_OVER } sched_phase;

typedef struct sched_job_status {
    sched_phase phase;
    uint32_t position;    /* in the queue, from 1 */
    uint64_t done, total; /* tokens of the prompt, reused ones included */
    uint64_t reused;      /* of these, once it has started */
    double eta;           /* seconds until it is read, at the present pace; 0: not known */
    uint64_t written;     /* tokens */
} sched_job_status;

void sched_job_get_status(sched *s, const sched_job *job, sched_job_status *out);

/* ---- events ---- */

typedef enum sched_reuse {
    SCHED_REUSE_NONE,
    SCHED_REUSE_LIVE, /* from a session that was still at work */
    SCHED_REUSE_ENDED /* from one that had ended */
} sched_reuse;

/* Where a prompt parted from the one of an earlier session of its realm that it had most in common
 * with, if all of that would have been worth having. */
enum { SCHED_MISS_TOKENS = 80 };
typedef struct sched_miss {
    size_t at;                         /* the first token of the prompt that differs */
    size_t n;                          /* 0: there is nothing to tell */
    mote_token had[SCHED_MISS_TOKENS]; /* [n], of the other prompt from there on */
} sched_miss;

typedef struct sched_result {
    mote_status status; /* other than MOTE_OK: `error` says why, the rest may be empty */
    mote_error error;
    mote_answer answer; /* of SCHED_ANSWER: complete, reused_tokens and seconds included */
    sched_reuse reuse;
    sched_miss miss;    /* of SCHED_ANSWER */
    uint32_t preempted; /* how often it had to be read again for want of pages */
    /* seconds since it was submitted; 0: it did not come to that */
    double started, read, first_token, ended;
    double load;              /* of these, for the engine to come back */
    const mote_token *tokens; /* [n_tokens], the timeline, prompt included, until it is dropped */
    size_t n_tokens;
    bool open;              /* it was stopped inside thinking */
    const float *embedding; /* [n_embedding], not normalised */
    size_t n_embedding;
    const mote_choice *scores; /* [n_scores]: of token score_from + i, given those before it */
    size_t n_scores;
} sched_result;

typedef enum sched_event_kind {
    SCHED_EVENT_STARTED, /* left the queue; where.total and how much of it is reused are known */
    SCHED_EVENT_CHAT,    /* chat */
    SCHED_EVENT_OVER     /* result; the last one */
} sched_event_kind;

/* Views end when the function that receives them returns, those of `result` when the job is
 * dropped. */
typedef struct sched_event {
    sched_event_kind kind;
    const chat_event *chat;
    const sched_result *result;
} sched_event;

/* May drop this job and others, and submit new ones. `owner` is that of the job's options. */
typedef void sched_event_fn(void *with, sched_job *job, void *owner, const sched_event *event);

/* Delivers all that happened since the last time, in order for every job. */
void sched_collect(sched *s, sched_event_fn *fn, void *with);

/* Refuses new jobs; those in the queue and at work go on. */
void sched_drain(sched *s);
/* Jobs that are queued or at work. */
uint32_t sched_busy(sched *s);

/* ---- rest; any thread ---- */

/* Gives back all that the engine holds, what is kept of conversations included, and the pages of
 * the model's file, unless somebody is queued or at work, or comes first. The next job makes it
 * anew, on the engine thread, and waits for it. `wait`: until it is done; true: it is gone. */
bool sched_unload(sched *s, bool wait);
/* Makes it anew without a job, and waits for it. */
mote_status sched_load(sched *s, mote_error *err);
bool sched_loaded(sched *s);

/* ---- what is kept; any thread ---- */

/* An ended session that is kept for its beginning. */
typedef struct sched_prefix {
    uint64_t id; /* not 0; a conversation that goes on keeps it, unless it was pinned */
    uint64_t ns;
    uint64_t tokens;
    uint64_t bytes; /* as if it shared nothing with others */
    uint64_t hits;  /* jobs that began from it */
    double used;    /* when it ended, or one last did; os_now's clock */
    bool pinned;
} sched_prefix;

/* Writes at most `room` of them in no order, `options.idle` at most; returns how many there are. */
size_t sched_prefixes(sched *s, sched_prefix *out, size_t room);
/* false: there is none of this id. */
bool sched_prefix_drop(sched *s, uint64_t id);
/* One that is pinned goes after all that are not, and only if an answer at work needs its pages.
 * MOTE_E_ARG: there is none of this id. MOTE_E_FULL: half of the positions, or of the places, are
 * pinned already. */
mote_status sched_prefix_pin(sched *s, uint64_t id, bool pin, mote_error *err);

/* ---- figures ---- */

/* The first bucket counts what took at most SCHED_BUCKET_FIRST seconds, each next one twice
 * that of the one before, the last everything longer. */
enum { SCHED_BUCKETS = 20 };
#define SCHED_BUCKET_FIRST 0.001

typedef struct sched_histogram {
    uint64_t count[SCHED_BUCKETS];
    uint64_t n;
    double sum;
} sched_histogram;

typedef struct sched_stats {
    uint64_t jobs, finished, canceled_queued, canceled_prefill, canceled_decode, refused_full;
    uint64_t prompt_tokens, reused_live_tokens, reused_ended_tokens, read_tokens;
    uint64_t written_tokens, think_tokens, loops_found, loops_left, calls, preempted;
    uint64_t steps, step_rows, prompt_rows;
    uint64_t left_inside; /* dropped or late in the middle of a step, and taken out of it */
    double step_seconds;
    uint32_t queued, reading, writing, ended_kept;
    uint32_t parallel;
    uint64_t positions_total, positions_free;
    uint64_t states_total, states_used;
    sched_histogram queue_seconds, reading_seconds, first_token_seconds, between_seconds,
        request_seconds;
} sched_stats;

void sched_read_stats(sched *s, sched_stats *out);

#endif
