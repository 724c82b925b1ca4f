/* SPDX-License-Identifier: Apache-2.0 */
/* think_flag.c - see think_flag.h. */
#include "cli/load/think_flag.h"

#include "cli/args/command.h"
#include "cli/term/output_messages.h"

#include <string.h>

int think_flag_read(const char *how, mote_think *think, uint32_t *budget)
{
    if (how == NULL || how[0] == '\0' || mote_think_parse(how, strlen(how), think, budget))
        return CLI_DONE;
    return msg_usage("--think takes " THINK_FLAG_WORDS ", not '%.60s'", how);
}
