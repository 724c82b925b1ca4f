/* SPDX-License-Identifier: Apache-2.0 */
/* landlock_linux.c - implements landlock.h. */
#define _GNU_SOURCE /* O_PATH */
#include "base/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CALL_CREATE = 444, CALL_ADD_RULE = 445, CALL_RESTRICT = 446 };
enum { FLAG_VERSION = 1, RULE_PATH_BENEATH = 1 };

int landlock_version(void)
{
    const long version = syscall(CALL_CREATE, NULL, 0, FLAG_VERSION);
    return version > 0 ? (int)version : 0;
}

uint64_t landlock_rights(int version)
{
    const int bits = version >= 5 ? 16 : version >= 3 ? 15 : version >= 2 ? 14 : 13;
    return ((uint64_t)1 << bits) - 1;
}

int landlock_open(uint64_t handled)
{
    return (int)syscall(CALL_CREATE, &handled, sizeof handled, 0);
}

void landlock_allow(int ruleset, const char *path, uint64_t rights)
{
    struct {
        uint64_t allowed_access;
        int32_t parent_fd;
    } __attribute__((packed)) rule = {rights, open(path, O_PATH | O_CLOEXEC)};
    struct stat st;
    if (rule.parent_fd < 0)
        return;
    if (fstat(rule.parent_fd, &st) == 0 && !S_ISDIR(st.st_mode))
        rule.allowed_access &= LANDLOCK_READ_FILE;
    syscall(CALL_ADD_RULE, ruleset, RULE_PATH_BENEATH, &rule, 0);
    close(rule.parent_fd);
}

bool landlock_restrict(int ruleset)
{
    const bool done = syscall(CALL_RESTRICT, ruleset, 0) == 0;
    const int error = errno;
    close(ruleset);
    errno = error;
    return done;
}
