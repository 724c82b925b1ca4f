/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_loader.c - the loader thread: loads the models that requests wait for, one at a time, and
 * unloads models.
 *
 * Order: the oldest wait decides which model is loaded next. Its memory is what the same options
 * plan for it if it is alone, so context and answers never depend on the other loaded models. If
 * that does not fit next to the loaded models, idle models are unloaded, least recently used first.
 * If that is not enough, models with running requests are drained, also least recently used first:
 * running requests finish, new ones wait behind this load. So a model in constant use cannot keep
 * another one out.
 *
 * Nothing is mapped beyond its metadata before the memory is reserved, and memory is given back
 * only after engine and mapping are freed: the sum never exceeds the limit.
 */
#include "base/mem.h"
#include "base/os.h"
#include "server/models/model_registry_int.h"

#include <stdio.h>

/* ---- reports to the loop thread ---- */

/* Under the lock. Without memory for a note there is no log line. */
static void loader_note(model_registry *r, const change_note *what)
{
    change_note *note = mem_new(1, sizeof *note);
    if (note == NULL)
        return;
    *note = *what;
    note->next = NULL;
    note->total = r->memory;
    *r->notes_end = note;
    r->notes_end = &note->next;
}

/* Why a load has failed. */
typedef struct load_failure {
    mote_error error;
    bool too_large; /* the plan of the model exceeds the memory limit */
} load_failure;

/* Under the lock: ends all waits for `e`. A NULL `failure` grants each of them a lease. */
static void loader_answer(model_registry *r, model_entry *e, const load_failure *failure)
{
    for (model_wait *w = r->waits, *next; w != NULL; w = next) {
        next = w->next;
        if (w->entry != e)
            continue;
        wait_remove(w);
        r->n_waits--;
        w->ready = true;
        w->served = failure == NULL ? e->served : NULL;
        if (failure == NULL) {
            e->leases++;
            e->used = os_now();
        } else {
            w->error = failure->error;
            w->too_large = failure->too_large;
        }
        wait_append(&r->ready, w);
    }
    registry_wake(r);
}

/* ---- unloading ---- */

/* With the lock, which is released while memory is freed. The entry has no leases. */
static void loader_unload(model_registry *r, model_entry *e, model_unload_reason reason)
{
    const double began = os_now();
    e->state = ENTRY_CLOSING;
    e->draining = e->unload = false;
    while (e->holds > 0)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
    served_model_free(e->served);
    mote_model_close(e->model);
    os_trim_heap(); /* the next model may need it in other sizes */
    pthread_mutex_lock(&r->lock);
    e->served = NULL;
    e->model = NULL;
    e->state = ENTRY_UNLOADED;
    r->memory -= e->memory;
    r->n_loaded--;
    r->stats.unloads[reason]++;
    loader_note(r,
                &(change_note){
                    .entry = e, .reason = reason, .bytes = e->memory, .seconds = os_now() - began});
    e->memory = 0;
    pthread_cond_broadcast(&r->changed);
    registry_wake(r);
}

/* Unloads one model that is to be unloaded and has no leases. false: there is none. */
static bool loader_unload_one(model_registry *r)
{
    for (size_t i = 0; i < r->n; i++) {
        model_entry *e = r->entries[i];
        if (e->state == ENTRY_LOADED && e->unload && e->leases == 0) {
            loader_unload(r, e, e->reason);
            return true;
        }
    }
    return false;
}

/* ---- memory ---- */

/* The loaded model that was not used for the longest time; NULL: none. `idle`: without leases;
 * otherwise of those that are not drained yet. */
static model_entry *loader_oldest(const model_registry *r, bool idle)
{
    model_entry *oldest = NULL;
    for (size_t i = 0; i < r->n; i++) {
        model_entry *e = r->entries[i];
        if (e->state == ENTRY_LOADED && (idle ? e->leases == 0 : !e->draining) &&
            (oldest == NULL || e->used < oldest->used))
            oldest = e;
    }
    return oldest;
}

static bool loader_fits(const model_registry *r, uint64_t memory, uint32_t n, uint64_t bytes)
{
    const uint64_t limit = r->options.sched.memory;
    return n < SERVER_MAX_MODELS && (limit == 0 || memory + bytes <= limit);
}

