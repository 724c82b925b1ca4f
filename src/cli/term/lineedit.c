/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lineedit.c - lineedit.h with libedit, and the history file.
 *
 * libedit handles no signals. It reads characters through lineedit_getc, which blocks the signals
 * and unblocks them only inside pselect(), so a signal between the check and the wait is not lost.
 *
 * The history file is $MOTE_CACHE/history, else $XDG_CACHE_HOME/mote/history, else
 * ~/.cache/mote/history, readable by its owner only. MOTE_NOHISTORY=1 turns it off.
 */
#include "cli/term/lineedit.h"

#include "base/mem.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

enum { HISTORY_LINES = 1000, PASTE_MAX = 1 << 22 /* bytes */ };

/* ---- the history file ---- */

static bool env_get(const char *name, const char **value)
{
    *value = getenv(name);
    return *value != NULL && (*value)[0] != '\0';
}

/* NULL: out of memory. */
static char *path_join(const char *a, const char *b, const char *c)
{
    size_t n = strlen(a) + strlen(b) + strlen(c) + 1;
    char *text = mem_new(n, 1);
    if (text != NULL)
        snprintf(text, n, "%s%s%s", a, b, c);
    return text;
}

/* Creates the missing directories of a path, accessible to the owner only. */
static bool path_make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made)
            return false;
    }
    return true;
}

/* NULL: no history (MOTE_NOHISTORY), or no directory for it. Free with mem_free. */
static char *history_path(void)
{
    const char *value;
    char *path = NULL;
    if (env_get("MOTE_NOHISTORY", &value) && strcmp(value, "0") != 0)
        return NULL;
    if (env_get("MOTE_CACHE", &value))
        path = path_join(value, "/history", "");
    else if (env_get("XDG_CACHE_HOME", &value) &&
             value[0] == '/') /* the XDG specification ignores relative paths */
        path = path_join(value, "/mote/history", "");
    else if (env_get("HOME", &value))
        path = path_join(value, "/.cache", "/mote/history");
    if (path != NULL && !path_make_directories(path)) {
        mem_free(path);
        return NULL;
    }
    return path;
}

/* Creates a temporary file next to `path`, mode 0600. */
static FILE *history_create(const char *path, char **temporary)
{
    char number[32];
    snprintf(number, sizeof number, ".%ld", (long)getpid());
    *temporary = path_join(path, number, "");
    if (*temporary == NULL)
        return NULL;
    unlink(*temporary); /* left by a killed process with the same id */
    int fd = open(*temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file != NULL)
        return file;
    if (fd >= 0)
        close(fd);
    mem_free(*temporary);
    return NULL;
}

/* Closes the file and, if it is complete, renames it to `path`. Frees `temporary`. */
static void history_commit(FILE *file, char *temporary, const char *path, bool written)
{
    written = fclose(file) == 0 && written;
    if (!written || rename(temporary, path) != 0)
        unlink(temporary);
    mem_free(temporary);
}

/* ---- libedit ---- */

struct lineedit {
    EditLine *el;
    History *history;
    char *path; /* of the history file; NULL: none */
    bool keeps_history;
    const char *prompt;
    mbstate_t shift;                /* an incomplete multibyte character */
    bool had_text;                  /* the line had text when the signal came */
    lineedit_complete_fn *complete; /* NULL: none */
    void *complete_ctx;
};

static volatile sig_atomic_t resized;

static void on_resize(int signal_number)
{
    (void)signal_number;
    resized = 1;
}

const char *lineedit_missing(void)
{
    return NULL;
}

static char *lineedit_prompt(EditLine *el)
{
    lineedit *l;
    el_get(el, EL_CLIENTDATA, (void **)&l);
    return (char *)(uintptr_t)l->prompt; /* libedit only reads it */
}

/* After el_resize() libedit assumes the cursor at the left edge of an empty line. */
static void lineedit_redraw(EditLine *el)
{
    if (term_capable(STDOUT_FILENO)) {
        fputs("\r\033[J", stdout);
        fflush(stdout);
    }
    el_resize(el);
    el_set(el, EL_REFRESH);
}

