/* SPDX-License-Identifier: Apache-2.0 */
/* pull_sandbox_absent.c - mote-pull on systems without Landlock and seccomp: it leaves no core file,
 * everything else is the user's. */
#include "pull/pull_int.h"

#include <sys/resource.h>

const char *pull_sandbox_enter(const pull *p)
{
    const struct rlimit none = {0, 0};
    (void)p;
    setrlimit(RLIMIT_CORE, &none); /* the token is in memory */
    return "no sandbox: this system has neither Landlock nor seccomp";
}
