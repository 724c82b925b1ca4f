/* SPDX-License-Identifier: Apache-2.0 */
/* output_messages.c - see say.h. */
#include "cli/term/output_messages.h"

#include "cli/args/command.h"
#include "cli/term/interrupt.h"
#include "cli/term/progress.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST = 1024 };

static void print_escaped(const char *text)
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

static int fail_with(int exit_code, const char *code, const char *sentence)
{
    progress_wipe();
    fprintf(stderr, "%smote:%s ", term_code(STDERR_FILENO, TERM_RED),
            term_code(STDERR_FILENO, TERM_PLAIN));
    print_escaped(sentence);
    fprintf(stderr, " %s[", term_code(STDERR_FILENO, TERM_DIM));
    print_escaped(code); /* a server's own, perhaps */
    fprintf(stderr, "]%s\n", term_code(STDERR_FILENO, TERM_PLAIN));
    return exit_code;
}

int msg_fail(int exit_code, const char *code, const char *format, ...)
{
    char sentence[LONGEST];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return fail_with(exit_code, code, sentence);
}

int msg_usage(const char *format, ...)
{
    char sentence[LONGEST];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return fail_with(CLI_USAGE, mote_status_name(MOTE_E_ARG), sentence);
}

static int exit_code_of(mote_status status)
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

int msg_error(const mote_error *err)
{
    return fail_with(exit_code_of(err->status), mote_status_name(err->status), err->text);
}

static void remark(const char *format, va_list args)
{
    char sentence[LONGEST];
    vsnprintf(sentence, sizeof sentence, format, args);
    progress_wipe();
    fputs(term_code(STDERR_FILENO, TERM_DIM), stderr);
    print_escaped(sentence);
    fprintf(stderr, "%s\n", term_code(STDERR_FILENO, TERM_PLAIN));
}

void msg_note(const char *format, ...)
{
    if (term_quiet())
        return;
    va_list args;
    va_start(args, format);
    remark(format, args);
    va_end(args);
}

void msg_reply(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    remark(format, args);
    va_end(args);
}

void msg_detail(const char *format, ...)
{
    if (term_verbose() == 0 || term_quiet())
        return;
    va_list args;
    va_start(args, format);
    remark(format, args);
    va_end(args);
}
