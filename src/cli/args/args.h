/* SPDX-License-Identifier: Apache-2.0 */
/* args.h - turns the words of a command line into a command's options, by its table. */
#ifndef MOTE_CLI_ARGS_ARGS_H
#define MOTE_CLI_ARGS_ARGS_H

#include "base/err.h"
#include "cli/args/command.h"

/*
 * Parses the n words after the command's name. Flags may stand anywhere, as
 * --name value, --name=value, -x value or -xvalue; switches may share a dash;
 * "--" ends the flags and "-" is an ordinary word. Defaults come from the
 * environment and then from the table.
 *
 * `options` has command->options_bytes zeroed bytes, `words` room for n entries;
 * both must outlive the call. The number of words is not checked when help is
 * asked for.
 */
mote_status args_parse(cli_call *call, const cli_command *command, int n, char *const *argv,
                       void *options, const char **words, mote_error *err);

#endif
