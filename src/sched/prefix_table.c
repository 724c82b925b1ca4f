/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefix_table.c - the idle sessions of the prefix cache as other threads see them.
 *
 * Other threads must not wait for a step, so they never use sessions. They read and write the
 * prefix table (s->prefixes), a copy under the mutex. The engine thread applies their pin and drop
 * requests before each copy and before each step. A dropped entry disappears from the table at
 * once; its pages are freed at the next step boundary.
 */
#include "sched/sched_int.h"

/* ---- engine thread ---- */

void prefix_table_apply_requests(sched *s)
{
    for (uint32_t k = 0; k < s->n_prefixes && s->prefix_requests; k++)
        for (uint32_t i = 0; i < s->n_idle; i++)
            if (s->idle[i].info.id == s->prefixes[k].info.id) {
                s->idle[i].info.pinned = s->prefixes[k].info.pinned;
                s->idle[i].dropped |= s->prefixes[k].dropped;
                s->idle_dropped |= s->prefixes[k].dropped;
            }
    s->prefix_requests = false;
}

void prefix_table_publish(sched *s)
{
    prefix_table_apply_requests(s);
    if (!s->idle_changed)
        return;
    s->idle_changed = false;
    s->n_prefixes = 0;
    for (uint32_t i = 0; i < s->n_idle; i++)
        if (!s->idle[i].dropped)
            s->prefixes[s->n_prefixes++] = (prefix_entry){.info = s->idle[i].info};
}

/* ---- any thread ---- */

size_t sched_prefixes(sched *s, sched_prefix *out, size_t room)
{
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->n_prefixes; i++)
        if (!s->prefixes[i].dropped && n++ < room)
            out[n - 1] = s->prefixes[i].info;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* Under the mutex; NULL: no such entry. */
static prefix_entry *prefix_table_find(sched *s, uint64_t id)
{
    for (uint32_t i = 0; i < s->n_prefixes; i++)
        if (s->prefixes[i].info.id == id && !s->prefixes[i].dropped)
            return &s->prefixes[i];
    return NULL;
}

/* Under the mutex: the engine thread has to read the table. */
static void prefix_request(sched *s)
{
    s->prefix_requests = true;
    pthread_cond_signal(&s->work_ready);
}

bool sched_prefix_drop(sched *s, uint64_t id)
{
    pthread_mutex_lock(&s->lock);
    prefix_entry *found = prefix_table_find(s, id);
    if (found != NULL) {
        found->dropped = true;
        prefix_request(s);
    }
    pthread_mutex_unlock(&s->lock);
    return found != NULL;
}

/* At most half of the KV positions and half of the idle sessions may be pinned. */
static bool prefix_may_pin(const sched *s, const prefix_entry *more)
{
    const uint32_t most = s->options.idle_sessions > 1 ? s->options.idle_sessions / 2 : 1;
    uint64_t tokens = more->info.tokens;
    uint32_t n = 1;
    for (uint32_t i = 0; i < s->n_prefixes; i++)
        if (s->prefixes[i].info.pinned && !s->prefixes[i].dropped) {
            tokens += s->prefixes[i].info.tokens;
            n++;
        }
    return tokens <= s->usage.positions_total / 2 && n <= most;
}

mote_status sched_prefix_pin(sched *s, uint64_t id, bool pin, mote_error *err)
{
    mote_status status = MOTE_OK;
    pthread_mutex_lock(&s->lock);
    prefix_entry *found = prefix_table_find(s, id);
    if (found == NULL) {
        status = err_set(err, MOTE_E_ARG, "no cached prefix has this id");
    } else if (pin && !found->info.pinned && !prefix_may_pin(s, found)) {
        status = err_set(err, MOTE_E_FULL,
                         "at most half of the KV positions and half of the cached prefixes can be "
                         "pinned; unpin one first");
    } else if (found->info.pinned != pin) {
        found->info.pinned = pin;
        prefix_request(s);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}
