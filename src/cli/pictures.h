/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pictures.h - what a message shows: files on the command line to pictures of the model.
 *
 * Functions return an exit code and have said what is wrong unless it is 0.
 */
#ifndef MOTE_CLI_PICTURES_H
#define MOTE_CLI_PICTURES_H

#include "cli/json_out.h"
#include "cli/run.h"

struct media_nursery;

/* One file: as it was seen, and what stands for it. */
typedef struct shown {
    const char *path;
    bool film;
    uint32_t width, height; /* as it was given to the model */
    size_t tokens;
    mote_picture **pictures; /* [n] */
    double *seconds;         /* [n], of a film */
    size_t n;
} shown;

typedef struct pictures {
    struct media_nursery *nursery;
    shown list[2 * FLAG_LIST_MAX];
    mote_media media[2 * FLAG_LIST_MAX];
    size_t n;
} pictures;

/* Does the command show anything? */
bool pictures_wanted(const run_options *o);
/* Starts the process that decodes; before the program has threads. */
int pictures_start(pictures *p);
/* The tower of a model: what --mmproj says, "none" if there shall be none, else the one
 * mmproj*.gguf beside the file. `out` has PATH_BYTES; empty: there is none. */
enum { PICTURES_PATH_BYTES = 4096 };
void pictures_tower(char *out, const char *model_path, const char *given);
/* Decodes and looks at everything. */
int pictures_see(pictures *p, const mote_model *model, const run_options *o);
void pictures_free(pictures *p);

/* "images": [{"w", "h", "tokens"}] */
void pictures_write(const pictures *p, json *j);

#endif
