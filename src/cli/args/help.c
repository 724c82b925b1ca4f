/* SPDX-License-Identifier: Apache-2.0 */
/*
 * help.c - the command table as text and as JSON.
 *
 * Text is wrapped at the width of the terminal, at most 100 columns. Below 60 columns the
 * description of a flag goes under the flag instead of next to it.
 */
#include "cli/args/command.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "json/json_writer.h"

#include <mote.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_COLUMNS = 100, FLAG_COLUMN = 26, UNDER_COLUMN = 8, NARROW = 60 };

typedef struct help_page {
    cli_out *out;
    size_t columns;
    size_t column; /* of the next character */
} help_page;

static void page_new_line(help_page *p)
{
    out_text(p->out, "\n");
    p->column = 0;
}

static void page_go_to(help_page *p, size_t column)
{
    if (p->column < column)
        out_spaces(p->out, column - p->column);
    p->column = column;
}

/* Prints words from the current column on; new lines start at `indent`. Newlines are kept. */
static void page_wrap(help_page *p, const char *text, size_t indent)
{
    while (*text != '\0') {
        if (*text == '\n') {
            page_new_line(p);
            text++;
            continue;
        }
        size_t n = strcspn(text, " \n");
        bool at_start = p->column <= indent;
        if (!at_start && p->column + 1 + n > p->columns) {
            page_new_line(p);
            at_start = true;
        }
        page_go_to(p, at_start ? indent : p->column + 1);
        out_write(p->out, text, n);
        p->column += n;
        text += n;
        text += strspn(text, " ");
    }
}

static void page_heading(help_page *p, const char *title)
{
    page_new_line(p);
    out_printf(p->out, "%s%s%s", term_code(STDOUT_FILENO, TERM_BOLD), title,
               term_code(STDOUT_FILENO, TERM_PLAIN));
    page_new_line(p);
}

static const char *flag_default(const cli_flag *flag)
{
    return flag->shown != NULL ? flag->shown : flag->initial;
}

/* "1 to 4096"; "" for flags that are not numbers. */
static void flag_range(const cli_flag *flag, char *text, size_t room)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    text[0] = '\0';
    if (flag->range != NULL)
        snprintf(text, room, "%s", flag->range);
    else if (flag->kind == FLAG_SIZE)
        snprintf(text, room, "%s to %s", text_bytes(a, (uint64_t)flag->min),
                 text_bytes(b, (uint64_t)flag->max));
    else if (flag->kind != FLAG_COUNT && flag->kind != FLAG_NUMBER)
        return;
    else if (flag->max > 0)
        snprintf(text, room, "%.15g to %.15g", flag->min, flag->max);
    else
        snprintf(text, room, "at least %.15g", flag->min);
}

const char *flag_describe(const cli_flag *flag, char *text)
{
    char range[FLAG_RANGE_BYTES];
    const char *initial = flag_default(flag);
    flag_range(flag, range, sizeof range);
    snprintf(text, FLAG_TEXT_BYTES, "%s%s%s%s%s%s", flag->help, range[0] != '\0' ? "; " : "", range,
             initial != NULL ? " (" : "", initial != NULL ? initial : "",
             initial != NULL ? ")" : "");
    return text;
}

/* "  -n, --max-tokens N" */
static void page_flag_name(help_page *p, const cli_flag *flag)
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

static void page_flag(help_page *p, const cli_flag *flag)
{
    size_t column = p->columns < NARROW ? UNDER_COLUMN : FLAG_COLUMN;
    page_flag_name(p, flag);
    if (p->column + 2 > column)
        page_new_line(p);
    page_go_to(p, column);
    char text[FLAG_TEXT_BYTES];
    page_wrap(p, flag_describe(flag, text), column);
    page_new_line(p);
}

static void page_group(help_page *p, const flag_group *group)
{
    page_heading(p, group->title);
    for (size_t i = 0; i < group->n; i++)
        page_flag(p, &group->flags[i]);
}

static int page_environment_width(const cli_command *command)
{
    size_t width = 14;
    const flag_group *group;
    for (size_t i = 0; (group = command_group(command, i)) != NULL; i++)
        for (size_t k = 0; k < group->n; k++) {
            const char *env = group->flags[k].env;
            width = env != NULL && strlen(env) > width ? strlen(env) : width;
        }
    return (int)width;
}

static void page_environment(help_page *p, const cli_command *command)
{
    const int width = page_environment_width(command);
    bool any = false;
    const flag_group *group;
    for (size_t i = 0; (group = command_group(command, i)) != NULL; i++)
        for (size_t k = 0; k < group->n; k++) {
            const cli_flag *flag = &group->flags[k];
            if (flag->env == NULL)
                continue;
            if (!any)
                page_heading(p, "Environment");
            any = true;
            out_printf(p->out, "  %-*s default of --%s", width, flag->env, flag->name);
            page_new_line(p);
        }
}

