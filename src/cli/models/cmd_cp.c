/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_cp.c - `mote cp`: another name for a model, with settings of its own. */
#define _XOPEN_SOURCE 700
#include "cli/args/command.h"
#include "cli/load/find_model.h"
#include "cli/load/load.h"
#include "cli/models/alias_file.h"
#include "cli/term/output.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct cp_options {
    const char *think, *system, *preset;
    double temperature, top_p;
    uint64_t top_k, max_tokens, context;
    flag_list set;
} cp_options;

#define AT(member) offsetof(cp_options, member)

static const cli_flag flags[] = {
    {THINK_FLAG_ALONE, .once = true, .at = AT(think), .help = "thinking, as the flag of mote run"},
    {.name = "system",
     .kind = FLAG_TEXT,
     .value = "TEXT",
     .once = true,
     .at = AT(system),
     .help = "system message"},
    {.name = "preset",
     .kind = FLAG_TEXT,
     .value = "NAME",
     .words = "general|coding|reasoning|vision",
     .once = true,
     .at = AT(preset),
     .help = "sampling preset, as the flag of mote run"},
    {.name = "temp",
     .kind = FLAG_NUMBER,
     .value = "T",
     .max = 2,
     .aliases = "temperature",
     .once = true,
     .at = AT(temperature),
     .help = "temperature"},
    {.name = "top-p",
     .kind = FLAG_NUMBER,
     .value = "P",
     .max = 1,
     .once = true,
     .at = AT(top_p),
     .help = "top-p"},
    {.name = "top-k",
     .kind = FLAG_COUNT,
     .value = "N",
     .max = 1000000,
     .once = true,
     .at = AT(top_k),
     .help = "top-k"},
    {.name = "max-tokens",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 4194304,
     .aliases = "num-predict",
     .once = true,
     .at = AT(max_tokens),
     .help = "length of an answer"},
    {LOAD_CONTEXT_FLAG, .value = "N", .once = true, .at = AT(context),
     .help = "context size in tokens"},
    {.name = "set",
     .kind = FLAG_LIST,
     .value = "KEY=VALUE",
     .once = true,
     .at = AT(set),
     .help = "any other setting that section [model NAME] of the config file may have; repeatable"},
};
static const flag_group groups[] = {FLAG_GROUP("Settings of the alias", flags, 0)};

enum { MAX_SETTINGS = sizeof flags / sizeof *flags + FLAG_LIST_MAX, NUMBER_BYTES = 40 };

typedef struct cp_settings {
    alias_setting items[MAX_SETTINGS];
    size_t n;
    char numbers[MAX_SETTINGS][NUMBER_BYTES];
    char keys[FLAG_LIST_MAX][64];
} cp_settings;

static void settings_add_flag(cp_settings *s, const cli_flag *flag, const cp_options *o)
{
    const char *at = (const char *)o + flag->at;
    char *number = s->numbers[s->n];
    const char *value = number;
    if (flag->kind == FLAG_TEXT)
        value = *(const char *const *)(const void *)at;
    else if (flag->kind == FLAG_NUMBER)
        snprintf(number, NUMBER_BYTES, "%.9g", *(const double *)(const void *)at);
    else
        snprintf(number, NUMBER_BYTES, "%llu",
                 (unsigned long long)*(const uint64_t *)(const void *)at);
    s->items[s->n++] = (alias_setting){flag->name, value};
}

/* The rules are those of the flags of mote run and mote serve. */
static int settings_check(const cp_settings *s, size_t n_flags)
{
    char source[80];
    mote_error err;
    for (size_t i = 0; i < s->n; i++) {
        snprintf(source, sizeof source, "--%s%s", i < n_flags ? "" : "set ", s->items[i].key);
        if (config_check_value(&cli_commands, s->items[i].key, s->items[i].value, source, &err) !=
            MOTE_OK)
            return msg_usage("%s", err.text);
    }
    return CLI_DONE;
}

