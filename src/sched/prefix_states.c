/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefix_states.c - the recurrent states that sessions keep, so that later jobs can start there.
 *
 * Every prompt keeps those that are needed most: after the tools, the system text and the last
 * image, before a volatile line, before the generation prompt, and at the last chunk boundary,
 * which the end of the prompt needs (prompt_end.c). The others are for edits of earlier messages:
 * after each message and each image. A session that grows turn by turn keeps one at each end of a
 * turn. A long prompt that is prefilled at once keeps few, because each of them ends a prefill
 * chunk.
 *
 * All sessions share the kept states of the engine. When they run out, the state of least value is
 * evicted, also one of the same session. So a long conversation keeps few states where they save
 * few tokens.
 *
 * All code here runs on the engine thread.
 */
#include "sched/sched_int.h"

#include <math.h>

enum {
    STATES_APART = 64,    /* tokens between two kept states */
    MESSAGES_APART = 256, /* the same for messages in the middle of a prefill */
    MESSAGES_MOST = 16,   /* states of those in one prefill */
    MAX_STATES = 256,     /* of a session; others count as needed */
    NEEDED_WEIGHT = 8     /* of a state that every prompt keeps, in its value */
};

/* ---- planning ---- */

static bool is_last_image(const sched_job_options *o, size_t i)
{
    for (size_t j = i + 1; j < o->n_marks; j++)
        if (o->marks[j].kind == CHAT_MARK_SHOWN)
            return false;
    return o->marks[i].kind == CHAT_MARK_SHOWN;
}

/* Every prompt keeps a state at this mark. Before a volatile line: prompts of other sessions of the
 * same program differ from there on. After the last image: the next question about it has another
 * text. */
static bool mark_is_needed(const sched_job_options *o, size_t i)
{
    const chat_mark_kind kind = o->marks[i].kind;
    return kind == CHAT_MARK_TOOLS || kind == CHAT_MARK_SYSTEM || kind == CHAT_MARK_VOLATILE ||
           kind == CHAT_MARK_PROMPT || (kind == CHAT_MARK_MESSAGE && i + 1 == o->n_marks) ||
           is_last_image(o, i);
}

static bool mark_is_kept(const sched_job_options *o, size_t i)
{
    const chat_mark_kind kind = o->marks[i].kind;
    return mark_is_needed(o, i) || kind == CHAT_MARK_MESSAGE || kind == CHAT_MARK_SHOWN;
}

size_t prefix_states_head(const sched_job *job)
{
    const sched_job_options *o = &job->options;
    size_t head = 0;
    for (size_t i = 0; i < o->n_marks; i++)
        if (o->marks[i].kind == CHAT_MARK_TOOLS || o->marks[i].kind == CHAT_MARK_SYSTEM)
            head = o->marks[i].position;
    return head;
}

/* Is a state wanted at the position, a multiple of SCHED_CHUNK? */
static bool position_is_wanted(const sched_job *job, size_t at)
{
    const sched_job_options *o = &job->options;
    bool wanted = prompt_end_wanted(job) && at == sched_boundary(job->n - 1);
    for (size_t i = 0; i < o->n_marks && !wanted; i++)
        wanted = mark_is_kept(o, i) && sched_boundary(o->marks[i].position) == at;
    return wanted;
}

/* Frees states of earlier turns at positions without a mark. Returns the last position that still
 * has a state. */
static size_t unkeep_stale_states(sched_job *job)
{
    uint64_t kept[MAX_STATES];
    size_t last = 0;
    const size_t n = mote_session_kept(job->session, kept, MAX_STATES);
    for (size_t i = 0; i < n && i < MAX_STATES; i++)
        if (position_is_wanted(job, (size_t)kept[i]))
            last = (size_t)kept[i];
        else
            mote_session_unkeep(job->session, kept[i]);
    return last;
}

/* Plans a state at `pos`, unless one is less than `apart` tokens before it or the session is
 * already past it. */
static void plan_keep(sched_job *job, size_t pos, size_t apart, size_t *last)
{
    const size_t at = sched_boundary(pos);
    if (at < *last + apart || at < sched_boundary((size_t)mote_session_length(job->session)) ||
        pos >= job->n || job->n_keeps == SCHED_MAX_KEEPS)
        return;
    job->keeps[job->n_keeps++] = *last = at;
}

/* Tokens that must be between the state at mark i and the one before. A state where the session
 * begins costs nothing; one in the middle of a prefill ends a chunk. */
static size_t mark_apart(const sched_job *job, size_t i)
{
    const sched_job_options *o = &job->options;
    const size_t begin = (size_t)mote_session_length(job->session);
    const size_t each = (job->n - begin) / MESSAGES_MOST;
    if (o->marks[i].kind == CHAT_MARK_PROMPT)
        return SCHED_CHUNK;
    if (mark_is_needed(o, i) ||
        sched_boundary(o->marks[i].position) <= sched_boundary(begin) + SCHED_CHUNK)
        return STATES_APART;
    return each > MESSAGES_APART ? each : MESSAGES_APART;
}

void prefix_states_plan(sched_job *job)
{
    const sched_job_options *o = &job->options;
    size_t last = unkeep_stale_states(job);
    job->n_keeps = 0;
    for (size_t i = 0; i < o->n_marks; i++)
        if (mark_is_kept(o, i))
            plan_keep(job, o->marks[i].position, mark_apart(job, i), &last);
    if (o->n_marks == 0)
        plan_keep(job, job->n_prompt - 1, STATES_APART, &last);
    if (prompt_end_wanted(job))
        plan_keep(job, job->n - 1, SCHED_CHUNK, &last);
}

/* ---- eviction ---- */

