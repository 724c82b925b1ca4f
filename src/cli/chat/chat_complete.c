/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_complete.c - Tab in the interactive chat: what may follow the text before the cursor.
 *
 * Names of commands, settings and levels come from their tables, files from the file system. Spaces
 * in file names are escaped with backslashes, unless the name begins with a quote. Names with
 * control characters are left out.
 */
#include "base/mem.h"
#include "cli/chat/conversation.h"
#include "cli/load/typed_paths.h"
#include "cli/term/text.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void complete_offer(completion_list *c, const char *name)
{
    if (strncmp(name, c->word, strlen(c->word)) != 0)
        return;
    strbuf_text(c->choices, name);
    strbuf_byte(c->choices, '\0');
}

/* ---- files ---- */

typedef bool file_filter(const char *name);

static bool file_any(const char *name)
{
    (void)name;
    return true;
}

static bool file_is_model(const char *name)
{
    const size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".gguf") == 0 && strncmp(name, "mmproj", 6) != 0;
}

static bool name_is_plain(const char *name)
{
    uint32_t code;
    for (size_t n = strlen(name), bytes; n > 0; name += bytes, n -= bytes)
        if ((bytes = text_char(name, n, &code)) == 0 || text_is_control(code))
            return false;
    return true;
}

static void put_escaped(strbuf *out, const char *text, char quote)
{
    for (; *text != '\0'; text++) {
        if (quote == '\0' ? strchr(" '\"\\", *text) != NULL : *text == quote || *text == '\\')
            strbuf_byte(out, '\\');
        strbuf_byte(out, *text);
    }
}

/* Offers the entries of a directory that begin with `begin`; `prefix` precedes them in the line. */
static void offer_entries(strbuf *choices, const char *directory, const char *prefix,
                          const char *begin, char quote, file_filter *filter)
{
    DIR *d = opendir(directory[0] != '\0' ? directory : ".");
    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        char path[4096];
        struct stat info;
        if (strncmp(e->d_name, begin, strlen(begin)) != 0 || !name_is_plain(e->d_name) ||
            (e->d_name[0] == '.' && begin[0] != '.') || strcmp(e->d_name, ".") == 0 ||
            strcmp(e->d_name, "..") == 0)
            continue;
        if ((size_t)snprintf(path, sizeof path, "%s%s", directory, e->d_name) >= sizeof path ||
            stat(path, &info) != 0)
            continue;
        const bool is_directory = S_ISDIR(info.st_mode);
        if (!is_directory && !filter(e->d_name))
            continue;
        strbuf_text(choices, prefix);
        put_escaped(choices, e->d_name, quote);
        if (is_directory)
            strbuf_byte(choices, '/');
        else if (quote != '\0')
            strbuf_byte(choices, quote);
        strbuf_byte(choices, '\0');
    }
    if (d != NULL)
        closedir(d);
}

/* The name typed so far, without quotes and backslashes, and with "~/" expanded. */
static char *typed_name(const char *typed, size_t n, char quote)
{
    const char *home =
        n > 1 && quote == '\0' && strncmp(typed, "~/", 2) == 0 ? getenv("HOME") : NULL;
    const size_t n_home = home != NULL ? strlen(home) : 0;
    char *name = mem_new(n_home + n + 1, 1);
    if (name == NULL)
        return NULL;
    if (home != NULL)
        memcpy(name, home, n_home);
    size_t out = n_home;
    for (size_t i = home != NULL ? 1 : 0; i < n; i++) {
        if (typed[i] == '\\' && quote != '\'' && i + 1 < n)
            i++;
        name[out++] = typed[i];
    }
    return name;
}

