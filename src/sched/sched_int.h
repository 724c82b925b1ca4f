/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_int.h - the insides of the scheduler, for the files of serve/ that make it up.
 *
 * Who owns what:
 *   the lock      queue, mailbox, figures, and the fields of a job marked so.
 *   engine thread engine, sessions, shelf, seats, turns of seated jobs, their `fresh` events.
 *   loop thread   what it is delivering, and jobs nobody else holds.
 *
 * A job walks MADE -> QUEUED -> SEATED -> LEFT. While it is SEATED the engine thread may touch
 * all of it that is not the lock's or the loop's; before and after nobody but the loop does.
 */
#ifndef MOTE_SCHED_SCHED_INT_H
#define MOTE_SCHED_SCHED_INT_H

#include "base/strbuf.h"
#include "sched/prefill_budget.h"
#include "sched/sched.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    SCHED_CHUNK = 32,       /* states exist at multiples of it */
    SCHED_MAX_KEEPS = 4,    /* states one prompt keeps: tools, system, pictures, its end */
    SCHED_SCORE_ROWS = 16,  /* rows of logits that scoring may take in a step */
    SCHED_PAGE = 64,        /* positions of a page of the engine */
    SCHED_LITTLE_LOST = 64, /* tokens of an ended session that nobody will miss */
    SCHED_LIGHT = 16        /* tokens to append that do not count as reading */
};

typedef enum job_place { JOB_MADE, JOB_QUEUED, JOB_RUNNING, JOB_DONE } job_place;

/* Of a seated job. */
typedef enum job_state {
    JOB_WAITING, /* has no session: it just came, was put back, or waits for another's prefix */
    JOB_PREFILL, /* its session lacks more than a few tokens */
    JOB_DECODE
} job_state;

struct sched_job {
    sched *s;
    sched_job_options options; /* never changes */
    size_t n_prompt;
    uint64_t number; /* in the order of submission */
    double submitted;

    /* ---- under the lock ---- */
    job_place place;
    uint64_t round;    /* of the queue, see sched_queue.c */
    bool dropped;      /* the loop wants no more of it */
    bool end_thinking; /* asked for by the loop */
    sched_job_status where;
    strbuf news;       /* events that wait to be collected */
    bool news_started; /* so does STARTED, before them */
    bool news_over;    /* and OVER, after them */
    bool ready;        /* it is in the mailbox */
    sched_job *next_ready;

    /* ---- loop thread ---- */
    strbuf read; /* events that are being delivered */
    bool read_started, read_over;
    bool in_batch;
    sched_job *next_batch;

    /* ---- engine thread ---- */
    chat_turn *turn; /* NULL: not SCHED_ANSWER */
    job_state state;
    mote_session *session;
    const mote_token *tokens; /* [n], what the session has to hold */
    size_t n;
    bool wants;              /* tokens and n are set */
    bool begun;              /* it had a session once */
    bool announced;          /* STARTED was published */
    bool leaving;            /* dropped, as the engine thread saw last */
    bool finished;           /* result is complete */
    bool lost;               /* an event could not be kept */
    uint64_t preempted_at;   /* s->n_left when it was put back */
    const sched_job *awaits; /* whose reading it waits for */
    size_t meet;             /* where that has to come */
    size_t keeps[SCHED_MAX_KEEPS];
    size_t n_keeps;
    sched_prefix took; /* what it took over from the shelf; an id of 0: nothing */
    double last_token; /* when */
    strbuf fresh;      /* events since the last publishing */
    size_t n_scored;
    float *embedding; /* [n_embedding] */
    double *sum;      /* [n_embedding], of the tokens the session holds; NULL: no mean is wanted */
    mote_choice *scores; /* [n_scores] */

    sched_result result; /* the engine thread's until news_over, then the loop's */
};

/* A session whose answer is over. */
typedef struct idle_session {
    mote_session *session;
    size_t n_prompt;
    uint64_t used;   /* the clock of the shelf when it ended or was last found useful */
    sched_prefix is; /* as others know it */
    bool dropped;    /* nobody wants it; it goes at the next boundary */
} idle_session;

/* What the loop knows of one, and wants of it: `is.pinned` and `dropped` are its to write. */
typedef struct known_prefix {
    sched_prefix is;
    bool dropped;
} known_prefix;

struct sched {
    sched_options options; /* as decided */
    uint32_t kept_states;
    mote_model_info info;
    mote_memory memory;
    mote_engine_options engine_options; /* to make it anew */
    mote_engine
        *engine; /* the engine thread's; the pointer changes under the lock. NULL: it rests */
    pthread_t thread;
    bool lock_made, cond_made, rested_made, thread_made;

    pthread_mutex_t lock;
    pthread_cond_t work_is; /* there is something to do, or an end */
    pthread_cond_t rested;  /* `loaded`, `rest` or `want` has changed */

    /* ---- under the lock ---- */
    bool stop, draining;
    bool loaded;           /* there is an engine, or it is on its way out */
    bool rest, want;       /* it is to go when nobody is at work; it is to come */
    mote_error load_error; /* of the last time it was made */
    sched_job **queue;     /* [options.queue], in order of arrival */
    uint32_t n_queue;
    uint64_t round;          /* of the job taken last */
    uint64_t n_jobs;         /* numbers given */
    uint32_t busy;           /* queued or seated, dropped ones not counted */
    atomic_bool any_dropped; /* of those seated, not seen yet; without the lock it is a hint */
    sched_job *ready, **ready_end;
    double rate; /* rows of prompts a second, lately */
    sched_stats stats;
    mote_usage use;
    known_prefix *known; /* [options.idle], what stands on the shelf */
    uint32_t n_known;
    bool orders; /* the loop wants something of them */