/* Waits until stdin is readable. False: a signal came or pselect failed. */
static bool lineedit_wait(EditLine *el)
{
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGHUP);
    sigaddset(&blocked, SIGWINCH);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    bool ready = false;
    while (!interrupt_pending() && !ready) {
        if (resized) {
            resized = 0;
            lineedit_redraw(el);
        }
        fd_set readable;
        FD_ZERO(&readable);
        FD_SET(STDIN_FILENO, &readable);
        int n = pselect(STDIN_FILENO + 1, &readable, NULL, NULL, NULL, &before);
        if (n < 0 && errno != EINTR)
            break;
        ready = n > 0;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return ready;
}

/* Reads one character for libedit. Returns 1, 0 at the end of input, -1 on a signal or error. */
static int lineedit_getc(EditLine *el, wchar_t *out)
{
    lineedit *l;
    el_get(el, EL_CLIENTDATA, (void **)&l);
    for (;;) {
        char byte;
        if (!lineedit_wait(el)) {
            const LineInfo *line = el_line(el);
            l->had_text = line->lastchar != line->buffer;
            return -1;
        }
        ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return (int)n;
        size_t used = mbrtowc(out, &byte, 1, &l->shift);
        if (used == (size_t)-2)
            continue;
        if (used == (size_t)-1) {
            memset(&l->shift, 0, sizeof l->shift);
            *out = L'?';
        }
        return 1;
    }
}

static bool paste_ends_with(const strbuf *text, const char *end)
{
    size_t n = strlen(end);
    return text->n >= n && memcmp(text->p + text->n - n, end, n) == 0;
}

static bool paste_add(strbuf *text, wchar_t c)
{
    char bytes[MB_LEN_MAX];
    mbstate_t shift;
    memset(&shift, 0, sizeof shift);
    size_t n = wcrtomb(bytes, c, &shift);
    return n == (size_t)-1 || text_add(text, bytes, n);
}

/* Everything up to the closing mark of bracketed paste is text, even if it looks like a key. */
static bool paste_read(EditLine *el, strbuf *pasted)
{
    static const char mark[] = "\033[201~";
    while (pasted->n < PASTE_MAX) {
        wchar_t c;
        if (el_wgetc(el, &c) != 1)
            return false;
        if (!paste_add(pasted, c == L'\r' ? L'\n' : c))
            return false;
        if (paste_ends_with(pasted, mark)) {
            pasted->n -= sizeof mark - 1;
            return true;
        }
    }
    return true;
}

/* Control characters would be invisible on the line. */
static void paste_drop_controls(strbuf *text)
{
    size_t kept = 0;
    for (size_t i = 0; i < text->n; i++) {
        unsigned char c = (unsigned char)text->p[i];
        if (c == '\n' || c == '\t' || (c >= 0x20 && c != 0x7F))
            text->p[kept++] = text->p[i];
    }
    text->n = kept;
}

static unsigned char on_paste(EditLine *el, int key)
{
    (void)key;
    strbuf pasted = {0};
    bool whole = paste_read(el, &pasted);
    paste_drop_controls(&pasted);
    /* A final newline would only move the cursor. */
    while (pasted.n > 0 && pasted.p[pasted.n - 1] == '\n')
        pasted.n--;
    bool inserted =
        whole && pasted.n > 0 && text_add(&pasted, "", 1) && el_insertstr(el, pasted.p) == 0;
    strbuf_fini(&pasted);
    return inserted ? CC_REFRESH : whole ? CC_NORM : CC_EOF;
}

static unsigned char on_new_line(EditLine *el, int key)
{
    (void)key;
    return el_insertstr(el, "\n") == 0 ? CC_REFRESH : CC_ERROR;
}

/* ---- completion ---- */

enum { SHOWN_CHOICES = 100 };

/* The choices of a completion, sorted, each once. */
typedef struct choice_list {
    const char **items; /* [n], into the text */
    size_t n;
} choice_list;

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* `text` holds zero-terminated choices. False: out of memory, or none. */
static bool choices_sort(choice_list *c, const strbuf *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->n; i++)
        n += text->p[i] == '\0';
    *c = (choice_list){.items = n > 0 ? mem_new(n, sizeof *c->items) : NULL};
    if (c->items == NULL)
        return false;
    for (size_t at = 0; at < text->n; at += strlen(text->p + at) + 1)
        c->items[c->n++] = text->p + at;
    qsort(c->items, c->n, sizeof *c->items, by_text);
    size_t kept = 1;
    for (size_t i = 1; i < c->n; i++)
        if (strcmp(c->items[i], c->items[kept - 1]) != 0)
            c->items[kept++] = c->items[i];
    c->n = kept;
    return true;
}

