/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mmproj.h - which file is the picture tower of a model.
 *
 * Towers are called mmproj-NAME-FORMAT.gguf, NAME being the model's or missing, and lie beside it;
 * often in several formats, sometimes with those of other models.
 */
#ifndef MOTE_CLI_LOAD_MMPROJ_H
#define MOTE_CLI_LOAD_MMPROJ_H

#include <stdbool.h>
#include <stddef.h>

enum { MMPROJ_PATH_BYTES = 4096, MMPROJ_NAME_BYTES = 256, MMPROJ_WHY_BYTES = 700 };

/* Number of the best of n names for a model: the longest NAME that the model's begins with, then
 * the one with most of it in common; of its formats F16, BF16, F32, Q8_0, in this order. *rival is
 * another that is as good, or n: then nobody can tell. */
size_t mmproj_choose(const char *model, const char *const *names, size_t n, size_t *rival);

/* What --mmproj says (`given`), nothing if that is "none", else the best file beside the model.
 * `out` has MMPROJ_PATH_BYTES; empty: there is none. `why` has MMPROJ_WHY_BYTES: which of several
 * it is, or with false as the result that it cannot be told; empty: there is nothing to say. */
bool mmproj_find(char *out, char *why, const char *model_path, const char *given);

#endif
