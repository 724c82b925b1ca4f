/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shell.h - what shells and man show of the command table: completion scripts and man pages.
 *
 * Everything is made from the rows of the table at run time, so a new command or flag appears
 * without a change here.
 */
#ifndef MOTE_CLI_SHELL_SHELL_H
#define MOTE_CLI_SHELL_SHELL_H

#include "cli/args/command.h"

/* ---- values (values.c) ---- */

typedef enum shell_value_kind {
    VALUE_NONE, /* a switch */
    VALUE_ANY,  /* text or a number: nothing to offer */
    VALUE_WORDS,
    VALUE_FILE,
    VALUE_DIR,
    VALUE_MODEL, /* installed models, aliases, .gguf files */
    VALUE_COMMAND
} shell_value_kind;

/* What can stand in one place of a command line. */
typedef struct shell_value {
    shell_value_kind kind;
    str words;        /* VALUE_WORDS: separated by | */
    const char *name; /* such as "FILE" */
    bool repeats;     /* an argument: all that follow are the same */
} shell_value;

shell_value shell_flag_value(const cli_flag *flag);
/* Argument i of the command, from 0; false: there is nothing to offer for it. */
bool shell_argument(const cli_command *command, size_t i, shell_value *out);
/* Takes the next word from a list separated by |; false: none is left. */
bool shell_next_word(str *list, str *word);

/* ---- scripts ---- */

void completion_bash(cli_out *o, const cli_command_table *table);
void completion_zsh(cli_out *o, const cli_command_table *table);
void completion_fish(cli_out *o, const cli_command_table *table);

/* ---- man pages (man.c) ---- */

/* mote(1), mote-COMMAND(1), mote-config(5) */
void man_overview(cli_out *o, const cli_command_table *table);
void man_command(cli_out *o, const cli_command *command);
void man_config(cli_out *o, const cli_command_table *table);

#endif
