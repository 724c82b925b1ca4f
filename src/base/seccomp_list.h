/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp_list.h - limits this process to a list of system calls, with libseccomp. Linux only.
 *
 * Every other call fails with EPERM. clone3 fails with ENOSYS, because its flags are behind a
 * pointer that a filter cannot read; libc then uses clone. A name that this machine does not have is
 * skipped. The library does not contain this file: it is a library of its own that only the
 * sandboxes of programs link (CMakeLists.txt).
 */
#ifndef MOTE_BASE_SECCOMP_LIST_H
#define MOTE_BASE_SECCOMP_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A call of which one argument is limited: (argument & mask) == value. */
typedef struct seccomp_limited {
    const char *name;
    unsigned argument;
    uint64_t mask, value;
} seccomp_limited;

typedef struct seccomp_list {
    const char *const *plain; /* calls with any arguments */
    size_t n_plain;
    const seccomp_limited *limited;
    size_t n_limited;
    bool all_threads; /* not only the calling thread and those that it starts */
} seccomp_list;

/* For good; the caller set no_new_privs before. False: the kernel does not allow it. */
bool seccomp_list_enter(const seccomp_list *list);

#endif