static int settings_read(cp_settings *s, const cli_call *call)
{
    const cp_options *o = call->options;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].kind != FLAG_LIST && args_given(call, flags[i].name))
            settings_add_flag(s, &flags[i], o);
    const size_t n_flags = s->n;
    for (size_t i = 0; i < o->set.n; i++) {
        const char *equals = strchr(o->set.items[i], '=');
        const size_t n = equals != NULL ? (size_t)(equals - o->set.items[i]) : 0;
        if (n == 0 || n >= sizeof s->keys[i])
            return msg_usage("--set must be KEY=VALUE, got '%.60s'", o->set.items[i]);
        snprintf(s->keys[i], sizeof s->keys[i], "%.*s", (int)n, o->set.items[i]);
        s->items[s->n++] = (alias_setting){s->keys[i], equals + 1};
    }
    return settings_check(s, n_flags);
}

/* ---- names ---- */

/* The text that the alias stands for: the argument; of a path the whole path. */
static int cp_source(store *s, const char *argument, char out[FILE_PATH_BYTES])
{
    model_name name;
    const store_model *m;
    char real[PATH_MAX];
    const int code = find_installed(s, argument, &name, &m);
    if (code != CLI_DONE)
        return code;
    snprintf(out, FILE_PATH_BYTES, "%s", argument);
    if (name.kind == MODEL_NAME_PATH && realpath(name.text, real) != NULL)
        snprintf(out, FILE_PATH_BYTES, "%s%s", real, argument + strlen(name.text));
    return CLI_DONE;
}

static int cp_check_alias(store *s, const char *alias)
{
    model_name name;
    const store_model *m = NULL;
    mote_error err;
    if (strlen(alias) > 100 || !str_has_only(str_of(alias), "._-:") || alias[0] == '.' ||
        alias[0] == '-')
        return msg_usage("an alias has up to 100 letters, digits and ._-: and does not begin with "
                         "a dot or dash, got '%.60s'",
                         alias);
    const bool found = store_find(s, alias, &name, &m, &err) == MOTE_OK;
    if (m != NULL || (found && name.kind != MODEL_NAME_OTHER))
        return msg_usage("%s is the name of a model; choose another alias", alias);
    return CLI_DONE;
}

static int cp_run(const cli_call *call)
{
    store *s;
    char source[FILE_PATH_BYTES];
    cp_settings settings = {.n = 0};
    mote_error err;
    const char *alias = call->words[1];
    if (config_alias(call->config, call->words[0]) != NULL)
        return msg_usage("%s is an alias itself; give the model: mote cp %s %s", call->words[0],
                         config_alias(call->config, call->words[0]), alias);
    int code = settings_read(&settings, call);
    if (code == CLI_DONE)
        code = find_open_store(&s);
    if (code != CLI_DONE)
        return code;
    code = cp_source(s, call->words[0], source);
    if (code == CLI_DONE)
        code = cp_check_alias(s, alias);
    store_close(s);
    if (code != CLI_DONE)
        return code;
    if (alias_file_set(alias, source, settings.items, settings.n, &err) != MOTE_OK)
        return msg_error(&err);
    msg_note("%s stands for %s", alias, source);
    return CLI_DONE;
}

const cli_command cmd_cp = {
    .name = "cp",
    .section = "Models",
    .summary = "give a model another name, with settings",
    .usage = "MODEL ALIAS",
    .arguments = "MODEL",
    .min_words = 2,
    .max_words = 2,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(cp_options),
    .keeps_aliases = true,
    .about = "Makes ALIAS a name for MODEL, wherever a model is expected. No file is copied. The "
             "settings apply to mote run ALIAS and mote serve ALIAS, like a section [model ALIAS] "
             "of the "
             "config file. Requests to a mote serve without MODEL can use the name, too.\n"
             "Aliases are kept in the file aliases next to the config file. The config file counts "
             "more. mote rm ALIAS removes an alias.",
    .examples = "mote cp qwen3.5:4b coder --preset coding --system \"You write C.\"\n"
                "mote cp qwen3.5:0.8b fast --think off --temp 0",
    .run = cp_run,
};
