/* SPDX-License-Identifier: Apache-2.0 */
/* output.c - see out.h. */
#include "cli/term/output.h"

#include "cli/term/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void out_open(cli_out *o, int fd)
{
    o->fd = fd;
    o->error = 0;
    o->terminal = isatty(fd) == 1;
    o->line_open = false;
    o->n = 0;
}

bool out_flush(cli_out *o)
{
    size_t done = 0;
    while (done < o->n && o->error == 0) {
        ssize_t n = write(o->fd, o->buffer + done, o->n - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            o->error = errno;
    }
    o->n = 0;
    return o->error == 0;
}

void out_write(cli_out *o, const void *bytes, size_t n)
{
    const char *from = bytes;
    if (n > 0)
        o->line_open = from[n - 1] != '\n';
    while (n > 0 && o->error == 0) {
        size_t part = n < OUT_BYTES - o->n ? n : OUT_BYTES - o->n;
        memcpy(o->buffer + o->n, from, part);
        o->n += part;
        from += part;
        n -= part;
        if (o->n == OUT_BYTES)
            out_flush(o);
    }
}

void out_text(cli_out *o, const char *terminated)
{
    out_write(o, terminated, strlen(terminated));
}

void out_printf(cli_out *o, const char *format, ...)
{
    char line[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    out_write(o, line, strlen(line));
}

void out_spaces(cli_out *o, size_t n)
{
    while (n-- > 0)
        out_write(o, " ", 1);
}

static void write_escaped(cli_out *o, const char *text, size_t n, text_style style)
{
    while (n > 0) {
        char shown[TEXT_SHOWN_BYTES];
        size_t n_shown;
        size_t taken = text_show(text, n, style, shown, &n_shown);
        out_write(o, shown, n_shown);
        text += taken;
        n -= taken;
    }
}

void out_shown(cli_out *o, const char *text, size_t n)
{
    if (o->terminal)
        write_escaped(o, text, n, TEXT_LINES);
    else
        out_write(o, text, n);
}

void out_quoted(cli_out *o, const char *text, size_t n)
{
    out_text(o, "\"");
    write_escaped(o, text, n, TEXT_QUOTED);
    out_text(o, "\"");
}
