/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefix_cache.c - reuse of KV pages and recurrent states between jobs.
 *
 * A new job starts from the session of its cache namespace, running or idle, that shares the
 * longest usable prefix with its tokens. Tokens are compared one by one; no hash is trusted. If
 * another job is prefilling the same prefix, the new job waits until that job reaches the position
 * where the two prompts differ, then forks there.
 *
 * Branches. A session can be forked at a chunk boundary, or near its end. If two jobs in a row
 * leave a cached session in the same chunk (equal instructions, other questions), the second one
 * caches a copy of its session at the first of both positions. Later jobs start there.
 *
 * prefix_states.c chooses the states to keep, idle_sessions.c has the sessions of finished jobs,
 * prompt_end.c the ends of prompts, prefix_room.c evicts and preempts, prefix_disk.c is the second
 * tier.
 *
 * All code here runs on the engine thread. prefix_table.c is what other threads see.
 */
#include "base/os.h"
#include "sched/sched_int.h"

enum {
    MIN_WAIT_GAIN = 128,  /* tokens that waiting for another job's prefill must save */
    MIN_BRANCH_GAIN = 8,  /* tokens that a branch must save */
    MIN_MISS_TOKENS = 64, /* prefill cost of a difference that is worth reporting */
    MAX_EDIT = 32,        /* tokens of a difference after which texts may be equal again */
    MIN_EQUAL_AGAIN = 8,
    GENERATION_PROMPT = 16 /* tokens after the last message of a prompt, at most */
};

/* ---- the longest prefix ---- */

/* A session that a job may start from. */
typedef struct prefix_source {
    mote_session *session; /* NULL: none */
    size_t reach;          /* tokens of the job left after rewinding the session to it */
    size_t same;           /* tokens of the job that the session holds */
    bool is_idle;
    bool is_disk; /* the job has its session already, restored from disk */
    bool is_full; /* the session holds all tokens and has logits */
    uint32_t compared;
    /* The session with the longest common prefix, usable or not: */
    const mote_session *nearest;
    size_t nearest_same, nearest_prompt; /* common tokens; length of its own prompt */
    size_t nearest_again;                /* tokens that are equal again after the difference */
} prefix_source;

/* Tokens that may come from a cached session: never the last one, and none that needs logits. */
static size_t reusable_tokens(const sched_job *job)
{
    if (job->options.no_reuse || job->sum != NULL)
        return 0;
    return job->options.kind == SCHED_SCORE ? job->options.score_from - 1 : job->n - 1;
}

/* Length of the first run of at least MIN_EQUAL_AGAIN equal tokens, after at most MAX_EDIT tokens
 * of either text are skipped; 0: none. */
static size_t tokens_equal_again(const mote_token *a, size_t n_a, const mote_token *b, size_t n_b)
{
    for (size_t skipped = 0; skipped <= 2 * MAX_EDIT; skipped++)
        for (size_t i = skipped > MAX_EDIT ? skipped - MAX_EDIT : 0; i <= skipped && i <= MAX_EDIT;
             i++) {
            const size_t k = skipped - i;
            size_t n = 0;
            while (i + n < n_a && k + n < n_b && a[i + n] == b[k + n])
                n++;
            if (n >= MIN_EQUAL_AGAIN)
                return n;
        }
    return 0;
}

/* Makes the session best->nearest if it is a better candidate for the miss report. */
static void source_consider_nearest(prefix_source *best, const mote_session *session, size_t same,
                                    size_t n_prompt, const sched_job *job)
{
    const size_t length = (size_t)mote_session_length(session);
    const size_t held = n_prompt < length ? n_prompt : length;
    if (best->nearest != NULL && same < best->nearest_same)
        return;
    const size_t again = same < held && same < job->n_prompt
                             ? tokens_equal_again(mote_session_tokens(session) + same, held - same,
                                                  job->tokens + same, job->n_prompt - same)
                             : 0;
    if (best->nearest != NULL && same == best->nearest_same &&
        (again < best->nearest_again ||
         (again == best->nearest_again && n_prompt <= best->nearest_prompt)))
        return;
    best->nearest = session;
    best->nearest_same = same;
    best->nearest_prompt = n_prompt;
    best->nearest_again = again;
}

