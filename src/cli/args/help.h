/* SPDX-License-Identifier: Apache-2.0 */
/* help.h - the command table as text for people and as JSON for programs. */
#ifndef MOTE_CLI_ARGS_HELP_H
#define MOTE_CLI_ARGS_HELP_H

#include "cli/args/command.h"

/* All commands; NULL command: the overview. */
void help_print(cli_out *o, const cli_command *command);
void help_json(cli_out *o, const cli_command *command);

#endif
