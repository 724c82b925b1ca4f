/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h - what the other end of stdout and stderr can show. Set once, by main. */
#ifndef MOTE_CLI_TERM_TERMINAL_H
#define MOTE_CLI_TERM_TERMINAL_H

#include "cli/args/command.h"

/* Reads the locale, the environment and the two descriptors. */
void term_init(const cli_common *common);

/* Characters in a line of `fd`: COLUMNS, else what the terminal says, else 80. */
unsigned term_columns(int fd);
bool term_utf8(void);
/* A terminal that can move the cursor and change colours. */
bool term_capable(int fd);
bool term_color(int fd);
/* A progress line may be drawn on stderr. */
bool term_progress(void);
bool term_quiet(void);
uint64_t term_verbose(void);

/* Whether what is typed appears on the terminal; keys are kept either way. May be called from
 * a signal handler. Off only where it can be switched on again. */
void term_echo(bool on);

typedef enum term_style { TERM_PLAIN, TERM_BOLD, TERM_DIM, TERM_RED } term_style;
/* The sequence that switches to a style on `fd`; "" where there is no colour. */
const char *term_code(int fd, term_style style);

#endif
