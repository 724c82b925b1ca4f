/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_sandbox.h - what `mote serve` can do to the machine after it has started (`--sandbox`).
 *
 * Landlock limits files: the directories of models and key files are readable, everything else is
 * not accessible; the directories of the disk cache and of uploads can be written. It is applied
 * before threads start, because the kernel applies it to one thread and the threads that this
 * thread starts. seccomp limits system calls of all threads to a list. It
 * is applied last, when the sockets are open. Image decoders have a stricter sandbox of their own
 * (media/sandbox).
 */
#ifndef MOTE_SERVER_CORE_SERVER_SANDBOX_H
#define MOTE_SERVER_CORE_SERVER_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

typedef enum server_sandbox_mode {
    SERVER_SANDBOX_OFF,
    SERVER_SANDBOX_ON, /* as far as kernel and build allow */
    SERVER_SANDBOX_REQUIRE
} server_sandbox_mode;

typedef struct server_sandbox {
    bool seccomp;     /* system calls are limited */
    int landlock;     /* files are limited: version of Landlock; 0: not limited */
    char reason[128]; /* why one of both is missing; "": none is */
} server_sandbox;

enum { SERVER_SANDBOX_PATHS = 96 };

/* Files that the server uses after its start. A path stands for its directory, because a file can
 * be replaced by renaming. */
typedef struct server_sandbox_files {
    const char *read[SERVER_SANDBOX_PATHS];
    size_t n_read;
    const char *const *directories; /* [n_directories]: read with everything below, also later */
    size_t n_directories;
    const char *removed[SERVER_SANDBOX_PATHS]; /* at the end: UNIX sockets, the local key */
    size_t n_removed;
    /* Directories with files that are created, written, replaced and removed; NULL: none. */
    const char *written; /* of uploads and batches */
    const char *cached;  /* of the disk cache */
} server_sandbox_files;

/* Call it before the first thread is started. */
void server_sandbox_limit_files(server_sandbox *s, const server_sandbox_files *files);
/* Call it when all sockets are open. `writes`: calls that write files are allowed; Landlock limits
 * them to their directories. */
void server_sandbox_limit_calls(server_sandbox *s, bool writes);
/* Does server_sandbox_limit_calls limit calls on this system and in this build? */
bool server_sandbox_has_filter(void);

/* "on", "partial" or "off" */
const char *server_sandbox_name(const server_sandbox *s);

#endif
