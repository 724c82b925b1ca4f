/* SPDX-License-Identifier: Apache-2.0 */
/*
 * find_model.h - the model argument of a command: a name, a repository, a directory or a path, to
 * the files of the model. Every command with a model calls find_model first.
 */
#ifndef MOTE_CLI_LOAD_FIND_MODEL_H
#define MOTE_CLI_LOAD_FIND_MODEL_H

#include "store/file_list.h"
#include "store/mmproj.h"
#include "store/mtp_file.h"
#include "store/store.h"

enum { FOUND_NAME_BYTES = 800 };

typedef struct found_model {
    char name[FOUND_NAME_BYTES];    /* "qwen3.5:4b"; of a path the name of the file */
    char path[FILE_PATH_BYTES];     /* of the weights */
    char mmproj[MMPROJ_PATH_BYTES]; /* that the store chose; "": none */
    char mtp[MTP_PATH_BYTES];       /* the same for the file with the MTP head */
    bool has_choice; /* false: a file, so search for mmproj and MTP files in its directory */
    store_origin origin;
    char sha256[65];   /* of the weights, as the store claims; "": unknown */
    const char *think; /* from the suffix of the name, as for --think; NULL: none */
} found_model;

/* The environment variables that say where models are. */
void find_store_env(store_env *env);
/* Opens the store of this user. Returns an exit code; the error is reported unless it is 0. */
int find_open_store(store **out);

/* Notes the directories of models that cannot be read. After store_list or store_find. */
void find_note_unreadable(const store *s);

/* The installed model of an argument, for commands about files of the store. A path that does not
 * exist and a name that is not installed are reported. Returns an exit code. */
int find_installed(store *s, const char *argument, model_name *name, const store_model **model);

/* A paragraph for the help of commands with a model. */
#define FIND_MODEL_HELP                                                                            \
    "MODEL is a name that mote list prints, such as qwen3.5:4b or qwen3.5:4b-q8_0, a repository "  \
    "(hf:owner/repo:Q4_K_M), a .gguf file, or a directory with one."

/* The same as find_model. A model that can be downloaded and is not installed is pulled if `pull`
 * is true or the user agrees on the terminal. `memory` is --memory, or 0. */
int find_or_pull_model(found_model *out, const char *argument, bool pull, uint64_t memory);

/* Returns an exit code; the error is reported unless it is 0. For the name of a family, such as
 * "qwen3.5", it chooses the size that suits this machine and prints a line about it. */
int find_model(found_model *out, const char *argument);

/* The name of the installed model with the newest file, in FOUND_NAME_BYTES bytes. False: none is
 * installed, or the store cannot be read. */
bool find_newest_model(char *name);

/* The vision encoder of a found model; `given` is --mmproj or NULL. As mmproj_find. */
bool find_mmproj(char *out, char *why, const found_model *m, const char *given);
/* The file with the MTP head of a found model. `out` has MTP_PATH_BYTES; empty: none. */
void find_mtp(char *out, const found_model *m);

#endif
