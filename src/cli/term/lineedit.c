/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lineedit.c - lineedit.h with libedit; the only file that includes it.
 *
 * libedit never sees a signal: characters come to it through read_char, which waits with the
 * signals open and otherwise blocked, so that none is lost between a look and a wait.
 */
#include "cli/term/lineedit.h"

#include "base/mem.h"
#include "cli/term/history.h"
#include "cli/term/interrupt.h"
#include "cli/term/terminal.h"

#include <errno.h>
#include <histedit.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>
#include <wchar.h>

enum { LARGEST_PASTE = 1 << 22 };

struct lineedit {
    EditLine *el;
    History *history;
    char *path; /* of the history's file; NULL: none is kept */
    bool remembers;
    const char *prompt;
    mbstate_t shift; /* bytes of a character that is not complete */
    bool cleared;    /* at the interrupt there was something on the line */
};

static volatile sig_atomic_t resized;

static void on_resize(int signal_number)
{
    (void)signal_number;
    resized = 1;
}

const char *lineedit_lack(void)
{
    return NULL;
}

static char *prompt_of(EditLine *el)
{
    lineedit *l;
    el_get(el, EL_CLIENTDATA, (void **)&l);
    return (char *)(uintptr_t)l->prompt; /* libedit only reads it */
}

/* After a change of size libedit believes to be at the left edge of an empty line: make it so. */
static void draw_again(EditLine *el)
{
    if (term_capable(STDOUT_FILENO)) {
        fputs("\r\033[J", stdout);
        fflush(stdout);
    }
    el_resize(el);
    el_set(el, EL_REFRESH);
}

