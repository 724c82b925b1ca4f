/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminal.h - what stdout and stderr can show, the progress line, and signals.
 *
 * term_init() and interrupt_init() are called once by main, before threads start. All functions
 * are for the main thread, except where a comment says that a signal handler may call them.
 */
#ifndef MOTE_CLI_TERM_TERMINAL_H
#define MOTE_CLI_TERM_TERMINAL_H

#include "cli/term/output.h"

#include <mote.h>

/* ---- capabilities (terminal.c) ---- */

/* Reads the locale, the environment and the flags. */
void term_init(const cli_common *common);

/* Columns of `fd`: COLUMNS, else the size the terminal reports, else 80. */
unsigned term_columns(int fd);
bool term_utf8(void);
/* `fd` is a terminal that can move the cursor and show colors. */
bool term_capable(int fd);
bool term_color(int fd);
/* A progress line may be drawn on stderr. */
bool term_progress(void);
bool term_quiet(void);
uint64_t term_verbose(void);

/* Switches the echo of typed characters; input is kept either way. A signal handler may call it.
 * Echo is switched off only if the old settings could be read, so it can always be restored. */
void term_echo(bool on);

typedef enum term_style { TERM_PLAIN, TERM_BOLD, TERM_DIM, TERM_RED } term_style;
/* The escape sequence that selects a style on `fd`; "" without color. */
const char *term_code(int fd, term_style style);

/* ---- the progress line (terminal.c) ----
 *
 *   prefill  ██████████░░░░░░░░░░░░░░  1 824 / 3 070 tokens   412 t/s   3 s left
 *
 * One line on stderr, on a terminal only. It appears after 0.25 s, is redrawn at most ten times a
 * second and cleared at the end, so it leaves nothing in the scroll-back. */

typedef enum progress_unit { PROGRESS_BYTES, PROGRESS_TOKENS } progress_unit;

typedef struct progress {
    const char *label;
    progress_unit unit;
    uint64_t from, total; /* amounts at the start and at the end */
    double started;       /* os_now */
    double drawn;         /* time of the last draw; 0: not drawn */
} progress;

/* `from`: the amount that needs no work, such as cached tokens; rate and time left ignore it. */
void progress_begin(progress *p, const char *label, progress_unit unit, uint64_t from,
                    uint64_t total);
void progress_at(progress *p, uint64_t done);
void progress_end(progress *p);
/* Two spaces and a bar of 24 cells; `room`: PROGRESS_BAR_BYTES. */
enum { PROGRESS_BAR_BYTES = 96 };
void progress_bar(char *bar, size_t room, double share, bool utf8);
/* Shows any short line in its place. */
void progress_show(const char *line);
/* Clears the line, if one is drawn, before other output. */
void progress_clear(void);
/* Formats the line after `seconds` of work, at most `columns` wide. Parts that do not fit are
 * omitted, from the right. Terminated. The time left comes from the average rate since the start,
 * so it changes slowly. */
void progress_line(char *line, size_t room, const progress *p, uint64_t done, double seconds,
                   unsigned columns, bool utf8);

/* ---- SIGINT (Ctrl-C), SIGTERM, SIGHUP (interrupt.c) ----
 *
 * The first signal requests an orderly end: it cancels the running step, and the command sees
 * interrupt_pending(). The second signal ends the process at once. */

/* The calling thread becomes the one that handles signals: a signal delivered to another thread is
 * forwarded to it, so its blocking calls end with EINTR. A signal the parent ignores stays ignored.
 * SIGPIPE and SIGXFSZ are ignored: a write to a closed pipe, or to a file above the limit, fails instead. */
void interrupt_init(void);
bool interrupt_pending(void);
/* 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP. */
int interrupt_exit_code(void);
/* The program handled SIGINT and continues. SIGTERM and SIGHUP stay pending. */
void interrupt_clear(void);
/* A signal cancels the step of this engine. Pass NULL before the engine is freed. */
void interrupt_set_engine(mote_engine *engine);
/* A signal also calls stop(with), from the signal handler. NULL: none. */
void interrupt_set_handler(void (*stop)(void *with), void *with);

#endif