    /* ---- loop thread ---- */
    sched_job *batch;

    /* ---- engine thread ---- */
    sched_job **slots; /* [parallel + queue], in order of arrival; late ones sit for a moment */
    uint32_t n_slots;
    sched_job **finished; /* [parallel + queue]: left since the last publishing */
    uint32_t n_finished;
    uint64_t n_left;    /* jobs that ever left their seats */
    idle_session *idle; /* [options.idle] */
    uint32_t n_idle;
    uint64_t idle_clock;
    uint64_t n_ids;       /* given to those on the shelf */
    bool idle_changed;    /* since it was told */
    bool to_sweep;        /* somebody on it was dropped */
    mote_work *work;      /* [parallel], the step being built */
    sched_job **work_for; /* [parallel] */
    size_t n_work;
    size_t n_light, n_heavy; /* rows of it that are written, and that are read */
    bool aborted_inside;     /* somebody has left it half-way */
    bool beside;             /* another engine has computed since the step before */
    uint64_t next_number;    /* at the gate, if nobody else takes one */
    sched_job **readers;     /* [parallel], by what is left to read */
    double deadline;         /* the first one of those seated; INFINITY: there is none */
    prefill_budget budget;
    uint32_t *one_token;           /* one bit per token of the vocabulary, all 0 between two uses */
    sched_stats since;             /* counted since the last publishing */
    double load_began, load_ended; /* of the last time it was made anew; 0: never */
};

/* ---- sched_plan.c: numbers ---- */
mote_status sched_plan(sched *s, const sched_options *given, mote_engine_options *engine,
                       mote_error *err);

/* ---- sched_queue.c: who is next; under the lock ---- */
bool queue_put(sched *s, sched_job *job);
sched_job *queue_take(sched *s);
sched_job *queue_take_late(sched *s, double now);
void queue_remove(sched *s, sched_job *job);
uint32_t queue_position(const sched *s, const sched_job *job);

/* ---- sched_mail.c: events ---- */
void mailbox_event(void *with, const chat_event *event);
/* Under the lock; takes `fresh` over. */
void mailbox_post(sched *s, sched_job *job);

/* ---- sched_rest.c: the engine goes and comes ---- */

/* Engine thread, under the lock, which they let go of meanwhile. Does what is wanted; false:
 * nothing is. */
bool engine_unload_step(sched *s);
/* false: load_error says why. */
bool engine_reload(sched *s);
/* Engine thread: tells all that are seated. */
void engine_reload_fail(sched *s);
/* Under the lock: nobody needs to wait any more; somebody needs the engine. */
void engine_unload_end(sched *s);
void engine_reload_request(sched *s);
/* Seconds that a job waited for it. */
double engine_reload_waited(const sched *s, const sched_job *job);

/* ---- sched_job.c ---- */
void job_free(sched_job *job);

/* ---- sched_prefix.c: sessions; engine thread ---- */

/* Gives a standing job its session, or leaves it standing. false: for want of room. */
bool prefix_cache_begin(sched *s, sched_job *job);
/* The position that its next slice must not go beyond. */
size_t prefix_cache_limit(const sched *s, const sched_job *job);
/* It has read so far: keeps the state if this is where one is wanted. */
void prefix_cache_keep(sched *s, sched_job *job);
/* The job needs its session no more. */
void prefix_cache_end(sched *s, sched_job *job);
/* After MOTE_E_MEMORY: frees something. false: one job is all there is. */
bool prefix_cache_make_room(sched *s);
/* How many tokens at their beginnings are the same. */
size_t prefix_cache_common(const mote_session *session, const mote_token *tokens, size_t n);

/* ---- sched_ended.c: the shelf; engine thread ---- */

/* Keeps the session of a job that is over, or frees it. */
void prefix_cache_put(sched *s, const sched_job *job);
/* Takes one off; its session is the caller's. */
void prefix_cache_take(sched *s, uint32_t i);
/* It was useful just now. */
void prefix_cache_touch(sched *s, idle_session *e);
/* Frees the least recently used one, `but` excepted; pinned ones after all others, if at all. */
bool prefix_cache_evict(sched *s, const mote_session *but, bool pinned_too);
/* Takes its states from the one that was not wanted for longest. */
bool prefix_cache_drop_states(sched *s);
/* Frees those that were dropped. */
void prefix_cache_sweep(sched *s);
void prefix_cache_free_all(sched *s);
/* Both under the lock: what the loop wants of them; that, and what it may know. */
void prefix_cache_apply_orders(sched *s);
void prefix_cache_publish(sched *s);

/* ---- sched_slices.c: what goes into a step; engine thread ---- */
void batch_build(sched *s);

/* ---- sched_drive.c: turns; engine thread ---- */

/* Is it dropped or late? */
bool job_must_stop(const sched_job *job);
/* Between two steps, or inside one if it must go: it may be dropped, late, or new. */
void job_boundary(sched *s, sched_job *job);
/* When its time is over; INFINITY: never. */
double job_deadline(const sched_job *job);
/* The step has brought this item of work. */
void job_advance(sched *s, sched_job *job, const mote_work *work);
/* It is over: by itself or by an error. It leaves its seat. */
void job_finish(sched *s, sched_job *job, mote_status status, const mote_error *err);

/* ---- sched_thread.c ---- */
void *thread_run(void *with);

/* ---- sched_stats.c ---- */
void stats_time(sched_histogram *h, double seconds);
void stats_over(sched *s, const sched_job *job);
/* Under the lock. */
void stats_merge(sched_stats *into, sched_stats *since);

#endif
