/* SPDX-License-Identifier: Apache-2.0 */
/* commands.c - the command table and `mote help`. */
#include "cli/args/command.h"
#include "cli/term/output.h"
#include "cli/term/text.h"

#include <string.h>

static const cli_command *const command_rows[] = {
    &cmd_run, &cmd_tokenize, &cmd_serve,  &cmd_ps,    &cmd_stop,    &cmd_top,  &cmd_why,
    &cmd_env, &cmd_show,     &cmd_logits, &cmd_bench, &cmd_version, &cmd_help,
};
const cli_command_table cli_commands = {command_rows, sizeof command_rows / sizeof *command_rows};

int cli_find_command(const cli_command **out, const char *name)
{
    spell s = {.word = name};
    for (size_t i = 0; i < cli_commands.n; i++) {
        if (strcmp(command_rows[i]->name, name) == 0) {
            *out = command_rows[i];
            return CLI_DONE;
        }
        spell_offer(&s, command_rows[i]->name);
    }
    if (s.best != NULL)
        return msg_usage("unknown command %.60s; did you mean %s?", name, s.best);
    return msg_usage("unknown command %.60s (try: mote help)", name);
}

static int help_run(const cli_call *call)
{
    const cli_command *command = NULL;
    if (call->n_words > 0) {
        int code = cli_find_command(&command, call->words[0]);
        if (code != CLI_DONE)
            return code;
    }
    if (call->common.json)
        return help_json(call->out, &cli_commands, command);
    help_print(call->out, &cli_commands, command);
    return CLI_DONE;
}

const cli_command cmd_help = {
    .name = "help",
    .section = "Understand",
    .summary = "this overview, or the help of one command",
    .usage = "[COMMAND]",
    .max_words = 1,
    .about =
        "Lists all commands, or shows what COMMAND does and its flags. mote COMMAND --help prints "
        "the same.",
    .run = help_run,
};
