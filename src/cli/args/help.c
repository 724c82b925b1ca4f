/* SPDX-License-Identifier: Apache-2.0 */
/*
 * help.c - see help.h.
 *
 * Text is wrapped at the width of the terminal, at 100 columns when it is wider:
 * longer lines are hard to read. On a narrow one what a flag does stands under
 * the flag instead of beside it.
 */
#include "cli/args/help.h"

#include "cli/term/json_out.h"
#include "cli/term/terminal.h"

#include <mote.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WIDEST = 100, FLAG_COLUMN = 26, UNDER_COLUMN = 8, NARROW = 60 };

typedef struct page {
    cli_out *out;
    size_t columns;
    size_t column; /* where the next character goes */
} page;

static page new_page(cli_out *o)
{
    size_t columns = term_columns(STDOUT_FILENO);
    return (page){o, columns < WIDEST ? columns : WIDEST, 0};
}

static void new_line(page *p)
{
    out_text(p->out, "\n");
    p->column = 0;
}

static void go_to(page *p, size_t column)
{
    if (p->column < column)
        out_spaces(p->out, column - p->column);
    p->column = column;
}

/* Words from the current column on, continued at `indent`. A newline in the text is kept. */
static void wrap(page *p, const char *text, size_t indent)
{
    while (*text != '\0') {
        if (*text == '\n') {
            new_line(p);
            text++;
            continue;
        }
        size_t n = strcspn(text, " \n");
        bool at_start = p->column <= indent;
        if (!at_start && p->column + 1 + n > p->columns) {
            new_line(p);
            at_start = true;
        }
        go_to(p, at_start ? indent : p->column + 1);
        out_write(p->out, text, n);
        p->column += n;
        text += n;
        text += strspn(text, " ");
    }
}

static void heading(page *p, const char *title)
{
    new_line(p);
    out_printf(p->out, "%s%s%s", term_code(STDOUT_FILENO, TERM_BOLD), title,
               term_code(STDOUT_FILENO, TERM_PLAIN));
    new_line(p);
}

static const char *default_of(const cli_flag *flag)
{
    return flag->shown != NULL ? flag->shown : flag->initial;
}

/* "  -n, --max-tokens N" */
static void print_flag_name(page *p, const cli_flag *flag)
{
    char name[128];
    char letter[8] = "";
    if (flag->letter != 0)
        snprintf(letter, sizeof letter, "-%c,", flag->letter);
    snprintf(name, sizeof name, "  %-3s --%s%s%s", letter, flag->name,
             flag->value != NULL ? " " : "", flag->value != NULL ? flag->value : "");
    out_text(p->out, name);
    p->column = strlen(name);
}

static void print_flag(page *p, const cli_flag *flag)
{
    size_t column = p->columns < NARROW ? UNDER_COLUMN : FLAG_COLUMN;
    print_flag_name(p, flag);
    if (p->column + 2 > column)
        new_line(p);
    go_to(p, column);
    char text[512];
    const char *usual = default_of(flag);
    if (usual != NULL)
        snprintf(text, sizeof text, "%s (%s)", flag->help, usual);
    else
        snprintf(text, sizeof text, "%s", flag->help);
    wrap(p, text, column);
    new_line(p);
}

static void print_group(page *p, const flag_group *group)
{
    heading(p, group->title);
    for (size_t i = 0; i < group->n; i++)
        print_flag(p, &group->flags[i]);
}

static int environment_width(const cli_command *command)
{
    size_t width = 14;
    for (size_t i = 0; i < command->n_groups; i++)
        for (size_t k = 0; k < command->groups[i].n; k++) {
            const char *env = command->groups[i].flags[k].env;
            width = env != NULL && strlen(env) > width ? strlen(env) : width;
        }
    return (int)width;
}

