/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - see args.h. Also owns the flags that every command has. */
#include "cli/args/args.h"

#include "cli/term/spell.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cli_flag common_flags[] = {
    {.name = "json",
     .kind = FLAG_SWITCH,
     .at = offsetof(cli_common, json),
     .help = "one JSON document instead of text"},
    {.name = "quiet",
     .letter = 'q',
     .kind = FLAG_SWITCH,
     .at = offsetof(cli_common, quiet),
     .help = "only results and errors"},
    {.name = "verbose",
     .letter = 'v',
     .kind = FLAG_TIMES,
     .at = offsetof(cli_common, verbose),
     .help = "say more"},
    {.name = "color",
     .kind = FLAG_CHOICE,
     .value = "auto|always|never",
     .initial = "auto",
     .at = offsetof(cli_common, color),
     .help = "auto: on a terminal, unless NO_COLOR is set"},
    {.name = "no-progress",
     .kind = FLAG_SWITCH,
     .at = offsetof(cli_common, no_progress),
     .help = "no progress line on the terminal"},
    {.name = "help",
     .letter = 'h',
     .kind = FLAG_SWITCH,
     .at = offsetof(cli_common, help),
     .help = "this text"},
};

const flag_group cli_common_flags = FLAG_GROUP("Every command", common_flags, 0);

/* Where the parser stands. */
typedef struct parser {
    cli_call *call;
    void *options;
    int n, next; /* words in all, words taken */
    char *const *argv;
} parser;

/* A flag and the struct member it fills. */
typedef struct target {
    const cli_flag *flag;
    void *value;
    bool *given; /* NULL: nobody asks */
} target;

static target target_of(const cli_flag *flag, char *base)
{
    return (target){flag, base + flag->at, flag->given != 0 ? (bool *)(base + flag->given) : NULL};
}

static bool takes_value(const cli_flag *flag)
{
    return flag->kind != FLAG_SWITCH && flag->kind != FLAG_TIMES;
}

/* Group i of the command; the one after its own is that of every command. */
static const flag_group *group_at(const parser *p, size_t i, char **base)
{
    const cli_command *command = p->call->command;
    if (i < command->n_groups) {
        *base = (char *)p->options + command->groups[i].base;
        return &command->groups[i];
    }
    *base = (char *)&p->call->common;
    return i == command->n_groups ? &cli_common_flags : NULL;
}

/* By name (n_name bytes), or by letter if name is NULL. */
static bool find_flag(const parser *p, const char *name, size_t n_name, char letter, target *out)
{
    const flag_group *group;
    char *base;
    for (size_t i = 0; (group = group_at(p, i, &base)) != NULL; i++)
        for (size_t k = 0; k < group->n; k++) {
            const cli_flag *flag = &group->flags[k];
            bool same = name == NULL
                            ? flag->letter == letter
                            : strncmp(flag->name, name, n_name) == 0 && flag->name[n_name] == '\0';
            if (same) {
                *out = target_of(flag, base);
                return true;
            }
        }
    return false;
}

static mote_status unknown_flag(const parser *p, const char *name, size_t n_name, mote_error *err)
{
    char typed[64];
    snprintf(typed, sizeof typed, "%.*s", (int)(n_name < 60 ? n_name : 60), name);
    spell s = {.word = typed};
    const flag_group *group;
    char *base;
    for (size_t i = 0; (group = group_at(p, i, &base)) != NULL; i++)
        for (size_t k = 0; k < group->n; k++)
            spell_offer(&s, group->flags[k].name);
    const char *command = p->call->command->name;
    if (s.best != NULL)
        return err_set(err, MOTE_E_ARG, "%s has no flag --%s; did you mean --%s?", command, typed,
                       s.best);
    return err_set(err, MOTE_E_ARG, "%s has no flag --%s (try: mote help %s)", command, typed,
                   command);
}

static mote_status out_of_range(const cli_flag *flag, const char *source, const char *text,
                                mote_error *err)
{
    const char *what = flag->kind == FLAG_COUNT ? "a whole number" : "a number";
    if (flag->max > 0)
        return err_set(err, MOTE_E_ARG, "%s takes %s from %.15g to %.15g, not '%.60s'", source,
                       what, flag->min, flag->max, text);
    return err_set(err, MOTE_E_ARG, "%s takes %s from %.15g, not '%.60s'", source, what, flag->min,
                   text);
}

static bool in_range(const cli_flag *flag, double x)
{
    return x >= flag->min && (flag->max == 0 || x <= flag->max);
}

static bool read_count(const cli_flag *flag, const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || !in_range(flag, (double)n))
        return false;
    *out = n;
    return true;
}

/* Plain decimal numbers only: strtod would also take "inf", "nan" and "0x1p3". */
static bool read_number(const cli_flag *flag, const char *text, double *out)
{
    char *end;
    if (text[0] == '\0' || text[strspn(text, "+-.0123456789eE")] != '\0')
        return false;
    double x = strtod(text, &end);
    if (*end != '\0' || !in_range(flag, x))
        return false;
    *out = x;
    return true;
}

static bool read_choice(const cli_flag *flag, const char *text, uint64_t *out)
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

