/* SPDX-License-Identifier: Apache-2.0 */
/* sight_keep.c - pictures that were seen, by what they were seen in. See sight.h. */
#include "base/mem.h"
#include "server/sight/sight_int.h"

#include <mote.h>

static void free_entry(sight_entry *e)
{
    for (size_t i = 0; e->seen.media.pictures != NULL && i < e->seen.media.n; i++)
        mote_picture_free((mote_picture *)e->seen.media.pictures[i]);
    mem_free((void *)e->seen.media.pictures);
    mem_free((void *)e->seen.media.seconds);
    mem_free(e);
}

/* ---- under the lock ---- */

static sight_entry *find(const sight *s, const digest *key)
{
    sight_entry *e = s->entries;
    while (e != NULL && memcmp(e->key.bytes, key->bytes, DIGEST_BYTES) != 0)
        e = e->next;
    return e;
}

static void forget(sight *s, sight_entry *e)
{
    sight_entry **at = &s->entries;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    s->figures.bytes -= e->bytes;
    s->figures.kept--;
    free_entry(e);
}

static bool forget_oldest(sight *s)
{
    sight_entry *oldest = NULL;
    for (sight_entry *e = s->entries; e != NULL; e = e->next)
        if (e->holders == 0 && (oldest == NULL || e->used < oldest->used))
            oldest = e;
    if (oldest != NULL)
        forget(s, oldest);
    return oldest != NULL;
}

static sight_entry *add(sight *s, const digest *key)
{
    sight_entry *e = mem_new(1, sizeof *e);
    if (e == NULL)
        return NULL;
    e->key = *key;
    e->making = true;
    e->next = s->entries;
    s->entries = e;
    s->figures.kept++;
    return e;
}

/* ---- for others ---- */

sight_entry *sight_hold(sight *s, const digest *key, bool *mine)
{
    pthread_mutex_lock(&s->lock);
    sight_entry *e = find(s, key);
    for (; e != NULL && e->making; e = find(s, key)) /* it may come to nothing */
        pthread_cond_wait(&s->made, &s->lock);
    *mine = e == NULL;
    if (*mine)
        e = add(s, key);
    else
        s->figures.found++;
    if (e != NULL) {
        e->holders++;
        e->used = ++s->clock;
    }
    pthread_mutex_unlock(&s->lock);
    return e;
}

bool sight_make_room(sight *s, sight_entry *e, uint64_t bytes)
{
    pthread_mutex_lock(&s->lock);
    while (s->figures.bytes + bytes > s->options.memory && forget_oldest(s)) {
    }
    const bool fits = s->figures.bytes + bytes <= s->options.memory;
    if (fits) {
        e->bytes += bytes;
        s->figures.bytes += bytes;
    }
    pthread_mutex_unlock(&s->lock);
    return fits;
}

void sight_made(sight *s, sight_entry *e)
{
    pthread_mutex_lock(&s->lock);
    e->making = false;
    s->figures.looked++;
    pthread_cond_broadcast(&s->made);
    pthread_mutex_unlock(&s->lock);
}

void sight_give_up(sight *s, sight_entry *e)
{
    pthread_mutex_lock(&s->lock);
    forget(s, e);
    pthread_cond_broadcast(&s->made);
    pthread_mutex_unlock(&s->lock);
}

void sight_release(sight *s, const sight_seen *seen)
{
    sight_entry *e = (sight_entry *)seen;
    pthread_mutex_lock(&s->lock);
    e->holders--;
    pthread_mutex_unlock(&s->lock);
}

void sight_forget_unused(sight *s)
{
    pthread_mutex_lock(&s->lock);
    while (forget_oldest(s)) {
    }
    pthread_mutex_unlock(&s->lock);
}

void sight_forget_all(sight *s)
{
    while (s->entries != NULL)
        forget(s, s->entries);
}
