/* SPDX-License-Identifier: Apache-2.0 */
/* store_int.h - the store object, for the readers of the origins. */
#ifndef MOTE_STORE_STORE_INT_H
#define MOTE_STORE_STORE_INT_H

#include "store/file_list.h"
#include "store/hub_files.h"
#include "store/store.h"

enum { STORE_MAX_ROOTS = 256, STORE_MAX_MODELS = 10000, STORE_MAX_PROBLEMS = 1000 };

struct store {
    store_env env;
    known_models known;
    char cache_root[FILE_PATH_BYTES];
    char **texts; /* strings that live as long as the store */
    uint32_t n_texts, texts_room;
    store_model *list;
    uint32_t n, room;
    store_model **revisions; /* of the last argument with a revision; they are also in `texts` */
    uint32_t n_revisions, revisions_room;
    store_problem *problems;
    uint32_t n_problems, problems_room;
    const char *roots[STORE_MAX_ROOTS];
    size_t n_roots;
    bool scanned;
    bool no_memory; /* an allocation failed; store_list reports it */
};

/* A copy that lives as long as the store. Out of memory: "", and no_memory is set. */
const char *store_text(store *s, const char *text);
static inline bool store_env_set(const char *variable)
{
    return variable != NULL && variable[0] != '\0';
}

/* Adds a directory to the roots if it exists, and is not one yet. False: it does not exist, or its
 * path cannot be followed, which is a problem. */
bool store_add_root(store *s, const char *path);
/* Adds a model unless its name is taken, which is a problem. The strings must be of the store. */
void store_add(store *s, const store_model *m);
/* Adds a model to the revisions. */
void store_add_revision(store *s, const store_model *m);
void store_add_problem(store *s, const char *path, const char *why);
/* A directory that cannot be read. */
void store_add_unreadable(store *s, const char *path, const char *why);
/* The directories that a list below `root` could not read. */
void store_add_unread(store *s, const char *root, const file_list *files);
/* True if the list has a model with this name. */
bool store_has_name(const store *s, const char *name);

/* The files of a model in a listing below `root`; sets weights, mmproj, mtp, parts, bytes, modified
 * and broken. `inside`: links must not leave this directory; NULL: they may. */
void store_set_files(store *s, store_model *m, const file_list *files, const char *root,
                     const char *inside, const hub_choice *choice);

/* Looks into the files: a model of another architecture is `foreign`; an mmproj file of another
 * model is dropped. store_set_files calls it. */
void store_check_files(store *s, store_model *m);

#endif