/* Bytes that all choices share at the start, in whole characters. */
static size_t choices_common(const choice_list *c)
{
    size_t n = strlen(c->items[0]);
    for (size_t i = 1; i < c->n; i++) {
        size_t same = 0;
        while (same < n && c->items[i][same] == c->items[0][same])
            same++;
        n = same;
    }
    while (n > 0 && ((unsigned char)c->items[0][n] & 0xC0) == 0x80)
        n--;
    return n;
}

static void choices_print(const choice_list *c)
{
    fputs("\n", stdout);
    for (size_t i = 0; i < c->n && i < SHOWN_CHOICES; i++)
        printf("%s%s", i > 0 ? "  " : "", c->items[i]);
    if (c->n > SHOWN_CHOICES)
        printf("  and %zu more", c->n - SHOWN_CHOICES);
    fputs("\n", stdout);
    fflush(stdout);
}

/* Replaces the end of the line before the cursor. libedit counts characters. */
static void line_replace_tail(EditLine *el, const char *tail, size_t n_tail, const char *text)
{
    int characters = 0;
    for (size_t i = 0; i < n_tail; i++)
        characters += ((unsigned char)tail[i] & 0xC0) != 0x80;
    if (characters > 0)
        el_deletestr(el, characters);
    if (text[0] != '\0')
        el_insertstr(el, text);
}

/* Inserts what all choices share and, after a single one that is not a directory, a space. If
 * nothing can be inserted, prints the choices. */
static unsigned char line_complete(EditLine *el, const char *line, size_t n, size_t from,
                                   const choice_list *c)
{
    strbuf text = {0};
    const size_t common = choices_common(c);
    const char last = common > 0 ? c->items[0][common - 1] : '\0';
    bool made = text_add(&text, c->items[0], common);
    if (c->n == 1 && last != '/')
        made = made && text_add(&text, " ", 1);
    const bool same = text.n == n - from && memcmp(text.p, line + from, text.n) == 0;
    if (made && !same && common + (c->n == 1) >= n - from && text_add(&text, "", 1))
        line_replace_tail(el, line + from, n - from, text.p);
    else if (c->n > 1)
        choices_print(c);
    strbuf_fini(&text);
    return c->n > 1 && same ? CC_REDISPLAY : CC_REFRESH;
}

static unsigned char on_complete(EditLine *el, int key)
{
    lineedit *l;
    const LineInfo *info = el_line(el);
    const size_t n = (size_t)(info->cursor - info->buffer);
    strbuf line = {0}, choices = {0};
    choice_list list = {0};
    unsigned char result = CC_ERROR;
    size_t from = n;
    (void)key;
    el_get(el, EL_CLIENTDATA, (void **)&l);
    if (l->complete != NULL && text_add(&line, info->buffer, n) && text_add(&line, "", 1)) {
        l->complete(l->complete_ctx, line.p, n, &from, &choices);
        if (!choices.failed && choices_sort(&list, &choices))
            result = line_complete(el, line.p, n, from, &list);
    }
    mem_free(list.items);
    strbuf_fini(&line);
    strbuf_fini(&choices);
    return result;
}