/* Updates *best if the job can reuse more tokens of this session, and best->nearest. n_prompt:
 * prompt length of the session. */
static void source_consider(prefix_source *best, mote_session *session, size_t n_prompt,
                            bool is_idle, const sched_job *job)
{
    const size_t same = prefix_common(session, job->tokens, reusable_tokens(job));
    const size_t reach = same > best->reach ? (size_t)mote_session_rewind_target(session, same) : 0;
    if (reach > best->reach) {
        best->session = session;
        best->reach = reach;
        best->same = same;
        best->is_idle = is_idle;
    }
    best->compared++;
    if (!job->started)
        source_consider_nearest(best, session, same, n_prompt, job);
}

static prefix_source source_find(sched *s, const sched_job *job)
{
    prefix_source best = {0};
    for (uint32_t i = 0; i < s->n_idle; i++)
        if (prefix_may_use(job, s->idle[i].info.ns, s->idle[i].session))
            source_consider(&best, s->idle[i].session, s->idle[i].n_prompt, true, job);
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (prefix_may_use(job, s->slots[i]->options.ns, s->slots[i]->session))
            source_consider(&best, s->slots[i]->session, s->slots[i]->n_prompt, false, job);
    return best;
}

/* Where the job can fork the session of the other one: at the last chunk boundary of the prefix
 * that both share; at the end of an equal prompt, because its end is kept (prompt_end.c). */
static size_t common_boundary(const sched_job *job, const sched_job *other)
{
    const size_t most = reusable_tokens(job) < other->n ? reusable_tokens(job) : other->n;
    size_t same = 0;
    while (same < most && job->tokens[same] == other->tokens[same])
        same++;
    if (prompt_end_wanted(job) && prompt_end_wanted(other) && same + 1 == job->n &&
        same + 1 == other->n && job->tokens[same] == other->tokens[same])
        return job->n;
    return sched_boundary(same);
}

/* Finds a job that will prefill at least MIN_WAIT_GAIN tokens of this one beyond `have`. */
static bool job_starts_waiting(sched *s, sched_job *job, size_t have)
{
    job->waits_for = NULL;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const sched_job *other = s->slots[i];
        if (other->state != JOB_PREFILL || !prefix_may_use(job, other->options.ns, other->session))
            continue;
        const size_t fork_at = common_boundary(job, other);
        if (fork_at >= have + MIN_WAIT_GAIN && mote_session_length(other->session) < fork_at) {
            job->waits_for = other;
            job->fork_at = fork_at;
            have = fork_at;
        }
    }
    return job->waits_for != NULL;
}

static bool job_still_waits(const sched *s, const sched_job *job)
{
    const sched_job *other = job->waits_for;
    bool running = false; /* `other` may have been freed: compare the pointer first */
    for (uint32_t i = 0; i < s->n_slots; i++)
        running |= s->slots[i] == other;
    return other != NULL && running && other->state == JOB_PREFILL &&
           mote_session_length(other->session) < job->fork_at;
}

/* ---- the start of a job ---- */

/* Returns true if the job continues the idle session's conversation: little of the session is
 * discarded, or the job repeats its whole prompt with something appended. */
static bool job_continues(const sched_job *job, const idle_session *e, const prefix_source *from)
{
    const size_t discarded = (size_t)mote_session_length(e->session) - from->reach;
    return discarded <= SCHED_REWIND_TOLERANCE ||
           (from->same + GENERATION_PROMPT >= e->n_prompt && job->n_prompt > e->n_prompt);
}

/* Plans a branch if the last job left the source in the same chunk, which the source can only be
 * rewound to the start of. Two places are needed: for the branch and for the session of a finished
 * job. */
