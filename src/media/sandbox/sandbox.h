/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.h - giving up what a decoder does not need.
 *
 * After media_sandbox_enter the process can compute, take memory up to a limit, read and write the
 * descriptors it has, and end. It cannot open, connect, start, look at or signal anything.
 */
#ifndef MOTE_MEDIA_SANDBOX_SANDBOX_H
#define MOTE_MEDIA_SANDBOX_SANDBOX_H

#include "base/err.h"

enum { SANDBOX_MEMORY_MB = 1024, SANDBOX_CPU_SECONDS = 30, SANDBOX_WALL_SECONDS = 60 };

typedef enum sandbox_state {
    SANDBOX_OFF,     /* this build or kernel has none */
    SANDBOX_PARTIAL, /* system calls are filtered; the kernel has no Landlock */
    SANDBOX_ON
} sandbox_state;

/* Cannot be undone. Limits of memory and time hold even where the state is OFF; that its time is up
 * the process hears by SIGXCPU, a second before its end, or by SIGALRM. */
sandbox_state media_sandbox_enter(void);
/* What entering would give, found out by a child of its own. */
sandbox_state media_sandbox_here(void);
/* "off", "partial", "on" */
const char *media_sandbox_name(sandbox_state state);

#endif
