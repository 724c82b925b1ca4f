/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - parses a command line by the table of its command; flags that many commands have. */
#include "base/str.h"
#include "cli/args/command.h"
#include "cli/term/text.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cli_flag common_flags[] = {
    {.name = "json",
     .kind = FLAG_SWITCH,
     .at = offsetof(cli_common, json),
     .once = true,
     .help = "print one JSON document instead of text"},
    {.name = "quiet",
     .letter = 'q',
     .kind = FLAG_SWITCH,
     .at = offsetof(cli_common, quiet),
     .help = "print only results and errors"},
    {.name = "verbose",
     .letter = 'v',
     .kind = FLAG_TIMES,
     .at = offsetof(cli_common, verbose),
     .help = "print more details"},
    {.name = "color",
     .kind = FLAG_CHOICE,
     .value = "auto|always|never",
     .initial = "auto",
     .at = offsetof(cli_common, color),
     .help = "auto: on a terminal, unless NO_COLOR is set"},
    {.name = "no-progress",
     .kind = FLAG_SWITCH,
     .at = offsetof(cli_common, no_progress),
     .help = "show no progress line"},
    {.name = "strict",
     .kind = FLAG_SWITCH,
     .at = offsetof(cli_common, strict),
     .help = "unknown keys of the config file are errors; mote serve: unknown fields of requests "
             "too"},
    {.name = "help",
     .letter = 'h',
     .kind = FLAG_SWITCH,
     .once = true,
     .at = offsetof(cli_common, help),
     .help = "print this help"},
};

static const flag_group common_group = FLAG_GROUP("Every command", common_flags, 0);

static const cli_flag model_flags[] = {
    {.name = "model",
     .letter = 'm',
     .kind = FLAG_TEXT,
     .value = "MODEL",
     .env = "MOTE_MODEL",
     .at = offsetof(cli_call, model),
     .help = "the model, instead of the first argument"},
};

static const flag_group model_group = FLAG_GROUP("Model", model_flags, 0);

/* Of commands that never use a default model. */
static const cli_flag given_model_flags[] = {
    {.name = "model",
     .letter = 'm',
     .kind = FLAG_TEXT,
     .value = "MODEL",
     .once = true,
     .at = offsetof(cli_call, model),
     .help = "the model, instead of the first argument"},
};

static const flag_group given_model_group = FLAG_GROUP("Model", given_model_flags, 0);

typedef struct parser {
    cli_call *call;
    void *options;
    int n, next; /* arguments, and index of the next one */
    char *const *argv;
} parser;

/* A flag and the struct members it fills. */
typedef struct flag_target {
    const cli_flag *flag;
    void *value;
    bool *given; /* NULL: none */
    bool *seen;
} flag_target;

static flag_target target_make(const cli_flag *flag, char *base, bool *seen)
{
    return (flag_target){flag, base + flag->at,
                         flag->given != 0 ? (bool *)(base + flag->given) : NULL, seen};
}

static bool flag_takes_value(const cli_flag *flag)
{
    return flag->kind != FLAG_SWITCH && flag->kind != FLAG_TIMES;
}

const char *flag_words(const cli_flag *flag)
{
    return flag->words != NULL ? flag->words : flag->kind == FLAG_CHOICE ? flag->value : flag->word;
}

bool flag_is_named(const cli_flag *flag, const char *name, size_t n)
{
    if (strncmp(flag->name, name, n) == 0 && flag->name[n] == '\0')
        return true;
    for (const char *at = flag->aliases; at != NULL;) {
        size_t length = strcspn(at, "|");
        if (length == n && memcmp(at, name, n) == 0)
            return true;
        at = at[length] == '|' ? at + length + 1 : NULL;
    }
    return false;
}

bool command_takes_model(const cli_command *command)
{
    return command->arguments != NULL && strncmp(command->arguments, "MODEL", 5) == 0;
}

bool command_is_model_flag(const cli_flag *flag)
{
    return flag == &model_flags[0] || flag == &given_model_flags[0];
}

/* Every argument of the command is a model. */
static bool command_repeats_model(const cli_command *command)
{
    return command_takes_model(command) && strncmp(command->arguments, "MODEL...", 8) == 0;
}

