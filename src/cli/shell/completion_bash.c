/* SPDX-License-Identifier: Apache-2.0 */
/*
 * completion_bash.c - the completion script of bash. It does not need the package bash-completion.
 *
 * The functions at the end of the script are the same for every table: they split the command line
 * at white space, because bash splits it at the : of model names and the = of flags as well, find
 * command, flag and argument at the cursor, and remove the part of each candidate that bash counts
 * as an earlier word. The functions before them are the table.
 */
#include "cli/shell/shell.h"

#include <string.h>

static const char bash_end[] =
    "_mote_models() {\n"
    "    \"$_mote_program\" completion --models 2>/dev/null\n"
    "}\n"
    "\n"
    "# _mote_take LINES: each line is a candidate as it is. An array of $(...) would expand * in "
    "it.\n"
    "_mote_take() {\n"
    "    local line\n"
    "    while IFS= read -r line; do\n"
    "        if [ -n \"$line\" ]; then COMPREPLY+=(\"$line\"); fi\n"
    "    done <<<\"$1\"\n"
    "}\n"
    "\n"
    "# _mote_take_models TYPED: names come from files and other programs. compgen -W would "
    "evaluate\n"
    "# them, and bash inserts them without quotes, so a name that needs quotes is not offered.\n"
    "_mote_take_models() {\n"
    "    local line\n"
    "    while IFS= read -r line; do\n"
    "        case $line in '' | *[!A-Za-z0-9._:/+@-]*) continue ;; esac\n"
    "        if [[ $line == \"$1\"* ]]; then COMPREPLY+=(\"$line\"); fi\n"
    "    done <<<\"$(_mote_models)\"\n"
    "}\n"
    "\n"
    "# _mote_offer KIND TYPED: fills COMPREPLY with the candidates of a place.\n"
    "_mote_offer() {\n"
    "    local kind=$1 typed=$2 IFS=$'\\n'\n"
    "    case $kind in\n"
    "    file) _mote_take \"$(compgen -f -- \"$typed\")\"; compopt -o filenames 2>/dev/null ;;\n"
    "    dir) _mote_take \"$(compgen -d -- \"$typed\")\"; compopt -o filenames 2>/dev/null ;;\n"
    "    model)\n"
    "        _mote_take \"$(compgen -d -- \"$typed\")\"\n"
    "        _mote_take \"$(compgen -f -X '!*.gguf' -- \"$typed\")\"\n"
    "        if [ ${#COMPREPLY[@]} -gt 0 ]; then compopt -o filenames 2>/dev/null; fi\n"
    "        _mote_take_models \"$typed\" ;;\n"
    "    command) _mote_take \"$(compgen -W \"${_mote_commands// /$IFS}\" -- \"$typed\")\" ;;\n"
    "    words:*) kind=${kind#words:}\n"
    "        _mote_take \"$(compgen -W \"${kind// /$IFS}\" -- \"$typed\")\" ;;\n"
    "    esac\n"
    "}\n"
    "\n"
    "_mote() {\n"
    "    local line=${COMP_LINE:0:COMP_POINT} current='' command='' kind value='' i\n"
    "    local _mote_program=$1 position=0 ended='' words prefix=''\n"
    "    COMPREPLY=()\n"
    "    IFS=$' \\t\\n' read -ra words <<<\"$line\"\n"
    "    if [[ $line != *[[:space:]] ]]; then\n"
    "        current=${words[${#words[@]}-1]}\n"
    "        unset \"words[${#words[@]}-1]\"\n"
    "    fi\n"
    "    # value: the kind of value that the word before the cursor needs\n"
    "    for ((i = 1; i < ${#words[@]}; i++)); do\n"
    "        if [ -n \"$value\" ]; then\n"
    "            value=''\n"
    "        elif [[ $ended || ${words[i]} != -?* ]]; then\n"
    "            if [ -z \"$command\" ]; then\n"
    "                _mote_find_command \"${words[i]}\"\n"
    "            else\n"
    "                position=$((position + 1))\n"
    "            fi\n"
    "        elif [ \"${words[i]}\" = -- ]; then\n"
    "            ended=1\n"
    "        else\n"
    "            case ${words[i]} in -m* | --model | --model=*) position=$((position + 1)) ;; "
    "esac\n"
    "            _mote_flag_value \"$command\" \"${words[i]}\"\n"
    "            value=$kind\n"
    "        fi\n"
    "    done\n"
    "    if [ -n \"$value\" ]; then\n"
    "        _mote_offer \"$value\" \"$current\"\n"
    "    elif [[ ! $ended && $current == --*=* ]]; then\n"
    "        _mote_flag_value \"$command\" \"${current%%=*}\"\n"
    "        _mote_offer \"$kind\" \"${current#*=}\"\n"
    "        prefix=${current%%=*}=\n"
    "    elif [[ ! $ended && $current == -* ]]; then\n"
    "        _mote_flags \"$command\"\n"
    "        _mote_offer \"words:$kind\" \"$current\"\n"
    "    elif [ -z \"$command\" ]; then\n"
    "        _mote_offer command \"$current\"\n"
    "    else\n"
    "        _mote_argument \"$command\" $position\n"
    "        _mote_offer \"$kind\" \"$current\"\n"
    "    fi\n"
    "    # bash replaces only what follows the last : or = that separates words\n"
    "    local cut=$current\n"
    "    while [ -n \"$cut\" ] && [[ $COMP_WORDBREAKS != *\"${cut: -1}\"* || ${cut: -1} != [:=] "
    "]]; do\n"
    "        cut=${cut%?}\n"
    "    done\n"
    "    for i in \"${!COMPREPLY[@]}\"; do\n"
    "        COMPREPLY[i]=$prefix${COMPREPLY[i]}\n"
    "        COMPREPLY[i]=${COMPREPLY[i]#\"$cut\"}\n"
    "    done\n"
    "}\n"
    "complete -F _mote mote\n";

