/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - which models are installed on this machine, and what a model argument means.
 *
 * The store is the cache of huggingface_hub. Models of Ollama, LM Studio, llama.cpp's old cache and
 * of directories with GGUF files are used where they are. The store only reads; store_remove.h
 * removes.
 *
 *     store_env env;
 *     store_env_read(&env);      // from the process; tests fill in the struct
 *     store_open(&s, &env, &err);
 *     store_find(s, "qwen3.5:4b", &name, &model, &err);
 *     if (model == NULL)         // known, but not installed: mote pull
 *         ...
 *     ... model->weights, model->mmproj ...
 *     store_close(s);            // all strings of the store end here
 *
 * Names: a file of the cache that a row of the known models describes has the row's name,
 * "qwen3.5:4b" or "qwen3.5:4b-q8_0"; other files of the cache are "hf:owner/repo:file"; Ollama's
 * models keep their names; other files have the name of the file, as model_name_of_file makes it.
 * If two have the same name, the first origin in the order of store_origin has it, and the other
 * one is a problem that `mote list -v` prints.
 *
 * One thread at a time.
 */
#ifndef MOTE_STORE_STORE_H
#define MOTE_STORE_STORE_H

#include "base/err.h"
#include "store/known_models.h"
#include "store/model_name.h"

#include <stdint.h>

typedef struct store store;

/* Environment variables; NULL or empty: not set. The strings must outlive the store. */
typedef struct store_env {
    const char *home;
    const char *xdg_config_home, *xdg_cache_home, *xdg_data_home;
    const char *hf_hub_cache, *huggingface_hub_cache, *hf_home;
    const char *ollama_models;
    const char *ollama_service; /* models of Ollama's Linux service; used without ollama_models */
    const char *llama_cache;
    const char *mote_models; /* directories of GGUF files, separated by ':' */
    const char *etc;         /* "/etc/mote" */
} store_env;

/* In the order in which they win a name. */
typedef enum store_origin {
    STORE_HF_CACHE,
    STORE_OLLAMA,
    STORE_LM_STUDIO,
    STORE_DIRECTORY, /* MOTE_MODELS, or $XDG_DATA_HOME/mote/models */
    STORE_LLAMA_CPP, /* the cache that llama.cpp used until March 2026 */
    STORE_PATH,      /* a path given by the user; not part of the list */
} store_origin;
/* "Hugging Face cache", "Ollama", ... */
const char *store_origin_name(store_origin origin);

typedef struct store_model {
    const char *name;
    store_origin origin;
    const char *weights; /* path; of split weights the first part */
    const char *mmproj;  /* path of the vision encoder; NULL: none, or inside the weights */
    bool vision_inside;  /* the weights have a vision encoder, and mmproj is NULL */
    const char *mtp;     /* path of the file with the MTP head; NULL: none */
    uint32_t parts;      /* files of the weights */
    uint64_t bytes;      /* of all files together */
    int64_t modified;    /* of the weights, seconds since 1970 */
    const char *sha256;  /* of the (first) weights, as the name of the blob claims; NULL: unknown */
    const char *quant;   /* "Q4_K_M", as far as names tell; "": unknown */
    const char *architecture; /* "qwen35", as the file says; "": unknown */
    const char *broken; /* why the model cannot be used, such as a missing part; NULL: it can */
    bool foreign;       /* it cannot be used because mote does not run its architecture */

    /* Hugging Face cache only; else NULL. */
    const known_model *known; /* the row that describes it, or NULL */
    const char *repo;         /* "owner/name" */
    const char *commit;       /* of the snapshot */
    const char *file;         /* path of the weights in the repository */
} store_model;

/* The file with the vision encoder of a model, which may be its weights; NULL: none. */
static inline const char *store_vision_path(const store_model *m)
{
    return m->vision_inside ? m->weights : m->mmproj;
}

/* A file or directory that is not used, and why. */
typedef struct store_problem {
    const char *path;
    const char *why;
    bool unreadable; /* a directory: it may hold models that the list lacks */
} store_problem;

/* Reads the tables of known models; scans nothing yet. MOTE_E_FORMAT: the user's table is wrong. */
mote_status store_open(store **out, const store_env *env, mote_error *err);
void store_close(store *s);

const known_models *store_known(const store *s);
/* Root of the Hugging Face cache, "" if unknown; it may not exist. `mote pull` writes there. */
const char *store_cache_root(const store *s);

/* The directory for models that mote makes: the first one of MOTE_MODELS, else that of the user. It
 * may not exist; "" if unknown. Valid as long as the store. */
const char *store_own_directory(store *s);

/* The installed models, sorted by name. The first call scans; a new scan needs a new store. */
mote_status store_list(store *s, const store_model **list, size_t *n, mote_error *err);
/* What the scan found and did not use. */
const store_problem *store_problems(const store *s, size_t *n);
/* Directories that hold the models of the list; a sandbox must allow reading them. Only those that
 * exist. Empty before store_list. */
const char *const *store_roots(const store *s, size_t *n);

/*
 * Resolves a model argument. *name is always filled in as far as it could be parsed.
 *
 * MOTE_OK and *model NULL: the name is known or a repository, but nothing is installed.
 * store_not_installed has the sentence for the user. A family ("qwen3.5") gives the largest
 * installed model of the family. A revision ("hf:owner/repo@v1") gives the file of that revision,
 * which need not be in the list; without one it is that of main.
 * MOTE_E_ARG: no such model; the text says which there are.
 * MOTE_E_IO: a path that does not exist or cannot be read. A path to a file is not opened.
 */
mote_status store_find(store *s, const char *argument, model_name *name, const store_model **model,
                       mote_error *err);
/* Sets "qwen3.5:4b is not installed; try: mote pull qwen3.5:4b". Returns MOTE_E_ARG. */
mote_status store_not_installed(const model_name *name, mote_error *err);

/* Writes the names of the list, "a, b, c", for messages: all that mote runs, or those of a family
 * (NULL: all). Returns their number; "..." stands for those without room. */
size_t store_names(const store *s, const char *family, char *out, size_t room);

/* The installed model of a known row with a quantisation; NULL: not installed. Scans if needed. */
const store_model *store_installed(store *s, const known_model *row, const char *quant);

#endif
