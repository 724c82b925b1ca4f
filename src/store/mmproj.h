/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mmproj.h - which mmproj file (vision encoder) belongs to a model, by file name.
 *
 * Files are named mmproj-NAME-FORMAT.gguf or NAME.mmproj-FORMAT.gguf, where NAME is the model's
 * name or missing. They are in the directory of the model, often in several formats and next to
 * those of other models.
 */
#ifndef MOTE_STORE_MMPROJ_H
#define MOTE_STORE_MMPROJ_H

#include <stdbool.h>
#include <stddef.h>

enum { MMPROJ_PATH_BYTES = 4096, MMPROJ_WHY_BYTES = 700 };

/* A file name, without directory, of an mmproj file. */
bool mmproj_is(const char *name);

/* Index of the best of n file names for a model: first the longest NAME that is a prefix of the
 * model's name, then the longest common prefix, then the format: F16, BF16, F32, Q8_0. *rival is
 * the index of an equally good one, or n. */
size_t mmproj_choose(const char *model, const char *const *names, size_t n, size_t *rival);

/* The path of --mmproj (`given`), nothing if that is "none", the model file itself if it has a vision
 * encoder inside, else the best file in the model's directory. `out` has MMPROJ_PATH_BYTES; empty: none. `why` has MMPROJ_WHY_BYTES: which of several
 * files was chosen, or why the choice is ambiguous (then the result is false); else empty. */
bool mmproj_find(char *out, char *why, const char *model_path, const char *given);

#endif
