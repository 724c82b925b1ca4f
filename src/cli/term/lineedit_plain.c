/* SPDX-License-Identifier: Apache-2.0 */
/* lineedit_plain.c - lineedit.h without libedit: line editing of the terminal driver. */
#include "base/mem.h"
#include "cli/term/lineedit.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

struct lineedit {
    bool at_end; /* end of input was read; reading again would block */
};

const char *lineedit_missing(void)
{
    return "built without libedit: no history, no arrow keys, no Tab completion (install "
           "libedit-dev and build again)";
}

lineedit *lineedit_open(void)
{
    return mem_new(1, sizeof(lineedit));
}

void lineedit_close(lineedit *l)
{
    mem_free(l);
}

/* Reads byte by byte, so that input after the line stays available. */
line_end lineedit_read(lineedit *l, const char *prompt, strbuf *text)
{
    if (l->at_end)
        return LINE_CLOSED;
    fputs(prompt, stdout);
    fflush(stdout);
    size_t before = text->n;
    for (;;) {
        char byte;
        ssize_t n = interrupt_pending() ? -1 : read(STDIN_FILENO, &byte, 1);
        if (n < 0 && interrupt_pending()) {
            fputs("\n", stdout);
            fflush(stdout);
            return text->n > before ? LINE_CLEARED : LINE_INTERRUPTED;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            l->at_end = true;
            return LINE_CLOSED;
        }
        if (byte == '\n')
            return LINE_READ;
        if (!text_add(text, &byte, 1))
            return LINE_FAILED;
    }
}

void lineedit_add_history(lineedit *l, const char *text, size_t n)
{
    (void)l, (void)text, (void)n;
}

void lineedit_set_history(lineedit *l, bool on)
{
    (void)l, (void)on;
}

void lineedit_set_complete(lineedit *l, lineedit_complete_fn *complete, void *ctx)
{
    (void)l, (void)complete, (void)ctx;
}
