/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - parses a command line by the table of its command; the flags that every command has. */
#include "cli/args/command.h"
#include "cli/term/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cli_flag common_flags[] = {
    {.name = "json",
     .kind = FLAG_SWITCH,
     .at = offsetof(cli_common, json),
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
    {.name = "help",
     .letter = 'h',
     .kind = FLAG_SWITCH,
     .at = offsetof(cli_common, help),
     .help = "print this help"},
};

const flag_group cli_common_flags = FLAG_GROUP("Every command", common_flags, 0);

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
} flag_target;

static flag_target target_make(const cli_flag *flag, char *base)
{
    return (flag_target){flag, base + flag->at,
                         flag->given != 0 ? (bool *)(base + flag->given) : NULL};
}

static bool flag_takes_value(const cli_flag *flag)
{
    return flag->kind != FLAG_SWITCH && flag->kind != FLAG_TIMES;
}

/* Group i of the command. The last one holds the common flags; NULL follows it. */
static const flag_group *parser_group(const parser *p, size_t i, char **base)
{
    const cli_command *command = p->call->command;
    if (i < command->n_groups) {
        *base = (char *)p->options + command->groups[i].base;
        return &command->groups[i];
    }
    *base = (char *)&p->call->common;
    return i == command->n_groups ? &cli_common_flags : NULL;
}

/* Finds a flag by name (n_name bytes), or by letter if name is NULL. */
static bool parser_find_flag(const parser *p, const char *name, size_t n_name, char letter,
                             flag_target *out)
{
    const flag_group *group;
    char *base;
    for (size_t i = 0; (group = parser_group(p, i, &base)) != NULL; i++)
        for (size_t k = 0; k < group->n; k++) {
            const cli_flag *flag = &group->flags[k];
            bool same = name == NULL
                            ? flag->letter == letter
                            : strncmp(flag->name, name, n_name) == 0 && flag->name[n_name] == '\0';
            if (same) {
                *out = target_make(flag, base);
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

static mote_status flag_out_of_range(const cli_flag *flag, const char *source, const char *text,
                                     mote_error *err)
{
    const char *what = flag->kind == FLAG_COUNT ? "a whole number" : "a number";
    if (flag->max > 0)
        return err_set(err, MOTE_E_ARG, "%s must be %s from %.15g to %.15g, got '%.60s'", source,
                       what, flag->min, flag->max, text);
    return err_set(err, MOTE_E_ARG, "%s must be %s of at least %.15g, got '%.60s'", source, what,
                   flag->min, text);
}

static bool flag_in_range(const cli_flag *flag, double x)
{
    return x >= flag->min && (flag->max == 0 || x <= flag->max);
}

static bool flag_read_count(const cli_flag *flag, const char *text, uint64_t *out)
{
    char *end;
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

static mote_status flag_add_item(flag_list *list, const char *source, const char *text,
                                 mote_error *err)
{
    if (list->n == FLAG_LIST_MAX)
        return err_set(err, MOTE_E_ARG, "%s can be given at most %d times", source, FLAG_LIST_MAX);
    list->items[list->n++] = text;
    return MOTE_OK;
}

/* `source` names the flag in errors: "--temp" or "MOTE_THREADS". */
static mote_status target_set(flag_target t, const char *source, const char *text, mote_error *err)
{
    if (t.given != NULL)
        *t.given = true;
    switch (t.flag->kind) {
    case FLAG_SWITCH: *(bool *)t.value = true; return MOTE_OK;
    case FLAG_TIMES: ++*(uint64_t *)t.value; return MOTE_OK;
    case FLAG_TEXT: *(const char **)t.value = text; return MOTE_OK;
    case FLAG_LIST: return flag_add_item(t.value, source, text, err);
    case FLAG_COUNT:
        if (!flag_read_count(t.flag, text, t.value))
            return flag_out_of_range(t.flag, source, text, err);
        return MOTE_OK;
    case FLAG_NUMBER:
        if (!flag_read_number(t.flag, text, t.value))
            return flag_out_of_range(t.flag, source, text, err);
        return MOTE_OK;
    case FLAG_CHOICE:
        if (!flag_read_choice(t.flag, text, t.value))
            return err_set(err, MOTE_E_ARG, "%s must be %s, got '%.60s'", source, t.flag->value,
                           text);
        return MOTE_OK;
    }
    return MOTE_OK;
}

static mote_status parser_set_defaults(const parser *p, mote_error *err)
{
    const flag_group *group;
    char *base;
    for (size_t i = 0; (group = parser_group(p, i, &base)) != NULL; i++)
        for (size_t k = 0; k < group->n; k++) {
            flag_target t = target_make(&group->flags[k], base);
            const char *text = t.flag->env != NULL ? getenv(t.flag->env) : NULL;
            if (text != NULL && text[0] != '\0') {
                TRY(target_set(t, t.flag->env, text, err));
            } else if (t.flag->initial != NULL) {
                t.given = NULL;
                TRY(target_set(t, t.flag->name, t.flag->initial, err));
            }
        }
    return MOTE_OK;
}

/* `attached` is the value in the same argument; NULL: the next argument is the value. */
static mote_status parser_take_value(parser *p, flag_target t, const char *source,
                                     const char *attached, mote_error *err)
{
    if (!flag_takes_value(t.flag)) {
        if (attached != NULL)
            return err_set(err, MOTE_E_ARG, "%s takes no value", source);
        return target_set(t, source, NULL, err);
    }
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
        TRY(target_set(t, source, NULL, err));
    }
    return MOTE_OK;
}

static mote_status args_check_words(const cli_call *call, mote_error *err)
{
    const cli_command *command = call->command;
    if (call->common.help)
        return MOTE_OK;
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
    parser p = {call, options, n, 0, argv};
    TRY(parser_set_defaults(&p, err));
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
    return args_check_words(call, err);
}
