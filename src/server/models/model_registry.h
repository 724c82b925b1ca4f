/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_registry.h - the models of a server: lookup by name, loading, unloading, one memory limit.
 *
 * Given models (`models` of the options) are opened by the caller, loaded when the registry is
 * created, and stay until it is freed. Their memory limit is divided at the start.
 *
 * Installed models (`catalog`) are loaded by the loader thread when the first request needs one,
 * and unloaded after an idle time or when another model needs the memory (model_loader.c).
 *
 * Ownership: a model_entry stands for a name and lives as long as the registry. Its served_model
 * exists while the model is loaded. A user of a served_model holds a lease of the entry, and a
 * model with leases is never unloaded. README.md of this directory has the rules.
 */
#ifndef MOTE_SERVER_MODELS_MODEL_REGISTRY_H
#define MOTE_SERVER_MODELS_MODEL_REGISTRY_H

#include "server/models/served_model.h"

/* Models that are loaded at the same time. */
enum { SERVER_MAX_MODELS = 16 };

typedef struct model_registry model_registry;
typedef struct model_entry model_entry;

typedef struct model_to_serve {
    const mote_model *model;
    const char *path;         /* for file name and modification time; replies never contain it */
    const char *name;         /* NULL: derived from the file name */
    const served_lora *loras; /* [n_loras]: its adapters */
    size_t n_loras;
} model_to_serve;

/* An installed model. Strings are valid during the call that passes it. */
typedef struct installed_model {
    const char *name;
    const char *weights; /* path of the (first) file */
    const char *mmproj;  /* path of the vision encoder; NULL or "": none */
    const char *mtp;     /* path of the file with the MTP head; NULL or "": none */
    const char *repo;    /* repository of the hub, "owner/name"; NULL or "": unknown */
    const char *quant;   /* quantisation, as its file says; NULL or "": unknown */
    const char *digest;  /* SHA-256 of the file in hexadecimal; NULL or "": unknown */
    uint64_t bytes;      /* of all files */
    int64_t date;        /* modification time, in seconds since 1970 */
    /* Another name of the installed model alias_of; then only `name` and `think` are used too. */
    const char *alias_of;
    const char *think; /* thinking setting of the alias, such as "nothink"; NULL or "": none */
} installed_model;

typedef void model_catalog_add(void *to, const installed_model *m);

/* Where installed models come from. */
typedef struct model_catalog {
    /* Calls `add` for each installed model. Names are unique. Called by one thread at a time, also
     * in the sandbox. NULL: there is no catalog, all models are given. */
    mote_status (*list)(void *with, model_catalog_add *add, void *to, mote_error *err);
    void *with;
} model_catalog;

typedef enum model_unload_reason {
    UNLOAD_IDLE,    /* keep-alive is over */
    UNLOAD_MEMORY,  /* another model needs the memory */
    UNLOAD_REQUEST, /* by /v1/unload */
    UNLOAD_REMOVED, /* its file was removed or replaced */
    UNLOAD_REASONS
} model_unload_reason;

/* "idle", "memory", "request", "removed" */
const char *model_unload_reason_name(model_unload_reason reason);

/* A change to report in the log; valid during the call. */
typedef struct model_change {
    const char *name;
    served_model *loaded;       /* it was loaded; NULL: unloaded, or failed */
    const mote_error *error;    /* it could not be loaded; NULL: no error */
    model_unload_reason reason; /* of an unload */
    uint64_t bytes;             /* its planned memory */
    uint64_t total;             /* planned memory of all loaded models after the change */
    double seconds;             /* that loading or unloading took */
} model_change;

typedef struct model_registry_options {
    const model_to_serve *models; /* [n_models]; the first one also serves unknown names */
    size_t n_models;
    model_catalog catalog; /* instead of `models` */
    mote_isa isa;          /* of models of the catalog */
    sched_options sched;   /* of each model; `model` and `core_lock` are set by the registry */
    struct fork_server *fork_server; /* image decoder; NULL: no images */
    uint32_t image_tokens;           /* default maximum per image; 0: 1,280 */
    const struct limits *limits;     /* must outlive the registry */
    const char *chat_template;       /* of all models; NULL: that of each file */
    double keep_alive;               /* seconds; negative: models stay loaded */
} model_registry_options;

mote_status model_registry_new(model_registry **out, const model_registry_options *options,
                               mote_error *err);
/* All leases and waits must have ended. NULL is allowed. */
void model_registry_free(model_registry *r);
/* Number of given models with a vision encoder. */
uint32_t model_registry_n_vision(const model_registry_options *options);
/* Given model i; it stays loaded. */
served_model *model_registry_given(const model_registry *r, size_t i);
/* Are models loaded on request? */
bool model_registry_has_catalog(const model_registry *r);

/* ---- names; any thread, but see each function ---- */