static void plan_branch(const sched *s, sched_job *job, const prefix_source *from, idle_session *e)
{
    job->differs_at = from->same;
    if (e == NULL)
        return;
    const size_t at = e->differs_at < from->same ? e->differs_at : from->same;
    if (sched_boundary(e->differs_at) == sched_boundary(from->same) &&
        at >= from->reach + MIN_BRANCH_GAIN && s->options.idle_sessions >= 2)
        job->branch_at = at;
    e->differs_at = from->same;
}

/* Takes the source over if the job continues it, else forks it; without a source, a new one. */
static mote_status job_make_session(sched *s, sched_job *job, const prefix_source *from,
                                    mote_error *err)
{
    job->reused_from = (sched_prefix){0};
    job->differs_at = job->branch_at = 0;
    if (from->session == NULL)
        return mote_session_new(&job->session, s->engine,
                                &(mote_session_options){.context = s->options.context,
                                                        .loras = job->options.loras,
                                                        .n_loras = job->options.n_loras},
                                err);
    uint32_t i = 0;
    while (from->is_idle && s->idle[i].session != from->session)
        i++;
    idle_session *e = from->is_idle ? &s->idle[i] : NULL;
    plan_branch(s, job, from, e);
    if (e != NULL && !e->info.pinned && !e->is_branch && !e->is_saving &&
        job_continues(job, e, from)) {
        job->session = from->session;
        job->reused_from = e->info;
        job->reused_from.hits++;
        idle_remove(s, i);
    } else {
        TRY(mote_session_fork(&job->session, from->session, err));
        if (e != NULL) {
            e->info.hits++;
            idle_touch(s, e);
        }
    }
    mote_session_rewind(job->session, from->reach);
    return MOTE_OK;
}

/* Reports where the prompt differs from the nearest session, if both continue long enough after
 * that position. Must run before sessions are rewound or evicted. */
static void job_note_miss(sched_job *job, const prefix_source *from)
{
    const size_t at = from->nearest_same;
    if (job->started || from->nearest == NULL || job->options.kind != SCHED_ANSWER ||
        job->options.no_reuse)
        return;
    if (job->result.miss.n > 0 && job->result.miss.at > at) /* it waited; the first is nearer */
        return;
    const size_t length = (size_t)mote_session_length(from->nearest);
    const size_t prompt = from->nearest_prompt < length ? from->nearest_prompt : length;
    if (prompt < at + MIN_MISS_TOKENS || job->n_prompt < at + MIN_MISS_TOKENS)
        return;
    sched_miss *miss = &job->result.miss;
    miss->at = at;
    miss->length = from->nearest_prompt;
    miss->n = prompt - at < SCHED_MISS_TOKENS ? prompt - at : SCHED_MISS_TOKENS;
    memcpy(miss->had, mote_session_tokens(from->nearest) + at, miss->n * sizeof *miss->had);
    miss->usable = (size_t)mote_session_rewind_target(from->nearest, at);
}

/* The same for a prompt that is only on disk, if it shares more tokens than those in memory. */
static void job_note_disk_miss(sched *s, sched_job *job, const prefix_source *from)
{
    sched_miss *miss = &job->result.miss;
    if (job->started || job->miss_noted || job->options.kind != SCHED_ANSWER ||
        job->options.no_reuse)
        return;
    job->miss_noted = true; /* it reads records: not again at every step of a job that waits */
    const size_t known = from->nearest != NULL ? from->nearest_same : 0;
    sched_miss found;
    if (prefix_disk_miss(s, job, miss->n > 0 ? known + 1 : known, &found) &&
        found.length >= found.at + MIN_MISS_TOKENS && job->n_prompt >= found.at + MIN_MISS_TOKENS)
        *miss = found;
}

/* Records the source of the prefix when a job starts. A job that restarts after preemption keeps
 * its first record. */