/* Waits for a byte of the terminal. False: a signal, the end or a failure came first. */
static bool wait_for_byte(EditLine *el)
{
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGHUP);
    sigaddset(&blocked, SIGWINCH);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    bool ready = false;
    while (!interrupt_came() && !ready) {
        if (resized) {
            resized = 0;
            draw_again(el);
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

/* One character for libedit: 1, or 0 at the end, or -1. */
static int read_char(EditLine *el, wchar_t *out)
{
    lineedit *l;
    el_get(el, EL_CLIENTDATA, (void **)&l);
    for (;;) {
        char byte;
        if (!wait_for_byte(el)) {
            const LineInfo *line = el_line(el);
            l->cleared = line->lastchar != line->buffer;
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

static bool ends_with(const input_text *text, const char *end)
{
    size_t n = strlen(end);
    return text->n >= n && memcmp(text->p + text->n - n, end, n) == 0;
}

static bool add_wide(input_text *text, wchar_t c)
{
    char bytes[MB_LEN_MAX];
    mbstate_t shift;
    memset(&shift, 0, sizeof shift);
    size_t n = wcrtomb(bytes, c, &shift);
    return n == (size_t)-1 || input_add(text, bytes, n);
}

/* What the terminal sends between the two marks is text, whatever keys it looks like. */
static bool collect_paste(EditLine *el, input_text *pasted)
{
    static const char mark[] = "\033[201~";
    while (pasted->n < LARGEST_PASTE) {
        wchar_t c;
        if (el_wgetc(el, &c) != 1)
            return false;
        if (!add_wide(pasted, c == L'\r' ? L'\n' : c))
            return false;
        if (ends_with(pasted, mark)) {
            pasted->n -= sizeof mark - 1;
            return true;
        }
    }
    return true;
}

/* Controls could not be seen on the line. */
static void drop_controls(input_text *text)
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
    input_text pasted = {0};
    bool whole = collect_paste(el, &pasted);
    drop_controls(&pasted);
    /* A newline at the very end would only move the cursor. */
    while (pasted.n > 0 && pasted.p[pasted.n - 1] == '\n')
        pasted.n--;
    bool inserted =
        whole && pasted.n > 0 && input_add(&pasted, "", 1) && el_insertstr(el, pasted.p) == 0;
    input_text_free(&pasted);
    return inserted ? CC_REFRESH : whole ? CC_NORM : CC_EOF;
}

static unsigned char on_new_line(EditLine *el, int key)
{
    (void)key;
    return el_insertstr(el, "\n") == 0 ? CC_REFRESH : CC_ERROR;
}

static void bind_keys(EditLine *el)
{
    el_set(el, EL_EDITOR, "emacs");
    el_set(el, EL_ADDFN, "mote-paste", "insert what was pasted", on_paste);
    el_set(el, EL_ADDFN, "mote-new-line", "a new line in the same message", on_new_line);
    el_source(el, NULL); /* the user's .editrc */
    el_set(el, EL_BIND, "\033[200~", "mote-paste", NULL);
    el_set(el, EL_BIND, "\033\r", "mote-new-line", NULL);
    el_set(el, EL_BIND, "\033\n", "mote-new-line", NULL);
    el_set(el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(el, EL_BIND, "\033[H", "ed-move-to-beg", NULL);
    el_set(el, EL_BIND, "\033[F", "ed-move-to-end", NULL);
    el_set(el, EL_BIND, "\033[3~", "ed-delete-next-char", NULL);
}

static void open_history(lineedit *l)
{
    HistEvent event;
    history(l->history, &event, H_SETSIZE, HISTORY_LINES);
    history(l->history, &event, H_SETUNIQUE, 1);
    el_set(l->el, EL_HIST, history, l->history);
    l->remembers = true;
    l->path = history_path();
    if (l->path != NULL)
        history(l->history, &event, H_LOAD, l->path);
}

lineedit *lineedit_open(void)
{
    /* Terminals send UTF-8 even where nobody has set a locale, as in most containers. */
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
    struct sigaction wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.sa_handler = on_resize;
    sigaction(SIGWINCH, &wanted, NULL);
    el_set(l->el, EL_CLIENTDATA, l);
    el_set(l->el, EL_SIGNAL, 0);
    el_set(l->el, EL_PROMPT, prompt_of);
    el_set(l->el, EL_GETCFN, read_char);
    bind_keys(l->el);
    open_history(l);
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

/* Asks the terminal to mark what is pasted, so that its newlines do not send. */
static void mark_pastes(bool on)
{
    if (term_capable(STDOUT_FILENO)) {
        fputs(on ? "\033[?2004h" : "\033[?2004l", stdout);
        fflush(stdout);
    }
}

line_end lineedit_read(lineedit *l, const char *prompt, input_text *text)
{
    int n = 0;
    l->prompt = prompt;
    l->cleared = false;
    memset(&l->shift, 0, sizeof l->shift);
    resized = 0;
    el_resize(l->el); /* the size may have changed while nobody looked */
    mark_pastes(true);
    const char *line = el_gets(l->el, &n);
    mark_pastes(false);
    if (line == NULL && interrupt_came()) {
        fputs("\n", stdout);
        fflush(stdout);
        return l->cleared ? LINE_CLEARED : LINE_INTERRUPTED;
    }
    if (line == NULL || n <= 0)
        return LINE_CLOSED;
    size_t bytes = (size_t)n;
    if (line[bytes - 1] == '\n')
        bytes--;
    return input_add(text, line, bytes) ? LINE_READ : LINE_FAILED;
}

/* Written beside the old one and renamed over it: a chat that is killed loses nothing. */
static void save_history(const lineedit *l)
{
    char *temporary;
    FILE *file = history_create(l->path, &temporary);
    if (file == NULL)
        return;
    HistEvent event;
    bool written = history(l->history, &event, H_SAVE_FP, file) >= 0;
    history_commit(file, temporary, l->path, written);
}

void lineedit_remember(lineedit *l, const char *text, size_t n)
{
    input_text entry = {0};
    if (!l->remembers || n == 0)
        return;
    if (input_add(&entry, text, n) && input_add(&entry, "", 1)) {
        HistEvent event;
        history(l->history, &event, H_ENTER, entry.p);
        if (l->path != NULL)
            save_history(l);
    }
    input_text_free(&entry);
}

void lineedit_set_history(lineedit *l, bool on)
{
    l->remembers = on;
}