/* The model that `name` means (model_match.h). NULL: no model matches. A miss reads the catalog
 * again, at most once per second: call it on a worker thread. */
model_entry *model_registry_find(model_registry *r, str name);
/* The thinking setting of an alias, such as "nothink"; "" if it has none, or `name` is no alias.
 * The text is valid as long as the registry. */
str model_registry_alias_think(model_registry *r, str name);
/* The model for requests without a name: the first given one, or the only installed one. NULL:
 * none, or several are installed. */
model_entry *model_registry_default(model_registry *r);
/* Writes the installed names that are most similar to `name`, "a, b, c"; "" if there are none. */
void model_registry_nearest(model_registry *r, str name, char *out, size_t room);
/* All models, in the order of the catalog or of the command line. Free *out with mem_free().
 * `refresh`: reads the catalog again, at most once per second; then call it on a worker thread. */
mote_status model_registry_list(model_registry *r, bool refresh, model_entry ***out, size_t *n,
                                mote_error *err);
/* Reads the catalog now, after a model was installed. On a worker thread. */
void model_registry_rescan(model_registry *r);
/* Zero-terminated; never changes. */
const char *model_entry_name(const model_entry *e);
/* The *n adapters of a given model; an installed one has none. */
const served_lora *model_entry_loras(const model_entry *e, size_t *n);
/* The model and adapter of a name "MODEL:ADAPTER"; false: there is no such pair. */
bool model_registry_find_lora(model_registry *r, str name, model_entry **model,
                              const served_lora **lora);
/* Is it loaded? For given models: is the engine loaded? */
bool model_entry_loaded(model_entry *e);

/* ---- leases; any thread ---- */

/* The loaded model, with a lease. NULL: it is not loaded, or waits to be unloaded. */
served_model *model_lease_try(model_entry *e);
void model_lease_end(model_entry *e);

/* A request that waits until a model is loaded. The caller owns the memory. Loop thread. */
typedef struct model_wait {
    model_entry *entry;
    void (*done)(void *with); /* called by model_registry_collect() */
    void *with;
    /* set before `done` is called */
    served_model *served; /* with a lease; NULL: see `error` */
    mote_error error;
    bool too_large; /* of `error`: the model does not fit even alone */
    /* private */
    struct model_wait *next, **link;
    bool ready;
} model_wait;

/* Loads the entry's model and calls w->done later. false: too many requests wait; `done` is not
 * called. */
bool model_wait_begin(model_wait *w);
/* Ends the wait without a call of `done`. */
void model_wait_cancel(model_wait *w);

typedef struct model_wait_status {
    uint32_t ahead;       /* models that are loaded before it */
    uint32_t busy;        /* models with running requests that must be unloaded first */
    uint64_t done, total; /* bytes of the file in memory; total 0: not yet begun */
} model_wait_status;

void model_wait_get_status(const model_wait *w, model_wait_status *out);

/* Loop thread: calls `done` of the waits that are over, and `changed` for each change. */
void model_registry_collect(model_registry *r,
                            void (*changed)(void *with, const model_change *change), void *with);
/* Loop thread, once per second: unloads models that were idle long enough. */
void model_registry_tick(model_registry *r, double now);

/* A request to unload a model. The caller owns the memory. Loop thread. */
typedef struct model_unload {
    model_entry *entry;
    void (*done)(void *with); /* called by model_registry_collect() */
    void *with;
    bool unloaded; /* set before `done` is called; false: the model has requests */
    /* private */
    struct model_unload *next, **link;
} model_unload;

/* Unloads a model that has no requests, and calls u->done later. */
void model_unload_begin(model_unload *u);
/* Ends the request without a call of `done`; the model may be unloaded all the same. */
void model_unload_cancel(model_unload *u);

/* ---- all loaded models ---- */

/* The loaded models. They stay loaded until model_set_release(), so hold a set for a short time
 * only. Unlike a lease this is not a use: it does not change which model is unloaded next. */
typedef struct model_set {
    served_model *models[SERVER_MAX_MODELS]; /* [n] */
    model_entry *entries[SERVER_MAX_MODELS]; /* [n] */
    size_t n;
} model_set;

void model_registry_hold(model_registry *r, model_set *out);
void model_set_release(model_set *set);

/* ---- stats ---- */

typedef struct model_registry_stats {
    uint32_t installed, loaded, waiting; /* models; loaded models; requests that wait for a load */
    uint64_t memory, memory_peak, limit; /* planned bytes of the loaded models; 0: no limit */
    uint64_t loads, failures, unloads[UNLOAD_REASONS];
    double load_seconds;  /* of all loads, without the wait for memory */
    double load_progress; /* of the load under way, 0 to 1; 0: none */
} model_registry_stats;

void model_registry_read_stats(model_registry *r, model_registry_stats *out);

#endif
