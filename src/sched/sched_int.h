/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_int.h - private to the files of sched/.
 *
 * Ownership:
 *   mutex          queue, mailbox, stats, prefix table, and the job fields marked so
 *   engine thread  engine, sessions, idle sessions, slots, turns of running jobs, new events
 *   loop thread    events in delivery, and jobs that are neither queued nor running
 *
 * Stages of a job: JOB_NEW -> JOB_QUEUED -> JOB_RUNNING -> JOB_DONE. While it runs, the engine
 * thread may use all fields except those of the mutex and of the loop thread. In the other stages
 * only the loop thread uses it.
 */
#ifndef MOTE_SCHED_SCHED_INT_H
#define MOTE_SCHED_SCHED_INT_H

#include "base/str.h"
#include "sched/prefill_budget.h"
#include "sched/sched.h"
#include "spec/spec.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    SCHED_CHUNK = 32,     /* recurrent states exist at multiples of this position */
    SCHED_PAGE = 64,      /* positions per KV page of the engine */
    SCHED_MAX_KEEPS = 24, /* states kept per prompt: tools, volatile lines, system, messages, end */
    SCHED_SCORE_ROWS = 16,        /* rows with logits that scoring jobs may use in a step */
    SCHED_DRAFT_ROWS = 32,        /* rows with logits of draft tokens in a step */
    SCHED_REWIND_TOLERANCE = 64,  /* tokens of an idle session that may be discarded on reuse */
    SCHED_MAX_DECODE_TOKENS = 16, /* a job that appends more tokens counts as prefilling */
    SCHED_FLUSH_SECONDS = 5,      /* to save idle sessions before the engine is freed */
    SCHED_MAX_ENDS = 64,          /* ends of prompts in memory, and their bytes, at most */
    SCHED_MAX_END_BYTES = 64 << 20,
};

/* Fair shares between keys, see key_share.c. */
enum {
    SHARE_DECODE_UNITS = 4, /* service of a decode token; a prefill token: 1 */
    SHARE_QUANTUM = 16,     /* units: a job runs so long before it is paused */
    SHARE_MAX_CREDIT = 256, /* units that a key can be behind another */
    SHARE_ROW = 20,         /* decode row of the key that is behind, */
    SHARE_ROW_AHEAD = 17,   /* and of the others, which get up to 20/17 of its rows */
    SHARE_LEAD = 8 * SHARE_ROW,
    SHARE_PAUSED = 8,            /* paused jobs per slot, at most */
    SHARE_BACKGROUND_EVERY = 16, /* steps: background jobs are in one of so many of other jobs */
    SHARE_REMEMBERED = 256,      /* inactive keys with remembered counters, at least */
};

/* The last multiple of SCHED_CHUNK. */
static inline size_t sched_boundary(size_t position)
{
    return position / SCHED_CHUNK * SCHED_CHUNK;
}

typedef enum job_stage { JOB_NEW, JOB_QUEUED, JOB_RUNNING, JOB_DONE } job_stage;

/* Of a running job. */
typedef enum job_state {
    JOB_WAITING, /* no session: just started, preempted, or waits for another job's prefill */
    JOB_PREFILL, /* its session lacks more than SCHED_MAX_DECODE_TOKENS tokens */
    JOB_DECODE,
    JOB_PAUSED /* preempted for another key; it has no slot, and a session if memory allows */
} job_state;

/* An API key, or an address if there are no keys, with the service it got. */
typedef struct sched_key {
    uint64_t client;
    bool background;
    uint32_t jobs; /* mutex: queued and running */
    /* ---- engine thread ---- */
    bool was_active; /* it had jobs in the last allocation */
    int64_t service; /* units, see key_share.c */
    bool decodes;    /* it had decode rows in the last step */
    int64_t decoded; /* decode rows times SHARE_ROW or SHARE_ROW_AHEAD */
    /* of the current allocation */
    uint32_t running, paused, queued; /* jobs */
    uint32_t slots;                   /* it should have */
    bool open;                        /* it may get one slot more */
    sched_job *next;                  /* to start; NULL: none */
    uint32_t decode_rows;             /* decoding jobs */
    size_t prefill_left;              /* tokens that its prefilling jobs lack */
    bool skip;                        /* leave its decode rows out of the step */
    bool behind;                      /* no key has decoded less */
} sched_key;

