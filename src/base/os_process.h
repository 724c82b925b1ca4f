/* SPDX-License-Identifier: Apache-2.0 */
/*
 * os_process.h - threads, processes and the program file, as far as systems differ.
 *
 * os_linux.c and os_macos.c implement it.
 */
#ifndef MOTE_BASE_OS_PROCESS_H
#define MOTE_BASE_OS_PROCESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* "Linux" or "macOS" */
extern const char os_name[];

/* ---- threads ---- */

/* Sleeps while *word == seen, until os_wake. May return earlier. */
void os_wait(_Atomic uint32_t *word, uint32_t seen);
/* Wakes at least `n` threads that sleep on the word, or all. The caller has changed the word. */
void os_wake(_Atomic uint32_t *word, int n);

/* A condition for os_condition_wait. */
void os_condition_init(pthread_cond_t *condition);
/* Waits with the mutex, at most `seconds` (below 1) of the monotonic clock. May return earlier. */
void os_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, double seconds);

/* Lowers the scheduling priority of the calling thread by `nice` (0 to 19). Linux only; no effect
 * elsewhere. */
void os_thread_nice(int nice);
/* Names the calling thread, for ps and debuggers; on Linux at most 15 bytes of it. */
void os_thread_name(const char *name);

/* ---- the program file ---- */

/* The path of the running program, to find files next to it. On Linux without /proc: the path that it
 * was started with. False: unknown or longer than `room`; `out` is "". */
bool os_program_path(char *out, size_t room);
/* A path that executes the running program again. On Linux this is right even after the file was
 * replaced. False: unknown. */
bool os_program_again(char *out, size_t room);

/* ---- processes ---- */

/* Like fork, but the child's parent is that of this process, which can wait for it. macOS and
 * qemu-user have no such call: there the child's parent is this process. */
pid_t os_fork_for_parent(void);
/* Sends the signal to this process when its parent ends. */
void os_end_with_parent(int signal_number);
/* Closes all descriptors from `first` on. */
void os_close_from(int first);
/* Can system calls be filtered (seccomp)? */
bool os_has_seccomp(void);

#endif
