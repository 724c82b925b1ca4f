/* SPDX-License-Identifier: Apache-2.0 */
/*
 * completion_fish.c - the completion script of fish: one `complete` per flag and command.
 *
 * fish parses flags itself. The function __mote_at finds the command and the number of arguments
 * before the cursor, for which it must know the flags that take a value.
 */
#include "cli/shell/shell.h"

#include <string.h>

static const char fish_begin[] =
    "# __mote_at COMMAND [POSITION]: the cursor is in this command, at this argument.\n"
    "# __mote_at '': no command is typed yet.\n"
    "function __mote_at\n"
    "    set -l words (commandline -opc)\n"
    "    set -l command ''\n"
    "    set -l position 0\n"
    "    set -l value 0\n"
    "    set -l ended 0\n"
    "    for word in $words[2..-1]\n"
    "        if test $value = 1\n"
    "            set value 0\n"
    "        else if test $ended = 0; and string match -qr '^-.' -- $word\n"
    "            string match -qr '^(-m|--model(=|$))' -- $word; and set position (math $position "
    "+ 1)\n"
    "            test \"$word\" = --; and set ended 1\n"
    "            __mote_takes_value \"$command\" $word; and set value 1\n"
    "        else if test -z \"$command\"\n"
    "            set command (__mote_command $word)\n"
    "        else\n"
    "            set position (math $position + 1)\n"
    "        end\n"
    "    end\n"
    "    test \"$command\" = \"$argv[1]\"; or return 1\n"
    "    test (count $argv) -lt 2; or test \"$argv[2]\" = '*'; or test $position = $argv[2]\n"
    "end\n"
    "\n"
    "function __mote_models\n"
    "    mote completion --models 2>/dev/null\n"
    "    __fish_complete_suffix .gguf\n"
    "end\n"
    "\n";

/* Inside single quotes. */
static void fish_text(cli_out *o, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\')
            out_text(o, "\\");
        out_write(o, text, 1);
    }
}

/* The options -a, -F and -x of `complete`. */
static void fish_value(cli_out *o, const shell_value *v)
{
    str rest = v->words, word;
    switch (v->kind) {
    case VALUE_NONE: break;
    case VALUE_ANY: out_text(o, " -x"); break;
    case VALUE_FILE: out_text(o, " -r -F"); break;
    case VALUE_DIR: out_text(o, " -x -a '(__fish_complete_directories)'"); break;
    case VALUE_MODEL: out_text(o, " -x -a '(__mote_models)'"); break;
    case VALUE_COMMAND: out_text(o, " -x -a \"$__mote_commands\""); break;
    case VALUE_WORDS:
        out_text(o, " -x -a '");
        while (shell_next_word(&rest, &word)) {
            out_write(o, word.p, word.n);
            out_text(o, rest.n > 0 ? " " : "");
        }
        out_text(o, "'");
        break;
    }
}

static void fish_flag(cli_out *o, const char *command, const cli_flag *flag)
{
    shell_value v = shell_flag_value(flag);
    out_printf(o, "complete -c mote -n \"__mote_at '%s'\"", command);
    if (flag->letter != 0)
        out_printf(o, " -s %c", flag->letter);
    out_printf(o, " -l %s", flag->name);
    fish_value(o, &v);
    out_text(o, " -d '");
    fish_text(o, flag->help);
    out_text(o, "'\n");
}

static void fish_command(cli_out *o, const cli_command *command)
{
    const flag_group *group;
    shell_value v = {0};
    out_printf(o, "complete -c mote -n \"__mote_at ''\" -a %s -d '", command->name);
    fish_text(o, command->summary);
    out_text(o, "'\n");
    for (size_t g = 0; (group = command_group(command, g)) != NULL; g++)
        for (size_t i = 0; i < group->n; i++)
            fish_flag(o, command->name, &group->flags[i]);
    for (size_t i = 0; !v.repeats && shell_argument(command, i, &v); i++) {
        out_printf(o, "complete -c mote -n \"__mote_at %s ", command->name);
        out_printf(o, v.repeats ? "'*'\"" : "%zu\"", i);
        fish_value(o, &v);
        out_text(o, "\n");
    }
}

/* Cases of __mote_takes_value: "run --context" and its other names. */
static void fish_value_names(cli_out *o, const char *command, const cli_flag *flag)
{
    if (shell_flag_value(flag).kind == VALUE_NONE)
        return;
    out_printf(o, " '%s --%s'", command, flag->name);
    if (flag->letter != 0)
        out_printf(o, " '%s -%c'", command, flag->letter);
    str rest = str_of(flag->aliases != NULL ? flag->aliases : ""), alias;
    while (shell_next_word(&rest, &alias))
        out_printf(o, " '%s --%.*s'", command, STR_ARG(alias));
}

static void fish_tables(cli_out *o, const cli_command_table *table)
{
    const flag_group *group, *common = command_common_group();
    out_text(o, "set -g __mote_commands");
    for (size_t i = 0; i < table->n; i++)
        out_printf(o, " %s", table->rows[i]->name);
    out_text(o, "\n\n# The command of a name: aliases have the flags of their command.\n"
                "function __mote_command\n    switch $argv[1]\n");
    for (size_t i = 0; i < table->n; i++)
        if (table->rows[i]->alias != NULL)
            out_printf(o, "        case %s\n            echo %s\n", table->rows[i]->alias,
                       table->rows[i]->name);
    out_text(o, "        case '*'\n            echo $argv[1]\n    end\nend\n\n"
                "function __mote_takes_value\n    switch \"$argv[1] $argv[2]\"\n        case");
    for (size_t i = 0; i < table->n; i++)
        for (size_t g = 0; (group = command_group(table->rows[i], g)) != NULL; g++)
            for (size_t k = 0; k < group->n && group != common; k++)
                fish_value_names(o, table->rows[i]->name, &group->flags[k]);
    for (size_t k = 0; k < common->n; k++)
        fish_value_names(o, "*", &common->flags[k]);
    out_text(o, "\n            return 0\n    end\n    return 1\nend\n\n");
}

void completion_fish(cli_out *o, const cli_command_table *table)
{
    const flag_group *common = command_common_group();
    out_printf(o, "# fish completion of mote %s, printed by: mote completion fish\n",
               mote_version());
    out_text(o, fish_begin);
    fish_tables(o, table);
    out_text(o, "complete -c mote -f\n");
    for (size_t i = 0; i < common->n; i++)
        fish_flag(o, "", &common->flags[i]);
    out_text(o, "complete -c mote -n \"__mote_at ''\" -l version -d 'print the version'\n");
    for (size_t i = 0; i < table->n; i++)
        fish_command(o, table->rows[i]);
}
