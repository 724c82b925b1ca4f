/* SPDX-License-Identifier: Apache-2.0 */
/* lineedit_plain.c - lineedit.h without libedit: the terminal's own line editing. */
#include "cli/term/lineedit.h"

#include "base/mem.h"
#include "cli/term/interrupt.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

struct lineedit {
    bool at_end; /* a terminal would otherwise be asked again */
};

const char *lineedit_lack(void)
{
    return "built without libedit: no history, no arrow keys (install libedit-dev and build again)";
}

lineedit *lineedit_open(void)
{
    return mem_new(1, sizeof(lineedit));
}

void lineedit_close(lineedit *l)
{
    mem_free(l);
}

/* Byte by byte, so that nothing after the line is taken from the terminal. */
line_end lineedit_read(lineedit *l, const char *prompt, input_text *text)
{
    if (l->at_end)
        return LINE_CLOSED;
    fputs(prompt, stdout);
    fflush(stdout);
    size_t before = text->n;
    for (;;) {
        char byte;
        ssize_t n = interrupt_came() ? -1 : read(STDIN_FILENO, &byte, 1);
        if (n < 0 && interrupt_came()) {
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
        if (!input_add(text, &byte, 1))
            return LINE_FAILED;
    }
}

void lineedit_remember(lineedit *l, const char *text, size_t n)
{
    (void)l, (void)text, (void)n;
}

void lineedit_set_history(lineedit *l, bool on)
{
    (void)l, (void)on;
}