/* MOTE_MODEL and the key `model` count: the command needs one model and nothing else. So `mote rm`
 * never removes the default model. */
static bool command_has_default_model(const cli_command *command)
{
    return command_takes_model(command) && !command_repeats_model(command) &&
           (command->min_words == 1 || command->optional_model);
}

const flag_group *command_group(const cli_command *command, size_t i)
{
    if (i < command->n_groups)
        return &command->groups[i];
    i -= command->n_groups;
    if (!command_takes_model(command))
        i++;
    if (i == 0)
        return command_has_default_model(command) ? &model_group : &given_model_group;
    return i == 1 ? &common_group : NULL;
}

const flag_group *command_common_group(void)
{
    return &common_group;
}

/* Group i of the command and the struct that it fills. */
static const flag_group *parser_group(const parser *p, size_t i, char **base)
{
    const flag_group *group = command_group(p->call->command, i);
    if (group == &common_group)
        *base = (char *)&p->call->common;
    else if (group == &model_group || group == &given_model_group)
        *base = (char *)p->call;
    else if (group != NULL)
        *base = (char *)p->options + group->base;
    return group;
}

/* Finds a flag by name (n_name bytes), or by letter if name is NULL. */
static bool parser_find_flag(parser *p, const char *name, size_t n_name, char letter,
                             flag_target *out)
{
    const flag_group *group;
    char *base;
    bool *seen = p->call->seen;
    for (size_t i = 0; (group = parser_group(p, i, &base)) != NULL; i++)
        for (size_t k = 0; k < group->n; k++, seen++) {
            const cli_flag *flag = &group->flags[k];
            assert(seen < p->call->seen + COMMAND_MAX_FLAGS);
            if (name == NULL ? flag->letter == letter : flag_is_named(flag, name, n_name)) {
                *out = target_make(flag, base, seen);
                return true;
            }
        }
    return false;
}

static mote_status parser_unknown_flag(const parser *p, const char *name, size_t n_name,
                                       mote_error *err)
{
    char typed[64];
    snprintf(typed, sizeof typed, "%.*s", (int)(n_name < 60 ? n_name : 60), name);
    spell s = {.word = typed};
    const flag_group *group;
    char *base;
    for (size_t i = 0; (group = parser_group(p, i, &base)) != NULL; i++)
        for (size_t k = 0; k < group->n; k++)
            spell_offer(&s, group->flags[k].name);
    const char *command = p->call->command->name;
    if (s.best != NULL)
        return err_set(err, MOTE_E_ARG, "unknown flag --%s of mote %s; did you mean --%s?", typed,
                       command, s.best);
    return err_set(err, MOTE_E_ARG, "unknown flag --%s of mote %s (try: mote help %s)", typed,
                   command, command);
}

static mote_status flag_bad_size(const cli_flag *flag, const char *source, const char *text,
                                 mote_error *err)
{
    char least[TEXT_NUMBER_BYTES], most[TEXT_NUMBER_BYTES];
    if (flag->kind == FLAG_RATE)
        return err_set(err, MOTE_E_ARG,
                       "%s must be bytes per second such as 500000, 500k or 5M, at least %.0f, got "
                       "'%.60s'",
                       source, flag->min, text);
    return err_set(
        err, MOTE_E_ARG, "%s must be %s%sa size such as 8GB or 500MB, %s to %s, got '%.60s'",
        source, flag->word != NULL ? flag->word : "", flag->word != NULL ? " or " : "",
        text_bytes(least, (uint64_t)flag->min), text_bytes(most, (uint64_t)flag->max), text);
}

/* *why: the reason of a limit of this machine; else unchanged. */
static double flag_max(const cli_flag *flag, const char **why)
{
    return flag->limit != NULL ? flag->limit(why) : flag->max;
}

static mote_status flag_out_of_range(const cli_flag *flag, const char *source, const char *text,
                                     mote_error *err)
{
    const char *what = flag->kind == FLAG_COUNT ? "a whole number" : "a number", *why = NULL;
    const double max = flag_max(flag, &why);
    if (max > 0)
        return err_set(
            err, MOTE_E_ARG, "%s must be %s%s%s from %.15g to %.15g%s%s%s, got '%.60s'", source,
            flag->word != NULL ? flag->word : "", flag->word != NULL ? " or " : "", what, flag->min,
            max, why != NULL ? " (" : "", why != NULL ? why : "", why != NULL ? ")" : "", text);
    return err_set(err, MOTE_E_ARG, "%s must be %s of at least %.15g, got '%.60s'", source, what,
                   flag->min, text);
}