static void bash_words(cli_out *o, str list)
{
    str word;
    for (bool first = true; shell_next_word(&list, &word); first = false) {
        out_text(o, first ? "" : " ");
        out_write(o, word.p, word.n);
    }
}

static void bash_kind(cli_out *o, const shell_value *v)
{
    out_text(o, "kind='");
    switch (v->kind) {
    case VALUE_NONE: break;
    case VALUE_ANY: out_text(o, "any"); break;
    case VALUE_FILE: out_text(o, "file"); break;
    case VALUE_DIR: out_text(o, "dir"); break;
    case VALUE_MODEL: out_text(o, "model"); break;
    case VALUE_COMMAND: out_text(o, "command"); break;
    case VALUE_WORDS:
        out_text(o, "words:");
        bash_words(o, v->words);
        break;
    }
    out_text(o, "'");
}

/* "--name -x", as completion offers them. */
static void bash_flag_names(cli_out *o, const flag_group *group)
{
    for (size_t i = 0; i < group->n; i++) {
        out_printf(o, " --%s", group->flags[i].name);
        if (group->flags[i].letter != 0)
            out_printf(o, " -%c", group->flags[i].letter);
    }
}

/* Patterns of a flag with a value, its aliases too: a switch has no entry. */
static void bash_flag_value(cli_out *o, const char *command, const cli_flag *flag)
{
    shell_value v = shell_flag_value(flag);
    if (v.kind == VALUE_NONE)
        return;
    out_printf(o, "    '%s --%s'", command, flag->name);
    if (flag->letter != 0)
        out_printf(o, " | '%s -%c'", command, flag->letter);
    str rest = str_of(flag->aliases != NULL ? flag->aliases : ""), alias;
    while (shell_next_word(&rest, &alias))
        out_printf(o, " | '%s --%.*s'", command, STR_ARG(alias));
    out_text(o, ") ");
    bash_kind(o, &v);
    out_text(o, " ;;\n");
}

static void bash_commands(cli_out *o, const cli_command_table *table)
{
    out_text(o, "_mote_commands='");
    for (size_t i = 0; i < table->n; i++)
        out_printf(o, "%s%s", i > 0 ? " " : "", table->rows[i]->name);
    out_text(o, "'\n\n# The command of a name: aliases have the flags of their command.\n"
                "_mote_find_command() {\n    case $1 in\n");
    for (size_t i = 0; i < table->n; i++)
        if (table->rows[i]->alias != NULL)
            out_printf(o, "    %s) command=%s ;;\n", table->rows[i]->alias, table->rows[i]->name);
    out_text(o, "    *) command=$1 ;;\n    esac\n}\n\n");
}

static void bash_flags(cli_out *o, const cli_command_table *table, const flag_group *common)
{
    const flag_group *group;
    out_text(o, "_mote_flags() {\n    case $1 in\n");
    for (size_t i = 0; i < table->n; i++) {
        out_printf(o, "    %s) kind='", table->rows[i]->name);
        for (size_t g = 0; (group = command_group(table->rows[i], g)) != NULL; g++)
            bash_flag_names(o, group);
        out_text(o, "' ;;\n");
    }
    out_text(o, "    *) kind='");
    bash_flag_names(o, common);
    out_text(o, " --version' ;;\n    esac\n}\n\n");
    out_text(o, "_mote_flag_value() {\n    case \"$1 $2\" in\n");
    for (size_t i = 0; i < table->n; i++)
        for (size_t g = 0; (group = command_group(table->rows[i], g)) != NULL; g++)
            for (size_t k = 0; k < group->n && group != common; k++)
                bash_flag_value(o, table->rows[i]->name, &group->flags[k]);
    out_text(o, "    *) case $2 in\n");
    for (size_t k = 0; k < common->n; k++) {
        shell_value v = shell_flag_value(&common->flags[k]);
        if (v.kind == VALUE_NONE)
            continue;
        out_printf(o, "        --%s) ", common->flags[k].name);
        bash_kind(o, &v);
        out_text(o, " ;;\n");
    }
    out_text(o, "        *) kind='' ;;\n        esac ;;\n    esac\n}\n\n");
}

static void bash_arguments(cli_out *o, const cli_command_table *table)
{
    out_text(o, "_mote_argument() {\n    case \"$1 $2\" in\n");
    for (size_t i = 0; i < table->n; i++) {
        shell_value v = {0};
        for (size_t k = 0; !v.repeats && shell_argument(table->rows[i], k, &v); k++) {
            out_printf(o, "    '%s '", table->rows[i]->name);
            out_printf(o, v.repeats ? "*) " : "%zu) ", k);
            bash_kind(o, &v);
            out_text(o, " ;;\n");
        }
    }
    out_text(o, "    *) kind='' ;;\n    esac\n}\n\n");
}

void completion_bash(cli_out *o, const cli_command_table *table)
{
    out_printf(o, "# bash completion of mote %s, printed by: mote completion bash\n",
               mote_version());
    bash_commands(o, table);
    bash_flags(o, table, command_common_group());
    bash_arguments(o, table);
    out_text(o, bash_end);
}
