/* SPDX-License-Identifier: Apache-2.0 */
/* server_sandbox_absent.c - implements server_sandbox.h for systems without Landlock and seccomp. */
#include "server/core/server_sandbox.h"

#include <stdio.h>

void server_sandbox_limit_files(server_sandbox *s, const server_sandbox_files *files)
{
    (void)files;
    snprintf(s->reason, sizeof s->reason,
             "this system has neither Landlock nor seccomp; run mote as a user of its own");
}

void server_sandbox_limit_calls(server_sandbox *s, bool writes)
{
    (void)s, (void)writes;
}

bool server_sandbox_has_filter(void)
{
    return false;
}

const char *server_sandbox_name(const server_sandbox *s)
{
    (void)s;
    return "off";
}
