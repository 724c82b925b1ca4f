/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_registry_int.h - the state that model_registry.c and model_loader.c share.
 *
 * `lock` protects everything that can change after the start. The loader thread is the only one
 * that loads and unloads; it does both without the lock. An entry in the state LOADING or CLOSING
 * belongs to the loader thread.
 */
#ifndef MOTE_SERVER_MODELS_MODEL_REGISTRY_INT_H
#define MOTE_SERVER_MODELS_MODEL_REGISTRY_INT_H

#include "server/models/model_registry.h"

#include <pthread.h>

typedef enum entry_state { ENTRY_UNLOADED, ENTRY_LOADING, ENTRY_LOADED, ENTRY_CLOSING } entry_state;

struct model_entry {
    model_registry *registry;
    char name[MODEL_NAME_BYTES];
    bool given;     /* from the command line: always loaded */
    bool installed; /* in the catalog at the last scan */
    uint32_t order; /* in the catalog */
    uint64_t scan;  /* number of the last scan that found it */
    char *weights;  /* paths; NULL mmproj or mtp: none */
    char *mmproj;
    char *mtp;
    char *repo;      /* "owner/name"; NULL: unknown */
    char quant[24];  /* "": unknown */
    char digest[72]; /* "": unknown */
    uint64_t bytes;
    int64_t date;
    uint32_t version; /* of the files: counts their replacements */

    entry_state state;
    bool draining;              /* no new leases; unloaded when the last one ends */
    bool unload;                /* to be unloaded as soon as it has no leases */
    model_unload_reason reason; /* of `unload` */
    mote_model *model;          /* owned, unless given */
    served_model *served;
    uint32_t leases;
    uint32_t holds;       /* of model_set: short */
    double used;          /* os_now() of the last begin or end of a lease */
    uint64_t memory;      /* planned, counted in registry.memory */
    uint64_t context;     /* of the last load; 0: never loaded */
    uint64_t done, total; /* progress of the load */
};

/* A finished load or unload that the loop thread has not reported yet. */
typedef struct change_note {
    struct change_note *next;
    model_entry *entry;
    bool loaded, failed;
    mote_error error;
    model_unload_reason reason;
    uint64_t bytes, total;
    double seconds;
} change_note;

/* Another name of an entry. Never freed before the registry: requests use its text. */
typedef struct model_alias {
    struct model_alias *next;
    char name[MODEL_NAME_BYTES];
    char target[MODEL_NAME_BYTES]; /* name of the entry */
    char think[16];                /* "": none */
    uint64_t scan;                 /* number of the last scan that found it */
} model_alias;

struct model_registry {
    model_registry_options options;
    core_lock *core_lock; /* shared by the engines; NULL: there is only one */
    uint64_t image_memory;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* any change that the loader waits for */
    pthread_t loader;
    bool has_loader, stop;
    model_entry **entries; /* [n] */
    size_t n;
    model_alias *aliases;
    uint32_t n_aliases;
    uint64_t aliases_from;     /* aliases of this scan and later ones are valid */
    pthread_mutex_t scan_lock; /* one scan at a time; taken before `lock` */
    double scanned;            /* os_now() of the last scan */
    uint64_t scans;            /* under scan_lock */
    model_wait *waits;         /* waiting for a load, oldest first */
    model_wait *ready;         /* over; model_registry_collect() calls `done` */
    uint32_t n_waits;          /* of `waits` */
    model_unload *unloads;     /* loop thread */
    change_note *notes, **notes_end;
    uint32_t n_loaded; /* loaded, loading or closing */
    uint64_t memory;   /* planned, of these */
    uint32_t n_busy;   /* models that the current load waits for */
    model_registry_stats stats;
};

/* ---- model_loader.c ---- */

void *loader_run(void *registry);

/* ---- model_lease.c ---- */

/* Makes the loop thread call model_registry_collect(). */
void registry_wake(const model_registry *r);

/* ---- model_registry.c ---- */

/* Options of a served_model; `model` and `path` are set by the caller. */
served_model_options registry_model_options(const model_registry *r);
/* A copy, to be freed with mem_free(). NULL: no path, an empty one, or out of memory. */
char *path_copy(const char *path);
/* Appends a wait to a list, and removes it. Under the lock. */
void wait_append(model_wait **list, model_wait *w);
void wait_remove(model_wait *w);

#endif