static void page_examples(help_page *p, const cli_command *command)
{
    if (command->examples == NULL)
        return;
    page_heading(p, "Examples");
    for (const char *line = command->examples; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        out_text(p->out, "  ");
        out_write(p->out, line, n);
        page_new_line(p);
        line += n + (line[n] == '\n');
    }
}

static void page_command(help_page *p, const cli_command *command)
{
    char usage[256];
    snprintf(usage, sizeof usage, "usage: mote %s%s%s [FLAGS]", command->name,
             command->usage[0] != '\0' ? " " : "", command->usage);
    page_wrap(p, usage, 0);
    page_new_line(p);
    page_new_line(p);
    page_wrap(p, command->about, 0);
    page_new_line(p);
    const flag_group *group;
    for (size_t i = 0; (group = command_group(command, i)) != NULL; i++)
        page_group(p, group);
    page_environment(p, command);
    page_examples(p, command);
}

static void page_overview(help_page *p, const cli_command_table *table)
{
    page_wrap(p, "mote " MOTE_VERSION ": runs Qwen 3.5 models on CPUs", 0);
    page_new_line(p);
    page_new_line(p);
    page_wrap(p, "usage: mote COMMAND [ARGUMENTS] [FLAGS]", 0);
    page_new_line(p);
    const char *section = "";
    size_t width = 0;
    for (size_t i = 0; i < table->n; i++)
        width = strlen(table->rows[i]->name) > width ? strlen(table->rows[i]->name) : width;
    for (size_t i = 0; i < table->n; i++) {
        const cli_command *command = table->rows[i];
        if (strcmp(section, command->section) != 0)
            page_heading(p, command->section);
        section = command->section;
        out_printf(p->out, "  %-*s  ", (int)width, command->name);
        p->column = width + 4;
        page_wrap(p, command->summary, width + 4);
        page_new_line(p);
    }
    page_new_line(p);
    page_wrap(p, "mote help COMMAND shows the help of one command.", 0);
    page_new_line(p);
}

void help_print(cli_out *o, const cli_command_table *table, const cli_command *command)
{
    const size_t columns = term_columns(STDOUT_FILENO);
    help_page p = {o, columns < MAX_COLUMNS ? columns : MAX_COLUMNS, 0};
    if (command != NULL)
        page_command(&p, command);
    else
        page_overview(&p, table);
}

static void help_write_flags(strbuf *j, const flag_group *group)
{
    for (size_t i = 0; i < group->n; i++) {
        const cli_flag *flag = &group->flags[i];
        char letter[2] = {flag->letter, '\0'};
        jw_open(j, '{');
        jw_key_text(j, "name", flag->name);
        jw_key_text(j, "letter", flag->letter != 0 ? letter : NULL);
        jw_key_text(j, "value", flag->value);
        jw_key_text(j, "words", flag_words(flag));
        jw_key_text(j, "default", flag_default(flag));
        char range[FLAG_RANGE_BYTES];
        flag_range(flag, range, sizeof range);
        jw_key_text(j, "range", range[0] != '\0' ? range : NULL);
        jw_key_text(j, "environment", flag->env);
        jw_key_text(j, "aliases", flag->aliases);
        jw_key_bool(j, "config", !flag->once);
        jw_key_bool(j, "repeat", flag->kind == FLAG_LIST || flag->kind == FLAG_TIMES);
        jw_key_text(j, "group", group->title);
        jw_key_text(j, "help", flag->help);
        jw_close(j, '}');
    }
}

static void help_write_command(strbuf *j, const cli_command *command)
{
    jw_open(j, '{');
    jw_key_text(j, "name", command->name);
    jw_key_text(j, "alias", command->alias);
    jw_key_text(j, "section", command->section);
    jw_key_text(j, "summary", command->summary);
    jw_key_text(j, "usage", command->usage);
    jw_key_text(j, "arguments", command->arguments);
    jw_key_text(j, "about", command->about);
    jw_key(j, "flags");
    jw_open(j, '[');
    const flag_group *group;
    for (size_t i = 0; (group = command_group(command, i)) != NULL; i++)
        help_write_flags(j, group);
    jw_close(j, ']');
    jw_close(j, '}');
}

int help_json(cli_out *o, const cli_command_table *table, const cli_command *command)
{
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_text(&j, "version", MOTE_VERSION);
    jw_key(&j, "commands");
    jw_open(&j, '[');
    for (size_t i = 0; i < table->n; i++)
        if (command == NULL || command == table->rows[i])
            help_write_command(&j, table->rows[i]);
    jw_close(&j, ']');
    jw_close(&j, '}');
    return out_json(o, &j);
}
