/* SPDX-License-Identifier: Apache-2.0 */
/*
 * man.c - man pages in the language mdoc(7): mote(1), one page per command, mote-config(5).
 *
 * Text goes into lines of its own; a line is a macro only if it starts with a dot.
 */
#include "cli/shell/shell.h"
#include "cli/term/output.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The date of the last change to the texts of this file. */
static const char man_date[] = "November 17, 2026";

/* ---- text ---- */

/* Text that is not a macro: `first` if it starts a line. */
static void man_escape(cli_out *o, const char *text, size_t n, bool first)
{
    if (first && n > 0 && (text[0] == '.' || text[0] == '\''))
        out_text(o, "\\&");
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\\')
            out_text(o, "\\e");
        else if (text[i] == '-')
            out_text(o, "\\-");
        else
            out_write(o, text + i, 1);
    }
}

enum { MAN_COLUMNS = 78 };

/* Words of one paragraph in lines; a new sentence starts a new line, as mandoc requires. */
static void man_words(cli_out *o, str text)
{
    size_t column = 0;
    for (str word; (word = str_next_word(&text, " ")).n > 0;) {
        if (column > 0 && column + 1 + word.n > MAN_COLUMNS) {
            out_text(o, "\n");
            column = 0;
        }
        out_text(o, column > 0 ? " " : "");
        man_escape(o, word.p, word.n, column == 0);
        column += 1 + word.n;
        if (text.n > 0 && strchr(".?!", word.p[word.n - 1]) != NULL) {
            out_text(o, "\n");
            column = 0;
        }
    }
    if (column > 0)
        out_text(o, "\n");
}

static void man_line(cli_out *o, const char *text)
{
    man_words(o, str_of(text));
}

/* Paragraphs, one per line of the text. */
static void man_paragraphs(cli_out *o, const char *text)
{
    for (bool first = true; *text != '\0'; first = false) {
        size_t n = strcspn(text, "\n");
        if (!first)
            out_text(o, ".Pp\n");
        man_words(o, (str){text, n});
        text += n + (text[n] == '\n');
    }
}

/* One argument of a macro. \& keeps words such as "No" from being macros themselves. */
static void man_argument(cli_out *o, const char *text)
{
    out_text(o, " \"\\&");
    for (; *text != '\0'; text++) {
        if (*text == '"')
            out_text(o, "\\(dq");
        else
            man_escape(o, text, 1, false);
    }
    out_text(o, "\"");
}

/* "MOTE-RUN" */
static void man_title(cli_out *o, const char *name, const char *section)
{
    out_printf(o,
               ".\\\" Printed by mote help --man; the source is the command table of mote.\n"
               ".Dd %s\n.Dt ",
               man_date);
    for (; *name != '\0'; name++) {
        char c = (char)toupper((unsigned char)*name);
        out_write(o, &c, 1);
    }
    out_printf(o, " %s\n.Os\n", section);
}

static void man_name(cli_out *o, const char *name, const char *summary)
{
    out_printf(o, ".Sh NAME\n.Nm %s\n.Nd ", name);
    man_line(o, summary);
}

/* ---- flags ---- */

static void man_flag(cli_out *o, const cli_flag *flag)
{
    char text[FLAG_TEXT_BYTES];
    out_text(o, ".It ");
    if (flag->letter != 0)
        out_printf(o, "Fl %c , ", flag->letter);
    out_printf(o, "Fl \\-%s", flag->name);
    if (flag->value != NULL) {
        out_text(o, " Ar");
        man_argument(o, flag->value);
    }
    out_text(o, "\n");
    man_line(o, flag_describe(flag, text));
}

static void man_group(cli_out *o, const flag_group *group)
{
    out_text(o, ".Ss ");
    man_line(o, group->title);
    out_text(o, ".Bl -tag -width Ds\n");
    for (size_t i = 0; i < group->n; i++)
        man_flag(o, &group->flags[i]);
    out_text(o, ".El\n");
}

static void man_environment(cli_out *o, const cli_command *command)
{
    const flag_group *group;
    bool any = false;
    for (size_t g = 0; (group = command_group(command, g)) != NULL; g++)
        for (size_t i = 0; i < group->n; i++) {
            if (group->flags[i].env == NULL)
                continue;
            if (!any)
                out_text(o, ".Sh ENVIRONMENT\n.Bl -tag -width Ds\n");
            any = true;
            out_printf(o, ".It Ev %s\nDefault of\n.Fl \\-%s .\n", group->flags[i].env,
                       group->flags[i].name);
        }
    if (any)
        out_text(o, ".El\n");
}

static void man_examples(cli_out *o, const char *examples)
{
    if (examples == NULL)
        return;
    out_text(o, ".Sh EXAMPLES\n.Bd -literal\n");
    for (const char *line = examples; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        man_escape(o, line, n, true);
        out_text(o, "\n");
        line += n + (line[n] == '\n');
    }
    out_text(o, ".Ed\n");
}