static void print_environment(page *p, const cli_command *command)
{
    const int width = environment_width(command);
    bool any = false;
    for (size_t i = 0; i < command->n_groups; i++)
        for (size_t k = 0; k < command->groups[i].n; k++) {
            const cli_flag *flag = &command->groups[i].flags[k];
            if (flag->env == NULL)
                continue;
            if (!any)
                heading(p, "Environment");
            any = true;
            out_printf(p->out, "  %-*s default of --%s", width, flag->env, flag->name);
            new_line(p);
        }
}

static void print_examples(page *p, const cli_command *command)
{
    if (command->examples == NULL)
        return;
    heading(p, "Examples");
    for (const char *line = command->examples; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        out_text(p->out, "  ");
        out_write(p->out, line, n);
        new_line(p);
        line += n + (line[n] == '\n');
    }
}

static void print_command(page *p, const cli_command *command)
{
    char usage[256];
    snprintf(usage, sizeof usage, "usage: mote %s%s%s [FLAGS]", command->name,
             command->usage[0] != '\0' ? " " : "", command->usage);
    wrap(p, usage, 0);
    new_line(p);
    new_line(p);
    wrap(p, command->about, 0);
    new_line(p);
    for (size_t i = 0; i < command->n_groups; i++)
        print_group(p, &command->groups[i]);
    print_group(p, &cli_common_flags);
    print_environment(p, command);
    print_examples(p, command);
}

static void print_overview(page *p)
{
    wrap(p, "mote " MOTE_VERSION ": runs Qwen 3.5 models on this computer", 0);
    new_line(p);
    new_line(p);
    wrap(p, "usage: mote COMMAND [ARGUMENTS] [FLAGS]", 0);
    new_line(p);
    const char *section = "";
    for (size_t i = 0; i < cli_n_commands; i++) {
        const cli_command *command = cli_commands[i];
        if (strcmp(section, command->section) != 0)
            heading(p, command->section);
        section = command->section;
        out_printf(p->out, "  %-10s", command->name);
        p->column = 12;
        wrap(p, command->summary, 12);
        new_line(p);
    }
    new_line(p);
    wrap(p, "mote help COMMAND says more about one of them.", 0);
    new_line(p);
}

void help_print(cli_out *o, const cli_command *command)
{
    page p = new_page(o);
    if (command != NULL)
        print_command(&p, command);
    else
        print_overview(&p);
}

static void write_flags(json *j, const flag_group *group)
{
    for (size_t i = 0; i < group->n; i++) {
        const cli_flag *flag = &group->flags[i];
        char letter[2] = {flag->letter, '\0'};
        json_begin_object(j);
        json_key_text(j, "name", flag->name);
        json_key_text(j, "letter", flag->letter != 0 ? letter : NULL);
        json_key_text(j, "value", flag->value);
        json_key_text(j, "default", default_of(flag));
        json_key_text(j, "environment", flag->env);
        json_key_bool(j, "repeat", flag->kind == FLAG_LIST || flag->kind == FLAG_TIMES);
        json_key_text(j, "group", group->title);
        json_key_text(j, "help", flag->help);
        json_end_object(j);
    }
}

static void write_command(json *j, const cli_command *command)
{
    json_begin_object(j);
    json_key_text(j, "name", command->name);
    json_key_text(j, "section", command->section);
    json_key_text(j, "summary", command->summary);
    json_key_text(j, "usage", command->usage);
    json_key_text(j, "about", command->about);
    json_key(j, "flags");
    json_begin_array(j);
    for (size_t i = 0; i < command->n_groups; i++)
        write_flags(j, &command->groups[i]);
    write_flags(j, &cli_common_flags);
    json_end_array(j);
    json_end_object(j);
}

void help_json(cli_out *o, const cli_command *command)
{
    json j = {.to = o};
    json_begin_object(&j);
    json_key_text(&j, "version", MOTE_VERSION);
    json_key(&j, "commands");
    json_begin_array(&j);
    for (size_t i = 0; i < cli_n_commands; i++)
        if (command == NULL || command == cli_commands[i])
            write_command(&j, cli_commands[i]);
    json_end_array(&j);
    json_end_object(&j);
}