static void job_note_reuse(sched *s, sched_job *job, const prefix_source *from)
{
    if (job->started)
        return;
    if (from->same > job->result.miss.at) /* it waited and found a longer prefix */
        job->result.miss.n = 0;
    job->started = true;
    job->result.started = os_now() - job->submitted;
    job->result.compared = from->compared;
    job->result.reuse = from->is_disk           ? SCHED_REUSE_DISK
                        : from->session == NULL ? SCHED_REUSE_NONE
                        : from->is_idle         ? SCHED_REUSE_IDLE
                                                : SCHED_REUSE_LIVE;
    s->stats_delta.started[job->result.reuse] += job->options.kind == SCHED_ANSWER;
    /* A response format may have appended tokens to the prompt. */
    const size_t reused = from->reach < job->n_prompt ? from->reach : job->n_prompt;
    job->result.answer.reused_tokens = reused;
    *(from->is_disk   ? &s->stats_delta.reused_disk_tokens
      : from->is_idle ? &s->stats_delta.reused_idle_tokens
                      : &s->stats_delta.reused_live_tokens) += reused;
}

/* The job has its session: plans the states to keep. */
static void job_start_prefill(sched *s, sched_job *job, const prefix_source *from)
{
    job_note_reuse(s, job, from);
    job->state = JOB_PREFILL;
    if (job->sum != NULL) /* a preempted job starts again */
        memset(job->sum, 0, s->info.embedding * sizeof *job->sum);
    prefix_states_plan(job);
    prefix_states_keep(s, job);
}

/* The session of the job can return to the last chunk boundary: completes it if the end of the
 * prompt is kept. */
static void job_use_end(sched *s, sched_job *job, prefix_source *from)
{
    prompt_end *end =
        prompt_end_wanted(job) && !job->options.no_reuse ? prompt_end_find(s, job) : NULL;
    const size_t at = sched_boundary(job->n);
    if (end == NULL || from->is_full || from->reach < at ||
        mote_session_rewind_target(job->session, at) != at)
        return;
    from->is_full = prompt_end_use(s, end, job->session);
    from->reach = (size_t)mote_session_length(job->session);
    job->branch_at = 0;
}

/* A restore has ended: the job starts from it, unless it failed. */
static bool job_take_restored(sched *s, sched_job *job, prefix_source *from)
{
    mote_session *session;
    if (!prefix_disk_poll(s, job, &session) || session == NULL)
        return false;
    const size_t position = (size_t)mote_session_length(session);
    *from = (prefix_source){
        .reach = position, .same = position, .is_disk = true, .is_full = position == job->n};
    job->reused_from = (sched_prefix){0};
    job->differs_at = job->branch_at = 0;
    job->session = session;
    return true;
}

/* Starts a restore if the disk has enough more of the prompt than `from`. */
static bool job_starts_restore(sched *s, sched_job *job, const prefix_source *from)
{
    const size_t at = prefix_disk_find(s, job, reusable_tokens(job), from->reach);
    return at > 0 && prefix_room_for(s, job, 0, from->session) && prefix_disk_begin(s, job, at);
}

prefix_begin prefix_cache_begin(sched *s, sched_job *job, mote_error *err)
{
    prefix_source from;
    if (job->restore != NULL && job_take_restored(s, job, &from)) {
        job_use_end(s, job, &from);
        job_start_prefill(s, job, &from);
        return from.is_full ? PREFIX_FULL : PREFIX_BEGUN;
    }
    if (job->restore != NULL || prefix_disk_is_refreshing(s, job) || job_still_waits(s, job))
        return PREFIX_WAITS;
    from = source_find(s, job);
    if (job_starts_waiting(s, job, from.reach))
        return PREFIX_WAITS;
    job_note_miss(job, &from);
    job_note_disk_miss(s, job, &from);
    if (job_starts_restore(s, job, &from))
        return PREFIX_WAITS;
    if (!prefix_room_for(s, job, from.reach, from.session))
        return PREFIX_NO_ROOM;
    if (job_make_session(s, job, &from, err) != MOTE_OK)
        return PREFIX_FAILED;
    job_use_end(s, job, &from);
    job_start_prefill(s, job, &from);
    return from.is_full ? PREFIX_FULL : PREFIX_BEGUN;
}