/* Drains models with running requests until the others leave enough memory. */
static void loader_drain(model_registry *r, uint64_t bytes)
{
    uint64_t memory = r->memory;
    uint32_t n = r->n_loaded;
    r->n_busy = 0;
    for (size_t i = 0; i < r->n; i++) {
        const model_entry *e = r->entries[i];
        if (e->state != ENTRY_LOADED || !e->draining)
            continue;
        memory -= e->memory;
        n--;
        r->n_busy++;
    }
    while (!loader_fits(r, memory, n, bytes)) {
        model_entry *e = loader_oldest(r, false);
        if (e == NULL)
            return;
        e->draining = true;
        memory -= e->memory;
        n--;
        r->n_busy++;
    }
}

/* Nothing waits for memory any more: drained models take requests again. */
static void loader_end_drain(model_registry *r)
{
    r->n_busy = 0;
    for (size_t i = 0; i < r->n; i++)
        if (r->entries[i]->draining && !r->entries[i]->unload)
            r->entries[i]->draining = false;
}

static bool loader_has_waits(const model_registry *r, const model_entry *e)
{
    const model_wait *w = r->waits;
    while (w != NULL && w->entry != e)
        w = w->next;
    return w != NULL;
}

/* With the lock: makes room for `bytes` and reserves them for `e`. false: the server stops, or no
 * request waits for the model any more. */
static bool loader_reserve(model_registry *r, model_entry *e, uint64_t bytes)
{
    while (!r->stop && loader_has_waits(r, e)) {
        if (loader_fits(r, r->memory, r->n_loaded, bytes)) {
            e->memory = bytes;
            r->memory += bytes;
            r->n_loaded++;
            if (r->memory > r->stats.memory_peak)
                r->stats.memory_peak = r->memory;
            loader_end_drain(r);
            return true;
        }
        if (loader_unload_one(r))
            continue;
        model_entry *idle = loader_oldest(r, true);
        if (idle != NULL) {
            loader_unload(r, idle, UNLOAD_MEMORY);
            continue;
        }
        loader_drain(r, bytes);
        pthread_cond_wait(&r->changed, &r->lock);
    }
    loader_end_drain(r);
    return false;
}

/* ---- loading ---- */

/* Reads the weights into memory, so that the first step is as fast as later ones. false: the server
 * stops, or no request waits for the model any more. */
static bool loader_prefault(model_registry *r, model_entry *e)
{
    uint64_t done = 0, total = 0;
    bool wanted = true;
    while (wanted && mote_model_prefault(e->model, &done, &total)) {
        pthread_mutex_lock(&r->lock);
        e->done = done;
        e->total = total;
        wanted = !r->stop && loader_has_waits(r, e);
        pthread_mutex_unlock(&r->lock);
    }
    return wanted;
}

/* The text may contain paths of files in the directory of `path`, which replies must not. */
static void error_hide_directory(mote_error *err, const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    const size_t n = slash != NULL ? (size_t)(slash + 1 - path) : 0;
    char *at = err->text;
    while (n > 1 && (at = strchr(at, '/')) != NULL) {
        if (strncmp(at, path, n) == 0)
            memmove(at, at + n, strlen(at + n) + 1);
        else
            at++;
    }
}

/* Options of the model, which is open. Its context is at most what it is trained for. */
static served_model_options loader_model_options(const model_registry *r, const model_entry *e)
{
    served_model_options out = registry_model_options(r);
    const uint64_t trained = sched_max_context(e->model, out.sched.yarn);
    out.model = e->model;
    if (out.sched.context > trained)
        out.sched.context = trained;
    return out;
}

/* The paths that an entry had when its load began. */
typedef struct load_paths {
    char *weights, *mmproj, *mtp;
} load_paths;

/* Opens the files and computes the memory of the model. */
static mote_status loader_open(model_registry *r, model_entry *e, const load_paths *paths,
                               uint64_t *bytes, load_failure *failure)
{
    const bool vision = paths->mmproj != NULL && r->options.fork_server != NULL;
    mote_model_options open = {
        .isa = r->options.isa, .mmproj = vision ? paths->mmproj : NULL, .mtp = paths->mtp};
    mote_status status = mote_model_open(&e->model, paths->weights, &open, &failure->error);
    if (status != MOTE_OK && open.mtp != NULL) { /* perhaps that of another model */
        open.mtp = NULL;
        status = mote_model_open(&e->model, paths->weights, &open, &failure->error);
    }
    if (status == MOTE_OK) {
        const served_model_options model = loader_model_options(r, e);
        status = served_model_plan_memory(&model, bytes, &failure->too_large, &failure->error);
    }
    if (status != MOTE_OK) {
        error_hide_directory(&failure->error, paths->weights);
        error_hide_directory(&failure->error, paths->mmproj);
    }
    return status;
}

