/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefix_cache_idle.c - sessions whose answer is over: who stays for the prefix, who goes first,
 * and what the loop may know of them and want of them.
 *
 * They stand on a shelf of the engine thread, the least recently used goes first. The loop must
 * not wait for a step to end, and sessions may not be touched by it. So what is to be known of
 * them is copied to a table under the lock whenever the shelf has changed, and what is wanted of
 * them is written into that same table: the engine thread takes it from there before every copy, so
 * no wish is lost, and sees to it at the next boundary. The table is what counts for those who
 * ask: what was dropped is not in their list any more, though its pages come free a moment later.
 *
 * A pinned one is not thinned out, not taken over by the conversation that goes on from it and not
 * forgotten for the sake of others on the shelf; only for an answer that is at work and has no
 * room.
 */
#include "base/os.h"
#include "base/philox.h"
#include "sched/sched_int.h"

/* ---- the shelf; engine thread ---- */

void prefix_cache_take(sched *s, uint32_t i)
{
    s->idle[i] = s->idle[--s->n_idle];
    s->idle_changed = true;
}

static void forget(sched *s, uint32_t i)
{
    mote_session_free(s->idle[i].session);
    prefix_cache_take(s, i);
}

/* The least recently used one of those that are pinned, or of those that are not. */
static uint32_t oldest(const sched *s, const mote_session *but, bool pinned)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < s->n_idle; i++)
        if (s->idle[i].session != but && s->idle[i].is.pinned == pinned &&
            (found == UINT32_MAX || s->idle[i].used < s->idle[found].used))
            found = i;
    return found;
}

bool prefix_cache_evict(sched *s, const mote_session *but, bool pinned_too)
{
    uint32_t i = oldest(s, but, false);
    if (i == UINT32_MAX && pinned_too)
        i = oldest(s, but, true);
    if (i == UINT32_MAX)
        return false;
    forget(s, i);
    return true;
}

void prefix_cache_touch(sched *s, idle_session *e)
{
    e->used = ++s->idle_clock;
    e->is.used = os_now();
    s->idle_changed = true;
}

/* Is all that matters of `less` also to be had from `more`? */
static bool covers(const mote_session *more, const mote_session *less)
{
    const size_t n = (size_t)mote_session_length(less);
    return prefix_cache_common(more, mote_session_tokens(less), n) == n &&
           mote_session_rewind_target(more, n) + SCHED_LITTLE_LOST >= n;
}

/* Numbers that say nothing about how many there were in between. */
static uint64_t new_id(sched *s)
{
    const philox_block drawn = philox(s->options.salt, ++s->n_ids, 0);
    return (uint64_t)drawn.word[1] << 32 | drawn.word[0];
}

/* Its pages and states, as if it shared none. */
static uint64_t bytes_of(const sched *s, const mote_session *session)
{
    const mote_usage *u = &s->use; /* the totals never change */
    const uint64_t pages = (mote_session_length(session) + SCHED_PAGE - 1) / SCHED_PAGE;
    const uint64_t states = 1 + mote_session_kept(session, NULL, 0);
    return pages * SCHED_PAGE * (s->memory.kv_cache / u->positions_total) +
           states * (s->memory.recurrent_state / (u->sessions_total + u->kept_states_total));
}

void prefix_cache_put(sched *s, const sched_job *job)
{
    mote_session *session = job->session;
    for (uint32_t i = 0; i < s->n_idle; i++) {
        idle_session *e = &s->idle[i];
        if (e->is.ns != job->options.ns)
            continue;
        if (!e->is.pinned && covers(session, e->session)) {
            forget(s, i--);
        } else if (covers(e->session, session)) {
            prefix_cache_touch(s, e);
            mote_session_free(session);
            return;
        }
    }
    if (s->n_idle == s->options.idle_sessions && !prefix_cache_evict(s, NULL, false)) {
        mote_session_free(session); /* all places are pinned */
        return;
    }
    idle_session *e = &s->idle[s->n_idle++];
    *e = (idle_session){.session = session, .n_prompt = job->n_prompt, .is = job->took};
    if (e->is.id == 0)
        e->is.id = new_id(s);
    e->is.ns = job->options.ns;
    e->is.tokens = mote_session_length(session);
    e->is.bytes = bytes_of(s, session);
    prefix_cache_touch(s, e);
}