/* ---- pages ---- */

void man_command(cli_out *o, const cli_command *command)
{
    char name[64];
    const flag_group *group;
    snprintf(name, sizeof name, "mote-%s", command->name);
    man_title(o, name, "1");
    man_name(o, name, command->summary);
    out_printf(o, ".Sh SYNOPSIS\n.Nm \"mote %s\"\n", command->name);
    if (command->usage[0] != '\0') {
        out_text(o, ".Ar");
        man_argument(o, command->usage);
        out_text(o, "\n");
    }
    out_text(o, ".Op Ar flags\n.Sh DESCRIPTION\n");
    man_paragraphs(o, command->about);
    if (command->alias != NULL)
        out_printf(o, ".Pp\n.Nm \"mote %s\"\nis the same command.\n", command->alias);
    for (size_t g = 0; (group = command_group(command, g)) != NULL; g++)
        man_group(o, group);
    man_environment(o, command);
    out_text(o, ".Sh EXIT STATUS\nSee\n.Xr mote 1 .\n");
    man_examples(o, command->examples);
    out_text(o, ".Sh SEE ALSO\n.Xr mote 1 ,\n.Xr mote-config 5\n");
}

static void man_commands(cli_out *o, const cli_command_table *table)
{
    const char *section = "";
    for (size_t i = 0; i < table->n; i++) {
        const cli_command *command = table->rows[i];
        if (strcmp(section, command->section) != 0)
            out_printf(o, "%s.Ss %s\n.Bl -tag -width Ds\n", i > 0 ? ".El\n" : "", command->section);
        section = command->section;
        out_printf(o, ".It Cm %s\n", command->name);
        man_line(o, command->summary);
    }
    out_text(o, ".El\n");
}

static void man_exit_codes(cli_out *o)
{
    static const struct {
        int code;
        const char *meaning;
    } rows[] = {
        {CLI_DONE, "done"},
        {CLI_FAILED, "failed for another reason"},
        {CLI_USAGE, "wrong usage: a flag, an argument, or a line of the config file"},
        {CLI_NO_MODEL, "the model is not installed, or its name is unknown"},
        {CLI_NO_MEMORY, "does not fit in memory"},
        {CLI_NO_NETWORK, "network or download failed"},
        {CLI_DAMAGED, "a file is damaged, or its hash is wrong"},
        {CLI_NO_SERVER, "the server is not reachable"},
        {CLI_NO_ROOM, "the prompt does not fit the context"},
        {CLI_CUT, "the answer was cut, with --fail-on-length"},
        {CLI_NOT_VALID, "the answer is not valid for its schema"},
        {CLI_REFUSED, "permission denied, or the API key was refused"},
        {CLI_NOT_WRITABLE, "the disk is full, or the output cannot be written"},
        {130, "interrupted (SIGINT)"},
        {143, "terminated (SIGTERM)"},
    };
    out_text(o, ".Sh EXIT STATUS\n.Bl -tag -width 4n\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        out_printf(o, ".It %d\n", rows[i].code);
        man_line(o, rows[i].meaning);
    }
    out_text(o, ".El\n");
}

void man_overview(cli_out *o, const cli_command_table *table)
{
    man_title(o, "mote", "1");
    man_name(o, "mote", "runs Qwen 3.5 models on CPUs");
    out_text(o, ".Sh SYNOPSIS\n.Nm\n.Ar command\n.Op Ar arguments\n.Op Ar flags\n"
                ".Sh DESCRIPTION\n");
    man_line(o, "Chats with a model, answers one prompt, or serves models over HTTP with the "
                "OpenAI, Anthropic and Ollama APIs.");
    man_line(o, "Flags may be anywhere; -- ends them. Results go to stdout, messages to stderr.");
    out_text(o, ".Pp\nEach command has a page:\n.Xr mote-run 1\ndescribes\n.Nm\n.Cm run .\n");
    man_commands(o, table);
    man_group(o, command_common_group());
    man_exit_codes(o);
    out_text(o, ".Sh SEE ALSO\n");
    const char *last = "";
    for (size_t i = 0; i < table->n; i++) { /* sorted */
        const char *next = NULL;
        for (size_t k = 0; k < table->n; k++) {
            const char *name = table->rows[k]->name;
            if (strcmp(name, last) > 0 && (next == NULL || strcmp(name, next) < 0))
                next = name;
        }
        out_printf(o, ".Xr mote-%s 1 ,\n", next);
        last = next;
    }
    out_text(o, ".Xr mote-config 5 ,\n.Xr mote-api 7\n");
}

/* ---- mote-config(5) ---- */

