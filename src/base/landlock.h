/* SPDX-License-Identifier: Apache-2.0 */
/*
 * landlock.h - limits which files this process can reach, with the Landlock calls of Linux.
 *
 *     int version = landlock_version();
 *     uint64_t handled = landlock_rights(version);
 *     int ruleset = landlock_open(handled);
 *     landlock_allow(ruleset, "/etc", LANDLOCK_READ);
 *     landlock_restrict(ruleset);             // for good; the caller set no_new_privs before
 *
 * A right that the ruleset does not handle is not limited. The numbers are here because headers of
 * older systems lack them.
 */
#ifndef MOTE_BASE_LANDLOCK_H
#define MOTE_BASE_LANDLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Rights of files and directories. */
enum {
    LANDLOCK_EXECUTE = 1 << 0,
    LANDLOCK_WRITE_FILE = 1 << 1,
    LANDLOCK_READ_FILE = 1 << 2,
    LANDLOCK_READ_DIR = 1 << 3,
    LANDLOCK_REMOVE_DIR = 1 << 4,
    LANDLOCK_REMOVE_FILE = 1 << 5,
    LANDLOCK_MAKE_CHAR = 1 << 6,
    LANDLOCK_MAKE_REG = 1 << 8,
    LANDLOCK_MAKE_SOCK = 1 << 9,
    LANDLOCK_MAKE_FIFO = 1 << 10,
    LANDLOCK_MAKE_BLOCK = 1 << 11,
    LANDLOCK_TRUNCATE = 1 << 14,
    LANDLOCK_IOCTL_DEV = 1 << 15,
    LANDLOCK_WRITE_OWN = /* create, write and remove files */
    LANDLOCK_WRITE_FILE | LANDLOCK_REMOVE_FILE | LANDLOCK_MAKE_REG | LANDLOCK_TRUNCATE,
    LANDLOCK_READ = LANDLOCK_READ_FILE | LANDLOCK_READ_DIR
};

/* Version that the kernel offers; 0: none, errno says why. */
int landlock_version(void);
/* All rights that a version knows. */
uint64_t landlock_rights(int version);
/* A ruleset that denies the handled rights. Returns a descriptor, or -1 with errno. */
int landlock_open(uint64_t handled);
/* Allows the rights below a directory; of a file only reading. A path that does not exist is
 * skipped. */
void landlock_allow(int ruleset, const char *path, uint64_t rights);
/* Applies the ruleset to the calling thread and closes it. False: errno says why. */
bool landlock_restrict(int ruleset);

#endif