static mote_status add_item(flag_list *list, const char *source, const char *text, mote_error *err)
{
    if (list->n == FLAG_LIST_MAX)
        return err_set(err, MOTE_E_ARG, "%s can be given %d times at most", source, FLAG_LIST_MAX);
    list->items[list->n++] = text;
    return MOTE_OK;
}

/* `source` is how the user would name the flag: "--temp" or "MOTE_THREADS". */
static mote_status set_value(target t, const char *source, const char *text, mote_error *err)
{
    if (t.given != NULL)
        *t.given = true;
    switch (t.flag->kind) {
    case FLAG_SWITCH: *(bool *)t.value = true; return MOTE_OK;
    case FLAG_TIMES: ++*(uint64_t *)t.value; return MOTE_OK;
    case FLAG_TEXT: *(const char **)t.value = text; return MOTE_OK;
    case FLAG_LIST: return add_item(t.value, source, text, err);
    case FLAG_COUNT:
        if (!read_count(t.flag, text, t.value))
            return out_of_range(t.flag, source, text, err);
        return MOTE_OK;
    case FLAG_NUMBER:
        if (!read_number(t.flag, text, t.value))
            return out_of_range(t.flag, source, text, err);
        return MOTE_OK;
    case FLAG_CHOICE:
        if (!read_choice(t.flag, text, t.value))
            return err_set(err, MOTE_E_ARG, "%s takes %s, not '%.60s'", source, t.flag->value,
                           text);
        return MOTE_OK;
    }
    return MOTE_OK;
}

static mote_status set_defaults(const parser *p, mote_error *err)
{
    const flag_group *group;
    char *base;
    for (size_t i = 0; (group = group_at(p, i, &base)) != NULL; i++)
        for (size_t k = 0; k < group->n; k++) {
            target t = target_of(&group->flags[k], base);
            const char *text = t.flag->env != NULL ? getenv(t.flag->env) : NULL;
            if (text != NULL && text[0] != '\0') {
                TRY(set_value(t, t.flag->env, text, err));
            } else if (t.flag->initial != NULL) {
                t.given = NULL;
                TRY(set_value(t, t.flag->name, t.flag->initial, err));
            }
        }
    return MOTE_OK;
}

/* `attached` is a value in the same word, or NULL: then it is the next word. */
static mote_status take_value(parser *p, target t, const char *source, const char *attached,
                              mote_error *err)
{
    if (!takes_value(t.flag)) {
        if (attached != NULL)
            return err_set(err, MOTE_E_ARG, "%s takes no value", source);
        return set_value(t, source, NULL, err);
    }
    if (attached == NULL && p->next == p->n)
        return err_set(err, MOTE_E_ARG, "%s needs a value: %s %s", source, source, t.flag->value);
    return set_value(t, source, attached != NULL ? attached : p->argv[p->next++], err);
}

static mote_status take_long(parser *p, const char *word, mote_error *err)
{
    const char *name = word + 2;
    size_t n_name = strcspn(name, "=");
    target t;
    if (!find_flag(p, name, n_name, 0, &t))
        return unknown_flag(p, name, n_name, err);
    char source[64];
    snprintf(source, sizeof source, "--%s", t.flag->name);
    return take_value(p, t, source, name[n_name] == '=' ? name + n_name + 1 : NULL, err);
}

/* One or more letters: -q, -qv, -n5, -n 5. */
static mote_status take_short(parser *p, const char *word, mote_error *err)
{
    for (const char *at = word + 1; *at != '\0'; at++) {
        target t;
        if (!find_flag(p, NULL, 0, *at, &t)) {
            const char *command = p->call->command->name;
            return err_set(err, MOTE_E_ARG, "%s has no flag -%.*s (try: mote help %s)", command,
                           (unsigned char)*at < 0x80 ? 1 : 4, at, command);
        }
        char source[3] = {'-', *at, '\0'};
        if (takes_value(t.flag))
            return take_value(p, t, source, at[1] != '\0' ? at + 1 : NULL, err);
        TRY(set_value(t, source, NULL, err));
    }
    return MOTE_OK;
}

static mote_status check_words(const cli_call *call, mote_error *err)
{
    const cli_command *command = call->command;
    if (call->common.help)
        return MOTE_OK;
    if (call->n_words < command->min_words)
        return err_set(err, MOTE_E_ARG, "%s needs more: mote %s %s (try: mote help %s)",
                       command->name, command->name, command->usage, command->name);
    if (call->n_words > command->max_words)
        return err_set(err, MOTE_E_ARG, "%s does not take '%.60s' (try: mote help %s)",
                       command->name, call->words[command->max_words], command->name);
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
    TRY(set_defaults(&p, err));
    bool flags_ended = false;
    while (p.next < n) {
        const char *word = argv[p.next++];
        if (flags_ended || word[0] != '-' || word[1] == '\0')
            words[call->n_words++] = word;
        else if (strcmp(word, "--") == 0)
            flags_ended = true;
        else if (word[1] == '-')
            TRY(take_long(&p, word, err));
        else
            TRY(take_short(&p, word, err));
    }
    return check_words(call, err);
}
