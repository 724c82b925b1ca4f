/* SPDX-License-Identifier: Apache-2.0 */
/*
 * film_files.h - what --video and /video may name: a file, a folder of frames, or a pattern.
 */
#ifndef MOTE_CLI_FILM_FILES_H
#define MOTE_CLI_FILM_FILES_H

#include "cli/input.h"

/* The bytes of all files one after the other; of several also how many each has. */
typedef struct film_files {
    input_text bytes;
    uint64_t *parts; /* [n_parts] */
    size_t n_parts;  /* 0: one file */
} film_files;

/* Frames come in the order of their names, numbers in them by value. Returns an exit code and has
 * said what is wrong unless it is 0; free it in any case. */
int film_files_read(film_files *out, const char *path);
void film_files_free(film_files *files);

#endif
