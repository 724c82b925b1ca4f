/* SPDX-License-Identifier: Apache-2.0 */
/* output.c - see output.h. */
#include "cli/term/output.h"

#include "base/os.h"
#include "cli/term/terminal.h"
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
    if (o->error == 0 && !os_write_all(o->fd, o->buffer, o->n))
        o->error = errno;
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

static void out_escaped(cli_out *o, const char *text, size_t n, text_style style)
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
        out_escaped(o, text, n, TEXT_LINES);
    else
        out_write(o, text, n);
}

void out_quoted(cli_out *o, const char *text, size_t n)
{
    out_text(o, "\"");
    out_escaped(o, text, n, TEXT_QUOTED);
    out_text(o, "\"");
}

/* ---- JSON ---- */

/* DEL and above can only be inside strings, where \u means the same. Below DEL only whitespace of a
 * raw value is possible: a carriage return is escaped on a terminal. */
static bool json_must_escape(const cli_out *o, uint32_t code)
{
    if (o->terminal)
        return text_is_control(code) && code != '\n' && code != '\t';
    return code >= 0x7F && code < 0xA0;
}

static void out_json_bytes(cli_out *o, const char *p, size_t n)
{
    size_t plain = 0, at = 0;
    while (at < n) {
        uint32_t code = 0;
        const size_t length = text_char(p + at, n - at, &code);
        const bool invalid = length == 0;
        if (invalid ? !o->terminal : !json_must_escape(o, code)) {
            at += invalid ? 1 : length;
            continue;
        }
        out_write(o, p + plain, at - plain);
        if (invalid)
            out_text(o, "\xEF\xBF\xBD");
        else
            out_printf(o, "\\u%04x", (unsigned)code);
        at += invalid ? 1 : length;
        plain = at;
    }
    out_write(o, p + plain, at - plain);
}

void out_json_part(cli_out *o, strbuf *document)
{
    if (document->n < 2)
        return;
    out_json_bytes(o, document->p, document->n - 1);
    document->p[0] = document->p[document->n - 1];
    document->n = 1;
}

int out_json(cli_out *o, strbuf *document)
{
    const bool failed = document->failed;
    if (!failed) {
        out_json_bytes(o, document->p, document->n);
        out_text(o, "\n");
    }
    strbuf_fini(document);
    return failed ? msg_no_memory("a JSON document") : CLI_DONE;
}

/* ---- messages ---- */

enum { MSG_BYTES = 1024 };

static void msg_print_escaped(const char *text)
{
    for (size_t n = strlen(text); n > 0;) {
        char shown[TEXT_SHOWN_BYTES];
        size_t n_shown;
        size_t taken = text_show(text, n, TEXT_LINE, shown, &n_shown);
        fwrite(shown, 1, n_shown, stderr);
        text += taken;
        n -= taken;
    }
}

static int msg_print_error(int exit_code, const char *code, const char *sentence)
{
    progress_clear();
    fprintf(stderr, "%smote:%s ", term_code(STDERR_FILENO, TERM_RED),
            term_code(STDERR_FILENO, TERM_PLAIN));
    msg_print_escaped(sentence);
    fprintf(stderr, " %s[", term_code(STDERR_FILENO, TERM_DIM));
    msg_print_escaped(code); /* may come from a server */
    fprintf(stderr, "]%s\n", term_code(STDERR_FILENO, TERM_PLAIN));
    return exit_code;
}

int msg_fail(int exit_code, const char *code, const char *format, ...)
{
    char sentence[MSG_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return msg_print_error(exit_code, code, sentence);
}

int msg_usage(const char *format, ...)
{
    char sentence[MSG_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return msg_print_error(CLI_USAGE, mote_status_name(MOTE_E_ARG), sentence);
}

static int msg_exit_code(mote_status status)
{
    switch (status) {
    case MOTE_OK: return CLI_DONE;
    case MOTE_E_ARG: return CLI_USAGE;
    case MOTE_E_MEMORY: return CLI_NO_MEMORY;
    case MOTE_E_FORMAT: return CLI_DAMAGED;
    case MOTE_E_FULL: return CLI_NO_ROOM;
    case MOTE_E_CANCELED: return interrupt_exit_code();
    case MOTE_E_IO:
    case MOTE_E_UNSUPPORTED:
    case MOTE_E_MISMATCH: return CLI_FAILED;
    }
    return CLI_FAILED;
}

int msg_no_memory(const char *what)
{
    return msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY), "out of memory: %s", what);
}

int msg_error(const mote_error *err)
{
    return msg_print_error(msg_exit_code(err->status), mote_status_name(err->status), err->text);
}

static void msg_print_note(const char *format, va_list args)
{
    char sentence[MSG_BYTES];
    vsnprintf(sentence, sizeof sentence, format, args);
    progress_clear();
    fputs(term_code(STDERR_FILENO, TERM_DIM), stderr);
    msg_print_escaped(sentence);
    fprintf(stderr, "%s\n", term_code(STDERR_FILENO, TERM_PLAIN));
}

void msg_note(const char *format, ...)
{
    if (term_quiet())
        return;
    va_list args;
    va_start(args, format);
    msg_print_note(format, args);
    va_end(args);
}

void msg_reply(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    msg_print_note(format, args);
    va_end(args);
}

void msg_detail(const char *format, ...)
{
    if (term_verbose() == 0 || term_quiet())
        return;
    va_list args;
    va_start(args, format);
    msg_print_note(format, args);
    va_end(args);
}
