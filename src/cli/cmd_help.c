/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_help.c - `mote help`: the overview, or one command. */
#include "cli/args/commands.h"
#include "cli/args/help.h"

static int run(const cli_call *call)
{
    const cli_command *command = NULL;
    if (call->n_words > 0) {
        int code = cli_find_command(&command, call->words[0]);
        if (code != CLI_DONE)
            return code;
    }
    if (call->common.json)
        help_json(call->out, command);
    else
        help_print(call->out, command);
    return CLI_DONE;
}

const cli_command cmd_help = {
    .name = "help",
    .section = "Understand",
    .summary = "this overview, or more about one command",
    .usage = "[COMMAND]",
    .max_words = 1,
    .about =
        "Prints all commands, or what COMMAND does and its flags. mote COMMAND --help is the same.",
    .run = run,
};