static mote_status loader_start(model_registry *r, model_entry *e, const char *weights,
                                mote_error *err)
{
    served_model_options model = loader_model_options(r, e);
    model.path = weights;
    model.name = e->name;
    if (!loader_prefault(r, e))
        return err_set(err, MOTE_E_CANCELED, "the load was canceled");
    return served_model_new(&e->served, &model, err);
}

/* *seconds: without the wait for memory. MOTE_E_CANCELED: no request waits any more. */
static mote_status loader_load_files(model_registry *r, model_entry *e, const load_paths *paths,
                                     double *seconds, load_failure *failure)
{
    uint64_t bytes = 0;
    double began = os_now();
    TRY(loader_open(r, e, paths, &bytes, failure));
    *seconds = os_now() - began;
    pthread_mutex_lock(&r->lock);
    const bool reserved = loader_reserve(r, e, bytes);
    pthread_mutex_unlock(&r->lock);
    if (!reserved)
        return err_set(&failure->error, MOTE_E_CANCELED, "the load was canceled");
    began = os_now();
    const mote_status status = loader_start(r, e, paths->weights, &failure->error);
    *seconds += os_now() - began;
    return status;
}

/* Under the lock, after a load of the files of `version`. */
static void loader_finish(model_registry *r, model_entry *e, uint32_t version, mote_status status,
                          const load_failure *failure, double seconds)
{
    const bool replaced = version != e->version; /* meanwhile: the waits are for the new files */
    e->done = e->total = 0;
    change_note note = {.entry = e, .bytes = e->memory, .seconds = seconds};
    if (status == MOTE_OK) {
        e->state = ENTRY_LOADED;
        e->used = os_now();
        e->context = served_model_context(e->served);
        r->stats.loads++;
        r->stats.load_seconds += seconds;
        note.loaded = true;
        e->draining = e->unload = replaced;
        e->reason = UNLOAD_REMOVED;
    } else {
        e->state = ENTRY_UNLOADED;
        if (e->memory > 0)
            r->n_loaded--;
        r->memory -= e->memory;
        e->memory = 0;
        r->stats.failures += status != MOTE_E_CANCELED;
        note.failed = status != MOTE_E_CANCELED;
        note.error = failure->error;
    }
    if (note.loaded || note.failed)
        loader_note(r, &note);
    if (status != MOTE_E_CANCELED && !replaced)
        loader_answer(r, e, status == MOTE_OK ? NULL : failure);
    pthread_cond_broadcast(&r->changed);
}

/* With the lock, which is released meanwhile. */
static void loader_load(model_registry *r, model_entry *e)
{
    load_failure failure = {.too_large = false};
    double seconds = 0;
    const uint32_t version = e->version;
    const load_paths paths = {path_copy(e->weights), path_copy(e->mmproj), path_copy(e->mtp)};
    mote_status status = MOTE_OK;
    e->state = ENTRY_LOADING;
    e->draining = e->unload = false;
    if (paths.weights == NULL || (paths.mmproj == NULL && e->mmproj != NULL))
        status = err_set(&failure.error, MOTE_E_MEMORY, "out of memory for a path");
    pthread_mutex_unlock(&r->lock);
    if (status == MOTE_OK)
        status = loader_load_files(r, e, &paths, &seconds, &failure);
    if (status != MOTE_OK) {
        mote_model_close(e->model);
        e->model = NULL;
    }
    mem_free(paths.weights);
    mem_free(paths.mmproj);
    mem_free(paths.mtp);
    pthread_mutex_lock(&r->lock);
    loader_finish(r, e, version, status, &failure, seconds);
}

/* ---- the thread ---- */

/* The model of the oldest wait that can be served now; NULL: none. A model with replaced files
 * waits for its last lease, and others are loaded meanwhile. */
static model_entry *loader_next(const model_registry *r)
{
    const model_wait *w = r->waits;
    while (w != NULL && w->entry->state == ENTRY_LOADED && w->entry->unload)
        w = w->next;
    return w != NULL ? w->entry : NULL;
}

void *loader_run(void *registry)
{
    model_registry *r = registry;
    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        if (loader_unload_one(r))
            continue;
        model_entry *e = loader_next(r);
        if (e == NULL) {
            pthread_cond_wait(&r->changed, &r->lock);
        } else if (e->state == ENTRY_LOADED) { /* it was drained and is not any more */
            e->draining = false;
            loader_answer(r, e, NULL);
        } else {
            loader_load(r, e);
        }
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}