static bool flag_in_range(const cli_flag *flag, double x)
{
    const char *why;
    const double max = flag_max(flag, &why);
    return x >= flag->min && (max == 0 || x <= max);
}

static bool flag_read_count(const cli_flag *flag, const char *text, uint64_t *out)
{
    char *end;
    if (flag->word != NULL && strcmp(text, flag->word) == 0) {
        *out = 0;
        return true;
    }
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 ||
        !flag_in_range(flag, (double)n))
        return false;
    *out = n;
    return true;
}

/* Decimal numbers only: strtod would also accept "inf", "nan" and "0x1p3". */
static bool flag_read_number(const cli_flag *flag, const char *text, double *out)
{
    char *end;
    if (text[0] == '\0' || text[strspn(text, "+-.0123456789eE")] != '\0')
        return false;
    double x = strtod(text, &end);
    if (*end != '\0' || !flag_in_range(flag, x))
        return false;
    *out = x;
    return true;
}

static bool flag_read_size(const cli_flag *flag, const char *text, uint64_t *out)
{
    double bytes;
    if (flag->word != NULL && strcmp(text, flag->word) == 0) {
        *out = 0;
        return true;
    }
    if (!str_size(text, flag->kind == FLAG_RATE ? 1 : 1e9, &bytes) || !flag_in_range(flag, bytes))
        return false;
    *out = (uint64_t)bytes;
    return true;
}

static bool flag_read_choice(const cli_flag *flag, const char *text, uint64_t *out)
{
    size_t n = strlen(text);
    uint64_t index = 0;
    for (const char *word = flag->value; word != NULL; index++) {
        size_t n_word = strcspn(word, "|");
        if (n_word == n && memcmp(word, text, n) == 0) {
            *out = index;
            return true;
        }
        word = word[n_word] == '|' ? word + n_word + 1 : NULL;
    }
    return false;
}

static bool flag_read_bool(const char *text, bool *out)
{
    static const char *const words[] = {"false", "true", "off", "on", "no", "yes", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i]) == 0) {
            *out = i % 2 == 1;
            return true;
        }
    return false;
}

static mote_status flag_add_item(flag_list *list, const char *source, const char *text,
                                 mote_error *err)
{
    if (list->n == FLAG_LIST_MAX)
        return err_set(err, MOTE_E_ARG, "%s can be given at most %d times", source, FLAG_LIST_MAX);
    list->items[list->n++] = text;
    return MOTE_OK;
}

static mote_status flag_set_text(flag_target t, const char *source, const char *text,
                                 mote_error *err)
{
    const char *wanted = t.flag->check != NULL ? t.flag->check(text) : NULL;
    if (wanted != NULL)
        return err_set(err, MOTE_E_ARG, "%s must be %s, got '%.60s'", source, wanted, text);
    *(const char **)t.value = text;
    return MOTE_OK;
}

/* `source` names the flag in errors: "--temp" or "MOTE_THREADS". `text` is NULL for a switch that
 * is given without a value. */
static mote_status target_set(flag_target t, const char *source, const char *text, mote_error *err)
{
    if (t.given != NULL)
        *t.given = true;
    switch (t.flag->kind) {
    case FLAG_SWITCH:
        if (text != NULL && !flag_read_bool(text, t.value))
            return err_set(err, MOTE_E_ARG, "%s must be true or false, got '%.60s'", source, text);
        if (text == NULL)
            *(bool *)t.value = true;
        return MOTE_OK;
    case FLAG_TIMES:
        if (text != NULL && !flag_read_count(t.flag, text, t.value))
            return flag_out_of_range(t.flag, source, text, err);
        if (text == NULL)
            ++*(uint64_t *)t.value;
        return MOTE_OK;
    case FLAG_TEXT: return flag_set_text(t, source, text, err);
    case FLAG_LIST: return flag_add_item(t.value, source, text, err);
    case FLAG_COUNT:
        if (!flag_read_count(t.flag, text, t.value))
            return flag_out_of_range(t.flag, source, text, err);
        return MOTE_OK;
    case FLAG_NUMBER:
        if (!flag_read_number(t.flag, text, t.value))
            return flag_out_of_range(t.flag, source, text, err);
        return MOTE_OK;
    case FLAG_SIZE:
    case FLAG_RATE:
        if (!flag_read_size(t.flag, text, t.value))
            return flag_bad_size(t.flag, source, text, err);
        return MOTE_OK;
    case FLAG_CHOICE:
        if (!flag_read_choice(t.flag, text, t.value))
            return err_set(err, MOTE_E_ARG, "%s must be %s, got '%.60s'", source, t.flag->value,
                           text);
        return MOTE_OK;
    }
    return MOTE_OK;
}