struct sched_job {
    sched *s;
    sched_job_options options; /* constant */
    size_t n_prompt;
    uint64_t number; /* in order of submission */
    double submitted;

    /* ---- mutex ---- */
    job_stage stage;
    uint64_t round;    /* see job_queue.c */
    sched_key *key;    /* set by queue_put; then constant */
    bool dropped;      /* by the loop thread */
    bool end_thinking; /* requested by the loop thread */
    sched_job_status status;
    strbuf pending;        /* published events, not collected yet */
    bool pending_started;  /* STARTED is to be delivered before them */
    bool pending_finished; /* FINISHED is to be delivered after them */
    bool in_mailbox;
    sched_job *next_in_mailbox;

    /* ---- loop thread ---- */
    strbuf delivery; /* events in delivery */
    bool delivery_started, delivery_finished;
    bool in_delivery;
    sched_job *next_in_delivery;

    /* ---- engine thread ---- */
    chat_turn *turn;               /* NULL: not SCHED_ANSWER */
    spec_seq *seq;                 /* for its drafts; NULL: none yet */
    bool no_seq;                   /* out of memory for it */
    job_state state, paused_state; /* paused_state: the state before the pause */
    size_t charged;                /* tokens that count in the service of its key */
    int64_t run_units;             /* service since it got its slot */
    mote_session *session;
    const mote_token *tokens; /* [n]: what the session must hold next */
    size_t n;
    bool has_tokens;            /* tokens and n are set */
    bool started;               /* had a session once */
    bool miss_noted;            /* the first difference to prompts on disk */
    bool started_sent;          /* STARTED is published */
    bool aborted;               /* copy of `dropped` for the engine thread */
    bool events_lost;           /* out of memory for an event */
    uint64_t preempted_at;      /* s->n_ended when it was preempted */
    const sched_job *waits_for; /* job that prefills a common prefix; NULL: none */
    size_t fork_at;             /* position that job has to reach */
    size_t keeps[SCHED_MAX_KEEPS];
    size_t n_keeps;
    size_t differs_at;        /* where its prompt left the session that it started from; 0: none */
    size_t branch_at;         /* a copy of the session is cached at this position; 0: none */
    sched_prefix reused_from; /* idle session that it took over; id 0: none */
    struct prefix_restore *restore; /* from disk; the job waits for it; NULL: none */
    uint32_t n_restores;            /* started for the job */
    bool index_checked;             /* the disk index is as new as the job */
    bool waits_for_index;           /* it is being read */
    double last_token;              /* time */
    strbuf new_events;              /* since the last publication */
    size_t n_scored;
    float *embedding;    /* [n_embedding] */
    double *sum;         /* [n_embedding]: sum over the session's tokens; NULL: no mean wanted */
    mote_choice *scores; /* [n_scores] */

    sched_result result; /* of the engine thread until pending_finished, then of the loop thread */
};

/* A session of a finished job, or of a branch: a prefix after which several prompts differed. */
typedef struct idle_session {
    mote_session *session;
    size_t n_prompt;
    size_t head;        /* end of the tools and the system text; 0: none */
    size_t differs_at;  /* where the last job that started from it left its tokens; 0: none */
    bool is_branch;     /* jobs fork it and never take it over */
    bool is_unsaved;    /* some of its blocks may be missing on disk */
    bool is_saving;     /* the disk cache reads it: jobs fork it and never take it over */
    uint64_t last_used; /* idle_clock of the last use */
    sched_prefix info;
    bool dropped; /* to be freed at the next step boundary */
} idle_session;

/* The end of a prompt (mote_session_read_end): an equal prompt starts with it, without a step. */
typedef struct prompt_end {
    uint64_t ns;
    uint64_t adapters; /* disk_adapters */
    size_t n;          /* tokens */
    uint64_t last_used;
    bool is_saving; /* the disk cache reads it */
    size_t bytes;   /* of data */
    void *data;
    mote_token tokens[]; /* [n] */
} prompt_end;