/* Completes the file name that begins at line[at]. Only its last component is replaced. */
static void complete_file(completion_list *c, size_t at, file_filter *filter)
{
    const char quote =
        at < c->n && (c->line[at] == '"' || c->line[at] == '\'') ? c->line[at] : '\0';
    at += quote != '\0';
    char *name = typed_name(c->line + at, c->n - at, quote);
    if (name == NULL)
        return;
    c->from = at;
    for (size_t i = at; i < c->n; i++)
        if (c->line[i] == '/')
            c->from = i + 1;
    char *base = strrchr(name, '/');
    base = base != NULL ? base + 1 : name;
    char *begin = mem_new(strlen(base) + 1, 1);
    if (begin != NULL) {
        memcpy(begin, base, strlen(base));
        *base = '\0';
        offer_entries(c->choices, name, "", begin, quote, filter);
    }
    mem_free(begin);
    mem_free(name);
}

/* Models next to the current one are offered with their path. */
static void complete_model(completion_list *c, size_t at, const char *current)
{
    complete_file(c, at, file_is_model);
    const char *slash = strrchr(current, '/');
    char directory[4096];
    if (slash == NULL || memchr(c->line + at, '/', c->n - at) != NULL ||
        (size_t)snprintf(directory, sizeof directory, "%.*s", (int)(slash - current) + 1,
                         current) >= sizeof directory)
        return;
    char *begin = typed_name(c->line + at, c->n - at, '\0');
    if (begin != NULL)
        offer_entries(c->choices, directory, directory, begin, '\0', file_is_model);
    mem_free(begin);
}

/* ---- the line ---- */

/* Start of the last word; blanks after a backslash or inside quotes belong to it. */
static size_t last_word(const char *line, size_t n)
{
    size_t start = 0;
    char quote = '\0';
    for (size_t i = 0; i < n; i++) {
        const bool starts = i == start;
        if (line[i] == '\\' && quote != '\'')
            i++;
        else if (quote != '\0')
            quote = line[i] == quote ? '\0' : quote;
        else if (starts && (line[i] == '"' || line[i] == '\''))
            quote = line[i];
        else if (strchr(" \t\n", line[i]) != NULL)
            start = i + 1;
    }
    return start < n ? start : n;
}

static void offer_session(void *with, const char *name)
{
    complete_offer(with, name);
}

static void complete_arguments(completion_list *c, const chat_loop *loop, slash_arguments what,
                               size_t at)
{
    const size_t word = last_word(c->line, c->n);
    char *typed = mem_new(c->n - word + 1, 1);
    if (typed == NULL)
        return;
    memcpy(typed, c->line + word, c->n - word);
    c->word = typed;
    c->from = word;
    switch (what) {
    case SLASH_NONE: break;
    case SLASH_TEXT: break;
    case SLASH_IMAGE: complete_file(c, at, typed_image_name); break;
    case SLASH_FILE: complete_file(c, at, file_any); break;
    case SLASH_MODEL: complete_model(c, at, loop->conv.model.path); break;
    case SLASH_COMMAND: chat_command_names(c); break;
    case SLASH_SESSION:
        session_each_name(offer_session, c);
        if (memchr(c->line + at, '/', c->n - at) != NULL)
            complete_file(c, at, file_any);
        break;
    case SLASH_SETTING: chat_setting_names(c); break;
    case SLASH_THINK: {
        static const char *const levels[] = {"on",  "off",    "auto", "minimal",
                                             "low", "medium", "high", "max"};
        for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
            complete_offer(c, levels[i]);
        break;
    }
    }
    mem_free(typed);
}

void chat_complete(void *ctx, const char *line, size_t n, size_t *from, strbuf *choices)
{
    const chat_loop *loop = ctx;
    completion_list c = {.line = line, .n = n, .from = n, .choices = choices, .word = ""};
    const size_t command = line[0] == '/' ? strcspn(line, " \t\n") : 0;
    if (command > 0 && command >= n && memchr(line + 1, '/', n - 1) == NULL) {
        c.from = 1;
        c.word = line + 1;
        chat_command_names(&c);
    } else if (command > 0 && memchr(line + 1, '/', command - 1) == NULL) {
        const size_t at = command + strspn(line + command, " \t\n");
        complete_arguments(&c, loop, chat_command_arguments(line + 1, command - 1), at);
    } else if (last_word(line, n) < n) { /* an image or another file in a message */
        complete_file(&c, last_word(line, n), file_any);
    }
    *from = c.from;
}