bool prefix_cache_drop_states(sched *s)
{
    idle_session *found = NULL;
    uint64_t pos;
    for (uint32_t i = 0; i < s->n_idle; i++)
        if (!s->idle[i].is.pinned && mote_session_kept(s->idle[i].session, NULL, 0) > 0 &&
            (found == NULL || s->idle[i].used < found->used))
            found = &s->idle[i];
    if (found == NULL)
        return false;
    while (mote_session_kept(found->session, &pos, 1) > 0)
        mote_session_unkeep(found->session, pos);
    found->is.bytes = bytes_of(s, found->session);
    s->idle_changed = true;
    return true;
}

void prefix_cache_free_all(sched *s)
{
    while (prefix_cache_evict(s, NULL, true)) {
    }
}

void prefix_cache_sweep(sched *s)
{
    for (uint32_t i = s->n_idle; i > 0 && s->to_sweep; i--)
        if (s->idle[i - 1].dropped)
            forget(s, i - 1);
    s->to_sweep = false;
}

/* ---- under the lock; engine thread ---- */

void prefix_cache_apply_orders(sched *s)
{
    for (uint32_t k = 0; k < s->n_known && s->orders; k++)
        for (uint32_t i = 0; i < s->n_idle; i++)
            if (s->idle[i].is.id == s->known[k].is.id) {
                s->idle[i].is.pinned = s->known[k].is.pinned;
                s->idle[i].dropped |= s->known[k].dropped;
                s->to_sweep |= s->known[k].dropped;
            }
    s->orders = false;
}

void prefix_cache_publish(sched *s)
{
    prefix_cache_apply_orders(s);
    if (!s->idle_changed)
        return;
    s->idle_changed = false;
    s->n_known = 0;
    for (uint32_t i = 0; i < s->n_idle; i++)
        if (!s->idle[i].dropped)
            s->known[s->n_known++] = (known_prefix){.is = s->idle[i].is};
}

/* ---- any thread ---- */

size_t sched_prefixes(sched *s, sched_prefix *out, size_t room)
{
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->n_known; i++)
        if (!s->known[i].dropped && n++ < room)
            out[n - 1] = s->known[i].is;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* Under the lock; NULL: there is none. */
static known_prefix *find(sched *s, uint64_t id)
{
    for (uint32_t i = 0; i < s->n_known; i++)
        if (s->known[i].is.id == id && !s->known[i].dropped)
            return &s->known[i];
    return NULL;
}

static void order(sched *s)
{
    s->orders = true;
    pthread_cond_signal(&s->work_is);
}

bool sched_prefix_drop(sched *s, uint64_t id)
{
    pthread_mutex_lock(&s->lock);
    known_prefix *found = find(s, id);
    if (found != NULL) {
        found->dropped = true;
        order(s);
    }
    pthread_mutex_unlock(&s->lock);
    return found != NULL;
}

/* Half of the positions and of the places are for those who come and go. */
static bool may_pin(const sched *s, const known_prefix *more)
{
    const uint32_t places = s->options.idle_sessions > 1 ? s->options.idle_sessions / 2 : 1;
    uint64_t tokens = more->is.tokens;
    uint32_t n = 1;
    for (uint32_t i = 0; i < s->n_known; i++)
        if (s->known[i].is.pinned && !s->known[i].dropped) {
            tokens += s->known[i].is.tokens;
            n++;
        }
    return tokens <= s->use.positions_total / 2 && n <= places;
}

mote_status sched_prefix_pin(sched *s, uint64_t id, bool pin, mote_error *err)
{
    mote_status status = MOTE_OK;
    pthread_mutex_lock(&s->lock);
    known_prefix *found = find(s, id);
    if (found == NULL) {
        status = err_set(err, MOTE_E_ARG, "nothing of this id is kept");
    } else if (pin && !found->is.pinned && !may_pin(s, found)) {
        status = err_set(err, MOTE_E_FULL, "half of the room is pinned already");
    } else if (found->is.pinned != pin) {
        found->is.pinned = pin;
        order(s);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}