/* Several commands can have the key: true for the first one. */
static bool key_is_first(const cli_command_table *table, size_t row, const char *name)
{
    const flag_group *group;
    for (size_t i = 0; i < row; i++)
        for (size_t g = 0; (group = command_group(table->rows[i], g)) != NULL; g++)
            for (size_t k = 0; k < group->n; k++)
                if (!group->flags[k].once && strcmp(group->flags[k].name, name) == 0)
                    return false;
    return true;
}

static bool command_has_key(const cli_command *command, const char *name)
{
    const flag_group *group;
    for (size_t g = 0; (group = command_group(command, g)) != NULL; g++)
        for (size_t k = 0; k < group->n && group != command_common_group(); k++)
            if (!group->flags[k].once && strcmp(group->flags[k].name, name) == 0)
                return true;
    return false;
}

static void man_key(cli_out *o, const cli_command_table *table, const cli_flag *flag)
{
    const bool is_switch = flag->kind == FLAG_SWITCH;
    bool any = false;
    out_printf(o, ".It Cm \\&%s No = Ar", flag->name);
    man_argument(o, is_switch ? "true|false" : flag->kind == FLAG_TIMES ? "N" : flag->value);
    out_text(o, "\n");
    man_line(o, flag->help);
    out_text(o, ".Pp\nCommands:");
    for (size_t i = 0; i < table->n; i++)
        if (command_has_key(table->rows[i], flag->name)) {
            out_printf(o, "%s %s", any ? "," : "", table->rows[i]->name);
            any = true;
        }
    out_text(o, any ? "\n" : " all\n");
}

static const char config_text[] =
    ".Sh DESCRIPTION\n"
    "Settings for\n"
    ".Xr mote 1 .\n"
    "A line is\n"
    ".Ql key = value ,\n"
    "a section in brackets, or a comment that begins with #.\n"
    "Quotes keep white space and # in a value.\n"
    "There are no escapes, variables, includes or continued lines.\n"
    "Keys are the long names of flags.\n"
    ".Pp\n"
    "The value of a setting is that of its flag, else of its environment variable, else of this\n"
    "file, else the default.\n"
    "An unknown key is a warning; with\n"
    ".Fl \\-strict\n"
    "it is an error.\n"
    ".Bl -tag -width Ds\n"
    ".It before the first section\n"
    "for every command that has the flag\n"
    ".It Bq Cm serve\n"
    "for\n"
    ".Xr mote-serve 1\n"
    ".It Bq Cm model Ar NAME\n"
    "for commands that answer with this model; counts more than the other two\n"
    ".It Bq Cm alias\n"
    ".Ar alias No = Ar model :\n"
    "a name that is accepted wherever a model is\n"
    ".El\n"
    ".Ss Keys\n"
    ".Bl -tag -width Ds\n";

static const char config_end[] = ".El\n"
                                 ".Sh ENVIRONMENT\n"
                                 ".Bl -tag -width Ds\n"
                                 ".It Ev MOTE_CONFIG\n"
                                 "the only config file, instead of those below; /dev/null: none\n"
                                 ".El\n"
                                 ".Sh FILES\n"
                                 ".Bl -tag -width Ds\n"
                                 ".It Pa $XDG_CONFIG_HOME/mote/config\n"
                                 "settings of the user; by default\n"
                                 ".Pa ~/.config/mote/config\n"
                                 ".It Pa /etc/mote/config\n"
                                 "settings of the machine; those of the user count more\n"
                                 ".El\n"
                                 ".Sh EXAMPLES\n"
                                 ".Bd -literal\n"
                                 "memory = 6GB\n"
                                 "think = low\n"
                                 "\n"
                                 "[serve]\n"
                                 "listen = 127.0.0.1:11435\n"
                                 "api\\-key\\-file = /etc/mote/keys\n"
                                 "\n"
                                 "[model qwen3.5:4b]\n"
                                 "context = 65536\n"
                                 "preset = coding\n"
                                 "\n"
                                 "[alias]\n"
                                 "gpt\\-4o\\-mini = qwen3.5:4b:nothink\n"
                                 ".Ed\n"
                                 ".Sh SEE ALSO\n"
                                 ".Xr mote 1 ,\n"
                                 ".Xr mote-serve 1\n";

void man_config(cli_out *o, const cli_command_table *table)
{
    const flag_group *group;
    man_title(o, "mote-config", "5");
    man_name(o, "mote-config", "config file of mote");
    out_text(o, config_text);
    for (size_t i = 0; i < table->n; i++)
        for (size_t g = 0; (group = command_group(table->rows[i], g)) != NULL; g++)
            for (size_t k = 0; k < group->n; k++)
                if (!group->flags[k].once && key_is_first(table, i, group->flags[k].name))
                    man_key(o, table, &group->flags[k]);
    out_text(o, config_end);
}
