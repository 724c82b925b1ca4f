/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_completion.c - `mote completion`: scripts for shells, and the names that they offer. */
#include "cli/load/find_model.h"
#include "cli/shell/shell.h"

#include <string.h>

typedef struct completion_options {
    bool models;
} completion_options;

static const cli_flag flags[] = {
    {.name = "models",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = offsetof(completion_options, models),
     .help = "print the names that complete a model argument: installed models and aliases"},
};

static const flag_group groups[] = {FLAG_GROUP("Names", flags, 0)};

/* A name that a shell would have to quote is not offered. */
static void completion_name(cli_out *o, const char *name)
{
    if (str_has_only(str_of(name), "._:/+-@"))
        out_printf(o, "%s\n", name);
}

static void completion_aliases(cli_out *o)
{
    config c;
    mote_error err;
    if (config_open(&c, &err) != MOTE_OK)
        return;
    for (size_t i = 0; config_alias_at(&c, i) != NULL; i++)
        completion_name(o, config_alias_at(&c, i));
    config_close(&c);
}

/* Called while the user types: errors are not reported. */
static int completion_models(cli_out *o)
{
    store_env env;
    store *s;
    mote_error err;
    const store_model *list;
    size_t n = 0;
    completion_aliases(o);
    find_store_env(&env);
    if (store_open(&s, &env, &err) != MOTE_OK)
        return CLI_DONE;
    if (store_list(s, &list, &n, &err) != MOTE_OK)
        n = 0;
    for (size_t i = 0; i < n; i++)
        if (!list[i].foreign)
            completion_name(o, list[i].name);
    store_close(s);
    return CLI_DONE;
}

static int completion_run(const cli_call *call)
{
    static const struct {
        const char *shell;
        void (*print)(cli_out *o, const cli_command_table *table);
    } scripts[] = {
        {"bash", completion_bash},
        {"zsh", completion_zsh},
        {"fish", completion_fish},
    };
    const completion_options *o = call->options;
    if (o->models)
        return completion_models(call->out);
    if (call->n_words == 0)
        return msg_usage("missing argument: mote completion bash|zsh|fish (try: mote help "
                         "completion)");
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        if (strcmp(call->words[0], scripts[i].shell) == 0) {
            scripts[i].print(call->out, &cli_commands);
            return CLI_DONE;
        }
    return msg_usage("unknown shell %.60s; there are scripts for bash, zsh and fish",
                     call->words[0]);
}

const cli_command cmd_completion = {
    .name = "completion",
    .section = "Understand",
    .summary = "completion script for bash, zsh or fish",
    .usage = "bash|zsh|fish",
    .arguments = "bash|zsh|fish",
    .no_config = true,
    .max_words = 1,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(completion_options),
    .about = "Prints a script that completes commands, flags, their values, installed models and "
             "files. Packages and `cmake --install` put it where the shell finds it; the examples "
             "are for a program that was not installed.",
    .examples = "source <(mote completion bash)                             # in ~/.bashrc\n"
                "source <(mote completion zsh)                              # in ~/.zshrc, after "
                "compinit\n"
                "mote completion fish > ~/.config/fish/completions/mote.fish",
    .run = completion_run,
};
