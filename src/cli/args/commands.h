/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h - the rows of the command table; each is defined in its cmd_NAME.c. */
#ifndef MOTE_CLI_ARGS_COMMANDS_H
#define MOTE_CLI_ARGS_COMMANDS_H

#include "cli/args/command.h"

extern const cli_command cmd_bench;
extern const cli_command cmd_env;
extern const cli_command cmd_help;
extern const cli_command cmd_logits;
extern const cli_command cmd_ps;
extern const cli_command cmd_run;
extern const cli_command cmd_serve;
extern const cli_command cmd_show;
extern const cli_command cmd_stop;
extern const cli_command cmd_tokenize;
extern const cli_command cmd_top;
extern const cli_command cmd_version;
extern const cli_command cmd_why;

#endif