mote_status flag_check_value(const cli_flag *flag, const char *source, const char *text,
                             mote_error *err)
{
    union {
        flag_list list;
        uint64_t count;
        double number;
        const char *text;
        bool on;
    } value = {.list = {.n = 0}};
    return target_set((flag_target){.flag = flag, .value = &value}, source, text, err);
}

/* Sets a flag that is not among the arguments. */
static mote_status target_set_default(flag_target t, const cli_call *call, const char *model,
                                      mote_error *err)
{
    char source[SETTING_SOURCE_BYTES];
    config_setting s;
    config_setting_find(&s, t.flag, call->command, call->config, model);
    if (s.origin == SETTING_DEFAULT)
        t.given = NULL;
    if (s.value == NULL)
        return MOTE_OK;
    do
        TRY(target_set(t, config_setting_source(&s, source), s.value, err));
    while (t.flag->kind == FLAG_LIST && config_setting_next(&s));
    return MOTE_OK;
}

/* Sets the flags that are not among the arguments. */
static mote_status parser_set_defaults(parser *p, mote_error *err)
{
    const cli_call *call = p->call;
    /* The server applies the settings of its models itself if it has several. */
    const char *model = command_takes_model(call->command) && call->n_words > 0 &&
                                !(call->n_words > 1 && command_repeats_model(call->command))
                            ? call->words[0]
                            : NULL;
    const flag_group *group;
    char *base;
    bool *seen = p->call->seen;
    for (size_t i = 0; (group = parser_group(p, i, &base)) != NULL; i++)
        for (size_t k = 0; k < group->n; k++, seen++)
            if (!*seen)
                TRY(target_set_default(target_make(&group->flags[k], base, seen), call, model,
                                       err));
    return MOTE_OK;
}

/* Makes --model the first word. A default counts only if there is no argument at all. */
static void parser_take_model(parser *p)
{
    cli_call *call = p->call;
    const cli_command *command = call->command;
    if (!command_takes_model(command))
        return;
    if (call->model == NULL && call->n_words == 0 && command_has_default_model(command)) {
        config_setting s;
        config_setting_find(&s, &model_flags[0], command, call->config, NULL);
        call->model = s.value;
    }
    if (call->model == NULL)
        return;
    memmove(call->words + 1, call->words, call->n_words * sizeof *call->words);
    call->words[0] = call->model;
    call->n_words++;
}

/* `attached` is the value in the same argument; NULL: the next argument is the value. */
static mote_status parser_take_value(parser *p, flag_target t, const char *source,
                                     const char *attached, mote_error *err)
{
    *t.seen = true;
    if (!flag_takes_value(t.flag))
        return target_set(t, source, attached, err);
    if (attached == NULL && p->next == p->n)
        return err_set(err, MOTE_E_ARG, "%s needs a value: %s %s", source, source, t.flag->value);
    return target_set(t, source, attached != NULL ? attached : p->argv[p->next++], err);
}

static mote_status parser_take_long(parser *p, const char *word, mote_error *err)
{
    const char *name = word + 2;
    size_t n_name = strcspn(name, "=");
    flag_target t;
    if (!parser_find_flag(p, name, n_name, 0, &t))
        return parser_unknown_flag(p, name, n_name, err);
    char source[64];
    snprintf(source, sizeof source, "--%s", t.flag->name);
    return parser_take_value(p, t, source, name[n_name] == '=' ? name + n_name + 1 : NULL, err);
}