/* Entry of the prefix table. Other threads write info.pinned and dropped, under the mutex. */
typedef struct prefix_entry {
    sched_prefix info;
    bool dropped;
} prefix_entry;

struct sched {
    sched_options options; /* with defaults filled in */
    uint32_t kept_states;
    mote_model_info info;
    mote_memory memory;
    mote_engine_options engine_options; /* for a reload */
    mote_engine *engine; /* engine thread; the pointer changes under the mutex; NULL: unloaded */
    pthread_t thread;
    bool has_lock, has_work_ready, has_load_changed, has_thread;

    pthread_mutex_t lock;
    pthread_cond_t work_ready;   /* the engine thread has something to do, or must stop */
    pthread_cond_t load_changed; /* loaded, unload_requested or load_requested changed */

    /* ---- mutex ---- */
    bool stop;
    bool loaded;           /* an engine exists, or is being freed */
    bool unload_requested; /* takes effect when no job is queued or running */
    bool load_requested;
    mote_error load_error; /* of the last reload, or of the step that found a damaged file */
    bool damaged;      /* engine thread: a step could not read the weights; engine_fail is due */
    sched_job **queue; /* [options.queue], in order of arrival */
    uint32_t n_queue;
    uint64_t round;  /* of the job taken last */
    sched_key *keys; /* [max_keys]: `client` and `jobs`; other fields: engine thread */
    uint32_t n_keys, max_keys;
    uint64_t n_jobs;            /* submitted */
    uint32_t busy;              /* queued or running, without dropped ones */
    atomic_bool any_dropped;    /* a running job was dropped; read without the mutex as a hint */
    atomic_bool any_foreground; /* a job that is not in the background arrived; the same */
    sched_job *mailbox, **mailbox_end;
    double prefill_rate; /* rows per second, moving average */
    sched_stats stats;
    mote_usage usage;
    prefix_entry *prefixes; /* [options.idle_sessions]: copy of the idle sessions */
    uint32_t n_prefixes;
    bool prefix_requests; /* entries were pinned, unpinned or dropped */
    bool disk_event;      /* a save or a restore has ended */

    /* ---- loop thread ---- */
    sched_job *delivery;

    /* ---- engine thread ---- */
    sched_job **slots; /* [max_slots], in order of arrival: at most `parallel` running jobs, paused
                          jobs, and jobs that ran out of time in the queue */
    uint32_t n_slots, max_slots;
    sched_key **active; /* [max_keys]: keys with jobs, of the last allocation */
    uint32_t n_active;
    bool hold_background; /* the step has no rows of background jobs */
    uint32_t held_steps;  /* since the last one that had some */
    sched_job **finished; /* [max_slots]: since the last publication */
    uint32_t n_finished;
    uint64_t n_ended;   /* jobs that ever left their slot */
    idle_session *idle; /* [options.idle_sessions] */
    uint32_t n_idle;
    uint64_t idle_clock;
    uint64_t n_ids;    /* prefix ids given */
    bool idle_changed; /* since the last publication */
    bool idle_dropped; /* an idle session is marked dropped */
    prompt_end *ends[SCHED_MAX_ENDS];
    uint32_t n_ends;
    uint64_t end_bytes, max_end_bytes; /* of all ends */
    mote_work *work;                   /* [parallel]: the batch of the step */
    sched_job **work_job;              /* [parallel]: NULL: aborted inside the step */
    spec_item *items;                  /* [parallel]: the same with drafts (batch_draft.c) */
    size_t n_work;
    size_t n_decode_rows, n_prefill_rows; /* of the batch */
    bool aborted_inside;                  /* a job was taken out of the running step */
    bool other_engine_ran;                /* on the same cores, since the last step */
    uint64_t next_ticket;                 /* of the core lock, if no other engine takes one */
    sched_job **prefilling;               /* [parallel]: by remaining tokens */
    struct prefix_disk *disk;             /* NULL: no disk cache; the pointer is constant */
    spec *spec;                           /* what is known about drafts */
    bool planned;                         /* draft_plan has seen the batch */
    double plan_seconds;                  /* that it took */
    double next_deadline;                 /* of the jobs in the slots; INFINITY: none */
    prefill_budget budget;
    uint32_t *token_mask;            /* one bit per token; all 0 between two uses */
    sched_stats stats_delta;         /* since the last publication */
    double load_started, load_ended; /* of the last reload; 0: never */
};

