/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle_sessions.c - the sessions of finished jobs and of branches; least value is evicted first.
 *
 * Together with the sessions of paused jobs (key_share.c) there are at most options.idle_sessions.
 * An entry that the disk cache is reading (is_saving) is released before its session changes.
 *
 * All code here runs on the engine thread.
 */
#include "base/os.h"
#include "base/philox.h"
#include "sched/sched_int.h"

enum {
    MIN_KEEP_TOKENS = 64, /* of an idle session */
    BRANCH_HITS = 2,
    NEEDED_STATES = 4 /* of a session, about: its own, and those that every prompt keeps */
};

size_t prefix_common(const mote_session *session, const mote_token *tokens, size_t n)
{
    const mote_token *held = mote_session_tokens(session);
    const size_t length = (size_t)mote_session_length(session);
    size_t same = 0;
    while (same < n && same < length && held[same] == tokens[same])
        same++;
    return same;
}

bool prefix_may_use(const sched_job *job, uint64_t ns, const mote_session *session)
{
    const sched_job_options *o = &job->options;
    size_t held;
    if (session == NULL || ns != o->ns)
        return false;
    const mote_lora_use *has = mote_session_loras(session, &held);
    bool same = held == o->n_loras;
    for (size_t i = 0; same && i < held; i++)
        same = has[i].lora == o->loras[i].lora &&
               has[i].scale == (o->loras[i].scale == 0 ? 1 : o->loras[i].scale);
    return same;
}

void idle_remove(sched *s, uint32_t i)
{
    s->idle[i] = s->idle[--s->n_idle];
    s->idle_changed = true;
}

static void idle_free(sched *s, uint32_t i)
{
    prefix_disk_release(s, &s->idle[i]);
    mote_session_free(s->idle[i].session);
    idle_remove(s, i);
}

/* Pages and at most so many states of the session, counted as if none were shared. */
static uint64_t session_bytes(const sched *s, const mote_session *session, uint64_t most_states)
{
    const mote_usage *u = &s->usage; /* the totals are constant, so no mutex is needed */
    const uint64_t pages = (mote_session_length(session) + SCHED_PAGE - 1) / SCHED_PAGE;
    const uint64_t states = 1 + mote_session_kept(session, NULL, 0);
    return pages * SCHED_PAGE * (s->memory.kv_cache / u->positions_total) +
           (states < most_states ? states : most_states) *
               (s->memory.recurrent_state / (u->sessions_total + u->kept_states_total));
}

void idle_count_bytes(sched *s, idle_session *e)
{
    e->info.bytes = session_bytes(s, e->session, UINT64_MAX);
    s->idle_changed = true;
}

/* A branch exists because jobs left there: they count as hits. */
double idle_use(const sched *s, const idle_session *e)
{
    const double age = (double)(s->idle_clock - e->last_used + 1);
    return (double)(1 + e->info.hits + (e->is_branch ? BRANCH_HITS : 0)) / age;
}

/* Tokens that the entry saves, times its expected use, per byte. States of messages can be evicted
 * alone, so they do not count. */
static double idle_value(const sched *s, const idle_session *e)
{
    const uint64_t bytes = session_bytes(s, e->session, NEEDED_STATES);
    return (double)e->info.tokens * idle_use(s, e) / (double)(bytes + 1);
}

uint32_t idle_least(const sched *s, const mote_session *except, bool pinned)
{
    uint32_t found = UINT32_MAX;
    double least = 0;
    for (uint32_t i = 0; i < s->n_idle; i++) {
        if (s->idle[i].session == except || s->idle[i].info.pinned != pinned)
            continue;
        const double value = idle_value(s, &s->idle[i]);
        if (found == UINT32_MAX || value < least) {
            found = i;
            least = value;
        }
    }
    return found;
}

bool idle_evict(sched *s, const mote_session *except, bool pinned_too)
{
    uint32_t i = idle_least(s, except, false);
    if (i == UINT32_MAX && pinned_too)
        i = idle_least(s, except, true);
    if (i == UINT32_MAX)
        return false;
    idle_free(s, i);
    return true;
}

void idle_touch(sched *s, idle_session *e)
{
    e->last_used = ++s->idle_clock;
    e->info.used = os_now();
    s->idle_changed = true;
}

/* Returns true if `more` can replace `less` as the start of a job. */
static bool session_covers(const mote_session *more, const mote_session *less)
{
    const size_t n = (size_t)mote_session_length(less);
    return prefix_common(more, mote_session_tokens(less), n) == n &&
           mote_session_rewind_target(more, n) + SCHED_REWIND_TOLERANCE >= n;
}

/* Random ids: they do not reveal how many prefixes were cached. */
static uint64_t new_prefix_id(sched *s)
{
    const philox_block drawn = philox(s->options.salt, ++s->n_ids, 0);
    return (uint64_t)drawn.word[1] << 32 | drawn.word[0];
}

uint32_t idle_parked(const sched *s)
{
    uint32_t n = s->n_idle;
    for (uint32_t i = 0; i < s->n_slots; i++)
        n += s->slots[i]->state == JOB_PAUSED && s->slots[i]->session != NULL;
    return n;
}

void idle_add(sched *s, const sched_job *job, mote_session *session, bool is_branch)
{
    for (uint32_t i = 0; i < s->n_idle && !is_branch; i++) {
        idle_session *e = &s->idle[i];
        if (!prefix_may_use(job, e->info.ns, e->session) || e->is_branch)
            continue;
        if (!e->info.pinned && session_covers(session, e->session)) {
            idle_free(s, i--);
        } else if (session_covers(e->session, session)) {
            idle_touch(s, e);
            mote_session_free(session);
            return;
        }
    }
    if (idle_parked(s) >= s->options.idle_sessions && !idle_evict(s, NULL, false)) {
        mote_session_free(session); /* all entries are pinned, or belong to paused jobs */
        return;
    }
    idle_session *e = &s->idle[s->n_idle++];
    *e =
        (idle_session){.session = session,
                       .n_prompt = is_branch ? (size_t)mote_session_length(session) : job->n_prompt,
                       .differs_at = job->differs_at,
                       .is_branch = is_branch,
                       .is_unsaved = true};
    if (!is_branch)
        e->info = job->reused_from;
    if (e->info.id == 0)
        e->info.id = new_prefix_id(s);
    e->info.ns = job->options.ns;
    e->info.tokens = mote_session_length(session);
    e->head = prefix_states_head(job);
    idle_count_bytes(s, e);
    idle_touch(s, e);
}

void prefix_cache_end(sched *s, sched_job *job)
{
    prefix_disk_cancel(s, job);
    if (job->session == NULL)
        return;
    if (job->options.kind != SCHED_EMBED && mote_session_length(job->session) >= MIN_KEEP_TOKENS)
        idle_add(s, job, job->session, false);
    else
        mote_session_free(job->session);
    job->session = NULL;
}

void prefix_cache_free_all(sched *s)
{
    while (idle_evict(s, NULL, true)) {
    }
    prompt_end_free_all(s);
}

void prefix_cache_sweep(sched *s)
{
    for (uint32_t i = s->n_idle; i > 0 && s->idle_dropped; i--)
        if (s->idle[i - 1].dropped) {
            prompt_end_drop(s, s->idle[i - 1].info.ns, s->idle[i - 1].session);
            idle_free(s, i - 1);
        }
    s->idle_dropped = false;
}
