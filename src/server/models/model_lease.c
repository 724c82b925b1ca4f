/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_lease.c - leases, waits for a load, requests to unload, sets of loaded models, stats. See model_registry.h.
 */
#include "base/mem.h"
#include "base/os.h"
#include "server/models/model_registry_int.h"

/* ---- leases ---- */

served_model *model_lease_try(model_entry *e)
{
    model_registry *r = e->registry;
    served_model *served = NULL;
    pthread_mutex_lock(&r->lock);
    if (e->state == ENTRY_LOADED && !e->draining) {
        e->leases++;
        e->used = os_now();
        served = e->served;
        if (e->unload) /* it is not idle any more; an unload request may wait for the answer */
            registry_wake(r);
        e->unload = false;
    }
    pthread_mutex_unlock(&r->lock);
    return served;
}

void model_lease_end(model_entry *e)
{
    model_registry *r = e->registry;
    pthread_mutex_lock(&r->lock);
    e->leases--;
    e->used = os_now();
    if (e->leases == 0 && !e->given)
        pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

bool model_entry_loaded(model_entry *e)
{
    pthread_mutex_lock(&e->registry->lock);
    const bool loaded = e->state == ENTRY_LOADED && (!e->given || served_model_loaded(e->served));
    pthread_mutex_unlock(&e->registry->lock);
    return loaded;
}

/* ---- waits ---- */

void wait_append(model_wait **list, model_wait *w)
{
    while (*list != NULL)
        list = &(*list)->next;
    w->next = NULL;
    w->link = list;
    *list = w;
}

void wait_remove(model_wait *w)
{
    *w->link = w->next;
    if (w->next != NULL)
        w->next->link = w->link;
    w->next = NULL;
    w->link = NULL;
}

bool model_wait_begin(model_wait *w)
{
    model_registry *r = w->entry->registry;
    const uint32_t queue =
        r->options.sched.queue > 0 ? r->options.sched.queue : SCHED_DEFAULT_QUEUE;
    pthread_mutex_lock(&r->lock);
    const bool room = r->n_waits < queue;
    if (room) {
        w->served = NULL;
        w->ready = false;
        wait_append(&r->waits, w);
        r->n_waits++;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
    return room;
}

void model_wait_cancel(model_wait *w)
{
    model_registry *r = w->entry->registry;
    pthread_mutex_lock(&r->lock);
    if (w->link != NULL) {
        wait_remove(w);
        if (!w->ready)
            r->n_waits--;
        else if (w->served != NULL)
            w->entry->leases--;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
}

/* Models that are loaded before that of `w`: those that older waits need. */
static uint32_t wait_count_ahead(const model_registry *r, const model_wait *w)
{
    uint32_t n = 0;
    for (const model_wait *at = r->waits; at != NULL && at->entry != w->entry; at = at->next) {
        bool seen = false;
        for (const model_wait *before = r->waits; before != at; before = before->next)
            seen |= before->entry == at->entry;
        n += !seen;
    }
    return n;
}

void model_wait_get_status(const model_wait *w, model_wait_status *out)
{
    model_registry *r = w->entry->registry;
    *out = (model_wait_status){0};
    pthread_mutex_lock(&r->lock);
    if (!w->ready) {
        out->ahead = wait_count_ahead(r, w);
        if (w->entry->state == ENTRY_LOADING) {
            out->ahead = 0;
            out->busy = r->n_busy;
            out->done = w->entry->done;
            out->total = w->entry->total;
        }
    }
    pthread_mutex_unlock(&r->lock);
}

/* ---- changes ---- */

void registry_wake(const model_registry *r)
{
    if (r->options.sched.wake != NULL)
        r->options.sched.wake(r->options.sched.with);
}

/* The loaded model for a moment. Not a lease: that would be a use, and keep a model that is to be
 * unloaded. NULL: it is unloaded again already. */
static served_model *entry_hold(model_entry *e, model_set *set)
{
    model_registry *r = e->registry;
    *set = (model_set){.n = 0};
    pthread_mutex_lock(&r->lock);
    if (e->state == ENTRY_LOADED) {
        e->holds++;
        *set = (model_set){.models = {e->served}, .entries = {e}, .n = 1};
    }
    pthread_mutex_unlock(&r->lock);
    return set->models[0];
}

static void note_report(const change_note *note,
                        void (*changed)(void *with, const model_change *change), void *with)
{
    model_change change = {.name = note->entry->name,
                           .error = note->failed ? &note->error : NULL,
                           .reason = note->reason,
                           .bytes = note->bytes,
                           .total = note->total,
                           .seconds = note->seconds};
    model_set held = {.n = 0};
    if (note->loaded)
        change.loaded = entry_hold(note->entry, &held);
    if (!note->loaded || change.loaded != NULL)
        changed(with, &change);
    model_set_release(&held);
}

static void collect_notes(model_registry *r,
                          void (*changed)(void *with, const model_change *change), void *with)
{
    pthread_mutex_lock(&r->lock);
    change_note *notes = r->notes;
    r->notes = NULL;
    r->notes_end = &r->notes;
    pthread_mutex_unlock(&r->lock);
    for (change_note *next; notes != NULL; notes = next) {
        next = notes->next;
        note_report(notes, changed, with);
        mem_free(notes);
    }
}

static void collect_waits(model_registry *r)
{
    for (;;) { /* `done` may cancel other waits */
        pthread_mutex_lock(&r->lock);
        model_wait *w = r->ready;
        if (w != NULL)
            wait_remove(w);
        pthread_mutex_unlock(&r->lock);
        if (w == NULL)
            return;
        w->done(w->with);
    }
}

/* ---- requests to unload ---- */

/* Is the unload over? Sets its result. */
static bool unload_is_over(model_unload *u)
{
    model_entry *e = u->entry;
    if (e->given) {
        u->unloaded = !served_model_loaded(e->served);
        return !served_model_unloading(e->served);
    }
    pthread_mutex_lock(&e->registry->lock);
    const bool over =
        !(e->state == ENTRY_CLOSING || (e->state == ENTRY_LOADED && e->unload && e->leases == 0));
    u->unloaded = e->state == ENTRY_UNLOADED;
    pthread_mutex_unlock(&e->registry->lock);
    return over;
}

static void unload_remove(model_unload *u)
{
    *u->link = u->next;
    if (u->next != NULL)
        u->next->link = u->link;
    u->link = NULL;
}

static void collect_unloads(model_registry *r)
{
    model_unload *u = r->unloads;
    while (u != NULL) {
        if (!unload_is_over(u)) {
            u = u->next;
            continue;
        }
        unload_remove(u);
        u->done(u->with);
        u = r->unloads; /* `done` may cancel others */
    }
}

void model_unload_begin(model_unload *u)
{
    model_entry *e = u->entry;
    model_registry *r = e->registry;
    u->next = r->unloads;
    u->link = &r->unloads;
    if (u->next != NULL)
        u->next->link = &u->next;
    r->unloads = u;
    if (e->given) {
        served_model_unload(e->served);
    } else {
        pthread_mutex_lock(&r->lock);
        if (e->state == ENTRY_LOADED && e->leases == 0 && !e->unload) {
            e->unload = true;
            e->reason = UNLOAD_REQUEST;
            pthread_cond_broadcast(&r->changed);
        }
        pthread_mutex_unlock(&r->lock);
    }
    registry_wake(r); /* it may be over already */
}

void model_unload_cancel(model_unload *u)
{
    if (u->link != NULL)
        unload_remove(u);
}

/* ---- collect ---- */

void model_registry_collect(model_registry *r,
                            void (*changed)(void *with, const model_change *change), void *with)
{
    collect_notes(r, changed, with);
    collect_waits(r);
    collect_unloads(r);
}

/* ---- idle models ---- */

void model_registry_tick(model_registry *r, double now)
{
    if (r->options.catalog.list == NULL) {
        for (size_t i = 0; i < r->n; i++)
            served_model_tick(r->entries[i]->served, now);
        return;
    }
    bool any = false;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n; i++) {
        model_entry *e = r->entries[i];
        if (e->state != ENTRY_LOADED || e->leases > 0 || e->unload ||
            served_model_leaves_in(e->served) > 0)
            continue;
        e->unload = any = true;
        e->reason = UNLOAD_IDLE;
    }
    if (any)
        pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

const char *model_unload_reason_name(model_unload_reason reason)
{
    static const char *const names[] = {"idle", "memory", "request", "removed"};
    return names[reason];
}

/* ---- sets ---- */

void model_registry_hold(model_registry *r, model_set *out)
{
    out->n = 0;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n && out->n < SERVER_MAX_MODELS; i++) {
        model_entry *e = r->entries[i];
        if (e->state != ENTRY_LOADED)
            continue;
        e->holds++;
        out->entries[out->n] = e;
        out->models[out->n++] = e->served;
    }
    pthread_mutex_unlock(&r->lock);
}

void model_set_release(model_set *set)
{
    if (set->n == 0)
        return;
    model_registry *r = set->entries[0]->registry;
    bool closing = false;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < set->n; i++) {
        set->entries[i]->holds--;
        closing |= set->entries[i]->state == ENTRY_CLOSING;
    }
    if (closing)
        pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    set->n = 0;
}

/* ---- stats ---- */

void model_registry_read_stats(model_registry *r, model_registry_stats *out)
{
    pthread_mutex_lock(&r->lock);
    *out = r->stats;
    out->memory = r->memory;
    out->waiting = r->n_waits;
    for (size_t i = 0; i < r->n; i++) {
        const model_entry *e = r->entries[i];
        out->loaded += e->state == ENTRY_LOADED;
        if (e->state == ENTRY_LOADING && e->total > 0)
            out->load_progress = (double)e->done / (double)e->total;
    }
    pthread_mutex_unlock(&r->lock);
}
