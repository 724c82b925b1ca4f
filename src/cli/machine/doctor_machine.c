/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_machine.c - the facts of the real machine for the checks of `mote doctor`. */
#include "base/landlock.h"
#include "base/os_process.h"
#include "cli/load/find_model.h"
#include "cli/machine/doctor.h"
#include "cli/term/terminal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* The directories of mote-pull and mote-media-ffmpeg: that of this program, and ../libexec/mote. */
static void machine_find_programs(const char *out[2])
{
    static char own[DOCTOR_PATH_BYTES], installed[DOCTOR_PATH_BYTES + 32];
    os_program_path(own, sizeof own);
    char *slash = strrchr(own, '/');
    if (slash == NULL)
        return;
    *slash = '\0';
    snprintf(installed, sizeof installed, "%s/../libexec/mote", own);
    out[0] = own;
    out[1] = installed;
}

void doctor_machine_read(doctor_machine *out)
{
    *out = (doctor_machine){.root = "", .environment = (const char *const *)environ};
    cpu_read_features(&out->cpu);
    cpu_name(out->cpu_name);
    cores_read_allowed(&out->allowed);
    out->system = os_name;
    out->seccomp = os_has_seccomp();
    out->landlock = landlock_version();
    out->now = time(NULL);
    out->utf8 = term_utf8();
    out->user = (uint32_t)getuid();
    machine_find_programs(out->programs);
    find_store_env(&out->store);
}
