/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interrupt.h - Ctrl-C, SIGTERM and SIGHUP.
 *
 * The first signal asks for an orderly end: the running step is cancelled and
 * the command sees interrupt_came(). A second one ends the process at once.
 */
#ifndef MOTE_CLI_TERM_INTERRUPT_H
#define MOTE_CLI_TERM_INTERRUPT_H

#include <mote.h>

/* Whatever thread the system gives a signal to, the one that calls this obeys it: its waiting ends,
 * and `stop` runs on it. A signal that the parent chose to ignore stays ignored; SIGPIPE becomes a
 * failed write. */
void interrupt_init(void);
bool interrupt_came(void);
/* 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP. */
int interrupt_exit_code(void);
/* Ctrl-C has been answered and the program goes on. SIGTERM stays. */
void interrupt_forget(void);
/* The engine whose step a signal cancels; NULL before it is freed. */
void interrupt_watch(mote_engine *engine);
/* What a signal does beside that: `stop(with)`, from the signal handler. NULL: nothing. */
void interrupt_call(void (*stop)(void *with), void *with);

#endif
