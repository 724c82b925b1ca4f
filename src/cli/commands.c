/* SPDX-License-Identifier: Apache-2.0 */
/* commands.c - the command table: one row per command. */
#include "cli/args/commands.h"

#include "cli/term/output_messages.h"
#include "cli/term/spell.h"

#include <string.h>

const cli_command *const cli_commands[] = {
    &cmd_run, &cmd_tokenize, &cmd_serve,  &cmd_ps,    &cmd_stop,    &cmd_top,  &cmd_why,
    &cmd_env, &cmd_show,     &cmd_logits, &cmd_bench, &cmd_version, &cmd_help,
};
const size_t cli_n_commands = sizeof cli_commands / sizeof *cli_commands;

int cli_find_command(const cli_command **out, const char *name)
{
    spell s = {.word = name};
    for (size_t i = 0; i < cli_n_commands; i++) {
        if (strcmp(cli_commands[i]->name, name) == 0) {
            *out = cli_commands[i];
            return CLI_DONE;
        }
        spell_offer(&s, cli_commands[i]->name);
    }
    if (s.best != NULL)
        return msg_usage("there is no command %.60s; did you mean %s?", name, s.best);
    return msg_usage("there is no command %.60s (try: mote help)", name);
}
