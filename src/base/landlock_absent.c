/* SPDX-License-Identifier: Apache-2.0 */
/* landlock_absent.c - implements landlock.h for systems without Landlock: files are not limited. */
#include "base/landlock.h"

#include <errno.h>

int landlock_version(void)
{
    errno = ENOSYS;
    return 0;
}

uint64_t landlock_rights(int version)
{
    (void)version;
    return 0;
}

int landlock_open(uint64_t handled)
{
    (void)handled;
    errno = ENOSYS;
    return -1;
}

void landlock_allow(int ruleset, const char *path, uint64_t rights)
{
    (void)ruleset, (void)path, (void)rights;
}

bool landlock_restrict(int ruleset)
{
    (void)ruleset;
    errno = ENOSYS;
    return false;
}
