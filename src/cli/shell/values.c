/* SPDX-License-Identifier: Apache-2.0 */
/* values.c - what a flag or an argument can be, from the rows of the command table. */
#include "cli/shell/shell.h"

#include <string.h>

static bool starts_with(str text, const char *prefix)
{
    return text.n >= strlen(prefix) && memcmp(text.p, prefix, strlen(prefix)) == 0;
}

/* From the name of a value in help: "FILE", "FILE|JSON", "DIR|URL", "MODEL". */
static shell_value_kind value_kind_by_name(str name)
{
    if (starts_with(name, "FILE"))
        return VALUE_FILE;
    if (starts_with(name, "DIR"))
        return VALUE_DIR;
    if (starts_with(name, "MODEL"))
        return VALUE_MODEL;
    if (starts_with(name, "COMMAND"))
        return VALUE_COMMAND;
    return VALUE_ANY;
}

shell_value shell_flag_value(const cli_flag *flag)
{
    if (flag->kind == FLAG_SWITCH || flag->kind == FLAG_TIMES)
        return (shell_value){.kind = VALUE_NONE};
    const char *words = flag_words(flag);
    if (words != NULL)
        return (shell_value){.kind = VALUE_WORDS, .words = str_of(words), .name = flag->value};
    return (shell_value){.kind = value_kind_by_name(str_of(flag->value)), .name = flag->value};
}

bool shell_argument(const cli_command *command, size_t i, shell_value *out)
{
    str rest = str_of(command->arguments != NULL ? command->arguments : ""), text;
    do
        text = str_next_word(&rest, " ");
    while (i-- > 0 && text.n > 0);
    if (text.n == 0)
        return false;
    *out = (shell_value){.name = "argument"};
    if (text.n > 3 && memcmp(text.p + text.n - 3, "...", 3) == 0) {
        text.n -= 3;
        out->repeats = true;
    }
    out->kind = value_kind_by_name(text);
    if (out->kind == VALUE_ANY) {
        out->kind = VALUE_WORDS;
        out->words = text;
    }
    return true;
}

bool shell_next_word(str *list, str *word)
{
    *word = str_next_word(list, "|");
    return word->n > 0;
}
