/* SPDX-License-Identifier: Apache-2.0 */
/* completion_zsh.c - the completion script of zsh: specifications for its function _arguments. */
#include "cli/shell/shell.h"

#include <string.h>

static const char zsh_begin[] = "_mote_models() {\n"
                                "    local -a names\n"
                                "    names=(${(f)\"$(_call_program models mote completion --models "
                                "2>/dev/null)\"})\n"
                                "    local ret=1\n"
                                "    compadd -a names && ret=0\n"
                                "    _files -g '*.gguf(-.)' && ret=0\n"
                                "    return ret\n"
                                "}\n\n";

/* Works in a directory of fpath, where zsh loads it as the function _mote, and with source. */
static const char zsh_end[] = "if [[ $funcstack[1] == _mote ]]; then\n"
                              "    _mote \"$@\"\n"
                              "else\n"
                              "    compdef _mote mote\n"
                              "fi\n";

/* Text inside '...[text]...' or '...:text:...' of a specification. */
static void zsh_text(cli_out *o, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            out_text(o, "'\\");
        else if (strchr("[]:\\", *text) != NULL)
            out_text(o, "\\");
        out_write(o, text, 1);
        if (*text == '\'')
            out_text(o, "'");
    }
}

/* ":NAME:ACTION" */
static void zsh_value(cli_out *o, const shell_value *v)
{
    str rest = v->words, word;
    out_text(o, ":");
    zsh_text(o, v->name);
    out_text(o, ":");
    switch (v->kind) {
    case VALUE_NONE:
    case VALUE_ANY: out_text(o, " "); break;
    case VALUE_FILE: out_text(o, "_files"); break;
    case VALUE_DIR: out_text(o, "_files -/"); break;
    case VALUE_MODEL: out_text(o, "_mote_models"); break;
    case VALUE_COMMAND: out_text(o, "_mote_commands"); break;
    case VALUE_WORDS:
        out_text(o, "(");
        while (shell_next_word(&rest, &word)) {
            out_write(o, word.p, word.n);
            out_text(o, rest.n > 0 ? " " : "");
        }
        out_text(o, ")");
        break;
    }
}

/* One name of a flag; the others are not offered after it unless it may be repeated. */
static void zsh_flag_name(cli_out *o, const cli_flag *flag, bool letter)
{
    shell_value v = shell_flag_value(flag);
    out_text(o, "        '");
    if (flag->kind == FLAG_LIST || flag->kind == FLAG_TIMES)
        out_text(o, "*");
    else if (flag->letter != 0)
        out_printf(o, "(%s-%c --%s)", command_is_model_flag(flag) ? "1 " : "", flag->letter,
                   flag->name);
    if (letter)
        out_printf(o, "-%c%s", flag->letter, v.kind != VALUE_NONE ? "+" : "");
    else
        out_printf(o, "--%s%s", flag->name, v.kind != VALUE_NONE ? "=" : "");
    out_text(o, "[");
    zsh_text(o, flag->help);
    out_text(o, "]");
    if (v.kind != VALUE_NONE)
        zsh_value(o, &v);
    out_text(o, "'\n");
}

/* Other names of a flag are understood but not offered. */
static void zsh_flag_aliases(cli_out *o, const cli_flag *flag)
{
    str rest = str_of(flag->aliases != NULL ? flag->aliases : ""), alias;
    const shell_value v = shell_flag_value(flag);
    while (shell_next_word(&rest, &alias)) {
        out_printf(o, "        '!--%.*s%s", STR_ARG(alias), v.kind != VALUE_NONE ? "=" : "");
        if (v.kind != VALUE_NONE)
            zsh_value(o, &v);
        out_text(o, "'\n");
    }
}

static void zsh_group(cli_out *o, const flag_group *group)
{
    for (size_t i = 0; i < group->n; i++) {
        if (group->flags[i].letter != 0)
            zsh_flag_name(o, &group->flags[i], true);
        zsh_flag_name(o, &group->flags[i], false);
        zsh_flag_aliases(o, &group->flags[i]);
    }
}

static void zsh_command(cli_out *o, const cli_command *command)
{
    const flag_group *group;
    shell_value v = {0};
    out_printf(o, "    %s%s%s)\n        specs=(\n", command->name,
               command->alias != NULL ? " | " : "", command->alias != NULL ? command->alias : "");
    for (size_t g = 0; (group = command_group(command, g)) != NULL; g++)
        zsh_group(o, group);
    size_t i = 0;
    for (; !v.repeats && shell_argument(command, i, &v); i++) {
        out_printf(o, v.repeats ? "        '*" : "        '%zu", i + 1);
        zsh_value(o, &v);
        out_text(o, "'\n");
    }
    if (!v.repeats && i < command->max_words)
        out_text(o, "        '*:argument: '\n");
    out_text(o, "        ) ;;\n");
}

static void zsh_commands(cli_out *o, const cli_command_table *table)
{
    out_text(o, "_mote_commands() {\n    local -a commands=(\n");
    for (size_t i = 0; i < table->n; i++) {
        out_printf(o, "        '%s:", table->rows[i]->name);
        zsh_text(o, table->rows[i]->summary);
        out_text(o, "'\n");
    }
    out_text(o, "    )\n    _describe -t commands command commands\n}\n\n");
}

void completion_zsh(cli_out *o, const cli_command_table *table)
{
    out_printf(o, "#compdef mote\n# zsh completion of mote %s, printed by: mote completion zsh\n",
               mote_version());
    out_text(o, zsh_begin);
    zsh_commands(o, table);
    out_text(o, "_mote() {\n"
                "    local curcontext=$curcontext state line\n"
                "    local -a specs\n"
                "    typeset -A opt_args\n"
                "    specs=(\n");
    zsh_group(o, command_common_group());
    out_text(
        o,
        "        '--version[print the version]'\n"
        "    )\n"
        "    _arguments -C -s -A '-*' $specs '1:command:_mote_commands' '*::argument:->arguments' "
        "&& return 0\n"
        "    [[ $state == arguments ]] || return 1\n"
        "    curcontext=${curcontext%:*:*}:mote-$words[1]:\n"
        "    case $words[1] in\n");
    for (size_t i = 0; i < table->n; i++)
        zsh_command(o, table->rows[i]);
    out_text(o, "    *) return 1 ;;\n    esac\n    _arguments -s $specs\n}\n\n");
    out_text(o, zsh_end);
}
