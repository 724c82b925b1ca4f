/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volatile_line.c - see volatile_line.h. Known beginnings of lines, in lower case, without leading
 * blanks and punctuation. A wrong guess costs one recurrent state and changes no token.
 */
#include "chat/prompt/volatile_line.h"

#include <ctype.h>

static const char *const beginnings[] = {
    /* working directory: Claude Code, opencode, pi; Codex; Cline and Roo; Gemini CLI, Qwen Code */
    "working directory:",
    "primary working directory:",
    "current working directory",
    "current workspace directory",
    "workspace root",
    "workspace path:",
    "project root:",
    "cwd>",
    "cwd:",
    "i'm currently working in the",
    "you are working in the directory",
    /* date and time */
    "today's date",
    "today is ",
    "current date",
    "current_date>",
    "currentdate",
    "current time",
    "current_time>",
    "current datetime",
    "the current date",
    "the current time",
    "current local time",
    "it is currently ",
    "date:",
    "time:",
    "timestamp:",
    /* state of the repository at the start of a session */
    "gitstatus:",
    "git status:",
    "current branch:",
    "git branch:",
};

/* True if the line begins with the words, letters in any case. */
static bool line_begins(str line, const char *words)
{
    size_t n = 0;
    while (words[n] != '\0' && n < line.n &&
           tolower((unsigned char)line.p[n]) == (unsigned char)words[n])
        n++;
    return words[n] == '\0';
}

static bool line_is_volatile(str line)
{
    while (line.n > 0 && memchr(" \t-*#<>[(`\"", line.p[0], 11) != NULL) {
        line.p++;
        line.n--;
    }
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (line_begins(line, beginnings[i]))
            return true;
    return false;
}

size_t volatile_line_find(str text)
{
    const char *end = text.n > 0 ? memchr(text.p, '\n', text.n) : NULL;
    while (end != NULL) {
        const size_t at = (size_t)(end - text.p) + 1;
        end = memchr(text.p + at, '\n', text.n - at);
        const size_t n = end != NULL ? (size_t)(end - text.p) - at : text.n - at;
        if (line_is_volatile((str){text.p + at, n}))
            return at;
    }
    return text.n;
}