static void lineedit_bind_keys(EditLine *el)
{
    el_set(el, EL_EDITOR, "emacs");
    el_set(el, EL_ADDFN, "mote-paste", "insert pasted text", on_paste);
    el_set(el, EL_ADDFN, "mote-new-line", "a new line in the same message", on_new_line);
    el_set(el, EL_ADDFN, "mote-complete", "complete a command or a file name", on_complete);
    el_set(el, EL_BIND, "^I", "mote-complete", NULL);
    el_source(el, NULL); /* the user's .editrc */
    el_set(el, EL_BIND, "\033[200~", "mote-paste", NULL);
    el_set(el, EL_BIND, "\033\r", "mote-new-line", NULL);
    el_set(el, EL_BIND, "\033\n", "mote-new-line", NULL);
    el_set(el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(el, EL_BIND, "\033[H", "ed-move-to-beg", NULL);
    el_set(el, EL_BIND, "\033[F", "ed-move-to-end", NULL);
    el_set(el, EL_BIND, "\033[3~", "ed-delete-next-char", NULL);
}

static void lineedit_open_history(lineedit *l)
{
    HistEvent event;
    history(l->history, &event, H_SETSIZE, HISTORY_LINES);
    history(l->history, &event, H_SETUNIQUE, 1);
    el_set(l->el, EL_HIST, history, l->history);
    l->keeps_history = true;
    l->path = history_path();
    if (l->path != NULL)
        history(l->history, &event, H_LOAD, l->path);
}

lineedit *lineedit_open(void)
{
    /* Terminals send UTF-8 even where no locale is set, as in most containers. */
    if (!term_utf8())
        setlocale(LC_CTYPE, "C.UTF-8");
    lineedit *l = mem_new(1, sizeof *l);
    if (l == NULL)
        return NULL;
    l->el = el_init("mote", stdin, stdout, stderr);
    l->history = history_init();
    if (l->el == NULL || l->history == NULL) {
        lineedit_close(l);
        return NULL;
    }
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_resize;
    sigaction(SIGWINCH, &action, NULL);
    el_set(l->el, EL_CLIENTDATA, l);
    el_set(l->el, EL_SIGNAL, 0);
    el_set(l->el, EL_PROMPT, lineedit_prompt);
    el_set(l->el, EL_GETCFN, lineedit_getc);
    lineedit_bind_keys(l->el);
    lineedit_open_history(l);
    return l;
}

void lineedit_close(lineedit *l)
{
    if (l == NULL)
        return;
    if (l->el != NULL)
        el_end(l->el);
    if (l->history != NULL)
        history_end(l->history);
    mem_free(l->path);
    mem_free(l);
}

/* Switches bracketed paste: newlines in pasted text must not submit the line. */
static void lineedit_bracketed_paste(bool on)
{
    if (term_capable(STDOUT_FILENO)) {
        fputs(on ? "\033[?2004h" : "\033[?2004l", stdout);
        fflush(stdout);
    }
}

line_end lineedit_read(lineedit *l, const char *prompt, strbuf *text)
{
    int n = 0;
    l->prompt = prompt;
    l->had_text = false;
    memset(&l->shift, 0, sizeof l->shift);
    resized = 0;
    el_resize(l->el); /* the size may have changed since the last line */
    lineedit_bracketed_paste(true);
    const char *line = el_gets(l->el, &n);
    lineedit_bracketed_paste(false);
    if (line == NULL && interrupt_pending()) {
        fputs("\n", stdout);
        fflush(stdout);
        return l->had_text ? LINE_CLEARED : LINE_INTERRUPTED;
    }
    if (line == NULL || n <= 0)
        return LINE_CLOSED;
    size_t bytes = (size_t)n;
    if (line[bytes - 1] == '\n')
        bytes--;
    return text_add(text, line, bytes) ? LINE_READ : LINE_FAILED;
}

/* Writes a new file and renames it, so that a killed process leaves the old history intact. */
static void lineedit_save_history(const lineedit *l)
{
    char *temporary;
    FILE *file = history_create(l->path, &temporary);
    if (file == NULL)
        return;
    HistEvent event;
    bool written = history(l->history, &event, H_SAVE_FP, file) >= 0;
    history_commit(file, temporary, l->path, written);
}

void lineedit_add_history(lineedit *l, const char *text, size_t n)
{
    strbuf entry = {0};
    if (!l->keeps_history || n == 0)
        return;
    if (text_add(&entry, text, n) && text_add(&entry, "", 1)) {
        HistEvent event;
        history(l->history, &event, H_ENTER, entry.p);
        if (l->path != NULL)
            lineedit_save_history(l);
    }
    strbuf_fini(&entry);
}

void lineedit_set_complete(lineedit *l, lineedit_complete_fn *complete, void *ctx)
{
    l->complete = complete;
    l->complete_ctx = ctx;
}

void lineedit_set_history(lineedit *l, bool on)
{
    l->keeps_history = on;
}