/* ---- memory_plan.c ---- */
mote_status sched_plan(sched *s, const sched_options *given, mote_engine_options *engine,
                       mote_error *err);
/* Adds the memory outside the engine: of drafts, and of ends of prompts. */
void sched_add_outside(sched *s, mote_memory *memory);

/* ---- job_queue.c; under the mutex ---- */

/* Returns false if the queue is full. */
bool queue_put(sched *s, sched_job *job);
/* Order of the queue. */
bool queue_before(const sched_job *a, const sched_job *b);
/* The next job of the key, which must have one. */
sched_job *queue_take(sched *s, const sched_key *key);
/* A job with an expired time limit; NULL: none. */
sched_job *queue_take_expired(sched *s, double now);
void queue_remove(sched *s, sched_job *job);
uint32_t queue_position(const sched *s, const sched_job *job);

/* ---- key_share.c; engine thread ---- */

/* Under the mutex, any thread: the entry of this client. Its background jobs have one of their own.
 */
sched_key *share_key_of(sched *s, uint64_t client, bool background);
/* Under the mutex: divides the slots between the keys, pauses jobs, and fills the free slots. */
void share_fill_slots(sched *s);
/* Counts the tokens from position `from` to `to`, which the last step computed, as service. */
void share_charge(sched_job *job, size_t from, size_t to);
/* Sets key->skip of all active keys and s->hold_background for the next step. */
void share_limit_decode(sched *s);
/* The step carries so many decode rows of the key. */
void share_count_decode(sched_key *key, size_t rows);
/* The key is so far behind that it may preempt jobs of other keys. */
bool share_is_starved(const sched *s, const sched_key *key);

/* ---- job.c ---- */

/* Under the mutex: publishes the new events of a job. */
void mailbox_post(sched *s, sched_job *job);

/* ---- engine_unload.c ---- */

/* Engine thread, under the mutex, which both functions release while they work. */
/* Unloads or loads as requested. Returns false if nothing is requested. */
bool engine_unload_step(sched *s);
/* Returns false on failure; s->load_error says why. */
bool engine_reload(sched *s);
/* Engine thread, after a step that could not read the weights: finishes all running jobs with
 * load_error and unloads. Later jobs reload the model, which succeeds once the file is back. */
void engine_fail(sched *s);
/* Engine thread: finishes all running jobs with load_error. */
void engine_reload_fail(sched *s);
/* Under the mutex: clears both requests and wakes their callers. */
void engine_unload_end(sched *s);
/* Under the mutex: a job arrived, so a requested unload is canceled. Returns whether there was one;
 * the caller passes that to engine_unload_cancelled() when it has released the mutex. */
bool engine_unload_cancel(sched *s);
/* Not under the mutex: wakes the owner, because the unload has ended. */
void engine_unload_cancelled(sched *s, bool cancelled);

/* ---- prefix_cache.c; engine thread ---- */

typedef enum prefix_begin {
    PREFIX_BEGUN,   /* the job has a session */
    PREFIX_FULL,    /* the same; it holds all tokens, and the logits of the last: sample at once */
    PREFIX_WAITS,   /* another job is prefilling a common prefix */
    PREFIX_NO_ROOM, /* not enough free KV pages */
    PREFIX_FAILED   /* see the error */
} prefix_begin;

/* Gives a waiting job its session. */
prefix_begin prefix_cache_begin(sched *s, sched_job *job, mote_error *err);
/* Moves the session of a finished job to the idle sessions, or frees it. */
void prefix_cache_end(sched *s, sched_job *job);
/* One more paused job could keep its session. */
bool prefix_cache_can_park(const sched *s);
/* Frees sessions if there are more idle ones and sessions of paused jobs than idle_sessions. */
void prefix_cache_limit_parked(sched *s);
/* After MOTE_E_MEMORY: evicts an idle session or preempts a job. Returns false if only one job is
 * left. */