/* A session with kept states: idle, or of a job in a slot. */
typedef struct holder {
    mote_session *session;
    idle_session *idle; /* NULL: of a job */
    size_t head;        /* end of the tools and the system text */
    double use;         /* expected */
    bool is_pinned;     /* it keeps all its states */
    bool is_other;      /* of another job: it keeps those that it needs */
    uint64_t kept[MAX_STATES];
    size_t n;
} holder;

/* Holder number i of idle sessions and slots. Returns false if it has no states. */
static bool holder_get(const sched *s, uint32_t i, const sched_job *job, holder *out)
{
    idle_session *e = i < s->n_idle ? &s->idle[i] : NULL;
    const sched_job *of = e == NULL ? s->slots[i - s->n_idle] : NULL;
    out->session = e != NULL ? e->session : of->session;
    out->idle = e;
    out->head = e != NULL ? e->head : prefix_states_head(of);
    out->use = e != NULL ? idle_use(s, e) : 1;
    out->is_pinned = e != NULL && e->info.pinned;
    out->is_other = e == NULL && of != job;
    if (out->session == NULL)
        return false;
    out->n = mote_session_kept(out->session, out->kept, MAX_STATES);
    out->n = out->n < MAX_STATES ? out->n : MAX_STATES;
    return out->n > 0;
}

/* Tokens that state k of the holder saves over the one before, times the expected use. */
static double holder_value(const holder *h, size_t k)
{
    const uint64_t before = k > 0 ? h->kept[k - 1] : 0;
    const bool needed = h->kept[k] <= h->head || k + 1 == h->n;
    if (h->is_pinned || (h->is_other && needed))
        return (double)INFINITY;
    return (double)(h->kept[k] - before) * h->use * (needed ? (double)NEEDED_WEIGHT : 1);
}

/* The number of the holder's state that is that of another session at `position`; h->n: none. A
 * fork shares the states of its session. */
static size_t holder_shares(const holder *h, const mote_session *other, uint64_t position)
{
    size_t k = 0;
    while (k < h->n && h->kept[k] != position)
        k++;
    if (k < h->n &&
        mote_session_kept_state(h->session, position) != mote_session_kept_state(other, position))
        k = h->n;
    return k;
}

/* The most that a state is worth to one of its holders. */
static double state_value(const sched *s, const sched_job *job, const mote_session *session,
                          uint64_t position)
{
    holder h;
    double most = 0;
    for (uint32_t i = 0; i < s->n_idle + s->n_slots; i++) {
        if (!holder_get(s, i, job, &h))
            continue;
        const size_t k = holder_shares(&h, session, position);
        const double value = k < h.n ? holder_value(&h, k) : 0;
        most = value > most ? value : most;
    }
    return most;
}

/* Removes the state from all sessions that have it. */
static void state_drop(sched *s, const sched_job *job, const mote_session *session,
                       uint64_t position)
{
    holder h;
    for (uint32_t i = 0; i < s->n_idle + s->n_slots; i++) {
        if (!holder_get(s, i, job, &h) || holder_shares(&h, session, position) == h.n)
            continue;
        if (h.idle != NULL)
            prefix_disk_release(s, h.idle);
        mote_session_unkeep(h.session, position);
        if (h.idle != NULL)
            idle_count_bytes(s, h.idle);
    }
}

/* Frees the kept state of least value. Returns false if there is none. */
static bool state_evict(sched *s, const sched_job *job)
{
    holder h;
    const mote_session *session = NULL;
    uint64_t position = 0;
    double least = (double)INFINITY;
    for (uint32_t i = 0; i < s->n_idle + s->n_slots; i++) {
        if (!holder_get(s, i, job, &h))
            continue;
        for (size_t k = 0; k < h.n; k++) {
            const double value = state_value(s, job, h.session, h.kept[k]);
            if (value >= least)
                continue;
            least = value;
            session = h.session;
            position = h.kept[k];
        }
    }
    if (session != NULL)
        state_drop(s, job, session, position);
    return session != NULL;
}

/* ---- keeping ---- */

/* Caches a copy of the session at branch_at. Without room it is not cached. */
static void keep_branch(sched *s, sched_job *job)
{
    mote_session *copy;
    mote_error err;
    job->branch_at = 0;
    if (mote_session_fork(&copy, job->session, &err) == MOTE_OK)
        idle_add(s, job, copy, true);
}

void prefix_states_keep(sched *s, sched_job *job)
{
    if (job->branch_at > 0 && mote_session_length(job->session) == job->branch_at)
        keep_branch(s, job);
    const size_t at = sched_boundary((size_t)mote_session_length(job->session));
    size_t left = 0;
    for (size_t i = 0; i < job->n_keeps; i++) {
        if (job->keeps[i] != at) {
            job->keeps[left++] = job->keeps[i];
            continue;
        }
        while (mote_session_keep(job->session, NULL, NULL) == MOTE_E_FULL)
            if (!state_evict(s, job))
                break;
    }
    job->n_keeps = left; /* prefill need not stop for this state again */
}

size_t prefix_states_limit(const sched *s, const sched_job *job)
{
    const size_t at = (size_t)mote_session_length(job->session);
    size_t limit = job->n;
    for (size_t i = 0; i < job->n_keeps; i++) {
        /* A state can be kept until the next chunk boundary is crossed. */
        const size_t last = job->keeps[i] + SCHED_CHUNK - 1;
        if (last > at && last < limit)
            limit = last;
    }
    if (job->branch_at > at && job->branch_at < limit)
        limit = job->branch_at;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const sched_job *other = s->slots[i];
        if (other->state == JOB_WAITING && other->waits_for == job && other->fork_at > at &&
            other->fork_at < limit)
            limit = other->fork_at;
    }
    return limit;
}
