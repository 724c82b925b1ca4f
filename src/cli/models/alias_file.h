/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alias_file.h - the file that `mote cp` writes: $XDG_CONFIG_HOME/mote/aliases.
 *
 * It has the form of the config file, with the sections [alias] and [model ALIAS], and is read
 * after it (cli/args/config.h). Comments in it are not kept.
 */
#ifndef MOTE_CLI_MODELS_ALIAS_FILE_H
#define MOTE_CLI_MODELS_ALIAS_FILE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct alias_setting {
    const char *key, *value;
} alias_setting;

/* Adds an alias or replaces it. MOTE_E_ARG: a key is unknown, or a value cannot be written. */
mote_status alias_file_set(const char *alias, const char *model, const alias_setting *settings,
                           size_t n, mote_error *err);
/* *removed: there was such an alias. */
mote_status alias_file_remove(const char *alias, bool *removed, mote_error *err);

#endif