bool prefix_cache_make_room(sched *s);
/* Frees the idle sessions that were dropped through the API. */
void prefix_cache_sweep(sched *s);
void prefix_cache_free_all(sched *s);

/* ---- idle_sessions.c; engine thread ---- */

/* Number of equal tokens at the start of both. */
size_t prefix_common(const mote_session *session, const mote_token *tokens, size_t n);
/* May the job start from a session of this namespace? Its adapters must be those of the job. */
bool prefix_may_use(const sched_job *job, uint64_t ns, const mote_session *session);
/* Removes entry i without freeing its session. */
void idle_remove(sched *s, uint32_t i);
/* The entry of least value that is pinned, or not, as `pinned` says; UINT32_MAX: none. */
uint32_t idle_least(const sched *s, const mote_session *except, bool pinned);
/* Frees the entry of least value; a pinned one only if `pinned_too` and no other is left.
 * Returns false if nothing can be evicted. */
bool idle_evict(sched *s, const mote_session *except, bool pinned_too);
void idle_touch(sched *s, idle_session *e);
/* Idle sessions and those of paused jobs: options.idle_sessions together. */
uint32_t idle_parked(const sched *s);
/* Adds a session of the job: that of the finished job, or a branch. Entries it covers are freed; if
 * an entry covers it, the session itself is freed. Branches stay: they save what others do not. */
void idle_add(sched *s, const sched_job *job, mote_session *session, bool is_branch);
/* Expected use of the entry: grows with the hits, falls with the uses of others since the last
 * one. */
double idle_use(const sched *s, const idle_session *e);
/* Its states have changed. */
void idle_count_bytes(sched *s, idle_session *e);

/* ---- prefix_room.c; engine thread ---- */

/* Evicts idle sessions other than `except`, and preempts jobs of other keys, until the job's tokens
 * after the first `reach` fit. A job running alone always proceeds. A preempted job waits until
 * another job ends, because the others needed the pages it freed. */
bool prefix_room_for(sched *s, const sched_job *job, size_t reach, const mote_session *except);

/* ---- prefix_states.c; engine thread ---- */

/* Fills job->keeps: the positions where prefix_states_keep() keeps a recurrent state, so that later
 * jobs can fork there. Frees states of earlier turns that are not wanted any more. */
void prefix_states_plan(sched_job *job);
/* After a prefill chunk: keeps the recurrent state if one is planned here. */
void prefix_states_keep(sched *s, sched_job *job);
/* The position that the job's next prefill chunk must not exceed. */
size_t prefix_states_limit(const sched *s, const sched_job *job);
/* End of the tools and the system text; 0: none. */
size_t prefix_states_head(const sched_job *job);

/* ---- prompt_end.c; engine thread ---- */

/* The prompt of the job is not prefilled yet: its end will be kept. */
bool prompt_end_wanted(const sched_job *job);

/* The prompt of the job was prefilled by the last step: keeps its end, if there is memory. */
void prompt_end_note(sched *s, const sched_job *job);
/* The end of the job's tokens; NULL: none. */
prompt_end *prompt_end_find(sched *s, const sched_job *job);
/* The longest end of a prompt that the session begins with; NULL: none. */
prompt_end *prompt_end_of(sched *s, uint64_t ns, const mote_session *session);
/* The session has the state at the last multiple of 32 tokens of the prompt. Adds the tokens after
 * it, and the logits of the last one. Returns false if no page is free: the session then lacks the
 * tokens after that state. */
bool prompt_end_use(sched *s, prompt_end *end, mote_session *session);
/* Frees the ends of prompts that the session begins with. */
void prompt_end_drop(sched *s, uint64_t ns, const mote_session *session);
void prompt_end_free_all(sched *s);

/* ---- prefix_disk.c; engine thread ---- */