/* One or more letters: -q, -qv, -n5, -n 5. */
static mote_status parser_take_short(parser *p, const char *word, mote_error *err)
{
    for (const char *at = word + 1; *at != '\0'; at++) {
        flag_target t;
        if (!parser_find_flag(p, NULL, 0, *at, &t)) {
            const char *command = p->call->command->name;
            return err_set(err, MOTE_E_ARG, "unknown flag -%.*s of mote %s (try: mote help %s)",
                           (unsigned char)*at < 0x80 ? 1 : 4, at, command, command);
        }
        char source[3] = {'-', *at, '\0'};
        if (flag_takes_value(t.flag))
            return parser_take_value(p, t, source, at[1] != '\0' ? at + 1 : NULL, err);
        TRY(parser_take_value(p, t, source, NULL, err));
    }
    return MOTE_OK;
}

static mote_status args_check_words(const cli_call *call, mote_error *err)
{
    const cli_command *command = call->command;
    if (call->n_words < command->min_words)
        return err_set(err, MOTE_E_ARG, "missing argument: mote %s %s (try: mote help %s)",
                       command->name, command->usage, command->name);
    if (call->n_words > command->max_words)
        return err_set(err, MOTE_E_ARG,
                       "unexpected argument '%.60s' of mote %s (try: mote help %s)",
                       call->words[command->max_words], command->name, command->name);
    return MOTE_OK;
}

mote_status args_parse(cli_call *call, const cli_command *command, int n, char *const *argv,
                       void *options, const char **words, mote_error *err)
{
    call->command = command;
    call->options = options;
    call->words = words;
    call->n_words = 0;
    parser p = {.call = call, .options = options, .n = n, .argv = argv};
    bool flags_ended = false;
    while (p.next < n) {
        const char *word = argv[p.next++];
        if (flags_ended || word[0] != '-' || word[1] == '\0')
            words[call->n_words++] = word;
        else if (strcmp(word, "--") == 0)
            flags_ended = true;
        else if (word[1] == '-')
            TRY(parser_take_long(&p, word, err));
        else
            TRY(parser_take_short(&p, word, err));
    }
    return MOTE_OK;
}

mote_status args_set_defaults(cli_call *call, void *options, const config *c, mote_error *err)
{
    parser p = {.call = call, .options = options};
    call->config = c;
    parser_take_model(&p);
    TRY(args_check_words(call, err));
    TRY(parser_set_defaults(&p, err));
    /* A command with several models resolves names itself: rm must not remove the model instead of
     * its alias. */
    if (call->n_words > 0 && command_takes_model(call->command) &&
        !command_repeats_model(call->command) && !call->command->keeps_aliases) {
        const char *model = config_alias(c, call->words[0]);
        if (model != NULL)
            call->words[0] = model;
    }
    return MOTE_OK;
}

bool args_given(const cli_call *call, const char *flag)
{
    const flag_group *group;
    const bool *seen = call->seen;
    for (size_t i = 0; (group = command_group(call->command, i)) != NULL; i++)
        for (size_t k = 0; k < group->n; k++, seen++)
            if (strcmp(group->flags[k].name, flag) == 0)
                return *seen;
    return false;
}

/* One of the common flags, by name (n_name bytes), or by letter if name is NULL. */
static const cli_flag *common_find(const char *name, size_t n_name, char letter)
{
    for (size_t i = 0; i < common_group.n; i++) {
        const cli_flag *flag = &common_flags[i];
        if (name == NULL ? flag->letter == letter : flag_is_named(flag, name, n_name))
            return flag;
    }
    return NULL;
}

int args_common_flag(int n, char *const *argv)
{
    const char *word = n > 0 ? argv[0] : "";
    if (word[0] != '-' || word[1] == '\0')
        return 0;
    if (word[1] == '-') {
        const size_t n_name = strcspn(word + 2, "=");
        const cli_flag *flag = common_find(word + 2, n_name, 0);
        return flag == NULL                                                  ? 0
               : flag_takes_value(flag) && word[2 + n_name] == '\0' && n > 1 ? 2
                                                                             : 1;
    }
    for (const char *at = word + 1; *at != '\0'; at++) /* none of the letters takes a value */
        if (common_find(NULL, 0, *at) == NULL)
            return 0;
    return 1;
}
