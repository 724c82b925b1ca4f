/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - the config file, and where the value of a setting comes from.
 *
 *     memory = 6GB                      # all commands with --memory
 *     [serve]
 *     listen = 127.0.0.1:11435          # mote serve only
 *     [model qwen3.5:4b]
 *     context = 65536                   # run, chat and serve with this model
 *     [alias]
 *     gpt-4o-mini = qwen3.5:4b:nothink  # a name for a model
 *
 * Keys are the long names of flags. A setting is a flag of a command. Its value is the one of the
 * flag, else of its environment variable, else of the config file ([model NAME], then [serve], then
 * the keys before the first section), else the default of the table. config_setting_find decides
 * all but the first, for commands (args.c) and for `mote doctor --config`.
 */
#ifndef MOTE_CLI_ARGS_CONFIG_H
#define MOTE_CLI_ARGS_CONFIG_H

#include "base/conf_file.h"

struct cli_flag;
struct cli_command;
struct cli_command_table;

enum { CONFIG_MAX_FILES = 3, CONFIG_PATH_BYTES = 1024 };

/* Zero-initialised: no config file. */
typedef struct config {
    conf_file files[CONFIG_MAX_FILES]; /* the first one has precedence */
    size_t n;
} config;

/* Reads the file of MOTE_CONFIG. Without that variable: $XDG_CONFIG_HOME/mote/config, by default
 * ~/.config/mote/config, the file aliases next to it, and /etc/mote/config, each if it exists. */
mote_status config_open(config *out, mote_error *err);
/* The file that `mote cp` writes. False: it is not read, because of MOTE_CONFIG or without HOME. */
bool config_aliases_path(char out[CONFIG_PATH_BYTES]);
/* Reads these files; those that do not exist are skipped. */
mote_status config_open_files(config *out, const char *const *paths, size_t n, mote_error *err);
void config_close(config *c);

/* The model that an alias of section [alias] stands for; NULL: `name` is not an alias. */
const char *config_alias(const config *c, const char *name);
/* Alias i, from 0; NULL after the last one. */
const char *config_alias_at(const config *c, size_t i);

/* Called for each line that has no meaning; `sentence` is one without the code in brackets. */
typedef void config_unknown_fn(void *with, const char *sentence);
/* Finds unknown keys and sections. */
void config_check(const config *c, const struct cli_command_table *table, config_unknown_fn *fn,
                  void *with);

/* MOTE_E_ARG: a command refuses the value in a section [model NAME]; `source` names it in the
 * error. The value of an unknown key is accepted. */
mote_status config_check_value(const struct cli_command_table *table, const char *key,
                               const char *value, const char *source, mote_error *err);

/* ---- settings ---- */

typedef enum setting_origin { SETTING_DEFAULT, SETTING_ENVIRONMENT, SETTING_FILE } setting_origin;

typedef struct config_setting {
    const struct cli_flag *flag;
    setting_origin origin;
    const char *value;     /* as written; NULL: a default without a text */
    const conf_file *file; /* SETTING_FILE: where it is */
    const conf_line *line;
} config_setting;

/* The value of a flag that is not given, for a command that uses `model` (NULL: none). Of several
 * lines with the key the last one counts; of a repeatable flag all, and this is the first. */
void config_setting_find(config_setting *out, const struct cli_flag *flag,
                         const struct cli_command *command, const config *c, const char *model);
/* The next line of a repeatable flag; false: there is none. */
bool config_setting_next(config_setting *s);

enum { SETTING_SOURCE_BYTES = CONFIG_PATH_BYTES + 128 };
/* What errors call it: "MOTE_MEMORY", "/etc/mote/config:3: memory" or the name of the flag. Returns
 * `text`, which has SETTING_SOURCE_BYTES bytes. */
const char *config_setting_source(const config_setting *s, char *text);

#endif