/* Opens the disk cache of the options. Without it the scheduler works in memory only. */
void prefix_disk_open(sched *s);
void prefix_disk_close(sched *s);
/* Starts to save an idle session if the writer has nothing to do. */
void prefix_disk_save(sched *s);
/* The session of the entry changes or is freed: the writer stops reading it. */
void prefix_disk_release(sched *s, idle_session *e);
/* The end is about to be freed: the writer stops reading it. */
void prefix_disk_release_end(sched *s, const prompt_end *end);
/* Saves all idle sessions, in so many seconds at most and while `goes_on`, if not NULL, agrees. */
void prefix_disk_flush(sched *s, double seconds, bool (*goes_on)(sched *s));
/* Another process changed the directory: its index is read again, and the job waits for that. */
bool prefix_disk_is_refreshing(sched *s, sched_job *job);
/* Tokens of the job that a restore gives, at most `most`; 0: not enough more than `have`. */
size_t prefix_disk_find(sched *s, const sched_job *job, size_t most, size_t have);
/* Where the prompt of the job leaves the prefix on disk that shares most tokens with it, at least
 * `least`. Returns false if there is none. */
bool prefix_disk_miss(sched *s, const sched_job *job, size_t least, sched_miss *out);
/* Sets job->restore. Returns false if it cannot start. */
bool prefix_disk_begin(sched *s, sched_job *job, size_t position);
/* Returns false while the restore runs. *out: the session; NULL: it failed. If it holds all tokens
 * of the job, it has the logits of the last: they must be sampled before the next step. */
bool prefix_disk_poll(sched *s, sched_job *job, mote_session **out);
/* Ends the restore of the job. Returns false if it has none. */
bool prefix_disk_cancel(sched *s, sched_job *job);
/* Without work for a step: waits a few ms for a restore, if one runs. Not under the core lock. */
void prefix_disk_wait(sched *s);

/* ---- prefix_table.c; engine thread ---- */

/* Under the mutex: applies pin and drop requests from the prefix table to the idle sessions. */
void prefix_table_apply_requests(sched *s);
/* Under the mutex: applies requests, then copies the idle sessions to the prefix table. */
void prefix_table_publish(sched *s);

/* ---- batch.c; engine thread ---- */
void batch_build(sched *s);

/* ---- batch_draft.c; engine thread ---- */

mote_status draft_init(sched *s, mote_error *err);
/* The engine was created, reloaded or unloaded. */
void draft_use_engine(sched *s);
/* Adds drafts to the decoding jobs of the batch, if the step should be faster per token with them.
 */
void draft_plan(sched *s);
/* Work item i was taken out of the running step, or the step ended before its tokens. */
void draft_leave(sched *s, size_t i);
/* Not between draft_plan and draft_observe of a step with the job: frees its lookup. So at most
 * `parallel` exist. */
void draft_forget(sched_job *job);
/* After the step and job_advance: learns from it. step_seconds: 0 if they say nothing. */
void draft_observe(sched *s, double step_seconds);

/* ---- job_advance.c; engine thread ---- */

/* Returns true if the job was dropped or its time is over. */
bool job_must_stop(const sched_job *job);
/* Between two steps: ends a dropped, failed or expired job, and prepares a new one. Inside a step:
 * only for jobs that must stop. */
void job_boundary(sched *s, sched_job *job);
/* End of its time limit; INFINITY: none. */
double job_deadline(const sched_job *job);
/* Consumes the results of work item `item` of a step. */
void job_advance(sched *s, sched_job *job, size_t item);
/* Samples from the logits that the session of a new job already has (PREFIX_FULL). */
void job_advance_full(sched *s, sched_job *job);
/* Completes the result and frees the slot. */
void job_finish(sched *s, sched_job *job, mote_status status, const mote_error *err);
/* Under the mutex: adds `delta` to `into` and clears it. */
void stats_merge(sched_stats *into, sched_stats *delta);

/* ---- engine_thread.c ---- */

/* Under the mutex. */
void slot_add(sched *s, sched_job *job);
void *engine_thread_run(void *with);

#endif
