/* SPDX-License-Identifier: Apache-2.0 */
/* commands.c - the command table and `mote help`. */
#include "cli/args/command.h"
#include "cli/load/find_model.h"
#include "cli/shell/shell.h"
#include "cli/term/output.h"
#include "cli/term/text.h"

#include <string.h>

static const cli_command *const command_rows[] = {
    &cmd_run,        &cmd_chat,    &cmd_session,    &cmd_batch,   &cmd_tokenize, &cmd_serve,
    &cmd_ps,         &cmd_stop,    &cmd_top,        &cmd_why,     &cmd_env,      &cmd_pull,
    &cmd_list,       &cmd_show,    &cmd_rm,         &cmd_cp,      &cmd_verify,   &cmd_convert,
    &cmd_quantize,   &cmd_imatrix, &cmd_perplexity, &cmd_compare, &cmd_eval,     &cmd_logits,
    &cmd_pixels,     &cmd_fit,     &cmd_bench,      &cmd_doctor,  &cmd_selftest, &cmd_cache,
    &cmd_completion, &cmd_version, &cmd_help,
};
const cli_command_table cli_commands = {command_rows, sizeof command_rows / sizeof *command_rows};

int cli_find_command(const cli_command **out, const char *name)
{
    spell s = {.word = name};
    for (size_t i = 0; i < cli_commands.n; i++) {
        const char *alias = command_rows[i]->alias;
        if (strcmp(command_rows[i]->name, name) == 0 ||
            (alias != NULL && strcmp(alias, name) == 0)) {
            *out = command_rows[i];
            return CLI_DONE;
        }
        spell_offer(&s, command_rows[i]->name);
    }
    if (s.best != NULL)
        return msg_usage("unknown command %.60s; did you mean %s?", name, s.best);
    return msg_usage("unknown command %.60s (try: mote help)", name);
}

typedef struct help_options {
    bool man;
} help_options;

static const cli_flag help_flags[] = {
    {.name = "man",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = offsetof(help_options, man),
     .help = "print the source of a man page (mdoc); COMMAND may be config"},
};

static const flag_group help_groups[] = {FLAG_GROUP("Man pages", help_flags, 0)};

static int help_run(const cli_call *call)
{
    const help_options *o = call->options;
    const cli_command *command = NULL;
    if (o->man && call->n_words > 0 && strcmp(call->words[0], "config") == 0) {
        man_config(call->out, &cli_commands);
        return CLI_DONE;
    }
    if (call->n_words > 0) {
        int code = cli_find_command(&command, call->words[0]);
        if (code != CLI_DONE)
            return code;
    }
    if (o->man) {
        if (command != NULL)
            man_command(call->out, command);
        else
            man_overview(call->out, &cli_commands);
        return CLI_DONE;
    }
    if (call->common.json)
        return help_json(call->out, &cli_commands, command);
    help_print(call->out, &cli_commands, command);
    char model[FOUND_NAME_BYTES];
    if (command == NULL && find_newest_model(model))
        out_printf(call->out, "To chat with an installed model: mote chat\n");
    return CLI_DONE;
}

const cli_command cmd_help = {
    .name = "help",
    .section = "Understand",
    .summary = "this overview, or the help of one command",
    .usage = "[COMMAND]",
    .arguments = "COMMAND",
    .no_config = true,
    .max_words = 1,
    .groups = help_groups,
    .n_groups = 1,
    .options_bytes = sizeof(help_options),
    .about =
        "Lists all commands, or shows what COMMAND does and its flags. mote COMMAND --help prints "
        "the same.",
    .run = help_run,
};
